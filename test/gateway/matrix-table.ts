/**
 * The expected result of each fault in each dialect. Most results are those of OpenAI's format; if a dialect differs, its row explains
 * why. Prices are those of the tests: 1,000 nano-dollars per prompt token and 2,000 per answer token.
 */
import type { ErrorCode } from '#contract'
import type { FaultMode } from '../helpers/fake-provider.ts'
import type { Voice } from '../helpers/voices/index.ts'
import { type ExpectedResult, STATUS, TABLE } from './fault-table.ts'

type Row = readonly [whole: ExpectedResult, stream: ExpectedResult]

const error = (code: ErrorCode, retry?: { after: string | null; should: string | null }): ExpectedResult => ({
  end: 'error',
  code,
  ...(retry ? { retry } : {}),
})
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
const free = (code: ErrorCode): Row => both(error(code))

/** 10 prompt tokens and three of the answer. */
const REPORTED = 10_000 + 3 * 2_000
/** The estimate of the prompt "Hello", and three pieces. */
const COUNTED = 6_000 + 3 * 2_000

/** Faults that the list of OpenAI's format does not have. */
const MORE: Readonly<Record<string, Row>> = {
  'F10 ended in the middle of an event, in good HTTP': [error('upstream_invalid'), event('upstream_invalid', 2)],
  'F10 no reason for the end': [answer(REPORTED), event('upstream_truncated', 3)],
  'F10 no word for the end': both(answer(REPORTED)),
  'F12 silence before the first token': free('upstream_timeout'),
  'F15 a frame with a wrong check sum': [error('upstream_invalid'), event('upstream_invalid', 2)],
  'F15 a frame whose length is wrong': [error('upstream_invalid'), event('upstream_invalid', 2)],
  'F18 an error before the first token': free('upstream_error'),
  'F18 a rate limit in place of an answer': both(error('upstream_rate_limited', { after: '1', should: null })),
  'F18 an overload in place of an answer': free('upstream_overloaded'),
  'F18 an overload after two tokens': [error('upstream_overloaded'), event('upstream_overloaded', 2)],
  'F20 400 with JSON': free('upstream_rejected'),
  'F20 400 about the context': free('context_length_exceeded'),
  'F20 401 with JSON': free('upstream_auth'),
  'F20 402 with JSON': free('upstream_quota'),
  'F20 403 with JSON': free('upstream_auth'),
  'F20 404 with JSON': free('model_not_found'),
  'F20 413 with JSON': free('request_too_large'),
  'F20 422 with JSON': free('upstream_rejected'),
}

/** Outcomes that the table of OpenAI's format cannot express. */
export type MatrixResult = ExpectedResult & {
  /** The provider had reported its usage before the answer broke off. */
  readonly isCounted?: true
}

interface Rule {
  readonly title: string
  /** Left out: both. */
  readonly mode?: FaultMode
  fits(voice: Voice): boolean
  readonly expected: MatrixResult
}

const rule = (
  title: string,
  mode: FaultMode | null,
  fits: ((voice: Voice) => boolean) | readonly string[],
  expected: MatrixResult,
): Rule => ({
  title,
  ...(mode === null ? {} : { mode }),
  fits: voice => (typeof fits === 'function' ? fits(voice) : fits.includes(voice.dialect)),
  expected,
})

const isFramed = ({ framing }: Voice) => framing === 'frames'
/** The Messages API, with any framing: it sends the prompt tokens first and the output tokens at the end. */
const isMessages = ({ early }: Voice) => early === 'prompt'
const GOOGLE = ['gemini', 'vertex']
const CHAT = ['openai', 'azure', 'mistral', 'deepseek', 'groq', 'perplexity', 'together', 'zai']
const isTranslated = ({ dialect }: Voice) => !CHAT.includes(dialect)
/** Streams whose end is known only when the body ends. */
const BY_BODY = [...GOOGLE, 'perplexity']
/** Dialects whose usage counts even if one of its two figures is missing. */
const takesHalves = (voice: Voice) => isMessages(voice) || [...GOOGLE, 'cohere', 'ollama'].includes(voice.dialect)

/** Differences of dialects from OpenAI's format; the first matching rule counts. */
const RULES: readonly Rule[] = [
  // Half a frame, or half a line, is ignored; half an event is invalid JSON.
  rule(
    'F10 ended in the middle of an event, in good HTTP',
    'stream',
    ({ framing }) => framing !== 'sse',
    event('upstream_truncated', 2),
  ),
  // Their error message does not mention a key.
  rule('F20 403 with JSON', null, ['openai', 'deepseek', 'groq', 'together', 'zai'], error('upstream_forbidden')),
  // If the format makes the reason part of the answer, an answer without it is invalid.
  rule('F10 no reason for the end', 'whole', [...GOOGLE, 'bedrock'], error('upstream_invalid')),
  rule('F10 no reason for the end', 'whole', CHAT, error('upstream_truncated')),
  // The stream's end event counts. Without the event with the output tokens, the prompt tokens are known and the output is
  // counted.
  rule('F10 no reason for the end', 'stream', isMessages, answer(REPORTED)),
  rule('F10 no reason for the end', 'stream', ['cohere'], answer(REPORTED)),
  rule('F10 no reason for the end', 'stream', ['openai', 'azure', 'vertex'], {
    ...event('upstream_truncated', 3),
    isCounted: true,
  }),
  rule('F10 no word for the end', 'stream', isMessages, event('upstream_truncated', 3)),
  // Its last event has the usage.
  rule('F10 no word for the end', 'stream', ['bedrock'], answer(COUNTED)),
  rule('F14 shorter than its content-length', 'stream', BY_BODY, {
    ...event('upstream_truncated', 3),
    isCounted: true,
  }),
  rule('F15 lines that are no fields', 'stream', isFramed, event('upstream_invalid', 2)),
  // AWS's errors are recognized by their status and header; as bodies they are only a message.
  rule('F16 100 MiB without a newline', 'stream', isFramed, error('upstream_invalid')),
  rule('F18 200 with an error', 'whole', isFramed, error('upstream_invalid')),
  rule('F18 an error before the first token', 'whole', isFramed, error('upstream_invalid')),
  rule('F18 an error after two tokens', 'whole', isFramed, answer(REPORTED)),
  rule('F18 a rate limit in place of an answer', 'whole', isFramed, error('upstream_invalid')),
  rule('F18 an overload in place of an answer', 'whole', isFramed, error('upstream_invalid')),
  // Cohere's errors have only a message.
  rule('F18 a rate limit in place of an answer', null, ['cohere'], error('upstream_error')),
  rule('F18 an overload in place of an answer', null, ['cohere'], error('upstream_error')),
  rule('F18 an overload after two tokens', 'stream', ['cohere'], event('upstream_error', 2)),
  // A line of a stream is a valid body too.
  rule('F18 an event named error', 'whole', ['ollama'], error('upstream_error')),
  rule('F18 an overload after two tokens', 'whole', ['ollama'], error('upstream_overloaded')),
  // The usage comes with the first event.
  rule('F24 usage: NaN', 'stream', ({ early }) => early !== 'nothing', error('upstream_invalid')),
  // An invalid count is ignored.
  ...['infinite', '1e308', 'fractions'].flatMap(usage => [
    rule(`F24 usage: ${usage}`, 'whole', isTranslated, answer(6_000 + 2 * 2_000)),
    rule(`F24 usage: ${usage}`, 'stream', isTranslated, answer(COUNTED)),
  ]),
  // A usage with one valid figure: some dialects keep that figure.
  rule('F24 usage: text', null, ['openai'], answer(12_000 + 34 * 2_000)),
  rule('F24 usage: prompt only', null, ['cohere'], answer(14_000)),
  rule('F24 usage: prompt only', 'whole', takesHalves, answer(12_000 + 2 * 2_000)),
  rule('F24 usage: prompt only', 'stream', takesHalves, answer(12_000 + 3 * 2_000)),
  // The second usage comes after the end, or before a last one, which counts.
  rule('F24 usage: twice, with different values', 'stream', [...BY_BODY, 'cohere', 'ollama'], answer(REPORTED)),
  // Their usage is only in the last event.
  rule('F24 usage: before the content', 'stream', ['cohere', 'ollama'], answer(COUNTED)),
  // Each chunk has a finish reason, so later chunks continue the answer.
  rule('F25 more after the end', 'stream', GOOGLE, answer(REPORTED, 't0 t1 t2t0 t1 t2')),
  // Candidates have indexes, tool calls have none. A candidate that was not requested is ignored.
  ...['1e9', '-1', 'out of order'].map(index =>
    rule(`F26 tool call index ${index}`, 'stream', GOOGLE, error('upstream_truncated')),
  ),
  rule('F30 a byte order mark', 'whole', ({ dialect }) => !CHAT.includes(dialect), error('upstream_invalid')),
  rule('F30 a byte order mark', 'stream', ({ framing }) => framing !== 'sse', error('upstream_invalid')),
]

/** Null if no table has the fault. */
export function expectedOf(title: string, mode: FaultMode, voice: Voice): MatrixResult | null {
  const own = RULES.find(each => each.title === title && (each.mode ?? mode) === mode && each.fits(voice))
  return own?.expected ?? (MORE[title] ?? TABLE[title])?.[mode === 'whole' ? 0 : 1] ?? null
}

/** All titles in the tables. */
export const TITLES: readonly string[] = [...new Set([...Object.keys(TABLE), ...Object.keys(MORE)])]

/** The statuses, repeated here so that a mistake in the table of errors fails the test. */
export const STATUSES: Partial<Record<ErrorCode, number>> = {
  ...STATUS,
  upstream_auth: 502,
  upstream_forbidden: 403,
  upstream_quota: 502,
  upstream_rejected: 400,
  context_length_exceeded: 400,
  content_filter: 400,
  model_not_found: 404,
  request_too_large: 413,
}

/** Failures after which another target is tried. A mistake of the client would fail at every target. */
const ONLY_HERE: ReadonlySet<ErrorCode> = new Set([
  'upstream_unreachable',
  'upstream_timeout',
  'upstream_error',
  'upstream_overloaded',
  'upstream_rate_limited',
  'upstream_invalid',
  'upstream_truncated',
  'upstream_auth',
  'upstream_forbidden',
  'upstream_quota',
  'model_not_found',
])

/** Whether another target is tried: only before anything was sent, and only if another one may succeed. */
export function fallsBack(expected: MatrixResult): boolean {
  return expected.end === 'error' && ONLY_HERE.has(expected.code)
}

/** The charge of an answer that broke off: the usage that the provider had reported by then, else the count. */
export function chargeBrokenOff({ early }: Voice, tokens: number, isCounted = false): bigint {
  return BigInt((early === 'nothing' && !isCounted ? 6_000 : 10_000) + tokens * 2_000)
}
