/** The budgets that apply to a request, and the names of their rows. */
import { describe, expect, test } from 'vitest'
import type { Budget, Exchange, Plan } from '#contract'
import { chainOf, createBudgets } from '../../src/budgets/budget-chain.ts'
import { partsOf } from '../../src/budgets/budget-names.ts'

const NOW = Date.UTC(2026, 10, 28, 12)
const DAY = { start: Date.UTC(2026, 10, 28), end: Date.UTC(2026, 10, 29) }
const clock = { now: () => NOW }
const account = { id: 'acc_1', name: 'acme', plan: 'pro', frozen: false, createdAt: 0 }
const key = {
  id: 'key_1',
  accountId: 'acc_1',
  name: 'app',
  models: null,
  createdAt: 0,
  expiresAt: null,
  revokedAt: null,
}

const budget = (more: Partial<Budget> = {}): Budget => ({ per: 'account', amount: 100n, every: 'day', ...more })
/** The plan `pro` with these budgets. */
const planned = (budgets: readonly Budget[]) => {
  const pro: Plan = { name: 'pro', models: null, limits: [], budgets, weight: 1 }
  return { find: (name: string) => (name === 'pro' ? pro : undefined) }
}
const exchange = (more: object = {}) => ({ account, key, ...more }) as unknown as Exchange

describe('the chain of a request', () => {
  test('is empty without an account, and without a budget', () => {
    const budgets = createBudgets(clock, planned([]))
    expect(budgets.chain({} as Exchange, [budget()], 'p/credits')).toEqual([])
    expect(budgets.chain(exchange(), [], 'p/credits')).toEqual([])
  })

  test('has those of the account, the key, the plan and the policy', () => {
    const budgets = createBudgets(clock, planned([budget({ every: 'life' })]))
    const own = budget({ per: 'tag team', at: ['50%'], zone: 'Europe/Berlin' })
    const asked = exchange({
      account: { ...account, budgets: [budget()] },
      key: { ...key, budgets: [budget({ per: 'key' })] },
      tags: { team: 'a/b 100%' },
    })
    expect(budgets.chain(asked, [own], 'standard/credits')).toEqual([
      {
        budget: 'account/account day/day/',
        ...DAY,
        amount: 100n,
        marks: [80, 100],
        rule: budget(),
        whose: 'of the account acme',
      },
      expect.objectContaining({ budget: 'key/key day/day/key_1', whose: 'of the key app' }),
      expect.objectContaining({ budget: 'plan pro/account life/life/', start: 0, end: null }),
      expect.objectContaining({
        budget: 'policy standard%2Fcredits/tag team day/day/a%2Fb 100%25',
        start: Date.UTC(2026, 10, 27, 23),
        marks: [50],
        whose: 'of team a/b 100%',
      }),
    ])
  })
})

test.each([
  ['account', '', 'of the account acme'],
  ['key', 'key_1', 'of the key app'],
  ['caller', 'key_1', 'of the caller app'],
  ['tag team', 'search', 'of team search'],
  ['tag session', '', 'of requests without session'],
  ['tag constructor', '', 'of requests without constructor'],
] as const)('a budget per %s', (per, subject, whose) => {
  const [found] = chainOf([budget({ per, name: 'mine' })], 'plan x', { account, key, tags: { team: 'search' } }, NOW)
  expect(found).toMatchObject({ whose })
  expect(partsOf(found!.budget)).toEqual({ place: 'plan x', name: 'mine', every: 'day', subject })
})

test('a budget has another row with another period, name or place, but not with another amount or zone', () => {
  const nameOf = (more: Partial<Budget>, place = 'plan x') =>
    chainOf([budget(more)], place, { account, key }, NOW)[0]!.budget
  const same = [nameOf({}), nameOf({ amount: 7n }), nameOf({ zone: 'Asia/Tokyo' }), nameOf({ at: [], then: 'small' })]
  expect(new Set(same).size).toBe(1)
  const others = [nameOf({ every: 'week' }), nameOf({ name: 'other' }), nameOf({}, 'plan y'), nameOf({ per: 'key' })]
  expect(new Set([...same, ...others]).size).toBe(5)
})
