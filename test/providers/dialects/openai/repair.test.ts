/** What is repaired in the answers of relatives, whoever sends it. */
import { describe, expect, test } from 'vitest'
import { createDialect } from '../../../../src/providers/dialects/index.ts'
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

test.each<[name: string, message: object, finish: string]>([
  ['a text', { role: 'assistant', content: 'a' }, 'stop'],
  ['no calls', { role: 'assistant', content: 'a', tool_calls: [] }, 'stop'],
  ['calls that are none', { role: 'assistant', content: 'a', tool_calls: 'x' }, 'stop'],
  ['a call', { role: 'assistant', content: null, tool_calls: [{ id: 'a', function: { name: 'f' } }] }, 'tool_calls'],
])('an empty finish of a whole answer is filled in: %s', (_name, message, finish) => {
  const { choice, raw } = answered(message, '')
  expect(choice.finish_reason).toBe(finish)
  expect(raw).toBeNull()
})

describe('an id that is empty', () => {
  const piece = (id: string, index = 0) => ({ index, id, function: { arguments: '{' } })
  const ids = (...events: string[]) =>
    deltas(...events).flatMap(({ tool_calls: calls = [] }) => calls.map(({ id = 'left out' }) => id))

  test('goes where the call has one already', () => {
    expect(ids(...['a', '', ''].map(id => chunk({ tool_calls: [piece(id)] })))).toEqual(['a', 'left out', 'left out'])
  })

  test('stays where it is the only one', () => {
    expect(ids(chunk({ tool_calls: [piece('')] }))).toEqual([''])
    expect(ids(chunk({ tool_calls: [piece('a')] }), chunk({ tool_calls: [piece('', 1)] }))).toEqual(['a', ''])
    expect(ids(chunk({ tool_calls: [piece('a')] }), chunk({ tool_calls: [piece('')] }, null, 1))).toEqual(['a', ''])
  })
})

describe('an error without a wrapper', () => {
  const said = (fields: object) => JSON.stringify({ object: 'error', message: 'They have gone.', ...fields })
  const { dialect } = createDialect('openai', () => NOW)
  test.each<[fields: object, code: string]>([
    [{}, 'upstream_error'],
    [{ code: 400, type: 'BadRequestError' }, 'upstream_rejected'],
    [{ code: '1300', type: 'rate_limited' }, 'upstream_rate_limited'],
  ])('%j', (fields, code) => {
    const failure = { code, detail: expect.stringContaining('They have gone.') }
    expect(dialect.decodeAnswer(Buffer.from(said(fields)), VIEW)).toMatchObject({ failure })
    const items = dialect.decodeStream(VIEW).push(Buffer.from(`data: ${said(fields)}\n\n`))
    expect(items).toMatchObject([{ kind: 'failure', failure }])
  })
})

test('usage that says something is taken before one that is empty', () => {
  const used = { prompt_tokens: 1, completion_tokens: 2, total_tokens: 3 }
  const event = { choices: [{ index: 0, delta: {} }], usage: {}, x_groq: { usage: used } }
  const [item] = createDialect('openai', () => NOW)
    .dialect.decodeStream(VIEW)
    .push(Buffer.from(`data: ${JSON.stringify(event)}\n\n`))
  expect(item).toMatchObject({ kind: 'chunk', usage: used })
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
