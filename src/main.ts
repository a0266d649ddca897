/** Start, signals, drain: the life of the process around the gateway. */
import type { Server } from 'node:http'
import { dirname } from 'node:path'
import type { Clock, Random } from '#contract'
import { controlPath, startControl } from './api/control/socket.ts'
import { REFUSED_WITH_DATABASE } from './api/control/verbs.ts'
import {
  type AppParts,
  createAdminApp,
  createClientApp,
  createListener,
  listen,
  type Readiness,
  setTimeouts,
} from './app.ts'
import { createDeadlineClock, systemClock } from './common/clock.ts'
import { VERSION } from './common/version.ts'
import { urlHost } from './config/address.ts'
import type { Configuration } from './config/configuration.ts'
import { loadConfiguration } from './config/load.ts'
import { modelNames } from './config/models.ts'
import type { Problem } from './config/yaml/problem.ts'
import { Gateway } from './gateway.ts'
import { builtinRegistry } from './loader/builtin.ts'
import type { Registry } from './loader/registry.ts'
import { createLog, type Logger } from './observe/log.ts'
import { createMetrics } from './observe/metrics.ts'
import { createRawProxy } from './providers/raw.ts'
import { createOverload } from './request/http/overload.ts'
import { mistakeWords } from './request/pipeline/step-report.ts'
import { summaryOf } from './request/send/record.ts'
import { createDashboardServer, preparePage } from './runtime/dashboard-server.ts'
import { notDryRun, runDry } from './runtime/dry-run.ts'
import { createGeneration } from './runtime/generation.ts'
import type { LoadedConfiguration } from './runtime/operator-views.ts'
import { createRecentTrails } from './runtime/recent.ts'
import { createReloads, type Loaded, type ReloadResult } from './runtime/reload.ts'
import { closeNow, closeSoon, createShutdown, followMistakes, followSignals, undoAll } from './runtime/shutdown.ts'
import { StoreError } from './store/error.ts'
import { realPath } from './store/files.ts'
import { createIds } from './store/ids.ts'
import { type Lock, takeLock } from './store/lock.ts'
import { reportLosses } from './store/report-losses.ts'
import { loadSecret, secretPlace } from './store/secret.ts'
import { openStore } from './store/sqlite.ts'
import type { Store } from './store/store.ts'
import { sweepResponses } from './store/sweep.ts'

export interface ServeOptions {
  /** Absolute path of gateway.yaml. */
  readonly configFile: string
  readonly env: Readonly<Record<string, string | undefined>>
  /** Takes the log, line by line; default: the process's own stdout. */
  readonly stdout?: (text: string) => void
  readonly clock?: Clock
  readonly random?: Random
  /** Where policies find their plugins; the built-in ones unless a test brings its own. */
  readonly registry?: Registry
  /** How long a step may go on after an answer is over; 5 s unless a test is in a hurry. */
  readonly stepGraceMs?: number
  /** What the store is opened with; tests make the disk fail. */
  readonly open?: typeof openStore
  /** Makes sure that the page of the dashboard is built, and answers with its folder; called only where there is a dashboard. */
  readonly page?: () => Promise<string>
  /** Whether signals, unhandled rejections and uncaught errors are this gateway's; the commands say yes. */
  readonly signals?: boolean
}

export interface Running {
  /** Where clients reach it, without `/v1`. */
  readonly url: string
  readonly adminUrl: string | null
  /** Where people open the dashboard. */
  readonly dashboardUrl: string | null
  readonly store: Store
  readonly configuration: Configuration
  /** Loads the files again; they serve when nothing is wrong with them. */
  reload(): Promise<ReloadResult>
  /** The exit code, when it has ended. */
  readonly finished: Promise<number>
  /** Begins the orderly end; a second call cuts. */
  drain(): void
}

/** The configuration has problems, so nothing was started. */
export class ConfigurationProblems extends Error {
  override readonly name = 'ConfigurationProblems'
  readonly problems: readonly Problem[]
  readonly sources: ReadonlyMap<string, string>

  constructor(problems: readonly Problem[], sources: ReadonlyMap<string, string>) {
    super(`the configuration has ${problems.length} problem${problems.length === 1 ? '' : 's'}`)
    this.problems = problems
    this.sources = sources
  }
}

/** Starts a gateway and resolves when it listens. What fails on the way is undone and thrown. */
export async function serve(options: ServeOptions): Promise<Running> {
  const load = () =>
    loadConfiguration(options.configFile, { env: options.env, registry: options.registry ?? builtinRegistry() })
  const loaded = await load()
  if ('problems' in loaded) throw new ConfigurationProblems(loaded.problems, loaded.sources)
  const log = openLog(loaded.configuration, options)
  const undo: (() => unknown)[] = []
  try {
    return await start({ loaded, load, log, options, undo })
  } catch (error) {
    await undoAll(undo, log)
    throw error
  }
}

interface StartParts {
  readonly loaded: Loaded
  readonly load: LoadedConfiguration['again']
  readonly log: Logger
  readonly options: ServeOptions
  readonly undo: (() => unknown)[]
}

async function start({ loaded, load, log, options, undo }: StartParts): Promise<Running> {
  const { configuration } = loaded
  const { clock: time = systemClock, random = Math.random } = options
  // An object of its own: steps keep by it what outlives a reload, and no two gateways share that.
  const clock: Clock = { now: () => time.now() }
  const page = configuration.dashboard ? preparePage(options.page) : null
  // 1. The store, and with it the right to be the only one that writes to it.
  let mostInflight = configuration.limits.maxInflight
  const open: typeof openStore = each =>
    (options.open ?? openStore)({ ...each, log: log.log, reserve: () => mostInflight })
  const { store, lock } = await openOwnStore(configuration, clock, log, open)
  undo.push(
    () => lock?.release(),
    () => store.close(),
  )
  const recovered = await store.recover()
  if (recovered.settled + recovered.replayed > 0) {
    log.log.warn(
      { settled: recovered.settled, replayed: recovered.replayed },
      'recovered what a dead process left open',
    )
  }

  // 2. What the configuration describes.
  const deadlineClock = createDeadlineClock()
  undo.push(deadlineClock.stop)
  reportLosses(store, configuration.store, { log: log.log, watch: deadlineClock.watch })
  sweepResponses(store, { log: log.log, watch: deadlineClock.watch })
  const servers: Server[] = []
  let isOverloaded = false
  const metrics = createMetrics({
    isOverloaded: () => isOverloaded,
    inflight: () => gateway.inflight(),
    holdsOpen: () => store.openHolds(),
    ledgerHealthy: () => store.healthy(),
    unwritten: store.unwritten,
    version: VERSION,
  })
  const reloads = await createReloads({
    first: loaded,
    load,
    build(configuration, previous) {
      log.learn(configuration.secrets)
      const { log: own, forStep: logFor, redact } = log
      return createGeneration({
        configuration,
        previous,
        store,
        clock,
        random,
        version: VERSION,
        deadlineClock,
        log: own,
        logFor,
        redact,
      })
    },
    async attempt({ configuration: { routes }, catalog, healthTracker }) {
      const mistakes = await runDry(routes, { catalog, targets: healthTracker, clock, random }, 'reload')
      return mistakes.map(({ sentence }) => sentence)
    },
    notRun: notDryRun,
    log: log.log,
    redact: log.redact,
    now: clock.now,
    done(result) {
      metrics.reload(result)
      const { limits } = reloads.generation().configuration
      mostInflight = limits.maxInflight
      for (const server of servers) setTimeouts(server, limits)
    },
  })
  undo.push(reloads.dispose)

  // 3. The gateway and its listeners.
  const rawProxy = createRawProxy()
  undo.push(rawProxy.close)
  const ids = createIds(clock)
  let draining = false
  const past = createRecentTrails({ metrics, startedAt: reloads.running().at, generation: reloads.generation })
  const gateway = new Gateway({
    store,
    clock,
    random,
    deadlineClock,
    rawProxy,
    log: log.log,
    generation: reloads.generation,
    entered: reloads.entered,
    left: reloads.left,
    stepGraceMs: options.stepGraceMs ?? 5_000,
    reportStep({ error, ...report }) {
      metrics.stepFailed({ policy: report.policy, step: report.step })
      log.log.error(
        { ...report, what: mistakeWords(report), ...(error === undefined ? {} : { error }) },
        'a step made a mistake',
      )
    },
    reportBug: (exchange, error) => log.log.error({ exchange, error }, 'an unexpected error'),
    findRecent: past.find,
    record(exchange, told) {
      const summary = summaryOf(exchange, told, clock)
      past.remember(summary, exchange.plan)
      metrics.exchange(summary)
      log.exchange(summary)
    },
  })
  let people: ReturnType<typeof createDashboardServer> | undefined
  const ready = () => readiness(draining, store.problem(), reloads.problem())
  const parts: AppParts = {
    gateway,
    generation: reloads.generation,
    nextId: () => ids.next('req_'),
    async ready() {
      await store.look()
      return ready()
    },
    about: () => people?.about(),
    metrics: metrics.render,
    reportBug: (exchange, error) => log.log.error({ exchange, error }, 'an unexpected error'),
  }
  const overload = createOverload({
    mostMs: () => reloads.generation().configuration.limits.eventLoopMs,
    cpuMs: threadCpuMs,
    random,
    changed(now) {
      isOverloaded = now
      if (now) log.log.warn({}, 'the event loop is overloaded: a part of the new requests is refused')
      else log.log.warn({}, 'the event loop is no longer overloaded')
    },
  })
  undo.push(deadlineClock.watch(overload.round))
  const clients = createListener(createClientApp(parts), configuration.limits, parts.nextId, overload)
  const port = await listen(clients.server, configuration.listen)
  const url = urlOf(configuration.listen.host, port)
  undo.push(() => closeNow(clients.server))
  people = createDashboardServer({
    store,
    clock,
    log: log.log,
    version: VERSION,
    gateway,
    past,
    generation: reloads.generation,
    loaded: () => ({ ...reloads.running(), again: load, redact: log.redact }),
    readiness: ready,
    clients: { url, port },
  })
  const dashboard = configuration.dashboard && page ? await people.open(parts, configuration.dashboard, page) : null
  if (dashboard) undo.push(() => closeSoon(dashboard.server))
  const admin = configuration.admin
    ? createListener(createAdminApp(parts, people.operators(), people.isOperator), configuration.limits, parts.nextId)
        .server
    : null
  const adminUrl =
    admin && configuration.admin ? urlOf(configuration.admin.host, await listen(admin, configuration.admin)) : null
  if (admin) undo.push(() => closeSoon(admin))

  servers.push(clients.server, ...(dashboard ? [dashboard.server] : []), ...(admin ? [admin] : []))

  // 4. The commands.
  const control = await startControl(store, controlPath(configuration.store, options.configFile), {
    log: log.log,
    past,
    models: () => modelNames(reloads.generation().configuration),
    refused: configuration.store === 'memory' ? {} : REFUSED_WITH_DATABASE,
  })
  undo.push(control.close)
  // 5. The end, when it comes.
  const { promise: finished, resolve: finish } = Promise.withResolvers<number>()
  const ending = createShutdown({
    gateway,
    clients,
    log,
    drainMs: () => reloads.generation().configuration.drainMs,
    store,
    undo,
    finish,
  })
  const end = () => {
    draining = true
    ending()
  }
  if (options.signals !== false) {
    followSignals(end, () => void reloads.reload('SIGHUP'), finished)
    reloads.watch(WATCH_EVERY_MS)
    followMistakes(metrics.unhandledRejection, log, finished)
  }
  log.log.info(
    {
      url,
      ...(adminUrl === null ? {} : { admin: adminUrl }),
      ...(dashboard === null ? {} : { dashboard: dashboard.url }),
      pid: process.pid,
      version: VERSION,
    },
    'listening',
  )
  const dashboardUrl = dashboard?.url ?? null
  const reload = () => reloads.reload('asked')
  return { url, adminUrl, dashboardUrl, store, configuration, finished, reload, drain: end }
}

function threadCpuMs(): number {
  const { user, system } = process.threadCpuUsage()
  return (user + system) / 1000
}

function openLog({ secrets }: Configuration, { env, stdout }: ServeOptions): Logger {
  const level = env['LOG_LEVEL'] ?? 'info'
  try {
    return createLog({ level, secrets, ...(stdout ? { destination: { write: stdout } } : {}) })
  } catch (error) {
    throw new StoreError(`LOG_LEVEL: ${(error as Error).message}`)
  }
}

/** How soon a changed file is noticed. */
const WATCH_EVERY_MS = 1000

async function openOwnStore(
  configuration: Configuration,
  clock: Clock,
  log: Logger,
  open: typeof openStore,
): Promise<{ store: Store; lock: Lock | null }> {
  if (configuration.store === 'memory') {
    // Nothing outlives the process, so a secret of its own will do.
    const secret = configuration.secret ?? `${crypto.randomUUID()}${crypto.randomUUID()}`
    return { store: await open({ url: 'memory', secret, clock }), lock: null }
  }
  const path = configuration.store.slice('sqlite:'.length)
  const lock = await takeLock(path, clock, 'serve')
  try {
    const real = realPath(path)
    const secret = loadSecret(configuration.secret, dirname(real), real)
    log.learn([secret])
    const place = secretPlace(configuration.secret, dirname(real))
    return { store: await open({ url: configuration.store, secret, secretPlace: place, clock }), lock }
  } catch (error) {
    lock.release()
    throw error
  }
}

/** Files that cannot be served keep nobody from serving: they are told beside. */
function readiness(draining: boolean, ledger: string | null, configuration: string | null): Readiness {
  if (draining) return { ready: false, reason: 'the gateway is shutting down' }
  if (ledger !== null) return { ready: false, reason: ledger }
  return configuration === null ? { ready: true } : { ready: true, configuration }
}

function urlOf(host: string, port: number): string {
  const shown = host === '0.0.0.0' || host === '::' ? 'localhost' : host
  return `http://${urlHost(shown)}:${port}`
}
