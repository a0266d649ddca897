/** Answers in the Responses format, whole and as streams: what the official library puts together from either. */
import OpenAI from 'openai'
import { describe, expect, test } from 'vitest'
import { refuse } from '#contract'
import { responsesInbound } from '../../../../../src/providers/dialects/inbound/responses/index.ts'
import {
  answered,
  chunk,
  eventsOf,
  folded,
  type Json,
  libraryWith,
  MINIMAL,
  streamed,
  usageChunk,
  VIEW,
} from './helpers.ts'

const call = (id: string, name: string, text: string, more: Json = {}) => ({
  id,
  type: 'function',
  function: { name, arguments: text },
  ...more,
})
const SIGNED = { type: 'reasoning.text', text: 'Hm.', signature: 'EqQB' }
const GOOGLE = { extra_content: { google: { thought_signature: 'sig' } } }

describe('a whole answer', () => {
  test('has every field, repeats what was asked, and counts as the API does', () => {
    const request = {
      instructions: 'Be brief.',
      temperature: 0.5,
      max_output_tokens: 20,
      store: true,
      truncation: 'auto',
      metadata: { a: 'b' },
      tools: [{ type: 'function', name: 'look' }],
      tool_choice: 'required',
      parallel_tool_calls: false,
      text: { verbosity: 'low' },
      reasoning: { effort: 'low', summary: 'auto' },
      prompt_cache_key: 'k',
    }
    expect(answered({ role: 'assistant', content: 'Hi', refusal: null }, { request })).toEqual({
      id: 'resp_01ABC',
      object: 'response',
      created_at: 1_700_000_000,
      status: 'completed',
      background: false,
      error: null,
      incomplete_details: null,
      instructions: 'Be brief.',
      max_output_tokens: 20,
      max_tool_calls: null,
      model: 'm',
      output: [
        {
          id: 'msg_01ABC_0',
          type: 'message',
          status: 'completed',
          role: 'assistant',
          content: [{ type: 'output_text', text: 'Hi', annotations: [], logprobs: [] }],
        },
      ],
      parallel_tool_calls: false,
      previous_response_id: null,
      prompt_cache_key: 'k',
      reasoning: { effort: 'low', summary: 'auto' },
      safety_identifier: null,
      service_tier: null,
      store: false,
      temperature: 0.5,
      text: { verbosity: 'low', format: { type: 'text' } },
      tool_choice: 'required',
      tools: [{ type: 'function', name: 'look' }],
      top_logprobs: 0,
      top_p: null,
      truncation: 'disabled',
      usage: {
        input_tokens: 10,
        input_tokens_details: { cached_tokens: 4, cache_write_tokens: 0 },
        output_tokens: 7,
        output_tokens_details: { reasoning_tokens: 2 },
        total_tokens: 17,
      },
      user: null,
      metadata: { a: 'b' },
    })
  })

  test.each([
    ['length', 'max_output_tokens'],
    ['content_filter', 'content_filter'],
  ])('cut by %s is incomplete, and so is its last item', (finish, reason) => {
    const message = { content: 'Hi', tool_calls: [call('c1', 'look', '{"a":')] }
    expect(answered(message, { finish })).toMatchObject({
      status: 'incomplete',
      incomplete_details: { reason },
      output: [
        { type: 'message', status: 'completed' },
        { type: 'function_call', status: 'incomplete', arguments: '{"a":' },
      ],
    })
  })

  test('nothing at all is an empty message', () => {
    const empty = [{ type: 'message', content: [{ type: 'output_text', text: '' }] }]
    expect(answered({ content: '' }).output).toMatchObject(empty)
    expect(answered({ content: null }).output).toMatchObject(empty)
    expect(answered({ content: '' }, { finish: 'length' }).output).toEqual([])
  })

  test('text and a refusal are two parts of one message', () => {
    expect(answered({ content: 'Well,', refusal: 'no.' }).output).toMatchObject([
      {
        content: [
          { type: 'output_text', text: 'Well,' },
          { type: 'refusal', refusal: 'no.' },
        ],
      },
    ])
  })

  test('probabilities', () => {
    const entry = { token: 'Hi', logprob: -0.1, bytes: [72, 105], top_logprobs: [] }
    const choice = { logprobs: { content: [entry], refusal: null } }
    expect(answered({ content: 'Hi' }, { choice }).output).toMatchObject([{ content: [{ logprobs: [entry] }] }])
  })

  test('calls: of functions without arguments, of custom tools, of tools in namespaces, with one id twice', () => {
    const tools = [{ type: 'namespace', name: 'crm', tools: [{ type: 'function', name: 'find' }] }]
    const custom = { id: 'c2', type: 'custom', custom: { name: 'patch', input: '' } }
    const calls = [call('c1', 'look', ''), custom, call('c1', 'crm__find', '{}'), call('', 'look', '{}')]
    expect(answered({ content: null, tool_calls: calls }, { request: { tools } }).output).toEqual([
      { type: 'function_call', id: 'fc_01ABC_0', status: 'completed', call_id: 'c1', name: 'look', arguments: '{}' },
      { type: 'custom_tool_call', id: 'ctc_01ABC_1', status: 'completed', call_id: 'c2', name: 'patch', input: '' },
      {
        type: 'function_call',
        id: 'fc_01ABC_2',
        status: 'completed',
        call_id: 'call_01ABC_2',
        name: 'find',
        namespace: 'crm',
        arguments: '{}',
      },
      {
        type: 'function_call',
        id: 'fc_01ABC_3',
        status: 'completed',
        call_id: 'call_01ABC_3',
        name: 'look',
        arguments: '{}',
      },
    ])
  })
})

const STREAM = [
  chunk({ role: 'assistant', content: '' }),
  chunk({ reasoning_content: 'Hm' }),
  chunk({ reasoning_content: '.' }),
  chunk({ reasoning_details: [SIGNED] }),
  chunk({ content: 'Let me ' }),
  chunk({ content: 'look.' }),
  chunk({ tool_calls: [{ index: 0, ...call('c1', 'look', '') }] }),
  chunk({ tool_calls: [{ index: 0, function: { arguments: '{"a"' } }] }),
  chunk({ tool_calls: [{ index: 1, id: 'c2', type: 'custom', custom: { name: 'patch', input: '' } }] }),
  chunk({ tool_calls: [{ index: 1, custom: { input: '+b' } }] }),
  chunk({ tool_calls: [{ index: 0, function: { arguments: ':1}' } }] }),
  chunk({}, 'tool_calls'),
  usageChunk(),
]

describe('a stream', () => {
  test('tells each event of the API in its place, and no [DONE]', () => {
    const events = eventsOf(streamed(STREAM))
    expect(
      events.map(({ type, ...event }) => `${type} ${'output_index' in event ? event.output_index : ''}`.trim()),
    ).toEqual([
      'response.created',
      'response.in_progress',
      'response.output_item.added 0',
      'response.reasoning_summary_part.added 0',
      'response.reasoning_summary_text.delta 0',
      'response.reasoning_summary_text.delta 0',
      'response.reasoning_summary_text.done 0',
      'response.reasoning_summary_part.done 0',
      'response.output_item.done 0',
      'response.output_item.added 1',
      'response.content_part.added 1',
      'response.output_text.delta 1',
      'response.output_text.delta 1',
      'response.output_text.done 1',
      'response.content_part.done 1',
      'response.output_item.done 1',
      'response.output_item.added 2',
      'response.function_call_arguments.delta 2',
      'response.output_item.added 3',
      'response.custom_tool_call_input.delta 3',
      'response.function_call_arguments.delta 2',
      'response.function_call_arguments.done 2',
      'response.output_item.done 2',
      'response.custom_tool_call_input.done 3',
      'response.output_item.done 3',
      'response.completed',
    ])
    expect(events[0]).toMatchObject({ response: { id: 'resp_01ABC', status: 'in_progress', output: [], usage: null } })
    expect(events[2]).toEqual({
      type: 'response.output_item.added',
      sequence_number: 2,
      output_index: 0,
      item: { id: 'rs_01ABC_0', type: 'reasoning', summary: [] },
    })
    expect(events[11]).toEqual({
      type: 'response.output_text.delta',
      sequence_number: 11,
      item_id: 'msg_01ABC_1',
      output_index: 1,
      content_index: 0,
      delta: 'Let me ',
      logprobs: [],
    })
  })

  test('is the same Response in the library as the whole answer', async () => {
    const message = {
      content: 'Let me look.',
      reasoning_content: 'Hm.',
      reasoning_details: [SIGNED],
      tool_calls: [call('c1', 'look', '{"a":1}'), { id: 'c2', type: 'custom', custom: { name: 'patch', input: '+b' } }],
    }
    const { output_parsed: _, ...response } = await folded(streamed(STREAM))
    const whole = answered(message, { finish: 'tool_calls' })
    expect(response).toMatchObject(whole)
    expect(response.output_text).toBe('Let me look.')
  })

  test('everything that says that it is over waits for the end', () => {
    const encoder = responsesInbound.decodeRequest({ ...MINIMAL, stream: true }, VIEW).encodeStream()
    encoder.chunk(chunk({ content: 'Hi' }))
    expect(encoder.chunk(chunk({}, 'stop')).length).toBe(0)
    expect(encoder.chunk(usageChunk()).length).toBe(0)
    expect(encoder.finish().toString()).toMatch(
      /^event: response\.output_text\.done\n.*event: response\.completed\n[^\n]*\n\n$/s,
    )
  })

  test('a cut, a refusal, probabilities', async () => {
    const entry = { token: 'Hi', logprob: -0.1, bytes: [72, 105], top_logprobs: [] }
    const response = await folded(
      streamed([
        chunk({ content: 'Hi' }, null, { logprobs: { content: [entry] } }),
        chunk({ refusal: 'No' }),
        chunk({ refusal: 'pe.' }),
        chunk({}, 'length'),
      ]),
    )
    expect(response).toMatchObject({
      status: 'incomplete',
      incomplete_details: { reason: 'max_output_tokens' },
      output: [
        {
          status: 'incomplete',
          content: [
            { type: 'output_text', text: 'Hi', logprobs: [entry] },
            { type: 'refusal', refusal: 'Nope.' },
          ],
        },
      ],
      usage: null,
    })
  })

  test('a call whose name comes late, and calls that share an index but not their id', async () => {
    const response = await folded(
      streamed([
        chunk({ tool_calls: [{ index: 0, id: 'c1', function: { arguments: '{"a"' } }] }),
        chunk({ tool_calls: [{ index: 0, id: '', function: { name: 'look', arguments: ':1}' } }] }),
        chunk({ tool_calls: [{ index: 0, ...call('c2', 'find', '{}') }] }),
        chunk({}, 'tool_calls'),
      ]),
    )
    expect(response.output).toMatchObject([
      { call_id: 'c1', name: 'look', arguments: '{"a":1}' },
      { call_id: 'c2', name: 'find', arguments: '{}' },
    ])
  })

  test('other choices than the first are not told', async () => {
    const other = { ...chunk({ content: 'B' }), choices: [{ index: 1, delta: { content: 'B' }, finish_reason: null }] }
    expect((await folded(streamed([chunk({ content: 'A' }), other, chunk({}, 'stop')]))).output_text).toBe('A')
  })
})

test("a call of the client's own search for tools comes whole, in its own form", async () => {
  const tools = [{ type: 'tool_search', execution: 'client', parameters: {} }]
  const item = {
    type: 'tool_search_call',
    status: 'completed',
    call_id: 'c1',
    execution: 'client',
    arguments: { q: 1 },
  }
  const calls = [call('c1', 'tool_search', '{"q":1}')]
  expect(answered({ content: null, tool_calls: calls }, { request: { tools } }).output).toMatchObject([item])
  const body = streamed([chunk({ tool_calls: [{ index: 0, ...calls[0] }] }), chunk({}, 'tool_calls')], { tools })
  expect(eventsOf(body).map(({ type }) => type)).toEqual([
    'response.created',
    'response.in_progress',
    'response.output_item.added',
    'response.output_item.done',
    'response.completed',
  ])
  expect((await folded(body)).output).toMatchObject([item])
})

test('pictures are items of their own, and come whole', async () => {
  const images = [{ type: 'image_url', image_url: { url: 'data:image/png;base64,AAAA' } }]
  const item = { type: 'image_generation_call', status: 'completed', output_format: 'png', result: 'AAAA' }
  expect(answered({ content: 'Here:', images }).output).toMatchObject([{ type: 'message' }, item])
  expect(answered({ content: '', images }).output).toMatchObject([item])
  const body = streamed([chunk({ content: 'Here:' }), chunk({ images }), chunk({}, 'stop')])
  expect((await folded(body)).output).toMatchObject([{ type: 'message', status: 'completed' }, item])
  expect(
    eventsOf(body)
      .slice(-4)
      .map(({ type }) => type),
  ).toEqual([
    'response.output_item.added',
    'response.image_generation_call.completed',
    'response.output_item.done',
    'response.completed',
  ])
})

describe('a stream that fails', () => {
  function broken(chunks: readonly ReturnType<typeof chunk>[]): string {
    const encoder = responsesInbound.decodeRequest({ ...MINIMAL, stream: true }, VIEW).encodeStream()
    const said = chunks.map(each => encoder.chunk(each))
    const refusal = refuse('upstream_truncated', { message: 'messages[0] was too much.', param: 'messages[0]' })
    return Buffer.concat([...said, encoder.fail(refusal)]).toString()
  }

  test('ends in an error in the terms of the client, and in response.failed with what there was', () => {
    const events = eventsOf(broken([chunk({ content: 'Hi' })]))
    const said = { message: 'input was too much.', param: 'input', code: 'upstream_truncated' }
    expect(events.at(-2)).toMatchObject({ type: 'error', ...said, error: { type: 'server_error', ...said } })
    expect(events.at(-1)).toMatchObject({
      type: 'response.failed',
      response: {
        status: 'failed',
        error: { code: said.code, message: said.message },
        output: [{ status: 'incomplete', content: [{ text: 'Hi' }] }],
      },
    })
  })

  test.each([
    ['in the middle', [chunk({ content: 'Hi' })]],
    ['at once', []],
  ])('raises in the library, %s', async (_when, chunks) => {
    const raised = { code: 'upstream_truncated', message: 'input was too much.', type: 'server_error' }
    const plain = await libraryWith(broken(chunks)).responses.create({ ...MINIMAL, stream: true })
    let seen = 0
    const reading = (async () => {
      for await (const event of plain) if (event.type === 'response.output_text.delta') seen++
    })()
    await expect(reading).rejects.toBeInstanceOf(OpenAI.APIError)
    await expect(reading).rejects.toMatchObject(raised)
    expect(seen).toBe(chunks.length)
    await expect(folded(broken(chunks))).rejects.toMatchObject(raised)
  })
})

describe('what providers want back', () => {
  const encrypted = (item: unknown) => (item as { encrypted_content?: string }).encrypted_content

  test("a call's signature is kept in the thought before it", () => {
    const items = answered({
      reasoning_content: 'Hm.',
      content: null,
      tool_calls: [call('c1', 'look', '{}', GOOGLE)],
    }).output
    expect(items).toMatchObject([{ type: 'reasoning', summary: [{ text: 'Hm.' }] }, { type: 'function_call' }])
    expect(encrypted(items[0])).toMatch(/^tollgate2\.[\w-]+$/)
    expect(items[1]).not.toHaveProperty('extra_content')
  })

  test('one that comes after the text makes a thought of its own', async () => {
    const { output } = await folded(streamed([chunk({ content: 'Hi' }), chunk(GOOGLE), chunk({}, 'stop')]))
    expect(output.map(({ type }) => type)).toEqual(['message', 'reasoning'])
    expect(encrypted(output[1])).toMatch(/^tollgate2\./)
  })
})
