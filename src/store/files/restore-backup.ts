/**
 * Restores a backup in the place of a store that no gateway uses. The file, the secret and the audit of the content are checked before
 * anything changes. Requests that were in progress in the backup are settled as after a crash.
 */
import { readFileSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import type { Clock, NanoUsd } from '#contract'
import { isPostgres } from '../../common/server-address.ts'
import { checkpointLog, connect } from '../engine/database.ts'
import { findSchema } from '../engine/migrate.ts'
import { openStore } from '../engine/sqlite.ts'
import { StoreError } from '../error.ts'
import { spoolPath } from '../money/spool.ts'
import { matchSecret } from '../secret.ts'
import { RESTORING, SPOOL } from '../store-address.ts'
import { type BackupSeal, unseal } from './backup-file.ts'
import type { CopyProgress } from './copy-rows.ts'
import { copyStore } from './copy-store.ts'
import { createNewFile, giveTo, hasBytes, realPath, removeDatabase, syncFolder } from './files.ts'
import { type Lock, takeLock } from './lock.ts'
import { WAITING } from './make-backup.ts'
import { findStoreFiles } from './store-files.ts'

export interface RestoreRequest {
  readonly file: string
  /** `sqlite:` and an absolute path, or `postgres://USER@HOST/DATABASE`: an empty database. */
  readonly store: string
  /** The gateway's folder, for a store in PostgreSQL. */
  readonly folder: string
  readonly secret: string
  /** The place of the secret, as `secretPlace` returns it. */
  readonly secretPlace: string
  /** Keeps the files of an existing store under other names, instead of refusing. */
  readonly replace: boolean
  readonly clock: Clock
  readonly onProgress?: CopyProgress
  /** See `copyStore`. */
  readonly onWait?: (sentence: string) => void
}

export interface RestoreReport extends Pick<BackupSeal, 'tollgate' | 'at'> {
  readonly accounts: number
  readonly events: number
  /** The sum over all accounts. */
  readonly posted: NanoUsd
  /** Charges that waited beside the database. */
  readonly replayed: number
  /** Exchanges that were in progress, settled at their last checkpoint. */
  readonly settled: number
  readonly charged: NanoUsd
  /** The path of the replaced database; null: none was replaced. */
  readonly kept: string | null
}

/** Restores a backup. Throws a `StoreError`, and changes nothing, for a problem with the file, the secret or the place. */
export async function restoreBackup(request: RestoreRequest): Promise<RestoreReport> {
  const { store, clock } = request
  await checkBackup(request)
  if (isPostgres(store)) return restoreToPostgres(request)
  const path = realPath(store.slice('sqlite:'.length))
  const lock = await takeLock(path, clock)
  try {
    const old = findStoreFiles(path)
    if (old.isStore && !request.replace) {
      throw new StoreError(
        `There is a store at ${path} already. Use --replace to replace it; the old one is kept beside it.`,
      )
    }
    const aside = path + RESTORING
    return await unpacked(aside, request, report => {
      const owner = statSync(path, { throwIfNoEntry: false }) ?? statSync(dirname(path))
      for (const file of [aside, `${path}.lock`]) giveTo(file, owner)
      const kept = old.isStore ? putAway(path, old.files, clock) : null
      renameSync(aside, path)
      syncFolder(dirname(path))
      return { ...report, kept }
    })
  } finally {
    lock.release()
  }
}

/** Checks the file before anything is locked or created, so that a wrong file is reported without stopping a gateway. */
async function checkBackup({ file, secret, secretPlace }: RestoreRequest): Promise<void> {
  await unseal(file, null)
  const database = connect(file, { readOnly: true })
  try {
    findSchema(database)
    matchSecret(database, { secret, secretPlace, place: file })
  } finally {
    database.close()
  }
}

async function restoreToPostgres(request: RestoreRequest): Promise<RestoreReport> {
  const { store, folder, clock } = request
  const place = join(folder, SPOOL)
  const lock = await takeLock(place, clock)
  try {
    const aside = place + RESTORING
    return await unpacked(aside, request, async report => {
      await copyStore({ ...request, from: `sqlite:${aside}`, to: store })
      return { ...report, kept: null }
    })
  } finally {
    giveBack(place, lock)
  }
}

/**
 * Removes the copy that a killed restore has left, unless a restore is running.
 *
 * @param place the store's path; for PostgreSQL, the base name of its files in the folder
 * @param lock of the store; null: a restore may have it
 */
export async function removeLeftover(place: string, clock: Clock, lock: Lock | null): Promise<void> {
  const own = lock ?? (await takeLock(place, clock).catch(() => null))
  if (own === null) return
  removeStore(place + RESTORING)
  if (own !== lock) giveBack(place, own)
}

/** Also removes the file of the lock: a store in PostgreSQL is locked for a restore only. */
function giveBack(place: string, lock: Lock): void {
  rmSync(`${place}.lock`, { force: true })
  lock.release()
}

/** Unpacks a backup into a sound store in a temporary file, and passes it on; the file is removed afterwards. */
async function unpacked(
  aside: string,
  request: RestoreRequest,
  use: (report: Omit<RestoreReport, 'kept'>) => RestoreReport | Promise<RestoreReport>,
): Promise<RestoreReport> {
  // Left over from a restore that was killed.
  removeStore(aside)
  createNewFile(aside)
  try {
    const { tollgate, at } = await unseal(request.file, aside)
    unpackSpool(aside)
    const { clock, secret, onProgress = () => {} } = request
    const store = await openStore({ url: `sqlite:${aside}`, secret, clock, writes: 'here' })
    try {
      const { replayed, settled, charged } = await store.recover()
      const audited = store.reads.verify((done, total) => onProgress('Verifying', done, total))
      const [first] = audited.violations
      if (first !== undefined) {
        throw new StoreError(`The backup ${request.file} is not sound: ${first.subject}: ${first.message}`)
      }
      const posted = store.reads.listAccounts().reduce((sum, account) => sum + account.posted, 0n)
      const { accounts, events } = audited
      await store.close()
      // The last connection was read-only and left the log.
      checkpointLog(aside)
      return await use({ tollgate, at, accounts, events, posted, replayed, settled, charged })
    } finally {
      await store.close()
    }
  } finally {
    removeStore(aside)
  }
}

/** Writes the waiting charges to a spool, as a killed gateway leaves them. */
function unpackSpool(aside: string): void {
  const database = connect(aside)
  try {
    const waiting = database.prepare('DELETE FROM meta WHERE name = ? RETURNING value').get(WAITING)
    if (waiting !== undefined) writeFileSync(spoolPath(aside, 0), `${waiting['value']}\n`, { mode: 0o600 })
  } finally {
    database.close()
  }
}

function removeStore(path: string): void {
  removeDatabase(path)
  for (const end of ['.commits', '.spool', '.spool.rejected', '.lock', '.owner'])
    rmSync(`${path}${end}`, { force: true })
}

/**
 * Renames the files of a store so that SQLite and Tollgate still find them together. The log is copied: a process that is killed between
 * two steps leaves a complete store under one of the names.
 */
function putAway(path: string, files: readonly string[], clock: Clock): string {
  const kept = `${path}.replaced-${new Date(clock.now()).toISOString().replaceAll(':', '-')}`
  const log = `${path}-wal`
  if (hasBytes(log)) {
    writeFileSync(`${kept}-wal`, readFileSync(log), { mode: 0o600, flush: true })
    giveTo(`${kept}-wal`, statSync(log))
  }
  for (const file of files) {
    if (file === log || file === `${path}-shm`) rmSync(file)
    else renameSync(file, kept + file.slice(path.length))
  }
  return kept
}
