/**
 * How many commits the ledger has, kept in two places: in the database, within each transaction, and after each commit
 * in the file `<store>.commits` beside it. A ledger that lost its last commits is sound in itself; only the second
 * place shows that there were more.
 *
 * The file is not synced. After kill -9 it is exact, because the kernel has it. After a power cut it may be behind, and is
 * never ahead: it is written when the commit is on disk. Its first line is the count and the time of the last commit
 * (milliseconds); each further line says which commits a start found missing. Deleting the file forgets that.
 */

import { appendFileSync, closeSync, constants, openSync, readFileSync, writeSync } from 'node:fs'
import { type Database, transaction } from '../engine/database.ts'
import { createFile, type FileWatch, watchFiles } from '../files/files.ts'
import type { LostCommits } from '../store.ts'

/** The writer's side. */
export interface CommitCount {
  /** Throws when the files that would be written are not those in the folder any more. */
  begin(): void
  /** As the last write of a transaction. */
  beforeCommit(): void
  /** Throws like `begin`: then the commit went into a file that nobody will find again. */
  committed(nowMs: number): void
  close(): void
}

interface Noted {
  readonly commits: number
  readonly at: number
  readonly lost: readonly LostCommits[]
}

const DIGITS = 16
const HEAD = /^(\d{16}) (\d{16})\n/
const LOST = /^lost (\d+) (\d+) (\d+)$/gm

const fileOf = (path: string): string => `${path}.commits`

/** For a store in memory, which has no end that could be lost, and one in PostgreSQL, whose end its server keeps. */
const NO_COUNT: CommitCount = { begin() {}, beforeCommit() {}, committed() {}, close() {} }

/** @param path of the database, or null for one in memory; PostgreSQL's address has no meaning here */
export function createCommitCount(database: Database, path: string | null): CommitCount {
  if (path === null || database.dialect.engine === 'postgres') return NO_COUNT
  const put = preparePut(database)
  let count = Math.max(readCount(database), readNoted(path)?.commits ?? 0)
  const files = watchFiles(path)
  createFile(fileOf(path))
  const file = openSync(fileOf(path), constants.O_WRONLY)
  return {
    begin: () => refuse(files),
    // Each try has a number of its own: one whose COMMIT failed may have happened.
    beforeCommit: () => void put.run(String(++count)),
    committed(nowMs) {
      files.glance()
      refuse(files)
      try {
        writeSync(file, headOf(count, nowMs), 0)
      } catch {
        // The commit is on disk all the same: the count is behind until the next one.
      }
    },
    close: () => closeSync(file),
  }
}

function refuse({ found }: FileWatch): void {
  if (found !== null) throw new Error(found)
}

/**
 * At a start, before anything is written: compares both places. Commits that are missing are noted in the file, where
 * `verify` finds them, and the count goes on behind them. Returns them, or null when none is missing.
 */
export function findLostCommits(database: Database, path: string): LostCommits | null {
  const count = readCount(database)
  const noted = readNoted(path)
  if (noted === null) {
    createNote(path, count)
    return null
  }
  if (noted.commits <= count) return null
  const lost: LostCommits = { from: count + 1, to: noted.commits, at: noted.at }
  // A start that was killed between the two has noted them already.
  if (noted.lost.at(-1)?.to !== lost.to) {
    appendFileSync(fileOf(path), `lost ${lost.from} ${lost.to} ${lost.at}\n`, { flush: true })
  }
  transaction(database, () => preparePut(database).run(String(lost.to)))
  return lost
}

/** The file's part of `verify`. Read it before the snapshot begins: commits that come between are no loss. */
export function readForVerify(path: string): Noted | 'unreadable' | null {
  const first = readNoted(path)
  if (first === null) return hasText(path) ? 'unreadable' : null
  // Read twice: a read beside a write may mix the digits of two counts.
  const second = readNoted(path) ?? first
  return second.commits < first.commits ? second : first
}

/** Says in sentences which commits are missing in the snapshot that `database` reads. */
export function describeLostCommits(database: Database, noted: Noted): string[] {
  const count = readCount(database)
  const lost = noted.lost.map(
    ({ from, to, at }) =>
      `A start found that the last ${to - from + 1} commits up to ${timeOf(at)} were missing (${from} to ${to}).`,
  )
  if (noted.commits <= count) return lost
  const missing = noted.commits - count
  const commits = missing === 1 ? '1 commit' : `${missing} commits`
  return [
    ...lost,
    `The ledger ends ${commits} before the last one that was acknowledged (commit ${noted.commits}, ${timeOf(noted.at)}).`,
  ]
}

function preparePut(database: Database) {
  return database.prepare(
    "INSERT INTO meta (name, value) VALUES ('commits', ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value",
  )
}

function readCount(database: Database): number {
  return Number(database.prepare("SELECT value FROM meta WHERE name = 'commits'").get()?.['value'] ?? 0)
}

/** Null when there is no such file, or it does not begin with a count. */
function readNoted(path: string): Noted | null {
  const text = textOf(path)
  const head = HEAD.exec(text)
  if (head === null) return null
  const lost = [...text.matchAll(LOST)].map(([, from, to, at]) => ({
    from: Number(from),
    to: Number(to),
    at: Number(at),
  }))
  return { commits: Number(head[1]), at: Number(head[2]), lost }
}

const hasText = (path: string): boolean => textOf(path) !== ''

function textOf(path: string): string {
  try {
    return readFileSync(fileOf(path), 'utf8')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return ''
    throw error
  }
}

function createNote(path: string, count: number): void {
  createFile(fileOf(path))
  const file = openSync(fileOf(path), 'w')
  try {
    writeSync(file, headOf(count, 0), 0)
  } finally {
    closeSync(file)
  }
}

/** Always of the same length, so that it is overwritten in place and needs no room on a full disk. */
function headOf(count: number, atMs: number): string {
  return `${padded(count)} ${padded(Math.max(0, Math.floor(atMs)))}\n`
}

const padded = (value: number): string => String(value).padStart(DIGITS, '0')

const timeOf = (ms: number): string => new Date(ms).toISOString()
