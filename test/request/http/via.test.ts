/** The header `Via` for providers, and the detection of loops. */
import { expect, test } from 'vitest'
import { createVia } from '../../../src/request/http/via.ts'
import { expectWithin } from '../../helpers/promised.ts'

const OWN = /^1\.1 (tollgate-[0-9a-f]{16})$/
const other = 'tollgate-0123456789abcdef'
const via = createVia()
const own = via.onward(undefined)!
const name = OWN.exec(own)![1]!

test('the name of a gateway is unique and reveals nothing', () => {
  expect(own).toMatch(OWN)
  expect(createVia().onward(undefined)).not.toBe(own)
})

test.each<[string | undefined, string | null]>([
  [undefined, own],
  ['', own],
  ['1.1 proxy.internal, 2 edge (nginx/1.27)', own],
  [`1.1 ${other}`, `1.1 ${other}, ${own}`],
  [`1.1 front, HTTP/1.1 ${other} (a word), 1.1 edge`, `1.1 ${other}, ${own}`],
  [`1.1 ${other.toUpperCase()}`, `1.1 ${other}, ${own}`],
  [`1.1 ${other}-more`, own],
  ['1.1 tollgate-short', own],
  [own, null],
  [`1.1 front,${own},1.1 edge`, null],
  [`1.0 ${name.toUpperCase()} (again)`, null],
  [`1.1 ${other}, ${own}`, null],
  [Array.from({ length: 7 }, () => `1.1 ${other}`).join(', '), `${`1.1 ${other}, `.repeat(7)}${own}`],
  [Array.from({ length: 8 }, () => `1.1 ${other}`).join(', '), null],
])('%s', (received, onward) => {
  expect(via.onward(received)).toBe(onward)
})

test('a hostile header is read in linear time', () => {
  const startedAt = performance.now()
  for (const piece of [' ', ',', '1', '1.1 ', ', ', 'tollgate-', '1.1 tollgate-', '\t,'])
    expect(via.onward(`tollgate-${piece.repeat(16_384 / piece.length)}`)).toBe(own)
  expectWithin(performance.now() - startedAt, 1_000)
})
