/**
 * The runtime objects of one configuration: models, account plans, routes with their steps, and connections to providers. An exchange
 * keeps the generation in which it began.
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
import { budgetRules } from '../config/budget-rules.ts'
import type { Configuration, Credential, Provider, RouteConfig, ServiceAccount } from '../config/configuration.ts'
import { answerDigest } from '../config/digest.ts'
import { createCatalog } from '../config/model-catalog.ts'
import { createPlans } from '../config/plan-catalog.ts'
import { targetsOf } from '../config/target-entries.ts'
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

/** A provider with its dialect and transport. */
export interface Upstream {
  readonly provider: Provider
  readonly dialect: Dialect
  readonly transport: Transport
  readonly rawProxy: RawProxy
  /** Returns the headers of one request, with authentication, and callbacks for the provider's verdict on the credential. */
  sign(request: Pick<EncodedRequest, 'path' | 'headers' | 'body'> & { readonly method?: string }): SignedHeaders
  /** The number of credentials that are usable now. */
  goodCredentials(): number
  /** The number of credentials that the provider has refused and not accepted since. */
  refusedCredentials(): number
}

export interface SignedHeaders {
  /** Headers of this request only: the sender may add to them. */
  readonly headers: Record<string, string>
  /** Call it if the provider does not know the credential, or its quota is used up. Returns how many other credentials are usable. */
  refused(): number
  /** Call it if the provider rate-limits the credential for this long. Returns how many other credentials are usable. */
  limited(forMs: number): number
  /** Call it when the provider has accepted the credential. */
  accepted(): void
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
  /** Undefined without `telemetry` in gateway.yaml, and outside `serve`. The next generation takes over an unchanged one. */
  readonly telemetry: Telemetry | undefined
  /** By provider. The next generation takes over the connections of unchanged providers. */
  readonly providerConnections: ReadonlyMap<string, ProviderConnection>
  /** Releases its resources. Call it once, when no exchange uses the generation any more. */
  dispose(): Promise<void>
}

/** A provider's connections and credentials, shared by the generations in which the provider is the same. */
export interface ProviderConnection {
  readonly upstream: Upstream
  /** The number of generations that use it. */
  users: number
  readonly close: () => Promise<void>
}

export interface GenerationParts {
  readonly configuration: Configuration
  /** The generation that serves until this one does. Unchanged parts are taken over from it. */
  readonly previous?: Generation | undefined
  readonly store: Store
  /** Data that services keep between requests; it outlives the generation. */
  readonly state: State
  readonly clock: Clock
  readonly random: Random
  readonly version: string
  readonly deadlineClock: DeadlineClock
  readonly log: Log
  /** For tests without a network: replaces the transport of every provider, in the format of chat completions and without credentials. */
  readonly transportTo?: ((provider: string) => Transport) | undefined
  /** The same for raw routes. */
  readonly rawProxy?: RawProxy | undefined
  /** The `run` that steps see. Default: `serve`. */
  readonly run?: StepRun | undefined
  /** Left out: exchanges are not exported. */
  readonly createTelemetry?: ((config: TelemetryConfig) => Promise<Telemetry>) | undefined
  logFor(step: string): Log
  /** Removes the loaded secrets from a provider's texts. */
  redact(text: string): string
}

/** The first of the routes on one path whose steps accept this form of credential, else the first. */
export function routeFor(rawHeaders: readonly string[], routes: readonly LiveRoute[]): LiveRoute {
  const [first] = routes as [LiveRoute]
  if (routes.length === 1) return first
  const takes = ({ plan }: LiveRoute) => plan.steps.every(step => step.takes === null || step.takes(rawHeaders))
  return routes.find(takes) ?? first
}

/** Throws a `PlanError` if a step cannot be created. Everything created so far is closed then. */
export async function createGeneration(parts: GenerationParts): Promise<Generation> {
  const { configuration, previous } = parts
  const catalog = createCatalog(configuration)
  const planTable = createPlans(configuration)
  const closers: (() => Promise<void>)[] = []
  const dispose = () => disposeAll(closers.splice(0))
  try {
    // Health records and the retry budget survive a change of the configuration.
    const healthTracker =
      previous?.healthTracker ??
      new HealthTracker(parts.deadlineClock.now, (target, forMs) =>
        parts.log.warn({ target, for_ms: forMs }, 'a target is failing; other targets are tried first for a while'),
      )
    const entries = targetsOf(configuration)
    healthTracker.keep(entries)
    closers.push(async () => healthTracker.release(entries))
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
    // The steps of a policy are created once: all routes that use it share their state.
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
    // Each request for a first access token has its own timeout. A missing token is logged, and requested again later.
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
      parts.log.error({ error: worse }, 'some resources of a configuration that failed to start could not be released')
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

/** Returns exactly the services that a plugin names in `uses`. */
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
        // The demo answers in OpenAI's format, without a network.
        dialect: createDialect('openai', clock.now, redact).dialect,
        transport: dispatch,
        rawProxy,
        sign: request => ({ headers: { ...request.headers }, ...NO_CREDENTIAL }),
        goodCredentials: () => 0,
        refusedCredentials: () => 0,
      },
      close: async () => {},
    }
  }
  const { connections, timeouts, baseUrl, name, azure, profile } = provider
  const transport = createHttpTransport({ name, baseUrl, connections, connectMs: timeouts.connectMs })
  const tokens = tokensOf(provider, { now: clock.now, log })
  // A token is a secret that is not in the loaded list: it changes every hour.
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
        // The operator's headers override the dialect's, for instance `anthropic-version`.
        if (hasOwn) Object.assign(headers, provider.headers)
        const turn = credentials.next()
        if (turn === null) return { headers, ...NO_CREDENTIAL }
        const credential = isServiceAccount(turn.credential) ? (tokens?.current() ?? null) : turn.credential
        if (credential === null) return { headers, ...NO_CREDENTIAL }
        const [path, query = ''] = `${basePath}${request.path}`.split('?') as [string, string?]
        const signed = authorize(
          credential,
          { method: request.method ?? 'POST', host: url.host, path, query, headers, body: request.body },
          clock.now(),
        )
        const { refused, limited, accepted } = turn
        Object.assign(headers, signed)
        if (hasOwn) Object.assign(headers, provider.headers)
        return { headers, refused, limited, accepted }
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

/** The access token of a service account, renewed until the provider's connections are closed. */
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

/** The callbacks of a request without a credential. */
const NO_CREDENTIAL: Omit<SignedHeaders, 'headers'> = { refused: () => 0, limited: () => 0, accepted: () => {} }
