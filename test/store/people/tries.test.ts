/** The rules of tries as data: the state of a subject, its lifetime, and clocks that differ. */
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

test.each(RULES)('the state of a subject survives JSON, and has no effect after its end: %o', rule => {
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

test.each(RULES)('two replicas whose clocks differ by less than the time of the limit count together: %o', rule => {
  // One of them is 50 ms behind: a person who alternates between them gets no additional try.
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
  'a clock that is set back by ten minutes locks no one out for that time: %o',
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

test.each(RULES)('a clock that is set back by an hour locks no one out: %o', rule => {
  let state: TryState | null = null
  for (let index = 0; index < 10; index++) {
    const result = countTry(rule, state, NOW)
    if ('state' in result) state = result.state
  }
  expect(countTry(rule, state, NOW)).toHaveProperty('waitMs')
  expect(countTry(rule, state, NOW - 3_600_000)).toHaveProperty('state')
})
