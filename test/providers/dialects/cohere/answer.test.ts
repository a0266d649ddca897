import { describe, expect, test } from 'vitest'
import type { ErrorCode } from '#contract'
import { cohereDialect } from '../../../../src/providers/dialects/cohere/index.ts'
import { decoded, dialect, encoded, NOW, USAGE, USED, view } from './helpers.ts'

const answer = (message: object, finish_reason: unknown = 'COMPLETE', more: object = {}) => ({
  id: 'ans-1',
  message: { role: 'assistant', ...message },
  finish_reason,
  usage: USED,
  ...more,
})
const call = (name: string, args: unknown) => ({
  id: `${name}_1`,
  type: 'function',
  function: { name, arguments: args },
})
const shown = (name: string, args: string) => ({
  id: `${name}_1`,
  type: 'function',
  function: { name, arguments: args },
})
const HELLO = { content: [{ type: 'text', text: 'Hello' }] }

describe('what is no answer', () => {
  test.each<[name: string, body: unknown, code: ErrorCode]>([
    ['nothing', '', 'upstream_invalid'],
    ['no JSON', '<html>', 'upstream_invalid'],
    ['null', 'null', 'upstream_invalid'],
    ['a list', '[]', 'upstream_invalid'],
    ['no message', { id: 'x', finish_reason: 'COMPLETE' }, 'upstream_invalid'],
    ['an error', { id: 'x', message: 'internal error' }, 'upstream_error'],
    ['an error that says its type', { error_type: 'TOO_MANY_TOKENS', message: 'too many' }, 'context_length_exceeded'],
    ['one that failed', answer(HELLO, 'ERROR', { error: 'out of memory' }), 'upstream_error'],
    ['one that came too late', answer(HELLO, 'TIMEOUT'), 'upstream_timeout'],
  ])('%s', (_name, body, code) => {
    expect(decoded(body)).toMatchObject({ failure: { code } })
  })

  test('the words of a failure are for the log', () => {
    const { failure } = decoded(answer(HELLO, 'ERROR', { error: 'out of memory' })) as { failure: object }
    expect(failure).toEqual({
      code: 'upstream_error',
      detail: 'the answer finished with the reason ERROR: out of memory',
    })
  })
})

describe('an answer', () => {
  test('as the client sees it', () => {
    expect(decoded(answer(HELLO))).toEqual({
      completion: {
        id: 'ans-1',
        object: 'chat.completion',
        created: 1_790_000_000,
        model: 'chat-small',
        choices: [
          {
            index: 0,
            message: { role: 'assistant', content: 'Hello', refusal: null },
            logprobs: null,
            finish_reason: 'stop',
          },
        ],
        usage: USAGE,
      },
      raw: null,
    })
  })

  test.each<[name: string, message: object, reason: unknown, seen: object, finish: string]>([
    ['texts', { content: [...HELLO.content, { type: 'text', text: '!' }] }, 'COMPLETE', { content: 'Hello!' }, 'stop'],
    ['a bare text', { content: 'Hello' }, 'STOP_SEQUENCE', { content: 'Hello' }, 'stop'],
    ['nothing', { content: [] }, 'COMPLETE', { content: '' }, 'stop'],
    ['too long a text', HELLO, 'MAX_TOKENS', { content: 'Hello' }, 'length'],
    ['a word of caution', HELLO, 'ERROR_TOXIC', { content: 'Hello' }, 'content_filter'],
    ['no reason', HELLO, null, { content: 'Hello' }, 'stop'],
    ['a reason that nobody knows', HELLO, 'BORED', { content: 'Hello' }, 'stop'],
    [
      'a thought',
      { content: [{ type: 'thinking', thinking: 'Hm.' }, ...HELLO.content] },
      'COMPLETE',
      { content: 'Hello', reasoning_content: 'Hm.' },
      'stop',
    ],
    [
      'a plan and calls',
      { tool_plan: 'I will look.', tool_calls: [call('a', '{"x":1}'), call('b', 'null'), call('c', '')] },
      'TOOL_CALL',
      {
        content: null,
        reasoning_content: 'I will look.',
        tool_calls: [shown('a', '{"x":1}'), shown('b', '{}'), shown('c', '{}')],
      },
      'tool_calls',
    ],
    [
      'a thought and a plan',
      { content: [{ type: 'thinking', thinking: 'Hm.' }], tool_plan: 'Look.', tool_calls: [call('a', '{}')] },
      'COMPLETE',
      { content: null, reasoning_content: 'Hm.\n\nLook.', tool_calls: [shown('a', '{}')] },
      'tool_calls',
    ],
    ['no call after all', { content: [], tool_calls: [] }, 'TOOL_CALL', { content: '' }, 'stop'],
    [
      'wrong types',
      {
        content: [7, null, { text: 7 }],
        tool_plan: {},
        tool_calls: [null, { id: 7, function: { name: 7, arguments: {} } }],
      },
      'COMPLETE',
      { content: null, tool_calls: [{ id: 'call_ex7_0', type: 'function', function: { name: '', arguments: '{}' } }] },
      'tool_calls',
    ],
  ])('%s', (_name, message, reason, seen, finish) => {
    const one = decoded(answer(message, reason))
    const choice = 'completion' in one ? one.completion.choices[0]! : null
    expect(choice).toEqual({
      index: 0,
      message: { role: 'assistant', refusal: null, ...seen },
      logprobs: null,
      finish_reason: finish,
    })
  })

  test.each<[name: string, usage: unknown, seen: object | undefined]>([
    [
      'what was billed, where nothing else is',
      { billed_units: { input_tokens: 2, output_tokens: 1 } },
      { prompt_tokens: 2, completion_tokens: 1, total_tokens: 3 },
    ],
    [
      'thoughts are among the output',
      { tokens: { input_tokens: 2, output_tokens: 9, reasoning_tokens: 6 } },
      { prompt_tokens: 2, completion_tokens: 9, total_tokens: 11, completion_tokens_details: { reasoning_tokens: 6 } },
    ],
    ['no prompt', { tokens: { output_tokens: 3 } }, undefined],
    [
      'nothing but what is billed',
      { tokens: {}, billed_units: { input_tokens: 2, output_tokens: 1 } },
      { prompt_tokens: 2, completion_tokens: 1, total_tokens: 3 },
    ],
    [
      'an impossible count',
      { tokens: { input_tokens: -1 }, billed_units: { input_tokens: 2, output_tokens: 1 } },
      undefined,
    ],
    ['none', {}, undefined],
    ['wrong types', { tokens: { input_tokens: '2' } }, undefined],
  ])('usage: %s', (_name, usage, seen) => {
    const one = decoded(answer(HELLO, 'COMPLETE', { usage }))
    expect('completion' in one && one.completion.usage).toEqual(seen)
  })

  test('an id of nobody’s is the exchange’s', () => {
    expect(decoded(answer(HELLO, 'COMPLETE', { id: 7 }))).toMatchObject({ completion: { id: 'ex_7' } })
  })

  test('a client that sends the answer back continues its calls', () => {
    const one = decoded(answer({ tool_plan: 'Look.', tool_calls: [call('a', '{"x":1}')] }, 'TOOL_CALL'))
    const message = ('completion' in one ? one.completion.choices[0]!.message : null) as never
    const { body, dropped } = encoded({
      messages: [{ role: 'user', content: 'Hi' }, message, { role: 'tool', tool_call_id: 'a_1', content: '7' }],
    })
    expect(body['messages']).toEqual([
      { role: 'user', content: 'Hi' },
      { role: 'assistant', tool_plan: 'Look.', tool_calls: [shown('a', '{"x":1}')] },
      { role: 'tool', tool_call_id: 'a_1', content: '7' },
    ])
    expect(dropped).toEqual([])
  })
})

describe('an error', () => {
  const body = (message: string, more: object = {}) => Buffer.from(JSON.stringify({ id: 'x', message, ...more }))

  test.each<[status: number, message: string, code: ErrorCode, ours?: boolean]>([
    [400, 'invalid request: bad', 'upstream_rejected', true],
    [400, 'too many tokens: size limit exceeded', 'context_length_exceeded', true],
    [401, 'invalid api token', 'upstream_auth'],
    [402, 'please add a payment method', 'upstream_quota'],
    [404, "model 'x' not found", 'model_not_found', true],
    [404, 'page not found', 'upstream_error'],
    [422, 'all elements in tools must have a name', 'upstream_rejected', true],
    [429, 'limited to 20 API calls / minute', 'upstream_rate_limited'],
    [429, 'You are using a Trial key, which is limited to 1000 API calls / month.', 'upstream_quota'],
    [498, 'blocked input', 'content_filter', true],
    [499, 'request cancelled', 'upstream_error'],
    [500, 'internal server error', 'upstream_error'],
    [501, 'not implemented', 'upstream_error'],
    [503, 'service unavailable', 'upstream_overloaded'],
    [504, 'timeout', 'upstream_timeout'],
  ])('%d %s', (status, message, code, ours = false) => {
    const failure = dialect.decodeError(status, {}, body(message))
    expect(failure.code).toBe(code)
    expect(failure.message).toBe(ours ? message : undefined)
    expect(failure.detail).toContain(message)
  })

  test('a type says more than a sentence', () => {
    expect(dialect.decodeError(400, {}, body('no', { error_type: 'TOO_MANY_TOKENS' })).code).toBe(
      'context_length_exceeded',
    )
  })

  test.each([
    ['', 500, 'upstream_error'],
    ['<html>', 502, 'upstream_error'],
    ['null', 400, 'upstream_rejected'],
    ['[7]', 429, 'upstream_rate_limited'],
  ])('%j', (text, status, code) => {
    expect(dialect.decodeError(status, {}, Buffer.from(text)).code).toBe(code)
  })

  test('how long to wait, and what must not be said', () => {
    const date = { 'retry-after': new Date(NOW + 7000).toUTCString() }
    expect(dialect.decodeError(429, date, body('slow down')).retryAfterMs).toBe(7000)
    const careful = cohereDialect(
      () => NOW,
      text => text.replaceAll('s3cret', '[hidden]'),
    )
    const failures = [
      careful.decodeError(400, {}, body('the key s3cret is odd')),
      careful.decodeAnswer(body('the key s3cret is odd'), view()),
      careful.decodeAnswer(Buffer.from(JSON.stringify(answer(HELLO, 'ERROR', { error: 's3cret' }))), view()),
    ]
    for (const failure of failures) {
      expect(JSON.stringify(failure)).toContain('[hidden]')
      expect(JSON.stringify(failure)).not.toContain('s3cret')
    }
  })
})
