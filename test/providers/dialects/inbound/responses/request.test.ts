/** Requests in the Responses format as chat completions; what is refused, and in which words. */
import { describe, expect, test } from 'vitest'
import { refuse } from '#contract'
import { responsesInbound } from '../../../../../src/providers/dialects/inbound/responses/index.ts'
import { canonical, type Json, MINIMAL, messagesOf, refusalOf, VIEW } from './helpers.ts'

const USER = { role: 'user', content: 'Hi' }
const FUNCTION = { type: 'function', name: 'look', parameters: { type: 'object', properties: {} }, strict: true }

interface Refused {
  readonly name: string
  /** Beside model and input; or the whole body. */
  readonly more?: Json
  readonly body?: unknown
  readonly code: string
  readonly param: string | null
  readonly says?: string
}

const REFUSED: readonly Refused[] = [
  { name: 'a body that is a list', body: [], code: 'invalid_type', param: null },
  { name: 'no input', body: { model: 'm' }, code: 'missing_required_parameter', param: 'input' },
  { name: 'an input that is a number', more: { input: 3 }, code: 'invalid_type', param: 'input' },
  { name: 'an item that is a text', more: { input: ['Hi'] }, code: 'invalid_type', param: 'input[0]' },
  {
    name: 'a name that nobody knows',
    more: { inputs: 1 },
    code: 'unknown_parameter',
    param: 'inputs',
    says: "Unknown parameter: 'inputs'.",
  },
  {
    name: "another format's name",
    more: { max_tokens: 3 },
    code: 'unknown_parameter',
    param: 'max_tokens',
    says: "Unknown parameter: 'max_tokens'. Did you mean 'max_output_tokens'?",
  },
  {
    name: 'an earlier response',
    more: { previous_response_id: 'resp_1' },
    code: 'unsupported_parameter',
    param: 'previous_response_id',
    says: "Unsupported parameter: 'previous_response_id'. This route keeps no responses: send the whole conversation in 'input', and ask with store: false, as the AI SDK does with providerOptions: { openai: { store: false } }. The operator can set keep_responses on this route.",
  },
  { name: 'a conversation', more: { conversation: 'conv_1' }, code: 'unsupported_parameter', param: 'conversation' },
  { name: 'the background', more: { background: true }, code: 'unsupported_parameter', param: 'background' },
  { name: 'a template', more: { prompt: { id: 'pmpt_1' } }, code: 'unsupported_parameter', param: 'prompt' },
  {
    name: 'a compaction',
    more: { context_management: [{ type: 'compaction' }] },
    code: 'unsupported_parameter',
    param: 'context_management',
  },
  { name: 'a mode', more: { reasoning: { mode: 'pro' } }, code: 'unsupported_parameter', param: 'reasoning.mode' },
  { name: 'a truncation', more: { truncation: 'head' }, code: 'invalid_value', param: 'truncation' },
  { name: 'a store that is a word', more: { store: 'yes' }, code: 'invalid_type', param: 'store' },
  { name: 'metadata with a number', more: { metadata: { a: 1 } }, code: 'invalid_type', param: 'metadata["a"]' },
  { name: 'an unknown include', more: { include: ['everything'] }, code: 'invalid_value', param: 'include[0]' },
  {
    name: 'a hosted tool',
    more: { tools: [FUNCTION, { type: 'file_search', vector_store_ids: [] }] },
    code: 'unsupported_parameter',
    param: 'tools[1].type',
    says: "tools[1].type is 'file_search', a tool that the provider would run. This gateway takes tools that the client runs: 'function', 'custom', 'namespace', 'shell', 'local_shell' and 'apply_patch'. Leave it out.",
  },
  ...['file_search', 'code_interpreter', 'mcp', 'image_generation', 'tool_search', 'computer_use_preview'].map(
    type => ({
      name: type,
      more: { tools: [{ type }] },
      code: 'unsupported_parameter',
      param: 'tools[0].type',
    }),
  ),
  ...['funtion', 'toString', 'mcpp'].map(type => ({
    name: `a tool of the type ${type}`,
    more: { tools: [FUNCTION, { type, name: 'look' }] },
    code: 'invalid_value',
    param: 'tools[1].type',
    says: `Invalid value for 'tools[1].type': "${type}" is not one of 'function', 'custom', 'namespace', 'tool_search', 'shell', 'local_shell', 'apply_patch'.${type === 'funtion' ? " Did you mean 'function'?" : ''}`,
  })),
  {
    name: 'a shell in a container of the provider',
    more: { tools: [{ type: 'shell', environment: { type: 'container_auto' } }] },
    code: 'unsupported_parameter',
    param: 'tools[0].type',
  },
  {
    name: 'a shell beside a function of its name',
    more: { tools: [{ ...FUNCTION, name: 'shell' }, { type: 'shell' }] },
    code: 'invalid_value',
    param: 'tools[1].type',
  },
  {
    name: 'a call of a shell without its action',
    more: { input: [USER, { type: 'shell_call', call_id: 'c' }] },
    code: 'missing_required_parameter',
    param: 'input[1].action',
  },
  {
    name: 'the result of a shell that is no list',
    more: { input: [USER, { type: 'shell_call_output', call_id: 'c', output: 'a' }] },
    code: 'invalid_type',
    param: 'input[1].output',
  },
  { name: 'a tool without a type', more: { tools: [{}] }, code: 'missing_required_parameter', param: 'tools[0].type' },
  {
    name: 'two tools of one name',
    more: {
      tools: [
        { ...FUNCTION, name: 'crm__find' },
        { type: 'namespace', name: 'crm', tools: [{ ...FUNCTION, name: 'find' }] },
      ],
    },
    code: 'invalid_value',
    param: 'tools[1].tools[0].name',
  },
  { name: 'a hosted choice', more: { tool_choice: { type: 'mcp' } }, code: 'invalid_value', param: 'tool_choice.type' },
  {
    name: 'a reference',
    more: { input: [{ type: 'item_reference', id: 'msg_1' }] },
    code: 'unsupported_parameter',
    param: 'input[0]',
    says: 'input[0] refers to an item by its id. This route keeps no items: send the item itself, and ask with store: false, as the AI SDK does with providerOptions: { openai: { store: false } }. The operator can set keep_responses on this route.',
  },
  {
    name: 'a reference without a type',
    more: { input: [{ id: 'm' }] },
    code: 'unsupported_parameter',
    param: 'input[0]',
  },
  {
    name: 'an item without anything',
    more: { input: [{}] },
    code: 'missing_required_parameter',
    param: 'input[0].type',
  },
  ...['web_search_call', 'shell_call_outputs', 'compaction', 'mcp_call'].map(type => ({
    name: type,
    more: { input: [USER, { type }] },
    code: 'unsupported_parameter',
    param: 'input[1].type',
  })),
  { name: 'a role', more: { input: [{ role: 'tool', content: '' }] }, code: 'invalid_value', param: 'input[0].role' },
  {
    name: 'no content',
    more: { input: [{ role: 'user' }] },
    code: 'missing_required_parameter',
    param: 'input[0].content',
  },
  {
    name: 'a part',
    more: { input: [{ role: 'user', content: [{ type: 'video' }] }] },
    code: 'invalid_value',
    param: 'input[0].content[0].type',
  },
  {
    name: 'an uploaded image',
    more: { input: [{ role: 'user', content: [{ type: 'input_image', file_id: 'f' }] }] },
    code: 'unsupported_parameter',
    param: 'input[0].content[0].file_id',
  },
  {
    name: "an image of the system's",
    more: { input: [{ role: 'system', content: [{ type: 'input_image', image_url: 'https://example.com/a.png' }] }] },
    code: 'unsupported_parameter',
    param: 'input[0].content[0]',
  },
  {
    name: 'arguments that are an object',
    more: { input: [{ type: 'function_call', call_id: 'c', name: 'n', arguments: {} }] },
    code: 'invalid_type',
    param: 'input[0].arguments',
  },
  {
    name: 'a result of nothing',
    more: { input: [{ type: 'function_call_output', output: 'x' }] },
    code: 'missing_required_parameter',
    param: 'input[0].call_id',
  },
  {
    name: 'a thought that was changed',
    more: { input: [{ type: 'reasoning', summary: [], encrypted_content: 'tollgate2.AAAA' }] },
    code: 'invalid_value',
    param: 'input[0].encrypted_content',
  },
]

test.each(REFUSED)('refuses $name', ({ more, body, code, param, says }) => {
  const refusal = refusalOf(body ?? { ...MINIMAL, ...more })
  expect(refusal).toMatchObject({ code, param })
  if (param !== null) expect(refusal.message).toContain(param)
  if (says !== undefined) expect(refusal.message).toBe(says)
  // Nothing of it is translated once more.
  const { error } = JSON.parse(responsesInbound.encodeError(refusal, VIEW))
  expect(error).toEqual({ message: refusal.message, type: 'invalid_request_error', param, code })
})

/** What each parameter becomes, beside model and messages. */
const PARAMETERS: readonly (readonly [name: string, more: Json, becomes: Json])[] = [
  ['nothing', {}, {}],
  ['the cap', { max_output_tokens: 20 }, { max_completion_tokens: 20 }],
  ['sampling', { temperature: 0.5, top_p: 0.9 }, { temperature: 0.5, top_p: 0.9 }],
  ['a stream', { stream: true }, { stream: true, stream_options: { include_usage: true } }],
  ['no stream', { stream: false, stream_options: null }, { stream: false }],
  ['a format of JSON', { text: { format: { type: 'json_object' } } }, { response_format: { type: 'json_object' } }],
  ['text', { text: { format: { type: 'text' }, verbosity: 'low' } }, { verbosity: 'low' }],
  [
    'a schema',
    { text: { format: { type: 'json_schema', name: 'film', schema: { type: 'object' }, strict: true } } },
    {
      response_format: { type: 'json_schema', json_schema: { name: 'film', schema: { type: 'object' }, strict: true } },
    },
  ],
  ['effort', { reasoning: { effort: 'low', summary: 'auto' } }, { reasoning_effort: 'low' }],
  ['effort that is null', { reasoning: { effort: null, summary: null } }, {}],
  ['probabilities', { top_logprobs: 2 }, { logprobs: true, top_logprobs: 2 }],
  ['included probabilities', { include: ['message.output_text.logprobs'] }, { logprobs: true }],
  [
    'who asks',
    { user: 'u', safety_identifier: 's', prompt_cache_key: 'k', service_tier: 'auto' },
    { user: 'u', safety_identifier: 's', prompt_cache_key: 'k', service_tier: 'auto' },
  ],
  [
    'what has no effect',
    {
      store: true,
      truncation: 'auto',
      max_tool_calls: 3,
      metadata: { a: 'b' },
      client_metadata: { installation: 'x' },
      include: ['reasoning.encrypted_content'],
      background: false,
      previous_response_id: null,
      conversation: null,
      prompt: null,
      context_management: [],
    },
    {},
  ],
  ['settings for tools that are not there', { tools: [], tool_choice: 'auto', parallel_tool_calls: true }, {}],
  ['no tools, and none wanted', { tools: [], tool_choice: 'none', parallel_tool_calls: false }, {}],
  [
    'a function',
    { tools: [{ ...FUNCTION, description: 'Looks.' }], tool_choice: 'required', parallel_tool_calls: false },
    {
      tools: [
        {
          type: 'function',
          function: { name: 'look', description: 'Looks.', parameters: FUNCTION.parameters, strict: true },
        },
      ],
      tool_choice: 'required',
      parallel_tool_calls: false,
    },
  ],
  [
    'a function of which little is said',
    { tools: [{ type: 'function', name: 'look', parameters: null, strict: null, description: null }] },
    { tools: [{ type: 'function', function: { name: 'look' } }] },
  ],
  [
    'a custom tool with a grammar',
    {
      tools: [{ type: 'custom', name: 'patch', format: { type: 'grammar', syntax: 'lark', definition: 'start: "x"' } }],
      tool_choice: { type: 'custom', name: 'patch' },
    },
    {
      tools: [
        {
          type: 'custom',
          custom: { name: 'patch', format: { type: 'grammar', grammar: { syntax: 'lark', definition: 'start: "x"' } } },
        },
      ],
      tool_choice: { type: 'custom', custom: { name: 'patch' } },
    },
  ],
  [
    'some of the tools',
    {
      tools: [{ type: 'function', name: 'look' }],
      tool_choice: { type: 'allowed_tools', mode: 'auto', tools: [{ type: 'function', name: 'look' }] },
    },
    {
      tools: [{ type: 'function', function: { name: 'look' } }],
      tool_choice: {
        type: 'allowed_tools',
        allowed_tools: { mode: 'auto', tools: [{ type: 'function', function: { name: 'look' } }] },
      },
    },
  ],
  [
    'a namespace',
    {
      tools: [
        {
          type: 'namespace',
          name: 'crm',
          description: 'Customers.',
          tools: [{ type: 'function', name: 'find', description: 'Finds one.' }],
        },
      ],
      tool_choice: { type: 'function', name: 'find', namespace: 'crm' },
    },
    {
      tools: [{ type: 'function', function: { name: 'crm__find', description: 'Customers.\n\nFinds one.' } }],
      tool_choice: { type: 'function', function: { name: 'crm__find' } },
    },
  ],
]

test.each(PARAMETERS)('%s', (_name, more, becomes) => {
  expect(canonical(more)).toEqual({ model: 'm', messages: [{ role: 'user', content: 'Hello' }], ...becomes })
})

const CALL = { type: 'function_call', call_id: 'c1', name: 'look', arguments: '{"at":1}' }
const CALLED = { id: 'c1', type: 'function', function: { name: 'look', arguments: '{"at":1}' } }
const PICTURE = 'data:image/png;base64,AAAA'

const INPUTS: readonly (readonly [name: string, input: unknown, becomes: readonly Json[]])[] = [
  ['a text', 'Hi', [{ role: 'user', content: 'Hi' }]],
  ['a message without a type', [USER], [USER]],
  [
    'the developer as the system',
    [
      { role: 'developer', content: 'Be brief.' },
      { type: 'message', role: 'system', content: [{ type: 'input_text', text: 'Be kind.' }] },
    ],
    [
      { role: 'system', content: 'Be brief.' },
      { role: 'system', content: 'Be kind.' },
    ],
  ],
  [
    'parts',
    [
      {
        role: 'user',
        content: [
          { type: 'input_text', text: 'What is this?' },
          { type: 'input_image', image_url: PICTURE, detail: 'low', file_id: null },
          { type: 'input_file', filename: 'a.pdf', file_data: 'data:application/pdf;base64,AAAA' },
          { type: 'input_file', file_url: 'https://example.com/a.pdf' },
          { type: 'input_file', file_id: 'file_1' },
          { type: 'input_audio', input_audio: { data: 'AAAA', format: 'wav' } },
        ],
      },
    ],
    [
      {
        role: 'user',
        content: [
          { type: 'text', text: 'What is this?' },
          { type: 'image_url', image_url: { url: PICTURE, detail: 'low' } },
          { type: 'file', file: { filename: 'a.pdf', file_data: 'data:application/pdf;base64,AAAA' } },
          { type: 'file', file: { file_data: 'https://example.com/a.pdf' } },
          { type: 'file', file: { file_id: 'file_1' } },
          { type: 'input_audio', input_audio: { data: 'AAAA', format: 'wav' } },
        ],
      },
    ],
  ],
  [
    'what the model said and refused, as one message with its calls',
    [
      USER,
      { type: 'reasoning', id: 'rs_1', summary: [{ type: 'summary_text', text: 'Hm.' }] },
      {
        type: 'message',
        id: 'msg_1',
        status: 'completed',
        role: 'assistant',
        phase: 'commentary',
        content: [{ type: 'output_text', text: 'Let me look.', annotations: [], logprobs: [] }],
      },
      { ...CALL, id: 'fc_1', status: 'completed' },
      { type: 'custom_tool_call', id: 'ctc_1', call_id: 'c2', name: 'patch', input: '+a' },
      { type: 'function_call_output', id: 'fco_1', call_id: 'c1', output: 'seen' },
      { type: 'custom_tool_call_output', call_id: 'c2', output: [{ type: 'input_text', text: 'done' }] },
      { role: 'assistant', content: [{ type: 'refusal', refusal: 'No more.' }] },
      { role: 'assistant', content: 'Sorry.' },
    ],
    [
      USER,
      {
        role: 'assistant',
        content: 'Let me look.',
        reasoning_content: 'Hm.',
        tool_calls: [CALLED, { id: 'c2', type: 'custom', custom: { name: 'patch', input: '+a' } }],
      },
      { role: 'tool', tool_call_id: 'c1', content: 'seen' },
      { role: 'tool', tool_call_id: 'c2', content: 'done' },
      { role: 'assistant', content: 'Sorry.', refusal: 'No more.' },
    ],
  ],
  [
    'thoughts of turns that are over, left out',
    [
      USER,
      { type: 'reasoning', summary: [{ type: 'summary_text', text: 'Hm.' }] },
      CALL,
      { type: 'function_call_output', call_id: 'c1', output: '' },
      { type: 'reasoning', summary: [], content: [{ type: 'reasoning_text', text: 'So.' }] },
      { role: 'assistant', content: 'Nothing there.' },
      USER,
    ],
    [
      USER,
      { role: 'assistant', content: null, tool_calls: [CALLED] },
      { role: 'tool', tool_call_id: 'c1', content: '' },
      { role: 'assistant', content: 'Nothing there.' },
      USER,
    ],
  ],
  [
    "a box of another gateway's, left out; a thought alone is no message",
    [USER, { type: 'reasoning', summary: [{ type: 'summary_text', text: 'Hm.' }], encrypted_content: 'gAAAAAB' }],
    [USER],
  ],
  [
    'results with pictures, which the user shows behind all results',
    [
      CALL,
      { ...CALL, call_id: 'c2' },
      {
        type: 'function_call_output',
        call_id: 'c1',
        output: [
          { type: 'input_text', text: 'A picture:' },
          { type: 'input_image', image_url: PICTURE },
        ],
      },
      { type: 'function_call_output', call_id: 'c2', output: [] },
      { ...CALL, call_id: 'c3' },
    ],
    [
      { role: 'assistant', content: null, tool_calls: [CALLED, { ...CALLED, id: 'c2' }] },
      {
        role: 'tool',
        tool_call_id: 'c1',
        content: [
          { type: 'text', text: 'A picture:' },
          { type: 'text', text: '(Result of c1, part 1: see the next message.)' },
        ],
      },
      { role: 'tool', tool_call_id: 'c2', content: '' },
      {
        role: 'user',
        content: [
          { type: 'text', text: 'Result of c1, part 1:' },
          { type: 'image_url', image_url: { url: PICTURE } },
        ],
      },
      { role: 'assistant', content: null, tool_calls: [{ ...CALLED, id: 'c3' }] },
    ],
  ],
  [
    'a picture that the model made, which the user shows',
    [
      USER,
      { type: 'image_generation_call', id: 'ig_1', status: 'completed', output_format: 'jpeg', result: 'AAAA' },
      { type: 'image_generation_call', id: 'ig_2', status: 'failed', result: null },
      { role: 'user', content: 'Bluer!' },
    ],
    [
      USER,
      {
        role: 'user',
        content: [
          { type: 'text', text: 'A picture that the assistant made:' },
          { type: 'image_url', image_url: { url: 'data:image/jpeg;base64,AAAA' } },
        ],
      },
      { role: 'user', content: 'Bluer!' },
    ],
  ],
  [
    'a call of a tool in a namespace',
    [{ ...CALL, name: 'find', namespace: 'crm' }],
    [
      {
        role: 'assistant',
        content: null,
        tool_calls: [{ ...CALLED, function: { name: 'crm__find', arguments: '{"at":1}' } }],
      },
    ],
  ],
]

test.each(INPUTS)('input: %s', (_name, input, becomes) => {
  expect(messagesOf(input)).toEqual(becomes)
})

test('instructions come first', () => {
  const expected = [
    { role: 'system', content: 'Be brief.' },
    { role: 'user', content: 'Hello' },
  ]
  expect(canonical({ instructions: 'Be brief.' })['messages']).toEqual(expected)
  expect(canonical({ instructions: '' })['messages']).toEqual(expected.slice(1))
})

describe('tools that the conversation brings', () => {
  const find = { type: 'function', name: 'find', parameters: {} }
  const crm = { type: 'namespace', name: 'crm', tools: [find, { type: 'custom', name: 'exec' }] }
  const search = {
    type: 'tool_search',
    execution: 'client',
    description: 'Finds tools.',
    parameters: { type: 'object' },
  }
  const input = [
    { type: 'additional_tools', id: 'at_1', role: 'developer', tools: [crm] },
    USER,
    { type: 'tool_search_call', call_id: 's1', execution: 'client', arguments: { query: 'mail' }, status: 'completed' },
    { type: 'tool_search_output', call_id: 's1', execution: 'client', tools: [{ ...find, name: 'mail' }, crm] },
  ]

  test('are tools like the others, each once', () => {
    const body = canonical({ tools: [search], input })
    expect(body['tools']).toEqual([
      {
        type: 'function',
        function: { name: 'tool_search', description: 'Finds tools.', parameters: { type: 'object' } },
      },
      { type: 'function', function: { name: 'crm__find', parameters: {} } },
      { type: 'custom', custom: { name: 'crm__exec' } },
      { type: 'function', function: { name: 'mail', parameters: {} } },
    ])
    expect(body['messages']).toEqual([
      USER,
      {
        role: 'assistant',
        content: null,
        tool_calls: [{ id: 's1', type: 'function', function: { name: 'tool_search', arguments: '{"query":"mail"}' } }],
      },
      { role: 'tool', tool_call_id: 's1', content: 'What was found is among the tools now.' },
    ])
  })

  test('are refused by their place there', () => {
    const tools = [crm, { type: 'file_search' }]
    expect(refusalOf({ ...MINIMAL, input: [{ type: 'additional_tools', tools }] })).toMatchObject({
      code: 'unsupported_parameter',
      param: 'input[0].tools[1].type',
    })
  })
})

test.each([
  ['web_search', { external_web_access: false }],
  ['web_search_preview', {}],
  ['web_search_2025_08_26', { filters: {} }],
])('%s is left out, and that is told: clients offer it unasked', (type, more) => {
  const request = responsesInbound.decodeRequest({ ...MINIMAL, tools: [FUNCTION, { type, ...more }] }, VIEW)
  expect(request.dropped).toEqual([`tools.${type}`])
  expect(request.body['tools']).toHaveLength(1)
})

test('a long name in a namespace is cut, and stays apart from others', () => {
  const space = 'mcp__a_server_with_a_rather_long_name'
  const toolsOf = (...names: string[]) =>
    canonical({
      tools: [{ type: 'namespace', name: space, tools: names.map(name => ({ type: 'function', name })) }],
    })['tools'] as { function: { name: string } }[]
  const names = toolsOf('find_the_customer_by_number', 'find_the_customer_by_nothing').map(tool => tool.function.name)
  expect(new Set(names).size).toBe(2)
  for (const name of names)
    expect(name).toMatch(/^mcp__a_server_with_a_rather_long_name__find_the_customer_[0-9a-f]{8}$|^.{64}$/)
})

describe('errors of later steps', () => {
  const request = responsesInbound.decodeRequest(
    {
      ...MINIMAL,
      instructions: 'Be brief.',
      input: [
        USER,
        { type: 'reasoning', summary: [] },
        CALL,
        { type: 'function_call_output', call_id: 'c1', output: 'seen' },
        {
          role: 'user',
          content: [
            { type: 'input_text', text: 'And?' },
            { type: 'input_image', image_url: PICTURE },
          ],
        },
      ],
      tools: [
        { type: 'namespace', name: 'crm', tools: [{ type: 'function', name: 'find' }] },
        { type: 'custom', name: 'patch' },
      ],
    },
    VIEW,
  )

  test.each([
    ['messages[0].content', 'instructions'],
    ['messages[1].content', 'input[0].content'],
    ['messages[2].tool_calls[0].function.arguments', 'input[2].arguments'],
    ['messages[2]', 'input[2]'],
    ['messages[3].content', 'input[3].output'],
    ['messages[3].tool_call_id', 'input[3].call_id'],
    ['messages[4].content[1].image_url.url', 'input[4].content[1].image_url'],
    ['messages[4].content[0].text', 'input[4].content[0].text'],
    ['messages[99]', 'input'],
    ['messages', 'input'],
    ['tools[0].function.name', 'tools[0].tools[0].name'],
    ['tools[1].custom.format.grammar.definition', 'tools[1].format.definition'],
    ['tool_choice.function.name', 'tool_choice.name'],
    ['max_completion_tokens', 'max_output_tokens'],
    ['reasoning_effort', 'reasoning.effort'],
    ['response_format.json_schema.name', 'text.format.name'],
    ['verbosity', 'text.verbosity'],
    ['temperature', 'temperature'],
  ])('%s is %s', (param, theirs) => {
    const message = `Invalid value for '${param}': it is wrong. See '${param}'.`
    const { error } = JSON.parse(request.encodeError!(refuse('invalid_value', { message, param })))
    expect(error).toEqual({
      message: `Invalid value for '${theirs}': it is wrong. See '${theirs}'.`,
      type: 'invalid_request_error',
      param: theirs,
      code: 'invalid_value',
    })
  })

  test('a path without quotation marks, and the dot behind it', () => {
    const refusal = refuse('invalid_value', {
      message: 'Wrong: messages[3]. Verbosity is no name here, nor are messages.',
    })
    const { error } = JSON.parse(request.encodeError!(refusal))
    expect(error).toMatchObject({
      message: 'Wrong: input[3]. Verbosity is no name here, nor are messages.',
      param: null,
    })
  })
})
