/**
 * The number of commits of the ledger, kept in two places: in the database within each transaction, and after each commit in the file
 * `<store>.commits`. A ledger that lost its last commits is sound in itself; only the second place shows the loss.
 *
 * The file is not synced. After kill -9 it is exact, or one behind if the kill came between COMMIT and its write. After a power cut it may
 * be behind. It is never ahead, because it is written when the commit is on disk. Its first line has the count and the time of the last
 * commit (milliseconds). Each further line names commits that a start found missing; deleting the file forgets them.
 */

import { appendFileSync, closeSync, constants, openSync, readFileSync, writeSync } from 'node:fs'
import { type Database, transaction } from '../engine/database.ts'
import { createFile, type FileWatch, watchFiles } from '../files/files.ts'
import type { LostCommits } from '../store.ts'

/** The writer's side of the count. */
export interface CommitCount {
  /** Throws if the folder no longer has the files that the gateway opened. */
  begin(): void
  /** Call it as the last write of a transaction. */
  beforeCommit(): void
  /** Throws like `begin`: the commit then went into a file that was removed from the folder. */
  committed(nowMs: number): void
  close(): void
}

interface CountFile {
  readonly commits: number
  readonly at: number
  readonly lost: readonly LostCommits[]
}

const DIGITS = 16
const HEAD = /^(\d{16}) (\d{16})\n/
const LOST = /^lost (\d+) (\d+) (\d+)$/gm

const fileOf = (path: string): string => `${path}.commits`

/** For a store in memory, which does not survive its process, and for one in PostgreSQL, whose server keeps the end of its log. */
const NO_COUNT: CommitCount = { begin() {}, beforeCommit() {}, committed() {}, close() {} }

/** @param path of the database, or null for one in memory; ignored for PostgreSQL */
export function createCommitCount(database: Database, path: string | null): CommitCount {
  if (path === null || database.dialect.engine === 'postgres') return NO_COUNT
  const put = preparePut(database)
  let count = Math.max(readCount(database), readNoted(path)?.commits ?? 0)
  const files = watchFiles(path)
  createFile(fileOf(path))
  const file = openSync(fileOf(path), constants.O_WRONLY)
  return {
    begin: () => refuse(files),
    // Each attempt has its own number, because a COMMIT that reported an error may have succeeded.
    beforeCommit: () => void put.run(String(++count)),
    committed(nowMs) {
      files.glance()
      refuse(files)
      try {
        writeSync(file, headOf(count, nowMs), 0)
      } catch {
        // The commit is on disk nevertheless; the file is behind until the next commit.
      }
    },
    close: () => closeSync(file),
  }
}

function refuse({ found }: FileWatch): void {
  if (found !== null) throw new Error(found)
}

/**
 * Compares both places at a start, before anything is written. Notes missing commits in the file for `verify`, and continues the count
 * after them. Returns the missing commits, or null.
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
  // A start that was killed between the two steps has noted them already.
  if (noted.lost.at(-1)?.to !== lost.to) {
    appendFileSync(fileOf(path), `lost ${lost.from} ${lost.to} ${lost.at}\n`, { flush: true })
  }
  transaction(database, () => preparePut(database).run(String(lost.to)))
  return lost
}

/** The file's content for `verify`. Read it before the snapshot begins, so that commits in between do not count as lost. */
export function readForVerify(path: string): CountFile | 'unreadable' | null {
  const first = readNoted(path)
  if (first === null) return hasText(path) ? 'unreadable' : null
  // Read twice: a read during a write may mix the digits of two counts.
  const second = readNoted(path) ?? first
  return second.commits < first.commits ? second : first
}

/** Sentences about the commits that are missing in the snapshot of `database`. */
export function describeLostCommits(database: Database, noted: CountFile): string[] {
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

/** Null if the file does not exist or does not begin with a count. */
function readNoted(path: string): CountFile | null {
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

/** The length is constant, so that it is overwritten in place and needs no space on a full disk. */
function headOf(count: number, atMs: number): string {
  return `${padded(count)} ${padded(Math.max(0, Math.floor(atMs)))}\n`
}

const padded = (value: number): string => String(value).padStart(DIGITS, '0')

const timeOf = (ms: number): string => new Date(ms).toISOString()
