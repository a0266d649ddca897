/** The command line: registers the commands, and converts results and errors to exit codes and messages. */
import { readFileSync } from 'node:fs'
import { basename, dirname, relative } from 'node:path'
import { Command, CommanderError } from 'commander'
import { visible } from '#contract'
import { nearest } from '../config/yaml/problem.ts'
import { addAccount } from './account.ts'
import { addAlerts } from './alerts.ts'
import { addBackup } from './backup.ts'
import { addBuild } from './build.ts'
import { addCheck } from './check.ts'
import { type CommandContext, configOption, example } from './commands.ts'
import { addDemo } from './demo.ts'
import { addExplain } from './explain.ts'
import { addExposure } from './exposure.ts'
import { addImport } from './import.ts'
import { addInit } from './init.ts'
import { addKey } from './key.ts'
import { addLedger } from './ledger.ts'
import { addPerson } from './person.ts'
import { addPlugin } from './plugin.ts'
import { addPrices } from './prices.ts'
import { addReplay } from './replay.ts'
import { addRestore } from './restore.ts'
import { addSchema } from './schema.ts'
import { addServe } from './serve.ts'
import { addStore } from './store.ts'
import { CommandError, type Terminal } from './terminal.ts'
import { addTest } from './test.ts'
import { addToken } from './token.ts'

const EXIT_CODES = `
Exit codes:
  0  success
  1  the command failed, or it found a problem that it checks for
  2  the command line is wrong
`

const COMMANDS = [
  addInit,
  addServe,
  addCheck,
  addTest,
  addSchema,
  addExplain,
  addExposure,
  addPrices,
  addReplay,
  addAccount,
  addKey,
  addPerson,
  addToken,
  addLedger,
  addAlerts,
  addBackup,
  addRestore,
  addStore,
  addImport,
  addPlugin,
  addBuild,
  addDemo,
]

/** Runs the process's own command line and ends the process. */
export async function main(): Promise<void> {
  // A closed pipe (`| head`, or a crashed log collector) must not end a running gateway. The output is lost.
  for (const stream of [process.stdout, process.stderr]) stream.on('error', () => {})
  const code = await run(process.argv.slice(2), {
    env: process.env,
    folder: process.cwd(),
    out: text => process.stdout.write(text),
    err: text => process.stderr.write(text),
    watched: process.stderr.isTTY === true,
    ...(process.stdin.isTTY && process.stdout.isTTY ? { ask } : {}),
    self: ownCommandLine(process.argv[1] ?? 'tollgate') + chosenConfiguration(process.argv.slice(2)),
  })
  // Exit only after the output is flushed into the pipe. If a command has set `process.exitCode` to report a failure, keep that
  // code.
  process.stdout.write('', () => process.stderr.write('', () => process.exit(code || (process.exitCode ?? 0))))
}

/** Reads a line from the terminal. */
async function ask(question: string): Promise<string> {
  const { createInterface } = await import('node:readline/promises')
  const lines = createInterface({ input: process.stdin, output: process.stdout })
  // After Ctrl-C or Ctrl-D, the promise of `question` never settles.
  const closed = new Promise<never>((_, reject) => {
    lines.once('close', () => {
      process.stdout.write('\n')
      reject(new CommandError('no answer was given, so nothing was done'))
    })
  })
  try {
    return await Promise.race([lines.question(question), closed])
  } finally {
    lines.close()
  }
}

/**
 * Runs one command line and returns its exit code: 0 for success, 1 for a failure or problems found, 2 for a wrong
 * command line.
 */
export async function run(args: readonly string[], terminal: Terminal): Promise<number> {
  let code = 0
  const context: CommandContext = {
    terminal,
    finish: async work => {
      code = await work()
    },
  }
  try {
    await buildProgram(context, args).parseAsync([...args], { from: 'user' })
    return code
  } catch (error) {
    if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : 2
    terminal.err(errorText(error, terminal))
    return 1
  }
}

/**
 * The program with all its commands.
 *
 * @param args the command line that it will parse
 */
export function buildProgram(context: CommandContext, args: readonly string[] = []): Command {
  const { terminal } = context
  const program = new Command('tollgate')
    .description('A gateway in front of large language models: policies in YAML, exact prepaid credit.')
    .version(ownVersion(), '-v, --version', 'print the version')
    .addOption(configOption(terminal))
    .helpOption('-h, --help', 'show help')
    .helpCommand('help [command]', 'show the help of a command')
    .configureHelp({ showGlobalOptions: true })
    .configureOutput({
      writeOut: terminal.out,
      writeErr: terminal.err,
      outputError: (text, write) => write(text + misspeltOption(text, args)),
    })
    .exitOverride()
    .addHelpText('after', example('serve', 'check', 'account create acme --credit 10', 'key create --account acme'))
  for (const add of COMMANDS) add(program, context)
  completeHelp(program, terminal.self)
  return program
}

/** Commander checks for missing options first, so for a misspelt option it reports only that the right one is missing. */
function misspeltOption(error: string, args: readonly string[]): string {
  const missing = /^error: required option '(?:-\w, )?(--[\w-]+)/.exec(error)?.[1]
  if (missing === undefined) return ''
  const written = args.map(arg => arg.split('=')[0]!).find(arg => nearest(arg, [missing]) !== undefined)
  return written === undefined ? '' : `(Did you mean ${missing} instead of ${written}?)\n`
}

/** Adds the exit codes to every help text, and after a wrong command line a hint to the command's help. */
function completeHelp(command: Command, self: string): void {
  command.showHelpAfterError(`(see: ${self} --help)`).addHelpText('after', EXIT_CODES)
  for (const inner of command.commands) completeHelp(inner, `${self} ${inner.name()}`)
}

/** Errors with a message for people. Listed by name, because importing their classes would slow down --help. */
const EXPECTED = new Set([
  'CommandError',
  'ControlError',
  'NoGateway',
  'PlanError',
  'Refusal',
  'StoreError',
  'StoreUnavailable',
  'VerbError',
])

/** Other errors come from the system (a file, a port) or are bugs, whose stack TOLLGATE_DEBUG shows. */
function errorText(error: unknown, terminal: Terminal): string {
  if (!(error instanceof Error)) return `error: ${String(error)}\n`
  if (terminal.env['TOLLGATE_DEBUG']) return `error: ${error.stack}\n`
  // Keep the line breaks of the message.
  const message = error.message.split('\n').map(visible).join('\n')
  if (EXPECTED.has(error.name) || 'syscall' in error) return `error: ${message.trimEnd()}\n`
  return `error: unexpected failure: ${message} (TOLLGATE_DEBUG=1 shows the stack)\n`
}

function ownVersion(): string {
  const file = new URL('../../package.json', import.meta.url)
  return (JSON.parse(readFileSync(file, 'utf8')) as { version: string }).version
}

/** The command for this program in the current folder, for hints that people can paste. */
function ownCommandLine(script: string): string {
  if (basename(script) !== 'tollgate.js') return script.includes('/node_modules/.bin/') ? 'npx tollgate' : 'tollgate'
  // In a checkout, npx finds its command.
  const inside = !relative(dirname(dirname(dirname(script))), process.cwd()).startsWith('..')
  return inside ? 'npx tollgate' : `node ${script}`
}

/** The option ` -c FILE` if it was given, so that a pasted hint uses the same store. */
export function chosenConfiguration(args: readonly string[]): string {
  const at = args.findIndex(arg => arg === '-c' || arg === '--config')
  const file = at >= 0 ? args[at + 1] : args.find(arg => arg.startsWith('--config='))?.slice('--config='.length)
  if (!file) return ''
  return ` -c ${/^[\w./@%+=:,~-]+$/.test(file) ? file : `'${file.replaceAll("'", "'\\''")}'`}`
}
