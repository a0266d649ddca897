/** Runs one command of a file in src/cli, with a terminal for tests. */
import { Command } from 'commander'
import type { AddCommand } from '../../src/cli/commands.ts'
import { configOption } from '../../src/cli/commands.ts'
import type { Terminal } from '../../src/cli/terminal.ts'

export interface Ended {
  readonly code: number
  readonly out: string
}

/** Rejects as the command does. */
export async function runCommand(add: AddCommand, folder: string, args: readonly string[]): Promise<Ended> {
  let [out, code] = ['', 0]
  const terminal: Terminal = {
    env: {},
    folder,
    out: text => {
      out += text
    },
    err() {},
    watched: false,
    self: 'tollgate',
  }
  const program = new Command('tollgate').addOption(configOption(terminal)).exitOverride()
  add(program, {
    terminal,
    finish: async work => {
      code = await work()
    },
  })
  await program.parseAsync([...args], { from: 'user' })
  return { code, out }
}
