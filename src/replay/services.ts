/** What the steps of a replay are given in place of the gateway's services, and the steps that cannot be what they are. */
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
import type { LogLine, Who } from './line.ts'
import { wasSent } from './provider.ts'

/** What a run tells its steps beside the contract. */
export interface Running {
  readonly line: LogLine
  /** Nobody can say what would have become of it: the log does not hold what a step asks for. */
  unknown: string | null
}

/** The runs under way, by the id of the exchange; it is also the token that stands for the recorded key. */
export type Runs = Map<string, Running>

/** Verdicts that say which kind of wrong key it was. */
const NOT_LIVE: Readonly<Partial<Record<string, KeyLookup>>> = {
  malformed_api_key: { found: 'malformed' },
  invalid_api_key: { found: 'unknown' },
  revoked_api_key: { found: 'revoked' },
  expired_api_key: { found: 'expired' },
}

/** Verdicts of which no key is known because none, or none that can be read, was shown. */
export const NOBODY: ReadonlySet<string> = new Set(['missing_api_key', 'unauthorized', 'bad_request'])

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

/** What became of the recorded key. */
function lookup(run: Running): KeyLookup {
  const { who, code } = run.line
  if (who) return { found: 'live', key: keyOf(who), account: accountOf(who) }
  if (code === 'account_frozen') return { found: 'live', key: keyOf(SOMEBODY), account: accountOf(SOMEBODY, true) }
  const found = NOT_LIVE[code ?? '']
  if (found) return found
  run.unknown = 'who'
  return { found: 'unknown' }
}

const SOMEBODY: Who = { account: { id: '?', name: '?', plan: '' }, key: { id: '?', name: '?', models: null } }

function accountOf({ account }: Who, frozen = false): Account {
  return { id: account.id, name: account.name, plan: account.plan, frozen, createdAt: 0 }
}

function keyOf({ account, key }: Who): Key {
  const { id, name, models } = key
  return { id, accountId: account.id, name, models, createdAt: 0, expiresAt: null, revokedAt: null }
}

/** Chance that is the same in every replay. */
function evenNumbers(): () => number {
  let last = 0
  return () => {
    last = (last + 0.6180339887498949) % 1
    return last
  }
}

/** How a recorded verdict of a step is read. */
export interface Reading {
  /** Whether it is one of this step, and not of another one with its id. */
  readonly stands: boolean
  /** Whether the comparison hangs on it: where both sides have the same step, what is unknown is so on both. */
  readonly matters: boolean
}

/**
 * The step as a replay runs it: itself, or one that does what the log has of it, because it asks somebody else who the client
 * is, decides by words that are in no log, or may not run where nobody asks.
 */
export function replayedStep(step: StepConfig, runs: Runs, readingOf: (route: string) => Reading): StepConfig {
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

/** The recorded identity in place of a step that would ask the network for it. */
function recordedIdentity(plugin: AnyPlugin, runs: Runs): StepMiddleware {
  return async ({ exchange }, next) => {
    const run = runs.get(exchange.id)!
    const found = lookup(run)
    if (found.found !== 'live') {
      const { code } = run.line
      if (code !== null && NOBODY.has(code)) run.unknown = null
      throw refuse(code !== null && (NOBODY.has(code) || Object.hasOwn(NOT_LIVE, code)) ? code : 'unauthorized')
    }
    if (found.account.frozen) throw refuse('account_frozen')
    identify(plugin, exchange, found.key, found.account)
    await next()
  }
}

/** Whether the tags of a step come from what each line has of its caller. */
function isOfIdentity({ settings }: StepConfig): boolean {
  const { tags } = settings as {
    readonly tags: Readonly<Record<string, { readonly from: string | readonly string[] }>>
  }
  const sources = Object.values(tags).flatMap(({ from }) => from)
  return sources.every(source => source === 'key' || source === 'account')
}

/** The recorded tags in place of a step that reads claims, headers or the body: the log may have none of these. */
function recordedTags(step: StepConfig, runs: Runs, readingOf: (route: string) => Reading): StepMiddleware {
  const otherwise = recordedVerdict(step, runs, readingOf)
  return (ctx, next) => {
    const { tags } = runs.get(ctx.exchange.id)!.line
    if (tags === null) return otherwise(ctx, next)
    ctx.exchange.give('tags', tags)
    return next()
  }
}

/**
 * Where the words were not kept, the recorded verdict of the step stands for what it would have said, that of a step in
 * shadow included; without one nobody knows. What it has said of an answer, whose words are in no log, always stands.
 */
function recordedWords(step: StepConfig, runs: Runs, readingOf: (route: string) => Reading): AnyPlugin {
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
        const said = reading.stands ? saidBy(id, line) : null
        const code = said?.verdict === 'would_refuse' ? said.code : undefined
        const isOfAnswer = ofAnswers && wasSent(line)
        const refused = async () => {
          await next()
          if (isOfAnswer && code !== undefined) throw refuse(code)
        }
        if (line.request.body !== undefined) return real(ctx, refused)
        if (said?.verdict === 'refused' && said.code && line.attempts.length === 0) throw refuse(said.code)
        // Said of the request or of its answer, which is not in the log: it is refused in any case.
        if (code !== undefined && (ofRequests || !isOfAnswer)) throw refuse(code)
        if (said === null && isEnforced && reading.matters) run.unknown ??= 'words'
        await refused()
      }
      return typeof made === 'function' ? handle : { handle, dispose: () => made.dispose?.() }
    },
  }
}

/** In place of a step that is not run: what it has said stands, that of a step in shadow included; else nobody knows. */
function recordedVerdict(
  { plugin, id, mode }: StepConfig,
  runs: Runs,
  readingOf: (route: string) => Reading,
): StepMiddleware {
  return async (ctx, next) => {
    const run = runs.get(ctx.exchange.id)!
    const reading = readingOf(run.line.route)
    const said = reading.stands ? saidBy(id, run.line) : null
    const isSaid = said?.code !== undefined && run.line.attempts.length === 0
    if (isSaid && said.verdict === 'refused') throw refuse(said.code!)
    if (said?.verdict === 'would_refuse' && said.code) throw refuse(said.code)
    if (said === null && mode === 'enforce' && reading.matters) run.unknown ??= `${NOT_RUN}${id}`
    if (plugin.gives?.length) {
      // Later steps need what it would have given.
      run.unknown ??= `${NOT_RUN}${id}`
      throw refuse('internal_error')
    }
    await next()
  }
}

/** What the step has said of the exchange; null when it took no part. */
function saidBy(id: string, { trail, code, decidedBy }: LogLine): Pick<TrailEntry, 'verdict' | 'code'> | null {
  if (decidedBy === id && code !== null) return { verdict: 'refused', code }
  const entry = trail.find(({ step }) => step === id)
  return entry && ['passed', 'refused', 'would_refuse'].includes(entry.verdict) ? entry : null
}
