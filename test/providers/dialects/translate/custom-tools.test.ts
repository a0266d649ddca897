/** Inputs of custom tools, read from function arguments that arrive in any pieces. */
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { InputReader, inputOf } from '../../../../src/providers/dialects/translate/custom-tools.ts'

/** JSON of a text; characters are escaped where `escaped` says so. */
const jsonOf = (text: string, escaped: readonly boolean[]): string =>
  [...text]
    .flatMap(character => character.split(''))
    .map((unit, index) => {
      const code = unit.charCodeAt(0)
      const isPlain = code >= 0x20 && unit !== '"' && unit !== '\\' && (code < 0xd800 || code > 0xdfff)
      return isPlain && !escaped[index % (escaped.length || 1)] ? unit : `\\u${code.toString(16).padStart(4, '0')}`
    })
    .join('')

test('arguments in any pieces give the whole input, and no piece splits a character', () => {
  const text = fc.string({ unit: fc.constantFrom('a', '"', '\\', '/', '\n', '\u0000', 'ä', '😀') })
  fc.assert(
    fc.property(text, fc.array(fc.boolean()), fc.array(fc.integer({ min: 1, max: 9 })), (input, escaped, sizes) => {
      const json = `{ "input" : "${jsonOf(input, escaped)}" }`
      expect(inputOf(json)).toBe(input)
      const reader = new InputReader()
      const read: string[] = []
      for (let at = 0, turn = 0; at < json.length; turn++) {
        const size = sizes[turn % (sizes.length || 1)] ?? 1
        read.push(reader.push(json.slice(at, at + size)))
        at += size
      }
      read.push(reader.end())
      expect(read.join('')).toBe(input)
      expect(read.every(piece => piece.isWellFormed())).toBe(true)
    }),
  )
})

test.each([
  ['', ''],
  ['{}', ''],
  ['plain text', 'plain text'],
  ['"a text"', 'a text'],
  ['{"patch":"x"}', 'x'],
  ['{"a":"x","b":"y"}', '{"a":"x","b":"y"}'],
  ['{"a":"x","input":"y"}', 'y'],
  ['[1]', '[1]'],
  ['null', 'null'],
  ['{"input":"a\nb"}', 'a\nb'],
  ['{"input":"cut \\u00', 'cut '],
  ['{"input":"cut \\', 'cut '],
  ['{"inp', '{"inp'],
  ['{"input":"\\/\\b\\f\\n\\r\\t\\"\\\\"}', '/\b\f\n\r\t"\\'],
  ['{"input":"a\\d+ b"}', 'a\\d+ b'],
  ['{"input":"\\u00zz \\u0"}', '\\u00zz \\u0'],
  ['{"input":"a\\d", "b":1}', 'a\\d'],
  ['{"input":"a\\d"', 'a\\d'],
  ['{"input":"a\\d",', 'a\\d'],
])('%j is read as %j, whole and in pieces', (json, input) => {
  expect(inputOf(json)).toBe(input)
  const reader = new InputReader()
  expect([...json].map(piece => reader.push(piece)).join('') + reader.end()).toBe(input)
  expect(reader.push('x') + reader.end()).toBe('')
})

test('whole arguments with unescaped quotes are used as the input', () => {
  const text = '{"input":"print("hi")"}'
  expect(inputOf(text)).toBe(text)
})
