/** The metrics of Node.js and of the process: event loop, garbage collection, memory, files. */
import { readdirSync, readFileSync, statSync } from 'node:fs'
import { constants, PerformanceObserver, performance } from 'node:perf_hooks'
import { getHeapStatistics } from 'node:v8'
import { metric } from './metric-list.ts'
import type { Registry } from './metric-registry.ts'

export interface NodeSources {
  readonly thread: 'main' | 'serving'
  /** Calls back on each round of a timer, with monotonic milliseconds, until the returned function is called. */
  watch(round: (atMs: number) => void): () => void
  /** The interval of the timer. */
  readonly roundMs: number
}

/** In seconds. Shorter delays are the resolution of the timer. */
const DELAY_BUCKETS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5]
const GC_BUCKETS = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1]

const { NODE_PERFORMANCE_GC_MAJOR: MAJOR, NODE_PERFORMANCE_GC_INCREMENTAL: INCREMENTAL } = constants
const KINDS = new Map([
  [MAJOR, 'major'],
  [INCREMENTAL, 'incremental'],
  [constants.NODE_PERFORMANCE_GC_WEAKCB, 'weakcb'],
])

/** Adds the metrics of this thread. @returns stops the measuring */
export function addThreadMetrics(registry: Registry, { thread, watch, roundMs }: NodeSources): () => void {
  const delays = registry.histogram(metric('nodejs_eventloop_delay_seconds'), DELAY_BUCKETS)
  let lastMs: number | null = null
  const unwatch = watch(atMs => {
    if (lastMs !== null) delays.observe((atMs - lastMs - roundMs) / 1000, null, thread)
    lastMs = atMs
  })
  registry.labelledSource(metric('nodejs_eventloop_time_seconds_total'), () => {
    const { active, idle } = performance.eventLoopUtilization()
    return [
      [[thread, 'active'], active / 1000],
      [[thread, 'idle'], idle / 1000],
    ]
  })
  const pauses = registry.histogram(metric('nodejs_gc_duration_seconds'), GC_BUCKETS)
  const observer = new PerformanceObserver(list => {
    for (const entry of list.getEntries()) {
      const { kind } = (entry as PerformanceEntry & { readonly detail: { readonly kind: number } }).detail
      pauses.observe(entry.duration / 1000, null, thread, KINDS.get(kind) ?? 'minor')
    }
  })
  observer.observe({ entryTypes: ['gc'] })
  const ofThread = (read: () => number) => () => [[[thread], read()]] as const
  registry.labelledSource(
    metric('nodejs_heap_size_used_bytes'),
    ofThread(() => getHeapStatistics().used_heap_size),
  )
  registry.labelledSource(
    metric('nodejs_heap_size_total_bytes'),
    ofThread(() => getHeapStatistics().total_heap_size),
  )
  registry.labelledSource(metric('nodejs_heap_used_ratio'), ofThread(heapUsedRatio))
  registry.labelledSource(
    metric('nodejs_external_memory_bytes'),
    ofThread(() => getHeapStatistics().external_memory),
  )
  return () => {
    unwatch()
    observer.disconnect()
  }
}

/** Adds the metrics of the process. @param isMain whether this thread reports them */
export function addProcessMetrics(registry: Registry, isMain: boolean): void {
  const add = (name: Parameters<typeof metric>[0], read: () => number | null) =>
    registry.source(metric(name), isMain ? read : () => null)
  add('process_start_time_seconds', () => performance.timeOrigin / 1000)
  add('process_cpu_seconds_total', () => {
    const { user, system } = process.cpuUsage()
    return (user + system) / 1e6
  })
  add('process_resident_memory_bytes', () => process.memoryUsage.rss())
  add('process_open_fds', openFiles)
  add('process_max_fds', mostFiles)
}

function heapUsedRatio(): number {
  const { used_heap_size: used, heap_size_limit: limit } = getHeapStatistics()
  return used / limit
}

const FILES = '/proc/self/fd'

function openFiles(): number | null {
  if (process.platform !== 'linux') return null
  // The size of the folder since Linux 6.2: reading ten thousand names takes 10 ms.
  const { size } = statSync(FILES)
  // One of the names is the open folder itself.
  return size > 0 ? size : readdirSync(FILES).length - 1
}

function mostFiles(): number | null {
  if (process.platform !== 'linux') return null
  const most = /^Max open files +(\d+|unlimited)/m.exec(readFileSync('/proc/self/limits', 'utf8'))?.[1]
  return most === 'unlimited' ? Number.POSITIVE_INFINITY : Number(most)
}
