/** Declared plans in use: refusals, models of an account, limits across policies, and the share of work. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { AUDIENCE, createSigner, ISSUER, sign } from '../../plugins/jwt/test-provider.ts'
import { THREAD_QUEUE } from '../../src/request/http/owners.ts'
import { FIVE_STEPS, type InProcess, startInProcess } from '../helpers/in-process.ts'
import { expectRefusal } from './refusal.ts'

const signer = createSigner('ES256', 'one')
const model = (more = {}) => ({
  targets: [{ provider: 'p', model: 'demo' }],
  price: { per: '1M tokens', input: '$1', output: '$2' },
  context: '100k',
  max_output: '10k',
  ...more,
})
const JWT = {
  use: 'jwt',
  with: {
    issuer: ISSUER,
    audience: AUDIENCE,
    jwks: { keys: [signer.jwk] },
    account_claim: 'tenant',
    models_claim: 'models',
    plan_claim: 'groups',
    plans: { staff: 'pro', guests: 'free' },
  },
}
const LIMITS = { use: 'rate-limit', id: 'by-plan', with: { limits: 'plan', only: 'requests' } }
const STEPS = [
  { use: 'api-key' },
  LIMITS,
  { use: 'schema' },
  { use: 'rate-limit', id: 'tokens', with: { limits: 'plan', only: 'tokens' } },
  { use: 'credits' },
  { use: 'route', with: { attempts: 1 } },
]

let gateway: InProcess
beforeAll(async () => {
  gateway = await startInProcess({
    steps: STEPS,
    policies: { other: STEPS, office: [JWT, ...STEPS.slice(1)], loose: FIVE_STEPS },
    yaml: {
      models: { m: model(), 'big/one': model(), secret: model({ public: false }) },
      plans: {
        free: { models: ['m'] },
        pro: { models: ['big/*', 'secret'], weight: 7 },
        slow: { limits: [{ per: 'account', requests: '2 per hour' }] },
      },
      routes: [
        { path: '/v1/chat/completions', policy: 'test' },
        { path: '/other/v1/chat/completions', policy: 'other' },
        { path: '/office/v1/chat/completions', policy: 'office' },
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
const bearer = (secret: string) => ({
  headers: { authorization: `Bearer ${secret}`, 'content-type': 'application/json' },
})
const ask = (secret: string, id: string, prefix = '') =>
  fetch(`${gateway.url}${prefix}/v1/chat/completions`, {
    ...bearer(secret),
    method: 'POST',
    body: JSON.stringify({ model: id, messages: [{ role: 'user', content: 'Hello' }], max_completion_tokens: 5 }),
  })
const list = async (secret: string, prefix = '') => {
  const answer = await fetch(`${gateway.url}${prefix}/v1/models`, bearer(secret))
  return ((await answer.json()) as { data: { id: string }[] }).data.map(({ id }) => id)
}
const key = async (accountId: string, models: readonly string[]) =>
  (await gateway.running.store.createKey({ account: accountId, name: 'narrow', models })).token

describe('an account whose plan is not declared', () => {
  test('is refused on every route, with the name of the plan', async () => {
    const account = await on('gold')
    const { message } = await expectRefusal(await account.chat(), 'plan_not_declared')
    expect(message).toBe('The plan "gold" is not declared in gateway.yaml. Ask the operator of this gateway.')
    await expectRefusal(await fetch(`${gateway.url}/v1/models`, bearer(account.key)), 'plan_not_declared')
    expect(account.balance()).toMatchObject({ held: 0n, posted: 10_000_000_000n })
  })

  test('is served again once it has a declared one', async () => {
    const account = await on('gold')
    await gateway.running.store.setPlan(account.accountId, 'free')
    expect((await account.chat()).status).toBe(200)
  })
})

describe('the models of a plan', () => {
  test.each<[plan: string, ids: readonly string[], refused: readonly string[]]>([
    ['default', ['m', 'big/one'], ['secret']],
    ['free', ['m'], ['big/one', 'secret']],
    ['pro', ['big/one', 'secret'], ['m']],
  ])('%s', async (plan, ids, refused) => {
    const account = await on(plan)
    expect(await list(account.key)).toEqual(ids)
    for (const id of ids) expect((await ask(account.key, id)).status).toBe(200)
    for (const id of refused) {
      await expectRefusal(await ask(account.key, id), 'model_not_found')
      await expectRefusal(await fetch(`${gateway.url}/v1/models/${id}`, bearer(account.key)), 'model_not_found')
    }
  })

  test("the list of a key narrows the plan's, and does not widen it", async () => {
    const { accountId } = await on('pro')
    expect(await list(await key(accountId, ['*']))).toEqual(['big/one', 'secret'])
    expect(await list(await key(accountId, ['secret', 'm']))).toEqual(['secret'])
    await expectRefusal(await ask(await key(accountId, ['m']), 'm'), 'model_not_found')
  })
})

describe('the plan of a token', () => {
  const token = (groups: unknown, claims = {}) =>
    sign(signer, Date.now(), { tenant: gateway.accountId, models: ['*'], groups, ...claims })

  test.each<[groups: unknown, ids: readonly string[]]>([
    ['staff', ['big/one', 'secret']],
    [
      ['guests', 'staff'],
      ['big/one', 'secret'],
    ],
    ['guests', ['m']],
  ])('%j', async (groups, ids) => {
    const secret = await token(groups)
    expect(await list(secret, '/office')).toEqual(ids)
    expect((await ask(secret, ids[0]!, '/office')).status).toBe(200)
  })

  test('is refused without a group that has one', async () => {
    await expectRefusal(await ask(await token('strangers'), 'm', '/office'), 'forbidden')
  })

  test('has its own list of models within it', async () => {
    expect(await list(await token('staff', { models: ['secret', 'm'] }), '/office')).toEqual(['secret'])
  })

  test('writes no claims to the log', async () => {
    const answer = await ask(await token('staff', { note: 'a-private-word' }), 'secret', '/office')
    await answer.text()
    await gateway.exchangeLine(answer.headers.get('x-request-id')!)
    expect(JSON.stringify(gateway.log)).not.toContain('a-private-word')
  })
})

test('a limit of a plan applies across all policies that enforce it', async () => {
  const account = await on('slow')
  expect((await ask(account.key, 'm')).status).toBe(200)
  expect((await ask(account.key, 'm', '/other')).status).toBe(200)
  const { message } = await expectRefusal(await ask(account.key, 'm'), 'rate_limit_exceeded')
  expect(message).toContain('this account has 2 requests per hour')
})

test('the weight of a plan is the share of its accounts', async () => {
  const weight = async (plan: string, id: string) => {
    const account = await on(plan)
    await (await ask(account.key, id)).text()
    return THREAD_QUEUE.owners.account(account.accountId).weight
  }
  expect(await weight('pro', 'secret')).toBe(7)
  expect(await weight('free', 'm')).toBe(1)
})
