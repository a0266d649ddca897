import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { openSchemas } from '../../../corpus/schemas.ts'
import { counts } from '../../../helpers/counts.ts'
import { chunksOf, decode, dialect, failureOf, fold, view } from './conversations.ts'
import { event, exception, frame, split } from './frames.ts'

const start = event('messageStart', { role: 'assistant', p: 'abcd' })
const delta = (contentBlockIndex: number, piece: object) =>
  event('contentBlockDelta', { contentBlockIndex, delta: piece, p: 'ab' })
const text = (at: number, piece: string) => delta(at, { text: piece })
const call = (contentBlockIndex: number, toolUse: object) =>
  event('contentBlockStart', { contentBlockIndex, start: { toolUse } })
const input = (at: number, piece: string) => delta(at, { toolUse: { input: piece } })
const close = (contentBlockIndex: number) => event('contentBlockStop', { contentBlockIndex })
const stop = (stopReason: unknown = 'end_turn') => event('messageStop', { stopReason })
const metadata = event('metadata', {
  usage: { inputTokens: 10, outputTokens: 5, totalTokens: 15, cacheReadInputTokens: 3 },
})

const WHOLE = [
  start,
  delta(0, { reasoningContent: { text: 'Let ' } }),
  delta(0, { reasoningContent: { text: 'me' } }),
  delta(0, { reasoningContent: { signature: 'sig' } }),
  close(0),
  text(1, 'Grüße '),
  text(1, '👋'),
  close(1),
  call(2, { toolUseId: 'tooluse_1', name: 'weather' }),
  call(3, { toolUseId: 'tooluse_2', name: 'clock' }),
  input(2, '{"city":'),
  input(2, ''),
  input(2, '"Bonn"}'),
  close(2),
  close(3),
  stop('tool_use'),
  metadata,
]

describe('streams that fail', () => {
  test.each<[name: string, frames: Buffer[], code: string, detail: string]>([
    [
      'throttled before anything else',
      [exception('throttlingException', 'Slow')],
      'upstream_rate_limited',
      'status in the stream, type throttlingException, code -: Slow',
    ],
    [
      'the model fails',
      [start, text(0, 'a'), exception('modelStreamErrorException', 'Oh')],
      'upstream_error',
      'modelStreamErrorException',
    ],
    ['AWS fails', [start, exception('internalServerException', 'Oh')], 'upstream_error', 'internalServerException'],
    [
      'unavailable',
      [start, exception('serviceUnavailableException', 'Oh')],
      'upstream_overloaded',
      'serviceUnavailableException',
    ],
    [
      'refused',
      [start, exception('validationException', 'ids must be unique')],
      'upstream_rejected',
      'ids must be unique',
    ],
    ['an exception without a word', [frame({ ':message-type': 'exception' })], 'upstream_error', 'type exception'],
    [
      'an error without a payload',
      [start, frame({ ':message-type': 'error', ':error-code': 'InternalError', ':error-message': 'Oh' })],
      'upstream_error',
      'type InternalError, code -: Oh',
    ],
    ['no kind of message', [frame({}, '{}')], 'upstream_error', 'type -'],
    [
      'an event that is no JSON',
      [start, frame({ ':message-type': 'event', ':event-type': 'metadata' }, '{')],
      'upstream_invalid',
      'not a JSON object',
    ],
    [
      'an event that is a list',
      [start, frame({ ':message-type': 'event' }, '[]')],
      'upstream_invalid',
      'not a JSON object',
    ],
    ['a page', [Buffer.from('<html><body>Bad gateway')], 'upstream_invalid', 'check sum'],
    ['arguments without a call', [start, input(0, '{}')], 'upstream_invalid', 'never began'],
    ['a broken call', [start, stop('malformed_tool_use'), metadata], 'upstream_error', 'malformed_tool_use'],
    ['an end without a reason', [start, stop(null), metadata], 'upstream_invalid', 'no stopReason'],
  ])('%s', (_name, frames, code, detail) => {
    const items = decode(frames)
    expect(failureOf(items)).toMatchObject({ code, detail: expect.stringContaining(detail) })
    expect(items.filter(({ kind }) => kind === 'failure' || kind === 'done')).toHaveLength(1)
    expect(items.at(-1)!.kind).toBe('failure')
    expect(chunksOf(items).some(({ choices }) => choices[0]?.finish_reason)).toBe(false)
  })

  test('nothing comes before a failure that is the first event', () => {
    expect(decode([exception('throttlingException', 'Slow')])).toHaveLength(1)
  })

  test('what came before the damage is kept, what comes after it is not read', () => {
    const damaged = Buffer.from(text(0, 'b'))
    damaged[damaged.length - 1]! ^= 1
    const items = decode([Buffer.concat([start, text(0, 'a'), damaged, text(0, 'c')]), text(0, 'd'), stop(), metadata])
    expect(fold(items)).toMatchObject({ message: { content: 'a' }, finish: null })
    expect(items.at(-1)!.kind).toBe('failure')
  })

  test.each<[name: string, frames: Buffer[]]>([
    ['nothing', []],
    ['in the middle', [start, text(0, 'a')]],
    ['in the middle of a frame', [start, text(0, 'a'), stop().subarray(0, 30)]],
    ['before the usage', [start, text(0, 'a'), stop()]],
  ])('what just ends is not done: %s', (_name, frames) => {
    expect(decode(frames).every(({ kind }) => kind === 'chunk')).toBe(true)
  })

  test('after its end nothing is said any more', () => {
    const items = decode([start, text(0, 'a'), stop(), metadata, text(0, 'b'), stop(), metadata, exception('x', 'y')])
    expect(items.at(-1)).toEqual({ kind: 'done' })
    expect(fold(items).message.content).toBe('a')
  })
})

describe('a stream', () => {
  test('chunk by chunk', () => {
    const deltas = chunksOf(decode(WHOLE)).map(
      ({ choices }) => choices[0] && { ...choices[0].delta, end: choices[0].finish_reason },
    )
    const signed = { type: 'reasoning.text', text: 'Let me', signature: 'sig' }
    expect(deltas).toEqual([
      { role: 'assistant', content: '', refusal: null, end: null },
      { reasoning_content: 'Let ', end: null },
      { reasoning_content: 'me', end: null },
      { reasoning_details: [signed], end: null },
      { content: 'Grüße ', end: null },
      { content: '👋', end: null },
      {
        tool_calls: [{ index: 0, id: 'tooluse_1', type: 'function', function: { name: 'weather', arguments: '' } }],
        end: null,
      },
      {
        tool_calls: [{ index: 1, id: 'tooluse_2', type: 'function', function: { name: 'clock', arguments: '' } }],
        end: null,
      },
      { tool_calls: [{ index: 0, function: { arguments: '{"city":' } }], end: null },
      { tool_calls: [{ index: 0, function: { arguments: '"Bonn"}' } }], end: null },
      { tool_calls: [{ index: 1, function: { arguments: '{}' } }], end: null },
      { end: 'tool_calls' },
      undefined,
    ])
  })

  test('usage comes last, when it was asked for and when not', () => {
    const usage = {
      prompt_tokens: 13,
      completion_tokens: 5,
      total_tokens: 18,
      prompt_tokens_details: { cached_tokens: 3 },
    }
    const items = decode(WHOLE)
    expect(items.at(-2)).toMatchObject({ kind: 'chunk', usage, chunk: { choices: [], usage } })
    expect(items.at(-1)).toEqual({ kind: 'done' })
    const unasked = decode(WHOLE, { ...view, includeUsage: false })
    expect(unasked.slice(-2)).toEqual([{ kind: 'usage', usage }, { kind: 'done' }])
    expect(chunksOf(unasked).some(chunk => 'usage' in chunk)).toBe(false)
  })

  test('usage that comes before the end waits for it', () => {
    const items = decode([start, text(0, 'a'), metadata, stop()])
    expect(items.map(({ kind }) => kind)).toEqual(['chunk', 'chunk', 'chunk', 'chunk', 'done'])
  })

  test.each<[name: string, frames: Buffer[], message: object, finish: string]>([
    ['nothing', [start, stop()], { content: null }, 'stop'],
    ['no start', [text(0, 'a'), stop()], { role: 'assistant', content: 'a' }, 'stop'],
    [
      'a text with a start',
      [start, event('contentBlockStart', { contentBlockIndex: 0, start: {} }), text(0, 'a'), close(0), stop()],
      { content: 'a' },
      'stop',
    ],
    [
      'tools that AWS runs',
      [
        start,
        call(0, { toolUseId: 'a', name: 'web', type: 'server_tool_use' }),
        input(0, '{}'),
        close(0),
        event('contentBlockStart', { contentBlockIndex: 1, start: { toolResult: { toolUseId: 'a' } } }),
        delta(1, { toolResult: [{ text: '[HIDDEN]' }] }),
        close(1),
        delta(2, { citation: {} }),
        text(2, 'a'),
        stop(),
      ],
      { content: 'a' },
      'stop',
    ],
    [
      'an answer by a schema, without arguments the second time',
      [
        start,
        call(0, { toolUseId: 'a', name: 'tollgate_structured_answer' }),
        input(0, '{"a"'),
        input(0, ':1}'),
        close(0),
        call(1, { toolUseId: 'b', name: 'tollgate_structured_answer' }),
        input(1, '{"b":2}'),
        close(1),
        stop('tool_use'),
      ],
      { content: '{"a":1}' },
      'stop',
    ],
    [
      'an empty answer by a schema',
      [start, call(0, { toolUseId: 'a', name: 'tollgate_structured_answer' }), stop('tool_use')],
      { content: '{}' },
      'stop',
    ],
    [
      'a call without an id',
      [start, call(0, { name: 'clock' }), stop('tool_use')],
      { tool_calls: [{ id: 'call_x1_0', type: 'function', function: { name: 'clock', arguments: '{}' } }] },
      'tool_calls',
    ],
    [
      'sealed thoughts come together in bytes, not in letters',
      [
        start,
        delta(0, { reasoningContent: { redactedContent: 'YQ==' } }),
        delta(0, { reasoningContent: { redactedContent: 'Yg==' } }),
        close(0),
        text(1, 'a'),
        stop(),
      ],
      { content: 'a', reasoning_details: [{ type: 'reasoning.encrypted', data: 'YWI=' }] },
      'stop',
    ],
    [
      'a thought that nobody closes',
      [
        start,
        delta(0, { reasoningContent: { text: 'hm' } }),
        delta(0, { reasoningContent: { signature: 's' } }),
        stop('max_tokens'),
      ],
      { reasoning_content: 'hm', reasoning_details: [{ type: 'reasoning.text', text: 'hm', signature: 's' }] },
      'length',
    ],
    [
      'events of no known kind, and wrong types in known ones',
      [
        start,
        event('news', { a: 1 }),
        frame({ ':message-type': 'event' }, '{}'),
        delta(0, { text: 7 }),
        delta(0, { video: {} }),
        delta(0, { reasoningContent: 7 }),
        delta(0, { toolUse: { input: 7 } }),
        event('contentBlockDelta', {}),
        event('contentBlockStart', { start: 7 }),
        event('contentBlockStop', {}),
        call(1, { name: 7 }),
        stop(),
      ],
      { content: null },
      'stop',
    ],
    ['a guardrail', [start, text(0, 'No.'), stop('guardrail_intervened')], { content: 'No.' }, 'content_filter'],
  ])('%s', (_name, frames, message, finish) => {
    const items = decode([...frames, metadata])
    expect(failureOf(items)).toBeUndefined()
    expect(fold(items)).toMatchObject({ message, finish })
    expect(items.at(-1)).toEqual({ kind: 'done' })
  })

  test('put together it is the whole answer', () => {
    const decoded = dialect.decodeAnswer(
      Buffer.from(
        JSON.stringify({
          output: {
            message: {
              content: [
                { reasoningContent: { reasoningText: { text: 'Let me', signature: 'sig' } } },
                { text: 'Grüße 👋' },
                { toolUse: { toolUseId: 'tooluse_1', name: 'weather', input: { city: 'Bonn' } } },
                { toolUse: { toolUseId: 'tooluse_2', name: 'clock', input: {} } },
              ],
            },
          },
          stopReason: 'tool_use',
        }),
      ),
      view,
    )
    if ('failure' in decoded) throw new Error(decoded.failure.detail)
    const [choice] = decoded.completion.choices
    expect(fold(decode(WHOLE))).toEqual({ message: choice!.message, finish: choice!.finish_reason })
  })

  test('any split gives the same items', () => {
    const frames = fc.array(fc.constantFrom(...WHOLE, exception('x', 'y'), stop(), close(7)), { maxLength: 20 })
    const sizes = fc.array(fc.integer({ min: 1, max: 200 }), { minLength: 1, maxLength: 20 })
    expect(decode(split(Buffer.concat(WHOLE), [1]))).toEqual(decode(WHOLE))
    fc.assert(
      fc.property(frames, sizes, (sent, pieces) => {
        const bytes = Buffer.concat(sent)
        expect(decode(split(bytes, pieces))).toEqual(decode(sent))
        expect(decode([bytes])).toEqual(decode(sent))
      }),
      { numRuns: counts(100, 5000) },
    )
  })

  test('events of any form are read without a throw, and nothing undefined is written', () => {
    const member = fc.constantFrom(
      'contentBlockIndex',
      'start',
      'delta',
      'toolUse',
      'text',
      'input',
      'name',
      'reasoningContent',
      'usage',
      'stopReason',
      'signature',
      'inputTokens',
    )
    const value = fc.letrec(tie => ({
      any: fc.oneof(
        fc.constant(null),
        fc.boolean(),
        fc.double(),
        fc.string(),
        fc.array(tie('any'), { maxLength: 2 }),
        fc.dictionary(member, tie('any'), { maxKeys: 5 }),
      ),
    })).any
    const type = fc.constantFrom(
      'messageStart',
      'contentBlockStart',
      'contentBlockDelta',
      'contentBlockStop',
      'messageStop',
      'metadata',
    )
    const events = fc.array(fc.tuple(type, fc.dictionary(member, value, { maxKeys: 6 })), { maxLength: 12 })
    fc.assert(
      fc.property(events, sent => {
        const items = decode(sent.map(([name, payload]) => event(name, payload)))
        for (const chunk of chunksOf(items)) expect(JSON.parse(JSON.stringify(chunk))).toStrictEqual(chunk)
      }),
      { numRuns: counts(300, 20_000) },
    )
  })

  const corpus = process.env['CORPUS_DIR']
  test.skipIf(corpus === undefined)("every chunk is one by OpenAI's schema", () => {
    const judge = openSchemas(corpus!, 'strict')
    for (const chunk of chunksOf(decode(WHOLE))) expect(judge('CreateChatCompletionStreamResponse', chunk)).toEqual([])
  })
})

test('a frame that says which event it is, and not that it is one, is an event', () => {
  const bare = (type: string, payload: object) => frame({ ':event-type': type }, JSON.stringify(payload))
  const said = bare('contentBlockDelta', { contentBlockIndex: 0, delta: { text: 'So' } })
  expect(fold(decode([start, said, stop('malformed_model_output'), metadata]))).toMatchObject({
    message: { content: 'So' },
    finish: 'stop',
  })
})
