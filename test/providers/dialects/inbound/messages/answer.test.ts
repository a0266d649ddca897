/** Answers in the Messages format, whole and streamed: huge and generated ones, and the time at which each event is sent. */
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { countsOf } from '../../../../helpers/counts.ts'
import { anyAnswer, anyShuffledAnswer } from './chunks.ts'
import {
  answer,
  type Block,
  chunk,
  completion,
  completionOf,
  eventsOf,
  folded,
  HIDDEN,
  read,
  SHOWN,
  streamed,
  USAGE,
} from './support.ts'

const counts = countsOf('corpus')

const called = (id: string, text: string) => ({
  tool_calls: [{ index: 0, id, type: 'function', function: { name: 'look', arguments: text } }],
})
const argued = (text: string) => ({ tool_calls: [{ index: 0, function: { arguments: text } }] })

test('arguments that V8 can parse but not stringify are sent as INVALID_JSON', () => {
  const deep = `${'{"1":'.repeat(20_000)}1${'}'.repeat(20_000)}`
  const [block] = answer(completion(called('c', deep))).content
  expect(block!.input).toEqual({ INVALID_JSON: deep })
})

test('each piece is sent at once, the final events only at the end', () => {
  const encoder = read({ stream: true, ...SHOWN }).encodeStream()
  const types = (bytes: Buffer) => eventsOf(bytes.toString()).map(({ type }) => type)
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
  expect(types(encoder.chunk(chunk(called('c0', ''))))).toEqual(['content_block_stop', 'content_block_start'])
  expect(types(encoder.chunk(chunk(argued('{"a"'))))).toEqual(['content_block_delta'])
  expect(types(encoder.chunk(chunk(argued(':1}'))))).toEqual(['content_block_delta'])
  expect(types(encoder.chunk(chunk({}, {}, 'tool_calls')))).toEqual([])
  expect(types(encoder.chunk(chunk(null, { usage: USAGE })))).toEqual([])
  expect(types(encoder.finish())).toEqual(['content_block_stop', 'message_delta', 'message_stop'])
})

test('a call without arguments ends when another call has its index', () => {
  const encoder = read({ stream: true }).encodeStream()
  encoder.chunk(chunk(called('a', '')))
  const events = eventsOf(encoder.chunk(chunk(called('b', '{'))).toString())
  expect(events.map(({ type, index }) => [type, index])).toEqual([
    ['content_block_delta', 0],
    ['content_block_stop', 0],
    ['content_block_start', 1],
    ['content_block_delta', 1],
  ])
})

describe('generated streams', () => {
  test('add up to the whole answer, however they are cut', () => {
    fc.assert(
      fc.property(anyAnswer, chunks => {
        for (const fields of [SHOWN, HIDDEN]) {
          expect(folded(streamed(chunks, fields))).toEqual(answer(completionOf(chunks), fields))
        }
      }),
      { numRuns: counts(75, 10_000) },
    )
  })

  test('have one open block at a time and lose nothing, in any order of deltas', () => {
    fc.assert(
      fc.property(anyShuffledAnswer, chunks => {
        const text = streamed(chunks)
        expectOrder(eventsOf(text))
        const { content: whole, ...end } = answer(completionOf(chunks))
        const { content, ...otherEnd } = folded(text)
        expect(otherEnd).toEqual(end)
        expect(sumOf(content)).toEqual(sumOf(whole))
      }),
      { numRuns: counts(75, 10_000) },
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

  /** All blocks of a kind, joined. */
  function sumOf(content: readonly Block[]) {
    const sum = { text: '', thinking: '', calls: {} as Record<string, unknown> }
    for (const { type, text, thinking, id, input } of content) {
      if (type === 'text') sum.text += text
      if (type === 'thinking') sum.thinking += thinking
      if (type === 'tool_use') sum.calls[id!] = input
    }
    return sum
  }
})
