/** Budgets at a gateway: of plans and policies, the model that answers instead, and the list for clients. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { parseMoney } from '#contract'
import { AUDIENCE, createSigner, ISSUER, sign } from '../../plugins/jwt/test-provider.ts'
import { budgetUses } from '../helpers/budget-uses.ts'
import { type InProcess, startInProcess } from '../helpers/in-process.ts'
import { expectRefusal } from './refusal.ts'

const signer = createSigner('ES256', 'one')
const model = (input: string, output: string, more = {}) => ({
  targets: [{ provider: 'p', model: 'demo' }],
  price: { per: '1M tokens', input, output },
  context: '100k',
  max_output: '10k',
  ...more,
})
const JWT = {
  use: 'jwt',
  with: { issuer: ISSUER, audience: AUDIENCE, jwks: { keys: [signer.jwk] }, account_claim: 'tenant', plan: 'people' },
}
const CREDITS = {
  use: 'credits',
  with: { when_short: ['refuse'], budgets: [{ per: 'tag run', amount: '$1', every: 'life' }] },
}
const TAGS = { use: 'tags', with: { tags: { run: { from: 'header x-run', client: true } } } }
const CACHE = { use: 'cache', with: { temperature: 'any' } }
const STEPS = [{ use: 'api-key' }, { use: 'schema' }, TAGS, CREDITS, { use: 'route', with: { attempts: 1 } }]

let gateway: InProcess
beforeAll(async () => {
  gateway = await startInProcess({
    steps: STEPS,
    policies: { office: [JWT, ...STEPS.slice(1)], cached: [...STEPS.slice(0, 3), CACHE, ...STEPS.slice(3)] },
    yaml: {
      models: { big: model('$10', '$20'), small: model('$0.1', '$0.2'), free: { ...model('$1', '$1'), price: 'free' } },
      plans: {
        frugal: {
          budgets: [{ per: 'account', amount: '$0.001', every: 'month', zone: 'Europe/Berlin', then: 'small' }],
        },
        strict: { budgets: [{ per: 'key', amount: '$0.001', every: 'life', name: 'trial' }] },
        people: { budgets: [{ per: 'caller', amount: '$0.03', every: 'day' }] },
      },
      routes: [
        { path: '/v1/chat/completions', policy: 'test' },
        { path: '/office/v1/chat/completions', policy: 'office' },
        { path: '/cached/v1/chat/completions', policy: 'cached' },
      ],
    },
  })
})
afterAll(() => gateway.stop())

const on = async (plan: string) => {
  const account = await gateway.account()
  await gateway.running.store.setPlan(account.accountId, plan)
  return account
}
const headersOf = (secret: string) => ({ authorization: `Bearer ${secret}`, 'content-type': 'application/json' })
const ask = (secret: string, id: string, { prefix = '', run = '' } = {}) =>
  fetch(`${gateway.url}${prefix}/v1/chat/completions`, {
    method: 'POST',
    headers: { ...headersOf(secret), ...(run === '' ? {} : { 'x-run': run }) },
    body: JSON.stringify({ model: id, messages: [{ role: 'user', content: 'Hi' }], max_tokens: 1000 }),
  })
const list = async (secret: string, prefix = '') => {
  const answer = await fetch(`${gateway.url}${prefix}/v1/budgets`, { headers: headersOf(secret) })
  expect(answer.status).toBe(200)
  return (await answer.json()) as { object: string; data: Record<string, unknown>[] }
}

describe('a budget of a plan', () => {
  test('never caches an answer of its other model as one of the requested model', async () => {
    const { key } = await on('frugal')
    for (let i = 0; i < 2; i++) {
      const answer = await ask(key, 'big', { prefix: '/cached' })
      const [cache, model] = ['cache', 'model'].map(name => answer.headers.get(`x-tollgate-${name}`))
      expect({ cache, model }).toEqual({ cache: 'miss', model: 'small' })
      await answer.text()
    }
  })

  test('refuses requests beyond it, for each key separately', async () => {
    const { key } = await on('strict')
    const { message } = await expectRefusal(await ask(key, 'big'), 'budget_exhausted')
    expect(message).toMatch(/the budget "trial" of the key .* It does not reset\./)
    expect((await ask(key, 'small')).status).toBe(200)
  })

  test('lets its other model answer, and the answer names it', async () => {
    const { key } = await on('frugal')
    const answer = await ask(key, 'big')
    expect([answer.status, answer.headers.get('x-tollgate-model')]).toEqual([200, 'small'])
    expect(answer.headers.get('x-tollgate-budget')).toBe('account month')
    expect(await answer.json()).toMatchObject({ model: 'small' })
    const id = answer.headers.get('x-request-id')!
    const receipt = await fetch(`${gateway.url}/v1/receipts/${id}`, { headers: headersOf(key) })
    expect(await receipt.json()).toMatchObject({ model: 'small', asked_model: 'big' })
  })

  test('applies to the caller that a token identifies', async () => {
    const { accountId } = await on('default')
    const token = (sub: string) => sign(signer, Date.now(), { tenant: accountId, sub })
    const [ada, bob] = [await token('ada'), await token('bob')]
    const hold = () => ask(ada, 'big', { prefix: '/office' })
    let answer = await hold()
    for (let count = 0; answer.status === 200 && count < 1000; count++) answer = await hold()
    await expectRefusal(answer, 'budget_exhausted')
    expect((await ask(bob, 'big', { prefix: '/office' })).status).toBe(200)
    const { data } = await list(ada, '/office')
    expect(data.filter(({ per }) => per === 'caller')).toEqual([
      expect.objectContaining({ name: 'caller day', amount: '0.030000000', place: 'plan people' }),
    ])
  })
})

test('a budget of a tag caps one run, and no other', async () => {
  const { key, accountId } = await on('default')
  expect((await ask(key, 'small', { run: 'a' })).status).toBe(200)
  expect((await ask(key, 'small', { run: 'b' })).status).toBe(200)
  const uses = budgetUses(gateway.running.store.reads, accountId, Date.now())
  expect(uses.map(({ budget }) => budget)).toEqual([
    'policy test%2Fcredits/tag run life/life/a',
    'policy test%2Fcredits/tag run life/life/b',
  ])
  // A value of another client has its own budget.
  expect((await list(key)).data.map(({ place }) => place)).toEqual([])
})

test('GET /v1/budgets has those of the key, the account and the plan, with the amounts left', async () => {
  const { key, accountId } = await on('strict')
  const { store } = gateway.running
  const { id } = store.reads.listKeys(accountId)[0]!
  await store.setBudget({
    of: 'account',
    name: accountId,
    every: 'month',
    budget: { amount: parseMoney('$100'), zone: 'Asia/Tokyo' },
  })
  await store.setBudget({ of: 'key', name: id, every: 'hour', budget: { amount: parseMoney('$1') } })
  const other = await store.createKey({ account: accountId, name: 'other' })
  await store.setBudget({ of: 'key', name: other.key.id, every: 'day', budget: { amount: 1n } })
  expect((await ask(key, 'small')).status).toBe(200)
  const { object, data } = await list(key)
  expect(object).toBe('list')
  expect(data).toMatchObject([
    {
      object: 'budget',
      place: 'account',
      per: 'account',
      every: 'month',
      zone: 'Asia/Tokyo',
      amount: '100.000000000',
      key: null,
    },
    { place: 'key', per: 'key', every: 'hour', key: id },
    { place: 'plan strict', name: 'trial', per: 'key', every: 'life', resets_at: null, start: null },
  ])
  for (const { amount, spent, held, left } of data as Record<string, string>[]) {
    expect(parseMoney(left!)).toBe(parseMoney(amount!) - parseMoney(spent!) - parseMoney(held!))
    expect(parseMoney(spent!)).toBeGreaterThan(0n)
  }
  await expectRefusal(await fetch(`${gateway.url}/v1/budgets`), 'missing_api_key')
})
