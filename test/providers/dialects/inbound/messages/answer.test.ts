/** Whole answers as messages. */
import { describe, expect, test } from 'vitest'
import type { Delta } from '#contract'
import { answer, completion, USAGE } from './support.ts'

const contentOf = (message: Delta) => answer(completion(message)).content
const called = (id: string, text: string, more: object = {}) => ({
  id,
  type: 'function',
  function: { name: 'look', arguments: text },
  ...more,
})
const signed = (signature: string) => ({ extra_content: { google: { thought_signature: signature } } })
const use = (id: string, input: object) => ({ type: 'tool_use', id, name: 'look', input })
const thinking = (text: string, signature: string) => ({ type: 'thinking', thinking: text, signature })

test('a message with everything', () => {
  expect(
    answer(
      completion(
        { reasoning_content: 'Hm', content: 'Let me look.', tool_calls: [called('c1', '{"a":1}')] },
        'tool_calls',
        USAGE,
      ),
    ),
  ).toEqual({
    id: 'msg_01ab7',
    type: 'message',
    role: 'assistant',
    model: 'chat-small',
    content: [
      thinking('Hm', 'tollgate.field.reasoning_content'),
      { type: 'text', text: 'Let me look.' },
      use('c1', { a: 1 }),
    ],
    stop_reason: 'tool_use',
    stop_sequence: null,
    stop_details: null,
    usage: {
      input_tokens: 65,
      cache_creation_input_tokens: 5,
      cache_read_input_tokens: 30,
      output_tokens: 20,
      output_tokens_details: { thinking_tokens: 7 },
    },
  })
})

describe('content', () => {
  test.each<[string, Delta, object[]]>([
    ['nothing', { content: null }, []],
    ['an empty text', { content: '' }, []],
    ['no arguments', { tool_calls: [called('c', '')] }, [use('c', {})]],
    ['arguments that break off', { tool_calls: [called('c', '{"a":')] }, [use('c', { INVALID_JSON: '{"a":' })]],
    ['arguments that are no object', { tool_calls: [called('c', '[1]')] }, [use('c', { INVALID_JSON: '[1]' })]],
    [
      'a call without an id',
      { tool_calls: [{ function: { name: 'look', arguments: '{}' } }] },
      [use('toolu_01ab7_0', {})],
    ],
    ['a thought under its other name', { reasoning: 'Hm' }, [thinking('Hm', 'tollgate.field.reasoning')]],
    [
      'pictures',
      { content: 'Here:', images: [{ type: 'image_url', image_url: { url: 'data:image/png;base64,AA' } }] },
      [{ type: 'text', text: 'Here:[The model made a picture, which this format cannot carry.]' }],
    ],
    [
      'a list of parts',
      { content: [{ type: 'text', text: 'a' }, { type: 'thinking' }, { type: 'text', text: 'b' }] } as unknown as Delta,
      [{ type: 'text', text: 'ab' }],
    ],
  ])('%s', (_name, message, content) => {
    expect(contentOf(message)).toEqual(content)
  })

  test.each<[string, unknown, object[]]>([
    ['no list', {}, []],
    ['nothing and no call', [null, 'look', [], called('c', '{}')], [use('c', {})]],
    ['a call of nothing', [{}, { id: 'a', function: null }, called('c', '{}')], [use('c', {})]],
    [
      'one index for all',
      [called('c', '{}', { index: 0 }), called('d', '{}', { index: 0 })],
      [use('c', {}), use('d', {})],
    ],
    [
      'one index for all, and no ids',
      [called('', '{}', { index: 0 }), called('', '{}', { index: 0 })],
      [use('toolu_01ab7_0', {}), use('toolu_01ab7_1', {})],
    ],
    [
      'one id for all',
      [called('c', '{"a":1}'), called('c', '{"a":2}'), called('c', '{"a":3}')],
      [use('c', { a: 1 }), use('toolu_01ab7_1', { a: 2 }), use('toolu_01ab7_2', { a: 3 })],
    ],
    [
      'an id that would have been made',
      [called('toolu_01ab7_1', '{}'), called('', '{}')],
      [use('toolu_01ab7_1', {}), use('toolu_01ab7_2', {})],
    ],
  ])('calls: %s', (_name, tool_calls, content) => {
    expect(contentOf({ tool_calls } as Delta)).toEqual(content)
  })

  test('a call without a name is none that the client could run', () => {
    const tool_calls = [{ id: 'c', function: { arguments: '{}' } }]
    expect(answer(completion({ content: 'a', tool_calls }, 'tool_calls'))).toMatchObject({
      content: [{ type: 'text', text: 'a' }],
      stop_reason: 'end_turn',
    })
  })

  test('the choice without an index', () => {
    const whole = completion({ content: 'b' }, 'stop', undefined, { index: 1 })
    whole.choices.push({ message: { role: 'assistant', content: 'a' }, finish_reason: 'stop' } as never)
    expect(answer(whole).content).toEqual([{ type: 'text', text: 'a' }])
  })

  test('arguments that the engine reads, and gives up writing', () => {
    const deep = `${'{"1":'.repeat(20_000)}1${'}'.repeat(20_000)}`
    const [block] = contentOf({ tool_calls: [called('c', deep)] })
    expect(block!.type === 'tool_use' && block!.input).toEqual({ INVALID_JSON: deep })
  })

  const text = (text: string, signature?: string) => ({
    type: 'reasoning.text',
    text,
    ...(signature ? { signature } : {}),
  })
  const sealed = { type: 'reasoning.encrypted', data: 'xyz' }
  test.each<[string, Delta, object[]]>([
    ['one', { reasoning_content: 'ab', reasoning_details: [text('ab', 's')] }, [thinking('ab', 's')]],
    [
      'several, and a sealed one between',
      { reasoning_content: 'abc', reasoning_details: [text('a', 's'), sealed, text('bc', 't')] },
      [thinking('a', 's'), { type: 'redacted_thinking', data: 'xyz' }, thinking('bc', 't')],
    ],
    [
      'and one that is not',
      { reasoning_content: 'abc', reasoning_details: [text('ab', 's')] },
      [thinking('ab', 's'), thinking('c', 'tollgate.field.reasoning_content')],
    ],
    ['without its text', { reasoning_details: [text('', 's')] }, [thinking('', 's')]],
    ['whose text stands there only', { reasoning_details: [text('ab', 's')] }, [thinking('ab', 's')]],
    [
      'whose text stands beside it only',
      { reasoning: 'ab', reasoning_details: [text('', 's')] },
      [thinking('ab', 's')],
    ],
    [
      'of another text than was shown',
      { reasoning_content: 'ab', reasoning_details: [text('b', 's')] },
      [
        thinking('ab', 'tollgate.field.reasoning_content'),
        { type: 'redacted_thinking', data: expect.stringMatching(/^tollgate\.detail\./) },
      ],
    ],
    [
      'unsigned, twice',
      { reasoning: 'ab', reasoning_details: [text('ab')] },
      [thinking('ab', 'tollgate.field.reasoning')],
    ],
    [
      'summed up, and sealed with an id of its own',
      {
        reasoning_details: [
          { type: 'reasoning.summary', summary: 'ab' },
          { ...sealed, id: 'rs_1' },
        ],
      },
      [
        thinking('ab', 'tollgate.field.reasoning'),
        { type: 'redacted_thinking', data: expect.stringMatching(/^tollgate\.detail\./) },
      ],
    ],
  ])('signed thoughts: %s', (_name, message, content) => {
    expect(contentOf(message)).toEqual(content)
  })

  test('Google’s signatures of calls stand in thoughts before them', () => {
    const tool_calls = [called('c1', '{}', signed('g1')), called('c2', '{}'), called('c3', '{}', signed('g3'))]
    const calls = [use('c1', {}), use('c2', {}), thinking('', 'tollgate.google.g3'), use('c3', {})]
    expect(contentOf({ tool_calls })).toEqual([thinking('', 'tollgate.google.g1'), ...calls])
    expect(contentOf({ reasoning_content: 'Hm', tool_calls })).toEqual([thinking('Hm', 'tollgate.google.g1'), ...calls])
    expect(contentOf({ reasoning_content: 'Hm', content: 'I look.', tool_calls })).toEqual([
      thinking('Hm', 'tollgate.field.reasoning_content'),
      { type: 'text', text: 'I look.' },
      thinking('', 'tollgate.google.g1'),
      ...calls,
    ])
  })
})

describe('how it ended', () => {
  const call = { tool_calls: [called('c', '{}')] }
  test.each<[string | null, Delta, object, string, string | null]>([
    ['stop', { content: 'a' }, {}, 'end_turn', null],
    [null, { content: 'a' }, {}, 'end_turn', null],
    ['odd', { content: 'a' }, {}, 'end_turn', null],
    ['length', { content: 'a' }, {}, 'max_tokens', null],
    ['length', call, {}, 'max_tokens', null],
    ['tool_calls', call, {}, 'tool_use', null],
    ['stop', call, {}, 'tool_use', null],
    ['tool_calls', { content: 'a' }, {}, 'end_turn', null],
    ['content_filter', { content: 'a' }, {}, 'refusal', null],
    ['stop', { content: 'a' }, { stop_reason: 'END' }, 'stop_sequence', 'END'],
    ['stop', { content: 'a' }, { stop_reason: 'OTHER' }, 'end_turn', null],
    ['stop', { content: 'a' }, { stop_reason: 128_001 }, 'end_turn', null],
  ])('%s with %j and %j', (finish, message, choice, stop_reason, stop_sequence) => {
    const got = answer(completion(message, finish, undefined, choice), { stop_sequences: ['END'] })
    expect(got).toMatchObject({ stop_reason, stop_sequence })
    expect(got.stop_details !== null).toBe(stop_reason === 'refusal')
  })

  test('a refusal is shown and explained', () => {
    expect(answer(completion({ refusal: 'I will not.' }))).toMatchObject({
      content: [{ type: 'text', text: 'I will not.' }],
      stop_reason: 'refusal',
      stop_details: { type: 'refusal', category: null, explanation: 'I will not.' },
    })
  })
})

test.each<[object | undefined, object]>([
  [undefined, { input_tokens: 0, cache_creation_input_tokens: 0, cache_read_input_tokens: 0, output_tokens: 0 }],
  [
    { prompt_tokens: 3, completion_tokens: 4, total_tokens: 7, prompt_tokens_details: null },
    { input_tokens: 3, cache_creation_input_tokens: 0, cache_read_input_tokens: 0, output_tokens: 4 },
  ],
  [
    { prompt_tokens: 3, completion_tokens: 4, prompt_tokens_details: { cached_tokens: 9 } },
    { input_tokens: 0, cache_creation_input_tokens: 0, cache_read_input_tokens: 9, output_tokens: 4 },
  ],
])('usage %j', (usage, own) => {
  expect(answer(completion({ content: 'a' }, 'stop', usage as typeof USAGE)).usage).toEqual(own)
})
