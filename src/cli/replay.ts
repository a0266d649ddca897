/** `tollgate replay`: yesterday's traffic against a changed configuration, before it is merged. */
import { readFileSync, statSync } from 'node:fs'
import { type Command, InvalidArgumentError, Option } from 'commander'
import { parseMoney, UnitError } from '../contract/units.ts'
import { type Gate, GateError, parseGate } from '../replay/gate.ts'
import type { BalanceOf } from '../replay/ledger.ts'
import type { ReplayResult } from '../replay/replay.ts'
import { type AddCommand, configOf, example, existingFile, jsonOption, logFile, pathOf } from './commands.ts'
import { problemText, shownPath } from './configuration.ts'
import { json } from './format.ts'
import { CommandError, type ExitCode, type Terminal } from './terminal.ts'

interface Options {
  readonly against?: string
  readonly balance?: bigint
  readonly balances?: string
  readonly failOn?: readonly Gate[]
  readonly limit?: number
  readonly account?: string
  readonly all?: true
  readonly json?: true
}

const MOST_SHOWN = 10

export const addReplay: AddCommand = (program, { terminal, finish }) => {
  program
    .command('replay')
    .description('run recorded traffic through a changed configuration: which verdicts change, for whom, and the cost')
    .argument('<logs...>', 'files that the plugin usage-log has written, also packed by gzip; - is standard input')
    .option('--against <file>', 'the configuration to compare with (better than the log: what it lacks both lack)')
    .option('--balance <dollars>', 'what each account begins with; without it every account has enough', dollars)
    .option('--balances <file>', 'JSON: {"acme": "25.00"}, or what account list --json prints')
    .addOption(
      new Option(
        '--fail-on <what>',
        'exit code 1 on changed, refused, admitted, cost, and skipped: lines that cannot be read; with a limit: refused>1%,cost>$3,skipped>10',
      )
        .argParser(gates)
        .default(undefined),
    )
    .option('--limit <lines>', 'only the first lines', lines)
    .option('--account <account>', 'only the lines of one account, by name or id')
    .option('--all', `all accounts, keys and models, not only the ${MOST_SHOWN} that change most`)
    .addOption(jsonOption())
    .addHelpText('after', HELP)
    .action((logs: string[], options: Options, command: Command) =>
      finish(() => replayLogs(terminal, logs, configOf(command), options)),
    )
}

const HELP = `
Nothing is sent anywhere: the steps are the real ones, providers answer as they have answered. With --against both
configurations see the same traffic, and only what they do differently is told. Lines that cannot be read are named and
left out; --fail-on skipped makes them a failure, skipped>1% only so many. Lines stand in the order in which exchanges
ended, as usage-log writes them.
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
  const [{ replay }, { readLogs }, { parseLine }, { reportJson }, { replayText, skippedText }] = await Promise.all([
    import('../replay/replay.ts'),
    import('../replay/read.ts'),
    import('../replay/line.ts'),
    import('../replay/report.ts'),
    import('./replay-text.ts'),
  ])
  const { against = null, failOn = [], limit = Number.POSITIVE_INFINITY, account = null } = options
  const files = logs.map(file => logFile(terminal, file))
  const configuration = await load(terminal, config)
  const other = against === null ? null : await load(terminal, against)
  if (configuration === null || (against !== null && other === null)) return 1
  const balanceOf = balancesOf(terminal, options)
  const shown = speedLine(terminal, files)
  let result: ReplayResult
  try {
    const batches = readLogs(files, { parse: parseLine, input: process.stdin, read: shown.read })
    const hasBalances = options.balance !== undefined || options.balances !== undefined
    const parts = { configuration, against: other, balanceOf, hasBalances, limit, account }
    result = await replay(batches, { ...parts, progress: shown.show })
  } finally {
    shown.end()
  }
  const most = options.all ? Number.POSITIVE_INFINITY : MOST_SHOWN
  const { exceeds } = await import('../replay/gate.ts')
  const nothing = result.taken > 0 ? null : await whyNothing(result, account)
  const gates = failOn.map(gate => exceeds(gate, result))
  const failed = [nothing, ...gates].filter(reason => reason !== null)
  if (options.json) terminal.out(json({ ok: failed.length === 0, ...reportJson(result, { most }), failed }))
  else {
    const shown = withShownPaths(terminal, result)
    const told = against === null ? 'what the log says' : shownPath(terminal, against)
    // A table of nothing would look like a good answer.
    if (nothing !== null) terminal.err(skippedText(shown))
    else terminal.out(replayText(shown, { against: told, most }))
    for (const reason of failed) if (reason !== nothing) terminal.err(`${reason}\n`)
  }
  if (nothing !== null) throw new CommandError(nothing)
  return failed.length === 0 ? 0 : 1
}

const MOST_ACCOUNTS_SAID = 5

/** Why no line was taken: mostly an account that is mistyped. */
async function whyNothing({ passedBy, otherAccounts }: ReplayResult, account: string | null): Promise<string> {
  if (account === null || passedBy === 0) return 'there is no line to replay'
  const { didYouMean } = await import('../config/problem.ts')
  const names = [...new Set(otherAccounts.values())]
  const near = didYouMean(account, [...names, ...otherAccounts.keys()])
  const said = names.slice(0, MOST_ACCOUNTS_SAID).map(name => JSON.stringify(name))
  const there = said.length > 0 ? `it has ${said.join(', ')}` : 'its lines are of nobody'
  const more = names.length > said.length ? ` and ${names.length - said.length} more` : ''
  return `no line of the log is of an account ${JSON.stringify(account)}; ${near ?? there + more}`
}

/** Null when it has problems, which are told. Providers are not asked: their secrets need not be here. */
async function load(terminal: Terminal, config: string) {
  const [{ loadConfiguration }, { builtinRegistry }, { standIns }] = await Promise.all([
    import('../config/load.ts'),
    import('../pipeline/builtin.ts'),
    import('../testing/policy/stand-ins.ts'),
  ])
  const { environmentOf } = await import('./configuration.ts')
  const env = standIns(environmentOf(terminal, config))
  const loaded = await loadConfiguration(pathOf(terminal, config), { env, registry: builtinRegistry() })
  if (!('problems' in loaded)) return loaded.configuration
  terminal.err(`${await problemText(terminal, loaded)}\nA configuration with problems is not replayed.\n`)
  return null
}

function withShownPaths(terminal: Terminal, result: ReplayResult): ReplayResult {
  const skipped = result.skipped.map(each => ({
    ...each,
    file: each.file === '-' ? 'standard input' : shownPath(terminal, each.file),
  }))
  return { ...result, skipped }
}

/** By id or name from the file, else --balance; else as much as it takes. */
function balancesOf(terminal: Terminal, { balance, balances }: Options): BalanceOf {
  const known = balances === undefined ? new Map<string, bigint>() : readBalances(existingFile(terminal, balances))
  return ({ id, name }) => known.get(id) ?? known.get(name) ?? balance ?? null
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
  if (typeof read !== 'object' || read === null || Array.isArray(read)) throw wrong('it is no JSON object')
  const { accounts } = read as { accounts?: unknown }
  const entries: [string, unknown][] = Array.isArray(accounts)
    ? accounts.map((each: { id?: unknown; available?: unknown } | null) => [String(each?.id), each?.available])
    : Object.entries(read)
  return new Map(
    entries.map(([who, amount]) => {
      try {
        return [who, parseMoney(String(amount))]
      } catch (error) {
        if (error instanceof UnitError) throw wrong(`the balance of ${JSON.stringify(who)}: ${error.message}`)
        throw error
      }
    }),
  )
}

/** How far it is and how quickly it goes on, once a second at most. */
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

/** Several with commas between them, or the option several times. */
function gates(text: string, before: readonly Gate[] = []): readonly Gate[] {
  try {
    return [...before, ...text.split(',').map(parseGate)]
  } catch (error) {
    if (error instanceof GateError) throw new InvalidArgumentError(error.message)
    throw error
  }
}
