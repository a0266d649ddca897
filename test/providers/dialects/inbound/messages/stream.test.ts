/** Streams as events, read by the official library. */
import { setImmediate } from 'node:timers/promises'
import Anthropic from '@anthropic-ai/sdk'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { type Chunk, type Delta, refuse } from '#contract'
import { counts } from '../../../../helpers/counts.ts'
import { anyAnswer, anyMess } from './chunks.ts'
import { answer, chunk, clientOf, completionOf, eventsOf, folded, read, streamed, USAGE } from './support.ts'

const usage = (counted = USAGE) => chunk(null, { usage: counted })
const callDelta = (index: number, text: string, more: object = {}) => ({
  tool_calls: [{ index, function: { arguments: text }, ...more }],
})
const begin = (index: number, text = '') =>
  callDelta(index, text, { id: `c${index}`, type: 'function', function: { name: 'look', arguments: text } })

test('the events of a text', () => {
  const events = eventsOf(
    streamed([
      chunk({ role: 'assistant', content: '' }),
      chunk({ content: 'Hel' }),
      chunk({ content: 'lo' }),
      chunk({}, {}, 'stop'),
      usage(),
    ]),
  )
  const none = { input_tokens: 0, cache_creation_input_tokens: 0, cache_read_input_tokens: 0, output_tokens: 0 }
  expect(events).toEqual([
    {
      type: 'message_start',
      message: {
        id: 'msg_01ab7',
        type: 'message',
        role: 'assistant',
        model: 'chat-small',
        content: [],
        stop_reason: null,
        stop_sequence: null,
        stop_details: null,
        usage: none,
      },
    },
    { type: 'content_block_start', index: 0, content_block: { type: 'text', text: '' } },
    { type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text: 'Hel' } },
    { type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text: 'lo' } },
    { type: 'content_block_stop', index: 0 },
    {
      type: 'message_delta',
      delta: { stop_reason: 'end_turn', stop_sequence: null, stop_details: null },
      usage: {
        input_tokens: 65,
        cache_creation_input_tokens: 5,
        cache_read_input_tokens: 30,
        output_tokens: 20,
        output_tokens_details: { thinking_tokens: 7 },
      },
    },
    { type: 'message_stop' },
  ])
})

test('each piece leaves at once, and the end waits for the end', () => {
  const encoder = read({ stream: true }).encodeStream()
  const types = (bytes: Buffer) => eventsOf(bytes.toString('utf8')).map(({ type }) => type)
  expect(types(encoder.chunk(chunk({ role: 'assistant', content: '' })))).toEqual(['message_start'])
  expect(types(encoder.chunk(chunk({ reasoning_content: 'a' })))).toEqual([
    'content_block_start',
    'content_block_delta',
  ])
  expect(types(encoder.chunk(chunk({ reasoning_content: 'b' })))).toEqual(['content_block_delta'])
  expect(types(encoder.chunk(chunk({ content: 'c' })))).toEqual([
    'content_block_delta',
    'content_block_stop',
    'content_block_start',
    'content_block_delta',
  ])
  expect(types(encoder.chunk(chunk(begin(0))))).toEqual(['content_block_stop', 'content_block_start'])
  expect(types(encoder.chunk(chunk(callDelta(0, '{"a"'))))).toEqual(['content_block_delta'])
  expect(types(encoder.chunk(chunk(callDelta(0, ':1}'))))).toEqual(['content_block_delta'])
  expect(types(encoder.chunk(chunk({}, {}, 'tool_calls')))).toEqual([])
  expect(types(encoder.chunk(usage()))).toEqual([])
  expect(types(encoder.finish())).toEqual(['content_block_stop', 'message_delta', 'message_stop'])
})

test('a stream without any chunk is a whole message all the same', async () => {
  expect(await folded(streamed([]))).toMatchObject({ model: 'chat-small', content: [], stop_reason: 'end_turn' })
})

test('calls side by side come one after the other', async () => {
  const chunks = [
    chunk(begin(0, '{"a":')),
    chunk(begin(1, '{"b":')),
    chunk({ content: 'Two at once.' }),
    chunk(callDelta(1, '"}"')),
    chunk(callDelta(0, '"\\"{"}')),
    chunk(begin(2)),
    chunk(callDelta(1, '}')),
    chunk({}, {}, 'tool_calls'),
  ]
  const text = streamed(chunks)
  expect(eventsOf(text).map(({ type, index }) => `${type} ${index ?? ''}`.replace('content_block_', ''))).toEqual([
    'message_start ',
    ...['start 0', 'delta 0', 'delta 0', 'stop 0'],
    ...['start 1', 'delta 1', 'delta 1', 'delta 1', 'stop 1'],
    ...['start 2', 'delta 2', 'stop 2'],
    ...['start 3', 'delta 3', 'stop 3'],
    ...['message_delta ', 'message_stop '],
  ])
  expect((await folded(text)).content).toEqual([
    { type: 'tool_use', id: 'c0', name: 'look', input: { a: '"{' } },
    { type: 'tool_use', id: 'c1', name: 'look', input: { b: '}' } },
    { type: 'text', text: 'Two at once.' },
    { type: 'tool_use', id: 'c2', name: 'look', input: {} },
  ])
})

test('other choices are not shown, the last count holds', async () => {
  const chunks: Chunk[] = [
    { ...chunk({ content: 'a' }), usage: { ...USAGE, completion_tokens: 1 } },
    { ...chunk(null), choices: [{ index: 1, delta: { content: 'b' }, finish_reason: 'length' }] },
    { ...chunk(null), choices: [{ index: 0, delta: null as never, finish_reason: 'stop', stop_reason: 'END' }] },
    usage(),
  ]
  const message = await folded(streamed(chunks, { stop_sequences: ['END'] }))
  expect(message).toMatchObject({
    content: [{ type: 'text', text: 'a' }],
    stop_reason: 'stop_sequence',
    stop_sequence: 'END',
    usage: { output_tokens: 20 },
  })
})

describe('calls of other providers', () => {
  const named = (index: number, id: string, text = '', name = 'look') =>
    callDelta(index, text, { id, type: 'function', function: { name, arguments: text } })
  const use = (id: string, input: object, name = 'look') => ({ type: 'tool_use', id, name, input })
  test.each<[string, object[], object[]]>([
    [
      'one index for all',
      [named(0, 'a', '{"a":1}'), named(0, 'b', '{"b":2}')],
      [use('a', { a: 1 }), use('b', { b: 2 })],
    ],
    [
      'one index for all, in pieces',
      [
        named(0, 'a'),
        callDelta(0, '{"a":'),
        callDelta(0, '1}'),
        named(0, 'b'),
        callDelta(0, '{"b":'),
        callDelta(0, '2}'),
      ],
      [use('a', { a: 1 }), use('b', { b: 2 })],
    ],
    [
      'the head again with each piece',
      [named(0, 'a', '{"a":'), named(0, 'a', '1}'), callDelta(0, '', { id: 'other' })],
      [use('a', { a: 1 })],
    ],
    ['one id for all', [named(0, 'a', '{}'), named(1, 'a', '{}')], [use('a', {}), use('toolu_01ab7_1', {})]],
    ['nothing', [{ tool_calls: [null] }, { tool_calls: {} }, { tool_calls: [{}] }], []],
    [
      'the name last',
      [
        { tool_calls: [{ index: 0, id: 'a', function: null }] },
        callDelta(0, '{"a":'),
        named(1, 'b', '{}'),
        callDelta(0, '', { function: { name: 'find' } }),
        callDelta(0, '1}'),
      ],
      [use('b', {}), use('a', { a: 1 }, 'find')],
    ],
    ['no name', [callDelta(0, '{}', { id: 'a' }), { content: 'Hm' }], [{ type: 'text', text: 'Hm' }]],
  ])('%s', async (_name, deltas, content) => {
    const chunks = [...deltas.map(delta => chunk(delta as Delta)), chunk({}, {}, 'tool_calls')]
    const message = await folded(streamed(chunks))
    expect(message.content).toEqual(content)
    expect(message.stop_reason).toBe(content.some(block => 'input' in block) ? 'tool_use' : 'end_turn')
  })

  test('a call ends when another takes its index, though it has no arguments', () => {
    const encoder = read({ stream: true }).encodeStream()
    encoder.chunk(chunk(named(0, 'a')))
    const events = eventsOf(encoder.chunk(chunk(named(0, 'b', '{'))).toString('utf8'))
    expect(events.map(({ type, index }) => [type, index])).toEqual([
      ['content_block_delta', 0],
      ['content_block_stop', 0],
      ['content_block_start', 1],
      ['content_block_delta', 1],
    ])
  })

  test('a choice without an index is the first', async () => {
    const choices = [{ delta: { content: 'a' }, finish_reason: 'length' }] as unknown as Chunk['choices']
    expect(await folded(streamed([{ ...chunk(null), choices }]))).toMatchObject({
      content: [{ type: 'text', text: 'a' }],
      stop_reason: 'max_tokens',
    })
  })
})

describe('a stream that fails', () => {
  test('ends in one error that the official library throws', async () => {
    const encoder = read({ stream: true, system: 'Be.' }).encodeStream()
    const begun = encoder.chunk(chunk({ content: 'a' })).toString('utf8')
    const refusal = refuse('upstream_truncated', {
      message: "It broke off at 'messages[1].content'.",
      param: 'messages[1].content',
    })
    const text = begun + encoder.fail(refusal).toString('utf8')
    expect(text.endsWith('\n\n')).toBe(true)
    expect(text).not.toContain('message_stop')
    const error = await folded(text).catch((thrown: unknown) => thrown)
    expect(error).toBeInstanceOf(Anthropic.APIError)
    expect(error).toMatchObject({
      type: 'api_error',
      errorCode: 'upstream_truncated',
      error: {
        type: 'error',
        request_id: 'req_01ab-7',
        error: {
          type: 'api_error',
          message: "It broke off at 'messages[0].content'.",
          code: 'upstream_truncated',
          param: 'messages[0].content',
        },
      },
    })
  })

  test('the text until then has come', async () => {
    const encoder = read({ stream: true }).encodeStream()
    const text =
      encoder.chunk(chunk({ content: 'a' })).toString('utf8') + encoder.fail(refuse('overloaded')).toString('utf8')
    const client = clientOf(() => new Response(text, { headers: { 'content-type': 'text/event-stream' } }))
    const stream = await client.messages.create({ model: 'm', max_tokens: 1, messages: [], stream: true })
    const seen: string[] = []
    const reading = (async () => {
      for await (const event of stream) seen.push(event.type)
    })()
    await expect(reading).rejects.toThrow('overloaded_error')
    await setImmediate()
    expect(seen).toEqual(['message_start', 'content_block_start', 'content_block_delta'])
  })
})

describe('generated streams', () => {
  test('come to the same message as the whole answer, however they were cut', async () => {
    await fc.assert(
      fc.asyncProperty(anyAnswer, async chunks => {
        expect(await folded(streamed(chunks))).toEqual(answer(completionOf(chunks)))
      }),
      { numRuns: counts(300, 10_000) },
    )
  })

  test('have one block open at a time and lose nothing, in whatever order things come', async () => {
    await fc.assert(
      fc.asyncProperty(anyMess, async chunks => {
        const text = streamed(chunks)
        const message = await folded(text)
        expectOrder(eventsOf(text))
        const { content: whole, ...end } = answer(completionOf(chunks))
        const { content, ...otherEnd } = message
        expect(otherEnd).toEqual(end)
        expect(sumOf(content)).toEqual(sumOf(whole))
      }),
      { numRuns: counts(300, 10_000) },
    )
  })

  function expectOrder(events: readonly Record<string, unknown>[]): void {
    const types = events.map(({ type }) => type)
    expect([types[0], ...types.slice(-2)]).toEqual(['message_start', 'message_delta', 'message_stop'])
    let open = -1
    let next = 0
    for (const { type, index } of events.slice(1, -2)) {
      if (type === 'content_block_start') {
        expect([open, index]).toEqual([-1, next])
        open = next++
      } else {
        expect(index).toBe(open)
        if (type === 'content_block_stop') open = -1
        else expect(type).toBe('content_block_delta')
      }
    }
    expect(open).toBe(-1)
  }

  /** What all blocks of a kind come to. */
  function sumOf(content: readonly Anthropic.ContentBlock[]) {
    const sum = { text: '', thinking: '', calls: {} as Record<string, unknown> }
    for (const block of content) {
      if (block.type === 'text') sum.text += block.text
      if (block.type === 'thinking') sum.thinking += block.thinking
      if (block.type === 'tool_use') sum.calls[block.id] = block.input
    }
    return sum
  }
})
