/**
 * `npm run bench`: the cost of Tollgate, compared with a minimal proxy in Node and, if it is installed, nginx.
 *
 * The main figure is CPU time per request of the gateway's whole process tree, because elapsed time varies with other load. All
 * contestants run at once, but only the measured one has work. Rounds are interleaved and rotated, and ratios are computed
 * within a round. No figure is asserted.
 */
import { type ChildProcess, execFileSync } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync, writeFileSync } from 'node:fs'
import { cpus } from 'node:os'
import { join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { Bench, CONNECTIONS, type Profiles, STREAMS_PER_SECOND } from './bench.ts'
import { type Budget, budgetTable } from './budget.ts'
import { type Contestant, hasNginx, launch, NAMES, type Name, start, temporaryFolder } from './contestants.ts'
import { countersTable, measureCounters } from './counters.ts'
import { type CpuTime, whyNotHere } from './cpu.ts'
import { fairnessTable, measureFairness } from './fairness.ts'
import { whyNoInstructions } from './instructions.ts'
import type { TimeShare } from './profile.ts'
import { type Measurement, type Memory, median, type Round, TITLES, tables } from './report.ts'
import { measureScale, scaleTable } from './scale.ts'
import { measureSteps, type StepFigures, stepsTable } from './steps.ts'
import { measureTranslation, type Translation, translationTable } from './translation.ts'

const HELP = `npm run bench -- [parts] [options]

  profile          only the CPU time of a request by part of the program (2 minutes);
                   --only selects the contestants, default: unmetered,credits
  counters         only counts of a request: promises, bytes allocated, header calls, system calls;
                   exact on a busy machine too (2 minutes)
  scale            only the gain of more threads and, with --postgres, a store in PostgreSQL (5 minutes)
  fairness         only the latency of one account during floods of another (2 minutes)
  steps            only the cost of a policy step (3 minutes)
  translation      only the cost of translation

  --rounds N       rounds, each with every contestant (5)
  --seconds S      length of each measurement (3)
  --only A,B       of ${NAMES.filter(name => name !== 'direct').join(', ')};
                   also steps and translation, which alone exclude everything else;
                   bare is always included, because ratios are to it
  --postgres URL   an empty database for scale, such as postgres://USER@HOST/DATABASE
  --undici8 DIR    the folder of an undici 8 for bare-undici8: npm install --prefix DIR undici@8
  --json FILE      writes every figure of every round
  --profile DIR    keeps the CPU profiles in DIR and prints the most expensive functions
  --no-memory      skips memory
  --help

Example: a quick look at the ratios

  npm run bench -- --rounds 2 --seconds 1 --only unmetered,credits --no-memory

Example: the cost of a step, in seven rounds

  npm run bench -- steps --rounds 7
`

const TOP_FUNCTIONS = 25
const PROFILE = 'profile'
const SCALE = 'scale'
const FAIRNESS = 'fairness'
const COUNTERS = 'counters'
/** Arguments that select one measurement instead of the comparison. */
const INSTEAD: readonly string[] = [PROFILE, SCALE, FAIRNESS, COUNTERS]
/** Values of `--only` besides the contestants. */
const PARTS = ['translation', 'steps'] as const
type Part = (typeof PARTS)[number]
const isPart = (name: string): name is Part => PARTS.includes(name as Part)

/** The kind of the last progress line, if stderr is not a terminal. */
let shownKind = ''

const { values: options, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    rounds: { type: 'string', default: '5' },
    seconds: { type: 'string', default: '3' },
    only: { type: 'string' },
    postgres: { type: 'string' },
    undici8: { type: 'string' },
    json: { type: 'string' },
    profile: { type: 'string' },
    'no-memory': { type: 'boolean', default: false },
    help: { type: 'boolean', default: false },
  },
})

/** The selected contestants and parts; undefined: all. */
const only =
  positionals.some(name => !INSTEAD.includes(name)) || options.only !== undefined
    ? [...positionals.filter(name => !INSTEAD.includes(name)), ...(options.only?.split(',') ?? [])]
    : undefined

if (options.help) console.log(HELP)
else await main()
// Also ends the child processes.
process.exit()

async function main(): Promise<void> {
  const impossible = whyNotHere()
  if (impossible !== null) return complain(impossible)
  const [rounds, seconds] = [positive('rounds'), positive('seconds')]
  if (positionals.includes(FAIRNESS)) return fairness(seconds)
  const names = contestantNames()
  const folder = temporaryFolder()
  const cores = coresToUse()
  const load = startScript('load.ts', cores.rig, folder)
  const upstreamPort = await portOf(startScript('upstream.ts', cores.rig, folder))
  const undici8 = options.undici8 === undefined ? null : resolve(options.undici8)
  const uncounted = whyNoInstructions()
  const lengths = { windowMs: seconds * 1000, countsInstructions: uncounted === null }
  const bench = new Bench(load, { folder, upstreamPort, core: cores.gateway, undici8 }, lengths, progress)
  const head = { machine: machine(), conditions: conditions(rounds, seconds, cores), uncounted }

  if (positionals.includes(PROFILE)) return measureBudgets(bench, names, rounds, head)
  if (positionals.includes(COUNTERS)) return counters(bench, names)
  if (positionals.includes(SCALE)) return scale(bench, rounds, lengths.windowMs)
  const compared = names.length === 0 ? null : await compare(bench, names, rounds, head)
  const nativePort = PARTS.some(isWanted) ? await portOf(startScript('native-upstream.ts', cores.rig, folder)) : 0
  const translation = isWanted('translation') ? await measureTranslation(bench, nativePort, rounds, progress) : null
  const steps = isWanted('steps') ? await measureSteps(bench, nativePort, rounds, progress) : null
  progress('')
  console.log(compared ? tables(compared.measured) : `${head.machine}\n\n${head.conditions}`)
  if (translation) console.log(`\n${translationTable(translation)}`)
  if (steps) console.log(`\n${stepsTable(steps)}`)
  if (compared && options.profile !== undefined) printProfiles(compared.profiles, compared.measured.rounds)
  if (options.json !== undefined) {
    const result = {
      ...(compared ? plain(compared.measured) : head),
      ...(translation ? { translation: translationPlain(translation) } : {}),
      ...(steps ? { steps: stepsPlain(steps) } : {}),
    }
    writeFileSync(options.json, `${JSON.stringify(result, null, 1)}\n`)
  }
}

async function compare(
  bench: Bench,
  names: readonly Name[],
  rounds: number,
  head: Pick<Measurement, 'machine' | 'conditions' | 'uncounted'>,
): Promise<{ readonly measured: Measurement; readonly profiles: Profiles }> {
  const measured = new Map<Name, Round[]>(names.map(name => [name, []]))
  const memory = new Map<Name, Memory>()
  if (!options['no-memory']) for (const name of names) if (name !== 'direct') memory.set(name, await bench.memory(name))
  const contestants: Contestant<Name>[] = []
  for (const name of names) contestants.push(await start(name, bench.rig))
  for (const contestant of contestants) await bench.warm(contestant)
  for (let index = 0; index < rounds; index++) {
    const place = index % contestants.length
    const order = [...contestants.slice(place), ...contestants.slice(0, place)]
    const round = await bench.round(order, `round ${index + 1} of ${rounds}`)
    for (const [name, figures] of round) measured.get(name)!.push(figures)
  }
  for (const contestant of contestants) await contestant.stop()
  const profiles = await bench.profile(
    names.filter(name => name === 'credits' || name === 'unmetered'),
    options.profile,
  )
  const messaging = profiles.get('credits')?.main.messaging ?? null
  return { measured: { ...head, names, rounds: measured, memory, messaging }, profiles }
}

/** Measures CPU time in processes without a profiler, and its division in profiled ones. */
async function measureBudgets(
  bench: Bench,
  names: readonly Name[],
  rounds: number,
  head: Pick<Measurement, 'machine' | 'conditions' | 'uncounted'>,
): Promise<void> {
  const compared = names.filter(name => name !== 'direct' && name !== 'nginx')
  const measured = new Map<Name, Round[]>(compared.map(name => [name, []]))
  const contestants: Contestant<Name>[] = []
  for (const name of compared) contestants.push(await start(name, bench.rig))
  for (const contestant of contestants) await bench.warm(contestant)
  for (let index = 0; index < rounds; index++) {
    for (const contestant of contestants) {
      progress(`round ${index + 1} of ${rounds}: ${contestant.name}`)
      measured.get(contestant.name)!.push(await bench.saturated(contestant, 'json-1k'))
    }
  }
  for (const contestant of contestants) await contestant.stop()
  const profiles = await bench.profile(compared, options.profile)
  const budgets = compared.map((name): Budget => {
    const middle = (value: (round: Required<Round>['json-1k']) => number | null) =>
      median(measured.get(name)!.flatMap(round => value(round['json-1k']!) ?? []))
    const part = (which: keyof CpuTime) => middle(({ cpu }) => cpu[which])!
    const cpu = { main: part('main'), ledger: part('ledger'), helpers: part('helpers') }
    return { name, cpu, instructions: middle(({ instructions }) => instructions), main: profiles.get(name)!.main }
  })
  progress('')
  const omitted = head.uncounted === null ? '' : ` Instructions are omitted: ${head.uncounted}.`
  console.log(`${head.machine}${omitted}\n\n${budgetTable(budgets, TITLES)}`)
  if (options.profile !== undefined) printProfiles(profiles, measured)
  if (options.json !== undefined) writeFileSync(options.json, `${JSON.stringify({ ...head, budgets }, null, 1)}\n`)
}

async function counters(bench: Bench, names: readonly Name[]): Promise<void> {
  const counted = names.filter(name => name !== 'direct' && name !== 'nginx')
  const results = await measureCounters(bench, counted, progress)
  progress('')
  console.log(`${machine()}\n\n${countersTable(results)}`)
  if (options.json !== undefined) writeFileSync(options.json, `${JSON.stringify(results, null, 1)}\n`)
}

async function fairness(seconds: number): Promise<void> {
  const rows = await measureFairness(seconds, progress)
  progress('')
  console.log(`${machine()}\n\n${fairnessTable(rows)}`)
  if (options.json !== undefined) writeFileSync(options.json, `${JSON.stringify(rows, null, 1)}\n`)
}

async function scale(bench: Bench, rounds: number, ms: number): Promise<void> {
  const postgres = options.postgres ?? null
  const figures = await measureScale(bench, { rounds, ms, postgres }, progress)
  progress('')
  console.log(`${machine()}\n\n${scaleTable(figures)}`)
  if (postgres === null) console.log('\nThe ledger was not measured: name an empty database with --postgres.')
  if (options.json !== undefined) {
    const plainly = { threads: Object.fromEntries(figures.threads), ledger: Object.fromEntries(figures.ledger ?? []) }
    writeFileSync(options.json, `${JSON.stringify(plainly, null, 1)}\n`)
  }
}

/** Without `--only`, all parts are measured. */
function isWanted(part: Part): boolean {
  return only === undefined || only.includes(part)
}

async function portOf(script: ChildProcess): Promise<number> {
  const [port] = (await once(script, 'message')) as [number]
  return port
}

function contestantNames(): Name[] {
  const named = only?.filter(name => !isPart(name))
  const unknown = named?.filter(name => !NAMES.includes(name as Name) || name === 'direct') ?? []
  if (unknown.length > 0)
    throw new Error(`unknown: ${unknown.join(', ')}; expected ${NAMES.join(', ')}, ${PARTS.join(', ')}`)
  if (named?.length === 0) return []
  if (named?.includes('bare-undici8') && options.undici8 === undefined) {
    throw new Error('bare-undici8 needs --undici8 DIR; create it with: npm install --prefix DIR undici@8')
  }
  const wanted = named ?? ['unmetered', 'credits', ...(hasNginx() ? ['nginx'] : [])]
  return NAMES.filter(name => name === 'direct' || name === 'bare' || wanted.includes(name))
}

interface Cores {
  readonly gateway: number | null
  readonly rig: number | null
}

/** Returns the first two cores that this process may use. */
function coresToUse(): Cores {
  const allowed = /^Cpus_allowed_list:\s+(.+)$/m.exec(readFileSync('/proc/self/status', 'utf8'))?.[1] ?? ''
  const list = allowed.split(',').flatMap(range => {
    const [from, to = from] = range.split('-').map(Number)
    return Array.from({ length: to! - from! + 1 }, (_, index) => from! + index)
  })
  if (list.length < 2 || !hasTaskset()) return { gateway: null, rig: null }
  return { gateway: list[0]!, rig: list[1]! }
}

function hasTaskset(): boolean {
  try {
    execFileSync('taskset', ['--version'], { stdio: 'ignore' })
    return true
  } catch {
    return false
  }
}

function startScript(file: string, core: number | null, folder: string): ChildProcess {
  const script = fileURLToPath(new URL(file, import.meta.url))
  const errors = join(folder, `${file}.errors.txt`)
  const child = launch(core, [process.execPath, script], errors)
  child.on('exit', () => {
    complain(`${file} has ended:\n${readFileSync(errors, 'utf8')}`)
    process.exit()
  })
  return child
}

function machine(): string {
  const all = cpus()
  return `${all.length} × ${all[0]?.model.trim() ?? 'unknown'}, Linux ${process.arch}, Node.js ${process.versions.node}.`
}

function conditions(rounds: number, seconds: number, { gateway, rig }: Cores): string {
  const place =
    gateway === null
      ? 'No process was bound to a core (that needs two cores and `taskset`), so the figures vary more'
      : `Gateway on core ${gateway}, clients and provider on core ${rig}`
  return (
    `${place}; ${rounds} rounds, interleaved, ${seconds} s each; loopback, no TLS; ${CONNECTIONS} connections; streams of ` +
    `100 chunks at 10 ms, ${STREAMS_PER_SECOND} begun a second; 100 accounts, SQLite on disk; the log goes to /dev/null.`
  )
}

function printProfiles(profiles: Profiles, rounds: Measurement['rounds']): void {
  for (const [name, { main, ledger }] of profiles) {
    const cpuOf = (part: keyof CpuTime) =>
      median((rounds.get(name) ?? []).flatMap(round => round['json-1k']?.cpu[part] ?? [])) ?? 0
    for (const [thread, profile] of Object.entries({ main, ledger })) {
      if (profile === null) continue
      const cpu = cpuOf(thread as 'main' | 'ledger')
      console.log(`\n${name}, ${thread} thread: ${cpu.toFixed(1)} µs a request, by part and by function\n`)
      printShares(profile.parts, cpu)
      console.log('')
      printShares(profile.functions, cpu)
    }
  }
}

function printShares(list: readonly TimeShare[], cpu: number): void {
  for (const { name, share } of list.slice(0, TOP_FUNCTIONS)) {
    console.log(`${(share * cpu).toFixed(2).padStart(7)} µs ${(share * 100).toFixed(1).padStart(5)} %  ${name}`)
  }
}

function plain({ rounds, memory, ...rest }: Measurement): object {
  return { ...rest, rounds: Object.fromEntries(rounds), memory: Object.fromEntries(memory) }
}

function translationPlain({ costs, rounds }: Translation): object {
  return { costs: Object.fromEntries(costs), rounds: Object.fromEntries(rounds) }
}

function stepsPlain({ alone, through, ...rest }: StepFigures): object {
  const costs = { steps: Object.fromEntries(alone.steps), taps: Object.fromEntries(alone.taps) }
  return { ...rest, alone: costs, through: Object.fromEntries(through) }
}

function positive(name: 'rounds' | 'seconds'): number {
  const value = Number(options[name])
  if (Number.isFinite(value) && value > 0) return value
  throw new Error(`--${name} is ${options[name]}; it must be a number above 0`)
}

/** Prints one line that the next replaces; without a terminal, a line for each kind of measurement. */
function progress(text: string): void {
  if (process.stderr.isTTY) process.stderr.write(`\r\x1b[K${text}`)
  const [kind = ''] = text.split(':')
  if (!process.stderr.isTTY && kind !== '' && kind !== shownKind) console.error(kind)
  shownKind = kind
}

function complain(text: string): void {
  console.error(text)
  process.exitCode = 1
}
