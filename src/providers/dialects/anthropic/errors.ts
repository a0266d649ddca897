/** What the errors of the Messages API mean: as an answer of their own, inside an answer, or as an event of a stream. */
import type { UpstreamFailure } from '#contract'
import { detailsOf, type ErrorDetails, errorDetails, failureOf, type Redact } from '../failure.ts'
import { type Fields, isFields } from '../translate/value.ts'

/** The status that belongs to each type, for errors that come without one. */
const STATUSES: Readonly<Record<string, number>> = {
  invalid_request_error: 400,
  authentication_error: 401,
  billing_error: 402,
  permission_error: 403,
  not_found_error: 404,
  conflict_error: 409,
  request_too_large: 413,
  rate_limit_error: 429,
  api_error: 500,
  timeout_error: 504,
  overloaded_error: 529,
}

type Headers = Readonly<Record<string, string>>

export interface ErrorReader {
  /** An answer with a status of its own. */
  answer(status: number, headers: Headers, body: Buffer): UpstreamFailure
  /** An error that came with status 200; `value` is `{type: 'error', error: {type, message}}`, parsed. */
  inside(value: unknown): UpstreamFailure
}

/** @param now milliseconds since the epoch, for a Retry-After that is a date */
export function errorReader(now: () => number, redact?: Redact): ErrorReader {
  const failure = (status: number, headers: Headers, details: ErrorDetails, parsed: unknown) =>
    failureOf(trueStatus(status, headers, details, parsed), headers, details, now(), redact)
  return {
    answer(status, headers, body) {
      const parsed = parse(body)
      return failure(status, headers, parsed === undefined ? errorDetails(body) : detailsOf(parsed), parsed)
    },
    inside(value) {
      const details = detailsOf(value)
      return failure(statusOf(details), {}, details, value)
    },
  }
}

/** By the type; Google, in front of Vertex AI, writes the status itself as the code. */
function statusOf({ type, code }: ErrorDetails): number {
  if (type !== null && Object.hasOwn(STATUSES, type)) return STATUSES[type]!
  const status = Number(code)
  return Number.isInteger(status) && status >= 400 && status <= 599 ? status : 500
}

const NO_CREDIT = /\bcredit balance is too low\b/i

/**
 * An empty purse looks like the client's mistake (400), and a spend limit like a rate limit (429, with a code of its own
 * and without a time to wait); both are the gateway's own quota, and trying again does not help.
 */
function trueStatus(status: number, headers: Headers, { message }: ErrorDetails, parsed: unknown): number {
  if (status === 400 && NO_CREDIT.test(message ?? '')) return 402
  if (status === 429 && headers['retry-after'] === undefined && hasSpendLimit(parsed)) return 402
  return status
}

function hasSpendLimit(parsed: unknown): boolean {
  const error: unknown = isFields(parsed) ? parsed['error'] : undefined
  const details: unknown = isFields(error) ? error['details'] : undefined
  return isFields(details) && typeof (details as Fields)['error_code'] === 'string'
}

function parse(body: Buffer): unknown {
  try {
    return JSON.parse(body.toString('utf8'))
  } catch {
    return undefined
  }
}
