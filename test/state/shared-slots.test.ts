/** Slots in shared memory: compared with plain counting, with concurrent threads, with waiting requests, and with a thread that dies. */
import { once } from 'node:events'
import { Worker } from 'node:worker_threads'
import fc from 'fast-check'
import { expect, onTestFinished, test } from 'vitest'
import type { Slot } from '#contract'
import { lock } from '../../src/state/shared-locks.ts'
import { createSlotMemory, SharedSlots, type SlotMemory } from '../../src/state/shared-slots.ts'
import { LocalSlots } from '../../src/state/slots.ts'
import { countsOf } from '../helpers/counts.ts'
import { SECRET } from '../store/helpers.ts'

const counts = countsOf('replicas')

const THREADS = 3
const QUEUE = { length: 9, wait: 60_000 }

function open(memory: SlotMemory, index: number): SharedSlots {
  return new SharedSlots({ memory, index, secret: SECRET })
}

const placesUsed = ({ used }: SlotMemory) => used.reduce((sum, each) => sum + each, 0)

test('the slots and locks of a dead thread are released', () => {
  const memory = createSlotMemory(THREADS, 1)
  const [main, dead, other] = [open(memory, 0), open(memory, 1), open(memory, 2)]
  expect([dead.enter('a', 3), dead.enter('a', 3), other.enter('a', 3), other.enter('a', 3)]).toEqual([1, 2, 3, 0])
  dead.enter('only its own', 1)
  expect(lock(memory.locks, 0, 1)).toBe(true)
  main.forget(1)
  expect([other.enter('a', 3), other.enter('a', 3), other.enter('a', 3)]).toEqual([2, 3, 0])
  for (let count = 0; count < 3; count++) other.leave('a')
  expect(placesUsed(memory)).toBe(0)
})

test('the main thread does not wait for the lock of a dead thread, and retries its operation later', async () => {
  const memory = createSlotMemory(THREADS, 1)
  const [main, other] = [open(memory, 0), open(memory, 2)]
  expect(main.enter('a', 1)).toBe(1)
  lock(memory.locks, 0, 1)
  expect(main.enter('a', 2)).toBe(0)
  expect(main.leave('a')).toBe(false)
  main.forget(1)
  await expect.poll(() => other.enter('a', 1)).toBe(1)
})

test('when all places of a set are used, one more name is refused until a place is free', () => {
  const memory = createSlotMemory(THREADS, 1)
  const slots = open(memory, 1)
  const names = Array.from({ length: 64 }, (_, index) => `name ${index}`)
  for (const name of names) expect(slots.enter(name, 2)).toBe(1)
  expect(slots.enter('one more', 2)).toBe(0)
  for (const name of names) expect(slots.enter(name, 2)).toBe(2)
  for (const name of names.slice(0, 1)) expect([slots.leave(name), slots.leave(name)]).toEqual([false, false])
  expect(slots.enter('one more', 2)).toBe(1)
})

test('addresses, however many, use no place of a key', () => {
  const slots = open(createSlotMemory(THREADS, 1), 1)
  const ofAddresses = Array.from({ length: 100 }, (_, index) => slots.enter(`main/few/address:10.0.0.${index}`, 2))
  expect(ofAddresses).toContain(0)
  expect(slots.enter('main/few/key:key_1', 2)).toBe(1)
})

test('a waiting request precedes later ones of any thread, and gets a returned slot', async () => {
  const memory = createSlotMemory(THREADS)
  const main = new LocalSlots(open(memory, 0))
  const [one, two] = [open(memory, 1), open(memory, 2)]
  const { signal } = new AbortController()
  expect([one.enter('a', 1), two.enter('a', 1)]).toEqual([1, 0])
  const first = main.wait('a', 1, QUEUE, signal)
  const second = main.wait('a', 1, QUEUE, signal)
  // No request may pass waiting ones, even with a higher limit.
  expect(two.enter('a', 9)).toBe(0)
  expect(one.leave('a')).toBe(true)
  expect(two.enter('a', 1)).toBe(0)
  main.retry('a')
  const slot = (await first) as Slot
  expect(slot.inside).toBe(1)
  slot.free()
  ;((await second) as Slot).free()
  expect([two.enter('a', 1), two.leave('a')]).toEqual([1, false])
  expect([main.size, placesUsed(memory)]).toEqual([0, 0])
})

test('a request that leaves the queue leaves nothing behind; a slot that was given back meanwhile is found', async () => {
  const memory = createSlotMemory(THREADS)
  const main = new LocalSlots(open(memory, 0))
  const one = open(memory, 1)
  one.enter('a', 1)
  const controller = new AbortController()
  const waiting = main.wait('a', 1, QUEUE, controller.signal)
  controller.abort()
  expect(await waiting).toBe('left')
  expect(one.leave('a')).toBe(false)
  // A thread refused this request; the slot became free before the request waits here.
  const late = (await main.wait('a', 1, QUEUE, new AbortController().signal)) as Slot
  late.free()
  // No notification is sent: a thread may die before it notifies.
  one.enter('a', 1)
  const waitingUnnotified = main.wait('a', 1, QUEUE, new AbortController().signal)
  expect(one.leave('a')).toBe(true)
  ;((await waitingUnnotified) as Slot).free()
  expect([main.size, placesUsed(memory)]).toEqual([0, 0])
})

test('shared slots count like those of one thread, in every thread', () => {
  const moves = fc.array(
    fc.record({
      name: fc.constantFrom('a', 'b', 'c', '', '__proto__'),
      thread: fc.integer({ min: 0, max: THREADS }),
      limit: fc.integer({ min: 1, max: 4 }),
      isLeft: fc.boolean(),
    }),
    { maxLength: 80 },
  )
  fc.assert(
    fc.property(moves, all => {
      const memory = createSlotMemory(THREADS, 1)
      const threads = Array.from({ length: THREADS + 1 }, (_, index) => open(memory, index))
      const inside = new Map<string, number[]>()
      // If the main thread is refused, a request waits from then on.
      const awaited = new Set<string>()
      for (const { name, thread, limit, isLeft } of all) {
        const all = inside.get(name) ?? [0, 0, 0, 0]
        inside.set(name, all)
        const taken = all.reduce((sum, each) => sum + each)
        if (isLeft) {
          if (all[thread] === 0) continue
          all[thread]!--
          expect(threads[thread]!.leave(name)).toBe(awaited.has(name))
        } else {
          const isFree = taken < limit && (thread === 0 || !awaited.has(name))
          expect(threads[thread]!.enter(name, limit)).toBe(isFree ? taken + 1 : 0)
          if (isFree) all[thread]!++
          else if (thread === 0) awaited.add(name)
        }
      }
      for (const name of awaited) threads[0]!.over(name)
      for (const [name, all] of inside) {
        all.forEach((count, thread) => {
          for (let each = 0; each < count; each++) threads[thread]!.leave(name)
        })
      }
      expect(placesUsed(memory)).toBe(0)
    }),
    { numRuns: counts(50, 5000) },
  )
})

test('concurrent threads never exceed the limit', async () => {
  const memory = createSlotMemory(4, 2)
  const names = ['a', 'b', 'c', 'd', 'e']
  const inside = new Int32Array(new SharedArrayBuffer(4 * names.length))
  const rounds = counts(1000, 100_000)
  const workers = [1, 2, 3, 4].map(index => {
    const workerData = { memory, index, names, inside, limit: 2, rounds }
    const worker = new Worker(new URL('./shared-slots.child.ts', import.meta.url), { workerData })
    onTestFinished(async () => void (await worker.terminate()))
    return worker
  })
  const maxima = await Promise.all(workers.map(async worker => (await once(worker, 'message'))[0] as number))
  expect(Math.max(...maxima)).toBe(2)
  expect(placesUsed(memory)).toBe(0)
})
