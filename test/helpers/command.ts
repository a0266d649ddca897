/**
 * Runs a command line of tollgate in this process, with its own terminal. A process would take half a second.
 * For signals, exit codes and stdin use `tollgate()` of gateway.ts.
 */
import { run } from '../../src/cli/cli.ts'
import type { Terminal } from '../../src/cli/terminal.ts'

/** The output and the exit code of a command. */
export interface Result {
  readonly code: number
  readonly out: string
  readonly err: string
}

/** Runs one command line in a folder. */
export async function runCommand(
  folder: string,
  args: readonly string[],
  overrides: Partial<Terminal> = {},
): Promise<Result> {
  let [out, err] = ['', '']
  const terminal: Terminal = {
    env: {},
    folder,
    out: text => {
      out += text
    },
    err: text => {
      err += text
    },
    watched: false,
    self: 'tollgate',
    ...overrides,
  }
  const code = await run(args, terminal)
  return { code, out, err }
}

/** Runs a command line that answers in JSON; throws when it does not end with 0. */
export async function runJson<Answer = unknown>(folder: string, args: readonly string[]): Promise<Answer> {
  const line = [...args, '--json']
  const { code, out, err } = await runCommand(folder, line)
  if (code !== 0) throw new Error(`tollgate ${line.join(' ')} ended with ${code}: ${err}${out}`)
  return JSON.parse(out)
}
