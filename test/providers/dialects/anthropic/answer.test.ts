import { describe, expect, test } from 'vitest'
import { dialect, view } from './helpers.ts'

const USAGE = { input_tokens: 10, output_tokens: 5 }

const message = (fields: object) => ({
  id: 'msg_1',
  type: 'message',
  role: 'assistant',
  model: 'claude-sonnet-4-5-20250929',
  content: [{ type: 'text', text: 'Hello' }],
  stop_reason: 'end_turn',
  stop_sequence: null,
  usage: USAGE,
  ...fields,
})

const decoded = (body: unknown) =>
  dialect.decodeAnswer(Buffer.from(typeof body === 'string' ? body : wire(body)), view())

/** JSON, in which numbers may be larger than JavaScript can hold. */
const wire = (body: unknown) =>
  JSON.stringify(body, (_, value) => (value === Infinity ? 'huge' : value)).replaceAll('"huge"', '1e999')

function completionOf(fields: object) {
  const answer = decoded(message(fields))
  if ('failure' in answer) throw new Error(answer.failure.detail)
  return answer.completion
}

const choiceOf = (fields: object) => completionOf(fields).choices[0]!

describe('what cannot be read is a failure', () => {
  test.each([
    ['nothing', ''],
    ['a page', '<html>'],
    ['a number', '7'],
    ['a list', '[]'],
    ['null', 'null'],
    ['no content', '{"type":"message"}'],
    ['content that is a text', '{"type":"message","content":"x"}'],
  ])('%s', (_name, body) => {
    expect(decoded(body)).toMatchObject({ failure: { code: 'upstream_invalid', detail: expect.any(String) } })
  })

  test('arguments nested without end are read or refused, not thrown', () => {
    const deep = `${'['.repeat(60_000)}${']'.repeat(60_000)}`
    const answer = decoded(`{"content":[{"type":"tool_use","id":"a","name":"b","input":{"a":${deep}}}]}`)
    expect(Object.keys(answer)[0]).toMatch(/completion|failure/)
  })

  test('an error in a 200', () => {
    const error = { type: 'error', error: { type: 'overloaded_error', message: 'Overloaded' } }
    expect(decoded(error)).toMatchObject({ failure: { code: 'upstream_overloaded' } })
  })
})

describe('an answer', () => {
  test('as the client sees it', () => {
    expect(completionOf({})).toEqual({
      id: 'msg_1',
      object: 'chat.completion',
      created: 1_790_000_000,
      model: 'chat-small',
      choices: [
        {
          index: 0,
          message: { role: 'assistant', content: 'Hello', refusal: null },
          logprobs: null,
          finish_reason: 'stop',
        },
      ],
      usage: { prompt_tokens: 10, completion_tokens: 5, total_tokens: 15 },
    })
  })

  test.each<[name: string, content: unknown[], message: object, finish?: string]>([
    ['nothing', [], { content: '' }],
    [
      'texts are one',
      [
        { type: 'text', text: 'a' },
        { type: 'text', text: 'b', citations: [] },
      ],
      { content: 'ab' },
    ],
    [
      'thinking, with what is needed to send it back',
      [
        { type: 'thinking', thinking: 'Hm', signature: 'sig' },
        { type: 'redacted_thinking', data: 'box' },
        { type: 'thinking', thinking: '.', signature: '' },
        { type: 'text', text: 'a' },
      ],
      {
        content: 'a',
        reasoning_content: 'Hm.',
        reasoning_details: [
          { type: 'reasoning.text', text: 'Hm', signature: 'sig' },
          { type: 'reasoning.encrypted', data: 'box' },
        ],
      },
    ],
    [
      'thinking that is kept secret',
      [
        { type: 'thinking', thinking: '', signature: 'sig' },
        { type: 'text', text: 'a' },
      ],
      { content: 'a', reasoning_details: [{ type: 'reasoning.text', text: '', signature: 'sig' }] },
    ],
    [
      'calls',
      [
        { type: 'tool_use', id: 'toolu_1', name: 'a', input: { x: [1] } },
        { type: 'tool_use', id: 'toolu_2', name: 'b', input: {} },
      ],
      {
        content: null,
        tool_calls: [
          { id: 'toolu_1', type: 'function', function: { name: 'a', arguments: '{"x":[1]}' } },
          { id: 'toolu_2', type: 'function', function: { name: 'b', arguments: '{}' } },
        ],
      },
      'tool_calls',
    ],
    [
      "the provider's own tools are no calls",
      [
        { type: 'server_tool_use', id: 'srvtoolu_1', name: 'web_search', input: { query: 'x' } },
        { type: 'web_search_tool_result', tool_use_id: 'srvtoolu_1', content: [] },
        { type: 'mcp_tool_use', id: 'mcptoolu_1', name: 'x', input: {} },
        { type: 'compaction', content: 'so far' },
        { type: 'fallback' },
        { type: 'something_new', text: 'x' },
        { type: 'text', text: 'found' },
      ],
      { content: 'found' },
    ],
    [
      'JSON by way of a tool is content',
      [{ type: 'tool_use', id: 'toolu_1', name: 'tollgate_json_answer', input: { age: 7 } }],
      { content: '{"age":7}' },
      'stop',
    ],
    [
      'what has the wrong type is not there',
      [null, 7, 'x', [], { type: 'text', text: 7 }, { type: 'thinking', thinking: {} }, { type: 'redacted_thinking' }],
      { content: '' },
    ],
    [
      'a call with nothing right in it is still a call',
      [{ type: 'tool_use', id: 7, name: null, input: 'x' }],
      { content: null, tool_calls: [{ id: 'call_ex7_0', type: 'function', function: { name: '', arguments: '{}' } }] },
      'tool_calls',
    ],
  ])('%s', (_name, content, expected, finish = 'stop') => {
    const { message: seen, finish_reason } = choiceOf({
      content,
      stop_reason: finish === 'stop' && content.length !== 1 ? 'end_turn' : 'tool_use',
    })
    expect(seen).toEqual({ role: 'assistant', refusal: null, ...expected })
    expect(finish_reason).toBe(finish)
    expect(seen).toStrictEqual(JSON.parse(JSON.stringify(seen)))
  })

  test.each([
    ['end_turn', 'stop'],
    ['stop_sequence', 'stop'],
    ['pause_turn', 'stop'],
    ['compaction', 'stop'],
    ['max_tokens', 'length'],
    ['model_context_window_exceeded', 'length'],
    ['refusal', 'content_filter'],
    ['tool_use', 'stop'],
    ['something_new', 'stop'],
    ['constructor', 'stop'],
    [null, 'stop'],
    [7, 'stop'],
  ])('the stop reason %j is %s', (stop_reason, finish) => {
    expect(choiceOf({ stop_reason }).finish_reason).toBe(finish)
  })

  test('a refusal says why', () => {
    const details = { category: 'bio', explanation: 'I will not.' }
    const refused = choiceOf({ content: [], stop_reason: 'refusal', stop_details: details })
    expect(refused).toMatchObject({
      message: { content: null, refusal: 'I will not.' },
      finish_reason: 'content_filter',
    })
    expect(choiceOf({ stop_reason: 'refusal' }).message.refusal).toBeNull()
    expect(choiceOf({ stop_details: details }).message.refusal).toBeNull()
  })
})

describe('usage', () => {
  const pass = (type: string, input: number, output: number, cached = 0) => ({
    type,
    input_tokens: input,
    output_tokens: output,
    cache_read_input_tokens: cached,
    cache_creation_input_tokens: 0,
  })

  test.each<[name: string, usage: unknown, expected: object | undefined]>([
    [
      'what was cached is prompt too',
      {
        input_tokens: 3,
        cache_read_input_tokens: 100,
        cache_creation_input_tokens: 20,
        output_tokens: 9,
        output_tokens_details: { thinking_tokens: 4 },
      },
      {
        prompt_tokens: 123,
        completion_tokens: 9,
        total_tokens: 132,
        prompt_tokens_details: { cached_tokens: 100, cache_write_tokens: 20 },
        completion_tokens_details: { reasoning_tokens: 4 },
      },
    ],
    [
      'a compaction is added up',
      { input_tokens: 6, output_tokens: 28, iterations: [pass('compaction', 600, 50, 7), pass('message', 6, 28)] },
      {
        prompt_tokens: 613,
        completion_tokens: 78,
        total_tokens: 691,
        prompt_tokens_details: { cached_tokens: 7, cache_write_tokens: 0 },
      },
    ],
    [
      'another model stepped in: the totals count',
      {
        input_tokens: 6,
        output_tokens: 28,
        iterations: [pass('compaction', 600, 50), pass('message', 5, 0), pass('fallback_message', 6, 28)],
      },
      { prompt_tokens: 6, completion_tokens: 28, total_tokens: 34 },
    ],
    [
      'an adviser is in the totals or billed apart',
      { input_tokens: 6, output_tokens: 28, iterations: [pass('message', 6, 28), pass('advisor_message', 50, 5)] },
      { prompt_tokens: 6, completion_tokens: 28, total_tokens: 34 },
    ],
    [
      'nulls are absent',
      { input_tokens: 6, cache_read_input_tokens: null, output_tokens: 2 },
      { prompt_tokens: 6, completion_tokens: 2, total_tokens: 8 },
    ],
    ['no numbers', { input_tokens: '6', iterations: 7 }, undefined],
    [
      'a list of nothing',
      { input_tokens: 1, output_tokens: 1, iterations: [null, 7] },
      { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 },
    ],
    ['a number beyond all numbers', JSON.parse('{"input_tokens":1e999,"output_tokens":3}'), undefined],
    [
      'a count below nothing',
      { input_tokens: 5, cache_read_input_tokens: -4, output_tokens: 1e308 },
      { prompt_tokens: 5, completion_tokens: 0, total_tokens: 5 },
    ],
    ['none', undefined, undefined],
    ['a list', [1], undefined],
  ])('%s', (_name, usage, expected) => {
    expect(completionOf({ usage }).usage).toEqual(expected)
  })
})
