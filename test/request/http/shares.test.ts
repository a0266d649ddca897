import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { freeShare, Shares } from '../../../src/request/http/shares.ts'

const TOTAL = 1000
const create = (least = 0) => new Shares({ total: () => TOTAL, share: freeShare(() => least) })

/** Takes in small pieces until the share is used up. Returns the number of bytes. */
function takeAll(shares: Shares, owner: string): number {
  let taken = 0
  while (shares.take(owner, 1)) taken++
  return taken
}

describe('an owner', () => {
  test.each([
    ['alone has half', [], 500],
    ['beside one at its limit has half of the rest', ['a'], 250],
    ['beside two has half of the rest', ['a', 'b'], 125],
    ['beside three has half of the rest', ['a', 'b', 'c'], 63],
  ])('%s', (_name, before, expected) => {
    const shares = create()
    for (const owner of before) takeAll(shares, owner)
    expect(takeAll(shares, 'last')).toBe(expected)
  })

  test('has at least the minimum share, as far as the total allows', () => {
    const shares = create(700)
    expect(takeAll(shares, 'a')).toBe(700)
    expect(takeAll(shares, 'b')).toBe(300)
    expect(takeAll(shares, 'c')).toBe(0)
  })

  test('is dropped when it has returned everything', () => {
    const shares = create()
    const room = shares.of('a')
    expect(room.take(400)).toBe(true)
    expect(shares.held('a')).toBe(400)
    room.give(400)
    expect([shares.held('a'), shares.bytes]).toEqual([0, 0])
  })
})

test('all owners together never exceed the total, and an owner without bytes is never refused while there is room', () => {
  const move = fc.record({
    owner: fc.constantFrom('a', 'b', 'c', 'd'),
    bytes: fc.integer({ min: 1, max: 400 }),
    gives: fc.boolean(),
  })
  fc.assert(
    fc.property(fc.array(move, { maxLength: 200 }), moves => {
      const shares = create()
      const has = new Map<string, number>()
      for (const { owner, bytes, gives } of moves) {
        const own = has.get(owner) ?? 0
        if (gives) {
          shares.add(owner, -own)
          has.set(owner, 0)
        } else {
          const free = TOTAL - shares.bytes
          const taken = shares.take(owner, bytes)
          if (own === 0) expect(taken).toBe(bytes <= free)
          if (taken) has.set(owner, own + bytes)
        }
        expect(shares.bytes).toBe([...has.values()].reduce((sum, each) => sum + each, 0))
        expect(shares.bytes).toBeLessThanOrEqual(TOTAL)
      }
    }),
  )
})
