/** A real state server for one test file: `redis-server` on a free loopback port, in a temporary folder. */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Redis } from 'ioredis'
import { freePort } from './free-port.ts'
import { findProgram, without } from './programs.ts'

const PROGRAM = findProgram('valkey-server') ?? findProgram('redis-server')

export const WITHOUT_REDIS = PROGRAM === null ? without('redis-server') : null

export interface RedisServer extends AsyncDisposable {
  readonly url: string
  readonly port: number
  /** For commands of the test. */
  readonly client: Redis
  /** Kills it, as a crash does. Its data is lost. */
  kill(): Promise<void>
  /** Starts it again on the same port. */
  restart(): Promise<void>
  /** Sends SIGSTOP or SIGCONT. */
  stop(): void
  goOn(): void
}

/** @param options further arguments of redis-server, such as `['--requirepass', 'x']` */
export async function startRedis(options: readonly string[] = []): Promise<RedisServer> {
  const folder = mkdtempSync(join(tmpdir(), 'tollgate-redis-'))
  const port = await freePort()
  let child = await launch(port, folder, options)
  const password = options.includes('--requirepass') ? options[options.indexOf('--requirepass') + 1]! : undefined
  const client = new Redis({ port, ...(password ? { password } : {}), retryStrategy: () => 50 })
  client.on('error', () => {})
  const end = async () => {
    if (child.exitCode !== null || child.signalCode !== null) return
    const over = once(child, 'exit')
    child.kill('SIGKILL')
    await over
  }
  return {
    url: `redis://127.0.0.1:${port}`,
    port,
    client,
    kill: end,
    async restart() {
      await end()
      child = await launch(port, folder, options)
    },
    stop: () => void child.kill('SIGSTOP'),
    goOn: () => void child.kill('SIGCONT'),
    async [Symbol.asyncDispose]() {
      client.disconnect()
      await end()
      rmSync(folder, { recursive: true, force: true })
    },
  }
}

async function launch(port: number, folder: string, options: readonly string[]): Promise<ChildProcess> {
  const settings = ['--bind', '127.0.0.1', '--port', String(port), '--dir', folder, '--save', '', '--appendonly', 'no']
  const child = spawn(PROGRAM!, [...settings, ...options], { stdio: ['ignore', 'pipe', 'inherit'] })
  // The server must not outlive a test process that is killed.
  const kill = () => void child.kill('SIGKILL')
  process.once('exit', kill)
  child.once('exit', () => process.off('exit', kill))
  let said = ''
  for await (const text of child.stdout!.setEncoding('utf8').iterator({ destroyOnReturn: false })) {
    said += text
    if (said.includes('Ready to accept connections')) {
      child.stdout!.resume()
      return child
    }
  }
  throw new Error(`redis-server did not start: ${said}`)
}
