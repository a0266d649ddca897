/** Several processes with one store in PostgreSQL: leases, the holds of dead processes, and fencing. */
import { setTimeout as wait } from 'node:timers/promises'
import { describe, expect, onTestFinished, test } from 'vitest'
import { openServedStore } from '../../../src/store/engine/sqlite.ts'
import { createRecoveryReads } from '../../../src/store/money/recovery.ts'
import type { Store } from '../../../src/store/store.ts'
import { countsOf } from '../../helpers/counts.ts'
import { beside, endLease, QUICK, replicas, run } from '../beside.ts'
import { read, serve } from '../daily-work.ts'
import { aHold, aSettle, folder, fund, onPostgres, SECRET, type TestStore, testStore } from '../helpers.ts'

const counts = countsOf('replicas')

/** Opens the store as a gateway does: reads run in other threads. */
async function served({ path, clock }: TestStore): Promise<Store> {
  const opened = await openServedStore({ ...QUICK, url: path, secret: SECRET, clock, folder: folder() })
  onTestFinished(() => opened.close())
  return opened
}

onPostgres(() => {
  describe('a lease', () => {
    test('is held while the process lives, and given back at its end', async () => {
      const one = await testStore(QUICK)
      const two = await beside(one)
      expect(replicas(one).map(({ id }) => id)).toEqual([1, 2])
      await two.close()
      expect(replicas(one).map(({ id }) => id)).toEqual([1])
    })

    test('is extended by each renewal', async () => {
      const one = await testStore(QUICK)
      await one.recover()
      const until = () => String(run(one, 'SELECT lease_until FROM replica')[0]!['lease_until'])
      const before = until()
      await expect.poll(until).not.toBe(before)
    })

    test('reports the last renewal and the number of failures for metrics', async () => {
      const one = await testStore(QUICK)
      const bornMs = one.clock.ms
      expect(one.lease()).toEqual({ renewedAtMs: bornMs, failures: 0, takeovers: 0 })
      await one.recover()
      one.clock.ms += 5000
      await expect.poll(() => one.lease()!.renewedAtMs).toBe(bornMs + 5000)
      run(one, "UPDATE replica SET taken_by = 99, lease_until = clock_timestamp() + interval '60 s' WHERE id = 1")
      one.clock.ms += 5000
      await expect.poll(() => one.lease()!.failures).toBeGreaterThan(0)
      expect(one.lease()!.renewedAtMs).toBe(bornMs + 5000)
    })

    test('that has ended lets others settle open holds at their last checkpoint, once', async () => {
      const one = await testStore({ writes: 'thread' })
      const accountId = await fund(one, 1000n)
      for (const exchange of ['req_1', 'req_2']) {
        await one.ledger.hold(aHold({ accountId, exchange, amount: 100n }))
      }
      await one.ledger.checkpoint([{ exchange: 'req_1', amount: 40n, usage: { input: 1, output: 1 } }])
      const others = await Promise.all([beside(one), beside(one)])
      for (const other of others) await other.recover()
      endLease(one, 1)
      await expect.poll(() => others[0]!.reads.findAccount('alice')).toMatchObject({ posted: 960n, held: 0n })
      await expect.poll(() => replicas(one).map(({ id }) => id)).toEqual([2, 3])
      expect(others[0]!.reads.findReceipt('req_1')).toMatchObject({ charged: 40n, source: 'recovered' })
      expect(others[0]!.reads.verify()).toMatchObject({ openHolds: 0, violations: [] })
      // A takeover is counted when the answer of the database arrives, a moment after others see the result.
      await expect.poll(() => others.map(other => other.lease()!.takeovers).sort()).toEqual([0, 1])
    })

    test('that has ended lets its process correct once, and serve again when the others are done', async () => {
      const one = await testStore(QUICK)
      const accountId = await fund(one, 1000n)
      await one.ledger.hold(aHold({ accountId, exchange: 'req_1', amount: 100n }))
      // As after a suspended process: another process is in the middle of a takeover.
      run(one, "UPDATE replica SET taken_by = 99, lease_until = clock_timestamp() + interval '60 s' WHERE id = 1")
      await expect(one.ledger.hold(aHold({ accountId, exchange: 'req_2', amount: 100n }))).rejects.toThrow(
        /the lease of this replica \(1\) has ended/,
      )
      // The takeover is done.
      const two = await beside(one)
      await two.ledger.settle({ ...aSettle({ exchange: 'req_1', amount: 40n }), source: 'recovered' })
      run(one, 'DELETE FROM replica WHERE id = 1 RETURNING id')
      await expect
        .poll(async () => one.ledger.hold(aHold({ accountId, exchange: 'req_3', amount: 100n })).catch(() => null))
        .toMatchObject({ held: true })
      expect(await one.ledger.settle(aSettle({ exchange: 'req_1', amount: 90n }))).toBe('corrected')
      expect(await one.ledger.settle(aSettle({ exchange: 'req_1', amount: 95n }))).toBe('already_settled')
      expect(one.reads.findAccount('alice')).toMatchObject({ posted: 910n, held: 100n })
      // A later takeover finds the new hold.
      expect(one.reads.verify()).toMatchObject({ openHolds: 1, violations: [] })
    })

    test('does not matter for an abandoned statement: the server does not run it when its lock is free', async () => {
      const one = await testStore(QUICK)
      const accountId = await fund(one, 1000n)
      const other = one.connect()
      onTestFinished(() => other.close())
      other.exec('BEGIN')
      other.prepare('SELECT * FROM balance FOR UPDATE').all()
      await expect(one.ledger.hold(aHold({ accountId, exchange: 'req_1', amount: 100n }))).rejects.toMatchObject({
        written: 'unknown',
      })
      one.ledger.abandon(aSettle({ exchange: 'req_1', amount: 0n }))
      await expect.poll(() => one.unwritten()).toMatchObject({ spooled: 0, waiting: 0 })
      await expect
        .poll(() => one.ledger.hold(aHold({ accountId: 'acc_none', exchange: 'req_2', amount: 1n })).catch(() => null))
        .toMatchObject({ held: false })
      other.exec('COMMIT')
      const busy = `SELECT 1 FROM pg_stat_activity
        WHERE datname = current_database() AND state <> 'idle' AND pid <> pg_backend_pid()`
      await expect.poll(() => run(one, busy)).toEqual([])
      expect(one.reads.verify()).toMatchObject({ openHolds: 0, violations: [] })
      expect(one.reads.findAccount('alice')).toMatchObject({ posted: 1000n, held: 0n })
      expect(await one.ledger.hold(aHold({ accountId, exchange: 'req_3', amount: 100n }))).toMatchObject({ held: true })
    })

    test('is renewed while the holds of a dead replica cannot be read; they are settled as soon as they can', async () => {
      const one = await testStore({ writes: 'thread' })
      const accountId = await fund(one, 1000n)
      await one.ledger.hold(aHold({ accountId, exchange: 'req_1', amount: 100n }))
      const two = await served(one)
      await two.recover()
      const other = one.connect()
      onTestFinished(() => other.close())
      other.exec('BEGIN')
      other.exec('LOCK TABLE event IN ACCESS EXCLUSIVE MODE')
      endLease(one, 1)
      await expect.poll(() => replicas(one)[0]).toEqual({ id: 1, taken_by: 2 })
      const until = () => String(run(one, 'SELECT lease_until FROM replica WHERE id = 2')[0]!['lease_until'])
      for (let renewals = 0; renewals < 3; renewals++) {
        const before = until()
        await expect.poll(until).not.toBe(before)
      }
      // Longer than a read may take.
      await wait(1500)
      other.exec('COMMIT')
      await expect.poll(() => one.reads.findAccount('alice')).toMatchObject({ posted: 1000n, held: 0n })
      await expect.poll(() => replicas(one).map(({ id }) => id)).toEqual([2])
      expect(two.lease()).toMatchObject({ failures: 0 })
    })

    test('that its replica has regained: the former takeover finds none of the new holds', async () => {
      const one = await testStore(QUICK)
      const accountId = await fund(one, 1000n)
      await one.ledger.hold(aHold({ accountId, exchange: 'req_1', amount: 100n }))
      const database = one.connect()
      onTestFinished(() => database.close())
      const found = () => createRecoveryReads(database).orphanedHolds({ replica: 1, lane: null, takenBy: 2 })
      run(one, 'UPDATE replica SET taken_by = 2 WHERE id = 1')
      expect(found().map(({ exchange }) => exchange)).toEqual(['req_1'])
      for (const takenBy of ['3', 'NULL']) {
        run(one, `UPDATE replica SET taken_by = ${takenBy} WHERE id = 1`)
        expect(found()).toEqual([])
      }
    })

    test('is taken over again if the first takeover died in the middle', async () => {
      const one = await testStore({ writes: 'thread' })
      const accountId = await fund(one, 1000n)
      await one.ledger.hold(aHold({ accountId, exchange: 'req_1', amount: 100n }))
      run(one, "UPDATE replica SET taken_by = 99, lease_until = clock_timestamp() - interval '1 s' WHERE id = 1")
      const two = await beside(one)
      await two.recover()
      await expect.poll(() => two.reads.findAccount('alice')).toMatchObject({ posted: 1000n, held: 0n })
    })

    test('of a closed process with open holds ends at once', async () => {
      const one = await testStore({ writes: 'thread' })
      const accountId = await fund(one, 1000n)
      await one.ledger.hold(aHold({ accountId, exchange: 'req_1', amount: 100n }))
      await one.close()
      const two = await beside(one)
      expect(await two.recover()).toMatchObject({ settled: 1 })
    })

    test('is not taken over by a start whose folder comes from another database and has the same replica number', async () => {
      const path = folder()
      const elsewhere = await testStore({ writes: 'thread', folder: path })
      await elsewhere.close()
      const one = await testStore({ writes: 'thread' })
      const accountId = await fund(one, 1000n)
      await one.ledger.hold(aHold({ accountId, exchange: 'req_1', amount: 100n }))
      expect(replicas(one)).toMatchObject([{ id: 1 }])
      // As when the server has just started: no replica is connected.
      run(
        one,
        `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
        WHERE datname = current_database() AND application_name = 'tollgate replica 1'`,
      )
      const two = await beside(one, { folder: path })
      expect(await two.recover()).toMatchObject({ settled: 0 })
      expect(replicas(one)).toMatchObject([{ id: 1, taken_by: null }, { id: 2 }])
      await one.ledger.settle(aSettle({ exchange: 'req_1', amount: 60n }))
      expect(one.reads.findAccount('alice')).toMatchObject({ posted: 940n, held: 0n })
    })

    test('of all replicas that ended during an outage: no returning replica is taken over', async () => {
      // A lease interval in which each replica can renew.
      const slow = { roundMs: 500 }
      const all = [await testStore({ ...QUICK, ...slow })]
      all.push(await beside(all[0]!, slow), await beside(all[0]!, slow))
      const accountId = await fund(all[0]!, 10_000n)
      for (const [index, store] of all.entries()) {
        await store.recover()
        await store.ledger.hold(aHold({ accountId, exchange: `req_${index}`, amount: 100n }))
      }
      for (let times = 0; times < counts(1, 20); times++) {
        // Each replica has lost its connection too, as after an outage. One statement does both, so no replica is alive in between.
        run(
          all[0]!,
          `WITH ended AS (UPDATE replica SET lease_until = clock_timestamp() - interval '1 s' RETURNING id)
          SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
          WHERE (SELECT count(*) FROM ended) > 0
            AND datname = current_database() AND application_name LIKE 'tollgate replica %'`,
        )
        await expect
          .poll(() => run(all[0]!, 'SELECT id FROM replica WHERE lease_until > clock_timestamp()').length)
          .toBe(3)
      }
      expect(all[0]!.reads.findAccount('alice')?.held).toBe(300n)
    })
  })

  describe('a newer version that migrates the database', () => {
    test('lets a running older one continue', async () => {
      const old = await testStore(QUICK)
      await old.recover()
      read(old, await serve(old, 'before'))
      const tables = run(old, "SELECT tablename AS name FROM pg_tables WHERE schemaname = 'public'").map(
        row => row['name'],
      )
      expect(tables).toContain('event')
      // `correction` inherits the column from `event`.
      for (const name of tables.filter(each => each !== 'correction'))
        run(old, `ALTER TABLE "${name}" ADD COLUMN of_next_version TEXT`)
      run(old, "INSERT INTO tollgate_schema (version, file) VALUES (99, '099-next.sql')")
      read(old, await serve(old, 'after'))
      await expect(beside(old)).rejects.toThrow(/has schema 99, and this Tollgate knows schemas up to/)
    })
  })

  describe('a key that another process revokes', () => {
    test('is refused within a second', async () => {
      const one = await testStore(QUICK)
      const two = await served(one)
      const account = await fund(one, 1000n)
      for (let round = 0; round < counts(3, 50); round++) {
        const { key, token } = await one.createKey({ account, name: `k${round}` })
        const found = async () => (await two.keys.find(token, one.clock.now())).found
        expect(await found()).toBe('live')
        await one.revokeKey(key.id)
        await expect.poll(found).toBe('revoked')
      }
    })

    test('is refused although no notification arrived, because the connection was dead', async () => {
      const one = await testStore(QUICK)
      const two = await served(one)
      const account = await fund(one, 1000n)
      const { key, token } = await one.createKey({ account, name: 'k' })
      const found = async () => (await two.keys.find(token, one.clock.now())).found
      expect(await found()).toBe('live')
      run(
        one,
        `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
          WHERE datname = current_database() AND application_name = 'tollgate (changes)'`,
      )
      await one.revokeKey(key.id)
      await expect.poll(found).toBe('revoked')
    })
  })

  test('a failed read does not affect writes', async () => {
    const one = await testStore(QUICK)
    const two = await served(one)
    const { key } = await one.createKey({ account: await fund(one, 1000n), name: 'k' })
    expect((await two.findKey(key.id))?.name).toBe('k')
    run(one, 'ALTER TABLE key RENAME TO key_elsewhere')
    await expect(two.findKey(key.id)).rejects.toMatchObject({
      name: 'StoreUnavailable',
      written: 'not_read',
      message: expect.stringMatching(/^The store could not be read: .*If this was a change, check whether it was made/),
    })
  })

  test('a balance for ten requests pays for exactly ten of hundreds at once from three processes', async () => {
    const one = await testStore(QUICK)
    const all = [one, await beside(one), await beside(one)]
    for (let round = 0; round < counts(2, 50); round++) {
      const accountId = await fund(one, 1000n, `account ${round}`)
      const asked = Array.from({ length: counts(100, 334) }).flatMap((_, index) =>
        all.map((store, place) =>
          store.ledger.hold(aHold({ accountId, exchange: `req_${round}_${place}_${index}`, amount: 100n })),
        ),
      )
      const held = (await Promise.all(asked)).filter(({ held }) => held)
      expect(held).toHaveLength(10)
      expect(one.reads.findAccount(accountId)).toMatchObject({ posted: 1000n, held: 1000n })
    }
    expect(one.reads.verify().violations).toEqual([])
  })

  test('two processes that write the same rows in different orders wait, and none fails', async () => {
    const one = await testStore(QUICK)
    const two = await beside(one)
    const accounts = [await fund(one, 1_000_000n, 'a'), await fund(one, 1_000_000n, 'b')]
    const orders = [accounts, accounts.toReversed()]
    const work = [one, two].map(async (store, place) => {
      for (let index = 0; index < counts(30, 500); index++) {
        await Promise.all(
          orders[place]!.map(async (accountId, turn) => {
            const exchange = `req_${place}_${index}_${turn}`
            const model = `m${(place + turn) % 2}`
            expect(await store.ledger.hold(aHold({ accountId, exchange, model, amount: 10n }))).toMatchObject({
              held: true,
            })
            expect(await store.ledger.settle(aSettle({ exchange, amount: 1n }))).toBe('settled')
          }),
        )
        if (index % 10 === 0)
          await store.credit({ account: accounts[place]!, amount: 1n, reference: `${place} ${index}`, actor: 'test' })
      }
    })
    onTestFinished(() => void Promise.allSettled(work))
    await Promise.all(work)
    expect(one.reads.verify()).toMatchObject({ openHolds: 0, violations: [] })
  })
})
