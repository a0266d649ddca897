/** The store's connections, with a disk that fails on request, and a process that can end at a COMMIT. */
import { existsSync, mkdirSync, renameSync, rmdirSync } from 'node:fs'
import type { Database, DatabaseOptions, Statement } from '../../src/store/engine/database.ts'
import { createSpool, type SpooledLine } from '../../src/store/money/spool.ts'
import { hookStatement, hookTransactions } from '../helpers/transactions.ts'
import type { Engine } from './engines.ts'

/** The fault of the next writes. */
export type DiskFault =
  /** The transaction cannot begin. */
  | 'begin'
  /** The disk is full: only reserved space can be written. */
  | 'full'
  /** Nothing can be written, not even the spool. */
  | 'read-only'
  /** COMMIT fails and has not happened. */
  | 'before'
  /** COMMIT fails but has happened. */
  | 'after'

export interface Disk {
  readonly engine: Engine
  /** Called before each write; null: no fault. */
  fault(): DiskFault | null
  /** The process ends at the next COMMIT, before or after it has happened. */
  crashAt: 'before' | 'after' | null
  crash(): void
  committed(): void
  readonly connections: Database[]
}

/** The error of every COMMIT in a dead process. */
const DEAD = 'the process has ended'

/** Replaces the store's own function, see `Connector`. */
export function openDatabase(path: string, options: DatabaseOptions | undefined, disk: Disk): Database {
  const { engine } = disk
  const database = engine.open(path, options)
  disk.connections.push(database)
  if (options?.readOnly) return database
  const hooked = hookTransactions(database, { begin, commit })
  return {
    ...hooked,
    prepare(sql) {
      const statement = hooked.prepare(sql)
      return engine.writes.test(sql) ? whileThereIsRoom(statement) : statement
    },
  }

  function whileThereIsRoom(statement: Statement): Statement {
    const { laterAll } = statement
    const hooked = hookStatement(statement, run => {
      if (disk.fault() === 'full') throw engine.failure('full')
      return run()
    })
    // Statements that are sent with the COMMIT are refused with it.
    return laterAll ? { ...hooked, laterAll } : hooked
  }

  function begin<Result>(run: () => Result): Result {
    const fault = disk.fault()
    if (fault === 'read-only' || fault === 'begin') throw engine.failure(fault)
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
    if (fault === 'before' || (fault === 'full' && engine.defers)) throw engine.failure(fault)
    const result = run()
    disk.committed()
    if (fault === 'after') throw engine.failure(fault)
    return result
  }
}

/** A folder in the place of the spool: a real error of a real file system, also for root. `beside` as in `Place`. */
export function refuseSpool(beside: string): void {
  const spool = `${beside}.spool`
  if (existsSync(spool)) renameSync(spool, asideOf(beside))
  mkdirSync(spool)
}

export function allowSpool(beside: string): void {
  const spool = `${beside}.spool`
  rmdirSync(spool)
  if (existsSync(asideOf(beside))) renameSync(asideOf(beside), spool)
}

function asideOf(beside: string): string {
  return `${beside}.spool.aside`
}

/** The content of the spool, even if it cannot be written now. */
export function readSpool(beside: string): readonly SpooledLine[] {
  const aside = asideOf(beside)
  return createSpool(existsSync(aside) ? aside : `${beside}.spool`).read()
}
