/** Start, signals, drain: the life of the process around the gateway. */
import { dirname } from 'node:path'
import type { Clock, Random } from '#contract'
import { controlPath, startControl } from './admin/control.ts'
import { REFUSED_WITH_DATABASE } from './admin/verbs.ts'
import { type AppParts, createAdminApp, createClientApp, createListener, listen } from './app.ts'
import { createWatchman, systemClock } from './clock.ts'
import { urlHost } from './config/address.ts'
import type { Configuration } from './config/configuration.ts'
import { loadConfiguration } from './config/load.ts'
import type { Problem } from './config/problem.ts'
import { closeNow, closeSoon, createEnding, followMistakes, followSignals } from './ending.ts'
import { createGateway, type Gateway } from './gateway.ts'
import { createGeneration } from './generation.ts'
import { exchangeLine } from './observe/exchange-line.ts'
import { createLog, type Logger } from './observe/log.ts'
import { createMetrics } from './observe/metrics.ts'
import type { LoadedConfiguration } from './overview.ts'
import { createPeople, preparePage } from './people.ts'
import { builtinRegistry } from './pipeline/builtin.ts'
import type { Registry } from './pipeline/registry.ts'
import { houseCost, recordOf } from './send/record.ts'
import { createIds } from './store/ids.ts'
import { type Lock, takeLock } from './store/lock.ts'
import { loadSecret } from './store/secret.ts'
import { openStore } from './store/sqlite.ts'
import { type Store, StoreError } from './store/store.ts'
import { createRawProxy } from './upstream/raw.ts'
import { VERSION } from './version.ts'

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
  const undo: (() => unknown)[] = []
  try {
    return await start({ ...loaded, again: load }, options, undo)
  } catch (error) {
    for (const step of undo.reverse()) await step()
    throw error
  }
}

type Loaded = Pick<LoadedConfiguration, 'configuration' | 'sources' | 'again'>

async function start(loaded: Loaded, options: ServeOptions, undo: (() => unknown)[]): Promise<Running> {
  const { configuration } = loaded
  const { clock = systemClock, random = Math.random } = options
  const log = openLog(configuration, options)
  const page = configuration.dashboard ? preparePage(options.page) : null
  // 1. The store, and with it the right to be the only one that writes to it.
  const { store, lock } = await openOwnStore(configuration, clock, log, options.open ?? openStore)
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
  const watchman = createWatchman()
  undo.push(watchman.stop)
  const generation = await createGeneration({
    configuration,
    store,
    clock,
    random,
    version: VERSION,
    watchman,
    log: log.log,
    logFor: log.forStep,
    redact: log.redact,
  })
  undo.push(generation.dispose)

  // 3. The gateway and its listeners.
  const rawProxy = createRawProxy()
  undo.push(rawProxy.close)
  const ids = createIds(clock)
  let draining = false
  const metrics = createMetrics({
    inflight: () => gateway.inflight(),
    holdsOpen: () => store.openHolds(),
    ledgerHealthy: () => store.healthy(),
    version: VERSION,
  })
  const gateway: Gateway = createGateway({
    store,
    clock,
    random,
    watchman,
    rawProxy,
    log: log.log,
    generation: () => generation,
    stepGraceMs: options.stepGraceMs ?? 5_000,
    reportStep({ error, ...report }) {
      metrics.stepFailed({ policy: report.policy, step: report.step })
      log.log.error({ ...report, ...(error === undefined ? {} : { error }) }, 'a step made a mistake')
    },
    reportBug: (exchange, error) => log.log.error({ exchange, error }, 'an unexpected error'),
    record(trip, ending) {
      const record = recordOf(trip, ending, clock)
      metrics.exchange({
        ...record,
        outcome: trip.exchange.outcome,
        charged: trip.exchange.charge?.amount,
        overrun: trip.exchange.charge?.overrun,
        cost: houseCost(trip),
      })
      for (const attempt of trip.exchange.attempts) metrics.attempt(attempt)
      log.log.info(exchangeLine(record), 'exchange')
    },
  })
  const parts: AppParts = {
    gateway,
    generation: () => generation,
    nextId: () => ids.next('req_'),
    ready: () => readiness(draining, store),
    metrics: metrics.render,
    reportBug: (exchange, error) => log.log.error({ exchange, error }, 'an unexpected error'),
  }
  const clients = createListener(createClientApp(parts), configuration.limits, parts.nextId)
  const port = await listen(clients.server, configuration.listen)
  const url = urlOf(configuration.listen.host, port)
  undo.push(() => closeNow(clients.server))
  const people = createPeople({
    store,
    clock,
    log: log.log,
    version: VERSION,
    gateway,
    generation: () => generation,
    loaded: { ...loaded, loadedAt: clock.now(), redact: log.redact },
    readiness: parts.ready,
    clients: { url, port },
  })
  const dashboard = configuration.dashboard && page ? await people.open(parts, configuration.dashboard, page) : null
  if (dashboard) undo.push(() => closeSoon(dashboard.server))
  const admin = configuration.admin
    ? createListener(createAdminApp(parts, people.operators()), configuration.limits, parts.nextId).server
    : null
  const adminUrl =
    admin && configuration.admin ? urlOf(configuration.admin.host, await listen(admin, configuration.admin)) : null
  if (admin) undo.push(() => closeSoon(admin))

  // 4. The commands.
  const control = await startControl(store, controlPath(configuration.store, options.configFile), {
    log: log.log,
    refused: configuration.store === 'memory' ? {} : REFUSED_WITH_DATABASE,
  })
  undo.push(control.close)
  // 5. The end, when it comes.
  const { promise: finished, resolve: finish } = Promise.withResolvers<number>()
  const ending = createEnding({
    gateway,
    clients,
    log,
    drainMs: () => configuration.drainMs,
    undo,
    finish,
  })
  const end = () => {
    draining = true
    ending()
  }
  if (options.signals !== false) {
    followSignals(end, log, finished)
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
  return { url, adminUrl, dashboardUrl, store, configuration, finished, drain: end }
}

function openLog({ secrets }: Configuration, { env, stdout }: ServeOptions): Logger {
  const level = env['LOG_LEVEL'] ?? 'info'
  try {
    return createLog({ level, secrets, ...(stdout ? { destination: { write: stdout } } : {}) })
  } catch (error) {
    throw new StoreError(`LOG_LEVEL: ${(error as Error).message}`)
  }
}

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
  const lock = await takeLock(path, clock)
  try {
    const secret = loadSecret(configuration.secret, dirname(path))
    log.learn([secret])
    return { store: await open({ url: configuration.store, secret, clock }), lock }
  } catch (error) {
    lock.release()
    throw error
  }
}

function readiness(draining: boolean, store: Store): { ready: boolean; reason?: string } {
  if (draining) return { ready: false, reason: 'the gateway is shutting down' }
  if (!store.healthy()) return { ready: false, reason: 'the ledger cannot be written' }
  return { ready: true }
}

function urlOf(host: string, port: number): string {
  const shown = host === '0.0.0.0' || host === '::' ? 'localhost' : host
  return `http://${urlHost(shown)}:${port}`
}
