import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { ERRORS, type ErrorCode } from '#contract'
import { createRetryBudget, retryAfterFailure } from '../../src/providers/retry.ts'
import { countsOf } from '../helpers/counts.ts'

const counts = countsOf('corpus')

interface Given {
  readonly retryAfterMs?: number
  readonly tookMs?: number
  readonly attempts?: number
  readonly hasOther?: boolean
  readonly hasCredential?: boolean
}

/** With the lot in the middle of its range. */
const retryOf = (code: ErrorCode, { retryAfterMs, ...given }: Given = {}) =>
  retryAfterFailure(
    {
      failure: { code, detail: '', ...(retryAfterMs === undefined ? {} : { retryAfterMs }) },
      tookMs: 50,
      attempts: 1,
      hasOther: false,
      hasCredential: false,
      ...given,
    },
    () => 0.5,
  )

const ELSEWHERE = { where: 'elsewhere' }
const AS_ANOTHER = { where: 'as_another' }
const here = (pauseMs: number) => ({ where: 'here', pauseMs })

describe('what another attempt may mend', () => {
  test.each<[string, ErrorCode, Given, object | null]>([
    ['a request at fault is at fault everywhere', 'upstream_rejected', { hasOther: true }, null],
    ['so is one that is too long', 'context_length_exceeded', { hasOther: true }, null],
    ['and one that a filter has refused', 'content_filter', { hasOther: true }, null],
    ['a slow failure', 'upstream_timeout', { tookMs: 10_001, hasOther: true }, null],
    ['a slow failure of a credential', 'upstream_auth', { tookMs: 10_001, hasCredential: true }, null],
    ['no quota, and nobody else', 'upstream_quota', {}, null],
    ['no quota, and somebody else', 'upstream_quota', { hasOther: true }, ELSEWHERE],
    ['a refused credential, and nobody else', 'upstream_auth', {}, null],
    ['a refused credential, and another target', 'upstream_auth', { hasOther: true }, ELSEWHERE],
    ['a refused credential, and another one', 'upstream_auth', { hasCredential: true, hasOther: true }, AS_ANOTHER],
    ['no quota, and another credential', 'upstream_quota', { hasCredential: true }, AS_ANOTHER],
    [
      'a limit, and another credential',
      'upstream_rate_limited',
      { hasCredential: true, retryAfterMs: 60_000 },
      AS_ANOTHER,
    ],
    ['a failure that is not of the credential', 'upstream_error', { hasCredential: true }, here(150)],
    ['no free connection, and somebody else', 'overloaded', { hasOther: true }, ELSEWHERE],
    ['no free connection', 'overloaded', {}, null],
    ['a model that this target does not have', 'model_not_found', { hasOther: true }, ELSEWHERE],
    ['a failure at the very limit of slowness', 'upstream_error', { tookMs: 10_000, hasOther: true }, ELSEWHERE],
    ['a failure, and nobody else', 'upstream_error', {}, here(150)],
    ['the second one', 'upstream_error', { attempts: 2 }, here(300)],
    ['the fourth one', 'upstream_error', { attempts: 4 }, here(1200)],
    ['the ninth one: a pause has a limit', 'upstream_error', { attempts: 9 }, here(2000)],
    ['a limit that says when', 'upstream_rate_limited', { retryAfterMs: 2000 }, here(2000)],
    ['a limit that lasts: the client is told', 'upstream_rate_limited', { retryAfterMs: 2001 }, null],
    [
      'a limit that lasts, and somebody else',
      'upstream_rate_limited',
      { retryAfterMs: 60_000, hasOther: true },
      ELSEWHERE,
    ],
    ['a limit shorter than the pause', 'upstream_rate_limited', { retryAfterMs: 20 }, here(150)],
  ])('%s', (_name, code, given, expected) => {
    expect(retryOf(code, given)).toEqual(expected)
  })

  test('a pause is between half and all of what it may be, and never a lot below 0', () => {
    const lot = fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true })
    fc.assert(
      fc.property(lot, fc.constantFrom(1, 2, 3), (random, attempts) => {
        const failure = { code: 'upstream_error', detail: '' } as const
        const retry = retryAfterFailure(
          { failure, tookMs: 0, attempts, hasOther: false, hasCredential: false },
          () => random,
        )
        const most = 200 * 2 ** (attempts - 1)
        if (retry?.where !== 'here') throw new Error('no retry')
        expect(retry.pauseMs).toBeGreaterThanOrEqual(most / 2)
        expect(retry.pauseMs).toBeLessThanOrEqual(most)
      }),
      { numRuns: counts(50, 5000) },
    )
  })

  test('only failures of a provider are tried again', () => {
    const codes = Object.keys(ERRORS) as ErrorCode[]
    const again = codes.filter(code => retryOf(code, { hasOther: true }) !== null)
    expect(again.filter(code => !code.startsWith('upstream_'))).toEqual([
      'model_not_found',
      'overloaded',
      'loop_detected',
    ])
  })
})

describe('the budget', () => {
  test('is 20 at the start, and then one for every five exchanges', () => {
    const budget = createRetryBudget()
    const spendAll = () => {
      let spent = 0
      while (budget.spend()) spent++
      return spent
    }
    expect(spendAll()).toBe(20)
    for (let i = 0; i < 4; i++) budget.earn()
    expect(spendAll()).toBe(0)
    budget.earn()
    expect(spendAll()).toBe(1)
  })

  test('is never more than 20, however long nothing failed', () => {
    const budget = createRetryBudget()
    for (let i = 0; i < 10_000; i++) budget.earn()
    let spent = 0
    while (budget.spend()) spent++
    expect(spent).toBe(20)
  })
})
