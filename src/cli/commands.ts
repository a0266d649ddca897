/** Helpers of the command files: registration, shared options and files. */
import { statSync, writeFileSync } from 'node:fs'
import { dirname, resolve } from 'node:path'
import { type Command, Option } from 'commander'
import { makeFolder } from '../store/files/files.ts'
import { CommandError, type ExitCode, type Terminal } from './terminal.ts'

export interface CommandContext {
  readonly terminal: Terminal
  /** Runs the work of a command and keeps its exit code. */
  finish(work: () => Promise<ExitCode>): Promise<void>
}

/** Adds a command to the program. All command files load at each start, so a command imports its other code when it runs. */
export type AddCommand = (program: Command, context: CommandContext) => void

export function configOption(terminal: Terminal): Option {
  const standard = terminal.env['TOLLGATE_CONFIG'] || './gateway.yaml'
  return new Option('-c, --config <file>', 'path of the configuration (or set TOLLGATE_CONFIG)').default(standard)
}

export function jsonOption(): Option {
  return new Option('--json', 'print JSON, with money as strings with 9 decimals')
}

/** The configuration file of the command line, or else of TOLLGATE_CONFIG. */
export function configOf(command: Command): string {
  return command.optsWithGlobals<{ config: string }>().config
}

/** Marks a command that reads no configuration: --config is an error and not in its help. */
export function withoutConfig(command: Command): Command {
  return command.configureHelp({ showGlobalOptions: false }).hook('preAction', () => {
    const [names, top] = pathTo(command)
    if (top.getOptionValueSource('config') !== 'cli') return
    command.error(`error: ${names.join(' ')} reads no configuration: remove -c, --config`)
  })
}

/** The names of a command and its parents, outermost first, and the program. */
function pathTo(command: Command): [names: readonly string[], program: Command] {
  if (command.parent === null) return [[], command]
  const [names, program] = pathTo(command.parent)
  return [[...names, command.name()], program]
}

/** Resolves a path of the command line against the terminal's folder. */
export function pathOf(terminal: Terminal, file: string): string {
  return resolve(terminal.folder, file)
}

/** The absolute path of an existing file; throws a `CommandError` if it does not exist. */
export function existingFile(terminal: Terminal, file: string): string {
  const path = pathOf(terminal, file)
  const found = statSync(path, { throwIfNoEntry: false })
  if (found?.isFile()) return path
  throw new CommandError(`${file} cannot be read: ${found ? 'it is not a regular file' : 'the file does not exist'}.`)
}

/** Writes a new file and creates its folder; throws a `CommandError` if that fails or the file exists. */
export function writeNew(file: string, text: string): void {
  try {
    makeFolder(dirname(file))
  } catch (error) {
    throw new CommandError(`The folder ${dirname(file)} cannot be created: ${(error as NodeJS.ErrnoException).code}`)
  }
  try {
    writeFileSync(file, text, { flag: 'wx' })
  } catch (error) {
    throw new CommandError(`${file} cannot be written: ${(error as NodeJS.ErrnoException).code}`)
  }
}

/** The path of a log, or `-` for standard input. Named pipes are not allowed. */
export function logFile(terminal: Terminal, file: string): string {
  return file === '-' ? file : existingFile(terminal, file)
}

/** The example at the end of a command's help. */
export function example(...lines: readonly string[]): string {
  return `\n${lines.length === 1 ? 'Example' : 'Examples'}:\n${lines.map(line => `  $ tollgate ${line}`).join('\n')}\n`
}
