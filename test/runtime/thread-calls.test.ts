/**
 * Calls between threads, and the state that the main thread keeps for the others. Values that cannot be cloned are reported to
 * the caller.
 */
import { MessageChannel } from 'node:worker_threads'
import { expect, onTestFinished, test } from 'vitest'
import { Calls, ThreadEnded } from '../../src/runtime/thread-calls.ts'
import {
  createThreadMemory,
  createThreadState,
  type StateHandlers,
  serveState,
} from '../../src/runtime/thread-state.ts'
import { createLocalState } from '../../src/state/state.ts'
import { SECRET, testClock } from '../store/helpers.ts'

type Other = {
  same(value: unknown): unknown
  fail(): never
}

/** Connects two ends of a port in this thread. */
function connected<Handlers extends Record<string, (value: never) => unknown>>(handlers: Handlers) {
  const { port1, port2 } = new MessageChannel()
  onTestFinished(() => port1.close())
  new Calls(port2, handlers)
  return { calls: new Calls<Handlers>(port1, {}), end: () => port2.close() }
}

const functions = { same: () => () => {} }
const other: Other = {
  same: value => value,
  fail() {
    throw Object.assign(new Error('it failed'), { cause: functions.same })
  },
}

test('a call is answered, or rejects with the error of the handler, even if that cannot be cloned', async () => {
  const { calls } = connected({ ...other, ...{ cannot: functions.same } })
  expect(await calls.call('same', { a: 1n })).toEqual({ a: 1n })
  await expect(calls.call('fail')).rejects.toThrow('it failed')
  await expect(calls.call('cannot')).rejects.toThrow('could not be cloned')
})

test('a call that cannot be sent rejects, and so does one whose thread ends', async () => {
  const { calls, end } = connected(other)
  await expect(calls.call('same', () => {})).rejects.toThrow('could not be cloned')
  const waiting = calls.call('same', 1)
  end()
  await expect(waiting.then(() => calls.closed).then(() => calls.call('same', 2))).rejects.toThrow(ThreadEnded)
})

test('an invalid argument of a call without an answer throws in the step, as with one thread', () => {
  const clock = testClock()
  const memory = createThreadMemory({ clock, threads: 1, secret: SECRET, serving: () => 'c' })
  const { handlers } = serveState(createLocalState(clock), memory)
  const { calls } = connected(handlers as StateHandlers)
  const state = createThreadState(calls, { memory: null, clock, index: 1, secret: SECRET })
  for (const ttlMs of [0, -1, Number.NaN, Number.POSITIVE_INFINITY]) {
    expect(() => state.kv.set('a', 'b', ttlMs)).toThrow('the time to live must be more than 0 ms')
    expect(() => state.cacheOf('c').open('s', 1).set('a', 'b', ttlMs)).toThrow(
      'the time to live must be more than 0 ms',
    )
  }
  expect(() => state.buckets.give('a', { capacity: 1, refillPerMs: 1 }, Number.NaN)).toThrow('must be a finite number')
})

/** Two threads that serve a configuration, and open the caches of others. */
function reloading(first: string) {
  const clock = testClock()
  const state = { serving: first }
  const memory = createThreadMemory({ clock, threads: 2, secret: SECRET, serving: () => state.serving })
  const open = (configuration: string) => memory.openCache({ configuration, scope: 's', maxBytes: 1024 })
  return { clock, state, memory, open }
}

test('the cache of the serving configuration stays, however old it is; others are dropped after a reload', () => {
  const { clock, state, memory, open } = reloading('A')
  const a = open('A')
  clock.ms += 3_600_000
  // A thread prepares B, and another one refuses it.
  const b = open('B')
  memory.dropOldCaches()
  expect(open('A')).toBe(a)
  // The locks of a dead thread are released.
  a.locks[0] = 2
  memory.forget(1)
  expect(a.locks[0]).toBe(0)
  // The cache of a refused configuration is dropped after a minute.
  clock.ms += 60_001
  memory.dropOldCaches()
  expect(open('B')).not.toBe(b)
  state.serving = 'B'
  memory.dropOldCaches()
  expect(open('A')).not.toBe(a)
})

test('the cache of a configuration that served a moment ago is kept, in case it returns', () => {
  const { clock, state, memory, open } = reloading('A')
  const a = open('A')
  clock.ms += 60_000
  open('B')
  state.serving = 'B'
  memory.dropOldCaches()
  expect(open('A')).toBe(a)
})
