/** Budgets in the ledger: limits on spending in a period. */
import { describe, expect, test } from 'vitest'
import type { HoldBudget } from '#contract'
import { createBudgetUseReader } from '../../src/store/money/budget-uses.ts'
import { HOLD_FIELDS, holdRecord } from '../../src/store/money/ledger-fields.ts'
import { budgetUses } from '../helpers/budget-uses.ts'
import { afterDeath, aHold, aSettle, fund, onEveryEngine, onPostgres, type TestStore, testStore } from './helpers.ts'

const DAY_MS = 86_400_000
const HOUR_MS = 3_600_000
const MIDNIGHT = Date.UTC(2026, 1, 28)

/** A budget of a day unless overridden. */
function budget(name: string, amount: bigint, more: Partial<HoldBudget> = {}): HoldBudget {
  return { budget: name, start: MIDNIGHT, end: MIDNIGHT + DAY_MS, amount, marks: [80, 100], ...more }
}

async function prepared(store: TestStore) {
  const accountId = await fund(store, 1_000_000n)
  const { key } = await store.createKey({ account: accountId, name: 'app' })
  const hold = (exchange: string, amount: bigint, ...budgets: readonly HoldBudget[]) =>
    store.ledger.hold(aHold({ accountId, keyId: key.id, exchange, amount, budgets }))
  const settle = (exchange: string, amount: bigint) => store.ledger.settle(aSettle({ exchange, amount }))
  return { accountId, keyId: key.id, hold, settle }
}

/** The rows without their account. */
function uses(store: TestStore): unknown[] {
  return rowsOf(
    store,
    'SELECT budget, period_start AS start, amount, held, spent, marked FROM budget_period ORDER BY 1, 2',
  )
}

/** The marks that caused an alert, in order of time. */
function alerts(store: TestStore): unknown[] {
  const rows = rowsOf(store, "SELECT id, at, data FROM alert WHERE kind = 'budget' ORDER BY at, id")
  return rows.map(({ data }) => {
    const { budget, mark, spent } = typeof data === 'string' ? JSON.parse(data) : (data as never)
    return `${budget} ${mark}% ${spent}`
  })
}

function rowsOf(store: TestStore, sql: string) {
  const database = store.connect({ readOnly: true })
  const found = database
    .prepare(sql)
    .all()
    .map(row => ({ ...row }))
  database.close()
  return found
}

const openStore = async (writes: 'here' | 'thread' = 'here') => {
  const store = await testStore({ writes })
  store.clock.ms = MIDNIGHT + HOUR_MS
  return store
}

onEveryEngine(() => {
  describe.each(['here', 'thread'] as const)('written by: %s', writes => {
    test('concurrent holds never exceed a budget, and refused ones do not change the others', async () => {
      const store = await openStore(writes)
      const { hold } = await prepared(store)
      const chain = [budget('team', 420n), budget("it's 50% / ü", 250n)]
      const results = await Promise.all(
        Array.from({ length: 20 }, (_, index) => hold(`req_${10 + index}`, 50n, ...chain)),
      )
      expect(results.filter(({ held }) => held)).toHaveLength(5)
      const short = { held: false, reason: 'short', of: 'budget', budget: 1, available: 0n, onHold: 250n }
      expect(results.at(-1)).toEqual(short)
      expect(uses(store)).toEqual([
        { budget: "it's 50% / ü", start: MIDNIGHT, amount: 250, held: 250, spent: 0, marked: 0 },
        { budget: 'team', start: MIDNIGHT, amount: 420, held: 250, spent: 0, marked: 0 },
      ])
      expect(store.reads.findAccount('alice')).toMatchObject({ held: 250n })
      expect(store.reads.verify().violations).toEqual([])
    })
  })

  test('a settle gives the rest back to the period in which its hold began', async () => {
    const store = await openStore()
    const { hold, settle } = await prepared(store)
    const today = budget('app', 100n, { marks: [] })
    const tomorrow = { ...today, start: MIDNIGHT + DAY_MS, end: MIDNIGHT + 2 * DAY_MS }
    expect(await hold('req_1', 100n, today)).toMatchObject({ held: true })
    expect(await hold('req_2', 1n, today)).toMatchObject({ of: 'budget', budget: 0, available: 0n, onHold: 100n })
    store.clock.ms += DAY_MS
    expect(await hold('req_3', 60n, tomorrow)).toMatchObject({ held: true })
    expect(await settle('req_1', 30n)).toBe('settled')
    expect(await settle('req_1', 30n)).toBe('already_settled')
    const row = { budget: 'app', amount: 100, marked: 0 }
    expect(uses(store)).toEqual([
      { ...row, start: MIDNIGHT, held: 0, spent: 30 },
      { ...row, start: MIDNIGHT + DAY_MS, held: 60, spent: 0 },
    ])
    expect(await hold('req_4', 41n, tomorrow)).toMatchObject({ held: false, available: 40n, onHold: 60n })
    expect(store.reads.verify().violations).toEqual([])
    const account = store.reads.findAccount('alice')!.id
    expect(budgetUses(store.reads, account, MIDNIGHT + DAY_MS - 1)).toEqual([
      { budget: 'app', start: MIDNIGHT, end: MIDNIGHT + DAY_MS, amount: 100n, held: 0n, spent: 30n },
    ])
  })

  test('current periods are found without ended ones', async () => {
    const store = await openStore()
    const { accountId, hold } = await prepared(store)
    await hold('req_1', 1n, budget('b', 100n), budget('b', 100n, { start: 0, end: null }), budget('a', 100n))
    const now = [
      ['a', MIDNIGHT],
      ['b', 0],
      ['b', MIDNIGHT],
    ]
    const found = () => budgetUses(store.reads, accountId, store.clock.ms).map(use => [use.budget, use.start])
    expect(found()).toEqual(now)
    const database = store.connect()
    const put = database.prepare(`
      INSERT INTO budget_period (account, budget, period_start, period_end, amount) VALUES (?, 'a', ?, ?, 0)`)
    database.exec('BEGIN')
    for (let hour = 1; hour <= 5_000; hour++) {
      put.run(accountId, MIDNIGHT - hour * HOUR_MS, MIDNIGHT - (hour - 1) * HOUR_MS)
    }
    put.run(accountId, MIDNIGHT + DAY_MS, MIDNIGHT + 2 * DAY_MS)
    database.exec('COMMIT')
    expect(found()).toEqual(now)
    let sql = ''
    const noted = (text: string) => database.prepareMoney((sql = text))
    createBudgetUseReader({ ...database, prepareMoney: noted })
    if (database.dialect.engine === 'sqlite') {
      const plan = database.prepare(`EXPLAIN QUERY PLAN ${sql}`).all()
      expect(plan.map(({ detail }) => detail)).toEqual([expect.stringContaining('USING INDEX budget_period_by_end')])
    }
    database.close()
  })

  test('pages continue where the last one ended, over periods with the same end and budgets for life', async () => {
    const store = await openStore()
    const { accountId, hold } = await prepared(store)
    const life = Array.from({ length: 7 }, (_, i) => budget(`s${i}`, 100n, { start: 0, end: null }))
    const days = Array.from({ length: 5 }, (_, i) => budget(`d${i}`, 100n))
    await hold('req_1', 1n, ...life, ...days, budget('h', 100n, { end: MIDNIGHT + 2 * HOUR_MS }))
    const names = ['h', ...days.map(each => each.budget), ...life.map(each => each.budget)]
    for (const limit of [1, 2, 3, 6, 12, 13, 50]) {
      const pages: string[][] = []
      for (let after: string | null | undefined; after !== null; ) {
        const page = store.reads.listBudgetUses(accountId, store.clock.ms, { limit, after })
        pages.push(page.items.map(use => use.budget))
        after = page.next
      }
      expect(pages.flat()).toEqual(names)
      expect(pages.length).toBe(Math.ceil(names.length / limit))
    }
    const places = [...days.slice(2), { budget: 's3', start: 0 }, { budget: 's3', start: 1 }, { budget: 'x', start: 0 }]
    const found = store.reads.findBudgetUses(accountId, places).map(use => use.budget)
    expect(found.sort()).toEqual(['d2', 'd3', 'd4', 's3'])
  })

  test.each([
    ['no cursor', 'x'],
    ['another list', [1, 'x']],
    ['a part of a number', [1.5, 'x', 0]],
    ['a text', ['1', 'x', 0]],
  ])('a cursor with %s is refused', async (_, cursor) => {
    const store = await openStore()
    const { accountId } = await prepared(store)
    const after = Buffer.from(JSON.stringify(cursor)).toString('base64url')
    const page = () => store.reads.listBudgetUses(accountId, store.clock.ms, { limit: 1, after })
    expect(page).toThrow('Use `next` of a page unchanged')
  })

  test('a changed limit applies to the next hold', async () => {
    const store = await openStore()
    const { hold, settle } = await prepared(store)
    const life = (amount: bigint) => budget('life', amount, { start: 0, end: null })
    await hold('req_1', 90n)
    expect(await hold('req_2', 100n, life(100n))).toMatchObject({ held: true })
    await settle('req_1', 50n)
    // A lower amount takes nothing back; a higher one has room at once.
    expect(await hold('req_3', 1n, life(40n))).toMatchObject({ held: false, available: -60n, onHold: 100n })
    expect(await hold('req_3', 20n, life(120n))).toMatchObject({ held: true })
    expect(uses(store)).toEqual([{ budget: 'life', start: 0, amount: 120, held: 120, spent: 0, marked: 0 }])
    await settle('req_2', 60n)
    await settle('req_3', 0n)
    expect(await hold('req_4', 40n, life(100n))).toMatchObject({ held: true })
    expect(uses(store)).toMatchObject([{ amount: 100, held: 40, spent: 60 }])
    expect(store.reads.verify().violations).toEqual([])
  })

  test('a repeated hold returns the same result, even if it has used up its budget', async () => {
    const store = await openStore()
    const { hold } = await prepared(store)
    const chain = [budget('app', 100n)]
    const answers = await Promise.all([hold('req_1', 100n, ...chain), hold('req_1', 100n, ...chain)])
    const again = await hold('req_1', 100n, ...chain)
    expect([...answers, again]).toEqual(Array(3).fill({ held: true, available: 999_900n }))
    expect(uses(store)).toMatchObject([{ held: 100, spent: 0 }])
  })

  test('a hold that the balance, the cap or one of two budgets refuses is in none of them', async () => {
    const store = await openStore()
    const { keyId, hold } = await prepared(store)
    const chain = [budget('account', 10n ** 9n), budget('key', 500n)]
    expect(await hold('req_1', 10n ** 8n, ...chain)).toMatchObject({ of: 'account', available: 1_000_000n })
    expect(await hold('req_2', 501n, ...chain)).toMatchObject({ of: 'budget', budget: 1, available: 500n })
    await store.changeKey({ id: keyId, spendingCap: 300n })
    expect(await hold('req_3', 400n, ...chain)).toMatchObject({ of: 'key', available: 300n })
    expect(uses(store)).toEqual([])
    expect(store.reads.findAccount('alice')).toMatchObject({ held: 0n })
    expect(store.reads.verify().violations).toEqual([])
  })

  test('recovery releases the holds of a dead process, and a late settle corrects them as far as the budget allows', async () => {
    const dead = await openStore()
    const { accountId, hold } = await prepared(dead)
    const day = budget('day', 100n)
    await hold('req_1', 100n, day)
    await dead.ledger.checkpoint([{ exchange: 'req_1', amount: 10n, usage: { input: 1, output: 1 } }])
    const store = await afterDeath(dead)
    await store.recover()
    const row = { budget: 'day', start: MIDNIGHT, amount: 100 }
    expect(uses(store)).toEqual([{ ...row, held: 0, spent: 10, marked: 0 }])
    store.clock.ms += HOUR_MS
    await store.ledger.hold(aHold({ accountId, exchange: 'req_2', amount: 70n, budgets: [day] }))
    expect(await store.ledger.settle(aSettle({ exchange: 'req_1', amount: 60n }))).toBe('corrected')
    expect(uses(store)).toEqual([{ ...row, held: 70, spent: 30, marked: 0 }])
    expect(store.reads.findReceipt('req_1')).toMatchObject({ charged: 30n, overrun: 30n })
    expect(store.reads.verify().violations).toEqual([])
  })

  describe('alerts', () => {
    test('each mark causes one, in the transaction of the charge that reaches the mark', async () => {
      const store = await openStore()
      const { hold, settle } = await prepared(store)
      const chain = [budget('a', 100n, { marks: [50, 80, 100] }), budget('b', 1000n, { marks: [10] })]
      const spend = async (exchange: string, amount: bigint) => {
        store.clock.ms++
        await hold(exchange, amount, ...chain)
        await settle(exchange, amount)
      }
      await spend('req_1', 49n)
      expect(alerts(store)).toEqual([])
      await spend('req_2', 1n)
      expect(alerts(store)).toEqual(['a 50% 50'])
      await spend('req_3', 1n)
      await spend('req_4', 49n)
      expect(alerts(store)).toEqual(['a 50% 50', 'a 100% 100', 'a 80% 100', 'b 10% 100'])
      // The next period has alerts of its own.
      const next = { start: MIDNIGHT + DAY_MS, end: MIDNIGHT + 2 * DAY_MS, marks: [50] }
      await hold('req_5', 60n, budget('a', 100n, next))
      await settle('req_5', 60n)
      expect(alerts(store)).toHaveLength(5)
    })

    test('a hold that exceeds the budget even without other holds reaches the mark of 100 %, if 80 % are spent', async () => {
      const store = await openStore()
      const { hold, settle } = await prepared(store)
      const day = budget('day', 100n, { marks: [80, 90, 100] })
      await hold('req_1', 79n, day)
      await settle('req_1', 79n)
      // One large request does not show that the budget is used up, and must not suppress a later alert.
      expect(await hold('req_2', 90n, day)).toMatchObject({ held: false })
      expect(alerts(store)).toEqual([])
      store.clock.ms++
      await hold('req_3', 1n, day)
      await settle('req_3', 1n)
      expect(alerts(store)).toEqual(['day 80% 80'])
      await hold('req_4', 5n, day)
      expect(await hold('req_5', 20n, day)).toMatchObject({ held: false, onHold: 5n })
      expect(alerts(store)).toEqual(['day 80% 80'])
      store.clock.ms++
      const refused = [await hold('req_6', 21n, day), await hold('req_7', 21n, day)]
      expect(refused.map(({ held }) => held)).toEqual([false, false])
      expect(alerts(store)).toEqual(['day 80% 80', 'day 100% 80'])
      expect(store.reads.verify().violations).toEqual([])
    })

    test('a repeated hold reaches no mark', async () => {
      const store = await openStore()
      const { hold, settle } = await prepared(store)
      await hold('req_1', 50n, budget('day', 200n))
      await settle('req_1', 50n)
      await hold('req_2', 50n, budget('day', 100n))
      expect(await hold('req_2', 50n, budget('day', 90n))).toMatchObject({ held: true })
      expect(alerts(store)).toEqual([])
    })

    test('a limit that is lowered and then restored causes its own alerts', async () => {
      const store = await openStore()
      const { hold, settle } = await prepared(store)
      await hold('req_1', 50n, budget('day', 100n))
      await settle('req_1', 50n)
      expect(await hold('req_2', 10n, budget('day', 40n))).toMatchObject({ held: false })
      expect(await hold('req_3', 10n, budget('day', 40n))).toMatchObject({ held: false })
      expect(alerts(store)).toEqual(['day 100% 50'])
      store.clock.ms++
      await hold('req_4', 30n, budget('day', 100n))
      await settle('req_4', 30n)
      expect(alerts(store)).toEqual(['day 100% 50', 'day 80% 80'])
    })

    test('an alert names the limit that was compared, which may be newer than the hold', async () => {
      const store = await openStore()
      const { hold, settle } = await prepared(store)
      await hold('req_1', 90n, budget('day', 100n))
      await hold('req_2', 80n, budget('day', 200n))
      await settle('req_2', 80n)
      await settle('req_1', 90n)
      expect(alerts(store)).toEqual(['day 80% 170'])
      const [row] = rowsOf(store, 'SELECT id FROM alert')
      expect(row!['id']).toMatch(/ 80 200$/)
    })

    test('a raised limit causes alerts at its marks again', async () => {
      const store = await openStore()
      const { hold, settle } = await prepared(store)
      const spend = async (exchange: string, amount: bigint, limit: bigint) => {
        store.clock.ms++
        await hold(exchange, amount, budget('day', limit, { marks: [80] }))
        await settle(exchange, amount)
      }
      await spend('req_1', 80n, 100n)
      await spend('req_2', 10n, 200n)
      expect(alerts(store)).toEqual(['day 80% 80'])
      await spend('req_3', 70n, 200n)
      expect(alerts(store)).toEqual(['day 80% 80', 'day 80% 160'])
      await spend('req_4', 1n, 200n)
      expect(alerts(store)).toHaveLength(2)
    })
  })

  describe('the budgets of an account and of a key', () => {
    test('are returned with the key, from the next request on', async () => {
      const store = await openStore()
      const { accountId } = await prepared(store)
      const { key, token } = await store.createKey({ account: accountId, name: 'second' })
      const find = async () => {
        const found = await store.keys.find(token, store.clock.ms)
        return found.found === 'live' ? [found.account.budgets, found.key.budgets] : found
      }
      expect(await find()).toEqual([undefined, undefined])
      const month = { amount: 100n, zone: 'Europe/Berlin', at: ['50%'], then: 'small' }
      await store.setBudget({ of: 'account', name: 'alice', every: 'month', budget: month })
      await store.setBudget({ of: 'account', name: accountId, every: 'day', budget: { amount: 10n } })
      await store.setBudget({ of: 'key', name: key.id, every: 'life', budget: { amount: 5n } })
      const ofAccount = [
        { per: 'account', every: 'day', amount: 10n },
        { per: 'account', every: 'month', ...month },
      ]
      expect(await find()).toEqual([ofAccount, [{ per: 'key', every: 'life', amount: 5n }]])
      expect(await store.accounts.find('alice')).toMatchObject({ budgets: ofAccount })
      await store.setBudget({ of: 'account', name: accountId, every: 'month', budget: { amount: 7n } })
      await store.setBudget({ of: 'account', name: accountId, every: 'day', budget: null })
      await store.setBudget({ of: 'key', name: key.id, every: 'life', budget: null })
      expect(await find()).toEqual([[{ per: 'account', every: 'month', amount: 7n }], undefined])
    })

    test.each([
      ['an account that is missing', { of: 'account', name: 'acc_none' }, {}, 'not_found'],
      ['a key that is missing', { of: 'key', name: 'key_none' }, {}, 'not_found'],
      ['an amount below 0', {}, { amount: -1n }, 'invalid'],
      ['an unknown zone', {}, { zone: 'Europe/Atlantis' }, 'invalid'],
      ['a mark of 0 %', {}, { at: ['0%'] }, 'invalid'],
      ['a mark beyond 100 %', {}, { at: ['101%'] }, 'invalid'],
      ['a mark twice', {}, { at: ['80%', '80%'] }, 'invalid'],
      ['an unknown period', { every: 'year' }, {}, 'invalid'],
    ] as const)('%s is an error', async (_what, subject, more, code) => {
      const store = await openStore()
      await prepared(store)
      const change = { of: 'account', name: 'alice', every: 'day', ...subject, budget: { amount: 1n, ...more } }
      await expect(store.setBudget(change as never)).rejects.toMatchObject({ code })
    })
  })

  test.each<[string, string]>([
    ['holds too little', 'UPDATE budget_period SET held = held - 1'],
    ['has spent too much', 'UPDATE budget_period SET spent = spent + 1'],
    ['is of another period', 'UPDATE budget_period SET period_start = period_start + 1'],
    ['is missing', 'DELETE FROM budget_period'],
  ])('verify reports a budget that %s', async (_what, sql) => {
    const store = await openStore()
    const { accountId, hold, settle } = await prepared(store)
    const day = budget('day', 100n)
    await hold('req_1', 20n, day)
    await hold('req_2', 50n, day)
    await settle('req_1', 10n)
    const database = store.connect()
    database.exec(sql)
    database.close()
    const { violations } = store.reads.verify()
    expect(violations).toContainEqual(
      expect.objectContaining({
        invariant: 'I12',
        subject: expect.stringMatching(
          new RegExp(`^${accountId} ${MIDNIGHT}1? day$|^${accountId} ${MIDNIGHT + 1} day$`),
        ),
      }),
    )
  })
})

onPostgres(() => {
  test('a cap is exact while replicas of the previous version write to the same database', async () => {
    const store = await openStore('thread')
    const { accountId, keyId, hold, settle } = await prepared(store)
    await store.changeKey({ id: keyId, spendingCap: 1009n })
    const other = store.connect()
    // The previous version writes with the same SQL functions, but without a fence.
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
      // Each version settles a hold of the other one.
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
