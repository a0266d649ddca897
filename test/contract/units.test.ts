/** Units, usage and prices, compared with a second implementation that is slow and uses fractions. */
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import {
  affordable,
  type Counts,
  ceiling,
  cost,
  fitted,
  type Price,
  type PriceRule,
  plainPrice,
  TIERS,
  UNIT_NAMES,
  UNITS,
  type Unit,
  type Usage,
} from '#contract'
import { countsOf } from '../helpers/counts.ts'

const RUNS = countsOf('corpus')(3_000, 1_000_000)
const M = 1_000_000

const PRICE = plainPrice({ input: 2_500_000_000n, cached_input: 250_000_000n, output: 10_000_000_000n })

/** Each token of a kind is charged once: by the first unit of this list that has a rule. */
const KINDS: readonly (readonly [of: (usage: Counts) => number, units: readonly Unit[]])[] = [
  [u => n(u.cached_audio), ['cached_audio', 'cached_input', 'input_audio', 'input']],
  [u => n(u.cached_input) - n(u.cached_audio), ['cached_input', 'input']],
  [u => n(u.cache_write_1h), ['cache_write_1h', 'cache_write', 'input']],
  [u => n(u.cache_write) - n(u.cache_write_1h), ['cache_write', 'input']],
  [u => n(u.input_audio) - n(u.cached_audio), ['input_audio', 'input']],
  [u => n(u.input_image), ['input_image', 'input']],
  [
    u => n(u.input) - n(u.cached_input) - n(u.cache_write) - n(u.input_audio) + n(u.cached_audio) - n(u.input_image),
    ['input'],
  ],
  [u => n(u.reasoning), ['reasoning', 'output']],
  [u => n(u.output_audio), ['output_audio', 'output']],
  [u => n(u.output_image), ['output_image', 'output']],
  [u => n(u.output) - n(u.reasoning) - n(u.output_audio) - n(u.output_image), ['output']],
  ...(['image', 'second', 'character', 'page', 'search'] as const).map(
    unit => [(u: Counts) => n(u[unit]), [unit]] as const,
  ),
  [() => 1, ['request']],
]
const n = (count: number | undefined) => count ?? 0

/** Computes a cost kind by kind, with a common denominator of all possible `per`. */
function naive(usage: Usage, price: Price): bigint {
  const denominator = BigInt(M) * 60_000n
  let sum = 0n
  for (const [of, units] of KINDS) {
    const rule = units.map(unit => closest(price, unit, usage)).find(Boolean)
    if (rule) sum += (BigInt(of(usage)) * rule.nanos * denominator) / BigInt(rule.per)
  }
  return sum / denominator + (sum % denominator === 0n ? 0n : 1n)
}

function closest(price: Price, unit: Unit, { input = 0, tier }: Usage): PriceRule | undefined {
  const fitting = price.filter(
    rule =>
      rule.unit === unit &&
      (rule.above === undefined || input > rule.above) &&
      (rule.tier === undefined || rule.tier === tier),
  )
  const rank = (rule: PriceRule) => (rule.tier === undefined ? 0 : 1e12) + (rule.above ?? -1)
  return fitting.toSorted((a, b) => rank(b) - rank(a))[0]
}

const count = fc.oneof(fc.nat(50), fc.nat(3_000_000))
const usages: fc.Arbitrary<Usage> = fc
  .record(
    { ...Object.fromEntries(UNIT_NAMES.map(unit => [unit, count])), tier: fc.constantFrom(...TIERS) },
    { requiredKeys: [] },
  )
  .map(({ request: _, ...usage }: Usage) => fitted(usage))

const prices: fc.Arbitrary<Price> = fc
  .uniqueArray(
    fc.record({
      unit: fc.constantFrom(...UNIT_NAMES),
      nanos: fc.bigInt({ min: 0n, max: 10n ** 14n }),
      above: fc.option(fc.constantFrom(20, 200_000, 1_000_000), { nil: undefined }),
      tier: fc.option(fc.constantFrom(...TIERS), { nil: undefined }),
      isMinute: fc.boolean(),
    }),
    { maxLength: 24, selector: ({ unit, above, tier }) => `${unit} ${above} ${tier}` },
  )
  .map(rules =>
    rules.map(({ isMinute, above, tier, ...rule }) => ({
      ...rule,
      per: rule.unit === 'second' && isMinute ? 60_000 : UNITS[rule.unit].per,
      ...(above === undefined ? {} : { above }),
      ...(tier === undefined ? {} : { tier }),
    })),
  )

/** The smallest bound that covers a usage. */
const boundOf = (usage: Counts): Counts =>
  Object.fromEntries(
    UNIT_NAMES.filter(unit => UNITS[unit].wholes.length === 0 && unit !== 'request').map(unit => [
      unit,
      n(usage[unit]),
    ]),
  )

describe('a cost', () => {
  test('equals the result of the slow implementation for any usage and price', () => {
    fc.assert(
      fc.property(usages, prices, (usage, price) => {
        expect(cost(usage, price).total).toBe(naive(usage, price))
      }),
      { numRuns: RUNS },
    )
  })

  test('is the sum of its lines and the rounding', () => {
    fc.assert(
      fc.property(usages, prices, (usage, price) => {
        const { lines, rounding, total } = cost(usage, price)
        expect(lines.reduce((sum, { amount }) => sum + amount, rounding)).toBe(total * 1_000_000n)
        expect(rounding >= 0n && rounding < 1_000_000n + BigInt(lines.length)).toBe(true)
      }),
    )
  })

  test('is at most the ceiling of any bound that covers the usage', () => {
    fc.assert(
      fc.property(usages, prices, fc.nat(1_000), (usage, price, more) => {
        const bound = boundOf(usage)
        const wider = { ...bound, input: n(bound.input) + more, output: n(bound.output) + more }
        const { total } = cost(usage, price)
        expect(total <= ceiling(bound, price).total).toBe(true)
        expect(total <= ceiling(wider, price).total).toBe(true)
      }),
      { numRuns: RUNS },
    )
  })

  test('of two usages equals the cost of their sum, except for rounding and the request', () => {
    const plain = prices.map(price =>
      price.filter(({ above, tier, unit }) => above === undefined && tier === undefined && unit !== 'request'),
    )
    fc.assert(
      fc.property(usages, usages, plain, ({ tier: _, ...one }, { tier: __, ...other }, price) => {
        const both = Object.fromEntries(UNIT_NAMES.map(unit => [unit, n(one[unit]) + n(other[unit])]))
        const apart = cost(one, price).total + cost(other, price).total
        const together = cost(both, price).total
        expect(apart - together === 0n || apart - together === 1n).toBe(true)
      }),
    )
  })
})

test('a cached price has the same costs as a new one, with any steps and tiers', () => {
  fc.assert(
    fc.property(fc.array(usages, { maxLength: 8 }), prices, (all, price) => {
      for (const usage of all) {
        const anew = structuredClone(price)
        expect(cost(usage, price)).toEqual(cost(usage, anew))
        expect(ceiling(usage, price)).toEqual(ceiling(usage, anew))
      }
    }),
  )
})

test('parts never exceed their wholes, and usage that fits is unchanged', () => {
  const any = fc.record(Object.fromEntries(UNIT_NAMES.map(unit => [unit, count])), { requiredKeys: [] })
  fc.assert(
    fc.property(any, (usage: Usage) => {
      const cut = fitted(usage)
      for (const [of] of KINDS) expect(of(cut)).toBeGreaterThanOrEqual(0)
      expect(n(cut.input)).toBe(n(usage.input))
      expect(n(cut.output)).toBe(n(usage.output))
      expect(fitted(cut)).toEqual(cut)
    }),
  )
})

test('the units that an amount pays for cost at most the amount, and one more unit costs more', () => {
  fc.assert(
    fc.property(fc.bigInt({ min: 0n, max: 10n ** 12n }), prices, (amount, price) => {
      const tokens = affordable(amount, price, 'output', {})
      if (tokens >= Number.MAX_SAFE_INTEGER) return
      expect(ceiling({ output: tokens, request: 0 }, price).total <= amount).toBe(true)
      expect(ceiling({ output: tokens + 1, request: 0 }, price).total > amount).toBe(true)
    }),
  )
})

test.each<[name: string, usage: Usage, price: Price, nanos: bigint]>([
  ['tokens', { input: 1_000, output: 100 }, PRICE, 3_500_000n],
  ['cached tokens once', { input: 1_000, cached_input: 400, output: 0 }, PRICE, 1_600_000n],
  ['reasoning at the output price', { input: 0, output: 100, reasoning: 90 }, PRICE, 1_000_000n],
  ['a part without a price at the price of its whole', { input: 1_000, input_audio: 1_000 }, PRICE, 2_500_000n],
  [
    'cached audio at the price of cached input',
    { input: 10, cached_input: 10, input_audio: 10, cached_audio: 10 },
    PRICE,
    2_500n,
  ],
  [
    'an hour in the cache',
    { input: 10, cache_write: 10, cache_write_1h: 4 },
    plainPrice({ input: M1(1), cache_write: M1(2), cache_write_1h: M1(10) }),
    52n,
  ],
  ['half a minute', { second: 30_000 }, [{ unit: 'second', nanos: 6_000_000n, per: 60_000 }], 3_000_000n],
  [
    'a third of a nano-dollar is rounded up to a whole one',
    { second: 20 },
    [{ unit: 'second', nanos: 1_000n, per: 60_000 }],
    1n,
  ],
  ['the request, even without other usage', {}, plainPrice({ request: 7n }), 7n],
  ['searches', { search: 3 }, plainPrice({ search: 10_000_000n }), 30_000_000n],
])('%s', (_name, usage, price, nanos) => {
  expect(cost(usage, price).total).toBe(nanos)
})

/** A nano-dollar per token, multiplied by this. */
function M1(times: number): bigint {
  return BigInt(times) * 1_000_000n
}

describe('steps and tiers', () => {
  const price: Price = [
    ...plainPrice({ input: M1(1), cached_input: 100_000n, output: M1(2) }),
    { unit: 'input', nanos: M1(3), per: M, above: 100 },
    { unit: 'output', nanos: M1(4), per: M, above: 100 },
    { unit: 'input', nanos: M1(5), per: M, above: 200 },
    { unit: 'input', nanos: M1(10), per: M, tier: 'priority' },
  ]
  test.each<[usage: Usage, nanos: bigint]>([
    [{ input: 100, output: 10 }, 120n],
    // The step covers the whole request and counts cached tokens; they keep their own price.
    [{ input: 101, output: 10 }, 343n],
    [{ input: 110, cached_input: 100, output: 10 }, 80n],
    [{ input: 201, output: 10 }, 1_045n],
    [{ input: 201, output: 10, tier: 'priority' }, 2_050n],
    [{ input: 10, output: 10, tier: 'flex' }, 30n],
  ])('%j', (usage, nanos) => {
    expect(cost(usage, price).total).toBe(nanos)
  })

  test('a ceiling includes the steps that its bound reaches, and every tier', () => {
    const steps = price.filter(({ tier }) => tier === undefined)
    expect(ceiling({ input: 100, output: 10 }, steps).total).toBe(120n)
    expect(ceiling({ input: 101, output: 10 }, steps).total).toBe(343n)
    expect(ceiling({ input: 100, output: 10 }, price).total).toBe(1_020n)
  })
})
