/**
 * Connections to PostgreSQL. A proxy cuts each writing connection after some bytes, in either direction. The proxy has its own process,
 * because a writer may block the test's process. A thread would not do: after connections were reset, a thread does not always
 * end, because Node.js 26 waits for a request that never ends.
 */
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import type { Connector, Database, DatabaseOptions } from '../../src/store/engine/database.ts'
import { openDatabase as open } from '../../src/store/engine/postgres/connector.ts'
import { type Direction, startFaultProxy } from '../helpers/fault-proxy.ts'
import { seeded } from '../helpers/seeded.ts'

/** A connection is cut between these numbers of bytes: enough for the sign-in and some exchanges. */
const [LEAST, MOST] = [1500, 20_000]

/** Messages of the proxy: its port, then each connection. */
type ProxyMessage = { readonly port: number } | 'connection'

export interface CuttingProxy {
  readonly connector: Connector
  cuts(): number
  close(): Promise<unknown>
}

export async function cuttingConnector(url: string, seed: number): Promise<CuttingProxy> {
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

/** Replaces the store's own function, see `Connector`. */
export function openDatabase(url: string, options: DatabaseOptions | undefined, port: number): Database {
  if (options?.readOnly) return open(url, options)
  const cut = new URL(url)
  cut.port = String(port)
  return open(cut.href, options)
}

async function startProxy(target: string, seed: number): Promise<void> {
  const send = (message: ProxyMessage) => process.send!(message)
  const random = seeded(seed)
  const proxy = await startFaultProxy({
    target,
    faults() {
      send('connection')
      const afterBytes = LEAST + Math.floor(random() * (MOST - LEAST))
      const direction: Direction = { cut: { afterBytes, how: random() < 0.5 ? 'fin' : 'rst' } }
      return random() < 0.5 ? { up: direction } : { down: direction }
    },
  })
  // The test's process may be killed; then the proxy must end too.
  process.once('disconnect', () => process.exit())
  send({ port: proxy.port })
}

if (import.meta.main) await startProxy(process.argv[2]!, Number(process.argv[3]))
