/** Frames that no case can hold, log details of failures, and properties of streams. */
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import type { StreamItem, UpstreamFailure } from '#contract'
import { bedrockDialect, bedrockInvokeDialect } from '../../../../src/providers/dialects/bedrock/index.ts'
import { countsOf } from '../../../helpers/counts.ts'
import { chunksOf, folded, NOW, view } from '../anthropic/helpers.ts'
import { event, exception, frame, split } from './frames.ts'

const counts = countsOf('corpus')

const redact = (text: string) => text.replaceAll('SECRET', '[secret]')
const converse = bedrockDialect(() => NOW, redact)
const invoke = bedrockInvokeDialect(() => NOW, redact)

/** All items of a stream that arrives in these pieces. */
function decode(pieces: readonly Buffer[], dialect = converse): StreamItem[] {
  const decoder = dialect.decodeStream(view())
  return [...pieces.flatMap(piece => decoder.push(piece)), ...decoder.end()]
}

const start = event('messageStart', { role: 'assistant', p: 'abcd' })
const delta = (contentBlockIndex: number, piece: object) =>
  event('contentBlockDelta', { contentBlockIndex, delta: piece, p: 'ab' })
const text = (at: number, piece: string) => delta(at, { text: piece })
const call = (contentBlockIndex: number, toolUse: object) =>
  event('contentBlockStart', { contentBlockIndex, start: { toolUse } })
const input = (at: number, piece: string) => delta(at, { toolUse: { input: piece } })
const close = (contentBlockIndex: number) => event('contentBlockStop', { contentBlockIndex })
const stop = (stopReason: unknown = 'end_turn') => event('messageStop', { stopReason })
const metadata = event('metadata', { usage: { inputTokens: 10, outputTokens: 5, totalTokens: 15 } })

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

/** InvokeModel's frame around an event of the Messages API. */
const chunk = (value: unknown) =>
  event('chunk', { bytes: Buffer.from(JSON.stringify(value)).toString('base64'), p: 'abc' })
const invokeStart = chunk({ type: 'message_start', message: { id: 'msg_bdrk_1', content: [] } })
const INVOKED = [
  invokeStart,
  chunk({ type: 'content_block_start', index: 0, content_block: { type: 'text', text: '' } }),
  chunk({ type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text: 'Grüße 👋' } }),
  chunk({ type: 'message_delta', delta: { stop_reason: 'end_turn' }, usage: { output_tokens: 5 } }),
  chunk({ type: 'message_stop' }),
]

describe('the detail of a failure', () => {
  const unread = (type: string) => frame({ ':message-type': 'event', ':event-type': type }, '{')

  test.each<[name: string, frames: Buffer[], code: string, detail: string, dialect?: typeof converse]>([
    [
      'an exception',
      [exception('throttlingException', 'Slow')],
      'upstream_rate_limited',
      'status in the stream, type throttlingException, code -: Slow',
    ],
    ['an exception without a type', [frame({ ':message-type': 'exception' })], 'upstream_error', 'type exception'],
    [
      'an error without a payload',
      [start, frame({ ':message-type': 'error', ':error-code': 'InternalError', ':error-message': 'Oh' })],
      'upstream_error',
      'type InternalError, code -: Oh',
    ],
    ['a frame without headers', [frame({}, '{}')], 'upstream_error', 'type -'],
    ['an event that is not JSON', [start, unread('metadata')], 'upstream_invalid', 'not a JSON object'],
    [
      'an event that is a list',
      [start, frame({ ':message-type': 'event' }, '[]')],
      'upstream_invalid',
      'not a JSON object',
    ],
    ['an HTML page', [Buffer.from('<html><body>Bad gateway')], 'upstream_invalid', 'checksum'],
    ['arguments without a call', [start, input(0, '{}')], 'upstream_invalid', 'never began'],
    ['a malformed call', [start, stop('malformed_tool_use'), metadata], 'upstream_error', 'malformed_tool_use'],
    ['an end without a stop reason', [start, stop(null), metadata], 'upstream_invalid', 'no stopReason'],
    [
      'a chunk of InvokeModel that is not JSON',
      [invokeStart, unread('chunk'), chunk({ type: 'message_stop' })],
      'upstream_invalid',
      '',
      invoke,
    ],
  ])('in a stream: %s', (_name, frames, code, detail, dialect) => {
    const items = decode(frames, dialect)
    expect(items.at(-1)).toMatchObject({ kind: 'failure', failure: { code, detail: expect.stringContaining(detail) } })
    expect(items.filter(({ kind }) => kind === 'failure' || kind === 'done')).toHaveLength(1)
    expect(chunksOf(items).some(({ choices }) => choices[0]?.finish_reason)).toBe(false)
  })

  const answer = (stopReason: unknown) => JSON.stringify({ output: { message: { content: [] } }, stopReason })
  test.each<[name: string, body: string, detail: string]>([
    ['an empty body', '', 'empty'],
    ['an HTML page', '<html>', 'not valid JSON'],
    ['null', 'null', 'no message'],
    ['no stop reason', answer(null), 'no stopReason'],
    ['a malformed call', answer('malformed_tool_use'), 'malformed_tool_use'],
    ['a malformed text', answer('malformed_model_output'), 'malformed_model_output'],
  ])('in an answer: %s', (_name, body, detail) => {
    expect(converse.decodeAnswer(Buffer.from(body), view())).toMatchObject({
      failure: { detail: expect.stringContaining(detail) },
    })
  })

  const errorOf = (body: string, headers: Record<string, string> = {}): UpstreamFailure =>
    converse.decodeError(400, headers, Buffer.from(body))

  test.each<[name: string, body: string, detail: string]>([
    [
      'the type in the body',
      '{"__type":"com.amazon.coral.service#ThrottlingException","Message":"Slow"}',
      'ThrottlingException, code -: Slow',
    ],
    ['an HTML page', '<html>', '-, code -: '],
    ['an empty body', '', '-, code -: '],
    ['wrong types', '{"message":{},"__type":7}', '-, code -: '],
    ['a secret', '{"message":"key SECRET"}', '-, code -: key [secret]'],
  ])('of an error: %s', (_name, body, detail) => {
    expect(errorOf(body).detail).toBe(`status 400, type ${detail}`)
  })

  test('of an error: the type in the headers', () => {
    const headers = { 'x-amzn-errortype': 'ValidationException:http://internal.amazon.com/coral/com.amazon.bedrock/' }
    expect(errorOf('{"message":"m"}', headers).detail).toBe('status 400, type ValidationException, code -: m')
  })
})

describe('frames', () => {
  test('frames before a damaged one are kept, and frames after it are not read', () => {
    const damaged = Buffer.from(text(0, 'b'))
    damaged[damaged.length - 1]! ^= 1
    const items = decode([Buffer.concat([start, text(0, 'a'), damaged, text(0, 'c')]), text(0, 'd'), stop(), metadata])
    expect(folded(chunksOf(items))).toMatchObject({ message: { content: 'a' }, finish: null })
    expect(items.at(-1)!.kind).toBe('failure')
  })

  test('a stream that breaks off in a frame is incomplete', () => {
    const items = decode([start, text(0, 'a'), stop().subarray(0, 30)])
    expect(items.map(({ kind }) => kind)).toEqual(['chunk', 'chunk'])
  })

  test('a frame with an event type and no message type is an event', () => {
    const bare = (type: string, payload: object) => frame({ ':event-type': type }, JSON.stringify(payload))
    const said = bare('contentBlockDelta', { contentBlockIndex: 0, delta: { text: 'So' } })
    const items = decode([start, said, stop(), metadata])
    expect(folded(chunksOf(items))).toMatchObject({ message: { content: 'So' }, finish: 'stop' })
  })

  test('an event without a type is skipped', () => {
    expect(decode([start, frame({ ':message-type': 'event' }, '{}'), stop(), metadata])).toEqual(
      decode([start, stop(), metadata]),
    )
  })
})

test('the chunks of a stream fold to the whole answer', () => {
  const content = [
    { reasoningContent: { reasoningText: { text: 'Let me', signature: 'sig' } } },
    { text: 'Grüße 👋' },
    { toolUse: { toolUseId: 'tooluse_1', name: 'weather', input: { city: 'Bonn' } } },
    { toolUse: { toolUseId: 'tooluse_2', name: 'clock', input: {} } },
  ]
  const answer = { output: { message: { content } }, stopReason: 'tool_use' }
  const decoded = converse.decodeAnswer(Buffer.from(JSON.stringify(answer)), view())
  if ('failure' in decoded) throw new Error(decoded.failure.detail)
  expect(decoded.raw).toBeNull()
  const { message, finish_reason: finish } = decoded.completion.choices[0]!
  expect(folded(chunksOf(decode(WHOLE)))).toEqual({ message: { ...message, refusal: undefined }, finish })
})

test('arguments of 400,000 levels are read or refused and do not throw', () => {
  const deep = `${'{"a":'.repeat(400_000)}1${'}'.repeat(400_000)}`
  const call = `{"output":{"message":{"content":[{"toolUse":{"name":"x","input":${deep}}}]}},"stopReason":"end_turn"}`
  expect(() => converse.decodeAnswer(Buffer.from(call), view())).not.toThrow()
})

test('the items do not depend on how the bytes are split', () => {
  const frames = fc.array(fc.constantFrom(...WHOLE, exception('x', 'y'), stop(), close(7)), { maxLength: 20 })
  const sizes = fc.array(fc.integer({ min: 1, max: 200 }), { minLength: 1, maxLength: 20 })
  fc.assert(
    fc.property(frames, sizes, (sent, pieces) => {
      const bytes = Buffer.concat(sent)
      expect(decode(split(bytes, pieces))).toEqual(decode(sent))
      expect(decode([bytes])).toEqual(decode(sent))
      expect(decode(split(Buffer.concat(INVOKED), pieces), invoke)).toEqual(decode(INVOKED, invoke))
    }),
    { numRuns: counts(50, 5000) },
  )
})

test('events of any form do not throw, and no member of a chunk is undefined', () => {
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
    { numRuns: counts(75, 20_000) },
  )
})
