/** Sends requests to a collector by OTLP over HTTP, and decides when the next request of a signal may be sent. */
import type { Encoding, Signal } from './encoding.ts'

/** The pause after a retryable failure; twice as long each time. */
const PAUSE_MS = { first: 5_000, longest: 60_000 }
const MOST_RETRY_AFTER_MS = 300_000
const TIMEOUT_MS = 10_000
const MAX_ANSWER_BYTES = 64 * 1024

/** The collector may accept the same request later (OTLP). */
const RETRYABLE: ReadonlySet<number> = new Set([429, 502, 503, 504])

export interface SendResult {
  readonly isAccepted: boolean
  readonly isRetryable: boolean
  /** The number of spans, or data points, that the collector rejected from an accepted request. */
  readonly rejected: number
  readonly problem: string | null
  readonly retryAfterMs: number
}

export interface CollectorParts {
  /** Without a slash at its end; `/v1/traces` and `/v1/metrics` are appended. */
  readonly endpoint: string
  readonly headers: Readonly<Record<string, string>>
  readonly encoding: Encoding
}

/**
 * Sends one request; never throws.
 *
 * @param encode creates the body. If it throws, the request is not retryable: the same data would fail again.
 * @param end ends the request early
 */
export async function post(
  { endpoint, headers, encoding }: CollectorParts,
  signal: Signal,
  encode: () => Uint8Array,
  end: AbortSignal,
): Promise<SendResult> {
  const nothing = { isAccepted: false, rejected: 0, retryAfterMs: 0 }
  let body: Uint8Array
  try {
    body = encode()
  } catch (error) {
    return { ...nothing, isRetryable: false, problem: `encoding failed: ${reasonOf(error)}` }
  }
  try {
    const answer = await fetch(`${endpoint}/v1/${signal}`, {
      method: 'POST',
      headers: { ...headers, 'content-type': encoding.contentType },
      body: body as Uint8Array<ArrayBuffer>,
      // Another host must not get the headers.
      redirect: 'manual',
      signal: AbortSignal.any([end, AbortSignal.timeout(TIMEOUT_MS)]),
    })
    const start = await beginningOf(answer)
    if (!answer.ok) {
      const isRetryable = RETRYABLE.has(answer.status)
      const retryAfterMs = Math.min(MOST_RETRY_AFTER_MS, 1000 * (Number(answer.headers.get('retry-after')) || 0))
      return { ...nothing, isRetryable, problem: `HTTP ${answer.status}`, retryAfterMs }
    }
    const { count, message } = encoding.rejected(signal, start)
    const problem = count > 0 ? `${count} rejected${message === '' ? '' : `: ${message.slice(0, 200)}`}` : null
    return { ...nothing, isAccepted: true, isRetryable: false, rejected: count, problem }
  } catch (error) {
    return { ...nothing, isRetryable: true, problem: reasonOf(error) }
  }
}

/** Answers of a collector are short; a long one is not read to its end. */
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

function reasonOf(error: unknown): string {
  const { message, cause, name } = error as Error & { readonly cause?: { readonly code?: string; message?: string } }
  if (name === 'TimeoutError' || name === 'AbortError') return 'no answer in time'
  return cause?.code ?? cause?.message ?? message
}

/** Schedules the requests of one signal: one at a time, with a pause after a retryable failure. */
export class Lane {
  /** The request in progress; null: none. */
  sending: Promise<void> | null = null
  #pauseMs = 0
  #pausedUntilMs = 0

  mayStart(nowMs: number): boolean {
    return this.sending === null && nowMs >= this.#pausedUntilMs
  }

  start(work: Promise<void>): void {
    this.sending = work.finally(() => {
      this.sending = null
    })
  }

  /** Begins a pause after a retryable failure. After an accepted request, the next pause is short again. */
  record({ isAccepted, isRetryable, retryAfterMs }: SendResult, nowMs: number): void {
    if (isAccepted) this.#pauseMs = 0
    if (!isRetryable) return
    this.#pauseMs = Math.min(PAUSE_MS.longest, this.#pauseMs * 2 || PAUSE_MS.first)
    this.#pausedUntilMs = nowMs + Math.max(retryAfterMs, this.#pauseMs)
  }
}
