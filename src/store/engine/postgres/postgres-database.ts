/** PostgreSQL as a `Database`: the same statements as SQLite's, on a connection that is opened again when it was lost. */

import { StoreError } from '../../error.ts'
import type { Database, Row, Statement, Value } from '../database.ts'
import { type Answered, ioOfThread, PostgresError, type WireStatement } from './blocking-io.ts'
import { placeOf, sentenceOf } from './postgres-address.ts'
import { POSTGRES } from './postgres-dialect.ts'

export interface PostgresOptions {
  readonly readOnly?: boolean
  /** How long a statement may take; null: as long as it takes. */
  readonly statementMs?: number | null
  /** As which replica it writes; null or left out: as none. */
  readonly replica?: number | null
}

const CONNECT_MS = 1000
/** A server that did not answer is not waited for again at once: so long every statement fails with the same error. */
const PAUSE_MS = 200
const OLDEST = 14
const FETCHED = 1000
/** What a statement carries takes its time on the way: 4 MiB/s. */
const MS_PER_MIB = 250

/**
 * Opens a connection. Throws a `StoreError`, in a sentence without the password, for a server that cannot be reached or
 * used, and, without `readOnly`, for one that cannot be written.
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

/** BEGIN waits for the statement behind it, and they go together. */
const BEGINS = /^BEGIN\b/

function createStatement(connection: Connection, text: string, wide: boolean): Statement {
  const name = `t${connection.statements++}`
  const statement = (values: readonly Value[]): WireStatement => ({ text, name, values, wide })
  if (BEGINS.test(text)) return unanswered(() => connection.begin(text))
  if (text === 'ROLLBACK') return unanswered(() => connection.rollback())
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

/** A statement that answers nothing. */
function unanswered(act: () => void): Statement {
  const run = () => {
    act()
    return { rows: [], changes: 0 }
  }
  return { run, get: () => void run(), all: () => run().rows, iterate: () => run().rows }
}

/** A statement that waits for the next one. */
interface Deferred {
  readonly statement: WireStatement
  /** Null: it has not been answered. */
  rows: Row[] | null
}

class Connection {
  readonly #io = ioOfThread()
  readonly #id = this.#io.next()
  readonly #url: string
  readonly #options: PostgresOptions
  /** How many statements were prepared: each has a name of its own. */
  statements = 0
  #cursors = 0
  #isOpen = false
  #isClosed = false
  #status = 'I'
  #beginning: string | null = null
  /** They go with the next statement. */
  #deferred: Deferred[] = []
  #failure: Error | null = null
  #failedAtMs = 0
  #backend: Backend | null = null
  /** Those that may still do what was sent to them. */
  #given: Backend[] = []

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
    this.#endGiven(name)
  }

  /**
   * A statement that waits for a lock does not notice that its connection was given up: it would be done, and committed, when its
   * exchange has long been asked about and found nowhere. So the server ends what is left of it before anything else is sent.
   */
  #endGiven(name: string): void {
    for (const { pid, since } of this.#given) {
      const values = [pid, since, name]
      const { rows } = this.#call([{ text: END_BACKEND_SQL, name: null, values, wide: false }])
      if (rows.some(({ ended }) => ended !== 1)) {
        const message = 'the server has not ended a former connection yet'
        throw new PostgresError({ message, code: null, lost: true, late: true }, true)
      }
    }
    this.#given = []
  }

  begin(text: string): void {
    if (!this.#isOpen) this.#openAgain()
    // Of a transaction that was given up.
    this.#deferred = []
    this.#beginning = text
  }

  /** Never throws: what was not sent is not sent any more, and a connection that is given up takes its transaction with it. */
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

  defer(statement: WireStatement): Deferred {
    const deferred: Deferred = { statement, rows: null }
    this.#deferred.push(deferred)
    return deferred
  }

  send(statement: WireStatement): Answered {
    // A lost connection takes its transaction with it: only what begins anew may open another one.
    if (!this.#isOpen && this.#beginning === null) this.#openAgain()
    const isAlone = this.#status === 'I'
    const before = this.#takeBefore()
    const statements = [...before.map(each => each.statement), statement]
    const answer = this.#callTwice(statements, isAlone)
    for (const [index, each] of before.entries()) each.rows = answer.before[index]!
    return answer
  }

  /** Once more on a new connection, where the one that is known was lost before anything was sent on it. */
  #callTwice(statements: readonly WireStatement[], isAlone: boolean): Answered {
    try {
      return this.#call(statements)
    } catch (error) {
      if (!(isAlone && this.#maySendAgain(error))) throw error
      this.#openAgain()
      return this.#call(statements)
    }
  }

  /**
   * A connection that was cut while nobody used it shows at its next statement. Reading again changes nothing, and what was not
   * sent was not done. Whoever is no replica, and migrates, may hold a lock of the session, which is gone.
   */
  #maySendAgain(error: unknown): boolean {
    if (!(error instanceof PostgresError) || error.open || error.late) return false
    const { readOnly = false, replica } = this.#options
    return readOnly || (error.unsent && replica !== undefined)
  }

  /** What goes before the next statement. */
  #takeBefore(): Deferred[] {
    const begin = this.#beginning === null ? [] : [{ statement: plain(this.#beginning), rows: null }]
    const before = [...begin, ...this.#deferred]
    this.#beginning = null
    this.#deferred = []
    return before
  }

  /** A million rows, a thousand at a time. */
  *fetch(text: string, wide: boolean): Generator<Row> {
    const isInside = this.inTransaction()
    if (!isInside) this.begin('BEGIN')
    // Between two rows of one read, another one may begin.
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

  #call(statements: readonly WireStatement[]): Answered {
    const { statementMs = null } = this.#options
    const timeoutMs = statementMs && statementMs + MS_PER_MIB * mebibytes(statements)
    try {
      const answer = this.#io.call({ kind: 'query', connection: this.#id, statements, timeoutMs })
      this.#status = answer.status
      return answer
    } catch (error) {
      // Behind a statement that failed, COMMIT rolls back.
      if (statements.at(-1)!.text === 'COMMIT') this.#status = 'I'
      else if (this.inTransaction() || statements.length > 1) this.#status = 'E'
      if (error instanceof PostgresError && !error.open) this.#fail(error, error.late)
      throw error
    }
  }

  #fail(error: Error, isAway: boolean): void {
    if (this.#backend !== null && this.#options.readOnly !== true) this.#given.push(this.#backend)
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
      const said = { message: sentenceOf(error as Error, this.#url), code: null, lost: true, late: true }
      const failure = new PostgresError(said, false)
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

/** As the server's list of connections shows one that writes. */
export const connectionName = (replica: number | null): string =>
  replica === null ? 'tollgate' : `tollgate replica ${replica}`

/** A connection's process at the server. */
interface Backend {
  readonly pid: number
  /** When it began, in microseconds since 1970: numbers are used again. */
  readonly since: number
}

const SINCE = 'CAST(extract(epoch FROM backend_start) * 1000000 AS BIGINT)'
const SERVER_SQL = `
  SELECT current_setting('server_version_num') AS version, current_setting('server_encoding') AS encoding,
    current_setting('transaction_read_only') AS written, pg_backend_pid() AS pid,
    (SELECT ${SINCE} FROM pg_stat_activity WHERE pid = pg_backend_pid()) AS since`

/** Waits for its end, half as long as a statement may take. A pooler may have given it to somebody else, by another name. */
const END_BACKEND_SQL = `
  SELECT pg_terminate_backend(pid, 500) AS ended FROM pg_stat_activity
  WHERE pid = $1 AND ${SINCE} = $2 AND application_name = $3 AND pid <> pg_backend_pid()`

/**
 * What a role, a database or a server may have set otherwise. Values are read and written as texts of one kind. How long a
 * statement may take, its client says (`statementMs`). A transaction sees what others have committed.
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

/** A commit that was acknowledged is on disk, whatever the server's default is; a dead client's locks end soon. */
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

/** `?` and `?1`, as SQLite has them, as `$1`. Texts in quotes stay as they are. */
export function numbered(sql: string): string {
  let next = 0
  return sql.replace(/'[^']*'|\?(\d*)/g, (found, number: string | undefined) => {
    if (number === undefined) return found
    return `$${number === '' ? ++next : number}`
  })
}
