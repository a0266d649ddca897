/** Reads Cohere's errors: `{id, message}`, sometimes with an `error_type`. */
import type { UpstreamFailure } from '#contract'
import { detailsOf, type ErrorDetails, errorDetails, failureOf, type Redact } from '../failure.ts'
import { OVERFLOW } from '../overflow.ts'
import { type Fields, isFields } from '../translate/value.ts'

type Headers = Readonly<Record<string, string>>

export interface ErrorReader {
  /** An answer with an error status. */
  answer(status: number, headers: Headers, body: Buffer): UpstreamFailure
  /** A parsed error that came with status 200. */
  inside(value: Fields): UpstreamFailure
  /** An answer whose finish reason is a failure, with the error's words. */
  ended(failure: UpstreamFailure, error: unknown): UpstreamFailure
}

/** @param now milliseconds since the epoch, for a Retry-After that is a date */
export function errorReader(now: () => number, redact: Redact = text => text): ErrorReader {
  const failure = (status: number, headers: Headers, details: ErrorDetails) => {
    const { status: meant, code } = meaningOf(status, details)
    return failureOf(meant, headers, { ...details, code: code ?? details.code }, now(), redact)
  }
  return {
    answer(status, headers, body) {
      const parsed = parse(body)
      return failure(status, headers, isFields(parsed) ? detailsIn(parsed) : errorDetails(body))
    },
    inside(value) {
      const details = detailsIn(value)
      return failure(details.type === TOO_LONG ? 400 : (statusIn(details.message ?? '') ?? 500), {}, details)
    },
    ended(ended, error) {
      const status = typeof error === 'string' ? statusIn(error) : null
      if (status !== null) return failure(status, {}, detailsOf(error))
      const words = typeof error === 'string' ? `: ${redact(error.slice(0, MAX_READ)).slice(0, 1000)}` : ''
      return { ...ended, detail: `${ended.detail}${words}` }
    },
  }
}

/** Number of characters of a sentence that are processed; far less is kept. */
const MAX_READ = 16_384

const TOO_LONG = 'TOO_MANY_TOKENS'

/** A status that only Cohere has: the request or the answer has a word of its blocklist. */
const FORBIDDEN_WORD = 498
const MONTHLY = /\bcalls? ?\/ ?month\b|\bper month\b/i

/** Sentences about limits that end with time. */
const THROTTLED = /\bper (?:second|minute|hour|day)\b|\/ ?min(?:ute)?\b|\brate limit|\bwait\b|\btry again later\b/i

/** The status that a sentence about tokens would have; null for any other sentence. */
function statusIn(sentence: string): number | null {
  if (!OVERFLOW.test(sentence)) return null
  return THROTTLED.test(sentence) ? 429 : 400
}

function meaningOf(status: number, { message, type }: ErrorDetails): { status: number; code?: string } {
  if (status === FORBIDDEN_WORD) return { status: 400, code: 'content_filter' }
  if (type === TOO_LONG) return { status, code: 'context_length_exceeded' }
  // The limit of a trial key, which does not end with time.
  if (status === 429 && MONTHLY.test(message ?? '')) return { status: 402 }
  return { status }
}

function detailsIn(value: Fields): ErrorDetails {
  const details = detailsOf(value)
  const { error_type: type } = value
  return typeof type === 'string' ? { ...details, type } : details
}

function parse(body: Buffer): unknown {
  try {
    return JSON.parse(body.toString('utf8'))
  } catch {
    return undefined
  }
}
