/**
 * The lock of a store: one owner at a time. An open transaction on a second SQLite file holds a lock of the operating system. It is
 * released when the process ends, also after kill -9, so stale locks need no cleanup.
 */
import { readFileSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { resolve } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import type { Clock } from '#contract'
import { connect, type Database, isBusy } from '../engine/database.ts'
import { StoreError } from '../error.ts'
import { createFile, realPath } from './files.ts'
import { ageOf, holderOf } from './holder.ts'

export interface Lock {
  /** A second call does nothing. */
  release(): void
}

/** The use of a store by its owner: a gateway that serves, or one command. */
export type Purpose = 'serve' | 'command'

/** The owner of a lock, for the message to the next process. */
interface Owner {
  readonly pid: number
  readonly startedAt: number
  readonly purpose: Purpose
}

/** How often and how long a gateway waits for a command to end. */
const ROUNDS = 200
const ROUND_MS = 50

/** A pid was reused if its process is younger than the lock by more than this. */
const CLOCKS_DIFFER_MS = 1000

// The paths of held locks, by connection. Kept here, because a garbage-collected connection is closed and loses its lock.
const held = new Map<Database, string>()

/**
 * Takes the lock of the store at `path`, or throws a `StoreError` with the owner's pid and age. A gateway waits up to 10 s for a command.
 * Symbolic links lead to the same lock; a file with hard links is refused. Makes `<path>.lock` (which stays, empty) and `<path>.owner`
 * (the owner's pid) beside the store.
 */
export async function takeLock(path: string, clock: Clock, purpose: Purpose = 'command'): Promise<Lock> {
  for (let round = purpose === 'serve' ? ROUNDS : 0; ; round--) {
    const lock = tryLock(path, clock, purpose)
    if (lock !== null) return lock
    if (round <= 0 || isServed(path, clock.now())) throw new StoreError(inUse(path, clock.now()))
    await wait(ROUND_MS)
  }
}

/** Null if another process has it. */
function tryLock(path: string, clock: Clock, purpose: Purpose): Lock | null {
  const real = realPath(path)
  createFile(`${real}.lock`)
  const database = connect(`${real}.lock`, { busyMs: 0 })
  try {
    database.exec('BEGIN EXCLUSIVE')
    refuseHardLinks(path, real)
    writeOwner(real, { pid: process.pid, startedAt: clock.now(), purpose })
    return heldLock(real, database)
  } catch (error) {
    database.close()
    if (isBusy(error)) return null
    if (error instanceof StoreError) throw error
    throw new StoreError(`The lock ${path}.lock cannot be taken: ${(error as Error).message}.`, { cause: error })
  }
}

function heldLock(real: string, database: Database): Lock {
  held.set(database, real)
  return {
    release() {
      if (!held.delete(database)) return
      rmSync(ownerFile(real), { force: true })
      database.close()
    },
  }
}

/**
 * SQLite names the write-ahead log after the name by which it opened the file. Under another name it does not find the last commits, and
 * two processes with two names overwrite each other.
 */
function refuseHardLinks(path: string, real: string): void {
  const file = statSync(real, { throwIfNoEntry: false })
  if (file === undefined || file.nlink === 1) return
  const rule = `The file has ${file.nlink} hard links, and a store must have one name only: remove the others`
  const holder = holderOf(file.ino, statSync(`${real}.lock`).ino)
  const message =
    holder === null
      ? `The store ${resolve(path)} cannot be opened. ${rule}.`
      : `The store ${resolve(path)} is in use by process ${holder.pid}, for ${formatAge(holder.ageMs)}, under another name. ${rule}.`
  // The cause marks it as permanent: a retry would not help.
  throw new StoreError(message, { cause: new Error(`${file.nlink} hard links`) })
}

function inUse(path: string, now: number): string {
  const owner = readOwner(path)
  const who = owner ? `process ${owner.pid}, for ${formatAge(now - owner.startedAt)}` : 'another process'
  return `The store ${resolve(path)} is in use by ${who}. Stop that one first, or name another store.`
}

/**
 * Whether a living gateway has the lock, so that waiting is useless. The file may be left over from a dead owner whose pid was reused, in
 * a container often by this process.
 */
function isServed(path: string, now: number): boolean {
  const owner = readOwner(path)
  if (owner?.purpose !== 'serve') return false
  if (owner.pid === process.pid) return [...held.values()].includes(realPath(path))
  try {
    process.kill(owner.pid, 0)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EPERM') return false
  }
  try {
    return ageOf(owner.pid) >= now - owner.startedAt - CLOCKS_DIFFER_MS
  } catch {
    // The file system is missing. A process that has ended meanwhile is noticed in the next round.
    return true
  }
}

// A separate file: closing a second descriptor of the locked one would drop the lock (fcntl(2)).
function ownerFile(real: string): string {
  return `${real}.owner`
}

function writeOwner(real: string, owner: Owner): void {
  const aside = `${ownerFile(real)}.${process.pid}`
  writeFileSync(aside, `${JSON.stringify(owner)}\n`, { mode: 0o600 })
  renameSync(aside, ownerFile(real))
}

/** Undefined between taking the lock and writing the owner. */
function readOwner(path: string): Owner | undefined {
  try {
    return JSON.parse(readFileSync(ownerFile(realPath(path)), 'utf8')) as Owner
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
