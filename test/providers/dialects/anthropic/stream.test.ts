import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { errorReader, MessageEvents } from '../../../../src/providers/dialects/anthropic/index.ts'
import { ChunkWriter } from '../../../../src/providers/dialects/translate/completion.ts'
import { counts } from '../../../helpers/counts.ts'
import {
  blockStart,
  blockStop,
  chunksOf,
  delta,
  dialect,
  type Event,
  end,
  folded,
  frame,
  itemsOf,
  itemsOfEvents,
  start,
  text,
  view,
} from './helpers.ts'

const USAGE = (prompt_tokens: number, completion_tokens: number) => ({
  prompt_tokens,
  completion_tokens,
  total_tokens: prompt_tokens + completion_tokens,
})
const PING: Event = { type: 'ping' }
const kindsOf = (events: readonly (Event | string)[]) => itemsOfEvents(events).map(({ kind }) => kind)

describe('sad endings', () => {
  test('an error before anything else is a failure before any chunk', () => {
    const error: Event = { type: 'error', error: { type: 'overloaded_error', message: 'Overloaded' } }
    expect(itemsOfEvents([error, start(), ...text(0, 'a'), ...end('end_turn')])).toMatchObject([
      { kind: 'failure', failure: { code: 'upstream_overloaded' } },
    ])
    expect(kindsOf([PING, error])).toEqual(['failure'])
  })

  test('an error in the middle: what was counted, and no finish', () => {
    const error: Event = { type: 'error', error: { type: 'api_error', message: 'x' } }
    const items = itemsOfEvents([start(), ...text(0, 'a'), error, ...end('end_turn')])
    expect(items.map(({ kind }) => kind)).toEqual(['usage', 'chunk', 'chunk', 'usage', 'failure'])
    expect(items.at(-2)).toMatchObject({ usage: USAGE(10, 1) })
    expect(folded(chunksOf(items)).finish).toBeNull()
  })

  test.each([
    ['before the first text', [start()]],
    ['in the text', [start(), ...text(0, 'a').slice(0, 2)]],
    ['behind the stop reason', [start(), ...text(0, 'a'), end('end_turn')[0]!]],
  ])('it breaks off %s: no finish, no end, but what was counted', (_name, events) => {
    const items = itemsOfEvents(events)
    expect(items.map(({ kind }) => kind)).not.toContain('done')
    expect(folded(chunksOf(items)).finish).toBeNull()
    expect(items.findLast(({ kind }) => kind === 'usage')).toMatchObject({
      usage: { prompt_tokens: 10, completion_tokens: events.length === 5 ? 5 : 1 },
    })
  })

  test.each<[name: string, body: string]>([
    ['no JSON', 'data: {"type":\n\n'],
    ['a number', 'data: 7\n\n'],
    ['null', 'data: null\n\n'],
    ['a list', 'data: [{"type":"ping"}]\n\n'],
    ['an end of what never began', 'data: {"type":"message_stop"}\n\n'],
  ])('%s is a failure, once, and the last word', (_name, body) => {
    const items = itemsOf(body + frame(start()) + end('end_turn').map(frame).join(''), false, 100_000)
    expect(items).toMatchObject([{ kind: 'failure', failure: { code: 'upstream_invalid' } }])
  })

  test('what has the wrong type is not there', () => {
    const items = itemsOfEvents([
      { type: 'message_start', message: 7 },
      { type: 'content_block_start', index: 0, content_block: null },
      { type: 'content_block_start', index: 'x', content_block: { type: 'tool_use', id: 7, name: [], input: 'x' } },
      { type: 'content_block_delta', index: 0, delta: 'x' },
      delta(0, 'text_delta', { text: 7 }),
      delta(0, 'input_json_delta', { partial_json: '{"lost":1}' }),
      delta(0, 'signature_delta', { signature: 'x' }),
      delta(9, 'something_new', { text: 'x' }),
      { type: 'content_block_stop', index: {} },
      { type: 'message_delta', delta: null, usage: 'many' },
      { type: 'message_delta', delta: { stop_reason: 7 } },
      { type: 'constructor' },
      { type: 'message_stop' },
    ])
    expect(items.at(-1)).toEqual({ kind: 'done' })
    expect(folded(chunksOf(items))).toEqual({
      message: {
        role: 'assistant',
        content: '',
        tool_calls: [{ id: 'call_ex7_0', type: 'function', function: { name: '', arguments: '{}' } }],
      },
      finish: 'tool_calls',
    })
    expect(items).toStrictEqual(asJson(items))
  })

  test('arguments nested without end are read or refused, not thrown', () => {
    const deep = `${'['.repeat(60_000)}${']'.repeat(60_000)}`
    const block = `{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"a","name":"b","input":{"a":${deep}}}}`
    const items = itemsOfEvents([start(), block, blockStop(0), ...end('tool_use')])
    expect(items.at(-1)!.kind).toMatch(/done|failure/)
  })

  test('nothing counts behind the end', () => {
    const items = itemsOfEvents([start(), ...end('end_turn'), '[DONE]', ...text(0, 'late'), 'junk'])
    expect(items.at(-1)).toEqual({ kind: 'done' })
    expect(folded(chunksOf(items)).message.content).toBe('')
  })
})

describe('a stream', () => {
  test('as the client sees it, with usage', () => {
    const items = itemsOfEvents([start(), PING, ...text(0, 'Hel', '', 'lo'), ...end('end_turn')], true)
    const head = { id: 'msg_1', object: 'chat.completion.chunk', created: 1_790_000_000, model: 'chat-small' }
    const chunk = (piece: object, finish_reason: string | null = null) => ({
      ...head,
      choices: [{ index: 0, delta: piece, logprobs: null, finish_reason }],
      usage: null,
    })
    expect(chunksOf(items)).toEqual([
      chunk({ role: 'assistant', content: '', refusal: null }),
      chunk({ content: 'Hel' }),
      chunk({ content: 'lo' }),
      chunk({}, 'stop'),
      { ...head, choices: [], usage: USAGE(10, 5) },
    ])
    expect(items.at(-1)).toEqual({ kind: 'done' })
  })

  test('without usage the client sees none, and the gateway sees it', () => {
    const items = itemsOfEvents([start(), ...text(0, 'a'), ...end('end_turn')])
    for (const chunk of chunksOf(items)) expect(chunk).not.toHaveProperty('usage')
    expect(items.slice(-2)).toEqual([{ kind: 'usage', usage: USAGE(10, 5) }, { kind: 'done' }])
  })

  const call = (index: number, id: string, name: string, ...pieces: string[]): Event[] => [
    blockStart(index, { type: 'tool_use', id, name, input: {} }),
    ...pieces.map(partial_json => delta(index, 'input_json_delta', { partial_json })),
    blockStop(index),
  ]
  const called = (id: string, name: string, args: string) => ({
    id,
    type: 'function',
    function: { name, arguments: args },
  })

  test.each<[name: string, events: Event[], stop: string, message: object, finish: string]>([
    ['texts are one', [...text(0, 'a'), ...text(1, 'b', 'c')], 'end_turn', { content: 'abc' }, 'stop'],
    [
      'a text that begins with its block, and one without a block',
      [blockStart(0, { type: 'text', text: 'a' }), blockStop(0), delta(1, 'text_delta', { text: 'b' })],
      'max_tokens',
      { content: 'ab' },
      'length',
    ],
    [
      'calls are counted by themselves, beside what the provider calls itself',
      [
        ...text(0, 'Let me see.'),
        blockStart(1, { type: 'server_tool_use', id: 'srvtoolu_1', name: 'web_search', input: {} }),
        delta(1, 'input_json_delta', { partial_json: '{"query":1}' }),
        blockStop(1),
        blockStart(2, { type: 'web_search_tool_result', content: [] }),
        blockStop(2),
        ...call(3, 'toolu_1', 'a', '', '{"x"', ':1}'),
        ...call(4, 'toolu_2', 'b'),
      ],
      'tool_use',
      { content: 'Let me see.', tool_calls: [called('toolu_1', 'a', '{"x":1}'), called('toolu_2', 'b', '{}')] },
      'tool_calls',
    ],
    [
      'a call that comes whole, as relatives send it',
      [blockStart(0, { type: 'tool_use', id: 't', name: 'a', input: { x: 1 } }), blockStop(0)],
      'tool_use',
      { content: null, tool_calls: [called('t', 'a', '{"x":1}')] },
      'tool_calls',
    ],
    [
      'a call whose block is never closed',
      call(0, 't', 'a').slice(0, 1),
      'tool_use',
      { content: null, tool_calls: [called('t', 'a', '{}')] },
      'tool_calls',
    ],
    [
      'thinking, with what is needed to send it back',
      [
        blockStart(0, { type: 'thinking', thinking: '', signature: '' }),
        delta(0, 'thinking_delta', { thinking: 'Hm' }),
        delta(0, 'thinking_delta', { thinking: '.' }),
        delta(0, 'signature_delta', { signature: 'sig' }),
        blockStop(0),
        blockStart(1, { type: 'redacted_thinking', data: 'box' }),
        blockStop(1),
        ...text(2, 'a'),
      ],
      'end_turn',
      {
        content: 'a',
        reasoning_content: 'Hm.',
        reasoning_details: [
          { type: 'reasoning.text', text: 'Hm.', signature: 'sig' },
          { type: 'reasoning.encrypted', data: 'box' },
        ],
      },
      'stop',
    ],
    [
      'JSON by way of a tool is content',
      call(0, 't', 'tollgate_json_answer', '{"age"', ':7}'),
      'tool_use',
      { content: '{"age":7}' },
      'stop',
    ],
    ['an empty one', call(0, 't', 'tollgate_json_answer'), 'tool_use', { content: '{}' }, 'stop'],
    [
      'citations and a summary of what was are no text',
      [
        blockStart(0, { type: 'compaction', content: null }),
        delta(0, 'compaction_delta', { content: 'so far' }),
        delta(0, 'text_delta', { text: 'hidden' }),
        blockStop(0),
        blockStart(1, { type: 'text', text: '' }),
        delta(1, 'citations_delta', { citation: { cited_text: 'x' } }),
        delta(1, 'text_delta', { text: 'a' }),
        blockStop(1),
      ],
      'end_turn',
      { content: 'a' },
      'stop',
    ],
  ])('%s', (_name, events, stop, message, finish) => {
    const seen = folded(chunksOf(itemsOfEvents([start(), ...events, ...end(stop)])))
    expect({ ...seen.message, content: seen.message.content || null }).toEqual({ role: 'assistant', ...message })
    expect(seen.finish).toBe(finish)
  })

  test('a refusal says why', () => {
    const more = { stop_details: { category: 'bio', explanation: 'I will not.' } }
    const { message, finish } = folded(chunksOf(itemsOfEvents([start(), ...end('refusal', {}, more)])))
    expect(message.refusal).toBe('I will not.')
    expect(finish).toBe('content_filter')
  })

  test('usage grows: of each count the last number', () => {
    const begun = { input_tokens: 10, cache_read_input_tokens: 4, cache_creation_input_tokens: 2, output_tokens: 1 }
    const ended = {
      input_tokens: null,
      cache_read_input_tokens: 5,
      output_tokens: 9,
      output_tokens_details: { thinking_tokens: 3 },
    }
    expect(itemsOfEvents([start(begun), ...end('end_turn', ended)]).at(-2)).toEqual({
      kind: 'usage',
      usage: {
        ...USAGE(17, 9),
        prompt_tokens_details: { cached_tokens: 5, cache_write_tokens: 2 },
        completion_tokens_details: { reasoning_tokens: 3 },
      },
    })
  })

  test('the prompt is counted before the first word, for a client that leaves', () => {
    expect(itemsOfEvents([start()])[0]).toEqual({ kind: 'usage', usage: USAGE(10, 1) })
  })

  test('a call that running code makes comes whole, with the beginning', () => {
    const call = {
      type: 'tool_use',
      id: 'toolu_1',
      name: 'roll',
      input: { sides: 6 },
      caller: { type: 'code_execution' },
    }
    const message = {
      id: 'msg_1',
      content: [call],
      stop_reason: 'tool_use',
      usage: { input_tokens: 0, output_tokens: 0 },
    }
    const items = itemsOfEvents([{ type: 'message_start', message }, { type: 'message_stop' }])
    expect(folded(chunksOf(items))).toMatchObject({
      message: { tool_calls: [{ id: 'toolu_1', function: { name: 'roll', arguments: '{"sides":6}' } }] },
      finish: 'tool_calls',
    })
  })

  test('a beginning that comes twice is one answer', () => {
    const items = itemsOfEvents([start(), ...text(0, 'a').slice(0, 2), start(), ...text(0, 'b'), ...end('end_turn')])
    const roles = chunksOf(items).filter(chunk => chunk.choices[0]?.delta.role)
    expect(roles).toHaveLength(1)
    expect(folded(chunksOf(items)).message.content).toBe('ab')
  })

  test('the machine takes events that somebody else has unpacked', () => {
    const writer = new ChunkWriter(view())
    const machine = new MessageEvents(
      writer,
      errorReader(() => 0),
    )
    const events = [start(), ...text(0, 'a', 'b'), ...end('end_turn')]
    const items = events.flatMap(event => {
      machine.event(event)
      return writer.take()
    })
    expect(items).toEqual(itemsOfEvents(events))
  })
})

/** As it comes off the wire: nothing that JSON has no word for. */
const asJson = (value: unknown): unknown => JSON.parse(JSON.stringify(value))

/** A message as the provider may send it, whole and in events that say the same. */
const word = fc.string({ unit: 'grapheme', minLength: 1, maxLength: 8 })
const words = fc.array(word, { minLength: 1, maxLength: 5 })
const block = fc.oneof(
  fc.record({ type: fc.constant('text' as const), pieces: words }),
  fc.record({ type: fc.constant('thinking' as const), pieces: words, signature: fc.constantFrom('', 'sig+/=') }),
  fc.record({ type: fc.constant('redacted_thinking' as const), data: word }),
  fc.record({ type: fc.constant('tool_use' as const), name: word, input: fc.dictionary(word, fc.jsonValue()) }),
  fc.record({ type: fc.constant('server_tool_use' as const), name: word }),
)
type Made = typeof block extends fc.Arbitrary<infer T> ? T : never

function wholeBlock(made: Made, index: number): object {
  switch (made.type) {
    case 'text':
      return { type: 'text', text: made.pieces.join('') }
    case 'thinking':
      return { type: 'thinking', thinking: made.pieces.join(''), signature: made.signature }
    case 'tool_use':
      return { ...made, id: `toolu_${index}` }
    default:
      return { ...made, id: `x_${index}`, input: {} }
  }
}

function eventsOfBlock(made: Made, index: number): Event[] {
  switch (made.type) {
    case 'text':
      return text(index, ...made.pieces)
    case 'thinking':
      return [
        blockStart(index, { type: 'thinking', thinking: '', signature: '' }),
        ...made.pieces.map(thinking => delta(index, 'thinking_delta', { thinking })),
        ...(made.signature ? [delta(index, 'signature_delta', { signature: made.signature })] : []),
        blockStop(index),
      ]
    case 'tool_use': {
      const json = JSON.stringify(made.input)
      const pieces = json === '{}' ? [] : [json.slice(0, 3), json.slice(3)]
      return [
        blockStart(index, { ...made, id: `toolu_${index}`, input: {} }),
        ...pieces.map(partial_json => delta(index, 'input_json_delta', { partial_json })),
        blockStop(index),
      ]
    }
    default:
      return [blockStart(index, wholeBlock(made, index)), PING, blockStop(index)]
  }
}

const made = fc.record({
  blocks: fc.array(block, { maxLength: 6 }),
  stop_reason: fc.constantFrom('end_turn', 'max_tokens', 'tool_use', 'refusal'),
  input_tokens: fc.nat(1000),
  output_tokens: fc.nat(1000),
})
const bytesOf = (blocks: readonly Made[], stop: string, input: number, output: number) =>
  Buffer.from(
    [
      start({ input_tokens: input, output_tokens: 1 }),
      ...blocks.flatMap(eventsOfBlock),
      ...end(stop, { output_tokens: output }),
    ]
      .map(frame)
      .join(''),
  )

test('the chunks of a stream fold to the whole answer', () => {
  fc.assert(
    fc.property(made, ({ blocks, stop_reason, input_tokens, output_tokens }) => {
      const whole = {
        id: 'msg_1',
        type: 'message',
        content: blocks.map(wholeBlock),
        stop_reason,
        usage: { input_tokens, output_tokens },
      }
      const answer = dialect.decodeAnswer(Buffer.from(JSON.stringify(whole)), view())
      if ('failure' in answer) throw new Error(answer.failure.detail)
      const items = itemsOf(bytesOf(blocks, stop_reason, input_tokens, output_tokens), true)
      expect(items.at(-1)).toEqual({ kind: 'done' })
      const chunks = chunksOf(items)
      const { message, finish } = folded(chunks)
      const [choice] = answer.completion.choices
      const { refusal: _, ...expected } = choice!.message
      expect({ ...message, content: message.content || null }).toEqual({
        ...expected,
        content: expected.content || null,
      })
      expect(finish).toBe(choice!.finish_reason)
      expect(chunks.at(-1)!.usage).toEqual(answer.completion.usage)
      expect(new Set(chunks.map(({ id }) => id))).toEqual(new Set([answer.completion.id]))
    }),
    { numRuns: counts(200, 5_000) },
  )
})

test('however the bytes are split, the items are the same', () => {
  fc.assert(
    fc.property(
      made,
      fc.array(fc.integer({ min: 1, max: 60 }), { minLength: 1 }),
      fc.boolean(),
      (message, sizes, cut) => {
        const all = bytesOf(message.blocks, message.stop_reason, message.input_tokens, message.output_tokens)
        const bytes = cut ? all.subarray(0, Math.floor(all.length * 0.7)) : all
        const decoder = dialect.decodeStream(view())
        const items = []
        for (let at = 0, turn = 0; at < bytes.length; turn++) {
          const next = at + sizes[turn % sizes.length]!
          items.push(...decoder.push(bytes.subarray(at, next)))
          at = next
        }
        const whole = itemsOf(bytes)
        expect([...items, ...decoder.end()]).toEqual(whole)
        expect(itemsOf(bytes, false, 1)).toEqual(whole)
      },
    ),
    { numRuns: counts(60, 2_000) },
  )
})

test('no bytes whatsoever make it throw', () => {
  const anything = fc.oneof(
    fc.jsonValue(),
    fc.record(
      {
        type: fc.constantFrom(
          'message_start',
          'content_block_start',
          'content_block_delta',
          'content_block_stop',
          'message_delta',
          'message_stop',
          'error',
        ),
        index: fc.jsonValue(),
        message: fc.jsonValue(),
        content_block: fc.oneof(
          fc.jsonValue(),
          fc.record({
            type: fc.constantFrom('text', 'thinking', 'tool_use', 'redacted_thinking'),
            id: fc.jsonValue(),
            name: fc.jsonValue(),
            text: fc.jsonValue(),
            input: fc.jsonValue(),
          }),
        ),
        delta: fc.oneof(
          fc.jsonValue(),
          fc.record({
            type: fc.constantFrom('text_delta', 'thinking_delta', 'input_json_delta', 'signature_delta'),
            text: fc.jsonValue(),
            thinking: fc.jsonValue(),
            partial_json: fc.jsonValue(),
            signature: fc.jsonValue(),
          }),
        ),
        usage: fc.oneof(
          fc.jsonValue(),
          fc.record({ input_tokens: fc.jsonValue(), output_tokens: fc.jsonValue(), iterations: fc.jsonValue() }),
        ),
        error: fc.jsonValue(),
      },
      { requiredKeys: ['type'] },
    ),
  )
  fc.assert(
    fc.property(fc.array(anything, { maxLength: 8 }), events => {
      const body = events.map(event => `data: ${JSON.stringify(event)}\n\n`).join('')
      for (const items of [itemsOf(body), itemsOf(body + body, true)]) {
        expect(items.filter(({ kind }) => kind === 'done' || kind === 'failure').length).toBeLessThan(2)
        expect(items).toStrictEqual(asJson(items))
      }
      for (const event of events) {
        const answer = dialect.decodeAnswer(Buffer.from(JSON.stringify(event)), view())
        expect(answer).toStrictEqual(asJson(answer))
      }
      for (const event of events) dialect.decodeError(400, {}, Buffer.from(JSON.stringify(event)))
    }),
    { numRuns: counts(300, 5_000) },
  )
})
