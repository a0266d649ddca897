/**
 * Copies a whole store between the engines, from SQLite to PostgreSQL or back. The source is only read. The target gets everything in one
 * transaction; before the commit it is compared with the source row by row, and audited.
 */
import { existsSync, renameSync } from 'node:fs'
import { basename, dirname } from 'node:path'
import type { Clock } from '#contract'
import { isPostgres } from '../../common/server-address.ts'
import { checkpointLog, type Database, openDatabase } from '../engine/database.ts'
import { migrate } from '../engine/migrate.ts'
import { StoreError } from '../error.ts'
import { createSpool, spoolsOf } from '../money/spool.ts'
import { verify } from '../money/verify.ts'
import { type CopyProgress, type CopySide, copyRows, firstWithRows } from './copy-rows.ts'
import { realPath, removeDatabase, syncFolder } from './files.ts'
import { takeLock } from './lock.ts'
import { findStoreFiles } from './store-files.ts'

export interface CopyRequest {
  /** `sqlite:` and an absolute path, or `postgres://USER@HOST/DATABASE`; one of each. */
  readonly from: string
  readonly to: string
  readonly clock: Clock
  readonly onProgress?: CopyProgress
  /** Reports which process delays the migration of a database in PostgreSQL. */
  readonly onWait?: (sentence: string) => void
}

export interface CopyReport {
  readonly tables: readonly { readonly table: string; readonly rows: number }[]
  readonly accounts: number
  readonly events: number
}

interface Side extends CopySide {
  /** Throws if a gateway uses the store now. */
  refuseUse(): void
  /** @param isDone whether the copy was committed */
  close(isDone: boolean): void
}

/**
 * Copies a store. Throws a `StoreError`, and adds nothing to the target, in these cases:
 * - The source is in use, has open holds or waiting charges, or is not sound.
 * - The target is in use or not empty.
 * - Either has another version.
 * An empty database of PostgreSQL may have empty tables then.
 */
export async function copyStore(request: CopyRequest): Promise<CopyReport> {
  const { from, to, onProgress = () => {} } = request
  if (isPostgres(from) === isPostgres(to)) {
    throw new StoreError(
      'A store is copied from SQLite to PostgreSQL, or from PostgreSQL to SQLite. Copy a SQLite file with the gateway stopped; copy a database of PostgreSQL with pg_dump.',
    )
  }
  const source = isPostgres(from) ? await openPostgresSource(from) : await openFileSource(from, request.clock)
  try {
    // The snapshot makes sure that the audited state is the copied one.
    source.database.exec(source.database.dialect.snapshot)
    const audited = verify(source.database, (done, total) => onProgress('Verifying', done, total))
    const [first] = audited.violations
    if (first !== undefined) {
      throw new StoreError(
        `The store ${source.place} is not sound: ${first.subject}: ${first.message} Run: tollgate ledger verify`,
      )
    }
    if (audited.openHolds > 0) throw new StoreError(openHolds(source.place, audited.openHolds))
    const target = isPostgres(to)
      ? await openPostgresTarget(to, request.onWait)
      : await openFileTarget(to, request.clock)
    let isDone = false
    try {
      const { tables } = copyRows(target, source, onProgress, () => {
        // A gateway may have started on the source since; it is visible outside the snapshot.
        source.database.exec('COMMIT')
        source.refuseUse()
        target.database.exec('COMMIT')
      })
      isDone = true
      return { tables, accounts: audited.accounts, events: audited.events }
    } finally {
      target.close(isDone)
    }
  } finally {
    source.close(false)
  }
}

const openHolds = (place: string, count: number) =>
  `The store ${place} has ${count} open hold${count === 1 ? '' : 's'} of a gateway that was killed. Start the gateway once, so that it settles them, and stop it.`

async function openFileSource(url: string, clock: Clock): Promise<Side> {
  const path = fileOf(url)
  if (!existsSync(path)) throw new StoreError(`The store ${path} does not exist.`)
  const lock = await takeLock(path, clock)
  try {
    const database = openDatabase(path, { readOnly: true })
    migrate(database, { canWrite: false })
    const real = realPath(path)
    const waiting = spoolsOf(real).filter(file => createSpool(file).read().length > 0)
    if (waiting.length > 0) {
      throw new StoreError(
        `Charges in ${waiting[0]} are not in the store yet. Start the gateway once, so that it writes them, and stop it.`,
      )
    }
    return {
      place: path,
      database,
      refuseUse() {},
      close() {
        database.close()
        lock.release()
      },
    }
  } catch (error) {
    lock.release()
    throw error
  }
}

async function openPostgresSource(url: string): Promise<Side> {
  const { migratePostgres, openPostgres, placeOf } = await import('../engine/postgres/index.ts')
  const database = openPostgres(url, { readOnly: true })
  try {
    migratePostgres(database, { canWrite: false })
    refuseReplicas(database, placeOf(url))
    const place = placeOf(url)
    return { place, database, refuseUse: () => refuseReplicas(database, place), close: () => database.close() }
  } catch (error) {
    database.close()
    throw error
  }
}

/** Opened in a transaction whose locks prevent a gateway from starting to use it. */
async function openPostgresTarget(url: string, onWait: CopyRequest['onWait'] = () => {}): Promise<Side> {
  const { isPostgresStore, migratePostgres, openPostgres, placeOf, refusePooler } = await import(
    '../engine/postgres/index.ts'
  )
  const [database, place] = [openPostgres(url), placeOf(url)]
  try {
    refusePooler(database, url)
    // A refused store keeps its schema, because gateways of an older version may use it.
    if (isPostgresStore(database, onWait)) refuseFull(database, place)
    migratePostgres(database, { onWait })
    database.exec('BEGIN')
    database.exec('LOCK TABLE replica, account IN ACCESS EXCLUSIVE MODE')
    refuseFull(database, place)
    return { place, database, refuseUse() {}, close: () => database.close() }
  } catch (error) {
    database.close()
    throw error
  }
}

/** The copy is made in another file and renamed when it is complete. The lock prevents another store at the path meanwhile. */
async function openFileTarget(url: string, clock: Clock): Promise<Side> {
  const path = realPath(fileOf(url))
  const lock = await takeLock(path, clock)
  const aside = `${path}.copying`
  let database: Database | null = null
  const leave = () => {
    database?.close()
    database = null
    removeDatabase(aside)
    lock.release()
  }
  try {
    // The log or the spool of a former store would be applied to the copy.
    const [there] = findStoreFiles(path).files
    if (there !== undefined) {
      throw new StoreError(
        `There is a file at ${there} already. Name another path, or move away every file whose name begins with ${basename(path)}.`,
      )
    }
    // Left over from a copy that was killed.
    removeDatabase(aside)
    const opened = openDatabase(aside)
    database = opened
    migrate(opened)
    opened.exec('BEGIN IMMEDIATE')
    return {
      place: path,
      database: opened,
      refuseUse() {},
      close(isDone) {
        try {
          if (!isDone) return
          opened.close()
          database = null
          checkpointLog(aside)
          renameSync(aside, path)
          syncFolder(dirname(path))
        } finally {
          leave()
        }
      },
    }
  } catch (error) {
    leave()
    throw error
  }
}

function refuseFull(database: Database, place: string): void {
  refuseReplicas(database, place)
  const full = firstWithRows(database)
  if (full === null) return
  throw new StoreError(
    `The store ${place} is not empty: the table ${full} has rows. Name an empty database: createdb tollgate.`,
  )
}

function refuseReplicas(database: Database, place: string): void {
  const alive = database
    .prepare('SELECT id, host FROM replica WHERE lease_until > clock_timestamp() ORDER BY id LIMIT 1')
    .get()
  if (alive === undefined) return
  throw new StoreError(
    `The store ${place} is in use by replica ${alive['id']} on ${alive['host']}. Stop all gateways that use it; one that was killed counts for another minute.`,
  )
}

function fileOf(url: string): string {
  return url.slice('sqlite:'.length)
}
