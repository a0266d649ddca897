/**
 * Connections to PostgreSQL of which the writing ones go through a proxy that cuts each at some byte, on its way there or
 * back. The proxy is a process of its own: whoever writes may block the test's, and a thread that has reset connections
 * does not always end (Node.js 26 waits for a request that is never over).
 */
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import type { Connector, Database, DatabaseOptions } from '../../src/store/engine/database.ts'
import { openDatabase as open } from '../../src/store/engine/postgres/connector.ts'
import { type Direction, startFaultProxy } from '../helpers/fault-proxy.ts'
import { seeded } from '../helpers/seeded.ts'

/** Bytes after which one is cut: enough to sign in, and for some exchanges. */
const [LEAST, MOST] = [1500, 20_000]

/** What the proxy tells: its port, then each connection. */
type Told = { readonly port: number } | 'connection'

export interface Cutting {
  readonly connector: Connector
  cuts(): number
  close(): Promise<unknown>
}

export async function cuttingConnector(url: string, seed: number): Promise<Cutting> {
  const proxy = fork(fileURLToPath(import.meta.url), [url.replace('postgres:', 'http:'), String(seed)])
  const [{ port }] = (await once(proxy, 'message')) as [{ port: number }]
  let connections = 0
  proxy.on('message', () => connections++)
  return {
    connector: { module: import.meta.url, data: port },
    cuts: () => Math.max(0, connections - 1),
    async close() {
      const ended = once(proxy, 'exit')
      proxy.kill('SIGKILL')
      await ended
    },
  }
}

/** What the store calls in place of its own, see `Connector`. */
export function openDatabase(url: string, options: DatabaseOptions | undefined, port: number): Database {
  if (options?.readOnly) return open(url, options)
  const cut = new URL(url)
  cut.port = String(port)
  return open(cut.href, options)
}

async function startProxy(target: string, seed: number): Promise<void> {
  const tell = (told: Told) => process.send!(told)
  const random = seeded(seed)
  const proxy = await startFaultProxy({
    target,
    faults() {
      tell('connection')
      const afterBytes = LEAST + Math.floor(random() * (MOST - LEAST))
      const direction: Direction = { cut: { afterBytes, how: random() < 0.5 ? 'fin' : 'rst' } }
      return random() < 0.5 ? { up: direction } : { down: direction }
    },
  })
  // The test's process may be killed.
  process.once('disconnect', () => process.exit())
  tell({ port: proxy.port })
}

if (import.meta.main) await startProxy(process.argv[2]!, Number(process.argv[3]))
