import { expect, test } from 'vitest'
import { firstOfMost } from '../../src/common/first-of-most.ts'

const ownerOf = (item: string) => item.charAt(0)

test.each([
  [[], undefined],
  [['a1', 'b1', 'b2', 'a2', 'b3'], 'b1'],
  [['c1', 'a1', 'b1', 'b2', 'a2'], 'a1'],
])('%j: %s', (items, first) => {
  expect(firstOfMost(items, ownerOf)).toBe(first)
})

test('a million owners with one item, and one with two', () => {
  const items = Array.from({ length: 1_000_000 }, (_, index) => String(index))
  expect(firstOfMost([...items, '7'], item => item)).toBe('7')
})
