import { expect, test } from 'vitest'
import { membersIn, valuesAt } from '../../src/catalog/json-places.ts'

const TEXT = `{
  "a\\"}": { "b": [ { "c": "x\\\\" }, { "c" : 1 } ], "d": "[" },
  "e": { "b": true, "b": null }
}`

test('members, their values, and those that are there twice', () => {
  const found = [...membersIn(TEXT)].map(({ path, value, isRepeated }) => [path.join('/'), TEXT[value], isRepeated])
  expect(found).toEqual([
    ['a\\"}', '{', false],
    ['a\\"}/b', '[', false],
    ['a\\"}/b/c', '"', false],
    ['a\\"}/b/c', '1', false],
    ['a\\"}/d', '"', false],
    ['e', '{', false],
    ['e/b', 't', false],
    ['e/b', 'n', true],
  ])
  const paths = [
    ['e', 'b'],
    ['e', 'z'],
  ]
  expect([...valuesAt(TEXT, paths)]).toEqual([['e\0b', TEXT.indexOf('true')]])
})

test('a list of a million characters takes no second', () => {
  const row = { litellm_provider: 'openai', mode: 'chat', input_cost_per_token: 1e-6, note: '{"}['.repeat(20) }
  const text = JSON.stringify(Object.fromEntries(Array.from({ length: 8000 }, (_, index) => [`model-${index}`, row])))
  expect(text.length).toBeGreaterThan(1_000_000)
  expect([...membersIn(text)]).toHaveLength(8000 * 5)
})
