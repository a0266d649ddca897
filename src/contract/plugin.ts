/**
 * The plugin contract. A plugin makes steps: each decides about a request, or wraps the later steps as a Koa middleware. It
 * has a name, a settings schema, and a word about its place: which facts it needs from earlier steps and which it gives to
 * later ones. The loader refuses a policy in which a need has no earlier giver; it never reorders.
 */
import type { ParameterizedContext } from 'koa'
import type { Budget, ChainedBudget } from './budget.ts'
import type { Exchange, FactName, Facts, Outcome, RouteKind } from './exchange.ts'
import type { Model } from './model.ts'
import type { Plans } from './plans.ts'
import type { Buckets, Cache, KeyValue, Slots, Versions } from './state.ts'
import type { Accounts, Keys, Ledger } from './store.ts'

/** The service `catalog`: the models of the configuration in which the step was built. */
export interface Catalog {
  /** By id or alias; undefined when there is none. Visibility is the caller's question. */
  find(id: string): Model | undefined
  list(): readonly Model[]
}

/**
 * The service `clock`: the only time that a plugin should ask for, so that tests can pass their own. Each gateway has its own,
 * the same object after a reload: objects that a step keeps over a reload it can keep by it, in a WeakMap. Text is kept in `kv`.
 */
export interface Clock {
  /** Milliseconds since the epoch. */
  now(): number
}

/** The service `random`: a number in [0, 1), so that a test can pass a seed. */
export type Random = () => number

/** The service `log`: structured lines on the gateway's log, with the step's id in each. */
export interface Log {
  info(fields: Readonly<Record<string, unknown>>, message: string): void
  warn(fields: Readonly<Record<string, unknown>>, message: string): void
  error(fields: Readonly<Record<string, unknown>>, message: string): void
}

/** The service `targets`: what has been seen of targets lately, in this process. */
export interface TargetsView {
  /** How long the target's answers take to begin, in milliseconds; null while nothing is known. */
  latencyMs(target: string, streams: boolean): number | null
}

/** The service `budgets`. */
export interface Budgets {
  /**
   * The budgets of a request, those of its account first: of the account and the key, of the plan, and of the policy.
   * @param own those of the step
   * @param place of the step, for their names
   */
  chain(exchange: Exchange, own: readonly Budget[], place: string): readonly ChainedBudget[]
  /** The time at which a budget begins anew, for people: `2026-12-01 00:00 Europe/Berlin`; null: never. */
  resets(budget: ChainedBudget): string | null
}

/** What a plugin may name in `uses`. `ledger` is for plugins marked critical that ship with the gateway. */
export interface Services {
  readonly keys: Keys
  readonly accounts: Accounts
  readonly buckets: Buckets
  readonly slots: Slots
  /** A plugin's own small state. */
  readonly kv: KeyValue
  readonly cache: Cache
  readonly versions: Versions
  readonly ledger: Ledger
  readonly budgets: Budgets
  readonly catalog: Catalog
  readonly plans: Plans
  readonly clock: Clock
  readonly random: Random
  readonly log: Log
  readonly targets: TargetsView
}

/** The name of a service, as plugins write it in `uses`. */
export type ServiceName = keyof Services
/** All of them, for checks at run time. */
export const SERVICE_NAMES: readonly ServiceName[] = [
  'keys',
  'accounts',
  'buckets',
  'slots',
  'kv',
  'cache',
  'versions',
  'ledger',
  'budgets',
  'catalog',
  'plans',
  'clock',
  'random',
  'log',
  'targets',
]

/** The context of a step: Koa's own, with the exchange in which the needed facts are present. */
export type StepContext<Needs extends FactName = never> = ParameterizedContext & {
  readonly exchange: Exchange & Pick<Facts, Needs>
}

/** Runs everything inside this step; resolves when the answer is over. */
export type Next = () => Promise<void>

/** A step at work. `await next()` returns when the answer is over, never before. */
export type StepMiddleware<Needs extends FactName = never> = (ctx: StepContext<Needs>, next: Next) => Promise<void>

/** What `create` returns when a middleware holds something that must be released. `takes` is as for deciding steps. */
export interface WrappingStep<Needs extends FactName = never> {
  readonly handle: StepMiddleware<Needs>
  readonly decide?: undefined
  takes?(rawHeaders: readonly string[]): boolean
  /** Called once, when no exchange uses this step any more. */
  dispose?(): void | Promise<void>
}

/**
 * The result of `create` for a step that puts nothing around the others: it decides, and may act at the end. It costs a
 * request less than a middleware does, most of all when `decide` is not `async`.
 */
export interface DecidingStep<Needs extends FactName = never> {
  readonly handle?: undefined
  /**
   * Returns, and the request goes on. Throws `refuse(…)`, and it ends. Or answers, by `exchange.answer` or `ctx.body`. Waiting
   * is allowed. What it returns is kept for `after`.
   */
  decide(ctx: StepContext<Needs>): unknown
  /**
   * Runs when the answer is over, in the place of what a middleware does after `next()`: once for each `decide` that has let
   * the request go on, also when the request failed further in. What it throws ends the exchange badly, unless that has failed already.
   *
   * @param outcome null: nothing was sent, as in a dry run
   * @param kept what `decide` has returned
   * @param error what the inner steps, or the sending, failed with; undefined: nothing failed
   */
  after?(
    ctx: StepContext<Needs>,
    outcome: Outcome | null,
    // biome-ignore lint/suspicious/noExplicitAny: the step knows what it keeps
    kept: any,
    error: unknown,
  ): void | Promise<void>
  /**
   * Whether the credential of a request has the form that this step takes. Asked where a path such as `/v1/models` comes with
   * routes of several policies, to choose the policy. It proves nothing, and may neither throw nor wait. Left out: any form.
   *
   * @param rawHeaders names and values by turns, as Node has them
   */
  takes?(rawHeaders: readonly string[]): boolean
  /** Called once, when no exchange uses this step any more. */
  dispose?(): void | Promise<void>
}

/** A step as an object. */
export type StepInstance<Needs extends FactName = never> = WrappingStep<Needs> | DecidingStep<Needs>

/** A JSON Schema (2020-12) for a step's `with`. Objects must say `additionalProperties: false`; properties, what for. */
export interface SettingsSchema {
  readonly type: 'object'
  readonly additionalProperties: false
  readonly properties: Readonly<Record<string, object>>
  readonly required?: readonly string[]
  readonly [keyword: string]: unknown
}

/**
 * Where a step runs. `serve`: in a gateway. `test`: in policy tests and on a bench. Made-up or recorded requests: `check`
 * (the step is created, and a policy that can be created has the dry run of a reload), `reload` (the dry run before a
 * changed configuration serves), `explain`, `replay`.
 */
export type StepRun = 'serve' | 'test' | 'check' | 'reload' | 'explain' | 'replay'

/** Where a step stands: stable over reloads, so that its state can be named after it. */
export interface StepPlace {
  readonly policy: string
  readonly id: string
  /** In shadow a step must not do what the gateway cannot undo for it: wait, write, call others. Left out: `enforce`. */
  readonly mode?: 'enforce' | 'shadow'
  /** Left out: `serve`. */
  readonly run?: StepRun
  /** The folder of the file that says the step, absolute: where relative paths in its settings begin. */
  readonly folder?: string
}

/** What `check` finds wrong with the settings of a step. */
export interface SettingsProblem {
  /** Where: a JSON pointer below `with`, such as `/rules/0/pattern`; empty for all of it. */
  readonly at: string
  /** One sentence without a full stop. It may quote what stands at `at`, and no other value: that may be a secret. */
  readonly message: string
  /** Left out: `error`. A warning is told by `tollgate check`, and the step is created all the same. */
  readonly level?: 'error' | 'warning'
}

/** What `definePlugin` takes. */
export interface Plugin<Settings = never, Needs extends FactName = never, Uses extends ServiceName = never> {
  /** As policies write it in `use`. Lower-case words with dashes. */
  readonly name: string
  /** One sentence for `check` and the docs. */
  readonly description?: string
  /** Auth and money: such a step cannot be skipped, shadowed or switched off, and runs when its `when` throws. */
  readonly critical?: boolean
  /** Whether no request comes past it: it answers or refuses each one. */
  readonly ends?: boolean
  /**
   * Whether it only writes down what has happened, outside of the gateway. Where exchanges are played (policy tests,
   * explain, replay, the dry run of a reload) such a step is there and lets everything pass.
   */
  readonly records?: boolean
  /**
   * Whether it may run where no request is real: the dry run of a reload, `explain` and `replay`. Say true when it decides by
   * the request, its settings and its services alone: it calls no other machine, and writes nothing that outlives the
   * process. Default: false; there the step is not created and not run, and what is told of the request says so. A boolean,
   * or a function of the settings.
   */
  readonly dryRun?: boolean | ((settings: Settings) => boolean)
  /**
   * Whether it looks at the body, or at anything made of it. Default: true. The leading steps of a policy that say false run
   * before the body is read: who is refused by them never takes room for one. Until then `exchange.bytes` is empty. A boolean,
   * or a function of the settings.
   */
  readonly needsBody?: boolean | ((settings: Settings) => boolean)
  /** Facts that an earlier step must give: a list, or a function of the settings and of what the route is for. */
  readonly needs?: readonly Needs[] | ((settings: Settings, kind: RouteKind) => readonly FactName[])
  /**
   * Facts that no earlier step may have given, because this one changes what they are made from: a step that rewrites the
   * request stands before `hold`. A list, or a function as `needs`.
   */
  readonly before?: readonly FactName[] | ((settings: Settings, kind: RouteKind) => readonly FactName[])
  /**
   * Names of plugins behind which this step cannot stand: it looks at what the client sent, and would take what a step of
   * theirs has put there for the client's. A list, or a function of the settings.
   */
  readonly precedes?: readonly string[] | ((settings: Settings) => readonly string[])
  /** Facts that this step sets before it calls `next()`. */
  readonly gives?: readonly FactName[]
  /** Services that `create` receives. */
  readonly uses?: readonly Uses[]
  readonly settings: SettingsSchema
  /**
   * What is wrong with settings that fit the schema: all of it, each at its place; no error when `create` would take them.
   * Asked for each step that is not off, with the settings as `create` gets them (units parsed, defaults filled in), by
   * whatever reads a configuration: so it answers from the settings alone, at once, and the same everywhere. Only one that
   * `records` may look at where it is to write, without leaving anything there: it is asked by `tollgate check` alone.
   */
  check?(settings: Settings, place: StepPlace): readonly SettingsProblem[]
  /** Once per step, when the configuration is loaded; units arrive parsed, defaults filled in. */
  create(
    settings: Settings,
    services: Pick<Services, Uses>,
    place: StepPlace,
  ): StepMiddleware<Needs> | StepInstance<Needs>
}

/** A plugin whose types have done their work: what the registry and the loader handle. */
export interface AnyPlugin {
  readonly name: string
  readonly description?: string
  readonly critical?: boolean
  readonly ends?: boolean
  readonly records?: boolean
  readonly dryRun?: boolean | ((settings: never) => boolean)
  readonly needsBody?: boolean | ((settings: never) => boolean)
  readonly needs?: readonly FactName[] | ((settings: never, kind: RouteKind) => readonly FactName[])
  readonly before?: readonly FactName[] | ((settings: never, kind: RouteKind) => readonly FactName[])
  readonly precedes?: readonly string[] | ((settings: never) => readonly string[])
  readonly gives?: readonly FactName[]
  readonly uses?: readonly ServiceName[]
  readonly settings: SettingsSchema
  check?(settings: never, place: StepPlace): readonly SettingsProblem[]
  create(settings: never, services: never, place: StepPlace): StepMiddleware<never> | StepInstance<never>
}

const PLUGIN = Symbol.for('tollgate.plugin')

/**
 * Declares a plugin; the default export of its module.
 *
 * @example
 * export default definePlugin({
 *   name: 'office-hours',
 *   uses: ['clock'],
 *   settings: { type: 'object', additionalProperties: false, properties: {} },
 *   create: (settings, { clock }) => ({
 *     decide() {
 *       if (new Date(clock.now()).getUTCHours() < 6) throw refuse('forbidden', { message: 'Closed until 06:00 UTC.' })
 *     },
 *   }),
 * })
 */
export function definePlugin<Settings, const Needs extends FactName = never, const Uses extends ServiceName = never>(
  plugin: Plugin<Settings, Needs, Uses>,
): AnyPlugin {
  Object.defineProperty(plugin, PLUGIN, { value: 1 })
  return plugin as unknown as AnyPlugin
}

/** Whether a module's default export was made by `definePlugin`, also by another copy of this module. */
export function isPlugin(value: unknown): value is AnyPlugin {
  return typeof value === 'object' && value !== null && (value as { [PLUGIN]?: unknown })[PLUGIN] === 1
}
