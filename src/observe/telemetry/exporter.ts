/**
 * Exports recorded spans and metrics to a collector, in the background: in batches, one request at a time for each signal. The number of
 * waiting spans is bounded. Rejected data is counted, and the log reports it once, until the collector accepts data again.
 */
import type { Log } from '#contract'
import { type CollectorParts, Lane, post, type SendResult } from './collector.ts'
import type { MetricsExport, Signal } from './encoding.ts'
import type { WaitingSpan } from './spans.ts'

export interface ExporterParts extends CollectorParts {
  /** Monotonic milliseconds. */
  now(): number
  /** Calls `check` repeatedly, until the returned function is called. */
  watch(check: (monotonicMs: number) => void): () => void
  readonly log: Log
  /** Counts spans that will not be exported. */
  dropped(spans: number): void
  /** All metrics so far; null: none. */
  metrics(): MetricsExport | null
}

/** Maximum number of spans in one request. When this many wait, they are sent at once. */
export const BATCH_SPANS = 512
/** Maximum number of waiting spans; further ones are dropped. */
export const MAX_WAITING_SPANS = 2048
/** The same for the characters of their content: collectors take requests of 4 MiB and more. */
export const BATCH_CHARACTERS = 1024 * 1024
export const MAX_WAITING_CHARACTERS = 16 * 1024 * 1024
/** Maximum time that spans wait while the collector accepts data. */
const SPANS_EVERY_MS = 5_000
const METRICS_EVERY_MS = 30_000
/** Maximum time for sending the last spans and metrics when the telemetry ends. */
const LAST_MS = 5_000

export class Exporter {
  readonly #parts: ExporterParts
  readonly #unwatch: () => void
  /** Ends the request in progress. */
  readonly #end = new AbortController()
  #waiting: WaitingSpan[] = []
  /** The size of the content of the waiting spans. */
  #characters = 0
  readonly #lanes = { traces: new Lane(), metrics: new Lane() }
  #spansAtMs: number
  #metricsAtMs: number
  /** The current problem of each signal. */
  readonly #problems = new Map<Signal, string>()
  #droppedMeanwhile = 0

  constructor(parts: ExporterParts) {
    this.#parts = parts
    this.#spansAtMs = this.#metricsAtMs = parts.now()
    this.#unwatch = parts.watch(now => this.#look(now))
  }

  add(spans: readonly WaitingSpan[]): void {
    const characters = charactersOf(spans)
    const hasRoom =
      this.#waiting.length + spans.length <= MAX_WAITING_SPANS &&
      this.#characters + characters <= MAX_WAITING_CHARACTERS
    if (hasRoom) {
      this.#waiting.push(...spans)
      this.#characters += characters
    } else this.#drop(spans.length)
  }

  get #isBatchFull(): boolean {
    return this.#waiting.length >= BATCH_SPANS || this.#characters >= BATCH_CHARACTERS
  }

  /** Takes at least one span. */
  #takeBatch(): WaitingSpan[] {
    let characters = 0
    let count = 0
    while (count < BATCH_SPANS && count < this.#waiting.length) {
      characters += this.#waiting[count]!.characters
      if (count > 0 && characters > BATCH_CHARACTERS) break
      count++
    }
    const batch = this.#waiting.splice(0, count)
    this.#characters -= charactersOf(batch)
    return batch
  }

  /** Sends the waiting spans and the metrics once, and ends. Spans that the collector does not accept in time are dropped. */
  async close(): Promise<void> {
    this.#unwatch()
    AbortSignal.timeout(LAST_MS).addEventListener('abort', () => this.#end.abort())
    await Promise.all([this.#sendLastSpans(), this.#sendLastMetrics()])
    if (this.#waiting.length > 0) this.#drop(this.#waiting.length)
    this.#waiting = []
    if (this.#droppedMeanwhile > 0) {
      this.#parts.log.warn({ dropped: this.#droppedMeanwhile }, 'telemetry ends with spans that were not exported')
    }
  }

  async #sendLastSpans(): Promise<void> {
    await this.#lanes.traces.sending
    while (this.#waiting.length > 0 && !this.#end.signal.aborted) if (!(await this.#sendSpans())) break
  }

  async #sendLastMetrics(): Promise<void> {
    await this.#lanes.metrics.sending
    await this.#sendMetrics()
  }

  #look(now: number): void {
    const { traces, metrics } = this.#lanes
    const areSpansDue = this.#isBatchFull || (this.#waiting.length > 0 && now - this.#spansAtMs >= SPANS_EVERY_MS)
    if (traces.mayStart(now)) {
      if (this.#waiting.length === 0) this.#spansAtMs = now
      else if (areSpansDue) traces.start(this.#sendBatches())
    }
    if (now - this.#metricsAtMs < METRICS_EVERY_MS || !metrics.mayStart(now)) return
    this.#metricsAtMs = now
    metrics.start(this.#sendMetrics())
  }

  async #sendBatches(): Promise<void> {
    do this.#spansAtMs = this.#parts.now()
    while ((await this.#sendSpans()) && this.#isBatchFull && !this.#end.signal.aborted)
  }

  /** Sends one batch. Resolves with whether the next one may follow. */
  async #sendSpans(): Promise<boolean> {
    const batch = this.#takeBatch()
    const sent = await this.#post('traces', () => this.#parts.encoding.spans(batch))
    if (sent.isAccepted) {
      if (sent.rejected > 0) this.#drop(Math.min(sent.rejected, batch.length))
    } else if (sent.isRetryable) {
      const room = MAX_WAITING_SPANS - this.#waiting.length
      const again = batch.slice(0, room)
      this.#waiting.unshift(...again)
      this.#characters += charactersOf(again)
      if (batch.length > room) this.#drop(batch.length - room)
    } else this.#drop(batch.length)
    return sent.isAccepted || !sent.isRetryable
  }

  /** A failed export is not repeated, because the next one has all sums. */
  async #sendMetrics(): Promise<void> {
    const data = this.#parts.metrics()
    if (data !== null) await this.#post('metrics', () => this.#parts.encoding.metrics(data))
  }

  async #post(signal: Signal, encode: () => Uint8Array): Promise<SendResult> {
    const sent = await post(this.#parts, signal, encode, this.#end.signal)
    this.#lanes[signal].record(sent, this.#parts.now())
    this.#report(signal, sent)
    return sent
  }

  #drop(spans: number): void {
    this.#droppedMeanwhile += spans
    this.#parts.dropped(spans)
  }

  /** Logs a new problem once, and its end. */
  #report(signal: Signal, { problem }: SendResult): void {
    const { log, endpoint } = this.#parts
    const before = this.#problems.get(signal)
    if (problem === null) {
      this.#problems.delete(signal)
      if (before === undefined) return
      log.info({ endpoint, signal, dropped: this.#droppedMeanwhile }, 'telemetry is exported again')
      this.#droppedMeanwhile = 0
    } else {
      this.#problems.set(signal, problem)
      if (before === undefined) log.warn({ endpoint, signal, problem }, 'telemetry cannot be exported')
    }
  }
}

const charactersOf = (spans: readonly WaitingSpan[]) => spans.reduce((sum, { characters }) => sum + characters, 0)
