/** A real answer on a real connection, and time that the test advances. */
import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Check, DeadlineClock } from '../../../src/common/clock.ts'
import { Client, type ClientOptions, type ClientOwner } from '../../../src/request/answer/client.ts'
import { CutResponse } from '../../../src/request/http/cut-response.ts'
import { openRaw, type RawClient } from '../../helpers/raw-client.ts'

export interface Wire extends AsyncDisposable {
  /** The gateway's end. */
  readonly response: ServerResponse
  /** The client's end; it has sent its request. */
  readonly raw: RawClient
}

/** Opens a connection on which a request has arrived. */
export async function openWire(version = 'HTTP/1.1'): Promise<Wire> {
  const server = createServer({ keepAliveTimeout: 600_000, ServerResponse: CutResponse })
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  const arrived = new Promise<ServerResponse>(resolve => server.once('request', (_, response) => resolve(response)))
  const raw = await openRaw((server.address() as AddressInfo).port)
  await raw.send(`POST / ${version}\r\nhost: x\r\ncontent-length: 2\r\n\r\n{}`)
  const response = await arrived
  return {
    response,
    raw,
    async [Symbol.asyncDispose]() {
      raw.reset()
      server.closeAllConnections()
      await new Promise(resolve => server.close(resolve))
    },
  }
}

/** A deadline clock whose time is advanced by hand; each advance is one round. */
export interface ManualDeadlines extends DeadlineClock {
  advance(ms: number): void
  /** The number of watched deadlines. */
  readonly watched: number
}

export function manualDeadlines(): ManualDeadlines {
  const checks = new Set<Check>()
  let now = 5_000
  return {
    now: () => now,
    watch(check) {
      checks.add(check)
      return () => checks.delete(check)
    },
    stop: () => checks.clear(),
    advance(ms) {
      now += ms
      for (const check of checks) check(now)
    },
    get watched() {
      return checks.size
    },
  }
}

/** A client with the usual deadlines of a gateway, on the test's time. */
export function clientOn(response: ServerResponse, options: Partial<ClientOptions & ClientOwner> = {}) {
  const deadlineClock = manualDeadlines()
  const left: number[] = []
  const { promise: flushed, resolve: onFlushed } = Promise.withResolvers<void>()
  const owner = { onLeave: () => left.push(deadlineClock.now()), onWhole() {}, onFlushed, ...options }
  const heartbeat = { firstMs: 10_000, everyMs: 15_000 }
  const client = new Client(response, owner, { deadlineClock, stallMs: 60_000, heartbeat, ...options })
  return { client, deadlineClock, left, flushed }
}

/** Resolves when the condition holds; checks after each turn of the event loop. */
export async function until(isSo: () => boolean): Promise<void> {
  while (!isSo()) await new Promise(resolve => setImmediate(resolve))
}
