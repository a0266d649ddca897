/** The process: start, signals and shutdown of the gateway. */
import type { Server } from 'node:http'
import { availableParallelism } from 'node:os'
import type { Clock, Random } from '#contract'
import type { ApiParts } from './api/api-parts.ts'
import { controlPath, startControl } from './api/control/socket.ts'
import { REFUSED_WITH_DATABASE } from './api/control/verbs.ts'
import { type AppParts, createAdminApp, createListener, listen, type Readiness, setTimeouts } from './app.ts'
import { createDeadlineClock, type DeadlineClock, systemClock } from './common/clock.ts'
import { SharedCount } from './common/shared-count.ts'
import type { TelemetryConfig } from './common/telemetry-config.ts'
import { VERSION } from './common/version.ts'
import type { Configuration } from './config/configuration.ts'
import { answerDigest } from './config/digest.ts'
import { urlOf } from './config/listen-address.ts'
import { modelNames } from './config/models.ts'
import { builtinRegistry } from './loader/builtin.ts'
import type { Registry } from './loader/registry.ts'
import type { Logger } from './observe/log.ts'
import { createMetrics, type Metrics, metricsPage } from './observe/metrics.ts'
import { createShadowFigures } from './observe/shadow.ts'
import { createTelemetry } from './observe/telemetry/telemetry.ts'
import { createGeneration } from './request/generation.ts'
import { closeSoon } from './runtime/close-server.ts'
import { createDashboardServer, preparePage } from './runtime/dashboard-server.ts'
import { runDry, skippedByDryRun } from './runtime/dry-run.ts'
import { createLoader, hashOf, type Loader } from './runtime/loader.ts'
import { mainSources, ownSources } from './runtime/metric-sources.ts'
import type { LoadedConfiguration } from './runtime/operator-views.ts'
import { startOwnAlerts } from './runtime/own-alerts.ts'
import { logLevel, openLog } from './runtime/own-log.ts'
import { ConfigurationProblems, openOwnState } from './runtime/own-state.ts'
import { openOwnStore } from './runtime/own-store.ts'
import { createPast } from './runtime/recent-trails.ts'
import { brokenPlugin, createReloads, type LoadedFiles, type ReloadResult, type Reloads } from './runtime/reload.ts'
import { createReplicaViews } from './runtime/replica-views.ts'
import { alone, createServing, type ServingParts, type ServingSet } from './runtime/serving.ts'
import { createShutdown, followSignals, undoAll, watchUncaughtErrors } from './runtime/shutdown.ts'
import { threadsOf } from './runtime/thread-count.ts'
import { createThreadMemory } from './runtime/thread-state.ts'
import { ServingThreads, type ThreadsParts } from './runtime/threads.ts'
import type { State as StepState } from './state/state.ts'
import { openServedStore } from './store/engine/sqlite.ts'
import { createIds } from './store/ids.ts'
import { reportLosses } from './store/money/report-losses.ts'
import { sweepResponses } from './store/responses/sweep.ts'
import type { ServedStore } from './store/served-store.ts'

export interface ServeOptions {
  /** Absolute path of gateway.yaml. */
  readonly configFile: string
  readonly env: Readonly<Record<string, string | undefined>>
  /** Receives the log, line by line; default: the process's own stdout. */
  readonly stdout?: (text: string) => void
  readonly clock?: Clock
  readonly random?: Random
  /** The plugins that policies can name; the built-in ones, except in tests. */
  readonly registry?: Registry
  /** How long a step may continue after its answer is over; 5 s, shorter in tests. */
  readonly stepGraceMs?: number
  /** Opens the store; tests replace it to make the disk fail. */
  readonly open?: typeof openServedStore
  /** Builds the dashboard's page if needed and resolves with its folder; called only with a dashboard. */
  readonly page?: () => Promise<string>
  /** Whether this gateway handles signals, unhandled rejections and uncaught errors; the commands set it. */
  readonly signals?: boolean
}

export interface Running {
  /** The base URL for clients, without `/v1`. */
  readonly url: string
  readonly adminUrl: string | null
  /** The URL of the dashboard. */
  readonly dashboardUrl: string | null
  readonly store: ServedStore
  readonly configuration: Configuration
  /** Loads the files again; they serve if they are valid. */
  reload(): Promise<ReloadResult>
  /** Resolves with the exit code. */
  readonly finished: Promise<number>
  /** Starts an orderly shutdown; a second call cuts exchanges off. */
  drain(): void
}

/** Starts a gateway and resolves when it listens. On an error, everything started so far is undone, and the error is thrown. */
export async function serve(options: ServeOptions): Promise<Running> {
  const { load, textsOf } = createLoader(options.configFile, options.env, options.registry ?? builtinRegistry())
  const loaded = await load()
  if ('problems' in loaded) throw new ConfigurationProblems(loaded.problems, loaded.sources)
  const log = openLog(loaded.configuration, options)
  const undo: (() => unknown)[] = []
  try {
    return await start({ loaded, load, textsOf, log, options, undo })
  } catch (error) {
    await undoAll(undo, log)
    throw error
  }
}

interface StartParts {
  readonly loaded: LoadedFiles
  readonly load: LoadedConfiguration['again']
  readonly textsOf: Loader['textsOf']
  readonly log: Logger
  readonly options: ServeOptions
  readonly undo: (() => unknown)[]
}

/** The parts of the start that every stage uses. */
interface Foundation extends StartParts {
  readonly configuration: Configuration
  readonly clock: Clock
  readonly random: Random
  readonly deadlineClock: DeadlineClock
  readonly state: State
  /** Data that the services of steps keep between requests. */
  readonly kept: StepState
}

/** The mutable state of a serving gateway. */
interface State {
  mostInflight: number
  draining: boolean
  /** The units that serve clients; undefined while the gateway starts. */
  serving: ServingSet | undefined
  /** Set if several threads serve. */
  threads: ServingThreads | undefined
  /** Servers whose timeouts follow the serving configuration. */
  servers: readonly Server[]
}

async function start(parts: StartParts): Promise<Running> {
  const { configuration } = parts.loaded
  const { clock: time = systemClock, random = Math.random } = parts.options
  // A new object each time: steps use it as the key of data that survives a reload, and no two gateways may share that.
  const clock: Clock = { now: () => time.now() }
  const page = configuration.dashboard ? preparePage(parts.options.page) : null
  const state: State = {
    mostInflight: configuration.limits.maxInflight,
    draining: false,
    serving: undefined,
    threads: undefined,
    servers: [],
  }
  // 1. The store, with its lock: only one process writes to it.
  const { store, secret } = await openRecovered({ ...parts, clock, state })
  const kept = await openOwnState(parts.loaded, clock, parts.log)
  parts.undo.push(kept.close)
  // 2. Everything that the configuration describes.
  const deadlineClock = createDeadlineClock()
  parts.undo.push(deadlineClock.stop)
  reportLosses(store, configuration.store, { log: parts.log.log, watch: deadlineClock.watch })
  sweepResponses(store, { log: parts.log.log, watch: deadlineClock.watch })
  const base: Foundation = { ...parts, configuration, clock, random, deadlineClock, state, kept }
  const configHash = () => hashOf(parts.textsOf(reloads.running()), parts.options.configFile)
  const metrics = createMetrics(
    ownSources({ store, thread: 'main', deadlineClock, serving: () => state.serving?.figures() }),
    mainSources({
      store,
      state: kept,
      serving: () => state.serving,
      reloads: () => reloads,
      alerts: () => alerts,
      configHash,
    }),
  )
  parts.undo.push(metrics.close)
  const reloads = await createReloadsOf(base, store, metrics)
  // 3. The units that serve clients, the other listeners, and alerts.
  const { serving, past, ...urls } = await openListeners(base, { store, secret, metrics, reloads }, page)
  const alerts = startOwnAlerts({ ...base, store, metrics, reloads, serving })
  parts.undo.push(alerts.close)
  // 4. The control socket of the commands.
  const control = await startControl(store, controlPath(configuration.store, parts.options.configFile), {
    log: parts.log.log,
    clock,
    past,
    models: () => modelNames(reloads.generation().configuration),
    plans: () => reloads.generation().configuration.plans,
    budgetRules: () => reloads.generation().budgetRules,
    refused: configuration.store === 'memory' ? {} : REFUSED_WITH_DATABASE,
  })
  parts.undo.push(control.close)
  // 5. The shutdown.
  const { finished, drain } = followEnd(base, { metrics, reloads }, serving)
  logListening(parts.log, urls, unitsOf(base, store))
  return { ...urls, store, configuration, finished, reload: () => reloads.reload('asked'), drain }
}

interface OpenStore {
  readonly store: ServedStore
  /** The key for digests of API keys. */
  readonly secret: string
}

type Opening = StartParts & Pick<Foundation, 'clock' | 'state'>

async function openRecovered({ loaded, clock, log, options, undo, state }: Opening): Promise<OpenStore> {
  const open: typeof openServedStore = each =>
    (options.open ?? openServedStore)({ ...each, log: log.log, reserve: () => state.mostInflight })
  const { store, lock, secret } = await openOwnStore(loaded, clock, log, open)
  undo.push(
    () => lock?.release(),
    () => store.close(),
  )
  const { settled, replayed } = await store.recover()
  if (settled + replayed > 0) log.log.warn({ settled, replayed }, 'settled the open holds of a process that had died')
  return { store, secret }
}

async function createReloadsOf(base: Foundation, store: ServedStore, metrics: Metrics): Promise<Reloads> {
  const { loaded, load, textsOf, log, clock, random, deadlineClock, state, undo } = base
  const reloads = await createReloads({
    first: loaded,
    load,
    build(configuration, previous) {
      log.learn(configuration.secrets)
      const { log: own, forStep: logFor, redact } = log
      const common = { clock, random, deadlineClock, log: own, version: VERSION }
      const services = { ...common, store, state: base.kept, logFor, redact }
      // Several threads export their own telemetry.
      const telemetry =
        unitsOf(base, store) === 1
          ? (config: TelemetryConfig) =>
              createTelemetry(config, { ...common, redact, lane: null, dropped: metrics.telemetryDropped })
          : undefined
      return createGeneration({ configuration, previous, createTelemetry: telemetry, ...services })
    },
    async attempt({ configuration: { routes }, catalog, plans, healthTracker }) {
      const mistakes = await runDry(routes, { catalog, plans, targets: healthTracker, clock, random }, 'reload')
      return mistakes.map(({ position, message, suggestion }) => brokenPlugin(position, message, suggestion))
    },
    agree: async each => state.threads?.prepare(textsOf(each)),
    notRun: skippedByDryRun,
    log: log.log,
    redact: log.redact,
    now: clock.now,
    done(result) {
      metrics.reload(result)
      const { limits } = reloads.generation().configuration
      state.mostInflight = limits.maxInflight
      if (result === 'changed') state.serving?.changed(limits)
      for (const server of state.servers) setTimeouts(server, limits)
    },
  })
  undo.push(reloads.dispose)
  return reloads
}

interface Services extends OpenStore {
  readonly metrics: Metrics
  readonly reloads: Reloads
}

interface Urls {
  readonly url: string
  readonly adminUrl: string | null
  readonly dashboardUrl: string | null
}

interface OpenGateway extends Urls {
  readonly serving: ServingSet
  readonly past: ApiParts['past']
}

async function openListeners(
  base: Foundation,
  services: Services,
  page: ReturnType<typeof preparePage> | null,
): Promise<OpenGateway> {
  const { configuration, clock, log, undo, state, load } = base
  const { store, metrics, reloads } = services
  const ids = createIds(clock)
  let people: ReturnType<typeof createDashboardServer> | undefined
  const ready = () => readiness(state.draining, store.problem() ?? state.serving?.problem() ?? null, reloads.problem())
  const checkReadiness = async () => {
    await Promise.all([store.look(), state.serving?.look()])
    return ready()
  }
  const figures = createShadowFigures()
  const serving = await startServing(base, services, { figures, ready: checkReadiness, about: () => people?.about() })
  state.serving = serving
  undo.push(() => serving.close())
  const { views } = serving
  const port = await serving.listen(configuration.listen)
  const url = urlOf(configuration.listen.host, port)
  const [generation, redact] = [reloads.generation, log.redact]
  const past = createPast({ find: views.find, figures, startedAt: reloads.running().at, generation, redact })
  people = createDashboardServer({
    store,
    clock,
    log: log.log,
    version: VERSION,
    past,
    views: createReplicaViews({ ...store, views, watch: base.deadlineClock.watch }),
    generation: reloads.generation,
    loaded: () => ({ ...reloads.running(), again: load, redact: log.redact }),
    readiness: ready,
    clients: { url, port },
  })
  const parts: AppParts = {
    generation: reloads.generation,
    nextId: () => ids.next('req_'),
    ready: checkReadiness,
    metrics: async accept => metricsPage(metrics, await serving.metrics(), accept),
    reportBug: (exchange, error) => log.log.error({ exchange, error }, 'an unexpected error'),
  }
  const dashboard = configuration.dashboard && page ? await people.open(parts, configuration.dashboard, page) : null
  if (dashboard) undo.push(() => closeSoon(dashboard.server))
  const admin = configuration.admin
    ? createListener(createAdminApp(parts, people.operators(), people.isOperator), configuration.limits, parts.nextId)
        .server
    : null
  const adminUrl =
    admin && configuration.admin ? urlOf(configuration.admin.host, await listen(admin, configuration.admin)) : null
  if (admin) undo.push(() => closeSoon(admin))
  state.servers = [...(dashboard ? [dashboard.server] : []), ...(admin ? [admin] : [])]
  return { url, adminUrl, dashboardUrl: dashboard?.url ?? null, serving, past }
}

/** The number of serving threads; 1: this thread serves. */
function unitsOf({ configuration }: Foundation, store: ServedStore): number {
  return store.threads === null ? 1 : threadsOf(configuration, availableParallelism())
}

type ServingNeeds = Pick<ServingParts, 'figures'> & Pick<ThreadsParts, 'ready' | 'about'>

/** Serves from this thread, or from as many threads as configured. */
async function startServing(base: Foundation, services: Services, needs: ServingNeeds): Promise<ServingSet> {
  const { configuration, options, log, state, textsOf } = base
  const { store, secret, metrics, reloads } = services
  const stepGraceMs = options.stepGraceMs ?? STEP_GRACE_MS
  const count = unitsOf(base, store)
  if (store.threads === null || count === 1) {
    const admitted = new SharedCount()
    return alone(createServing({ ...base, ...needs, store, metrics, reloads, admitted, lane: 0, stepGraceMs }))
  }
  const serving = () => answerDigest(reloads.running().configuration)
  state.threads = await ServingThreads.start({
    ...needs,
    count,
    store: store.threads,
    state: base.kept,
    memory:
      configuration.state === null ? createThreadMemory({ clock: base.clock, threads: count, secret, serving }) : null,
    secret,
    configFile: options.configFile,
    env: options.env,
    logLevel: logLevel(options),
    stepGraceMs,
    log,
    write: log.write,
    retire: metrics.retire,
    texts: () => textsOf(reloads.running()),
    clock: base.deadlineClock,
  })
  return state.threads
}

function followEnd(base: Foundation, { metrics, reloads }: Pick<Services, 'metrics' | 'reloads'>, serving: ServingSet) {
  const { log, undo, options, state } = base
  const { promise: finished, resolve: finish } = Promise.withResolvers<number>()
  const drainMs = () => reloads.generation().configuration.drainMs
  const ending = createShutdown({ serving, log, drainMs, undo, finish })
  const drain = () => {
    state.draining = true
    ending()
  }
  if (options.signals !== false) {
    followSignals(drain, () => void reloads.reload('SIGHUP'), finished)
    reloads.watch(WATCH_EVERY_MS)
    watchUncaughtErrors(metrics.unhandledRejection, log, finished)
  }
  return { finished, drain }
}

function logListening({ log }: Logger, { url, adminUrl, dashboardUrl }: Urls, threads: number): void {
  const others = {
    ...(adminUrl === null ? {} : { admin: adminUrl }),
    ...(dashboardUrl === null ? {} : { dashboard: dashboardUrl }),
    ...(threads === 1 ? {} : { threads }),
  }
  log.info({ url, ...others, pid: process.pid, version: VERSION }, 'listening')
}

/** How long a step may continue after its answer is over. */
const STEP_GRACE_MS = 5_000

/** How often files are checked for changes. */
const WATCH_EVERY_MS = 1000

/** Invalid files do not stop the gateway from serving; they are reported beside. */
function readiness(draining: boolean, ledger: string | null, configuration: string | null): Readiness {
  if (draining) return { ready: false, reason: 'the gateway is shutting down' }
  if (ledger !== null) return { ready: false, reason: ledger }
  return configuration === null ? { ready: true } : { ready: true, configuration }
}
