import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import type { ErrorCode } from '#contract'
import { LineReader } from '../../../../src/providers/dialects/ollama/lines.ts'
import { counts } from '../../../helpers/counts.ts'
import {
  COUNTED,
  call,
  chunksOf,
  decoded,
  end,
  folded,
  frame,
  itemsOf,
  itemsOfLines,
  type Line,
  line,
  text,
  USAGE,
} from './helpers.ts'

const kindsOf = (lines: readonly (Line | string)[]) => itemsOfLines(lines).map(({ kind }) => kind)

describe('sad endings', () => {
  test.each<[name: string, value: Line, code: ErrorCode]>([
    ['a sentence', { error: 'model runner has unexpectedly stopped' }, 'upstream_error'],
    ['with its status', { StatusCode: 401, error: 'unauthorized' }, 'upstream_auth'],
  ])('an error before anything else is a failure before any chunk: %s', (_name, value, code) => {
    expect(itemsOfLines([value, text('a'), end()])).toMatchObject([{ kind: 'failure', failure: { code } }])
  })

  test('an error in the middle: no finish and no end', () => {
    const items = itemsOfLines([text('Hel'), { error: 'an error was encountered' }, text('lo'), end()])
    expect(items.map(({ kind }) => kind)).toEqual(['chunk', 'failure'])
    expect(folded(chunksOf(items))).toMatchObject({ message: { content: 'Hel' }, finish: null })
  })

  test.each([
    ['before anything', ''],
    ['between two lines', frame(text('a'))],
    ['in a line', `${frame(text('a'))}{"model":"qwen3:8b","mess`],
    ['in its last line', frame(text('a')) + frame(end()).slice(0, -3)],
  ])('it breaks off %s: no finish and no end', (_name, body) => {
    const items = itemsOf(body)
    expect(items.every(({ kind }) => kind === 'chunk')).toBe(true)
    expect(folded(chunksOf(items)).finish).toBeNull()
  })

  test.each<[name: string, body: string]>([
    ['no JSON', '<html>\n'],
    ['a number', '7\n'],
    ['null', 'null\n'],
    ['a list', '[]\n'],
  ])('%s is a failure, once, and the last word', (_name, body) => {
    const items = itemsOf(`${body}\n${frame(text('a'))}${frame(end())}`, false, [100_000])
    expect(items).toMatchObject([{ kind: 'failure', failure: { code: 'upstream_invalid' } }])
  })

  test('a model that was only loaded', () => {
    const items = itemsOfLines([end('load')])
    expect(items.map(({ kind }) => kind)).toEqual(['usage', 'failure'])
    expect(items.at(-1)).toMatchObject({ failure: { code: 'upstream_error' } })
  })

  test('what has the wrong type is not there', () => {
    const items = itemsOfLines([
      { message: 7, done: false },
      { message: { content: 7, thinking: [], tool_calls: {} }, done: 'no' },
      call('call_1', 7 as never, null),
      { done: true, done_reason: 7, prompt_eval_count: '1' },
    ])
    expect(items.at(-1)).toEqual({ kind: 'done' })
    expect(folded(chunksOf(items))).toEqual({
      message: {
        role: 'assistant',
        content: null,
        tool_calls: [{ id: 'call_1', type: 'function', function: { name: '', arguments: '{}' } }],
      },
      finish: 'tool_calls',
    })
    expect(JSON.parse(JSON.stringify(items))).toStrictEqual(items)
  })

  test('nothing counts behind the end', () => {
    const items = itemsOfLines([text('a'), end(), text('late'), 'junk', { error: 'late' }])
    expect(items.at(-1)).toEqual({ kind: 'done' })
    expect(folded(chunksOf(items)).message.content).toBe('a')
  })
})

describe('a stream', () => {
  test('as the client sees it, with usage', () => {
    const items = itemsOfLines([line({ thinking: 'Hm.' }), text('Hel'), text('lo'), end()], true)
    const head = { id: 'ex_7', object: 'chat.completion.chunk', created: 1_790_000_000, model: 'chat-small' }
    const chunk = (delta: object, finish_reason: string | null = null) => ({
      ...head,
      choices: [{ index: 0, delta, logprobs: null, finish_reason }],
      usage: null,
    })
    expect(chunksOf(items)).toEqual([
      chunk({ role: 'assistant', content: '', refusal: null, reasoning_content: 'Hm.' }),
      chunk({ content: 'Hel' }),
      chunk({ content: 'lo' }),
      chunk({}, 'stop'),
      { ...head, choices: [], usage: USAGE },
    ])
    expect(items.at(-1)).toEqual({ kind: 'done' })
  })

  test('usage that nobody asked for is an item of its own', () => {
    expect(kindsOf([text('a'), end()])).toEqual(['chunk', 'chunk', 'usage', 'done'])
  })

  test('calls come whole, each with an index and an id of its own', () => {
    const items = itemsOfLines([call('call_1', 'a', { city: '東京' }), call(null, 'b', {}), end()])
    const deltas = chunksOf(items).flatMap(({ choices }) => choices.map(({ delta }) => delta))
    const made = (index: number, id: string, name: string, args: string) => ({
      tool_calls: [{ index, id, type: 'function', function: { name, arguments: args } }],
    })
    expect(deltas).toEqual([
      { role: 'assistant', content: null, refusal: null, ...made(0, 'call_1', 'a', '{"city":"東京"}') },
      made(1, 'call_ex7_1', 'b', '{}'),
      {},
    ])
    expect(folded(chunksOf(items)).finish).toBe('tool_calls')
  })

  test.each([
    ['carriage returns', (lines: readonly Line[]) => lines.map(one => `${JSON.stringify(one)}\r\n`).join('')],
    ['empty lines', (lines: readonly Line[]) => lines.map(one => `\n${JSON.stringify(one)}\n \n`).join('')],
    ['a last line without an end', (lines: readonly Line[]) => lines.map(one => JSON.stringify(one)).join('\n')],
  ])('%s', (_name, write) => {
    const lines = [text('Hel'), text('lo'), end()]
    expect(itemsOf(write(lines), true)).toEqual(itemsOfLines(lines, true))
  })
})

describe('lines', () => {
  test('a line does not change when the next one is read', () => {
    const reader = new LineReader()
    reader.push(Buffer.from('on'))
    const [first] = reader.push(Buffer.from('e\ntw'))
    reader.push(Buffer.from('o\n'))
    expect(String(first)).toBe('one')
  })
})

const word = fc.string({ unit: 'grapheme', minLength: 1, maxLength: 8 })
const words = fc.array(word, { maxLength: 5 })
const made = fc.record({
  thoughts: words,
  texts: words,
  calls: fc.array(fc.record({ name: word, args: fc.dictionary(word, fc.jsonValue()) }), { maxLength: 3 }),
  reason: fc.constantFrom('stop', 'length', null),
})
type Made = typeof made extends fc.Arbitrary<infer T> ? T : never

const linesOf = ({ thoughts, texts, calls, reason }: Made): Line[] => [
  ...thoughts.map(thinking => line({ thinking })),
  ...texts.map(text),
  ...calls.map(({ name, args }, index) => call(`id_${index}`, name, args)),
  end(reason),
]

test('what a client makes of the chunks is what the whole answer would have been', () => {
  fc.assert(
    fc.property(made, one => {
      const items = itemsOfLines(linesOf(one), true)
      const message = {
        content: one.texts.join(''),
        thinking: one.thoughts.join(''),
        tool_calls: one.calls.map(({ name, args }, index) => ({
          id: `id_${index}`,
          function: { name, arguments: args },
        })),
      }
      const whole = decoded({ ...end(one.reason, COUNTED), message })
      if (!('completion' in whole)) throw new Error('no answer')
      const [choice] = whole.completion.choices
      const seen = folded(chunksOf(items))
      // A stream begins with an empty text where the whole answer has none.
      expect({ refusal: null, ...seen.message, content: seen.message.content || null }).toEqual({
        ...choice!.message,
        content: choice!.message.content || null,
      })
      expect(seen.finish).toBe(choice!.finish_reason)
      expect(chunksOf(items).at(-1)!.usage).toEqual(whole.completion.usage)
    }),
    { numRuns: counts(100, 2000) },
  )
})

test('however the bytes are split, the same items come out', () => {
  fc.assert(
    fc.property(
      made,
      fc.array(fc.integer({ min: 1, max: 60 }), { minLength: 1 }),
      fc.boolean(),
      (one, sizes, usage) => {
        const body = linesOf(one).map(frame).join('')
        const whole = itemsOf(body, usage)
        expect(itemsOf(body, usage, sizes)).toEqual(whole)
        expect(itemsOf(body, usage, [1])).toEqual(whole)
      },
    ),
    { numRuns: counts(50, 1000) },
  )
})
