/**
 * A PostgreSQL server for tests: the newest one installed, or the one in the folder TOLLGATE_POSTGRES. It has its own port and a
 * temporary folder. The first test file that needs it starts it; the others of the run share it. A shell stops it after the run, also
 * after a killed one. Its settings would lose data in a power cut, which no test needs.
 */
import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import {
  chownSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import { Client } from 'pg'
import { onTestFinished } from 'vitest'
import { migratePostgres, openPostgres } from '../../src/store/engine/postgres/index.ts'
import { AT_FILE_END } from './file-end.ts'
import { freePort } from './free-port.ts'

const PROGRAMS = process.env.TOLLGATE_POSTGRES ?? newest('/usr/lib/postgresql')

/** Why tests on PostgreSQL cannot run here; null: they can. */
export const WITHOUT_POSTGRES =
  (process.env['TOLLGATE_LAYER'] ?? 'unit') === 'unit'
    ? 'PostgreSQL: npm run test:system'
    : PROGRAMS === null
      ? 'PostgreSQL is not installed (apt-get install postgresql)'
      : null
const MAJOR =
  WITHOUT_POSTGRES === null
    ? Number(/\d+/.exec(execFileSync(join(PROGRAMS!, 'postgres'), ['--version'], { encoding: 'utf8' }))![0])
    : 0
/** Copies a database without the write-ahead log, which is faster. Older servers always copy so. */
const FILE_COPY = MAJOR >= 15 ? ' STRATEGY file_copy' : ''
/** A locale of the operating system. Older servers have no other provider. */
export const LIBC = MAJOR >= 15 ? 'LOCALE_PROVIDER libc' : ''

/** The id of the run (test/vitest.config.ts), or of this process alone. */
const RUN = Number(process.env.TOLLGATE_TEST_RUN ?? process.pid)
const FOLDER = join(tmpdir(), `tollgate-postgres-${RUN}`)
const ADDRESS = join(FOLDER, 'address')
/** The data of a new server. They are kept, because making them takes a second. */
const EMPTY = join(FOLDER, 'empty')
/** This user needs a password; all others are trusted. */
export const LOCKED = { user: 'locked', password: 'correct horse' } as const
const STARTS = 3

export interface TestServer {
  readonly port: number
  /** The id of the server's first process. */
  readonly pid: number
}

/** The name of a database, from its URL. */
const nameIn = (url: string) => new URL(url).pathname.slice(1)

export interface TestDatabase {
  readonly url: string
  readonly name: string
  /** Runs statements as the owner of the server, on a connection of its own. */
  run(sql: string, values?: readonly unknown[]): Promise<Record<string, unknown>[]>
  /** Ends every connection to the database, as a crash of the server does. */
  cut(): Promise<void>
  /** Sets whether the database accepts connections. False also ends the existing ones. */
  allow(isAllowed: boolean): Promise<void>
}

/** The run's server. */
export async function testServer(): Promise<TestServer> {
  try {
    mkdirSync(FOLDER)
  } catch {
    return await started()
  }
  const as = makeData(FOLDER)
  const data = join(FOLDER, 'data')
  execFileSync('cp', ['-a', data, EMPTY])
  const hosts = `host all ${LOCKED.user} 127.0.0.1/32 scram-sha-256\nhost all all 127.0.0.1/32 trust\n`
  writeFileSync(join(data, 'pg_hba.conf'), `local all all trust\n${hosts}`)
  for (let start = 1; ; start++) {
    const server = await startServer(as, data)
    if (server !== null) {
      await onServer(server, `CREATE ROLE ${LOCKED.user} LOGIN PASSWORD '${LOCKED.password}'`)
      writeFileSync(`${ADDRESS}.new`, JSON.stringify(server))
      renameSync(`${ADDRESS}.new`, ADDRESS)
      return server
    }
    if (start === STARTS) throw new Error(`PostgreSQL does not start: ${readFileSync(join(FOLDER, 'log'), 'utf8')}`)
  }
}

/** Gives a folder to the server's user. Returns the words in front of a command that run it as that user. */
export function give(folder: string): readonly string[] {
  const user = ordinaryUser()
  if (user) chownSync(folder, user.uid, user.gid)
  return user ? ['setpriv', `--reuid=${user.uid}`, `--regid=${user.gid}`, '--clear-groups'] : ['env']
}

/** Makes an empty `data` in a folder; see `give`. */
function makeData(folder: string): readonly string[] {
  const as = give(folder)
  const initdb = ['-D', join(folder, 'data'), '-U', 'postgres', '--no-sync', '--no-instructions', '-E', 'UTF8']
  // This collation sorts differently from SQLite, so that tests find code that relies on the default.
  const collation =
    MAJOR >= 15 ? ['--locale=C.UTF-8', '--locale-provider=icu', '--icu-locale=en-US'] : ['--locale=C.UTF-8']
  execute(as, 'initdb', [...initdb, ...collation, '--auth=trust'])
  return as
}

/** A server for one test, which may kill, freeze and restart it. */
export interface OwnServer {
  readonly url: string
  /** Sends SIGKILL to its first process; the others then end by themselves. */
  kill(): Promise<void>
  /** Sends SIGSTOP or SIGCONT to all of its processes. */
  freeze(): void
  thaw(): void
  /** Stops it as an operator does, which ends all connections. */
  stop(): Promise<void>
  /** Starts it again after `kill` or `stop`. */
  start(): Promise<void>
}

export async function ownServer(): Promise<OwnServer> {
  await testServer()
  const folder = mkdtempSync(join(tmpdir(), 'tollgate-own-postgres-'))
  const as = give(folder)
  execFileSync('cp', ['-a', EMPTY, join(folder, 'data')])
  const [data, port] = [join(folder, 'data'), await freePort()]
  const settings = ['-p', String(port), '-c', 'listen_addresses=127.0.0.1', '-c', `unix_socket_directories=${folder}`]
  const [command, ...first] = [...as, join(PROGRAMS!, 'postgres'), '-D', data, ...settings]
  let child: ChildProcess
  const start = async () => {
    child = spawn(command!, first, { stdio: 'ignore', cwd: '/' })
    while (!(await answers(port))) await wait(20)
  }
  // The child is the first process, because neither program in front of it forks.
  const all = () => [child.pid!, ...childrenOf(child.pid!)]
  const signal = (name: NodeJS.Signals) => {
    // A process may end by itself in the meantime.
    for (const pid of all()) if (existsSync(`/proc/${pid}`)) process.kill(pid, name)
  }
  const end = async (name: NodeJS.Signals) => {
    if (child.exitCode !== null || child.signalCode !== null) return
    const others = childrenOf(child.pid!)
    const ended = once(child, 'exit')
    child.kill(name)
    await ended
    // A new server must not start before the other processes have noticed the end of the first one.
    while (others.some(pid => existsSync(`/proc/${pid}`))) await wait(10)
  }
  await start()
  const remove = () => rmSync(folder, { recursive: true, force: true })
  onTestFinished(async () => {
    signal('SIGCONT')
    await end('SIGQUIT')
    remove()
  })
  return {
    url: `postgres://postgres@127.0.0.1:${port}/postgres`,
    kill: () => end('SIGKILL'),
    stop: () => end('SIGINT'),
    freeze: () => signal('SIGSTOP'),
    thaw: () => signal('SIGCONT'),
    start,
  }
}

function childrenOf(pid: number): number[] {
  return textOf(`/proc/${pid}/task/${pid}/children`).split(' ').filter(Boolean).map(Number)
}

let numbered = 0

type End = () => Promise<void>

/** An empty database that is dropped after the test. */
export function testDatabase(like = 'template0'): Promise<TestDatabase> {
  return newDatabase(like, end => void onTestFinished(end))
}

/** An empty database for several tests of a file, which is dropped after the file. */
export function fileDatabase(): Promise<TestDatabase> {
  return newDatabase('template0', end => {
    // The next test file in this process creates its own databases.
    const once = async () => {
      AT_FILE_END.splice(AT_FILE_END.indexOf(once), 1)
      await end()
    }
    AT_FILE_END.push(once)
  })
}

async function newDatabase(like: string, atEnd: (end: End) => void): Promise<TestDatabase> {
  const server = await testServer()
  const name = `test_${process.pid}_${++numbered}`
  await onServer(server, `CREATE DATABASE ${name} TEMPLATE ${like}${FILE_COPY}`)
  atEnd(() => drop(server, name))
  return databaseOf(server, name)
}

async function drop(server: TestServer, name: string): Promise<void> {
  await onServer(server, `DROP DATABASE ${name} WITH (FORCE)`)
}

function databaseOf(server: TestServer, name: string): TestDatabase {
  return {
    url: `postgres://postgres@127.0.0.1:${server.port}/${name}`,
    name,
    run: (sql, values) => onServer(server, sql, values, name),
    cut: () => cut(server, name),
    allow: isAllowed => allow(server, name, isAllowed),
  }
}

/** A database with the store's tables, and their description in its catalogs. */
interface StoreDatabase {
  readonly name: string
  readonly tables: readonly string[]
  readonly defined: unknown
}

/** The databases of this process that no test uses now. */
const free: StoreDatabase[] = []

/**
 * A database with the empty tables of a store. The next test uses it again, because creating and migrating one takes ten times as long
 * as most tests. It is dropped if a test has changed its tables, or left many rows.
 */
export async function storeDatabase(): Promise<TestDatabase> {
  const server = await testServer()
  const database = free.pop() ?? (await makeStoreDatabase(server))
  onTestFinished(async () => {
    if (await wipe(server, database).catch(() => false)) free.push(database)
    else await drop(server, database.name)
  })
  return databaseOf(server, database.name)
}

async function makeStoreDatabase(server: TestServer): Promise<StoreDatabase> {
  const name = `store_${process.pid}_${++numbered}`
  await onServer(server, `CREATE DATABASE ${name}${FILE_COPY}`)
  const database = openPostgres(databaseOf(server, name).url)
  migratePostgres(database)
  database.close()
  const tables = await onServer(server, TABLES, [], name)
  const [row] = await onServer(server, DEFINED, [], name)
  return { name, tables: tables.map(({ name }) => String(name)), defined: row!['defined'] }
}

const TABLES = `SELECT relname AS name FROM pg_class
  WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace AND relname <> 'tollgate_schema'`

/** Each statement that changes a table leaves its transaction number in a catalog. */
const DEFINED = `SELECT md5(string_agg(line, ',' ORDER BY line)) AS defined FROM (
  SELECT 'class ' || oid || ' ' || xmin FROM pg_class WHERE relnamespace = 'public'::regnamespace
  UNION ALL SELECT 'attribute ' || attrelid || ' ' || attnum || ' ' || xmin FROM pg_attribute WHERE attrelid >= 16384
  UNION ALL SELECT 'constraint ' || oid || ' ' || xmin FROM pg_constraint WHERE oid >= 16384
  UNION ALL SELECT 'default ' || oid || ' ' || xmin FROM pg_attrdef
  UNION ALL SELECT 'trigger ' || oid || ' ' || xmin FROM pg_trigger
  UNION ALL SELECT 'function ' || oid || ' ' || xmin FROM pg_proc WHERE pronamespace = 'public'::regnamespace
  UNION ALL SELECT 'schema ' || oid || ' ' || xmin FROM pg_namespace WHERE nspname !~ '^pg_'
  UNION ALL SELECT 'setting ' || setting.xmin FROM pg_db_role_setting AS setting
    JOIN pg_database ON pg_database.oid = setdatabase WHERE datname = current_database()
  UNION ALL SELECT 'database ' || xmin FROM pg_database WHERE datname = current_database()
  UNION ALL SELECT 'migration ' || version || ' ' || xmin FROM tollgate_schema
) AS lines (line)`

/** Deleted rows stay in the files. More than these would slow the next test. */
const WIPED_MOST = 2000

/** Empties the tables and resets their sequences. False: no other test should use the database. */
async function wipe({ port }: TestServer, { name, tables, defined }: StoreDatabase): Promise<boolean> {
  const client = new Client({ host: '127.0.0.1', port, user: 'postgres', database: name })
  await client.connect()
  try {
    await client.query(`SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity
      WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'`)
    if ((await client.query(DEFINED)).rows[0].defined !== defined) return false
    // Without triggers and foreign keys.
    const deletes = tables.map(table => `DELETE FROM ${table}`)
    const numbers = "SELECT setval(oid, 1, false) FROM pg_class WHERE relkind = 'S'"
    const text = ["SET session_replication_role = 'replica'", ...deletes, numbers].join(';')
    const wiped = (await client.query(text)) as unknown as { readonly rowCount: number | null }[]
    return wiped.reduce((sum, { rowCount }) => sum + (rowCount ?? 0), 0) <= WIPED_MOST
  } finally {
    await client.end()
  }
}

async function allow(server: TestServer, name: string, isAllowed: boolean): Promise<void> {
  await onServer(server, `ALTER DATABASE ${name} WITH ALLOW_CONNECTIONS ${isAllowed}`)
  if (!isAllowed) await cut(server, name)
}

async function cut(server: TestServer, name: string): Promise<void> {
  await onServer(server, 'SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = $1', [name])
}

/**
 * A copy of a database as the next owner finds it after its clients are killed. The original accepts no further connections, so
 * that its open clients cannot continue.
 */
export function copyDatabase(url: string): string {
  const [from, to] = [nameIn(url), `test_${process.pid}_${++numbered}`]
  const place = new URL(url)
  place.pathname = '/postgres'
  // In this thread without a pause, so that the killed clients do nothing more.
  const server = openPostgres(place.href)
  server.exec(`ALTER DATABASE ${from} WITH ALLOW_CONNECTIONS false`)
  server.prepare('SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = ?').all(from)
  server.exec(`CREATE DATABASE ${to} TEMPLATE ${from}${FILE_COPY}`)
  server.close()
  onTestFinished(async () => void (await onServer(await testServer(), `DROP DATABASE ${to} WITH (FORCE)`)))
  place.pathname = `/${to}`
  return place.href
}

async function onServer(server: TestServer, sql: string, values: readonly unknown[] = [], database = 'postgres') {
  const client = new Client({ host: '127.0.0.1', port: server.port, user: 'postgres', database })
  await client.connect()
  try {
    return (await client.query(sql, [...values])).rows as Record<string, unknown>[]
  } finally {
    await client.end()
  }
}

/** Waits until another process of the run has started the server. If that fails, the other process reports the reason. */
async function started(): Promise<TestServer> {
  while (!existsSync(ADDRESS)) await wait(50)
  return JSON.parse(readFileSync(ADDRESS, 'utf8'))
}

/** Null if the server has ended, because another process took its port. */
async function startServer(as: readonly string[], data: string): Promise<TestServer | null> {
  const port = await freePort()
  const settings = Object.entries({
    listen_addresses: '127.0.0.1',
    unix_socket_directories: FOLDER,
    fsync: 'off',
    max_connections: '300',
    shared_buffers: '32MB',
    // Clients of an interrupted test would prevent its end.
    tcp_keepalives_idle: '60',
  }).flatMap(([name, value]) => ['-c', `${name}=${value}`])
  const script = `
    ${[...as, join(PROGRAMS!, 'postgres'), '-D', data, '-p', String(port), ...settings].join(' ')} > ${FOLDER}/log 2>&1 &
    server=$!
    while kill -0 ${RUN} 2> /dev/null && kill -0 $server 2> /dev/null; do sleep 1; done
    kill -0 ${RUN} 2> /dev/null && exit
    kill -INT $server 2> /dev/null
    wait $server
    rm -rf ${FOLDER}`
  const shell = spawn('sh', ['-c', script], { detached: true, stdio: 'ignore', cwd: '/' })
  shell.unref()
  for (;;) {
    await wait(20)
    const pid = Number(textOf(join(data, 'postmaster.pid')).split('\n')[0])
    if (pid > 0 && (await answers(port))) return { port, pid }
    if (shell.exitCode !== null) return null
  }
}

async function answers(port: number): Promise<boolean> {
  const client = new Client({ host: '127.0.0.1', port, user: 'postgres', database: 'postgres' })
  client.on('error', () => {})
  return client.connect().then(
    () => client.end().then(() => true),
    () => false,
  )
}

function execute(as: readonly string[], program: string, args: readonly string[]): void {
  const [command, ...first] = as
  execFileSync(command!, [...first, join(PROGRAMS!, program), ...args], { stdio: 'pipe', cwd: '/' })
}

/** The server refuses to run as root. */
function ordinaryUser(): { readonly uid: number; readonly gid: number } | null {
  if (process.getuid?.() !== 0) return null
  const users = readFileSync('/etc/passwd', 'utf8')
  const line = /^(?:postgres|nobody):[^:]*:(\d+):(\d+):/m.exec(users)!
  return { uid: Number(line[1]), gid: Number(line[2]) }
}

function textOf(path: string): string {
  try {
    return readFileSync(path, 'utf8')
  } catch {
    return ''
  }
}

/** The folder with the programs of the newest version. */
function newest(folder: string): string | null {
  const versions = existsSync(folder)
    ? readdirSync(folder)
        .map(Number)
        .sort((a, b) => b - a)
    : []
  const found = versions
    .map(version => join(folder, String(version), 'bin'))
    .find(bin => existsSync(join(bin, 'initdb')))
  return found ?? null
}
