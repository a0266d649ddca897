/** The rules of tries as data: what is kept of a subject, for how long it means something, and clocks that differ. */
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { countTry, endOf, type TryRule, type TryState, takeBack } from '../../../src/store/people/tries.ts'
import { countsOf } from '../../helpers/counts.ts'

const counts = countsOf('corpus')

const RULES: readonly TryRule[] = [
  { most: 3, windowMs: 1000 },
  { free: 2, firstMs: 10, longestMs: 100 },
]
const NOW = 1_800_000_000_000

const MOVES = fc.array(fc.record({ pause: fc.integer({ min: 0, max: 300 }), right: fc.boolean() }), { maxLength: 40 })

test.each(RULES)('what is kept of a subject survives JSON, and says nothing any more after its end: %o', rule => {
  fc.assert(
    fc.property(MOVES, moves => {
      let now = NOW
      let state: TryState | null = null
      for (const { pause, right } of moves) {
        now += pause
        const result = countTry(rule, state, now)
        expect(countTry(rule, JSON.parse(JSON.stringify(state)), now)).toEqual(result)
        if ('waitMs' in result) continue
        state = right ? takeBack(rule, result.state, result.counted) : result.state
        if (state === null) continue
        const after = countTry(rule, state, endOf(rule, state) + 1)
        const fresh = countTry(rule, null, endOf(rule, state) + 1)
        expect('state' in after && after.state).toEqual('state' in fresh && fresh.state)
      }
    }),
    { numRuns: counts(50, 2000) },
  )
})

test.each(RULES)('two whose clocks differ by less than the limit lasts count together: %o', rule => {
  // One of them is 50 ms behind: whoever goes from one to the other gets no try more.
  let state: TryState | null = null
  let taken = 0
  for (let index = 0; index < 10; index++) {
    const result = countTry(rule, state, NOW - (index % 2) * 50)
    if ('waitMs' in result) continue
    state = result.state
    taken++
  }
  expect(taken).toBe('most' in rule ? 3 : 2)
})

test.each<[TryRule]>([[{ most: 3, windowMs: 900_000 }], [{ free: 2, firstMs: 30_000, longestMs: 900_000 }]])(
  'a clock that is set back by ten minutes locks nobody out for those: %o',
  rule => {
    let state: TryState | null = null
    for (let index = 0; index < 3; index++) {
      const result = countTry(rule, state, NOW)
      if ('state' in result) state = result.state
    }
    expect(countTry(rule, state, NOW)).toHaveProperty('waitMs')
    expect(countTry(rule, state, NOW - 600_000)).toHaveProperty('state')
  },
)

test.each(RULES)('one whose clock is set back by more than that locks nobody out: %o', rule => {
  let state: TryState | null = null
  for (let index = 0; index < 10; index++) {
    const result = countTry(rule, state, NOW)
    if ('state' in result) state = result.state
  }
  expect(countTry(rule, state, NOW)).toHaveProperty('waitMs')
  expect(countTry(rule, state, NOW - 3_600_000)).toHaveProperty('state')
})
