/** Limits on attempts: sliding windows, compared with a naive count, and growing delays. */
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { isRefusal } from '#contract'
import { createAttempts } from '../../src/api/attempts.ts'
import { countsOf } from '../helpers/counts.ts'
import { testClock } from '../store/helpers.ts'

const counts = countsOf('corpus')

const WINDOW_MS = 1000

/** True if admitted; otherwise the wait in ms. */
function attempt(take: () => unknown): true | number {
  try {
    take()
    return true
  } catch (error) {
    if (!isRefusal(error) || error.code !== 'too_many_attempts') throw error
    return error.retryAfterMs!
  }
}

describe('a window', () => {
  test('never admits more than its limit in any span, and returns when the next attempt may come', () => {
    const steps = fc.array(fc.record({ pause: fc.integer({ min: 0, max: 400 }), right: fc.boolean() }), {
      maxLength: 60,
    })
    fc.assert(
      fc.property(steps, fc.integer({ min: 1, max: 5 }), (moves, most) => {
        const clock = testClock()
        const attempts = createAttempts(clock, { most, windowMs: WINDOW_MS })
        const counted: number[] = []
        for (const { pause, right } of moves) {
          clock.ms += pause
          const recent = counted.filter(at => at > clock.ms - WINDOW_MS)
          let takeBack: (() => void) | undefined
          const result = attempt(() => {
            takeBack = attempts.take('a')
          })
          expect(result).toBe(recent.length < most ? true : recent[0]! + WINDOW_MS - clock.ms)
          if (result !== true) continue
          if (right) takeBack!()
          else counted.push(clock.ms)
        }
      }),
      { numRuns: counts(50, 5000) },
    )
  })

  test('counts each subject separately', () => {
    const attempts = createAttempts(testClock(), { most: 1, windowMs: WINDOW_MS })
    expect(['a', 'b', 'a', '__proto__', '__proto__', ''].map(subject => attempt(() => attempts.take(subject)))).toEqual(
      [true, true, WINDOW_MS, true, WINDOW_MS, true],
    )
  })

  test('taking an attempt back twice counts once', () => {
    const attempts = createAttempts(testClock(), { most: 2, windowMs: WINDOW_MS })
    const takeBack = attempts.take('a')
    attempts.take('a')
    takeBack()
    takeBack()
    expect(attempt(() => attempts.take('a'))).toBe(true)
    expect(attempt(() => attempts.take('a'))).toBe(WINDOW_MS)
  })

  test('a clock that is set back locks no one out', () => {
    const clock = testClock()
    const attempts = createAttempts(clock, { most: 1, windowMs: WINDOW_MS })
    attempts.take('a')
    clock.ms -= 3_600_000
    expect(attempt(() => attempts.take('a'))).toBe(true)
    expect(attempt(() => attempts.take('a'))).toBe(WINDOW_MS)
  })

  test('remembers a limited number of subjects and forgets the subject with the oldest attempt', () => {
    const attempts = createAttempts(testClock(), { most: 1, windowMs: WINDOW_MS }, { mostSubjects: 3 })
    for (const subject of ['a', 'b', 'c']) attempts.take(subject)
    expect(attempt(() => attempts.take('a'))).toBe(WINDOW_MS)
    attempts.take('d')
    expect(['a', 'c', 'd'].map(subject => attempt(() => attempts.take(subject)))).toEqual([
      WINDOW_MS,
      WINDOW_MS,
      WINDOW_MS,
    ])
    expect(attempt(() => attempts.take('b'))).toBe(true)
  })
})

describe('delays', () => {
  const GROWTH = { free: 2, firstMs: 10, longestMs: 100 }

  test('double with each attempt up to the maximum; after each such pause one attempt is forgotten', () => {
    const clock = testClock()
    const delays = createAttempts(clock, GROWTH)
    const waits: (true | number)[] = []
    for (let count = 0; count < 12; count++) {
      const result = attempt(() => delays.take('a'))
      waits.push(result)
      // An attempt that is one moment early changes nothing.
      if (result === true) continue
      clock.ms += result - 1
      expect(attempt(() => delays.take('a'))).toBe(1)
      clock.ms += 1
    }
    expect(waits).toEqual([true, true, 10, true, 20, true, 40, true, 80, true, 100, true])
    // At the maximum delay, one attempt expires as the next comes, so the delay stays.
    expect(attempt(() => delays.take('a'))).toBe(100)
    clock.ms += 100
    expect(attempt(() => delays.take('a'))).toBe(true)
    expect(attempt(() => delays.take('a'))).toBe(100)
    clock.ms += 10_000
    expect([1, 2, 3].map(() => attempt(() => delays.take('a')))).toEqual([true, true, 10])
  })

  test('are restored when an attempt is taken back, however often', () => {
    const clock = testClock()
    const delays = createAttempts(clock, GROWTH)
    for (let count = 0; count < 5; count++) {
      const takeBack = delays.take('a')
      takeBack()
      takeBack()
    }
    delays.take('a')
    delays.take('a')
    clock.ms += 10
    delays.take('a')()
    expect(attempt(() => delays.take('a'))).toBe(true)
    expect(attempt(() => delays.take('a'))).toBe(20)
  })

  test('keep the other attempts when one is taken back late', () => {
    const delays = createAttempts(testClock(), GROWTH)
    const takeBack = delays.take('a')
    delays.take('a')
    takeBack()
    expect([1, 2].map(() => attempt(() => delays.take('a')))).toEqual([true, 10])
  })

  test('a clock that is set back locks no one out', () => {
    const clock = testClock()
    const delays = createAttempts(clock, GROWTH)
    delays.take('a')
    delays.take('a')
    clock.ms -= 3_600_000
    expect([1, 2].map(() => attempt(() => delays.take('a')))).toEqual([true, 20])
  })

  test('are kept per subject, for a limited number of subjects', () => {
    const delays = createAttempts(testClock(), { ...GROWTH, free: 1 }, { mostSubjects: 2 })
    for (const subject of ['a', 'b', 'c']) delays.take(subject)
    expect(['b', 'c', 'a'].map(subject => attempt(() => delays.take(subject)))).toEqual([10, 10, true])
  })
})

test('an attempt that is taken back evicts no other subject', () => {
  const attempts = createAttempts(testClock(), { most: 1, windowMs: WINDOW_MS }, { mostSubjects: 2 })
  attempts.take('a')
  for (let index = 0; index < 10; index++) attempts.take(`made up ${index}`)()
  expect(attempt(() => attempts.take('a'))).toBe(WINDOW_MS)
})
