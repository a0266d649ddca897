/**
 * Everything that one configuration brought to life: its catalog, its plans with their steps, its roads to the
 * providers. Exchanges keep the generation in which they began.
 */
import { isDeepStrictEqual } from 'node:util'
import type {
  AnyPlugin,
  Catalog,
  Clock,
  Dialect,
  EncodedRequest,
  Log,
  Plans,
  Random,
  Services,
  StepRun,
  TargetsView,
} from '#contract'
import { createBudgets } from '../budgets/budget-chain.ts'
import type { BudgetRules } from '../budgets/left.ts'
import type { DeadlineClock } from '../common/clock.ts'
import type { TelemetryConfig } from '../common/telemetry-config.ts'
import { targetsOf } from '../config/asked-targets.ts'
import { budgetRules } from '../config/budget-rules.ts'
import type { Configuration, Credential, Provider, RouteConfig, ServiceAccount } from '../config/configuration.ts'
import { answerDigest } from '../config/digest.ts'
import { createCatalog } from '../config/model-catalog.ts'
import { createPlans } from '../config/plan-catalog.ts'
import { disposeAll } from '../loader/dispose.ts'
import { createPlan, type Plan, PlanError } from '../loader/plan.ts'
import type { Telemetry } from '../observe/telemetry/telemetry.ts'
import { createCredentials } from '../providers/credentials.ts'
import { createDemo } from '../providers/demo/demo.ts'
import { createDialect } from '../providers/dialects/index.ts'
import { keepToken, type TokenKeeper } from '../providers/google-token.ts'
import { HealthTracker } from '../providers/health.ts'
import { createRawProxy, type RawProxy } from '../providers/raw.ts'
import { createRetryBudget, type RetryBudget } from '../providers/retry.ts'
import { createHttpTransport, type Transport } from '../providers/transport.ts'
import type { State } from '../state/state.ts'
import type { Store } from '../store/store.ts'

/** A provider that can be asked. */
export interface Upstream {
  readonly provider: Provider
  readonly dialect: Dialect
  readonly transport: Transport
  readonly rawProxy: RawProxy
  /** The headers of one request, with those that say who we are; and whom to tell what the provider made of that. */
  sign(request: Pick<EncodedRequest, 'path' | 'headers' | 'body'> & { readonly method?: string }): Signed
  /** How many of its credentials are not out now. */
  goodCredentials(): number
  /** How many of them it has refused, and has not taken since. */
  refusedCredentials(): number
}

export interface Signed {
  /** Of this request only: the sender may add headers. */
  readonly headers: Record<string, string>
  /** The provider does not know the credential, or its quota is used up. Returns how many others are good. */
  refused(): number
  /** The provider takes nothing under it for so long. Returns how many others are good. */
  limited(forMs: number): number
  taken(): void
}

export interface LiveRoute {
  readonly config: RouteConfig
  readonly plan: Plan
}

export interface Generation {
  readonly configuration: Configuration
  readonly catalog: Catalog
  readonly plans: Plans
  readonly budgetRules: BudgetRules
  readonly routes: readonly LiveRoute[]
  readonly upstreams: ReadonlyMap<string, Upstream>
  readonly healthTracker: HealthTracker
  readonly retries: RetryBudget
  /** Undefined where gateway.yaml says none, and where nobody serves. The next generation takes over an unchanged one. */
  readonly telemetry: Telemetry | undefined
  /** By provider: its road, which the next generation takes over when nothing of the provider has changed. */
  readonly providerConnections: ReadonlyMap<string, ProviderConnection>
  /** Lets go of what it holds; once, when no exchange uses it any more. */
  dispose(): Promise<void>
}

/** A provider's connections and credentials, shared by the generations in which the provider is the same. */
export interface ProviderConnection {
  readonly upstream: Upstream
  /** How many generations hold it. */
  users: number
  readonly close: () => Promise<void>
}

export interface GenerationParts {
  readonly configuration: Configuration
  /** The generation that serves until this one does: what has not changed is taken over from it. */
  readonly previous?: Generation | undefined
  readonly store: Store
  /** What services keep between requests; it outlives the generation. */
  readonly state: State
  readonly clock: Clock
  readonly random: Random
  readonly version: string
  readonly deadlineClock: DeadlineClock
  readonly log: Log
  /**
   * Without a network, for tests: every provider is asked here, in the format of chat completions and without credentials.
   */
  readonly transportTo?: ((provider: string) => Transport) | undefined
  /** The same for raw routes. */
  readonly rawProxy?: RawProxy | undefined
  /** What steps are told of where they run. Default: `serve`. */
  readonly run?: StepRun | undefined
  /** Left out: exchanges are told to no collector. */
  readonly createTelemetry?: ((config: TelemetryConfig) => Promise<Telemetry>) | undefined
  logFor(step: string): Log
  /** Takes the loaded secrets out of what a provider says. */
  redact(text: string): string
}

/** Of the routes with one path, the first whose steps take a credential of this form, else the first of all. */
export function routeFor(rawHeaders: readonly string[], routes: readonly LiveRoute[]): LiveRoute {
  const [first] = routes as [LiveRoute]
  if (routes.length === 1) return first
  const takes = ({ plan }: LiveRoute) => plan.steps.every(step => step.takes === null || step.takes(rawHeaders))
  return routes.find(takes) ?? first
}

/** Throws a `PlanError` when a step cannot be created; nothing is left open then. */
export async function createGeneration(parts: GenerationParts): Promise<Generation> {
  const { configuration, previous } = parts
  const catalog = createCatalog(configuration)
  const planTable = createPlans(configuration)
  const closers: (() => Promise<void>)[] = []
  const dispose = () => disposeAll(closers.splice(0))
  try {
    // What is known of targets outlives a change of the configuration, and so does the budget of retries.
    const healthTracker =
      previous?.healthTracker ??
      new HealthTracker(parts.deadlineClock.now, (target, forMs) =>
        parts.log.warn({ target, for_ms: forMs }, 'a target fails and is put behind the others for a while'),
      )
    const asked = targetsOf(configuration)
    healthTracker.keep(asked)
    closers.push(async () => healthTracker.release(asked))
    const targets: TargetsView = { latencyMs: (target, streams) => healthTracker.latencyMs(target, streams) }
    const providerConnections = new Map<string, ProviderConnection>()
    const starting: Promise<void>[] = []
    for (const provider of configuration.providers.values()) {
      const before = previous?.providerConnections.get(provider.name)
      if (before && isDeepStrictEqual(before.upstream.provider, provider))
        providerConnections.set(provider.name, before)
      else {
        const { upstream, close, ready } = createUpstream(provider, parts)
        if (ready) starting.push(ready)
        providerConnections.set(provider.name, { upstream, users: 0, close })
      }
      const providerConnection = providerConnections.get(provider.name)!
      providerConnection.users++
      closers.push(async () => {
        if (--providerConnection.users === 0) await providerConnection.close()
      })
    }
    const upstreams = new Map([...providerConnections].map(([name, { upstream }]) => [name, upstream]))
    const digest = () => answerDigest(configuration)
    const budgets = createBudgets(parts.clock, planTable)
    // A policy's steps are created once, however many routes use it: they are the same steps with the same state.
    const plans = new Map<string, Plan>()
    const planOf = ({ policy, steps }: RouteConfig): Plan => {
      const known = plans.get(policy)
      if (known) return known
      const plan = createPlan(
        policy,
        steps.steps,
        step => servicesOf(step, parts, { catalog, plans: planTable, targets, budgets, digest }),
        parts.run,
      )
      closers.push(plan.dispose)
      plans.set(policy, plan)
      return plan
    }
    const routes = configuration.routes.map((config): LiveRoute => ({ config, plan: planOf(config) }))
    const telemetry = await telemetryOf(parts)
    if (telemetry) {
      telemetry.users++
      closers.push(async () => {
        if (--telemetry.users === 0) await telemetry.close()
      })
    }
    // Each has its own patience: who gets no token now gets it later, and the log says so.
    await Promise.all(starting)
    const retries = previous?.retries ?? createRetryBudget()
    const kept = {
      configuration,
      catalog,
      plans: planTable,
      budgetRules: budgetRules(configuration),
      routes,
      upstreams,
    }
    return { ...kept, healthTracker, retries, telemetry, providerConnections, dispose }
  } catch (error) {
    if (error instanceof PlanError) closers.push(() => error.undone)
    await dispose().catch((worse: unknown) => {
      parts.log.error({ error: worse }, 'a configuration that could not be made was not let go of whole')
    })
    throw error
  }
}

async function telemetryOf({
  configuration,
  previous,
  createTelemetry,
}: GenerationParts): Promise<Telemetry | undefined> {
  const { telemetry: config } = configuration
  if (config === null) return undefined
  if (previous?.telemetry && isDeepStrictEqual(previous.configuration.telemetry, config)) return previous.telemetry
  return createTelemetry?.(config)
}

/** Exactly the services that a plugin names in `uses`, and no others. */
function servicesOf(
  step: { readonly id: string; readonly plugin: AnyPlugin },
  { store, state, clock, random, logFor }: GenerationParts,
  own: Pick<Services, 'catalog' | 'plans' | 'targets' | 'budgets'> & { digest(): string },
): Partial<Services> {
  const all: { readonly [Name in keyof Services]: () => Services[Name] } = {
    keys: () => store.keys,
    accounts: () => store.accounts,
    buckets: () => state.buckets,
    slots: () => state.slots,
    kv: () => state.kv,
    cache: () => state.cacheOf(own.digest()),
    versions: () => state.versions,
    ledger: () => store.ledger,
    budgets: () => own.budgets,
    catalog: () => own.catalog,
    plans: () => own.plans,
    clock: () => clock,
    random: () => random,
    log: () => logFor(step.id),
    targets: () => own.targets,
  }
  return Object.fromEntries((step.plugin.uses ?? []).map(name => [name, all[name]()]))
}

function createUpstream(
  provider: Provider,
  { clock, deadlineClock, version, redact, log, transportTo, rawProxy = createRawProxy() }: GenerationParts,
): { upstream: Upstream; close: () => Promise<void>; ready?: Promise<void> } {
  if (transportTo || provider.dialect === 'demo') {
    const dispatch = transportTo?.(provider.name) ?? createDemo({ paceMs: provider.paceMs, clock }).dispatch
    return {
      upstream: {
        provider,
        // The demo speaks OpenAI's format; only its road is another: there is no network on it.
        dialect: createDialect('openai', clock.now, redact).dialect,
        transport: dispatch,
        rawProxy,
        sign: request => ({ headers: { ...request.headers }, ...NOBODY }),
        goodCredentials: () => 0,
        refusedCredentials: () => 0,
      },
      close: async () => {},
    }
  }
  const { connections, timeouts, baseUrl, name, azure, profile } = provider
  const transport = createHttpTransport({ name, baseUrl, connections, connectMs: timeouts.connectMs })
  const tokens = tokensOf(provider, { now: clock.now, log })
  // A token is a secret that no list has: it is new every hour.
  const redactAll = (text: string) => {
    const token = tokens?.current()
    return token ? redact(text).replaceAll(token, '[secret]') : redact(text)
  }
  const url = new URL(baseUrl)
  const basePath = url.pathname === '/' ? '' : url.pathname
  const { dialect, authorize } = createDialect(provider.dialect, clock.now, redactAll, azure, url.hostname, profile)
  const credentials = createCredentials<Credential>(provider.credentials, deadlineClock.now, (index, left) =>
    log.error({ provider: name, credential: index + 1, left }, 'the provider refuses this credential'),
  )
  const common = {
    'content-type': 'application/json',
    'accept-encoding': 'identity',
    'user-agent': `tollgate/${version}`,
    ...provider.headers,
  }
  const hasOwn = Object.keys(provider.headers).length > 0
  return {
    upstream: {
      provider,
      dialect,
      transport: transport.dispatch,
      rawProxy,
      goodCredentials: credentials.good,
      refusedCredentials: credentials.refused,
      sign(request) {
        const headers: Record<string, string> = { ...common, ...request.headers }
        // The operator's count for more than the dialect's: another `anthropic-version`, say.
        if (hasOwn) Object.assign(headers, provider.headers)
        const turn = credentials.next()
        if (turn === null) return { headers, ...NOBODY }
        const credential = isServiceAccount(turn.credential) ? (tokens?.current() ?? null) : turn.credential
        if (credential === null) return { headers, ...NOBODY }
        const [path, query = ''] = `${basePath}${request.path}`.split('?') as [string, string?]
        const signed = authorize(
          credential,
          { method: request.method ?? 'POST', host: url.host, path, query, headers, body: request.body },
          clock.now(),
        )
        const { refused, limited, taken } = turn
        Object.assign(headers, signed)
        if (hasOwn) Object.assign(headers, provider.headers)
        return { headers, refused, limited, taken }
      },
    },
    ...(tokens ? { ready: tokens.tried } : {}),
    close: async () => {
      tokens?.close()
      rawProxy.close()
      await transport.close()
    },
  }
}

/** For a service account: its access token, renewed as long as the generation lives. */
function tokensOf(
  { name, credentials: [account] }: Provider,
  { now, log }: { now(): number; log: Log },
): TokenKeeper | null {
  if (!isServiceAccount(account)) return null
  return keepToken({
    account,
    now,
    onProblem: detail => log.error({ provider: name, detail }, 'the service account got no access token'),
  })
}

function isServiceAccount(credential: Credential | undefined): credential is ServiceAccount {
  return typeof credential === 'object' && 'clientEmail' in credential
}

/** Whom to tell what the provider made of a request that says nothing of who sends it. */
const NOBODY: Omit<Signed, 'headers'> = { refused: () => 0, limited: () => 0, taken: () => {} }
