import { describe, expect, test } from 'vitest'
import type { ChatRequest } from '#contract'
import { chatOf, dialect, encoded, HI, MODEL, THINKER, target } from './helpers.ts'

type Fields = Partial<ChatRequest>

const OLD = 'command-r-plus-08-2024'
const IMAGE = 'data:image/png;base64,iVBORw0KGgo='
const SHAPE = { type: 'object', properties: { age: { type: 'integer' } }, required: ['age'] }
const SHAPED = { type: 'json_schema', json_schema: { name: 'person', schema: SHAPE } }
const tool = (name: string, more: object = {}) => ({
  type: 'function',
  function: { name, description: `Does ${name}.`, parameters: SHAPE, ...more },
})
const call = (id: string, name: string, text = '{}') => ({ id, type: 'function', function: { name, arguments: text } })

const refusalOf = (fields: Fields, model = MODEL): { code: string; param: string; message: string } => {
  try {
    encoded(fields, model)
  } catch (error) {
    return error as never
  }
  throw new Error('nothing was refused')
}

describe('what is refused', () => {
  const TOOLS = [tool('a'), tool('b')]
  const AUDIO = { type: 'input_audio', input_audio: { data: 'AAAA', format: 'mp3' } }
  const FILE = { type: 'file', file: { filename: 'a.pdf', file_data: 'data:application/pdf;base64,AAAA' } }

  test.each<[name: string, fields: Fields, param: string, code?: string, model?: string]>([
    ['several choices', { n: 2 }, 'n'],
    ['sound', { modalities: ['text', 'audio'] }, 'modalities'],
    ['a search', { web_search_options: {} }, 'web_search_options'],
    ['a sound among the messages', { messages: [{ role: 'user', content: [AUDIO] }] }, 'messages[0]'],
    [
      'a file',
      { messages: [HI[0]!, { role: 'assistant', content: 'a' }, { role: 'user', content: [FILE] }] },
      'messages[2]',
    ],
    ['no text', { messages: [{ role: 'user', content: ' ' }] }, 'messages', 'invalid_value'],
    ['a call that is demanded, without tools', { tool_choice: 'required' }, 'tool_choice', 'invalid_value'],
    [
      'a tool that is not there',
      { tools: TOOLS, tool_choice: { type: 'function', function: { name: 'c' } } },
      'tool_choice',
      'invalid_value',
    ],
    [
      'a choice of none of the tools',
      { tools: TOOLS, tool_choice: { type: 'allowed_tools', allowed_tools: { mode: 'auto', tools: [] } } },
      'tool_choice',
      'invalid_value',
    ],
    [
      'a choice of an older model',
      { tools: TOOLS, tool_choice: 'required' },
      'tool_choice',
      'unsupported_parameter',
      OLD,
    ],
    ['a shape beside tools', { tools: TOOLS, response_format: SHAPED }, 'response_format'],
    ['a tool that is none of ours', { tools: [{ type: 'custom', custom: { name: 'x' } }] }, 'tools[0].type'],
  ])('%s', (_name, fields, param, code = 'unsupported_parameter', model = MODEL) => {
    expect(refusalOf(fields, model)).toMatchObject({ code, param })
  })

  test('arguments that are nested without end', () => {
    const deep = `{"1":${'['.repeat(100_000)}${']'.repeat(100_000)}}`
    const messages = [HI[0]!, { role: 'assistant', content: null, tool_calls: [call('c', 'a', deep)] }]
    expect(refusalOf({ messages })).toMatchObject({ code: 'request_too_complex', param: 'messages' })
  })
})

describe('where it goes', () => {
  test('a whole answer, and the least that can be said', () => {
    const { path, headers, body, dropped } = encoded({})
    expect(path).toBe('/chat')
    expect(headers).toEqual({ accept: 'application/json', 'content-type': 'application/json' })
    expect(body).toEqual({ model: MODEL, messages: HI, stream: false, max_tokens: 4000 })
    expect(dropped).toEqual([])
  })

  test('a stream', () => {
    const { headers, body } = encoded({ stream: true, stream_options: { include_usage: true } })
    expect(headers).toMatchObject({ accept: 'text/event-stream' })
    expect(body).toMatchObject({ stream: true })
    expect(body).not.toHaveProperty('stream_options')
  })

  test('the request stays as it was', () => {
    const chat = chatOf({ messages: HI, tools: [tool('a')], stop: 'x' })
    const before = structuredClone(chat.body)
    dialect.encodeRequest(chat, target(MODEL))
    expect(chat.body).toEqual(before)
  })
})

describe('parameters', () => {
  test.each<[name: string, fields: Fields, sent: object, dropped?: string[], model?: string]>([
    ['temperature', { temperature: 0.5 }, { temperature: 0.5 }],
    ['temperature 0', { temperature: 0 }, { temperature: 0 }],
    ['temperature beyond the scale', { temperature: 1.7 }, { temperature: 1 }, ['temperature']],
    ['top_p', { top_p: 0.5 }, { p: 0.5 }],
    ['top_p at the ends of the scale', { top_p: 1 }, { p: 0.99 }],
    ['top_p 0', { top_p: 0 }, { p: 0.01 }],
    ['top_k', { top_k: 40 }, { k: 40 }],
    ['seed', { seed: -7 }, { seed: 7 }],
    ['stop', { stop: ['a', '', 'b'] }, { stop_sequences: ['a', 'b'] }],
    ['one stop', { stop: 'a' }, { stop_sequences: ['a'] }],
    ['a penalty', { presence_penalty: 0.5 }, { presence_penalty: 0.5 }],
    ['a penalty beyond the scale', { frequency_penalty: 1.5 }, { frequency_penalty: 1 }, ['frequency_penalty']],
    ['a reward', { frequency_penalty: -1, presence_penalty: 0.5 }, { presence_penalty: 0.5 }, ['frequency_penalty']],
    ['both', { frequency_penalty: 0.5, presence_penalty: 0.5 }, { frequency_penalty: 0.5 }, ['presence_penalty']],
    ['no penalties', { frequency_penalty: 0, presence_penalty: 0 }, {}],
    ['JSON', { response_format: { type: 'json_object' } }, { response_format: { type: 'json_object' } }],
    ['a shape', { response_format: SHAPED }, { response_format: { type: 'json_object', json_schema: SHAPE } }],
    ['text', { response_format: { type: 'text' } }, {}],
    [
      'what is not carried',
      { user: 'u', logprobs: true, logit_bias: { 1: 2 }, parallel_tool_calls: false, metadata: { a: 'b' } },
      {},
      ['user', 'logprobs', 'logit_bias', 'parallel_tool_calls', 'metadata'],
    ],
    ['what says nothing', { n: 1, logprobs: false, user: null, parallel_tool_calls: true, modalities: ['text'] }, {}],
    ['no word on thinking', {}, {}, [], THINKER],
    ['thinking', { reasoning_effort: 'low' }, { thinking: { type: 'enabled', token_budget: 1024 } }, [], THINKER],
    [
      'thinking that leaves room',
      { reasoning_effort: 'high' },
      { thinking: { type: 'enabled', token_budget: 3200 } },
      [],
      THINKER,
    ],
    [
      'a model that nobody knows',
      { reasoning_effort: 'minimal' },
      { thinking: { type: 'enabled', token_budget: 512 } },
      [],
      'command-b',
    ],
    ['no thinking', { reasoning_effort: 'none' }, { thinking: { type: 'disabled' } }, [], THINKER],
    ['no thinking where there is none', { reasoning_effort: 'none' }, {}],
    ['thinking where there is none', { reasoning_effort: 'low' }, {}, ['reasoning_effort']],
  ])('%s', (_name, fields, sent, dropped = [], model = MODEL) => {
    const request = encoded(fields, model)
    expect(request.body).toEqual({ model, messages: HI, stream: false, max_tokens: 4000, ...sent })
    expect(request.dropped).toEqual(dropped)
  })

  test('a cap too small to think in is not raised', () => {
    const { body, dropped } = encoded({ reasoning_effort: 'high' }, THINKER, 1)
    expect(body).toMatchObject({ max_tokens: 1 })
    expect(body).not.toHaveProperty('thinking')
    expect(dropped).toEqual(['reasoning_effort'])
  })

  test.each([
    ['command', false, false],
    ['command-r', false, false],
    ['command-r-08-2024', false, false],
    ['c4ai-aya-expanse-32b', false, false],
    ['command-r7b-12-2024', false, true],
    ['command-a-03-2025', false, true],
    ['command-a-vision-07-2025', false, true],
    ['command-a-reasoning-08-2025', true, true],
    ['command-a-plus-05-2026', true, true],
    ['north-star', true, true],
  ])('%s thinks: %s, lets tools be chosen: %s', (model, thinks, chooses) => {
    expect('thinking' in encoded({ reasoning_effort: 'low' }, model).body).toBe(thinks)
    const { body } = encoded({ tools: [tool('a')], tool_choice: 'none' }, model)
    expect(body['tool_choice']).toBe(chooses ? 'NONE' : undefined)
    // The way of models that know no choice.
    expect('tools' in body).toBe(chooses)
  })
})

describe('tools', () => {
  const [a, b] = [tool('a'), tool('b')]
  const loose = tool('c', { parameters: { type: 'object', properties: {} } })
  const strict = (name: string) => tool(name, { strict: true })
  const written = (...names: string[]) => names.map(name => tool(name))
  const named = { type: 'function', function: { name: 'b' } }
  const some = (mode: string) => ({
    type: 'allowed_tools',
    allowed_tools: { mode, tools: [{ type: 'function', function: { name: 'a' } }] },
  })

  test.each<[name: string, fields: Fields, sent: object, dropped?: string[]]>([
    ['open', { tools: [a, b] }, { tools: written('a', 'b') }],
    ['auto', { tools: [a, b], tool_choice: 'auto' }, { tools: written('a', 'b') }],
    ['none', { tools: [a], tool_choice: 'none' }, { tools: written('a'), tool_choice: 'NONE' }],
    ['required', { tools: [a, b], tool_choice: 'required' }, { tools: written('a', 'b'), tool_choice: 'REQUIRED' }],
    ['a named one', { tools: [a, b], tool_choice: named }, { tools: written('b'), tool_choice: 'REQUIRED' }],
    ['some of them', { tools: [a, b], tool_choice: some('auto') }, { tools: written('a') }],
    ['one of some', { tools: [a, b], tool_choice: some('required') }, { tools: written('a'), tool_choice: 'REQUIRED' }],
    [
      'functions',
      { functions: [a.function], function_call: { name: 'a' } },
      { tools: written('a'), tool_choice: 'REQUIRED' },
    ],
    ['strict', { tools: [strict('a'), strict('b')] }, { tools: written('a', 'b'), strict_tools: true }],
    ['strict, but not all', { tools: [strict('a'), b] }, { tools: written('a', 'b') }, ['tools.function.strict']],
    [
      'strict, but nothing is required',
      { tools: [{ ...loose, function: { ...loose.function, strict: true } }] },
      { tools: [loose] },
      ['tools.function.strict'],
    ],
    [
      'a call in place of a shape',
      { tools: [a], tool_choice: 'required', response_format: SHAPED },
      { tools: written('a'), tool_choice: 'REQUIRED' },
      ['response_format'],
    ],
    [
      'a shape in place of a call',
      { tools: [a], tool_choice: 'none', response_format: SHAPED },
      { response_format: { type: 'json_object', json_schema: SHAPE } },
    ],
  ])('%s', (_name, fields, sent, dropped = []) => {
    const request = encoded(fields)
    expect(request.body).toEqual({ model: MODEL, messages: HI, stream: false, max_tokens: 4000, ...sent })
    expect(request.dropped).toEqual(dropped)
  })

  test('one that says next to nothing', () => {
    const { body } = encoded({ tools: [{ type: 'function', function: { name: 'a' } }] })
    expect(body['tools']).toEqual([
      { type: 'function', function: { name: 'a', parameters: { type: 'object', properties: {} } } },
    ])
  })
})

describe('messages', () => {
  const made = [call('id-1', 'a', '{"x":1}'), call('id-2', 'b', '')]
  const wireCalls = [call('id-1', 'a', '{"x":1}'), call('id-2', 'b', '{}')]

  test.each<[name: string, messages: ChatRequest['messages'], sent: object[], dropped?: string[]]>([
    [
      'instructions stand first, as one',
      [HI[0]!, { role: 'system', content: 'A' }, { role: 'developer', content: [{ type: 'text', text: 'B' }] }],
      [{ role: 'system', content: 'A\nB' }, ...HI],
    ],
    ['instructions alone are the message', [{ role: 'system', content: 'A' }], [{ role: 'user', content: 'A' }]],
    [
      'a picture, and an address of one',
      [
        {
          role: 'user',
          content: [
            { type: 'text', text: 'Look' },
            { type: 'image_url', image_url: { url: IMAGE } },
            { type: 'image_url', image_url: { url: 'https://a.example/b.png' } },
          ],
        },
      ],
      [
        {
          role: 'user',
          content: [
            { type: 'text', text: 'Look' },
            { type: 'image_url', image_url: { url: IMAGE } },
            { type: 'image_url', image_url: { url: 'https://a.example/b.png' } },
          ],
        },
      ],
    ],
    [
      'a text that was spoken before',
      [...HI, { role: 'assistant', content: 'Hello' }, { role: 'user', content: [{ type: 'text', text: 'Go on' }] }],
      [...HI, { role: 'assistant', content: 'Hello' }, { role: 'user', content: 'Go on' }],
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
        { role: 'assistant', tool_plan: 'Hm.\nI will look.', tool_calls: wireCalls },
        { role: 'tool', tool_call_id: 'id-2', content: 'two' },
        { role: 'tool', tool_call_id: 'id-1', content: 'one' },
        { role: 'user', content: 'And?' },
      ],
    ],
    [
      'what was said in parts',
      [
        ...HI,
        {
          role: 'assistant',
          content: [
            { type: 'text', text: 'A' },
            { type: 'text', text: 'B' },
          ],
          tool_calls: made,
        },
        { role: 'tool', tool_call_id: 'id-1', content: 'one' },
        {
          role: 'assistant',
          content: [
            { type: 'text', text: 'C' },
            { type: 'text', text: 'D' },
          ],
        },
      ],
      [
        ...HI,
        { role: 'assistant', tool_plan: 'A\nB', tool_calls: wireCalls },
        { role: 'tool', tool_call_id: 'id-1', content: 'one' },
        {
          role: 'assistant',
          content: [
            { type: 'text', text: 'C' },
            { type: 'text', text: 'D' },
          ],
        },
      ],
    ],
    [
      "another provider's thoughts",
      [
        ...HI,
        {
          role: 'assistant',
          content: null,
          tool_calls: made,
          reasoning_details: [{ type: 'reasoning.text', text: 'Hm', signature: 's' }],
        },
      ],
      [...HI, { role: 'assistant', tool_calls: wireCalls }],
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
