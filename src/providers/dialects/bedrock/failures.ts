/** Reads AWS's errors: a type in a header, in the body or in a frame of a stream, and a body with only a `message`. */
import type { UpstreamFailure } from '#contract'
import { type ErrorDetails, errorDetails, failureOf, type Redact } from '../failure.ts'
import { OVERFLOW } from '../overflow.ts'

export interface AwsError {
  /** The HTTP status, or null in the middle of a stream. */
  readonly status: number | null
  readonly headers: Readonly<Record<string, string>>
  /** `ThrottlingException`, possibly with a prefix before `#` and a suffix after `:`. */
  readonly type: string | null
  readonly message: string | null
}

export type FailAws = (error: AwsError) => UpstreamFailure

/** @param now milliseconds since the epoch, for a Retry-After that is a date */
export function awsFailures(now: () => number, redact?: Redact): FailAws {
  return ({ status, headers, type, message }) => {
    const name = type === null ? null : nameOf(type)
    const details: ErrorDetails = { message, type: name, code: null, param: null }
    const meant = meantStatus(status, name, message)
    const failure = failureOf(meant, headers, { ...details, code: codeOf(meant, message) }, now(), redact)
    if (meant === status) return failure
    return { ...failure, detail: failure.detail.replace(`status ${meant}`, `status ${status ?? 'in the stream'}`) }
  }
}

export function awsErrorIn(status: number, headers: Readonly<Record<string, string>>, body: Buffer): AwsError {
  const { message, type, code } = errorDetails(body)
  return {
    status,
    headers,
    type: headers['x-amzn-errortype'] ?? typeIn(body) ?? type ?? code,
    message: message ?? capital(body),
  }
}

/** The status for each type of error, which overrides the response's status. In lower case, because frames write them so. */
const STATUS_OF: ReadonlyMap<string, number> = new Map(
  Object.entries({
    validationexception: 400,
    accessdeniedexception: 403,
    expiredtokenexception: 403,
    unrecognizedclientexception: 403,
    invalidsignatureexception: 403,
    missingauthenticationtokenexception: 403,
    incompletesignatureexception: 403,
    resourcenotfoundexception: 404,
    modeltimeoutexception: 504,
    modelerrorexception: 502,
    modelstreamerrorexception: 502,
    throttlingexception: 429,
    toomanyrequestsexception: 429,
    modelnotreadyexception: 503,
    servicequotaexceededexception: 402,
    internalserverexception: 500,
    internalerror: 500,
    internalfailure: 500,
    serviceunavailableexception: 503,
  }),
)

function meantStatus(status: number | null, type: string | null, message: string | null): number {
  if (message !== null && NO_MODEL.test(message)) return 404
  const known = type === null ? undefined : STATUS_OF.get(type.toLowerCase())
  return known ?? status ?? 500
}

/** AWS sends 400 where others send 404. */
const NO_MODEL = /provided model identifier is invalid/i

function codeOf(meant: number, message: string | null): string | null {
  if (message === null) return null
  // A throttling error has `Too many tokens` too.
  if (meant === 400 && OVERFLOW.test(message)) return 'context_length_exceeded'
  return NO_MODEL.test(message) ? 'model_not_found' : null
}

/** `com.amazon.coral#ThrottlingException:http://...` is a ThrottlingException. */
function nameOf(type: string): string {
  return type.split(':', 1)[0]!.split('#').at(-1)!
}

function typeIn(body: Buffer): string | null {
  const type = memberOf(body, '__type')
  return typeof type === 'string' ? type : null
}

/** Some front ends of AWS write `Message` with a capital letter. */
function capital(body: Buffer): string | null {
  const message = memberOf(body, 'Message')
  return typeof message === 'string' ? message : null
}

function memberOf(body: Buffer, name: string): unknown {
  try {
    return (JSON.parse(body.toString('utf8')) as Readonly<Record<string, unknown>> | null)?.[name]
  } catch {
    return null
  }
}
