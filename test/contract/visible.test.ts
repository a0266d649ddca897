/** Control, format and other invisible characters are escaped in texts and in JSON. All others are unchanged. */
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { inColumns, isRefusal, refuse, visible, visibleJson } from '#contract'
import { countsOf } from '../helpers/counts.ts'

const counts = countsOf('corpus')

/** The first and last character of each range. */
const INVISIBLE: readonly (readonly [number, number])[] = [
  [0x00, 0x1f],
  [0x7f, 0x9f],
  [0xad, 0xad],
  [0x061c, 0x061c],
  [0x180e, 0x180e],
  [0x200b, 0x200b],
  [0x200e, 0x200f],
  [0x2028, 0x202e],
  [0x2060, 0x206f],
  [0xfeff, 0xfeff],
  [0xfff9, 0xfffb],
  [0xe0000, 0xe007f],
]
const isInvisible = (code: number) => INVISIBLE.some(([first, last]) => code >= first && code <= last)

test('of all Unicode characters, exactly the invisible ones are escaped', () => {
  const wrong: string[] = []
  for (let code = 0; code <= 0x10ffff; code++) {
    if (code >= 0xd800 && code <= 0xdfff) continue
    const character = String.fromCodePoint(code)
    const shown = visible(character)
    const right = isInvisible(code) ? /^(\\u[0-9a-f]{4}){1,2}$|^\\[bfnrt]$/.test(shown) : shown === character
    if (!right) wrong.push(`U+${code.toString(16)} ${shown}`)
    // The escape is that of JSON.
    if (isInvisible(code) && JSON.parse(`"${shown}"`) !== character) wrong.push(`U+${code.toString(16)}: ${shown}`)
  }
  expect(wrong).toEqual([])
})

test.each([
  ['a line feed', 'one\ntwo', 'one\\ntwo'],
  ['a colour', '\u001b[31mred', '\\u001b[31mred'],
  ['a colour in one character', '\u009b31mred', '\\u009b31mred'],
  ['a reversed text', 'invoice\u202egnp.exe', 'invoice\\u202egnp.exe'],
  ['an isolate', '\u2066a\u2069', '\\u2066a\\u2069'],
  ['words in tags', 'a\u{e0041}', 'a\\udb40\\udc41'],
  [
    'Persian with its joiner',
    '\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645',
    '\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645',
  ],
  ['a family', '\u{1f468}\u200d\u{1f469}\u200d\u{1f467}', '\u{1f468}\u200d\u{1f469}\u200d\u{1f467}'],
  ['Arabic', '\u0645\u0631\u062d\u0628\u0627', '\u0645\u0631\u062d\u0628\u0627'],
  ['plain words', 'a "b" \\ c', 'a "b" \\ c'],
  ['nothing', '', ''],
])('%s', (_, text, shown) => {
  expect(visible(text)).toBe(shown)
  expect(visible(shown)).toBe(shown)
})

const ANY = fc.string({ unit: 'binary', maxLength: 40 })

describe('JSON', () => {
  test('keeps its value and has no invisible characters', () => {
    fc.assert(
      fc.property(fc.array(ANY), fc.dictionary(ANY, ANY), (list, map) => {
        const shown = visibleJson(JSON.stringify({ list, map }))
        expect(JSON.parse(shown)).toEqual({ list, map })
        expect(visible(shown)).toBe(shown)
      }),
      { numRuns: counts(50, 5000) },
    )
  })
})

test('in columns, each character is replaced by one character', () => {
  fc.assert(
    fc.property(ANY, text => {
      const shown = inColumns(text)
      expect(shown).toHaveLength(text.length)
      expect(visible(shown.replaceAll('\t', ' '))).toBe(shown.replaceAll('\t', ' '))
    }),
    { numRuns: counts(50, 5000) },
  )
})

test('the texts of a refusal are escaped', () => {
  const refusal = refuse('invalid_value', { message: 'not \u202ethis', param: 'a\u0007', detail: '\u2028 that' })
  expect(isRefusal(refusal)).toBe(true)
  expect([refusal.message, refusal.param, refusal.detail]).toEqual(['not \\u202ethis', 'a\\u0007', '\\u2028 that'])
})
