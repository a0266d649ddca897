/**
 * What a provider's failure means to our client: one closed vocabulary for all dialects. A client's own mistake (400,
 * 404, 413, 422) keeps the provider's sentence, cleaned, because it is the only help there is; for everything else the
 * table's sentence is used and the provider's words go to the log.
 */
import { type ErrorCode, type UpstreamFailure, visible } from '#contract'
import { meaningOfSentence, meaningOfWord, ownWords, statusOfType } from './meanings.ts'
import { OVERFLOW } from './overflow.ts'
import { restInWords, retryAfterOf, waitInDetails, waitInWords } from './waits.ts'

/** What was found in an error body, whatever its shape. */
export interface ErrorDetails {
  readonly message: string | null
  readonly type: string | null
  readonly code: string | null
  readonly param: string | null
  /** The HTTP status, where the body says it. */
  readonly status?: number
  /** Milliseconds until the next try may come, where a member of the body says it. */
  readonly waitMs?: number
  /** The body is a page for people: a proxy's. */
  readonly isPage?: boolean
}

/** Takes the gateway's own secrets out of a text: a provider may echo the key that it was sent. */
export type Redact = (text: string) => string

/**
 * The failure for a status and an error body. `headers` have lower-case names. Secrets go first: a cut, or a pattern that
 * matches the half of one, would leave the rest unrecognisable.
 */
export function failureOf(
  status: number,
  headers: Readonly<Record<string, string>>,
  said: ErrorDetails,
  nowMs: number,
  redact: Redact = text => text,
): UpstreamFailure {
  const code = codeOf(status, said)
  const details = redacted(said, redact)
  const theirs = OUR_CLIENTS_MISTAKE.has(code) && details.message ? cleanMessage(details.message) : ''
  const retryAfterMs = RETRY_AFTER.has(code)
    ? (retryAfterOf(headers, nowMs) ?? said.waitMs ?? waitInWords(details.message) ?? WITHOUT_A_WORD_MS[code])
    : undefined
  const restMs = code === 'upstream_quota' ? restInWords(said.message, nowMs) : undefined
  return {
    code,
    ...(theirs ? { message: theirs } : {}),
    ...(OUR_CLIENTS_MISTAKE.has(code) ? { param: cleanParam(details.param) } : {}),
    ...(retryAfterMs === undefined ? {} : { retryAfterMs }),
    ...(restMs === undefined ? {} : { restMs }),
    detail: `status ${status}, type ${details.type ?? '-'}, code ${details.code ?? '-'}: ${withoutQuotes(details.message ?? '').slice(0, 1000)}`,
  }
}

/** Characters of a text that are looked at: far more than is kept of it. */
const MAX_READ = 16_384

function redacted({ message, type, code, param }: ErrorDetails, redact: Redact): ErrorDetails {
  const clean = (text: string | null) =>
    text === null ? null : redact(beginning(text, MAX_READ)).replace(SIGNATURE, '[secret]')
  return { message: clean(message), type: clean(type), code: clean(code), param: clean(param) }
}

/** AWS's, made for one request: no list of secrets has it. */
const SIGNATURE = /\b[0-9a-f]{64}\b/gi

/** The first words: a word that does not fit is left out, because of half a secret nobody can tell what it is. */
function beginning(text: string, most: number): string {
  if (text.length <= most) return text
  let end = most
  while (end > 0 && !BLANK.test(text[end]!)) end--
  return text.slice(0, end)
}

const BLANK = /\s/

/**
 * Where a provider quotes the request: the client may read its own words again, the log has no bodies in it. What
 * quotes look like is the provider's business, so that everything behind the first one goes.
 */
const QUOTE =
  /\b(?:messages|contents?|text|parts|input(?:_value)?|inputs|prompt|instructions|system|documents|query)\\*["']?\s*[:=]\s*\\*["'[{(]|\bcontent-disposition:/i

function withoutQuotes(message: string): string {
  const at = message.search(QUOTE)
  return at === -1 ? message : `${message.slice(0, at)}…`
}

const OUR_CLIENTS_MISTAKE: ReadonlySet<ErrorCode> = new Set([
  'upstream_rejected',
  'context_length_exceeded',
  'content_filter',
  'model_not_found',
  'request_too_large',
])

const RETRY_AFTER: ReadonlySet<ErrorCode> = new Set(['upstream_rate_limited', 'upstream_overloaded', 'upstream_error'])

/** Some client libraries take a 429 without Retry-After for final. */
const WITHOUT_A_WORD_MS: Readonly<Partial<Record<ErrorCode, number>>> = { upstream_rate_limited: 1000 }

/** A 403 in such words is about who asks; any other is about what is asked, or from where. */
const WHO_ASKS = /(?<![a-z])keys?(?![a-z])|credential|(?<![a-z])token(?![a-z])|signature|account|authenticat/i
/** A wrong path, which is a mistake in `base_url`. */
const NO_PATH = /\binvalid url\b|\bpage not found\b|\bresource not found\b|^\s*(?:404:?\s*)?not found[\s.]*$/i

/** Statuses that say little of what has happened: the sentence may know better. */
const VAGUE: ReadonlySet<number> = new Set([400, 403, 409, 412, 422, 500])
/** Codes that put a credential aside: a server that names members of the request (422) does not mean them. */
const OF_CREDENTIALS: ReadonlySet<ErrorCode> = new Set(['upstream_auth', 'upstream_quota'])

function codeOf(status: number, said: ErrorDetails): ErrorCode {
  const { message, type, code } = said
  const known = meaningOfWord(code) ?? meaningOfWord(type)
  if (known !== undefined) return known
  if (VAGUE.has(status)) {
    const meant = meaningOfSentence(message)
    if (meant !== undefined && !(status === 422 && OF_CREDENTIALS.has(meant))) return meant
    if (status !== 403 && OVERFLOW.test(message ?? '')) return 'context_length_exceeded'
  }
  if (status === 429) {
    const isSpent = /billing/i.test(`${type} ${code}`) || meaningOfSentence(message) === 'upstream_quota'
    return isSpent ? 'upstream_quota' : 'upstream_rate_limited'
  }
  if (status === 498) return 'upstream_rate_limited'
  if (status === 401) return 'upstream_auth'
  // Of the reasons for a 403 only a bad key is the credential's: a place, a model, a file are the same for all.
  if (status === 403)
    return WHO_ASKS.test(`${type} ${code} ${ownWords(message ?? '')}`) ? 'upstream_auth' : 'upstream_forbidden'
  if (status === 402) return 'upstream_quota'
  if (status === 508) return 'loop_detected'
  if (status === 408 || status === 504) return 'upstream_timeout'
  if (status === 503 || status === 529) return 'upstream_overloaded'
  if (status === 404) {
    if (NO_PATH.test(message ?? '')) return 'upstream_error'
    // An error with a type, or about a model, is the API's own.
    return type !== null || /\bmodels?\b/i.test(message ?? '') ? 'model_not_found' : 'upstream_error'
  }
  if (status === 413) return 'request_too_large'
  // A page is a proxy's: no API has read the request.
  if (status === 400 || status === 422 || status === 409) return said.isPage ? 'upstream_error' : 'upstream_rejected'
  return 'upstream_error'
}

const PARAM = /^[A-Za-z_][A-Za-z0-9_.[\]]{0,99}$/

function cleanParam(param: string | null): string | null {
  // The half of a secret may look like a name, and so may a secret that is not the gateway's.
  return param !== null && PARAM.test(param) && !cleanMessage(param).includes('[secret]') ? param : null
}

/** Top-level domains and what ends the names of internal hosts. Not all there are: some are words of sentences. */
const HOST_ENDS =
  'com|net|org|io|ai|dev|cloud|internal|local|localhost|localdomain|lan|corp|svc|arpa|app|tech|xyz|gov|edu|' +
  'cn|eu|co|uk|us|de|fr|nl|ch|jp|kr|sg|au|ca|ru|br'

const SECRETS: readonly (readonly [RegExp, string])[] = [
  [/\b[a-z][a-z0-9+.-]*:\/\/[^\s"'<>]*/gi, '[address]'],
  // Whose accounts, projects and resources the gateway's are, in the clouds' own notations.
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
  // An account of AWS.
  [/\b\d{12}\b/g, '[hidden]'],
  // A request line has the path of `base_url` in it.
  [/\b(GET|POST|PUT|PATCH|DELETE)\s+\/\S+/g, '$1 [path]'],
  [/\b(?:\d{1,3}\.){3}\d{1,3}(?::\d+)?\b/g, '[address]'],
  // IPv6: five groups or more, or fewer with a `::`; a time of day has three groups and no `::`.
  [/(?<![\w:])\[?(?:[0-9a-f]{1,4}:){4,7}[0-9a-f]{1,4}(?![\w:])(?:\]:\d+)?/gi, '[address]'],
  [
    /(?<![\w:])\[?(?:[0-9a-f]{1,4}(?::[0-9a-f]{1,4}){0,6})?::(?:[0-9a-f]{1,4}:){0,6}[0-9a-f]{1,4}(?![\w:])(?:\]:\d+)?/gi,
    '[address]',
  ],
  [new RegExp(`\\b(?:(?:[a-z0-9-]{1,63}\\.)+(?:${HOST_ENDS})|localhost)\\b(?::\\d+)?`, 'gi'), '[address]'],
  // A host of a cluster, `vllm-0:8000`: with a dash or a digit, or any `word:1234` would be one.
  [/\b(?=[a-z0-9-]*[a-z])(?=[a-z0-9-]*[0-9-])[a-z0-9-]+:\d{2,5}\b/gi, '[address]'],
  // A file in somebody's stack trace.
  [/(?:\/[\w.@-]+){2,}\.(?:py|js|mjs|ts|go|rs|rb|java|so|cc|cpp)\b/g, '[path]'],
]

/** A provider's sentence without addresses and secrets, on one line in which everything can be seen, at most 400 characters. */
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
    // Neither a page nor the beginning of JSON says anything to a person.
    const message = /^\s*[^\s<[{]/.test(words) ? words.trim() : null
    return { ...NO_DETAILS, message, isPage: /^\s*</.test(words) }
  }
}

const NO_DETAILS: ErrorDetails = { message: null, type: null, code: null, param: null }

/** As `errorDetails`, for a body that was parsed already. */
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

/** The first that is a status of an error, as a number or as a text. */
function statusAmong(...values: readonly unknown[]): number | undefined {
  return values.map(Number).find(status => Number.isInteger(status) && status >= 400 && status <= 599)
}

/**
 * A relay may put the whole error of the one behind it into its sentence, as JSON. But JSON in a sentence may be the client's too, so
 * that it counts only where it says something about the request itself.
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

/** The failure of an error inside a 200: its status is in the body, or belongs to its type. */
export function failureInside<Failure>(
  parsed: unknown,
  fail: (status: number, headers: Readonly<Record<string, string>>, details: ErrorDetails) => Failure,
): Failure {
  const details = detailsOf(parsed)
  return fail(details.status ?? statusOfType(details.type) ?? 500, {}, details)
}

/** Whether a value is, or has, nothing: some providers put an error without words beside each good answer. */
export function saysNothing(value: unknown): boolean {
  return isRecord(value)
    ? Object.values(value).every(saysNothing)
    : !value || (Array.isArray(value) && value.length === 0)
}

/**
 * Whether a value without an answer in it is an error, in a wrapper (`{"error":{...}}`) or without one: `{"object":"error"}` (vLLM,
 * Mistral), a `base_resp` (MiniMax), a message with a status or a code, FastAPI's `detail`.
 */
export function isError(value: unknown): boolean {
  if (!isRecord(value)) return false
  if (!saysNothing(value['error']) || value['object'] === 'error') return true
  const { base_resp: minimax, message, detail } = value
  if (isRecord(minimax) && !saysNothing(minimax['status_code'])) return true
  if (typeof detail === 'string') return true
  return typeof message === 'string' && statusAmong(value['code'], value['status']) !== undefined
}

/** OpenRouter's own sentence only says that somebody else has failed; what that one said is behind it, as JSON mostly. */
function wordsBehind({ message, metadata }: Record<string, unknown>): string | null {
  if (message !== 'Provider returned error' || !isRecord(metadata) || typeof metadata['raw'] !== 'string') return null
  const { raw } = metadata as { readonly raw: string }
  try {
    return detailsOf(JSON.parse(raw)).message
  } catch {
    return raw.trim() || null
  }
}

/** A text, or the first of FastAPI's details: `[{"loc":["body","user"],"msg":"not permitted"}]`, also wrapped once more. */
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
