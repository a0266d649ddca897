/** The store's connections, with a disk that fails when it is told to, and a process that can end at a COMMIT. */
import { existsSync, mkdirSync, renameSync, rmdirSync } from 'node:fs'
import { type Database, type DatabaseOptions, openDatabase as open } from '../../src/store/database.ts'
import { createSpool, type SpooledLine } from '../../src/store/spool.ts'
import { hookTransactions } from '../helpers/transactions.ts'

/** What the next writes meet. */
export type DiskFault =
  /** The transaction cannot begin. */
  | 'begin'
  /** Nothing more can be written but what is reserved: the disk is full. */
  | 'full'
  /** Nothing at all can be written, the spool neither. */
  | 'read-only'
  /** COMMIT fails and has not happened. */
  | 'before'
  /** COMMIT fails and has happened all the same. */
  | 'after'

export interface Disk {
  /** Asked before each write; null: it works. */
  fault(): DiskFault | null
  /** The process ends at the next COMMIT, before or after it has happened. */
  crashAt: 'before' | 'after' | null
  crash(): void
  committed(): void
  readonly connections: Database[]
}

/** Thrown into a process that is dead: what it still does has no effect. */
const DEAD = 'the process has ended'

/** What the store calls in place of its own, see `Connector`. */
export function openDatabase(path: string, options: DatabaseOptions | undefined, disk: Disk): Database {
  const database = open(path, options)
  // What power loss would do is another test's business; here nothing of it can be seen.
  database.exec('PRAGMA synchronous = OFF')
  disk.connections.push(database)
  if (options?.readOnly) return database
  const hooked = hookTransactions(database, { begin, commit })
  return {
    ...hooked,
    prepare(sql) {
      const statement = hooked.prepare(sql)
      if (!/INSERT INTO (event|checkpoint|meta)/.test(sql)) return statement
      return {
        ...statement,
        run: (...values) => {
          if (disk.fault() === 'full') throw failure('database or disk is full', 13)
          return statement.run(...values)
        },
      }
    },
  }

  function begin<Result>(run: () => Result): Result {
    const fault = disk.fault()
    if (fault === 'read-only') throw failure('attempt to write a readonly database', 8)
    if (fault === 'begin') throw failure('disk I/O error', 10)
    return run()
  }

  function commit<Result>(run: () => Result): Result {
    const { crashAt } = disk
    if (crashAt !== null) {
      disk.crashAt = null
      if (crashAt === 'after') run()
      disk.crash()
      throw new Error(DEAD)
    }
    const fault = disk.fault()
    if (fault === 'before') throw failure('disk I/O error', 10)
    const result = run()
    disk.committed()
    if (fault === 'after') throw failure('disk I/O error', 10)
    return result
  }
}

/** A folder in the place of the spool: a real error of a real file system, whoever asks. */
export function refuseSpool(database: string): void {
  const spool = `${database}.spool`
  if (existsSync(spool)) renameSync(spool, asideOf(database))
  mkdirSync(spool)
}

export function allowSpool(database: string): void {
  const spool = `${database}.spool`
  rmdirSync(spool)
  if (existsSync(asideOf(database))) renameSync(asideOf(database), spool)
}

function asideOf(database: string): string {
  return `${database}.spool.aside`
}

/** What is in the spool, whoever may write it now. */
export function readSpool(database: string): readonly SpooledLine[] {
  const aside = asideOf(database)
  return createSpool(existsSync(aside) ? aside : `${database}.spool`).read()
}

function failure(message: string, errcode: number): Error {
  return Object.assign(new Error(message), { errcode })
}
