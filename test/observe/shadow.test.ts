import { describe, expect, test } from 'vitest'
import { createShadowFigures, type ShadowExchange, shadowRun } from '../../src/observe/shadow.ts'

const NOW = Date.UTC(2026, 10, 21, 12)
const who = (id: string) => ({ id, name: `name of ${id}` })

function exchange(nth: number, change: Partial<ShadowExchange> = {}): ShadowExchange {
  return { id: `req_${nth}`, at: NOW + nth, policy: 'p', account: who('acc_1'), key: who('key_1'), ...change }
}

describe('limits', () => {
  test('on distinct accounts and keys: a thousand, with a flag for more', () => {
    const figures = createShadowFigures()
    for (let nth = 0; nth < 1500; nth++) {
      figures.count(exchange(nth, { account: who(`acc_${nth}`), key: who(`key_${nth % 7}`) }), 's', 'forbidden')
    }
    const [{ accounts, keys, count }] = figures.steps()[0]!.refusals as never as [Refusals]
    expect(count).toBe(1500)
    expect(accounts).toMatchObject({ distinct: 1000, more: true })
    expect(accounts.top).toHaveLength(10)
    expect(keys).toMatchObject({ distinct: 7, more: false })
    expect(keys.top.map(({ id, count }) => [id, count]).slice(0, 2)).toEqual([
      ['key_0', 215],
      ['key_1', 215],
    ])
  })

  test('on steps and codes, in case the configuration changes often', () => {
    const figures = createShadowFigures()
    for (let nth = 0; nth < 600; nth++) figures.count(exchange(nth), `step_${nth}`, null)
    expect(figures.steps()).toHaveLength(500)
    // Existing entries still count.
    figures.count(exchange(1), 'step_0', null)
    expect(figures.steps()[0]).toMatchObject({ step: 'step_0', ran: 2 })
    for (let nth = 0; nth < 60; nth++) figures.count(exchange(nth), 'step_0', `code_${nth}`)
    const { refusals, would_refuse: refused } = figures.steps()[0]!
    expect(refusals).toHaveLength(51)
    expect(refusals[0]).toMatchObject({ code: 'other', count: 10 })
    expect(refused).toBe(60)
  })
})

type Refusals = ReturnType<ReturnType<typeof createShadowFigures>['steps']>[number]['refusals'][number]

test('counts by policy, step and code, with the latest examples first', () => {
  const figures = createShadowFigures()
  for (let nth = 1; nth <= 8; nth++) figures.count(exchange(nth), 'burst', nth % 4 === 0 ? null : 'rate_limit_exceeded')
  figures.count(exchange(9, { account: null, key: null }), 'burst', 'answered')
  figures.count(exchange(10, { policy: 'other' }), 'burst', null)
  const [other, own] = figures.steps()
  expect(other).toEqual({
    policy: 'other',
    step: 'burst',
    since: '2026-11-21T12:00:00.010Z',
    ran: 1,
    would_refuse: 0,
    refusals: [],
  })
  const unseen = { distinct: 0, more: false, top: [] }
  expect(own).toEqual({
    policy: 'p',
    step: 'burst',
    since: '2026-11-21T12:00:00.001Z',
    ran: 9,
    would_refuse: 7,
    refusals: [
      {
        code: 'rate_limit_exceeded',
        count: 6,
        accounts: { distinct: 1, more: false, top: [{ ...who('acc_1'), count: 6 }] },
        keys: { distinct: 1, more: false, top: [{ ...who('key_1'), count: 6 }] },
        examples: [7, 6, 5, 3, 2].map(nth => ({ id: `req_${nth}`, at: `2026-11-21T12:00:00.00${nth}Z` })),
      },
      {
        code: 'answered',
        count: 1,
        accounts: unseen,
        keys: unseen,
        examples: [{ id: 'req_9', at: '2026-11-21T12:00:00.009Z' }],
      },
    ],
  })
})

test.each([
  [{ verdict: 'passed' }, null],
  [{ verdict: 'late', code: 'plugin_error' }, null],
  [{ verdict: 'would_refuse', code: 'forbidden' }, 'forbidden'],
  [{ verdict: 'would_refuse' }, 'answered'],
  [{ verdict: 'skipped' }, undefined],
  [{ verdict: 'off' }, undefined],
] as const)('the trail entry %j counts as %j', (entry, code) => {
  expect(shadowRun(entry)).toBe(code)
})
