/** Models with prices from a list: the clients' view, the access of keys, the charges, and the receipts. */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { exact, type FakeProvider, startFakeProvider } from '../helpers/fake-provider.ts'
import { type InProcess, startInProcess } from '../helpers/in-process.ts'
import { expectRefusal } from './refusal.ts'

let provider: FakeProvider
let gateway: InProcess

beforeAll(async () => {
  provider = await startFakeProvider({ script: exact({ tokens: 3 }) })
  gateway = await startInProcess({
    provider: provider.baseUrl,
    yaml: {
      providers: {
        openai: { dialect: 'openai', profile: 'openai', base_url: provider.baseUrl },
      },
      models: {
        'openai/*': { targets: [{ provider: 'openai', model: '*' }], price: 'auto' },
        'openai/gpt-5-nano': {
          targets: [{ provider: 'openai', model: 'gpt-5-nano' }],
          price: 'free',
          context: 8192,
          max_output: 100,
        },
        'openai/o*': { targets: [{ provider: 'openai', model: 'o*' }], price: 'auto', public: false },
        old: {
          targets: [{ provider: 'openai', model: 'gpt-4o' }],
          price: 'auto',
          default_output: 512,
          deprecation: { date: '2027-02-01', successor: 'openai/gpt-5' },
          aliases: ['openai/gpt-4o'],
        },
      },
    },
    policies: { catalog: [{ use: 'api-key' }] },
  })
})
afterAll(async () => {
  await gateway.stop()
  await provider.close()
})

async function keyFor(models: readonly string[] | null): Promise<string> {
  return (await gateway.running.store.createKey({ account: gateway.accountId, name: 'test', models })).token
}
const chat = (model: string, key = gateway.key, body: object = {}) =>
  gateway.chat({ model, max_tokens: 5, ...body }, {
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
  } as never)

async function ids(key: string): Promise<string[]> {
  const answer = await fetch(`${gateway.url}/v1/models`, { headers: { authorization: `Bearer ${key}` } })
  return ((await answer.json()) as { data: { id: string }[] }).data.map(({ id }) => id)
}

test('a wildcard covers each model of the list, except those with their own entry', async () => {
  const found = await ids(gateway.key)
  expect(found).toContain('openai/gpt-5')
  expect(found).toContain('openai/gpt-5-2025-08-07')
  expect(found.filter(id => id === 'openai/gpt-5-nano')).toHaveLength(1)
  // The alias of "old" precedes the wildcard.
  expect(found).not.toContain('openai/gpt-4o')
  // "openai/o*" has more text than "openai/*", and is not public.
  expect(found).not.toContain('openai/o3')
  expect(found.every(id => !id.includes('*'))).toBe(true)
})

test('the provider gets its own name, and the charge is that of the list, to the nano-dollar', async () => {
  const before = gateway.balance().posted
  const answer = await chat('openai/gpt-5')
  expect(answer.status).toBe(200)
  const { usage } = (await answer.json()) as { usage: { prompt_tokens: number; completion_tokens: number } }
  expect(provider.requests.at(-1)!.body!['model']).toBe('gpt-5')
  const receipt = gateway.receipt(answer)!
  expect(receipt.charged).toBe(BigInt(usage.prompt_tokens) * 1250n + BigInt(usage.completion_tokens) * 10_000n)
  expect(before - gateway.balance().posted).toBe(receipt.charged)
  expect(new Set(receipt.price!.map(rule => rule.source))).toEqual(new Set(['genai-prices 0.1.8 of 2026-09-23']))
  const shown = await fetch(`${gateway.url}/v1/receipts/${receipt.id}`, {
    headers: { authorization: `Bearer ${gateway.key}` },
  })
  expect(((await shown.json()) as { pricing: { rules: object[] } }).pricing.rules[0]).toMatchObject({
    unit: 'input',
    source: 'genai-prices 0.1.8 of 2026-09-23',
  })
})

test('a model with its own entry has its own price', async () => {
  const answer = await chat('openai/gpt-5-nano')
  expect(answer.status).toBe(200)
  expect(gateway.receipt(answer)).toBeUndefined()
})

test('a name that is missing in the list is a 404 that names the wildcard', async () => {
  const refusal = await expectRefusal(await chat('openai/gpt-99'), 'model_not_found')
  expect(refusal.message).toBe(
    'The model "openai/gpt-99" does not exist, or this key may not use it. The models of "openai/*" are those of the price list.',
  )
  const other = await expectRefusal(await chat('anthropic/claude'), 'model_not_found')
  expect(other.message).toBe('The model "anthropic/claude" does not exist, or this key may not use it.')
  const star = await expectRefusal(await chat('openai/*'), 'model_not_found')
  expect(star.message).toContain('"openai/*" does not exist')
})

test('a dated name is sent to the provider, and billed as its model, if the list covers such names', async () => {
  const answer = await chat('openai/gpt-5.6-luna-20260202')
  expect(answer.status).toBe(200)
  expect(provider.requests.at(-1)!.body!['model']).toBe('gpt-5.6-luna-20260202')
  expect(gateway.receipt(answer)!.model).toBe('openai/gpt-5.6-luna')
  for (const model of [
    'old-2026-02-02',
    'openai/gpt-99-2026-02-02',
    'openai/gpt-5.6-luna-latest',
    'openai/gpt-5-20260202',
  ]) {
    expect((await chat(model)).status, model).toBe(404)
  }
})

test('a key for a pattern reaches the public models that match it, and nothing else', async () => {
  const key = await keyFor(['openai/gpt-4*', 'openai/o*', 'openai/o3', 'old'])
  const found = await ids(key)
  expect(found).toContain('openai/gpt-4.1')
  expect(found).toContain('old')
  // Models that are not public must be named, because members can write patterns too.
  expect(found).toContain('openai/o3')
  expect(found).not.toContain('openai/o1')
  expect(found.every(id => id === 'old' || id === 'openai/o3' || id.startsWith('openai/gpt-4'))).toBe(true)
  expect((await chat('openai/gpt-4.1', key)).status).toBe(200)
  expect((await chat('openai/o3', key)).status).toBe(200)
  expect((await chat('openai/o1', key)).status).toBe(404)
  expect((await chat('openai/gpt-5', key)).status).toBe(404)
  // A key without access to models of the wildcard does not learn of it.
  const hidden = await expectRefusal(await chat('openai/gpt-99', await keyFor(['old'])), 'model_not_found')
  expect(hidden.message).toMatch(/or this key may not use it\.$/)
})

test('answers of a model with an end date state that date and its successor', async () => {
  for (const stream of [false, true]) {
    const answer = await chat('old', gateway.key, { stream })
    await answer.text()
    expect(answer.headers.get('deprecation')).toBe('@1801440000')
    expect(answer.headers.get('sunset')).toBe('Mon, 01 Feb 2027 00:00:00 GMT')
    expect(answer.headers.get('link')).toBe('</v1/models/openai%2Fgpt-5>; rel="successor-version"')
  }
  const other = await chat('openai/gpt-5')
  expect(other.headers.get('sunset')).toBeNull()
})
