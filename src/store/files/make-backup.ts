/**
 * Makes a backup of a store while gateways use it: one state of the database, audited, with its waiting charges. It never has the secret,
 * only the digest by which a restore compares it (secret.ts).
 */
import { constants, copyFileSync, existsSync, renameSync, statSync } from 'node:fs'
import { dirname, join } from 'node:path'
import type { Clock, NanoUsd } from '#contract'
import { isPostgres } from '../../common/server-address.ts'
import { connect, copyPages, type Database, openDatabase } from '../engine/database.ts'
import { findSchema, migrate } from '../engine/migrate.ts'
import { StoreError } from '../error.ts'
import { createSpool, type SpooledLine, spoolsOf } from '../money/spool.ts'
import { verify } from '../money/verify.ts'
import type { VerifyReport } from '../store.ts'
import { SPOOL } from '../store-address.ts'
import { seal } from './backup-file.ts'
import { type CopyProgress, copyRows } from './copy-rows.ts'
import { createNewFile, realPath, removeDatabase, syncFolder } from './files.ts'

export interface BackupRequest {
  /** `sqlite:` and an absolute path, or `postgres://USER@HOST/DATABASE`. */
  readonly store: string
  /** The gateway's folder, for a store in PostgreSQL. */
  readonly folder: string
  /** The path of the backup, which must not exist. */
  readonly file: string
  /** The version of this program. */
  readonly tollgate: string
  readonly clock: Clock
  readonly onProgress?: CopyProgress
}

export interface BackupReport {
  readonly bytes: number
  readonly schema: number
  readonly accounts: number
  readonly events: number
  readonly openHolds: number
  /** Charges that the database had not accepted yet. */
  readonly waiting: number
  /** The sum over all accounts. */
  readonly posted: NanoUsd
}

/** The row of `meta` with the waiting charges, as lines of a spool. */
export const WAITING = 'backup_spool'

/** Makes a backup. Throws a `StoreError`, and leaves no file, if the store does not exist, has a newer version, or breaks an invariant. */
export async function makeBackup(request: BackupRequest): Promise<BackupReport> {
  const { store, folder, file, tollgate, clock, onProgress = () => {} } = request
  if (existsSync(file)) throw new StoreError(`${file} exists already. Name another file.`)
  const target = dirname(file)
  // The folder is not created: it may belong to a disk that is not mounted.
  if (!existsSync(target)) {
    throw new StoreError(`The folder ${target} of the backup does not exist. Make it first: mkdir -p ${target}`)
  }
  const source = isPostgres(store) ? null : realPath(store.slice('sqlite:'.length))
  if (source !== null && !existsSync(source)) throw new StoreError(`The store ${source} does not exist yet.`)
  const aside = `${file}.${process.pid}.partial`
  // Left over from a killed process with the same number.
  removeDatabase(aside)
  createNewFile(aside)
  try {
    const at = new Date(clock.now()).toISOString()
    // The spool is read before the database. A charge that is written meanwhile is in both, and is charged once.
    const spooled = readSpooled(source ?? join(folder, SPOOL))
    let audited: VerifyReport | null = null
    if (source === null) audited = await copyPostgres(store, aside, onProgress)
    else await copyPages(source, aside, (done, total) => onProgress('Copying', done, total))
    const report = finish({ aside, spooled, audited, onProgress })
    await seal(aside, { tollgate, at })
    renameSync(aside, file)
    syncFolder(dirname(file))
    return { ...report, bytes: statSync(file).size }
  } catch (error) {
    if (error instanceof StoreError || 'syscall' in (error as Error)) throw error
    throw new StoreError(`The backup ${file} cannot be created: ${(error as Error).message}.`, { cause: error })
  } finally {
    removeDatabase(aside)
  }
}

/** Copies row by row from one state of the database, while replicas write. */
async function copyPostgres(url: string, aside: string, onProgress: CopyProgress): Promise<VerifyReport> {
  const { findPostgresSchema, openPostgres, placeOf } = await import('../engine/postgres/index.ts')
  const database = openPostgres(url, { readOnly: true })
  const target = openDatabase(aside)
  try {
    // From an older version, only the tables and columns that it has are copied.
    findPostgresSchema(database)
    migrate(target)
    database.exec(database.dialect.snapshot)
    target.exec('BEGIN IMMEDIATE')
    const source = { place: placeOf(url), database }
    return copyRows({ place: 'the backup', database: target }, source, onProgress, () => target.exec('COMMIT')).audited
  } finally {
    database.close()
    target.close()
  }
}

interface CopyParts {
  readonly aside: string
  readonly spooled: readonly SpooledLine[]
  /** Null: it was not audited yet. */
  readonly audited: VerifyReport | null
  readonly onProgress: CopyProgress
}

/** Audits a copy of the database and adds the waiting charges. */
function finish({ aside, spooled, audited, onProgress }: CopyParts): Omit<BackupReport, 'bytes'> {
  const database = connect(aside)
  try {
    const { schema, isNewest } = findSchema(database)
    const show = (done: number, total: number) => onProgress('Verifying', done, total)
    const report = audited ?? (isNewest ? verify(database, show) : auditMigrated(aside, show))
    const [first] = report.violations
    if (first !== undefined) {
      throw new StoreError(
        `The store is not sound, so no backup was made: ${first.subject}: ${first.message} Run: tollgate ledger verify`,
      )
    }
    const waiting = spooled.filter(({ settle }) => settle !== undefined && isOpen(database, settle.exchange))
    if (waiting.length > 0) {
      const lines = waiting.map(({ line }) => line).join('\n')
      database.prepare('INSERT OR REPLACE INTO meta (name, value) VALUES (?, ?)').run(WAITING, lines)
    }
    const balances = database.prepareMoney('SELECT posted FROM balance').all()
    const posted = balances.reduce((sum, row) => sum + (row['posted'] as bigint), 0n)
    // Removes the WAL mode, so that the backup is one file even if it is opened by hand.
    database.exec('PRAGMA journal_mode = DELETE')
    const { accounts, events, openHolds } = report
    return { schema, accounts, events, openHolds, waiting: waiting.length, posted }
  } finally {
    database.close()
  }
}

/**
 * Audits an older version in another copy that is migrated. The backup keeps the old version, because the gateway of the restore may
 * have it.
 */
function auditMigrated(aside: string, show: (done: number, total: number) => void): VerifyReport {
  const path = `${aside}.migrated`
  removeDatabase(path)
  copyFileSync(aside, path, constants.COPYFILE_EXCL)
  const database = connect(path)
  try {
    migrate(database)
    return verify(database, show)
  } finally {
    database.close()
    removeDatabase(path)
  }
}

function isOpen(database: Database, exchange: string): boolean {
  const kinds = database.prepare('SELECT kind FROM event WHERE id = ?').all(exchange)
  return kinds.length === 1 && Number(kinds[0]!['kind']) === 0
}

function readSpooled(store: string): SpooledLine[] {
  return spoolsOf(store).flatMap(file => createSpool(file).read())
}
