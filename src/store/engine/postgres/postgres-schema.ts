/**
 * Migrations of a database in PostgreSQL: numbered files, each applied once, in the transaction that records its number. An advisory lock
 * lets only one process at a time migrate.
 */
import { randomUUID } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import { visible } from '#contract'
import { StoreError } from '../../error.ts'
import { type Database, type Row, transaction } from '../database.ts'
import { migrationFiles, tooOld } from '../migrate.ts'
import { placeOf } from './postgres-address.ts'
import { openPostgres } from './postgres-database.ts'

const FOLDER = join(import.meta.dirname, 'migrations')
/**
 * Keys of advisory locks. `WRITE_LOCK` spells TOLLGATE in ASCII; `LedgerBatches` takes it for operations that must not run in parallel.
 * Migrations use the next number.
 */
export const WRITE_LOCK = 0x544f_4c4c_4741_5445n
const MIGRATION_LOCK = WRITE_LOCK + 1n
const LOCK_NOT_AVAILABLE = '55P03'
const LOCK_MS = 200
const LOCK_PAUSE_S = 0.5
/** Ten minutes of pauses: by then even the backup of a large store has ended. */
const LOCK_TRIES = 1200
/** Waits below this time are not reported, because most end earlier. */
const QUIET_MS = 2000
const QUIET_TRIES = Math.ceil(QUIET_MS / (LOCK_MS + LOCK_PAUSE_S * 1000))

/** Called once with a sentence about the process that is waited for. */
export type ReportWait = (sentence: string) => void

/**
 * Applies missing migrations and returns the schema's number. Throws a `StoreError` for a newer version, a gap in the list of
 * versions, another program's database, and a failing migration (with its file).
 *
 * @param canWrite false: only checks that the schema is the newest
 */
export function migratePostgres(
  database: Database,
  {
    canWrite = true,
    folder = FOLDER,
    onWait = () => {},
  }: { canWrite?: boolean; folder?: string; onWait?: ReportWait } = {},
): number {
  const files = migrationFiles(folder)
  if (!canWrite) {
    const version = versionOf(database, files)
    if (version === files.length) return version
    throw tooOld(version, files.length)
  }
  return locked(database, onWait, () => {
    const version = versionOf(database, files)
    if (version === 0) {
      refuseOthers(database)
      refuseStranger(database)
      claim(database)
    }
    for (const [index, file] of files.entries())
      if (index >= version) apply(database, join(folder, file), index + 1, onWait)
    return files.length
  })
}

/** Without the lock, a process could read a schema that another process has not completed. */
function locked<Result>(database: Database, onWait: ReportWait, work: () => Result): Result {
  takeMigrationLock(database, onWait)
  try {
    return work()
  } finally {
    if (!database.inTransaction()) database.prepare('SELECT pg_advisory_unlock(?)').get(MIGRATION_LOCK)
  }
}

function takeMigrationLock(database: Database, onWait: ReportWait): void {
  const take = (ms: number) => {
    database.exec(`SET lock_timeout = ${ms}`)
    database.prepare('SELECT pg_advisory_lock(?)').get(MIGRATION_LOCK)
  }
  try {
    take(QUIET_MS)
  } catch (error) {
    if (!isTooLate(error)) throw error
    onWait(`Waiting for ${shown(database.prepare(LOCKER).get(MIGRATION_LOCK))}, which is migrating the database.`)
    take(0)
  } finally {
    database.exec('SET lock_timeout = 0')
  }
}

const LOCKER = `
  SELECT pid, application_name FROM pg_locks JOIN pg_stat_activity USING (pid)
  WHERE locktype = 'advisory' AND granted AND objsubid = 1
    AND pg_locks.database = (SELECT oid FROM pg_database WHERE datname = current_database())
    AND CAST(classid AS BIGINT) << 32 | CAST(objid AS BIGINT) = ?`
const OLDEST = `
  SELECT pid, application_name FROM pg_stat_activity
  WHERE datname = current_database() AND pid <> pg_backend_pid() AND xact_start IS NOT NULL ORDER BY xact_start LIMIT 1`

/** Names a process; the server hides the details from users without the right. */
function shown(process: Row | undefined): string {
  if (process === undefined) return 'another process'
  const name = process['application_name']
  return `process ${process['pid']} of the server${name ? ` (${visible(String(name))})` : ''}`
}

const isTooLate = (error: unknown) => (error as { code?: unknown }).code === LOCK_NOT_AVAILABLE

/**
 * Applies a migration while other replicas serve. While a migration waits for a table, for example because of a backup, all later statements
 * on the table wait too. So it gives up in less time than a gateway's statement may take, and is retried later.
 */
function apply(database: Database, path: string, number: number, onWait: ReportWait): void {
  const [sql, file] = [readFileSync(path, 'utf8'), basename(path)]
  try {
    for (let tries = LOCK_TRIES; ; tries--) {
      try {
        transaction(database, () => {
          database.exec(`SET LOCAL lock_timeout = '${LOCK_MS}ms'`)
          database.exec(sql)
          database.prepare('INSERT INTO tollgate_schema (version, file) VALUES (?, ?)').run(number, file)
        })
        return
      } catch (error) {
        if (!isTooLate(error) || tries === 0) throw error
        if (tries === LOCK_TRIES - QUIET_TRIES) {
          onWait(
            `Migration ${file} waits for a table. The oldest transaction belongs to ${shown(database.prepare(OLDEST).get())}.`,
          )
        }
        database.exec(`SELECT pg_sleep(${LOCK_PAUSE_S})`)
      }
    }
  } catch (error) {
    throw new StoreError(`Migration ${file} failed and was rolled back: ${(error as Error).message}.`, {
      cause: error,
    })
  }
}

/** The number of a store's schema, also of an older one. Throws a `StoreError` for any other database. */
export function findPostgresSchema(database: Database): number {
  const files = migrationFiles(FOLDER)
  const version = versionOf(database, files)
  if (version === 0) throw tooOld(version, files.length)
  return version
}

/**
 * Whether the database has a store, even of an older version. Throws a `StoreError` for a newer version. Waits for a process that
 * migrates the database.
 */
export function isPostgresStore(database: Database, onWait: ReportWait): boolean {
  return locked(database, onWait, () => versionOf(database, migrationFiles(FOLDER)) > 0)
}

/** 0 if no migration was ever applied. */
function versionOf(database: Database, files: readonly string[]): number {
  const isThere = database.prepare("SELECT to_regclass('tollgate_schema') IS NOT NULL AS found").get()?.['found'] === 1
  if (!isThere) return 0
  const applied = database.prepare('SELECT version, file FROM tollgate_schema ORDER BY version').all()
  const newest = Number(applied.at(-1)?.['version'] ?? 0)
  if (newest > files.length) {
    throw new StoreError(
      `This store has schema ${newest}, and this Tollgate knows schemas up to ${files.length}. Run the newer version that wrote it.`,
    )
  }
  for (const [index, { version, file }] of applied.entries()) {
    if (Number(version) === index + 1 && file === files[index]) continue
    throw new StoreError(
      `The table tollgate_schema has ${file} as migration ${version}; this version expects ${files[index]} as migration ${index + 1}. Restore a backup of the database.`,
    )
  }
  return newest
}

/**
 * Checks whether a store can be opened at an address, without changes. Throws a `StoreError` with the reason if not. Waits for a process
 * that migrates the database.
 */
export function checkPostgres(url: string, onWait: ReportWait = () => {}): void {
  const database = openPostgres(url)
  try {
    refusePooler(database, url)
    locked(database, onWait, () => {
      if (versionOf(database, migrationFiles(FOLDER)) > 0) return
      refuseOthers(database)
      refuseStranger(database)
    })
  } finally {
    database.close()
  }
}

/** Throws for a user who may not create tables: since PostgreSQL 15, everyone but the owner of the database. */
function refuseStranger(database: Database): void {
  const { user, name, schema, path, may } = database.prepare(RIGHTS).get()!
  if (schema === null) {
    throw new StoreError(
      `The database ${name} has none of the schemas in search_path (${path}). Create one for the user ${user}.`,
    )
  }
  if (may === 1) return
  throw new StoreError(
    `The user ${user} may not create tables in the schema ${schema} of the database ${name}. Make the user the owner of the database.`,
  )
}

const RIGHTS = `
  SELECT current_user AS "user", current_database() AS name, current_schema() AS schema, current_setting('search_path') AS path,
    has_schema_privilege(current_schema(), 'CREATE') AS may`

/**
 * Throws if a pooler gives each transaction another connection. The settings of the session, which make a commit wait for the disk, would
 * be another client's, and prepared statements would be missing.
 */
export function refusePooler(database: Database, url: string): void {
  // With such a pooler, the first connection does not see its own setting, or the second one does, depending on the pooler's order.
  const word = randomUUID()
  const other = openPostgres(url)
  const sees = (one: Database) =>
    one.prepare("SELECT current_setting('tollgate.session', true) AS word").get()!['word'] === word
  try {
    database.exec(`SET tollgate.session = '${word}'`)
    if (sees(database) && !sees(other)) return
  } catch (error) {
    if (!STATEMENT_LOST.test(String((error as { code?: unknown }).code))) throw error
  } finally {
    other.close()
  }
  throw new StoreError(
    `There is a pooler in transaction or statement mode at ${placeOf(url)}. Connect to the server directly, or use the session mode of the pooler.`,
  )
}

/** SQLSTATE of a prepared statement that exists already, or does not exist. */
const STATEMENT_LOST = /^(?:42P05|26000)$/

/** Throws for a database with tables of another program. */
function refuseOthers(database: Database): void {
  const tables = database
    .prepare(
      "SELECT table_name FROM information_schema.tables WHERE table_schema = current_schema() AND table_name <> 'tollgate_schema'",
    )
    .all()
  if (tables.length > 0) {
    throw new StoreError(
      `The database has tables of another program (${tables[0]!['table_name']}). Create a database for Tollgate alone: createdb tollgate.`,
    )
  }
}

/** Marks an empty database as ours. */
function claim(database: Database): void {
  database.exec(`
    CREATE TABLE IF NOT EXISTS tollgate_schema (
      version    BIGINT NOT NULL PRIMARY KEY,
      file       TEXT NOT NULL,
      applied_at TIMESTAMPTZ NOT NULL DEFAULT now()
    )`)
}
