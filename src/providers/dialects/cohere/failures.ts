/** What Cohere's errors mean: `{id, message}`, now and then with an `error_type`. */
import type { UpstreamFailure } from '#contract'
import { detailsOf, type ErrorDetails, errorDetails, failureOf, type Redact } from '../failure.ts'
import { OVERFLOW } from '../overflow.ts'
import { type Fields, isFields } from '../translate/value.ts'

type Headers = Readonly<Record<string, string>>

export interface ErrorReader {
  /** An answer with a status of its own. */
  answer(status: number, headers: Headers, body: Buffer): UpstreamFailure
  /** An error that came with status 200, parsed. */
  inside(value: Fields): UpstreamFailure
  /** An answer whose end is a failure, with what was said about it. */
  ended(failure: UpstreamFailure, error: unknown): UpstreamFailure
}

/** @param now milliseconds since the epoch, for a Retry-After that is a date */
export function errorReader(now: () => number, redact: Redact = text => text): ErrorReader {
  const failure = (status: number, headers: Headers, said: ErrorDetails) => {
    const { status: meant, code } = meaningOf(status, said)
    return failureOf(meant, headers, { ...said, code: code ?? said.code }, now(), redact)
  }
  return {
    answer(status, headers, body) {
      const parsed = parse(body)
      return failure(status, headers, isFields(parsed) ? detailsIn(parsed) : errorDetails(body))
    },
    inside(value) {
      const said = detailsIn(value)
      return failure(said.type === TOO_LONG ? 400 : (statusIn(said.message ?? '') ?? 500), {}, said)
    },
    ended(ended, error) {
      const status = typeof error === 'string' ? statusIn(error) : null
      if (status !== null) return failure(status, {}, detailsOf(error))
      const words = typeof error === 'string' ? `: ${redact(error.slice(0, MAX_READ)).slice(0, 1000)}` : ''
      return { ...ended, detail: `${ended.detail}${words}` }
    },
  }
}

/** Characters of a sentence that are looked at: far more than is kept of it. */
const MAX_READ = 16_384

const TOO_LONG = 'TOO_MANY_TOKENS'

/** A status that only Cohere has: a word on its list of forbidden ones, in the request or in the answer. */
const FORBIDDEN_WORD = 498
const MONTHLY = /\bcalls? ?\/ ?month\b|\bper month\b/i

/** Sentences that pass by waiting. */
const THROTTLED = /\bper (?:second|minute|hour|day)\b|\/ ?min(?:ute)?\b|\brate limit|\bwait\b|\btry again later\b/i

/** The status that a sentence about tokens would have had; null: it is about something else. */
function statusIn(sentence: string): number | null {
  if (!OVERFLOW.test(sentence)) return null
  return THROTTLED.test(sentence) ? 429 : 400
}

function meaningOf(status: number, { message, type }: ErrorDetails): { status: number; code?: string } {
  if (status === FORBIDDEN_WORD) return { status: 400, code: 'content_filter' }
  if (type === TOO_LONG) return { status, code: 'context_length_exceeded' }
  // The limit of a trial key, which does not pass by waiting.
  if (status === 429 && MONTHLY.test(message ?? '')) return { status: 402 }
  return { status }
}

function detailsIn(value: Fields): ErrorDetails {
  const said = detailsOf(value)
  const { error_type: type } = value
  return typeof type === 'string' ? { ...said, type } : said
}

function parse(body: Buffer): unknown {
  try {
    return JSON.parse(body.toString('utf8'))
  } catch {
    return undefined
  }
}
