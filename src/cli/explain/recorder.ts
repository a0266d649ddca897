/**
 * Records the steps of a policy during one request: values in conditions, results of buckets and the ledger, and changes. A copy
 * of the configuration wraps each step, so a serving gateway has no cost.
 */
import type { Context } from 'koa'
import {
  type AnyPlugin,
  asksModel,
  type BucketShape,
  type Buckets,
  type Exchange,
  firstLineOf,
  type Grant,
  type HoldRequest,
  type HoldResult,
  isRefusal,
  type Key,
  type Ledger,
  refuse,
  type Services,
  type StepMiddleware,
} from '#contract'
import type { CompiledWhen, Configuration, PolicyConfig, RouteConfig, StepConfig } from '../../config/configuration.ts'
import { BUILT_IN } from '../../loader/builtin.ts'
import { middlewareOf } from '../../loader/middleware-of.ts'
import { identify, passOn, roleOf } from '../../simulate/steps.ts'
import { type NamedValue, namedValues } from './when.ts'

/** A call of a bucket with its result. */
export interface GrantRecord {
  readonly bucket: string
  readonly shape: BucketShape
  readonly amount: number
  readonly grant: Grant
}

/** A request for a hold with its result. */
export interface HoldRecord {
  readonly request: HoldRequest
  readonly result: HoldResult
}

/** The record of one step. */
export interface StepRecording {
  /** The values in its condition at its evaluation; null: the condition was not evaluated. */
  values: readonly NamedValue[] | null
  readonly grants: GrantRecord[]
  readonly holds: HoldRecord[]
  /** Response headers that the step set before it called the next step. */
  headers: Readonly<Record<string, string>>
  /** The output cap at the step's start and before the next step; null without a chat request. */
  cap: readonly [before: number | null, after: number | null]
  /** The step's own refusal or error, as a sentence; also in shadow mode. Null: none. */
  said: string | null
}

/** The record of the request. */
export interface RequestRecording {
  /** By policy and step: `standard/api-key`. */
  readonly steps: Map<string, StepRecording>
  exchange: Exchange | null
}

/** The client of the request. It is set when the test gateway is open, after the steps were created. */
export interface Caller {
  account: string
  key: Key | null
}

/** Returns the replacement of a step; null: the step itself runs. */
export type StandIn = (step: StepConfig) => StepMiddleware | null

export interface RecorderParts {
  readonly seen: RequestRecording
  readonly standIn: StandIn
  /** Runs after the last step, before the request is sent. */
  readonly beforeSend: StepMiddleware
}

/** The step that is added after the last one. It has the name of the upstream call. */
const SEND = 'send'

/** Returns a copy of the configuration with recorders around all steps. */
export function withRecorders(configuration: Configuration, parts: RecorderParts): Configuration {
  const policies = new Map<PolicyConfig, PolicyConfig>()
  const watched = ({ steps, kind }: RouteConfig): PolicyConfig => {
    const known = policies.get(steps)
    if (known) return known
    const wrapped = steps.steps.map(step => watchedStep(step, steps.name, parts))
    const last = asksModel(kind) ? [lastStep(parts.beforeSend, steps.steps.at(-1)!)] : []
    const policy = { ...steps, steps: [...wrapped, ...last] }
    policies.set(steps, policy)
    return policy
  }
  return { ...configuration, routes: configuration.routes.map(route => ({ ...route, steps: watched(route) })) }
}

function lastStep(handle: StepMiddleware, { position }: StepConfig): StepConfig {
  const plugin: AnyPlugin = {
    name: SEND,
    settings: { type: 'object', additionalProperties: false, properties: {} },
    create: () => handle,
  }
  return {
    id: SEND,
    plugin,
    builtIn: false,
    foreign: false,
    settings: {},
    when: null,
    mode: 'enforce',
    onError: 'refuse',
    position,
  }
}

function watchedStep(step: StepConfig, policyName: string, { seen, standIn }: RecorderParts): StepConfig {
  const { plugin, when } = step
  const mine: StepRecording = { values: null, grants: [], holds: [], headers: {}, cap: [null, null], said: null }
  seen.steps.set(`${policyName}/${step.id}`, mine)
  const instead = standIn(step)
  const create: AnyPlugin['create'] = (settings, services, place) => {
    const made = instead ?? plugin.create(settings, watchedServices(services, mine) as never, place)
    const handle = middlewareOf(made)
    // The plan reports the invalid step.
    if (handle === undefined) return made
    const dispose = () => (typeof made === 'function' ? undefined : made.dispose?.())
    return { handle: watchedHandle(handle, mine, seen), dispose }
  }
  const watched = Object.create(plugin, { create: { value: create } }) as AnyPlugin
  return { ...step, plugin: watched, when: when && watchedWhen(when, mine) }
}

function watchedWhen({ source, evaluate }: CompiledWhen, mine: StepRecording): CompiledWhen {
  return {
    source,
    evaluate(facts) {
      mine.values = namedValues(source, facts)
      return evaluate(facts)
    },
  }
}

function watchedHandle(
  handle: StepMiddleware<never>,
  mine: StepRecording,
  seen: RequestRecording,
): StepMiddleware<never> {
  return async (context, next) => {
    const ctx = context as unknown as Context & { readonly exchange: Exchange }
    seen.exchange ??= ctx.exchange
    const headersBefore = { ...ctx.response.headers }
    const capBefore = ctx.exchange.chat?.cap ?? null
    let inner: { readonly error: unknown } | null = null
    const continueAfter = () => {
      mine.cap = [capBefore, ctx.exchange.chat?.cap ?? null]
      mine.headers = newHeaders(headersBefore, ctx.response.headers)
      const rest = next()
      // A step that does not await `next` is reported by the runner. The rejection must not be unhandled here.
      rest.catch((error: unknown) => {
        inner = { error }
      })
      return rest
    }
    try {
      await handle(context, continueAfter)
    } catch (error) {
      // `inner` is set in a callback, which the compiler's flow analysis ignores.
      const theirs = inner as { readonly error: unknown } | null
      if (theirs === null || theirs.error !== error) mine.said = sentenceOf(error)
      throw error
    }
  }
}

function newHeaders(before: Readonly<Record<string, unknown>>, now: Readonly<Record<string, unknown>>) {
  const added = Object.entries(now).filter(([name, value]) => before[name] !== value)
  return Object.fromEntries(added.map(([name, value]) => [name, String(value)]))
}

function sentenceOf(error: unknown): string {
  if (isRefusal(error)) return error.message
  return `it failed: ${firstLineOf(error)}`
}

type StepServices = Partial<Services>

/** The services of a step, with recorders around buckets and the ledger. */
function watchedServices(services: StepServices, mine: StepRecording): StepServices {
  const { buckets, ledger } = services
  return {
    ...services,
    ...(buckets ? { buckets: watchedBuckets(buckets, mine) } : {}),
    ...(ledger ? { ledger: watchedLedger(ledger, mine) } : {}),
  }
}

function watchedBuckets(buckets: Buckets, { grants }: StepRecording): Buckets {
  return {
    async take(bucket, shape, amount) {
      const grant = await buckets.take(bucket, shape, amount)
      grants.push({ bucket, shape, amount, grant })
      return grant
    },
    give: (bucket, shape, amount) => buckets.give(bucket, shape, amount),
  }
}

function watchedLedger(ledger: Ledger, { holds }: StepRecording): Ledger {
  return {
    async hold(request) {
      const result = await ledger.hold(request)
      holds.push({ request, result })
      return result
    },
    settle: request => ledger.settle(request),
    checkpoint: checkpoints => ledger.checkpoint(checkpoints),
    spool: request => ledger.spool(request),
    abandon: request => ledger.abandon(request),
  }
}

/**
 * Replacements for steps that would contact other systems, because nothing may leave this process. Any token of an identity
 * provider is accepted as the account of the trial request. External plugins that identify clients accept any request.
 */
export function standInsFor(caller: Caller, accounts: (id: string) => Exchange['account']): StandIn {
  return step => {
    const { plugin } = step
    // An external plugin may have the same name.
    if (plugin.name === 'jwt' && BUILT_IN.includes(plugin)) return asCaller(plugin, caller, accounts, SIGNED)
    switch (roleOf(step)) {
      case 'records':
        return passNoted
      case 'runs':
        return null
      case 'identifies':
        return asCaller(plugin, caller, accounts, null)
      case 'decides':
        return plugin.gives?.length ? cannotGoOn : passOn
    }
  }
}

/** Whether a replacement runs instead of the step, so that its decision is unknown. */
export function isNotRun(step: StepConfig): boolean {
  return !BUILT_IN.includes(step.plugin) && ['identifies', 'decides'].includes(roleOf(step))
}

const passNoted: StepMiddleware = async ({ exchange }, next) => {
  exchange.note('not run here: it writes outside this process')
  await next()
}

const cannotGoOn: StepMiddleware = async () => {
  throw refuse('internal_error', { detail: 'it was not run, and later steps need its facts' })
}

const SIGNED = 'assumed to be signed by the identity provider, which is not contacted here'

/** @param signed the note on a token; null: every request is accepted */
function asCaller(
  plugin: AnyPlugin,
  caller: Caller,
  accounts: (id: string) => Exchange['account'],
  signed: string | null,
): StepMiddleware {
  return async ({ req, exchange }, next) => {
    if (signed !== null && !req.headers.authorization) throw refuse('missing_api_key')
    const account = accounts(caller.account)
    if (!account || !caller.key) throw new Error('the client of the request is not set')
    if (signed !== null) exchange.note(signed)
    identify(plugin, exchange, caller.key, account)
    await next()
  }
}
