/** Access to the admin listener and the metrics, the order of refusals, and the authors of links, tokens and credit. */
import { describe, expect, test } from 'vitest'
import type { EntryView, IssuedLinkView, IssuedTokenView, LinkView, PageView, TokenView } from '../../src/api/views.ts'
import { createOperatorToken } from '../../src/store/people/token.ts'
import { startRig } from './rig.ts'

const INVITATION = { kind: 'invitation', role: 'operator' } as const

describe('the admin listener', () => {
  test.each<[listens: string, host: string, status: number]>([
    ['127.0.0.1', 'localhost:9000', 200],
    ['127.0.0.1', 'LOCALHOST', 200],
    ['127.0.0.1', '127.0.0.1:9000', 200],
    ['::1', '[::1]:9000', 200],
    ['localhost', '127.0.0.1', 200],
    ['127.0.0.1', 'evil.example', 404],
    ['127.0.0.1', 'localhost.evil.example', 404],
    ['::1', 'evil.example:9000', 404],
    ['localhost', 'evil.example', 404],
    ['0.0.0.0', 'metrics.internal:9000', 200],
    ['10.0.0.5', '10.0.0.5:9000', 200],
  ])('on %s answers %s with %i', async (adminHost, host, status) => {
    await using rig = await startRig({ adminHost })
    const machine = rig.machine(await rig.token())
    for (const path of ['/metrics', '/api/operator/summary']) {
      const reply = await machine.call('GET', path, { headers: { host } })
      expect(reply.status, path).toBe(status)
      if (status === 404) expect(reply.body).toMatchObject({ error: { code: 'unknown_host' } })
    }
  })
})

describe('metrics', () => {
  const PROBLEM = '/etc/tollgate/gateway.yaml:3:1: unknown key'

  test.each<[metrics: 'token' | 'open', sent: string, status: number]>([
    ['open', 'nothing', 200],
    ['token', 'nothing', 401],
    ['token', 'a token', 200],
    ['token', 'a token in lower case: bearer', 200],
    ['token', 'an unknown token', 401],
    ['token', 'a token that was revoked', 401],
    ['token', "a client's key", 401],
    ['token', 'a token as a password', 401],
  ])('for metrics: %s, a request with %s gets %i', async (metrics, sent, status) => {
    await using rig = await startRig({ metrics, adminHost: '10.0.0.5', configurationProblem: PROBLEM })
    const token = await rig.token()
    if (sent.includes('revoked')) await rig.store.people.revokeToken(rig.store.reads.people.tokens()[0]!.id)
    const { id: account } = await rig.store.createAccount({ name: 'a' })
    const authorization: Record<string, string> = {
      'a token': `Bearer ${token}`,
      'a token in lower case: bearer': `bearer ${token}`,
      'an unknown token': `Bearer ${createOperatorToken()}`,
      'a token that was revoked': `Bearer ${token}`,
      "a client's key": `Bearer ${(await rig.store.createKey({ account, name: 'k' })).token}`,
      'a token as a password': `Basic ${Buffer.from(`prometheus:${token}`).toString('base64')}`,
    }
    const headers = { authorization: authorization[sent] }
    const reply = await rig.machine().call('GET', '/metrics', { headers })
    expect(reply.status).toBe(status)
    if (status === 401) {
      expect(reply).toMatchObject({
        headers: { 'www-authenticate': 'Bearer' },
        body: { error: { code: 'unauthorized', message: expect.stringContaining('Authorization: Bearer tg_oper_') } },
      })
    } else expect(reply.text).toBe('up 1\n')

    // Every caller gets the health; only authorized callers get the paths of files.
    for (const path of ['/livez', '/readyz']) {
      expect((await rig.machine().call('GET', path, { headers })).status).toBe(200)
    }
    const health = await rig.machine().call<{ configuration: string }>('GET', '/readyz', { headers })
    expect(health.body.configuration === PROBLEM).toBe(status === 200)
    expect(health.body.configuration).toBeTruthy()
  })
})

describe('the first error reported', () => {
  test('a machine with a wrong token is refused for the token, whatever else is wrong', async () => {
    await using rig = await startRig()
    const { accountId } = await rig.member('alice@example.com')
    const path = `/api/operator/accounts/${accountId}/credit`
    const plain = { raw: '{"amount":"1","reference":"r1"}', headers: { 'content-type': undefined } }
    for (const token of [undefined, 'tg_oper_wrong']) {
      const reply = await rig.machine(token).call('POST', path, plain)
      expect(reply).toMatchObject({ status: 401, body: { error: { code: 'unauthorized' } } })
    }
    expect((await rig.machine(await rig.token()).call('POST', path, plain)).status).toBe(415)
  })

  test.each([
    ['amount', { amount: 10 }, 'expected a string such as "12.50" or "-5", but got a number instead.'],
    ['note', { note: 10 }, 'expected a string, but got a number instead.'],
  ])('a number for the text field %s is refused with an example', async (param, wrong, sentence) => {
    await using rig = await startRig()
    const { accountId } = await rig.member('alice@example.com')
    const machine = rig.machine(await rig.token())
    const body = { amount: '1', reference: 'r1', ...wrong }
    expect(await machine.post(`/api/operator/accounts/${accountId}/credit`, body)).toMatchObject({
      status: 400,
      body: { error: { code: 'invalid_type', param, message: `Invalid type for '${param}': ${sentence}` } },
    })
  })
})

describe('links', () => {
  test.each(['links', 'people/PERSON/reset'])('without a dashboard, %s makes no link and reports why', async path => {
    await using rig = await startRig({ parts: { origins: () => [] } })
    const { person } = await rig.member('alice@example.com')
    const machine = rig.machine(await rig.token())
    const body = path === 'links' ? INVITATION : {}
    expect(await machine.post(`/api/operator/${path.replace('PERSON', person.id)}`, body)).toMatchObject({
      status: 409,
      body: { error: { code: 'conflict', message: expect.stringContaining('`dashboard` in gateway.yaml') } },
    })
    expect(rig.store.reads.people.links()).toEqual([])
  })

  test('a link names the token that made it and ends with that token, even if another has the same name', async () => {
    await using rig = await startRig()
    const operator = await rig.operator()
    const make = async () => (await operator.post<IssuedTokenView>('/api/operator/tokens', { name: 'deploy' })).body
    const [first, second] = [await make(), await make()]
    const one = await rig.machine(first.secret).post<IssuedLinkView>('/api/operator/links', INVITATION)
    const two = await rig.machine(second.secret).post<IssuedLinkView>('/api/operator/links', INVITATION)
    expect(one.body.link.created_by).toBe('token:deploy')
    await operator.delete(`/api/operator/tokens/${first.token.id}`)
    const { items } = (await operator.get<PageView<LinkView>>('/api/operator/links')).body
    expect(items.map(({ id }) => id)).toEqual([two.body.link.id])
  })

  test('an operator who was demoted meanwhile creates no links and tokens', async () => {
    await using rig = await startRig()
    await rig.operator('another@example.com')
    const operator = await rig.operator()
    // The demotion comes after the access decision and before the transaction.
    const { createLink, createToken, setRole } = rig.store.people
    const demoted = () => setRole(operator.person.id, 'member')
    Object.assign(rig.store.people, {
      createLink: async (...link: Parameters<typeof createLink>) => {
        await demoted()
        return createLink(...link)
      },
    })
    const refused = { status: 403, body: { error: { code: 'forbidden' } } }
    expect(await operator.post('/api/operator/links', INVITATION)).toMatchObject(refused)
    await setRole(operator.person.id, 'operator')
    Object.assign(rig.store.people, {
      createToken: async (...token: Parameters<typeof createToken>) => {
        await demoted()
        return createToken(...token)
      },
    })
    expect(await operator.post('/api/operator/tokens', { name: 'x' })).toMatchObject(refused)
    await setRole(operator.person.id, 'operator')
    const another = await rig.member('bob@example.com')
    Object.assign(rig.store.people, {
      setRole: async (...change: Parameters<typeof setRole>) => {
        await demoted()
        return setRole(...change)
      },
    })
    const path = `/api/operator/people/${another.person.id}`
    expect(await operator.patch(path, { role: 'operator' })).toMatchObject(refused)
    expect((await operator.get<PageView<TokenView>>('/api/operator/tokens')).status).toBe(403)
    expect(rig.store.reads.people.links()).toEqual([])
  })
})

test('the people of the account see `operator` as the author of credit; operators see the name', async () => {
  await using rig = await startRig()
  const [operator, alice] = [await rig.operator('boss@example.com'), await rig.member('alice@example.com')]
  const account = alice.accountId
  await operator.post(`/api/operator/accounts/${account}/credit`, { amount: '1', reference: 'r1' })
  await rig.store.credit({ account, amount: 1n, reference: 'r2', actor: 'cli:root' })
  await rig.store.credit({ account, amount: 1n, reference: 'r3', actor: operator.person.id })
  const actors = async (who: typeof alice, path: string) =>
    (await who.get<PageView<EntryView>>(path)).body.items.map(({ actor }) => actor).sort()
  expect(await actors(alice, '/api/entries')).toEqual(['operator', 'operator', 'operator', 'registration'])
  expect(await actors(operator, `/api/operator/accounts/${account}/entries`)).toEqual([
    'boss@example.com',
    'boss@example.com',
    'cli:root',
    'registration',
  ])
  const { text } = await alice.get('/api/entries.csv')
  expect(text).not.toContain('boss@example.com')
})
