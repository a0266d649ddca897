/** Mistakes in the terms of a budget. */
import { expect, test } from 'vitest'
import { type Budget, mistakeInBudget } from '#contract'

type Terms = Pick<Budget, 'zone' | 'at'>

test.each<[Terms, ReturnType<typeof mistakeInBudget>]>([
  [{ zone: 'Mars' }, { field: 'zone', value: 'Mars', rule: 'must be a time zone such as Europe/Berlin or UTC' }],
  [{ zone: '' }, { field: 'zone', value: '', rule: 'must be a time zone such as Europe/Berlin or UTC' }],
  [{ at: ['80%', '0%'] }, { field: 'at', value: '0%', rule: 'must be a percentage from 1% to 100%' }],
  [{ at: ['8.5%'] }, { field: 'at', value: '8.5%', rule: 'must be a percentage from 1% to 100%' }],
  [{ at: ['80%', '90%', '80%'] }, { field: 'at', value: '80%', rule: 'must have each percentage once' }],
  [{ zone: 'Europe/Berlin', at: ['1%', '100%'] }, null],
  [{}, null],
])('%j', (terms, mistake) => {
  expect(mistakeInBudget(terms)).toEqual(mistake)
})
