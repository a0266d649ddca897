/** Aborted raw requests: whether the provider may bill them. */
import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import { afterEach, expect, test } from 'vitest'
import { createDeadlineClock } from '../../src/common/clock.ts'
import { errorDetails, failureOf } from '../../src/providers/dialects/failure.ts'
import { createRawProxy } from '../../src/providers/raw.ts'
import { type Call, startFakeProvider } from '../helpers/fake-provider.ts'

const cleanups: (() => unknown)[] = []
afterEach(async () => {
  for (const clean of cleanups.splice(0).reverse()) await clean()
})

function send(baseUrl: string, bytes: Buffer, signal: AbortSignal) {
  const proxy = createRawProxy()
  const deadlineClock = createDeadlineClock(20)
  cleanups.push(proxy.close, deadlineClock.stop)
  const ms = 20_000
  const timeouts = { connectMs: ms, firstByteMs: ms, idleMs: ms, totalMs: ms }
  return proxy.send({
    request: { method: 'POST', headers: { 'content-type': 'application/json' } },
    bytes,
    provider: { name: 'p', baseUrl, connections: 4, timeouts },
    headers: {},
    path: '/embeddings',
    requestId: 'req_1',
    signal,
    deadlineClock,
    largestBytes: 1024,
    holds: () => true,
    decodeError: (status, headers, body) => failureOf(status, headers, errorDetails(body), 0),
  })
}

test.each([
  ['a good answer', 200, true],
  ['an error', 500, false],
])('after the head of %s', async (_name, status, isBillable) => {
  async function run(call: Call): Promise<void> {
    call.head(status, { 'content-type': 'application/json', 'content-length': '500' })
    await call.write('{')
    await call.closed
  }
  const provider = await startFakeProvider({ script: { name: 'half', run } })
  cleanups.push(() => provider.close())
  const { promise: headed, resolve } = Promise.withResolvers<void>()
  // Published just before the waiting code gets the head.
  const onHead = () => setImmediate(resolve)
  subscribe('http.client.response.finish', onHead)
  cleanups.push(() => unsubscribe('http.client.response.finish', onHead))
  const controller = new AbortController()
  const answer = send(provider.baseUrl, Buffer.from('{}'), controller.signal)
  const refused = expect(answer).rejects.toMatchObject({ name: 'AbortError', isBillable })
  await headed
  controller.abort()
  await refused
})

test('while a provider that reads nothing has only a part of it', async () => {
  const { promise: arrived, resolve } = Promise.withResolvers<void>()
  const script = {
    name: 'reads nothing',
    early: true,
    async run(call: Call): Promise<void> {
      resolve()
      await call.closed
    },
  }
  const provider = await startFakeProvider({ script })
  cleanups.push(() => provider.close())
  const controller = new AbortController()
  // More than the buffers of two sockets hold.
  const answer = send(provider.baseUrl, Buffer.alloc(32 * 1024 * 1024, ' '), controller.signal)
  const refused = expect(answer).rejects.toMatchObject({ name: 'AbortError', isBillable: false })
  await arrived
  controller.abort()
  await refused
})
