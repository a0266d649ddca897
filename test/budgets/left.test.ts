/** The remaining amounts of budgets, from rows of real holds. */
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { type Budget, formatMoney, parseMoney } from '#contract'
import { chainOf, ofOwners, type Spender } from '../../src/budgets/budget-chain.ts'
import {
  type BudgetLeft,
  type BudgetRules,
  leftOfOwned,
  leftOfRows,
  ownedBudgets,
  periodsOf,
} from '../../src/budgets/left.ts'
import { openStore } from '../../src/store/engine/sqlite.ts'
import type { LocalStore } from '../../src/store/local-store.ts'
import { budgetUses } from '../helpers/budget-uses.ts'
import { aHold, aSettle, SECRET, testClock } from '../store/helpers.ts'

const NOW = Date.UTC(2026, 10, 21, 10)
const HOUR_MS = 3_600_000
const PLAN: readonly Budget[] = [
  { per: 'account', amount: parseMoney('30'), every: 'week' },
  { per: 'key', amount: parseMoney('4'), every: 'day', name: 'a day of a key' },
  { per: 'caller', amount: parseMoney('3'), every: 'hour' },
  { per: 'tag customer', amount: parseMoney('2'), every: 'day', zone: 'Europe/Berlin' },
]
const OF_POLICY: readonly Budget[] = [{ per: 'account', amount: parseMoney('9'), every: 'day', name: 'images' }]

const clock = testClock(NOW)
let store: LocalStore
let account: string
let app: string
let job: string
let holds = 0

beforeEach(async () => {
  clock.ms = NOW
  store = await openStore({ url: 'memory', secret: SECRET, clock })
  account = (await store.createAccount({ name: 'acme', plan: 'pro' })).id
  await store.credit({ account, amount: parseMoney('1000'), reference: 'first', actor: 'test' })
  app = (await store.createKey({ account, name: 'app' })).key.id
  job = (await store.createKey({ account, name: 'job' })).key.id
})
afterEach(() => store.close())

const setBudget = (of: 'account' | 'key', name: string, every: Budget['every'], amount: string, zone?: string) =>
  store.setBudget({ of, name, every, budget: { amount: parseMoney(amount), ...(zone && { zone }) } })

interface Spending {
  readonly key?: string
  readonly amount: string
  /** Left out: it stays held. */
  readonly charged?: string
  readonly tags?: Readonly<Record<string, string>>
  readonly plan?: readonly Budget[]
}

/** One request, held in all of its budgets. */
async function spend({ key = app, amount, charged, tags, plan = PLAN }: Spending): Promise<void> {
  const spender: Spender = { account: store.reads.findAccount(account)!, key: store.reads.findKey(key)!, tags }
  const budgets = [
    ...ofOwners(spender, clock.ms),
    ...chainOf(plan, 'plan pro', spender, clock.ms),
    ...chainOf(OF_POLICY, 'policy standard/credits', spender, clock.ms),
  ].map(({ rule: _, whose: __, ...budget }) => budget)
  const exchange = `req_${++holds}`
  const hold = aHold({ exchange, accountId: account, keyId: key, amount: parseMoney(amount), budgets })
  expect(await store.ledger.hold(hold)).toMatchObject({ held: true })
  if (charged !== undefined) await store.ledger.settle(aSettle({ exchange, amount: parseMoney(charged) }))
}

const rulesOf = (plan: readonly Budget[]): BudgetRules =>
  new Map([
    ['plan pro', plan],
    ['policy standard/credits', OF_POLICY],
  ])

/** All pages in one. */
function budgetsLeft(
  rules: BudgetRules | null = rulesOf(PLAN),
  keys = store.reads.listKeys(account),
): readonly BudgetLeft[] {
  const owned = ownedBudgets({ account: store.reads.findAccount(account)!, keys, rules }, clock.ms)
  const uses = store.reads.findBudgetUses(account, periodsOf(owned))
  return [
    ...leftOfOwned(owned, uses),
    ...leftOfRows(budgetUses(store.reads, account, clock.ms), owned, rules, clock.ms),
  ]
}
const NO_PLAN = rulesOf([])
const shown = (budgets: readonly BudgetLeft[]) =>
  budgets.map(({ place, name, key, value, left }) => [place, name, key?.name ?? value, formatMoney(left).slice(0, -8)])

describe('the list', () => {
  test('without budgets it is empty', () => {
    expect(budgetsLeft(NO_PLAN)).toEqual([])
  })

  test('has unused budgets, and no values of tags', async () => {
    await setBudget('account', account, 'month', '100', 'Europe/Berlin')
    await setBudget('key', app, 'life', '5')
    expect(shown(budgetsLeft())).toEqual([
      ['account', 'account month', null, '100.0'],
      ['plan pro', 'account week', null, '30.0'],
      ['key', 'key life', 'app', '5.0'],
      ['plan pro', 'a day of a key', 'app', '4.0'],
      ['plan pro', 'caller hour', 'app', '3.0'],
      ['plan pro', 'a day of a key', 'job', '4.0'],
      ['plan pro', 'caller hour', 'job', '3.0'],
    ])
    const [month, , life] = budgetsLeft()
    expect(month).toMatchObject({
      per: 'account',
      zone: 'Europe/Berlin',
      start: Date.UTC(2026, 9, 31, 23),
      end: Date.UTC(2026, 10, 30, 23),
      marks: [80, 100],
      then: 'refuse',
    })
    expect(life).toMatchObject({ key: { id: app, name: 'app' }, zone: 'UTC', start: 0, end: null })
  })

  test('counts spent and held amounts, and has the rows of callers, tags and policies', async () => {
    await setBudget('account', account, 'month', '100')
    await spend({ amount: '1.5', charged: '0.5', tags: { customer: 'a/b' } })
    await spend({ key: job, amount: '1' })
    const left = budgetsLeft()
    expect(shown(left)).toEqual([
      ['account', 'account month', null, '98.5'],
      ['plan pro', 'account week', null, '28.5'],
      ['policy standard/credits', 'images', null, '7.5'],
      ['plan pro', 'a day of a key', 'app', '3.5'],
      ['plan pro', 'caller hour', 'app', '2.5'],
      ['plan pro', 'a day of a key', 'job', '3.0'],
      ['plan pro', 'caller hour', 'job', '2.0'],
      ['plan pro', 'tag customer day', '', '1.0'],
      ['plan pro', 'tag customer day', 'a/b', '1.5'],
    ])
    expect(left[0]).toMatchObject({ spent: parseMoney('0.5'), held: parseMoney('1') })
    expect(left[2]).toMatchObject({ per: 'account', zone: 'UTC', marks: [80, 100], then: 'refuse', every: 'day' })
  })

  test('is never below 0, and has the current limit', async () => {
    await setBudget('account', account, 'month', '100')
    await spend({ amount: '1', charged: '1' })
    await setBudget('account', account, 'month', '0.25')
    const quarter = parseMoney('0.25')
    expect(budgetsLeft(NO_PLAN)[0]).toMatchObject({ amount: quarter, spent: parseMoney('1'), left: 0n })
  })

  const TAG = 'plan pro, tag customer day'
  const removed = () => store.setBudget({ of: 'account', name: account, every: 'day', budget: null })
  test.each<[what: string, change: () => unknown, plan: readonly Budget[], row: string]>([
    ['a budget that was removed', () => removed(), PLAN, 'account, account day'],
    ['a budget that was removed from the plan', () => {}, PLAN.slice(0, 3), TAG],
    ['a former zone of the budget', () => {}, [{ ...PLAN[3]!, zone: 'UTC' }], TAG],
  ])('has no row of %s', async (_, change, plan, row) => {
    await setBudget('account', account, 'day', '100')
    await spend({ amount: '1', charged: '1', tags: { customer: 'x' } })
    const rows = (of: readonly Budget[]) => budgetsLeft(rulesOf(of)).map(({ place, name }) => `${place}, ${name}`)
    expect(rows(PLAN)).toContain(row)
    await change()
    expect(rows(plan)).not.toContain(row)
  })

  test('has the used budgets of another plan, which a token may name', async () => {
    await spend({ amount: '1', charged: '1', tags: { customer: 'x' } })
    await store.setPlan(account, 'free')
    expect(shown(budgetsLeft(rulesOf(PLAN)))).toEqual([
      ['plan pro', 'account week', null, '29.0'],
      ['policy standard/credits', 'images', null, '8.0'],
      ['plan pro', 'a day of a key', 'app', '3.0'],
      ['plan pro', 'caller hour', 'app', '2.0'],
      ['plan pro', 'tag customer day', 'x', '1.0'],
    ])
  })

  test('without a gateway has the rows of plans and policies from the ledger', async () => {
    await setBudget('account', account, 'month', '100')
    await spend({ amount: '1', charged: '1', tags: { customer: 'x' } })
    const left = budgetsLeft(null)
    expect(left.map(({ place, value, per }) => [place, value, per])).toEqual([
      ['account', null, 'account'],
      ['plan pro', app, null],
      ['plan pro', null, null],
      ['plan pro', app, null],
      ['plan pro', 'x', null],
      ['policy standard/credits', null, null],
    ])
    expect(left.at(-1)).toMatchObject({ zone: null, marks: null, then: null, left: parseMoney('8') })
  })

  test('in the next period the whole amount is available again', async () => {
    await setBudget('account', account, 'hour', '7')
    await spend({ amount: '1', charged: '1' })
    clock.ms += HOUR_MS
    expect(shown(budgetsLeft(NO_PLAN))[0]).toEqual(['account', 'account hour', null, '7.0'])
  })

  test('of a revoked key only its used budgets', async () => {
    await setBudget('key', app, 'week', '7')
    await setBudget('key', job, 'week', '7')
    await spend({ amount: '1', charged: '1', plan: [] })
    await store.revokeKey(app)
    await store.revokeKey(job)
    const ofKeys = budgetsLeft(NO_PLAN).filter(({ key }) => key !== null)
    expect(shown(ofKeys)).toEqual([['key', 'key week', 'app', '6.0']])
  })
})

test('a key sees its own budgets and those of its account, but neither other keys nor values of tags', async () => {
  await setBudget('account', account, 'month', '100')
  await setBudget('key', app, 'week', '7')
  await setBudget('key', job, 'week', '6')
  await spend({ amount: '1', charged: '1', tags: { customer: 'secret' } })
  await spend({ key: job, amount: '1', charged: '1' })
  const rules = rulesOf(PLAN)
  const owned = ownedBudgets(
    { account: store.reads.findAccount(account)!, keys: [store.reads.findKey(app)!], rules },
    clock.ms,
  )
  const uses = store.reads.findBudgetUses(account, periodsOf(owned))
  expect(shown(leftOfOwned(owned, uses))).toEqual([
    ['account', 'account month', null, '98.0'],
    ['plan pro', 'account week', null, '28.0'],
    ['policy standard/credits', 'images', null, '7.0'],
    ['key', 'key week', 'app', '6.0'],
    ['plan pro', 'a day of a key', 'app', '3.0'],
    ['plan pro', 'caller hour', 'app', '2.0'],
  ])
})
