/**
 * Sends what is recorded to a collector, beside the requests: in batches, one request at a time, and never more than a bounded
 * number of spans waits. What the collector does not take is counted, and the log says so once, until it takes some again.
 */
import type { Log } from '#contract'
import type { Encoding, MetricsExport, Signal } from './encoding.ts'
import type { WaitingSpan } from './spans.ts'

export interface ExporterParts {
  /** Without a slash at its end; `/v1/traces` and `/v1/metrics` are appended. */
  readonly endpoint: string
  readonly headers: Readonly<Record<string, string>>
  readonly encoding: Encoding
  /** Monotonic milliseconds. */
  now(): number
  /** Looks in every now and then, until the returned function is called. */
  watch(check: (monotonicMs: number) => void): () => void
  readonly log: Log
  /** Spans that no collector will have. */
  dropped(spans: number): void
  /** All that was counted so far; null: nothing. */
  metrics(): MetricsExport | null
}

/** Spans in one request to the collector; as many that wait are sent at once. */
export const BATCH_SPANS = 512
/** Spans that wait at most; later ones are dropped. */
export const MAX_WAITING_SPANS = 2048
/** The same for the characters of their content: collectors take requests of 4 MiB and more. */
export const BATCH_CHARACTERS = 1024 * 1024
export const MAX_WAITING_CHARACTERS = 16 * 1024 * 1024
/** How long spans wait at most while all is well. */
const SPANS_EVERY_MS = 5_000
const METRICS_EVERY_MS = 30_000
/** Until the next try at a collector that does not answer; twice as long each time. */
const PAUSE_MS = { first: 5_000, longest: 60_000 }
const MOST_RETRY_AFTER_MS = 300_000
const TIMEOUT_MS = 10_000
/** The last spans and metrics have this long when the telemetry ends. */
const LAST_MS = 5_000

const MAX_ANSWER_BYTES = 64 * 1024

/** The collector may take the same request later (OTLP). */
const RETRYABLE: ReadonlySet<number> = new Set([429, 502, 503, 504])

interface Sent {
  readonly isTaken: boolean
  readonly isRetryable: boolean
  /** Spans, or data points, of a request that was taken. */
  readonly rejected: number
  /** Null: there was none. */
  readonly problem: string | null
  readonly retryAfterMs: number
}

export class Exporter {
  readonly #parts: ExporterParts
  readonly #unwatch: () => void
  /** Ends the request that is under way. */
  readonly #end = new AbortController()
  #waiting: WaitingSpan[] = []
  /** Of the content of those that wait. */
  #characters = 0
  #sending: Promise<void> | null = null
  #spansAtMs: number
  #metricsAtMs: number
  #pauseMs = 0
  #pausedUntilMs = 0
  /** What is wrong, by signal. */
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

  /** One span in any case. */
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

  /** Sends what is left, once, and ends. What the collector does not take in time is dropped. */
  async close(): Promise<void> {
    this.#unwatch()
    const { signal } = this.#end
    AbortSignal.timeout(LAST_MS).addEventListener('abort', () => this.#end.abort())
    await this.#sending
    while (this.#waiting.length > 0 && !signal.aborted) if (!(await this.#sendSpans())) break
    await this.#sendMetrics()
    if (this.#waiting.length > 0) this.#drop(this.#waiting.length)
    this.#waiting = []
    if (this.#droppedMeanwhile > 0) {
      this.#parts.log.warn({ dropped: this.#droppedMeanwhile }, 'telemetry ends with spans that were not exported')
    }
  }

  #look(now: number): void {
    if (this.#sending !== null || now < this.#pausedUntilMs) return
    const areSpansDue = this.#isBatchFull || (this.#waiting.length > 0 && now - this.#spansAtMs >= SPANS_EVERY_MS)
    const areMetricsDue = now - this.#metricsAtMs >= METRICS_EVERY_MS
    if (this.#waiting.length === 0) this.#spansAtMs = now
    if (!areSpansDue && !areMetricsDue) return
    this.#sending = this.#send(areSpansDue, areMetricsDue).finally(() => {
      this.#sending = null
    })
  }

  async #send(areSpansDue: boolean, areMetricsDue: boolean): Promise<void> {
    const { now } = this.#parts
    if (areMetricsDue) {
      this.#metricsAtMs = now()
      await this.#sendMetrics()
    }
    if (!areSpansDue) return
    do this.#spansAtMs = now()
    while ((await this.#sendSpans()) && this.#isBatchFull && !this.#end.signal.aborted)
  }

  /** Whether the next batch may follow. */
  async #sendSpans(): Promise<boolean> {
    const { encoding } = this.#parts
    const batch = this.#takeBatch()
    const sent = await this.#post('traces', () => encoding.spans(batch))
    this.#tell('traces', sent)
    if (sent.isTaken) {
      this.#pauseMs = 0
      if (sent.rejected > 0) this.#drop(Math.min(sent.rejected, batch.length))
    } else if (sent.isRetryable) {
      this.#pauseMs = Math.min(PAUSE_MS.longest, this.#pauseMs * 2 || PAUSE_MS.first)
      this.#pausedUntilMs = this.#parts.now() + Math.max(sent.retryAfterMs, this.#pauseMs)
      const room = MAX_WAITING_SPANS - this.#waiting.length
      const again = batch.slice(0, room)
      this.#waiting.unshift(...again)
      this.#characters += charactersOf(again)
      if (batch.length > room) this.#drop(batch.length - room)
    } else this.#drop(batch.length)
    return sent.isTaken || !sent.isRetryable
  }

  /** The sums go on: what is not taken now is in the next ones. */
  async #sendMetrics(): Promise<void> {
    const { metrics, encoding } = this.#parts
    const data = metrics()
    if (data !== null) this.#tell('metrics', await this.#post('metrics', () => encoding.metrics(data)))
  }

  async #post(kind: Signal, body: () => Uint8Array): Promise<Sent> {
    const { endpoint, headers, encoding } = this.#parts
    const nothing = { rejected: 0, retryAfterMs: 0 }
    try {
      const answer = await fetch(`${endpoint}/v1/${kind}`, {
        method: 'POST',
        headers: { ...headers, 'content-type': encoding.contentType },
        body: body() as Uint8Array<ArrayBuffer>,
        // Another host must not get the headers.
        redirect: 'manual',
        signal: AbortSignal.any([this.#end.signal, AbortSignal.timeout(TIMEOUT_MS)]),
      })
      const said = await beginningOf(answer)
      if (!answer.ok) {
        const isRetryable = RETRYABLE.has(answer.status)
        const retryAfterMs = Math.min(MOST_RETRY_AFTER_MS, 1000 * (Number(answer.headers.get('retry-after')) || 0))
        return { isTaken: false, isRetryable, problem: `HTTP ${answer.status}`, rejected: 0, retryAfterMs }
      }
      const { count, message } = encoding.rejected(kind, said)
      const problem = count > 0 ? `${count} rejected${message === '' ? '' : `: ${message.slice(0, 200)}`}` : null
      return { ...nothing, isTaken: true, isRetryable: false, rejected: count, problem }
    } catch (error) {
      return { ...nothing, isTaken: false, isRetryable: true, problem: reasonOf(error) }
    }
  }

  #drop(spans: number): void {
    this.#droppedMeanwhile += spans
    this.#parts.dropped(spans)
  }

  /** The log says what is wrong once, and when it is no longer. */
  #tell(signal: Signal, { problem }: Sent): void {
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

/** A collector says little; whoever goes on and on is not read to the end. */
async function beginningOf({ body }: Response): Promise<Uint8Array> {
  const pieces: Uint8Array[] = []
  let size = 0
  for await (const piece of body ?? []) {
    pieces.push(piece)
    size += piece.length
    if (size > MAX_ANSWER_BYTES) break
  }
  return Buffer.concat(pieces)
}

const charactersOf = (spans: readonly WaitingSpan[]) => spans.reduce((sum, { characters }) => sum + characters, 0)

function reasonOf(error: unknown): string {
  const { message, cause, name } = error as Error & { readonly cause?: { readonly code?: string; message?: string } }
  if (name === 'TimeoutError' || name === 'AbortError') return 'no answer in time'
  return cause?.code ?? cause?.message ?? message
}
