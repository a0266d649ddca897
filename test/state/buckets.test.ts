/** Token buckets on virtual time. */
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import type { BucketShape, Grant } from '#contract'
import { createBuckets, give, type Level, take } from '../../src/state/buckets.ts'
import { countsOf } from '../helpers/counts.ts'
import { testClock } from '../store/helpers.ts'

const counts = countsOf('corpus')

const numRuns = counts(125, 20_000)
const shape = fc
  .record({
    capacity: fc.integer({ min: 1, max: 1000 }),
    amount: fc.integer({ min: 1, max: 1000 }),
    perMs: fc.constantFrom(1, 7, 1000, 60_000, 3_600_000),
  })
  .map(({ capacity, amount, perMs }): BucketShape => ({ capacity, refillPerMs: amount / perMs }))
const step = fc.record({ laterMs: fc.nat(5000), amount: fc.nat(50) })

describe('properties', () => {
  test("in any window at most the capacity and the window's refill are granted", () => {
    fc.assert(
      fc.property(shape, fc.array(step, { maxLength: 60 }), (shape, steps) => {
        const taken: { at: number; amount: number }[] = []
        let level: Level | undefined
        let now = 0
        for (const { laterMs, amount } of steps) {
          now += laterMs
          const result = take(level, shape, amount, now)
          level = result.level
          if (result.grant.taken) taken.push({ at: now, amount })
        }
        for (const [first, { at: from }] of taken.entries()) {
          let sum = 0
          for (const { at, amount } of taken.slice(first)) {
            sum += amount
            expect(sum).toBeLessThanOrEqual(shape.capacity * (1 + 1e-6) + shape.refillPerMs * (at - from) + 1e-6)
          }
        }
      }),
      { numRuns },
    )
  })

  test('a caller that waits the returned time is admitted at once, and the time is minimal', () => {
    fc.assert(
      fc.property(shape, fc.array(step, { minLength: 1, maxLength: 60 }), (shape, steps) => {
        let level: Level | undefined
        let now = 0
        for (const { laterMs, amount: wanted } of steps) {
          now += laterMs
          const amount = Math.min(wanted, shape.capacity)
          const first = take(level, shape, amount, now)
          if (!first.grant.taken) {
            const { retryAfterMs } = first.grant
            expect(retryAfterMs).toBeGreaterThan(0)
            if (retryAfterMs > 2)
              expect(take(first.level, shape, amount, now + retryAfterMs - 2).grant.taken).toBe(false)
            now += retryAfterMs
            const second = take(first.level, shape, amount, now)
            expect(second.grant.taken).toBe(true)
            level = second.level
          } else level = first.level
        }
      }),
      { numRuns },
    )
  })

  test('after resetMs a bucket is full, whatever was taken or given', () => {
    fc.assert(
      fc.property(
        shape,
        fc.array(fc.record({ laterMs: fc.nat(5000), amount: fc.integer({ min: -2000, max: 2000 }) })),
        (shape, steps) => {
          let level: Level | undefined
          let now = 0
          for (const { laterMs, amount } of steps) {
            now += laterMs
            level = give(level, shape, amount, now)
            expect(level.units).toBeLessThanOrEqual(shape.capacity)
          }
          const { grant } = take(level, shape, 0, now)
          expect(take(level, shape, shape.capacity, now + grant.resetMs).grant).toMatchObject({
            taken: true,
            remaining: 0,
          })
        },
      ),
      { numRuns },
    )
  })
})

/** Ten units, and one more each second. */
const TEN: BucketShape = { capacity: 10, refillPerMs: 0.001 }

describe('a bucket for ten, one a second', () => {
  test('more than its capacity is refused, with the time to fill an empty bucket', () => {
    const refused: Grant = { taken: false, remaining: 10, retryAfterMs: 10_000, resetMs: 0 }
    expect(take(undefined, TEN, 11, 0).grant).toEqual(refused)
    expect(take(undefined, TEN, 10, 0).grant.taken).toBe(true)
  })

  test.each([-1, Number.NaN])('taking %s is a bug of the caller', amount => {
    expect(() => take(undefined, TEN, amount, 0)).toThrow(RangeError)
  })

  test.each([Number.NaN, Number.POSITIVE_INFINITY])('giving %s is a bug of the caller', amount => {
    expect(() => give(undefined, TEN, amount, 0)).toThrow(RangeError)
  })

  test('a bucket that refills once an hour admits no caller two milliseconds early', () => {
    const shape = { capacity: 278, refillPerMs: 1 / 3_600_000 }
    const { level } = take(undefined, shape, 200, 0)
    const { retryAfterMs } = take(level, shape, 79, 0).grant
    expect(take(level, shape, 79, retryAfterMs - 2).grant.taken).toBe(false)
    expect(take(level, shape, 79, retryAfterMs).grant.taken).toBe(true)
  })

  test('a bucket that never refills still returns a finite time', () => {
    const { level } = take(undefined, { capacity: 1, refillPerMs: 0 }, 1, 0)
    expect(take(level, { capacity: 1, refillPerMs: 0 }, 1, 9).grant.retryAfterMs).toBe(Number.MAX_SAFE_INTEGER)
  })

  test('an empty bucket returns the time of the next unit', async () => {
    const clock = testClock()
    const buckets = createBuckets(clock)
    for (let left = 9; left >= 0; left--) {
      expect(await buckets.take('key_1', TEN, 1)).toEqual({
        taken: true,
        remaining: left,
        retryAfterMs: 0,
        resetMs: (10 - left) * 1000,
      })
    }
    clock.ms += 400
    expect(await buckets.take('key_1', TEN, 1)).toEqual({
      taken: false,
      remaining: 0,
      retryAfterMs: 600,
      resetMs: 9600,
    })
    expect(await buckets.take('key_2', TEN, 1)).toMatchObject({ taken: true, remaining: 9 })
  })

  test('an estimate is corrected up to the capacity, or down into debt', async () => {
    const clock = testClock()
    const buckets = createBuckets(clock)
    await buckets.take('key_1', TEN, 4)
    await buckets.give('key_1', TEN, 100)
    expect(await buckets.take('key_1', TEN, 0)).toMatchObject({ remaining: 10, resetMs: 0 })
    await buckets.give('key_1', TEN, -15)
    expect(await buckets.take('key_1', TEN, 1)).toEqual({
      taken: false,
      remaining: 0,
      retryAfterMs: 6000,
      resetMs: 15_000,
    })
    clock.ms += 6000
    expect(await buckets.take('key_1', TEN, 1)).toMatchObject({ taken: true })
  })

  test('a clock that steps back refills nothing and stops no refill', async () => {
    const clock = testClock()
    const buckets = createBuckets(clock)
    await buckets.take('key_1', TEN, 10)
    clock.ms -= 3_600_000
    expect(await buckets.take('key_1', TEN, 1)).toMatchObject({ taken: false, retryAfterMs: 1000 })
    clock.ms += 1000
    expect(await buckets.take('key_1', TEN, 1)).toMatchObject({ taken: true })
  })

  test('a smaller capacity after a reload applies at once', async () => {
    const buckets = createBuckets(testClock())
    await buckets.take('key_1', TEN, 1)
    expect(await buckets.take('key_1', { ...TEN, capacity: 3 }, 1)).toMatchObject({ taken: true, remaining: 2 })
  })

  test('a flood of addresses evicts no key', async () => {
    const buckets = createBuckets(testClock(), 2)
    await buckets.take('main/burst/requests/key:key_1', TEN, 10)
    for (let index = 0; index < 100; index++) await buckets.take(`main/burst/requests/address:10.0.0.${index}`, TEN, 1)
    expect(await buckets.take('main/burst/requests/key:key_1', TEN, 1)).toMatchObject({ taken: false })
  })

  test('an evicted name starts full: memory stays bounded', async () => {
    const buckets = createBuckets(testClock(), 2)
    await buckets.take('a', TEN, 10)
    await buckets.take('b', TEN, 10)
    await buckets.take('a', TEN, 1)
    await buckets.take('c', TEN, 10)
    expect(await buckets.take('a', TEN, 1)).toMatchObject({ taken: false })
    expect(await buckets.take('b', TEN, 1)).toMatchObject({ taken: true })
  })
})
