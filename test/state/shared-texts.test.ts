/** Texts in shared memory: compared with a map, with concurrent threads, and with a thread that dies. */
import { once } from 'node:events'
import { Worker } from 'node:worker_threads'
import fc from 'fast-check'
import { describe, expect, onTestFinished, test } from 'vitest'
import { lock } from '../../src/state/shared-locks.ts'
import { createTextMemory, forgetTexts, SharedTexts, type TextMemory } from '../../src/state/shared-texts.ts'
import { countsOf } from '../helpers/counts.ts'
import { SECRET, testClock } from '../store/helpers.ts'

const counts = countsOf('replicas')

const open = (memory: TextMemory, clock = testClock(), index = 1) =>
  new SharedTexts({ memory, clock, index, secret: SECRET })

/** The bytes of a text of 100 letters. */
const EACH = 40 + 104

describe('a thread that dies', () => {
  test('with the lock blocks others for a moment, and they find nothing; then everything works again', () => {
    const memory = createTextMemory(10_000)
    const texts = open(memory)
    texts.set('a', 'one', 1000)
    lock(memory.locks, 0, 2)
    expect(texts.get('a')).toBeUndefined()
    texts.set('b', 'not for ever', 1000)
    forgetTexts(memory, 3)
    expect(texts.get('a')).toBeUndefined()
    forgetTexts(memory, 2)
    // The dead thread may have been in the middle of a change.
    expect([texts.get('a'), texts.get('b')]).toEqual([undefined, undefined])
    texts.set('a', 'three', 1000)
    expect(texts.get('a')).toBe('three')
  })

  test('without the lock has no effect', () => {
    const memory = createTextMemory(10_000)
    open(memory, testClock(), 2).set('a', 'one', 1000)
    forgetTexts(memory, 2)
    expect(open(memory).get('a')).toBe('one')
  })
})

test.each([0, -1, Number.NaN, Number.POSITIVE_INFINITY])('a time to live of %s ms is a bug of the caller', ttlMs => {
  expect(() => open(createTextMemory(1000)).set('a', 'one', ttlMs)).toThrow(RangeError)
})

test('every thread finds a text until it expires, is replaced or is deleted', () => {
  const clock = testClock()
  const memory = createTextMemory(10_000)
  const [one, two] = [open(memory, clock, 1), open(memory, clock, 2)]
  one.set('a', 'one', 1000)
  one.set('b', '', 5000)
  clock.ms += 999
  expect([two.get('a'), two.get('b')]).toEqual(['one', ''])
  two.set('a', 'two', 1000)
  clock.ms += 999
  expect(one.get('a')).toBe('two')
  clock.ms += 1
  expect([one.get('a'), one.get('b')]).toEqual([undefined, ''])
  one.delete('b')
  expect(two.get('b')).toBeUndefined()
})

describe('memory', () => {
  test('is bounded: the oldest text is evicted, unless it was read since', () => {
    const texts = open(createTextMemory(3 * EACH))
    for (const name of ['a', 'b', 'c']) texts.set(name, 'x'.repeat(100), 1000)
    texts.get('a')
    texts.set('d', 'x'.repeat(100), 1000)
    expect(['a', 'b', 'c', 'd'].map(name => texts.get(name) !== undefined)).toEqual([true, false, true, true])
  })

  test('is not used for a text that exceeds all of it, and the former text is removed too', () => {
    const texts = open(createTextMemory(1000))
    texts.set('a', 'one', 1000)
    texts.set('a', 'x'.repeat(1000), 1000)
    expect(texts.get('a')).toBeUndefined()
    texts.set('a', 'x'.repeat(960), 1000)
    expect(texts.get('a')).toHaveLength(960)
  })

  test('that is smaller than a text holds none', () => {
    const texts = open(createTextMemory(1))
    texts.set('a', 'one', 1000)
    expect(texts.get('a')).toBeUndefined()
  })
})

const TEXT = fc.oneof(
  fc.string({ maxLength: 300 }),
  fc.string({ unit: 'binary', maxLength: 60 }),
  // Also halves of surrogate pairs, which UTF-8 cannot encode.
  fc.array(fc.integer({ min: 0, max: 0xffff }), { maxLength: 60 }).map(units => String.fromCharCode(...units)),
)
const MOVES = fc.array(
  fc.record({
    name: fc.constantFrom('a', 'b', 'c', 'd', 'e', 'f', '', '__proto__'),
    thread: fc.nat(1),
    move: fc.constantFrom('set', 'set', 'get', 'get', 'delete'),
    text: TEXT,
    ttlMs: fc.integer({ min: 1, max: 500 }),
    pauseMs: fc.nat(50),
  }),
  { maxLength: 200 },
)

test.each([
  ['all texts while there is room', 1_000_000, true],
  ['no text but the last', 1000, false],
  ['no text but the last, with little room', 200, false],
])('a thread finds %s', (_, bytes, findsAll) => {
  fc.assert(
    fc.property(MOVES, moves => {
      const clock = testClock()
      const memory = createTextMemory(bytes)
      const threads = [open(memory, clock, 1), open(memory, clock, 2)]
      const known = new Map<string, { text: string; until: number }>()
      for (const { name, thread, move, text, ttlMs, pauseMs } of moves) {
        clock.ms += pauseMs
        const texts = threads[thread]!
        if (move === 'set') {
          texts.set(name, text, ttlMs)
          known.set(name, { text, until: clock.ms + ttlMs })
        } else if (move === 'delete') {
          texts.delete(name)
          known.delete(name)
        } else {
          const last = known.get(name)
          const expected = last !== undefined && clock.ms < last.until ? last.text : undefined
          const found = texts.get(name)
          if (findsAll || found !== undefined) expect(found).toBe(expected)
        }
      }
    }),
    { numRuns: counts(50, 3000) },
  )
})

test('concurrent threads find complete texts only, and those of the name', async () => {
  const memory = createTextMemory(20_000)
  const workers = [1, 2, 3, 4].map(index => {
    const workerData = { memory, index, rounds: counts(1000, 100_000) }
    const worker = new Worker(new URL('./shared-texts.child.ts', import.meta.url), { workerData })
    onTestFinished(async () => void (await worker.terminate()))
    return worker
  })
  const results = await Promise.all(
    workers.map(async worker => (await once(worker, 'message'))[0] as { found: number; wrong: string[] }),
  )
  expect(results.flatMap(({ wrong }) => wrong)).toEqual([])
  expect(Math.min(...results.map(({ found }) => found))).toBeGreaterThan(0)
})
