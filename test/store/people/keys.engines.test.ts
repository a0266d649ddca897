import { describe, expect, test } from 'vitest'
import type { Account, Key, KeyLookup } from '#contract'
import { StoreError } from '../../../src/store/error.ts'
import { createKeyReader, createKeyVersion } from '../../../src/store/people/keys.ts'
import { createToken } from '../../../src/store/people/token.ts'
import { BETWEEN_ROTATIONS_MS, MAX_KEYS_A_DAY, MAX_KEYS_LISTED, MAX_LIVE_KEYS } from '../../../src/store/store.ts'
import { faultyConnector } from '../faulty.ts'
import { contentOf, onEveryEngine, type TestStore, testStore } from '../helpers.ts'

const HOUR = 3_600_000

async function withKey(store: TestStore) {
  await store.createAccount({ name: 'alice', plan: 'free' })
  return store.createKey({ account: 'alice', name: 'laptop' })
}

const found = (store: TestStore, token: string) => store.keys.find(token, store.clock.ms).found

test('a key that another thread revokes during a lookup is not cached as live', async () => {
  const version = createKeyVersion()
  let isRevoked = false
  const key = { id: 'key_1' } as Key
  const read = () => {
    const live: KeyLookup = { found: 'live', key, account: {} as Account }
    const found = { isKeyRevoked: isRevoked, keyExpiresAt: null, secretEndsAt: null, live }
    // Another thread revokes the key as soon as the database has been read.
    if (!isRevoked) Atomics.add(version, 0, 1)
    isRevoked = true
    return Promise.resolve(found)
  }
  const keys = createKeyReader(read, version)
  const token = createToken()
  const first = keys.find(token, 0)
  // Another request, which notices the change.
  const other = keys.find(createToken(), 0)
  expect((await first).found).toBe('live')
  await other
  expect((await keys.find(token, 0)).found).toBe('revoked')
})

onEveryEngine(() => {
  describe('a token that is refused', () => {
    test('malformed: without a query', async () => {
      const store = await testStore()
      const { token } = await withKey(store)
      await store.close()
      // The answer needs no database: the store is closed.
      expect(found(store, token.slice(0, -1))).toBe('malformed')
      expect(found(store, `${token}x`)).toBe('malformed')
      expect(() => found(store, token)).toThrow()
    })

    test('unknown: well-formed, never issued', async () => {
      const store = await testStore()
      await withKey(store)
      expect(found(store, createToken())).toBe('unknown')
    })

    test('revoked: from the next lookup on; a second revocation keeps the first time', async () => {
      const store = await testStore()
      const { key, token } = await withKey(store)
      const at = store.clock.ms
      expect(await store.revokeKey(key.id)).toMatchObject({ id: key.id, revokedAt: at })
      expect(found(store, token)).toBe('revoked')
      store.clock.ms += 5
      expect((await store.revokeKey(key.id)).revokedAt).toBe(at)
    })

    test('expired: at the exact millisecond', async () => {
      const store = await testStore()
      await store.createAccount({ name: 'alice' })
      const { token } = await store.createKey({ account: 'alice', name: 'trial', expiresAt: store.clock.ms + 10 })
      store.clock.ms += 9
      expect(found(store, token)).toBe('live')
      store.clock.ms += 1
      expect(found(store, token)).toBe('expired')
    })

    test('rotated, and its grace period has passed', async () => {
      const store = await testStore()
      const { key, token } = await withKey(store)
      const next = await store.rotateKey(key.id, HOUR)
      store.clock.ms += HOUR - 1
      expect([found(store, token), found(store, next.token)]).toEqual(['live', 'live'])
      store.clock.ms += 1
      expect([found(store, token), found(store, next.token)]).toEqual(['rotated', 'live'])
    })

    test('rotated without grace: at once', async () => {
      const store = await testStore()
      const { key, token } = await withKey(store)
      await store.rotateKey(key.id, 0)
      expect(found(store, token)).toBe('rotated')
    })

    test('rotated twice within the grace period: the oldest secret has ended, two are live', async () => {
      const store = await testStore()
      const { key, token } = await withKey(store)
      const second = await store.rotateKey(key.id, HOUR)
      store.clock.ms += BETWEEN_ROTATIONS_MS
      const third = await store.rotateKey(key.id, HOUR)
      expect([token, second.token, third.token].map(t => found(store, t))).toEqual(['rotated', 'live', 'live'])
      expect(store.reads.listKeys()[0]?.secrets).toHaveLength(2)
    })

    test('revoked: every secret of the key', async () => {
      const store = await testStore()
      const { key, token } = await withKey(store)
      const next = await store.rotateKey(key.id, HOUR)
      await store.revokeKey(key.id)
      expect([found(store, token), found(store, next.token)]).toEqual(['revoked', 'revoked'])
      expect(store.reads.listKeys()[0]?.secrets).toEqual([])
    })
  })

  describe('rotations in quick succession', () => {
    test.each([0, HOUR])(
      'of two simultaneous ones with a grace period of %s ms one is refused, and the secret in use keeps its end',
      async graceMs => {
        const store = await testStore()
        const { key, token } = await withKey(store)
        const both = await Promise.allSettled([store.rotateKey(key.id, graceMs), store.rotateKey(key.id, graceMs)])
        expect(both).toMatchObject([
          { status: 'fulfilled' },
          { status: 'rejected', reason: { code: 'conflict', message: /was rotated less than a minute ago/ } },
        ])
        const [first] = both
        if (first.status === 'rejected') expect.unreachable()
        expect([token, first.value.token].map(t => found(store, t))).toEqual([
          graceMs === 0 ? 'rotated' : 'live',
          'live',
        ])
      },
    )

    test('a minute later, or with a clock that was set back, a rotation is allowed', async () => {
      const store = await testStore()
      const { key } = await withKey(store)
      await store.rotateKey(key.id, HOUR)
      for (const [step, allowed] of [
        [BETWEEN_ROTATIONS_MS - 1, false],
        [1, true],
        [-HOUR, true],
        [1 - BETWEEN_ROTATIONS_MS, false],
      ] as const) {
        store.clock.ms += step
        const rotating = store.rotateKey(key.id, HOUR).then(
          () => true,
          (error: StoreError) => error.code !== 'conflict',
        )
        expect(await rotating, String(step)).toBe(allowed)
      }
    })

    test("the playground's own key may be rotated at any time", async () => {
      const store = await testStore()
      await store.createAccount({ name: 'alice' })
      const { key } = await store.createKey({ account: 'alice', name: 'p', purpose: 'playground' })
      await store.rotateKey(key.id, 0)
      const { token } = await store.rotateKey(key.id, 0)
      expect(found(store, token)).toBe('live')
    })
  })

  describe('the limits of keys', () => {
    const make = (store: TestStore, count: number, fields: object = {}) =>
      Promise.allSettled(
        Array.from({ length: count }, (_, index) =>
          store.createKey({ account: 'alice', name: `k${index}`, ...fields }),
        ),
      )
    const made = (results: readonly PromiseSettledResult<unknown>[]) =>
      results.filter(({ status }) => status === 'fulfilled').length

    test('simultaneous requests stay within the limit of live keys; a dead key makes room, and another account has its own limit', async () => {
      const store = await testStore()
      await store.createAccount({ name: 'alice' })
      await store.createAccount({ name: 'bob' })
      await store.createKey({ account: 'alice', name: 'trial', expiresAt: store.clock.ms + HOUR })
      const results = await make(store, MAX_LIVE_KEYS + 80)
      expect(made(results)).toBe(MAX_LIVE_KEYS - 1)
      const one = { account: 'alice', name: 'one more' }
      await expect(store.createKey(one)).rejects.toMatchObject({ code: 'conflict', message: /has 100 live keys/ })
      expect(await store.createKey({ ...one, account: 'bob' })).toMatchObject({ key: { name: 'one more' } })
      expect(made(await make(store, 1, { purpose: 'playground' }))).toBe(1)
      await store.revokeKey(store.reads.listKeys('alice').at(-2)!.id)
      expect(await store.createKey(one)).toMatchObject({ key: { name: 'one more' } })
      await expect(store.createKey(one)).rejects.toMatchObject({ code: 'conflict' })
      store.clock.ms += HOUR
      expect(await store.createKey(one)).toMatchObject({ key: { name: 'one more' } })
    })

    test('keys that are made and revoked again are limited per day', async () => {
      const store = await testStore()
      await store.createAccount({ name: 'alice' })
      const database = store.connect()
      // Keys of the day, and of the day before.
      const put = database.prepare("INSERT INTO key VALUES (?, ?, 'k', NULL, ?, NULL, 1, NULL, NULL)")
      const account = store.reads.findAccount('alice')!.id
      database.exec('BEGIN')
      for (let index = 0; index < MAX_KEYS_A_DAY; index++) {
        put.run(`key_0${String(index).padStart(5, '0')}`, account, store.clock.ms - 23 * HOUR + index)
      }
      database.exec('COMMIT')
      database.close()
      const one = { account: 'alice', name: 'one more' }
      await expect(store.createKey(one)).rejects.toMatchObject({
        code: 'conflict',
        message: /1000 keys were made .* 24 hours/,
      })
      store.clock.ms += HOUR
      expect(await store.createKey(one)).toMatchObject({ key: { name: 'one more' } })
      await expect(store.createKey(one)).rejects.toMatchObject({ code: 'conflict' })
      expect(store.reads.listKeys('alice')).toHaveLength(MAX_KEYS_LISTED)
    })

    test("with more live keys than a list shows, from an earlier version, the playground's own is in the list", async () => {
      const store = await testStore()
      const { id } = await store.createAccount({ name: 'alice' })
      const own = await store.createKey({ account: id, name: 'own', purpose: 'playground' })
      const database = store.connect()
      const put = database.prepare("INSERT INTO key VALUES (?, ?, 'k', NULL, 0, NULL, NULL, NULL, NULL)")
      for (let index = 0; index < MAX_KEYS_LISTED; index++) put.run(`key_Z${index}`, id)
      database.close()
      const listed = store.reads.listKeys('alice')
      expect(listed).toHaveLength(MAX_KEYS_LISTED)
      expect(listed[0]).toMatchObject({ id: own.key.id, purpose: 'playground' })
    })

    test('a list has the live keys, then the newest dead ones; names of all keys can be read', async () => {
      const store = await testStore()
      await store.createAccount({ name: 'alice' })
      const own = await store.createKey({ account: 'alice', name: 'own', purpose: 'playground' })
      const kept = await store.createKey({ account: 'alice', name: 'kept' })
      const dead: string[] = []
      for (let index = 0; index < MAX_KEYS_LISTED; index++) {
        const fields = index % 2 === 0 ? {} : { expiresAt: store.clock.ms + 1 }
        const { key } = await store.createKey({ account: 'alice', name: `dead ${index}`, ...fields })
        if (index % 2 === 0) await store.revokeKey(key.id)
        else store.clock.ms += 1
        dead.push(key.id)
      }
      const last = await store.createKey({ account: 'alice', name: 'last' })
      await store.changeKey({ id: kept.key.id, spendingCap: 5n })
      const listed = store.reads.listKeys('alice')
      const live = [own, kept, last].map(({ key }) => key.id)
      expect(listed.map(({ id }) => id)).toEqual([live[0], live[1], ...dead.slice(3), live[2]])
      expect(listed[1]).toEqual(store.reads.findKey(kept.key.id))
      expect(listed[1]).toMatchObject({ spendingCap: 5n, secrets: [{ last4: kept.token.slice(-4) }] })
      expect(store.reads.listKeys()).toHaveLength(MAX_KEYS_LISTED + 3)
      expect(store.reads.keyNames([dead[0]!, 'key_x', last.key.id])).toEqual(
        new Map([
          [dead[0], 'dead 0'],
          [last.key.id, 'last'],
        ]),
      )
      expect(store.reads.keyNames([])).toEqual(new Map())
    })
  })

  describe('a mistake of the operator', () => {
    test.each([
      ['an unknown account', { account: 'bob' }, /account "bob" does not exist/],
      ['a name that is empty', { name: '' }, /the name "" is not/],
      ['a time that has passed', { expiresAt: 5 }, /expiresAt 5 is not in the future/],
      ['an empty list of models', { models: [] }, /allows nothing/],
      ['a model with a line break', { models: ['a\nb'] }, /the model "a\\nb"/],
      ['a cap below 0', { spendingCap: -1n }, /the spendingCap -1 is not between 0 and/],
    ])('creating with %s', async (_what, change, message) => {
      const store = await testStore()
      await store.createAccount({ name: 'alice' })
      const creating = store.createKey({ account: 'alice', name: 'laptop', ...change })
      await expect(creating).rejects.toThrow(message)
      await expect(creating).rejects.toBeInstanceOf(StoreError)
      expect(store.reads.listKeys()).toEqual([])
    })

    test.each([-1, 168 * HOUR + 1, 0.5, Number.NaN])('rotating with a grace period of %s ms', async graceMs => {
      const store = await testStore()
      const { key } = await withKey(store)
      await expect(store.rotateKey(key.id, graceMs)).rejects.toThrow(/is not between 0 and 168 hours/)
    })

    test('rotating or revoking a key that does not exist, was revoked or has expired', async () => {
      const store = await testStore()
      const { key } = await withKey(store)
      await expect(store.rotateKey('key_x', 0)).rejects.toThrow('The key "key_x" does not exist.')
      await expect(store.revokeKey('key_x')).rejects.toThrow('The key "key_x" does not exist.')
      await store.revokeKey(key.id)
      await expect(store.rotateKey(key.id, 0)).rejects.toThrow(
        `The key ${key.id} was revoked and cannot be rotated. Create a new key.`,
      )
      const trial = await store.createKey({ account: 'alice', name: 'trial', expiresAt: store.clock.ms + 10 })
      store.clock.ms += 10
      await expect(store.rotateKey(trial.key.id, 0)).rejects.toThrow(/has expired/)
    })

    test('listing the keys of an unknown account', async () => {
      const store = await testStore()
      expect(() => store.reads.listKeys('bob')).toThrow('The account "bob" does not exist.')
    })
  })

  test('a live token gives its key and its account', async () => {
    const store = await testStore()
    const account = await store.createAccount({ name: 'alice', plan: 'free' })
    const expiresAt = store.clock.ms + HOUR
    const { key, token } = await store.createKey({
      account: account.id,
      name: 'laptop',
      models: ['chat-small'],
      expiresAt,
    })
    const expected = {
      id: key.id,
      accountId: account.id,
      name: 'laptop',
      models: ['chat-small'],
      createdAt: store.clock.ms,
      expiresAt,
      revokedAt: null,
    }
    expect(key).toEqual(expected)
    expect(store.keys.find(token, store.clock.ms)).toEqual({ found: 'live', key: expected, account })
    await store.freeze('alice', true)
    expect(store.keys.find(token, store.clock.ms)).toMatchObject({ found: 'live', account: { frozen: true } })
  })

  test("a list shows four characters of each live secret, and the key's account", async () => {
    const store = await testStore()
    const { key, token } = await withKey(store)
    await store.createAccount({ name: 'bob' })
    await store.createKey({ account: 'bob', name: 'server' })
    store.clock.ms += 1
    const next = await store.rotateKey(key.id, HOUR)
    expect(store.reads.listKeys('alice')).toEqual([
      {
        ...key,
        secrets: [
          { last4: token.slice(-4), expiresAt: store.clock.ms + HOUR },
          { last4: next.token.slice(-4), expiresAt: null },
        ],
        spendingCap: null,
        spent: 0n,
        requests: 0,
        lastUsedAt: null,
        purpose: null,
      },
    ])
    expect(store.reads.listKeys().map(k => k.name)).toEqual(['laptop', 'server'])
  })

  describe('a change of a key', () => {
    test('of its name and its cap leaves the other fields unchanged', async () => {
      const store = await testStore()
      const { key, token } = await withKey(store)
      expect(store.reads.findKey('key_x')).toBeUndefined()
      expect(store.reads.findKey(key.id)).toMatchObject({ ...key, spendingCap: null, purpose: null })
      expect(await store.changeKey({ id: key.id, spendingCap: 5n })).toMatchObject({ name: 'laptop', spendingCap: 5n })
      expect(await store.changeKey({ id: key.id, name: 'desk' })).toMatchObject({ name: 'desk', spendingCap: 5n })
      expect(store.keys.find(token, store.clock.ms)).toMatchObject({ key: { name: 'desk' } })
      expect(await store.changeKey({ id: key.id, spendingCap: null })).toMatchObject({ spendingCap: null })
      expect(store.reads.findKey(key.id)).toEqual(store.reads.listKeys('alice')[0])
      await expect(store.changeKey({ id: 'key_x', name: 'n' })).rejects.toMatchObject({ code: 'not_found' })
      await expect(store.changeKey({ id: key.id, name: '' })).rejects.toMatchObject({ code: 'invalid' })
      await expect(store.changeKey({ id: key.id, spendingCap: -1n })).rejects.toMatchObject({ code: 'invalid' })
    })

    test('of its models and its expiry applies from the next request on, and may revive an expired key', async () => {
      const store = await testStore()
      const { key, token } = await withKey(store)
      const { ms } = store.clock
      const found = () => store.keys.find(token, store.clock.ms)
      expect(found().found).toBe('live')
      await store.changeKey({ id: key.id, models: ['a', 'b'], expiresAt: ms + HOUR })
      expect(found()).toMatchObject({
        found: 'live',
        key: { models: ['a', 'b'], expiresAt: ms + HOUR, name: key.name },
      })
      store.clock.ms = ms + HOUR
      expect(found().found).toBe('expired')
      expect(await store.changeKey({ id: key.id, expiresAt: null })).toMatchObject({
        expiresAt: null,
        models: ['a', 'b'],
      })
      expect(await store.changeKey({ id: key.id, models: null })).toMatchObject({ models: null })
      expect(found()).toMatchObject({ found: 'live', key: { models: null } })
      for (const change of [{ models: [] }, { models: [''] }, { expiresAt: store.clock.ms }, { expiresAt: 1.5 }])
        await expect(store.changeKey({ id: key.id, ...change })).rejects.toMatchObject({ code: 'invalid' })
      await store.revokeKey(key.id)
      await expect(store.changeKey({ id: key.id, expiresAt: null })).rejects.toMatchObject({ code: 'conflict' })
    })

    test("that revives an expired key counts towards the account's limit", async () => {
      const store = await testStore()
      await store.createAccount({ name: 'alice' })
      const soon = store.clock.ms + HOUR
      const { key } = await store.createKey({ account: 'alice', name: 'old', expiresAt: soon })
      store.clock.ms = soon
      for (let made = 0; made < MAX_LIVE_KEYS; made++) await store.createKey({ account: 'alice', name: `${made}` })
      await expect(store.changeKey({ id: key.id, expiresAt: null })).rejects.toMatchObject({ code: 'conflict' })
      expect(await store.changeKey({ id: key.id, name: 'older' })).toMatchObject({ name: 'older', expiresAt: soon })
    })

    test('of its expiry with a new secret never extends the old secret', async () => {
      const store = await testStore()
      await store.createAccount({ name: 'alice' })
      const [now, soon, later] = [store.clock.ms, store.clock.ms + HOUR, store.clock.ms + 100 * HOUR]
      const make = { account: 'alice', name: 'k', expiresAt: soon, purpose: 'playground' } as const
      const { key, token } = await store.createKey(make)
      const rotated = await store.rotateKey(key.id, 24 * HOUR, later)
      expect(rotated.key).toEqual({ ...key, expiresAt: later })
      expect(store.reads.findKey(key.id)).toMatchObject({
        purpose: 'playground',
        secrets: [{ expiresAt: soon }, { expiresAt: null }],
      })
      store.clock.ms = soon
      expect([found(store, token), found(store, rotated.token)]).toEqual(['rotated', 'live'])
      await expect(store.rotateKey(key.id, 0, now)).rejects.toMatchObject({ code: 'invalid' })
      const { key: lasting } = await store.rotateKey(key.id, 0, null)
      expect(lasting.expiresAt).toBeNull()
    })
  })

  test('the token itself is nowhere in the store, and is unknown under another secret', async () => {
    const store = await testStore()
    const { token } = await withKey(store)
    expect((await contentOf(store)).includes(token.slice(8, 38))).toBe(false)
    const memory = await testStore({ url: 'memory', secret: 'another secret of more than 32 characters' })
    expect(found(memory, token)).toBe('unknown')
  })

  test('a store in memory finds and revokes keys too', async () => {
    const store = await testStore({ url: 'memory' })
    const { key, token } = await withKey(store)
    expect(found(store, token)).toBe('live')
    await store.revokeKey(key.id)
    expect(found(store, token)).toBe('revoked')
  })

  describe('a cached lookup', () => {
    test.each<[what: string, change: (store: TestStore, id: string) => Promise<unknown>, found: object]>([
      ['revoked', (store, id) => store.revokeKey(id), { found: 'revoked' }],
      ['rotated without a grace', (store, id) => store.rotateKey(id, 0), { found: 'rotated' }],
      ['its account frozen', store => store.freeze('alice', true), { found: 'live', account: { frozen: true } }],
    ])('%s: visible to the next lookup', async (_what, change, after) => {
      const store = await testStore()
      const { key, token } = await withKey(store)
      const before = store.keys.find(token, store.clock.ms)
      expect(before).toMatchObject({ found: 'live', account: { frozen: false } })
      expect(store.keys.find(token, store.clock.ms)).toBe(before)
      await change(store, key.id)
      expect(store.keys.find(token, store.clock.ms)).toMatchObject(after)
    })

    test('its account unfrozen again: live again', async () => {
      const store = await testStore()
      const { token } = await withKey(store)
      await store.freeze('alice', true)
      found(store, token)
      await store.freeze('alice', false)
      expect(store.keys.find(token, store.clock.ms)).toMatchObject({ found: 'live', account: { frozen: false } })
    })

    test('after a change with an unknown result the key is read again', async () => {
      const { connector, faults } = faultyConnector()
      const store = await testStore({ connector })
      const { key, token } = await withKey(store)
      expect(found(store, token)).toBe('live')
      // Each attempt is written, and reports a failure.
      faults.after = 3
      await expect(store.revokeKey(key.id)).rejects.toThrow('It may still have been written')
      expect(found(store, token)).toBe('revoked')
    })

    test('cannot be changed by its caller', async () => {
      const store = await testStore()
      const { token } = await withKey(store)
      const lookup = store.keys.find(token, store.clock.ms)
      if (lookup.found !== 'live') throw new Error('not found')
      expect(() => Object.assign(lookup.account, { plan: 'gold' })).toThrow(TypeError)
      expect(() => Object.assign(lookup.key, { models: null })).toThrow(TypeError)
    })
  })
})
