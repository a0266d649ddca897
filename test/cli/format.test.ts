import fc from 'fast-check'
import { expect, test } from 'vitest'
import { count, pairs, showMoney, showTime, table } from '../../src/cli/format.ts'
import { formatMoney, parseMoney } from '../../src/contract/quantities.ts'

test.each([
  ['0.000000000', '$0'],
  ['10.000000000', '$10'],
  ['5.250000000', '$5.25'],
  ['0.500000000', '$0.50'],
  ['0.000123400', '$0.0001234'],
  ['0.000000001', '$0.000000001'],
  ['1000000.100000000', '$1000000.10'],
  ['-3.000000000', '-$3'],
])('%s is shown as %s', (dollars, shown) => {
  expect(showMoney(dollars)).toBe(shown)
})

test('formatted money is exact: parsing returns the same amount', () => {
  fc.assert(
    fc.property(fc.bigInt({ min: 0n, max: 999_999_999_999_999_999n }), nano => {
      expect(parseMoney(showMoney(formatMoney(nano)))).toBe(nano)
    }),
  )
})

test('columns are aligned, numbers to the right, and no line has trailing spaces', () => {
  const columns = [{ title: 'NAME' }, { title: 'AVAILABLE', right: true }, { title: 'STATE' }]
  const rows = [
    ['a', '$0.000000001', ''],
    ['größer', '$10', 'frozen'],
  ]
  expect(table(columns, rows)).toBe(
    ['NAME       AVAILABLE  STATE', 'a       $0.000000001', 'größer           $10  frozen', ''].join('\n'),
  )
})

test('pairs are aligned', () => {
  expect(
    pairs([
      ['id', 'acc_1'],
      ['available', '$5'],
    ]),
  ).toBe('  id         acc_1\n  available  $5\n')
})

test('a count is followed by a singular or plural noun', () => {
  expect([0, 1, 2].map(number => count(number, 'model'))).toEqual(['0 models', '1 model', '2 models'])
})

test('a time is shown to the minute, in UTC', () => {
  expect(showTime('2027-01-31T09:05:59.999Z')).toBe('2027-01-31 09:05 UTC')
})
