/** Refusals of requests in the Responses format, with their messages and parameters. */
import { describe, expect, test } from 'vitest'
import { isRefusal, refuse } from '#contract'
import { responsesInbound } from '../../../../../src/providers/dialects/inbound/responses/index.ts'
import { boxesOf } from '../../../../helpers/boxes.ts'
import type { Json } from '../../../../helpers/cases.ts'
import { countsOf } from '../../../../helpers/counts.ts'
import { seeded } from '../../../../helpers/seeded.ts'
import { spoiler } from './chunks.ts'
import { answered, canonical, completion, MINIMAL, messagesOf, refusalOf, VIEW } from './helpers.ts'

const counts = countsOf('corpus')
const SEED = Number(process.env['SEED'] ?? Math.floor(Math.random() * 2 ** 31))

const USER = { role: 'user', content: 'Hi' }
const FUNCTION = { type: 'function', name: 'look', parameters: { type: 'object', properties: {} }, strict: true }

const CONTAINER = { type: 'shell', environment: { type: 'container_auto' } }
const HOSTED_TOOLS = [
  ...[
    'web_search',
    'web_search_preview_2025_03_11',
    'file_search',
    'code_interpreter',
    'code_interpreter_20260825',
    'mcp',
  ],
  ...['image_generation', 'tool_search', 'computer', 'computer_use_preview'],
].map(type => ({ type }))

interface RefusedRequest {
  readonly name: string
  /** Members besides model and input. `body` is a whole body in place of them. */
  readonly more?: Json
  readonly body?: unknown
  readonly code: string
  readonly param: string | null
  readonly says?: string
}

const REFUSED: readonly RefusedRequest[] = [
  { name: 'a body that is a list', body: [], code: 'invalid_type', param: null },
  { name: 'no input', body: { model: 'm' }, code: 'missing_required_parameter', param: 'input' },
  { name: 'an input that is a number', more: { input: 3 }, code: 'invalid_type', param: 'input' },
  { name: 'an item that is a string', more: { input: ['Hi'] }, code: 'invalid_type', param: 'input[0]' },
  {
    name: 'an unknown parameter',
    more: { inputs: 1 },
    code: 'unknown_parameter',
    param: 'inputs',
    says: "Unknown parameter: 'inputs'.",
  },
  {
    name: 'a parameter of the Chat Completions format',
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
    says: "Unsupported parameter: 'previous_response_id'. This route does not keep responses: send the whole conversation in 'input', and ask with store: false, as the AI SDK does with providerOptions: { openai: { store: false } }. The operator can set keep_responses on this route.",
  },
  { name: 'a conversation', more: { conversation: 'conv_1' }, code: 'unsupported_parameter', param: 'conversation' },
  { name: 'a background response', more: { background: true }, code: 'unsupported_parameter', param: 'background' },
  { name: 'a prompt template', more: { prompt: { id: 'pmpt_1' } }, code: 'unsupported_parameter', param: 'prompt' },
  {
    name: 'a compaction',
    more: { context_management: [{ type: 'compaction' }] },
    code: 'unsupported_parameter',
    param: 'context_management',
  },
  {
    name: 'a reasoning mode',
    more: { reasoning: { mode: 'pro' } },
    code: 'unsupported_parameter',
    param: 'reasoning.mode',
  },
  { name: 'an unknown truncation', more: { truncation: 'head' }, code: 'invalid_value', param: 'truncation' },
  { name: 'a store that is a string', more: { store: 'yes' }, code: 'invalid_type', param: 'store' },
  { name: 'metadata with a number', more: { metadata: { a: 1 } }, code: 'invalid_type', param: 'metadata["a"]' },
  { name: 'an unknown include', more: { include: ['everything'] }, code: 'invalid_value', param: 'include[0]' },
  ...['funtion', 'toString', 'mcpp'].map(type => ({
    name: `a tool of the type ${type}`,
    more: { tools: [FUNCTION, { type, name: 'look' }] },
    code: 'invalid_value',
    param: 'tools[1].type',
    says: `Invalid value for 'tools[1].type': "${type}" is not one of 'function', 'custom', 'namespace', 'tool_search', 'shell', 'local_shell', 'apply_patch'.${type === 'funtion' ? " Did you mean 'function'?" : ''}`,
  })),
  {
    name: 'a shell beside a function of its name',
    more: { tools: [{ ...FUNCTION, name: 'shell' }, { type: 'shell' }] },
    code: 'invalid_value',
    param: 'tools[1].type',
  },
  {
    name: 'a shell call without its action',
    more: { input: [USER, { type: 'shell_call', call_id: 'c' }] },
    code: 'missing_required_parameter',
    param: 'input[1].action',
  },
  {
    name: 'a shell result that is a string',
    more: { input: [USER, { type: 'shell_call_output', call_id: 'c', output: 'a' }] },
    code: 'invalid_type',
    param: 'input[1].output',
  },
  { name: 'a tool without a type', more: { tools: [{}] }, code: 'missing_required_parameter', param: 'tools[0].type' },
  {
    name: 'two tools with one name',
    more: {
      tools: [
        { ...FUNCTION, name: 'crm__find' },
        { type: 'namespace', name: 'crm', tools: [{ ...FUNCTION, name: 'find' }] },
      ],
    },
    code: 'invalid_value',
    param: 'tools[1].tools[0].name',
  },
  ...HOSTED_TOOLS.map(({ type }) => ({
    name: `a choice that forces ${type}`,
    more: { tools: [FUNCTION, { type }], tool_choice: { type } },
    code: 'unsupported_parameter',
    param: 'tool_choice.type',
  })),
  {
    name: 'a choice that forces a shell in a container',
    more: { tools: [FUNCTION, CONTAINER], tool_choice: { type: 'shell' } },
    code: 'unsupported_parameter',
    param: 'tool_choice.type',
  },
  {
    name: 'a choice that requires a call, among hosted tools only',
    more: { tools: [{ type: 'mcp' }], tool_choice: 'required' },
    code: 'unsupported_parameter',
    param: 'tool_choice',
  },
  {
    name: 'a choice that requires one of some hosted tools',
    more: {
      tools: [FUNCTION, { type: 'mcp' }],
      tool_choice: { type: 'allowed_tools', mode: 'required', tools: [{ type: 'mcp', server_label: 'x' }] },
    },
    code: 'unsupported_parameter',
    param: 'tool_choice.tools',
  },
  {
    name: 'an unknown tool choice',
    more: { tool_choice: { type: 'x' } },
    code: 'invalid_value',
    param: 'tool_choice.type',
  },
  {
    name: 'a reference',
    more: { input: [{ type: 'item_reference', id: 'msg_1' }] },
    code: 'unsupported_parameter',
    param: 'input[0]',
    says: 'input[0] refers to an item by its id. This route does not keep items: send the item itself, and ask with store: false, as the AI SDK does with providerOptions: { openai: { store: false } }. The operator can set keep_responses on this route.',
  },
  {
    name: 'a reference without a type',
    more: { input: [{ id: 'm' }] },
    code: 'unsupported_parameter',
    param: 'input[0]',
  },
  {
    name: 'an empty item',
    more: { input: [{}] },
    code: 'missing_required_parameter',
    param: 'input[0].type',
  },
  ...['web_search_call', 'shell_call_outputs', 'mcp_call'].map(type => ({
    name: type,
    more: { input: [USER, { type }] },
    code: 'unsupported_parameter',
    param: 'input[1].type',
  })),
  {
    name: 'an unknown role',
    more: { input: [{ role: 'tool', content: '' }] },
    code: 'invalid_value',
    param: 'input[0].role',
  },
  {
    name: 'no content',
    more: { input: [{ role: 'user' }] },
    code: 'missing_required_parameter',
    param: 'input[0].content',
  },
  {
    name: 'an unknown part',
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
    name: 'an image in a system message',
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
    name: 'a result without a call ID',
    more: { input: [{ type: 'function_call_output', output: 'x' }] },
    code: 'missing_required_parameter',
    param: 'input[0].call_id',
  },
  ...['compaction', 'compaction_summary'].flatMap(type => [
    {
      name: `${type} without its content`,
      more: { input: [{ type }] },
      code: 'missing_required_parameter',
      param: 'input[0].encrypted_content',
    },
    ...['gAAAA', 'tollgate-compaction1.AAAA', `tollgate-compaction1.${boxesOf('acct_2').seal('x')}`].map(box => ({
      name: `${type} from another gateway: ${box.slice(0, 24)}`,
      more: { input: [{ type, encrypted_content: box }] },
      code: 'invalid_value',
      param: 'input[0].encrypted_content',
    })),
  ]),
  {
    name: 'an update with a string in place of an object',
    more: { input: [{ type: 'configuration_update', reasoning: 'low' }] },
    code: 'invalid_type',
    param: 'input[0].reasoning',
  },
  {
    name: 'reasoning that was changed',
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
  // The message is not translated a second time.
  const { error } = JSON.parse(responsesInbound.encodeError(refusal, VIEW))
  expect(error).toEqual({ message: refusal.message, type: 'invalid_request_error', param, code })
})

const CALL = { type: 'function_call', call_id: 'c1', name: 'look', arguments: '{"at":1}' }
const PICTURE = 'data:image/png;base64,AAAA'

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
  ])('%s becomes %s', (param, theirs) => {
    const message = `Invalid value for '${param}': it is wrong. See '${param}'.`
    const { error } = JSON.parse(request.encodeError!(refuse('invalid_value', { message, param })))
    expect(error).toEqual({
      message: `Invalid value for '${theirs}': it is wrong. See '${theirs}'.`,
      type: 'invalid_request_error',
      param: theirs,
      code: 'invalid_value',
    })
  })

  test('the effort of an item has the place of that item, and the answer repeats it', () => {
    const update = { type: 'configuration_update', reasoning: { effort: 'high' } }
    const { encodeError, encodeAnswer } = responsesInbound.decodeRequest({ ...MINIMAL, input: [USER, update] }, VIEW)
    const body = encodeError!(refuse('invalid_value', { message: 'No.', param: 'reasoning_effort' }))
    expect(JSON.parse(body).error.param).toBe('input[1].reasoning.effort')
    const { reasoning } = JSON.parse(encodeAnswer(completion({ content: 'Hi' })).toString())
    expect(reasoning).toMatchObject({ effort: 'high' })
  })

  test('a path without quotes, followed by a dot', () => {
    const refusal = refuse('invalid_value', {
      message: 'Wrong: messages[3]. Verbosity and messages are not names here.',
    })
    const { error } = JSON.parse(request.encodeError!(refusal))
    expect(error).toMatchObject({
      message: 'Wrong: input[3]. Verbosity and messages are not names here.',
      param: null,
    })
  })

  test.each([...HOSTED_TOOLS, CONTAINER])('a dropped hosted tool has its place: $type', tool => {
    const { body, dropped, encodeError } = responsesInbound.decodeRequest(
      { ...MINIMAL, tools: [FUNCTION, tool], input: [{ type: 'additional_tools', tools: [tool] }, USER] },
      VIEW,
    )
    expect(body['tools']).toMatchObject([{ type: 'function', function: { name: 'look' } }])
    const param = `tools.${tool.type}`
    expect(dropped).toEqual([param])
    const refused = JSON.parse(encodeError!(refuse('unsupported_parameter', { message: 'No.', param })))
    expect(refused.error.param).toBe('input[0].tools[0].type')
  })

  // Web searches that the gateway drops: because of a setting, or of the model.
  test.each<[dropped: string, more: Json, searches: readonly string[], place: string]>([
    ['tools.web_search.filters', { filters: { allowed_domains: ['example.com'] } }, ['openai'], 'tools[0].filters'],
    [
      'tools.web_search.external_web_access',
      { external_web_access: false },
      ['openai'],
      'tools[0].external_web_access',
    ],
    ['tools.web_search.depth', { depth: 3 }, ['openai'], 'tools[0].depth'],
    ['tools.web_search', {}, [], 'tools[0].type'],
  ])('%s is the place of the tool', (dropped, more, searches, place) => {
    const request = searching({ tools: [{ type: 'web_search', ...more }] }, searches)
    const body = request.encodeError!(refuse('unsupported_parameter', { message: 'No.', param: dropped }))
    expect(JSON.parse(body).error.param).toBe(place)
  })

  test('web_search_options is the place of the tool, in the message too', () => {
    const request = searching({ tools: [{ type: 'function', name: 'look' }, { type: 'web_search' }] }, ['openai'])
    const refusal = refuse('unsupported_parameter', {
      message: "'web_search_options' is too much.",
      param: 'web_search_options',
    })
    expect(JSON.parse(request.encodeError!(refusal)).error).toMatchObject({
      param: 'tools[1]',
      message: "'tools[1]' is too much.",
    })
  })

  test.each(['auto', 'required'])('if only the search is allowed, the functions are dropped: %s', mode => {
    const tools = [{ type: 'function', name: 'look' }, { type: 'web_search' }]
    const choose = (...allowed: Json[]) =>
      searching({ tools, tool_choice: { type: 'allowed_tools', mode, tools: allowed } }, ['openai']).body
    const alone = choose({ type: 'web_search' })
    expect(alone).toMatchObject({ web_search_options: {} })
    expect(alone).not.toHaveProperty('tools')
    expect(alone).not.toHaveProperty('tool_choice')
    const look = { type: 'function', name: 'look' }
    expect(choose({ type: 'web_search' }, look)).toMatchObject({
      web_search_options: {},
      tools: [{}],
      tool_choice: { allowed_tools: { mode, tools: [{ function: { name: 'look' } }] } },
    })
  })

  function searching(more: Json, searches: readonly string[]) {
    const findModel = () => ({ maxOutput: 10, allow: ['web_search'], searches }) as never
    return responsesInbound.decodeRequest({ ...MINIMAL, ...more }, { ...VIEW, findModel })
  }
})

test('a shell of the client can be chosen beside one in a container', () => {
  const tools = [CONTAINER, { type: 'shell', environment: { type: 'local' } }]
  const named = { type: 'function', function: { name: 'shell' } }
  const shell = { type: 'shell' }
  expect(canonical({ tools, tool_choice: shell })['tool_choice']).toEqual(named)
  const choice = { type: 'allowed_tools', mode: 'required', tools: [shell] }
  expect(canonical({ tools, tool_choice: choice })['tool_choice']).toMatchObject({ allowed_tools: { tools: [named] } })
})

test('a result before its call is moved after it', () => {
  const result = { type: 'function_call_output', call_id: 'c1', output: 'seen' }
  const call = { type: 'function_call', call_id: 'c1', name: 'look', arguments: '{}' }
  const unknown = { ...result, call_id: 'c2' }
  const said = messagesOf([USER, unknown, result, USER, call, USER])
  expect(said).toMatchObject([
    { role: 'user' },
    { tool_call_id: 'c2' },
    { role: 'user' },
    { tool_calls: [{ id: 'c1' }] },
    { tool_call_id: 'c1' },
    { role: 'user' },
  ])
  // A result with a repeated id belongs to the call before it.
  const roles = (messagesOf([call, result, USER, call, USER, result]) as Json[]).map(({ role }) => role)
  expect(roles).toEqual(['assistant', 'tool', 'user', 'assistant', 'tool', 'user'])
})

/** A request with a value for almost every member. */
const RICH: Json = {
  ...MINIMAL,
  instructions: 'Be brief.',
  stream: true,
  input: [
    {
      type: 'additional_tools',
      role: 'developer',
      tools: [{ type: 'custom', name: 'exec', format: { type: 'text' } }],
    },
    { role: 'developer', content: [{ type: 'input_text', text: 'x' }] },
    { role: 'user', content: [{ type: 'input_image', image_url: 'data:image/png;base64,AAAA', detail: 'low' }] },
    {
      type: 'reasoning',
      summary: [{ type: 'summary_text', text: 'Hm.' }],
      content: [{ type: 'reasoning_text', text: 'Hm.' }],
      encrypted_content: answered({
        content: 'x',
        reasoning_details: [{ type: 'reasoning.encrypted', data: 'd' }],
      }).output[0]!.encrypted_content,
    },
    {
      role: 'assistant',
      content: [
        { type: 'output_text', text: 'x' },
        { type: 'refusal', refusal: 'no' },
      ],
    },
    { type: 'function_call', call_id: 'c1', name: 'find', namespace: 'crm', arguments: '{}' },
    { type: 'custom_tool_call', call_id: 'c2', name: 'exec', input: 'x' },
    { type: 'function_call_output', call_id: 'c1', output: [{ type: 'input_file', file_data: 'x', filename: 'f' }] },
    { type: 'custom_tool_call_output', call_id: 'c2', output: 'x' },
    { type: 'tool_search_call', call_id: 'c3', execution: 'client', arguments: {} },
    { type: 'tool_search_output', call_id: 'c3', tools: [{ type: 'function', name: 'mail' }] },
    { type: 'image_generation_call', id: 'i', result: 'AAAA' },
    { type: 'configuration_update', reasoning: { effort: 'low' } },
  ],
  tools: [
    { type: 'function', name: 'look', description: 'Looks.', parameters: { type: 'object' }, strict: true },
    { type: 'custom', name: 'patch', format: { type: 'grammar', syntax: 'lark', definition: 'x' } },
    { type: 'namespace', name: 'crm', description: 'C', tools: [{ type: 'function', name: 'find' }] },
    { type: 'tool_search', execution: 'client', parameters: {} },
  ],
  tool_choice: { type: 'allowed_tools', mode: 'auto', tools: [{ type: 'function', name: 'look' }] },
  text: { format: { type: 'json_schema', name: 'n', schema: {} }, verbosity: 'low' },
  reasoning: { effort: 'low', summary: 'auto' },
  include: ['reasoning.encrypted_content'],
  metadata: { a: 'b' },
}

test(`broken requests are refused with a message, or read (seed ${SEED})`, () => {
  const spoil = spoiler(seeded(SEED))
  let read = 0
  let refused = 0
  for (let round = 0; round < counts(2_000, 100_000); round++) {
    const body = spoil(RICH)
    try {
      const request = responsesInbound.decodeRequest(body, VIEW)
      JSON.stringify(request.body)
      request.encodeStream().finish()
      read++
    } catch (error) {
      if (!isRefusal(error)) throw new Error(`round ${round}: ${JSON.stringify(body)}`, { cause: error })
      expect(error.status, JSON.stringify(body)).toBe(400)
      expect(error.message).not.toMatch(/undefined|\[object/)
      refused++
    }
  }
  expect(Math.min(read, refused)).toBeGreaterThan(10)
})
