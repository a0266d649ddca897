/**
 * A load balancer for tests. It never retries, so the client sees each failure of a replica. It sends requests in turn to the replicas
 * whose /readyz answers 200, except those that were removed.
 */
import { once } from 'node:events'
import { Agent, createServer, type IncomingMessage, request, type ServerResponse } from 'node:http'
import { pipeline } from 'node:stream'
import { setTimeout as wait } from 'node:timers/promises'
import { onTestFinished } from 'vitest'

const LOOK_EVERY_MS = 50

interface Replica {
  readonly url: string
  readonly agent: Agent
  isReady: boolean
  /** The number of answers that have begun. */
  served: number
}

export interface Balancer {
  readonly url: string
  /** Adds a replica, which gets requests once it is ready. */
  add(url: string): void
  /** Removes a replica: it gets no further requests. Its requests in progress continue. */
  takeOut(url: string): void
  /** How many answers a replica has begun; 0 if it was removed. */
  served(url: string): number
}

/** Starts a balancer, which runs until the end of the test. */
export async function startBalancer(): Promise<Balancer> {
  const replicas = new Map<string, Replica>()
  let [turn, isOver] = [0, false]

  function pass(asked: IncomingMessage, answer: ServerResponse): void {
    const ready = [...replicas.values()].filter(({ isReady }) => isReady)
    const replica = ready[turn++ % ready.length]
    if (replica === undefined) return void answer.writeHead(502).end('no replica is ready')
    const { method, url: path, headers } = asked
    const passed = request(new URL(path!, replica.url), { method, headers, agent: replica.agent } as object, got => {
      replica.served++
      answer.writeHead(got.statusCode!, got.headers)
      // Its client may have disconnected.
      if (!answer.destroyed) pipeline(got, answer, () => {})
    })
    passed.once('error', error => (answer.headersSent ? answer.destroy() : answer.writeHead(502).end(String(error))))
    pipeline(asked, passed, () => {})
  }

  const server = createServer({ keepAliveTimeout: 600_000 }, pass).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const looking = (async () => {
    while (!isOver) {
      for (const replica of replicas.values()) {
        const status = () => fetch(`${replica.url}/readyz`).then(({ status }) => status)
        replica.isReady = (await status().catch(() => 0)) === 200
      }
      await wait(LOOK_EVERY_MS)
    }
  })()
  onTestFinished(async () => {
    isOver = true
    server.close()
    server.closeAllConnections()
    await looking
  })
  return {
    url: `http://127.0.0.1:${(server.address() as { port: number }).port}`,
    add: url => void replicas.set(url, { url, agent: new Agent({ keepAlive: true }), isReady: false, served: 0 }),
    takeOut(url) {
      replicas.delete(url)
    },
    served: url => replicas.get(url)?.served ?? 0,
  }
}
