/**
 * One shell for many commands, as in a terminal: variables, functions and folders of a command stay for the next one.
 *
 * @example
 * const shell = openShell({ folder, env: { PATH: process.env['PATH']! } })
 * expect(await shell.run('echo one')).toBe('one\n')
 * shell.close()
 */
import { type ChildProcess, spawn } from 'node:child_process'

export interface Shell {
  /** Runs lines as if they were pasted. Returns their output, stdout and stderr. Rejects if one of them fails. */
  run(lines: string): Promise<string>
  /** Ends the shell with its running commands. */
  close(): void
}

/** Marks the end of the output of a command; no command prints it by chance. */
const MARK = '\u0001done\u0001'

const open = new Set<ChildProcess>()

export function openShell({ folder, env }: { folder: string; env: Readonly<Record<string, string>> }): Shell {
  // In a group of its own, so that it ends with all that it started.
  const child = spawn('sh', ['-e'], { cwd: folder, env: { ...env }, stdio: ['pipe', 'pipe', 'pipe'], detached: true })
  open.add(child)
  let output = ''
  let look = () => {}
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding('utf8').on('data', (text: string) => {
      output += text
      look()
    })
  }
  let isOver = false
  child.on('close', () => {
    isOver = true
    open.delete(child)
    look()
  })
  child.stdin.on('error', () => {})
  return {
    run(lines) {
      return new Promise((resolve, reject) => {
        look = () => {
          const end = output.indexOf(MARK)
          if (end >= 0) {
            const printed = output.slice(0, end)
            output = output.slice(end + MARK.length)
            resolve(printed)
          } else if (isOver) reject(new Error(`this failed:\n${lines}\nafter it had printed:\n${output}`))
        }
        child.stdin.write(`{\n${lines}\n} 2>&1\nprintf '${MARK}'\n`)
        look()
      })
    },
    close: () => end(child),
  }
}

function end(child: ChildProcess): void {
  if (!open.has(child) || child.pid === undefined) return
  try {
    process.kill(-child.pid, 'SIGKILL')
  } catch {
    // It has already ended.
  }
}

process.on('exit', () => {
  for (const child of open) end(child)
})
