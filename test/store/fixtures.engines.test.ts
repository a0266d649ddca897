/**
 * Stores of released versions, from test/store/fixtures (make-fixture.ts writes them). This version opens and migrates each, settles open
 * holds, and serves its keys.
 */
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { atOnce, type KeyLookup } from '#contract'
import { connect, type Database } from '../../src/store/engine/database.ts'
import { migrationFiles } from '../../src/store/engine/migrate.ts'
import { openPostgres } from '../../src/store/engine/postgres/index.ts'
import { makeBackup } from '../../src/store/files/make-backup.ts'
import { restoreBackup } from '../../src/store/files/restore-backup.ts'
import { testDatabase } from '../helpers/postgres.ts'
import { aHold, aSettle, type Engine, folder, onEveryEngine, testClock, testStore } from './helpers.ts'

/** The number of the first released migration, of version 0.1.0. Earlier ones had no release of their own. */
const FIRST: Readonly<Record<Engine, number>> = { sqlite: 9, postgres: 1 }
const SOURCES = join(import.meta.dirname, '../../src/store/engine')
const MIGRATIONS: Readonly<Record<Engine, string>> = {
  sqlite: join(SOURCES, 'migrations'),
  postgres: join(SOURCES, 'postgres/migrations'),
}
const FOLDER = join(import.meta.dirname, 'fixtures')

/** The values in the first line of a fixture. */
interface Facts {
  readonly secret: string
  /** The time of its stopped clock, in milliseconds. */
  readonly at: number
  readonly account: string
  readonly posted: string
  readonly held: string
  readonly token: string
  readonly capped: string
  readonly revoked: string
}

const fixturesOf = (engine: Engine) => readdirSync(FOLDER).filter(file => file.startsWith(`${engine}-`))

function readFixture(file: string): { facts: Facts; sql: string } {
  const text = readFileSync(join(FOLDER, file), 'utf8')
  const end = text.indexOf('\n')
  return { facts: JSON.parse(text.slice(0, end).replace(/^-- /, '')), sql: text.slice(end) }
}

const open = (engine: Engine, path: string): Database => (engine === 'sqlite' ? connect(path) : openPostgres(path))

/** pg_dump writes functions before the tables that they use. */
const OF_DUMPS = 'SET check_function_bodies = off'

/** A store of an earlier version: its path or address. */
async function load(engine: Engine, sql: string): Promise<string> {
  const path = engine === 'sqlite' ? join(folder(), 'tollgate.db') : (await testDatabase()).url
  const database = open(engine, path)
  database.exec(
    engine === 'sqlite' ? `PRAGMA foreign_keys = OFF; BEGIN; ${sql} COMMIT` : `${OF_DUMPS}; BEGIN; ${sql} COMMIT`,
  )
  database.close()
  return path
}

onEveryEngine(engine => {
  test('every migration since the first release has a fixture', () => {
    const newest = migrationFiles(MIGRATIONS[engine]).length
    const numbers = Array.from({ length: newest - FIRST[engine] + 1 }, (_, index) => FIRST[engine] + index)
    const expected = numbers.map(number => `${engine}-${String(number).padStart(3, '0')}.sql`)
    expect(fixturesOf(engine), 'run test/store/make-fixture.ts before the release of a migration').toEqual(expected)
  })

  test.each(fixturesOf(engine))('%s with another secret is refused, and nothing is settled', async file => {
    const { facts, sql } = readFixture(file)
    const path = await load(engine, sql)
    const opening = testStore({
      path,
      clock: testClock(facts.at),
      secret: 'another secret than its own, of this length',
    })
    await expect(opening).rejects.toThrow(/^The keys of .* were made with another secret/)
    const database = open(engine, path)
    expect(database.prepare('SELECT count(DISTINCT id) AS n FROM event WHERE kind = 1').get()).toEqual({ n: 10 })
    database.close()
  })

  test.each(fixturesOf(engine))('%s is opened, settled, served and charged', async file => {
    const { facts, sql } = readFixture(file)
    const store = await testStore({ path: await load(engine, sql), clock: testClock(facts.at), secret: facts.secret })
    expect(store.reads.verify()).toMatchObject({ accounts: 2, openHolds: 2, violations: [] })
    expect(String(store.reads.findAccount('alice')?.held)).toBe(facts.held)
    // One of the two open holds has a checkpoint of 30, the other one has no checkpoint.
    expect(await store.recover()).toMatchObject({ settled: 2, charged: 30n, rejected: 0 })
    const posted = BigInt(facts.posted) - 30n
    expect(store.reads.findAccount('alice')).toMatchObject({ id: facts.account, plan: 'pro', posted, held: 0n })
    expect(store.reads.findAccount('bob')).toMatchObject({ posted: 2n ** 62n, frozen: true })

    const now = store.clock.now()
    const found = await Promise.all([facts.token, facts.capped, facts.revoked].map(key => store.keys.find(key, now)))
    expect(found).toMatchObject([
      { found: 'live', key: { name: 'app', models: null } },
      { found: 'live', key: { name: 'capped', models: ['m'] } },
      { found: 'revoked' },
    ])
    // An existing cap still applies, and a budget can be added.
    const keyId = (found[1] as Extract<KeyLookup, { found: 'live' }>).key.id
    const hold = (exchange: string, amount: bigint) =>
      store.ledger.hold(aHold({ accountId: facts.account, keyId, exchange, amount }))
    expect(await hold('req_over', 5000n)).toMatchObject({ held: false, of: 'key', onHold: 0n })
    await store.setBudget({ of: 'key', name: keyId, every: 'day', budget: { amount: 20n } })
    expect(store.reads.findKey(keyId)).toMatchObject({ budgets: [{ per: 'key', every: 'day', amount: 20n }] })
    const output = atOnce(store.responses.read('resp_1', facts.account, 'output'))
    expect(String(await output)).toBe('what was said')
    expect(store.reads.people.findByEmail('ada@example.org')).toMatchObject({ accountId: facts.account })

    expect(await store.ledger.hold(aHold({ accountId: facts.account, exchange: 'req_new' }))).toMatchObject({
      held: true,
    })
    expect(await store.ledger.settle(aSettle({ exchange: 'req_new' }))).toBe('settled')
    await store.credit({ account: 'alice', amount: -5n, reference: 'refund-new', actor: 'test', note: 'a mistake' })
    expect(store.reads.findAccount('alice')).toMatchObject({ posted: posted - 45n, held: 0n })
    expect(store.reads.verify()).toMatchObject({ openHolds: 0, violations: [] })
  })

  test.each(fixturesOf(engine))('%s is backed up before it is migrated, and restored', async file => {
    const { facts, sql } = readFixture(file)
    const path = await load(engine, sql)
    const [backup, restored] = [join(folder(), 'backup.db'), join(folder(), 'tollgate.db')]
    const clock = testClock(facts.at)
    const store = engine === 'sqlite' ? `sqlite:${path}` : path
    const made = await makeBackup({ store, folder: folder(), file: backup, tollgate: '', clock })
    expect(made).toMatchObject({ accounts: 2, openHolds: 2 })
    const own = { secret: facts.secret, secretPlace: 'here', replace: false, clock }
    const report = await restoreBackup({ ...own, file: backup, store: `sqlite:${restored}`, folder: folder() })
    expect(report).toMatchObject({ settled: 2, charged: 30n, posted: made.posted - 30n })
  })

  test.each(fixturesOf(engine))(
    '%s gets the same schema as a new store: no released migration was changed',
    async file => {
      const { facts, sql } = readFixture(file)
      const old = await testStore({ path: await load(engine, sql), clock: testClock(facts.at), secret: facts.secret })
      const fresh = await testStore()
      const [one, other] = [old, fresh].map(({ path }) => {
        const database = open(engine, path)
        const schema = schemaOf(database)
        database.close()
        return schema
      })
      expect(one!.length).toBeGreaterThan(20)
      expect(one).toEqual(other)
    },
  )
})

/** All objects of a schema, as comparable lines. */
function schemaOf(database: Database): string[] {
  const sql = database.dialect.engine === 'sqlite' ? SQLITE_SCHEMA : POSTGRES_SCHEMA
  const lines = database
    .prepare(sql)
    .all()
    .map(({ line }) => String(line))
  return lines.map(line => line.replace(/\s*--.*/g, '').replace(/\s+/g, ' ')).sort()
}

const SQLITE_SCHEMA = "SELECT type || ' ' || name || ' ' || sql AS line FROM sqlite_schema WHERE sql IS NOT NULL"

const POSTGRES_SCHEMA = `
  SELECT 'column ' || attrelid::regclass || ' ' || attname || ' ' || format_type(atttypid, atttypmod) || ' ' || attnotnull
    || ' ' || attstorage::text || ' ' || coalesce(pg_get_expr(adbin, adrelid), '') AS line
  FROM pg_attribute JOIN pg_class ON pg_class.oid = attrelid LEFT JOIN pg_attrdef ON adrelid = attrelid AND adnum = attnum
  WHERE relnamespace = 'public'::regnamespace AND relkind = 'r' AND attnum > 0 AND NOT attisdropped
  UNION ALL SELECT indexdef FROM pg_indexes WHERE schemaname = 'public'
  UNION ALL SELECT conrelid::regclass || ' ' || pg_get_constraintdef(oid) FROM pg_constraint
    WHERE connamespace = 'public'::regnamespace
  UNION ALL SELECT pg_get_triggerdef(oid) FROM pg_trigger WHERE NOT tgisinternal
  UNION ALL SELECT 'options ' || relname || ' ' || coalesce(reloptions::text, '') FROM pg_class
    WHERE relnamespace = 'public'::regnamespace AND relkind = 'r'
  UNION ALL SELECT pg_get_functiondef(oid) FROM pg_proc WHERE pronamespace = 'public'::regnamespace`
