import fc from 'fast-check'
import { expect, test } from 'vitest'
import { Heap, Reorder, Timeline } from '../../src/replay/timeline.ts'

test('a heap returns the smallest first, and equals in order of insertion', () => {
  fc.assert(
    fc.property(fc.array(fc.nat(20), { maxLength: 200 }), times => {
      const heap = new Heap<readonly [number, number]>()
      times.forEach((at, nth) => {
        heap.push(at, [at, nth])
      })
      const popped = Array.from({ length: times.length }, () => heap.pop()!)
      const expected = times.map((at, nth) => [at, nth] as const).sort(([a, n], [b, m]) => a - b || n - m)
      expect(popped).toEqual(expected)
      expect(heap.pop()).toBe(undefined)
      expect(heap.first).toBe(Number.POSITIVE_INFINITY)
    }),
  )
})

const BOUNDS = { items: 1_000, bytes: 1_000_000, ms: 100 }

function ordered(bounds: typeof BOUNDS, lines: { at: number; ms: number }[]): number[] {
  const order = new Reorder<{ at: number; ms: number; id: string }>(bounds)
  const out: number[] = []
  const drain = (isLast: boolean) => {
    for (let next = order.next(isLast); next; next = order.next(isLast)) out.push(next.at)
  }
  for (const line of [...lines].sort((a, b) => a.at + a.ms - b.at - b.ms)) {
    order.push({ id: '', ...line }, 10)
    drain(false)
  }
  drain(true)
  return out
}

test('lines written at their end are sorted by their start, if none lasts longer than the window', () => {
  const line = fc.record({ at: fc.nat(10_000), ms: fc.nat(100) })
  fc.assert(
    fc.property(fc.array(line, { maxLength: 100 }), lines => {
      expect(ordered(BOUNDS, lines)).toEqual(lines.map(({ at }) => at).sort((a, b) => a - b))
    }),
  )
})

test('memory is bounded: above the bound the next available line is released', () => {
  const lines = [...Array.from({ length: 10 }, (_, at) => ({ at: 100 + at, ms: 0 })), { at: 0, ms: 120 }]
  expect(ordered({ ...BOUNDS, ms: 1_000 }, lines)[0]).toBe(0)
  expect(ordered({ ...BOUNDS, ms: 1_000, items: 5 }, lines)[0]).toBe(100)
  expect(ordered({ ...BOUNDS, ms: 1_000, bytes: 50 }, lines)[0]).toBe(100)
})

test('tasks run in order of their times, also those that a task adds', async () => {
  const timeline = new Timeline()
  const seen: string[] = []
  const say = (word: string) => () => void seen.push(`${word} ${timeline.now()}`)
  timeline.at(20, say('b'))
  timeline.at(10, () => {
    say('a')()
    timeline.at(15, say('between'))
    timeline.at(5, say('past'))
  })
  timeline.at(30, say('c'))
  await timeline.pass(25, async () => void seen.push('settled'))
  expect(seen).toEqual(['a 10', 'settled', 'past 10', 'settled', 'between 15', 'settled', 'b 20', 'settled'])
  expect(timeline.now()).toBe(25)
  await timeline.pass(Number.POSITIVE_INFINITY, async () => {})
  expect(seen.at(-1)).toBe('c 30')
  expect(timeline.now()).toBe(30)
})

test('within one millisecond the smaller id is first', () => {
  const order = new Reorder<{ at: number; ms: number; id: string }>(BOUNDS)
  for (const id of ['c', 'a', 'b']) order.push({ at: 5, ms: 1, id }, 1)
  expect([1, 2, 3].map(() => order.next(true)!.id)).toEqual(['a', 'b', 'c'])
})
