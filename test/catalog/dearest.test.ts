/** One price for several: no usage costs less at it than at one of them. */
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { cost, fitted, isToken, type Price, TIERS, UNIT_NAMES, UNITS, type Usage } from '#contract'
import { dearest } from '../../src/catalog/dearest.ts'

const UNITS_OF_CHATS = UNIT_NAMES.filter(unit => isToken(unit) || unit === 'search' || unit === 'request')
const rule = fc
  .record({
    unit: fc.constantFrom(...UNITS_OF_CHATS),
    nanos: fc.bigInt({ min: 0n, max: 10n ** 12n }),
    above: fc.option(fc.constantFrom(20, 200_000), { nil: undefined }),
    tier: fc.option(fc.constantFrom(...TIERS), { nil: undefined }),
  })
  .map(({ unit, nanos, above, tier }) => ({
    unit,
    nanos,
    per: UNITS[unit].per,
    ...(above === undefined ? {} : { above }),
    ...(tier === undefined ? {} : { tier }),
  }))
const price: fc.Arbitrary<Price> = fc.uniqueArray(rule, {
  maxLength: 12,
  selector: ({ unit, above, tier }) => `${unit} ${above} ${tier}`,
})
const count = fc.oneof(fc.nat(50), fc.nat(3_000_000))
const usage: fc.Arbitrary<Usage> = fc
  .record(
    { ...Object.fromEntries(UNITS_OF_CHATS.map(unit => [unit, count])), tier: fc.constantFrom(...TIERS) },
    { requiredKeys: [] },
  )
  .map(each => fitted(each as Usage))

test('no usage costs less than at any of the prices', () => {
  fc.assert(
    fc.property(fc.array(price, { minLength: 1, maxLength: 3 }), usage, (prices, used) => {
      const most = cost(used, dearest(prices)).total
      for (const each of prices) expect(most).toBeGreaterThanOrEqual(cost(used, each).total)
    }),
    { numRuns: 2000 },
  )
})

test.each<[name: string, prices: readonly Price[], used: Usage]>([
  [
    'cached sound above a step of cached input',
    [
      [
        { unit: 'cached_input', nanos: 7899n, per: 1_000_000, above: 20 },
        { unit: 'input', nanos: 0n, per: 1_000_000 },
      ],
      [{ unit: 'input_audio', nanos: 1n, per: 1_000_000 }],
    ],
    { input: 186_100, cached_input: 186_100, input_audio: 1, cached_audio: 1 },
  ],
  [
    'cached sound below a step of sound',
    [
      [{ unit: 'cached_input', nanos: 0n, per: 1_000_000 }],
      [
        { unit: 'input', nanos: 1n, per: 1_000_000, above: 20 },
        { unit: 'input_audio', nanos: 0n, per: 1_000_000, above: 200_000 },
      ],
    ],
    { input: 21, cached_input: 21, input_audio: 21, cached_audio: 21 },
  ],
])('%s costs what it costs at the dearest price', (_name, prices, used) => {
  const costs = prices.map(each => cost(used, each).total)
  const most = costs.reduce((a, b) => (a > b ? a : b))
  expect(cost(used, dearest(prices)).total).toBe(most)
})

test('of one price, and of equal ones, it is that price', () => {
  fc.assert(
    fc.property(price, each => {
      expect(dearest([each, each.map(copy => ({ ...copy }))])).toBe(each)
    }),
  )
  expect(dearest([])).toEqual([])
})

test('a unit has the rate of the price that is dearer in it', () => {
  const one: Price = [
    { unit: 'input', nanos: 3n, per: 1_000_000, source: 'a' },
    { unit: 'output', nanos: 5n, per: 1_000_000, source: 'a' },
  ]
  const other: Price = [
    { unit: 'input', nanos: 2n, per: 1_000_000, source: 'b' },
    { unit: 'output', nanos: 9n, per: 1_000_000, source: 'b' },
    { unit: 'output', nanos: 4n, per: 1_000_000, tier: 'batch', source: 'b' },
  ]
  expect(dearest([one, other])).toEqual([
    { unit: 'input', nanos: 3n, per: 1_000_000, source: 'a' },
    { unit: 'output', nanos: 9n, per: 1_000_000, source: 'b' },
    { unit: 'input', nanos: 3n, per: 1_000_000, tier: 'batch', source: 'a' },
    { unit: 'output', nanos: 5n, per: 1_000_000, tier: 'batch', source: 'a' },
  ])
})
