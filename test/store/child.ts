/** Real child processes that a test starts and kills. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { onTestFinished } from 'vitest'

export interface Child {
  readonly pid: number
  /** Complete lines of its output so far. */
  readonly lines: readonly string[]
  /** Resolves when there are `count` lines; rejects if the process ends before that. */
  untilLines(count: number): Promise<void>
  /** Resolves with the exit code when the process ends by itself. */
  ended(): Promise<number | null>
  /** kill -9; resolves when the process has ended and all of its output was read. */
  kill(): Promise<void>
}

/** Runs a script of this folder with the same Node.js. The end of the test kills the process. */
export function startChild(script: string, ...args: string[]): Child {
  const child = spawn(process.execPath, [new URL(script, import.meta.url).pathname, ...args], {
    stdio: ['pipe', 'pipe', 'inherit'],
  })
  const lines: string[] = []
  const reader = createInterface(child.stdout)
  let onLine = (): void => {}
  reader.on('line', line => {
    lines.push(line)
    onLine()
  })
  const closed = once(child, 'close')
  onTestFinished(() => void child.kill('SIGKILL'))
  return {
    pid: child.pid!,
    lines,
    untilLines: count =>
      new Promise((resolve, reject) => {
        onLine = () => {
          if (lines.length >= count) resolve()
        }
        onLine()
        closed.then(([code]) => reject(new Error(`${script} ended with ${code} after ${lines.length} lines`)))
      }),
    ended: async () => (await closed)[0],
    async kill() {
      child.kill('SIGKILL')
      await closed
    },
  }
}
