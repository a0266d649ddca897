/** Recovery at the next start of a dead process: its spool, its open holds, and how little it reads. */
import { existsSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { dirname } from 'node:path'
import { describe, expect, test } from 'vitest'
import type { LocalStore } from '../../../src/store/local-store.ts'
import { OPEN_HOLDS_SQL } from '../../../src/store/money/open-holds.ts'
import { createSpool } from '../../../src/store/money/spool.ts'
import { countsOf } from '../../helpers/counts.ts'
import { faultyConnector } from '../faulty.ts'
import {
  afterDeath,
  aHold,
  aSettle,
  fund,
  onEveryEngine,
  openFrom,
  testStore as openTestStore,
  type TestStore,
} from '../helpers.ts'

const counts = countsOf('ledger')

/** Opens a store as the gateway does. */
const testStore: typeof openTestStore = options => openTestStore({ writes: 'thread', ...options })

/** Closes the store, which leaves holds open, and opens it again. */
async function restart(store: TestStore): Promise<TestStore> {
  await store.close()
  return testStore({ path: store.path, folder: dirname(store.spool), clock: store.clock })
}

async function hold(store: LocalStore, exchange: string, amount = 100n): Promise<void> {
  const accountId = store.reads.findAccount('alice')!.id
  expect(await store.ledger.hold(aHold({ accountId, exchange, amount }))).toMatchObject({ held: true })
}

const NOTHING = { settled: 0, replayed: 0, rejected: 0, charged: 0n }

onEveryEngine(engine => {
  describe('open holds', () => {
    test('are settled at their last checkpoint, at 0 without one, and never above the hold', async () => {
      const store = await testStore()
      await fund(store, 1000n)
      for (const exchange of ['req_none', 'req_some', 'req_over', 'req_done']) await hold(store, exchange)
      const reached = (exchange: string, amount: bigint, output: number) => ({
        exchange,
        amount,
        usage: { input: 7, output },
      })
      await store.ledger.checkpoint([reached('req_some', 10n, 1), reached('req_over', 99n, 3), reached('req_x', 5n, 5)])
      await store.ledger.checkpoint([reached('req_some', 25n, 2), reached('req_over', 130n, 4)])
      await store.ledger.settle(aSettle({ exchange: 'req_done', amount: 40n }))

      const next = await restart(store)
      // In PostgreSQL they are still holds of the former replica.
      expect(next.openHolds()).toBe(engine === 'sqlite' ? 3 : 0)
      expect(await next.recover()).toEqual({ settled: 3, replayed: 0, rejected: 0, charged: 125n })
      expect(next.reads.findReceipt('req_none')).toMatchObject({ charged: 0n, source: 'recovered', outcome: 'failed' })
      expect(next.reads.findReceipt('req_some')).toMatchObject({ charged: 25n, usage: { input: 7, output: 2 } })
      expect(next.reads.findReceipt('req_over')).toMatchObject({ charged: 100n, source: 'recovered' })
      expect(next.reads.findReceipt('req_done')).toMatchObject({ charged: 40n, source: 'reported' })
      expect(next.reads.findAccount('alice')).toMatchObject({ posted: 835n, held: 0n })
      expect(next.reads.verify()).toMatchObject({ openHolds: 0, violations: [] })
      expect(await next.recover()).toEqual(NOTHING)
    })

    test('of the same process are alive, so recover() refuses', async () => {
      const store = await testStore()
      await fund(store, 1000n)
      await hold(store, 'req_1')
      await expect(store.recover()).rejects.toThrow(/recover\(\) was called after a hold/)
      expect(store.reads.findAccount('alice')?.held).toBe(100n)
    })

    test('thousands are settled in a few commits', async () => {
      const store = await testStore()
      await fund(store, 10n ** 9n)
      const count = counts(500, 10_000)
      await Promise.all(Array.from({ length: count }, (_, i) => hold(store, `req_${i}`)))
      const next = await restart(store)
      expect(await next.recover()).toEqual({ ...NOTHING, settled: count })
      expect(next.reads.findAccount('alice')).toMatchObject({ posted: 10n ** 9n, held: 0n })
    })

    test('of a store in memory do not exist', async () => {
      const store = await testStore({ url: 'memory' })
      expect(await store.recover()).toEqual(NOTHING)
    })
  })

  describe('the spool', () => {
    test('an invalid settle is refused before it is written', async () => {
      const store = await testStore()
      expect(() => store.ledger.spool(aSettle({ amount: -1n }))).toThrow(/amount -1/)
      expect(existsSync(store.spool)).toBe(false)
    })

    test('settles its holds once, and is then empty', async () => {
      const store = await testStore()
      await fund(store, 1000n)
      await hold(store, 'req_1')
      await hold(store, 'req_2')
      const spooled = aSettle({
        exchange: 'req_1',
        amount: 61n,
        overrun: 3n,
        code: 'upstream_truncated',
        outcome: 'cut',
      })
      // The second settle reached the ledger after all.
      await store.ledger.settle(aSettle({ exchange: 'req_2', amount: 2n }))
      expect(store.ledger.spool(spooled)).toBe('spooled')
      store.ledger.spool(spooled)
      store.ledger.spool(aSettle({ exchange: 'req_2', amount: 2n }))
      expect(statSync(store.spool).mode & 0o777).toBe(0o600)

      const next = await afterDeath(store)
      expect(await next.recover()).toEqual({ settled: 0, replayed: 1, rejected: 0, charged: 61n })
      const { exchange: id, amount: charged, overrun: _, ...fields } = spooled
      expect(next.reads.findReceipt('req_1')).toMatchObject({ id, charged, ...fields })
      expect(readFileSync(next.spool, 'utf8').trim()).toBe('')
      expect(await next.recover()).toEqual(NOTHING)
    })

    test('a spooled settle is used instead of the checkpoint of its hold', async () => {
      const store = await testStore()
      await fund(store, 1000n)
      await hold(store, 'req_1')
      await store.ledger.checkpoint([{ exchange: 'req_1', amount: 10n, usage: { input: 1, output: 1 } }])
      store.ledger.spool(aSettle({ amount: 61n }))
      const next = await afterDeath(store)
      expect(await next.recover()).toEqual({ settled: 0, replayed: 1, rejected: 0, charged: 61n })
    })

    test('of earlier versions is settled too: lines of JSON, the last one torn', async () => {
      const store = await testStore()
      await fund(store, 1000n)
      for (const exchange of ['req_1', 'req_2']) await hold(store, exchange)
      const line = JSON.stringify({ ...aSettle(), amount: '61', overrun: '0' })
      writeFileSync(store.spool, `\n${line}\n\n{"exchange":"req_0","amo`)
      // New lines are added after the torn one.
      store.ledger.spool(aSettle({ exchange: 'req_2', amount: 2n }))
      const next = await afterDeath(store, { reserve: () => 10 })
      expect(await next.recover()).toEqual({ settled: 0, replayed: 2, rejected: 1, charged: 63n })
      expect(readFileSync(`${next.spool}.rejected`, 'utf8').trim()).toBe('{"exchange":"req_0","amo')
    })

    test.each([
      ['more than the hold', { exchange: 'req_1', amount: 101n }],
      ['without a hold', { exchange: 'req_9', amount: 1n }],
    ])('a settle that is %s is moved to a file for review, and the start continues', async (_what, change) => {
      const store = await testStore()
      await fund(store, 1000n)
      await hold(store, 'req_1')
      store.ledger.spool(aSettle(change))
      const next = await afterDeath(store)
      expect(await next.recover()).toEqual({ settled: 1, replayed: 0, rejected: 1, charged: 0n })
      expect(readFileSync(`${next.spool}.rejected`, 'utf8')).toContain(change.exchange)
      expect(next.reads.verify().violations).toEqual([])
    })

    test('thousands of settles are a few commits', async () => {
      const { connector, faults } = faultyConnector()
      const store = await testStore()
      await fund(store, 10n ** 9n)
      const exchanges = Array.from({ length: 700 }, (_, index) => `req_${1000 + index}`)
      await Promise.all(exchanges.map(exchange => hold(store, exchange)))
      for (const exchange of exchanges) createSpool(store.spool).append(aSettle({ exchange }))
      const next = await afterDeath(store, { connector })
      expect(await next.recover()).toMatchObject({ replayed: 700, charged: 28_000n })
      expect(faults.commitsElsewhere).toBeLessThan(50)
    })
  })

  describe('the range of recovery', () => {
    if (engine === 'sqlite')
      test('both halves of the search use the primary key, without a scan', async () => {
        const store = await testStore()
        const database = store.connect()
        const plan = database
          .prepare(`EXPLAIN QUERY PLAN ${OPEN_HOLDS_SQL}`)
          .all('req_1')
          .map(row => row['detail'])
        database.close()
        expect(plan).toEqual([
          'SEARCH hold USING PRIMARY KEY (id>?)',
          expect.stringMatching(/SUBQUERY/),
          'SEARCH settle USING PRIMARY KEY (id=? AND kind=?)',
        ])
      })

    /** The number of events that a recovery would read after a crash now. */
    function recoveryRange(store: TestStore): { from: string; events: number } {
      const database = store.connect({ readOnly: true })
      const from = openFrom(database)
      const row = database.prepare('SELECT count(*) AS count FROM event WHERE id >= ?').get(from)
      database.close()
      return { from, events: Number(row?.['count']) }
    }

    test('begins at most a minute before the last exchange: after 500 exchanges recovery reads a few events', async () => {
      const store = await testStore()
      await fund(store, 1_000_000n)
      for (let index = 1000; index < 1500; index++) {
        store.clock.ms += 10_000
        await hold(store, `req_${index}`)
        await store.ledger.settle(aSettle({ exchange: `req_${index}` }))
      }
      // Six exchanges a minute, two events each, and the one in progress.
      expect(recoveryRange(store).events).toBeLessThanOrEqual(14)
      await store.close()
      expect(recoveryRange(store).events).toBeLessThanOrEqual(2)
    })

    test('an old open hold keeps its start', async () => {
      const store = await testStore()
      await fund(store, 1_000_000n)
      await hold(store, 'req_0000')
      for (let index = 1000; index < 1030; index++) {
        store.clock.ms += 60_000
        await hold(store, `req_${index}`)
        await store.ledger.settle(aSettle({ exchange: `req_${index}` }))
      }
      expect(recoveryRange(store).from <= 'req_0000').toBe(true)
      expect(await (await restart(store)).recover()).toMatchObject({ settled: 1 })
    })

    test('an exchange that began long ago and holds only now moves its start back', async () => {
      const store = await testStore()
      await fund(store, 1_000_000n)
      for (const exchange of ['req_5', 'req_6', 'req_7']) {
        store.clock.ms += 60_000
        await hold(store, exchange)
        await store.ledger.settle(aSettle({ exchange }))
      }
      const { from } = recoveryRange(store)
      expect(from > 'req_4').toBe(true)
      await hold(store, 'req_4')
      expect(recoveryRange(store).from).toBe('req_4')
      expect(await (await restart(store)).recover()).toMatchObject({ settled: 1 })
    })

    test('after a recovery the next start reads little', async () => {
      const store = await testStore()
      await fund(store, 1_000_000n)
      for (let index = 100; index < 200; index++) await hold(store, `req_${index}`)
      const next = await restart(store)
      await next.recover()
      await next.close()
      expect(recoveryRange(next).events).toBeLessThanOrEqual(2)
    })
  })
})
