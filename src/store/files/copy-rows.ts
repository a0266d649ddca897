/** Copies all rows of a store to the other engine, compares each, and audits the copy in the transaction of the target. */
import { type Database, isStorageFailure, type Row, type Value } from '../engine/database.ts'
import { StoreError } from '../error.ts'
import { verify } from '../money/verify.ts'
import type { VerifyReport } from '../store.ts'

/** Reports the number of finished rows; each row is copied and then compared. */
export type CopyProgress = (doing: 'Verifying' | 'Copying' | 'Comparing', done: number, total: number) => void

/** One of the two stores. */
export interface CopySide {
  /** For messages: without a password. */
  readonly place: string
  readonly database: Database
}

export interface CopyRowsResult {
  readonly tables: readonly { readonly table: string; readonly rows: number }[]
  readonly audited: VerifyReport
}

interface Table {
  readonly name: string
  readonly columns: readonly string[]
  readonly key: readonly string[]
}

/**
 * Tables that are not copied: the state of running processes, and the budget tables of an earlier version, to which no command ever added
 * rows.
 */
const LEFT_OUT: ReadonlySet<string> = new Set([
  ...['replica', 'replica_view', 'tollgate_schema', 'try_count'],
  ...['budget', 'budget_use'],
])
/** Columns that a source of an older version lacks. */
const ADDED: Readonly<Record<string, readonly string[]>> = {
  event: ['budgets', 'price', 'units', 'tags'],
  correction: ['budgets', 'price', 'units', 'tags'],
  account: ['budgets'],
  key: ['budgets'],
}
const OF_POSTGRES: Readonly<Record<string, readonly string[]>> = { event: ['replica'], correction: ['replica'] }
/** Copy only these rows of the table; its other rows describe one particular database. */
const ONLY: Readonly<Record<string, string>> = { meta: "WHERE name = 'secret_check'" }
const ROWS_AT_ONCE = 500
const PROGRESS_EVERY = 1000

/**
 * Copies all rows into an empty database, compares them, audits the copy, and commits. Both databases are in a transaction. Throws a
 * `StoreError` that names the table; then the caller drops the target.
 *
 * @param commit ends both transactions when everything is right
 */
export function copyRows(
  target: CopySide,
  source: CopySide,
  onProgress: CopyProgress,
  commit: () => void,
): CopyRowsResult {
  const tables = commonTables(source, target)
  const counted = tables.map(table => ({ ...table, rows: countRows(source.database, table.name) }))
  const total = counted.reduce((sum, { rows }) => sum + rows, 0)
  let table = ''
  try {
    // A database that pg_dump restored has its tables ordered by name, so SQLite checks foreign keys at the end.
    if (target.database.dialect.engine === 'sqlite') target.database.exec('PRAGMA defer_foreign_keys = ON')
    let done = 0
    for (const each of counted) {
      table = each.name
      copyTable(source.database, target.database, each, () => {
        if (++done % PROGRESS_EVERY === 0) onProgress('Copying', done, total)
      })
    }
    done = 0
    for (const each of counted) {
      table = each.name
      compareTable(source, target, each, () => {
        if (++done % PROGRESS_EVERY === 0) onProgress('Comparing', done, total)
      })
    }
    table = ''
    const audited = verify(target.database)
    const [first] = audited.violations
    if (first !== undefined) throw new StoreError(`The copy is not sound: ${first.subject}: ${first.message}`)
    commit()
    return { tables: counted.map(({ name, rows }) => ({ table: name, rows })), audited }
  } catch (error) {
    if (error instanceof StoreError) throw error
    const where = table === '' ? '' : ` at the table ${table}`
    const doubt = table === '' && isStorageFailure(error) ? 'Check whether it is complete' : 'Nothing was copied'
    throw new StoreError(`Copying to ${target.place} failed${where}: ${(error as Error).message}. ${doubt}.`, {
      cause: error,
    })
  }
}

function copyTable(source: Database, target: Database, { name, columns }: Table, onRow: () => void): void {
  const listed = columns.map(quoted).join(', ')
  const row = `(${columns.map(() => '?').join(', ')})`
  const insert = (rows: number) =>
    target.prepare(`INSERT INTO ${quoted(name)} (${listed}) VALUES ${new Array(rows).fill(row).join(', ')}`)
  const most = target.dialect.engine === 'postgres' ? ROWS_AT_ONCE : 1
  const many = insert(most)
  // Deletes rows that triggers created in the target; they would collide with the same rows copied from the source.
  target.exec(`DELETE FROM ${target.dialect.only(quoted(name))}`)
  let waiting: Value[] = []
  for (const found of source.prepareMoney(`SELECT ${listed} FROM ${rowsOf(source, name)}`).iterate()) {
    for (const column of columns) waiting.push(found[column]!)
    onRow()
    if (waiting.length < most * columns.length) continue
    many.run(...waiting)
    waiting = []
  }
  if (waiting.length > 0) insert(waiting.length / columns.length).run(...waiting)
}

/** Reads both in the order of their key, which is byte order in both engines. */
function compareTable(source: CopySide, target: CopySide, { name, columns, key }: Table, onRow: () => void): void {
  const rows = ({ database }: CopySide) =>
    database.prepareMoney(
      `SELECT ${columns.map(quoted).join(', ')} FROM ${rowsOf(database, name)} ORDER BY ${key.map(quoted).join(', ')}`,
    )
  const copied = rows(target).iterate()[Symbol.iterator]()
  for (const row of rows(source).iterate()) {
    const { value: other, done } = copied.next()
    const different = done ? key[0]! : columns.find(column => !isSame(row[column]!, (other as Row)[column]!))
    if (different !== undefined) {
      const which = key.map(column => String(row[column])).join(' ')
      throw new StoreError(`The copy differs in the table ${name}, row ${which}, column ${different}.`)
    }
    onRow()
  }
  if (copied.next().done !== true) throw new StoreError(`The copy has too many rows in the table ${name}.`)
}

function isSame(one: Value, other: Value): boolean {
  if (one instanceof Uint8Array && other instanceof Uint8Array) return Buffer.compare(one, other) === 0
  return one === other
}

/**
 * The tables of both stores, each after those that it refers to. A source of an older version may have fewer tables; the others of the
 * target stay empty.
 */
function commonTables(source: CopySide, target: CopySide): Table[] {
  const postgres = [source, target].find(({ database }) => database.dialect.engine === 'postgres')!
  const other = postgres === source ? target : source
  const columns = new Map(columnsOf(other.database).map(each => [each.name, each.columns]))
  const tables = columnsOf(postgres.database).filter(({ name }) => !LEFT_OUT.has(name))
  for (const table of tables) {
    const own = table.columns.filter(column => !OF_POSTGRES[table.name]?.includes(column))
    const others = columns.get(table.name) ?? []
    columns.delete(table.name)
    const added = postgres === source ? (ADDED[table.name] ?? []) : []
    const odd = own.find(name => !others.includes(name)) ?? others.find(name => ![...own, ...added].includes(name))
    if (odd !== undefined) throw new StoreError(`Only one of the two stores has the column ${table.name}.${odd}.`)
    table.columns = own
  }
  const [odd] = other === source ? columns.keys() : []
  if (odd !== undefined) throw new StoreError(`Only ${other.place} has the table ${odd}.`)
  return tables
}

interface MutableTable extends Table {
  columns: readonly string[]
}

/** Tables in the order of their creation. Only PostgreSQL's have keys here; SQLite's keys are the same. */
function columnsOf(database: Database): MutableTable[] {
  const rows = database.prepare(database.dialect.engine === 'postgres' ? POSTGRES_COLUMNS : SQLITE_COLUMNS).all()
  return [...Map.groupBy(rows, row => String(row['owner']))].map(([name, found]) => ({
    name,
    columns: found.map(row => String(row['name'])),
    key: found
      .filter(row => Number(row['place']) > 0)
      .sort(byPlace)
      .map(row => String(row['name'])),
  }))
}

const byPlace = (a: Row, b: Row) => Number(a['place']) - Number(b['place'])

const SQLITE_COLUMNS = `
  SELECT owner.name AS owner, own.name AS name, 0 AS place
  FROM sqlite_schema AS owner JOIN pragma_table_xinfo(owner.name) AS own
  WHERE owner.type = 'table' AND owner.name NOT LIKE 'sqlite_%' ORDER BY owner.rowid, own.cid`

const POSTGRES_COLUMNS = `
  SELECT owner.relname AS owner, own.attname AS name,
    coalesce(array_position(CAST((
      SELECT indkey FROM pg_index WHERE indrelid = owner.oid AND indisunique ORDER BY indisprimary DESC, indexrelid LIMIT 1
    ) AS SMALLINT[]), own.attnum), -1) + 1 AS place
  FROM pg_class AS owner JOIN pg_attribute AS own ON own.attrelid = owner.oid AND own.attnum > 0 AND NOT own.attisdropped
  WHERE owner.relkind = 'r' AND owner.relnamespace = CAST(current_schema() AS regnamespace)
  ORDER BY owner.oid, own.attnum`

function countRows(database: Database, table: string): number {
  return Number(database.prepare(`SELECT count(*) AS count FROM ${rowsOf(database, table)}`).get()!['count'])
}

/** A table with rows; null: the store is empty. */
export function firstWithRows(database: Database): string | null {
  const found = columnsOf(database).find(
    ({ name }) => !LEFT_OUT.has(name) && name !== 'meta' && hasRows(database, name),
  )
  return found?.name ?? null
}

function hasRows(database: Database, table: string): boolean {
  return database.prepare(`SELECT 1 FROM ${quoted(table)} LIMIT 1`).get() !== undefined
}

/** The rows to copy, for FROM. */
const rowsOf = (database: Database, table: string): string =>
  `${database.dialect.only(quoted(table))} ${ONLY[table] ?? ''}`

const quoted = (name: string): string => `"${name}"`
