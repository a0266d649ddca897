/** `tollgate replay`: replays recorded traffic with a changed configuration before it is merged. */
import { readFileSync, statSync } from 'node:fs'
import { type Command, InvalidArgumentError, Option } from 'commander'
import { parseMoney, UnitError } from '../contract/quantities.ts'
import { type Gate, GateError, parseGate } from '../replay/gate.ts'
import type { ReplayOptions } from '../replay/replay.ts'
import type { UnhandledErrors } from '../simulate/unhandled.ts'
import { type AddCommand, configOf, example, existingFile, jsonOption, logFile } from './commands.ts'
import type { ReportOptions } from './replay-result.ts'
import { keepUnhandled, loadSimulated, printAll } from './simulated.ts'
import { CommandError, type ExitCode, type Terminal } from './terminal.ts'

interface Options extends ReportOptions {
  readonly balance?: bigint
  readonly balances?: string
  readonly limit?: number
}

const MAX_SHOWN = 10

export const addReplay: AddCommand = (program, { terminal, finish }) => {
  program
    .command('replay')
    .description('replay a log of exchanges through a changed configuration; show changed verdicts and costs')
    .argument('<logs...>', 'logs of the plugin usage-log, plain or gzip; - is standard input')
    .option('--against <file>', 'compare with this configuration (default: with the verdicts in the log)')
    .option('--balance <dollars>', 'initial credit of each account in dollars (default: unlimited)', dollars)
    .option('--balances <file>', 'file with initial credit: {"acme": "25.00"}, or the output of account list --json')
    .addOption(
      new Option(
        '--fail-on <what>',
        'exit code 1 on any of changed, refused, admitted, cost, skipped (unreadable lines), unknown (exchanges that cannot be compared); with limits: refused>1%,cost>$3,skipped>10',
      )
        .argParser(gates)
        .default(undefined),
    )
    .option('--limit <lines>', 'read only this many lines (default: all)', lines)
    .option('--account <account>', 'name or id of an account; read only its lines (default: all)')
    .option('--all', `list all accounts, keys and models (default: the ${MAX_SHOWN} that change most)`)
    .addOption(jsonOption())
    .addHelpText('after', HELP)
    .action((logs: string[], options: Options, command: Command) =>
      finish(() => replayLogs(terminal, logs, configOf(command), options)),
    )
}

const HELP = `
Replay sends nothing: the steps run, and providers answer as the log recorded. With --against, both configurations get
the same traffic, and only the differences are reported. Unreadable lines are listed and skipped; --fail-on skipped makes
them a failure, skipped>1% only above that share. If most exchanges cannot be compared, every --fail-on fails unless
unknown>N allows up to N of them. The limit refused also counts exchanges whose text a step needs and the log lacks. The
lines must be in the order in which usage-log wrote them.
${example(
  'replay usage.jsonl --against ../main/gateway.yaml',
  'replay usage.jsonl.2.gz usage.jsonl.1 usage.jsonl -c new.yaml --balance 25 --fail-on "refused>1%,cost>5%,skipped"',
)}`

async function replayLogs(
  terminal: Terminal,
  logs: readonly string[],
  config: string,
  options: Options,
): Promise<ExitCode> {
  // Watch before a plugin is loaded: its unhandled errors must not prevent the report.
  return keepUnhandled(terminal, async unhandled => {
    const code = await replayKept(terminal, logs, { config, options, unhandled })
    return unhandled.wereFatal ? 1 : code
  })
}

interface ReplayInput {
  readonly config: string
  readonly options: Options
  readonly unhandled: UnhandledErrors
}

async function replayKept(
  terminal: Terminal,
  logs: readonly string[],
  { config, options, unhandled }: ReplayInput,
): Promise<ExitCode> {
  const [{ replay }, { readLogs }, { parseLine }] = await Promise.all([
    import('../replay/replay.ts'),
    import('../replay/read.ts'),
    import('../replay/line.ts'),
  ])
  const { against = null, limit = Number.POSITIVE_INFINITY, account = null } = options
  const files = logs.map(file => logFile(terminal, file))
  const loaded = await loadSimulated(terminal, config, 'is not replayed')
  const other = against === null ? null : await loadSimulated(terminal, against, 'is not replayed')
  if (loaded === null || (against !== null && other === null)) return 1
  const balances = balancesOf(terminal, options)
  const { reportResult } = await import('./replay-result.ts')
  const shown = speedLine(terminal, files)
  let code: ExitCode = 1
  try {
    await replay(readLogs(files, { parse: parseLine, input: process.stdin, read: shown.read }), {
      ...balances,
      configuration: loaded.configuration,
      against: other?.configuration ?? null,
      limit,
      account,
      progress: shown.show,
      async found(result) {
        shown.end()
        code = await reportResult(terminal, result, { ...options, unhandled })
      },
      held: sentence => printAll(terminal, [sentence]),
    })
  } finally {
    shown.end()
  }
  return code
}

/** An account's balance: by id or name from the file, else --balance, else unlimited. */
function balancesOf(
  terminal: Terminal,
  { balance, balances }: Options,
): Pick<ReplayOptions, 'balanceOf' | 'hasBalances' | 'balancesFor'> {
  const known = balances === undefined ? null : readBalances(existingFile(terminal, balances))
  return {
    balanceOf: ({ id, name }) => known?.get(id) ?? known?.get(name) ?? balance ?? null,
    hasBalances: balance !== undefined || known !== null,
    balancesFor: known && [...known.keys()],
  }
}

function readBalances(file: string): Map<string, bigint> {
  const wrong = (what: string) =>
    new CommandError(`${file}: ${what}. Write {"acme": "25.00"}, names or ids with dollars.`)
  let read: unknown
  try {
    read = JSON.parse(readFileSync(file, 'utf8'))
  } catch (error) {
    if (error instanceof SyntaxError) throw wrong(`it is not JSON: ${error.message}`)
    throw error
  }
  if (typeof read !== 'object' || read === null || Array.isArray(read)) throw wrong('it is not a JSON object')
  const { accounts } = read as { accounts?: unknown }
  const entries: [string, unknown][] = Array.isArray(accounts)
    ? accounts.map((each: { id?: unknown; available?: unknown } | null) => [String(each?.id), each?.available])
    : Object.entries(read)
  return new Map(
    entries.map(([account, amount]) => {
      try {
        return [account, parseMoney(String(amount))]
      } catch (error) {
        if (error instanceof UnitError) throw wrong(`the balance of ${JSON.stringify(account)}: ${error.message}`)
        throw error
      }
    }),
  )
}

/** Progress and speed, at most once a second. */
function speedLine(terminal: Terminal, files: readonly string[]) {
  if (!terminal.watched) return { read() {}, show() {}, end() {} }
  const sizes = files.map(file => (file === '-' ? Number.NaN : (statSync(file, { throwIfNoEntry: false })?.size ?? 0)))
  const total = sizes.reduce((sum, size) => sum + size, 0)
  const startedAt = performance.now()
  let shownAt = Number.NEGATIVE_INFINITY
  let bytes = 0
  return {
    read(more: number) {
      bytes += more
    },
    show(done: number) {
      const now = performance.now()
      if (now - shownAt < 1000) return
      shownAt = now
      const seconds = Math.max(0.001, (now - startedAt) / 1000)
      const rate = Math.round(done / seconds)
      const left = bytes > 0 && total > 0 ? Math.max(0, Math.round((seconds * (total - bytes)) / bytes)) : Number.NaN
      const rest = Number.isNaN(left) ? '' : ` (${Math.floor((bytes * 100) / total)} %, ${left} s left)`
      terminal.err(`\rreplaying: ${done} lines, ${rate} a second${rest}\x1b[K`)
    },
    end() {
      if (shownAt !== Number.NEGATIVE_INFINITY) terminal.err('\r\x1b[K')
      shownAt = Number.NEGATIVE_INFINITY
    },
  }
}

function dollars(text: string): bigint {
  try {
    return parseMoney(text)
  } catch (error) {
    if (error instanceof UnitError) throw new InvalidArgumentError(`${error.message}.`)
    throw error
  }
}

function lines(text: string): number {
  if (!/^[1-9]\d{0,14}$/.test(text)) throw new InvalidArgumentError('It must be a number of lines, 1 or more.')
  return Number(text)
}

/** Gates separated by commas, or the option several times. */
function gates(text: string, before: readonly Gate[] = []): readonly Gate[] {
  try {
    return [...before, ...text.split(',').map(parseGate)]
  } catch (error) {
    if (error instanceof GateError) throw new InvalidArgumentError(error.message)
    throw error
  }
}
