import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { cost, costFields, fitted, formatMoney, type Price, plainPrice, priceFields, type Usage } from '#contract'
import { aligned, type Sum, sumOf } from '../../src/dashboard/lib/sum.ts'

const PRICE = plainPrice({
  input: 150_000_000n,
  cached_input: 30_000_000n,
  cache_write: 190_000_000n,
  output: 600_000_000n,
})

/** The receipt of a usage at a price. `charged` is a part of the amount; default: all. */
const spent = (usage: Usage, charged?: string, price: Price = PRICE) => {
  const fields = costFields(cost(usage, price))
  const { rules = null } = priceFields(price)
  return { ...fields, charged: charged ?? fields.cost, overrun: '0.000000000', price: { rules } }
}

/** A decimal of up to 15 places as an integer, so that the test does not add up as the code does. */
function units(text: string): bigint {
  const [whole, decimals = ''] = text.split('.')
  return BigInt(whole + decimals.padEnd(15, '0'))
}

function addedUp({ lines, rest }: Sum): bigint {
  const sum = lines.reduce((total, { amount }) => total + units(amount), 0n)
  return rest.reduce((total, { sign, amount }) => total + (sign === '' ? units(amount) : -units(amount)), sum)
}

describe('a receipt as a sum', () => {
  test('a request in progress has no sum', () => {
    expect(sumOf({ ...spent({ input: 1 }), charged: null })).toBeNull()
  })

  test('nothing used and nothing charged is an empty sum', () => {
    expect(
      sumOf({
        lines: [],
        rounding: '0.000000000000000',
        cost: '0.000000000',
        charged: '0.000000000',
        overrun: null,
        price: { rules: null },
      }),
    ).toEqual({
      lines: [],
      rest: [],
    })
  })

  test('the part that was not charged is subtracted', () => {
    const { rest } = sumOf(spent({ input: 14, output: 10 }, '0.000008000'))!
    expect(rest).toEqual([{ label: 'Not charged', sign: '\u2212', amount: '0.000000100' }])
    const capped = { ...spent({ input: 14, output: 10 }, '0.000008000'), overrun: '0.000000100' }
    expect(sumOf(capped)!.rest).toMatchObject([{ label: 'Paid by the operator' }])
  })

  test('a charge that the usage does not explain has its own row', () => {
    const { rest } = sumOf(spent({ input: 14, output: 10 }, '0.000008200'))!
    expect(rest).toEqual([{ label: 'Not in these figures', sign: '', amount: '0.000000100' }])
  })

  test('each unit has its line', () => {
    const price = [...PRICE, ...plainPrice({ request: 10_000_000n, search: 5_000_000n, second: 100_000n })]
    const used = { input: 100, cached_input: 60, cache_write: 30, output: 10, search: 2, second: 1_500 }
    const { lines, rest } = sumOf(spent(used, undefined, price))!
    expect(lines).toMatchObject([
      { label: 'Prompt', quantity: '10', price: '$0.15 per 1M', amount: '0.000001500000000' },
      { label: 'Prompt, from the cache', quantity: '60', price: '$0.03 per 1M', amount: '0.000001800000000' },
      { label: 'Prompt, written to the cache', quantity: '30', price: '$0.19 per 1M', amount: '0.000005700000000' },
      { label: 'Answer', quantity: '10', price: '$0.60 per 1M', amount: '0.000006000000000' },
      { label: 'Sound', quantity: '1.5 s', price: '$0.0001', amount: '0.000150000000000' },
      { label: 'Web searches', quantity: '2', price: '$0.005', amount: '0.010000000000000' },
      { label: 'For the request', quantity: '1', price: '$0.01', amount: '0.010000000000000' },
    ])
    expect(rest).toEqual([])
  })

  test('each line names the price list of its own price', () => {
    const rule = { unit: 'input', nanos: 1_000_000_000n, per: 1_000_000 } as const
    const price: Price = [
      { ...rule, source: 'list 1 of 2026-01-01' },
      { ...rule, above: 1000, nanos: 2_000_000_000n, source: 'list 2 of 2026-02-02' },
      { ...rule, unit: 'output' },
    ]
    const lists = (input: number) => sumOf(spent({ input, output: 5 }, undefined, price))!.lines.map(({ list }) => list)
    expect(lists(1000)).toEqual(['list 1 of 2026-01-01', null])
    expect(lists(1001)).toEqual(['list 2 of 2026-02-02', null])
  })

  test('a fraction of a nano-dollar is rounded up, in its own row', () => {
    const { lines, rest } = sumOf(spent({ input: 1 }, undefined, plainPrice({ input: 333_333n })))!
    expect(lines[0]!.amount).toBe('0.000000000333333')
    expect(rest).toEqual([{ label: 'Rounded up to a billionth of a dollar', sign: '', amount: '0.000000000666667' }])
  })

  test('the rows add up to the charge', () => {
    const count = fc.nat(2_000_000)
    const money = fc.bigInt({ min: 0n, max: 10n ** 12n })
    const usages = fc.record({ input: count, cached_input: count, cache_write: count, output: count, search: count })
    const prices = fc.record({
      input: money,
      cached_input: money,
      cache_write: money,
      output: money,
      search: money,
      request: money,
    })
    fc.assert(
      fc.property(usages, prices, money, (usage, rates, charged) => {
        const sum = sumOf(spent(fitted(usage), formatMoney(charged), plainPrice(rates)))!
        expect(addedUp(sum)).toBe(units(formatMoney(charged)))
      }),
    )
  })
})

test.each([
  [[], []],
  [['0'], ['$0.00']],
  [
    ['0.5', '12345.25'],
    ['$0.50', '$12,345.25'],
  ],
  [
    ['0.0000966', '0.000000000333333', '2.500000000'],
    [`$0.0000966${'\u2007'.repeat(8)}`, '$0.000000000333333', `$2.50${'\u2007'.repeat(13)}`],
  ],
])('aligned: %j', (amounts, wanted) => {
  expect(aligned(amounts)).toEqual(wanted)
})
