/** Every metric, as data: names, labels and meanings, in the order of the page. */
import type { MetricDefinition } from './metric-registry.ts'

const WHERE = ['route', 'model', 'provider'] as const

const EXCHANGES = [
  {
    name: 'tollgate_exchanges_total',
    type: 'counter',
    labels: [...WHERE, 'outcome', 'code'],
    help: 'Completed exchanges. code is the code of the error, or none.',
  },
  {
    name: 'tollgate_requests_refused_total',
    type: 'counter',
    labels: ['code'],
    help: 'Requests refused before an exchange began: an unknown path, a bad head, an overloaded event loop.',
  },
  {
    name: 'tollgate_exchange_duration_seconds',
    type: 'histogram',
    labels: [...WHERE, 'outcome'],
    help: 'From the head of the request to the end of its answer.',
  },
  {
    name: 'tollgate_time_to_first_token_seconds',
    type: 'histogram',
    labels: ['model', 'provider'],
    help: 'From the head of the request to the first content of its streamed answer.',
  },
  {
    name: 'tollgate_time_per_output_token_seconds',
    type: 'histogram',
    labels: ['model', 'provider'],
    help: 'For each complete streamed answer: the time from the first content to the end, per output token after the first.',
  },
  {
    name: 'tollgate_tokens_total',
    type: 'counter',
    labels: [...WHERE, 'type'],
    help: 'Tokens by price: input (not cached), cached_input, cache_write, output (with reasoning). No token is counted twice.',
  },
  { name: 'tollgate_charged_dollars_total', type: 'counter', labels: WHERE, help: 'Amounts charged to customers.' },
  {
    name: 'tollgate_cost_dollars_total',
    type: 'counter',
    labels: [...WHERE, 'target'],
    help: 'Costs of answers to the operator, by the cost of the target. Targets without one are not counted.',
  },
  {
    name: 'tollgate_overrun_dollars_total',
    type: 'counter',
    labels: WHERE,
    help: "Usage beyond its hold, which is not charged: the operator's loss.",
  },
  {
    name: 'tollgate_steps_failed_total',
    type: 'counter',
    labels: ['policy', 'step'],
    help: 'Errors thrown by steps: each is a bug in a plugin.',
  },
  {
    name: 'tollgate_shadow_runs_total',
    type: 'counter',
    labels: ['policy', 'step'],
    help: 'Exchanges in which a step ran in shadow mode.',
  },
  {
    name: 'tollgate_shadow_refusals_total',
    type: 'counter',
    labels: ['policy', 'step', 'code'],
    help: 'Exchanges that a step in shadow mode would have refused. code is the code of the error, or answered: the step would have answered itself.',
  },
  {
    name: 'tollgate_unhandled_rejections_total',
    type: 'counter',
    labels: [],
    help: 'Unhandled promise rejections: each is a bug, mostly in a plugin.',
  },
  {
    name: 'tollgate_reloads_total',
    type: 'counter',
    labels: ['result'],
    help: 'Reloads of the configuration: changed, unchanged, refused.',
  },
  {
    name: 'tollgate_telemetry_dropped_total',
    type: 'counter',
    labels: [],
    help: 'Spans that could not be exported to the collector.',
  },
  {
    name: 'tollgate_alert_deliveries_total',
    type: 'counter',
    labels: ['receiver', 'result'],
    help: 'Deliveries of alerts to webhooks: delivered, failed (will be retried) or given_up.',
  },
] as const satisfies readonly MetricDefinition[]

const ATTEMPTS = [
  {
    name: 'tollgate_attempts_total',
    type: 'counter',
    labels: ['provider', 'target', 'code'],
    help: 'Attempts at a target. code is the code of the failure, or none.',
  },
  {
    name: 'tollgate_attempt_duration_seconds',
    type: 'histogram',
    labels: ['provider', 'target'],
    help: 'For each attempt: from its request to the head of the answer, or to its failure.',
  },
  {
    name: 'tollgate_retries_total',
    type: 'counter',
    labels: ['provider', 'target'],
    help: 'Attempts at the target that had just failed.',
  },
  {
    name: 'tollgate_fallbacks_total',
    type: 'counter',
    labels: ['provider', 'target'],
    help: 'Attempts at another target. The labels name the target that had just failed.',
  },
] as const satisfies readonly MetricDefinition[]

/** The figures of each serving thread. */
const SERVING = [
  {
    name: 'tollgate_held_dollars',
    type: 'gauge',
    labels: [],
    help: 'Credit held for exchanges in progress.',
    ofThreads: 'sum',
  },
  {
    name: 'tollgate_target_state',
    type: 'gauge',
    labels: ['provider', 'target', 'state'],
    help: 'The number of serving threads that see the target in this state: well, half_open, limited, ejected.',
    ofThreads: 'sum',
  },
  {
    name: 'tollgate_target_ejections_total',
    type: 'counter',
    labels: ['provider', 'target'],
    help: 'Ejections of the target: it is tried after the others because it failed.',
    ofThreads: 'sum',
  },
  {
    name: 'tollgate_target_inflight_attempts',
    type: 'gauge',
    labels: ['provider', 'target'],
    help: 'Attempts at the target in progress.',
    ofThreads: 'sum',
  },
  {
    name: 'tollgate_provider_credentials_out',
    type: 'gauge',
    labels: ['provider'],
    help: 'Credentials that are unused because the provider refuses or limits them, in the serving thread with the most.',
    ofThreads: 'largest',
  },
  {
    name: 'tollgate_overloaded',
    type: 'gauge',
    labels: [],
    help: '1 while the event loop is overloaded and new requests are refused, else 0.',
    ofThreads: 'largest',
  },
] as const satisfies readonly MetricDefinition[]

/** The process as a whole. */
const GATEWAY = [
  { name: 'tollgate_inflight_exchanges', type: 'gauge', labels: [], help: 'Exchanges in progress.' },
  { name: 'tollgate_inflight_exchanges_limit', type: 'gauge', labels: [], help: 'limits.max_inflight.' },
  {
    name: 'tollgate_queued_exchanges',
    type: 'gauge',
    labels: [],
    help: 'Exchanges that wait in the queue of a concurrency step.',
  },
  {
    name: 'tollgate_serving_threads',
    type: 'gauge',
    labels: ['state'],
    help: 'Serving threads: answering, or silent (this page has their last values). The main thread counts if it serves.',
  },
  {
    name: 'tollgate_serving_thread_deaths_total',
    type: 'counter',
    labels: [],
    help: 'Serving threads that an error ended.',
  },
  {
    name: 'tollgate_config_last_reload_successful',
    type: 'gauge',
    labels: [],
    help: '0 after a refused reload, until the files match the running configuration; else 1.',
  },
  {
    name: 'tollgate_config_last_reload_success_timestamp_seconds',
    type: 'gauge',
    labels: [],
    help: 'The time when the running configuration was loaded, since the epoch.',
  },
  { name: 'tollgate_build_info', type: 'gauge', labels: ['version'], help: 'Always 1; the version is in the label.' },
  {
    name: 'tollgate_config_info',
    type: 'gauge',
    labels: ['hash'],
    help: 'Always 1; the label is a hash of the files of the running configuration.',
  },
] as const satisfies readonly MetricDefinition[]

/** The ledger, and the state that replicas share. */
const STORE = [
  { name: 'tollgate_ledger_healthy', type: 'gauge', labels: [], help: '1 if the ledger can be written, else 0.' },
  { name: 'tollgate_holds_open', type: 'gauge', labels: [], help: 'Holds that are not settled yet.' },
  {
    name: 'tollgate_settles_spooled',
    type: 'gauge',
    labels: [],
    help: 'Settles that could not be written in time. They are in the spool on disk and are retried.',
    ofThreads: 'sum',
  },
  {
    name: 'tollgate_settles_waiting',
    type: 'gauge',
    labels: [],
    help: 'Settles that could not be written to disk either. They are only in memory and are retried.',
    ofThreads: 'sum',
  },
  {
    name: 'tollgate_settles_corrected_total',
    type: 'counter',
    labels: [],
    help: 'Late settles: another replica had settled the exchange at its last checkpoint, and each corrected that charge.',
    ofThreads: 'sum',
  },
  {
    name: 'tollgate_store_commit_duration_seconds',
    type: 'histogram',
    labels: [],
    help: 'For each group of operations: from BEGIN to the end of COMMIT, in the ledger thread.',
  },
  { name: 'tollgate_store_group_operations', type: 'histogram', labels: [], help: 'Operations that shared a commit.' },
  {
    name: 'tollgate_store_refused_operations_total',
    type: 'counter',
    labels: [],
    help: 'Operations that the database refused in every attempt.',
  },
  {
    name: 'tollgate_store_waiting_operations',
    type: 'gauge',
    labels: [],
    help: 'Operations that the ledger has not answered yet.',
    ofThreads: 'sum',
  },
  {
    name: 'tollgate_store_mailbox_fill_ratio',
    type: 'gauge',
    labels: [],
    help: "How full the fullest mailbox of the ledger's thread is, from 0 to 1.",
    ofThreads: 'largest',
  },
  {
    name: 'tollgate_store_mailbox_full_total',
    type: 'counter',
    labels: [],
    help: "Operations that had to wait for room in a mailbox of the ledger's thread.",
    ofThreads: 'sum',
  },
  {
    name: 'tollgate_lease_renewed_timestamp_seconds',
    type: 'gauge',
    labels: [],
    help: 'The time of the last renewal of the lease of this replica, since the epoch. Only with a store in PostgreSQL.',
  },
  {
    name: 'tollgate_lease_renewals_failed_total',
    type: 'counter',
    labels: [],
    help: 'Renewals of the lease that failed. Only with a store in PostgreSQL.',
  },
  {
    name: 'tollgate_lease_takeovers_total',
    type: 'counter',
    labels: [],
    help: 'Other replicas whose lease expired and whose holds this replica settled. Only with a store in PostgreSQL.',
  },
  {
    name: 'tollgate_alerts_last_day',
    type: 'gauge',
    labels: ['kind'],
    help: 'Alerts of the last 24 hours, of all replicas.',
  },
  {
    name: 'tollgate_alert_deliveries_waiting',
    type: 'gauge',
    labels: ['receiver'],
    help: 'Alerts that a webhook has not accepted and that are still being sent, of all replicas.',
  },
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
] as const satisfies readonly MetricDefinition[]

/** Node.js and the process, under the names that other programs use. `thread` is main or serving. */
const PROCESS = [
  {
    name: 'nodejs_eventloop_delay_seconds',
    type: 'histogram',
    labels: ['thread'],
    help: 'The delay of a timer that is due every 50 ms.',
  },
  {
    name: 'nodejs_eventloop_time_seconds_total',
    type: 'counter',
    labels: ['thread', 'state'],
    help: 'Active and idle time of event loops.',
    ofThreads: 'sum',
  },
  {
    name: 'nodejs_gc_duration_seconds',
    type: 'histogram',
    labels: ['thread', 'kind'],
    help: 'Pauses for garbage collection: minor, major, incremental or weakcb.',
  },
  {
    name: 'nodejs_heap_size_used_bytes',
    type: 'gauge',
    labels: ['thread'],
    help: 'Used memory of the JavaScript heaps.',
    ofThreads: 'sum',
  },
  {
    name: 'nodejs_heap_size_total_bytes',
    type: 'gauge',
    labels: ['thread'],
    help: 'Total memory of the JavaScript heaps.',
    ofThreads: 'sum',
  },
  {
    name: 'nodejs_heap_used_ratio',
    type: 'gauge',
    labels: ['thread'],
    help: 'Used memory of a heap as a fraction of its limit, in the thread with the largest one.',
    ofThreads: 'largest',
  },
  {
    name: 'nodejs_external_memory_bytes',
    type: 'gauge',
    labels: ['thread'],
    help: 'Memory outside the heaps that JavaScript objects hold: mostly bodies.',
    ofThreads: 'sum',
  },
  {
    name: 'process_start_time_seconds',
    type: 'gauge',
    labels: [],
    help: 'The start time of the process, since the epoch.',
  },
  { name: 'process_cpu_seconds_total', type: 'counter', labels: [], help: 'CPU time of the process, user and system.' },
  { name: 'process_resident_memory_bytes', type: 'gauge', labels: [], help: 'Memory of the process in RAM.' },
  { name: 'process_open_fds', type: 'gauge', labels: [], help: 'Open files and connections. Only on Linux.' },
  {
    name: 'process_max_fds',
    type: 'gauge',
    labels: [],
    help: 'The limit of open files and connections. Only on Linux.',
  },
] as const satisfies readonly MetricDefinition[]

export const METRICS = [...EXCHANGES, ...ATTEMPTS, ...SERVING, ...GATEWAY, ...STORE, ...PROCESS] as const

export type MetricName = (typeof METRICS)[number]['name']

const BY_NAME = new Map<MetricName, MetricDefinition>(METRICS.map(definition => [definition.name, definition]))

export function metric(name: MetricName): MetricDefinition {
  return BY_NAME.get(name)!
}
