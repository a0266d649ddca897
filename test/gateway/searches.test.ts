/** Searches of the web that a provider makes: which pass, and what they cost. */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type FakeProvider, startFakeProvider } from '../helpers/fake-provider.ts'
import { type InProcess, PRICE, startInProcess } from '../helpers/in-process.ts'

const ANSWER = {
  id: 'chatcmpl-1',
  object: 'chat.completion',
  created: 1,
  model: 'searching',
  choices: [{ index: 0, message: { role: 'assistant', content: 'Found.' }, finish_reason: 'stop' }],
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
    yaml: {
      models: {
        m: { ...model, price: PRICE },
        search: { ...model, price: { ...PRICE, request: '$0.025' }, allow: ['web_search'] },
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
    // The whole context, because what is found becomes prompt.
    held: 8_192_000n + 200_000n + 25_000_000n,
    source: 'reported',
  })
})

test('a search has a price of its own, and the receipt says how many there were', async () => {
  const answer = await gateway.chat({ model: 'fee', web_search_options: {}, max_completion_tokens: 100 })
  expect(gateway.receipt(answer)).toMatchObject({
    charged: 1_000_000n + 20_000n + 10_000_000n,
    held: 8_192_000n + 200_000n + 10_000_000n,
    price: { search: 10_000_000n },
    searches: 1,
    source: 'reported',
  })
  const plain = await gateway.chat({ model: 'fee', max_completion_tokens: 100 })
  expect(gateway.receipt(plain)!.charged).toBeLessThan(10_000_000n)
  expect(gateway.receipt(plain)!.searches).toBeUndefined()
})

test('a model that does not list web_search takes none', async () => {
  const before = provider.requests.length
  const answer = await gateway.chat({ model: 'm', web_search_options: {} })
  expect(answer.status).toBe(400)
  expect(await answer.json()).toMatchObject({ error: { code: 'unsupported_parameter', param: 'web_search_options' } })
  expect(provider.requests.length).toBe(before)
})
