/**
 * Maps a provider's error to an `UpstreamFailure`, for all dialects. Mistakes of the client (400, 404, 413, 422) keep the provider's
 * sentence, sanitized, because it is the only help. All other errors use the sentence of the error table, and the provider's words are
 * logged.
 */
import { type ErrorCode, type UpstreamFailure, visible } from '#contract'
import { meaningOfSentence, meaningOfWord, ownWords, statusOfType } from './meanings.ts'
import { OVERFLOW } from './overflow.ts'
import { restInWords, retryAfterOf, waitInDetails, waitInWords } from './waits.ts'

/** The fields found in an error body of any shape. */
export interface ErrorDetails {
  readonly message: string | null
  readonly type: string | null
  readonly code: string | null
  readonly param: string | null
  /** The HTTP status, if the body has one. */
  readonly status?: number
  /** Milliseconds until the next attempt may be made, if a member of the body has it. */
  readonly waitMs?: number
  /** The body is an HTML page, which a proxy sent. */
  readonly isPage?: boolean
}

/** Removes the gateway's own secrets from a text: a provider may echo the key it was sent. */
export type Redact = (text: string) => string

/**
 * The failure for a status and an error body. `headers` have lower-case names. Secrets are removed first: a cut, or a pattern that
 * matches half of a secret, would leave the rest unrecognizable.
 */
export function failureOf(
  status: number,
  headers: Readonly<Record<string, string>>,
  raw: ErrorDetails,
  nowMs: number,
  redact: Redact = text => text,
): UpstreamFailure {
  const code = codeOf(status, raw)
  const details = redacted(raw, redact)
  const theirs = CLIENT_MISTAKES.has(code) && details.message ? cleanMessage(details.message) : ''
  const retryAfterMs = RETRY_AFTER.has(code)
    ? (retryAfterOf(headers, nowMs) ?? raw.waitMs ?? waitInWords(details.message) ?? DEFAULT_RETRY_AFTER_MS[code])
    : undefined
  const restMs = code === 'upstream_quota' ? restInWords(raw.message, nowMs) : undefined
  return {
    code,
    ...(theirs ? { message: theirs } : {}),
    ...(CLIENT_MISTAKES.has(code) ? { param: cleanParam(details.param) } : {}),
    ...(retryAfterMs === undefined ? {} : { retryAfterMs }),
    ...(restMs === undefined ? {} : { restMs }),
    detail: `status ${status}, type ${details.type ?? '-'}, code ${details.code ?? '-'}: ${withoutQuotes(details.message ?? '').slice(0, 1000)}`,
  }
}

/** Number of characters of a text that are processed; far less is kept. */
const MAX_READ = 16_384

function redacted({ message, type, code, param }: ErrorDetails, redact: Redact): ErrorDetails {
  const clean = (text: string | null) =>
    text === null ? null : redact(beginning(text, MAX_READ)).replace(SIGNATURE, '[secret]')
  return { message: clean(message), type: clean(type), code: clean(code), param: clean(param) }
}

/** AWS request signatures. They differ with each request, so no list of secrets has them. */
const SIGNATURE = /\b[0-9a-f]{64}\b/gi

/** The beginning of a text, up to the last whole word: half of a secret would not be recognized. */
function beginning(text: string, most: number): string {
  if (text.length <= most) return text
  let end = most
  while (end > 0 && !BLANK.test(text[end]!)) end--
  return text.slice(0, end)
}

const BLANK = /\s/

/**
 * Where a provider quotes the request. The client may see its own words again, but the log must not contain bodies. Quotes have no
 * common format, so everything after the first one is removed.
 */
const QUOTE =
  /\b(?:messages|contents?|text|parts|input(?:_value)?|inputs|prompt|instructions|system|documents|query)\\*["']?\s*[:=]\s*\\*["'[{(]|\bcontent-disposition:/i

function withoutQuotes(message: string): string {
  const at = message.search(QUOTE)
  return at === -1 ? message : `${message.slice(0, at)}…`
}

const CLIENT_MISTAKES: ReadonlySet<ErrorCode> = new Set([
  'upstream_rejected',
  'context_length_exceeded',
  'content_filter',
  'model_not_found',
  'request_too_large',
])

const RETRY_AFTER: ReadonlySet<ErrorCode> = new Set(['upstream_rate_limited', 'upstream_overloaded', 'upstream_error'])

/** Some client libraries treat a 429 without Retry-After as final. */
const DEFAULT_RETRY_AFTER_MS: Readonly<Partial<Record<ErrorCode, number>>> = { upstream_rate_limited: 1000 }

/** A 403 with these words is about the credential; any other 403 is about the request or the client's location. */
const CREDENTIAL_WORDS = /(?<![a-z])keys?(?![a-z])|credential|(?<![a-z])token(?![a-z])|signature|account|authenticat/i
/** A wrong path, which is a mistake in `base_url`. */
const WRONG_PATH = /\binvalid url\b|\bpage not found\b|\bresource not found\b|^\s*(?:404:?\s*)?not found[\s.]*$/i

/** Ambiguous statuses: the sentence may say more. */
const AMBIGUOUS: ReadonlySet<number> = new Set([400, 403, 409, 412, 422, 500])
/** Codes that take a credential out of rotation. A server that names members of the request (422) does not mean them. */
const CREDENTIAL_CODES: ReadonlySet<ErrorCode> = new Set(['upstream_auth', 'upstream_quota'])

function codeOf(status: number, details: ErrorDetails): ErrorCode {
  const { message, type, code } = details
  const known = meaningOfWord(code) ?? meaningOfWord(type)
  if (known !== undefined) return known
  if (AMBIGUOUS.has(status)) {
    const meant = meaningOfSentence(message)
    if (meant !== undefined && !(status === 422 && CREDENTIAL_CODES.has(meant))) return meant
    if (status !== 403 && OVERFLOW.test(message ?? '')) return 'context_length_exceeded'
  }
  if (status === 429) {
    const isSpent = /billing/i.test(`${type} ${code}`) || meaningOfSentence(message) === 'upstream_quota'
    return isSpent ? 'upstream_quota' : 'upstream_rate_limited'
  }
  if (status === 498) return 'upstream_rate_limited'
  if (status === 401) return 'upstream_auth'
  // Only a bad key is the credential's fault. A location, a model or a file is the same for all credentials.
  if (status === 403)
    return CREDENTIAL_WORDS.test(`${type} ${code} ${ownWords(message ?? '')}`) ? 'upstream_auth' : 'upstream_forbidden'
  if (status === 402) return 'upstream_quota'
  if (status === 508) return 'loop_detected'
  if (status === 408 || status === 504) return 'upstream_timeout'
  if (status === 503 || status === 529) return 'upstream_overloaded'
  if (status === 404) {
    if (WRONG_PATH.test(message ?? '')) return 'upstream_error'
    // An error with a type, or about a model, comes from the API itself.
    return type !== null || /\bmodels?\b/i.test(message ?? '') ? 'model_not_found' : 'upstream_error'
  }
  if (status === 413) return 'request_too_large'
  // A page comes from a proxy: no API has read the request.
  if (status === 400 || status === 422 || status === 409) return details.isPage ? 'upstream_error' : 'upstream_rejected'
  return 'upstream_error'
}

const PARAM = /^[A-Za-z_][A-Za-z0-9_.[\]]{0,99}$/

function cleanParam(param: string | null): string | null {
  // Half of a secret may look like a name, and so may a secret that is not the gateway's.
  return param !== null && PARAM.test(param) && !cleanMessage(param).includes('[secret]') ? param : null
}

/** Top-level domains and endings of internal host names. Not all: some are also words of sentences. */
const HOST_ENDS =
  'com|net|org|io|ai|dev|cloud|internal|local|localhost|localdomain|lan|corp|svc|arpa|app|tech|xyz|gov|edu|' +
  'cn|eu|co|uk|us|de|fr|nl|ch|jp|kr|sg|au|ca|ru|br'

const SECRETS: readonly (readonly [RegExp, string])[] = [
  [/\b[a-z][a-z0-9+.-]*:\/\/[^\s"'<>]*/gi, '[address]'],
  // The gateway's accounts, projects and resources, in the notations of the clouds.
  [/\barn:aws[\w-]*:[^\s"'`,;()<>]+/gi, '[hidden]'],
  [/\/subscriptions\/[^\s"'`,;()<>]+/gi, '[hidden]'],
  [/\bprojects\/[\w.:-]+/gi, 'projects/[hidden]'],
  [
    /\b(project(?:[_ ]?(?:id|number))?(?:["'`]?\s*[:=]|\s)\s*["'`]?)(?=[\w.:]*[\d-])[a-z0-9][\w.:-]{3,}/gi,
    '$1[hidden]',
  ],
  [/\b(?:bearer|basic)\s+\S+/gi, '[secret]'],
  [/[\w-]*\bapi[-_]?key["']?\s*[:=]\s*\S+/gi, '[secret]'],
  [/\b(?:key|token|secret|password|signature|sig)=\S+/gi, '[secret]'],
  [/\beyJ[\w-]{6,}(?:\.[\w-]*){1,2}/g, '[secret]'],
  [/\bya29\.[\w-]+/g, '[secret]'],
  [/\b(?:sk|pk|rk|gsk|xai|hf|tg|key|org|proj|req)[-_][A-Za-z0-9_*-]{6,}/g, '[secret]'],
  [/\bAIza[A-Za-z0-9_-]{10,}/g, '[secret]'],
  [/\bA(?:KI|SI)A[A-Z0-9]{12,}/g, '[secret]'],
  [/\b(?=[A-Za-z0-9_-]*\d)(?=[A-Za-z0-9_-]*[A-Za-z])[A-Za-z0-9_-]{32,}\b/g, '[secret]'],
  // An AWS account id.
  [/\b\d{12}\b/g, '[hidden]'],
  // A request line contains the path of `base_url`.
  [/\b(GET|POST|PUT|PATCH|DELETE)\s+\/\S+/g, '$1 [path]'],
  [/\b(?:\d{1,3}\.){3}\d{1,3}(?::\d+)?\b/g, '[address]'],
  // IPv6: five groups or more, or fewer with a `::`; a time of day has three groups and no `::`.
  [/(?<![\w:])\[?(?:[0-9a-f]{1,4}:){4,7}[0-9a-f]{1,4}(?![\w:])(?:\]:\d+)?/gi, '[address]'],
  [
    /(?<![\w:])\[?(?:[0-9a-f]{1,4}(?::[0-9a-f]{1,4}){0,6})?::(?:[0-9a-f]{1,4}:){0,6}[0-9a-f]{1,4}(?![\w:])(?:\]:\d+)?/gi,
    '[address]',
  ],
  [new RegExp(`\\b(?:(?:[a-z0-9-]{1,63}\\.)+(?:${HOST_ENDS})|localhost)\\b(?::\\d+)?`, 'gi'), '[address]'],
  // A host in a cluster, `vllm-0:8000`. It must have a dash or a digit, or any `word:1234` would match.
  [/\b(?=[a-z0-9-]*[a-z])(?=[a-z0-9-]*[0-9-])[a-z0-9-]+:\d{2,5}\b/gi, '[address]'],
  // A file in a stack trace.
  [/(?:\/[\w.@-]+){2,}\.(?:py|js|mjs|ts|go|rs|rb|java|so|cc|cpp)\b/g, '[path]'],
]

/** A provider's sentence without addresses and secrets, on one line, with control characters made visible, at most 400 characters. */
export function cleanMessage(text: string): string {
  let clean = beginning(text, 2000).replace(/[\t-\r\u0085\u2028\u2029]+/g, ' ')
  for (const [pattern, replacement] of SECRETS) clean = clean.replace(pattern, replacement)
  clean = visible(clean.trim())
  return clean.length > 400 ? `${clean.slice(0, 399)}…` : clean
}

/** Finds the error in a body: OpenAI's envelope, a bare string, FastAPI's `detail`, Google's array, or plain text. */
export function errorDetails(body: Buffer): ErrorDetails {
  const words = body.toString('utf8')
  try {
    return detailsOf(JSON.parse(words))
  } catch {
    // A page, or the beginning of JSON, is not a message for a person.
    const message = /^\s*[^\s<[{]/.test(words) ? words.trim() : null
    return { ...NO_DETAILS, message, isPage: /^\s*</.test(words) }
  }
}

const NO_DETAILS: ErrorDetails = { message: null, type: null, code: null, param: null }

/** Like `errorDetails`, for a parsed body. */
export function detailsOf(parsed: unknown): ErrorDetails {
  const value = Array.isArray(parsed) ? parsed[0] : parsed
  if (typeof value === 'string') return { ...NO_DETAILS, message: value }
  if (!isRecord(value)) return NO_DETAILS
  const error = value['error'] || value
  const outer = statusAmong(value['status_code'], value['StatusCode'])
  if (typeof error === 'string') {
    return {
      ...NO_DETAILS,
      message: error,
      code: text(value['code']),
      ...(outer === undefined ? {} : { status: outer }),
    }
  }
  if (!isRecord(error)) return NO_DETAILS
  const { base_resp: minimax, innererror: inner } = error
  if (isRecord(minimax))
    return { ...NO_DETAILS, message: text(minimax['status_msg']), code: text(minimax['status_code']) }
  const message =
    wordsBehind(error) ?? sentence(error['message']) ?? sentence(error['detail']) ?? sentence(value['message'])
  const status = statusAmong(error['code'], error['status'], error['http_code']) ?? outer
  const waitMs = waitInDetails(error['details'])
  const details: ErrorDetails = {
    message,
    type: text(error['type']) ?? text(error['status']),
    code: text(error['code']) ?? (isRecord(inner) ? text(inner['code']) : null),
    param: text(error['param']),
    ...(status === undefined ? {} : { status }),
    ...(waitMs === undefined ? {} : { waitMs }),
  }
  return behindMessage(details) ?? details
}

/** The first value that is an error status, as a number or as a text. */
function statusAmong(...values: readonly unknown[]): number | undefined {
  return values.map(Number).find(status => Number.isInteger(status) && status >= 400 && status <= 599)
}

/**
 * A relay may include the whole error of its own provider in its sentence, as JSON. But the JSON may also be the client's, so it counts
 * only if it is about the request itself.
 */
function behindMessage({ message, ...own }: ErrorDetails): ErrorDetails | null {
  const at = message?.indexOf('{"') ?? -1
  if (message === null || at === -1) return null
  try {
    const behind = detailsOf(JSON.parse(message.slice(at)))
    const meant = meaningOfWord(behind.code) ?? meaningOfWord(behind.type) ?? meaningOfSentence(behind.message)
    if (meant !== 'content_filter' && !OVERFLOW.test(behind.message ?? '')) return null
    return { ...own, message: behind.message, code: behind.code ?? own.code }
  } catch {
    return null
  }
}

/** The failure of an error inside a 200. Its status is in the body, or follows from its type. */
export function failureInside<Failure>(
  parsed: unknown,
  fail: (status: number, headers: Readonly<Record<string, string>>, details: ErrorDetails) => Failure,
): Failure {
  const details = detailsOf(parsed)
  return fail(details.status ?? statusOfType(details.type) ?? 500, {}, details)
}

/** Whether a value is empty at all levels: some providers send an empty error with each good answer. */
export function isEmptyValue(value: unknown): boolean {
  return isRecord(value)
    ? Object.values(value).every(isEmptyValue)
    : !value || (Array.isArray(value) && value.length === 0)
}

/**
 * Whether a value without an answer is an error, with a wrapper (`{"error":{...}}`) or without: `{"object":"error"}` (vLLM, Mistral), a
 * `base_resp` (MiniMax), a message with a status or a code, FastAPI's `detail`.
 */
export function isError(value: unknown): boolean {
  if (!isRecord(value)) return false
  if (!isEmptyValue(value['error']) || value['object'] === 'error') return true
  const { base_resp: minimax, message, detail } = value
  if (isRecord(minimax) && !isEmptyValue(minimax['status_code'])) return true
  if (typeof detail === 'string') return true
  return typeof message === 'string' && statusAmong(value['code'], value['status']) !== undefined
}

/** OpenRouter's own sentence only says that its provider failed. The provider's error is in the metadata, mostly as JSON. */
function wordsBehind({ message, metadata }: Record<string, unknown>): string | null {
  if (message !== 'Provider returned error' || !isRecord(metadata) || typeof metadata['raw'] !== 'string') return null
  const { raw } = metadata as { readonly raw: string }
  try {
    return detailsOf(JSON.parse(raw)).message
  } catch {
    return raw.trim() || null
  }
}

/** A text, or the first of FastAPI's details: `[{"loc":["body","user"],"msg":"not permitted"}]`, also inside an object. */
function sentence(value: unknown): string | null {
  if (isRecord(value)) return Array.isArray(value['detail']) ? sentence(value['detail']) : text(value['detail'])
  if (!Array.isArray(value)) return text(value)
  const [first] = value as unknown[]
  if (!isRecord(first)) return text(first)
  const place = Array.isArray(first['loc']) ? first['loc'].join('.') : ''
  return [place, text(first['msg']) ?? ''].filter(part => part !== '').join(': ') || null
}

function text(value: unknown): string | null {
  if (typeof value === 'string') return value
  return typeof value === 'number' ? String(value) : null
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
