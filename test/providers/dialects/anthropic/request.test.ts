import { describe, expect, test } from 'vitest'
import type { ChatRequest } from '#contract'
import { anthropicDialect, anthropicHeaders } from '../../../../src/providers/dialects/anthropic/index.ts'
import { chatOf, dialect, HI, NOW, target } from './helpers.ts'

type Fields = Partial<ChatRequest>
type Json = Record<string, unknown>

const OLD = 'claude-3-5-haiku-20241022'
const BUDGET = 'claude-sonnet-4-5'
const ADAPTIVE = 'claude-opus-4-6'
const NEW = 'claude-opus-5'

function encoded(fields: Fields, model = BUDGET, cap = 4096): { body: Json; dropped: readonly string[] } {
  const { body, dropped } = dialect.encodeRequest(chatOf(fields, cap), target(model))
  return { body: JSON.parse(body.toString()), dropped }
}

const refusalOf = (fields: Fields, model = BUDGET, one = dialect): { code: string; param: string; message: string } => {
  try {
    one.encodeRequest(chatOf(fields), target(model))
  } catch (error) {
    return error as never
  }
  throw new Error('nothing was refused')
}

const tool = (name: string, more: object = {}) => ({
  type: 'function',
  function: { name, description: `Does ${name}.`, parameters: { type: 'object', properties: {} }, ...more },
})
const call = (id: string, name: string, text = '{}') => ({ id, type: 'function', function: { name, arguments: text } })
const SHAPE = { type: 'object', properties: { age: { type: 'integer', minimum: 0 } }, required: ['age'] }
const SHAPED = { type: 'json_schema', json_schema: { name: 'person', schema: SHAPE } }
const IMAGE = 'data:image/png;base64,iVBORw0KGgo='

describe('where it goes', () => {
  test('the provider itself', () => {
    const plain = dialect.encodeRequest(chatOf({}), target())
    expect(plain).toMatchObject({ path: '/messages', headers: { accept: 'application/json' }, dropped: [] })
    expect(JSON.parse(plain.body.toString())).toEqual({
      model: 'claude-sonnet-4-5',
      max_tokens: 4096,
      messages: [{ role: 'user', content: [{ type: 'text', text: 'Hi' }] }],
    })
    const streamed = dialect.encodeRequest(chatOf({ stream: true }), target())
    expect(streamed.headers).toEqual({ accept: 'text/event-stream' })
    expect(JSON.parse(streamed.body.toString())).toMatchObject({ stream: true })
    expect(anthropicHeaders('k')).toEqual({ 'x-api-key': 'k', 'anthropic-version': '2023-06-01' })
  })

  const vertex = anthropicDialect(() => NOW, undefined, { addressing: 'vertex' })

  test.each([
    [false, '/models/claude-3-7-sonnet@20250219:rawPredict'],
    [true, '/models/claude-3-7-sonnet@20250219:streamRawPredict'],
  ])('Vertex AI, streamed: %s', (stream, path) => {
    const request = vertex.encodeRequest(chatOf({ stream }), target('claude-3-7-sonnet@20250219'))
    const body = JSON.parse(request.body.toString())
    expect(request.path).toBe(path)
    expect(body).toMatchObject({ anthropic_version: 'vertex-2023-10-16', max_tokens: 4096 })
    expect(body).not.toHaveProperty('model')
    expect(body['stream']).toBe(stream ? true : undefined)
  })

  test('Vertex AI fetches nothing, and knows no tiers', () => {
    const image = { type: 'image_url', image_url: { url: 'https://example.com/a.png' } }
    expect(refusalOf({ messages: [{ role: 'user', content: [image] }] }, BUDGET, vertex)).toMatchObject({
      code: 'unsupported_parameter',
      param: 'messages[0]',
    })
    const request = vertex.encodeRequest(chatOf({ service_tier: 'default' }), target())
    expect(JSON.parse(request.body.toString())).not.toHaveProperty('service_tier')
    expect(request.dropped).toEqual([])
  })

  test('another attempt finds the request unchanged', () => {
    const chat = chatOf({ tools: [tool('a', { strict: true })], response_format: SHAPED, reasoning_effort: 'high' })
    const before = structuredClone(chat.body)
    const first = dialect.encodeRequest(chat, target()).body.toString()
    dialect.encodeRequest(chat, target(OLD))
    dialect.encodeRequest(chat, target(NEW))
    expect(dialect.encodeRequest(chat, target()).body.toString()).toBe(first)
    expect(chat.body).toEqual(before)
  })
})

describe('messages', () => {
  const text = (words: string) => ({ type: 'text', text: words })

  test.each<[name: string, messages: ChatRequest['messages'], sent: Json, model?: string]>([
    [
      'instructions are gathered, wherever they stand',
      [
        { role: 'system', content: 'A' },
        { role: 'user', content: 'Hi' },
        { role: 'developer', content: [{ type: 'text', text: 'B' }] },
      ],
      { system: 'A\nB', messages: [{ role: 'user', content: [text('Hi')] }] },
    ],
    [
      'instructions alone are the message',
      [{ role: 'system', content: 'A' }],
      { messages: [{ role: 'user', content: [text('A')] }] },
    ],
    [
      'blank texts are left out, and neighbours of one role are one message',
      [
        { role: 'user', content: 'a' },
        { role: 'assistant', content: '  ' },
        { role: 'user', content: [text('\n'), text('b')] as never },
      ],
      { messages: [{ role: 'user', content: [text('a'), text('b')] }] },
    ],
    [
      'where the assistant begins, somebody lets it',
      [{ role: 'assistant', content: 'Hello!' }, ...HI],
      {
        messages: [
          { role: 'user', content: [text('(The assistant begins.)')] },
          { role: 'assistant', content: [text('Hello!')] },
          { role: 'user', content: [text('Hi')] },
        ],
      },
    ],
    [
      'words to continue lose the white space behind them',
      [...HI, { role: 'assistant', content: 'It is \n' }],
      {
        messages: [
          { role: 'user', content: [text('Hi')] },
          { role: 'assistant', content: [text('It is')] },
        ],
      },
    ],
    [
      'images, by bytes and by address',
      [
        {
          role: 'user',
          content: [
            { type: 'image_url', image_url: { url: IMAGE } },
            { type: 'image_url', image_url: { url: 'data:image/jpg;base64,/9j/' } },
            { type: 'image_url', image_url: { url: 'https://example.com/a.png' } },
          ],
        },
      ],
      {
        messages: [
          {
            role: 'user',
            content: [
              { type: 'image', source: { type: 'base64', media_type: 'image/png', data: 'iVBORw0KGgo=' } },
              { type: 'image', source: { type: 'base64', media_type: 'image/jpeg', data: '/9j/' } },
              { type: 'image', source: { type: 'url', url: 'https://example.com/a.png' } },
            ],
          },
        ],
      },
    ],
    [
      'documents',
      [
        {
          role: 'user',
          content: [
            { type: 'file', file: { filename: 'a.pdf', file_data: 'data:application/pdf;base64,JVBERg==' } },
            { type: 'file', file: { file_data: 'data:text/plain;base64,w6k=' } },
            { type: 'file', file: { file_data: 'https://example.com/b.pdf' } },
          ],
        },
      ],
      {
        messages: [
          {
            role: 'user',
            content: [
              {
                type: 'document',
                source: { type: 'base64', media_type: 'application/pdf', data: 'JVBERg==' },
                title: 'a.pdf',
              },
              { type: 'document', source: { type: 'text', media_type: 'text/plain', data: 'é' } },
              { type: 'document', source: { type: 'url', url: 'https://example.com/b.pdf' } },
            ],
          },
        ],
      },
    ],
    [
      'calls, and all their results first in one message, whoever made the ids',
      [
        ...HI,
        { role: 'assistant', content: 'Wait.', tool_calls: [call('call.1', 'a', '{"x":1}'), call('call_2', 'b', '')] },
        { role: 'tool', tool_call_id: 'call.1', content: 'one' },
        { role: 'tool', tool_call_id: 'call_2', content: '' },
        { role: 'user', content: 'And?' },
      ],
      {
        messages: [
          { role: 'user', content: [text('Hi')] },
          {
            role: 'assistant',
            content: [
              text('Wait.'),
              { type: 'tool_use', id: 'call_2e_1', name: 'a', input: { x: 1 } },
              { type: 'tool_use', id: 'call_2', name: 'b', input: {} },
            ],
          },
          {
            role: 'user',
            content: [
              { type: 'tool_result', tool_use_id: 'call_2e_1', content: 'one' },
              { type: 'tool_result', tool_use_id: 'call_2' },
              text('And?'),
            ],
          },
        ],
      },
    ],
  ])('%s', (_name, messages, sent, model) => {
    const { body } = encoded({ messages }, model)
    expect({ ...(body['system'] ? { system: body['system'] } : {}), messages: body['messages'] }).toEqual(sent)
  })

  test.each<[name: string, messages: ChatRequest['messages'], code: string, param: string, model?: string]>([
    ['nothing at all', [{ role: 'user', content: ' ' }], 'invalid_value', 'messages'],
    [
      'a sound',
      [...HI, { role: 'user', content: [{ type: 'input_audio', input_audio: { format: 'wav', data: 'AA==' } }] }],
      'unsupported_parameter',
      'messages[0]',
    ],
    [
      'an image of a kind that nobody reads',
      [{ role: 'user', content: [{ type: 'image_url', image_url: { url: 'data:image/tiff;base64,AA==' } }] }],
      'unsupported_parameter',
      'messages[0]',
    ],
    [
      'a file of a kind that nobody reads',
      [{ role: 'user', content: [{ type: 'file', file: { file_data: 'data:application/zip;base64,AA==' } }] }],
      'unsupported_parameter',
      'messages[0]',
    ],
    [
      'arguments that are no object',
      [...HI, { role: 'assistant', tool_calls: [call('c', 'a', '[1]')] }],
      'invalid_value',
      'messages[1].tool_calls[0].function.arguments',
    ],
    [
      'an image by an address in plain http',
      [{ role: 'user', content: [{ type: 'image_url', image_url: { url: 'http://example.com/a.png' } }] }],
      'unsupported_parameter',
      'messages[0]',
    ],
    [
      "an image in Google's storage",
      [{ role: 'user', content: [{ type: 'image_url', image_url: { url: 'gs://bucket/a.png' } }] }],
      'invalid_value',
      'messages[0].content[0].image_url.url',
    ],
    [
      'a data URL that breaks off in a letter',
      [{ role: 'user', content: [{ type: 'image_url', image_url: { url: 'data:image/png,%E4%' } }] }],
      'invalid_value',
      'messages[0].content[0].image_url.url',
    ],
    [
      'the assistant has the last word, and the model does not continue it',
      [...HI, { role: 'assistant', content: 'It' }],
      'unsupported_parameter',
      'messages[1]',
      NEW,
    ],
  ])('%s is refused', (_name, messages, code, param, model) => {
    expect(refusalOf({ messages }, model)).toMatchObject({ code, param })
  })
})

describe('parameters', () => {
  test.each<[name: string, fields: Fields, sent: Json, dropped?: string[], model?: string]>([
    ['temperature', { temperature: 0.3 }, { temperature: 0.3 }],
    ['temperature beyond the scale', { temperature: 1.6 }, { temperature: 1 }, ['temperature']],
    ['temperature and top_p: one of them', { temperature: 0.3, top_p: 0.5 }, { temperature: 0.3 }, ['top_p']],
    ['temperature and top_p, once', { temperature: 0.3, top_p: 0.5 }, { temperature: 0.3, top_p: 0.5 }, [], OLD],
    ['no sampling on the newest', { temperature: 0.3, top_p: 0.5 }, {}, ['temperature', 'top_p'], NEW],
    ['what the default is anyway', { temperature: 1, top_p: 1 }, {}, [], NEW],
    ['stop', { stop: 'END' }, { stop_sequences: ['END'] }],
    ['stop without what is blank', { stop: ['\n', 'END'] }, { stop_sequences: ['END'] }, ['stop']],
    ['user', { user: 'u1' }, { metadata: { user_id: 'u1' } }],
    ['two names', { user: 'u1', safety_identifier: 's1' }, { metadata: { user_id: 's1' } }, ['user']],
    ['an address of mail', { user: 'a@example.com' }, {}, ['user']],
    [
      'a name that does not fit',
      { safety_identifier: 's'.repeat(300), user: 'u' },
      { metadata: { user_id: 'u' } },
      ['safety_identifier'],
    ],
    ['service_tier auto', { service_tier: 'auto' }, {}],
    ['service_tier default', { service_tier: 'default' }, { service_tier: 'standard_only' }],
    ['service_tier flex', { service_tier: 'flex' }, {}, ['service_tier']],
    ['modalities of text', { modalities: ['text'] }, {}],
    [
      'what there is no name for',
      { seed: 1, logit_bias: { 1: 1 }, logprobs: true, presence_penalty: 1, frequency_penalty: 0, verbosity: 'low' },
      {},
      ['seed', 'logit_bias', 'logprobs', 'presence_penalty', 'verbosity'],
    ],
    ['an effort that nobody knows', { reasoning_effort: 'default' }, {}, ['reasoning_effort']],
  ])('%s', (_name, fields, sent, dropped = [], model = BUDGET) => {
    const found = encoded(fields, model)
    const { model: _, max_tokens, messages, ...rest } = found.body
    expect(rest).toEqual(sent)
    expect(found.dropped).toEqual(dropped)
    expect(max_tokens).toBe(4096)
    expect(messages).toHaveLength(1)
  })

  test.each<[fields: Fields, param: string]>([
    [{ n: 2 }, 'n'],
    [{ modalities: ['text', 'audio'] }, 'modalities'],
    [{ tools: [{ type: 'custom', custom: { name: 'a' } }] }, 'tools[0].type'],
    [{ tools: [{ type: 'anthropic', anthropic: { type: 'web_fetch_20250910', name: 'a' } }] }, 'tools[0].type'],
    // Called by code, unless it says otherwise.
    [{ tools: [{ type: 'anthropic', anthropic: { type: 'web_search_20260209', name: 'a' } }] }, 'tools[0].type'],
  ])('%j is refused', (fields, param) => {
    expect(refusalOf(fields)).toMatchObject({ code: 'unsupported_parameter', param })
  })
})

describe('tools', () => {
  const A = { name: 'a', description: 'Does a.', input_schema: { type: 'object', properties: {} } }
  const B = { ...A, name: 'b', description: 'Does b.' }
  const tools = [tool('a'), tool('b')]

  test.each<[name: string, fields: Fields, sent: Json, dropped?: string[], model?: string]>([
    ['tools', { tools }, { tools: [A, B] }],
    [
      'a tool with next to nothing',
      { tools: [{ type: 'function', function: { name: 'a' } }] },
      { tools: [{ name: 'a', input_schema: { type: 'object', properties: {} } }] },
    ],
    [
      'the older form',
      { functions: [tool('a').function], function_call: { name: 'a' } } as Fields,
      { tools: [A], tool_choice: { type: 'tool', name: 'a', disable_parallel_tool_use: true } },
    ],
    [
      'tools of its own, as they were declared',
      {
        tools: [
          tool('a'),
          {
            type: 'anthropic',
            anthropic: { type: 'bash_20250124', name: 'bash' },
            cache_control: { type: 'ephemeral' },
          },
          { type: 'anthropic', anthropic: { type: 'text_editor_20250728', name: 'edit', max_characters: 9 } },
        ],
        tool_choice: { type: 'function', function: { name: 'bash' } },
      },
      {
        tools: [
          A,
          { type: 'bash_20250124', name: 'bash', cache_control: { type: 'ephemeral' } },
          { type: 'text_editor_20250728', name: 'edit', max_characters: 9 },
        ],
        tool_choice: { type: 'tool', name: 'bash' },
      },
    ],
    ['none', { tools, tool_choice: 'none' }, { tools: [A, B], tool_choice: { type: 'none' } }],
    ['auto', { tools, tool_choice: 'auto' }, { tools: [A, B], tool_choice: { type: 'auto' } }],
    ['required', { tools, tool_choice: 'required' }, { tools: [A, B], tool_choice: { type: 'any' } }],
    [
      'a named one',
      { tools, tool_choice: { type: 'function', function: { name: 'b' } } },
      { tools: [A, B], tool_choice: { type: 'tool', name: 'b' } },
    ],
    [
      'some of them',
      { tools, tool_choice: { type: 'allowed_tools', allowed_tools: { mode: 'auto', tools: [tool('b')] } } },
      { tools: [B], tool_choice: { type: 'auto' } },
    ],
    [
      'one at a time',
      { tools, parallel_tool_calls: false },
      { tools: [A, B], tool_choice: { type: 'auto', disable_parallel_tool_use: true } },
    ],
    [
      'a certain one, one at a time',
      { tools, tool_choice: 'required', parallel_tool_calls: false },
      { tools: [A, B], tool_choice: { type: 'any', disable_parallel_tool_use: true } },
    ],
    ['a choice without tools is none', { tool_choice: 'auto', parallel_tool_calls: false }, {}],
    [
      'strict',
      { tools: [tool('a', { strict: true })] },
      { tools: [{ ...A, input_schema: { ...A.input_schema, additionalProperties: false }, strict: true }] },
    ],
    [
      'strict where it is unknown',
      { tools: [tool('a', { strict: true })] },
      { tools: [A] },
      ['tools.function.strict'],
      OLD,
    ],
    [
      'calls of long ago need tools, that nobody may call',
      {
        messages: [
          ...HI,
          { role: 'assistant', tool_calls: [call('1', 'a')] },
          { role: 'tool', tool_call_id: '1', content: 'x' },
        ],
      },
      {
        tools: [
          {
            name: 'a',
            description: 'Was called earlier; not available any more.',
            input_schema: { type: 'object', properties: {} },
          },
        ],
        tool_choice: { type: 'none' },
      },
    ],
  ])('%s', (_name, fields, sent, dropped = [], model = BUDGET) => {
    const found = encoded(fields, model)
    const { model: _, max_tokens: __, messages: ___, ...rest } = found.body
    expect(rest).toEqual(sent)
    expect(found.dropped).toEqual(dropped)
  })

  test.each<[name: string, fields: Fields, param: string]>([
    [
      'a choice of what is not there',
      { tools, tool_choice: { type: 'function', function: { name: 'c' } } },
      'tool_choice',
    ],
    ['a call that must be, without tools', { tool_choice: 'required' }, 'tool_choice'],
    ['the name that the gateway needs', { tools: [tool('tollgate_json_answer')] }, 'tools'],
  ])('%s is refused', (_name, fields, param) => {
    expect(refusalOf(fields)).toMatchObject({ code: 'invalid_value', param })
  })
})

describe('the shape of the answer', () => {
  const JSON_NAME = 'tollgate_json_answer'

  test('a schema, where the model takes one', () => {
    const { body, dropped } = encoded({ response_format: SHAPED })
    expect(body['output_config']).toEqual({
      format: {
        type: 'json_schema',
        schema: {
          type: 'object',
          properties: { age: { type: 'integer', description: '(minimum: 0)' } },
          required: ['age'],
          additionalProperties: false,
        },
      },
    })
    expect(dropped).toEqual(['response_format.json_schema.schema.minimum'])
  })

  test.each<[name: string, schema: Json, sent: Json, lost: string[]]>([
    [
      'deep down, and by reference',
      {
        type: 'object',
        $defs: { pattern: { type: 'string', pattern: '^a', description: 'A word.' } },
        properties: {
          minimum: { $ref: '#/$defs/pattern' },
          list: { type: 'array', items: { type: 'object' }, minItems: 1 },
        },
        additionalProperties: false,
      },
      {
        type: 'object',
        $defs: { pattern: { type: 'string', description: 'A word. (pattern: "^a")' } },
        properties: {
          minimum: { $ref: '#/$defs/pattern' },
          list: { type: 'array', items: { type: 'object', additionalProperties: false }, minItems: 1 },
        },
        additionalProperties: false,
      },
      ['pattern'],
    ],
    [
      'objects of any names, formats, and choices',
      {
        oneOf: [
          { type: 'object', additionalProperties: { type: 'string' } },
          { type: 'string', format: 'date' },
          { type: 'string', format: 'iban' },
        ],
      },
      {
        anyOf: [
          { type: 'object', additionalProperties: false },
          { type: 'string', format: 'date' },
          { type: 'string', description: '(format: "iban")' },
        ],
      },
      ['additionalProperties', 'format'],
    ],
  ])('a schema is closed: %s', (_name, schema, sent, lost) => {
    const { body, dropped } = encoded({ response_format: { type: 'json_schema', json_schema: { name: 'x', schema } } })
    expect(body['output_config']).toEqual({ format: { type: 'json_schema', schema: sent } })
    expect(dropped).toEqual(lost.map(keyword => `response_format.json_schema.schema.${keyword}`))
  })

  test.each<[name: string, fields: Fields, model: string, choice: Json, names: string[], schema: Json]>([
    ['a schema', { response_format: SHAPED }, OLD, { type: 'tool', name: JSON_NAME }, [JSON_NAME], SHAPE],
    [
      'any object',
      { response_format: { type: 'json_object' } },
      NEW,
      { type: 'tool', name: JSON_NAME },
      [JSON_NAME],
      { type: 'object', additionalProperties: true },
    ],
    ['beside tools', { response_format: SHAPED, tools: [tool('a')] }, OLD, { type: 'any' }, ['a', JSON_NAME], SHAPE],
    [
      'beside tools that may not be called',
      { response_format: SHAPED, tools: [tool('a')], tool_choice: 'none' },
      OLD,
      { type: 'tool', name: JSON_NAME },
      ['a', JSON_NAME],
      SHAPE,
    ],
  ])('by a tool: %s', (_name, fields, model, choice, names, schema) => {
    const { body, dropped } = encoded(fields, model)
    const tools = body['tools'] as Json[]
    expect(body['tool_choice']).toEqual({ ...choice, disable_parallel_tool_use: true })
    expect(tools.map(({ name }) => name)).toEqual(names)
    expect(tools.at(-1)!['input_schema']).toEqual(schema)
    expect(dropped).toEqual([])
  })

  test('where a call must be made there is no shape', () => {
    const { body, dropped } = encoded({ response_format: SHAPED, tools: [tool('a')], tool_choice: 'required' }, OLD)
    expect(body['tools']).toHaveLength(1)
    expect(dropped).toEqual(['response_format'])
  })
})

describe('thinking', () => {
  const on = (budget_tokens: number) => ({ thinking: { type: 'enabled', budget_tokens } })
  const adaptive = (effort: string) => ({
    thinking: { type: 'adaptive', display: 'summarized' },
    output_config: { effort },
  })
  const OFF = { thinking: { type: 'disabled' } }

  test.each<[effort: string | undefined, model: string, cap: number, sent: Json, dropped?: string[]]>([
    [undefined, BUDGET, 4096, {}],
    [undefined, ADAPTIVE, 4096, {}],
    ['none', BUDGET, 4096, {}],
    ['none', ADAPTIVE, 4096, OFF],
    ['none', NEW, 4096, OFF],
    ['none', OLD, 4096, {}],
    ['high', OLD, 4096, {}, ['reasoning_effort']],
    ['minimal', BUDGET, 64_000, on(1024)],
    ['low', BUDGET, 64_000, on(2048)],
    ['medium', BUDGET, 64_000, on(8192)],
    ['high', BUDGET, 64_000, on(16_384)],
    ['max', BUDGET, 64_000, on(51_200)],
    ['high', BUDGET, 4096, on(3276)],
    ['high', BUDGET, 1100, on(1024)],
    ['high', BUDGET, 1024, {}, ['reasoning_effort']],
    ['minimal', ADAPTIVE, 100, adaptive('low')],
    ['high', ADAPTIVE, 100, adaptive('high')],
    ['xhigh', ADAPTIVE, 100, adaptive('max')],
    ['xhigh', NEW, 100, adaptive('xhigh')],
    ['max', NEW, 100, adaptive('max')],
  ])('effort %s, %s, cap %d', (effort, model, cap, sent, dropped = []) => {
    const found = encoded(effort === undefined ? {} : { reasoning_effort: effort }, model, cap)
    const { model: _, max_tokens, messages: __, ...rest } = found.body
    expect(max_tokens).toBe(cap)
    expect(rest).toEqual(sent)
    expect(found.dropped).toEqual(dropped)
  })

  test.each<[name: string, fields: Fields, model: string, sent: Json, dropped: string[]]>([
    [
      'the temperature stays',
      { reasoning_effort: 'low', temperature: 0.2, top_p: 0.5 },
      BUDGET,
      { thinking: { type: 'enabled', budget_tokens: 2048 } },
      ['temperature', 'top_p'],
    ],
    [
      'a call that must be made',
      { reasoning_effort: 'low', tools: [tool('a')], tool_choice: 'required' },
      ADAPTIVE,
      OFF,
      ['reasoning_effort'],
    ],
    ['the same, unasked', { tools: [tool('a')], tool_choice: 'required' }, NEW, OFF, []],
    ['the same, where nobody thinks unasked', { tools: [tool('a')], tool_choice: 'required' }, ADAPTIVE, {}, []],
    [
      'an answer by a tool',
      { reasoning_effort: 'low', response_format: { type: 'json_object' } },
      BUDGET,
      {},
      ['reasoning_effort'],
    ],
    [
      'words to continue',
      { reasoning_effort: 'low', messages: [...HI, { role: 'assistant', content: 'It' }] },
      BUDGET,
      {},
      ['reasoning_effort'],
    ],
  ])('%s', (_name, fields, model, sent, dropped) => {
    const { body, dropped: lost } = encoded(fields, model)
    expect({ thinking: body['thinking'] }).toEqual({ thinking: sent['thinking'] })
    expect(lost).toEqual(dropped)
  })

  const details = [
    { type: 'reasoning.text', text: 'Hm.', signature: 'sig' },
    { type: 'reasoning.encrypted', data: 'box' },
    { type: 'reasoning.text', text: 'unsigned' },
  ]
  const loop = (thoughts: object, second: object = {}): ChatRequest['messages'] => [
    ...HI,
    { role: 'assistant', content: null, ...thoughts, tool_calls: [call('1', 'a')] },
    { role: 'tool', tool_call_id: '1', content: 'x' },
    { role: 'assistant', content: null, ...second, tool_calls: [call('2', 'a')] },
    { role: 'tool', tool_call_id: '2', content: 'y' },
  ]
  const kinds = (body: Json) =>
    (body['messages'] as { content: Json[] }[]).map(({ content }) => content.map(({ type }) => type))

  test.each([BUDGET, ADAPTIVE, NEW])('%s gets its thoughts back before its calls', model => {
    const messages = loop({ reasoning_content: 'Hm.', reasoning_details: details })
    const { body, dropped } = encoded({ messages, tools: [tool('a')], reasoning_effort: 'low' }, model)
    const [, answer] = body['messages'] as { content: Json[] }[]
    expect(answer!.content).toEqual([
      { type: 'thinking', thinking: 'Hm.', signature: 'sig' },
      { type: 'redacted_thinking', data: 'box' },
      { type: 'tool_use', id: '1', name: 'a', input: {} },
    ])
    expect(body).toHaveProperty('thinking')
    expect(dropped).toEqual([])
  })

  test.each<[name: string, model: string, messages: ChatRequest['messages'], thinks: boolean, dropped: string[]]>([
    ['lost: a model with a budget does not think on', BUDGET, loop({}), false, ['reasoning_effort']],
    ['lost at the beginning: the same', BUDGET, loop({}, { reasoning_details: details }), false, ['reasoning_effort']],
    [
      'lost in an earlier exchange: no matter',
      BUDGET,
      [...loop({}), { role: 'user', content: 'And now?' }, { role: 'assistant', content: 'x' }, ...HI],
      true,
      [],
    ],
    ['lost: an adaptive model thinks on', ADAPTIVE, loop({}), true, []],
  ])('thoughts that the client has %s', (_name, model, messages, thinks, dropped) => {
    const found = encoded({ messages, tools: [tool('a')], reasoning_effort: 'low' }, model)
    expect('thinking' in found.body).toBe(thinks)
    expect(found.dropped).toEqual(dropped)
    if (!thinks) expect(kinds(found.body).flat()).not.toContain('thinking')
  })

  test('who does not think gets no thoughts, and a message of thoughts alone is none', () => {
    const messages = [
      ...HI,
      { role: 'assistant', content: null, reasoning_details: details },
      { role: 'user', content: 'b' },
    ]
    expect(kinds(encoded({ messages }).body)).toEqual([['text', 'text']])
    expect(kinds(encoded({ messages, reasoning_effort: 'low' }).body)).toEqual([['text', 'text']])
    expect(kinds(encoded({ messages: loop({ reasoning_details: details }) }, OLD).body)[1]).toEqual(['tool_use'])
  })
})

test.each<[name: string, fields: Fields, model: string, sent: number | undefined]>([
  ['is carried', { top_k: 5 } as Fields, 'claude-sonnet-4-5', 5],
  [
    'is left out where the model thinks',
    { top_k: 5, reasoning_effort: 'low' } as Fields,
    'claude-sonnet-4-5',
    undefined,
  ],
  ['is left out where the model takes none', { top_k: 5 } as Fields, NEW, undefined],
])('top_k %s', (_name, fields, model, sent) => {
  const { body, dropped } = encoded(fields, model)
  expect(body['top_k']).toBe(sent)
  expect(dropped).toEqual(sent === undefined ? ['top_k'] : [])
})
