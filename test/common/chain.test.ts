import fc from 'fast-check'
import { expect, test } from 'vitest'
import { Chain, type ChainNode } from '../../src/common/chain.ts'

test('has the order and the size of a set after any removals', () => {
  fc.assert(
    fc.property(fc.array(fc.tuple(fc.constantFrom('add', 'remove', 'clear'), fc.nat(20))), deeds => {
      const chain = new Chain<number>()
      const set = new Set<number>()
      const links: ChainNode<number>[] = []
      for (const [deed, nth] of deeds) {
        if (deed === 'add') {
          set.add(links.length)
          links.push(chain.add(links.length))
        } else if (deed === 'clear') {
          set.clear()
          chain.clear()
        } else if (links.length > 0) {
          set.delete(nth % links.length)
          chain.remove(links[nth % links.length]!)
        }
        expect([...chain]).toEqual([...set])
        expect(chain.size).toBe(set.size)
      }
    }),
  )
})

test.each<[name: string, go: (chain: Chain<string>, visit: (value: string) => void) => void]>([
  ['for of', (chain, visit) => [...chain].forEach(visit)],
  ['forEach', (chain, visit) => chain.forEach(visit)],
])('a removal during an iteration does not end it (%s)', (name, go) => {
  const chain = new Chain<string>()
  const links = ['a', 'b', 'c', 'd', 'e'].map(value => chain.add(value))
  const seen: string[] = []
  go(chain, value => {
    seen.push(value)
    // The current one, and the next two.
    if (value === 'a') for (const link of links.slice(0, 3)) chain.remove(link)
  })
  if (name === 'forEach') expect(seen).toEqual(['a', 'd', 'e'])
  expect(seen.at(-1)).toBe('e')
  expect([...chain]).toEqual(['d', 'e'])
})

test('a removed node has no references', () => {
  const chain = new Chain<object>()
  const first = chain.add({})
  chain.add({})
  chain.remove(first)
  expect([first.before, first.after, first.value]).toEqual([null, null, null])
})
