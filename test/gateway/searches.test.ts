/** Web searches by a provider: which requests pass, and their cost. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type FakeProvider, startFakeProvider } from '../helpers/fake-provider.ts'
import { FIVE_STEPS, type InProcess, PRICE, startInProcess } from '../helpers/in-process.ts'

const ANSWER = {
  id: 'chatcmpl-1',
  object: 'chat.completion',
  created: 1,
  model: 'searching',
  choices: [
    {
      index: 0,
      message: {
        role: 'assistant',
        content: 'Found.',
        annotations: [
          { type: 'url_citation', url_citation: { start_index: 0, end_index: 5, url: 'https://a', title: 'A' } },
        ],
      },
      finish_reason: 'stop',
    },
  ],
  usage: { prompt_tokens: 1000, completion_tokens: 10, total_tokens: 1010 },
}

let provider: FakeProvider
let gateway: InProcess

beforeAll(async () => {
  provider = await startFakeProvider({
    script: {
      name: 'has searched',
      async run(call) {
        call.head(200, { 'content-type': 'application/json' })
        await call.end(JSON.stringify(ANSWER))
      },
    },
  })
  const model = { targets: [{ provider: 'p', model: 'searching' }], context: 8192, max_output: 1024 }
  gateway = await startInProcess({
    provider: provider.baseUrl,
    policies: { strict: [...FIVE_STEPS.slice(0, -1), { use: 'route', with: { on_dropped: 'refuse' } }] },
    yaml: {
      providers: {
        p: { dialect: 'openai', base_url: provider.baseUrl },
        a: { dialect: 'anthropic', base_url: provider.baseUrl },
      },
      routes: [
        { path: '/v1/chat/completions', policy: 'test' },
        { path: '/v1/responses', policy: 'test' },
        { path: '/strict/v1/responses', policy: 'strict' },
      ],
      models: {
        m: { ...model, price: PRICE },
        search: { ...model, price: { ...PRICE, request: '$0.025' }, allow: ['web_search'] },
        other: { ...model, price: PRICE, targets: [{ provider: 'a', model: 'c' }], allow: ['web_search'] },
        fee: { ...model, price: { ...PRICE, web_search: '$0.01' }, allow: ['web_search'] },
      },
    },
  })
})
afterAll(async () => {
  await gateway.stop()
  await provider.close()
})

test('the fee of a model that searches is its price per request, held and charged with the tokens', async () => {
  const answer = await gateway.chat({ model: 'search', web_search_options: {}, max_completion_tokens: 100 })
  expect(answer.status).toBe(200)
  expect(provider.requests.at(-1)?.body).toMatchObject({ web_search_options: {} })
  // 1,000 tokens at $1 and 10 at $2 a million, and $0.025.
  expect(gateway.receipt(answer)).toMatchObject({
    charged: 1_000_000n + 20_000n + 25_000_000n,
    // The whole context, because the results become prompt.
    held: 8_192_000n + 200_000n + 25_000_000n,
    source: 'reported',
  })
})

test('a search has its own price, and the receipt has their number', async () => {
  const answer = await gateway.chat({ model: 'fee', web_search_options: {}, max_completion_tokens: 100 })
  expect(gateway.receipt(answer)).toMatchObject({
    charged: 1_000_000n + 20_000n + 10_000_000n,
    held: 8_192_000n + 200_000n + 10_000_000n,
    price: expect.arrayContaining([{ unit: 'search', nanos: 10_000_000n, per: 1 }]),
    usage: { search: 1 },
    source: 'reported',
  })
  const plain = await gateway.chat({ model: 'fee', max_completion_tokens: 100 })
  expect(gateway.receipt(plain)!.charged).toBeLessThan(10_000_000n)
  expect(gateway.receipt(plain)!.usage.search).toBeUndefined()
})

test('a model that does not list web_search supports none', async () => {
  const before = provider.requests.length
  const answer = await gateway.chat({ model: 'm', web_search_options: {} })
  expect(answer.status).toBe(400)
  expect(await answer.json()).toMatchObject({ error: { code: 'unsupported_parameter', param: 'web_search_options' } })
  expect(provider.requests.length).toBe(before)
})

describe('the tool of Responses', () => {
  const ask = (body: object, prefix = '') =>
    fetch(`${gateway.url}${prefix}/v1/responses`, {
      method: 'POST',
      headers: { authorization: `Bearer ${gateway.key}`, 'content-type': 'application/json' },
      body: JSON.stringify({ input: 'Hi', max_output_tokens: 100, tools: [{ type: 'web_search' }], ...body }),
    })

  test('goes to a model that always searches, which is one search', async () => {
    const tools = [{ type: 'web_search', search_context_size: 'high' }]
    const answer = await ask({ model: 'fee', tools })
    expect(await answer.json()).toMatchObject({
      output: [
        { content: [{ text: 'Found.', annotations: [{ type: 'url_citation', url: 'https://a', end_index: 5 }] }] },
      ],
    })
    const sent = provider.requests.at(-1)!.body
    expect(sent).toMatchObject({ web_search_options: { search_context_size: 'high' } })
    expect(sent).not.toHaveProperty('tools')
    expect(gateway.receipt(answer)).toMatchObject({
      charged: 1_000_000n + 20_000n + 10_000_000n,
      held: 8_192_000n + 200_000n + 10_000_000n,
      usage: { search: 1 },
    })
  })

  test.each<[name: string, body: object, param: string, says: string]>([
    ['a model that does not list web_search', { model: 'm' }, 'tools[0].type', "its 'allow' lists web_search"],
    ['a model of another vendor', { model: 'other' }, 'tools[0].type', 'a target at OpenAI'],
    [
      'a setting that chat completions do not have',
      { model: 'fee', tools: [{ type: 'web_search', filters: { allowed_domains: ['a.example'] } }] },
      'tools[0].filters',
      'which have no such setting',
    ],
  ])('is refused before a hold, with on_dropped: refuse: %s', async (_name, body, param, says) => {
    const before = provider.requests.length
    const refused = await ask(body, '/strict')
    expect(refused.status).toBe(400)
    expect(await refused.json()).toMatchObject({
      error: { code: 'unsupported_parameter', param, message: expect.stringContaining(says) },
    })
    expect(gateway.receipt(refused)).toBeUndefined()
    expect(provider.requests.length).toBe(before)
  })
})

test('of the blocks of an earlier answer only those of a search pass', async () => {
  const content = [{ type: 'anthropic', anthropic: { type: 'document', source: { type: 'text', data: 'a' } } }]
  const messages = [
    { role: 'user', content: 'hi' },
    { role: 'assistant', content },
    { role: 'user', content: 'go on' },
  ]
  const answer = await gateway.chat({ model: 'other', messages })
  expect([answer.status, await answer.json()]).toMatchObject([
    400,
    { error: { code: 'invalid_value', param: 'messages[1].content[0].anthropic.type' } },
  ])
})
