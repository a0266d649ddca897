/**
 * Connections to PostgreSQL of which the writing ones go through a proxy that cuts each at some byte, on its way there or
 * back. The proxy has a thread of its own: whoever writes may block the test's.
 */
import { once } from 'node:events'
import { Worker, workerData } from 'node:worker_threads'
import type { Connector, Database, DatabaseOptions } from '../../src/store/database.ts'
import { openDatabase as open } from '../../src/store/postgres/connector.ts'
import { type Direction, startFaultProxy } from '../helpers/fault-proxy.ts'
import { seeded } from '../helpers/seeded.ts'

/** Bytes after which one is cut: enough to sign in, and for some exchanges. */
const [LEAST, MOST] = [1500, 20_000]

interface ProxyParts {
  readonly target: string
  readonly seed: number
  /** The port, and how many connections there were. */
  readonly words: Int32Array<SharedArrayBuffer>
}

export interface Cutting {
  readonly connector: Connector
  cuts(): number
  close(): Promise<unknown>
}

export async function cuttingConnector(url: string, seed: number): Promise<Cutting> {
  const words = new Int32Array(new SharedArrayBuffer(8))
  const target = url.replace('postgres:', 'http:')
  const parts: ProxyParts = { target, seed, words }
  const worker = new Worker(new URL(import.meta.url), { workerData: { cutting: parts } })
  await once(worker, 'message')
  return {
    connector: { module: import.meta.url, data: words[0] },
    cuts: () => Math.max(0, Atomics.load(words, 1) - 1),
    close: () => worker.terminate(),
  }
}

/** What the store calls in place of its own, see `Connector`. */
export function openDatabase(url: string, options: DatabaseOptions | undefined, port: number): Database {
  if (options?.readOnly) return open(url, options)
  const cut = new URL(url)
  cut.port = String(port)
  return open(cut.href, options)
}

async function startProxy({ target, seed, words }: ProxyParts): Promise<void> {
  const { parentPort } = await import('node:worker_threads')
  const random = seeded(seed)
  const proxy = await startFaultProxy({
    target,
    faults() {
      Atomics.add(words, 1, 1)
      const afterBytes = LEAST + Math.floor(random() * (MOST - LEAST))
      const direction: Direction = { cut: { afterBytes, how: random() < 0.5 ? 'fin' : 'rst' } }
      return random() < 0.5 ? { up: direction } : { down: direction }
    },
  })
  Atomics.store(words, 0, proxy.port)
  parentPort!.postMessage('ready')
}

const cutting = (workerData as { readonly cutting?: ProxyParts } | null)?.cutting
if (cutting !== undefined) await startProxy(cutting)
