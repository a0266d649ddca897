/** People, invitations and resets: an operator always remains, and links admit only the intended person. */
import { describe, expect, test } from 'vitest'
import type { ErrorEnvelope } from '#contract'
import type {
  AccountDetailView,
  IssuedLinkView,
  LinkView,
  PageView,
  PersonView,
  SessionView,
} from '../../src/api/views.ts'
import { countsOf } from '../helpers/counts.ts'
import { PASSWORD, startRig } from './rig.ts'

const counts = countsOf('corpus')

const HOUR = 3_600_000

describe('people', () => {
  test('no one can remove themselves, or remove or demote the last operator', async () => {
    await using rig = await startRig()
    const one = await rig.operator('one@example.com')
    const token = rig.machine(await rig.token())
    const self = `/api/operator/people/${one.person.id}`
    for (const answer of [
      await one.delete<ErrorEnvelope>(self),
      await token.delete<ErrorEnvelope>(self),
      await one.patch<ErrorEnvelope>(self, { role: 'member' }),
      await token.patch<ErrorEnvelope>(self, { role: 'member' }),
    ]) {
      expect([answer.status, answer.body.error.code]).toEqual([409, 'conflict'])
    }
    expect((await one.patch(self, { role: 'operator' })).status).toBe(200)

    const two = await rig.operator('two@example.com')
    // Either of two operators may remove the other, but not themselves.
    expect((await one.delete(self)).status).toBe(409)
    expect((await two.delete(self)).status).toBe(204)
    expect((await one.get('/api/operator/summary')).status).toBe(401)
    expect((await two.delete(self)).status).toBe(404)
    expect(rig.store.reads.people.list().map(({ email }) => email)).toEqual(['two@example.com'])
  })

  test('when two operators remove or demote each other at once, one remains', async () => {
    for (let round = 0; round < counts(5, 100); round++) {
      await using rig = await startRig()
      const all = await Promise.all(['a', 'b', 'c', 'd'].map(name => rig.operator(`${name}@example.com`)))
      await Promise.all(
        all.map((who, index) => {
          const path = `/api/operator/people/${all[(index + 1) % all.length]!.person.id}`
          return (index + round) % 2 === 0 ? who.delete(path) : who.patch(path, { role: 'member' })
        }),
      )
      expect(rig.store.reads.people.hasOperator()).toBe(true)
    }
  })

  test('a new role applies from the next request on', async () => {
    await using rig = await startRig()
    const [operator, alice] = [await rig.operator(), await rig.member('alice@example.com')]
    const path = `/api/operator/people/${alice.person.id}`
    expect((await alice.get('/api/operator/summary')).status).toBe(403)
    expect((await operator.patch<PersonView>(path, { role: 'operator' })).body.role).toBe('operator')
    expect((await alice.get('/api/operator/summary')).status).toBe(200)
    expect((await operator.patch<PersonView>(path, { role: 'member' })).body.role).toBe('member')
    expect((await alice.get('/api/operator/summary')).status).toBe(403)
    for (const body of [{}, { role: 'admin' }, { role: 'member', account_id: 'acc_1' }, { email: 'x@example.com' }]) {
      expect((await operator.patch(path, body)).status).toBe(400)
    }
    expect((await operator.patch('/api/operator/people/per_none', { role: 'member' })).status).toBe(404)
  })

  test('are listed without password data', async () => {
    await using rig = await startRig()
    const [operator, alice] = [await rig.operator(), await rig.member('alice@example.com')]
    const { body, text } = await operator.get<PageView<PersonView>>('/api/operator/people')
    expect(body.items.map(({ email, account_id, account }) => [email, account_id, account])).toEqual([
      ['alice@example.com', alice.accountId, 'alice@example.com'],
      [operator.person.email, operator.accountId, operator.person.email],
    ])
    expect(text).not.toContain('argon2')
  })

  test('are listed by page and found by a part of the address', async () => {
    await using rig = await startRig()
    const operator = await rig.operator('zoe@example.org')
    const { id } = await rig.store.createAccount({ name: 'acme' })
    for (const name of ['ann', 'ben', 'b_n', 'cid']) await rig.member(`${name}@example.com`, id)
    const list = async (query: string) => {
      const { body } = await operator.get<PageView<PersonView>>(`/api/operator/people?${query}`)
      return { ...body, names: body.items.map(({ email, account }) => `${email.split('@')[0]} of ${account}`) }
    }
    const names: string[] = []
    for (let after = ''; ; ) {
      const page = await list(`limit=2${after}`)
      expect(page.names.length).toBeLessThanOrEqual(2)
      names.push(...page.names)
      if (page.next === null) break
      after = `&after=${page.next}`
    }
    expect(names).toEqual(['ann of acme', 'b_n of acme', 'ben of acme', 'cid of acme', 'zoe of zoe@example.org'])
    expect((await list('search=B_N%40')).names).toEqual(['b_n of acme'])
    expect((await list('search=%25')).names).toEqual([])
    expect((await list('search=.com&limit=1')).next).not.toBeNull()
    for (const query of ['limit=0', 'limit=101', 'search=', 'after=x', 'account=1', 'plan=free']) {
      expect((await operator.get(`/api/operator/people?${query}`)).status, query).toBe(400)
    }
  })

  test('have the name of their account in every answer', async () => {
    await using rig = await startRig()
    const operator = await rig.operator()
    const { id } = await rig.store.createAccount({ name: 'acme' })
    const alice = await rig.member('alice@example.com', id)
    const path = `/api/operator/people/${alice.person.id}`
    const named = { account_id: id, account: 'acme' }
    expect((await alice.get<SessionView>('/api/session')).body.person).toMatchObject(named)
    expect((await operator.patch<PersonView>(path, { role: 'member' })).body).toMatchObject(named)
    expect((await operator.get<AccountDetailView>(`/api/operator/accounts/${id}`)).body.people).toMatchObject([named])
  })

  test('a removed person is signed out; the account and its keys stay', async () => {
    await using rig = await startRig()
    const [operator, alice] = [await rig.operator(), await rig.member('alice@example.com')]
    const { token } = await rig.store.createKey({ account: alice.accountId, name: 'k' })
    expect((await operator.delete(`/api/operator/people/${alice.person.id}`)).status).toBe(204)
    expect((await alice.get('/api/session')).status).toBe(401)
    expect((await rig.browser().post('/api/session', { email: 'alice@example.com', password: PASSWORD })).status).toBe(
      401,
    )
    expect(rig.store.keys.find(token, rig.clock.now()).found).toBe('live')
  })
})

describe('invitations', () => {
  test('create an account with their plan and credit', async () => {
    await using rig = await startRig({ parts: { registration: { mode: 'closed', credit: 9n, plan: 'basic' } } })
    const operator = await rig.operator('op@example.com')
    const invite = (body: object) =>
      operator.post<IssuedLinkView>('/api/operator/links', { kind: 'invitation', role: 'member', ...body })
    const plain = await invite({})
    expect(plain.body.link).toMatchObject({
      kind: 'invitation',
      role: 'member',
      account_id: null,
      account: null,
      email: null,
      plan: 'basic',
      credit: '0.000000000',
      created_by: 'op@example.com',
      expires_at: new Date(rig.clock.ms + 7 * 24 * HOUR).toISOString(),
    })
    const { body } = await invite({ plan: 'gold', credit: '2.5', email: 'New@Example.com', role: 'operator' })
    expect(body.link).toMatchObject({ plan: 'gold', credit: '2.500000000', email: 'new@example.com', role: 'operator' })
    expect(body.url).toMatch(new RegExp(`^${rig.origin}/join#[\\w-]{43}$`))
    const token = body.url.split('#')[1]!
    const joined = await rig.browser().post<SessionView>('/api/join', {
      token,
      email: 'new@example.com',
      password: PASSWORD,
    })
    expect(joined.body).toMatchObject({
      person: { role: 'operator' },
      account: { name: 'new@example.com', plan: 'gold', posted: '2.500000000' },
    })
    expect(JSON.stringify(rig.log)).not.toContain(token)
  })

  test('can lead into an existing account', async () => {
    await using rig = await startRig()
    const operator = await rig.operator()
    const alice = await rig.member('alice@example.com')
    const { body } = await operator.post<IssuedLinkView>('/api/operator/links', {
      kind: 'invitation',
      role: 'member',
      account_id: alice.accountId,
    })
    const into = { account_id: alice.accountId, account: 'alice@example.com', plan: null, credit: '0.000000000' }
    expect(body.link).toMatchObject(into)
    expect((await operator.get<PageView<LinkView>>('/api/operator/links')).body.items).toMatchObject([into])
    const joined = await rig.browser().post<SessionView>('/api/join', {
      token: body.url.split('#')[1],
      email: 'bob@example.com',
      password: PASSWORD,
    })
    expect(joined.body.account.id).toBe(alice.accountId)
  })

  test.each([
    [{ account_id: 'ACCOUNT', plan: 'gold' }, 400, 'plan'],
    [{ account_id: 'ACCOUNT', credit: '1' }, 400, 'credit'],
    [{ account_id: 'acc_none' }, 404, null],
    [{ account_id: 'alice@example.com' }, 400, 'account_id'],
    [{ email: 'Alice@example.com' }, 409, 'email'],
    [{ email: 'ada' }, 400, 'email'],
    [{ credit: '-1' }, 400, 'credit'],
    [{ role: 'owner' }, 400, 'role'],
    [{ role: undefined }, 400, 'role'],
    [{ kind: 'reset' }, 400, 'kind'],
    [{ kind: undefined }, 400, 'kind'],
    [{ person_id: 'per_1' }, 400, 'person_id'],
    [{ created_by: 'me' }, 400, 'created_by'],
    [{ expires_at: '2099-01-01T00:00:00Z' }, 400, 'expires_at'],
  ])('%j is refused', async (fields, status, param) => {
    await using rig = await startRig()
    const operator = await rig.operator()
    const alice = await rig.member('alice@example.com')
    const body = { kind: 'invitation', role: 'member', ...fields }
    const text = JSON.stringify(body).replace('ACCOUNT', alice.accountId)
    const answer = await operator.call<ErrorEnvelope>('POST', '/api/operator/links', {
      raw: text,
      headers: { 'content-type': 'application/json' },
    })
    expect([answer.status, answer.body.error.param]).toEqual([status, param])
    expect(rig.store.reads.people.links()).toEqual([])
  })

  test('are listed while they work, and can be revoked at once', async () => {
    await using rig = await startRig()
    const operator = await rig.operator('op@example.com')
    const machine = rig.machine(await rig.token('script'))
    const issue = async (by: typeof machine) =>
      (await by.post<IssuedLinkView>('/api/operator/links', { kind: 'invitation', role: 'member' })).body
    const [first, second] = [await issue(operator), await issue(machine)]
    const list = async () => (await operator.get<PageView<LinkView>>('/api/operator/links')).body.items
    expect((await list()).map(({ id, created_by }) => [id, created_by])).toEqual([
      [second.link.id, 'token:script'],
      [first.link.id, 'op@example.com'],
    ])
    expect(JSON.stringify(await list())).not.toContain(second.url.split('#')[1])
    expect((await operator.delete(`/api/operator/links/${first.link.id}`)).status).toBe(204)
    expect((await operator.delete(`/api/operator/links/${first.link.id}`)).status).toBe(404)
    expect((await operator.delete('/api/operator/links/lnk_none')).status).toBe(404)
    const join = { token: first.url.split('#')[1], email: 'x@example.com', password: PASSWORD }
    expect((await rig.browser().post('/api/join', join)).status).toBe(404)
    rig.clock.ms += 7 * 24 * HOUR
    operator.cookie = await rig.store.people.createSession(operator.person.id)
    expect(await list()).toEqual([])
  })
})

describe('resets', () => {
  test('let one person choose a new password, once, within a day', async () => {
    await using rig = await startRig()
    const [operator, alice] = [await rig.operator(), await rig.member('alice@example.com')]
    const issue = () => operator.post<IssuedLinkView>(`/api/operator/people/${alice.person.id}/reset`)
    const { status, body } = await issue()
    expect(status).toBe(201)
    expect(body.link).toMatchObject({
      kind: 'reset',
      email: 'alice@example.com',
      expires_at: new Date(rig.clock.ms + 24 * HOUR).toISOString(),
    })
    expect(body.url).toMatch(new RegExp(`^${rig.origin}/reset#[\\w-]{43}$`))
    const token = body.url.split('#')[1]
    const reset = () => rig.browser().post('/api/reset', { token, password: 'another good one' })
    expect((await reset()).status).toBe(200)
    expect((await reset()).status).toBe(404)
    expect((await alice.get('/api/session')).status).toBe(401)
    expect((await operator.post('/api/operator/people/per_none/reset')).status).toBe(404)
    expect(
      (await operator.call('POST', `/api/operator/people/${alice.person.id}/reset`, { body: { password: 'x' } }))
        .status,
    ).toBe(400)

    const late = (await issue()).body.url.split('#')[1]
    rig.clock.ms += 24 * HOUR
    expect((await rig.browser().post('/api/reset', { token: late, password: 'yet another one' })).status).toBe(404)
  })
})
