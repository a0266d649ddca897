/** Header values that are text in UTF-8, and values that are not. */
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { headerBytes, headerText } from '#contract'

test.each([
  ['Latin-1', 'Z\u00fcrich'],
  ['an end within a character', headerBytes('Zürich').slice(0, 2)],
  ['a long form of an ASCII character', '\u00c0\u00af'],
  ['half of a surrogate pair', '\u00ed\u00a0\u0080'],
])('%s is not UTF-8', (_name, value) => {
  expect(headerText(value)).toBeNull()
})

test('every other text survives a round trip', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'grapheme' }), text => {
      expect(headerText(headerBytes(text))).toBe(text)
    }),
  )
})
