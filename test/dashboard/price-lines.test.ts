/** The price lines of the page, compared with the charges of the gateway. */
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import {
  formatMoney,
  type Price,
  type PriceRule,
  plainPrice,
  priceFields,
  ruleFor,
  TIERS,
  UNIT_NAMES,
  UNITS,
} from '#contract'
import type { PriceView } from '../../src/api/views.ts'
import {
  casesOf,
  caseText,
  listsOf,
  marginText,
  type Rule,
  rateText,
  ruleFor as ruleInPage,
  rulesOf,
  unitName,
  WHOLES,
} from '../../src/dashboard/lib/price-lines.ts'

const shown = (price: Price): PriceView => ({ rules: null, ...priceFields(price) })

test('the units are those of the gateway, in its order', () => {
  expect(Object.entries(WHOLES)).toEqual(UNIT_NAMES.map(unit => [unit, UNITS[unit].wholes]))
})

test('a unit has the name that it has in gateway.yaml', () => {
  for (const unit of UNIT_NAMES) expect(unitName(unit).toLowerCase().replaceAll(' ', '_')).toBe(UNITS[unit].key)
})

test('each line has the price that the gateway charges', () => {
  const rule: fc.Arbitrary<PriceRule> = fc.record(
    {
      unit: fc.constantFrom(...UNIT_NAMES),
      nanos: fc.bigInt({ min: 0n, max: 10n ** 12n }),
      per: fc.constant(1),
      above: fc.constantFrom(1000, 2000, 3000),
      tier: fc.constantFrom(...TIERS),
    },
    { requiredKeys: ['unit', 'nanos', 'per'] },
  )
  const key = ({ unit, above, tier }: PriceRule): string => `${unit} ${above} ${tier}`
  fc.assert(
    fc.property(fc.uniqueArray(rule, { selector: key }), fc.uniqueArray(rule, { selector: key }), (price, cost) => {
      const [own, other] = [rulesOf(shown(price)), rulesOf(shown(cost))]
      for (const { unit, above, tier } of casesOf([own, other])) {
        const wanted = ruleFor(price, unit, above === undefined ? 0 : above + 1, tier)
        const found = ruleInPage(own, { unit, ...(above ? { above } : {}), ...(tier ? { tier } : {}) })
        expect(found?.price ?? '0.000000000').toBe(formatMoney(wanted?.nanos ?? 0n))
      }
    }),
  )
})

describe('the lines of a price', () => {
  test('a plain price has only units with their own price', () => {
    const plain = (more: Parameters<typeof plainPrice>[0]) =>
      casesOf([rulesOf(shown(plainPrice({ input: 5n, output: 0n, ...more })))]).map(({ unit }) => unit)
    expect(plain({})).toEqual(['input', 'output'])
    expect(plain({ cached_input: 1n, cache_write: 5n, request: 2n })).toEqual([
      'input',
      'cached_input',
      'output',
      'request',
    ])
    expect(rulesOf(null)).toEqual([])
  })

  test('are sorted by unit, tier and length, each once', () => {
    const rules: Rule[] = [
      { unit: 'output', price: '1.000000000', per: 1 },
      { unit: 'input', price: '1.000000000', per: 1, tier: 'flex' },
      { unit: 'input', price: '1.000000000', per: 1, above: 2000 },
      { unit: 'input', price: '1.000000000', per: 1, above: 1000 },
      { unit: 'input', price: '1.000000000', per: 1 },
    ]
    expect(casesOf([rules, rules]).map(each => [each.unit, caseText(each)])).toEqual([
      ['input', ''],
      ['input', 'prompt above 1,000 tokens'],
      ['input', 'prompt above 2,000 tokens'],
      ['input', 'tier flex'],
      ['output', ''],
    ])
  })
})

test.each<[rule: Rule | undefined, text: string]>([
  [{ unit: 'input', price: '2.500000000', per: 1_000_000 }, '$2.50'],
  [{ unit: 'cached_input', price: '0.000000250', per: 1000 }, '$0.00000025 for 1k tokens'],
  [{ unit: 'search', price: '0.010000000', per: 1 }, '$0.01 for one search'],
  [{ unit: 'search', price: '10.000000000', per: 1000 }, '$10.00 for 1k searches'],
  [{ unit: 'character', price: '15.000000000', per: 1_000_000 }, '$15.00 for 1M characters'],
  [{ unit: 'second', price: '0.006000000', per: 60 }, '$0.006 for 60 seconds'],
  [undefined, 'free'],
])('a rate: %j is %s', (rule, text) => {
  expect(rateText(rule)).toBe(text)
})

test('the lists of a price, each once', () => {
  const rule: Rule = { unit: 'input', price: '1.000000000', per: 1 }
  expect(listsOf([{ ...rule, source: 'a' }, rule, { ...rule, source: 'a' }])).toEqual(['a', 'set by the operator'])
})

test.each<[input: number | null, output: number | null, below: string[], text: string]>([
  [25, 25, [], '25%'],
  [25, -1.1, ['output'], '25% input, \u22121.1% output'],
  [null, -1000, ['output'], '\u22121,000% output'],
  [null, null, [], 'not known'],
  [null, null, ['input', 'output'], 'no price'],
  [null, 20, ['input'], 'no price for input, 20% output'],
  [null, null, ['output', 'cached_input'], 'no price for output'],
])('a margin: %s and %s, with %j below the cost, is %s', (input, output, below, text) => {
  const below_cost = below.map(unit => ({ target: 'p/m', unit: unit as Rule['unit'] }))
  expect(marginText({ margin: { input, output }, below_cost })).toBe(text)
})

test('a loss on long prompts does not mark ordinary ones', () => {
  const margin = { input: null, output: 20 }
  const below_cost = [{ target: 'p/m', unit: 'input' as const, above: 1000 }]
  expect(marginText({ margin, below_cost })).toBe('20% output')
})
