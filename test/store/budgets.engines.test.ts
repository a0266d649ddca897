/** Budgets: what an account, a key or a model may spend in its life, in a day or in a month. */
import { describe, expect, test } from 'vitest'
import { type Period, startOfPeriod } from '../../src/store/money/budgets.ts'
import { HOLD_FIELDS, holdRecord } from '../../src/store/money/ledger-fields.ts'
import type { NewBudget } from '../../src/store/store.ts'
import { afterDeath, aHold, aSettle, fund, onEveryEngine, onPostgres, type TestStore, testStore } from './helpers.ts'

const DAY_MS = 86_400_000
const HOUR_MS = 3_600_000
const MIDNIGHT = Date.UTC(2026, 1, 28)

async function prepared(store: TestStore) {
  const accountId = await fund(store, 1_000_000n)
  const { key } = await store.createKey({ account: accountId, name: 'app' })
  const hold = (exchange: string, amount: bigint, more = {}) =>
    store.ledger.hold(aHold({ accountId, keyId: key.id, exchange, amount, ...more }))
  const settle = (exchange: string, amount: bigint) => store.ledger.settle(aSettle({ exchange, amount }))
  return { accountId, keyId: key.id, hold, settle }
}

/** The rows, without the ids of their budgets. */
function uses(store: TestStore): unknown[] {
  const database = store.connect({ readOnly: true })
  const rows = database.prepare(`
    SELECT of, period, period_start AS start, budget_use.amount, held, spent
    FROM budget_use JOIN budget ON budget.id = budget ORDER BY of, period, period_start`)
  const found = rows.all().map(row => ({ ...row }))
  database.close()
  return found
}

const openStore = async (writes: 'here' | 'thread' = 'here') => {
  const store = await testStore({ writes })
  store.clock.ms = MIDNIGHT + HOUR_MS
  return store
}

test.each<[Period, number, number]>([
  ['life', MIDNIGHT + 1, 0],
  ['day', MIDNIGHT + DAY_MS - 1, MIDNIGHT],
  ['day', MIDNIGHT, MIDNIGHT],
  ['month', MIDNIGHT + DAY_MS - 1, Date.UTC(2026, 1)],
  ['month', MIDNIGHT + DAY_MS, Date.UTC(2026, 2)],
])('a period of %s at %i began at %i', (period, at, start) => {
  expect(startOfPeriod(period, at)).toBe(start)
})

onEveryEngine(() => {
  describe.each(['here', 'thread'] as const)('written by: %s', writes => {
    test('holds at once never go beyond a budget, and the others are not touched by those that are refused', async () => {
      const store = await openStore(writes)
      const { accountId, hold } = await prepared(store)
      await store.setBudget({ of: 'account', name: accountId, period: 'day', amount: 250n })
      await store.setBudget({ of: 'model', name: 'chat-small', period: 'month', amount: 420n })
      const results = await Promise.all(Array.from({ length: 20 }, (_, index) => hold(`req_${10 + index}`, 50n)))
      expect(results.filter(({ held }) => held)).toHaveLength(5)
      expect(results.at(-1)).toEqual({ held: false, reason: 'short', of: 'account', available: 0n, onHold: 250n })
      expect(uses(store)).toEqual([
        { of: 'account', period: 'day', start: MIDNIGHT, amount: 250, held: 250, spent: 0 },
        { of: 'model', period: 'month', start: Date.UTC(2026, 1), amount: 420, held: 250, spent: 0 },
      ])
      expect(store.reads.findAccount('alice')).toMatchObject({ held: 250n })
      expect(store.reads.verify().violations).toEqual([])
    })
  })

  test('a settle gives the rest back to the period in which its hold began', async () => {
    const store = await openStore()
    const { keyId, hold, settle } = await prepared(store)
    await store.setBudget({ of: 'key', name: keyId, period: 'day', amount: 100n })
    expect(await hold('req_1', 100n)).toMatchObject({ held: true })
    expect(await hold('req_2', 1n)).toEqual({ held: false, reason: 'short', of: 'key', available: 0n, onHold: 100n })
    store.clock.ms += DAY_MS
    expect(await hold('req_3', 60n)).toMatchObject({ held: true })
    expect(await settle('req_1', 30n)).toBe('settled')
    expect(await settle('req_1', 30n)).toBe('already_settled')
    const day = { of: 'key', period: 'day', amount: 100 }
    expect(uses(store)).toEqual([
      { ...day, start: MIDNIGHT, held: 0, spent: 30 },
      { ...day, start: MIDNIGHT + DAY_MS, held: 60, spent: 0 },
    ])
    expect(await hold('req_4', 41n)).toMatchObject({ held: false, available: 40n, onHold: 60n })
    expect(store.reads.verify().violations).toEqual([])
  })

  test('the budget of a key for its life is its cap', async () => {
    const store = await openStore()
    const { keyId, hold } = await prepared(store)
    await store.setBudget({ of: 'key', name: keyId, period: 'life', amount: 70n })
    expect(store.reads.findKey(keyId)).toMatchObject({ spendingCap: 70n })
    expect(await hold('req_1', 71n)).toMatchObject({ held: false, of: 'key', available: 70n })
    expect(uses(store)).toEqual([])
  })

  test('what was held before a budget was made, or after it was removed, is not in it', async () => {
    const store = await openStore()
    const { accountId, hold, settle } = await prepared(store)
    const life: NewBudget = { of: 'account', name: accountId, period: 'life', amount: 100n }
    await hold('req_1', 90n)
    await store.setBudget(life)
    expect(await hold('req_2', 100n)).toMatchObject({ held: true })
    await settle('req_1', 50n)
    const row = { of: 'account', period: 'life', start: 0 }
    expect(uses(store)).toEqual([{ ...row, amount: 100, held: 100, spent: 0 }])
    // A lower amount takes nothing back; a higher one has room at once.
    await store.setBudget({ ...life, amount: 40n })
    expect(await hold('req_3', 1n)).toMatchObject({ held: false, available: -60n, onHold: 100n })
    await store.setBudget({ ...life, amount: 120n })
    expect(await hold('req_3', 20n)).toMatchObject({ held: true })
    expect(store.reads.verify().violations).toEqual([])
    await store.setBudget({ ...life, amount: null })
    await settle('req_2', 100n)
    await store.setBudget(life)
    await settle('req_3', 20n)
    expect(await hold('req_4', 100n)).toMatchObject({ held: true })
    expect(uses(store)).toEqual([{ ...row, amount: 100, held: 100, spent: 0 }])
    expect(store.reads.verify().violations).toEqual([])
  })

  test('a repeated hold is the same hold, also when it has used its budget up', async () => {
    const store = await openStore()
    const { accountId, hold } = await prepared(store)
    await store.setBudget({ of: 'account', name: accountId, period: 'month', amount: 100n })
    const answers = await Promise.all([hold('req_1', 100n), hold('req_1', 100n)])
    expect([...answers, await hold('req_1', 100n)]).toEqual(Array(3).fill({ held: true, available: 999_900n }))
    expect(uses(store)).toMatchObject([{ held: 100, spent: 0 }])
  })

  test('what is refused by the balance, the cap or one of two budgets is in none of them', async () => {
    const store = await openStore()
    const { accountId, keyId, hold } = await prepared(store)
    await store.setBudget({ of: 'account', name: accountId, period: 'day', amount: 10n ** 9n })
    await store.setBudget({ of: 'key', name: keyId, period: 'month', amount: 500n })
    expect(await hold('req_1', 10n ** 8n)).toMatchObject({ of: 'account', available: 1_000_000n })
    expect(await hold('req_2', 501n)).toMatchObject({ of: 'key', available: 500n })
    await store.setBudget({ of: 'key', name: keyId, period: 'life', amount: 300n })
    expect(await hold('req_3', 400n)).toMatchObject({ of: 'key', available: 300n })
    expect(store.reads.findAccount('alice')).toMatchObject({ held: 0n })
    expect(store.reads.verify().violations).toEqual([])
  })

  test('recovery gives back what a dead process held, and a late settle corrects it as far as the budget goes', async () => {
    const dead = await openStore()
    const { accountId, hold } = await prepared(dead)
    await dead.setBudget({ of: 'account', name: accountId, period: 'day', amount: 100n })
    await hold('req_1', 100n)
    await dead.ledger.checkpoint([{ exchange: 'req_1', amount: 10n, usage: { input: 1, output: 1 } }])
    const store = await afterDeath(dead)
    await store.recover()
    const day = { of: 'account', period: 'day', start: MIDNIGHT, amount: 100 }
    expect(uses(store)).toEqual([{ ...day, held: 0, spent: 10 }])
    store.clock.ms += HOUR_MS
    await store.ledger.hold(aHold({ accountId, exchange: 'req_2', amount: 70n }))
    expect(await store.ledger.settle(aSettle({ exchange: 'req_1', amount: 60n }))).toBe('corrected')
    expect(uses(store)).toEqual([{ ...day, held: 70, spent: 30 }])
    expect(store.reads.findReceipt('req_1')).toMatchObject({ charged: 30n, overrun: 30n })
    expect(store.reads.verify().violations).toEqual([])
  })

  test('an account or a key that is missing is an error', async () => {
    const store = await openStore()
    const budget = { period: 'day', amount: 1n } as const
    await expect(store.setBudget({ of: 'account', name: 'acc_none', ...budget })).rejects.toMatchObject({
      code: 'not_found',
    })
    await expect(store.setBudget({ of: 'key', name: 'key_none', ...budget })).rejects.toMatchObject({
      code: 'not_found',
    })
    await expect(store.setBudget({ of: 'model', name: 'm', ...budget, amount: -1n })).rejects.toMatchObject({
      code: 'invalid',
    })
  })

  test.each<[string, string]>([
    ['holds too little', 'UPDATE budget_use SET held = held - 1'],
    ['has spent too much', 'UPDATE budget_use SET spent = spent + 1'],
    ['may reach more than it says', 'UPDATE budget SET amount = amount + 1'],
    ['is missing', 'DELETE FROM budget_use'],
  ])('verify names a budget that %s', async (_what, sql) => {
    const store = await openStore()
    const { accountId, hold, settle } = await prepared(store)
    await store.setBudget({ of: 'account', name: accountId, period: 'day', amount: 100n })
    await hold('req_1', 20n)
    await hold('req_2', 50n)
    await settle('req_1', 10n)
    const database = store.connect()
    database.exec(sql)
    database.close()
    expect(store.reads.verify().violations).toEqual([
      expect.objectContaining({ invariant: 'I12', subject: expect.stringMatching(new RegExp(`^bud_.* ${MIDNIGHT}$`)) }),
    ])
  })
})

onPostgres(() => {
  test('a cap is exact while replicas of the version before write to the same database', async () => {
    const store = await openStore('thread')
    const { accountId, keyId, hold, settle } = await prepared(store)
    await store.setBudget({ of: 'key', name: keyId, period: 'life', amount: 1009n })
    const other = store.connect()
    // As that version asked: by these functions, without a fence, which is as it was.
    const write = other.prepare('SELECT * FROM write_many(CAST(? AS JSON), ?)')
    const ask = (lines: readonly object[]) => write.all(JSON.stringify(lines), store.clock.ms)
    const replica = Number(other.prepare('SELECT max(id) AS id FROM replica').get()?.['id'])
    other.exec(`SET tollgate.replica = '${replica}'`)
    const heldThere: string[] = []
    const heldHere: string[] = []
    for (let round = 0; round < 20; round++) {
      const here = Promise.all([hold(`req_${round}_a`, 50n), hold(`req_${round}_b`, 50n)])
      const id = `req_${round}_c`
      const record = holdRecord(aHold({ accountId, keyId, exchange: id, amount: 50n }))
      const fields = HOLD_FIELDS.map(({ column }, at) => [column === 'id' ? 'exchange' : column, record[at]])
      const line = {
        what: 0,
        ...Object.fromEntries(fields.map(([name, value]) => [name, value === null ? null : `${value}`])),
      }
      if (ask([line])[0]?.['refusal'] === null) heldThere.push(id)
      for (const [index, { held }] of (await here).entries()) if (held) heldHere.push(`req_${round}_${'ab'[index]}`)
      // Each settles what the other one holds.
      if (round === 5) await settle(heldThere.pop()!, 10n)
      if (round === 7) {
        const counts = {
          prompt_tokens: 1,
          cached_tokens: 0,
          cache_write_tokens: 0,
          completion_tokens: 1,
          reasoning_tokens: 0,
        }
        const ended = { exchange: heldHere.pop(), amount: 10, overrun: 0, source: 'reported', outcome: 'answered' }
        expect(ask([{ what: 1, ...ended, ...counts, attempts: '[]', trail: '[]' }])).toHaveLength(1)
        other.exec(`INSERT INTO usage SELECT account, grain, ${store.clock.ms} - ${store.clock.ms} % step, key, 'chat-small', 1, 0, 1, 0, 1, 0, 10
          FROM (VALUES ('${accountId}', '${keyId}'), ('', '')) AS whose (account, key), (VALUES (0, 3600000), (1, 86400000)) AS grains (grain, step)
          ON CONFLICT (account, grain, at, key, model) DO UPDATE SET requests = usage.requests + 1, prompt_tokens = usage.prompt_tokens + 1,
          completion_tokens = usage.completion_tokens + 1, charged = usage.charged + 10`)
      }
    }
    other.close()
    expect(heldHere.length + heldThere.length).toBe(19)
    expect(store.reads.findKey(keyId)).toMatchObject({ spent: 20n })
    expect(store.reads.findAccount('alice')).toMatchObject({ held: 950n })
    expect(store.reads.verify().violations).toEqual([])
  })
})
