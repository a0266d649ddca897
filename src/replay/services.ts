/** The services of a replay, and replacements for steps that cannot run in it. */
import {
  type Account,
  type AnyPlugin,
  type Clock,
  type Key,
  type KeyLookup,
  type Ledger,
  refuse,
  type Services,
  type StepContext,
  type StepMiddleware,
  type TrailEntry,
} from '#contract'
import type { Configuration, StepConfig } from '../config/configuration.ts'
import { createCatalog } from '../config/model-catalog.ts'
import { createPlans } from '../config/plan-catalog.ts'
import { middlewareOf } from '../loader/middleware-of.ts'
import { standInServices } from '../simulate/services.ts'
import { identify, passOn, roleOf, standIn } from '../simulate/steps.ts'
import { createBuckets } from '../state/buckets.ts'
import { NOT_RUN } from './compare.ts'
import { looksAtAnswers, looksAtRequests } from './differ.ts'
import type { Caller, LogLine } from './line.ts'
import { wasSent } from './provider.ts'

/** The state of a line that is being replayed, besides the contract. */
export interface ReplayedLine {
  readonly line: LogLine
  /** Why the verdict is unknown: the log lacks something that a step needs. Null if it is known. */
  unknown: string | null
}

/** The lines in progress by exchange id. The id is also the token that represents the recorded key. */
export type Runs = Map<string, ReplayedLine>

/** Error codes for each kind of invalid key. */
const NOT_LIVE: Readonly<Partial<Record<string, KeyLookup>>> = {
  malformed_api_key: { found: 'malformed' },
  invalid_api_key: { found: 'unknown' },
  revoked_api_key: { found: 'revoked' },
  expired_api_key: { found: 'expired' },
}

/** Error codes without a known key, because no readable key was sent. */
export const WITHOUT_KEY: ReadonlySet<string> = new Set(['missing_api_key', 'unauthorized', 'bad_request'])

export interface ServiceParts {
  readonly configuration: Configuration
  readonly clock: Clock
  readonly ledger: Ledger
  readonly runs: Runs
}

export function createServices({ configuration, clock, ledger, runs }: ServiceParts): Services {
  const accounts = new Map<string, Account>()
  return standInServices({
    clock,
    ledger,
    buckets: createBuckets(clock),
    catalog: createCatalog(configuration),
    plans: createPlans(configuration),
    random: evenNumbers(),
    targets: { latencyMs: () => null },
    accounts: { find: idOrName => accounts.get(idOrName) },
    keys: {
      find(token) {
        const run = runs.get(token)
        if (!run) return { found: 'unknown' }
        const found = lookup(run)
        if (found.found === 'live') {
          accounts.set(found.account.id, found.account)
          accounts.set(found.account.name, found.account)
        }
        return found
      },
    },
  })
}

/** The lookup result for the recorded key. */
function lookup(run: ReplayedLine): KeyLookup {
  const { who, code } = run.line
  if (who) return { found: 'live', key: keyOf(who), account: accountOf(who) }
  if (code === 'account_frozen')
    return { found: 'live', key: keyOf(UNKNOWN_CALLER), account: accountOf(UNKNOWN_CALLER, true) }
  const found = NOT_LIVE[code ?? '']
  if (found) return found
  run.unknown = 'who'
  return { found: 'unknown' }
}

const UNKNOWN_CALLER: Caller = { account: { id: '?', name: '?', plan: '' }, key: { id: '?', name: '?', models: null } }

function accountOf({ account }: Caller, frozen = false): Account {
  return { id: account.id, name: account.name, plan: account.plan, frozen, createdAt: 0 }
}

function keyOf({ account, key }: Caller): Key {
  const { id, name, models } = key
  return { id, accountId: account.id, name, models, createdAt: 0, expiresAt: null, revokedAt: null }
}

/** Evenly spread numbers, the same in every replay. */
function evenNumbers(): () => number {
  let last = 0
  return () => {
    last = (last + 0.6180339887498949) % 1
    return last
  }
}

/** How a recorded verdict of a step is used. */
export interface VerdictUse {
  /** Whether it is a verdict of this step, not of another one with the same id. */
  readonly applies: boolean
  /** Whether an unknown verdict affects the comparison: not if both sides have the same step. */
  readonly matters: boolean
}

/**
 * Returns the step for a replay: itself, or one that repeats its recorded verdicts. These steps are replaced:
 * - steps that would call another service for the client's identity
 * - steps that decide by text that is in no log
 * - steps that may not run without real requests
 */
export function replayedStep(step: StepConfig, runs: Runs, readingOf: (route: string) => VerdictUse): StepConfig {
  const { plugin } = step
  const role = roleOf(step)
  if (role === 'records') return standIn(step, passOn)
  if (plugin.name === 'jwt') return standIn(step, recordedIdentity(plugin, runs))
  if (plugin.name === 'guard') return { ...step, plugin: recordedWords(step, runs, readingOf) }
  if (plugin.name === 'tags' && !isOfIdentity(step)) return standIn(step, recordedTags(step, runs, readingOf))
  if (role === 'runs') return step
  if (role === 'identifies') return standIn(step, recordedIdentity(plugin, runs))
  return step.mode === 'off' ? step : standIn({ ...step, foreign: false }, recordedVerdict(step, runs, readingOf))
}

/** Uses the recorded identity for a step that would call another service for it. */
function recordedIdentity(plugin: AnyPlugin, runs: Runs): StepMiddleware {
  return async ({ exchange }, next) => {
    const run = runs.get(exchange.id)!
    const found = lookup(run)
    if (found.found !== 'live') {
      const { code } = run.line
      if (code !== null && WITHOUT_KEY.has(code)) run.unknown = null
      throw refuse(code !== null && (WITHOUT_KEY.has(code) || Object.hasOwn(NOT_LIVE, code)) ? code : 'unauthorized')
    }
    if (found.account.frozen) throw refuse('account_frozen')
    identify(plugin, exchange, found.key, found.account)
    await next()
  }
}

/** Whether the tags of a step come only from the key and the account. */
function isOfIdentity({ settings }: StepConfig): boolean {
  const { tags } = settings as {
    readonly tags: Readonly<Record<string, { readonly from: string | readonly string[] }>>
  }
  const sources = Object.values(tags).flatMap(({ from }) => from)
  return sources.every(source => source === 'key' || source === 'account')
}

/** Uses the recorded tags for a step that reads claims, headers or the body, which may not be in the log. */
function recordedTags(step: StepConfig, runs: Runs, readingOf: (route: string) => VerdictUse): StepMiddleware {
  const otherwise = recordedVerdict(step, runs, readingOf)
  return (ctx, next) => {
    const { tags } = runs.get(ctx.exchange.id)!.line
    if (tags === null) return otherwise(ctx, next)
    ctx.exchange.give('tags', tags)
    return next()
  }
}

/**
 * Without the request's text, uses the recorded verdict of the step, also for a step in shadow. Without a verdict, the result is
 * unknown. Verdicts on answers are always used, because their text is in no log.
 */
function recordedWords(step: StepConfig, runs: Runs, readingOf: (route: string) => VerdictUse): AnyPlugin {
  const { plugin, id } = step
  const create = plugin.create.bind(plugin)
  const isEnforced = step.mode === 'enforce'
  const [ofAnswers, ofRequests] = [looksAtAnswers(step), looksAtRequests(step)]
  return {
    ...plugin,
    create(settings, services, place) {
      const made = create(settings, services, place)
      const real = middlewareOf(made) as StepMiddleware | undefined
      if (real === undefined) return made
      const handle: StepMiddleware = async (ctx: StepContext, next) => {
        const run = runs.get(ctx.exchange.id)!
        const { line } = run
        const reading = readingOf(line.route)
        const recorded = reading.applies ? recordedEntry(id, line) : null
        const code = recorded?.verdict === 'would_refuse' ? recorded.code : undefined
        const isOfAnswer = ofAnswers && wasSent(line)
        const refused = async () => {
          await next()
          if (isOfAnswer && code !== undefined) throw refuse(code)
        }
        if (line.request.body !== undefined) return real(ctx, refused)
        if (recorded?.verdict === 'refused' && recorded.code && line.attempts.length === 0) throw refuse(recorded.code)
        // A verdict on the request or on its answer, which is not in the log: refused in either case.
        if (code !== undefined && (ofRequests || !isOfAnswer)) throw refuse(code)
        if (recorded === null && isEnforced && reading.matters) run.unknown ??= 'words'
        await refused()
      }
      return typeof made === 'function' ? handle : { handle, dispose: () => made.dispose?.() }
    },
  }
}

/** Repeats the recorded verdict of a step that is not run, also for a step in shadow. Without a verdict, the result is unknown. */
function recordedVerdict(
  { plugin, id, mode }: StepConfig,
  runs: Runs,
  readingOf: (route: string) => VerdictUse,
): StepMiddleware {
  return async (ctx, next) => {
    const run = runs.get(ctx.exchange.id)!
    const reading = readingOf(run.line.route)
    const recorded = reading.applies ? recordedEntry(id, run.line) : null
    const hasRefusal = recorded?.code !== undefined && run.line.attempts.length === 0
    if (hasRefusal && recorded.verdict === 'refused') throw refuse(recorded.code!)
    if (recorded?.verdict === 'would_refuse' && recorded.code) throw refuse(recorded.code)
    if (recorded === null && mode === 'enforce' && reading.matters) run.unknown ??= `${NOT_RUN}${id}`
    if (plugin.gives?.length) {
      // Later steps need the facts that it would have given.
      run.unknown ??= `${NOT_RUN}${id}`
      throw refuse('internal_error')
    }
    await next()
  }
}

/** The recorded verdict of the step; null if it did not take part. */
function recordedEntry(id: string, { trail, code, decidedBy }: LogLine): Pick<TrailEntry, 'verdict' | 'code'> | null {
  if (decidedBy === id && code !== null) return { verdict: 'refused', code }
  const entry = trail.find(({ step }) => step === id)
  return entry && ['passed', 'refused', 'would_refuse'].includes(entry.verdict) ? entry : null
}
