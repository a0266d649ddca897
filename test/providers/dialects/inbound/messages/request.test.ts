/** Requests of the Messages API as bodies of chat completions. */
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { isRefusal, type Model, type Refusal } from '#contract'
import schema from '../../../../../plugins/schema/index.ts'
import { messagesInbound } from '../../../../../src/providers/dialects/inbound/messages/index.ts'
import { IGNORED } from '../../../../../src/providers/dialects/inbound/messages/request.ts'
import { counts } from '../../../../helpers/counts.ts'
import { createSteps } from '../../../../helpers/step.ts'
import { anyRequest, brokenOnce } from './requests.ts'
import { bodyOf, findModel, HI, LEAST, messagesOf, VIEW } from './support.ts'

function refusalOf(run: () => unknown): Refusal {
  try {
    run()
  } catch (error) {
    if (isRefusal(error)) return error
    throw error
  }
  throw new Error('nothing was refused')
}

const image = { type: 'image', source: { type: 'base64', media_type: 'image/png', data: 'AAAA' } }
const tool = { name: 'look', description: 'Looks.', input_schema: { type: 'object', properties: {} } }
const user = (...content: object[]) => ({ role: 'user', content })
const assistant = (...content: object[]) => ({ role: 'assistant', content })
const call = (id: string, more: object = {}) => ({ type: 'tool_use', id, name: 'look', input: { at: id }, ...more })
const result = (tool_use_id: string, content?: unknown, more: object = {}) => ({
  type: 'tool_result',
  tool_use_id,
  ...(content === undefined ? {} : { content }),
  ...more,
})

describe('what is refused, with its place', () => {
  test.each<[object, string, string, string]>([
    [
      { max_tokens: undefined },
      'missing_required_parameter',
      'max_tokens',
      "Missing required parameter: 'max_tokens'.",
    ],
    [{ messages: undefined }, 'missing_required_parameter', 'messages', 'messages'],
    [{ messages: [], system: 'Be brief.' }, 'invalid_value', 'messages', 'it has 0 items'],
    [{ messages: 'Hi' }, 'invalid_type', 'messages', 'expected an array, but got a string'],
    [{ messages: ['Hi'] }, 'invalid_type', 'messages[0]', 'expected an object'],
    [
      { messages: [{ role: 'tool', content: 'a' }] },
      'invalid_value',
      'messages[0].role',
      `"tool" is not one of 'user'`,
    ],
    [{ messages: [{ role: 'user' }] }, 'missing_required_parameter', 'messages[0].content', 'messages[0].content'],
    [{ messages: [user()] }, 'invalid_value', 'messages[0].content', 'it has 0 items'],
    [{ messages: [user({ text: 'a' })] }, 'missing_required_parameter', 'messages[0].content[0].type', 'type'],
    [{ messages: [user({ type: 'text' })] }, 'missing_required_parameter', 'messages[0].content[0].text', 'text'],
    [{ messages: [user(call('a'))] }, 'unsupported_parameter', 'messages[0].content[0].type', 'the type "tool_use"'],
    [
      { messages: [user({ type: 'container_upload', file_id: 'f' })] },
      'unsupported_parameter',
      'messages[0].content[0].type',
      'container_upload',
    ],
    [
      { messages: [...HI, assistant({ type: 'server_tool_use', id: 'a', name: 'web_fetch', input: {} })] },
      'unsupported_parameter',
      'messages[1].content[0].type',
      'server_tool_use',
    ],
    [
      { messages: [...HI, assistant(call('a', { input: 'x' }))] },
      'invalid_type',
      'messages[1].content[0].input',
      'expected an object',
    ],
    [
      { messages: [user({ ...image, source: { type: 'file', file_id: 'f' } })] },
      'unsupported_parameter',
      'messages[0].content[0].source.type',
      'Send its bytes',
    ],
    [
      { messages: [user({ ...image, source: { type: 'base64', data: 'A' } })] },
      'missing_required_parameter',
      'messages[0].content[0].source.media_type',
      'media_type',
    ],
    [
      { messages: [user(result('a', [{ type: 'document', source: { type: 'disk' } }]))] },
      'invalid_value',
      'messages[0].content[0].content[0].source.type',
      `"disk" is not one of 'base64'`,
    ],
    [{ system: [image] }, 'invalid_value', 'system[0].type', `"image" is not one of 'text'`],
    [{ system: 5 }, 'invalid_type', 'system', 'expected an array, but got a number'],
    [
      { tools: [{ type: 'web_fetch_20250910', name: 'web_fetch' }] },
      'unsupported_parameter',
      'tools[0].type',
      `tools[0] has the type "web_fetch_20250910": of the tools that Anthropic runs the gateway carries web_search alone`,
    ],
    [{ tools: [{ type: 'mcp_toolset' }] }, 'unsupported_parameter', 'tools[0].type', 'has the type "mcp_toolset"'],
    ...['funtion', 'bsh_20250124', 'bash'].map((type): [object, string, string, string] => [
      { tools: [tool, { ...tool, type }] },
      'invalid_value',
      'tools[1].type',
      `'tools[1].type': "${type}" is not one of 'custom', 'bash_YYYYMMDD', 'text_editor_YYYYMMDD', 'memory_YYYYMMDD'.`,
    ]),
    [
      { tools: [{ ...tool, type: 'cutsom' }] },
      'invalid_value',
      'tools[0].type',
      `'memory_YYYYMMDD'. Did you mean 'custom'?`,
    ],
    [
      { tools: [tool, { type: 'web_search_20260209', name: 'web_search' }] },
      'unsupported_parameter',
      'tools[1].allowed_callers',
      "Send 'allowed_callers': ['direct']",
    ],
    [
      { tools: [{ type: 'web_search_20250305', name: 'web_search', max_uses: 0 }] },
      'invalid_value',
      'tools[0].max_uses',
      'it must be an integer from 1 on',
    ],
    [{ tools: [{ type: 'web_search_20250305' }] }, 'missing_required_parameter', 'tools[0].name', 'tools[0].name'],
    [{ tools: [{ type: 'bash_20250124' }] }, 'missing_required_parameter', 'tools[0].name', 'tools[0].name'],
    [{ tools: [tool, { name: 'b' }] }, 'missing_required_parameter', 'tools[1].input_schema', 'input_schema'],
    [{ tools: [tool], tool_choice: { type: 'some' } }, 'invalid_value', 'tool_choice.type', `"some" is not one of`],
    [{ tools: [tool], tool_choice: { type: 'tool' } }, 'missing_required_parameter', 'tool_choice.name', 'name'],
    [{ tool_choice: { type: 'any' } }, 'invalid_value', 'tool_choice', 'there are no tools'],
    [{ thinking: { type: 'deep' } }, 'invalid_value', 'thinking.type', `"deep" is not one of 'enabled'`],
    [{ thinking: { type: 'enabled' } }, 'missing_required_parameter', 'thinking.budget_tokens', 'budget_tokens'],
    [{ output_config: { effort: 'huge' } }, 'invalid_value', 'output_config.effort', `"huge" is not one of 'low'`],
    [
      { output_config: { format: { type: 'xml' } } },
      'invalid_value',
      'output_config.format.type',
      `is not one of 'json_schema'`,
    ],
    [
      { stop_sequences: ['a', 'b', 'c', 'd', 'e'] },
      'invalid_value',
      'stop_sequences',
      'it has 5 items, and this gateway takes 4 at most',
    ],
    [{ service_tier: 'gold' }, 'invalid_value', 'service_tier', `"gold" is not one of 'auto', 'standard_only'`],
    [{ mcp_servers: [{ url: 'x' }] }, 'unsupported_parameter', 'mcp_servers', 'Let the client call them'],
    [{ container: 'c_1' }, 'unsupported_parameter', 'container', 'Anthropic runs code'],
    [{ inference_geo: 'us' }, 'unsupported_parameter', 'inference_geo', 'choose a model'],
    [{ thread: { type: 'create' } }, 'unsupported_parameter', 'thread', "Send all of its 'messages'"],
    [{ temprature: 1 }, 'unknown_parameter', 'temprature', "Unknown parameter: 'temprature'."],
    [{ 'a\nb': 1 }, 'unknown_parameter', '["a\\nb"]', '["a\\nb"]'],
  ])('%j', (fields, code, param, sentence) => {
    const refusal = refusalOf(() => bodyOf(fields))
    expect(refusal).toMatchObject({ code, param, status: 400 })
    expect(refusal.message).toContain(sentence)
    expect(refusal.message).toMatch(/^[A-Za-z'][^\n]*[.?]$/)
  })

  test.each([null, [], 'Hi', 5])('a body that is %j', body => {
    const refusal = refusalOf(() => messagesInbound.decodeRequest(body, VIEW))
    expect(refusal).toMatchObject({ code: 'invalid_type', message: 'The body must be a JSON object.' })
  })
})

describe('parameters', () => {
  const rest = (fields: object, view: object = {}) => {
    const { messages: _messages, model: _model, max_tokens: _cap, ...others } = bodyOf(fields, view)
    return others
  }

  test('the least request', () => {
    expect(bodyOf({})).toEqual({ model: 'chat-small', messages: HI, max_tokens: 100 })
  })

  test.each<[object, object]>([
    [
      { temperature: 1, top_p: 0.5, top_k: 40 },
      { temperature: 1, top_p: 0.5, top_k: 40 },
    ],
    [{ stream: true }, { stream: true, stream_options: { include_usage: true } }],
    [{ stream: false }, { stream: false }],
    [{ stop_sequences: ['END', '\n\n'] }, { stop: ['END', '\n\n'] }],
    [{ stop_sequences: [] }, {}],
    [{ metadata: { user_id: 'u-1' } }, { user: 'u-1' }],
    [{ metadata: { user_id: null } }, {}],
    [{ metadata: { user_id: 'u'.repeat(65) } }, { user: expect.stringMatching(/^[0-9a-f]{64}$/) }],
    [{ service_tier: 'auto' }, {}],
    [{ service_tier: 'standard_only' }, { service_tier: 'default' }],
    [{ mcp_servers: [], container: null, inference_geo: null }, {}],
    [Object.fromEntries(IGNORED.map(name => [name, { any: 'thing' }])), {}],
  ])('%j', (fields, canonical) => {
    expect(rest(fields)).toEqual(canonical)
  })

  test.each<[object, string | undefined]>([
    [{}, undefined],
    [{ thinking: { type: 'disabled' } }, 'none'],
    [{ thinking: { type: 'disabled' }, output_config: { effort: 'high' } }, 'none'],
    [{ thinking: { type: 'adaptive' } }, 'high'],
    [{ thinking: { type: 'adaptive', display: 'omitted' }, output_config: { effort: 'xhigh' } }, 'xhigh'],
    [{ output_config: { effort: 'max' } }, 'max'],
    [{ thinking: { type: 'enabled', budget_tokens: 1024 } }, 'low'],
    [{ thinking: { type: 'enabled', budget_tokens: 8191 } }, 'low'],
    [{ thinking: { type: 'enabled', budget_tokens: 8192 } }, 'medium'],
    [{ thinking: { type: 'enabled', budget_tokens: 31_999 } }, 'high'],
    [{ thinking: { type: 'enabled', budget_tokens: 31_999 }, output_config: { effort: 'low' } }, 'low'],
  ])('%j is an effort of %s', (fields, effort) => {
    expect(bodyOf(fields).reasoning_effort).toBe(effort)
  })

  test.each([
    [32_000, 'chat-small', 1000],
    [1000, 'chat-small', 1000],
    [7, 'chat-small', 7],
    [32_000, 'thinker', 8192],
    [32_000, 'unknown', 32_000],
    ['many', 'chat-small', 'many'],
    [1.5, 'chat-small', 1.5],
  ])('a cap of %s at %s', (max_tokens, model, cap) => {
    expect(bodyOf({ max_tokens, model }, { findModel }).max_tokens).toBe(cap)
    expect(bodyOf({ max_tokens, model }).max_tokens).toBe(max_tokens)
  })

  const closed = {
    type: 'object',
    properties: { a: { type: 'array', items: { type: 'object', properties: {}, additionalProperties: false } } },
    required: ['a'],
    additionalProperties: false,
  }
  test.each<[string, object, boolean]>([
    ['closed', closed, true],
    ['open', { ...closed, additionalProperties: true }, false],
    ['with an optional member', { ...closed, required: [] }, false],
    ['open further in', { ...closed, properties: { a: { type: 'object' } } }, false],
  ])('a schema that is %s', (_name, schema, strict) => {
    const response_format = { type: 'json_schema', json_schema: { name: 'answer', schema, strict } }
    expect(rest({ output_config: { format: { type: 'json_schema', schema } } })).toEqual({ response_format })
    expect(rest({ output_format: { type: 'json_schema', schema } })).toEqual({ response_format })
  })

  test('tools', () => {
    const extras = { cache_control: { type: 'ephemeral' }, defer_loading: true, input_examples: [{}], type: 'custom' }
    expect(
      rest({
        tools: [
          { ...tool, ...extras },
          { ...tool, name: 'b', strict: true, description: undefined },
        ],
      }),
    ).toEqual({
      tools: [
        {
          type: 'function',
          function: { name: 'look', description: 'Looks.', parameters: tool.input_schema },
          cache_control: { type: 'ephemeral' },
        },
        { type: 'function', function: { name: 'b', parameters: tool.input_schema, strict: true } },
      ],
    })
    expect(rest({ tools: [], tool_choice: { type: 'auto' } })).toEqual({})
  })

  test.each<[object, object]>([
    [{ type: 'auto' }, { tool_choice: 'auto' }],
    [{ type: 'any' }, { tool_choice: 'required' }],
    [{ type: 'none' }, { tool_choice: 'none' }],
    [{ type: 'tool', name: 'look' }, { tool_choice: { type: 'function', function: { name: 'look' } } }],
    [
      { type: 'auto', disable_parallel_tool_use: true },
      { tool_choice: 'auto', parallel_tool_calls: false },
    ],
    [{ type: 'any', disable_parallel_tool_use: false }, { tool_choice: 'required' }],
  ])('tool_choice %j', (tool_choice, canonical) => {
    const { tools: _tools, ...others } = rest({ tools: [tool], tool_choice })
    expect(others).toEqual(canonical)
  })
})

describe('messages', () => {
  test('system texts stand in front, and where they were said', () => {
    const system = [
      { type: 'text', text: 'Be brief.' },
      { type: 'text', text: 'Be kind.' },
    ]
    expect(bodyOf({ system, messages: [...HI, { role: 'system', content: 'Now be long.' }] }).messages).toEqual([
      { role: 'system', content: 'Be brief.\n\nBe kind.' },
      HI[0],
      { role: 'system', content: 'Now be long.' },
    ])
    expect(bodyOf({ system: 'Be.' }).messages[0]).toEqual({ role: 'system', content: 'Be.' })
    expect(bodyOf({ system: [] }).messages).toEqual(HI)
  })

  test('one text is a string, several are parts', () => {
    const text = (text: string) => ({ type: 'text', text })
    expect(messagesOf(user(text('a')), assistant(text('b')))).toEqual([
      { role: 'user', content: 'a' },
      { role: 'assistant', content: 'b' },
    ])
    expect(messagesOf(user(text('a'), text('b')), assistant(text('c'), text(''), text('d')))).toEqual([
      { role: 'user', content: [text('a'), text('b')] },
      { role: 'assistant', content: [text('c'), text('d')] },
    ])
    expect(messagesOf({ role: 'assistant', content: [] })).toEqual([{ role: 'assistant', content: '' }])
  })

  const pdf = { type: 'base64', media_type: 'application/pdf', data: 'JVBE' }
  test.each<[object, unknown]>([
    [image, [{ type: 'image_url', image_url: { url: 'data:image/png;base64,AAAA' } }]],
    [
      { type: 'image', source: { type: 'url', url: 'https://example.com/a.png' } },
      [{ type: 'image_url', image_url: { url: 'https://example.com/a.png' } }],
    ],
    [
      { type: 'document', source: pdf, title: 'a.pdf', citations: { enabled: false } },
      [{ type: 'file', file: { filename: 'a.pdf', file_data: 'data:application/pdf;base64,JVBE' } }],
    ],
    [
      { type: 'document', source: { type: 'url', url: 'https://example.com/a.pdf' }, context: 'Old.' },
      [
        { type: 'text', text: 'Old.' },
        { type: 'file', file: { filename: 'document.pdf', file_data: 'https://example.com/a.pdf' } },
      ],
    ],
    [
      { type: 'document', source: { type: 'text', media_type: 'text/plain', data: 'Once.' }, title: 'Tale' },
      'Document: Tale\n\nOnce.',
    ],
    [
      { type: 'document', source: { type: 'content', content: [{ type: 'text', text: 'x' }, image] }, title: 'T' },
      [
        { type: 'text', text: 'Document: T' },
        { type: 'text', text: 'x' },
        { type: 'image_url', image_url: { url: 'data:image/png;base64,AAAA' } },
      ],
    ],
    [
      { type: 'search_result', title: 'T', source: 'S', content: [{ type: 'text', text: 'x' }] },
      'Search result: T\nSource: S\n\nx',
    ],
  ])('%j', (block, content) => {
    expect(messagesOf(user(block))).toEqual([{ role: 'user', content }])
  })

  test('results of tools come first, each as a message; what else the user says follows', () => {
    const said = { type: 'text', text: 'Go on.' }
    expect(
      messagesOf(
        ...HI,
        assistant({ type: 'text', text: 'I look.' }, call('a'), call('b')),
        user(
          said,
          result('a', '1'),
          result('b', [
            { type: 'text', text: '2' },
            { type: 'text', text: '3' },
          ]),
        ),
      ),
    ).toEqual([
      HI[0],
      {
        role: 'assistant',
        content: 'I look.',
        tool_calls: ['a', 'b'].map(id => ({
          id,
          type: 'function',
          function: { name: 'look', arguments: JSON.stringify({ at: id }) },
        })),
      },
      { role: 'tool', tool_call_id: 'a', content: '1' },
      { role: 'tool', tool_call_id: 'b', content: '2\n3' },
      { role: 'user', content: 'Go on.' },
    ])
  })

  test('an assistant that only calls has no content', () => {
    expect(messagesOf(...HI, assistant(call('a')))[1]).toMatchObject({ content: null })
  })

  test.each<[string, object, string]>([
    ['that failed', result('a', 'No such file', { is_error: true }), '[The tool failed.]\nNo such file'],
    ['that failed without a word', result('a', undefined, { is_error: true }), '[The tool failed.]'],
    ['without a word', result('a'), ''],
    ['that names a tool', result('a', [{ type: 'tool_reference', tool_name: 'b' }]), "The tool 'b' is available."],
  ])('a result %s', (_name, block, content) => {
    expect(messagesOf(...HI, assistant(call('a')), user(block)).slice(2)).toEqual([
      { role: 'tool', tool_call_id: 'a', content },
    ])
  })

  test('what a result shows follows behind all results', () => {
    const shows = result('a', [{ type: 'text', text: 'Here.' }, image])
    const said = user(shows, result('b', '2'), { type: 'text', text: 'And now?' })
    expect(messagesOf(...HI, assistant(call('a'), call('b')), said).slice(2)).toEqual([
      { role: 'tool', tool_call_id: 'a', content: 'Here.\n[An attachment follows.]' },
      { role: 'tool', tool_call_id: 'b', content: '2' },
      {
        role: 'user',
        content: [
          { type: 'text', text: "Attached to the result of the tool 'look':" },
          { type: 'image_url', image_url: { url: 'data:image/png;base64,AAAA' } },
          { type: 'text', text: 'And now?' },
        ],
      },
    ])
  })

  test('thoughts with a signature are given back, others where their provider wants them', () => {
    const think = (thinking: string, signature?: string) => ({ type: 'thinking', thinking, signature })
    const sealed = { type: 'redacted_thinking', data: 'xyz' }
    expect(messagesOf(...HI, assistant(think('Hm', 's1'), sealed, call('a')))[1]).toMatchObject({
      reasoning_details: [
        { type: 'reasoning.text', text: 'Hm', signature: 's1' },
        { type: 'reasoning.encrypted', data: 'xyz' },
      ],
    })
    const plain = think('Hm', 'tollgate.field.reasoning_content')
    expect(messagesOf(...HI, assistant(plain, call('a')))[1]).toMatchObject({ reasoning_content: 'Hm' })
    expect(messagesOf(...HI, assistant(plain, { type: 'text', text: 'Hi' }))[1]).toEqual({
      role: 'assistant',
      content: 'Hi',
    })
    for (const lost of ['', undefined, 'tollgate.field.constructor', 'tollgate.detail.!!', 'tollgate.google.']) {
      expect(messagesOf(...HI, assistant(think('Hm', lost), call('a')))[1]).not.toHaveProperty('reasoning_details')
    }
  })
})

describe('generated requests', () => {
  const model = { id: 'chat-small', price: null, maxOutput: 1000, defaultOutput: 100, reasoning: false, allow: [] }
  const models = [model, { ...model, id: 'thinker', reasoning: true, maxOutput: 8192 }] as unknown as Model[]
  const catalog = {
    find: (id: string) => models.find(one => one.id === id && Object.assign(one, { public: true, enabled: true })),
    list: () => models,
  }
  const run = createSteps([{ use: schema }], { catalog })

  test('valid ones become bodies that the schema step takes', async () => {
    await fc.assert(
      fc.asyncProperty(anyRequest, async request => {
        const { body } = messagesInbound.decodeRequest(request, { ...VIEW, findModel })
        const { refusal } = await run({ body, route: { kind: 'messages' } })
        expect(refusal?.message).toBe(undefined)
      }),
      { numRuns: counts(300, 10_000) },
    )
  })

  test('broken ones are refused, never a bug', async () => {
    let refused = 0
    await fc.assert(
      fc.asyncProperty(anyRequest, fc.jsonValue(), fc.nat(), async (request, junk, at) => {
        const broken = brokenOnce({ ...LEAST, ...request }, at, junk)
        try {
          const { body } = messagesInbound.decodeRequest(broken, { ...VIEW, findModel })
          const { reports } = await run({ body, route: { kind: 'messages' } })
          expect(reports).toEqual([])
        } catch (error) {
          if (!isRefusal(error)) throw error
          refused++
          expect(error.message.length).toBeLessThan(300)
          expect(error.param).toEqual(expect.any(String))
        }
      }),
      { numRuns: counts(300, 10_000) },
    )
    expect(refused).toBeGreaterThan(counts(50, 1000))
  })
})
