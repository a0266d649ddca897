/** Stores in temporary folders, and a clock that only the test moves. */
import { copyFileSync, existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { beforeEach, onTestFinished } from 'vitest'
import type { Clock } from '#contract'
import { connect, type Database } from '../../src/store/engine/database.ts'
import { openPostgres } from '../../src/store/engine/postgres/index.ts'
import { openStore, type StoreOptions } from '../../src/store/engine/sqlite.ts'
import type { LocalStore } from '../../src/store/local-store.ts'
import { readOpenFrom } from '../../src/store/money/open-holds.ts'
import { describeWith } from '../helpers/missing.ts'
import { copyDatabase, storeDatabase, WITHOUT_POSTGRES } from '../helpers/postgres.ts'
import { SECRET } from './requests.ts'

export { aHold, aSettle, PRICE, SECRET } from './requests.ts'

export interface TestClock extends Clock {
  ms: number
}

export function testClock(ms = 1_800_000_000_000): TestClock {
  return {
    ms,
    now() {
      return this.ms
    },
  }
}

/** A folder that is removed after the test. */
export function folder(parent: string = tmpdir()): string {
  const path = mkdtempSync(join(parent, 'tollgate-store-'))
  onTestFinished(() => rmSync(path, { recursive: true, force: true }))
  return path
}

export type TestStore = LocalStore & {
  readonly clock: TestClock
  /** The path of the database's file; in PostgreSQL its address. */
  readonly path: string
  readonly spool: string
  /** A separate connection to the database. */
  connect(options?: { readonly readOnly?: boolean }): Database
}

export type Engine = 'sqlite' | 'postgres'
let engine: Engine = 'sqlite'

/** SQLite in `npm test`, PostgreSQL in `npm run test:system`, both in `npm run test:full`. */
const ENGINES: Readonly<Record<string, readonly Engine[]>> = {
  unit: ['sqlite'],
  system: ['postgres'],
  full: ['sqlite', 'postgres'],
}

/** Defines the tests for every engine of this run. In them, `testStore` opens a store of that engine. */
export function onEveryEngine(tests: (engine: Engine) => void): void {
  onEngines(ENGINES[process.env['TOLLGATE_LAYER'] ?? 'unit']!, tests)
}

/** Tests of features that only a store in PostgreSQL has. */
export function onPostgres(tests: () => void): void {
  onEngines(['postgres'], tests)
}

function onEngines(engines: readonly Engine[], tests: (engine: Engine) => void): void {
  for (const each of engines) {
    describeWith(each === 'postgres' ? WITHOUT_POSTGRES : null, `on ${each}`, () => {
      beforeEach(() => {
        engine = each
        return () => {
          engine = 'sqlite'
        }
      })
      tests(each)
    })
  }
}

export type TestStoreOptions = Partial<StoreOptions> & { readonly path?: string }

/**
 * A store in a file (or `url: 'memory'`) that is closed after the test. It writes in the test's own thread unless `writes` differs. The
 * start of a thread takes longer than most tests; tests of threads run both ways.
 */
export async function testStore(options: TestStoreOptions = {}): Promise<TestStore> {
  const clock = (options.clock as TestClock | undefined) ?? testClock()
  const isPostgres = engine === 'postgres' && options.url !== 'memory'
  const path = options.path ?? (isPostgres ? (await storeDatabase()).url : join(folder(), 'tollgate.db'))
  const place: { url: string; folder?: string } = isPostgres
    ? { url: path, folder: options.folder ?? folder() }
    : { url: `sqlite:${path}` }
  const store = await openStore({ ...place, secret: SECRET, writes: 'here', ...options, clock })
  // Closing reports lost settles. A test that loses settles has checked them already.
  onTestFinished(() => store.close().catch(ignoreLoss))
  return Object.assign(store, {
    clock,
    path,
    spool: isPostgres ? join(place.folder!, 'tollgate.spool') : `${path}.spool`,
    connect: (how: { readonly readOnly?: boolean } = {}) => (isPostgres ? openPostgres(path, how) : connect(path, how)),
  })
}

/** Opens a copy of the store, as the next start does after kill -9. */
export async function afterDeath(store: TestStore, options: Partial<StoreOptions> = {}): Promise<TestStore> {
  const [path, beside] = await copyData(store.path, store.spool)
  return testStore({ path, folder: beside, clock: store.clock, ...options })
}

/** Copies the files (or the database) and the spool. Returns the copy's path or address, and the folder of its spool. */
export async function copyData(path: string, spool: string, parent?: string): Promise<[path: string, folder: string]> {
  const beside = folder(parent)
  const isPostgres = path.startsWith('postgres:')
  const copies = isPostgres
    ? ['spool', 'replica'].map(end => [join(dirname(spool), `tollgate.${end}`), `tollgate.${end}`])
    : ['', '-wal', '.spool'].map(end => [path + end, `tollgate.db${end}`])
  const copied = isPostgres ? copyDatabase(path) : join(beside, 'tollgate.db')
  for (const [from, to] of copies) if (existsSync(from!)) copyFileSync(from!, join(beside, to!))
  return [copied, beside]
}

/** Every byte that the store has written: its files, or each row of its tables. */
export async function contentOf({ path, connect: open }: TestStore): Promise<Buffer> {
  if (!path.startsWith('postgres:')) return Buffer.concat([path, `${path}-wal`].map(file => readFileSync(file)))
  const database = open({ readOnly: true })
  const tables = database.prepare(
    "SELECT relname FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace",
  )
  const rows = tables.all().flatMap(({ relname }) => database.prepare(`SELECT * FROM ${relname}`).all())
  database.close()
  return Buffer.concat(
    rows
      .flatMap(row => Object.values(row))
      .map(value => Buffer.from(value instanceof Uint8Array ? value : String(value))),
  )
}

/** Statements that remove triggers, CHECKs and foreign keys, for tests that damage a database. */
export const UNGUARDED: Readonly<Record<Engine, string>> = {
  sqlite: `
    DROP TRIGGER IF EXISTS event_is_never_updated; DROP TRIGGER IF EXISTS event_is_never_deleted;
    DROP TRIGGER IF EXISTS correction_is_never_updated; DROP TRIGGER IF EXISTS correction_is_never_deleted;
    PRAGMA ignore_check_constraints = ON; PRAGMA foreign_keys = OFF`,
  postgres: `
    DO $$ DECLARE rule record; BEGIN
      FOR rule IN SELECT conrelid::regclass AS owner, conname FROM pg_constraint
        WHERE contype IN ('c', 'f') AND conislocal AND connamespace = 'public'::regnamespace
      LOOP EXECUTE format('ALTER TABLE %s DROP CONSTRAINT %I', rule.owner, rule.conname); END LOOP;
      IF EXISTS (SELECT 1 FROM pg_inherits WHERE inhrelid = to_regclass('correction')) THEN
        ALTER TABLE correction NO INHERIT event;
      END IF;
    END $$;
    SET session_replication_role = replica`,
}

function ignoreLoss(error: Error): void {
  if (!/settles could not be written/.test(error.message)) throw error
}

/** The id at which the next recovery starts; in PostgreSQL that of the newest replica, if there is one. */
export function openFrom(database: Database): string {
  if (database.dialect.engine === 'sqlite') return readOpenFrom(database, null)
  const newest = database.prepare('SELECT open_from FROM replica ORDER BY id DESC LIMIT 1').get()
  return String(newest?.['open_from'] ?? '~')
}

/** An account with credit. */
export async function fund(store: LocalStore, amount: bigint, name = 'alice'): Promise<string> {
  const { id } = await store.createAccount({ name })
  await store.credit({ account: id, amount, reference: `first credit of ${name}`, actor: 'test' })
  return id
}
