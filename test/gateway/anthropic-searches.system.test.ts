/** Anthropic's web search on /v1/messages: held as a ceiling, charged exactly, and passed on unchanged. */
import Anthropic from '@anthropic-ai/sdk'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type FakeProvider, startFakeProvider } from '../helpers/fake-provider.ts'
import { FIVE_STEPS, type InProcess, PRICE, startInProcess } from '../helpers/in-process.ts'

const used = { type: 'server_tool_use', id: 'srvtoolu_1', name: 'web_search', input: { query: 'x' } }
const found = {
  type: 'web_search_tool_result',
  tool_use_id: 'srvtoolu_1',
  content: [
    { type: 'web_search_result', url: 'https://example.com', title: 'E', encrypted_content: 'EqQ', page_age: null },
  ],
}
const quote = {
  type: 'web_search_result_location',
  url: 'https://example.com',
  title: 'E',
  encrypted_index: 'Eo8',
  cited_text: 'y',
}
const CONTENT = [
  { type: 'text', text: 'Let me see.' },
  used,
  found,
  { type: 'text', text: 'It is ' },
  { type: 'text', text: 'blue', citations: [quote] },
]

/** The usage that the provider reports. */
let usage: Record<string, unknown>

const frames = (events: readonly Record<string, unknown>[]) =>
  events.map(event => `event: ${event['type']}\ndata: ${JSON.stringify(event)}\n\n`).join('')

function streamOf(): string {
  const blocks = CONTENT.flatMap((block, index): Record<string, unknown>[] => {
    const { text, citations = [], input, ...rest } = block as Record<string, unknown> & { citations?: object[] }
    const deltas = [
      ...citations.map(citation => ({ type: 'citations_delta', citation })),
      ...(text === undefined ? [] : [{ type: 'text_delta', text }]),
      ...(input === undefined ? [] : [{ type: 'input_json_delta', partial_json: JSON.stringify(input) }]),
    ]
    return [
      {
        type: 'content_block_start',
        index,
        content_block: {
          ...rest,
          ...(text === undefined ? {} : { text: '' }),
          ...(input === undefined ? {} : { input: {} }),
        },
      },
      ...deltas.map(delta => ({ type: 'content_block_delta', index, delta })),
      { type: 'content_block_stop', index },
    ]
  })
  return frames([
    { type: 'message_start', message: { id: 'msg_1', content: [], usage: { input_tokens: 100, output_tokens: 1 } } },
    ...blocks,
    { type: 'message_delta', delta: { stop_reason: 'end_turn' }, usage },
    { type: 'message_stop' },
  ])
}

let provider: FakeProvider
let gateway: InProcess
let client: Anthropic

beforeAll(async () => {
  provider = await startFakeProvider({
    script: {
      name: 'has searched',
      async run(call) {
        const stream = call.request.body?.['stream'] === true
        call.head(200, { 'content-type': stream ? 'text/event-stream' : 'application/json' })
        const message = { id: 'msg_1', type: 'message', role: 'assistant', model: 'c', content: CONTENT, usage }
        await call.end(stream ? streamOf() : JSON.stringify({ ...message, stop_reason: 'end_turn' }))
      },
    },
  })
  const sizes = { context: 8192, max_output: 1024 }
  const targets = [{ provider: 'a', model: 'claude-sonnet-4-5' }]
  const price = { ...PRICE, web_search: '$0.01' }
  gateway = await startInProcess({
    provider: provider.baseUrl,
    policies: { strict: [...FIVE_STEPS.slice(0, -1), { use: 'route', with: { on_dropped: 'refuse' } }] },
    yaml: {
      providers: {
        a: { dialect: 'anthropic', base_url: provider.baseUrl },
        o: { dialect: 'openai', base_url: provider.baseUrl },
      },
      models: {
        search: { targets, ...sizes, price, allow: ['web_search'] },
        forbidden: { targets, ...sizes, price },
        other: { targets: [{ provider: 'o', model: 'x' }], ...sizes, price, allow: ['web_search'] },
        both: {
          targets: [
            { provider: 'o', model: 'x' },
            { ...targets[0], priority: 2 },
          ],
          ...sizes,
          price,
          allow: ['web_search'],
        },
      },
      routes: [
        { path: '/v1/chat/completions', policy: 'test' },
        { path: '/v1/messages', policy: 'test' },
        { path: '/strict/v1/messages', policy: 'strict' },
      ],
    },
  })
  client = new Anthropic({ apiKey: gateway.key, baseURL: gateway.url, logLevel: 'off', maxRetries: 0 })
})
afterAll(async () => {
  await gateway.stop()
  await provider.close()
})

const SEARCH = { type: 'web_search_20250305', name: 'web_search', max_uses: 3 } as const
const ask = (more: object = {}) => ({
  model: 'search',
  max_tokens: 100,
  messages: [{ role: 'user' as const, content: 'What colour is it?' }],
  tools: [SEARCH],
  ...more,
})
const reported = (searches?: number) => ({
  input_tokens: 1000,
  output_tokens: 10,
  ...(searches === undefined ? {} : { server_tool_use: { web_search_requests: searches } }),
})
/** Ten passes of the whole context and of the cap, and three searches. */
const HELD = 10n * (8_192_000n + 200_000n) + 30_000_000n
const TOKENS = 1_000_000n + 20_000n

describe.each(['whole', 'streamed'])('%s', form => {
  async function answered(more: object = {}) {
    const { data, response } =
      form === 'whole'
        ? await client.messages.create(ask(more)).withResponse()
        : await client.messages
            .stream(ask(more))
            .withResponse()
            .then(async ({ data: stream, response }) => {
              return { data: await stream.finalMessage(), response }
            })
    return { message: data as Anthropic.Message, response, receipt: gateway.receipt(response)! }
  }

  test('the client gets the blocks unchanged, and the provider gets them back unchanged', async () => {
    usage = reported(1)
    const { message } = await answered()
    expect(message.content).toEqual(CONTENT)
    expect(message.usage).toMatchObject({ input_tokens: 1000, server_tool_use: { web_search_requests: 1 } })
    const { content, role } = message
    await answered({ messages: [...ask().messages, { role, content }, { role: 'user', content: 'Sure?' }] })
    expect(provider.requests.at(-1)!.body).toMatchObject({
      tools: [SEARCH],
      messages: [{ role: 'user' }, { role: 'assistant', content: CONTENT }, { role: 'user' }],
    })
  })

  test.each<[name: string, said: () => Record<string, unknown>, charged: bigint, searches: number, source: string]>([
    ['for the searches that the provider reports', () => reported(2), TOKENS + 20_000_000n, 2, 'reported'],
    ['for no search that it did not make', () => reported(0), TOKENS, 0, 'reported'],
    ['for those in the answer if it reports none', () => reported(), TOKENS + 10_000_000n, 1, 'reported'],
    ['no more than may be made', () => reported(9), TOKENS + 30_000_000n, 3, 'clamped'],
    [
      'for all passes together, which may exceed the context and the cap',
      () => ({ ...reported(3), input_tokens: 81_920, output_tokens: 1_000 }),
      HELD,
      3,
      'reported',
    ],
  ])('is charged %s', async (_name, said, charged, searches, source) => {
    usage = said()
    const { receipt } = await answered()
    expect(receipt).toMatchObject({ held: HELD, charged, source })
    expect(receipt.usage.search ?? 0).toBe(searches)
  })
})

test.each([
  ['without a bound', undefined, 10],
  ['with a larger one', 50, 10],
])('a search %s is sent with the held number', async (_name, max_uses, sent) => {
  usage = reported(1)
  const tool = { type: SEARCH.type, name: SEARCH.name, ...(max_uses === undefined ? {} : { max_uses }) }
  const { response } = await client.messages.create(ask({ tools: [tool] })).withResponse()
  expect(provider.requests.at(-1)!.body).toMatchObject({ tools: [{ ...tool, max_uses: sent }] })
  expect(gateway.receipt(response)).toMatchObject({ held: HELD + 70_000_000n })
})

test('a target of another vendor is skipped', async () => {
  usage = reported(1)
  const message = await client.messages.create(ask({ model: 'both' }))
  expect(message.content).toEqual(CONTENT)
  const { content, role } = message
  const messages = [...ask().messages, { role, content }, { role: 'user', content: 'Sure?' }]
  await client.messages.create(ask({ model: 'both', messages, tools: [] }))
  expect(provider.requests.at(-1)!.path).toBe('/v1/messages')
})

describe("on_dropped: refuse rejects it before a hold, with the place in the client's request", () => {
  const post = (path: string, body: object) =>
    fetch(`${gateway.url}${path}`, {
      method: 'POST',
      headers: { authorization: `Bearer ${gateway.key}`, 'content-type': 'application/json' },
      body: JSON.stringify(body),
    })
  const sent = () => provider.requests.length

  test.each([
    ['a model that does not list web_search', 'forbidden'],
    ['a model of another vendor', 'other'],
  ])('%s', async (_name, model) => {
    const asked = sent()
    const refused = await post('/strict/v1/messages', ask({ model }))
    expect(refused.status).toBe(400)
    expect(await refused.json()).toMatchObject({
      error: {
        code: 'unsupported_parameter',
        param: 'tools[0].type',
        message: expect.stringContaining("its 'allow' lists web_search"),
      },
    })
    // Without a hold no receipt exists.
    expect(gateway.receipt(refused)).toBeUndefined()
    expect(sent()).toBe(asked)
    const left = await post('/v1/messages', ask({ model: 'forbidden' }))
    expect([left.status, left.headers.get('x-tollgate-dropped')]).toEqual([200, 'tools.web_search_20250305'])
    expect(provider.requests.at(-1)!.body).not.toHaveProperty('tools')
  })

  test.each([
    ['forbidden', {}, 'tools[0].type'],
    ['other', {}, 'tools[0].type'],
    ['both', { n: 2 }, 'n'],
    ['search', { tools: [1, 2].map(() => ({ type: 'anthropic', anthropic: SEARCH })) }, 'tools[1].type'],
  ])('on chat completions: %s %j', async (model, more, param) => {
    const tools = [{ type: 'anthropic', anthropic: SEARCH }]
    const messages = [{ role: 'user', content: 'Hi' }]
    const refused = await post('/v1/chat/completions', { model, messages, tools, ...more })
    expect(await refused.json()).toMatchObject({
      error: { code: expect.stringMatching(/^unsupp|^invalid_value/), param },
    })
    expect(gateway.receipt(refused)).toBeUndefined()
  })
})
