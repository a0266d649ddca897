/**
 * Brings a database in PostgreSQL to the newest schema: numbered files, each applied once, in the transaction that records its
 * number. An advisory lock lets one process at a time do it.
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
/** The letters TOLLGATE: of the lock of whoever changes more than the ledger, and, one more, of whoever migrates it. */
export const WRITE_LOCK = 0x544f_4c4c_4741_5445n
const MIGRATION_LOCK = WRITE_LOCK + 1n
const LOCK_NOT_AVAILABLE = '55P03'
const LOCK_MS = 200
const LOCK_PAUSE_S = 0.5
/** Ten minutes of pauses: a backup of a large store is over by then. */
const LOCK_TRIES = 1200
/** So long nobody is told that something is waited for: most waits are over by then. */
const QUIET_MS = 2000
const QUIET_TRIES = Math.ceil(QUIET_MS / (LOCK_MS + LOCK_PAUSE_S * 1000))

/** Told in a sentence, once, who is waited for. */
export type TellWait = (sentence: string) => void

/**
 * Applies what is missing and returns the schema's number. Throws a `StoreError` for a database of a newer version, one whose
 * list of versions has a gap, one of another program, and one that names the file when a migration fails.
 *
 * @param canWrite false: only looks whether the schema is the newest
 */
export function migratePostgres(
  database: Database,
  {
    canWrite = true,
    folder = FOLDER,
    onWait = () => {},
  }: { canWrite?: boolean; folder?: string; onWait?: TellWait } = {},
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
function locked<Result>(database: Database, onWait: TellWait, work: () => Result): Result {
  takeMigrationLock(database, onWait)
  try {
    return work()
  } finally {
    if (!database.inTransaction()) database.prepare('SELECT pg_advisory_unlock(?)').get(MIGRATION_LOCK)
  }
}

function takeMigrationLock(database: Database, onWait: TellWait): void {
  const take = (ms: number) => {
    database.exec(`SET lock_timeout = ${ms}`)
    database.prepare('SELECT pg_advisory_lock(?)').get(MIGRATION_LOCK)
  }
  try {
    take(QUIET_MS)
  } catch (error) {
    if (!isTooLate(error)) throw error
    onWait(`Waiting for ${shown(database.prepare(LOCKER).get(MIGRATION_LOCK))}, which migrates the database.`)
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

/** The server says neither to whoever may not know it. */
function shown(process: Row | undefined): string {
  if (process === undefined) return 'another process'
  const name = process['application_name']
  return `process ${process['pid']} of the server${name ? ` (${visible(String(name))})` : ''}`
}

const isTooLate = (error: unknown) => (error as { code?: unknown }).code === LOCK_NOT_AVAILABLE

/**
 * While others serve: what has to wait for a table (behind a backup, which reads for minutes) makes everybody wait who comes
 * after it. So it gives up after less time than a statement of a gateway may take, and tries again later.
 */
function apply(database: Database, path: string, number: number, onWait: TellWait): void {
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
            `Migration ${file} waits for a table. The oldest transaction is of ${shown(database.prepare(OLDEST).get())}.`,
          )
        }
        database.exec(`SELECT pg_sleep(${LOCK_PAUSE_S})`)
      }
    }
  } catch (error) {
    throw new StoreError(`Migration ${file} failed, and nothing of it was kept: ${(error as Error).message}.`, {
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
 * Whether there is a store, also one of an older version. Throws a `StoreError` for one of a newer version. Waits for a process that
 * migrates the database.
 */
export function isPostgresStore(database: Database, onWait: TellWait): boolean {
  return locked(database, onWait, () => versionOf(database, migrationFiles(FOLDER)) > 0)
}

/** 0 when nothing was ever applied. */
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
      `The table tollgate_schema says that migration ${version} was ${file}; here migration ${index + 1} is ${files[index]}. Restore a backup of the database.`,
    )
  }
  return newest
}

/**
 * Looks whether a store can be opened at an address, and changes nothing there. Throws the `StoreError` that says why not. Waits for a
 * process that migrates the database.
 */
export function checkPostgres(url: string, onWait: TellWait = () => {}): void {
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

/** Throws for a user who may not make tables: since PostgreSQL 15 that is whoever does not own the database. */
function refuseStranger(database: Database): void {
  const { user, name, schema, path, may } = database.prepare(RIGHTS).get()!
  if (schema === null) {
    throw new StoreError(
      `The database ${name} has none of the schemas that search_path names (${path}). Create one for the user ${user}.`,
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
 * Throws where a pooler gives each transaction another connection: the settings of a session, by which a commit waits for the disk,
 * would be those of somebody else's, and prepared statements would be gone.
 */
export function refusePooler(database: Database, url: string): void {
  // What the first connection sets, it does not see itself, or the second one sees it: that depends on the pooler's order.
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
    `A pooler in transaction or statement mode answers at ${placeOf(url)}. Connect to the server directly, or use the session mode of the pooler.`,
  )
}

/** SQLSTATE of a prepared statement that is there already, or that is not there. */
const STATEMENT_LOST = /^(?:42P05|26000)$/

/** Throws for a database in which somebody else keeps tables. */
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

/** Takes an empty database. */
function claim(database: Database): void {
  database.exec(`
    CREATE TABLE IF NOT EXISTS tollgate_schema (
      version    BIGINT NOT NULL PRIMARY KEY,
      file       TEXT NOT NULL,
      applied_at TIMESTAMPTZ NOT NULL DEFAULT now()
    )`)
}
