/** Amounts in sentences for clients: no digits that read as a status after which clients try again. */
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { parseMoney } from '#contract'
import { roundedDown, roundedUp } from './rounded.ts'

test.each([
  ['0', '$0.00', '$0.00'],
  ['0.000000001', '$0.000001', '$0.00'],
  ['0.000000100', '$0.000001', '$0.00'],
  ['0.018557500', '$0.018558', '$0.018557'],
  ['0.05', '$0.05', '$0.05'],
  ['0.5', '$0.50', '$0.50'],
  ['5', '$5.00', '$5.00'],
  ['0.0005', '$0.0005', '$0.0005'],
  ['0.005004', '$0.00505', '$0.004999'],
  ['0.000429', '$0.00043', '$0.000428'],
  ['0.500100', '$0.505', '$0.499999'],
  ['500', '$505.00', '$499.999999'],
  ['5041.17', '$5050.00', '$4999.999999'],
  ['1234.567891', '$1234.567891', '$1234.567891'],
  ['-3', '$-3.00', '$0.00'],
])('%s is %s at least and %s at most', (amount, up, down) => {
  const nano = parseMoney(amount.replace('-', '')) * (amount.startsWith('-') ? -1n : 1n)
  expect([roundedUp(nano), roundedDown(nano)]).toEqual([up, down])
})

test('any amount: the right side of it, near to it, and no status', () => {
  fc.assert(
    fc.property(fc.bigInt({ min: 0n, max: 10n ** 16n }), nano => {
      const texts = [roundedUp(nano), roundedDown(nano)]
      for (const text of texts) expect(text).not.toMatch(/408|409|425|429|50[0-4]|52\d|\.\d{7}/)
      const [up, down] = texts.map(text => parseMoney(text)) as [bigint, bigint]
      const most = nano / 49n + 1000n
      expect(up >= nano && down <= nano).toBe(true)
      expect(up - nano <= most && nano - down <= most).toBe(true)
    }),
  )
})
