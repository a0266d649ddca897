/** Limits that protect people from each other: on password hashes, attempts, changes and new accounts. */
import { describe, expect, onTestFinished, test } from 'vitest'
import { isRefusal } from '#contract'
import { createAttempts, takeAll } from '../../src/api/attempts.ts'
import { createPasswords } from '../../src/api/password.ts'
import type { Replicas } from '../../src/store/engine/replicas.ts'
import { beside, QUICK } from '../store/beside.ts'
import { onPostgres, type TestStore, testClock, testStore } from '../store/helpers.ts'
import { type Client, PASSWORD, type Reply, type Rig, startRig } from './rig.ts'

const ALICE = 'alice@example.com'
const QUARTER_HOUR_MS = 15 * 60_000

describe('concurrent password hashes', () => {
  test.each<[what: string, by: (index: number) => string[]]>([
    ['an address', index => ['address 10.0.0.1', `person ${index}`]],
    ['a person', index => [`address ${index}`, 'person a']],
  ])('%s has at most two, and may start others when they end', async (_, by) => {
    const { promise: open, resolve } = Promise.withResolvers<void>()
    const passwords = createPasswords(async ({ tagLength }) => {
      await open
      return new Uint8Array(tagLength)
    })
    const tries = [0, 1, 2, 3].map(index => passwords.hash(PASSWORD, { by: by(index), isStranger: false }))
    const other = passwords.hash(PASSWORD, { by: ['address other', 'person other'], isStranger: false })
    const refused = await Promise.allSettled(tries.slice(2))
    for (const each of refused) {
      expect(each.status === 'rejected' && isRefusal(each.reason) && each.reason.code).toBe('overloaded')
    }
    resolve()
    await Promise.all([...tries.slice(0, 2), other])
    await expect(passwords.hash(PASSWORD, { by: by(0), isStranger: false })).resolves.toMatch(/^\$argon2id/)
  })

  test('a person who signs in constantly does not block others', async () => {
    const gates: (() => void)[] = []
    await using rig = await startRig({
      derive: async ({ tagLength }) => {
        await new Promise<void>(resolve => gates.push(resolve))
        return new Uint8Array(tagLength)
      },
    })
    const mallory = Array.from({ length: 40 }, () => signIn(rig, { email: 'mallory@example.com', from: '10.0.0.1' }))
    const early: Reply[] = []
    for (const each of mallory) void each.then(reply => early.push(reply))
    await expect.poll(() => early.length).toBe(38)
    const bob = signIn(rig, { email: 'bob@example.com', from: '10.0.0.2' })
    let over = false
    void bob.then(() => {
      over = true
    })
    await expect
      .poll(() => {
        for (const gate of gates.splice(0)) gate()
        return over
      })
      .toBe(true)
    expect((await bob).status).toBe(401)
  })
})

describe('attempts', () => {
  test('that one window refuses do not count in the others', async () => {
    const clock = testClock()
    const wide = createAttempts(clock, { most: 2, windowMs: 1000 })
    const shut = createAttempts(clock, { most: 1, windowMs: 1000 })
    shut.take('a')
    for (let round = 0; round < 5; round++) {
      const tries = [wide, shut].map(attempts => [attempts, 'a'] as const)
      await expect(takeAll(tries, null)).rejects.toThrow('Too many attempts')
    }
    wide.take('a')
    const takeBack = await takeAll([[wide, 'a']], null)
    takeBack()
    wide.take('a')
    expect(() => wide.take('a')).toThrow('Too many attempts')
  })

  test('at a locked account do not lock the address that they come from', async () => {
    await using rig = await startRig()
    await rig.member(ALICE)
    for (let round = 0; round < 10; round++) await signIn(rig, { password: 'wrong password', from: `10.1.${round}.1` })
    const codes: string[] = []
    for (let round = 0; round < 200; round++) codes.push(codeOf(await signIn(rig, { password: 'wrong password' })))
    expect(codes).toEqual(Array(200).fill('too_many_attempts'))
    expect(codeOf(await signIn(rig, { email: 'other@example.com' }))).toBe('wrong_credentials')
  })

  test('that succeed are counted too, in a wider window', async () => {
    await using rig = await startRig()
    await rig.member(ALICE)
    const before = rig.hashes()
    const statuses: number[] = []
    for (let round = 0; round < 70; round++) {
      statuses.push((await signIn(rig, { from: `10.0.${round}.1` })).status)
      rig.clock.ms += 500
    }
    expect(statuses).toEqual([...Array(60).fill(201), ...Array(10).fill(429)])
    expect(rig.hashes() - before).toBe(60)
    rig.clock.ms += QUARTER_HOUR_MS
    expect((await signIn(rig)).status).toBe(201)
  })

  test('of strangers do not keep a signed-in person from changing a password', async () => {
    await using rig = await startRig()
    const alice = await rig.member(ALICE)
    for (let round = 0; round < 12; round++) await signIn(rig, { password: 'wrong password', from: `10.1.${round}.1` })
    expect(codeOf(await signIn(rig))).toBe('too_many_attempts')
    const change = (current: string) => alice.post('/api/password', { current, new: 'another password' })
    expect((await change('wrong password')).status).toBe(401)
    expect((await change(PASSWORD)).status).toBe(200)
  })

  test('with a stolen session are limited to ten, and the owner keeps theirs', async () => {
    await using rig = await startRig()
    const alice = await rig.member(ALICE)
    const thief = rig.browser()
    thief.cookie = alice.cookie
    const desk = rig.browser()
    await desk.post('/api/session', { email: ALICE, password: PASSWORD })
    const statuses: number[] = []
    for (let round = 0; round < 12; round++) {
      statuses.push((await thief.post('/api/password', { current: 'wrong password', new: 'another password' })).status)
    }
    expect(statuses).toEqual([...Array(10).fill(401), 429, 429])
    expect((await desk.post('/api/password', { current: PASSWORD, new: 'another password' })).status).toBe(200)
  })
})

describe('changes', () => {
  test('are limited to sixty a minute for a person, including refused ones; others keep theirs', async () => {
    await using rig = await startRig()
    const [alice, bob, operator] = [await rig.member(ALICE), await rig.member('bob@example.com'), await rig.operator()]
    const machine = rig.machine(await rig.token())
    const replies: Reply[] = []
    for (let index = 0; index < 59; index++) replies.push(await alice.post('/api/keys/key_none/revoke', {}))
    replies.push(await alice.post('/api/keys', { name: 'laptop' }))
    expect(replies.map(({ status }) => status)).toEqual([...Array(59).fill(404), 201])
    rig.clock.ms += 20_000
    // Another browser of the same person counts as that person.
    const desk = rig.browser()
    expect((await desk.post('/api/session', { email: ALICE, password: PASSWORD })).status).toBe(201)
    for (const browser of [alice, desk]) {
      const reply = await browser.post('/api/keys', { name: 'another' })
      expect([reply.status, codeOf(reply), reply.headers['retry-after']]).toEqual([429, 'too_many_attempts', '40'])
    }
    expect((await alice.get('/api/keys')).status).toBe(200)
    expect((await desk.delete('/api/session')).status).toBe(204)
    expect((await bob.post('/api/keys', { name: 'laptop' })).status).toBe(201)
    rig.clock.ms += 40_000
    expect((await alice.post('/api/keys', { name: 'another' })).status).toBe(201)

    const credit = { amount: '1', reference: 'invoice' }
    const path = `/api/operator/accounts/${alice.accountId}/credit`
    const statuses = async (client: Client) => {
      const all = new Set<number>()
      for (let index = 0; index < 61; index++) all.add((await client.post(path, credit)).status)
      return [...all]
    }
    expect(await statuses(machine)).not.toContain(429)
    expect(await statuses(operator)).toContain(429)
  })
})

describe('accounts', () => {
  test('that people create by themselves are limited to a hundred an hour', async () => {
    await using rig = await startRig()
    const register = (index: number) =>
      rig.browser().call('POST', '/api/register', {
        body: { email: `new${index}@example.com`, password: PASSWORD },
        headers: { 'x-forwarded-for': `10.1.${index}.1` },
      })
    // Failed registrations do not use the limit.
    await rig.member('new0@example.com')
    for (let round = 0; round < 5; round++) expect((await register(0)).status).toBe(409)
    const statuses: number[] = []
    for (let index = 1; index <= 110; index++) statuses.push((await register(index)).status)
    expect(statuses).toEqual([...Array(100).fill(201), ...Array(10).fill(429)])
    expect(rig.store.reads.listAccounts()).toHaveLength(101)
    rig.clock.ms += 3_600_000
    expect((await register(111)).status).toBe(201)
  })

  test('an open invitation reveals at most ten times an hour whether an address is registered', async () => {
    await using rig = await startRig()
    await rig.member(ALICE)
    const link = { kind: 'invitation', role: 'member', accountId: null, plan: null, credit: 0n, email: null } as const
    const expiresAt = rig.clock.ms + 3_600_000
    const { token } = await rig.store.people.createLink({ ...link, personId: null, createdBy: 'test', expiresAt })
    const join = (email: string) => rig.browser().post('/api/join', { token, email, password: PASSWORD })
    const statuses: number[] = []
    for (let round = 0; round < 12; round++) statuses.push((await join(ALICE)).status)
    expect(statuses).toEqual([...Array(10).fill(409), 429, 429])
    rig.clock.ms += 3_600_000 - 1
    expect((await join('new@example.com')).status).toBe(429)
  })
})

onPostgres(() => {
  /** The API of a gateway on a shared store; counts the queries to the store. */
  async function startReplica(store: TestStore): Promise<{ rig: Rig; asked: () => number }> {
    let asked = 0
    const { countTries, takeTriesBack } = store.replicas!
    const counting: Pick<Replicas, 'countTries' | 'takeTriesBack'> = {
      countTries(...values) {
        asked++
        return countTries(...values)
      },
      takeTriesBack(...values) {
        asked++
        return takeTriesBack(...values)
      },
    }
    const replicas = { ...store.replicas!, ...counting }
    const rig = await startRig({ parts: { store: { ...store, replicas }, clock: store.clock } })
    onTestFinished(() => rig[Symbol.asyncDispose]())
    return { rig, asked: () => asked }
  }

  test('an address that has registered ten times uses nothing of the common limit and causes no query', async () => {
    const store = await testStore(QUICK)
    const { rig, asked } = await startReplica(store)
    const register = (name: string, from: string) =>
      rig.browser().call('POST', '/api/register', {
        body: { email: `${name}@example.com`, password: PASSWORD },
        headers: { 'x-forwarded-for': from },
      })
    for (let index = 0; index < 10; index++) expect((await register(`a${index}`, '10.0.0.1')).status).toBe(201)
    const before = asked()
    const flood = Array.from({ length: 150 }, (_, index) => register(`b${index}`, '10.0.0.1'))
    expect((await register('bob', '10.0.0.2')).status).toBe(201)
    expect(new Set((await Promise.all(flood)).map(({ status }) => status))).toEqual(new Set([429]))
    expect(asked() - before).toBe(2)
  })

  test('an address refused by the count of all replicas causes one query a second', async () => {
    const store = await testStore(QUICK)
    const [one, other] = [await startReplica(store), await startReplica(await beside(store))]
    for (let round = 0; round < 3; round++) await signIn(one.rig, { email: 'unknown@example.com' })
    for (let second = 1; second <= 2; second++) {
      const replies: Reply[] = []
      for (let round = 0; round < 5; round++) replies.push(await signIn(other.rig, { email: 'unknown@example.com' }))
      expect(replies.map(({ status }) => status)).toEqual(Array(5).fill(429))
      expect(replies.map(({ headers }) => headers['retry-after'])).toEqual(Array(5).fill(String(31 - second)))
      expect(other.asked()).toBe(second)
      store.clock.ms += 1000
    }
    store.clock.ms += 28_000
    expect((await signIn(other.rig, { email: 'unknown@example.com' })).status).toBe(401)
  })
})

describe('a password that changes in the meantime', () => {
  /** From now on every hash waits until the test releases it. */
  function gated() {
    const gates: (() => void)[] = []
    let isShut = false
    return {
      gates,
      shut: () => {
        isShut = true
      },
      open: () => {
        isShut = false
        for (const gate of gates.splice(0)) gate()
      },
      derive: async ({ message, tagLength }: { message: unknown; tagLength: number }) => {
        if (isShut) await new Promise<void>(resolve => gates.push(resolve))
        const tag = new Uint8Array(tagLength)
        tag.set((message as Uint8Array).subarray(0, tagLength))
        return tag
      },
    }
  }

  test('refuses a sign-in with the old one', async () => {
    const { gates, shut, open, derive } = gated()
    await using rig = await startRig({ derive })
    const { person } = await rig.member(ALICE)
    const next = await createPasswords(derive).hash('another password')
    shut()
    const late = signIn(rig)
    await expect.poll(() => gates.length).toBe(1)
    await rig.store.people.setPassword(person.id, next)
    open()
    expect(codeOf(await late)).toBe('wrong_credentials')
  })

  test('is not reverted by a change with the old one', async () => {
    const { gates, shut, open, derive } = gated()
    await using rig = await startRig({ derive })
    const alice = await rig.member(ALICE)
    const next = await createPasswords(derive).hash('another password')
    shut()
    const late = alice.post('/api/password', { current: PASSWORD, new: 'of the thief' })
    await expect.poll(() => gates.length).toBe(1)
    await rig.store.people.setPassword(alice.person.id, next)
    open()
    expect(codeOf(await late)).toBe('conflict')
    expect(rig.store.reads.people.findByEmail(ALICE)!.password).toBe(next)
  })

  test('does not end the sign-in if it was only rehashed', async () => {
    const { gates, shut, open, derive } = gated()
    await using rig = await startRig({ derive })
    const { person } = await rig.member(ALICE)
    const better = await createPasswords(derive).hash(PASSWORD)
    shut()
    const late = signIn(rig)
    await expect.poll(() => gates.length).toBe(1)
    await rig.store.people.upgradePassword(person.id, better)
    open()
    expect((await late).status).toBe(201)
  })
})

interface SignIn {
  readonly email?: string
  readonly password?: string
  readonly from?: string
}

function signIn(rig: Rig, { email = ALICE, password = PASSWORD, from = '10.0.0.1' }: SignIn = {}): Promise<Reply> {
  return rig.browser().call('POST', '/api/session', {
    body: { email, password },
    headers: { 'x-forwarded-for': from },
  })
}

function codeOf({ body }: Reply): string {
  return (body as { error?: { code: string } }).error?.code ?? 'none'
}
