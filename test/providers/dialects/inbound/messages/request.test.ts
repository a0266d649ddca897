/** Refusals of requests of the Messages API, and generated requests. */
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { isRefusal, type Model, type Refusal } from '#contract'
import schema from '../../../../../plugins/schema/index.ts'
import { messagesInbound } from '../../../../../src/providers/dialects/inbound/messages/index.ts'
import { countsOf } from '../../../../helpers/counts.ts'
import { createSteps } from '../../../../helpers/step.ts'
import { anyRequest, brokenOnce } from './requests.ts'
import { bodyOf, HI, LEAST, VIEW } from './support.ts'

const counts = countsOf('corpus')

function refusalOf(run: () => unknown): Refusal {
  try {
    run()
  } catch (error) {
    if (isRefusal(error)) return error
    throw error
  }
  throw new Error('nothing was refused')
}

/** No model searches. */
const NO_SEARCH = { findModel: () => ({ maxOutput: 1000, allow: [], searches: [] }) }

const image = { type: 'image', source: { type: 'base64', media_type: 'image/png', data: 'AAAA' } }
const tool = { name: 'look', description: 'Looks.', input_schema: { type: 'object', properties: {} } }
const user = (...content: object[]) => ({ role: 'user', content })
const assistant = (...content: object[]) => ({ role: 'assistant', content })
const text = { type: 'text', text: 'a' }
const call = (id: string, more: object = {}) => ({ type: 'tool_use', id, name: 'look', input: { at: id }, ...more })
const result = (tool_use_id: string, content?: unknown, more: object = {}) => ({
  type: 'tool_result',
  tool_use_id,
  ...(content === undefined ? {} : { content }),
  ...more,
})

describe('refusals, with their parameter', () => {
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
      'it must be an integer of at least 1',
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
      { stop_sequences: Array(65).fill('a') },
      'invalid_value',
      'stop_sequences',
      'it has 65 items, and the maximum is 64',
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

  test.each<[unknown, code: string, place: string, sentence: string]>([
    ['ephemeral', 'invalid_type', '', 'expected an object, but got a string'],
    [{}, 'missing_required_parameter', '.type', 'Missing required parameter'],
    [{ type: 'forever' }, 'invalid_value', '.type', `"forever" is not one of 'ephemeral'`],
    [{ type: 'ephemeral', ttl: '2h' }, 'invalid_value', '.ttl', `"2h" is not one of '5m', '1h'`],
    [{ type: 'ephemeral', ttl: 5 }, 'invalid_type', '.ttl', 'expected a string, but got'],
  ])('the cache mark %j', (cache_control, code, place, sentence) => {
    const marked = { cache_control }
    const refused = { code, message: expect.stringContaining(sentence) }
    const rows: [fields: object, at: string][] = [
      [{ ...marked }, ''],
      [{ system: [{ ...text, ...marked }] }, 'system[0].'],
      [{ tools: [{ ...tool, ...marked }] }, 'tools[0].'],
      [{ messages: [user({ ...text, ...marked })] }, 'messages[0].content[0].'],
      [{ messages: [HI[0], assistant({ ...call('a'), ...marked })] }, 'messages[1].content[0].'],
    ]
    for (const [fields, at] of rows) {
      expect(() => bodyOf(fields), at).toThrow(
        expect.objectContaining({ ...refused, param: `${at}cache_control${place}` }),
      )
    }
  })

  test.each(['web_search_20250305', 'web_fetch_20250910'])('a forced %s that was dropped', type => {
    const tools = [tool, { type, name: 'web' }]
    const ask = (name: string) => bodyOf({ tools, tool_choice: { type: 'tool', name } }, NO_SEARCH)
    const refused = { code: 'unsupported_parameter', param: 'tool_choice.name' }
    expect(refusalOf(() => ask('web'))).toMatchObject(refused)
    expect(ask(tool.name)['tool_choice']).toEqual({ type: 'function', function: { name: tool.name } })
  })

  test('blocks of a search, for a model that has no such blocks', () => {
    const used = { type: 'server_tool_use', id: 'srvtoolu_1', name: 'web_search', input: { query: 'x' } }
    const refusal = refusalOf(() => bodyOf({ messages: [...HI, assistant(text, used), ...HI] }, NO_SEARCH))
    expect(refusal).toMatchObject({ param: 'messages[1].content[1].type' })
  })
})

test.each([
  'web_fetch_20250910',
  'code_execution_20250825',
  'computer_20250124',
  'advisor_20260301',
  'tool_search_tool_regex_20251119',
  'tool_search_tool_bm25',
])('%s is dropped', type => {
  const { body, dropped } = messagesInbound.decodeRequest(
    { model: 'm', max_tokens: 9, messages: HI, tools: [tool, { type, name: 'x' }] },
    VIEW,
  )
  expect(body['tools']).toHaveLength(1)
  expect(dropped).toEqual([`tools.${type}`])
})

describe('generated requests', () => {
  const findModel = (id: string) => ({ thinker: { maxOutput: 8192 }, 'chat-small': { maxOutput: 1000 } })[id]
  const model = {
    id: 'chat-small',
    targets: [],
    price: null,
    maxOutput: 1000,
    defaultOutput: 100,
    reasoning: false,
    allow: [],
  }
  const models = [model, { ...model, id: 'thinker', reasoning: true, maxOutput: 8192 }] as unknown as Model[]
  const catalog = {
    find: (id: string) => models.find(one => one.id === id && Object.assign(one, { public: true, enabled: true })),
    list: () => models,
  }
  const run = createSteps([{ use: schema }], { catalog })

  test('valid requests become bodies that the schema step accepts', async () => {
    await fc.assert(
      fc.asyncProperty(anyRequest, async request => {
        const { body } = messagesInbound.decodeRequest(request, { ...VIEW, findModel })
        const { refusal } = await run({ body, route: { kind: 'messages' } })
        expect(refusal?.message).toBe(undefined)
      }),
      { numRuns: counts(75, 10_000) },
    )
  })

  test('broken requests are refused and never throw another error', async () => {
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
      { numRuns: counts(75, 10_000) },
    )
    expect(refused).toBeGreaterThan(counts(10, 1000))
  })
})
