/** The metrics of `/metrics`: a method for each event, and sources that are read on each scrape. */
import { formatMoney, type NanoUsd } from '#contract'
import { AttemptCounts, ExchangeCounts, type ExchangeMeasures } from './exchange-counts.ts'
import { type MetricName, metric } from './metric-list.ts'
import {
  createRegistry,
  type HistogramValues,
  type Labelled,
  type MetricFormat,
  type MetricValues,
  type Registry,
} from './metric-registry.ts'
import { addProcessMetrics, addThreadMetrics, type NodeSources } from './node-metrics.ts'

export interface Metrics {
  exchange(summary: ExchangeMeasures): void
  /** Counts a request that was refused before an exchange began. */
  refused(code: string): void
  stepFailed(step: { readonly policy: string; readonly step: string }): void
  /** Counts a run in shadow mode. `code`: of the would-be refusal; null: the exchange would have passed. */
  shadowRan(run: { readonly policy: string; readonly step: string; readonly code: string | null }): void
  unhandledRejection(): void
  reload(result: 'changed' | 'unchanged' | 'refused'): void
  /** Counts spans that will not be exported. */
  telemetryDropped(spans: number): void
  /** Counts a completed attempt to send an alert. */
  alertAttempted(receiver: string, result: string): void
  /** Keeps the values of a serving thread that ended. */
  retire(values: MetricValues): void
  /** Prints the page. @param others values of the serving threads, which are added */
  render(others?: readonly MetricValues[], format?: MetricFormat): string
  /** Returns the values of this thread, for the main thread. */
  values(): MetricValues
  /** Stops timers and observers. */
  close(): void
}

/** The figures of a target in this thread. */
export interface TargetFigures {
  readonly provider: string
  readonly target: string
  readonly state: string
  readonly inflight: number
  /** The number of ejections: the target is then tried after the others. */
  readonly ejections: number
}

/** The figures of serving clients in this thread. */
export interface ServingFigures {
  readonly isOverloaded: boolean
  /** Credit held for exchanges in progress. */
  readonly held: NanoUsd
  readonly targets: readonly TargetFigures[]
  /** Unused credentials by provider. */
  readonly credentialsOut: readonly (readonly [provider: string, count: number])[]
}

/** The figures of a thread that serves no clients. */
export const NOT_SERVING: ServingFigures = { isOverloaded: false, held: 0n, targets: [], credentialsOut: [] }

type Limited = HistogramValues & { readonly limits: readonly number[] }

interface WritingFigures {
  /** Null if another thread reports them. */
  readonly commits: { readonly seconds: Limited; readonly operations: Limited; readonly refused: number } | null
  readonly waiting: number
  readonly mailboxFill: number
  readonly mailboxFull: number
}

/** The sources of each thread. */
export interface OwnSources {
  serving(): ServingFigures
  unwritten(): { readonly spooled: number; readonly waiting: number; readonly corrected: number }
  writing(): WritingFigures
  readonly node: NodeSources
}

/** Alerts in the store. */
interface AlertCounts {
  /** Alerts of the last 24 hours by kind. */
  readonly kinds: ReadonlyMap<string, number>
  /** Open deliveries by receiver. */
  readonly waiting: ReadonlyMap<string, number>
}

/** The counts before the first read. */
export const NO_ALERTS: AlertCounts = { kinds: new Map(), waiting: new Map() }

export interface MainSources {
  readonly version: string
  /** The hash of the running configuration. */
  configHash(): string
  inflight(): number
  inflightLimit(): number
  /** Exchanges that wait for a slot. */
  queued(): number
  threads(): { readonly answering: number; readonly silent: number; readonly deaths: number }
  configuration(): { readonly isCurrent: boolean; readonly atMs: number }
  holdsOpen(): number
  ledgerHealthy(): boolean
  lease(): { readonly renewedAtMs: number; readonly failures: number; readonly takeovers: number } | null
  stateServer(): { readonly isUp: boolean; readonly lost: number }
  alerts(): AlertCounts
}

/** In seconds: from a cached answer to the longest that a provider may take. */
const DURATION_BUCKETS = [0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 900]
const FIRST_TOKEN_BUCKETS = [0.05, 0.1, 0.25, 0.5, 1, 2, 4, 8, 15, 30, 60, 120]
const PER_TOKEN_BUCKETS = [0.001, 0.0025, 0.005, 0.01, 0.015, 0.025, 0.04, 0.06, 0.1, 0.15, 0.25, 0.5, 1, 2.5]

/** @param main null in serving threads */
export function createMetrics(own: OwnSources, main: MainSources | null): Metrics {
  const registry = createRegistry()
  const { exchange, ...counts } = createCounts(registry)
  const attempts = createAttemptCounts(registry)
  addServing(registry, own)
  addMain(registry, main)
  addStore(registry, own, main)
  const close = addThreadMetrics(registry, own.node)
  addProcessMetrics(registry, main !== null)
  return {
    ...counts,
    exchange(summary) {
      exchange(summary)
      attempts.add(summary.attempts)
    },
    retire: registry.retire,
    render: registry.render,
    values: registry.values,
    close,
  }
}

const OPENMETRICS = 'application/openmetrics-text'

type Counts = Omit<Metrics, 'retire' | 'render' | 'values' | 'close'>

/** In the order of the page. */
function createCounts(registry: Registry): Counts {
  const counter = (name: MetricName) => registry.counter(metric(name))
  const money = (name: MetricName) => registry.moneyCounter(metric(name), formatMoney)
  const exchanges = counter('tollgate_exchanges_total')
  const refused = counter('tollgate_requests_refused_total')
  const ofExchanges = new ExchangeCounts({
    exchanges,
    durations: registry.histogram(metric('tollgate_exchange_duration_seconds'), DURATION_BUCKETS),
    firstTokens: registry.histogram(metric('tollgate_time_to_first_token_seconds'), FIRST_TOKEN_BUCKETS),
    perToken: registry.histogram(metric('tollgate_time_per_output_token_seconds'), PER_TOKEN_BUCKETS),
    tokens: counter('tollgate_tokens_total'),
    charged: money('tollgate_charged_dollars_total'),
    costs: money('tollgate_cost_dollars_total'),
    overruns: money('tollgate_overrun_dollars_total'),
  })
  const stepsFailed = counter('tollgate_steps_failed_total')
  const shadowRuns = counter('tollgate_shadow_runs_total')
  const shadowRefusals = counter('tollgate_shadow_refusals_total')
  const unhandledRejections = counter('tollgate_unhandled_rejections_total')
  const reloads = counter('tollgate_reloads_total')
  const telemetryDropped = counter('tollgate_telemetry_dropped_total')
  const deliveries = counter('tollgate_alert_deliveries_total')
  return {
    exchange: summary => ofExchanges.add(summary),
    refused: code => refused.add(1, code),
    stepFailed: ({ policy, step }) => stepsFailed.add(1, policy, step),
    shadowRan({ policy, step, code }) {
      shadowRuns.add(1, policy, step)
      if (code !== null) shadowRefusals.add(1, policy, step, code)
    },
    reload: result => reloads.add(1, result),
    telemetryDropped: spans => telemetryDropped.add(spans),
    alertAttempted: (receiver, result) => deliveries.add(1, receiver, result),
    unhandledRejection: () => unhandledRejections.add(1),
  }
}

function createAttemptCounts(registry: Registry): AttemptCounts {
  return new AttemptCounts({
    tries: registry.counter(metric('tollgate_attempts_total')),
    durations: registry.histogram(metric('tollgate_attempt_duration_seconds'), DURATION_BUCKETS),
    retries: registry.counter(metric('tollgate_retries_total')),
    fallbacks: registry.counter(metric('tollgate_fallbacks_total')),
  })
}

function addServing(registry: Registry, { serving }: OwnSources): void {
  const STATES = ['well', 'half_open', 'limited', 'ejected']
  const ofTargets = (name: MetricName, value: (figures: TargetFigures) => number) =>
    registry.labelledSource(metric(name), () =>
      serving().targets.map(each => [[each.provider, each.target], value(each)] as const),
    )
  registry.source(metric('tollgate_held_dollars'), () => Number(serving().held) / 1e9)
  registry.labelledSource(metric('tollgate_target_state'), () =>
    serving().targets.flatMap(({ provider, target, state }) =>
      STATES.map((each): Labelled<number> => [[provider, target, each], each === state ? 1 : 0]),
    ),
  )
  ofTargets('tollgate_target_ejections_total', ({ ejections }) => ejections)
  ofTargets('tollgate_target_inflight_attempts', ({ inflight }) => inflight)
  registry.labelledSource(metric('tollgate_provider_credentials_out'), () =>
    serving().credentialsOut.map(([provider, count]) => [[provider], count] as const),
  )
  registry.source(metric('tollgate_overloaded'), () => (serving().isOverloaded ? 1 : 0))
}

/** @param main null: another thread reports it */
function addMain(registry: Registry, main: MainSources | null): void {
  const outside = (name: MetricName, read: (main: MainSources) => number) =>
    registry.source(metric(name), () => main && read(main))
  outside('tollgate_inflight_exchanges', ({ inflight }) => inflight())
  outside('tollgate_inflight_exchanges_limit', ({ inflightLimit }) => inflightLimit())
  outside('tollgate_queued_exchanges', ({ queued }) => queued())
  registry.labelledSource(metric('tollgate_serving_threads'), () => {
    if (main === null) return []
    const { answering, silent } = main.threads()
    return [
      [['answering'], answering],
      [['silent'], silent],
    ]
  })
  outside('tollgate_serving_thread_deaths_total', ({ threads }) => threads().deaths)
  outside('tollgate_config_last_reload_successful', ({ configuration }) => (configuration().isCurrent ? 1 : 0))
  outside('tollgate_config_last_reload_success_timestamp_seconds', ({ configuration }) => configuration().atMs / 1000)
  registry.info(metric('tollgate_build_info'), () => main?.version ?? null)
  registry.info(metric('tollgate_config_info'), () => main?.configHash() ?? null)
}

function addStore(registry: Registry, { unwritten, writing }: OwnSources, main: MainSources | null): void {
  const outside = (name: MetricName, read: () => number | null | undefined) =>
    registry.source(metric(name), () => read() ?? null)
  outside('tollgate_ledger_healthy', () => main && (main.ledgerHealthy() ? 1 : 0))
  outside('tollgate_holds_open', () => main?.holdsOpen())
  outside('tollgate_settles_spooled', () => unwritten().spooled)
  outside('tollgate_settles_waiting', () => unwritten().waiting)
  outside('tollgate_settles_corrected_total', () => unwritten().corrected)
  const commits = () => (main ? writing().commits : null)
  registry.histogramSource(metric('tollgate_store_commit_duration_seconds'), () => commits()?.seconds ?? null)
  registry.histogramSource(metric('tollgate_store_group_operations'), () => commits()?.operations ?? null)
  outside('tollgate_store_refused_operations_total', () => commits()?.refused)
  outside('tollgate_store_waiting_operations', () => writing().waiting)
  outside('tollgate_store_mailbox_fill_ratio', () => writing().mailboxFill)
  outside('tollgate_store_mailbox_full_total', () => writing().mailboxFull)
  const lease = () => main?.lease()
  outside('tollgate_lease_renewed_timestamp_seconds', () => {
    const { renewedAtMs } = lease() ?? {}
    return renewedAtMs === undefined ? null : renewedAtMs / 1000
  })
  outside('tollgate_lease_renewals_failed_total', () => lease()?.failures)
  outside('tollgate_lease_takeovers_total', () => lease()?.takeovers)
  const byName = (name: MetricName, read: (main: MainSources) => ReadonlyMap<string, number>) =>
    registry.labelledSource(metric(name), () =>
      main === null ? [] : [...read(main)].map(([label, value]): Labelled<number> => [[label], value]),
    )
  byName('tollgate_alerts_last_day', ({ alerts }) => alerts().kinds)
  byName('tollgate_alert_deliveries_waiting', ({ alerts }) => alerts().waiting)
  outside('tollgate_state_lost', () => main && (main.stateServer().isUp ? 0 : 1))
  outside('tollgate_state_failures_total', () => main?.stateServer().lost)
}

/** Returns the page in the best format that the scraper accepts. @param accept its `Accept` header */
export function metricsPage(metrics: Pick<Metrics, 'render'>, others: readonly MetricValues[], accept: string) {
  if (accept.includes(OPENMETRICS)) {
    return { type: `${OPENMETRICS}; version=1.0.0; charset=utf-8`, text: metrics.render(others, 'openmetrics') }
  }
  return { type: 'text/plain; version=0.0.4; charset=utf-8', text: metrics.render(others) }
}
