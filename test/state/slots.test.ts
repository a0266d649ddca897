/** Slots of one process. */
import { getEventListeners } from 'node:events'
import { expect, test } from 'vitest'
import type { Slot } from '#contract'
import { LocalSlots } from '../../src/state/slots.ts'

test('a slot that is freed twice is freed once', () => {
  const slots = new LocalSlots()
  const [one, two] = [slots.enter('a', 2) as Slot, slots.enter('a', 2) as Slot]
  one.free()
  one.free()
  expect(slots.inside('a')).toBe(1)
  expect(slots.enter('a', 1)).toBeNull()
  two.free()
  expect(slots.size).toBe(0)
})

test('a reload with a lower limit admits no request until there is room; waiting ones keep their limit and their turn', async () => {
  const slots = new LocalSlots()
  const [one, two] = [slots.enter('a', 2) as Slot, slots.enter('a', 2) as Slot]
  const { signal } = new AbortController()
  const waiting = slots.wait('a', 2, { length: 9, wait: 60_000 }, signal)
  const later = slots.wait('a', 1, { length: 9, wait: 60_000 }, signal)
  expect(getEventListeners(signal, 'abort')).toHaveLength(2)
  expect(slots.waiting).toBe(2)
  // A higher limit does not let requests pass waiting ones either.
  expect(slots.enter('a', 9)).toBeNull()
  one.free()
  const three = await waiting
  expect(slots.inside('a')).toBe(2)
  two.free()
  expect(slots.inside('a')).toBe(1)
  ;(three as Slot).free()
  ;((await later) as Slot).free()
  expect([slots.size, slots.waiting]).toEqual([0, 0])
  expect(getEventListeners(signal, 'abort')).toHaveLength(0)
})

test('a slot that is freed between `enter` and `wait` is taken at once', async () => {
  const slots = new LocalSlots()
  const one = slots.enter('a', 1) as Slot
  expect(slots.enter('a', 1)).toBeNull()
  one.free()
  const two = await slots.wait('a', 1, { length: 9, wait: 60_000 }, new AbortController().signal)
  expect(two).toMatchObject({ inside: 1 })
  ;(two as Slot).free()
  expect(slots.size).toBe(0)
})

test('only the first waiting request calls the shared counter', async () => {
  let asked = 0
  const slots = new LocalSlots({
    async enter() {
      asked++
      return 0
    },
    leave() {},
    share: limit => limit,
  })
  const controller = new AbortController()
  const waiting = Array.from({ length: 20 }, () => slots.wait('a', 1, { length: 99, wait: 60_000 }, controller.signal))
  expect(asked).toBe(1)
  controller.abort()
  expect(await Promise.all(waiting)).toEqual(Array(20).fill('left'))
  await expect.poll(() => slots.size).toBe(0)
})
