/**
 * Connections of which the writing one can be made to fail and to be slow, in whatever thread it lives: the faults are
 * numbers in shared memory.
 */
import { isMainThread } from 'node:worker_threads'
import {
  type Connector,
  type Database,
  type DatabaseOptions,
  openDatabase as open,
} from '../../src/store/engine/database.ts'
import { openDatabase as openPostgres } from '../../src/store/engine/postgres/connector.ts'
import { StoreError } from '../../src/store/error.ts'
import { hookTransactions } from '../helpers/transactions.ts'

const NAMES = [
  'refuse',
  'before',
  'after',
  'delayMs',
  'dieBefore',
  'dieAfter',
  'maxPages',
  'commitsHere',
  'commitsElsewhere',
  'begun',
  'paced',
  'permits',
  'waiting',
] as const

/** Words that both threads see. */
export interface Faults {
  /** So many connections that write cannot be opened, in threads other than the first. */
  refuse: number
  /** So many COMMITs fail before they happen. */
  before: number
  /** So many COMMITs happen, and then say that they failed. */
  after: number
  /** Added to every COMMIT, as a slow disk would. */
  delayMs: number
  /** So many COMMITs are the end of the thread that runs them, before they happen. */
  dieBefore: number
  /** So many COMMITs happen, and end their thread before it can say so. */
  dieAfter: number
  /** `PRAGMA max_page_count` from the next transaction on, when it is not 0. */
  maxPages: number
  /** How many COMMITs the process's first thread has run. */
  commitsHere: number
  /** How many COMMITs other threads have run. */
  commitsElsewhere: number
  /** How many transactions have begun. */
  begun: number
  /** When it is not 0, each COMMIT waits for one of the permits. */
  paced: number
  permits: number
  /** 1 while a COMMIT waits for one. */
  waiting: number
}

/** For `openStore`, and the faults to be set while it runs. */
export function faultyConnector(): { faults: Faults; connector: Connector } {
  const words = new Int32Array(new SharedArrayBuffer(NAMES.length * 4))
  return { faults: faultsIn(words), connector: { module: import.meta.url, data: words } }
}

/** What the store calls in place of its own, see `Connector`. */
export function openDatabase(path: string, options: DatabaseOptions | undefined, words: Int32Array): Database {
  const faults = faultsIn(words)
  if (!isMainThread && faults.refuse > 0 && faults.refuse--) throw new StoreError(`The store ${path} is out of reach.`)
  const database = (path.startsWith('postgres:') ? openPostgres : open)(path, options)
  if (options?.readOnly) return database
  return hookTransactions(database, { begin, commit })

  function waitForPermit(): void {
    faults.waiting = 1
    while (faults.paced > 0 && faults.permits === 0) Atomics.wait(words, NAMES.indexOf('permits'), 0, 5)
    faults.waiting = 0
    if (faults.permits > 0) faults.permits--
  }

  function begin<Result>(run: () => Result): Result {
    faults.begun++
    if (faults.maxPages > 0) database.exec(`PRAGMA max_page_count = ${faults.maxPages}`)
    return run()
  }

  function commit<Result>(run: () => Result): Result {
    if (isMainThread) faults.commitsHere++
    else faults.commitsElsewhere++
    if (faults.before > 0 && faults.before--) throw new Error('disk I/O error')
    if (faults.dieBefore > 0 && faults.dieBefore--) process.exit(7)
    if (faults.delayMs > 0) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, faults.delayMs)
    if (faults.paced > 0) waitForPermit()
    const result = run()
    if (faults.dieAfter > 0 && faults.dieAfter--) process.exit(7)
    if (faults.after > 0 && faults.after--) throw new Error('disk I/O error')
    return result
  }
}

function faultsIn(words: Int32Array): Faults {
  const faults = {} as Faults
  for (const [index, name] of NAMES.entries()) {
    Object.defineProperty(faults, name, {
      enumerable: true,
      get: () => Atomics.load(words, index),
      set: (value: number) => void Atomics.store(words, index, value),
    })
  }
  return faults
}
