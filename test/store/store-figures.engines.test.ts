/** The store's own figures for metrics, on both engines and in each writing thread. */
import { expect, test } from 'vitest'
import { CommitCounter, createCommitWords, readCommits } from '../../src/store/store-figures.ts'
import { createMailbox, createMailboxMemory, fillOf } from '../../src/store/thread/mailbox.ts'
import { until } from '../helpers/until.ts'
import { faultyConnector } from './faulty.ts'
import { aHold, aSettle, fund, onEveryEngine, testStore } from './helpers.ts'

const sumOf = (counts: readonly number[]) => counts.reduce((sum, each) => sum + each, 0)

onEveryEngine(() => {
  test.each(['thread', 'here'] as const)(
    'operations of one turn share a commit, which is counted once, written by: %s',
    async writes => {
      const store = await testStore({ writes })
      const accountId = await fund(store, 10_000n)
      const before = store.writing().commits!
      await Promise.all(
        Array.from({ length: 30 }, (_, at) => store.ledger.hold(aHold({ accountId, exchange: `req_${at}` }))),
      )
      const { seconds, operations, refused } = store.writing().commits!
      expect(operations.count - before.operations.count).toBe(1)
      expect(operations.sum - before.operations.sum).toBe(30)
      const bucket = operations.limits.indexOf(32)
      expect(operations.counts[bucket]! - before.operations.counts[bucket]!).toBe(1)
      expect(seconds.count).toBe(operations.count)
      expect(seconds.sum).toBeGreaterThan(before.seconds.sum)
      expect(seconds.sum - before.seconds.sum).toBeLessThan(30)
      expect(sumOf(seconds.counts)).toBeLessThanOrEqual(seconds.count)
      expect(refused).toBe(0)
      expect(store.writing().waiting).toBe(0)
      expect(store.writing().mailboxFull).toBe(0)
    },
  )
})

test('operations that the database refuses are counted once, without their retries', async () => {
  const { connector, faults } = faultyConnector()
  const store = await testStore({ connector, writes: 'thread' })
  const accountId = await fund(store, 1000n)
  const before = store.writing().commits!.operations.count
  faults.before = 3
  await expect(store.ledger.hold(aHold({ accountId }))).rejects.toThrow('could not be written')
  expect(store.writing().commits).toMatchObject({ refused: 1, operations: { count: before } })
})

test('the counts of a thread that died are kept', async () => {
  const { connector, faults } = faultyConnector()
  const store = await testStore({ connector, writes: 'thread' })
  const accountId = await fund(store, 1000n)
  await store.ledger.hold(aHold({ accountId, exchange: 'req_1' }))
  const before = store.writing().commits!.operations.count
  faults.dieBefore = 1
  await expect(store.ledger.hold(aHold({ accountId, exchange: 'req_2' }))).rejects.toThrow()
  await store.ledger.settle(aSettle({ exchange: 'req_1', amount: 1n }))
  expect(store.writing().commits!.operations.count).toBeGreaterThan(before)
})

test('operations without an answer count as waiting', async () => {
  const { connector, faults } = faultyConnector()
  const store = await testStore({ connector, writes: 'thread' })
  const accountId = await fund(store, 1000n)
  faults.delayMs = 300
  const holds = ['req_1', 'req_2'].map(exchange => store.ledger.hold(aHold({ accountId, exchange })))
  expect(store.writing().waiting).toBe(2)
  await Promise.all(holds)
  expect(store.writing().waiting).toBe(0)
})

test('a full mailbox is counted, and its fill is reported', async () => {
  const { connector, faults } = faultyConnector()
  const store = await testStore({ connector, writes: 'thread' })
  const accountId = await fund(store, 10_000_000n)
  faults.delayMs = 100
  // More than fits a mailbox.
  const holds = Array.from({ length: 10_000 }, (_, at) =>
    store.ledger.hold(aHold({ accountId, exchange: `req_${at}` })),
  )
  await until(() => expect(store.writing().mailboxFull).toBeGreaterThan(0))
  expect(store.writing().mailboxFill).toBeGreaterThan(0.5)
  expect(store.writing().mailboxFill).toBeLessThanOrEqual(1)
  faults.delayMs = 0
  await Promise.all(holds)
  expect(store.writing().mailboxFill).toBe(0)
})

test('the fill of a mailbox is its unread part, also after its ends have wrapped', () => {
  const memory = createMailboxMemory(64)
  memory.ends.fill(-16)
  const [writer, reader] = [createMailbox(memory), createMailbox(memory)]
  expect(fillOf(memory)).toBe(0)
  writer.reserve(12)
  writer.put(12)
  expect(fillOf(memory)).toBe(0)
  writer.publish()
  expect(fillOf(memory)).toBe(0.25)
  writer.reserve(12)
  writer.put(12)
  writer.publish()
  expect([fillOf(memory), memory.ends[1]]).toEqual([0.5, 16])
  reader.next()
  reader.release()
  expect(fillOf(memory)).toBe(0.25)
})

test.each([
  ['a value at a limit is inside', 0.5, 2],
  ['a value between two limits', 0.7, 3],
  ['a value beyond all buckets is in none', 60_000, -1],
  ['a clock that is set back counts as no time', -5, 0],
])('%s', (_what, tookMs, bucket) => {
  const words = createCommitWords()
  let nowMs = 1000
  const counter = new CommitCounter(words, () => nowMs)
  const began = counter.now()
  nowMs += tookMs
  counter.committed(600, began)
  const { seconds, operations } = readCommits(words)
  expect(seconds.counts.indexOf(1)).toBe(bucket)
  expect([seconds.count, operations.count, operations.sum]).toEqual([1, 1, 600])
  expect(seconds.sum).toBeCloseTo(Math.max(0, tookMs) / 1000, 9)
  expect(sumOf(operations.counts)).toBe(0)
})
