/** One command by itself, as the program would run it: for the tests of a command's own file. */
import { Command, CommanderError } from 'commander'
import { type AddCommand, configOption } from '../../src/cli/commands.ts'
import type { Terminal } from '../../src/cli/terminal.ts'
import type { Result } from './helpers.ts'

/** Runs a command line in a folder. */
export type Commanded = (...args: readonly string[]) => Promise<Result>

export function commanded(folder: string, add: AddCommand, env: Terminal['env'] = {}): Commanded {
  return async (...args) => {
    let [out, err, code] = ['', '', 0]
    const terminal: Terminal = {
      env,
      folder,
      out: text => {
        out += text
      },
      err: text => {
        err += text
      },
      watched: false,
      self: 'tollgate',
    }
    const program = new Command('tollgate')
      .addOption(configOption(terminal))
      .configureOutput({ writeOut: terminal.out, writeErr: terminal.err })
      .exitOverride()
    add(program, {
      terminal,
      finish: async work => {
        code = await work()
      },
    })
    try {
      await program.parseAsync([...args], { from: 'user' })
    } catch (error) {
      if (error instanceof CommanderError) return { code: 2, out, err }
      if ((error as Error).name !== 'CommandError') throw error
      return { code: 1, out, err: `error: ${(error as Error).message}\n` }
    }
    return { code, out, err }
  }
}
