/**
 * Copies a whole store from one engine to the other, SQLite to PostgreSQL or back. The source is only read. The target gets all
 * of it in one transaction, is compared with the source row by row, and is audited, before it commits.
 */
import { existsSync, renameSync, rmSync } from 'node:fs'
import { dirname } from 'node:path'
import type { Clock } from '#contract'
import { type Database, isStorageFailure, openDatabase, type Row, type Value } from './database.ts'
import { StoreError } from './error.ts'
import { realPath, syncFolder } from './files.ts'
import { takeLock } from './lock.ts'
import { migrate } from './migrate.ts'
import { createSpool, spoolPath, spoolsOfThreads } from './spool.ts'
import { isPostgres } from './store-address.ts'
import { verify } from './verify.ts'

export interface CopyRequest {
  /** `sqlite:` and an absolute path, or `postgres://USER@HOST/DATABASE`; one of each. */
  readonly from: string
  readonly to: string
  readonly clock: Clock
  /** Told how many rows are done; each row is copied and then compared. */
  onProgress?(doing: 'Verifying' | 'Copying' | 'Comparing', done: number, total: number): void
}

export interface CopyReport {
  readonly tables: readonly { readonly table: string; readonly rows: number }[]
  readonly accounts: number
  readonly events: number
}

/** One of the two stores. */
interface Side {
  /** For people: without a password. */
  readonly place: string
  readonly database: Database
  /** Throws when a gateway uses the store now. */
  refuseUse(): void
  /** @param isDone the copy is committed */
  close(isDone: boolean): void
}

interface Table {
  readonly name: string
  readonly columns: readonly string[]
  readonly key: readonly string[]
}

/** What belongs to the processes that use a store, and not to the store. */
const LEFT_OUT: ReadonlySet<string> = new Set(['replica', 'replica_view', 'tollgate_schema', 'try_count'])
const OF_POSTGRES: Readonly<Record<string, readonly string[]>> = { event: ['replica'] }
/** The rest of it says how one database is used. */
const ONLY: Readonly<Record<string, string>> = { meta: "WHERE name = 'secret_check'" }
const ROWS_AT_ONCE = 500
const PROGRESS_EVERY = 1000

/**
 * Copies a store. Throws a `StoreError`, and leaves the target as it was, when the source is in use, has anything open or is
 * not sound; when the target has anything in it; and when either is of another version.
 */
export async function copyStore(request: CopyRequest): Promise<CopyReport> {
  const { from, to, onProgress = () => {} } = request
  if (isPostgres(from) === isPostgres(to)) {
    throw new StoreError(
      'A store is copied from SQLite to PostgreSQL, or from PostgreSQL to SQLite. Copy a SQLite file with the gateway stopped; copy a database of PostgreSQL with pg_dump.',
    )
  }
  const source = isPostgres(from) ? await openPostgresSource(from) : await openFileSource(from, request.clock)
  try {
    // What is audited is what is copied.
    source.database.exec(source.database.dialect.snapshot)
    const audited = verify(source.database, (done, total) => onProgress('Verifying', done, total))
    const [first] = audited.violations
    if (first !== undefined) {
      throw new StoreError(
        `The store ${source.place} is not sound: ${first.subject}: ${first.message} Run: tollgate ledger verify`,
      )
    }
    if (audited.openHolds > 0) throw new StoreError(openHolds(source.place, audited.openHolds))
    const target = isPostgres(to) ? await openPostgresTarget(to) : openFileTarget(to)
    let isDone = false
    try {
      const tables = copyInto(target, source, onProgress)
      isDone = true
      return { tables, accounts: audited.accounts, events: audited.events }
    } finally {
      target.close(isDone)
    }
  } finally {
    source.close(false)
  }
}

const openHolds = (place: string, count: number) =>
  `The store ${place} has ${count} open hold${count === 1 ? '' : 's'} of a gateway that was killed. Start the gateway once, so that it settles them, and stop it.`

async function openFileSource(url: string, clock: Clock): Promise<Side> {
  const path = fileOf(url)
  if (!existsSync(path)) throw new StoreError(`There is no store at ${path}.`)
  const lock = await takeLock(path, clock)
  try {
    const database = openDatabase(path, { readOnly: true })
    migrate(database, { canWrite: false })
    const real = realPath(path)
    const waiting = [spoolPath(real, 0), ...spoolsOfThreads(real)].filter(file => createSpool(file).read().length > 0)
    if (waiting.length > 0) {
      throw new StoreError(
        `Charges wait in ${waiting[0]} that are not in the store yet. Start the gateway once, so that it writes them, and stop it.`,
      )
    }
    return {
      place: path,
      database,
      refuseUse() {},
      close() {
        database.close()
        lock.release()
      },
    }
  } catch (error) {
    lock.release()
    throw error
  }
}

async function openPostgresSource(url: string): Promise<Side> {
  const { migratePostgres, openPostgres, placeOf } = await import('./postgres/index.ts')
  const database = openPostgres(url, { readOnly: true })
  try {
    migratePostgres(database, { canWrite: false })
    refuseReplicas(database, placeOf(url))
    const place = placeOf(url)
    return { place, database, refuseUse: () => refuseReplicas(database, place), close: () => database.close() }
  } catch (error) {
    database.close()
    throw error
  }
}

/** In its own transaction, in which no gateway can begin to use it. */
async function openPostgresTarget(url: string): Promise<Side> {
  const { migratePostgres, openPostgres, placeOf } = await import('./postgres/index.ts')
  const [database, place] = [openPostgres(url), placeOf(url)]
  try {
    migratePostgres(database)
    database.exec('BEGIN')
    database.exec('LOCK TABLE replica, account IN ACCESS EXCLUSIVE MODE')
    refuseReplicas(database, place)
    const full = columnsOf(database).find(
      ({ name }) => !LEFT_OUT.has(name) && name !== 'meta' && hasRows(database, name),
    )
    if (full) {
      throw new StoreError(
        `The store ${place} is not empty: the table ${full.name} has rows. Name an empty database: createdb tollgate.`,
      )
    }
    return { place, database, refuseUse() {}, close: () => database.close() }
  } catch (error) {
    database.close()
    throw error
  }
}

/** Made beside its place, and put there when it is whole. */
function openFileTarget(url: string): Side {
  const path = fileOf(url)
  if (existsSync(path)) throw new StoreError(`There is a file at ${path} already. Name another path, or move it away.`)
  const aside = `${path}.copying`
  const remove = () => {
    for (const end of ['', '-wal', '-shm']) rmSync(`${aside}${end}`, { force: true })
  }
  // Of a copy that was killed.
  remove()
  const database = openDatabase(aside)
  try {
    migrate(database)
    database.exec('BEGIN IMMEDIATE')
  } catch (error) {
    database.close()
    remove()
    throw error
  }
  return {
    place: path,
    database,
    refuseUse() {},
    close(isDone) {
      database.close()
      if (!isDone) return remove()
      renameSync(aside, path)
      syncFolder(dirname(path))
    },
  }
}

function refuseReplicas(database: Database, place: string): void {
  const alive = database
    .prepare('SELECT id, host FROM replica WHERE lease_until > clock_timestamp() ORDER BY id LIMIT 1')
    .get()
  if (alive === undefined) return
  throw new StoreError(
    `The store ${place} is in use by replica ${alive['id']} on ${alive['host']}. Stop all gateways that use it; one that was killed counts for another minute.`,
  )
}

/** Copies, compares, audits and commits. */
function copyInto(target: Side, source: Side, onProgress: NonNullable<CopyRequest['onProgress']>) {
  const tables = commonTables(source, target)
  const counted = tables.map(table => ({ ...table, rows: countRows(source.database, table.name) }))
  const total = counted.reduce((sum, { rows }) => sum + rows, 0)
  let table = ''
  try {
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
    const [first] = verify(target.database).violations
    if (first !== undefined) throw new StoreError(`The copy is not sound: ${first.subject}: ${first.message}`)
    // A gateway may have started on the source since: outside the snapshot it is seen.
    source.database.exec('COMMIT')
    source.refuseUse()
    target.database.exec('COMMIT')
  } catch (error) {
    if (error instanceof StoreError) throw error
    const where = table === '' ? '' : ` at the table ${table}`
    const doubt = table === '' && isStorageFailure(error) ? 'Look whether it is there' : 'Nothing was copied'
    throw new StoreError(`Copying to ${target.place} failed${where}: ${(error as Error).message}. ${doubt}.`, {
      cause: error,
    })
  }
  return counted.map(({ name, rows }) => ({ table: name, rows }))
}

function copyTable(source: Database, target: Database, { name, columns }: Table, onRow: () => void): void {
  const listed = columns.map(quoted).join(', ')
  const row = `(${columns.map(() => '?').join(', ')})`
  const insert = (rows: number) =>
    target.prepare(`INSERT INTO ${quoted(name)} (${listed}) VALUES ${new Array(rows).fill(row).join(', ')}`)
  const most = target.dialect.engine === 'postgres' ? ROWS_AT_ONCE : 1
  const many = insert(most)
  // What triggers have added by themselves is among the rows that come.
  target.exec(`DELETE FROM ${quoted(name)}`)
  let waiting: Value[] = []
  for (const found of source.prepareMoney(`SELECT ${listed} FROM ${quoted(name)} ${ONLY[name] ?? ''}`).iterate()) {
    for (const column of columns) waiting.push(found[column]!)
    onRow()
    if (waiting.length < most * columns.length) continue
    many.run(...waiting)
    waiting = []
  }
  if (waiting.length > 0) insert(waiting.length / columns.length).run(...waiting)
}

/** Both in the order of their key, which is that of bytes in both engines. */
function compareTable(source: Side, target: Side, { name, columns, key }: Table, onRow: () => void): void {
  const sql = `SELECT ${columns.map(quoted).join(', ')} FROM ${quoted(name)} ${ONLY[name] ?? ''} ORDER BY ${key.map(quoted).join(', ')}`
  const copied = target.database.prepareMoney(sql).iterate()[Symbol.iterator]()
  for (const row of source.database.prepareMoney(sql).iterate()) {
    const { value: other, done } = copied.next()
    const different = done ? key[0]! : columns.find(column => !isSame(row[column]!, (other as Row)[column]!))
    if (different !== undefined) {
      const which = key.map(column => String(row[column])).join(' ')
      throw new StoreError(`The copy is not the same in the table ${name}, row ${which}, column ${different}.`)
    }
    onRow()
  }
  if (copied.next().done !== true) throw new StoreError(`The copy has too many rows in the table ${name}.`)
}

function isSame(one: Value, other: Value): boolean {
  if (one instanceof Uint8Array && other instanceof Uint8Array) return Buffer.compare(one, other) === 0
  return one === other
}

/** The tables of both, in an order in which each comes behind those that it points at. */
function commonTables(source: Side, target: Side): Table[] {
  const postgres = [source, target].find(({ database }) => database.dialect.engine === 'postgres')!
  const other = postgres === source ? target : source
  const columns = new Map(columnsOf(other.database).map(each => [each.name, each.columns]))
  const tables = columnsOf(postgres.database).filter(({ name }) => !LEFT_OUT.has(name))
  for (const table of tables) {
    const own = table.columns.filter(column => !OF_POSTGRES[table.name]?.includes(column))
    const others = columns.get(table.name) ?? []
    columns.delete(table.name)
    const odd = own.find(column => !others.includes(column)) ?? others.find(column => !own.includes(column))
    if (odd !== undefined) throw new StoreError(`Only one of the two stores has the column ${table.name}.${odd}.`)
    table.columns = own
  }
  const [odd] = columns.keys()
  if (odd !== undefined) throw new StoreError(`Only ${other.place} has the table ${odd}.`)
  return tables
}

interface FoundTable extends Table {
  columns: readonly string[]
}

/** In the order in which they were made. In SQLite without their keys, which are the same. */
function columnsOf(database: Database): FoundTable[] {
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
  return Number(database.prepare(`SELECT count(*) AS count FROM ${quoted(table)} ${ONLY[table] ?? ''}`).get()!['count'])
}

function hasRows(database: Database, table: string): boolean {
  return database.prepare(`SELECT 1 FROM ${quoted(table)} LIMIT 1`).get() !== undefined
}

function fileOf(url: string): string {
  return url.slice('sqlite:'.length)
}

const quoted = (name: string): string => `"${name}"`
