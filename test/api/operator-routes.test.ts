/** Operator routes for accounts and tokens: refusals, credit that is given once per reference, and the rest. */
import { describe, expect, test } from 'vitest'
import { type ErrorEnvelope, formatMoney, parseMoney } from '#contract'
import type {
  AccountDetailView,
  AccountView,
  CreditView,
  EntryView,
  ExchangeView,
  FoundReceiptView,
  IssuedTokenView,
  KeyView,
  PageView,
  PlanView,
  ReceiptView,
  SummaryView,
  TokenView,
} from '../../src/api/views.ts'
import { countsOf } from '../helpers/counts.ts'
import { aHold, aSettle } from '../store/requests.ts'
import { type Client, startRig } from './rig.ts'

const counts = countsOf('corpus')

const NONE = 'acc_00000000000000000000000000'

describe('credit', () => {
  test('is given once for a reference, however often and concurrently it is requested', async () => {
    await using rig = await startRig()
    const machine = rig.machine(await rig.token('payments'))
    const { id } = await rig.store.createAccount({ name: 'acme' })
    const body = { amount: '25.000000001', reference: 'evt_1', note: 'invoice 7' }
    const answers = await Promise.all(
      Array.from({ length: counts(20, 500) }, () =>
        machine.post<CreditView>(`/api/operator/accounts/${id}/credit`, body),
      ),
    )
    expect(answers.filter(answer => answer.body.granted)).toHaveLength(1)
    for (const { status, body } of answers) {
      expect(status).toBe(200)
      expect(body).toMatchObject({ reference: 'evt_1', account: { id, posted: '25.000000001' } })
    }
    const { body: entries } = await machine.get<PageView<EntryView>>(`/api/operator/accounts/${id}/entries`)
    expect(entries.items).toHaveLength(1)
    expect(entries.items[0]).toMatchObject({
      kind: 'credit',
      amount: '25.000000001',
      reference: 'evt_1',
      actor: 'token:payments',
      note: 'invoice 7',
    })
  })

  test('with a reference that was used for something else is a conflict and changes nothing', async () => {
    await using rig = await startRig()
    const operator = await rig.operator()
    const [one, other] = [
      await rig.store.createAccount({ name: 'one' }),
      await rig.store.createAccount({ name: 'two' }),
    ]
    const credit = (id: string, amount: string) =>
      operator.post<CreditView & ErrorEnvelope>(`/api/operator/accounts/${id}/credit`, { amount, reference: 'evt_1' })
    expect((await credit(one.id, '5')).body.granted).toBe(true)
    for (const [id, amount] of [
      [one.id, '6'],
      [one.id, '5.000000001'],
      [other.id, '5'],
    ] as const) {
      const { status, body } = await credit(id, amount)
      expect([status, body.error.code]).toEqual([409, 'conflict'])
      expect(body.error.message).toContain('evt_1')
    }
    expect((await credit(one.id, '5.000000000')).body.granted).toBe(false)
    expect(rig.store.reads.findAccount(one.id)!.posted).toBe(parseMoney('5'))
    expect(rig.store.reads.findAccount(other.id)!.posted).toBe(0n)
  })

  test.each([
    [{ amount: '0', reference: 'r' }, 'invalid_value', 'amount'],
    [{ amount: '0.000000000', reference: 'r' }, 'invalid_value', 'amount'],
    [{ amount: '-5', reference: 'r' }, 'missing_required_parameter', 'note'],
    [{ amount: '-5', reference: 'r', note: '' }, 'invalid_value', 'note'],
    [{ amount: '-0', reference: 'r', note: 'n' }, 'invalid_value', 'amount'],
    [{ amount: '--5', reference: 'r', note: 'n' }, 'invalid_value', 'amount'],
    [{ amount: '-$5', reference: 'r', note: 'n' }, 'invalid_value', 'amount'],
    [{ amount: '1e3', reference: 'r' }, 'invalid_value', 'amount'],
    [{ amount: '0.0000000001', reference: 'r' }, 'invalid_value', 'amount'],
    [{ amount: '$5', reference: 'r' }, 'invalid_value', 'amount'],
    [{ amount: '1,000', reference: 'r' }, 'invalid_value', 'amount'],
    [{ amount: ' 5', reference: 'r' }, 'invalid_value', 'amount'],
    [{ amount: '9999999999', reference: 'r' }, 'invalid_value', 'amount'],
    [{ amount: 5, reference: 'r' }, 'invalid_type', 'amount'],
    [{ amount: null, reference: 'r' }, 'invalid_type', 'amount'],
    [{ amount: '5' }, 'missing_required_parameter', 'reference'],
    [{ amount: '5', reference: '' }, 'invalid_value', 'reference'],
    [{ amount: '5', reference: 'a\nb' }, 'invalid_value', 'reference'],
    [{ amount: '5', reference: 'r'.repeat(201) }, 'invalid_value', 'reference'],
    [{ reference: 'r' }, 'missing_required_parameter', 'amount'],
    [{ amount: '5', reference: 'r', actor: 'me' }, 'unknown_parameter', 'actor'],
    [{ amount: '5', reference: 'r', posted: '9' }, 'unknown_parameter', 'posted'],
  ])('%j is %s of %s', async (body, code, param) => {
    await using rig = await startRig()
    const operator = await rig.operator()
    const { id } = await rig.store.createAccount({ name: 'acme' })
    const answer = await operator.post<ErrorEnvelope>(`/api/operator/accounts/${id}/credit`, body)
    expect([answer.status, answer.body.error.code, answer.body.error.param]).toEqual([400, code, param])
    expect(rig.store.reads.findAccount(id)!.posted).toBe(0n)
  })

  test('is removed once for a reference, at most what is available', async () => {
    await using rig = await startRig()
    const operator = await rig.operator('op@example.com')
    const { id } = await rig.store.createAccount({ name: 'acme' })
    await rig.store.credit({ account: id, amount: parseMoney('9'), reference: 'r', actor: 'test' })
    await rig.store.ledger.hold(aHold({ accountId: id, amount: parseMoney('4') }))
    const take = (amount: string) => {
      const body = { amount, reference: 'refund', note: 'a mistake' }
      return operator.post<CreditView & ErrorEnvelope>(`/api/operator/accounts/${id}/credit`, body)
    }
    const refused = await take('-5.000000001')
    expect([refused.status, refused.body.error.code]).toEqual([409, 'conflict'])
    expect(refused.body.error.message).toMatch(/\$5\.0+ is available and \$4\.0+ is held .* Take at most \$5\.0/)
    const account = { posted: '4.000000000', held: '4.000000000', available: '0.000000000' }
    expect((await take('-5')).body).toMatchObject({ granted: true, account })
    expect((await take('-5')).body).toMatchObject({ granted: false, account })
    const { body } = await operator.get<PageView<EntryView>>(`/api/operator/accounts/${id}/entries`)
    const entry = { kind: 'credit', amount: '-5.000000000', balance: '4.000000000', reference: 'refund' }
    expect(body.items[0]).toMatchObject({ ...entry, actor: 'op@example.com', note: 'a mistake' })
  })

  test('beyond the maximum balance is a conflict', async () => {
    await using rig = await startRig()
    const operator = await rig.operator()
    const { id } = await rig.store.createAccount({ name: 'acme' })
    const credit = (reference: string) =>
      operator.post(`/api/operator/accounts/${id}/credit`, { amount: '999999999', reference })
    const statuses: number[] = []
    for (let index = 0; index < 12; index++) statuses.push((await credit(`r${index}`)).status)
    expect(statuses.slice(0, 9)).toEqual(Array(9).fill(200))
    expect(statuses.slice(-2)).toEqual([409, 409])
  })
})

describe('accounts', () => {
  test('are not found by an unknown id or by their name', async () => {
    await using rig = await startRig()
    const operator = await rig.operator()
    const { id } = await rig.store.createAccount({ name: 'acme' })
    const { key } = await rig.store.createKey({ account: id, name: 'k' })
    const calls = (account: string): ReturnType<Client['get']>[] => [
      operator.get(`/api/operator/accounts/${account}`),
      operator.patch(`/api/operator/accounts/${account}`, { frozen: true }),
      operator.post(`/api/operator/accounts/${account}/credit`, { amount: '1', reference: 'r' }),
      operator.get(`/api/operator/accounts/${account}/entries`),
      operator.get(`/api/operator/accounts/${account}/receipts`),
      operator.get(`/api/operator/accounts/${account}/usage`),
      operator.post(`/api/operator/accounts/${account}/keys/${key.id}/revoke`),
    ]
    for (const account of [NONE, 'acme', 'acc_', id.toLowerCase(), `${id}%00`, '%27--', key.id]) {
      for (const answer of await Promise.all(calls(account))) expect(answer.status, account).toBe(404)
    }
    expect(rig.store.reads.findAccount(id)).toMatchObject({ frozen: false, posted: 0n })
    expect(rig.store.reads.findKey(key.id)!.revokedAt).toBeNull()
  })

  test('are created with a plan and their first credit', async () => {
    await using rig = await startRig()
    const operator = await rig.operator('op@example.com')
    const make = (body: object) => operator.post<AccountView>('/api/operator/accounts', body)
    expect((await make({ name: 'plain' })).body).toMatchObject({ plan: 'default', posted: '0.000000000' })
    const { body } = await make({ name: 'acme', plan: 'gold', credit: '12.5' })
    expect(body).toMatchObject({ name: 'acme', plan: 'gold', posted: '12.500000000', frozen: false })
    const { items } = rig.store.reads.reports.entries(body.id, { limit: 5 })
    expect(items).toMatchObject([{ reference: `create:${body.id}`, actor: 'op@example.com' }])
    const { body: own } = await make({ name: 'other', credit: '1', reference: 'evt_9' })
    expect(rig.store.reads.reports.entries(own.id, { limit: 5 }).items).toMatchObject([{ reference: 'evt_9' }])
    expect((await make({ name: 'free', credit: '0' })).body.posted).toBe('0.000000000')
  })

  test.each([
    [{ name: 'acme' }, 409, 'conflict'],
    [{ name: 'new', credit: '1', reference: 'used' }, 409, 'conflict'],
    [{ name: 'acc_mine' }, 400, 'invalid_value'],
    [{ name: ' spaced ' }, 400, 'invalid_value'],
    [{ name: 'new', reference: 'r' }, 400, 'invalid_value'],
    [{ name: 'new', credit: '0', reference: 'r' }, 400, 'invalid_value'],
    [{ name: 'new', credit: 'much' }, 400, 'invalid_value'],
    [{ name: 'new', frozen: true }, 400, 'unknown_parameter'],
    [{ name: 'new', id: 'acc_1' }, 400, 'unknown_parameter'],
    [{ plan: 'gold' }, 400, 'missing_required_parameter'],
  ])('%j is %i %s', async (body, status, code) => {
    await using rig = await startRig()
    const operator = await rig.operator()
    const { id } = await rig.store.createAccount({ name: 'acme' })
    await rig.store.credit({ account: id, amount: 1n, reference: 'used', actor: 'test' })
    const answer = await operator.post<ErrorEnvelope>('/api/operator/accounts', body)
    expect([answer.status, answer.body.error.code]).toEqual([status, code])
    // The error names the created account, so that the client does not create a second one.
    const made = rig.store.reads.findAccount('new')
    if (made) expect(answer.body.error.message).toContain(made.id)
    expect(made === undefined).toBe(status === 400 || ('name' in body && body.name === 'acme'))
    expect(made?.posted ?? 0n).toBe(0n)
  })

  test('are found by name, id, plan and frozen state, in pages', async () => {
    await using rig = await startRig()
    const operator = await rig.operator('zoe@example.com')
    const names = ['Alpha', 'beta 100%', 'beta_200', 'Gamma', 'delta']
    for (const name of names)
      await rig.store.createAccount({ name, plan: name.startsWith('beta') ? 'gold' : 'default' })
    const gamma = rig.store.reads.findAccount('Gamma')!
    await operator.patch(`/api/operator/accounts/${gamma.id}`, { frozen: true })
    const find = async (query: string) => {
      const { body } = await operator.get<PageView<AccountView>>(`/api/operator/accounts?${query}`)
      return body.items.map(({ name }) => name)
    }
    expect(await find('')).toEqual(['Alpha', 'beta 100%', 'beta_200', 'delta', 'Gamma', 'zoe@example.com'])
    expect(await find('search=BETA')).toEqual(['beta 100%', 'beta_200'])
    expect(await find('search=%25')).toEqual(['beta 100%'])
    expect(await find('search=a_2')).toEqual(['beta_200'])
    expect(await find(`search=${gamma.id}`)).toEqual(['Gamma'])
    expect(await find('search=unknown')).toEqual([])
    expect(await find("search=' OR 1=1 --".replaceAll(' ', '%20'))).toEqual([])
    expect(await find('plan=gold')).toEqual(['beta 100%', 'beta_200'])
    expect(await find('frozen=true')).toEqual(['Gamma'])
    expect(await find('frozen=false&plan=default')).toEqual(['Alpha', 'delta', 'zoe@example.com'])
    const seen: string[] = []
    for (let after = ''; ; ) {
      const { body } = await operator.get<PageView<AccountView>>(`/api/operator/accounts?limit=4${after}`)
      seen.push(...body.items.map(({ name }) => name))
      if (body.next === null) break
      after = `&after=${encodeURIComponent(body.next)}`
    }
    expect(seen).toEqual(await find(''))
  })

  test('get another plan, are frozen and unfrozen; an empty change is refused', async () => {
    await using rig = await startRig()
    const operator = await rig.operator()
    const { id } = await rig.store.createAccount({ name: 'acme' })
    const { token } = await rig.store.createKey({ account: id, name: 'k' })
    const change = (body: object) => operator.patch<AccountView>(`/api/operator/accounts/${id}`, body)
    const seen = () => {
      const found = rig.store.keys.find(token, rig.clock.now())
      return found.found === 'live' ? [found.account.plan, found.account.frozen] : found.found
    }
    expect((await change({ plan: 'gold' })).body).toMatchObject({ plan: 'gold', frozen: false })
    expect(seen()).toEqual(['gold', false])
    expect((await change({ frozen: true, plan: 'silver' })).body).toMatchObject({ plan: 'silver', frozen: true })
    expect(seen()).toEqual(['silver', true])
    expect((await change({ frozen: false })).body).toMatchObject({ plan: 'silver', frozen: false })
    for (const body of [{}, { name: 'x' }, { plan: 'x', posted: '1' }, { plan: '' }, { frozen: 'yes' }]) {
      expect((await change(body)).status).toBe(400)
    }
    expect(seen()).toEqual(['silver', false])
    const { body: plans } = await operator.get<PageView<PlanView>>('/api/operator/plans')
    expect(plans.items).toEqual([
      { plan: 'default', accounts: 1, declared: null },
      { plan: 'silver', accounts: 1, declared: null },
    ])
  })

  test('accept declared plans only, if any are declared', async () => {
    const plan = (name: string) => [name, { name, models: null, limits: [], budgets: [], weight: 1 }] as const
    const declared = new Map([plan('default'), plan('pro')])
    await using rig = await startRig({ parts: { plans: () => declared } })
    const operator = await rig.operator()
    const alice = await rig.member('alice@example.com')
    const message = `Invalid value for 'plan': "por" is not declared under plans in gateway.yaml; did you mean "pro"?`
    const invitation = { kind: 'invitation', role: 'member', account_id: null, plan: 'por' }
    for (const reply of [
      await operator.post('/api/operator/accounts', { name: 'acme', plan: 'por' }),
      await operator.patch(`/api/operator/accounts/${alice.accountId}`, { plan: 'por', frozen: true }),
      await operator.post('/api/operator/links', invitation),
    ]) {
      expect(reply).toMatchObject({ status: 400, body: { error: { code: 'invalid_value', param: 'plan', message } } })
    }
    expect(rig.store.reads.findAccount(alice.accountId)).toMatchObject({ plan: 'default', frozen: false })
    await rig.store.setPlan(alice.accountId, 'old')
    const { body } = await operator.get<PageView<PlanView>>('/api/operator/plans')
    expect(body.items).toEqual([
      { plan: 'default', accounts: 1, declared: true },
      { plan: 'pro', accounts: 0, declared: true },
      { plan: 'old', accounts: 1, declared: false },
    ])
  })

  test('show their people and keys, and a key is revoked through its own account only', async () => {
    await using rig = await startRig()
    const operator = await rig.operator()
    const alice = await rig.member('alice@example.com')
    const bob = await rig.member('bob@example.com', alice.accountId)
    const eve = await rig.member('eve@example.com')
    const { key, token } = await rig.store.createKey({ account: alice.accountId, name: 'hers' })
    const { body } = await operator.get<AccountDetailView>(`/api/operator/accounts/${alice.accountId}`)
    expect(body.people.map(({ id }) => id)).toEqual([alice.person.id, bob.person.id])
    expect(body.keys.map(({ id, state }) => [id, state])).toEqual([[key.id, 'live']])
    expect(JSON.stringify(body)).not.toContain(token)

    const revoke = (account: string, id: string) =>
      operator.post<KeyView>(`/api/operator/accounts/${account}/keys/${id}/revoke`)
    expect((await revoke(eve.accountId, key.id)).status).toBe(404)
    expect((await revoke(alice.accountId, 'key_none')).status).toBe(404)
    expect(rig.store.keys.find(token, rig.clock.now()).found).toBe('live')
    expect((await revoke(alice.accountId, key.id)).body).toMatchObject({ id: key.id, state: 'revoked', secrets: [] })
    expect(rig.store.keys.find(token, rig.clock.now()).found).toBe('revoked')
    expect((await revoke(alice.accountId, key.id)).status).toBe(200)
  })

  test('show the receipts of any account', async () => {
    await using rig = await startRig()
    const operator = await rig.operator()
    const alice = await rig.member('alice@example.com')
    await rig.store.ledger.hold(aHold({ accountId: alice.accountId, exchange: 'req_1' }))
    await rig.store.ledger.settle(aSettle({ exchange: 'req_1' }))
    const { body } = await operator.get<FoundReceiptView>('/api/operator/receipts/req_1')
    expect(body).toMatchObject({
      receipt: { id: 'req_1', charged: '0.000000040', attempts: [{ target: 'demo/demo-small' }] },
      account: { id: alice.accountId, name: 'alice@example.com' },
    })
    const list = await operator.get<PageView<ReceiptView>>(`/api/operator/accounts/${alice.accountId}/receipts`)
    expect(list.body.items).toEqual([body.receipt])
    expect((await operator.get('/api/operator/receipts/req_2')).status).toBe(404)
  })
})

describe('the gateway', () => {
  const EXCHANGE: ExchangeView = {
    id: 'req_9',
    started_at: '2027-01-15T08:00:00.000Z',
    route: '/v1/chat/completions',
    policy: 'standard',
    account_id: null,
    account: null,
    key_id: null,
    model: null,
    stream: null,
    target: null,
    attempts: 0,
    tokens: 0,
    address: '127.0.0.1',
    replica: null,
  }

  test('shows a summary', async () => {
    await using rig = await startRig({
      parts: {
        exchanges: async () => [EXCHANGE],
        counts: async () => ({ inflight: 3, openHolds: 2 }),
        readiness: () => ({ ready: false, reason: 'the ledger cannot be written' }),
      },
    })
    const operator = await rig.operator()
    const alice = await rig.member('alice@example.com')
    await rig.store.ledger.hold(aHold({ accountId: alice.accountId, amount: 5n }))
    const { body } = await operator.get<SummaryView>('/api/operator/summary')
    expect(body).toEqual({
      accounts: 2,
      posted: '10.000000000',
      held: formatMoney(5n),
      inflight: 3,
      open_holds: 2,
      ready: false,
      reason: 'the ledger cannot be written',
      started_at: '2027-01-15T08:00:00.000Z',
      version: '0.0.0-test',
    })
    expect((await operator.get<PageView<ExchangeView>>('/api/operator/exchanges')).body.items).toEqual([EXCHANGE])
    expect((await operator.get('/api/operator/providers')).body).toEqual({ items: [], next: null })
    expect((await operator.get('/api/operator/configuration')).status).toBe(200)
  })
})

describe('tokens', () => {
  test('are shown once, open the admin listener at once, and are revoked at once', async () => {
    await using rig = await startRig()
    const operator = await rig.operator('op@example.com')
    const made = await operator.post<IssuedTokenView>('/api/operator/tokens', { name: 'payments' })
    const { token, secret } = made.body
    expect(secret).toMatch(/^tg_oper_/)
    expect(token).toMatchObject({
      name: 'payments',
      last4: secret.slice(-4),
      expires_at: null,
      created_by: 'op@example.com',
    })
    const machine = rig.machine(secret)
    const list = await machine.get<PageView<TokenView>>('/api/operator/tokens')
    expect(list.body.items).toEqual([token])
    expect(list.text).not.toContain(secret)
    expect(JSON.stringify(rig.log)).not.toContain(secret)
    // A token that another token created names it as its author.
    const second = await machine.post<IssuedTokenView>('/api/operator/tokens', { name: 'second' })
    expect(second.body.token.created_by).toBe('token:payments')
    expect((await operator.delete(`/api/operator/tokens/${token.id}`)).status).toBe(204)
    expect((await machine.get('/api/operator/tokens')).status).toBe(401)
    expect((await operator.delete(`/api/operator/tokens/${token.id}`)).status).toBe(404)
    expect((await operator.delete('/api/operator/tokens/tok_none')).status).toBe(404)
  })

  test('expire at their time', async () => {
    await using rig = await startRig()
    const operator = await rig.operator()
    const expires_at = new Date(rig.clock.ms + 60_000).toISOString()
    const { body } = await operator.post<IssuedTokenView>('/api/operator/tokens', { name: 'short', expires_at })
    expect(body.token.expires_at).toBe(expires_at)
    const machine = rig.machine(body.secret)
    rig.clock.ms += 59_999
    expect((await machine.get('/api/operator/summary')).status).toBe(200)
    rig.clock.ms += 1
    expect((await machine.get('/api/operator/summary')).status).toBe(401)
  })

  test.each([
    [{ name: 'x', expires_at: '2027-01-15T08:00:00.000Z' }, 'expires_at'],
    [{ name: 'x', expires_at: '2020-01-01T00:00:00Z' }, 'expires_at'],
    [{ name: 'x', expires_at: 'never' }, 'expires_at'],
    [{ name: 'x', expires_at: 0 }, 'expires_at'],
    [{ name: '' }, 'name'],
    [{}, 'name'],
    [{ name: 'x', secret: 'mine' }, 'secret'],
  ])('%j is refused', async (body, param) => {
    await using rig = await startRig()
    const operator = await rig.operator()
    const answer = await operator.post<ErrorEnvelope>('/api/operator/tokens', body)
    expect([answer.status, answer.body.error.param]).toEqual([400, param])
    expect(rig.store.reads.people.tokens()).toEqual([])
  })
})
