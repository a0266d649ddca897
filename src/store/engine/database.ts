/**
 * The only file that imports `node:sqlite`: opens a database with the pragmas that durable money needs, and prepares statements. Node is
 * about to rename the class (DEP0210).
 */
import { backup, DatabaseSync } from 'node:sqlite'
import { StoreError } from '../error.ts'
import { createFile, hasBytes } from '../files/files.ts'
import { type Dialect, SQLITE } from './sql-dialect.ts'

/** Values that SQLite stores. Bind money as `bigint`: a `number` would be bound as a float. */
export type Value = null | number | bigint | string | Uint8Array
export type Row = Record<string, Value>

/** A prepared statement. Preparing costs ten times what running does. */
export interface Statement {
  run(...values: Value[]): { readonly changes: number | bigint }
  /** The first row. If the statement also changes rows, it changes all of them. */
  get(...values: Value[]): Row | undefined
  all(...values: Value[]): Row[]
  iterate(...values: Value[]): Iterable<Row>
  /** Like `run` within a transaction, for a distant server: it is sent with the next statement, which throws its error. */
  later?(...values: Value[]): void
  /** The same; its rows are available after the next statement. */
  laterAll?(...values: Value[]): () => Row[]
}

export interface Database {
  readonly dialect: Dialect
  exec(sql: string): void
  prepare(sql: string): Statement
  /** Like `prepare`, but reads integers as `bigint`: for everything with money. */
  prepareMoney(sql: string): Statement
  /** Copies a database in memory; null for a file, and where Node.js cannot (24). */
  readonly copies: { take(): Uint8Array; put(copy: Uint8Array): void } | null
  /** SQLite only: while `work` runs, statements may change the text of the schema (`sqlite_schema`). */
  editSchema?(work: () => void): void
  /** Whether a transaction is open. After an error SQLite may already have rolled it back. */
  inTransaction(): boolean
  close(): void
}

export interface DatabaseOptions {
  readonly readOnly?: boolean
  /** Prepares statements when they first run: for commands, which run few of them. */
  readonly isBrief?: boolean
  /** How long a statement waits for another process's lock, in milliseconds. It blocks the event loop. */
  readonly busyMs?: number
  /** In PostgreSQL, for reads that a request waits for, with a short timeout. */
  readonly isQuick?: boolean
  /** In PostgreSQL, the replica that writes; null or left out: the connection takes no holds. */
  readonly replica?: number | null
}

/** A module whose `openDatabase` opens the connections. It has an address, because the ledger's thread has to load it too. */
export interface Connector {
  /** Its address, for `import()`. */
  readonly module: string
  /** The third argument of its `openDatabase`; it must survive a structured clone. */
  readonly data: unknown
}

/** Returns `openDatabase` below, or that of the connector. */
export async function loadConnector(connector: Connector | null): Promise<typeof openDatabase> {
  if (connector === null) return openDatabase
  const module = await import(connector.module)
  return (path, options) => module.openDatabase(path, options, connector.data)
}

/**
 * Opens a ledger's database: write-ahead log, and every commit on disk before it returns (`synchronous=FULL`). Creates the file (mode
 * 0600; SQLite gives its `-wal` and `-shm` the same) and its folder (0700). Throws a `StoreError` for a path that is not a database.
 *
 * @param path a file, or `:memory:`
 */
export function openDatabase(path: string, options: DatabaseOptions = {}): Database {
  try {
    if (path !== ':memory:' && options.readOnly !== true) createFile(path)
    const database = connect(path, options)
    if (options.readOnly === true) refuseEmpty(database)
    const mode = database.prepare('PRAGMA journal_mode = WAL').get()?.['journal_mode']
    if (path !== ':memory:' && mode !== 'wal')
      throw new Error(`the write-ahead log cannot be enabled (journal mode "${mode}")`)
    database.exec('PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON; PRAGMA journal_size_limit = 67108864')
    return database
  } catch (error) {
    throw new StoreError(`The store ${path} cannot be opened: ${(error as Error).message}.`, { cause: error })
  }
}

/** A read-only connection cannot create a store; without this check SQLite would report that it cannot write. */
function refuseEmpty(database: Database): void {
  if (database.prepare('SELECT 1 FROM sqlite_schema').get() !== undefined) return
  database.close()
  throw new Error(
    'the file is empty or has no tables, so it is not a store of this gateway; name the right file in `store` of gateway.yaml, or restore a backup',
  )
}

/** Opens a SQLite file without the pragmas of a ledger, for example the lock. */
export function connect(path: string, options: DatabaseOptions = {}): Database {
  const { readOnly = false, busyMs = 250 } = options
  const sqlite = new DatabaseSync(path, { readOnly, timeout: busyMs })
  const prepare = (sql: string) => sqlite.prepare(sql) as Statement
  const prepareMoney = (sql: string) => {
    const statement = sqlite.prepare(sql)
    statement.setReadBigInts(true)
    return statement as Statement
  }
  // Preparing all statements takes 10 ms, and a store in memory runs few of them.
  const isBrief = options.isBrief === true || path === ':memory:'
  return {
    dialect: SQLITE,
    copies: path === ':memory:' ? copiesOf(sqlite) : null,
    exec: sql => sqlite.exec(sql),
    prepare: isBrief ? sql => preparedLate(() => prepare(sql)) : prepare,
    prepareMoney: isBrief ? sql => preparedLate(() => prepareMoney(sql)) : prepareMoney,
    editSchema: work => editSchema(sqlite, work),
    inTransaction: () => sqlite.isTransaction,
    close: () => sqlite.close(),
  }
}

/** Pages of 4 KiB: each step of a copy takes a few milliseconds. */
const PAGES_AT_ONCE = 1000

/**
 * Copies one state of a database into an empty file, page by page, in a thread of libuv. Others may read and write meanwhile. SQLite
 * restarts a copy when another process writes, except for a connection that holds a read transaction.
 */
export async function copyPages(
  from: string,
  to: string,
  onProgress: (done: number, total: number) => void,
): Promise<void> {
  const source = new DatabaseSync(from, { readOnly: true, timeout: 250 })
  try {
    source.exec('BEGIN')
    source.prepare('SELECT 1 FROM sqlite_schema').get()
    const progress = ({ totalPages, remainingPages }: { totalPages: number; remainingPages: number }) =>
      onProgress(totalPages - remainingPages, totalPages)
    await backup(source, to, { rate: PAGES_AT_ONCE, progress })
  } finally {
    source.close()
  }
}

function copiesOf(sqlite: DatabaseSync): Database['copies'] {
  const able = sqlite as DatabaseSync & { serialize?(): Uint8Array; deserialize?(copy: Uint8Array): void }
  if (!able.serialize || !able.deserialize) return null
  return { take: () => able.serialize!(), put: copy => able.deserialize!(copy) }
}

function editSchema(sqlite: DatabaseSync, work: () => void): void {
  sqlite.enableDefensive(false)
  sqlite.exec('PRAGMA writable_schema = ON')
  try {
    work()
  } finally {
    sqlite.exec('PRAGMA writable_schema = OFF')
    sqlite.enableDefensive(true)
  }
}

function preparedLate(prepare: () => Statement): Statement {
  let prepared: Statement | null = null
  const statement = () => {
    prepared ??= prepare()
    return prepared
  }
  return {
    run: (...values) => statement().run(...values),
    get: (...values) => statement().get(...values),
    all: (...values) => statement().all(...values),
    iterate: (...values) => statement().iterate(...values),
  }
}

/** Whether another connection holds the lock (SQLITE_BUSY). */
export function isBusy(error: unknown): boolean {
  return resultCode(error) === 5
}

/** Whether the engine failed to read or write. False for a broken constraint (19) or a value that cannot be bound. */
export function isStorageFailure(error: unknown): boolean {
  const { isStorageFailure: flag } = (error ?? {}) as { isStorageFailure?: unknown }
  if (typeof flag === 'boolean') return flag
  const code = resultCode(error)
  return code !== undefined && code !== 19
}

// The low byte of an extended result code is the primary one (sqlite.org/rescode.html).
function resultCode(error: unknown): number | undefined {
  const code = (error as { errcode?: unknown } | null)?.errcode
  return typeof code === 'number' ? code & 0xff : undefined
}

/** Runs `work` in one transaction: all of it, or nothing after a throw. */
export function transaction<Result>(database: Database, work: () => Result): Result {
  database.exec(database.dialect.begin)
  try {
    const result = work()
    database.exec('COMMIT')
    return result
  } catch (error) {
    if (database.inTransaction()) database.exec('ROLLBACK')
    throw error
  }
}

/** Moves the log into the file, so that the file alone is the whole store. No other connection may be open. */
export function checkpointLog(path: string): void {
  const database = connect(path)
  try {
    database.prepare('PRAGMA wal_checkpoint(TRUNCATE)').get()
  } finally {
    database.close()
  }
  if (hasBytes(`${path}-wal`))
    throw new StoreError(`The log of ${path} cannot be emptied: the disk is full, or another process has it open.`)
}
