/**
 * The expected result of each provider fault: the client's answer and the charge. Prices are those of the tests: 1,000 nano-dollars per
 * prompt token and 2,000 per answer token.
 */
import type { ErrorCode } from '#contract'

/** The expected answer for the client, and its charge. */
export type ExpectedResult =
  /** An error before the first byte; free. */
  | { readonly end: 'error'; readonly code: ErrorCode; readonly retry?: Retry }
  /** An error event after some tokens; null if time determines how many. They are charged, with an estimate of the prompt. */
  | { readonly end: 'event'; readonly code: ErrorCode; readonly tokens: number | null }
  /** The fault is harmless: the answer is complete. Its price may depend on the maximum of its prompt. */
  | { readonly end: 'answer'; readonly nano: (promptMost: number) => number; readonly content: string | null }

/** Headers that control the SDKs: Retry-After in seconds, x-should-retry. */
interface Retry {
  readonly after: string | null
  readonly should: string | null
}

type Row = readonly [whole: ExpectedResult, stream: ExpectedResult]

const error = (code: ErrorCode, retry?: Retry): ExpectedResult => ({ end: 'error', code, ...(retry ? { retry } : {}) })
const event = (code: ErrorCode, tokens: number | null): ExpectedResult => ({ end: 'event', code, tokens })
const answer = (
  nano: number | ((promptMost: number) => number),
  content: string | null = 't0 t1 t2',
): ExpectedResult => ({
  end: 'answer',
  nano: typeof nano === 'number' ? () => nano : nano,
  content,
})
const both = (expected: ExpectedResult): Row => [expected, expected]
/** Both modes fail; the stream after its role and two tokens. */
const middle = (whole: ErrorCode, stream: ErrorCode): Row => [error(whole), event(stream, 2)]
const limited = (after: string | null, should: string | null = null): Row =>
  both(error('upstream_rate_limited', { after, should }))

/** The output cap of the models in the test. */
export const CAP = 100
/** 10 prompt tokens and one for each of t0, t1, t2, at 1,000 and 2,000 nano-dollars. */
const REPORTED = 10_000 + 3 * 2_000
/** The prompt "Hello" is estimated as 6 tokens. A whole answer counts a quarter of its bytes, a stream its pieces. */
const COUNTED: Row = [answer(6_000 + 2 * 2_000), answer(6_000 + 3 * 2_000)]
/** Absurd figures are lowered to the ceilings: the body's bytes plus 16 for the prompt, the cap for the answer. */
const CEILING = both(answer(most => most * 1_000 + CAP * 2_000))

/** By the fault's id and title. */
export const TABLE: Readonly<Record<string, Row>> = {
  'F01 the connection is refused': both(error('upstream_unreachable')),
  'F02 connecting takes for ever': both(error('upstream_timeout')),
  'F03 the name does not exist': both(error('upstream_unreachable')),
  'F04 TLS is spoken to plain HTTP': both(error('upstream_unreachable')),
  'F04 TLS without a certificate': both(error('upstream_unreachable')),
  'F04 TLS with an untrusted certificate': both(error('upstream_unreachable')),
  'F05 reset before the head': both(error('upstream_unreachable')),
  'F06 closed before the head': both(error('upstream_unreachable')),
  'F07 silence before the head': both(error('upstream_timeout')),
  'F08 silence after the head': both(error('upstream_timeout')),
  'F09 reset in the middle': middle('upstream_truncated', 'upstream_truncated'),
  'F10 closed in the middle': middle('upstream_truncated', 'upstream_truncated'),
  'F10 ended in the middle, in good HTTP': middle('upstream_invalid', 'upstream_truncated'),
  'F11 a byte each 200 ms': both(error('upstream_timeout')),
  'F12 silence in the middle': middle('upstream_timeout', 'upstream_timeout'),
  'F13 invalid JSON': both(error('upstream_invalid')),
  'F13 JSON of another kind': both(error('upstream_invalid')),
  // The stream is complete: it had sent [DONE].
  'F14 shorter than its content-length': [error('upstream_truncated'), answer(REPORTED)],
  'F15 bad JSON in an event': middle('upstream_invalid', 'upstream_invalid'),
  'F15 lines that are no fields': [error('upstream_invalid'), answer(REPORTED)],
  'F15 carriage returns alone': [answer(REPORTED), answer(REPORTED)],
  'F16 100 MiB without a newline': both(error('upstream_too_large')),
  'F17 200 with a page': both(error('upstream_invalid')),
  'F18 200 with an error': both(error('upstream_error')),
  'F18 an error after two tokens': middle('upstream_error', 'upstream_error'),
  'F18 an event named error': middle('upstream_error', 'upstream_error'),
  'F19 429 with Retry-After: 20': limited('20'),
  'F19 429 with Retry-After: Wed, 21 Oct 2099 07:28:00 GMT': limited('600', 'false'),
  'F19 429 with Retry-After: 1000000000': limited('600', 'false'),
  'F19 429 with Retry-After: -1': limited('1'),
  'F19 429 with Retry-After: soon': limited('1'),
  'F20 500 with JSON': both(error('upstream_error')),
  'F20 500 with a page': both(error('upstream_error')),
  'F20 500 with nothing': both(error('upstream_error')),
  'F20 502 with JSON': both(error('upstream_error')),
  'F20 502 with a page': both(error('upstream_error')),
  'F20 502 with nothing': both(error('upstream_error')),
  'F20 503 with JSON': both(error('upstream_overloaded')),
  'F20 503 with a page': both(error('upstream_overloaded')),
  'F20 503 with nothing': both(error('upstream_overloaded')),
  'F20 529 with JSON': both(error('upstream_overloaded')),
  'F20 529 with a page': both(error('upstream_overloaded')),
  'F20 529 with nothing': both(error('upstream_overloaded')),
  'F21 301 to another host': both(error('upstream_error')),
  'F21 302 to another host': both(error('upstream_error')),
  'F21 307 to another host': both(error('upstream_error')),
  'F21 308 to another host': both(error('upstream_error')),
  'F22 a gzip bomb': both(error('upstream_invalid')),
  'F22 an unknown encoding': both(error('upstream_invalid')),
  'F22 a thousand encodings': both(error('upstream_invalid')),
  'F23 1 MiB of headers': both(error('upstream_invalid')),
  'F23 a line feed in a header': both(error('upstream_invalid')),
  'F23 a carriage return in a header': both(error('upstream_invalid')),
  'F23 status 000': both(error('upstream_invalid')),
  'F23 status 101': both(error('upstream_invalid')),
  'F23 status 999': both(error('upstream_error')),
  'F23 10,000 early hints': both(error('upstream_invalid')),
  'F24 usage: absent': COUNTED,
  'F24 usage: null': COUNTED,
  'F24 usage: zero': COUNTED,
  'F24 usage: negative': COUNTED,
  'F24 usage: text': COUNTED,
  // 2 and 3 tokens: a fraction of a token counts as one.
  'F24 usage: fractions': both(answer(2_000 + 3 * 2_000)),
  'F24 usage: NaN': [error('upstream_invalid'), event('upstream_invalid', 3)],
  'F24 usage: infinite': CEILING,
  'F24 usage: 1e308': CEILING,
  'F24 usage: more than the context': CEILING,
  'F24 usage: prompt only': COUNTED,
  'F24 usage: a list': COUNTED,
  // JSON keeps the last of two members; a stream the last event. 99 prompt tokens exceed the maximum.
  'F24 usage: twice, with different values': [answer(REPORTED), answer(most => most * 1_000 + 99 * 2_000)],
  'F24 usage: before the content': both(answer(25_000 + 2_000)),
  'F25 more after the end': [error('upstream_invalid'), answer(REPORTED)],
  'F25 two finishes': both(answer(REPORTED)),
  'F26 tool call index 1e9': both(answer(10_000 + 2 * 2_000, '')),
  'F26 tool call index -1': both(answer(10_000 + 2 * 2_000, '')),
  'F26 tool call index out of order': both(answer(10_000 + 4 * 2_000, '')),
  'F27 200 with nothing': both(error('upstream_invalid')),
  'F27 204': both(error('upstream_invalid')),
  'F28 answers before the body is read, then resets': both(answer(REPORTED)),
  'F29 three times the allowed tokens': [answer(10_000 + CAP * 2_000, null), event('upstream_invalid', null)],
  'F29 never ends': [error('upstream_timeout'), event('upstream_invalid', null)],
  'F30 characters cut anywhere': both(answer(10_000 + 4 * 2_000, 'naïve €uro 😀')),
  'F30 bytes that are no UTF-8': both(answer(10_000 + 2 * 2_000, 'ab\ufffdc')),
  'F30 a byte order mark': both(answer(REPORTED)),
  'F30 a NUL': both(answer(10_000 + 2 * 2_000, 'ab\u0000c')),
  'F30 a NUL without its escape': [error('upstream_invalid'), event('upstream_invalid', 1)],
}

/** The statuses, repeated here so that a mistake in the table of errors fails the test. */
export const STATUS: Partial<Record<ErrorCode, number>> = {
  upstream_unreachable: 502,
  upstream_invalid: 502,
  upstream_too_large: 502,
  upstream_truncated: 502,
  upstream_error: 502,
  upstream_overloaded: 503,
  upstream_timeout: 504,
  upstream_rate_limited: 429,
}
