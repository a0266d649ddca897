import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import type { ErrorCode } from '#contract'
import { counts } from '../../../helpers/counts.ts'
import {
  call,
  chunksOf,
  DONE,
  decoded,
  type Event,
  end,
  folded,
  frame,
  itemsOf,
  itemsOfEvents,
  plan,
  START,
  text,
  thought,
  USAGE,
  USED,
} from './helpers.ts'

const kindsOf = (events: readonly (Event | string)[]) => itemsOfEvents(events).map(({ kind }) => kind)

describe('sad endings', () => {
  test.each<[name: string, event: Event, code: ErrorCode]>([
    ['a sentence', { id: 'x', message: 'internal error' }, 'upstream_error'],
    ['a type', { error_type: 'TOO_MANY_TOKENS', message: 'too many' }, 'context_length_exceeded'],
    ['an envelope', { error: { message: 'x' } }, 'upstream_error'],
  ])('an error before anything else is a failure before any chunk: %s', (_name, event, code) => {
    const items = itemsOf(`data: ${JSON.stringify(event)}\n\n${frame(START)}${frame(end('COMPLETE'))}`)
    expect(items).toMatchObject([{ kind: 'failure', failure: { code } }])
  })

  test('a reason that is no end: what was counted, and no finish', () => {
    const items = itemsOfEvents([START, text('Hel'), end('ERROR', USED, { error: 'internal error' }), DONE], true)
    expect(items.map(({ kind }) => kind)).toEqual(['chunk', 'chunk', 'usage', 'failure'])
    expect(items.at(-2)).toEqual({ kind: 'usage', usage: USAGE })
    expect(items.at(-1)).toMatchObject({ failure: { code: 'upstream_error' } })
    expect(folded(chunksOf(items))).toMatchObject({ message: { content: 'Hel' }, finish: null })
    expect(itemsOfEvents([START, end('TIMEOUT')]).at(-1)).toMatchObject({ failure: { code: 'upstream_timeout' } })
  })

  test.each([
    ['before the first text', [START]],
    ['in the text', [START, text('a')]],
    ['in a call', [START, ...call(0, 'a', 'b', '{"x"').slice(0, 2)]],
    ['and still says that it is done', [START, text('a'), DONE]],
  ])('it breaks off %s: no finish and no end', (_name, events) => {
    const items = itemsOfEvents(events)
    expect(items.every(({ kind }) => kind === 'chunk')).toBe(true)
    expect(folded(chunksOf(items)).finish).toBeNull()
  })

  test.each<[name: string, body: string]>([
    ['no JSON', 'data: {"type":\n\n'],
    ['a number', 'data: 7\n\n'],
    ['null', 'data: null\n\n'],
    ['a list', 'data: []\n\n'],
    ['an event without end', `data: ${'x'.repeat(1024 * 1024 + 10)}`],
  ])('%s is a failure, once, and the last word', (_name, body) => {
    const items = itemsOf(`${body}${frame(START)}${frame(end('COMPLETE'))}`, false, [100_000])
    expect(items).toMatchObject([{ kind: 'failure', failure: { code: 'upstream_invalid' } }])
  })

  test('what has the wrong type is not there', () => {
    const items = itemsOfEvents([
      { type: 'message-start', id: 7, delta: null },
      { type: 'content-delta', delta: { message: { content: 7 } } },
      { type: 'content-delta', delta: { message: { content: { text: 7, thinking: {} } } } },
      { type: 'tool-plan-delta', delta: { message: { tool_plan: 7 } } },
      { type: 'tool-call-delta', index: 3, delta: { message: { tool_calls: { function: { arguments: 'lost' } } } } },
      { type: 'tool-call-end', index: 3 },
      { type: 'tool-call-start', delta: { message: { tool_calls: { id: 7, function: [] } } } },
      { type: 'something-new', delta: {} },
      { type: 7 },
      end(null, 'many'),
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
    expect(JSON.parse(JSON.stringify(items))).toStrictEqual(items)
  })

  test('nothing counts behind the end', () => {
    const items = itemsOfEvents([START, text('a'), end('COMPLETE'), DONE, text('late'), 'junk', end('ERROR')])
    expect(items.at(-1)).toEqual({ kind: 'done' })
    expect(folded(chunksOf(items)).message.content).toBe('a')
  })
})

describe('a stream', () => {
  test('as the client sees it, with usage', () => {
    const items = itemsOfEvents(
      [
        START,
        { type: 'content-start', index: 0, delta: { message: { content: { type: 'text', text: '' } } } },
        text('Hel'),
        { type: 'citation-start', index: 0, delta: { message: { citations: { text: 'Hel' } } } },
        { type: 'citation-end', index: 0 },
        text('lo'),
        { type: 'content-end', index: 0 },
        end('COMPLETE'),
        DONE,
      ],
      true,
    )
    const head = { id: 'ans-1', object: 'chat.completion.chunk', created: 1_790_000_000, model: 'chat-small' }
    const chunk = (delta: object, finish_reason: string | null = null) => ({
      ...head,
      choices: [{ index: 0, delta, logprobs: null, finish_reason }],
      usage: null,
    })
    expect(chunksOf(items)).toEqual([
      chunk({ role: 'assistant', content: '', refusal: null }),
      chunk({ content: 'Hel' }),
      chunk({ content: 'lo' }),
      chunk({}, 'stop'),
      { ...head, choices: [], usage: USAGE },
    ])
    expect(items.at(-1)).toEqual({ kind: 'done' })
  })

  test('usage that nobody asked for is an item of its own', () => {
    expect(kindsOf([START, text('a'), end('COMPLETE'), DONE])).toEqual(['chunk', 'chunk', 'chunk', 'usage', 'done'])
  })

  test('calls come one after the other, their arguments as they come', () => {
    const items = itemsOfEvents([
      START,
      plan('I will '),
      plan('look.'),
      ...call(0, 'a_1', 'a', '{"', 'x', '":1}'),
      ...call(1, 'b_1', 'b'),
      end('TOOL_CALL'),
    ])
    const deltas = chunksOf(items).flatMap(({ choices }) => choices.map(({ delta }) => delta))
    const begun = (index: number, id: string, name: string) => ({
      tool_calls: [{ index, id, type: 'function', function: { name, arguments: '' } }],
    })
    const piece = (index: number, text: string) => ({ tool_calls: [{ index, function: { arguments: text } }] })
    expect(deltas).toEqual([
      { role: 'assistant', content: '', refusal: null },
      { reasoning_content: 'I will ' },
      { reasoning_content: 'look.' },
      begun(0, 'a_1', 'a'),
      piece(0, '{"'),
      piece(0, 'x'),
      piece(0, '":1}'),
      begun(1, 'b_1', 'b'),
      piece(1, '{}'),
      {},
    ])
  })

  test.each([
    ['none', [], '{}'],
    ['null', ['null'], '{}'],
    ['null in pieces', ['n', 'ul', 'l', ' '], '{}'],
    ['an empty object', ['{', '}'], '{}'],
    ['space before them', ['\n', '  ', '{"a"', ':1}'], '\n  {"a":1}'],
    ['something else that is short', ['[', '1]'], '[1]'],
    ['something else that is long', ['"', 'a'.repeat(20), '"'], `"${'a'.repeat(20)}"`],
  ])('arguments: %s', (_name, pieces, seen) => {
    const items = itemsOfEvents([START, ...call(0, 'a_1', 'a', ...pieces), end('TOOL_CALL')])
    expect(folded(chunksOf(items)).message.tool_calls![0]!.function!.arguments).toBe(seen)
  })

  test('arguments that are no object are not kept back for long', () => {
    const begun = call(0, 'a_1', 'a', '"', 'a'.repeat(20), 'b').slice(0, -1)
    expect(folded(chunksOf(itemsOfEvents([START, ...begun]))).message.tool_calls![0]!.function!.arguments).toBe(
      `"${'a'.repeat(20)}b`,
    )
  })

  test('a call that does not end before the message does, and one in a list', () => {
    const made = { id: 'a_1', function: { name: 'a', arguments: 'null' } }
    const items = itemsOfEvents([
      START,
      { type: 'tool-call-start', index: 0, delta: { message: { tool_calls: [made] } } },
      end('TOOL_CALL'),
    ])
    expect(folded(chunksOf(items))).toMatchObject({
      message: { tool_calls: [{ id: 'a_1', function: { name: 'a', arguments: '{}' } }] },
      finish: 'tool_calls',
    })
  })
})

const word = fc.string({ unit: 'grapheme', minLength: 1, maxLength: 8 })
const words = fc.array(word, { maxLength: 5 })
const made = fc.record({
  thoughts: words,
  plans: words,
  texts: words,
  calls: fc.array(fc.record({ name: word, pieces: fc.constantFrom([], ['null'], ['{"a"', ':"é漢"}'], ['{}']) }), {
    maxLength: 3,
  }),
  reason: fc.constantFrom('COMPLETE', 'MAX_TOKENS', 'TOOL_CALL', 'STOP_SEQUENCE'),
})
type Made = typeof made extends fc.Arbitrary<infer T> ? T : never

const eventsOf = ({ thoughts, plans, texts, calls, reason }: Made): Event[] => [
  START,
  ...thoughts.map(thought),
  ...plans.map(plan),
  ...texts.map(text),
  ...calls.flatMap(({ name, pieces }, index) => call(index, `id_${index}`, name, ...pieces)),
  end(reason),
]
const answerOf = ({ thoughts, plans, texts, calls, reason }: Made) => ({
  id: 'ans-1',
  message: {
    content: [
      { type: 'thinking', thinking: thoughts.join('') },
      { type: 'text', text: texts.join('') },
    ],
    tool_plan: plans.join(''),
    tool_calls: calls.map(({ name, pieces }, index) => ({
      id: `id_${index}`,
      function: { name, arguments: pieces.join('') },
    })),
  },
  finish_reason: reason,
  usage: USED,
})

test('what a client makes of the chunks is what the whole answer would have been', () => {
  fc.assert(
    fc.property(made, one => {
      const items = itemsOfEvents([...eventsOf(one), DONE], true)
      const whole = decoded(answerOf(one))
      if (!('completion' in whole)) throw new Error('no answer')
      const [choice] = whole.completion.choices
      const { message, finish } = folded(chunksOf(items))
      // A stream begins with an empty text where the whole answer has none.
      expect({ refusal: null, ...message, content: message.content || null }).toEqual({
        ...choice!.message,
        content: choice!.message.content || null,
      })
      expect(finish).toBe(choice!.finish_reason)
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
        const body = [...eventsOf(one), DONE].map(frame).join('')
        const whole = itemsOf(body, usage)
        expect(itemsOf(body, usage, sizes)).toEqual(whole)
        expect(itemsOf(body, usage, [1])).toEqual(whole)
      },
    ),
    { numRuns: counts(50, 1000) },
  )
})
