/** State that replicas share besides money and keys: counts of tries, and published views. */
import { describe, expect, onTestFinished, test } from 'vitest'
import { type Statement, transaction } from '../../src/store/engine/database.ts'
import { createTryOperations } from '../../src/store/engine/postgres/try-writes.ts'
import type { SharedTry } from '../../src/store/engine/replicas.ts'
import { createReplicaReads } from '../../src/store/engine/replicas-service.ts'
import { beside, endLease, QUICK, run } from './beside.ts'
import { onPostgres, testStore } from './helpers.ts'

const THREE = { name: 'sign-ins', rule: { most: 3, windowMs: 60_000 } }
const ONE = { name: 'registrations', rule: { most: 1, windowMs: 60_000 } }
const by = (subject: string, limit: Omit<SharedTry, 'subject'> = THREE): SharedTry => ({ ...limit, subject })

async function pair() {
  const one = await testStore(QUICK)
  const two = await beside(one)
  return { one, two, all: [one.replicas!, two.replicas!] }
}

onPostgres(() => {
  describe('tries', () => {
    test('count for all replicas together, at any concurrency', async () => {
      const { all } = await pair()
      const results = await Promise.all(Array.from({ length: 20 }, (_, index) => all[index % 2]!.countTries([by('a')])))
      expect(results.filter(result => 'counted' in result)).toHaveLength(3)
      expect(results.find(result => 'waitMs' in result)).toEqual({ waitMs: 60_000, refusedBy: 0 })
      expect(await all[1]!.countTries([by('b')])).toHaveProperty('counted')
    })

    test('that one limit refuses do not count in another', async () => {
      const { all } = await pair()
      const both = [by('a'), by('a', ONE)]
      expect(await all[0]!.countTries(both)).toHaveProperty('counted')
      for (let round = 0; round < 5; round++) expect(await all[1]!.countTries(both)).toHaveProperty('waitMs')
      expect(await all[1]!.countTries([by('a')])).toHaveProperty('counted')
      expect(await all[0]!.countTries([by('a')])).toHaveProperty('counted')
      expect(await all[0]!.countTries([by('a')])).toHaveProperty('waitMs')
    })

    test('that are taken back at one replica do not count at the other', async () => {
      const { all, one } = await pair()
      for (let round = 0; round < 5; round++) {
        const result = await all[round % 2]!.countTries([by('a', ONE)])
        if (!('counted' in result)) throw new Error('refused')
        await all[round % 2]!.takeTriesBack([by('a', ONE)], result.counted)
      }
      expect(run(one, 'SELECT * FROM try_count')).toEqual([])
    })

    test('wait for the server once before COMMIT, for any number of limits, because holds wait with them', async () => {
      const { clock, connect } = await testStore(QUICK)
      const database = connect()
      onTestFinished(() => database.close())
      let waits = 0
      const prepare = (sql: string): Statement => {
        const statement = database.prepare(sql)
        const all: Statement['all'] = (...values) => {
          waits++
          return statement.all(...values)
        }
        return {
          ...statement,
          all,
          get: (...values) => all(...values)[0],
          run: (...values) => ({ changes: all(...values).length }),
        }
      }
      const { countTries, takeTriesBack } = createTryOperations({ ...database, prepare }, clock)
      const tries = ['a', 'b', 'c'].map(name => ({ ...THREE, name, subject: Buffer.from('alice') }))
      const result = transaction(database, () => countTries(tries))
      if (!('counted' in result)) throw new Error('refused')
      expect(waits).toBe(1)
      expect(database.prepare('SELECT * FROM try_count').all()).toHaveLength(3)
      transaction(database, () => takeTriesBack({ tries, counted: result.counted }))
      expect(waits).toBe(2)
      expect(database.prepare('SELECT * FROM try_count').all()).toEqual([])
    })

    test('leave nothing behind after their time, and never the name of the subject', async () => {
      const { one, all } = await pair()
      await all[0]!.countTries([by('alice@example.com'), by('bob@example.com', ONE)])
      const rows = run(one, 'SELECT limit_name, subject, state FROM try_count')
      expect(rows).toHaveLength(2)
      expect(rows.map(row => Buffer.from(row['subject'] as Uint8Array).toString('latin1')).join()).not.toContain('@')
      one.clock.ms += 60_001
      await all[0]!.countTries([by('c')])
      expect(run(one, 'SELECT limit_name FROM try_count')).toHaveLength(1)
    })
  })

  describe('the view of a replica', () => {
    test('is read by the others in its last version; a single replica has no others', async () => {
      const { all } = await pair()
      expect(await all[0]!.others()).toEqual([])
      await all[0]!.publish('first')
      await all[0]!.publish('second')
      expect(await all[1]!.others()).toEqual([{ name: all[0]!.name, view: 'second' }])
      expect(await all[0]!.others()).toEqual([])
    })

    test('is read repeatedly with one prepared statement', async () => {
      const database = (await testStore(QUICK)).connect({ readOnly: true })
      onTestFinished(() => database.close())
      const reads = createReplicaReads(database)
      for (let round = 0; round < 5; round++) expect(reads.views(0)).toEqual([])
      const prepared = database.prepare(
        "SELECT name FROM pg_prepared_statements WHERE statement LIKE '%replica_view%' AND statement NOT LIKE '%pg_prepared%'",
      )
      expect(prepared.all()).toHaveLength(1)
    })

    test('is not shown if its replica has not renewed its lease for 15 s', async () => {
      const { one, all } = await pair()
      await (await beside(one)).replicas!.publish('three')
      for (const [heardOfS, shown] of [
        [5, 1],
        [25, 0],
        [0, 1],
      ]) {
        const left = 60 - heardOfS!
        run(one, `UPDATE replica SET lease_until = clock_timestamp() + interval '${left} s' WHERE id = 3`)
        expect(await all[0]!.others()).toHaveLength(shown!)
      }
    })

    test('is removed with its lease, and with the replica', async () => {
      const { one, two, all } = await pair()
      await all[1]!.publish('two')
      expect(await all[0]!.others()).toHaveLength(1)
      await two.close()
      expect(await all[0]!.others()).toEqual([])
      expect(run(one, 'SELECT * FROM replica_view')).toEqual([])
      const three = await beside(one)
      await three.replicas!.publish('three')
      endLease(one, 3)
      expect(await all[0]!.others()).toEqual([])
      await one.recover()
      await expect.poll(() => run(one, 'SELECT * FROM replica_view')).toEqual([])
    })
  })
})

test('a store of one process shares nothing', async () => {
  expect((await testStore({ url: 'memory' })).replicas).toBeNull()
})
