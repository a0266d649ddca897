/**
 * Checks whether a plugin keeps the promises of the gateway in every ending of an exchange. `conform` plays each ending through the
 * real gateway with the plugin, as a whole answer and as a stream, and checks what remains.
 */
import { type AnyPlugin, type FactName, mistakeText, type TrailEntry } from '#contract'
import { namesOf, refuseUnknown } from '../simulate/known-options.ts'
import { turn } from '../simulate/time.ts'
import type { BenchAnswer, BenchRequest } from '../simulate/visit.ts'
import { StuckError } from '../simulate/whole-gateway.ts'
import { type Bench, type BenchOptions, openBench } from './bench.ts'
import {
  answerFailures,
  crashFailures,
  leftoverFailures,
  moneyFailures,
  type PlayedTrial,
  stepFailures,
  traceFailures,
} from './checks.ts'
import {
  AROUND,
  ENDINGS,
  type EndingCase,
  type Inner,
  innerStep,
  type Outer,
  outerStep,
  STREAM_ENDINGS,
  WELL,
} from './endings.ts'
import { watchPlugin } from './watch-plugin.ts'

export interface ConformOptions
  extends Pick<BenchOptions, 'folder' | 'yaml' | 'models' | 'env' | 'plan' | 'patienceMs'> {
  /**
   * The policy, with the plugin by its name. Default: `api-key`, `schema`, the plugin, `credits`, `route`. A plugin that needs `hold`
   * comes after `credits`, one that needs `targets` at the end. One with the name of a built-in step replaces it.
   */
  readonly steps?: readonly object[]
  /** Changes to the request of each ending. */
  readonly request?: Pick<BenchRequest, 'headers' | 'body' | 'key'>
  /** Runs before each ending, to make the plugin act (fill a cache, take a slot). Its cost is not counted. */
  readonly prepare?: (bench: Bench, form: 'whole' | 'stream') => Promise<unknown>
  /** Texts that must not be in a trail, a log line or an answer, besides the client's key. */
  readonly secrets?: readonly string[]
  /** Whether it refuses every request by design. Default: false; otherwise nothing after its refusal could be tested. */
  readonly refusesAll?: boolean
  /** Runs only endings whose names contain one of these, for debugging. Default: all. */
  readonly endings?: readonly string[]
}

const CONFORM_OPTIONS = namesOf<ConformOptions>({
  folder: true,
  yaml: true,
  models: true,
  env: true,
  plan: true,
  patienceMs: true,
  steps: true,
  request: true,
  prepare: true,
  secrets: true,
  refusesAll: true,
  endings: true,
})

const NEVER_PASSED =
  'it refused every request, so nothing after its refusal was tested: give settings, a `request`, a `plan` or a `prepare` with which it admits one, or set `refusesAll: true` if it refuses by design'

/** A problem and its ending. */
export interface ConformFailure {
  readonly ending: string
  /** Null: it is not a problem of one ending. */
  readonly form: 'whole' | 'stream' | null
  /** A sentence without a full stop. */
  readonly what: string
}

/** The report of a plugin that passed. */
export interface ConformReport {
  readonly plugin: string
  /** Number of endings that were played. */
  readonly endings: number
  /** Number of runs of the plugin's middleware. */
  readonly runs: number
}

/** The error for a plugin that failed: all failed checks, as sentences. */
export class ConformError extends Error {
  override readonly name = 'ConformError'
  readonly failures: readonly ConformFailure[]

  constructor(plugin: string, failures: readonly ConformFailure[]) {
    super(`the plugin "${plugin}" does not conform:\n${grouped(failures).join('\n')}`)
    this.failures = failures
  }
}

/** One line for each problem, with its endings. */
function grouped(failures: readonly ConformFailure[]): string[] {
  const endings = new Map<string, string[]>()
  for (const { ending, form, what } of failures) {
    endings.set(what, [...(endings.get(what) ?? []), form ? `${ending} (${form})` : ending])
  }
  return [...endings].map(([what, all]) => {
    const more = all.length - MAX_NAMED
    return `- ${what}: ${all.slice(0, MAX_NAMED).join('; ')}${more > 0 ? `; and ${more} more endings` : ''}`
  })
}

const MAX_NAMED = 3

/**
 * Plays every ending. Throws a `ConformError` that lists the failed checks.
 *
 * @example
 * test('conforms', () => conform(plugin, { open: 0, close: 24 }))
 */
export async function conform(
  plugin: AnyPlugin,
  settings: Readonly<Record<string, unknown>> = {},
  options: ConformOptions = {},
): Promise<ConformReport> {
  refuseUnknown('conform()', options, CONFORM_OPTIONS)
  const usual = { whole: await usualVerdicts('whole'), stream: await usualVerdicts('stream') }
  const failures: ConformFailure[] = []
  let endings = 0
  let runs = 0
  for (const [form, ending] of endingsOf(options)) {
    endings++
    const found = await play({ plugin, settings, options, form, ending, usual: usual[form] })
    runs += found.runs
    failures.push(...found.wrong.map(what => ({ ending: ending.name, form, what })))
    // The other endings would wait for as long.
    if (found.isStuck) break
  }
  if (runs === 0)
    failures.push({ ending: 'every ending', form: null, what: 'the plugin never ran: is it in the policy?' })
  // Every ending was the same refusal, so nothing after it was tested.
  if (!options.refusesAll && [...usual.whole, ...usual.stream].every(verdict => verdict === 'refused')) {
    failures.push({ ending: 'every ending', form: null, what: NEVER_PASSED })
  }
  if (failures.length > 0) throw new ConformError(plugin.name, failures)
  return { plugin: plugin.name, endings, runs }

  /** The verdicts of the step on successive requests without faults. Also reports a policy that cannot be set up, once. */
  async function usualVerdicts(form: 'whole' | 'stream'): Promise<readonly Verdict[]> {
    const trial = { plugin, settings, options, form }
    const bench = await openTrial(trial, [plugin, ...stepsAround(() => ({}))])
    const verdicts: Verdict[] = []
    let stuck: StuckError | null = null
    try {
      await options.prepare?.(bench, form)
      // A step that was late is late again, which takes as much time.
      while (verdicts.length < MAX_REQUESTS)
        verdicts.push(verdicts.at(-1) === 'late' ? 'late' : await plainVerdict(bench, trial))
    } catch (error) {
      // Any other error occurs in an ending too, and is reported there.
      if (error instanceof StuckError) stuck = error
    }
    // So does an error of dispose().
    await bench.close().catch(() => {})
    if (stuck) throw new ConformError(plugin.name, [{ ending: 'answered', form, what: stuck.message }])
    return verdicts
  }
}

type Verdict = TrailEntry['verdict'] | undefined

/** The requests of the longest ending, and one more after it. */
const MAX_REQUESTS = 4

/** The verdict of the step on one more request without faults. */
async function plainVerdict(bench: Bench, trial: Omit<Trial, 'ending' | 'usual'>): Promise<Verdict> {
  bench.upstream.script(WELL)
  const { body, more } = requestOf(trial)
  const answer = await bench.chat(body, more)
  return bench.trail(answer).find(({ step }) => step === trial.plugin.name)?.verdict
}

/** The request of each ending. */
function requestOf({ options, form }: Pick<Trial, 'options' | 'form'>) {
  const { headers, body, key } = options.request ?? {}
  return {
    body: { ...(body as Record<string, unknown>), ...(form === 'stream' ? { stream: true } : {}) },
    more: { ...(headers ? { headers } : {}), ...(key === undefined ? {} : { key }) },
  }
}

function endingsOf({ endings }: ConformOptions): readonly (readonly ['whole' | 'stream', EndingCase])[] {
  const all = [
    ...ENDINGS.map(ending => ['whole', ending] as const),
    ...[...ENDINGS, ...STREAM_ENDINGS].map(ending => ['stream', ending] as const),
  ]
  return endings ? all.filter(([, { name }]) => endings.some(wanted => name.includes(wanted))) : all
}

/**
 * Real time that a step may still take after the exchange has ended. Short for a hanging step, because its ending takes this long; else
 * long, so that a busy machine causes no mistake.
 */
const STEP_GRACE_MS = { hangs: 60, returns: 1_000 }

/** The current behaviour of the steps around the plugin. */
interface Behaviour {
  readonly inner?: Inner
  readonly outer?: Outer
}

function stepsAround(behaviour: () => Behaviour): readonly AnyPlugin[] {
  return [innerStep(() => behaviour().inner ?? 'pass'), outerStep(() => behaviour().outer ?? 'pass')]
}

interface Trial extends PlayedTrial {
  readonly settings: Readonly<Record<string, unknown>>
  readonly options: ConformOptions
  /** The verdicts of the step on successive requests without faults. */
  readonly usual: readonly Verdict[]
}

interface PlayResult {
  readonly wrong: readonly string[]
  readonly runs: number
  /** Whether it did not end. */
  readonly isStuck: boolean
}

async function play(trial: Trial): Promise<PlayResult> {
  const { plugin, ending, options, form } = trial
  let behaviour: Behaviour & Pick<EndingCase, 'isServed'> = {}
  const watched = watchPlugin(plugin, () => behaviour.isServed === false)
  const wrong: string[] = []
  let isStuck = false
  try {
    const bench = await openTrial(trial, [watched.plugin, ...stepsAround(() => behaviour)])
    try {
      await options.prepare?.(bench, form)
      const { posted } = bench.ledger.balance()
      behaviour = ending
      const answers = await exchanges(bench, trial, wrong)
      wrong.push(...moneyFailures(bench, answers, posted))
      for (const answer of answers) wrong.push(...answerFailures(answer, trial), ...traceFailures(bench, answer, trial))
      wrong.push(...stepFailures(bench, answers, trial, watched))
      behaviour = {}
      wrong.push(...(await lastingFailures(bench, trial, answers.length)))
    } finally {
      await bench.close()
    }
    await turn()
    wrong.push(...leftoverFailures(watched))
  } catch (error) {
    isStuck = error instanceof StuckError
    wrong.push(isStuck ? (error as Error).message : `it could not be simulated: ${mistakeText(error)}`)
  } finally {
    watched.stop()
  }
  return { wrong: [...new Set(wrong)], runs: watched.nexts.length, isStuck }
}

function openTrial(
  { plugin, settings, options, ending }: Omit<Trial, 'form' | 'ending' | 'usual'> & Partial<Trial>,
  plugins: readonly AnyPlugin[],
): Promise<Bench> {
  const { folder, yaml, models, env, plan, patienceMs } = options
  const hangs = ending?.inner === 'hang after' || ending?.outer === 'hang after'
  const given = Object.entries({ folder, yaml, models, env, plan, patienceMs }).filter(
    ([, value]) => value !== undefined,
  )
  return openBench({
    ...Object.fromEntries(given),
    plugins,
    steps: stepsFor(plugin, settings, options.steps),
    store: ending?.during === 'crash' ? 'file' : 'memory',
    stepGraceMs: hangs ? STEP_GRACE_MS.hangs : STEP_GRACE_MS.returns,
  })
}

/** All answers of an ending. Each request is sent after the previous answer. */
async function exchanges(bench: Bench, trial: Trial, wrong: string[]): Promise<readonly BenchAnswer[]> {
  const answers: BenchAnswer[] = []
  for (let times = trial.ending.times ?? 1; times > 0; times--) answers.push(...(await exchange(bench, trial, wrong)))
  return answers
}

/** Sends the request. During the answer the process is cut, reloaded or killed, or another request is sent. */
async function exchange(bench: Bench, trial: Trial, wrong: string[]): Promise<BenchAnswer[]> {
  const { during, upstream, leaveAfter } = trial.ending
  const { body, more } = requestOf(trial)
  let another: Promise<BenchAnswer> | null = null
  let hasHappened = false
  const happen = async () => {
    if (hasHappened) return
    hasHappened = true
    if (during === 'cut') bench.cut()
    if (during === 'reload') await bench.reload()
    if (during === 'crash') wrong.push(...(await crashFailures(bench)))
    // Not awaited here: it may have to wait for the first request.
    if (during === 'another') another = bench.chat(body, more)
  }
  bench.upstream.script({ ...upstream, onPiece: happen })
  const answer = await bench.chat(body, { ...more, ...(leaveAfter === undefined ? {} : { leaveAfter }) })
  return another === null ? [answer] : [answer, await another]
}

function stepsFor(
  plugin: AnyPlugin,
  settings: Readonly<Record<string, unknown>>,
  own: readonly object[] | undefined,
): object[] {
  const step = { use: plugin.name, with: settings }
  const [outer, inner] = [{ use: AROUND.outer }, { use: AROUND.inner }]
  const isIt = (each: object) => (each as { use?: unknown }).use === plugin.name
  if (own) return own.flatMap(each => (isIt(each) ? [outer, { ...step, ...each }, inner] : [each]))
  const standard: { use: string; with?: object }[] = [
    { use: 'api-key' },
    { use: 'schema' },
    { use: 'credits' },
    { use: 'route', with: { attempts: 1 } },
  ]
  if (standard.some(isIt)) return standard.flatMap(each => (isIt(each) ? [outer, step, inner] : [each]))
  const gives: readonly FactName[] = plugin.gives ?? []
  const rest = standard.filter(({ use }) => !(use === 'api-key' && gives.includes('key')))
  const needs = typeof plugin.needs === 'function' ? plugin.needs(settings as never, 'chat') : (plugin.needs ?? [])
  if (needs.includes('targets')) return [...rest, outer, step, inner]
  if (gives.includes('key')) return [outer, step, inner, ...rest]
  const following = needs.includes('hold') ? 'route' : 'credits'
  const at = rest.findIndex(({ use }) => use === following)
  return [...rest.slice(0, at), outer, step, inner, ...rest.slice(at)]
}

/** Checks for lasting effects of the ending: a slot that was not given back, or a wrong state. */
async function lastingFailures(bench: Bench, trial: Trial, requests: number): Promise<string[]> {
  const [usual, now] = [trial.usual[requests], await plainVerdict(bench, trial)]
  const isBad = (verdict: Verdict) => verdict === 'refused' || verdict === 'failed'
  if (isBad(now) && usual !== undefined && !isBad(usual)) {
    return ['afterwards the step refuses the same request, which it admits otherwise']
  }
  return bench.ledger.openHolds() > 0 ? ['a request after it leaves a hold open'] : []
}
