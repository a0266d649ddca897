import { describe, expect, test } from 'vitest'
import type { ChatCompletion, UpstreamFailure } from '#contract'
import { openSchemas } from '../../../corpus/schemas.ts'
import { dialect, view } from './conversations.ts'

const USAGE = { inputTokens: 10, outputTokens: 5, totalTokens: 15 }
const answer = (content: unknown, more: object = {}) => ({
  output: { message: { role: 'assistant', content } },
  stopReason: 'end_turn',
  usage: USAGE,
  ...more,
})
const decoded = (body: unknown) => dialect.decodeAnswer(Buffer.from(JSON.stringify(body)), view)

function failure(body: unknown): UpstreamFailure {
  const found = typeof body === 'string' ? dialect.decodeAnswer(Buffer.from(body), view) : decoded(body)
  if ('failure' in found) return found.failure
  throw new Error('it was understood')
}

const corpus = process.env['CORPUS_DIR']
const judge = corpus === undefined ? null : openSchemas(corpus, 'strict')

function completion(body: unknown): ChatCompletion {
  const found = decoded(body)
  if ('failure' in found) throw new Error(found.failure.detail)
  expect(found.raw).toBeNull()
  expect(JSON.parse(JSON.stringify(found.completion))).toEqual(found.completion)
  if (judge) expect(judge('CreateChatCompletionResponse', found.completion)).toEqual([])
  return found.completion
}

describe('what is no answer', () => {
  test.each<[name: string, body: unknown, code: string, detail: string]>([
    ['nothing', '', 'upstream_invalid', 'empty'],
    ['a page', '<html>', 'upstream_invalid', 'not JSON that can be read'],
    ['null', null, 'upstream_invalid', 'no message'],
    ['a list', [], 'upstream_invalid', 'no message'],
    [
      'what AWS says at a wrong path',
      { Output: { __type: 'UnknownOperationException' } },
      'upstream_invalid',
      'no message',
    ],
    ['no content', answer(undefined), 'upstream_invalid', 'no message'],
    ['content of another kind', answer('hi'), 'upstream_invalid', 'no message'],
    ['no reason', answer([], { stopReason: null }), 'upstream_invalid', 'no stopReason'],
    ['a broken call', answer([], { stopReason: 'malformed_tool_use' }), 'upstream_error', 'malformed_tool_use'],
    ['a broken text', answer([], { stopReason: 'malformed_model_output' }), 'upstream_error', 'malformed_model_output'],
  ])('%s', (_name, body, code, detail) => {
    expect(failure(body)).toMatchObject({ code, detail: expect.stringContaining(detail) })
  })
})

test.each(['malformed_tool_use', 'malformed_model_output'])('what came before %s is an answer', stopReason => {
  const said = completion(answer([{ text: 'So' }], { stopReason })).choices[0]
  expect(said).toMatchObject({ finish_reason: 'stop', message: { content: 'So' } })
  const called = completion(answer([{ toolUse: { toolUseId: 'c', name: 'x', input: {} } }], { stopReason })).choices[0]
  expect(called).toMatchObject({ finish_reason: 'tool_calls' })
})

test('an empty signature and an empty box are none', () => {
  const thoughts = [
    { reasoningContent: { reasoningText: { text: 'Hm.', signature: '' } } },
    { reasoningContent: { redactedContent: '' } },
  ]
  expect(completion(answer([...thoughts, { text: 'So' }])).choices[0]!.message).not.toHaveProperty('reasoning_details')
})

test('arguments that are too deep to be written again are no throw', () => {
  const deep = `${'{"a":'.repeat(400_000)}1${'}'.repeat(400_000)}`
  const call = JSON.stringify(answer([{ toolUse: { name: 'x', input: 'DEEP' } }])).replace('"DEEP"', deep)
  expect(() => dialect.decodeAnswer(Buffer.from(call), view)).not.toThrow()
})

describe('an answer', () => {
  const call = { toolUse: { toolUseId: 'tooluse_1', name: 'weather', input: { city: 'Bonn' } } }
  const wireCall = { id: 'tooluse_1', type: 'function', function: { name: 'weather', arguments: '{"city":"Bonn"}' } }
  const message = { role: 'assistant', content: null, refusal: null }

  test('whole', () => {
    expect(completion(answer([{ text: 'Hi' }]))).toEqual({
      id: 'x-1',
      object: 'chat.completion',
      created: 1_790_000_000,
      model: 'chat-small',
      choices: [
        {
          index: 0,
          message: { role: 'assistant', content: 'Hi', refusal: null },
          logprobs: null,
          finish_reason: 'stop',
        },
      ],
      usage: { prompt_tokens: 10, completion_tokens: 5, total_tokens: 15 },
    })
  })

  test.each<[name: string, content: unknown[], message: object, finish?: string]>([
    ['nothing', [], message],
    ['texts are joined', [{ text: 'a' }, { text: 'b', type: 'text' }], { ...message, content: 'ab' }],
    [
      'texts with citations',
      [{ citationsContent: { content: [{ text: 'a' }, 7], citations: [] } }, { citationsContent: { citations: [] } }],
      { ...message, content: 'a' },
    ],
    ['a call', [{ text: 'so' }, call], { ...message, content: 'so', tool_calls: [wireCall] }, 'tool_calls'],
    [
      'a call without an id, without arguments',
      [{ toolUse: { name: 'clock' } }],
      { ...message, tool_calls: [{ id: 'call_x1_0', type: 'function', function: { name: 'clock', arguments: '{}' } }] },
      'tool_calls',
    ],
    [
      'tools that AWS runs are no calls',
      [
        { toolUse: { ...call.toolUse, type: 'server_tool_use' } },
        { toolResult: { toolUseId: 'tooluse_1', content: [{ text: '[HIDDEN]' }] } },
        { text: 'a' },
      ],
      { ...message, content: 'a' },
    ],
    [
      'thoughts',
      [
        { reasoningContent: { reasoningText: { text: 'hm', signature: 's' } } },
        { reasoningContent: { redactedContent: 'AA==' } },
        { text: 'a' },
      ],
      {
        ...message,
        content: 'a',
        reasoning_content: 'hm',
        reasoning_details: [
          { type: 'reasoning.text', text: 'hm', signature: 's' },
          { type: 'reasoning.encrypted', data: 'AA==' },
        ],
      },
    ],
    [
      'a thought without a signature',
      [{ reasoningContent: { reasoningText: { text: 'hm' } } }],
      { ...message, reasoning_content: 'hm' },
    ],
    [
      'an answer by a schema',
      [{ text: 'Here:' }, { toolUse: { toolUseId: 'x', name: 'tollgate_structured_answer', input: { a: 1 } } }],
      { ...message, content: '{"a":1}' },
    ],
    [
      'an answer by a schema beside a call',
      [{ toolUse: { toolUseId: 'x', name: 'tollgate_structured_answer', input: { a: 1 } } }, call],
      { ...message, content: '{"a":1}', tool_calls: [wireCall] },
      'tool_calls',
    ],
    [
      'blocks of no known kind, and wrong types in known ones',
      [
        null,
        'x',
        7,
        {},
        { video: {} },
        { text: 7 },
        { toolUse: { name: 7 } },
        { reasoningContent: 'x' },
        { reasoningContent: { reasoningText: { text: 7, signature: 7 } } },
      ],
      message,
    ],
  ])('%s', (_name, content, expected, finish = 'stop') => {
    const [choice] = completion(
      answer(content, { stopReason: finish === 'tool_calls' ? 'tool_use' : 'end_turn' }),
    ).choices
    expect(choice!.message).toEqual(expected)
    expect(choice!.finish_reason).toBe(finish)
  })

  test.each([
    ['end_turn', 'stop'],
    ['stop_sequence', 'stop'],
    ['tool_use', 'stop'],
    ['max_tokens', 'length'],
    ['model_context_window_exceeded', 'length'],
    ['content_filtered', 'content_filter'],
    ['guardrail_intervened', 'content_filter'],
    ['something_new', 'stop'],
    ['constructor', 'stop'],
  ])('%s is %s', (stopReason, finish) => {
    expect(completion(answer([{ text: 'a' }], { stopReason })).choices[0]!.finish_reason).toBe(finish)
  })

  test('calls that came are calls, whatever the reason', () => {
    expect(completion(answer([call])).choices[0]!.finish_reason).toBe('tool_calls')
  })

  test.each<[name: string, usage: unknown, expected: object | undefined]>([
    ['none', undefined, undefined],
    ['not numbers', { inputTokens: '1', outputTokens: null }, undefined],
    [
      'with a cache, which AWS counts apart',
      { ...USAGE, cacheReadInputTokens: 100, cacheWriteInputTokens: 7, totalTokens: 122 },
      {
        prompt_tokens: 117,
        completion_tokens: 5,
        total_tokens: 122,
        prompt_tokens_details: { cached_tokens: 100, cache_write_tokens: 7 },
      },
    ],
  ])('usage: %s', (_name, usage, expected) => {
    expect(completion(answer([{ text: 'a' }], { usage })).usage).toEqual(expected)
  })
})

describe('errors', () => {
  const error = (status: number, body: string, headers: Record<string, string> = {}) =>
    dialect.decodeError(status, headers, Buffer.from(body))
  const typed = (type: string) => ({
    'x-amzn-errortype': `${type}:http://internal.amazon.com/coral/com.amazon.bedrock/`,
  })

  test.each<[status: number, type: string | null, message: string, code: string]>([
    [400, 'ValidationException', 'messages: at least one is required', 'upstream_rejected'],
    [400, 'ValidationException', 'The provided model identifier is invalid.', 'model_not_found'],
    [
      400,
      null,
      'The model returned the following errors: prompt is too long: 9 tokens > 8 maximum',
      'context_length_exceeded',
    ],
    [400, null, 'Input is too long for requested model.', 'context_length_exceeded'],
    [400, null, 'Input Tokens Exceeded: Number of input tokens exceeds maximum length.', 'context_length_exceeded'],
    [400, 'ServiceQuotaExceededException', 'Your account has reached a quota.', 'upstream_quota'],
    [403, 'AccessDeniedException', "You don't have access to the model.", 'upstream_forbidden'],
    [403, 'UnrecognizedClientException', 'The security token included in the request is invalid.', 'upstream_auth'],
    [400, 'ExpiredTokenException', 'The security token included in the request is expired', 'upstream_auth'],
    [404, 'ResourceNotFoundException', 'This model version has reached the end of its life.', 'model_not_found'],
    [404, null, 'Not found', 'upstream_error'],
    [408, 'ModelTimeoutException', 'Model has timed out.', 'upstream_timeout'],
    [413, null, 'Too large', 'request_too_large'],
    [424, 'ModelErrorException', 'The model failed.', 'upstream_error'],
    [429, 'ThrottlingException', 'Too many requests', 'upstream_rate_limited'],
    [429, 'ModelNotReadyException', 'The model is not ready.', 'upstream_overloaded'],
    [500, 'InternalServerException', 'Try again.', 'upstream_error'],
    [503, 'ServiceUnavailableException', 'Unable to process.', 'upstream_overloaded'],
  ])('%s %s: %s', (status, type, message, code) => {
    const failure = error(status, JSON.stringify({ message }), type === null ? {} : typed(type))
    expect(failure.code).toBe(code)
    expect(failure.detail).toMatch(`status ${status}, type ${type ?? '-'}, code `)
    expect(failure.detail).toMatch(`: ${message}`)
    const isTheirs = ['upstream_rejected', 'model_not_found', 'context_length_exceeded', 'request_too_large'].includes(
      code,
    )
    expect(failure.message).toBe(isTheirs ? message : undefined)
  })

  test('a wait that AWS asks for', () => {
    expect(error(429, '{}', { 'retry-after': '3' }).retryAfterMs).toBe(3000)
  })

  test.each<[name: string, body: string, detail: string]>([
    [
      'the type in the body',
      '{"__type":"com.amazon.coral.service#ThrottlingException","Message":"Slow"}',
      'status 400, type ThrottlingException, code -: Slow',
    ],
    ['a page', '<html>', 'status 400, type -, code -: '],
    ['nothing', '', 'status 400, type -, code -: '],
    ['wrong types', '{"message":{},"__type":7}', 'status 400, type -, code -: '],
    ['a secret', '{"message":"key SECRET"}', 'status 400, type -, code -: key [secret]'],
  ])('%s', (_name, body, detail) => {
    expect(error(400, body).detail).toBe(detail)
  })
})
