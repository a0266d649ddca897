/** The words that identify provider errors. */
import { expect, test } from 'vitest'
import type { ErrorCode } from '#contract'
import { errorDetails, failureOf } from '../../../src/providers/dialects/failure.ts'

const NOW = Date.parse('2026-11-20T12:00:00Z')

const fail = (status: number, body: unknown) =>
  failureOf(status, {}, errorDetails(Buffer.from(JSON.stringify(body))), NOW)

const openai = (fields: Record<string, unknown>) => ({
  error: { message: 'Words of the provider.', type: 'invalid_request_error', param: null, code: null, ...fields },
})
const google = (code: number, status: string, message: string, details: unknown[]) => ({
  error: { code, message, status, details },
})

test.each<[name: string, status: number, body: unknown, code: ErrorCode, message?: string]>([
  [
    "MiniMax's overflow",
    400,
    openai({ message: 'invalid params, context window exceeds limit (2013)' }),
    'context_length_exceeded',
    'invalid params, context window exceeds limit (2013)',
  ],
  [
    "an earlier vLLM's overflow",
    400,
    { object: 'error', message: 'The decoder prompt (length 9) is longer than the maximum model length of 8.' },
    'context_length_exceeded',
    'The decoder prompt (length 9) is longer than the maximum model length of 8.',
  ],
  [
    "Anthropic's used-up limit",
    400,
    openai({
      message: 'You have reached your specified API usage limits. You will regain access on 2026-12-01 at 00:00 UTC.',
    }),
    'upstream_quota',
  ],
  ["Z.ai's empty balance", 429, { error: { code: '1113', message: 'Insufficient balance' } }, 'upstream_quota'],
  ["Z.ai's rate limit", 429, { error: { code: '1302', message: 'High concurrency' } }, 'upstream_rate_limited'],
  [
    "MiniMax's empty balance",
    429,
    { error: { type: 'insufficient_balance_error', message: 'insufficient balance (1008)' } },
    'upstream_quota',
  ],
  ["a relay's used-up quota", 500, openai({ code: 'insufficient_user_quota' }), 'upstream_quota'],
  ["Alibaba's filter", 400, openai({ code: 'data_inspection_failed' }), 'content_filter', 'Words of the provider.'],
  ["DeepSeek's filter", 400, openai({ message: 'Content Exists Risk' }), 'content_filter', 'Content Exists Risk'],
  ["Z.ai's filter", 400, { error: { code: '1301', message: 'Unsafe' } }, 'content_filter', 'Unsafe'],
  [
    "Azure's filter, in an inner error",
    400,
    { error: { message: 'no', code: null, innererror: { code: 'ResponsibleAIPolicyViolation' } } },
    'content_filter',
    'no',
  ],
  [
    "a filter's error quoted in the message of a relay",
    400,
    openai({ message: 'Upstream: {"error":{"code":"content_filter","message":"blocked"}}' }),
    'content_filter',
    'blocked',
  ],
  [
    'quota words in text of the client',
    400,
    openai({ message: "Invalid value: 'credit balance is too low'" }),
    'upstream_rejected',
    "Invalid value: 'credit balance is too low'",
  ],
  [
    'quota JSON in text of the client',
    400,
    openai({ message: 'Bad: {"error":{"code":"insufficient_quota","message":"x"}}' }),
    'upstream_rejected',
    'Bad: {"error":{"code":"insufficient_quota","message":"x"}}',
  ],
  [
    'an overflow with status 500',
    500,
    openai({ message: 'the request exceeds the available context size' }),
    'context_length_exceeded',
    'the request exceeds the available context size',
  ],
])('%s (%i)', (_name, status, body, code, message) => {
  const failure = fail(status, body)
  expect(failure).toMatchObject({ code })
  expect(failure.message).toBe(message)
})

test('a used-up quota rests until its reset date, but at most 32 days', () => {
  const said = 'You have reached your specified API usage limits. You will regain access on 2026-11-21 at 00:00 UTC.'
  expect(fail(400, openai({ message: said }))).toMatchObject({ code: 'upstream_quota', restMs: 12 * 3_600_000 })
  expect(fail(400, openai({ message: `Invalid: ${said}` })).restMs).toBeUndefined()
  expect(fail(400, openai({ message: said.replace('2026-11-21', '2099-01-01') })).restMs).toBe(32 * 86_400_000)
})

test("Google's retry delay is read from an error in an array", () => {
  const details = [{ '@type': 'type.googleapis.com/google.rpc.RetryInfo', retryDelay: '37.5s' }]
  expect(fail(429, [google(429, 'RESOURCE_EXHAUSTED', 'Quota', details)]).retryAfterMs).toBe(37_500)
})

test.each<[status: number, body: unknown]>([
  [400, openai({ message: "Invalid value: 'x' invalid api key'. Supported values are 'a'." })],
  [400, openai({ message: 'Unknown name "x\\" api key invalid": Cannot find field.' })],
  [400, openai({ message: 'Validation failed: input_value=credit balance is too low' })],
  [400, openai({ message: 'messages.0.please recharge: Extra inputs are not permitted' })],
  [422, { detail: [{ loc: ['body', 'insufficient balance'], msg: 'extra fields not permitted' }] }],
  [403, openai({ message: "The model 'token' is not available in your region" })],
])('text of the client in an error never ejects a credential (%i)', (status, body) => {
  expect(fail(status, body).code).toMatch(/^upstream_(?:rejected|forbidden)$/)
})
