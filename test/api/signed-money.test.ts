import { expect, test } from 'vitest'
import { parseSignedMoney } from '../../src/api/signed-money.ts'
import { UnitError } from '../../src/contract/quantities.ts'

test.each([
  ['5', 5_000_000_000n],
  ['$0.000000001', 1n],
  ['-5', -5_000_000_000n],
  ['-$5.25', -5_250_000_000n],
  ['$-5.25', -5_250_000_000n],
  ['\u2212$5', -5_000_000_000n],
  [' -5 ', -5_000_000_000n],
  ['-0', 0n],
  ['-999999999.999999999', -999_999_999_999_999_999n],
])('%j is %d', (text, amount) => {
  expect(parseSignedMoney(text)).toBe(amount)
})

test.each(['', '-', '--5', '-$-5', '-$', '- 5', '5-', '-1e3', '-.5', '+5', '-1000000000', '-0.0000000001'])(
  '%j is refused',
  text => {
    expect(() => parseSignedMoney(text)).toThrow(UnitError)
  },
)
