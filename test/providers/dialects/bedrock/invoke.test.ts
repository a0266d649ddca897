import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { type ChatRequest, isRefusal } from '#contract'
import { bedrockInvokeDialect } from '../../../../src/providers/dialects/bedrock/index.ts'
import { counts } from '../../../helpers/counts.ts'
import { CLAUDE, chatOf, chunksOf, failureOf, fold, NOVA, targetOf, USER, view } from './conversations.ts'
import { event, exception, frame, split } from './frames.ts'

const dialect = bedrockInvokeDialect(() => 0)

const chunk = (value: unknown) =>
  event('chunk', { bytes: Buffer.from(JSON.stringify(value)).toString('base64'), p: 'abc' })
const start = chunk({
  type: 'message_start',
  message: { id: 'msg_bdrk_1', role: 'assistant', content: [], usage: { input_tokens: 10, output_tokens: 1 } },
})
const WHOLE = [
  start,
  chunk({ type: 'content_block_start', index: 0, content_block: { type: 'text', text: '' } }),
  chunk({ type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text: 'Grüße 👋' } }),
  chunk({ type: 'content_block_stop', index: 0 }),
  chunk({
    type: 'content_block_start',
    index: 1,
    content_block: { type: 'tool_use', id: 'toolu_1', name: 'clock', input: {} },
  }),
  chunk({ type: 'content_block_stop', index: 1 }),
  chunk({ type: 'message_delta', delta: { stop_reason: 'tool_use' }, usage: { output_tokens: 5 } }),
  chunk({ type: 'message_stop', 'amazon-bedrock-invocationMetrics': { inputTokenCount: 10 } }),
]

function decode(pieces: readonly Buffer[]) {
  const decoder = dialect.decodeStream(view)
  return [...pieces.flatMap(piece => decoder.push(piece)), ...decoder.end()]
}

const encode = (body: object, model = CLAUDE) => {
  const request = dialect.encodeRequest(
    chatOf({ model: 'chat-small', messages: [USER], ...body } as ChatRequest),
    targetOf(model),
  )
  return { ...request, sent: JSON.parse(request.body.toString()) as Record<string, unknown> }
}

describe('a request', () => {
  test.each([NOVA, 'meta.llama3-70b-instruct-v1:0'])('%s speaks no Messages API', model => {
    let thrown: unknown
    try {
      encode({}, model)
    } catch (error) {
      thrown = error
    }
    expect(isRefusal(thrown) && thrown.code).toBe('unsupported_parameter')
  })

  test.each([
    [false, 'invoke', 'application/json'],
    [true, 'invoke-with-response-stream', 'application/vnd.amazon.eventstream'],
  ])('in a stream: %s', (stream, verb, accept) => {
    const { path, headers, sent } = encode({ stream })
    expect(path).toBe(`/model/us.anthropic.claude-sonnet-4-5-20250929-v1%3A0/${verb}`)
    expect(headers).toEqual({ accept })
    // Neither the model, which stands in the path, nor the stream, which stands there too.
    expect(Object.keys(sent).sort()).toEqual(['anthropic_version', 'max_tokens', 'messages'])
    expect(sent).toMatchObject({ anthropic_version: 'bedrock-2023-05-31', max_tokens: 3000 })
  })

  test('an ARN may be a Claude', () => {
    expect(encode({}, 'arn:aws:bedrock:us-east-1:1:application-inference-profile/x').path).toContain('%2Fx/invoke')
  })
})

describe('a stream', () => {
  test.each<[name: string, frames: Buffer[], code: string]>([
    ['throttled', [exception('throttlingException', 'Slow')], 'upstream_rate_limited'],
    ['the model fails', [start, exception('modelStreamErrorException', 'Oh')], 'upstream_error'],
    ['the model takes too long', [start, exception('modelTimeoutException', 'Oh')], 'upstream_timeout'],
    [
      'an error of the API itself',
      [chunk({ type: 'error', error: { type: 'overloaded_error', message: 'Oh' } })],
      'upstream_overloaded',
    ],
    ['no bytes', [start, event('chunk', {})], 'upstream_invalid'],
    ['bytes of another type', [start, event('chunk', { bytes: 7 })], 'upstream_invalid'],
    ['bytes that are no JSON', [start, event('chunk', { bytes: 'YWJj' })], 'upstream_invalid'],
    [
      'a payload that is no JSON',
      [start, frame({ ':message-type': 'event', ':event-type': 'chunk' }, '{')],
      'upstream_invalid',
    ],
    ['a page', [Buffer.from('<html><body>Bad')], 'upstream_invalid'],
  ])('%s', (_name, frames, code) => {
    const items = decode([...frames, chunk({ type: 'message_stop' })])
    expect(failureOf(items)?.code).toBe(code)
    expect(items.some(({ kind }) => kind === 'done')).toBe(false)
  })

  test('whole', () => {
    const items = decode([start, event('news', {}), ...WHOLE.slice(1)])
    expect(fold(items)).toEqual({
      message: {
        role: 'assistant',
        content: 'Grüße 👋',
        refusal: null,
        tool_calls: [{ id: 'toolu_1', type: 'function', function: { name: 'clock', arguments: '{}' } }],
      },
      finish: 'tool_calls',
    })
    expect(chunksOf(items).at(-1)!.usage).toMatchObject({ prompt_tokens: 10, completion_tokens: 5 })
    expect(items.at(-1)).toEqual({ kind: 'done' })
  })

  test('any split gives the same items', () => {
    const sizes = fc.array(fc.integer({ min: 1, max: 200 }), { minLength: 1, maxLength: 20 })
    fc.assert(
      fc.property(sizes, pieces => {
        expect(decode(split(Buffer.concat(WHOLE), pieces))).toEqual(decode(WHOLE))
      }),
      { numRuns: counts(30, 1000) },
    )
  })
})

test('a whole answer', () => {
  const body = { id: 'msg_1', type: 'message', content: [{ type: 'text', text: 'Hi' }], stop_reason: 'end_turn' }
  expect(dialect.decodeAnswer(Buffer.from(JSON.stringify(body)), view)).toMatchObject({
    completion: { id: 'msg_1', model: 'chat-small', choices: [{ message: { content: 'Hi' }, finish_reason: 'stop' }] },
  })
})

test('errors are those of AWS', () => {
  const failure = dialect.decodeError(
    429,
    { 'x-amzn-errortype': 'ModelNotReadyException' },
    Buffer.from('{"message":"x"}'),
  )
  expect(failure.code).toBe('upstream_overloaded')
})
