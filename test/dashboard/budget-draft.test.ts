/** Budgets on the page: their sentences, and the request made from the fields of the form. */
import { describe, expect, test } from 'vitest'
import type { BudgetView } from '../../src/api/views.ts'
import {
  type BudgetDraft,
  budgetOf,
  draftOf,
  limitOf,
  periodOf,
  resetOf,
  sourceOf,
  usedOf,
} from '../../src/dashboard/lib/budget-draft.ts'

const DRAFT: BudgetDraft = { every: 'month', amount: '25', zone: 'UTC', at: '80%, 100%', then: 'refuse' }
const BUDGET: BudgetView = {
  place: 'key',
  name: 'key month',
  per: 'key',
  key_id: 'key_1',
  key: 'app',
  value: null,
  every: 'month',
  zone: 'Europe/Berlin',
  amount: '1250.000000001',
  spent: '0.100000001',
  held: '0.200000002',
  left: '1249.699999998',
  start: '2026-10-31T23:00:00.000Z',
  resets_at: '2026-11-30T23:00:00.000Z',
  at: ['50%', '90%'],
  then: 'small',
}

describe('the fields of a budget', () => {
  test.each<[change: Partial<BudgetDraft>, field: keyof BudgetDraft]>([
    [{ amount: '' }, 'amount'],
    [{ amount: 'much' }, 'amount'],
    [{ amount: '-5' }, 'amount'],
    [{ amount: '0.00' }, 'amount'],
    [{ zone: '' }, 'zone'],
    [{ zone: 'Mars/Base' }, 'zone'],
    [{ at: '0%' }, 'at'],
    [{ at: '80%, 101%' }, 'at'],
    [{ at: 'half' }, 'at'],
  ])('%j is refused', (change, field) => {
    const { body, wrong = {} } = budgetOf({ ...DRAFT, ...change })
    expect(body).toBeUndefined()
    expect(Object.keys(wrong)).toEqual([field])
  })

  test.each<[change: Partial<BudgetDraft>, body: object]>([
    [{}, { amount: '25.000000000', zone: 'UTC', at: ['80%', '100%'], then: 'refuse' }],
    [{ amount: '$1,250.000000001' }, { amount: '1250.000000001' }],
    [{ zone: ' Europe/Berlin ' }, { zone: 'Europe/Berlin' }],
    [{ at: '' }, { at: [] }],
    [{ at: '50, 90 %, 50%' }, { at: ['50%', '90%'] }],
    [{ then: 'small' }, { then: 'small' }],
  ])('%j is sent', (change, body) => {
    expect(budgetOf({ ...DRAFT, ...change }).body).toMatchObject(body)
  })
})

test('a form begins with the existing budget, or with a free period', () => {
  const draft = { every: 'month', amount: '1,250.000000001', zone: 'Europe/Berlin', at: '50%, 90%', then: 'small' }
  expect(draftOf(BUDGET, [])).toEqual(draft)
  expect(budgetOf(draft).body).toMatchObject({ amount: BUDGET.amount, at: BUDGET.at })
  expect(draftOf(undefined, ['hour', 'month'])).toMatchObject({ every: 'month', amount: '', zone: 'UTC' })
  expect(draftOf(undefined, ['hour', 'life'])).toMatchObject({ every: 'hour' })
})

test('a budget in words, with exact money, and its reset in its own zone', () => {
  expect(limitOf(BUDGET)).toBe('$1,250.000000001 a month')
  expect(periodOf(BUDGET)).toBe('Month')
  expect(usedOf(BUDGET)).toBe('0.300000003')
  expect(resetOf(BUDGET)).toBe('1 Dec 2026, 00:00 Europe/Berlin')
  expect(resetOf({ ...BUDGET, zone: null })).toBe('30 Nov 2026, 23:00 UTC')
  expect(resetOf({ ...BUDGET, resets_at: null })).toBe('Never')
})

test.each<[change: Partial<BudgetView>, words: string]>([
  [{}, 'set for the key app'],
  [{ place: 'account', key: null }, 'set for the account'],
  [{ place: 'plan pro plus' }, 'of the plan pro plus, for app'],
  [{ place: 'plan pro', key: null }, 'of the plan pro'],
  [{ place: 'policy standard/credits', key: null, value: 'acme' }, 'of the policy standard/credits, for acme'],
  [{ place: 'plan pro', key: null, value: '' }, 'of the plan pro, for requests without the tag'],
])('%j: %s', (change, words) => {
  expect(sourceOf({ ...BUDGET, ...change })).toBe(words)
})
