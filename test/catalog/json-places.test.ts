import { expect, test } from 'vitest'
import { brokenAt, eachMember, MAX_DEPTH, valuesAt } from '../../src/catalog/json-places.ts'

const TEXT = `{
  "a\\"\\u007d": { "b": [ { "c": "x\\\\" }, { "c" : 1 } ], "d": "[" },
  "e": { "b": true, "\\u0062": null }
}`

test('members, their values, and those that are there twice', () => {
  const found: unknown[] = []
  const isWhole = eachMember(TEXT, ({ path, value, isRepeated }) => {
    found.push([path().join('/'), TEXT[value], isRepeated])
  })
  expect(isWhole).toBe(true)
  expect(found).toEqual([
    ['a"}', '{', false],
    ['a"}/b', '[', false],
    ['a"}/b/0/c', '"', false],
    ['a"}/b/1/c', '1', false],
    ['a"}/d', '"', false],
    ['e', '{', false],
    ['e/b', 't', false],
    ['e/b', 'n', true],
  ])
  const paths = [['e', 'b'], ['e', 'z'], ['a"}', 'd'], []]
  expect([...valuesAt(TEXT, paths)]).toEqual([
    ['a"}\0d', TEXT.indexOf('"["')],
    ['e\0b', TEXT.indexOf('true')],
  ])
})

test('a list of a million characters: all of its members', () => {
  const row = { litellm_provider: 'openai', mode: 'chat', input_cost_per_token: 1e-6, note: '{"}['.repeat(20) }
  const text = JSON.stringify(Object.fromEntries(Array.from({ length: 8000 }, (_, index) => [`model-${index}`, row])))
  expect(text.length).toBeGreaterThan(1_000_000)
  let count = 0
  eachMember(text, () => count++)
  expect(count).toBe(8000 * 5)
})

test('a text of ten million characters', () => {
  const text = `{ "a": "${'x\\"'.repeat(4_000_000)}", "b": 1 }`
  expect([...valuesAt(text, [['b']])]).toEqual([['b', text.length - 3]])
})

test.each([
  [MAX_DEPTH, true],
  [MAX_DEPTH + 1, false],
])('%i objects in one another are seen whole: %s', (depth, isWhole) => {
  expect(eachMember('{"a":'.repeat(depth) + 1 + '}'.repeat(depth), () => {})).toBe(isWhole)
})

test.each([
  ['{"a": 1}', null],
  ['', [1, 1]],
  ['nothing', [1, 2]],
  ['{\n  "a": nothing }', [2, 9]],
  ['{ "a": 1,\n  "b": x }', [2, 8]],
  ['[1, 2', [1, 6]],
  ['{ "a": 1 "b": 2 }', [1, 10]],
  ['KEY=sk-abcdef\nOTHER=1', [1, 1]],
  ['{} x', [1, 4]],
] as const)('%j is broken at %j', (text, place) => {
  expect(brokenAt(text)).toEqual(place && { line: place[0], column: place[1] })
})
