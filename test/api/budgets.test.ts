/** Budgets over the account API: who may set which, what is left of them, and that an exhausted budget does not block the API. */
import { describe, expect, test } from 'vitest'
import { parseMoney } from '#contract'
import type { AccountDetailView, BudgetView, IssuedKeyView, PageView } from '../../src/api/views.ts'
import { ofOwners } from '../../src/budgets/budget-chain.ts'
import { aHold, aSettle } from '../store/helpers.ts'
import { PASSWORD, type Rig, type SignedIn, startRig } from './rig.ts'

const keyOf = async (who: SignedIn) => (await who.post<IssuedKeyView>('/api/keys', { name: 'app' })).body.key.id
const budgetsOf = async (who: SignedIn) => (await who.get<PageView<BudgetView>>('/api/budgets')).body.items

/** A request of the key whose hold counts against all its owners' budgets. */
async function spend({ store, clock }: Rig, accountId: string, keyId: string, amount: string): Promise<void> {
  const spender = { account: store.reads.findAccount(accountId)!, key: store.reads.findKey(keyId)! }
  const budgets = ofOwners(spender, clock.ms).map(({ rule: _, whose: __, ...budget }) => budget)
  const exchange = `req_${amount}`
  await store.ledger.hold(aHold({ exchange, accountId, keyId, amount: parseMoney(amount), budgets }))
  await store.ledger.settle(aSettle({ exchange, amount: parseMoney(amount) }))
}

test.each<[field: string, value: unknown, message: string]>([
  ['at', ['101%'], "Invalid value for 'at[0]': it must be a percentage from 1% to 100%."],
  ['zone', 'Mars/Base', "Invalid value for 'zone': it must be a time zone such as Europe/Berlin or UTC."],
])('an invalid %s is refused with its rule', async (field, value, message) => {
  await using rig = await startRig()
  const alice = await rig.member('alice@example.com')
  const reply = await alice.put(`/api/keys/${await keyOf(alice)}/budgets/day`, { amount: '5', [field]: value })
  expect(reply.body).toMatchObject({ error: { message } })
})

describe('a budget of a key', () => {
  test.each<[what: string, every: string, body: object, status: number, code: string, param: string | null]>([
    ['no amount', 'day', {}, 400, 'missing_required_parameter', 'amount'],
    ['an amount of zero', 'day', { amount: '0' }, 400, 'invalid_value', 'amount'],
    ['a negative amount', 'day', { amount: '-1' }, 400, 'invalid_value', 'amount'],
    ['an amount as a number', 'day', { amount: 5 }, 400, 'invalid_type', 'amount'],
    ['an unknown zone', 'day', { amount: '5', zone: 'Mars/Base' }, 400, 'invalid_value', 'zone'],
    ['a mark above 100%', 'day', { amount: '5', at: ['80%', '101%'] }, 400, 'invalid_value', 'at[1]'],
    ['a mark twice', 'day', { amount: '5', at: ['80%', '80%'] }, 400, 'invalid_value', 'at'],
    ['a mark as a number', 'day', { amount: '5', at: [80] }, 400, 'invalid_type', 'at[0]'],
    ['an unknown model', 'day', { amount: '5', then: 'none' }, 400, 'invalid_value', 'then'],
    ['a model that is not public', 'day', { amount: '5', then: 'hidden' }, 400, 'invalid_value', 'then'],
    ['a model that is switched off', 'day', { amount: '5', then: 'off' }, 400, 'invalid_value', 'then'],
    [
      'a period in the body, which the path has already',
      'day',
      { amount: '5', every: 'week' },
      400,
      'unknown_parameter',
      'every',
    ],
    ['an unknown period', 'year', { amount: '5' }, 404, 'not_found', null],
  ])('refuses %s', async (_, every, body, status, code, param) => {
    await using rig = await startRig()
    const alice = await rig.member('alice@example.com')
    const key = await keyOf(alice)
    const reply = await alice.put(`/api/keys/${key}/budgets/${every}`, body)
    expect(reply).toMatchObject({ status, body: { error: { code, param } } })
    expect(await budgetsOf(alice)).toEqual([])
  })

  test('is created, changed, used and removed, and the audit log names the actor', async () => {
    await using rig = await startRig()
    const alice = await rig.member('alice@example.com')
    const key = await keyOf(alice)
    const path = `/api/keys/${key}/budgets/day`
    expect(await alice.delete(path)).toMatchObject({ status: 404, body: { error: { code: 'not_found' } } })
    const first = { amount: '5', zone: 'Europe/Berlin', at: ['90%', '50%'], then: 'm' }
    expect((await alice.put<BudgetView>(path, first)).body).toMatchObject({
      place: 'key',
      name: 'key day',
      per: 'key',
      key_id: key,
      key: 'app',
      amount: '5.000000000',
      left: '5.000000000',
      at: ['50%', '90%'],
      then: 'm',
    })
    await spend(rig, alice.accountId, key, '0.123456789')
    expect((await alice.put<BudgetView>(path, { amount: '0.1', zone: 'Europe/Berlin' })).body).toMatchObject({
      amount: '0.100000000',
      spent: '0.123456789',
      held: '0.000000000',
      left: '0.000000000',
      at: ['80%', '100%'],
      then: 'refuse',
    })
    expect((await alice.put(`/api/keys/${key}/budgets/life`, { amount: '9' })).body).toMatchObject({
      start: null,
      resets_at: null,
    })
    expect(await alice.delete(path)).toMatchObject({ status: 204 })
    expect((await budgetsOf(alice)).map(({ name }) => name)).toEqual(['key life'])
    const changes = rig.log.filter(line => String(line['route']).includes('/budgets/'))
    expect(changes.map(({ actor, route, about }) => [actor, route, about])).toEqual([
      ['alice@example.com', 'DELETE /api/keys/{id}/budgets/{every}', { id: key, every: 'day', refused: 'not_found' }],
      [
        'alice@example.com',
        'PUT /api/keys/{id}/budgets/{every}',
        { id: key, every: 'day', amount: '5.000000000', zone: 'Europe/Berlin', at: '90% 50%', then: 'm' },
      ],
      [
        'alice@example.com',
        'PUT /api/keys/{id}/budgets/{every}',
        { id: key, every: 'day', amount: '0.100000000', zone: 'Europe/Berlin' },
      ],
      ['alice@example.com', 'PUT /api/keys/{id}/budgets/{every}', { id: key, every: 'life', amount: '9.000000000' }],
      ['alice@example.com', 'DELETE /api/keys/{id}/budgets/{every}', { id: key, every: 'day' }],
    ])
  })

  test('keeps a model that an operator chose, and accepts no other non-public model', async () => {
    await using rig = await startRig()
    const alice = await rig.member('alice@example.com')
    const operator = await rig.operator()
    const key = await keyOf(alice)
    const path = `/api/operator/accounts/${alice.accountId}/keys/${key}/budgets/day`
    expect(await operator.put(path, { amount: '5', then: 'off' })).toMatchObject({ status: 400 })
    expect((await operator.put<BudgetView>(path, { amount: '5', then: 'hidden' })).body.then).toBe('hidden')
    const own = (every: string) => alice.put(`/api/keys/${key}/budgets/${every}`, { amount: '4', then: 'hidden' })
    expect(await own('day')).toMatchObject({ status: 200, body: { amount: '4.000000000', then: 'hidden' } })
    expect(await own('week')).toMatchObject({ status: 400, body: { error: { param: 'then' } } })
    expect((await operator.delete(path)).status).toBe(204)
    expect(await own('day')).toMatchObject({ status: 400 })
  })

  test('accepts the models of the plan, public or not, and no others', async () => {
    const plan = { name: 'default', models: ['hidden'], limits: [], budgets: [], weight: 1 }
    await using rig = await startRig({ parts: { plans: () => new Map([[plan.name, plan]]) } })
    const alice = await rig.member('alice@example.com')
    const path = `/api/keys/${await keyOf(alice)}/budgets/day`
    expect(await alice.put(path, { amount: '4', then: 'm' })).toMatchObject({ status: 400 })
    expect(await alice.put(path, { amount: '4', then: 'hidden' })).toMatchObject({ status: 200 })
  })

  test('cannot be set on a revoked key', async () => {
    await using rig = await startRig()
    const alice = await rig.member('alice@example.com')
    const key = await keyOf(alice)
    await alice.post(`/api/keys/${key}/revoke`)
    expect((await alice.put(`/api/keys/${key}/budgets/day`, { amount: '5' })).status).toBe(404)
  })
})

describe('a budget of an account', () => {
  test('is visible to a member, who cannot change it', async () => {
    await using rig = await startRig()
    const alice = await rig.member('alice@example.com')
    const operator = await rig.operator()
    const path = `/api/operator/accounts/${alice.accountId}/budgets/month`
    const before = await operator.put<BudgetView>(path, { amount: '100', then: 'hidden' })
    expect(before).toMatchObject({ status: 200, body: { place: 'account', key_id: null, then: 'hidden' } })
    expect(await budgetsOf(alice)).toEqual([before.body])
    for (const [method, options] of [
      ['PUT', { body: { amount: '900' } }],
      ['DELETE', {}],
    ] as const) {
      expect(await alice.call(method, path, options)).toMatchObject({
        status: 403,
        body: { error: { code: 'forbidden' } },
      })
      const own = `/api/keys/${alice.accountId}/budgets/month`
      expect(await alice.call(method, own, options)).toMatchObject({ status: 404 })
    }
    expect(await budgetsOf(alice)).toEqual([before.body])
    expect((await operator.delete(path)).status).toBe(204)
    expect(await budgetsOf(alice)).toEqual([])
    expect((await operator.delete(path)).status).toBe(404)
  })

  test('is listed if it comes from a plan', async () => {
    const plan = { per: 'account', amount: parseMoney('3'), every: 'week' } as const
    await using rig = await startRig({ parts: { budgetRules: () => new Map([['plan default', [plan]]]) } })
    const alice = await rig.member('alice@example.com')
    expect(await budgetsOf(alice)).toMatchObject([{ place: 'plan default', name: 'account week', left: '3.000000000' }])
  })

  test('does not block the API when it is exhausted, like those of the key', async () => {
    await using rig = await startRig()
    const alice = await rig.member('alice@example.com')
    const operator = await rig.operator()
    const key = await keyOf(alice)
    for (const every of ['hour', 'day', 'week', 'month', 'life']) {
      await operator.put(`/api/operator/accounts/${alice.accountId}/budgets/${every}`, { amount: '0.5' })
      await alice.put(`/api/keys/${key}/budgets/${every}`, { amount: '0.5' })
    }
    await spend(rig, alice.accountId, key, '0.5')
    expect((await budgetsOf(alice)).map(({ left }) => left)).toEqual(Array(10).fill('0.000000000'))

    const browser = rig.browser()
    const signedIn = await browser.post('/api/session', { email: 'alice@example.com', password: PASSWORD })
    expect(signedIn.status).toBe(201)
    const pages = ['account', 'keys', 'budgets', 'entries', 'receipts', 'usage', 'models']
    for (const page of pages) expect((await browser.get(`/api/${page}`)).status, page).toBe(200)
    expect((await browser.post('/api/keys', { name: 'another' })).status).toBe(201)
    expect((await browser.put(`/api/keys/${key}/budgets/day`, { amount: '2' })).status).toBe(200)
    const detail = await operator.get<AccountDetailView>(`/api/operator/accounts/${alice.accountId}`)
    expect(detail.body.keys).toHaveLength(2)
  })
})
