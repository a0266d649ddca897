/** PostgreSQL as a `Database`: runs the same statements as SQLite, and reopens a lost connection. */

import { StoreError } from '../../error.ts'
import type { Database, Row, Statement, Value } from '../database.ts'
import { ioOfThread, PostgresError, type QueryResult, type WireStatement } from './blocking-io.ts'
import { placeOf, sentenceOf } from './postgres-address.ts'
import { POSTGRES } from './postgres-dialect.ts'

export interface PostgresOptions {
  readonly readOnly?: boolean
  readonly statementMs?: number | null
  /** The replica that writes; null: none. If left out, a statement of a lost connection is never sent again, as migrations need. */
  readonly replica?: number | null
}

const CONNECT_MS = 1000
/** After a timeout, statements fail with the same error for this long, without another attempt to connect. */
const PAUSE_MS = 200
const OLDEST = 14
const FETCHED = 1000
/** Extra time for the values of a statement: 4 MiB/s. */
const MS_PER_MIB = 250

/**
 * Opens a connection. Throws a `StoreError` without the password for a server that cannot be reached or used, and, without `readOnly`,
 * for one that cannot be written.
 */
export function openPostgres(url: string, options: PostgresOptions = {}): Database {
  const connection = new Connection(url, options)
  try {
    connection.open()
  } catch (error) {
    connection.close()
    if (error instanceof StoreError) throw error
    throw new StoreError(sentenceOf(error as Error, url), { cause: error })
  }
  return databaseOf(connection)
}

function databaseOf(connection: Connection): Database {
  const prepare = (wide: boolean) => (sql: string) => createStatement(connection, numbered(sql), wide)
  return {
    dialect: POSTGRES,
    copies: null,
    exec: sql => void connection.send({ text: sql, name: null, values: [], wide: false }),
    prepare: prepare(false),
    prepareMoney: prepare(true),
    inTransaction: () => connection.inTransaction(),
    close: () => connection.close(),
  }
}

/** BEGIN is deferred and sent with the next statement. */
const BEGINS = /^BEGIN\b/

function createStatement(connection: Connection, text: string, wide: boolean): Statement {
  const name = `t${connection.statements++}`
  const statement = (values: readonly Value[]): WireStatement => ({ text, name, values, wide })
  if (BEGINS.test(text)) return withoutRows(() => connection.begin(text))
  if (text === 'ROLLBACK') return withoutRows(() => connection.rollback())
  return {
    run: (...values) => connection.send(statement(values)),
    get: (...values) => connection.send(statement(values)).rows[0],
    all: (...values) => connection.send(statement(values)).rows,
    iterate: () => connection.fetch(text, wide),
    later: (...values) => void connection.defer(statement(values)),
    laterAll(...values) {
      const deferred = connection.defer(statement(values))
      return () => deferred.rows!
    },
  }
}

function withoutRows(act: () => void): Statement {
  const run = () => {
    act()
    return { rows: [], changes: 0 }
  }
  return { run, get: () => void run(), all: () => run().rows, iterate: () => run().rows }
}

interface DeferredStatement {
  readonly statement: WireStatement
  /** Null: not answered yet. */
  rows: Row[] | null
}

class Connection {
  readonly #io = ioOfThread()
  readonly #id = this.#io.next()
  readonly #url: string
  readonly #options: PostgresOptions
  /** The number of prepared statements: each has its own name. */
  statements = 0
  #cursors = 0
  #isOpen = false
  #isClosed = false
  #status = 'I'
  #beginning: string | null = null
  #deferred: DeferredStatement[] = []
  #failure: Error | null = null
  #failedAtMs = 0
  #backend: Backend | null = null
  /** Backends of lost connections that may still run a statement. */
  #lostBackends: Backend[] = []

  constructor(url: string, options: PostgresOptions) {
    this.#url = url
    this.#options = options
  }

  open(): void {
    const { readOnly = false, replica = null } = this.#options
    const name = readOnly ? 'tollgate (reads)' : connectionName(replica)
    this.#io.call({ kind: 'open', connection: this.#id, url: this.#url, timeoutMs: CONNECT_MS, name })
    this.#isOpen = true
    this.#status = 'I'
    this.#call([plain(sessionSql(readOnly, replica))])
    this.#check(readOnly)
    this.#endLostBackends(name)
  }

  /**
   * Ends the backends of lost connections before anything else is sent. A statement that waits for a lock does not notice that its
   * connection was closed. It would be committed long after its exchange was looked up and not found.
   */
  #endLostBackends(name: string): void {
    for (const { pid, since } of this.#lostBackends) {
      const values = [pid, since, name]
      const { rows } = this.#call([{ text: END_BACKEND_SQL, name: null, values, wide: false }])
      if (rows.some(({ ended }) => ended !== 1)) {
        const message = 'the server has not ended a former connection yet'
        throw new PostgresError({ message, code: null, lost: true, late: true }, true)
      }
    }
    this.#lostBackends = []
  }

  begin(text: string): void {
    if (!this.#isOpen) this.#openAgain()
    // Left over from an abandoned transaction.
    this.#deferred = []
    this.#beginning = text
  }

  /** Never throws. Deferred statements are dropped, and a lost connection takes its transaction with it. */
  rollback(): void {
    this.#beginning = null
    this.#deferred = []
    if (!this.inTransaction()) return
    try {
      this.send(plain('ROLLBACK'))
    } catch (error) {
      if (this.inTransaction()) this.#fail(error as Error, false)
    }
  }

  defer(statement: WireStatement): DeferredStatement {
    const deferred: DeferredStatement = { statement, rows: null }
    this.#deferred.push(deferred)
    return deferred
  }

  send(statement: WireStatement): QueryResult {
    // A lost connection takes its transaction with it, so only BEGIN may open another one.
    if (!this.#isOpen && this.#beginning === null) this.#openAgain()
    const isAlone = this.#status === 'I'
    const before = this.#takeBefore()
    const statements = [...before.map(each => each.statement), statement]
    const answer = this.#callTwice(statements, isAlone)
    for (const [index, each] of before.entries()) each.rows = answer.before[index]!
    return answer
  }

  /** If the connection is lost and the statements may be sent again, sends them on a new connection. */
  #callTwice(statements: readonly WireStatement[], isAlone: boolean): QueryResult {
    try {
      return this.#call(statements)
    } catch (error) {
      if (!(isAlone && this.#maySendAgain(error))) throw error
      this.#openAgain()
      return this.#call(statements)
    }
  }

  /**
   * Whether a statement may be sent again. A connection that was cut while it was idle fails at its next statement. Repeated reads change
   * nothing, and statements that were not sent were not run. A connection whose option `replica` was left out (a migration) is excluded:
   * its session lock may have been lost with the connection.
   */
  #maySendAgain(error: unknown): boolean {
    if (!(error instanceof PostgresError) || error.open || error.late) return false
    const { readOnly = false, replica } = this.#options
    return readOnly || (error.unsent && replica !== undefined)
  }

  /** Takes BEGIN and the deferred statements. */
  #takeBefore(): DeferredStatement[] {
    const begin = this.#beginning === null ? [] : [{ statement: plain(this.#beginning), rows: null }]
    const before = [...begin, ...this.#deferred]
    this.#beginning = null
    this.#deferred = []
    return before
  }

  /** Reads all rows of a query through a cursor, a thousand at a time. */
  *fetch(text: string, wide: boolean): Generator<Row> {
    const isInside = this.inTransaction()
    if (!isInside) this.begin('BEGIN')
    // Another read may begin between two rows of this one.
    const cursor = `walk_${++this.#cursors}`
    this.send(plain(`DECLARE ${cursor} NO SCROLL CURSOR FOR ${text}`))
    try {
      for (;;) {
        const { rows } = this.send({ ...plain(`FETCH ${FETCHED} FROM ${cursor}`), wide })
        yield* rows
        if (rows.length < FETCHED) return
      }
    } finally {
      if (this.inTransaction() && this.#status === 'T') this.send(plain(isInside ? `CLOSE ${cursor}` : 'COMMIT'))
    }
  }

  inTransaction(): boolean {
    return this.#beginning !== null || (this.#isOpen && this.#status !== 'I')
  }

  close(): void {
    if (this.#isClosed) return
    this.#isClosed = true
    this.#isOpen = false
    this.#io.call({ kind: 'close', connection: this.#id })
  }

  #call(statements: readonly WireStatement[]): QueryResult {
    const { statementMs = null } = this.#options
    const timeoutMs = statementMs && statementMs + MS_PER_MIB * mebibytes(statements)
    try {
      const answer = this.#io.call({ kind: 'query', connection: this.#id, statements, timeoutMs })
      this.#status = answer.status
      return answer
    } catch (error) {
      // After a failed statement, COMMIT rolls back.
      if (statements.at(-1)!.text === 'COMMIT') this.#status = 'I'
      else if (this.inTransaction() || statements.length > 1) this.#status = 'E'
      if (error instanceof PostgresError && !error.open) this.#fail(error, error.late)
      throw error
    }
  }

  #fail(error: Error, isAway: boolean): void {
    if (this.#backend !== null && this.#options.readOnly !== true) this.#lostBackends.push(this.#backend)
    this.#backend = null
    this.#isOpen = false
    this.#status = 'I'
    this.#failure = isAway ? error : null
    this.#failedAtMs = performance.now()
  }

  #openAgain(): void {
    if (this.#isClosed) throw new StoreError('The store is closed.')
    if (this.#failure !== null && performance.now() - this.#failedAtMs < PAUSE_MS) throw this.#failure
    try {
      this.#io.call({ kind: 'close', connection: this.#id })
      this.open()
      this.#failure = null
    } catch (error) {
      const fields = { message: sentenceOf(error as Error, this.#url), code: null, lost: true, late: true }
      const failure = new PostgresError(fields, false)
      this.#fail(failure, true)
      throw failure
    }
  }

  #check(readOnly: boolean): void {
    const [found] = this.#call([plain(SERVER_SQL)]).rows
    const { version, encoding, written, pid, since } = found as Record<string, string>
    this.#backend = { pid: Number(pid), since: Number(since) }
    const place = placeOf(this.#url)
    if (Number(version) < OLDEST * 10_000) {
      const major = Math.floor(Number(version) / 10_000)
      throw new StoreError(`The server of ${place} is PostgreSQL ${major}. Use PostgreSQL ${OLDEST} or newer.`)
    }
    if (encoding !== 'UTF8') {
      throw new StoreError(`The database ${place} has the encoding ${encoding}. Create it with the encoding UTF8.`)
    }
    if (!readOnly && written === 'on') {
      throw new StoreError(`The database ${place} is read-only. Name the primary server, and a role that may write.`)
    }
  }
}

/** The name in the server's list of connections. */
export const connectionName = (replica: number | null): string =>
  replica === null ? 'tollgate' : `tollgate replica ${replica}`

/** The server's process for a connection. */
interface Backend {
  readonly pid: number
  /** Its start in microseconds since 1970: pids are reused. */
  readonly since: number
}

const SINCE = 'CAST(extract(epoch FROM backend_start) * 1000000 AS BIGINT)'
const SERVER_SQL = `
  SELECT current_setting('server_version_num') AS version, current_setting('server_encoding') AS encoding,
    current_setting('transaction_read_only') AS written, pg_backend_pid() AS pid,
    (SELECT ${SINCE} FROM pg_stat_activity WHERE pid = pg_backend_pid()) AS since`

/**
 * Ends a backend and waits for that, half as long as a statement may take. The name is checked because a pooler may have reused the
 * backend.
 */
const END_BACKEND_SQL = `
  SELECT pg_terminate_backend(pid, 500) AS ended FROM pg_stat_activity
  WHERE pid = $1 AND ${SINCE} = $2 AND application_name = $3 AND pid <> pg_backend_pid()`

/**
 * Settings that a role, a database or a server may have changed. They fix the text format of values and the isolation: a transaction
 * sees commits of others. The client limits the time of statements (`statementMs`).
 */
const OWN_SETTINGS: Readonly<Record<string, string>> = {
  bytea_output: 'hex',
  standard_conforming_strings: 'on',
  extra_float_digits: '1',
  TimeZone: 'UTC',
  DateStyle: 'ISO, MDY',
  IntervalStyle: 'postgres',
  transform_null_equals: 'off',
  default_transaction_isolation: 'read committed',
  default_transaction_deferrable: 'off',
  statement_timeout: '0',
  lock_timeout: '0',
  idle_session_timeout: '0',
  // PostgreSQL 17.
  transaction_timeout: '0',
}
const OWN_ROWS = Object.entries(OWN_SETTINGS).map(([name, value]) => `('${name}', '${value}')`)

/** Makes acknowledged commits durable even if the server's default is weaker, and ends the locks of dead clients soon. */
function sessionSql(readOnly: boolean, replica: number | null): string {
  const settings = readOnly
    ? 'SET default_transaction_read_only = on'
    : `SET idle_in_transaction_session_timeout = '10s'; SET tcp_keepalives_idle = 5; SET tcp_keepalives_interval = 2;
       SET tcp_keepalives_count = 3; SET tollgate.replica = '${replica ?? ''}'`
  return `${settings}; SELECT set_config(name, value, false) FROM (VALUES ${OWN_ROWS.join(', ')}) AS own (name, value)
    WHERE current_setting(name, true) <> value;
    SELECT set_config('synchronous_commit', 'on', false)
    WHERE current_setting('synchronous_commit') IN ('off', 'local', 'remote_write')`
}

function mebibytes(statements: readonly WireStatement[]): number {
  let bytes = 0
  for (const { values } of statements) {
    for (const value of values) if (value instanceof Uint8Array) bytes += value.length
  }
  return bytes / 2 ** 20
}

function plain(text: string): WireStatement {
  return { text, name: null, values: [], wide: false }
}

/** Converts SQLite's `?` and `?1` to `$1`, except in quoted texts. */
export function numbered(sql: string): string {
  let next = 0
  return sql.replace(/'[^']*'|\?(\d*)/g, (found, number: string | undefined) => {
    if (number === undefined) return found
    return `$${number === '' ? ++next : number}`
  })
}
