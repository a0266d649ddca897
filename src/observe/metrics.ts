/** What /metrics tells, about a dozen series: their names and meanings as data, and one method for each thing that happens. */
import { formatMoney } from '#contract'
import { createRegistry, type MetricDefinition, type MetricValues } from './metric-registry.ts'
import type { ExchangeSummary } from './summary.ts'

/** Every metric, in the order of the page. */
export const METRICS = [
  {
    name: 'tollgate_exchanges_total',
    type: 'counter',
    labels: ['route', 'outcome', 'code'],
    help: 'Exchanges that are over. code is that of the error, or none.',
  },
  {
    name: 'tollgate_exchange_duration_seconds',
    type: 'histogram',
    labels: ['route'],
    help: 'From the head of the request to the end of its answer.',
  },
  {
    name: 'tollgate_first_chunk_seconds',
    type: 'histogram',
    labels: ['model'],
    help: 'From the head of the request to the first piece of its answer.',
  },
  {
    name: 'tollgate_tokens_total',
    type: 'counter',
    labels: ['model', 'type'],
    help: 'Tokens by the price they have: input (not cached), cached_input, cache_write, output (reasoning included). They add up.',
  },
  {
    name: 'tollgate_charged_dollars_total',
    type: 'counter',
    labels: ['model'],
    help: 'What customers were charged.',
  },
  {
    name: 'tollgate_cost_dollars_total',
    type: 'counter',
    labels: ['target'],
    help: "What answers cost the operator, by the target's own cost. Targets without one are not counted.",
  },
  {
    name: 'tollgate_overrun_dollars_total',
    type: 'counter',
    labels: [],
    help: "What usage would have cost beyond its hold: the operator's loss.",
  },
  {
    name: 'tollgate_attempts_total',
    type: 'counter',
    labels: ['target', 'code'],
    help: 'Tries at a target. code is that of the failure, or none.',
  },
  {
    name: 'tollgate_steps_failed_total',
    type: 'counter',
    labels: ['policy', 'step'],
    help: 'Mistakes of steps: each is a bug of a plugin.',
  },
  {
    name: 'tollgate_shadow_runs_total',
    type: 'counter',
    labels: ['policy', 'step'],
    help: 'Exchanges in which a step in shadow ran.',
  },
  {
    name: 'tollgate_shadow_refusals_total',
    type: 'counter',
    labels: ['policy', 'step', 'code'],
    help: 'Of them, those that it would have refused. code is that of the error, or answered: it would have answered by itself.',
  },
  {
    name: 'tollgate_unhandled_rejections_total',
    type: 'counter',
    labels: [],
    help: 'Promises that were rejected and that nobody waited for: each is a bug, mostly of a plugin.',
  },
  {
    name: 'tollgate_reloads_total',
    type: 'counter',
    labels: ['result'],
    help: 'Reloads of the configuration: changed, unchanged, refused.',
  },
  {
    name: 'tollgate_overloaded',
    type: 'gauge',
    labels: [],
    help: '1 while the event loop is overloaded and new requests are refused, else 0.',
    ofThreads: 'largest',
  },
  { name: 'tollgate_inflight_exchanges', type: 'gauge', labels: [], help: 'Exchanges under way.' },
  { name: 'tollgate_holds_open', type: 'gauge', labels: [], help: 'Holds that are not settled yet.' },
  {
    name: 'tollgate_settles_spooled',
    type: 'gauge',
    labels: [],
    help: 'Settles that could not be written in time, are on disk in the spool, and are tried again.',
    ofThreads: 'sum',
  },
  {
    name: 'tollgate_settles_waiting',
    type: 'gauge',
    labels: [],
    help: 'Settles that the disk refused altogether: only this process knows them, and tries again.',
    ofThreads: 'sum',
  },
  { name: 'tollgate_ledger_healthy', type: 'gauge', labels: [], help: '1 when the ledger can be written, else 0.' },
  {
    name: 'tollgate_state_lost',
    type: 'gauge',
    labels: [],
    help: '1 while the state server does not answer and each replica limits by its share, else 0.',
  },
  {
    name: 'tollgate_state_failures_total',
    type: 'counter',
    labels: [],
    help: 'Calls that the state server did not answer in time, or answered with an error.',
  },
  {
    name: 'tollgate_telemetry_dropped_total',
    type: 'counter',
    labels: [],
    help: 'Spans that could not be exported to the collector.',
  },
  { name: 'tollgate_build_info', type: 'gauge', labels: ['version'], help: 'Always 1; the version is in the label.' },
  {
    name: 'tollgate_config_info',
    type: 'gauge',
    labels: ['hash'],
    help: 'Always 1; the label is a hash of the files of the configuration that serves.',
  },
  { name: 'process_start_time_seconds', type: 'gauge', labels: [], help: 'When the process started, since the epoch.' },
  { name: 'process_cpu_seconds_total', type: 'counter', labels: [], help: 'CPU time of the process, user and system.' },
  { name: 'process_resident_memory_bytes', type: 'gauge', labels: [], help: 'Memory of the process in RAM.' },
] as const satisfies readonly MetricDefinition[]

/** What is counted of an exchange. */
export type ExchangeMeasures = Pick<
  ExchangeSummary,
  'route' | 'outcome' | 'code' | 'ms' | 'model' | 'firstChunkMs' | 'usage' | 'charge' | 'cost' | 'target' | 'attempts'
>

export interface Metrics {
  exchange(summary: ExchangeMeasures): void
  stepFailed(step: { readonly policy: string; readonly step: string }): void
  /** A step in shadow ran. `code` of what it would have refused; null: it let the exchange pass. */
  shadowRan(run: { readonly policy: string; readonly step: string; readonly code: string | null }): void
  unhandledRejection(): void
  reload(result: 'changed' | 'unchanged' | 'refused'): void
  /** Spans that no collector will have. */
  telemetryDropped(spans: number): void
  /** The page, in the text format 0.0.4. */
  /** @param others values of the serving threads, which are added */
  render(others?: readonly MetricValues[]): string
  /** For the main thread: what this thread has counted. */
  values(): MetricValues
}

export interface MetricsOptions {
  readonly version: string
  /** Of the configuration that serves; null where another thread tells it. */
  configHash(): string | null
  /** Asked when the page is read. */
  isOverloaded(): boolean
  inflight(): number
  holdsOpen(): number
  ledgerHealthy(): boolean
  stateServer(): { readonly isUp: boolean; readonly lost: number }
  unwritten(): { readonly spooled: number; readonly waiting: number }
}

/** In seconds: from an answer out of memory to the longest that a provider may take. */
const DURATION_BUCKETS = [0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 900]
const FIRST_CHUNK_BUCKETS = [0.05, 0.1, 0.25, 0.5, 1, 2, 4, 8, 15, 30, 60, 120]

export function createMetrics(options: MetricsOptions): Metrics {
  const { version, configHash, isOverloaded, inflight, holdsOpen, ledgerHealthy, stateServer, unwritten } = options
  const registry = createRegistry()
  const exchanges = registry.counter(metric('tollgate_exchanges_total'))
  const durations = registry.histogram(metric('tollgate_exchange_duration_seconds'), DURATION_BUCKETS)
  const firstChunks = registry.histogram(metric('tollgate_first_chunk_seconds'), FIRST_CHUNK_BUCKETS)
  const tokens = registry.counter(metric('tollgate_tokens_total'))
  const charged = registry.moneyCounter(metric('tollgate_charged_dollars_total'), formatMoney)
  const costs = registry.moneyCounter(metric('tollgate_cost_dollars_total'), formatMoney)
  const overruns = registry.moneyCounter(metric('tollgate_overrun_dollars_total'), formatMoney)
  const attempts = registry.counter(metric('tollgate_attempts_total'))
  const stepsFailed = registry.counter(metric('tollgate_steps_failed_total'))
  const shadowRuns = registry.counter(metric('tollgate_shadow_runs_total'))
  const shadowRefusals = registry.counter(metric('tollgate_shadow_refusals_total'))
  const unhandledRejections = registry.counter(metric('tollgate_unhandled_rejections_total'))
  const reloads = registry.counter(metric('tollgate_reloads_total'))
  registry.outside(metric('tollgate_overloaded'), () => (isOverloaded() ? 1 : 0))
  registry.outside(metric('tollgate_inflight_exchanges'), inflight)
  registry.outside(metric('tollgate_holds_open'), holdsOpen)
  registry.outside(metric('tollgate_settles_spooled'), () => unwritten().spooled)
  registry.outside(metric('tollgate_settles_waiting'), () => unwritten().waiting)
  registry.outside(metric('tollgate_ledger_healthy'), () => (ledgerHealthy() ? 1 : 0))
  registry.outside(metric('tollgate_state_lost'), () => (stateServer().isUp ? 0 : 1))
  registry.outside(metric('tollgate_state_failures_total'), () => stateServer().lost)
  const telemetryDropped = registry.counter(metric('tollgate_telemetry_dropped_total'))
  registry.info(metric('tollgate_build_info'), () => version)
  registry.info(metric('tollgate_config_info'), configHash)
  registry.outside(metric('process_start_time_seconds'), () => performance.timeOrigin / 1000)
  registry.outside(metric('process_cpu_seconds_total'), cpuSeconds)
  registry.outside(metric('process_resident_memory_bytes'), () => process.memoryUsage.rss())

  return {
    exchange({ route, outcome, code, ms, model, firstChunkMs, usage, charge, cost, target, attempts: tries }) {
      exchanges.add(1, route, outcome ?? 'none', code ?? 'none')
      durations.observe(ms / 1000, route)
      for (const attempt of tries) attempts.add(1, attempt.target, attempt.code ?? 'none')
      if (cost !== null) costs.add(cost, target!)
      // A raw route has no model of the catalog: what it earned stands under its path.
      if (charge !== null) {
        charged.add(charge.amount, model ?? route)
        overruns.add(charge.overrun)
      }
      if (model === null) return
      if (firstChunkMs !== null) firstChunks.observe(firstChunkMs / 1000, model)
      if (usage === null) return
      tokens.add(usage.promptTokens - usage.cachedTokens - usage.cacheWriteTokens, model, 'input')
      tokens.add(usage.cachedTokens, model, 'cached_input')
      tokens.add(usage.cacheWriteTokens, model, 'cache_write')
      tokens.add(usage.completionTokens, model, 'output')
    },
    stepFailed: ({ policy, step }) => stepsFailed.add(1, policy, step),
    shadowRan({ policy, step, code }) {
      shadowRuns.add(1, policy, step)
      if (code !== null) shadowRefusals.add(1, policy, step, code)
    },
    reload: result => reloads.add(1, result),
    telemetryDropped: spans => telemetryDropped.add(spans),
    unhandledRejection: () => unhandledRejections.add(1),
    render: registry.render,
    values: registry.values,
  }
}

type MetricName = (typeof METRICS)[number]['name']

function metric(name: MetricName): MetricDefinition {
  return METRICS.find(definition => definition.name === name)!
}

function cpuSeconds(): number {
  const { user, system } = process.cpuUsage()
  return (user + system) / 1e6
}
