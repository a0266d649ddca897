import fc from 'fast-check'
import { expect, test } from 'vitest'
import { Chain, type Link } from '../src/chain.ts'

test('has the order and the size of a set, whoever leaves and however often', () => {
  fc.assert(
    fc.property(fc.array(fc.tuple(fc.constantFrom('add', 'remove', 'clear'), fc.nat(20))), deeds => {
      const chain = new Chain<number>()
      const set = new Set<number>()
      const links: Link<number>[] = []
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

test('who leaves while the others are gone through is left out', () => {
  const chain = new Chain<string>()
  chain.add('a')
  const second = chain.add('b')
  chain.add('c')
  const seen: string[] = []
  for (const each of chain) {
    seen.push(each)
    chain.remove(second)
  }
  expect(seen).toEqual(['a', 'c'])
})

test('who has left leads to nobody', () => {
  const chain = new Chain<object>()
  const first = chain.add({})
  chain.add({})
  chain.remove(first)
  expect([first.before, first.after, first.value]).toEqual([null, null, null])
})
