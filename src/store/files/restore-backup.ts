/**
 * Puts a backup in the place of a store, while no gateway uses it. Everything is looked at before anything is changed: the file,
 * the secret, and the audit of what is in it. What was under way in the backup is settled as after a crash.
 */
import { readFileSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import type { Clock, NanoUsd } from '#contract'
import { isPostgres } from '../../common/server-address.ts'
import { connect, emptyLog } from '../engine/database.ts'
import { findSchema } from '../engine/migrate.ts'
import { openStore } from '../engine/sqlite.ts'
import { StoreError } from '../error.ts'
import { spoolPath } from '../money/spool.ts'
import { hasSecret } from '../secret.ts'
import { RESTORING, SPOOL } from '../store-address.ts'
import { type BackupSeal, unseal } from './backup-file.ts'
import type { CopyProgress } from './copy-rows.ts'
import { copyStore } from './copy-store.ts'
import { createNewFile, giveTo, hasBytes, realPath, removeDatabase, syncFolder } from './files.ts'
import { type Lock, takeLock } from './lock.ts'
import { WAITING } from './make-backup.ts'
import { findOld } from './store-files.ts'

export interface RestoreRequest {
  readonly file: string
  /** `sqlite:` and an absolute path, or `postgres://USER@HOST/DATABASE`: an empty database. */
  readonly store: string
  /** Of the gateway's own files, where the store is no file. */
  readonly folder: string
  readonly secret: string
  /** Where that was found: `secretPlace`. */
  readonly secretPlace: string
  /** Keeps the files of a store that is there under other names, instead of refusing. */
  readonly replace: boolean
  readonly clock: Clock
  readonly onProgress?: CopyProgress
  /** As `copyStore` has it. */
  readonly onWait?: (sentence: string) => void
}

export interface RestoreReport extends Pick<BackupSeal, 'tollgate' | 'at'> {
  readonly accounts: number
  readonly events: number
  /** Of all accounts together. */
  readonly posted: NanoUsd
  /** Charges that waited beside the database. */
  readonly replayed: number
  /** Exchanges that were under way, at their last checkpoint. */
  readonly settled: number
  readonly charged: NanoUsd
  /** The database that was replaced; null: there was none. */
  readonly kept: string | null
}

/** Restores a backup. Throws a `StoreError`, and changes nothing, for whatever is wrong with the file, the secret or the place. */
export async function restoreBackup(request: RestoreRequest): Promise<RestoreReport> {
  const { store, clock } = request
  await lookAt(request)
  if (isPostgres(store)) return restoreToPostgres(request)
  const path = realPath(store.slice('sqlite:'.length))
  const lock = await takeLock(path, clock)
  try {
    const old = findOld(path)
    if (old.isStore && !request.replace) {
      throw new StoreError(
        `There is a store at ${path} already. With --replace the restored one takes its place, and it is kept beside it.`,
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

/** Before anything is locked or made: whoever has the wrong file need not stop a gateway to learn it. */
async function lookAt({ file, secret, secretPlace }: RestoreRequest): Promise<void> {
  await unseal(file, null)
  const database = connect(file, { readOnly: true })
  try {
    findSchema(database)
    hasSecret(database, { secret, secretPlace, place: file })
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
 * Removes the copy of a store that a restore has left that was killed, unless a restore is at work.
 *
 * @param place the store's path; of one in PostgreSQL, what its files in the folder are named after
 * @param lock of the store; null: a restore may have it
 */
export async function removeLeft(place: string, clock: Clock, lock: Lock | null): Promise<void> {
  const own = lock ?? (await takeLock(place, clock).catch(() => null))
  if (own === null) return
  removeStore(place + RESTORING)
  if (own !== lock) giveBack(place, own)
}

/** Without the file of the lock: a store in PostgreSQL is locked for a restore only. */
function giveBack(place: string, lock: Lock): void {
  rmSync(`${place}.lock`, { force: true })
  lock.release()
}

/** Makes a sound store of a backup, in a file beside, and hands it on; afterwards nothing is left of it there. */
async function unpacked(
  aside: string,
  request: RestoreRequest,
  use: (report: Omit<RestoreReport, 'kept'>) => RestoreReport | Promise<RestoreReport>,
): Promise<RestoreReport> {
  // Of a restore that was killed.
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
      // Its last connection only read, and left the log.
      emptyLog(aside)
      return await use({ tollgate, at, accounts, events, posted, replayed, settled, charged })
    } finally {
      await store.close()
    }
  } finally {
    removeStore(aside)
  }
}

/** As a gateway that was killed leaves it: the charges that waited are beside the database. */
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
 * Gives the files of a store another name, under which SQLite and Tollgate find them together too. The log is copied: whoever
 * ends this process between two steps finds a whole store under one of the names.
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
