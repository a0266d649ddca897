/**
 * Looks over the shoulder of the steps of a policy while one request passes: what their conditions were evaluated on, what
 * buckets and the ledger told them, what they changed. Each step is wrapped in one that sees and passes on, so nothing of
 * what is seen here costs anything where a gateway serves.
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

/** What a bucket was asked, and what it said. */
export interface SeenGrant {
  readonly bucket: string
  readonly shape: BucketShape
  readonly amount: number
  readonly grant: Grant
}

/** A hold that was asked for, and what became of it. */
export interface SeenHold {
  readonly request: HoldRequest
  readonly result: HoldResult
}

/** What was seen of one step. */
export interface SeenStep {
  /** What its condition names, as it was then; null: none was evaluated. */
  values: readonly NamedValue[] | null
  readonly grants: SeenGrant[]
  readonly holds: SeenHold[]
  /** Headers of the answer that it had set when it went on. */
  headers: Readonly<Record<string, string>>
  /** The output cap when it began and when it went on; null where no request is known. */
  cap: readonly [before: number | null, after: number | null]
  /** Its own refusal or error, as a sentence; also in shadow. */
  said: string | null
}

/** What was seen of the request. */
export interface Seen {
  /** By policy and step: `standard/api-key`. */
  readonly steps: Map<string, SeenStep>
  exchange: Exchange | null
}

/** Whose request it is; known when the test gateway is open, which is after the steps were made. */
export interface Caller {
  account: string
  key: Key | null
}

/** What runs in place of a step, and why; null: the step itself. */
export type StandIn = (step: StepConfig) => StepMiddleware | null

export interface RecorderParts {
  readonly seen: Seen
  readonly standIn: StandIn
  /** Runs when every step has let the request pass, before it is sent. */
  readonly beforeSend: StepMiddleware
}

/** The step behind all others, through which the request goes on its way out; called as what stands behind the steps is. */
const SEND = 'send'

/** The same configuration with recorders around the steps of every policy. */
export function recorded(configuration: Configuration, parts: RecorderParts): Configuration {
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
  const mine: SeenStep = { values: null, grants: [], holds: [], headers: {}, cap: [null, null], said: null }
  seen.steps.set(`${policyName}/${step.id}`, mine)
  const instead = standIn(step)
  const create: AnyPlugin['create'] = (settings, services, place) => {
    const made = instead ?? plugin.create(settings, watchedServices(services, mine) as never, place)
    const handle = middlewareOf(made)
    // The plan says what is wrong with it.
    if (handle === undefined) return made
    const dispose = () => (typeof made === 'function' ? undefined : made.dispose?.())
    return { handle: watchedHandle(handle, mine, seen), dispose }
  }
  const watched = Object.create(plugin, { create: { value: create } }) as AnyPlugin
  return { ...step, plugin: watched, when: when && watchedWhen(when, mine) }
}

function watchedWhen({ source, evaluate }: CompiledWhen, mine: SeenStep): CompiledWhen {
  return {
    source,
    evaluate(facts) {
      mine.values = namedValues(source, facts)
      return evaluate(facts)
    },
  }
}

function watchedHandle(handle: StepMiddleware<never>, mine: SeenStep, seen: Seen): StepMiddleware<never> {
  return async (context, next) => {
    const ctx = context as unknown as Context & { readonly exchange: Exchange }
    seen.exchange ??= ctx.exchange
    const headersBefore = { ...ctx.response.headers }
    const capBefore = ctx.exchange.chat?.cap ?? null
    let inner: { readonly error: unknown } | null = null
    const goOn = () => {
      mine.cap = [capBefore, ctx.exchange.chat?.cap ?? null]
      mine.headers = newHeaders(headersBefore, ctx.response.headers)
      const going = next()
      // The step may leave it unobserved, and that is for the runner to say.
      going.catch((error: unknown) => {
        inner = { error }
      })
      return going
    }
    try {
      await handle(context, goOn)
    } catch (error) {
      // `inner` is set in a callback, where the compiler does not look.
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
  return `it broke: ${firstLineOf(error)}`
}

type Given = Partial<Services>

/** The services of a step; those that decide about it are listened to. */
function watchedServices(services: Given, mine: SeenStep): Given {
  const { buckets, ledger } = services
  return {
    ...services,
    ...(buckets ? { buckets: watchedBuckets(buckets, mine) } : {}),
    ...(ledger ? { ledger: watchedLedger(ledger, mine) } : {}),
  }
}

function watchedBuckets(buckets: Buckets, { grants }: SeenStep): Buckets {
  return {
    async take(bucket, shape, amount) {
      const grant = await buckets.take(bucket, shape, amount)
      grants.push({ bucket, shape, amount, grant })
      return grant
    },
    give: (bucket, shape, amount) => buckets.give(bucket, shape, amount),
  }
}

function watchedLedger(ledger: Ledger, { holds }: SeenStep): Ledger {
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
 * In place of steps that would ask or tell somebody outside of this process: nothing is sent anywhere here. Who has a
 * token of an identity provider is let in as the account that is asked about; so is everybody by a plugin of somebody's own
 * that says who asks.
 */
export function standInsFor(caller: Caller, accounts: (id: string) => Exchange['account']): StandIn {
  return step => {
    const { plugin } = step
    // One of somebody's own may have the same name.
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

/** Whether nobody knows what a step would have said, because something else runs in its place. */
export function isNotRun(step: StepConfig): boolean {
  return !BUILT_IN.includes(step.plugin) && ['identifies', 'decides'].includes(roleOf(step))
}

const passNoted: StepMiddleware = async ({ exchange }, next) => {
  exchange.note('not run here: it writes outside of this process')
  await next()
}

const cannotGoOn: StepMiddleware = async () => {
  throw refuse('internal_error', { detail: 'it was not run, and later steps need what it gives' })
}

const SIGNED = 'taken as signed by the identity provider, which is not asked here'

/** @param signed the note on a token; null: whoever asks is let in */
function asCaller(
  plugin: AnyPlugin,
  caller: Caller,
  accounts: (id: string) => Exchange['account'],
  signed: string | null,
): StepMiddleware {
  return async ({ req, exchange }, next) => {
    if (signed !== null && !req.headers.authorization) throw refuse('missing_api_key')
    const account = accounts(caller.account)
    if (!account || !caller.key) throw new Error('nobody is there yet')
    if (signed !== null) exchange.note(signed)
    identify(plugin, exchange, caller.key, account)
    await next()
  }
}
