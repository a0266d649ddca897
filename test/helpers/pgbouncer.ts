/** PgBouncer in front of the tests' PostgreSQL, on a loopback port. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import { onTestFinished } from 'vitest'
import { freePort } from './free-port.ts'
import { give, type TestDatabase } from './postgres.ts'
import { findProgram, without } from './programs.ts'

const PROGRAM = findProgram('pgbouncer')

export const WITHOUT_PGBOUNCER = without('pgbouncer')

/** Starts PgBouncer for the rest of the test, with further lines of settings. Returns the URL of the database through it. */
export async function startPgbouncer(
  database: TestDatabase,
  mode: 'session' | 'transaction',
  more: readonly string[] = [],
): Promise<string> {
  const folder = mkdtempSync(join(tmpdir(), 'tollgate-pgbouncer-'))
  const port = await freePort()
  const { name } = database
  const server = new URL(database.url)
  const settings = [
    '[databases]',
    `${name} = host=${server.hostname} port=${server.port} dbname=${name} user=${server.username}`,
    '[pgbouncer]',
    'listen_addr = 127.0.0.1',
    `listen_port = ${port}`,
    'unix_socket_dir =',
    'auth_type = any',
    `pool_mode = ${mode}`,
    ...more,
  ]
  const file = join(folder, 'pgbouncer.ini')
  writeFileSync(file, settings.join('\n'))
  // It refuses to run as root.
  const [command, ...first] = [...give(folder), PROGRAM!, '-q', file]
  const child = spawn(command!, first, { stdio: 'ignore', cwd: '/' })
  onTestFinished(async () => {
    const ended = once(child, 'exit')
    if (child.kill('SIGTERM')) await ended
    rmSync(folder, { recursive: true, force: true })
  })
  while (!(await answers(port))) await wait(20)
  server.port = String(port)
  return server.href
}

function answers(port: number): Promise<boolean> {
  return new Promise(resolve => {
    const socket = connect(port, '127.0.0.1')
    socket.once('connect', () => resolve(true)).once('error', () => resolve(false))
    socket.once('connect', () => socket.end())
  })
}
