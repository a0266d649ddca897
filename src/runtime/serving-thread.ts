/**
 * A serving thread: one unit that serves clients (serving.ts), with its own listener, steps and connections. The main thread (threads.ts)
 * gives it configurations and ends it. The thread calls the main thread for shared data.
 */
import { isDeepStrictEqual } from 'node:util'
import { type MessagePort, workerData } from 'node:worker_threads'
import type { Clock } from '#contract'
import type { ExchangeView, ProviderView } from '../api/views.ts'
import type { About, Readiness } from '../app.ts'
import { createDeadlineClock, type DeadlineClock, systemClock } from '../common/clock.ts'
import { SharedCount } from '../common/shared-count.ts'
import { VERSION } from '../common/version.ts'
import type { Address } from '../config/configuration.ts'
import { loadConfiguration } from '../config/load.ts'
import { formatProblem } from '../config/yaml/problem.ts'
import { builtinRegistry } from '../loader/builtin.ts'
import { createLog, type Logger } from '../observe/log.ts'
import type { MetricValues } from '../observe/metric-registry.ts'
import { createMetrics } from '../observe/metrics.ts'
import type { ShadowExchange } from '../observe/shadow.ts'
import type { ExchangeSummary } from '../observe/summary.ts'
import { createTelemetry } from '../observe/telemetry/telemetry.ts'
import { createGeneration } from '../request/generation.ts'
import { attachStore } from '../store/engine/sqlite.ts'
import { laneOf } from '../store/ids.ts'
import type { StoreHandle } from '../store/served-store.ts'
import type { Store } from '../store/store.ts'
import { closeNow } from './close-server.ts'
import { type Texts, TODAY } from './loader.ts'
import { ownSources } from './metric-sources.ts'
import { createReloads, type LoadedFiles, type Reloads } from './reload.ts'
import { createServing, type Serving } from './serving.ts'
import { undoAll } from './shutdown.ts'
import { Calls } from './thread-calls.ts'
import { createThreadState, type SharedMemory, type StateHandlers } from './thread-state.ts'

/** The data of a new thread. */
export interface ServingThreadParts {
  readonly configFile: string
  readonly env: Readonly<Record<string, string | undefined>>
  /** The texts of all files of the configuration, by absolute path. */
  readonly texts: Texts
  readonly store: StoreHandle
  readonly secret: string
  readonly logLevel: string
  /** Exchanges of each thread whose bodies have arrived; `index` is this thread's word. */
  readonly admitted: Int32Array<SharedArrayBuffer>
  readonly index: number
  /** Memory that the threads share; null: a state server has it. */
  readonly memory: SharedMemory | null
  /** The number of serving threads. */
  readonly threads: number
  readonly stepGraceMs: number
  readonly port: MessagePort
}

/** Functions of the main thread for a serving thread. */
export type MainHandlers = StateHandlers & {
  log(lines: string): void
  shadowRan(run: { readonly exchange: ShadowExchange; readonly step: string; readonly code: string | null }): void
  ready(): Promise<Readiness>
  about(): About | undefined
  /** Finds an exchange in the memory of another thread. */
  find(id: string): Promise<ExchangeSummary | undefined>
}

export type ThreadHandlers = {
  /** Resolves with the port. */
  listen(address: Address): Promise<number>
  /** Creates the configuration of these texts, without serving it. */
  prepare(texts: Texts): Promise<void>
  /** Serves the configuration of these texts from now on. A thread that started after `prepare` creates it now. */
  commit(texts: Texts): Promise<void>
  abandon(): Promise<void>
  exchanges(): Promise<readonly ExchangeView[]>
  providers(): Promise<readonly ProviderView[]>
  metrics(): Promise<MetricValues>
  /** Resolves with the reason why this thread cannot charge exchanges, or null. */
  look(): Promise<string | null>
  find(id: string): Promise<ExchangeSummary | undefined>
  drain(): Promise<void>
  cut(): Promise<void>
  idle(): Promise<void>
  waiting(): Promise<number>
  flushed(): Promise<void>
  /** Releases everything, before the main thread terminates this one. Resolves with whether it succeeded. */
  end(): Promise<boolean>
}

const parts = workerData as ServingThreadParts
const clock: Clock = { now: () => systemClock.now() }
const undo: (() => unknown)[] = []
const started = Promise.withResolvers<RunningThread>()
/** The latest change of the configuration; the next one waits for it. */
let changing: Promise<unknown> = started.promise
/** The texts of the serving configuration. */
let running = parts.texts
const calls = new Calls<MainHandlers>(parts.port, handlersOf())
void start().then(started.resolve, started.reject)

/** A started thread; handlers wait for it. */
interface RunningThread {
  readonly unit: Serving
  readonly reloads: Reloads
  readonly log: Logger
}

async function load(texts: Texts): Promise<LoadedFiles> {
  const loaded = await loadConfiguration(parts.configFile, {
    env: parts.env,
    registry: builtinRegistry(),
    today: new Date(texts.get(TODAY)!),
    async readFile(path) {
      const text = texts.get(path)
      if (text === undefined) throw Object.assign(new Error(`ENOENT: ${path}`), { code: 'ENOENT' })
      return text
    },
  })
  if ('problems' in loaded) throw new Error(loaded.problems.map(problem => formatProblem(problem)).join('\n'))
  const { limits } = loaded.configuration
  // Each thread has a part of the memory, and room for at least one request.
  const bodyBytesInflight = Math.max(limits.bodyBytes, Math.floor(limits.bodyBytesInflight / parts.threads))
  return { ...loaded, configuration: { ...loaded.configuration, limits: { ...limits, bodyBytesInflight } } }
}

async function start(): Promise<RunningThread> {
  const first = await load(parts.texts)
  const log = createLog({
    level: parts.logLevel,
    secrets: [...first.configuration.secrets, parts.secret],
    destination: { write: lines => calls.notify('log', lines), takesBatches: true },
  })
  const admitted = new SharedCount(parts.admitted, parts.index)
  const store = await attachStore(parts.store, {
    secret: parts.secret,
    clock,
    log: log.log,
    reserve: () => reloads.generation().configuration.limits.maxInflight,
  })
  undo.push(() => store.close())
  const deadlineClock = createDeadlineClock()
  undo.push(deadlineClock.stop)
  const dropped = (spans: number) => metrics.telemetryDropped(spans)
  const reloads = await createFollower(first, { store, log, deadlineClock, dropped })
  // Reserves the space for its settles; /readyz reports problems.
  void store.look()
  const own = ownSources({ store, thread: 'serving', deadlineClock, serving: () => unit.figures() })
  const metrics = createMetrics(own, null)
  undo.push(metrics.close)
  process.on('unhandledRejection', error => {
    metrics.unhandledRejection()
    log.log.error({ error }, 'unhandled promise rejection')
  })
  const unit: Serving = createServing({
    store,
    clock,
    random: Math.random,
    deadlineClock,
    log,
    metrics,
    figures: { count: (exchange, step, code) => calls.notify('shadowRan', { exchange, step, code }) },
    reloads,
    admitted,
    lane: parts.store.lane,
    stepGraceMs: parts.stepGraceMs,
    ready: () => calls.call('ready'),
    about: () => calls.call('about'),
    findElsewhere: id => (laneOf(id) === parts.store.lane ? unit.views.find(id) : calls.call('find', id)),
    undo,
  })
  return { unit, reloads, log }
}

interface FollowerParts {
  readonly store: Store
  readonly log: Logger
  readonly deadlineClock: DeadlineClock
  dropped(spans: number): void
}

/** Follows the generations of the main thread: this thread reads no files itself. */
async function createFollower(
  first: LoadedFiles,
  { store, log, deadlineClock, dropped }: FollowerParts,
): Promise<Reloads> {
  const { memory, index, secret } = parts
  const state = createThreadState(calls, { memory, clock, index: index + 1, secret })
  const common = { clock, random: Math.random, deadlineClock, log: log.log, version: VERSION }
  const services = { ...common, store, state, logFor: log.forStep, redact: log.redact }
  const reloads = await createReloads({
    first,
    load: () => Promise.reject(new Error('a serving thread follows the main one')),
    build(configuration, previous) {
      log.learn(configuration.secrets)
      return createGeneration({
        configuration,
        previous,
        createTelemetry: config =>
          createTelemetry(config, { ...common, redact: log.redact, lane: parts.store.lane, dropped }),
        ...services,
      })
    },
    attempt: async () => [],
    notRun: () => [],
    log: log.log,
    redact: log.redact,
    now: clock.now,
    done() {},
  })
  undo.push(reloads.dispose)
  return reloads
}

/** Changes the configuration after earlier changes are done. */
function inTurn(change: (thread: RunningThread) => Promise<void>): Promise<void> {
  const mine = changing.then(async () => change(await started.promise))
  changing = mine.catch(() => {})
  return mine
}

async function commit({ unit, reloads }: RunningThread, texts: Texts): Promise<void> {
  // A thread that was started meanwhile has prepared nothing. It began with these texts, or with the previous ones.
  if (!reloads.commit() && !isDeepStrictEqual(texts, running)) {
    await reloads.prepare(await load(texts))
    reloads.commit()
  }
  running = texts
  unit.limit(reloads.generation().configuration.limits)
}

function handlersOf(): ThreadHandlers {
  const thread = started.promise
  const unit = thread.then(each => each.unit)
  let isDraining = false
  return {
    async listen(address) {
      const { unit } = await thread
      await changing
      if (isDraining) throw new Error('the gateway is shutting down')
      return unit.listen(address, true)
    },
    prepare: texts => inTurn(async ({ reloads }) => reloads.prepare(await load(texts))),
    commit: texts => inTurn(started => commit(started, texts)),
    abandon: () => inTurn(({ reloads }) => reloads.abandon()),
    exchanges: async () => (await unit).views.exchanges(),
    providers: async () => (await unit).views.providers(),
    metrics: async () => (await unit).views.metrics(),
    look: async () => (await unit).look(),
    find: async id => (await unit).views.find(id),
    async drain() {
      isDraining = true
      const { drain } = await unit
      drain()
    },
    cut: async () => (await unit).cut(),
    idle: async () => (await unit).idle(),
    waiting: async () => (await unit).waiting(),
    flushed: async () => (await unit).flushed(),
    async end() {
      const { unit, log } = await thread
      await closeNow(unit.server)
      const isOrderly = await undoAll(undo, log)
      log.flush()
      return isOrderly
    },
  }
}
