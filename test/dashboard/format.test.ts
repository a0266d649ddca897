/** How the page formats figures and times. */
import { expect, test } from 'vitest'
import {
  amountOf,
  compact,
  count,
  dollars,
  duration,
  exactMoney,
  limit,
  money,
  moneyAtLeast,
  moneyColumn,
  nano,
  percent,
  plural,
  relative,
  sum,
} from '../../src/dashboard/lib/format.ts'

test.each([
  ['a text without an amount', 'about five', null],
  ['nothing', '  ', null],
  ['a negative amount', '-1', null],
  ['more decimals than there are nano-dollars', '0.0000000001', null],
  ['commas in the wrong places', '1,00', null],
  ['a comma for a point', '2,50', null],
  ['more than an account can hold', '10000000000', null],
  ['an exponent', '1e3', null],
  ['a whole number', '25', '25.000000000'],
  ['cents', '2.50', '2.500000000'],
  ['a dollar sign and spaces', ' $ 2.5 ', '2.500000000'],
  ['thousands', '$1,234,567.89', '1234567.890000000'],
  ['one nano-dollar', '0.000000001', '0.000000001'],
])('a typed amount: %s', (_name, typed, expected) => {
  expect(amountOf(typed)).toBe(expected)
})

test.each([
  ['0.000000000', '$0.00', '$0.00'],
  ['1.250000000', '$1.25', '$1.25'],
  ['1234.500000000', '$1,234.50', '$1,234.50'],
  ['0.500000000', '$0.50', '$0.50'],
  ['0.052300000', '$0.0523', '$0.0523'],
  ['0.000033750', '$0.0000338', '$0.00003375'],
  ['0.000034000', '$0.000034', '$0.000034'],
  ['0.000000001', '$0.000000001', '$0.000000001'],
  ['0.000000012', '$0.000000012', '$0.000000012'],
  ['0.999999999', '$1.00', '$0.999999999'],
  ['0.099960000', '$0.10', '$0.09996'],
  ['0.009996000', '$0.01', '$0.009996'],
  ['1.999999999', '$2.00', '$1.999999999'],
  ['42.277175000', '$42.28', '$42.277175'],
  ['-1.250000000', '\u2212$1.25', '\u2212$1.25'],
  ['-0.000261000', '\u2212$0.000261', '\u2212$0.000261'],
  // More than a floating-point number can hold.
  ['9007199254.740993001', '$9,007,199,254.74', '$9,007,199,254.740993001'],
])('money: %s is %s, exactly %s', (value, short, exact) => {
  expect(money(value)).toBe(short)
  expect(exactMoney(value)).toBe(exact)
})

test.each([
  ['0.000000000', '$0.00'],
  ['5.000000000', '$5.00'],
  ['4.999999999', '$4.99'],
  ['4.998560000', '$4.99'],
  ['4.500010000', '$4.50'],
  ['0.999999999', '$0.999'],
  ['0.010000000', '$0.01'],
  ['0.009999999', '$0.00999'],
  ['0.000033759', '$0.0000337'],
  ['0.000000019', '$0.000000019'],
  ['9007199254.749999999', '$9,007,199,254.74'],
  // Below zero, rounding down goes away from zero.
  ['-1.250000001', '\u2212$1.26'],
  ['-0.999999999', '\u2212$1.00'],
])('a balance: %s is %s, and is never rounded up', (value, shown) => {
  expect(moneyAtLeast(value)).toBe(shown)
  const said = nano(shown.replace('\u2212', '-').replace(/[$,]/g, ''))
  expect(said <= nano(value)).toBe(true)
})

test.each([
  ['nothing', [], {}, []],
  ['cents', ['12.500000000', '0.250000000', '0'], {}, ['$12.50', '$0.25', '$0.00']],
  [
    'one precision below a dollar, cents above',
    ['1234.567000000', '0.000034000', '0.500000000', '0', '-0.020000000'],
    {},
    ['$1,234.57____', '$0.000034', '$0.500000', '$0.00____', '\u2212$0.020000'],
  ],
  ['what people have', ['4.998560000', '0.999999999'], { owned: true }, ['$4.99_', '$0.999']],
  ['every decimal', ['12.500000000', '1.125000000', '0.075000000'], { exact: true }, ['$12.50_', '$1.125', '$0.075']],
])('a column of %s', (_, amounts, options, wanted) => {
  const column = moneyColumn(amounts, options)
  expect(column.map(text => text.replaceAll('\u2007', '_'))).toEqual(wanted)
  // The same number of characters after every point aligns the points.
  expect(new Set(column.map(text => text.length - text.indexOf('.'))).size).toBeLessThan(2)
})

test('nano-dollars and back, without a floating-point number in between', () => {
  for (const value of ['0.000000001', '-0.000000001', '9223372036.854775807', '123.456789012']) {
    expect(dollars(nano(value))).toBe(value)
  }
  expect(nano('no money')).toBe(0n)
  expect(sum(['0.100000000', '0.200000000', '-0.300000001'])).toBe('-0.000000001')
  expect(sum([])).toBe('0.000000000')
})

test.each([
  ['of nothing', 1n, 0n, 0],
  ['nothing', 0n, 5n, 0],
  ['less than nothing', -1n, 5n, 0],
  ['more than all', 6n, 5n, 100],
  ['a third', 1n, 3n, 33.33],
  ['half of what floats cannot hold', 4611686018427387904n, 9223372036854775808n, 50],
])('a percentage: %s', (_name, part, whole, expected) => {
  expect(percent(part, whole)).toBe(expected)
})

test.each([
  [0, '0'],
  [940, '940'],
  [999, '999'],
  [1000, '1k'],
  [12_345, '12.3k'],
  [999_949, '999.9k'],
  [999_950, '1M'],
  [1_250_000, '1.3M'],
  [2_000_000_000, '2B'],
])('tokens: %i is %s', (value, expected) => {
  expect(compact(value)).toBe(expected)
})

test.each([
  [0, '0'],
  [1024, '1Ki'],
  [131_072, '128Ki'],
  [1_048_576, '1Mi'],
  [1_049_600, '1,025Ki'],
  [131_071, '131.1k'],
  [128_000, '128k'],
  [1_050_000, '1,050k'],
  [2_000_000, '2M'],
  [200_000, '200k'],
])('a limit of tokens: %i is %s', (value, expected) => {
  expect(limit(value)).toBe(expected)
})

test.each([
  [0, '0 ms'],
  [340.4, '340 ms'],
  [1000, '1 s'],
  [1234, '1.2 s'],
  [59_940, '59.9 s'],
  [59_960, '1 min'],
  [123_000, '2 min 3 s'],
  [3_600_000, '1 h'],
  [11_040_000, '3 h 4 min'],
  [190_800_000, '2 d 5 h'],
])('a duration: %d ms is %s', (ms, expected) => {
  expect(duration(ms)).toBe(expected)
})

const NOW = Date.parse('2026-11-21T12:00:00.000Z')

test.each([
  ['2026-11-21T11:59:55.000Z', 'just now'],
  ['2026-11-21T12:00:05.000Z', 'just now'],
  ['2026-11-21T11:59:30.000Z', '30 seconds ago'],
  ['2026-11-21T11:58:01.000Z', '1 minute ago'],
  ['2026-11-21T10:00:30.000Z', '1 hour ago'],
  ['2026-11-19T12:00:01.000Z', '1 day ago'],
  ['2026-11-27T11:59:59.000Z', 'in 6 days'],
  ['2027-02-19T11:59:59.000Z', 'in 90 days'],
  ['2027-11-21T11:59:00.000Z', 'in 12 months'],
  ['2023-11-20T12:00:00.000Z', '3 years ago'],
])('a time: %s is %s', (iso, expected) => {
  expect(relative(iso, NOW)).toBe(expected)
})

test('counts and their words', () => {
  expect(count(1_234_567)).toBe('1,234,567')
  expect(plural(1, 'key')).toBe('1 key')
  expect(plural(0, 'key')).toBe('0 keys')
  expect(plural(1200, 'entry', 'entries')).toBe('1,200 entries')
})
