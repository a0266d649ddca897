/** The engines of a simulated store: where it is, what a kill leaves, and how its disk fails. */
import { copyFileSync, existsSync, mkdirSync, readdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { connect, type Database, openDatabase } from '../../src/store/engine/database.ts'
import { PostgresError } from '../../src/store/engine/postgres/blocking-io.ts'
import { openDatabase as openPostgresDatabase } from '../../src/store/engine/postgres/connector.ts'
import { openPostgres } from '../../src/store/engine/postgres/index.ts'
import { SPOOL } from '../../src/store/store-address.ts'
import type { DiskFault } from './disk.ts'

/** The place of a process's store. */
export interface Place {
  readonly url: string
  /** In PostgreSQL, for the process's own files. */
  readonly folder?: string
  /** The path of the files beside the store, without suffixes. */
  readonly beside: string
  /** A separate connection for reads. */
  connect(): Database
  /** kill -9: returns the place of the next process, which has the committed data only. */
  left(): Place
}

export interface Engine {
  /** The URL of the template. Each seed gets a copy of it. */
  readonly template: string
  readonly open: typeof openDatabase
  /** A copy of the template; the former copy is removed. */
  fresh(): Place
  failure(fault: DiskFault): Error
  /** Statements that a full disk refuses. */
  readonly writes: RegExp
  /** Whether some of these statements are sent together with their COMMIT. */
  readonly defers: boolean
  clear(): void
}

export function sqliteEngine(folder: string): Engine {
  const template = join(folder, 'template.db')
  const runs = join(folder, 'run')
  mkdirSync(runs)
  const place = (number: number): Place => {
    const path = join(runs, `${number}.db`)
    return {
      url: `sqlite:${path}`,
      beside: path,
      connect: () => connect(path, { readOnly: true }),
      left() {
        const next = place(number + 1)
        copy(path, next.beside, ['', '-wal', '.commits', '.spool', '.spool.rejected'])
        return next
      },
    }
  }
  return {
    template: `sqlite:${template}`,
    open(path, options) {
      const database = openDatabase(path, options)
      // Power loss is not simulated here: log-cut.test.ts does that.
      database.exec('PRAGMA synchronous = OFF')
      return database
    },
    fresh() {
      clear(runs)
      // Moves the log into the file, so that one file is copied.
      const database = connect(template)
      database.exec('PRAGMA wal_checkpoint(TRUNCATE)')
      database.close()
      copyFileSync(template, join(runs, '0.db'))
      return place(0)
    },
    failure: fault => Object.assign(new Error(`the disk fails: ${fault}`), { errcode: ERRCODES[fault] }),
    writes: /INSERT INTO (event|checkpoint|meta)/,
    defers: false,
    clear: () => clear(runs),
  }
}

/** SQLITE_FULL, SQLITE_READONLY, SQLITE_IOERR (sqlite.org/rescode.html). */
const ERRCODES = { full: 13, 'read-only': 8, begin: 10, before: 10, after: 10 } as const

/** @param server the address of a server on which databases can be made */
export function postgresEngine(server: string, folder: string): Engine {
  const name = `simulation_${process.pid}`
  const runs = join(folder, 'run')
  mkdirSync(runs)
  const onServer = openPostgres(server)
  onServer.exec(`CREATE DATABASE ${name}_template`)
  const at = (database: string): string => Object.assign(new URL(server), { pathname: `/${database}` }).href
  const url = at(`${name}_run`)
  const cut = onServer.prepare('SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE datname = ?')
  const drop = (database: string) => onServer.exec(`DROP DATABASE IF EXISTS ${database} WITH (FORCE)`)
  const place = (number: number): Place => {
    const own = join(runs, String(number))
    mkdirSync(own)
    return {
      url,
      folder: own,
      beside: join(own, SPOOL),
      connect: () => openPostgres(url, { readOnly: true }),
      left() {
        cut.all(`${name}_run`)
        const next = place(number + 1)
        copy(join(own, SPOOL), next.beside, ['.replica', '.spool', '.spool.rejected'])
        return next
      },
    }
  }
  return {
    template: at(`${name}_template`),
    open: openPostgresDatabase,
    fresh() {
      clear(runs)
      drop(`${name}_run`)
      onServer.exec(`CREATE DATABASE ${name}_run TEMPLATE ${name}_template`)
      return place(0)
    },
    failure: fault =>
      new PostgresError(
        { message: `the server fails: ${fault}`, ...FAILURES[fault], late: false },
        !FAILURES[fault].lost,
      ),
    writes: /INSERT INTO (event|checkpoint|meta)|write_(all|many)/,
    defers: true,
    clear() {
      clear(runs)
      for (const each of ['run', 'template']) drop(`${name}_${each}`)
      onServer.close()
    },
  }
}

/** SQLSTATE (Appendix A of PostgreSQL's documentation): disk_full, read_only_sql_transaction; otherwise the connection is lost. */
const FAILURES = {
  full: { code: '53100', lost: false },
  'read-only': { code: '25006', lost: false },
  begin: { code: null, lost: true },
  before: { code: null, lost: true },
  after: { code: null, lost: true },
} as const

function copy(from: string, to: string, ends: readonly string[]): void {
  for (const end of ends) if (existsSync(from + end)) copyFileSync(from + end, to + end)
}

function clear(folder: string): void {
  for (const name of readdirSync(folder)) rmSync(join(folder, name), { recursive: true })
}
