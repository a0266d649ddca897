/** The verbs for people and operators' tokens: refusals, changes, and secrets that are returned once. */
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { runVerb, VerbError, type VerbName } from '../../../src/api/control/verbs.ts'
import { openStore } from '../../../src/store/engine/sqlite.ts'
import { StoreError } from '../../../src/store/error.ts'
import type { LocalStore } from '../../../src/store/local-store.ts'

const NOW = Date.UTC(2026, 10, 21, 10)
const TOMORROW = '2026-11-22T10:00:00.000Z'
const HASH = '$argon2id$v=19$m=19456,t=2,p=1$c2FsdA$aGFzaA'
const INVITATION = { role: 'member', expires_at: TOMORROW, actor: 'cli:me' }

let store: LocalStore

beforeEach(async () => {
  store = await openStore({
    url: 'memory',
    secret: 'a secret for tests that is long enough',
    clock: { now: () => NOW },
  })
})
afterEach(() => store.close())

async function join(token: string, email: string) {
  return store.people.join(token, { email, password: HASH })
}

async function createPerson(email: string, role: 'member' | 'operator' = 'member') {
  const membership = { name: email, plan: 'default', credit: 0n }
  return store.people.create({ email, password: HASH, role, membership })
}

describe('a refused verb changes nothing', () => {
  test.each<[VerbName, Record<string, unknown>, string]>([
    ['person.invite', { ...INVITATION, role: undefined }, '"role" is missing'],
    ['person.invite', { ...INVITATION, role: 'owner' }, '"role" must be member or operator'],
    ['person.invite', { ...INVITATION, expires_at: undefined }, '"expires_at" is missing'],
    ['person.invite', { ...INVITATION, actor: undefined }, '"actor" is missing'],
    ['person.invite', { ...INVITATION, credit: '-1' }, '"credit" is wrong'],
    ['person.invite', { ...INVITATION, account: 'acme', plan: 'gold' }, '"plan" and "credit" are for a new account'],
    ['person.invite', { ...INVITATION, account: 'acme', credit: '1' }, '"plan" and "credit" are for a new account'],
    ['person.invite', { ...INVITATION, person: 'per_1' }, '"person" is not an argument'],
    ['person.reset', { expires_at: TOMORROW, actor: 'me' }, '"person" is missing'],
    ['person.list', { search: 'a' }, '"search" is not an argument'],
    ['person.role', { person: 'ada@example.com', role: 'owner' }, '"role" must be member or operator'],
    ['token.create', { name: 'payments' }, '"actor" is missing'],
    ['token.create', { name: 'payments', actor: 'me', expires_at: 'soon' }, '"expires_at" must be a time'],
  ])('%s %j: %s', async (verb, args, sentence) => {
    await store.createAccount({ name: 'acme' })
    await createPerson('ada@example.com')
    const call = runVerb(store, verb, args)
    await expect(call).rejects.toThrow(VerbError)
    await expect(call).rejects.toThrow(sentence)
    expect([store.reads.people.links(), store.reads.people.tokens()]).toEqual([[], []])
  })

  test.each<[VerbName, Record<string, unknown>, string]>([
    ['person.invite', { ...INVITATION, account: 'unknown' }, 'the account "unknown" does not exist'],
    ['person.invite', { ...INVITATION, expires_at: '2001-01-01T00:00:00Z' }, 'not in the future'],
    ['person.invite', { ...INVITATION, email: 'ada' }, 'not an e-mail address'],
    [
      'person.reset',
      { person: 'bo@example.com', expires_at: TOMORROW, actor: 'me' },
      'the person "bo@example.com" does not exist',
    ],
    ['person.role', { person: 'bo@example.com', role: 'operator' }, 'the person "bo@example.com" does not exist'],
    ['person.role', { person: 'ada@example.com', role: 'member' }, 'is the only operator'],
    ['person.remove', { person: 'per_x' }, 'the person "per_x" does not exist'],
    ['person.remove', { person: 'ada@example.com' }, 'is the only operator'],
    ['token.revoke', { token: 'tok_x' }, 'the operators\' token "tok_x" does not exist; give its id or its name'],
  ])('%s %j: %s', async (verb, args, sentence) => {
    await createPerson('ada@example.com', 'operator')
    const call = runVerb(store, verb, args)
    await expect(call).rejects.toThrow(StoreError)
    await expect(call).rejects.toThrow(sentence)
    expect(store.reads.people.list()).toMatchObject([{ email: 'ada@example.com', role: 'operator' }])
    expect(store.reads.people.links()).toEqual([])
  })
})

describe('an invitation', () => {
  test('creates an operator with their own account and names the actor', async () => {
    const args = { ...INVITATION, role: 'operator', email: 'Ada@Example.com', plan: 'gold', credit: '5' }
    const { link, token } = await runVerb(store, 'person.invite', args)
    expect(link).toEqual({
      id: expect.stringMatching(/^lnk_/),
      kind: 'invitation',
      role: 'operator',
      account_id: null,
      account: null,
      email: 'ada@example.com',
      plan: 'gold',
      credit: '5.000000000',
      created_at: '2026-11-21T10:00:00.000Z',
      expires_at: TOMORROW,
      created_by: 'cli:me',
    })
    expect(JSON.stringify(link)).not.toContain(token)
    await expect(join(token, 'bo@example.com')).rejects.toThrow('not for the address')
    const { accountId } = await join(token, 'ada@example.com')
    expect(store.reads.findAccount(accountId)).toMatchObject({
      name: 'ada@example.com',
      plan: 'gold',
      posted: 5_000_000_000n,
    })
    await expect(join(token, 'ada@example.com')).rejects.toThrow('does not work')
  })

  test('adds a person to an account that is named by name or id', async () => {
    const { id } = await store.createAccount({ name: 'acme' })
    for (const [account, email] of [
      ['acme', 'ada@example.com'],
      [id, 'bo@example.com'],
    ] as const) {
      const { link, token } = await runVerb(store, 'person.invite', { ...INVITATION, account })
      expect(link).toMatchObject({ account_id: id, account: 'acme', plan: null })
      expect(await join(token, email)).toMatchObject({ accountId: id, role: 'member' })
    }
  })
})

test('a reset is for one person, named by address or id', async () => {
  const { id } = await createPerson('ada@example.com')
  for (const person of ['ADA@example.com', id]) {
    const { link, token } = await runVerb(store, 'person.reset', { person, expires_at: TOMORROW, actor: 'cli:me' })
    expect(link).toMatchObject({ kind: 'reset', email: 'ada@example.com', account: null })
    expect((await store.people.reset(token, HASH)).id).toBe(id)
  }
})

test('people are listed by address with their accounts, without a limit', async () => {
  const { id } = await store.createAccount({ name: 'acme' })
  const many = Array.from({ length: 1001 }, (_, index) => `p${String(index).padStart(4, '0')}@example.com`)
  for (const email of many.toReversed()) {
    await store.people.create({ email, password: HASH, role: 'member', membership: { accountId: id } })
  }
  const { people } = await runVerb(store, 'person.list', {})
  expect(people.map(({ email }) => email)).toEqual(many)
  expect(people[0]).toEqual({
    id: expect.stringMatching(/^per_/),
    email: 'p0000@example.com',
    role: 'member',
    account_id: id,
    account: 'acme',
    created_at: '2026-11-21T10:00:00.000Z',
  })
})

test('a changed role and a removal are returned with the account, which stays', async () => {
  await createPerson('ada@example.com', 'operator')
  const { accountId } = await createPerson('bo@example.com')
  const bo = { email: 'bo@example.com', account_id: accountId, account: 'bo@example.com' }
  const raised = await runVerb(store, 'person.role', { person: 'bo@example.com', role: 'operator', actor: 'cli:me' })
  expect(raised.person).toMatchObject({ ...bo, role: 'operator' })
  expect((await runVerb(store, 'person.remove', { person: 'Bo@example.com', actor: 'cli:me' })).person).toMatchObject(
    bo,
  )
  expect(store.reads.people.list().map(({ email }) => email)).toEqual(['ada@example.com'])
  expect(store.reads.findAccount(accountId)).toBeDefined()
})

test('a token is revoked by its name if the name is unique; otherwise the error lists the ids', async () => {
  const make = async (name: string) => (await runVerb(store, 'token.create', { name, actor: 'cli:me' })).token.id
  const [first, second, third] = [await make('ci'), await make('ci'), await make('payments')]
  const revoke = async (token: string) => (await runVerb(store, 'token.revoke', { token, actor: 'cli:me' })).token.id
  expect(await revoke('payments')).toBe(third)
  await expect(revoke('payments')).rejects.toThrow('the operators\' token "payments" does not exist')
  await expect(revoke('ci')).rejects.toThrow(
    `2 operators' tokens have the name "ci": revoke one by its id: ${second}, ${first}`,
  )
  // The name of `other` is the id of `first`. The id takes precedence.
  const other = await make(first)
  expect(await revoke(first)).toBe(first)
  expect(await revoke(first)).toBe(other)
  expect(await revoke('ci')).toBe(second)
  expect((await store.people.tokens()).length).toBe(0)
})

test('a token works from its creation to its revocation; only the first answer has its secret', async () => {
  const { id } = await createPerson('ada@example.com', 'operator')
  const { token, secret } = await runVerb(store, 'token.create', { name: 'payments', actor: 'cli:me' })
  expect(token).toMatchObject({ name: 'payments', last4: secret.slice(-4), expires_at: null, created_by: 'cli:me' })
  expect(store.reads.people.findToken(secret)?.id).toBe(token.id)
  await runVerb(store, 'token.create', { name: 'script', actor: id, expires_at: TOMORROW })
  const { tokens } = await runVerb(store, 'token.list', {})
  // The author of a token made at the dashboard is shown by address, as in the dashboard.
  expect(tokens.map(({ name, created_by }) => [name, created_by])).toEqual([
    ['script', 'ada@example.com'],
    ['payments', 'cli:me'],
  ])
  expect(JSON.stringify(tokens)).not.toContain(secret)
  expect((await runVerb(store, 'token.revoke', { token: token.id, actor: 'cli:me' })).token.name).toBe('payments')
  expect(store.reads.people.findToken(secret)).toBeUndefined()
})

test('the plan of an account, and what a key has spent of its cap', async () => {
  const { account } = await runVerb(store, 'account.create', { name: 'acme', credit: '1' })
  expect((await runVerb(store, 'account.plan', { account: 'acme', plan: 'gold' })).account.plan).toBe('gold')
  await expect(runVerb(store, 'account.plan', { account: 'unknown', plan: 'gold' })).rejects.toThrow(
    'the account "unknown" does not exist',
  )
  const { key } = await runVerb(store, 'key.create', { account: 'acme', name: 'k', spending_cap: '0.5' })
  expect(key).toMatchObject({
    account_id: account.id,
    account: 'acme',
    spending_cap: '0.500000000',
    spent: '0.000000000',
  })
  expect(key).not.toHaveProperty('state')
  const later = '2027-01-01T00:00:00.000Z'
  const rotated = await runVerb(store, 'key.rotate', { key: key.id, grace_ms: 3_600_000, expires_at: later })
  expect(rotated.key).toMatchObject({ expires_at: later, secrets: [{ expires_at: '2026-11-21T11:00:00.000Z' }, {}] })
})
