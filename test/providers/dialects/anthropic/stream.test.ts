/** Whole answers and streams of any content, and inputs that no case can hold: huge ones, and secrets. */
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { anthropicDialect, errorReader, MessageEvents } from '../../../../src/providers/dialects/anthropic/index.ts'
import { ChunkWriter } from '../../../../src/providers/dialects/translate/completion.ts'
import { countsOf } from '../../../helpers/counts.ts'
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
  NOW,
  start,
  text,
  view,
} from './helpers.ts'

const counts = countsOf('corpus')

test('arguments of 60,000 levels are read or refused, not thrown', () => {
  const deep = `${'['.repeat(60_000)}${']'.repeat(60_000)}`
  const call = `{"type":"tool_use","id":"a","name":"b","input":{"a":${deep}}}`
  const answer = dialect.decodeAnswer(Buffer.from(`{"content":[${call}]}`), view())
  expect(Object.keys(answer)[0]).toMatch(/completion|failure/)
  const block = `{"type":"content_block_start","index":0,"content_block":${call}}`
  const items = itemsOfEvents([start(), block, blockStop(0), ...end('tool_use')])
  expect(items.at(-1)!.kind).toMatch(/done|failure/)
})

test('the detail of a failure has the message of the provider without secrets', () => {
  const redacting = anthropicDialect(
    () => NOW,
    text => text.replaceAll('hunter2', '[secret]'),
  )
  const error = { type: 'error', error: { type: 'invalid_request_error', message: 'bad hunter2' } }
  const failure = redacting.decodeError(400, {}, Buffer.from(JSON.stringify(error)))
  expect(failure).toMatchObject({ message: 'bad [secret]', detail: expect.stringContaining('bad [secret]') })
  expect(JSON.stringify(failure)).not.toContain('hunter2')
  const items = redacting.decodeStream(view()).push(Buffer.from(frame(error)))
  expect(items).toMatchObject([
    { failure: { message: 'bad [secret]', detail: expect.stringContaining('bad [secret]') } },
  ])
  expect(JSON.stringify(items)).not.toContain('hunter2')
})

test('MessageEvents makes the same items from events that another reader has decoded', () => {
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

/** A value as a client gets it: JSON has no undefined. */
const asJson = (value: unknown): unknown => JSON.parse(JSON.stringify(value))

const word = fc.string({ unit: 'grapheme', minLength: 1, maxLength: 8 })
const words = fc.array(word, { minLength: 1, maxLength: 5 })
const block = fc.oneof(
  fc.record({ type: fc.constant('text' as const), pieces: words }),
  fc.record({ type: fc.constant('thinking' as const), pieces: words, signature: fc.constantFrom('', 'sig+/=') }),
  fc.record({ type: fc.constant('redacted_thinking' as const), data: word }),
  fc.record({ type: fc.constant('tool_use' as const), name: word, input: fc.dictionary(word, fc.jsonValue()) }),
  fc.record({ type: fc.constant('server_tool_use' as const), name: word }),
)
type GeneratedBlock = typeof block extends fc.Arbitrary<infer T> ? T : never

function wholeBlock(made: GeneratedBlock, index: number): object {
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

function eventsOfBlock(made: GeneratedBlock, index: number): Event[] {
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
      return [blockStart(index, wholeBlock(made, index)), { type: 'ping' }, blockStop(index)]
  }
}

/** A message that the provider may send. The test also sends its content as a stream. */
const made = fc.record({
  blocks: fc.array(block, { maxLength: 6 }),
  stop_reason: fc.constantFrom('end_turn', 'max_tokens', 'tool_use', 'refusal'),
  input_tokens: fc.nat(1000),
  output_tokens: fc.nat(1000),
})
const bytesOf = (blocks: readonly GeneratedBlock[], stop: string, input: number, output: number) =>
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
    { numRuns: counts(50, 5_000) },
  )
})

test('the items do not depend on how the bytes are split', () => {
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

test('the decoder does not throw for any JSON events', () => {
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
    { numRuns: counts(75, 5_000) },
  )
})
