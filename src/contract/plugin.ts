/**
 * The plugin contract. A plugin creates steps: each decides about a request, or wraps the later steps as a Koa middleware. It has a name,
 * a settings schema, and rules for its position: the facts that it needs from earlier steps and gives to later ones. The loader refuses a
 * policy in which a needed fact has no earlier giver; it never reorders steps.
 */
import type { ParameterizedContext } from 'koa'
import type { Budget, ChainedBudget } from './budget.ts'
import type { Exchange, FactName, Facts, Outcome, RouteKind } from './exchange.ts'
import type { Model } from './model.ts'
import type { Plans } from './plans.ts'
import type { Buckets, Cache, KeyValue, Slots, Versions } from './state.ts'
import type { Accounts, Keys, Ledger } from './store.ts'

/** The service `catalog`: the models of the configuration in which the step was created. */
export interface Catalog {
  /** Finds a model by id or alias; undefined if it does not exist. It does not check visibility. */
  find(id: string): Model | undefined
  list(): readonly Model[]
}

/**
 * The service `clock`: the only source of time for a plugin, so that tests can replace it. Each gateway has its own clock object, which
 * survives reloads. A step can use it as a WeakMap key for objects that must survive a reload. Use `kv` for text.
 */
export interface Clock {
  /** Milliseconds since the epoch. */
  now(): number
}

/** The service `random`: returns a number in [0, 1). Tests can pass a seed. */
export type Random = () => number

/** The service `log`: structured lines in the gateway's log, each with the step's id. */
export interface Log {
  info(fields: Readonly<Record<string, unknown>>, message: string): void
  warn(fields: Readonly<Record<string, unknown>>, message: string): void
  error(fields: Readonly<Record<string, unknown>>, message: string): void
}

/** The service `targets`: recent observations of targets, in this process. */
export interface TargetsView {
  /** The time until the target's answers begin, in milliseconds; null: unknown. */
  latencyMs(target: string, streams: boolean): number | null
}

/** The service `budgets`: the budgets that count a request. */
export interface Budgets {
  /**
   * Returns the budgets of a request in this order: those of its account and key, of its plan, and of the policy.
   * @param own the budgets of the step
   * @param place the step's place, for their names
   */
  chain(exchange: Exchange, own: readonly Budget[], place: string): readonly ChainedBudget[]
  /** The start of a budget's next period, for people: `2026-12-01 00:00 Europe/Berlin`; null: never. */
  resets(budget: ChainedBudget): string | null
}

/** Services that a plugin may name in `uses`. `ledger` is for critical plugins that ship with the gateway. */
export interface Services {
  readonly keys: Keys
  readonly accounts: Accounts
  readonly buckets: Buckets
  readonly slots: Slots
  /** Small state of a plugin. */
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

/** The name of a service, for `uses`. */
export type ServiceName = keyof Services
/** All service names, for checks at run time. */
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

/** The context of a step: Koa's own, with an exchange that has the needed facts. */
export type StepContext<Needs extends FactName = never> = ParameterizedContext & {
  readonly exchange: Exchange & Pick<Facts, Needs>
}

/** Runs everything inside this step; resolves when the answer is over. */
export type Next = () => Promise<void>

/** A step as a Koa middleware. `await next()` returns when the answer is over, never before. */
export type StepMiddleware<Needs extends FactName = never> = (ctx: StepContext<Needs>, next: Next) => Promise<void>

/** The result of `create` for a middleware that holds resources. `takes` is as for deciding steps. */
export interface WrappingStep<Needs extends FactName = never> {
  readonly handle: StepMiddleware<Needs>
  readonly decide?: undefined
  takes?(rawHeaders: readonly string[]): boolean
  /** Called once, when no exchange uses this step any more. */
  dispose?(): void | Promise<void>
}

/**
 * The result of `create` for a step that does not wrap others: it decides, and may act at the end. It is cheaper than a middleware, most
 * of all if `decide` is not `async`.
 */
export interface DecidingStep<Needs extends FactName = never> {
  readonly handle?: undefined
  /**
   * Returns to let the request continue, throws `refuse(…)` to end it, or answers by `exchange.answer` or `ctx.body`. It may be async.
   * Its result is passed to `after`.
   */
  decide(ctx: StepContext<Needs>): unknown
  /**
   * Runs when the answer is over, like the code after `next()` in a middleware. It runs once for each `decide` that let the
   * request continue, even if an inner step failed. If it throws, the exchange fails, unless it has failed already.
   *
   * @param outcome null: nothing was sent, as in a dry run
   * @param kept the result of `decide`
   * @param error the error of the inner steps or the upstream call; undefined: nothing failed
   */
  after?(
    ctx: StepContext<Needs>,
    outcome: Outcome | null,
    // biome-ignore lint/suspicious/noExplicitAny: the type is the result of `decide`
    kept: any,
    error: unknown,
  ): void | Promise<void>
  /**
   * Whether the credential of a request has the form that this step accepts. Called if a path such as `/v1/models` has routes
   * of several policies, to choose the policy. It proves nothing, and must neither throw nor wait. Left out: any form.
   *
   * @param rawHeaders alternating names and values, as in Node
   */
  takes?(rawHeaders: readonly string[]): boolean
  /** Called once, when no exchange uses this step any more. */
  dispose?(): void | Promise<void>
}

/** A step as an object. */
export type StepInstance<Needs extends FactName = never> = WrappingStep<Needs> | DecidingStep<Needs>

/** A JSON Schema (2020-12) for a step's `with`. Objects must have `additionalProperties: false`; properties need a `description`. */
export interface SettingsSchema {
  readonly type: 'object'
  readonly additionalProperties: false
  readonly properties: Readonly<Record<string, object>>
  readonly required?: readonly string[]
  readonly [keyword: string]: unknown
}

/**
 * The environment of a step. `serve`: a gateway. `test`: policy tests and test benches. The others use made-up or recorded requests.
 * `check` creates the steps, and dry-runs complete policies. `reload` is the dry run before a changed configuration serves.
 */
export type StepRun = 'serve' | 'test' | 'check' | 'reload' | 'explain' | 'replay'

/** The place of a step: stable over reloads, so that state can be named after it. */
export interface StepPlace {
  readonly policy: string
  readonly id: string
  /** In shadow a step must not do what the gateway cannot undo: wait, write, call other machines. Left out: `enforce`. */
  readonly mode?: 'enforce' | 'shadow'
  /** Left out: `serve`. */
  readonly run?: StepRun
  /** The absolute path of the folder with the step's file: relative paths in its settings begin there. */
  readonly folder?: string
}

/** A problem that `check` found in the settings of a step. */
export interface SettingsProblem {
  /** The place: a JSON pointer below `with`, such as `/rules/0/pattern`; empty for all of it. */
  readonly at: string
  /** One sentence without a full stop. It may quote the value at `at` and no other, because others may be secret. */
  readonly message: string
  /** Left out: `error`. `tollgate check` reports a warning; the step is created anyway. */
  readonly level?: 'error' | 'warning'
}

/** The argument of `definePlugin`. */
export interface Plugin<Settings = never, Needs extends FactName = never, Uses extends ServiceName = never> {
  /** The name in `use`. Lower-case words with dashes. */
  readonly name: string
  /** One sentence for `check` and the docs. */
  readonly description?: string
  /** For authentication and money: such a step cannot be skipped, shadowed or turned off, and runs if its `when` throws. */
  readonly critical?: boolean
  /** Whether it answers or refuses every request, so that none passes it. */
  readonly ends?: boolean
  /**
   * Whether it only records, outside of the gateway, what happened. In simulated exchanges (policy tests, explain, replay, the dry run of
   * a reload) such a step lets everything pass.
   */
  readonly records?: boolean
  /**
   * Whether it may run on requests that are not real: in the dry run of a reload, `explain` and `replay`. Set it to true if the step
   * depends only on the request, its settings and its services. It must call no other machine, and write nothing that outlives the process.
   * Default: false; the step is then neither created nor run there, and reports mention it. A boolean, or a function of the settings.
   */
  readonly dryRun?: boolean | ((settings: Settings) => boolean)
  /**
   * Whether it reads the body or anything derived from it. Default: true. The leading steps of a policy with false run before the body is
   * read, so that requests that they refuse take no memory for it. `exchange.bytes` is empty until then. A boolean, or a function of the
   * settings.
   */
  readonly needsBody?: boolean | ((settings: Settings) => boolean)
  /** Facts that an earlier step must give: a list, or a function of the settings and the route's kind. */
  readonly needs?: readonly Needs[] | ((settings: Settings, kind: RouteKind) => readonly FactName[])
  /**
   * Facts that no earlier step may have given, because this step changes their source: a step that rewrites the request comes before
   * `hold`. A list, or a function like `needs`.
   */
  readonly before?: readonly FactName[] | ((settings: Settings, kind: RouteKind) => readonly FactName[])
  /**
   * Names of plugins that must not come before this step, which would take their changes for the client's. A list, or a function of
   * the settings.
   */
  readonly precedes?: readonly string[] | ((settings: Settings) => readonly string[])
  /** Facts that this step sets before it calls `next()`. */
  readonly gives?: readonly FactName[]
  /** Services that `create` receives. */
  readonly uses?: readonly Uses[]
  readonly settings: SettingsSchema
  /**
   * Returns the problems of settings that fit the schema: all of them, each with its place. There must be no error if `create` would
   * accept the settings. Called for each step that is not off, with the same settings as `create` (units parsed, defaults filled in),
   * whenever a configuration is read. So its result may depend on the settings only, and it must be fast. A step that `records` may check
   * its destination, without leaving anything there; only `tollgate check` calls it.
   */
  check?(settings: Settings, place: StepPlace): readonly SettingsProblem[]
  /** Creates a step, once, when the configuration is loaded. Units are parsed, and defaults filled in. */
  create(
    settings: Settings,
    services: Pick<Services, Uses>,
    place: StepPlace,
  ): StepMiddleware<Needs> | StepInstance<Needs>
}

/** A plugin without its type parameters, as the registry and the loader use it. */
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
 *   // Refuses requests at night.
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

/** Whether a value was made by `definePlugin`, possibly by another copy of this module. */
export function isPlugin(value: unknown): value is AnyPlugin {
  return typeof value === 'object' && value !== null && (value as { [PLUGIN]?: unknown })[PLUGIN] === 1
}
