/**
 * Serves clients in one thread: the gateway with its listener. A process has one such unit in the main thread, or one in each serving
 * thread (threads.ts). The interfaces here are what the rest of the process uses.
 */
import type { Server } from 'node:http'
import { type Clock, type Random, refuse } from '#contract'
import type { ExchangeView, ProviderView } from '../api/views.ts'
import { type ClientAppParts, createClientApp, createListener, listen, setTimeouts } from '../app.ts'
import { type DeadlineClock, ROUND_MS } from '../common/clock.ts'
import type { SharedCount } from '../common/shared-count.ts'
import type { Address, Limits } from '../config/configuration.ts'
import { Gateway } from '../gateway.ts'
import type { Logger } from '../observe/log.ts'
import type { MetricValues } from '../observe/metric-registry.ts'
import type { Metrics, ServingFigures } from '../observe/metrics.ts'
import type { ShadowFigures } from '../observe/shadow.ts'
import type { ExchangeSummary } from '../observe/summary.ts'
import { createOverload, type Overload } from '../request/http/overload.ts'
import { THREAD_QUEUE } from '../request/http/owners.ts'
import { mistakeWords } from '../request/pipeline/step-report.ts'
import { summaryOf } from '../request/send/exchange-summary.ts'
import { tracedOf } from '../request/send/exchange-trace.ts'
import type { FindRecent } from '../request/send/lookup.ts'
import { createIds } from '../store/ids.ts'
import { type Promised, promised } from '../store/promised.ts'
import type { Store } from '../store/store.ts'
import { closeNow } from './close-server.ts'
import { servingFigures } from './metric-sources.ts'
import { exchangeView, providerViews } from './operator-views.ts'
import { createRecentTrails } from './recent-trails.ts'
import type { Reloads } from './reload.ts'

/** The operators' views of a unit. */
export interface ServingViews {
  exchanges(): readonly ExchangeView[]
  providers(): readonly ProviderView[]
  /** Finds one of its recent exchanges. */
  find(id: string): ExchangeSummary | undefined
  metrics(): MetricValues
}

/** The shutdown of a unit. */
export interface ServingEnd {
  /** The number of exchanges in progress. */
  inflight(): number
  /** Refuses new work from now on. */
  drain(): void
  /** Ends exchanges in progress with an error. */
  cut(): void
  /** Resolves when no exchange is in progress. */
  idle(): Promise<void>
  /** The number of settles that are in memory only. */
  waiting(): Promise<number>
  /** Resolves when no charge is in memory only. */
  flushed(): Promise<void>
}

export interface Serving extends ServingEnd {
  readonly views: ServingViews
  readonly server: Server
  /** Its state, for metrics. */
  figures(): ServingFigures
  /** Checks whether it can charge exchanges. Resolves with the problem, or null. */
  look(): Promise<string | null>
  /** Resolves with the actual port. @param isShared several threads share the address */
  listen(address: Address, isShared: boolean): Promise<number>
  /** Applies changed limits. */
  limit(limits: Limits): void
}

/** All units of the process: one, or several threads. */
export interface ServingSet extends ServingEnd {
  readonly views: Promised<Omit<ServingViews, 'metrics'>>
  /** The metrics of other threads. */
  metrics(): Promise<readonly MetricValues[]>
  /** The state of the unit in the main thread; undefined: it has no unit. */
  figures(): ServingFigures | undefined
  /** The serving threads by their last metrics, and how many have ended because of an error. */
  threads(): { readonly answering: number; readonly silent: number; readonly deaths: number }
  /** The number of requests that wait for a slot in shared memory. */
  queued(): number
  /** Checks whether other threads can charge exchanges. */
  look(): Promise<void>
  /** Why requests may fail, by the last check: no thread, or one that cannot charge them. Null: no problem. */
  problem(): string | null
  /** Resolves with the actual port. */
  listen(address: Address): Promise<number>
  /** Applies a changed configuration. */
  changed(limits: Limits): void
  close(): Promise<void>
}

/** Wraps a single unit in the main thread. */
export function alone(serving: Serving): ServingSet {
  return {
    ...serving,
    views: promised(serving.views),
    metrics: async () => [],
    threads: () => ({ answering: 1, silent: 0, deaths: 0 }),
    queued: () => 0,
    // The main thread checks itself.
    look: async () => {},
    problem: () => null,
    listen: address => serving.listen(address, false),
    changed: serving.limit,
    close: () => closeNow(serving.server),
  }
}

export interface ServingParts {
  readonly store: Store
  readonly clock: Clock
  readonly random: Random
  readonly deadlineClock: DeadlineClock
  readonly log: Logger
  readonly metrics: Metrics
  readonly figures: Pick<ShadowFigures, 'count'>
  readonly reloads: Pick<Reloads, 'generation' | 'entered' | 'left'>
  readonly admitted: SharedCount
  /** The thread's number, which is part of its exchanges' ids. */
  readonly lane: number
  readonly stepGraceMs: number
  readonly ready: ClientAppParts['ready']
  readonly about: NonNullable<ClientAppParts['about']>
  /** Finds an exchange in the memory of another thread; left out: there are no other threads. */
  readonly findElsewhere?: FindRecent
  readonly undo: (() => unknown)[]
}

export function createServing(parts: ServingParts): Serving {
  const { store, clock, log, metrics, reloads, undo, deadlineClock, findElsewhere } = parts
  const { generation } = reloads
  const recent = createRecentTrails(parts)
  const ids = createIds(clock, { lane: parts.lane })
  let isOverloaded = false
  const overload = createOverload({
    mostMs: () => generation().configuration.limits.eventLoopMs,
    roundMs: ROUND_MS,
    cpuMs: threadCpuMs,
    slices: THREAD_QUEUE.slices,
    refused: () => metrics.refused('overloaded'),
    changed(now) {
      isOverloaded = now
      if (now)
        log.log.warn({}, 'the event loop is overloaded: requests of the accounts with most of the work are refused')
      else log.log.warn({}, 'the overload of the event loop has ended')
    },
  })
  undo.push(deadlineClock.watch(overload.round))
  const gateway = createGateway(parts, overload, recent, findElsewhere ?? recent.find)
  const app = createClientApp({
    gateway,
    generation,
    nextId: () => ids.next('req_'),
    ready: parts.ready,
    about: parts.about,
    refused: metrics.refused,
    reportBug: (exchange, error) => log.log.error({ exchange, error }, 'an unexpected error'),
  })
  const clients = createListener(app, generation().configuration.limits, () => ids.next('req_'), overload)
  return {
    views: {
      exchanges: () => gateway.exchanges().map(exchangeView),
      providers: () => providerViews(generation(), clock.now()),
      find: recent.find,
      metrics: metrics.values,
    },
    server: clients.server,
    figures: () => servingFigures(generation(), gateway.exchanges(), isOverloaded),
    listen: (address, isShared) => listen(clients.server, address, isShared),
    async look() {
      await store.look()
      return store.problem()
    },
    limit: limits => setTimeouts(clients.server, limits),
    inflight: () => gateway.inflight(),
    drain() {
      gateway.drain()
      clients.server.close()
      clients.server.closeIdleConnections()
    },
    cut() {
      gateway.cut()
      clients.cutBodies(refuse('shutting_down', { retryAfterMs: 1000 }))
    },
    idle: () => gateway.idle(),
    waiting: async () => store.unwritten().waiting,
    flushed: store.flushed,
  }
}

function createGateway(
  { store, clock, random, deadlineClock, log, metrics, reloads, admitted, lane, stepGraceMs }: ServingParts,
  overload: Overload,
  recent: ReturnType<typeof createRecentTrails>,
  findRecent: FindRecent,
): Gateway {
  return new Gateway({
    store,
    clock,
    random,
    deadlineClock,
    log: log.log,
    generation: reloads.generation,
    entered: reloads.entered,
    left: reloads.left,
    admitted,
    overload,
    isOneOfSeveral: lane > 0,
    stepGraceMs,
    reportStep({ error, ...report }) {
      metrics.stepFailed({ policy: report.policy, step: report.step })
      log.log.error(
        { ...report, what: mistakeWords(report), ...(error === undefined ? {} : { error }) },
        'a plugin failed',
      )
    },
    reportBug: (exchange, error) => log.log.error({ exchange, error }, 'an unexpected error'),
    findRecent,
    record(exchange, sent) {
      const summary = summaryOf(exchange, sent, clock)
      const { telemetry } = exchange.generation
      if (telemetry !== undefined) telemetry.record(tracedOf(exchange, summary))
      recent.remember(summary, exchange.plan)
      metrics.exchange(summary)
      log.exchange(summary)
    },
  })
}

function threadCpuMs(): number {
  const { user, system } = process.threadCpuUsage()
  return (user + system) / 1000
}
