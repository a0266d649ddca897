/** Ids: they increase even if the clock does not, and cannot be guessed. */
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { createIds, LANES, Lanes, laneOf } from '../../src/store/ids.ts'
import { countsOf } from '../helpers/counts.ts'
import { testClock } from './helpers.ts'

const counts = countsOf('corpus')

test('ids strictly increase, even if the clock is set back', () => {
  const steps = fc.array(
    fc.oneof(
      fc.constant(0),
      fc.integer({ min: -7_200_000, max: 7_200_000 }),
      fc.double({ min: -2, max: 2, noNaN: true }),
    ),
  )
  fc.assert(
    fc.property(steps, moves => {
      const clock = testClock()
      const ids = createIds(clock)
      let last = ids.next('req_')
      for (const ms of moves) {
        clock.ms += ms
        const next = ids.next('req_')
        expect(next > last, `${next} after ${last}`).toBe(true)
        last = next
      }
    }),
    { numRuns: counts(75, 10_000) },
  )
})

test('ids still increase when the counter of a millisecond overflows', () => {
  const ids = createIds(testClock())
  let last = ''
  for (let count = 0; count < 70_000; count++) {
    const next = ids.next('req_')
    if (next <= last) expect.fail(`${next} after ${last}`)
    last = next
  }
})

test('an id contains the number of its thread, and ids of all threads sort by time', () => {
  const clock = testClock()
  const lanes = Array.from({ length: LANES }, (_, lane) => createIds(clock, { lane }))
  const early = lanes.map(ids => ids.next('req_'))
  clock.ms++
  const late = lanes.map(ids => ids.next('req_'))
  expect([...early, ...late].map(laneOf)).toEqual([...lanes.keys(), ...lanes.keys()])
  expect(early.every(id => late.every(other => id < other))).toBe(true)
  expect(laneOf('req_1')).toBe(-1)
})

test('a lane belongs to one thread until it is given back, and is then the last to be reused', () => {
  const lanes = new Lanes()
  const first = lanes.take()!
  lanes.give(first)
  const all = Array.from({ length: LANES - 1 }, () => lanes.take())
  expect(new Set(all)).toEqual(new Set(Array.from({ length: LANES - 1 }, (_, index) => index + 1)))
  expect(all.at(-1)).toBe(first)
  expect(lanes.take()).toBe(null)
  lanes.give(7)
  expect([lanes.take(), lanes.take()]).toEqual([7, null])
})

test('the time comes first, so that ids of another process sort by it too', () => {
  const [earlier, later] = [createIds(testClock(1_800_000_000_000)), createIds(testClock(1_800_000_000_001))]
  expect(earlier.next('acc_') < later.next('acc_')).toBe(true)
  expect(createIds({ now: () => 0 }, { randomBytes: size => new Uint8Array(size) }).next('req_')).toBe(
    `req_${'0'.repeat(26)}`,
  )
  // 2^48 - 1 ms, in base 32: 7 and nine Z.
  expect(
    createIds({ now: () => 2 ** 48 - 1 })
      .next('req_')
      .slice(4, 14),
  ).toBe('7ZZZZZZZZZ')
})

test('ids of two processes in the same millisecond differ, and no random part is used twice', () => {
  const clock = testClock()
  const [a, b] = [createIds(clock), createIds(clock)]
  const tails = Array.from({ length: 5000 }, () => [a.next('').slice(13), b.next('').slice(13)]).flat()
  expect(new Set(tails).size).toBe(10_000)
  expect(tails[0]).toMatch(/^[0-9A-HJKMNP-TV-Z]{13}$/)
})

test('randomness is drawn in bulk', () => {
  let draws = 0
  const randomBytes = (size: number) => {
    draws++
    return new Uint8Array(size)
  }
  const ids = createIds(testClock(), { randomBytes })
  for (let count = 0; count < 1000; count++) ids.next('req_')
  expect(draws).toBeLessThan(10)
})
