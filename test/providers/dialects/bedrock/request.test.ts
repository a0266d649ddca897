import { describe, expect, test } from 'vitest'
import { isRefusal } from '#contract'
import { CLAUDE, CLOCK, calls, encode, NEW_CLAUDE, NOVA, result, USER, WEATHER } from './conversations.ts'

const SCHEMA = { type: 'object', properties: { a: { type: 'string' } }, additionalProperties: false }
const JSON_SCHEMA = { type: 'json_schema', json_schema: { name: 'thing', schema: SCHEMA, strict: true } }
const PNG = 'data:image/png;base64,iVBORw0KGgo='
const image = (url: string) => ({ role: 'user', content: [{ type: 'image_url', image_url: { url } }] })
const file = (file_data: string, filename?: string) => ({
  role: 'user',
  content: [{ type: 'file', file: { file_data, ...(filename === undefined ? {} : { filename }) } }],
})
const PDF = 'data:application/pdf;base64,JVBERi0='

/** How a request is refused. */
function refusal(body: object, model = CLAUDE): object {
  try {
    encode(body, model)
  } catch (error) {
    if (isRefusal(error)) return { code: error.code, param: error.param, message: error.message }
    throw error
  }
  throw new Error('it was not refused')
}

describe('what is refused', () => {
  test.each<[name: string, body: object, code: string, param: string, message: string, model?: string]>([
    ['several choices', { n: 2 }, 'unsupported_parameter', 'n', "'n' is 2"],
    ['sound', { modalities: ['text', 'audio'] }, 'unsupported_parameter', 'modalities', 'asks for sound'],
    ['a search', { web_search_options: {} }, 'unsupported_parameter', 'web_search_options', 'asks for a search'],
    [
      'a call where there are no tools',
      { tool_choice: 'required' },
      'invalid_value',
      'tool_choice',
      'asks for a call, but there are no tools',
    ],
    [
      'a call that the model cannot be made to do',
      { tools: [WEATHER], tool_choice: 'required' },
      'unsupported_parameter',
      'tool_choice',
      'cannot be made to do',
      'meta.llama3-1-70b-instruct-v1:0',
    ],
    [
      'an answer that has begun, where the model does not continue it',
      { messages: [USER, { role: 'assistant', content: 'So' }] },
      'unsupported_parameter',
      'messages[1]',
      'does not continue its own words',
      NEW_CLAUDE,
    ],
    [
      'an image by its address',
      { messages: [USER, { role: 'assistant', content: 'a' }, image('https://x.example/a.png')] },
      'unsupported_parameter',
      'messages[2]',
      'fetches none: send the content itself',
    ],
    [
      'a file by its address',
      { messages: [file('http://x.example/a.pdf')] },
      'unsupported_parameter',
      'messages[0]',
      'fetches none',
    ],
    [
      'an image of another kind',
      { messages: [image('data:image/tiff;base64,AA==')] },
      'invalid_value',
      'messages[0]',
      "'image/tiff'",
    ],
    [
      'a file of another kind',
      { messages: [file('data:application/zip;base64,AA==', 'a.zip')] },
      'invalid_value',
      'messages[0]',
      'It takes: pdf, csv,',
    ],
    [
      'a custom tool',
      { tools: [{ type: 'custom', custom: { name: 'x' } }] },
      'unsupported_parameter',
      'tools[0].type',
      "'custom'",
    ],
    [
      'a name that does not fit',
      { tools: [WEATHER, { type: 'function', function: { name: 'a.b' } }] },
      'invalid_value',
      'tools[1].function.name',
      '"a.b": this model\'s provider takes',
    ],
    [
      "the gateway's own name",
      { tools: [{ type: 'function', function: { name: 'tollgate_structured_answer' } }] },
      'invalid_value',
      'tools[0].function.name',
      'the gateway uses that name',
    ],
    [
      'a choice that is no tool',
      { tools: [WEATHER], tool_choice: { type: 'function', function: { name: 'x' } } },
      'invalid_value',
      'tool_choice',
      "'x'",
    ],
    [
      'a schema that nothing enforces',
      { response_format: JSON_SCHEMA },
      'unsupported_parameter',
      'response_format',
      "'amazon.titan-text-express-v1'",
      'amazon.titan-text-express-v1',
    ],
    [
      'arguments that are none',
      { messages: [USER, calls('a', 'weather', '[1]')] },
      'invalid_value',
      'messages[1].tool_calls[0].function.arguments',
      'no JSON object',
    ],
    [
      'messages without any text',
      { messages: [{ role: 'user', content: ' ' }] },
      'invalid_value',
      'messages',
      'none of them has any text',
    ],
  ])('%s', (_name, body, code, param, message, model) => {
    expect(refusal(body, model)).toMatchObject({ code, param, message: expect.stringContaining(message) })
  })
})

describe('path and headers', () => {
  test.each([
    [CLAUDE, false, '/model/us.anthropic.claude-sonnet-4-5-20250929-v1%3A0/converse', 'application/json'],
    [NOVA, true, '/model/amazon.nova-lite-v1%3A0/converse-stream', 'application/vnd.amazon.eventstream'],
    [
      'arn:aws:bedrock:us-east-1:123456789012:application-inference-profile/abc123',
      false,
      '/model/arn%3Aaws%3Abedrock%3Aus-east-1%3A123456789012%3Aapplication-inference-profile%2Fabc123/converse',
      'application/json',
    ],
  ])('%s, in a stream: %s', (model, stream, path, accept) => {
    expect(encode({ stream }, model)).toMatchObject({ path, headers: { accept } })
  })
})

describe('messages', () => {
  const image1 = { image: { format: 'png', source: { bytes: 'iVBORw0KGgo=' } } }
  const document1 = { format: 'pdf', source: { bytes: 'JVBERi0=' } }
  const call1 = { toolUse: { toolUseId: 'a', name: 'weather', input: { city: 'Bonn' } } }
  const thought = { type: 'reasoning.text', text: 'hm', signature: 'sig' }
  const user = (...content: object[]) => ({ role: 'user', content })
  const assistant = (...content: object[]) => ({ role: 'assistant', content })
  const said = (id: string, text: string) => ({ toolResult: { toolUseId: id, content: [{ text }] } })

  test.each<[name: string, messages: object[], sent: object, model?: string]>([
    [
      'system and developer texts apart, blank ones left out',
      [
        { role: 'system', content: 'A' },
        USER,
        { role: 'developer', content: [{ type: 'text', text: 'B' }] },
        { role: 'system', content: ' ' },
      ],
      { system: [{ text: 'A' }, { text: 'B' }], messages: [user({ text: 'hi' })] },
    ],
    [
      'a model without system messages has their text before the first one',
      [{ role: 'system', content: 'A' }, USER],
      { messages: [user({ text: 'A' }, { text: 'hi' })] },
      'amazon.titan-text-express-v1',
    ],
    [
      'system text alone is what the user says',
      [{ role: 'system', content: 'A' }],
      { messages: [user({ text: 'A' })] },
    ],
    [
      'neighbours of one side are one message',
      [
        USER,
        { role: 'user', content: 'you' },
        { role: 'assistant', content: 'x' },
        { role: 'assistant', content: 'y' },
      ],
      { messages: [user({ text: 'hi' }, { text: 'you' }), assistant({ text: 'x' }, { text: 'y' })] },
    ],
    [
      'who speaks first is the user',
      [{ role: 'assistant', content: 'Welcome' }, USER],
      {
        messages: [user({ text: '(The conversation begins.)' }), assistant({ text: 'Welcome' }), user({ text: 'hi' })],
      },
    ],
    [
      'the beginning of an answer ends in no blank',
      [USER, { role: 'assistant', content: 'So \n' }],
      { messages: [user({ text: 'hi' }), assistant({ text: 'So' })] },
    ],
    [
      'an image',
      [
        {
          role: 'user',
          content: [
            { type: 'text', text: 'see' },
            { type: 'image_url', image_url: { url: PNG } },
          ],
        },
      ],
      { messages: [user({ text: 'see' }, image1)] },
    ],
    [
      'an image of a wrong name',
      [image(PNG.replace('png', 'jpg'))],
      { messages: [user({ image: { ...image1.image, format: 'jpeg' } })] },
    ],
    [
      'sound',
      [{ role: 'user', content: [{ type: 'input_audio', input_audio: { format: 'wav', data: 'UklGRg==' } }] }],
      { messages: [user({ audio: { format: 'wav', source: { bytes: 'UklGRg==' } } })] },
    ],
    [
      'documents have names that fit and differ, and a text beside them',
      [file(PDF, 'Größe  (2)_x.pdf'), file(PDF, 'Gr??e (2) x.pdf'), file(PDF)],
      {
        messages: [
          user(
            { document: { ...document1, name: 'Gr e (2) x' } },
            { document: { ...document1, name: 'Gr e (2) x 2' } },
            { document: { ...document1, name: 'document' } },
            { text: 'Gr e (2) x' },
          ),
        ],
      },
    ],
    [
      'a document whose type says nothing goes by its name',
      [file('data:application/octet-stream;base64,AA==', 'notes.MD'), USER],
      { messages: [user({ document: { format: 'md', name: 'notes', source: { bytes: 'AA==' } } }, { text: 'hi' })] },
    ],
    [
      'the results of parallel calls are one message, before what the user adds',
      [
        USER,
        {
          role: 'assistant',
          content: 'Let me see',
          tool_calls: [...calls('a').tool_calls, ...calls('b', 'clock', '').tool_calls],
        },
        result('a', 'rain'),
        { role: 'user', content: 'quick' },
        result('b', ' '),
      ],
      {
        messages: [
          user({ text: 'hi' }),
          assistant({ text: 'Let me see' }, call1, { toolUse: { toolUseId: 'b', name: 'clock', input: {} } }),
          user(said('a', 'rain'), said('b', '(no output)'), { text: 'quick' }),
        ],
      },
    ],
    [
      'ids that do not fit are others, the same in call and result',
      [USER, calls('a/b ü'), result('a/b ü', 'x')],
      {
        messages: [
          user({ text: 'hi' }),
          assistant({ toolUse: { ...call1.toolUse, toolUseId: 'df2cd2d5a3119ca2574bc3a058836cc0' } }),
          user(said('df2cd2d5a3119ca2574bc3a058836cc0', 'x')),
        ],
      },
    ],
    [
      'Mistral takes nine letters and digits',
      [USER, calls('tooluse_abcdefgh'), result('tooluse_abcdefgh', 'x')],
      {
        messages: [
          user({ text: 'hi' }),
          assistant({ toolUse: { ...call1.toolUse, toolUseId: '182b02dc2' } }),
          user(said('182b02dc2', 'x')),
        ],
      },
      'mistral.mistral-large-2402-v1:0',
    ],
    [
      'a tool of an earlier day gets a name that fits',
      [USER, calls('a', 'my.tool ü'), result('a', 'x')],
      {
        messages: [
          user({ text: 'hi' }),
          assistant({ toolUse: { ...call1.toolUse, name: 'my_tool__' } }),
          user(said('a', 'x')),
        ],
      },
    ],
    [
      'signed and sealed thoughts go back, before what they led to',
      [
        USER,
        calls('a', 'weather', '{"city":"Bonn"}', {
          reasoning_details: [thought, { type: 'reasoning.encrypted', data: 'AAAA' }],
        }),
        result('a', 'x'),
      ],
      {
        messages: [
          user({ text: 'hi' }),
          assistant(
            { reasoningContent: { reasoningText: { text: 'hm', signature: 'sig' } } },
            { reasoningContent: { redactedContent: 'AAAA' } },
            call1,
          ),
          user(said('a', 'x')),
        ],
      },
    ],
    [
      'thoughts are left out for who takes none',
      [USER, { role: 'assistant', content: 'x', reasoning_details: [thought] }, { role: 'assistant', content: '' }],
      { messages: [user({ text: 'hi' }), assistant({ text: 'x' })] },
      NOVA,
    ],
    [
      'thoughts alone are no message',
      [USER, { role: 'assistant', content: null, reasoning_details: [thought] }, { role: 'user', content: 'well?' }],
      { messages: [user({ text: 'hi' }, { text: 'well?' })] },
    ],
  ])('%s', (_name, messages, sent, model) => {
    const { inferenceConfig: _, toolConfig: __, ...rest } = encode({ messages }, model).sent
    expect(rest).toEqual(sent)
  })
})

describe('parameters', () => {
  test.each<[name: string, body: object, sent: object, dropped: string[], model?: string]>([
    ['the cap is always sent', {}, { inferenceConfig: { maxTokens: 3000 } }, []],
    [
      'the client never raises it',
      { max_completion_tokens: 9000, max_tokens: 9000 },
      { inferenceConfig: { maxTokens: 3000 } },
      [],
    ],
    [
      'sampling and stops',
      { temperature: 0.5, top_p: 0.9, stop: ['a', '\n\n', ''] },
      { inferenceConfig: { maxTokens: 3000, temperature: 0.5, topP: 0.9, stopSequences: ['a', '\n\n'] } },
      [],
      NOVA,
    ],
    [
      'a temperature beyond 1 is 1',
      { temperature: 1.7 },
      { inferenceConfig: { maxTokens: 3000, temperature: 1 } },
      ['temperature'],
      NOVA,
    ],
    [
      'Claude 4.5 takes one of two',
      { temperature: 0.5, top_p: 0.9 },
      { inferenceConfig: { maxTokens: 3000, temperature: 0.5 } },
      ['top_p'],
    ],
    ['… and that may be top_p', { top_p: 0.9 }, { inferenceConfig: { maxTokens: 3000, topP: 0.9 } }, []],
    [
      'newer Claude takes none',
      { temperature: 0.5, top_p: 0.9 },
      { inferenceConfig: { maxTokens: 3000 } },
      ['temperature', 'top_p'],
      NEW_CLAUDE,
    ],
    ['Claude takes no stops of blanks', { stop: '\n\n' }, { inferenceConfig: { maxTokens: 3000 } }, ['stop']],
    [
      'metadata that fits',
      { metadata: { team: 'a b' }, service_tier: 'flex' },
      { inferenceConfig: { maxTokens: 3000 }, requestMetadata: { team: 'a b' }, serviceTier: { type: 'flex' } },
      [],
    ],
    [
      'metadata that does not',
      { metadata: { team: 'ü' }, service_tier: 'scale' },
      { inferenceConfig: { maxTokens: 3000 } },
      ['metadata', 'service_tier'],
    ],
    [
      'what nobody there knows',
      {
        seed: 1,
        logit_bias: { 1: 1 },
        frequency_penalty: 1,
        presence_penalty: 0,
        logprobs: true,
        user: 'x',
        parallel_tool_calls: false,
      },
      { inferenceConfig: { maxTokens: 3000 } },
      ['seed', 'logit_bias', 'frequency_penalty', 'logprobs', 'user', 'parallel_tool_calls'],
    ],
    [
      'a schema is sent as text',
      { response_format: JSON_SCHEMA },
      {
        inferenceConfig: { maxTokens: 3000 },
        outputConfig: {
          textFormat: {
            type: 'json_schema',
            structure: { jsonSchema: { name: 'thing', schema: JSON.stringify(SCHEMA) } },
          },
        },
      },
      [],
    ],
    [
      'a schema where only tools have one',
      { response_format: JSON_SCHEMA, tools: [WEATHER] },
      {
        inferenceConfig: { maxTokens: 3000 },
        toolConfig: {
          toolChoice: { any: {} },
          tools: [
            { toolSpec: expect.objectContaining({ name: 'weather' }) },
            {
              toolSpec: expect.objectContaining({ name: 'tollgate_structured_answer', inputSchema: { json: SCHEMA } }),
            },
          ],
        },
      },
      [],
      NOVA,
    ],
    [
      'a schema that Claude cannot be held to in all',
      {
        response_format: {
          type: 'json_schema',
          json_schema: { name: 'n', schema: { type: 'object', properties: { a: { type: 'number', minimum: 1 } } } },
        },
      },
      { inferenceConfig: { maxTokens: 3000 }, outputConfig: expect.anything() },
      ['response_format.json_schema.schema.minimum'],
    ],
    [
      'a temperature of 1 says nothing',
      { temperature: 1, top_p: 1 },
      { inferenceConfig: { maxTokens: 3000 } },
      [],
      NEW_CLAUDE,
    ],
    [
      'JSON without a schema is asked for in words',
      { response_format: { type: 'json_object' } },
      { system: [{ text: expect.stringContaining('one JSON object') }], inferenceConfig: { maxTokens: 3000 } },
      ['response_format'],
    ],
  ])('%s', (_name, body, expected, dropped, model) => {
    const request = encode(body, model)
    const { messages: _, ...rest } = request.sent
    expect(rest).toEqual(expected)
    expect(request.dropped).toEqual(dropped)
  })

  test('JSON in words, for a model without system messages', () => {
    const { sent } = encode({ response_format: { type: 'json_object' } }, 'amazon.titan-text-lite-v1')
    expect(sent.messages[0]!.content).toEqual([{ text: expect.stringContaining('one JSON object') }, { text: 'hi' }])
    expect(sent.system).toBeUndefined()
  })
})

describe('tools', () => {
  const weather = {
    toolSpec: { name: 'weather', description: 'The weather.', inputSchema: { json: WEATHER.function.parameters } },
  }
  const clock = { toolSpec: { name: 'clock', inputSchema: { json: { type: 'object', properties: {} } } } }
  const retired = {
    toolSpec: {
      name: 'weather',
      description: expect.stringContaining('do not call'),
      inputSchema: { json: expect.anything() },
    },
  }
  const history = { messages: [USER, calls('a'), result('a', 'x')] }
  const both = { tools: [WEATHER, CLOCK] }
  const named = { type: 'function', function: { name: 'clock' } }
  const allowed = (mode: string) => ({ type: 'allowed_tools', allowed_tools: { mode, tools: [named] } })
  const MISTRAL = 'mistral.mistral-large-2402-v1:0'

  test.each<[name: string, body: object, toolConfig: object | undefined, dropped: string[], model?: string]>([
    ['both are sent, and auto is not said', { ...both, tool_choice: 'auto' }, { tools: [weather, clock] }, []],
    [
      'the older names',
      { functions: [WEATHER.function], function_call: { name: 'weather' } },
      { tools: [weather], toolChoice: { any: {} } },
      [],
    ],
    ['required', { ...both, tool_choice: 'required' }, { tools: [weather, clock], toolChoice: { any: {} } }, []],
    [
      'a named one',
      { ...both, tool_choice: named },
      { tools: [weather, clock], toolChoice: { tool: { name: 'clock' } } },
      [],
    ],
    [
      'a named one where none can be named',
      { ...both, tool_choice: named },
      { tools: [clock], toolChoice: { any: {} } },
      [],
      MISTRAL,
    ],
    ['allowed ones', { ...both, tool_choice: allowed('auto') }, { tools: [clock] }, []],
    [
      'allowed ones, one of which must be',
      { ...both, tool_choice: allowed('required') },
      { tools: [clock], toolChoice: { any: {} } },
      [],
      MISTRAL,
    ],
    ['none', { ...both, tool_choice: 'none' }, undefined, []],
    [
      'none, with calls in the conversation',
      { ...history, ...both, tool_choice: 'none' },
      { tools: [retired] },
      ['tool_choice'],
    ],
    ['calls in the conversation and no tools any more', history, { tools: [retired] }, []],
    ['none at all', {}, undefined, []],
    [
      'strict ones',
      { tools: [{ type: 'function', function: { ...CLOCK.function, strict: true } }] },
      {
        tools: [
          {
            toolSpec: {
              ...clock.toolSpec,
              inputSchema: { json: { type: 'object', properties: {}, additionalProperties: false } },
              strict: true,
            },
          },
        ],
      },
      [],
    ],
    [
      'strict ones where nothing makes them so',
      { tools: [{ type: 'function', function: { ...CLOCK.function, strict: true, description: ' ' } }] },
      { tools: [clock] },
      ['tools.function.strict'],
      NOVA,
    ],
  ])('%s', (_name, body, toolConfig, dropped, model) => {
    const request = encode(body, model)
    expect(request.sent.toolConfig).toEqual(toolConfig)
    expect(request.dropped).toEqual(dropped)
  })
})

describe('thinking', () => {
  const thought = { reasoning_details: [{ type: 'reasoning.text', text: 'hm', signature: 's' }] }
  const loop = (more: object) => ({
    tools: [WEATHER],
    messages: [USER, calls('a', 'weather', '{}', more), result('a', 'x')],
  })
  const budget = (budget_tokens: number) => ({ thinking: { type: 'enabled', budget_tokens } })
  const adaptive = (effort: string) => ({
    thinking: { type: 'adaptive', display: 'summarized' },
    output_config: { effort },
  })
  const off = { thinking: { type: 'disabled' } }

  test.each<
    [model: string, effort: string | null, fields: object | undefined, dropped: string[], more?: object, cap?: number]
  >([
    [CLAUDE, null, undefined, []],
    [CLAUDE, 'none', undefined, []],
    [CLAUDE, 'minimal', budget(1024), []],
    [CLAUDE, 'low', budget(2048), []],
    [CLAUDE, 'low', budget(2048), [], {}, 64_000],
    [CLAUDE, 'high', budget(16_384), [], {}, 64_000],
    [CLAUDE, 'max', budget(51_200), [], {}, 64_000],
    [CLAUDE, 'high', budget(1024), [], {}, 1025],
    [CLAUDE, 'high', undefined, ['reasoning_effort'], {}, 1024],
    [CLAUDE, 'low', undefined, ['reasoning_effort'], { tools: [WEATHER], tool_choice: 'required' }],
    [CLAUDE, 'low', undefined, ['reasoning_effort'], loop({})],
    [CLAUDE, 'low', budget(2048), [], loop(thought)],
    ['anthropic.claude-3-5-sonnet-20241022-v2:0', 'low', undefined, ['reasoning_effort']],
    ['anthropic.claude-3-7-sonnet-20250219-v1:0', 'low', budget(2048), []],
    ['us.anthropic.claude-opus-4-1-20250805-v1:0', 'low', budget(2048), []],
    ['us.anthropic.claude-sonnet-4-20250514-v1:0', 'low', budget(2048), []],
    ['us.anthropic.claude-opus-4-6-v1', 'xhigh', adaptive('max'), []],
    ['us.anthropic.claude-opus-4-6-v1', 'low', adaptive('low'), [], loop({})],
    ['us.anthropic.claude-opus-4-8', 'xhigh', adaptive('xhigh'), []],
    ['us.anthropic.claude-opus-4-8', 'low', off, ['reasoning_effort'], { tools: [WEATHER], tool_choice: 'required' }],
    [NEW_CLAUDE, 'minimal', adaptive('low'), []],
    [NEW_CLAUDE, 'none', off, []],
    [NEW_CLAUDE, null, off, [], { tools: [WEATHER], tool_choice: 'required' }],
    ['anthropic.claude-nobody-knows-9', 'high', adaptive('high'), []],
    [NOVA, 'high', undefined, ['reasoning_effort']],
    ['us.amazon.nova-2-lite-v1:0', 'minimal', { reasoningConfig: { type: 'enabled', maxReasoningEffort: 'low' } }, []],
    ['us.amazon.nova-2-lite-v1:0', 'high', { reasoningConfig: { type: 'enabled', maxReasoningEffort: 'medium' } }, []],
    ['us.amazon.nova-2-lite-v1:0', 'none', undefined, []],
    ['openai.gpt-oss-120b-1:0', 'xhigh', { reasoning_effort: 'high' }, []],
    ['openai.gpt-oss-120b-1:0', 'none', undefined, ['reasoning_effort']],
    ['qwen.qwen3-32b-v1:0', 'high', { reasoning_config: 'high' }, []],
    ['us.deepseek.r1-v1:0', 'none', undefined, ['reasoning_effort']],
    ['meta.llama3-2-1b-instruct-v1:0', 'none', undefined, []],
  ])('%s asked for %s', (model, effort, fields, dropped, more = {}, cap = 3000) => {
    const request = encode({ ...more, reasoning_effort: effort }, model, cap)
    expect(request.sent.additionalModelRequestFields).toEqual(fields)
    expect(request.dropped).toEqual(dropped)
    expect(request.sent.inferenceConfig['maxTokens']).toBe(cap)
  })

  test('nobody thinks before an answer that has begun', () => {
    const messages = [USER, { role: 'assistant', content: 'So' }]
    expect(encode({ messages, reasoning_effort: 'low' }).dropped).toEqual(['reasoning_effort'])
  })

  test('an effort leaves no say over the sampling', () => {
    const model = 'us.anthropic.claude-opus-4-6-v1'
    const { sent, dropped } = encode({ reasoning_effort: 'low', temperature: 0.5, top_p: 0.5, top_k: 5 }, model)
    expect(sent.inferenceConfig).toEqual({ maxTokens: 3000 })
    expect(sent.additionalModelRequestFields).toHaveProperty('thinking')
    expect(dropped).toEqual(['temperature', 'top_p', 'top_k'])
  })

  test.each([
    [CLAUDE, { top_k: 5 }, []],
    [NOVA, undefined, ['top_k']],
  ])('%s and top_k', (model, fields, dropped) => {
    const request = encode({ top_k: 5 }, model)
    expect(request.sent.additionalModelRequestFields).toEqual(fields)
    expect(request.dropped).toEqual(dropped)
  })

  test('a budget leaves no say over the sampling', () => {
    const { sent, dropped } = encode({ reasoning_effort: 'low', temperature: 0.5, top_p: 0.5 })
    expect(sent.inferenceConfig).toEqual({ maxTokens: 3000 })
    expect(dropped).toEqual(['temperature', 'top_p'])
  })
})
