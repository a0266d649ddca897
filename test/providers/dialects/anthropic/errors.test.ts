import { describe, expect, test } from 'vitest'
import type { ErrorCode } from '#contract'
import { anthropicDialect } from '../../../../src/providers/dialects/anthropic/index.ts'
import { dialect, frame, itemsOf, NOW, start } from './helpers.ts'

const body = (type: string, message: string, more: object = {}) =>
  Buffer.from(JSON.stringify({ type: 'error', error: { type, message, ...more }, request_id: 'req_011CeEEr5sGns7z9' }))

describe('an error', () => {
  test.each<[status: number, type: string, message: string, code: ErrorCode, ours?: boolean]>([
    [400, 'invalid_request_error', 'max_tokens: too large', 'upstream_rejected', true],
    [400, 'invalid_request_error', 'prompt is too long: 300 tokens > 200 maximum', 'context_length_exceeded', true],
    [400, 'invalid_request_error', 'Your credit balance is too low to access the API.', 'upstream_quota'],
    [401, 'authentication_error', 'invalid x-api-key', 'upstream_auth'],
    [402, 'billing_error', 'x', 'upstream_quota'],
    [403, 'permission_error', 'x', 'upstream_forbidden'],
    [404, 'not_found_error', 'model: claude-x', 'model_not_found', true],
    [409, 'conflict_error', 'x', 'upstream_rejected', true],
    [413, 'request_too_large', 'x', 'request_too_large', true],
    [429, 'rate_limit_error', 'x', 'upstream_rate_limited'],
    [500, 'api_error', 'x', 'upstream_error'],
    [504, 'timeout_error', 'x', 'upstream_timeout'],
    [529, 'overloaded_error', 'Overloaded', 'upstream_overloaded'],
  ])('%d %s: %s', (status, type, message, code, ours = false) => {
    const failure = dialect.decodeError(status, {}, body(type, message))
    expect(failure.code).toBe(code)
    expect(failure.message).toBe(ours ? message : undefined)
    expect(failure.detail).toContain(message)
    // As an event of a 200 it is the same, by its type alone.
    const [item] = itemsOf(frame({ type: 'error', error: { type, message } }))
    expect(item).toMatchObject({ kind: 'failure', failure: { code } })
  })

  test.each<[name: string, status: number, body: string, code: ErrorCode]>([
    ['a page', 502, '<html>bad</html>', 'upstream_error'],
    ['nothing', 500, '', 'upstream_error'],
    ['a type that nobody knows', 418, '{"type":"error","error":{"type":"constructor"}}', 'upstream_error'],
    [
      "Google's, in front of Vertex AI",
      404,
      '[{"error":{"code":404,"message":"m","status":"NOT_FOUND"}}]',
      'model_not_found',
    ],
    ['null', 400, 'null', 'upstream_rejected'],
    ['an error of null', 429, '{"error":null}', 'upstream_rate_limited'],
  ])('%s', (_name, status, text, code) => {
    expect(dialect.decodeError(status, {}, Buffer.from(text)).code).toBe(code)
  })

  test('how long to wait; a spend limit does not pass by waiting', () => {
    const limit = body('rate_limit_error', 'x', { details: { error_code: 'spend_limit_reached' } })
    expect(dialect.decodeError(429, {}, limit).code).toBe('upstream_quota')
    expect(dialect.decodeError(429, { 'retry-after': '3' }, limit)).toMatchObject({
      code: 'upstream_rate_limited',
      retryAfterMs: 3000,
    })
    const date = { 'retry-after': new Date(NOW + 7000).toUTCString() }
    expect(dialect.decodeError(529, date, body('overloaded_error', 'x')).retryAfterMs).toBe(7000)
  })

  test('secrets stay', () => {
    const secretive = anthropicDialect(
      () => NOW,
      text => text.replaceAll('hunter2', '[gone]'),
    )
    const failure = secretive.decodeError(400, {}, body('invalid_request_error', 'bad hunter2'))
    expect(JSON.stringify(failure)).not.toContain('hunter2')
    const stream = secretive.decodeStream({ model: 'm', includeUsage: false, exchange: 'e', createdAt: 1 })
    const items = stream.push(Buffer.from(frame({ type: 'error', error: { type: 'api_error', message: 'hunter2' } })))
    expect(JSON.stringify(items)).not.toContain('hunter2')
  })

  test.each<[name: string, text: string, code: ErrorCode]>([
    [
      'named outside only',
      'event: error\ndata: {"error":{"type":"rate_limit_error","message":"x"}}\n\n',
      'upstream_rate_limited',
    ],
    ['named outside, and nothing inside', 'event: error\ndata: {"message":"x"}\n\n', 'upstream_error'],
    ['without a type of its own', 'data: {"error":{"type":"overloaded_error"}}\n\n', 'upstream_overloaded'],
    ["Google's", 'data: {"error":{"code":503,"message":"x","status":"UNAVAILABLE"}}\n\n', 'upstream_overloaded'],
    ['without anything', 'data: {"type":"error"}\n\n', 'upstream_error'],
    ['a text', 'data: {"type":"error","error":"no"}\n\n', 'upstream_error'],
  ])('in a stream: %s', (_name, text, code) => {
    const items = itemsOf(frame(start()) + text + frame({ type: 'message_stop' }))
    expect(items.at(-1)).toMatchObject({ kind: 'failure', failure: { code } })
  })
})
