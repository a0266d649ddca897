import { expect, test } from 'vitest'
import { createVersions, createVersionWords } from '../../src/state/versions.ts'

test('a change is visible to all holders of the words, and affects few other names', () => {
  const words = createVersionWords()
  const [one, two] = [createVersions(words), createVersions(words)]
  const names = Array.from({ length: 1000 }, (_, index) => `main/step-${index}`)
  const before = names.map(name => two.get(name))
  one.change('main/step-7')
  const changed = names.filter((name, index) => two.get(name) !== before[index])
  expect(changed).toContain('main/step-7')
  expect(changed.length).toBeLessThan(10)
  // A name of any length and letters.
  for (const name of ['', '\u{1f600}', 'x'.repeat(10_000)]) {
    const seen = two.get(name)
    one.change(name)
    expect(two.get(name)).not.toBe(seen)
  }
})

test('names are spread over the words', () => {
  const { get, change } = createVersions()
  const names = Array.from({ length: 4096 }, (_, index) => `policy/${index}`)
  for (const name of names) change(name)
  expect(Math.max(...names.map(name => Number(get(name))))).toBeLessThan(12)
})
