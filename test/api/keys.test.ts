/** Keys over the account API: allowed values, the secret that is shown once, and when a key stops working. */
import { describe, expect, test } from 'vitest'
import { parseMoney } from '#contract'
import type { IssuedKeyView, KeyView, PageView } from '../../src/api/views.ts'
import { type Rig, type SignedIn, startRig } from './rig.ts'

const HOUR_MS = 3_600_000

const create = async (who: SignedIn, body: object = { name: 'first' }) =>
  (await who.post<IssuedKeyView>('/api/keys', body)).body
const found = ({ store, clock }: Rig, token: string) => store.keys.find(token, clock.ms).found

describe('creating a key', () => {
  test.each<[what: string, body: object, code: string, param: string]>([
    ['no name', {}, 'missing_required_parameter', 'name'],
    ['an empty name', { name: '' }, 'invalid_value', 'name'],
    ['a long name', { name: 'x'.repeat(101) }, 'invalid_value', 'name'],
    ['a name of two lines', { name: 'a\nb' }, 'invalid_value', 'name'],
    ['a name with a character that reverses the text', { name: 'a\u202eb' }, 'invalid_value', 'name'],
    ['a name that ends in a blank', { name: 'a ' }, 'invalid_value', 'name'],
    ['a name of blanks', { name: '   ' }, 'invalid_value', 'name'],
    ['a number for a name', { name: 5 }, 'invalid_type', 'name'],
    ['models that are not a list', { name: 'a', models: 'm' }, 'invalid_type', 'models'],
    ['no models', { name: 'a', models: [] }, 'invalid_value', 'models'],
    ['a model twice', { name: 'a', models: ['m', 'm'] }, 'invalid_value', 'models'],
    ['an unknown model', { name: 'a', models: ['m', 'none'] }, 'invalid_value', 'models[1]'],
    ['a model that is not public', { name: 'a', models: ['hidden'] }, 'invalid_value', 'models[0]'],
    ['a model that is switched off', { name: 'a', models: ['off'] }, 'invalid_value', 'models[0]'],
    ['an alias of a model', { name: 'a', models: ['m-latest'] }, 'invalid_value', 'models[0]'],
    ['a model that is an object', { name: 'a', models: [{}] }, 'invalid_type', 'models[0]'],
    ['a time in the past', { name: 'a', expires_at: '2001-01-01T00:00:00Z' }, 'invalid_value', 'expires_at'],
    ['a time that does not exist', { name: 'a', expires_at: '2031-02-30T00:00:00Z' }, 'invalid_value', 'expires_at'],
    ['a time without its zone', { name: 'a', expires_at: '2031-02-03T00:00:00' }, 'invalid_value', 'expires_at'],
    ['a day', { name: 'a', expires_at: '2031-02-03' }, 'invalid_value', 'expires_at'],
    ['a number for a time', { name: 'a', expires_at: 1_900_000_000 }, 'invalid_type', 'expires_at'],
    ['a cap of zero', { name: 'a', spending_cap: '0' }, 'invalid_value', 'spending_cap'],
    ['a negative cap', { name: 'a', spending_cap: '-1' }, 'invalid_value', 'spending_cap'],
    ['a cap with ten decimals', { name: 'a', spending_cap: '0.0000000001' }, 'invalid_value', 'spending_cap'],
    ['a cap as a number', { name: 'a', spending_cap: 5 }, 'invalid_type', 'spending_cap'],
    ['a cap in euros', { name: 'a', spending_cap: '5 EUR' }, 'invalid_value', 'spending_cap'],
    ['a cap above the maximum', { name: 'a', spending_cap: '10000000000' }, 'invalid_value', 'spending_cap'],
    ['an account', { name: 'a', account_id: 'acc_1' }, 'unknown_parameter', 'account_id'],
    ['a purpose', { name: 'a', purpose: 'playground' }, 'unknown_parameter', 'purpose'],
  ])('refuses %s', async (_, body, code, param) => {
    await using rig = await startRig()
    const alice = await rig.member('alice@example.com')
    expect(await alice.post('/api/keys', body)).toMatchObject({ status: 400, body: { error: { code, param } } })
    expect(rig.store.reads.listKeys(alice.accountId)).toEqual([])
  })

  test('with only a name: it allows every public model, never expires and may spend all the credit', async () => {
    await using rig = await startRig()
    const alice = await rig.member('alice@example.com')
    const { key, token } = await create(alice)
    expect(key).toMatchObject({
      account_id: alice.accountId,
      name: 'first',
      models: null,
      expires_at: null,
      revoked_at: null,
      spending_cap: null,
      spent: '0.000000000',
      purpose: null,
      state: 'live',
      secrets: [{ last4: token.slice(-4), expires_at: null }],
    })
    expect(found(rig, token)).toBe('live')
  })

  test('with every field', async () => {
    await using rig = await startRig()
    const alice = await rig.member('alice@example.com')
    const { key, token } = await create(alice, {
      name: 'second',
      models: ['m', 'free'],
      expires_at: '2030-01-31T01:00:00+01:00',
      spending_cap: '2.5',
    })
    expect(key).toMatchObject({
      models: ['m', 'free'],
      expires_at: '2030-01-31T00:00:00.000Z',
      spending_cap: '2.500000000',
    })
    const stored = rig.store.reads.findKey(key.id)!
    expect(stored).toMatchObject({ spendingCap: parseMoney('2.5'), accountId: alice.accountId })
    rig.clock.ms = stored.expiresAt!
    expect(found(rig, token)).toBe('expired')
    // The session has expired by then, too.
    const again = rig.browser()
    again.cookie = await rig.store.people.createSession(alice.person.id)
    const { items } = (await again.get<PageView<KeyView>>('/api/keys')).body
    expect(items).toMatchObject([{ state: 'expired' }])
  })

  test('an account has at most 100 live keys', async () => {
    await using rig = await startRig()
    const alice = await rig.member('alice@example.com')
    const account = alice.accountId
    const ids: string[] = []
    for (let count = 0; count < 99; count++) ids.push((await rig.store.createKey({ account, name: `${count}` })).key.id)
    await create(alice)
    expect(await alice.post('/api/keys', { name: 'one more' })).toMatchObject({
      status: 409,
      body: { error: { code: 'conflict' } },
    })
    await alice.post(`/api/keys/${ids[0]}/revoke`)
    expect((await alice.post('/api/keys', { name: 'one more' })).status).toBe(201)
  })
})

describe('changing a key', () => {
  test.each<[what: string, body: object, code: string, param: string | null]>([
    ['nothing', {}, 'invalid_value', null],
    ['an empty name', { name: '' }, 'invalid_value', 'name'],
    ['no name', { name: null }, 'invalid_type', 'name'],
    ['an unknown model', { models: ['m', 'none'] }, 'invalid_value', 'models[1]'],
    ['a model that is not public', { models: ['hidden'] }, 'invalid_value', 'models[0]'],
    ['no models', { models: [] }, 'invalid_value', 'models'],
    ['a time in the past', { expires_at: '2001-01-01T00:00:00Z' }, 'invalid_value', 'expires_at'],
    ['a cap of zero', { spending_cap: '0' }, 'invalid_value', 'spending_cap'],
    ['its account', { account_id: 'acc_1' }, 'unknown_parameter', 'account_id'],
    ['its spent amount', { spent: '0' }, 'unknown_parameter', 'spent'],
    ['its end', { revoked_at: null }, 'unknown_parameter', 'revoked_at'],
  ])('refuses %s', async (_, body, code, param) => {
    await using rig = await startRig()
    const alice = await rig.member('alice@example.com')
    const { key } = await create(alice)
    expect(await alice.patch(`/api/keys/${key.id}`, body)).toMatchObject({
      status: 400,
      body: { error: { code, param } },
    })
    expect((await alice.get<PageView<KeyView>>('/api/keys')).body.items).toEqual([key])
  })

  test.each([
    [{ name: 'new' }, { name: 'new', spending_cap: '5.000000000' }],
    [{ spending_cap: '7' }, { name: 'first', spending_cap: '7.000000000' }],
    [{ spending_cap: null }, { name: 'first', spending_cap: null }],
    [{ models: ['m', 'free'] }, { models: ['m', 'free'] }],
    [{ expires_at: '2030-01-31T01:00:00+01:00' }, { expires_at: '2030-01-31T00:00:00.000Z' }],
    [
      { name: 'new', spending_cap: null },
      { name: 'new', spending_cap: null },
    ],
  ])('changes %o', async (body, expected) => {
    await using rig = await startRig()
    const alice = await rig.member('alice@example.com')
    const { key } = await create(alice, { name: 'first', spending_cap: '5' })
    const changed = await alice.patch<KeyView>(`/api/keys/${key.id}`, body)
    expect(changed.body).toEqual({ ...key, ...expected })
    expect((await alice.get<PageView<KeyView>>('/api/keys')).body.items).toEqual([changed.body])
  })
})

test('a key keeps a model that the operator allowed; a removed model cannot be added again', async () => {
  await using rig = await startRig()
  const alice = await rig.member('alice@example.com')
  const { key } = await rig.store.createKey({ account: alice.accountId, name: 'k', models: ['hidden', 'm'] })
  const limit = async (models: readonly string[] | null) =>
    (await alice.patch(`/api/keys/${key.id}`, { models })).status
  expect(await limit(['hidden', 'm', 'free'])).toBe(200)
  expect(await limit(['free'])).toBe(200)
  expect(await limit(['hidden', 'free'])).toBe(400)
  expect(await limit(null)).toBe(200)
  expect(rig.store.reads.findKey(key.id)).toMatchObject({ models: null })
})

test("a revoked key cannot be changed, and the playground's own key does not expire", async () => {
  await using rig = await startRig()
  const alice = await rig.member('alice@example.com')
  const { key } = await create(alice)
  await alice.post(`/api/keys/${key.id}/revoke`)
  const conflict = { status: 409, body: { error: { code: 'conflict' } } }
  expect(await alice.patch(`/api/keys/${key.id}`, { expires_at: null })).toMatchObject(conflict)
  const own = await rig.store.createKey({ account: alice.accountId, name: 'playground', purpose: 'playground' })
  const path = `/api/keys/${own.key.id}`
  expect(await alice.patch(path, { expires_at: '2031-01-01T00:00:00Z' })).toMatchObject(conflict)
  expect(await alice.patch(path, { spending_cap: '1' })).toMatchObject({ status: 200 })
})

describe('rotating a key', () => {
  test.each<[what: string, body: object, code: string, param: string]>([
    ['a negative grace', { grace_hours: -1 }, 'invalid_value', 'grace_hours'],
    ['a grace of more than a week', { grace_hours: 169 }, 'invalid_value', 'grace_hours'],
    ['a grace of half an hour', { grace_hours: 0.5 }, 'invalid_type', 'grace_hours'],
    ['a grace as a text', { grace_hours: '24' }, 'invalid_type', 'grace_hours'],
    ['an expiry in the past', { expires_at: '2001-01-01T00:00:00Z' }, 'invalid_value', 'expires_at'],
    ['a secret from the client', { token: 'tg_live_x' }, 'unknown_parameter', 'token'],
  ])('refuses %s', async (_, body, code, param) => {
    await using rig = await startRig()
    const alice = await rig.member('alice@example.com')
    const { key, token } = await create(alice)
    const reply = await alice.post(`/api/keys/${key.id}/rotate`, body)
    expect(reply).toMatchObject({ status: 400, body: { error: { code, param } } })
    expect(found(rig, token)).toBe('live')
  })

  test.each([
    ['a day by default', {}, 24],
    ['a week', { grace_hours: 168 }, 168],
    ['an hour', { grace_hours: 1 }, 1],
  ])('the old secret works for %s', async (_, body, hours) => {
    await using rig = await startRig()
    const alice = await rig.member('alice@example.com')
    const first = await create(alice)
    rig.clock.ms += 1000
    const second = (await alice.post<IssuedKeyView>(`/api/keys/${first.key.id}/rotate`, body)).body
    expect(second.key.id).toBe(first.key.id)
    expect(second.token).not.toBe(first.token)
    expect(second.key.secrets.map(({ last4 }) => last4)).toEqual([second.token.slice(-4), first.token.slice(-4)])
    rig.clock.ms += hours * HOUR_MS - 1
    expect([first, second].map(({ token }) => found(rig, token))).toEqual(['live', 'live'])
    rig.clock.ms += 1
    expect(found(rig, first.token)).not.toBe('live')
    expect(found(rig, second.token)).toBe('live')
  })

  test('without grace, the old secret stops working at once', async () => {
    await using rig = await startRig()
    const alice = await rig.member('alice@example.com')
    const first = await create(alice)
    const second = (await alice.post<IssuedKeyView>(`/api/keys/${first.key.id}/rotate`, { grace_hours: 0 })).body
    expect([first, second].map(({ token }) => found(rig, token))).toEqual([expect.not.stringMatching('live'), 'live'])
  })

  test("a second rotation within a minute is a conflict: concurrent rotations would end each other's secrets", async () => {
    await using rig = await startRig()
    const alice = await rig.member('alice@example.com')
    const { key } = await create(alice)
    const rotate = () => alice.post<IssuedKeyView>(`/api/keys/${key.id}/rotate`, {})
    const replies = await Promise.all([rotate(), rotate()])
    expect(replies.map(({ status }) => status).sort()).toEqual([200, 409])
    const { token } = replies.find(({ status }) => status === 200)!.body
    expect(found(rig, token)).toBe('live')
  })

  test('may set another expiry, or remove it', async () => {
    await using rig = await startRig()
    const alice = await rig.member('alice@example.com')
    const { key } = await create(alice, { name: 'first', expires_at: '2027-06-01T00:00:00Z' })
    const rotate = async (body: object) => {
      rig.clock.ms += 60_000
      return (await alice.post<IssuedKeyView>(`/api/keys/${key.id}/rotate`, body)).body.key.expires_at
    }
    expect(await rotate({})).toBe('2027-06-01T00:00:00.000Z')
    expect(await rotate({ expires_at: '2028-01-01T00:00:00Z' })).toBe('2028-01-01T00:00:00.000Z')
    expect(await rotate({ expires_at: null })).toBeNull()
  })

  test('is refused for revoked keys and for the playground key', async () => {
    await using rig = await startRig()
    const alice = await rig.member('alice@example.com')
    const { key } = await create(alice)
    await alice.post(`/api/keys/${key.id}/revoke`)
    const own = await rig.store.createKey({ account: alice.accountId, name: 'playground', purpose: 'playground' })
    for (const id of [key.id, own.key.id]) {
      expect(await alice.post(`/api/keys/${id}/rotate`, {})).toMatchObject({
        status: 409,
        body: { error: { code: 'conflict' } },
      })
    }
    expect(found(rig, own.token)).toBe('live')
  })
})

test('a key list has at most 200 rows: working keys first, then the newest others', async () => {
  await using rig = await startRig()
  const alice = await rig.member('alice@example.com')
  const account = alice.accountId
  const created: string[] = []
  for (let count = 0; count < 250; count++) {
    const { key } = await rig.store.createKey({ account, name: `${count}` })
    created.push(key.id)
    if (count >= 20) await rig.store.revokeKey(key.id)
  }
  const { items } = (await alice.get<PageView<KeyView>>('/api/keys')).body
  const live = created.slice(0, 20)
  expect(
    items
      .map(({ id }) => id)
      .slice(0, 20)
      .sort(),
  ).toEqual(live)
  expect(items.slice(20).map(({ id }) => id)).toEqual(created.slice(70).reverse())
})

test('revoking a key ends all its secrets at once; revoking it again changes nothing', async () => {
  await using rig = await startRig()
  const alice = await rig.member('alice@example.com')
  const first = await create(alice)
  const second = (await alice.post<IssuedKeyView>(`/api/keys/${first.key.id}/rotate`, {})).body
  const revoke = () => alice.post<KeyView>(`/api/keys/${first.key.id}/revoke`)
  const { body } = await revoke()
  expect(body).toMatchObject({ state: 'revoked', revoked_at: new Date(rig.clock.ms).toISOString() })
  expect([first, second].map(({ token }) => found(rig, token))).toEqual(['revoked', 'revoked'])
  rig.clock.ms += 1000
  expect((await revoke()).body).toEqual(body)
})
