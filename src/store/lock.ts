/**
 * One owner of a store, for life. The lock is the operating system's, held on a second SQLite file by a transaction
 * that never ends: it is gone with the process, also after kill -9, so nobody ever has to delete a stale one.
 */
import { mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, resolve } from 'node:path'
import type { Clock } from '#contract'
import { connect, type Database, isBusy } from './database.ts'
import { StoreError } from './store.ts'

export interface Lock {
  /** Lets the next owner in. Twice is harmless. */
  release(): void
}

/** Who holds a lock, for the sentence that the next one gets. */
interface Owner {
  readonly pid: number
  readonly startedAt: number
}

// A collected connection would be closed, and its lock with it: so a lock lives here, whoever forgets it.
const held = new Set<Database>()

/**
 * Takes the lock of the store at `path`, or throws a `StoreError` that names the owner's pid and age.
 * Beside the store there are then `<path>.lock` (stays, empty) and `<path>.owner` (who it is).
 */
export async function takeLock(path: string, clock: Clock): Promise<Lock> {
  mkdirSync(dirname(path), { recursive: true, mode: 0o700 })
  const database = connect(`${path}.lock`, { busyMs: 0 })
  try {
    database.exec('BEGIN EXCLUSIVE')
    writeOwner(path, { pid: process.pid, startedAt: clock.now() })
  } catch (error) {
    database.close()
    if (isBusy(error)) throw new StoreError(inUse(path, clock.now()))
    throw new StoreError(`The lock ${path}.lock cannot be taken: ${(error as Error).message}.`, { cause: error })
  }
  held.add(database)
  return {
    release() {
      if (!held.delete(database)) return
      rmSync(ownerFile(path), { force: true })
      database.close()
    },
  }
}

function inUse(path: string, now: number): string {
  const owner = readOwner(path)
  const who = owner ? `process ${owner.pid}, for ${formatAge(now - owner.startedAt)}` : 'another process'
  return `The store ${resolve(path)} is in use by ${who}. Stop that one first, or name another store.`
}

// Its own file: opening and closing the locked one a second time in a process would drop the lock (fcntl(2)).
function ownerFile(path: string): string {
  return `${path}.owner`
}

function writeOwner(path: string, owner: Owner): void {
  const aside = `${ownerFile(path)}.${process.pid}`
  writeFileSync(aside, `${JSON.stringify(owner)}\n`, { mode: 0o600 })
  renameSync(aside, ownerFile(path))
}

/** Undefined in the moment between taking the lock and writing the name. */
function readOwner(path: string): Owner | undefined {
  try {
    return JSON.parse(readFileSync(ownerFile(path), 'utf8')) as Owner
  } catch {
    return undefined
  }
}

function formatAge(ms: number): string {
  const minutes = Math.floor(Math.max(0, ms) / 60_000)
  if (minutes < 1) return `${Math.floor(Math.max(0, ms) / 1000)} s`
  if (minutes < 60) return `${minutes} min`
  if (minutes < 48 * 60) return `${Math.floor(minutes / 60)} h ${minutes % 60} min`
  return `${Math.floor(minutes / 1440)} days`
}
