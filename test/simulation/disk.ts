/** The store's connections, with a disk that fails when it is told to, and a process that can end at a COMMIT. */
import { existsSync, mkdirSync, renameSync, rmdirSync } from 'node:fs'
import type { Database, DatabaseOptions, Statement } from '../../src/store/engine/database.ts'
import { createSpool, type SpooledLine } from '../../src/store/money/spool.ts'
import { hookStatement, hookTransactions } from '../helpers/transactions.ts'
import type { Engine } from './engines.ts'

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
  readonly engine: Engine
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
    // What goes with the COMMIT is refused with it.
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

/** A folder in the place of the spool: a real error of a real file system, whoever asks. `beside` as in `Place`. */
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

/** What is in the spool, whoever may write it now. */
export function readSpool(beside: string): readonly SpooledLine[] {
  const aside = asideOf(beside)
  return createSpool(existsSync(aside) ? aside : `${beside}.spool`).read()
}
