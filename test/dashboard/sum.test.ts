import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { costOf, formatMoney } from '#contract'
import { aligned, type Sum, sumOf } from '../../src/dashboard/lib/sum.ts'

const PRICE = {
  unit: '1M tokens',
  input: '0.150000000',
  cached_input: '0.030000000',
  cache_write: '0.190000000',
  output: '0.600000000',
  request: '0.000000000',
  web_search: '0.000000000',
} as const

const spent = {
  price: PRICE,
  charged: '0.000008100' as string | null,
  prompt_tokens: 14,
  cached_tokens: 0,
  cache_write_tokens: 0,
  completion_tokens: 10,
  searches: 0,
}

/** A decimal of up to 15 places as an integer, to add up by another way than the code does. */
function units(text: string): bigint {
  const [whole, decimals = ''] = text.split('.')
  return BigInt(whole + decimals.padEnd(15, '0'))
}

function addedUp({ lines, request, searches, rounding }: Sum): bigint {
  const rest = [request, searches?.amount, rounding].map(amount => units(amount ?? '0'))
  return [...lines.map(({ amount }) => units(amount)), ...rest].reduce((sum, each) => sum + each, 0n)
}

describe('a receipt as a sum', () => {
  test('under way there is none', () => {
    expect(sumOf({ ...spent, charged: null })).toBeNull()
  })

  test('nothing used and nothing charged is an empty sum, whatever a request costs', () => {
    const price = { ...PRICE, request: '0.010000000' }
    expect(sumOf({ ...spent, price, charged: '0.000000000', prompt_tokens: 0, completion_tokens: 0 })).toEqual({
      lines: [],
      request: null,
      searches: null,
      rounding: null,
      total: '0.000000000',
      relief: null,
      excess: null,
    })
  })

  test('a price by request stands by itself', () => {
    const price = { ...PRICE, request: '0.010000000' }
    const sum = sumOf({ ...spent, price, charged: '0.010000000', prompt_tokens: 0, completion_tokens: 0 })
    expect(sum).toMatchObject({ lines: [], request: '0.010000000', total: '0.010000000', relief: null })
  })

  test('what was never held is the relief', () => {
    expect(sumOf({ ...spent, charged: '0.000008000' })).toMatchObject({ total: '0.000008100', relief: '0.000000100' })
  })

  test('what the tokens do not explain is said, and not hidden', () => {
    expect(sumOf({ ...spent, charged: '0.000008200' })).toMatchObject({ relief: null, excess: '0.000000100' })
  })

  test('each kind of token has its line', () => {
    const sum = sumOf({
      ...spent,
      prompt_tokens: 100,
      cached_tokens: 60,
      cache_write_tokens: 30,
      charged: '0.000015000',
    })
    expect(sum!.lines).toEqual([
      { label: 'Prompt', tokens: 10, price: '0.150000000', amount: '0.0000015' },
      { label: 'Prompt, from the cache', tokens: 60, price: '0.030000000', amount: '0.0000018' },
      { label: 'Prompt, written to the cache', tokens: 30, price: '0.190000000', amount: '0.0000057' },
      { label: 'Answer', tokens: 10, price: '0.600000000', amount: '0.000006' },
    ])
    expect(sum).toMatchObject({ rounding: null, total: '0.000015000', relief: null })
  })

  test('a fraction of a nano-dollar is rounded up, and said', () => {
    const price = { ...PRICE, input: '0.000333333' }
    const sum = sumOf({ ...spent, price, prompt_tokens: 1, completion_tokens: 0, charged: '0.000000001' })
    expect(sum).toMatchObject({ rounding: '0.000000000666667', total: '0.000000001', relief: null })
    expect(sum!.lines[0]!.amount).toBe('0.000000000333333')
  })

  test('the lines add up to the total, and the total is what the gateway charges', () => {
    const tokens = fc.nat(2_000_000)
    const money = fc.bigInt({ min: 0n, max: 10n ** 12n })
    fc.assert(
      fc.property(
        fc.array(tokens, { minLength: 5, maxLength: 5 }),
        fc.array(money, { minLength: 6, maxLength: 6 }),
        (counts, prices) => {
          const [a, b, c, d, searches] = counts as [number, number, number, number, number]
          fc.pre(a + b + c + d > 0)
          const [input, cachedInput, cacheWrite, output, request, search] = prices as [
            bigint,
            bigint,
            bigint,
            bigint,
            bigint,
            bigint,
          ]
          const prompt = a + b + c
          const cost = costOf(
            { input, cachedInput, cacheWrite, output, request, search },
            { prompt, cached: b, cacheWrite: c, completion: d, searches },
          )
          const sum = sumOf({
            price: {
              unit: '1M tokens',
              input: formatMoney(input),
              cached_input: formatMoney(cachedInput),
              cache_write: formatMoney(cacheWrite),
              output: formatMoney(output),
              request: formatMoney(request),
              web_search: formatMoney(search),
            },
            charged: formatMoney(cost),
            prompt_tokens: prompt,
            cached_tokens: b,
            cache_write_tokens: c,
            completion_tokens: d,
            searches,
          })!
          expect(sum.total).toBe(formatMoney(cost))
          expect(sum).toMatchObject({ relief: null, excess: null })
          expect(addedUp(sum)).toBe(units(sum.total))
        },
      ),
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
