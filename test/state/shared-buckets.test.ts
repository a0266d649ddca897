/** Buckets in shared memory: compared with those of one thread, with concurrent threads, and with a thread that dies. */
import { once } from 'node:events'
import { Worker } from 'node:worker_threads'
import fc from 'fast-check'
import { describe, expect, onTestFinished, test } from 'vitest'
import { createBuckets } from '../../src/state/buckets.ts'
import { type BucketMemory, createBucketMemory, SharedBuckets } from '../../src/state/shared-buckets.ts'
import { releaseLocks } from '../../src/state/shared-locks.ts'
import { countsOf } from '../helpers/counts.ts'
import { SECRET, testClock } from '../store/helpers.ts'

const counts = countsOf('replicas')

const NEVER = { capacity: 1, refillPerMs: 1e-9 }

function open(memory: BucketMemory, clock = testClock(), index = 0): SharedBuckets {
  return new SharedBuckets({ memory, clock, index, secret: SECRET })
}

/** @param dies whether the thread dies while it has a lock, after its last take */
function launch(memory: BucketMemory, index: number, takes: number, names: readonly string[], dies = false): Worker {
  const worker = new Worker(new URL('./shared-buckets.child.ts', import.meta.url), {
    workerData: { memory, index, takes, names, dies },
  })
  onTestFinished(async () => void (await worker.terminate()))
  return worker
}

test('shared buckets behave like those of one thread, in every thread', () => {
  const moves = fc.array(
    fc.record({
      name: fc.constantFrom('a', 'b', 'c', '', '__proto__'),
      thread: fc.nat(2),
      amount: fc.double({ min: 0, max: 30, noNaN: true }),
      isGiven: fc.boolean(),
      pauseMs: fc.integer({ min: -50, max: 2000 }),
      capacity: fc.constantFrom(1, 10, 20),
      refillPerMs: fc.constantFrom(0.001, 0.01),
    }),
    { maxLength: 60 },
  )
  fc.assert(
    fc.property(moves, all => {
      const clock = testClock()
      const memory = createBucketMemory(4)
      const threads = [0, 1, 2].map(index => open(memory, clock, index))
      const alone = createBuckets(clock)
      for (const { name, thread, amount, isGiven, pauseMs, ...shape } of all) {
        clock.ms += pauseMs
        if (isGiven) {
          threads[thread]!.give(name, shape, amount - 15)
          alone.give(name, shape, amount - 15)
        } else expect(threads[thread]!.take(name, shape, amount)).toEqual(alone.take(name, shape, amount))
      }
    }),
    { numRuns: counts(50, 5000) },
  )
})

test('a flood of addresses evicts no key', () => {
  const buckets = open(createBucketMemory(1))
  expect(buckets.take('main/burst/requests/key:key_1', NEVER, 1).taken).toBe(true)
  for (let index = 0; index < 100; index++) buckets.take(`main/burst/requests/address:10.0.0.${index}`, NEVER, 1)
  expect(buckets.take('main/burst/requests/key:key_1', NEVER, 1).taken).toBe(false)
})

test('when the eight places of a lock are in use, the least recently used bucket is evicted and starts full again', () => {
  const clock = testClock()
  const buckets = open(createBucketMemory(1), clock)
  const take = (name: string) => {
    clock.ms++
    return buckets.take(name, NEVER, 1).taken
  }
  const names = ['a', 'b', 'c', 'd', 'e', 'f', 'g', 'h']
  for (const name of names) expect(take(name)).toBe(true)
  for (const name of names) expect(take(name)).toBe(false)
  expect(take('i')).toBe(true)
  expect(take('b')).toBe(false)
  expect(take('a')).toBe(true)
})

test('names from before the clock was set back are evicted first', () => {
  const clock = testClock()
  const buckets = open(createBucketMemory(1), clock)
  for (let name = 0; name < 8; name++) buckets.take(`before ${name}`, NEVER, 1)
  clock.ms -= 3_600_000
  for (const name of ['a', 'b', 'c']) expect(buckets.take(name, NEVER, 1).taken).toBe(true)
  for (const name of ['a', 'b', 'c']) expect(buckets.take(name, NEVER, 1).taken).toBe(false)
})

describe('an invalid argument', () => {
  test.each<[string, (buckets: SharedBuckets) => unknown]>([
    ['an amount below 0', buckets => buckets.take('a', NEVER, -1)],
    ['no amount', buckets => buckets.take('a', NEVER, Number.NaN)],
    ['no shape', buckets => buckets.take('a', undefined as never, 1)],
    ['no number given back', buckets => buckets.give('a', NEVER, Number.POSITIVE_INFINITY)],
  ])('%s throws, and leaves nothing locked', (_, ask) => {
    const memory = createBucketMemory(1)
    expect(() => ask(open(memory))).toThrow()
    expect(Atomics.load(memory.locks, 0)).toBe(0)
    expect(open(memory, testClock(), 1).take('a', NEVER, 1).taken).toBe(true)
  })
})

test('concurrent threads never get more than there is', async () => {
  const memory = createBucketMemory(2)
  const names = ['a', 'b', 'c', 'd', 'e']
  const workers = [0, 1, 2, 3].map(index => launch(memory, index, counts(2_000, 100_000), names))
  const granted = await Promise.all(workers.map(async worker => (await once(worker, 'message'))[0] as number[]))
  expect(names.map((_, name) => granted.reduce((sum, each) => sum + each[name]!, 0))).toEqual(names.map(() => 1000))
})

test('a thread that dies with a lock blocks the others only until it is released', async () => {
  const memory = createBucketMemory(1)
  await once(launch(memory, 0, 10, ['a'], true), 'exit')
  expect(Atomics.load(memory.locks, 0)).toBe(1)
  const other = launch(memory, 1, 2000, ['a'])
  const otherGrants = once(other, 'message')
  await once(other, 'online')
  releaseLocks(memory.locks, 1)
  expect(Atomics.load(memory.locks, 0)).toBe(1)
  releaseLocks(memory.locks, 0)
  expect((await otherGrants)[0]).toEqual([990])
})
