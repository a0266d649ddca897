import { describe, expect, test } from 'vitest'
import { StoreError, type StoreErrorCode } from '../../../src/store/error.ts'
import { MAX_SESSION_MS, MAX_SESSIONS, type NewLink, type NewPerson } from '../../../src/store/people/people.ts'
import { createOperatorToken, createSecret, createToken } from '../../../src/store/people/token.ts'
import { faultyConnector } from '../faulty.ts'
import { contentOf, onEveryEngine, type TestStore, testStore } from '../helpers.ts'

const HOUR = 3_600_000
/** Has the form of a password hash, but belongs to no password. */
const HASH = '$argon2id$v=19$m=19456,t=2,p=1$c2FsdHNhbHQ$aGFzaGhhc2g'
const OTHER_HASH = `${HASH}b`

const person = (fields: Partial<NewPerson> = {}): NewPerson => ({
  email: 'ada@example.com',
  password: HASH,
  role: 'member',
  membership: { name: 'ada@example.com', plan: 'free', credit: 0n },
  ...fields,
})

const invitation = (store: TestStore, fields: Partial<NewLink> = {}): NewLink => ({
  kind: 'invitation',
  role: 'member',
  accountId: null,
  plan: null,
  credit: 0n,
  email: null,
  personId: null,
  createdBy: 'cli:test',
  expiresAt: store.clock.ms + HOUR,
  ...fields,
})

const resetFor = (store: TestStore, personId: string, fields: Partial<NewLink> = {}) =>
  store.people.createLink(invitation(store, { kind: 'reset', personId, ...fields }))

async function refused(work: Promise<unknown>, code: StoreErrorCode, message: RegExp): Promise<void> {
  const error = await work.then(
    () => expect.unreachable('it was not refused'),
    (reason: unknown) => reason,
  )
  expect(error).toBeInstanceOf(StoreError)
  expect(error).toMatchObject({ code, message: expect.stringMatching(message) })
}

/** Checks that nothing of a refused person is stored. */
function expectNoPerson(store: TestStore): void {
  expect(store.reads.people.list()).toEqual([])
  expect(store.reads.listAccounts()).toEqual([])
  expect(store.reads.verify()).toMatchObject({ events: 0, violations: [] })
}

onEveryEngine(() => {
  describe('a person who is not created', () => {
    test.each<[what: string, fields: object, code: StoreErrorCode, message: RegExp]>([
      ['no address', { email: '' }, 'invalid', /"" is not an e-mail address/],
      ['an address without a host', { email: 'ada@' }, 'invalid', /"ada@" is not an e-mail/],
      ['an address with a space', { email: 'a da@example.com' }, 'invalid', /is not an e-mail/],
      ['an address with a line break', { email: 'ada@example.com\n' }, 'invalid', /is not an e-mail/],
      ['two at signs', { email: 'a@b@c' }, 'invalid', /is not an e-mail/],
      ['an address of 201 characters', { email: `${'x'.repeat(198)}@ab` }, 'invalid', /at most 200/],
      ['a plain password', { password: 'correct horse' }, 'invalid', /^person: the password is not a hash/],
      ['another role', { role: 'owner' }, 'invalid', /the role "owner" is unknown/],
      ['an unknown account', { membership: { accountId: 'acc_x' } }, 'not_found', /account acc_x does not exist/],
      ['a plan without a name', { membership: { name: 'a', plan: '', credit: 0n } }, 'invalid', /the plan ""/],
      [
        'a negative credit',
        { membership: { name: 'a', plan: 'p', credit: -1n } },
        'invalid',
        /the credit -1 is not between 0 and/,
      ],
    ])('%s', async (_what, fields, code, message) => {
      const store = await testStore()
      await refused(store.people.create(person(fields)), code, message)
      expectNoPerson(store)
    })

    test('an address that is taken, in any case, also by simultaneous requests: nothing of the second is stored', async () => {
      const store = await testStore()
      const membership = { name: 'second', plan: 'free', credit: 5n }
      const both = await Promise.allSettled([
        store.people.create(person()),
        store.people.create(person({ email: 'ADA@Example.COM', membership })),
      ])
      expect(both.map(({ status }) => status)).toEqual(['fulfilled', 'rejected'])
      await refused(
        store.people.create(person({ membership })),
        'conflict',
        /The address ada@.* is taken by another person/,
      )
      expect(store.reads.listAccounts().map(({ name }) => name)).toEqual(['ada@example.com'])
      expect(store.reads.verify()).toMatchObject({ accounts: 1, events: 0 })
    })

    test('an error never contains a password', async () => {
      const store = await testStore()
      await expect(store.people.create(person({ password: 'hunter22' }))).rejects.not.toThrow(/hunter22/)
      const { id } = await store.people.create(person())
      await refused(store.people.setPassword(id, 'hunter22'), 'invalid', /^(?!.*hunter22)/)
    })
  })

  describe('a link that does not work', () => {
    const WAYS: [what: string, spoil: (store: TestStore, link: { id: string; token: string }) => unknown][] = [
      ['never made', (_store, link) => (link.token = createSecret())],
      ['no secret at all', (_store, link) => (link.token = '')],
      ['used', (store, { token }) => store.people.join(token, { email: 'eve@example.com', password: HASH })],
      ['revoked', (store, { id }) => store.people.revokeLink(id)],
      ['expired, at the exact millisecond', store => (store.clock.ms += HOUR)],
    ]
    test.each(WAYS)('%s: no person is let in, and nothing is created', async (_what, spoil) => {
      const store = await testStore()
      const { link, token } = await store.people.createLink(invitation(store, { credit: 5n }))
      const spoiled = { id: link.id, token }
      await spoil(store, spoiled)
      const before = store.reads.verify()
      expect(store.reads.people.findLink(spoiled.token)).toBeUndefined()
      const joining = store.people.join(spoiled.token, { email: 'bob@example.com', password: HASH })
      await refused(joining, 'link_invalid', /was used, was revoked or has expired/)
      await refused(store.people.reset(spoiled.token, HASH), 'link_invalid', /does not work/)
      expect(store.reads.verify()).toEqual(before)
    })

    test('an invitation sets no password, and a reset lets no new person in', async () => {
      const store = await testStore()
      const { id } = await store.people.create(person())
      const reset = await resetFor(store, id)
      const join = await store.people.createLink(invitation(store))
      await refused(store.people.reset(join.token, OTHER_HASH), 'link_invalid', /./)
      await refused(store.people.join(reset.token, { email: 'bob@x.org', password: HASH }), 'link_invalid', /./)
      expect(store.reads.people.links()).toHaveLength(2)
    })

    test('of two simultaneous uses one succeeds', async () => {
      const store = await testStore()
      const { token } = await store.people.createLink(invitation(store, { credit: 5n }))
      const joins = ['a@x.org', 'b@x.org', 'c@x.org'].map(email => store.people.join(token, { email, password: HASH }))
      expect((await Promise.allSettled(joins)).map(({ status }) => status)).toEqual([
        'fulfilled',
        'rejected',
        'rejected',
      ])
      expect(store.reads.listAccounts()).toMatchObject([{ name: 'a@x.org', posted: 5n }])
      expect(store.reads.people.links()).toEqual([])
    })

    test('a failed join does not use up the link', async () => {
      const store = await testStore()
      await store.people.create(person())
      const { token } = await store.people.createLink(invitation(store, { email: 'Bob@x.org' }))
      const join = (email: string) => store.people.join(token, { email, password: HASH })
      await refused(join('eve@x.org'), 'invalid', /not for the address eve@x\.org/)
      const open = await store.people.createLink(invitation(store))
      await refused(store.people.join(open.token, person()), 'conflict', /is taken by another person/)
      expect(await join('BOB@x.org')).toMatchObject({ email: 'bob@x.org' })
      expect(await store.people.join(open.token, person({ email: 'c@x.org' }))).toMatchObject({ role: 'member' })
    })

    test.each<[what: string, fields: Partial<NewLink>, code: StoreErrorCode, message: RegExp]>([
      ['a time in the past', { expiresAt: 5 }, 'invalid', /expiresAt 5 is not in the future/],
      ['no maker', { createdBy: '' }, 'invalid', /the createdBy ""/],
      ['a negative credit', { credit: -1n }, 'invalid', /the credit -1/],
      ['an invalid address', { email: 'x' }, 'invalid', /"x" is not an e-mail/],
      ['an unknown account', { accountId: 'acc_x' }, 'not_found', /account acc_x does not exist/],
      ['an invitation for an existing person', { personId: 'per_x' }, 'invalid', /not allowed for an invitation/],
      ['a reset without a person', { kind: 'reset' }, 'invalid', /personId is required/],
      ['a reset of a removed person', { kind: 'reset', personId: 'per_x' }, 'not_found', /person per_x does not exist/],
    ])('is not created with %s', async (_what, fields, code, message) => {
      const store = await testStore()
      await refused(store.people.createLink(invitation(store, fields)), code, message)
      expect(store.reads.people.links()).toEqual([])
    })

    test('a second revocation does nothing; an unknown link is reported', async () => {
      const store = await testStore()
      const { link } = await store.people.createLink(invitation(store))
      await store.people.revokeLink(link.id)
      await store.people.revokeLink(link.id)
      await refused(store.people.revokeLink('lnk_x'), 'not_found', /The link "lnk_x" does not exist/)
    })
  })

  describe('a session', () => {
    test('is found by its secret only', async () => {
      const store = await testStore()
      const { id } = await store.people.create(person())
      const secret = await store.people.createSession(id)
      expect(secret).toMatch(/^[0-9A-Za-z_-]{43}$/)
      expect(store.reads.people.findSession(secret)).toEqual({
        personId: id,
        createdAt: store.clock.ms,
        seenAt: store.clock.ms,
      })
      for (const wrong of ['', secret.slice(1), `${secret}x`, createSecret(), id]) {
        expect(store.reads.people.findSession(wrong)).toBeUndefined()
      }
      await refused(store.people.createSession('per_x'), 'not_found', /person per_x does not exist/)
    })

    test('is touched to the minute, and never revived by a touch', async () => {
      const store = await testStore()
      const { id } = await store.people.create(person())
      const secret = await store.people.createSession(id)
      const begun = store.clock.ms
      const seenAt = () => store.reads.people.findSession(secret)?.seenAt
      store.clock.ms += 59_999
      await store.people.touchSession(secret)
      expect(seenAt()).toBe(begun)
      store.clock.ms += 1
      await store.people.touchSession(secret)
      expect(seenAt()).toBe(begun + 60_000)
      store.clock.ms += 60_000
      await Promise.all([store.people.endSession(secret), store.people.touchSession(secret)])
      expect(seenAt()).toBeUndefined()
    })

    test('ends by itself, with all others, or with all but one', async () => {
      const store = await testStore()
      const { id } = await store.people.create(person())
      const eve = await store.people.create(person({ email: 'eve@x.org' }))
      const begin = () => store.people.createSession(id)
      const [one, two, three] = [await begin(), await begin(), await begin()]
      const foreign = await store.people.createSession(eve.id)
      const alive = () => [one, two, three, foreign].map(secret => store.reads.people.findSession(secret) !== undefined)
      await store.people.endSession(one)
      expect(alive()).toEqual([false, true, true, true])
      await store.people.endSessions(id, two)
      expect(alive()).toEqual([false, true, false, true])
      await store.people.endSessions(id)
      expect(alive()).toEqual([false, false, false, true])
    })

    test('above the maximum of a person ends the oldest one of that person', async () => {
      const store = await testStore()
      const { id } = await store.people.create(person())
      const eve = await store.people.create(person({ email: 'eve@x.org' }))
      const foreign = await store.people.createSession(eve.id)
      const secrets: string[] = []
      for (let count = 0; count < MAX_SESSIONS + 2; count++) {
        store.clock.ms += 1
        secrets.push(await store.people.createSession(id))
      }
      const alive = secrets.map(secret => store.reads.people.findSession(secret) !== undefined)
      expect(alive).toEqual([false, false, ...Array(MAX_SESSIONS).fill(true)])
      expect(store.reads.people.findSession(foreign)).toBeDefined()
    })

    test('above the maximum ends another one, also if all begin in the same millisecond', async () => {
      const store = await testStore()
      const { id } = await store.people.create(person())
      const secrets = await Promise.all(Array.from({ length: 50 }, () => store.people.createSession(id)))
      const alive = secrets.filter(secret => store.reads.people.findSession(secret) !== undefined)
      expect(alive).toHaveLength(MAX_SESSIONS)
      expect(alive).toContain(secrets.at(-1))
    })

    test('new sessions and links remove expired ones', async () => {
      const store = await testStore()
      const { id } = await store.people.create(person())
      await store.people.createSession(id)
      await store.people.createLink(invitation(store))
      store.clock.ms += MAX_SESSION_MS + 1
      const young = await store.people.createSession(id)
      await store.people.createLink(invitation(store))
      const database = store.connect({ readOnly: true })
      for (const table of ['session', 'link']) {
        expect(database.prepare(`SELECT count(*) AS rows FROM ${table}`).get()).toMatchObject({ rows: 1 })
      }
      database.close()
      expect(store.reads.people.findSession(young)).toBeDefined()
    })
  })

  describe('a password', () => {
    test('that was changed meanwhile begins no session and sets no other password, even with simultaneous requests', async () => {
      const store = await testStore()
      const { id, email } = await store.people.create(person())
      const all = await Promise.allSettled([
        store.people.createSession(id, HASH),
        store.people.setPassword(id, OTHER_HASH, HASH),
        store.people.createSession(id, HASH),
        store.people.setPassword(id, `${HASH}c`, HASH),
      ])
      expect(all.map(({ status }) => status)).toEqual(['fulfilled', 'fulfilled', 'rejected', 'rejected'])
      expect(store.reads.people.findByEmail(email)?.password).toBe(OTHER_HASH)
      const [first] = all
      if (first.status === 'rejected') expect.unreachable()
      expect(store.reads.people.findSession(first.value)).toBeUndefined()
      await refused(store.people.createSession(id, HASH), 'conflict', /^The password was changed meanwhile/)
      await refused(store.people.setPassword(id, HASH, HASH), 'conflict', /^The password was changed meanwhile/)
      await refused(store.people.setPassword('per_x', HASH, HASH), 'not_found', /person "per_x" does not exist/)
      expect(store.reads.people.findSession(await store.people.createSession(id, OTHER_HASH))).toBeDefined()
    })

    test('that is set ends every session and every link that could set it again', async () => {
      const store = await testStore()
      const { id } = await store.people.create(person())
      const secret = await store.people.createSession(id)
      const { token } = await resetFor(store, id)
      await store.people.setPassword(id, OTHER_HASH)
      expect(store.reads.people.findByEmail('Ada@example.com')).toMatchObject({ id, password: OTHER_HASH })
      expect(store.reads.people.findSession(secret)).toBeUndefined()
      expect(store.reads.people.findLink(token)).toBeUndefined()
      await refused(store.people.setPassword('per_x', HASH), 'not_found', /person "per_x" does not exist/)
    })

    test('is reset by a link once, which ends the other links', async () => {
      const store = await testStore()
      const { id, email } = await store.people.create(person())
      const secret = await store.people.createSession(id)
      const [first, second] = [await resetFor(store, id), await resetFor(store, id)]
      expect(first.link).toMatchObject({ kind: 'reset', email, personId: id })
      expect(await store.people.reset(first.token, OTHER_HASH)).toMatchObject({ id })
      for (const { token } of [first, second]) await refused(store.people.reset(token, HASH), 'link_invalid', /./)
      expect(store.reads.people.findByEmail(email)?.password).toBe(OTHER_HASH)
      expect(store.reads.people.findSession(secret)).toBeUndefined()
    })

    test('that gets a better hash keeps its sessions; one that was changed meanwhile is not changed', async () => {
      const store = await testStore()
      const { id, email } = await store.people.create(person())
      const secret = await store.people.createSession(id)
      await store.people.upgradePassword(id, OTHER_HASH, HASH)
      expect(store.reads.people.findByEmail(email)?.password).toBe(OTHER_HASH)
      await store.people.upgradePassword(id, `${HASH}c`, HASH)
      expect(store.reads.people.findByEmail(email)?.password).toBe(OTHER_HASH)
      await store.people.upgradePassword(id, HASH)
      expect(store.reads.people.findByEmail(email)?.password).toBe(HASH)
      expect(store.reads.people.findSession(secret)).toBeDefined()
    })
  })

  describe('roles', () => {
    test("the last operator stays one; a former operator's invitations do not work any more", async () => {
      const store = await testStore()
      expect(store.reads.people.hasOperator()).toBe(false)
      const ada = await store.people.create(person({ role: 'operator' }))
      expect(store.reads.people.hasOperator()).toBe(true)
      await refused(store.people.setRole(ada.id, 'member'), 'conflict', /ada@example\.com is the only operator/)
      await refused(store.people.remove(ada.id), 'conflict', /is the only operator/)
      const bob = await store.people.create(person({ email: 'bob@x.org' }))
      expect(await store.people.setRole(bob.id, 'operator')).toEqual({ ...bob, role: 'operator' })
      const { token } = await store.people.createLink(invitation(store, { role: 'operator', createdBy: ada.id }))
      await store.people.setRole(ada.id, 'member')
      expect(store.reads.people.findLink(token)).toBeUndefined()
      await refused(store.people.setRole('per_x', 'member'), 'not_found', /person "per_x" does not exist/)
    })

    test.each<[what: string, end: (store: TestStore, id: string) => Promise<unknown>]>([
      ['made a member', (store, id) => store.people.setRole(id, 'member')],
      ['removed', (store, id) => store.people.remove(id)],
    ])('an operator who is %s loses all tokens, and the links made with them', async (_what, end) => {
      const store = await testStore()
      const eve = await store.people.create(person({ role: 'operator' }))
      const boss = await store.people.create(person({ role: 'operator', email: 'boss@x.org' }))
      const token = (createdBy: string) => store.people.createToken({ name: 't', expiresAt: null, createdBy })
      const hers = await token(eve.id)
      const others = [await token(boss.id), await token('cli:me'), await token(hers.token.id)]
      const link = (createdBy: string) => store.people.createLink(invitation(store, { role: 'operator', createdBy }))
      const [byHer, byHerToken, byBoss] = [await link(eve.id), await link(hers.token.id), await link(boss.id)]
      await end(store, eve.id)
      expect(store.reads.people.findToken(hers.secret)).toBeUndefined()
      expect(store.reads.people.tokens().map(({ id }) => id)).toEqual(others.map(made => made.token.id).reverse())
      expect(store.reads.people.getToken(hers.token.id)).toEqual(hers.token)
      for (const { token } of [byHer, byHerToken]) expect(store.reads.people.findLink(token)).toBeUndefined()
      expect(store.reads.people.findLink(byBoss.token)).toBeDefined()
    })

    test.each<[what: string, ask: (store: TestStore, by: string) => Promise<unknown>]>([
      ['a link', (store, createdBy) => store.people.createLink(invitation(store, { role: 'operator', createdBy }))],
      ['a token', (store, createdBy) => store.people.createToken({ name: 't', expiresAt: null, createdBy })],
      ['a role', (store, by) => store.people.setRole(store.reads.people.findByEmail('mate@x.org')!.id, 'operator', by)],
      ['a removal', (store, by) => store.people.remove(store.reads.people.findByEmail('mate@x.org')!.id, by)],
    ])('%s is refused if its maker is not an operator at that time, and made otherwise', async (_what, ask) => {
      const store = await testStore()
      const eve = await store.people.create(person({ role: 'operator' }))
      const boss = await store.people.create(person({ role: 'operator', email: 'boss@x.org' }))
      await store.people.create(person({ email: 'mate@x.org' }))
      const make = (expiresAt: number | null) =>
        store.people.createToken({ name: 'machine', expiresAt, createdBy: 'cli:me' })
      const [revoked, past, good] = [await make(null), await make(store.clock.ms + 1), await make(null)]
      await store.people.revokeToken(revoked.token.id)
      store.clock.ms += 1
      const all = () => [store.reads.people.list(), store.reads.people.links(), store.reads.people.tokens()]
      // Both requests are in one group: the demotion is first, and the other request was checked before it.
      const [, late] = await Promise.allSettled([store.people.setRole(eve.id, 'member', boss.id), ask(store, eve.id)])
      expect(late).toMatchObject({ status: 'rejected', reason: { code: 'forbidden' } })
      const before = all()
      for (const by of [eve.id, 'per_x', 'tok_x', revoked.token.id, past.token.id]) {
        await refused(ask(store, by), 'forbidden', /^Only /)
      }
      expect(all()).toEqual(before)
      await ask(store, good.token.id)
      expect(all()).not.toEqual(before)
      await ask(await restored(store), boss.id)
    })

    /** Restores the person that the requests change. */
    async function restored(store: TestStore): Promise<TestStore> {
      const mate = store.reads.people.findByEmail('mate@x.org')
      if (mate === undefined) await store.people.create(person({ email: 'mate@x.org' }))
      else await store.people.setRole(mate.id, 'member')
      return store
    }

    test('of two last operators who remove each other at once, one is left', async () => {
      const store = await testStore()
      const [ada, bob] = [
        await store.people.create(person({ role: 'operator' })),
        await store.people.create(person({ role: 'operator', email: 'bob@x.org' })),
      ]
      await Promise.allSettled([store.people.remove(ada.id), store.people.setRole(bob.id, 'member')])
      expect(store.reads.people.list().filter(({ role }) => role === 'operator')).toHaveLength(1)
    })
  })

  test("a removed person's account stays; sessions and links end, and the address is free", async () => {
    const store = await testStore()
    const membership = { name: 'ada@example.com', plan: 'free', credit: 9n }
    const ada = await store.people.create(person({ role: 'operator', membership }))
    await store.people.create(person({ role: 'operator', email: 'boss@x.org' }))
    const secret = await store.people.createSession(ada.id)
    const tokens = [
      (await resetFor(store, ada.id)).token,
      (await store.people.createLink(invitation(store, { createdBy: ada.id }))).token,
    ]
    await store.people.remove(ada.id)
    expect(store.reads.people.find(ada.id)).toBeUndefined()
    expect(store.reads.people.findSession(secret)).toBeUndefined()
    expect(tokens.map(token => store.reads.people.findLink(token))).toEqual([undefined, undefined])
    expect(store.reads.findAccount(ada.accountId)).toMatchObject({ posted: 9n })
    await refused(store.people.remove(ada.id), 'not_found', /The person .* does not exist/)
    const again = await store.people.create(person())
    expect(store.reads.findAccount(again.accountId)?.name).toBe('ada@example.com (3)')
  })

  test('a person is created with an account and its credit, for an existing account, or by an invitation', async () => {
    const store = await testStore()
    const membership = { name: 'ada@example.com', plan: 'free', credit: 1000n }
    const ada = await store.people.create(person({ email: 'Ada@Example.com', membership }))
    expect(ada).toMatchObject({ email: 'ada@example.com', role: 'member', createdAt: store.clock.ms })
    expect(store.reads.findAccount(ada.accountId)).toMatchObject({
      name: 'ada@example.com',
      plan: 'free',
      posted: 1000n,
    })
    const { accountId } = ada
    const bob = await store.people.create(person({ email: 'bob@x.org', membership: { accountId } }))
    const forCarol = { accountId, role: 'operator', email: 'carol@x.org' } as const
    const { token, link } = await store.people.createLink(invitation(store, forCarol))
    expect(store.reads.people.findLink(token)).toEqual(link)
    const carol = await store.people.join(token, { email: 'carol@x.org', password: HASH })
    expect(carol).toMatchObject({ accountId, role: 'operator' })
    expect(store.reads.people.list(accountId)).toEqual([ada, bob, carol])
    const open = await store.people.createLink(invitation(store, { plan: 'gold', credit: 7n }))
    const dave = await store.people.join(open.token, { email: 'acc_dave@x.org', password: HASH })
    // An account's name never begins like an id.
    expect(store.reads.findAccount(dave.accountId)).toMatchObject({
      name: 'account acc_dave@x.org',
      plan: 'gold',
      posted: 7n,
    })
    expect(store.reads.reports.entries(dave.accountId, { limit: 5 }).items).toMatchObject([
      { actor: 'cli:test', amount: 7n },
    ])
    expect(store.reads.people.list()).toEqual([ada, bob, carol, dave])
    expect(store.reads.verify().violations).toEqual([])
  })

  describe("an operators' token", () => {
    test('is found by its secret until it is revoked or expires, and is never a gateway key', async () => {
      const store = await testStore()
      const make = { name: 'webhook', expiresAt: store.clock.ms + HOUR, createdBy: 'cli:test' }
      const { token, secret } = await store.people.createToken(make)
      const lasting = await store.people.createToken({ ...make, name: 'backup', expiresAt: null })
      expect(token).toEqual({
        ...make,
        id: expect.stringMatching(/^tok_/),
        last4: secret.slice(-4),
        createdAt: store.clock.ms,
      })
      expect(store.reads.people.findToken(secret)).toEqual(token)
      expect(store.reads.people.tokens().map(({ name }) => name)).toEqual(['backup', 'webhook'])
      await store.createAccount({ name: 'alice' })
      const key = await store.createKey({ account: 'alice', name: 'k' })
      for (const wrong of ['', createOperatorToken(), createToken(), key.token, token.id]) {
        expect(store.reads.people.findToken(wrong)).toBeUndefined()
      }
      expect(store.keys.find(secret, store.clock.ms)).toEqual({ found: 'malformed' })
      store.clock.ms += HOUR
      expect(store.reads.people.findToken(secret)).toBeUndefined()
      expect(store.reads.people.findToken(lasting.secret)).toBeDefined()
      await store.people.revokeToken(lasting.token.id)
      await store.people.revokeToken(lasting.token.id)
      expect(store.reads.people.findToken(lasting.secret)).toBeUndefined()
      expect(store.reads.people.tokens()).toEqual([token])
    })

    test.each<[what: string, fields: object, message: RegExp]>([
      ['no name', { name: '' }, /^token: the name ""/],
      ['no maker', { createdBy: ' ' }, /the createdBy " "/],
      ['a time in the past', { expiresAt: 5 }, /^token: expiresAt 5/],
    ])('is not created with %s', async (_what, fields, message) => {
      const store = await testStore()
      const token = { name: 'n', expiresAt: null, createdBy: 'x', ...fields }
      await refused(store.people.createToken(token), 'invalid', message)
      await refused(store.people.revokeToken('tok_x'), 'not_found', /token "tok_x" does not exist/)
      expect(store.reads.people.getToken('tok_x')).toBeUndefined()
    })

    test('that is revoked ends the links that were made with it, and no others', async () => {
      const store = await testStore()
      const make = () => store.people.createToken({ name: 'webhook', expiresAt: null, createdBy: 'cli:test' })
      const [one, other] = [(await make()).token.id, (await make()).token.id]
      const link = async (createdBy: string) => (await store.people.createLink(invitation(store, { createdBy }))).token
      const [byOne, byOther] = [await link(one), await link(other)]
      await store.people.revokeToken(one)
      expect(store.reads.people.findLink(byOne)).toBeUndefined()
      expect(store.reads.people.findLink(byOther)).toBeDefined()
    })
  })

  describe.each(['here', 'thread'] as const)(
    'a commit that happened and reported a failure, written by: %s',
    writes => {
      test('is recognized: each operation is done once', async () => {
        const { faults, connector } = faultyConnector()
        const store = await testStore({ connector, writes })
        const doubtful = <Result>(work: () => Promise<Result>): Promise<Result> => {
          faults.after = 1
          return work()
        }
        const credit = { name: 'a', plan: 'p', credit: 5n }
        const ada = await doubtful(() => store.people.create(person({ role: 'operator', membership: credit })))
        const { token } = await doubtful(() => store.people.createLink(invitation(store, { credit: 5n })))
        const bob = await doubtful(() => store.people.join(token, { email: 'bob@x.org', password: HASH }))
        const reset = await resetFor(store, bob.id)
        expect(await doubtful(() => store.people.reset(reset.token, OTHER_HASH))).toEqual(bob)
        await doubtful(() => store.people.setPassword(bob.id, `${HASH}c`, OTHER_HASH))
        const session = await doubtful(() => store.people.createSession(bob.id, `${HASH}c`))
        expect(store.reads.people.findSession(session)).toBeDefined()
        const { secret } = await doubtful(() =>
          store.people.createToken({ name: 't', expiresAt: null, createdBy: ada.id }),
        )
        expect(store.reads.people.findToken(secret)).toBeDefined()
        // A repetition finds its operation done, although the person may no longer request it.
        const link = { role: 'operator', createdBy: bob.id } as const
        await store.people.setRole(bob.id, 'operator')
        const made = doubtful(() => store.people.createLink(invitation(store, link)))
        expect(await Promise.all([made, store.people.setRole(bob.id, 'member', bob.id)])).toMatchObject([
          { link: { createdBy: bob.id } },
          { role: 'member' },
        ])
        await doubtful(() => store.people.remove(bob.id))
        expect(store.reads.people.list()).toEqual([ada])
        expect(store.reads.listAccounts().map(({ posted }) => posted)).toEqual([5n, 5n])
        expect(store.reads.verify().violations).toEqual([])
      })
    },
  )

  test('no secret of a session, a link or a token is on disk', async () => {
    const store = await testStore()
    const { id } = await store.people.create(person({ role: 'operator' }))
    const { token } = await store.people.createLink(invitation(store))
    const operator = await store.people.createToken({ name: 't', expiresAt: null, createdBy: id })
    const secrets = [await store.people.createSession(id), token, operator.secret]
    const written = [await contentOf(store)]
    for (const secret of secrets) expect(written.some(bytes => bytes.includes(secret))).toBe(false)
    expect(written.some(bytes => bytes.includes('ada@example.com'))).toBe(true)
  })
})
