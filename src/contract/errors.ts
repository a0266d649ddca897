/**
 * The table of all errors that a client can get: code, status, type, whether a retry can help, and message. A test checks the README's
 * table against it.
 *
 * The envelope and its four keys are those of api.openai.com (`ErrorResponse` of its OpenAPI description). The statuses suit the official
 * SDKs, which retry 408, 409, 429 and 5xx, and nothing else.
 */
import { visible } from './visible.ts'

/** The types of errors, as api.openai.com names them. */
export type ErrorType =
  | 'invalid_request_error'
  | 'authentication_error'
  | 'permission_error'
  | 'rate_limit_error'
  | 'insufficient_quota'
  | 'server_error'

/** One row of the table. If `retryable` is false, `x-should-retry: false` stops clients that would retry in vain. */
export interface ErrorRow {
  readonly status: number
  readonly type: ErrorType
  readonly retryable: boolean
  /** Used if the refusal has no more specific message. */
  readonly message: string
}

const row = (status: number, type: ErrorType, retryable: boolean, message: string): ErrorRow => ({
  status,
  type,
  retryable,
  message,
})

/** The error table. */
export const ERRORS = {
  // HTTP and the body.
  bad_request: row(400, 'invalid_request_error', false, 'The HTTP request is malformed.'),
  request_timeout: row(408, 'invalid_request_error', true, 'The request did not arrive completely in time.'),
  unknown_url: row(404, 'invalid_request_error', false, 'There is nothing at this URL.'),
  not_supported: row(404, 'invalid_request_error', false, 'The gateway does not have this part of the API.'),
  unknown_host: row(404, 'invalid_request_error', false, 'This gateway does not serve that host name.'),
  method_not_allowed: row(405, 'invalid_request_error', false, 'This URL does not support that method.'),
  request_too_large: row(413, 'invalid_request_error', false, 'The request body is too large.'),
  unsupported_media_type: row(415, 'invalid_request_error', false, 'The body must be application/json, not encoded.'),
  websocket_not_supported: row(426, 'invalid_request_error', false, 'WebSockets are not supported here. Use HTTP.'),
  headers_too_large: row(431, 'invalid_request_error', false, 'The request has too many or too large headers.'),
  invalid_json: row(400, 'invalid_request_error', false, 'The body is not valid JSON.'),
  request_too_complex: row(400, 'invalid_request_error', false, 'The body is nested too deeply or has too many parts.'),
  missing_required_parameter: row(400, 'invalid_request_error', false, 'A required parameter is missing.'),
  unknown_parameter: row(400, 'invalid_request_error', false, 'A parameter is unknown.'),
  invalid_type: row(400, 'invalid_request_error', false, 'A parameter has the wrong type.'),
  invalid_tag: row(400, 'invalid_request_error', false, 'A tag of the request has a value that is not allowed.'),
  tag_required: row(400, 'invalid_request_error', false, 'The request has no value for a tag that is required.'),
  invalid_value: row(400, 'invalid_request_error', false, 'A parameter has a value that is not allowed.'),
  unsupported_parameter: row(
    400,
    'invalid_request_error',
    false,
    'This model does not support a parameter of the request.',
  ),
  context_length_exceeded: row(
    400,
    'invalid_request_error',
    false,
    "The messages do not fit the model's maximum context length.",
  ),
  model_not_found: row(404, 'invalid_request_error', false, 'The model does not exist, or this key may not use it.'),
  receipt_not_found: row(404, 'invalid_request_error', false, 'Your account has no receipt with this id.'),
  response_not_found: row(404, 'invalid_request_error', false, 'Your account has no response with this id.'),
  previous_response_not_found: row(
    400,
    'invalid_request_error',
    false,
    'The previous response has expired or was deleted.',
  ),
  item_not_found: row(404, 'invalid_request_error', false, 'Your account has no item with this id.'),

  // Authentication.
  missing_api_key: row(401, 'authentication_error', false, 'No API key. Send it as: Authorization: Bearer KEY'),
  malformed_api_key: row(
    401,
    'authentication_error',
    false,
    'The API key is incomplete, mistyped or of another gateway. Copy it again.',
  ),
  invalid_api_key: row(401, 'authentication_error', false, 'This API key is unknown.'),
  revoked_api_key: row(401, 'authentication_error', false, 'This API key was revoked. Make a new one.'),
  expired_api_key: row(
    401,
    'authentication_error',
    false,
    'This API key has expired. Give it a later expiry or make a new one.',
  ),
  account_frozen: row(403, 'permission_error', false, 'This account is frozen. Ask the operator of this gateway.'),
  plan_not_declared: row(403, 'permission_error', false, "The account's plan is not declared. Ask the operator."),
  unauthorized: row(401, 'authentication_error', false, 'This request is not authenticated.'),
  forbidden: row(403, 'permission_error', false, 'This request is not allowed.'),

  // Limits and money.
  rate_limit_exceeded: row(
    429,
    'rate_limit_error',
    true,
    'Too many requests. Try again after the time in Retry-After.',
  ),
  credit_on_hold: row(429, 'rate_limit_error', true, "The rest of the credit is held for the account's open requests."),
  insufficient_quota: row(402, 'insufficient_quota', false, 'The account has too little credit for this request.'),
  spending_cap_reached: row(
    402,
    'insufficient_quota',
    false,
    'The spending cap of this key does not allow the request.',
  ),
  budget_exhausted: row(429, 'insufficient_quota', false, 'A budget does not allow the request until its next period.'),

  // The account API, which the dashboard uses.
  not_signed_in: row(401, 'authentication_error', false, 'Sign in first.'),
  wrong_credentials: row(401, 'authentication_error', false, 'The e-mail address or the password is wrong.'),
  too_many_attempts: row(429, 'rate_limit_error', true, 'Too many attempts. Try again later.'),
  cross_site_request: row(403, 'permission_error', false, 'Cross-site requests are not allowed.'),
  registration_closed: row(403, 'permission_error', false, 'Registration is by invitation only. Ask the operator.'),
  link_invalid: row(404, 'invalid_request_error', false, 'This link was used, has expired, or is incomplete.'),
  not_found: row(404, 'invalid_request_error', false, 'Nothing has this id.'),
  conflict: row(409, 'invalid_request_error', false, 'It conflicts with something that exists.'),

  // The gateway itself.
  overloaded: row(503, 'server_error', true, 'The gateway is at its limit. Try again shortly.'),
  shutting_down: row(503, 'server_error', true, 'The gateway is shutting down. Try again.'),
  store_unavailable: row(503, 'server_error', true, 'The ledger could not be written. Nothing was charged.'),
  plugin_error: row(500, 'server_error', false, 'A step of the policy failed. Give the operator the request id.'),
  internal_error: row(500, 'server_error', false, 'Something unexpected failed. Give the operator the request id.'),

  loop_detected: row(508, 'server_error', false, 'The request has returned to this gateway: a base_url points to it.'),

  // The provider.
  upstream_rejected: row(400, 'invalid_request_error', false, 'The model provider refused the request.'),
  content_filter: row(400, 'invalid_request_error', false, "The provider's content filter refused the request."),
  upstream_auth: row(502, 'server_error', false, "The model provider refused the gateway's own credentials."),
  upstream_forbidden: row(403, 'permission_error', false, 'The model provider does not allow this request.'),
  upstream_quota: row(502, 'server_error', false, "The gateway's own quota at the model provider is used up."),
  upstream_rate_limited: row(
    429,
    'rate_limit_error',
    true,
    'The model provider is limiting requests. Try again later.',
  ),
  upstream_overloaded: row(503, 'server_error', true, 'The model provider is overloaded. Try again shortly.'),
  upstream_unreachable: row(502, 'server_error', true, 'The model provider could not be reached.'),
  upstream_timeout: row(504, 'server_error', true, 'The model provider did not answer in time.'),
  upstream_error: row(502, 'server_error', true, 'The model provider failed.'),
  upstream_invalid: row(502, 'server_error', true, 'The model provider sent an answer that cannot be understood.'),
  upstream_too_large: row(
    502,
    'server_error',
    false,
    "The model provider's answer is larger than this gateway accepts.",
  ),
  upstream_truncated: row(502, 'server_error', true, "The model provider's answer broke off before its end."),
} as const satisfies Record<string, ErrorRow>

/** A code of the table, used in `error.code`, metrics and the log. */
export type ErrorCode = keyof typeof ERRORS

/** Details of a refusal besides its code. */
export interface RefusalOptions {
  /** The message for the client; left out: the table's. It must not contain secrets, hosts or stack traces. */
  readonly message?: string
  /** The place in the request, as a path: `messages[1].content`. */
  readonly param?: string | null
  /** The time until a retry can help, in milliseconds; becomes Retry-After and retry-after-ms. */
  readonly retryAfterMs?: number
  /** Further response headers, with lower-case names. */
  readonly headers?: Readonly<Record<string, string>>
  /** For the log only. */
  readonly detail?: string
  /** The id of the failed step. The gateway sets it. */
  readonly step?: string
  readonly cause?: unknown
}

/** The body of every error answer; it always has all four keys. */
export interface ErrorEnvelope {
  readonly error: {
    readonly message: string
    readonly type: ErrorType
    readonly param: string | null
    readonly code: ErrorCode
  }
}

// A symbol from the global registry instead of `instanceof`: a plugin may have its own copy of this module.
const REFUSAL = Symbol.for('tollgate.refusal')

/** A deliberate rejection, created by `refuse()`. The runner turns it into the envelope and never reports it as a bug. */
export class Refusal extends Error {
  readonly [REFUSAL] = true
  readonly code: ErrorCode
  readonly status: number
  readonly type: ErrorType
  readonly retryable: boolean
  readonly param: string | null
  readonly retryAfterMs: number | undefined
  readonly headers: Readonly<Record<string, string>>
  readonly detail: string | undefined
  readonly step: string | undefined

  constructor(code: ErrorCode, options: RefusalOptions = {}) {
    // The message may quote a client or a provider.
    super(
      visible(options.message ?? ERRORS[code].message),
      options.cause === undefined ? undefined : { cause: options.cause },
    )
    this.name = 'Refusal'
    this.code = code
    this.status = ERRORS[code].status
    this.type = ERRORS[code].type
    this.retryable = ERRORS[code].retryable
    this.param = options.param == null ? null : visible(options.param)
    this.retryAfterMs = options.retryAfterMs
    this.headers = options.headers ?? {}
    this.detail = options.detail === undefined ? undefined : visible(options.detail)
    this.step = options.step
  }
}

/** Creates a refusal to throw: `throw refuse('rate_limit_exceeded', { retryAfterMs: 1200 })`. Throws a TypeError for an unknown code. */
export function refuse(code: ErrorCode, options: RefusalOptions = {}): Refusal {
  if (!Object.hasOwn(ERRORS, code)) throw new TypeError(`refuse: "${code}" is not in the table of errors`)
  return new Refusal(code, options)
}

/** Returns the refusal with another message and place; itself if both are unchanged. */
export function reworded(refusal: Refusal, { message, param }: { message: string; param: string | null }): Refusal {
  if (message === refusal.message && param === refusal.param) return refusal
  const { code, retryAfterMs, headers, detail, step, cause } = refusal
  return refuse(code, {
    message,
    param,
    headers,
    ...(retryAfterMs === undefined ? {} : { retryAfterMs }),
    ...(detail === undefined ? {} : { detail }),
    ...(step === undefined ? {} : { step }),
    ...(cause === undefined ? {} : { cause }),
  })
}

/** Whether an error is a refusal, possibly made by another copy of this module. */
export function isRefusal(error: unknown): error is Refusal {
  return typeof error === 'object' && error !== null && (error as { [REFUSAL]?: unknown })[REFUSAL] === true
}

/** The JSON body for a refusal. */
export function envelope(refusal: Refusal): ErrorEnvelope {
  return {
    error: { message: refusal.message, type: refusal.type, param: refusal.param, code: refusal.code },
  }
}

/** The official SDKs ignore longer waits and retry at once, so such a refusal forbids retries. */
const MAX_RETRY_MS = 60_000

/** Some clients retry these for minutes, although waiting changes neither the key nor the credit. */
const NEVER_RETRIED: ReadonlySet<number> = new Set([401, 402, 403, 404])

/**
 * Returns the headers that control retries: Retry-After (whole seconds, RFC 9110 10.2.3), and `retry-after-ms` and `x-should-retry`,
 * which the OpenAI SDKs read.
 */
export function retryHeaders(refusal: Refusal): Record<string, string> {
  const headers: Record<string, string> = {}
  if (refusal.retryAfterMs !== undefined) {
    const ms = Math.max(1, Math.ceil(refusal.retryAfterMs))
    headers['retry-after'] = String(Math.ceil(ms / 1000))
    headers['retry-after-ms'] = String(ms)
  }
  const wouldRetry = refusal.status === 408 || refusal.status === 409 || refusal.status === 429 || refusal.status >= 500
  const tooLong = (refusal.retryAfterMs ?? 0) > MAX_RETRY_MS
  if (NEVER_RETRIED.has(refusal.status) || (wouldRetry && (!refusal.retryable || tooLong)))
    headers['x-should-retry'] = 'false'
  return headers
}
