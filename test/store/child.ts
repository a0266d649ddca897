/** Real child processes that a test starts and kills. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { onTestFinished } from 'vitest'

export interface Child {
  readonly pid: number
  /** What it said so far, whole lines only. */
  readonly lines: readonly string[]
  /** Resolves when it has said so many lines; rejects when it ends before. */
  said(count: number): Promise<void>
  /** The exit code, when it has ended by itself. */
  ended(): Promise<number | null>
  /** kill -9; resolves when the process is gone and everything it said has been read. */
  kill(): Promise<void>
}

/** Runs a script beside this file with this very Node; gone after the test in any case. */
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
  const gone = once(child, 'close')
  onTestFinished(() => void child.kill('SIGKILL'))
  return {
    pid: child.pid!,
    lines,
    said: count =>
      new Promise((resolve, reject) => {
        onLine = () => {
          if (lines.length >= count) resolve()
        }
        onLine()
        gone.then(([code]) => reject(new Error(`${script} ended with ${code} after ${lines.length} lines`)))
      }),
    ended: async () => (await gone)[0],
    async kill() {
      child.kill('SIGKILL')
      await gone
    },
  }
}
