/** What is repaired in the answers of relatives, whoever sends it. */
import { describe, expect, test } from 'vitest'
import { createDialect } from '../../../src/dialects/index.ts'
import { chunksSeen, NOW, VIEW } from './support.ts'

const chunk = (delta: unknown, finish: string | null = null, index = 0) =>
  JSON.stringify({
    id: 'chatcmpl-1',
    object: 'chat.completion.chunk',
    created: 1,
    model: 'm',
    choices: [{ index, delta, finish_reason: finish }],
  })
const deltas = (...events: string[]) => chunksSeen(events).flatMap(({ choices }) => choices.map(({ delta }) => delta))
const thinking = (...texts: string[]) => ({ type: 'thinking', thinking: texts.map(text => ({ type: 'text', text })) })

function answered(message: object, finish = 'stop') {
  const body = JSON.stringify({
    id: 'a',
    object: 'chat.completion',
    created: 1,
    model: 'm',
    choices: [{ index: 0, message, finish_reason: finish }],
  })
  const answer = createDialect('openai', () => NOW).dialect.decodeAnswer(Buffer.from(body), VIEW)
  if ('failure' in answer) throw new Error(answer.failure.detail)
  return { choice: answer.completion.choices[0]!, raw: answer.raw }
}

describe('content in parts', () => {
  test.each<[name: string, content: unknown, seen: object]>([
    ['thinking', [thinking('H', 'm')], { content: null, reasoning_content: 'Hm' }],
    [
      'text',
      [
        { type: 'text', text: 'a' },
        { type: 'text', text: 'b' },
      ],
      { content: 'ab' },
    ],
    ['both', [thinking('Hm'), { type: 'text', text: 'a' }], { content: 'a', reasoning_content: 'Hm' }],
    ['thinking as text', [{ type: 'thinking', thinking: 'Hm' }], { content: null, reasoning_content: 'Hm' }],
    ['thinking that has no parts yet', [{ type: 'thinking', thinking: [] }], { content: '' }],
    ['no parts', [], { content: '' }],
    [
      'parts of another kind',
      [
        { type: 'reference', reference_ids: [1] },
        { type: 'text', text: 'a' },
      ],
      { content: 'a' },
    ],
    [
      'parts that are none',
      [null, 7, 'x', ['y'], { type: 'text', text: 7 }, { type: 'thinking', thinking: 7 }],
      { content: '' },
    ],
  ])('%s', (_name, content, seen) => {
    expect(deltas(chunk({ content }))).toEqual([seen])
    const { choice, raw } = answered({ role: 'assistant', content, tool_calls: null })
    expect(choice.message).toEqual({ role: 'assistant', tool_calls: null, ...seen })
    expect(raw).toBeNull()
  })

  test('thinking that has a field of its own already is added to', () => {
    const { choice } = answered({ role: 'assistant', reasoning_content: 'O', content: [thinking('h')] })
    expect(choice.message).toEqual({ role: 'assistant', content: null, reasoning_content: 'Oh' })
  })
})

test.each([
  ['eos', 'stop'],
  ['model_length', 'length'],
  ['stop', 'stop'],
  ['content_filter', 'content_filter'],
  ['toString', 'toString'],
])('the finish reason %s is %s', (theirs, ours) => {
  expect(chunksSeen([chunk({}, theirs)])[0]!.choices[0]!.finish_reason).toBe(ours)
  const { choice, raw } = answered({ role: 'assistant', content: 'a' }, theirs)
  expect(choice.finish_reason).toBe(ours)
  expect(raw === null).toBe(theirs !== ours)
})

describe('calls without an index', () => {
  const call = (id: string | undefined, text: string) => ({
    ...(id === undefined ? {} : { id }),
    function: { arguments: text },
  })
  const places = (...events: string[]) =>
    deltas(...events).flatMap(({ tool_calls: calls = [] }) => calls.map(({ index, type }) => [index, type]))

  test('have the places in which they come', () => {
    expect(
      places(chunk({ tool_calls: [call('a', '{}'), call('b', '{}')] }), chunk({ tool_calls: [call('c', '{}')] })),
    ).toEqual([
      [0, 'function'],
      [1, 'function'],
      [2, 'function'],
    ])
  })

  test('are known again by their ids; a piece without one belongs to the last', () => {
    const pieces = [call('a', '{'), call('b', '{'), call('a', '}'), call(undefined, '}')]
    expect(places(...pieces.map(piece => chunk({ tool_calls: [piece] })))).toEqual([
      [0, 'function'],
      [1, 'function'],
      [0, 'function'],
      [1, undefined],
    ])
  })

  test('are counted for each choice', () => {
    const [one, other] = [chunk({ tool_calls: [call('a', '{}')] }), chunk({ tool_calls: [call('b', '{}')] }, null, 1)]
    expect(places(one, other)).toEqual([
      [0, 'function'],
      [0, 'function'],
    ])
  })

  test('what is no call stays as it is', () => {
    expect(deltas(chunk({ tool_calls: [null, 7, 'x'] }), chunk({ tool_calls: 'x' }))).toEqual([
      { tool_calls: [null, 7, 'x'] },
      { tool_calls: 'x' },
    ])
  })
})
