/** Features of a store in PostgreSQL: addresses, versions of its schema, one owner, and connections that are cut. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { cpSync, mkdirSync, readdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import { describe, expect, onTestFinished, test } from 'vitest'
import { plainPrice } from '#contract'
import { type Database, isStorageFailure } from '../../src/store/engine/database.ts'
import { migratePostgres, openPostgres, placeOf } from '../../src/store/engine/postgres/index.ts'
import { numbered } from '../../src/store/engine/postgres/postgres-database.ts'
import { WRITE_LOCK } from '../../src/store/engine/postgres/postgres-schema.ts'
import { openStore } from '../../src/store/engine/sqlite.ts'
import { StoreError } from '../../src/store/error.ts'
import { adoptSecret } from '../../src/store/secret.ts'
import { StoreUnavailable } from '../../src/store/store.ts'
import { countsOf } from '../helpers/counts.ts'
import { LIBC, LOCKED, testDatabase, testServer } from '../helpers/postgres.ts'
import { cuttingConnector } from './cutting.ts'
import { aHold, aSettle, folder, fund, onPostgres, SECRET, testClock, testStore } from './helpers.ts'

const counts = countsOf('kills')

const MIGRATIONS = readdirSync(new URL('../../src/store/engine/postgres/migrations', import.meta.url)).sort()
const NEWEST = MIGRATIONS.length

const open = (url: string, secret = SECRET) =>
  openStore({ url, secret, secretPlace: 'the file /x/secret', clock: testClock(), writes: 'here', folder: folder() })

test.each([
  ['SELECT ?', 'SELECT $1'],
  ['SELECT ?, ?', 'SELECT $1, $2'],
  ['SELECT ?2, ?1, ?2', 'SELECT $2, $1, $2'],
  ["SELECT '?', ? || '?''?'", "SELECT '?', $1 || '?''?'"],
])('placeholders of %s get numbers', (sql, expected) => {
  expect(numbered(sql)).toBe(expected)
})

test.each([
  ['postgres://user:hunter2@host:5433/db?sslmode=require', 'postgres://user@host:5433/db'],
  ['postgresql://host/db', 'postgres://host/db'],
  ['no address', 'postgres:'],
])('the place of %s has no password', (url, expected) => {
  expect(placeOf(url)).toBe(expected)
})

onPostgres(() => {
  describe('a connection', () => {
    test('returns values like SQLite', async () => {
      const database = openPostgres((await testDatabase()).url)
      const sql = `SELECT CAST(? AS BIGINT) AS whole, CAST(? AS BYTEA) AS bytes, CAST(? AS TEXT) AS text, TRUE AS truth,
        NULL AS nothing, sum(CAST(7 AS BIGINT)) AS summed`
      const values = [2n ** 62n, new Uint8Array([0, 255, 7]), "it's ?"] as const
      expect(database.prepareMoney(sql).get(...values)).toEqual({
        whole: 2n ** 62n,
        bytes: new Uint8Array([0, 255, 7]),
        text: "it's ?",
        truth: 1n,
        nothing: null,
        summed: 7n,
      })
      expect(database.prepare(sql).get(5, ...values.slice(1))).toMatchObject({ whole: 5, truth: 1, summed: 7 })
      database.close()
    })

    test('iterates over more rows than it fetches at a time, also inside a transaction', async () => {
      const database = openPostgres((await testDatabase()).url)
      const many = database.prepare('SELECT i FROM generate_series(1, 2500) AS s(i)')
      const sum = () => [...many.iterate()].reduce((total, row) => total + Number(row['i']), 0)
      expect(sum()).toBe((2500 * 2501) / 2)
      database.exec('BEGIN')
      expect([sum(), sum()]).toEqual([(2500 * 2501) / 2, (2500 * 2501) / 2])
      expect(database.inTransaction()).toBe(true)
      database.exec('COMMIT')
      // An iteration within another one.
      let inner = 0
      for (const row of many.iterate()) if (Number(row['i']) % 1000 === 0) inner += sum()
      expect(inner).toBe(2500 * 2501)
      // Abandoned half-way.
      for (const row of many.iterate()) if (row['i'] === 3) break
      expect(database.inTransaction()).toBe(false)
      database.close()
    })

    test('that was cut fails once, with its transaction, and is opened again by the next statement', async () => {
      const { url, cut } = await testDatabase()
      const database = openPostgres(url)
      onTestFinished(() => database.close())
      database.exec('CREATE TABLE t (i BIGINT)')
      const [begin, put, commit] = ['BEGIN', 'INSERT INTO t VALUES (1)', 'COMMIT'].map(sql => database.prepare(sql))
      begin!.run()
      put!.run()
      await cut()
      const error = thrownBy(() => commit!.run())
      expect(error.message).toMatch(/terminating connection|is lost/)
      expect(isStorageFailure(error)).toBe(true)
      expect(database.inTransaction()).toBe(false)
      await expect.poll(() => countOf(database, 't')).toBe(0)
      begin!.run()
      put!.run()
      commit!.run()
      expect(countOf(database, 't')).toBe(1)
    })

    test('of a gateway that was cut while it was idle is opened again, and nothing fails', async () => {
      const { url, cut } = await testDatabase()
      const database = openPostgres(url, { replica: null })
      onTestFinished(() => database.close())
      database.exec('CREATE TABLE t (i BIGINT)')
      const [begin, put, commit] = ['BEGIN', 'INSERT INTO t VALUES (1)', 'COMMIT'].map(sql => database.prepare(sql))
      for (let round = 1; round <= 3; round++) {
        await cut()
        await wait(50)
        for (const each of [begin, put, commit]) each!.run()
        await cut()
        await wait(50)
        put!.run()
        expect(countOf(database, 't')).toBe(2 * round)
        // Deferred statements are sent again with the next statement, and are answered.
        begin!.run()
        const rows = database.prepare('SELECT 7 AS seven').laterAll!()
        await cut()
        await wait(50)
        commit!.run()
        expect(rows()).toEqual([{ seven: 7 }])
      }
    })

    test.each([
      ['that has not begun: nothing is sent', 'BEGIN; SELECT 1 / 0', () => {}],
      [
        'with a deferred statement: it is not sent',
        'BEGIN',
        (database: Database) => {
          database.prepare('SELECT 1').get()
          database.prepare('SELECT 1 / 0').later!()
        },
      ],
      [
        'whose connection is lost: nothing of it remains',
        'BEGIN',
        (database: Database, cut: () => void) => {
          database.prepare('SELECT 1').get()
          cut()
        },
      ],
    ])('rolls back a transaction %s', async (_, begin, act) => {
      const { url } = await testDatabase()
      const [database, other] = [openPostgres(url), openPostgres(url)]
      onTestFinished(() => [database, other].forEach(each => void each.close()))
      const { pid } = database.prepare('SELECT pg_backend_pid() AS pid').get() as { pid: number }
      const end = other.prepare('SELECT pg_terminate_backend(CAST(? AS INTEGER))')
      const rollback = database.prepare('ROLLBACK')
      database.prepare(begin).run()
      act(database, () => void end.get(pid))
      rollback.run()
      expect(database.inTransaction()).toBe(false)
      expect(database.prepare('SELECT 2 AS two').get()).toEqual({ two: 2 })
      expect(database.inTransaction()).toBe(false)
    })

    test("a broken constraint is the caller's mistake, not the server's", async () => {
      const database = openPostgres((await testDatabase()).url)
      database.exec('CREATE TABLE t (i BIGINT PRIMARY KEY)')
      const put = database.prepare('INSERT INTO t VALUES (1)')
      put.run()
      expect(isStorageFailure(thrownBy(() => put.run()))).toBe(false)
      database.close()
    })
  })

  describe('an unusable store is reported in a sentence without the password', () => {
    test('no server, a wrong password, an unknown database, an unknown user', async () => {
      const { port } = await testServer()
      const at = `127.0.0.1:${port}`
      for (const [url, message] of [
        [
          'postgres://u:hunter2@127.0.0.1:1/db',
          /^The store postgres:\/\/u@127\.0\.0\.1:1\/db cannot be reached: .*Start the/,
        ],
        [`postgres://${LOCKED.user}:hunter2@${at}/postgres`, /refuses the user or the password: .*Correct `store`\.$/],
        [`postgres://postgres:hunter2@${at}/nowhere`, /does not exist: .*Create it: createdb/],
        [`postgres://unknown:hunter2@${at}/postgres`, /refuses the user or the password/],
      ] as const) {
        const opening = open(url)
        await expect(opening).rejects.toBeInstanceOf(StoreError)
        await expect(opening).rejects.toThrow(message)
        await expect(opening).rejects.not.toThrow(/hunter2/)
      }
    })

    test('a database that is read-only or has another encoding', async () => {
      const [readOnly, latin] = [
        await testDatabase(),
        await testDatabase(`template0 ENCODING LATIN1 ${LIBC} LC_COLLATE "C" LC_CTYPE "C"`),
      ]
      await readOnly.run(`ALTER DATABASE ${readOnly.name} SET default_transaction_read_only = on`)
      await expect(open(readOnly.url)).rejects.toThrow(/is read-only\. Name the primary server/)
      await expect(open(latin.url)).rejects.toThrow('has the encoding LATIN1. Create it with the encoding UTF8.')
    })

    test('another secret', async () => {
      const { url } = await testDatabase()
      await (await open(url)).close()
      await expect(open(url, 'another secret of more than 32 characters')).rejects.toThrow(
        `The keys of ${placeOf(url)} were made with another secret than the file /x/secret. Restore`,
      )
    })
  })

  test('a hold has its rates in the columns that replicas of earlier versions read', async () => {
    const { url, run } = await testDatabase()
    const store = await testStore({ path: url })
    const accountId = await fund(store, 1_000n)
    const price = plainPrice({ input: 3n, cached_input: 1n, output: 5n })
    expect(await store.ledger.hold(aHold({ accountId, amount: 100n, price }))).toMatchObject({ held: true })
    const columns = 'price_input, price_cached_input, price_cache_write, price_output, price_request'
    const [row] = await run(`SELECT ${columns} FROM event WHERE kind = 0`)
    expect(Object.values(row!).map(Number)).toEqual([3, 1, 3, 5, 0])
    expect(store.reads.findReceipt('req_1')!.price).toEqual(price)
  })

  describe('the schema', () => {
    test('of a new store is created once, however often it is opened', async () => {
      const { url, run } = await testDatabase()
      const first = openPostgres(url)
      expect(migratePostgres(first)).toBe(NEWEST)
      expect(migratePostgres(first)).toBe(NEWEST)
      first.close()
      const applied = await run('SELECT version, file FROM tollgate_schema ORDER BY version')
      expect(applied).toEqual(MIGRATIONS.map((file, index) => ({ version: String(index + 1), file })))
    })

    test('a start waits for another first start that has created only a part of it', async () => {
      const { url, run } = await testDatabase()
      const other = openPostgres(url)
      other.prepare('SELECT pg_advisory_lock(?)').get(WRITE_LOCK + 1n)
      other.exec('CREATE TABLE account (id TEXT)')
      const child = spawn(process.execPath, [join(import.meta.dirname, 'migrate.child.ts'), url], { stdio: 'inherit' })
      const ended = once(child, 'exit')
      const isWaiting = "SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
      await expect.poll(async () => child.exitCode !== null || (await run(isWaiting)).length > 0).toBe(true)
      other.exec('DROP TABLE account')
      other.close()
      expect((await ended)[0]).toBe(0)
    })

    test('has one secret after two simultaneous first starts', async () => {
      const { url } = await testDatabase()
      await (await open(url)).close()
      const first = openPostgres(url)
      onTestFinished(() => first.close())
      const found = { secret: SECRET, place: '' }
      // Another start has written the secret between the read and the write of this start.
      const late: Database = {
        ...first,
        prepare: sql =>
          /^SELECT value FROM meta/.test(sql) ? first.prepare('SELECT 1 WHERE 1 = 2') : first.prepare(sql),
      }
      expect(() => adoptSecret(late, found)).not.toThrow()
      expect(() => adoptSecret(first, { ...found, secret: `${SECRET}, another` })).toThrow(
        'were made with another secret',
      )
    })

    test.each([
      [
        'of a newer version',
        "INSERT INTO tollgate_schema VALUES (99, '099-more.sql')",
        /has schema 99, .* knows schemas up to \d+/,
      ],
      [
        'with another file',
        "UPDATE tollgate_schema SET file = '001-other.sql' WHERE version = 1",
        /has 001-other\.sql as migration 1; this version expects 001-store\.sql .* Restore/,
      ],
      [
        'with a gap',
        'UPDATE tollgate_schema SET version = 0 WHERE version = 1',
        /has 001-store\.sql as migration 0; .* as migration 1/,
      ],
    ])('%s is refused', async (_what, sql, message) => {
      const { url, run } = await testDatabase()
      await (await open(url)).close()
      await run(sql)
      await expect(open(url)).rejects.toThrow(message)
    })

    test("another program's tables are not changed", async () => {
      const { url, run } = await testDatabase()
      await run('CREATE TABLE customer (id BIGINT)')
      await expect(open(url)).rejects.toThrow('tables of another program (customer)')
      expect(await run("SELECT to_regclass('tollgate_schema') AS found")).toEqual([{ found: null }])
    })

    test('a failing migration leaves nothing behind, and is reported by its name', async () => {
      const [{ url }, dir] = [await testDatabase(), join(folder(), 'migrations')]
      mkdirSync(dir)
      writeFileSync(join(dir, '001-one.sql'), 'CREATE TABLE one (i BIGINT)')
      writeFileSync(join(dir, '002-two.sql'), 'CREATE TABLE two (i BIGINT); SELECT nonsense')
      const database = openPostgres(url)
      onTestFinished(() => database.close())
      expect(() => migratePostgres(database, { folder: dir })).toThrow(
        /^Migration 002-two\.sql failed and was rolled back: .*nonsense/,
      )
      expect(database.prepare("SELECT to_regclass('two') AS two, to_regclass('one') AS one").get()).toEqual({
        one: 'one',
        two: null,
      })
      writeFileSync(join(dir, '002-two.sql'), 'CREATE TABLE two (i BIGINT)')
      expect(migratePostgres(database, { folder: dir })).toBe(2)
    })

    test('a migration that waits for a reader does not block others for long', async () => {
      const [{ url, run }, dir] = [await testDatabase(), join(folder(), 'migrations')]
      const store = await openStore({ url, secret: SECRET, clock: testClock(), folder: folder(), writes: 'thread' })
      onTestFinished(() => store.close())
      const { id } = await store.createAccount({ name: 'alice' })
      await store.credit({ account: id, amount: 10n ** 9n, reference: 'all', actor: 'test' })
      cpSync(join(import.meta.dirname, '../../src/store/engine/postgres/migrations'), dir, { recursive: true })
      writeFileSync(
        join(dir, `${String(NEWEST + 1).padStart(3, '0')}-next.sql`),
        'ALTER TABLE event ADD COLUMN next TEXT; ALTER TABLE balance ADD COLUMN next TEXT',
      )
      const reader = openPostgres(url, { readOnly: true })
      onTestFinished(() => reader.close())
      reader.exec(reader.dialect.snapshot)
      reader.prepare('SELECT count(*) FROM event').get()
      // The migration has a process of its own, because it blocks its thread.
      const child = spawn(process.execPath, [join(import.meta.dirname, 'migrate.child.ts'), url, dir], {
        stdio: 'inherit',
      })
      const ended = once(child, 'exit')
      const isWaiting =
        "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND query LIKE 'SELECT pg_sleep%'"
      await expect.poll(() => run(isWaiting)).not.toEqual([])
      let slowest = 0
      for (let index = 0; index < counts(30, 300); index++) {
        const startedAt = performance.now()
        const exchange = `req_${index}`
        await store.ledger.hold(aHold({ accountId: id, exchange }))
        await store.ledger.settle(aSettle({ exchange }))
        slowest = Math.max(slowest, performance.now() - startedAt)
        await wait(20)
      }
      console.info(`the slowest waited for ${slowest.toFixed(0)} ms`)
      expect(child.exitCode).toBeNull()
      reader.exec('COMMIT')
      expect((await ended)[0]).toBe(0)
      expect(await run('SELECT max(version) AS version FROM tollgate_schema')).toEqual([
        { version: String(NEWEST + 1) },
      ])
      await store.ledger.hold(aHold({ accountId: id, exchange: 'req_after' }))
      expect(store.reads.verify().violations).toEqual([])
    })

    test('is reported as old to a read-only connection, which cannot migrate it', async () => {
      const database = openPostgres((await testDatabase()).url, { readOnly: true })
      expect(() => migratePostgres(database, { canWrite: false })).toThrow(
        /has schema 0, .* has schema \d+\. Start the gateway/,
      )
      database.close()
    })
  })

  test.each(['here', 'thread'] as const)(
    'a connection that is repeatedly cut around COMMIT loses nothing and does nothing twice, written by: %s',
    async writes => {
      const { url } = await testDatabase()
      const seed = Math.floor(Math.random() * 2 ** 32)
      const { connector, cuts, close } = await cuttingConnector(url, seed)
      onTestFinished(async () => void (await close()))
      const place = { url, secret: SECRET, clock: testClock(), folder: folder() }
      const store = await openStore({ ...place, connector, writes })
      onTestFinished(() => store.close().catch(() => {}))
      const account = await again(() => store.createAccount({ name: 'alice' }))
      const grant = { account: account.id, amount: 1_000_000n, reference: 'all', actor: 'test' }
      await again(() => store.credit(grant))
      console.info(`cut by the seed ${seed}`)
      let [exchanges, charged] = [0, 0n]
      while (cuts() < counts(20, 1000)) {
        const some = Array.from({ length: 3 }, () => `req_${String(++exchanges).padStart(6, '0')}`)
        await Promise.all(
          some.map(async (exchange, index) => {
            const hold = aHold({ accountId: account.id, exchange, amount: 100n })
            expect(await again(() => store.ledger.hold(hold))).toMatchObject({ held: true })
            const amount = BigInt(index)
            await again(() => store.ledger.checkpoint([{ exchange, amount, usage: { input: 1, output: 1 } }]))
            expect(await again(() => store.ledger.settle(aSettle({ exchange, amount })))).toMatch(/settled/)
            charged += amount
          }),
        )
      }
      expect(store.reads.findAccount('alice')).toMatchObject({ posted: 1_000_000n - charged, held: 0n })
      expect(store.reads.verify()).toEqual({ accounts: 1, events: 1 + 2 * exchanges, openHolds: 0, violations: [] })
    },
  )
})

function thrownBy(work: () => unknown): Error {
  try {
    work()
  } catch (error) {
    return error as Error
  }
  return expect.unreachable('nothing was thrown')
}

/** Repeats the work until its result is known. */
async function again<Result>(work: () => Promise<Result>): Promise<Result> {
  for (;;) {
    try {
      return await work()
    } catch (error) {
      if (!(error instanceof StoreUnavailable)) throw error
    }
  }
}

const countOf = (database: ReturnType<typeof openPostgres>, table: string) => {
  try {
    return Number(database.prepare(`SELECT count(*) AS n FROM ${table}`).get()?.['n'])
  } catch {
    return null
  }
}
