/**
 * What a provider's failure means to our client: one closed vocabulary for all dialects. A client's own mistake (400,
 * 404, 413, 422) keeps the provider's sentence, cleaned, because it is the only help there is; for everything else the
 * table's sentence is used and the provider's words go to the log.
 */
import type { ErrorCode, UpstreamFailure } from '#contract'

/** What was found in an error body, whatever its shape. */
export interface ErrorDetails {
  readonly message: string | null
  readonly type: string | null
  readonly code: string | null
  readonly param: string | null
}

/** The failure for a status and an error body. `headers` have lower-case names. */
export function failureOf(
  status: number,
  headers: Readonly<Record<string, string>>,
  details: ErrorDetails,
  nowMs: number,
): UpstreamFailure {
  const code = codeOf(status, details)
  const theirs = OUR_CLIENTS_MISTAKE.has(code) && details.message ? cleanMessage(details.message) : ''
  const retryAfterMs = RETRY_AFTER.has(code) ? retryAfterOf(headers, nowMs) : undefined
  return {
    code,
    ...(theirs ? { message: theirs } : {}),
    ...(OUR_CLIENTS_MISTAKE.has(code) ? { param: cleanParam(details.param) } : {}),
    ...(retryAfterMs === undefined ? {} : { retryAfterMs }),
    detail: `status ${status}, type ${details.type ?? '-'}, code ${details.code ?? '-'}: ${(details.message ?? '').slice(0, 1000)}`,
  }
}

const OUR_CLIENTS_MISTAKE: ReadonlySet<ErrorCode> = new Set([
  'upstream_rejected',
  'context_length_exceeded',
  'content_filter',
  'model_not_found',
  'request_too_large',
])

const RETRY_AFTER: ReadonlySet<ErrorCode> = new Set(['upstream_rate_limited', 'upstream_overloaded', 'upstream_error'])

const CONTEXT = /context.{0,20}length|maximum context|prompt is too long|too many (input )?tokens|input token count/i
const QUOTA = /insufficient_quota|insufficient balance|billing/i

function codeOf(status: number, { message, type, code }: ErrorDetails): ErrorCode {
  const words = `${type ?? ''} ${code ?? ''}`
  if (status === 429 && QUOTA.test(words)) return 'upstream_quota'
  if (status === 429 || status === 498) return 'upstream_rate_limited'
  if (status === 401 || status === 403) return 'upstream_auth'
  if (status === 402) return 'upstream_quota'
  if (status === 408 || status === 504) return 'upstream_timeout'
  if (status === 503 || status === 529) return 'upstream_overloaded'
  if (status === 404) return code === 'model_not_found' || type !== null ? 'model_not_found' : 'upstream_error'
  if (status === 413) return 'request_too_large'
  if (status === 400 || status === 422 || status === 409) {
    if (code === 'context_length_exceeded' || CONTEXT.test(message ?? '')) return 'context_length_exceeded'
    return code === 'content_filter' ? 'content_filter' : 'upstream_rejected'
  }
  return 'upstream_error'
}

/** The longest wait that is passed on; beyond it the provider is guessing, and a client would give up anyway. */
const LONGEST_WAIT_MS = 600_000

/** `retry-after-ms`, or `Retry-After` in seconds or as a date (RFC 9110 10.2.3); nonsense counts as absent. */
export function retryAfterOf(headers: Readonly<Record<string, string>>, nowMs: number): number | undefined {
  const exact = headers['retry-after-ms']
  if (exact !== undefined && /^\d{1,9}$/.test(exact)) return Math.min(Number(exact), LONGEST_WAIT_MS)
  const text = headers['retry-after']
  if (text === undefined) return undefined
  if (/^\d{1,12}$/.test(text)) return Math.min(Number(text) * 1000, LONGEST_WAIT_MS)
  const date = /^[A-Z][a-z]{2}, \d{2} [A-Z][a-z]{2} \d{4} /.test(text) ? Date.parse(text) : Number.NaN
  return Number.isNaN(date) ? undefined : Math.min(Math.max(date - nowMs, 0), LONGEST_WAIT_MS)
}

const PARAM = /^[A-Za-z_][A-Za-z0-9_.[\]]{0,99}$/

function cleanParam(param: string | null): string | null {
  return param !== null && PARAM.test(param) ? param : null
}

const SECRETS: readonly (readonly [RegExp, string])[] = [
  [/\b[a-z][a-z0-9+.-]*:\/\/[^\s"'<>]*/gi, '[address]'],
  [/\b(?:\d{1,3}\.){3}\d{1,3}(?::\d+)?\b/g, '[address]'],
  [/\b(?:[a-z0-9-]+\.)+(?:com|net|org|io|ai|dev|cloud|internal|local|app|cn|eu)\b(?::\d+)?/gi, '[address]'],
  [/\b(?:bearer|basic)\s+\S+/gi, '[secret]'],
  [/\b(?:sk|pk|rk|gsk|xai|tg|key|org|proj|req)[-_][A-Za-z0-9_*-]{6,}/g, '[secret]'],
  [/\bAIza[A-Za-z0-9_-]{10,}/g, '[secret]'],
  [/\b(?=[A-Za-z0-9_-]*\d)(?=[A-Za-z0-9_-]*[A-Za-z])[A-Za-z0-9_-]{32,}\b/g, '[secret]'],
]

/** A provider's sentence without addresses, secrets and control characters, at most 400 characters. */
export function cleanMessage(text: string): string {
  let clean = text.slice(0, 2000).replace(/[\u0000-\u001f\u007f-\u009f\u2028\u2029]+/g, ' ')
  for (const [pattern, replacement] of SECRETS) clean = clean.replace(pattern, replacement)
  clean = clean.trim()
  return clean.length > 400 ? `${clean.slice(0, 399)}…` : clean
}

/** Finds the error in a body: OpenAI's envelope, a bare string, FastAPI's `detail`, Google's array, or any text. */
export function errorDetails(body: Buffer): ErrorDetails {
  let value: unknown
  try {
    value = JSON.parse(body.toString('utf8'))
  } catch {
    return { message: null, type: null, code: null, param: null }
  }
  return detailsOf(value)
}

/** As `errorDetails`, for a body that was parsed already. */
export function detailsOf(parsed: unknown): ErrorDetails {
  const value = Array.isArray(parsed) ? parsed[0] : parsed
  if (typeof value === 'string') return { message: value, type: null, code: null, param: null }
  if (!isRecord(value)) return { message: null, type: null, code: null, param: null }
  const error = value['error'] ?? value
  if (typeof error === 'string') return { message: error, type: null, code: text(value['code']), param: null }
  if (!isRecord(error)) return { message: null, type: null, code: null, param: null }
  return {
    message: text(error['message']) ?? text(error['detail']) ?? text(value['message']),
    type: text(error['type']),
    code: text(error['code']),
    param: text(error['param']),
  }
}

function text(value: unknown): string | null {
  if (typeof value === 'string') return value
  return typeof value === 'number' ? String(value) : null
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
