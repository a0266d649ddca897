import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { plainPrice } from '#contract'
import { runVerb, VerbError, type VerbName } from '../../../src/api/control/verbs.ts'
import { openStore } from '../../../src/store/engine/sqlite.ts'
import { StoreError } from '../../../src/store/error.ts'
import type { LocalStore } from '../../../src/store/local-store.ts'
import { StoreUnavailable } from '../../../src/store/store.ts'

const NOW = Date.UTC(2026, 10, 21, 10)
let store: LocalStore
let now: number

beforeEach(async () => {
  now = NOW
  store = await openStore({
    url: 'memory',
    secret: 'a secret for tests that is long enough',
    clock: { now: () => now },
  })
})
afterEach(() => store.close())

test('an account whose first credit fails: the error names the account and the reference to retry', async () => {
  const credit = () => Promise.reject(new StoreUnavailable('not_written', new Error('disk full')))
  const failing = new Proxy(store, { get: (own, name) => (name === 'credit' ? credit : Reflect.get(own, name)) })
  const made = runVerb(failing, 'account.create', { name: 'acme', credit: '5' })
  await expect(made).rejects.toThrow(/^The account acc_\w+ was made.*the reference create:acc_\w+/)
  expect(store.reads.findAccount('acme')).toBeDefined()
})

describe('refused arguments change nothing', () => {
  const long = 'x'.repeat(201)
  test.each<[VerbName, Record<string, unknown>, string]>([
    ['account.create', {}, '"name" is missing'],
    ['account.create', { name: null }, '"name" is missing'],
    ['account.create', { name: 7 }, '"name" must be a text'],
    ['account.create', { name: '' }, '"name" is empty'],
    ['account.create', { name: '  ' }, '"name" is empty'],
    ['account.create', { name: ' a' }, '"name" has spaces around it'],
    ['account.create', { name: 'a\nb' }, '"name" has line breaks'],
    ['account.create', { name: '\x1b[31mred' }, 'cannot be seen'],
    ['account.create', { name: 'evil\u202egnp' }, 'cannot be seen'],
    ['account.create', { name: long }, '"name" is longer than 200'],
    ['account.create', { name: 'b', plan: '' }, '"plan" is empty'],
    ['account.create', { name: 'b', credit: 5 }, '"credit" must be a text'],
    ['account.create', { name: 'b', credit: '0' }, '"credit" must be more than $0'],
    ['account.create', { name: 'b', credit: '-1' }, '"credit" is wrong'],
    ['account.create', { name: 'b', credit: '1.0000000001' }, 'at most 9 decimals'],
    ['account.create', { name: 'b', credits: '5' }, '"credits" is not an argument of this verb'],
    ['account.create', { name: 'b', __proto__: null, constructor: 'x' }, '"constructor" is not an argument'],
    ['account.credit', { account: 'acme', amount: '1' }, '"reference" is missing'],
    ['account.credit', { account: 'acme', reference: 'r' }, '"amount" is missing'],
    ['account.credit', { account: 'acme', amount: '-1', reference: 'r' }, '"note" is missing'],
    ['account.credit', { account: 'acme', amount: '-0', reference: 'r', note: 'n' }, '"amount" must not be $0'],
    ['account.credit', { account: 'acme', amount: '--1', reference: 'r', note: 'n' }, '"amount" is wrong'],
    ['account.list', { limit: 5 }, '"limit" is not an argument'],
    ['key.create', { account: 'acme' }, '"name" is missing'],
    ['key.create', { account: 'acme', name: 'k', models: [] }, '"models" must be a list of at least one'],
    ['key.create', { account: 'acme', name: 'k', models: 'chat' }, '"models" must be a list'],
    ['key.create', { account: 'acme', name: 'k', models: [1] }, '"models" must be a text'],
    ['key.create', { account: 'acme', name: 'k', expires_at: 'soon' }, '"expires_at" must be a time'],
    ['key.update', { key: 'key_1' }, 'needs "name", "models", "expires_at" or "spending_cap"'],
    ['key.update', { key: 'key_1', models: [] }, '"models" must be a list of at least one'],
    ['key.update', { key: 'key_1', spending_cap: '0' }, '"spending_cap" must be more than $0'],
    ['key.update', { key: 'key_1', name: 'x', cap: null }, '"cap" is not an argument'],
    ['account.budget', { account: 'acme', every: 'day' }, '"every" and "amount" go together'],
    ['account.budget', { account: 'acme', amount: '5' }, '"every" and "amount" go together'],
    ['account.budget', { account: 'acme', amount: null }, '"every" and "amount" go together'],
    ['account.budget', { account: 'acme', every: 'year', amount: '5' }, '"every" must be one of hour, day,'],
    ['account.budget', { account: 'acme', every: 'day', amount: '0' }, '"amount" must be more than $0'],
    ['account.budget', { account: 'acme', every: 'day', amount: '5', zone: 'Mars' }, '"zone" must be a time zone'],
    ['account.budget', { account: 'acme', every: 'day', amount: null, at: ['5%'] }, '"at" needs "amount"'],
    ['account.budget', { account: 'acme', every: 'day', amount: null }, 'has no budget for "day"; it has: none'],
    ['account.budget', { account: 'acme', every: 'day', amount: '5', name: 'x' }, '"name" is not an argument'],
    ['model.list', {}, 'no gateway runs'],
    ['key.rotate', { key: 'key_1' }, '"grace_ms" must be a whole number'],
    ['key.rotate', { key: 'key_1', grace_ms: -1 }, 'from 0 to'],
    ['key.rotate', { key: 'key_1', grace_ms: 1.5 }, 'whole number'],
    ['key.rotate', { key: 'key_1', grace_ms: 168 * 3_600_000 + 1 }, 'from 0 to 604800000'],
  ])('%s %j: %s', async (verb, args, sentence) => {
    await runVerb(store, 'account.create', { name: 'acme' })
    const call = runVerb(store, verb, args)
    await expect(call).rejects.toThrow(VerbError)
    await expect(call).rejects.toThrow(sentence)
    expect(store.reads.listAccounts().map(({ name, posted }) => [name, posted])).toEqual([['acme', 0n]])
    expect(store.reads.listKeys()).toEqual([])
  })

  test('an unknown verb is refused', async () => {
    await expect(runVerb(store, 'constructor' as VerbName, {})).rejects.toThrow('there are: account.create')
  })

  test.each<[VerbName, Record<string, unknown>]>([
    ['account.show', { account: 'unknown' }],
    ['account.freeze', { account: 'unknown' }],
    ['account.unfreeze', { account: 'acc_0' }],
    ['account.credit', { account: 'unknown', amount: '1', reference: 'r' }],
    ['key.create', { account: 'unknown', name: 'k' }],
    ['key.list', { account: 'unknown' }],
    ['key.rotate', { key: 'key_0', grace_ms: 0 }],
    ['key.update', { key: 'key_0', spending_cap: null }],
    ['key.revoke', { key: 'key_0' }],
    ['account.budget', { account: 'acc_0' }],
    ['key.budget', { key: 'key_0', every: 'day', amount: '5' }],
  ])('%s refuses what does not exist', async (verb, args) => {
    await expect(runVerb(store, verb, args)).rejects.toThrow(StoreError)
  })
})

test('an account from creation to freeze', async () => {
  const created = await runVerb(store, 'account.create', { name: 'acme', plan: 'free', credit: '10', actor: 'cli:me' })
  expect(created.account).toEqual({
    id: expect.stringMatching(/^acc_/),
    name: 'acme',
    plan: 'free',
    frozen: false,
    created_at: '2026-11-21T10:00:00.000Z',
    posted: '10.000000000',
    held: '0.000000000',
    available: '10.000000000',
  })
  const more = { account: 'acme', amount: '0.000000001', reference: 'r1', actor: 'cli:me' }
  expect(await runVerb(store, 'account.credit', more)).toMatchObject({
    granted: true,
    reference: 'r1',
    account: { available: '10.000000001' },
  })
  expect(await runVerb(store, 'account.credit', more)).toMatchObject({
    granted: false,
    account: { available: '10.000000001' },
  })
  await expect(runVerb(store, 'account.credit', { ...more, amount: '3' })).rejects.toThrow(StoreError)
  const less = { ...more, amount: '-0.000000001', reference: 'r2', note: 'a mistake' }
  expect(await runVerb(store, 'account.credit', less)).toMatchObject({
    granted: true,
    account: { available: '10.000000000' },
  })
  await expect(runVerb(store, 'account.credit', { ...less, amount: '-11', reference: 'r3' })).rejects.toThrow(
    /Take at most \$10\.0+/,
  )

  expect((await runVerb(store, 'account.freeze', { account: created.account.id })).account.frozen).toBe(true)
  expect((await runVerb(store, 'account.show', { account: 'acme' })).account.frozen).toBe(true)
  expect((await runVerb(store, 'account.unfreeze', { account: 'acme' })).account.frozen).toBe(false)
  expect(await runVerb(store, 'ledger.verify', {})).toEqual({ accounts: 1, events: 3, open_holds: 0, violations: [] })
})

test('a key from creation to revocation; only the first answer has the secret', async () => {
  await runVerb(store, 'account.create', { name: 'acme' })
  const args = { account: 'acme', name: 'laptop', models: ['chat-small'], expires_at: '2027-01-01T00:00:00.000Z' }
  const { key, token } = await runVerb(store, 'key.create', args)
  expect(key).toMatchObject({ account: 'acme', name: 'laptop', models: ['chat-small'], expires_at: args.expires_at })
  expect(store.keys.find(token, NOW).found).toBe('live')

  now = NOW + 60_000
  const rotated = await runVerb(store, 'key.rotate', { key: key.id, grace_ms: 3_600_000 })
  expect(rotated.key.id).toBe(key.id)
  expect(store.keys.find(token, now).found).toBe('live')
  expect(store.keys.find(token, now + 3_600_001).found).toBe('rotated')
  expect(store.keys.find(rotated.token, now + 3_600_001).found).toBe('live')

  const { keys } = await runVerb(store, 'key.list', { account: 'acme' })
  expect(keys[0]?.secrets?.map(({ last4 }) => last4)).toEqual([token.slice(-4), rotated.token.slice(-4)])
  expect(JSON.stringify([keys, await runVerb(store, 'account.show', { account: 'acme' })])).not.toContain(token)

  expect((await runVerb(store, 'key.revoke', { key: key.id })).key.revoked_at).toBe('2026-11-21T10:01:00.000Z')
  expect(store.keys.find(rotated.token, now).found).toBe('revoked')
  await expect(runVerb(store, 'key.rotate', { key: key.id, grace_ms: 0 })).rejects.toThrow('revoked')
})

test('keys of all accounts, each with its owner', async () => {
  for (const name of ['acme', 'umbrella']) {
    await runVerb(store, 'account.create', { name })
    await runVerb(store, 'key.create', { account: name, name: 'k' })
  }
  const { keys } = await runVerb(store, 'key.list', {})
  expect(keys.map(({ account }) => account)).toEqual(['acme', 'umbrella'])
})

test('an account with holds shows what is available', async () => {
  const { account } = await runVerb(store, 'account.create', { name: 'acme', credit: '1' })
  const { key } = await runVerb(store, 'key.create', { account: 'acme', name: 'k' })
  await store.ledger.hold({
    exchange: 'req_1',
    accountId: account.id,
    keyId: key.id,
    amount: 250_000_001n,
    model: 'm',
    price: plainPrice({ input: 1n, cached_input: 1n, cache_write: 1n, output: 1n, request: 0n }),
    bound: { output: 1 },
    idempotencyKey: null,
  })
  expect((await runVerb(store, 'account.list', {})).accounts[0]).toMatchObject({
    posted: '1.000000000',
    held: '0.250000001',
    available: '0.749999999',
  })
})

test('budgets of an account and of a key are set, listed with those of the plan, changed and removed', async () => {
  const plan = { per: 'account', amount: 3_000_000_000n, every: 'week' } as const
  const running = { clock: { now: () => now }, budgetRules: () => new Map([['plan free', [plan]]]) }
  const { account } = await runVerb(store, 'account.create', { name: 'acme', plan: 'free' })
  const { key } = await runVerb(store, 'key.create', { account: 'acme', name: 'app' })
  const call = async (verb: 'account.budget' | 'key.budget', args: object) =>
    (await runVerb(store, verb, { ...args }, running)).budgets.map(budget => [budget.name, budget.amount, budget.then])
  const ofPlan = ['account week', '3.000000000', 'refuse']
  const ofKey = ['key day', '2.000000000', 'refuse']
  expect(await call('account.budget', { account: 'acme' })).toEqual([ofPlan])
  const month = {
    account: account.id,
    every: 'month',
    amount: '100',
    zone: 'Europe/Berlin',
    then: 'm',
    actor: 'cli:me',
  }
  const ofAccount = ['account month', '100.000000000', 'm']
  expect(await call('account.budget', month)).toEqual([ofAccount, ofPlan])
  expect(await call('key.budget', { key: key.id, every: 'day', amount: '2', at: ['50%'] })).toEqual([
    ofAccount,
    ofPlan,
    ofKey,
  ])
  expect(await runVerb(store, 'account.show', { account: 'acme' }, running)).toMatchObject({
    keys: [{ budgets: [{ every: 'day', amount: '2.000000000' }] }],
    budgets: [
      { place: 'account', resets_at: '2026-11-30T23:00:00.000Z' },
      { place: 'plan free' },
      { place: 'key', at: ['50%'] },
    ],
  })
  const wrong = runVerb(store, 'key.budget', { key: key.id, every: 'week', amount: null }, running)
  await expect(wrong).rejects.toThrow(`the key ${key.id} has no budget for "week"; it has: day`)
  expect(await call('account.budget', { account: 'acme', every: 'month', amount: null })).toEqual([ofPlan, ofKey])
  expect(await call('key.budget', { key: key.id, every: 'day', amount: null })).toEqual([ofPlan])
})
