import { InvalidArgumentError } from 'commander'
import { describe, expect, test } from 'vitest'
import { durationValue, expiryValue, listValue, moneyValue } from '../../src/cli/values.ts'

const NOW = Date.UTC(2026, 10, 21, 12)

describe('money', () => {
  test.each([
    ['0', 'more than $0'],
    ['0.000000000', 'more than $0'],
    ['-5', 'not an amount'],
    ['1e3', 'not an amount'],
    ['5,25', 'not an amount'],
    ['1_000', 'not an amount'],
    ['0.0000000001', 'at most 9 decimals'],
    ['', 'not an amount'],
    ['ten', 'not an amount'],
    ['NaN', 'not an amount'],
    ['Infinity', 'not an amount'],
    ['10000000000', '"10000000000" is more than the largest amount of dollars, $999999999.999999999.'],
    ['$1000000000.5', '"$1000000000.5" is more than the largest amount'],
    ['1000000000.0000000001', 'not an amount'],
  ])('%j is refused: %s', (text, reason) => {
    expect(() => moneyValue(text)).toThrow(InvalidArgumentError)
    expect(() => moneyValue(text)).toThrow(reason)
  })

  test.each([
    ['10', '10.000000000'],
    ['5.25', '5.250000000'],
    ['$0.15', '0.150000000'],
    ['0.000000001', '0.000000001'],
    ['999999999.999999999', '999999999.999999999'],
  ])('%s is %s, exactly', (text, dollars) => {
    expect(moneyValue(text)).toBe(dollars)
  })
})

describe('the expiry of a key', () => {
  test.each([
    ['2027-02-31', 'does not exist.'],
    ['2027-13-01', 'does not exist.'],
    ['2027-04-31T10:00:00Z', 'does not exist.'],
    ['2027-01-01T25:00:00Z', 'does not exist.'],
    ['2026-11-21', 'not in the future'],
    ['2026-11-21T12:00:00Z', 'not in the future'],
    ['0s', 'not in the future'],
    ['9000000d', 'after the year 9999'],
    ['tomorrow', 'span from now'],
    ['30', 'span from now'],
    ['2027-01-01T10:00:00', 'span from now'],
    ['01.02.2027', 'span from now'],
    ['', 'span from now'],
  ])('%j is refused: %s', (text, reason) => {
    expect(() => expiryValue(text, NOW)).toThrow(InvalidArgumentError)
    expect(() => expiryValue(text, NOW)).toThrow(reason)
  })

  test.each([
    ['30d', '2026-12-21T12:00:00.000Z'],
    ['12h', '2026-11-22T00:00:00.000Z'],
    ['2026-11-22', '2026-11-22T00:00:00.000Z'],
    ['2028-02-29', '2028-02-29T00:00:00.000Z'],
    ['2027-01-31T12:00Z', '2027-01-31T12:00:00.000Z'],
    ['2027-01-31T23:30:00-02:00', '2027-02-01T01:30:00.000Z'],
  ])('%s is %s', (text, iso) => {
    expect(expiryValue(text, NOW)).toBe(iso)
  })
})

test.each(['a,', ',', '', 'a,,b', ' '])('a list %j with an empty item is refused', text => {
  expect(() => listValue(text)).toThrow(InvalidArgumentError)
})

test('spaces and duplicates are removed from a list', () => {
  expect(listValue('chat-small, chat-large,chat-small')).toEqual(['chat-small', 'chat-large'])
})

test.each([['24'], ['1.5ms'], ['-1h'], ['a day']])('the span %j is refused', text => {
  expect(() => durationValue(text)).toThrow(InvalidArgumentError)
})

test.each([
  ['0s', 0],
  ['24h', 86_400_000],
  ['1.5h', 5_400_000],
])('the span %s is %i ms', (text, ms) => {
  expect(durationValue(text)).toBe(ms)
})
