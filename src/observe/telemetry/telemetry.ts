/**
 * OpenTelemetry: the traces and GenAI metrics of one serving thread, exported by OTLP over HTTP. Created only if gateway.yaml has
 * `telemetry`.
 */
import type { IncomingHttpHeaders } from 'node:http'
import type { Clock, Log, Random } from '#contract'
import type { TelemetryConfig } from '../../common/telemetry-config.ts'
import { type Encoding, loadEncoding, type MetricsExport } from './encoding.ts'
import { Exporter } from './exporter.ts'
import { GenAiHistograms } from './histograms.ts'
import { type SharedParts, spansOf, type TracedExchange } from './spans.ts'
import { hexOf, parentIn, Trace } from './trace-context.ts'

export interface TelemetryParts {
  readonly version: string
  readonly clock: Clock
  readonly random: Random
  readonly deadlineClock: {
    now(): number
    watch(check: (monotonicMs: number) => void): () => void
  }
  readonly log: Log
  /** The number of the serving thread; null: there is only one. */
  readonly lane: number | null
  /** Removes secrets from a text. */
  redact(text: string, isBroken?: boolean): string
  /** Counts spans that will not be exported. */
  dropped(spans: number): void
}

export interface Telemetry {
  /** The number of generations that use it. */
  users: number
  /** Begins the trace of an exchange, from the headers of its request. */
  open(headers: IncomingHttpHeaders): Trace
  /** Records a completed exchange. */
  record(traced: TracedExchange): void
  /** Sends the waiting spans and the metrics, for 5 s at most, and ends. */
  close(): Promise<void>
}

/** @param encoding left out: that of the configured protocol; only for tests */
export async function createTelemetry(
  config: TelemetryConfig,
  parts: TelemetryParts,
  encoding?: Encoding,
): Promise<Telemetry> {
  const { clock, random, deadlineClock, log, version } = parts
  const shared = sharedPartsOf(config, parts)
  const histograms = new GenAiHistograms(clock)
  const exporter = new Exporter({
    endpoint: config.endpoint,
    headers: { 'user-agent': `tollgate/${version}`, ...config.headers },
    encoding: encoding ?? (await loadEncoding(config.protocol)),
    now: deadlineClock.now,
    watch: deadlineClock.watch,
    log,
    dropped: parts.dropped,
    metrics() {
      const metrics = config.metrics ? histograms.data() : []
      if (metrics.length === 0) return null
      return { resource: shared.resource, scopeMetrics: [{ scope: shared.scope, metrics }] } as MetricsExport
    },
  })
  return {
    users: 0,
    open: headers => new Trace(parentIn(headers), config.ratio, random),
    record(traced) {
      observe(traced, histograms)
      if (traced.trace.isSampled) exporter.add(spansOf(traced, shared))
    },
    close: () => exporter.close(),
  }
}

/**
 * Each serving thread has its own `service.instance.id`: a collector would take the sums of two for one. To an id of the operator, the
 * number of the thread is appended.
 */
function sharedPartsOf(
  { attributes }: TelemetryConfig,
  { version, random, redact, lane }: TelemetryParts,
): SharedParts {
  const configured = attributes[INSTANCE]
  const common = { 'service.name': 'tollgate', 'service.version': version, [INSTANCE]: hexOf(4, random), ...attributes }
  const ofThread = configured === undefined || lane === null ? {} : { [INSTANCE]: `${configured}-${lane}` }
  const resource = { attributes: { ...common, ...ofThread } }
  return {
    resource: resource as unknown as SharedParts['resource'],
    scope: { name: 'tollgate', version },
    redact,
  }
}

const INSTANCE = 'service.instance.id'

/** Every exchange counts, sampled or not. */
function observe({ operation, attempts, summary: { usage } }: TracedExchange, histograms: GenAiHistograms): void {
  if (operation === null) return
  for (let index = 0; index < attempts.length; index++) {
    const { peer, model, error, startedMs, endedMs, firstChunkMs } = attempts[index]!
    const labels = { operation, peer, model, error }
    histograms.duration(endedMs - startedMs, labels)
    if (index < attempts.length - 1) continue
    const withoutError = error === null ? labels : { ...labels, error: null }
    if (firstChunkMs !== null) histograms.firstChunk(firstChunkMs, withoutError)
    // An estimate of the gateway is not a measurement of the provider.
    if (usage?.source === 'reported') histograms.tokens(usage.input ?? 0, usage.output ?? 0, withoutError)
  }
}
