/**
 * OpenTelemetry: the traces and GenAI metrics of one unit that serves clients, exported by OTLP over HTTP. Made only where
 * gateway.yaml says `telemetry`.
 */
import type { IncomingHttpHeaders } from 'node:http'
import type { Clock, Log, Random } from '#contract'
import type { TelemetryConfig } from '../../common/telemetry-config.ts'
import { type Encoding, loadEncoding, type MetricsExport } from './encoding.ts'
import { Exporter } from './exporter.ts'
import { GenAiHistograms } from './histograms.ts'
import { type Sender, spansOf, type TracedExchange } from './spans.ts'
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
  /** Which of the threads that serve; null: there is one. */
  readonly lane: number | null
  /** Takes secrets out of a text. */
  redact(text: string, isBroken?: boolean): string
  /** Spans that no collector will have. */
  dropped(spans: number): void
}

export interface Telemetry {
  /** How many generations hold it. */
  users: number
  /** The trace of an exchange that begins, by the headers of its request. */
  open(headers: IncomingHttpHeaders): Trace
  /** An exchange is over. */
  record(traced: TracedExchange): void
  /** Sends what is left, for 5 s at most, and ends. */
  close(): Promise<void>
}

/** @param encoding that of the configured protocol, unless a test has another */
export async function createTelemetry(
  config: TelemetryConfig,
  parts: TelemetryParts,
  encoding?: Encoding,
): Promise<Telemetry> {
  const { clock, random, deadlineClock, log, version } = parts
  const sender = senderOf(config, parts)
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
      return { resource: sender.resource, scopeMetrics: [{ scope: sender.scope, metrics }] } as MetricsExport
    },
  })
  return {
    users: 0,
    open: headers => new Trace(parentIn(headers), config.ratio, random),
    record(traced) {
      observe(traced, histograms)
      if (traced.trace.isSampled) exporter.add(spansOf(traced, sender))
    },
    close: () => exporter.close(),
  }
}

/** Each unit that serves has an id of its own: the sums of two must not be taken for one. So has each thread of an operator's id. */
function senderOf({ attributes }: TelemetryConfig, { version, random, redact, lane }: TelemetryParts): Sender {
  const said = attributes[INSTANCE]
  const common = { 'service.name': 'tollgate', 'service.version': version, [INSTANCE]: hexOf(4, random), ...attributes }
  const ofThread = said === undefined || lane === null ? {} : { [INSTANCE]: `${said}-${lane}` }
  const resource = { attributes: { ...common, ...ofThread } }
  return {
    resource: resource as unknown as Sender['resource'],
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
    const untroubled = error === null ? labels : { ...labels, error: null }
    if (firstChunkMs !== null) histograms.firstChunk(firstChunkMs, untroubled)
    // An estimate of the gateway is not a measurement of the provider.
    if (usage?.source === 'reported') histograms.tokens(usage.input ?? 0, usage.output ?? 0, untroubled)
  }
}
