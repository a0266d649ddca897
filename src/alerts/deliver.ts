/** One attempt to deliver an alert to a webhook. */
import type { Webhook } from '../common/alerts-config.ts'
import type { Alert } from '../store/alerts/alert-rows.ts'
import { webhookRequest } from './webhook-request.ts'

/** The result of an attempt. */
export interface DeliveryAttempt {
  /** Null: the receiver accepted it. It never contains the URL, which may be a secret. */
  readonly failure: string | null
  /** The receiver rejected the request itself, so an early retry is useless. */
  readonly isRefused: boolean
  /** The pause that the receiver requests. */
  readonly retryAfterMs: number
  /** The beginning of its answer. */
  readonly answer: string
}

const TIMEOUT_MS = 10_000
const MOST_RETRY_AFTER_MS = 86_400_000
const MAX_ANSWER_BYTES = 1024
/** Codes of 400 to 499 after which an early retry may succeed. */
const SOON: ReadonlySet<number> = new Set([408, 425, 429])

export interface DeliverParts {
  readonly nowMs: number
  /** Ends the attempt early. */
  readonly end?: AbortSignal
  /** For tests. */
  readonly timeoutMs?: number
}

/** Never throws. */
export async function deliver(
  webhook: Pick<Webhook, 'url' | 'format' | 'secret'>,
  alert: Alert,
  { nowMs, end, timeoutMs = TIMEOUT_MS }: DeliverParts,
): Promise<DeliveryAttempt> {
  const { headers, body } = webhookRequest(webhook, alert, nowMs)
  const timeout = AbortSignal.timeout(timeoutMs)
  try {
    const response = await fetch(webhook.url, {
      method: 'POST',
      headers,
      body,
      // A redirect could send the alert to another host.
      redirect: 'manual',
      signal: end ? AbortSignal.any([end, timeout]) : timeout,
    })
    const { status } = response
    const answer = await beginningOf(response)
    const attempted = { isRefused: false, retryAfterMs: 0, answer }
    if (response.ok) return { ...attempted, failure: null }
    const isRefused = status >= 300 && status < 500 && !SOON.has(status)
    const why = status >= 300 && status < 400 ? 'redirects are not followed' : ''
    const failure = `HTTP ${status}${why === '' ? '' : `: ${why}`}`
    return { ...attempted, failure, isRefused, retryAfterMs: retryAfterOf(response, nowMs) }
  } catch (error) {
    return { failure: reasonOf(error), isRefused: false, retryAfterMs: 0, answer: '' }
  }
}

/** Reads seconds or a date. */
function retryAfterOf({ headers }: Response, nowMs: number): number {
  const written = headers.get('retry-after') ?? ''
  const ms = /^\d+$/.test(written) ? 1000 * Number(written) : Date.parse(written) - nowMs
  return Number.isNaN(ms) ? 0 : Math.min(MOST_RETRY_AFTER_MS, Math.max(0, ms))
}

/** Reads as much as arrives in time: the status alone decides whether the alert was accepted. */
async function beginningOf({ body }: Response): Promise<string> {
  const pieces: Uint8Array[] = []
  let size = 0
  try {
    for await (const piece of body ?? []) {
      pieces.push(piece)
      size += piece.length
      if (size >= MAX_ANSWER_BYTES) break
    }
  } catch {}
  return Buffer.concat(pieces).toString('utf8', 0, MAX_ANSWER_BYTES)
}

function reasonOf(error: unknown): string {
  const { cause, name } = error as Error & { readonly cause?: { readonly code?: string } }
  if (name === 'TimeoutError' || name === 'AbortError') return 'no answer in time'
  return cause?.code ?? 'the connection failed'
}
