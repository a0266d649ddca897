/** Database connections whose writes can fail or be slow, in any thread: the faults are numbers in shared memory. */
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

/** Faults to set, and counts to read. All threads share them. */
export interface Faults {
  /** Number of writing connections that cannot be opened, in threads other than the first. */
  refuse: number
  /** Number of COMMITs that fail before they happen. */
  before: number
  /** Number of COMMITs that happen and then report a failure. */
  after: number
  /** The milliseconds that every COMMIT takes longer, as on a slow disk. */
  delayMs: number
  /** Number of COMMITs that end their thread before they happen. */
  dieBefore: number
  /** Number of COMMITs that happen and then end their thread, before it reports them. */
  dieAfter: number
  /** `PRAGMA max_page_count` from the next transaction on, unless it is 0. */
  maxPages: number
  /** The number of COMMITs of the process's first thread. */
  commitsHere: number
  /** The number of COMMITs of other threads. */
  commitsElsewhere: number
  /** The number of transactions that have begun. */
  begun: number
  /** Unless it is 0, each COMMIT waits for a permit. */
  paced: number
  permits: number
  /** 1 while a COMMIT waits for a permit. */
  waiting: number
}

/** A connector for `openStore`, with faults to set while it runs. */
export function faultyConnector(): { faults: Faults; connector: Connector } {
  const words = new Int32Array(new SharedArrayBuffer(NAMES.length * 4))
  return { faults: faultsIn(words), connector: { module: import.meta.url, data: words } }
}

/** Replaces the store's own function, see `Connector`. */
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
