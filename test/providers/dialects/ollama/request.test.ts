import { describe, expect, test } from 'vitest'
import type { ChatRequest } from '#contract'
import { chatOf, dialect, encoded, HI, IMAGE, MODEL, target } from './helpers.ts'

type Fields = Partial<ChatRequest>

const SHAPE = { type: 'object', properties: { age: { type: 'integer' } }, required: ['age'] }
const SHAPED = { type: 'json_schema', json_schema: { name: 'person', schema: SHAPE } }
const tool = (name: string, more: object = {}) => ({
  type: 'function',
  function: { name, description: `Does ${name}.`, parameters: SHAPE, ...more },
})
const call = (id: string, name: string, text = '{}') => ({ id, type: 'function', function: { name, arguments: text } })
const LEAST = {
  model: MODEL,
  messages: HI,
  stream: false,
  truncate: false,
  shift: false,
  options: { num_predict: 4000 },
}

const refusalOf = (fields: Fields): { code: string; param: string; message: string } => {
  try {
    encoded(fields)
  } catch (error) {
    return error as never
  }
  throw new Error('nothing was refused')
}

describe('what is refused', () => {
  const ADDRESS = { type: 'image_url', image_url: { url: 'https://a.example/b.png' } }
  const AUDIO = { type: 'input_audio', input_audio: { data: 'AAAA', format: 'mp3' } }
  const FILE = { type: 'file', file: { filename: 'a.pdf', file_data: 'data:application/pdf;base64,AAAA' } }
  const asks = (part: object) => ({ messages: [{ role: 'user', content: [part] }] }) as Fields
  const TOOLS = [tool('a'), tool('b')]
  const choose = (mode: string) => ({
    type: 'allowed_tools',
    allowed_tools: { mode, tools: [{ type: 'function', function: { name: 'a' } }] },
  })

  test.each<[name: string, fields: Fields, param: string, code?: string]>([
    ['several choices', { n: 2 }, 'n'],
    ['sound', { modalities: ['text', 'audio'] }, 'modalities'],
    ['a search', { web_search_options: {} }, 'web_search_options'],
    ["an image's address", asks(ADDRESS), 'messages[0]'],
    ['a sound among the messages', asks(AUDIO), 'messages[0]'],
    ['a file', asks(FILE), 'messages[0]'],
    ['no text', { messages: [{ role: 'user', content: ' ' }] }, 'messages', 'invalid_value'],
    ['a call that is demanded', { tools: TOOLS, tool_choice: 'required' }, 'tool_choice'],
    ['a tool by its name', { tools: TOOLS, tool_choice: { type: 'function', function: { name: 'a' } } }, 'tool_choice'],
    ['one of some', { tools: TOOLS, tool_choice: choose('required') }, 'tool_choice'],
    ['a tool that is not there', { tools: [tool('b')], tool_choice: choose('auto') }, 'tool_choice', 'invalid_value'],
    ['a tool that is none of ours', { tools: [{ type: 'custom', custom: { name: 'x' } }] }, 'tools[0].type'],
  ])('%s', (_name, fields, param, code = 'unsupported_parameter') => {
    expect(refusalOf(fields)).toMatchObject({ code, param })
  })

  test('arguments that are nested without end', () => {
    const deep = `{"1":${'['.repeat(100_000)}${']'.repeat(100_000)}}`
    const messages = [HI[0]!, { role: 'assistant', content: null, tool_calls: [call('c', 'a', deep)] }]
    expect(refusalOf({ messages })).toMatchObject({ code: 'request_too_complex', param: 'messages' })
  })
})

describe('where it goes', () => {
  test('a whole answer is asked for aloud', () => {
    const { path, headers, body, dropped } = encoded({})
    expect(path).toBe('/api/chat')
    expect(headers).toEqual({ accept: 'application/json', 'content-type': 'application/json' })
    expect(body).toEqual(LEAST)
    expect(dropped).toEqual([])
  })

  test('a stream', () => {
    const { headers, body } = encoded({ stream: true, stream_options: { include_usage: true } })
    expect(headers).toMatchObject({ accept: 'application/x-ndjson' })
    expect(body).toEqual({ ...LEAST, stream: true })
  })

  test('the request stays as it was', () => {
    const chat = chatOf({ messages: HI, tools: [tool('a')], stop: 'x' })
    const before = structuredClone(chat.body)
    dialect.encodeRequest(chat, target(MODEL))
    expect(chat.body).toEqual(before)
  })
})

describe('parameters', () => {
  test.each<[name: string, fields: Fields, options: object, dropped?: string[]]>([
    [
      'options of the model',
      { temperature: 1.5, top_p: 0.5, top_k: 40, seed: -7, presence_penalty: 1, frequency_penalty: -1 },
      { temperature: 1.5, top_p: 0.5, top_k: 40, seed: -7, presence_penalty: 1, frequency_penalty: -1 },
    ],
    ['nothing is not something', { temperature: 0, top_p: null }, { temperature: 0 }],
    ['stop', { stop: ['a', '', 'b'] }, { stop: ['a', 'b'] }],
    ['one stop', { stop: 'a' }, { stop: ['a'] }],
    [
      'what is not carried',
      { user: 'u', logprobs: true, logit_bias: { 1: 2 }, parallel_tool_calls: false, metadata: { a: 'b' } },
      {},
      ['user', 'logprobs', 'logit_bias', 'parallel_tool_calls', 'metadata'],
    ],
    ['what says nothing', { n: 1, logprobs: false, user: null, parallel_tool_calls: true, modalities: ['text'] }, {}],
  ])('%s', (_name, fields, options, dropped = []) => {
    const request = encoded(fields)
    expect(request.body).toEqual({ ...LEAST, options: { num_predict: 4000, ...options } })
    expect(request.dropped).toEqual(dropped)
  })

  test.each<[name: string, format: object, sent: object]>([
    ['JSON', { type: 'json_object' }, { format: 'json' }],
    ['a shape', SHAPED, { format: SHAPE }],
    ['text', { type: 'text' }, {}],
  ])('the answer as %s', (_name, response_format, sent) => {
    expect(encoded({ response_format }).body).toEqual({ ...LEAST, ...sent })
  })

  test.each<[model: string, effort: string | null, think: unknown, dropped?: boolean]>([
    ['qwen3:8b', null, undefined],
    ['qwen3:8b', 'none', false],
    ['qwen3:8b', 'minimal', true],
    ['qwen3:8b', 'high', true],
    ['somebody/Something-New', 'low', true],
    ['gpt-oss:20b', null, undefined],
    ['gpt-oss:20b', 'none', 'low'],
    ['somebody/gpt-oss-safeguard:20b', 'minimal', 'low'],
    ['gpt-oss', 'medium', 'medium'],
    ['gpt-oss', 'xhigh', 'high'],
    ['llama3.2:1b', 'none', undefined],
    ['llama3.2:1b', 'low', undefined, true],
    ['gemma3', 'high', undefined, true],
  ])('%s thinks with effort %s: %s', (model, reasoning_effort, think, isDropped = false) => {
    const { body, dropped } = encoded({ reasoning_effort }, model)
    expect(body['think']).toBe(think)
    expect(dropped).toEqual(isDropped ? ['reasoning_effort'] : [])
  })
})

describe('tools', () => {
  const [a, b] = [tool('a'), tool('b')]
  const some = {
    type: 'allowed_tools',
    allowed_tools: { mode: 'auto', tools: [{ type: 'function', function: { name: 'a' } }] },
  }

  test.each<[name: string, fields: Fields, sent: object, dropped?: string[]]>([
    ['open', { tools: [a, b] }, { tools: [a, b] }],
    ['auto', { tools: [a, b], tool_choice: 'auto' }, { tools: [a, b] }],
    ['none', { tools: [a, b], tool_choice: 'none' }, {}],
    ['some of them', { tools: [a, b], tool_choice: some }, { tools: [a] }],
    ['functions', { functions: [a.function] }, { tools: [a] }],
    ['strict', { tools: [tool('a', { strict: true })] }, { tools: [a] }, ['tools.function.strict']],
    [
      'one that says next to nothing',
      { tools: [{ type: 'function', function: { name: 'a' } }] },
      { tools: [{ type: 'function', function: { name: 'a', parameters: { type: 'object', properties: {} } } }] },
    ],
  ])('%s', (_name, fields, sent, dropped = []) => {
    const request = encoded(fields)
    expect(request.body).toEqual({ ...LEAST, ...sent })
    expect(request.dropped).toEqual(dropped)
  })
})

describe('messages', () => {
  const made = [call('id-1', 'a', '{"x":1}'), call('id-2', 'b', '')]
  const wireCalls = [
    { id: 'id-1', function: { index: 0, name: 'a', arguments: { x: 1 } } },
    { id: 'id-2', function: { index: 1, name: 'b', arguments: {} } },
  ]

  test.each<[name: string, messages: ChatRequest['messages'], sent: object[], dropped?: string[]]>([
    [
      'instructions stand first, as one',
      [HI[0]!, { role: 'system', content: 'A' }, { role: 'developer', content: [{ type: 'text', text: 'B' }] }],
      [{ role: 'system', content: 'A\nB' }, ...HI],
    ],
    ['instructions alone are the message', [{ role: 'system', content: 'A' }], [{ role: 'user', content: 'A' }]],
    [
      'pictures beside the text',
      [
        {
          role: 'user',
          content: [
            { type: 'text', text: 'Look' },
            { type: 'image_url', image_url: { url: IMAGE } },
            { type: 'text', text: 'here' },
            { type: 'image_url', image_url: { url: IMAGE } },
          ],
        },
      ],
      [{ role: 'user', content: 'Look\nhere', images: ['iVBORw0KGgo=', 'iVBORw0KGgo='] }],
    ],
    [
      'a picture alone',
      [{ role: 'user', content: [{ type: 'image_url', image_url: { url: IMAGE } }] }],
      [{ role: 'user', content: '', images: ['iVBORw0KGgo='] }],
    ],
    [
      'calls at once, with what was said before them, their results, and a word more',
      [
        ...HI,
        { role: 'assistant', content: 'I will look.', reasoning_content: 'Hm.', tool_calls: made },
        { role: 'tool', tool_call_id: 'id-2', content: [{ type: 'text', text: 'two' }] },
        { role: 'tool', tool_call_id: 'id-1', content: 'one' },
        { role: 'user', content: 'And?' },
      ],
      [
        ...HI,
        { role: 'assistant', content: 'I will look.', thinking: 'Hm.', tool_calls: wireCalls },
        { role: 'tool', content: 'two', tool_name: 'b', tool_call_id: 'id-2' },
        { role: 'tool', content: 'one', tool_name: 'a', tool_call_id: 'id-1' },
        { role: 'user', content: 'And?' },
      ],
    ],
    [
      "another provider's thoughts",
      [
        ...HI,
        { role: 'assistant', content: 'So.', reasoning_details: [{ type: 'reasoning.encrypted', data: 'x' }] },
        { role: 'user', content: 'And?' },
      ],
      [...HI, { role: 'assistant', content: 'So.' }, { role: 'user', content: 'And?' }],
      ['reasoning_details'],
    ],
    [
      'a thought alone is no message',
      [...HI, { role: 'assistant', content: '', reasoning_details: [{ type: 'reasoning.encrypted', data: 'x' }] }],
      HI,
      ['reasoning_details'],
    ],
  ])('%s', (_name, messages, sent, dropped = []) => {
    const request = encoded({ messages })
    expect(request.body['messages']).toEqual(sent)
    expect(request.dropped).toEqual(dropped)
  })
})
