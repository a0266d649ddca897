/** Reads errors of the Messages API: an error answer, an error inside an answer, or an event of a stream. */
import type { UpstreamFailure } from '#contract'
import { detailsOf, type ErrorDetails, errorDetails, failureInside, failureOf, type Redact } from '../failure.ts'
import { type Fields, isFields } from '../translate/value.ts'

type Headers = Readonly<Record<string, string>>

export interface ErrorReader {
  /** An answer with an error status. */
  answer(status: number, headers: Headers, body: Buffer): UpstreamFailure
  /** An error with status 200; `value` is the parsed `{type: 'error', error: {type, message}}`. */
  inside(value: unknown): UpstreamFailure
}

/** @param now milliseconds since the epoch, for a Retry-After that is a date */
export function errorReader(now: () => number, redact?: Redact): ErrorReader {
  const failure = (status: number, headers: Headers, details: ErrorDetails, parsed: unknown) =>
    failureOf(trueStatus(status, headers, parsed), headers, details, now(), redact)
  return {
    answer(status, headers, body) {
      const parsed = parse(body)
      return failure(status, headers, parsed === undefined ? errorDetails(body) : detailsOf(parsed), parsed)
    },
    inside: value => failureInside(value, (status, headers, details) => failure(status, headers, details, value)),
  }
}

/** A spend limit looks like a rate limit (429, with its own code and without a time to wait), but waiting does not help. */
function trueStatus(status: number, headers: Headers, parsed: unknown): number {
  return status === 429 && headers['retry-after'] === undefined && hasSpendLimit(parsed) ? 402 : status
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
