import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { ERRORS, type ErrorCode } from '#contract'
import { createRetryBudget, retryAfterFailure } from '../../src/providers/retry.ts'
import { countsOf } from '../helpers/counts.ts'

const counts = countsOf('corpus')

interface FailureFields {
  readonly retryAfterMs?: number
  readonly tookMs?: number
  readonly attempts?: number
  readonly hasOther?: boolean
  readonly hasOtherCredential?: boolean
}

/** The retry after a failure, with the random number 0.5. */
const retryOf = (code: ErrorCode, { retryAfterMs, ...given }: FailureFields = {}) =>
  retryAfterFailure(
    {
      failure: { code, detail: '', ...(retryAfterMs === undefined ? {} : { retryAfterMs }) },
      tookMs: 50,
      attempts: 1,
      hasOther: false,
      hasOtherCredential: false,
      ...given,
    },
    () => 0.5,
  )

const ELSEWHERE = { where: 'elsewhere' }
const AS_ANOTHER = { where: 'as_another' }
const here = (pauseMs: number) => ({ where: 'here', pauseMs })

describe('the next attempt after', () => {
  test.each<[string, ErrorCode, FailureFields, object | null]>([
    ['an invalid request: no other target either', 'upstream_rejected', { hasOther: true }, null],
    ['a request that is too long', 'context_length_exceeded', { hasOther: true }, null],
    ['a request that a filter refused', 'content_filter', { hasOther: true }, null],
    ['a slow failure', 'upstream_timeout', { tookMs: 10_001, hasOther: true }, null],
    ['a slow failure of a credential', 'upstream_auth', { tookMs: 10_001, hasOtherCredential: true }, null],
    ['no quota, and no other target', 'upstream_quota', {}, null],
    ['no quota, and another target', 'upstream_quota', { hasOther: true }, ELSEWHERE],
    ['a refused credential, and no other target', 'upstream_auth', {}, null],
    ['a refused credential, and another target', 'upstream_auth', { hasOther: true }, ELSEWHERE],
    [
      'a refused credential, and another credential',
      'upstream_auth',
      { hasOtherCredential: true, hasOther: true },
      AS_ANOTHER,
    ],
    ['no quota, and another credential', 'upstream_quota', { hasOtherCredential: true }, AS_ANOTHER],
    [
      'a limit, and another credential',
      'upstream_rate_limited',
      { hasOtherCredential: true, retryAfterMs: 60_000 },
      AS_ANOTHER,
    ],
    ['a failure that is unrelated to the credential', 'upstream_error', { hasOtherCredential: true }, here(150)],
    ['no free connection, and another target', 'overloaded', { hasOther: true }, ELSEWHERE],
    ['no free connection', 'overloaded', {}, null],
    ['a model that this target does not have', 'model_not_found', { hasOther: true }, ELSEWHERE],
    ['a failure just within the limit for slow ones', 'upstream_error', { tookMs: 10_000, hasOther: true }, ELSEWHERE],
    ['a failure, and no other target', 'upstream_error', {}, here(150)],
    ['a second failure', 'upstream_error', { attempts: 2 }, here(300)],
    ['a fourth failure', 'upstream_error', { attempts: 4 }, here(1200)],
    ['a ninth failure: the pause has a maximum', 'upstream_error', { attempts: 9 }, here(2000)],
    ['a rate limit with a short time', 'upstream_rate_limited', { retryAfterMs: 2000 }, here(2000)],
    ['a rate limit with a long time: the client gets the error', 'upstream_rate_limited', { retryAfterMs: 2001 }, null],
    [
      'a rate limit with a long time, and another target',
      'upstream_rate_limited',
      { retryAfterMs: 60_000, hasOther: true },
      ELSEWHERE,
    ],
    ['a rate limit shorter than the pause', 'upstream_rate_limited', { retryAfterMs: 20 }, here(150)],
  ])('%s', (_name, code, given, expected) => {
    expect(retryOf(code, given)).toEqual(expected)
  })

  test('a pause is between half and all of its maximum', () => {
    const lot = fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true })
    fc.assert(
      fc.property(lot, fc.constantFrom(1, 2, 3), (random, attempts) => {
        const failure = { code: 'upstream_error', detail: '' } as const
        const retry = retryAfterFailure(
          { failure, tookMs: 0, attempts, hasOther: false, hasOtherCredential: false },
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

  test('only failures of a provider are retried', () => {
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
  test('starts at 20 and grows by one for every five exchanges', () => {
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

  test('is at most 20, even after many exchanges without a failure', () => {
    const budget = createRetryBudget()
    for (let i = 0; i < 10_000; i++) budget.earn()
    let spent = 0
    while (budget.spend()) spent++
    expect(spent).toBe(20)
  })
})
