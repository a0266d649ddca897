/**
 * Many slow clients. Each is cut at its deadline although none closes its own end. Quick clients are not affected, and the process has no
 * additional sockets afterwards.
 */
import Koa from 'koa'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { createListener } from '../../src/app.ts'
import { countsOf } from '../helpers/counts.ts'
import { exact, type FakeProvider, startFakeProvider } from '../helpers/fake-provider.ts'
import type { Gateway } from '../helpers/gateway.ts'
import { expectWithin } from '../helpers/promised.ts'
import { openRaw, type RawClient } from '../helpers/raw-client.ts'
import { probe } from './loop-probe.ts'
import { startProbed } from './probed.ts'
import { expectRefusal } from './refusal.ts'
import { DRIP, type SlowKind, startSlow } from './slow-crowd.ts'

const counts = countsOf('floods')

const CHAT = '/v1/chat/completions'
/** In seconds: the limits of the gateway in this file, and Node's check interval. */
const HEADERS_S = 1
const REQUEST_S = 2
const LOOKS_EVERY_S = 1
/** The time that the machine may add with thousands of clients. */
const SLACK_S = 1
const SLOW = counts(50, 2000)
const FLOODS = counts(300, 2000)

let provider: FakeProvider
let gateway: Gateway
let key: string

beforeAll(async () => {
  provider = await startFakeProvider({ script: exact() })
  ;({ gateway, key } = await startProbed(provider, {
    yaml: {
      admin: '127.0.0.1:0',
      store: 'memory',
      limits: { headers: `${HEADERS_S}s`, request: `${REQUEST_S}s` },
    },
    context: 8192,
  }))
})
afterAll(async () => {
  await gateway.stop()
  await provider.close()
})

/** A quick client: one chat after the other until `over`; the time of each, in milliseconds. */
async function hurry(over: Promise<unknown>): Promise<number[]> {
  const client = await openRaw(gateway.url)
  const took: number[] = []
  let isRunning = true
  void over.finally(() => {
    isRunning = false
  })
  while (isRunning) {
    const began = performance.now()
    await client.post(
      CHAT,
      { model: 'm', messages: [{ role: 'user', content: 'hi' }] },
      { authorization: `Bearer ${key}` },
    )
    expect((await client.readResponse()).status).toBe(200)
    took.push(performance.now() - began)
    await new Promise(resolve => setTimeout(resolve, 2))
  }
  client.socket.destroy()
  return took
}

const percentile = (values: readonly number[], share: number) =>
  values.toSorted((a, b) => a - b)[Math.min(values.length - 1, Math.floor(values.length * share))]!
const ofAll = (values: readonly number[]) =>
  `p50 ${percentile(values, 0.5).toFixed(1)} ms, p99 ${percentile(values, 0.99).toFixed(1)} ms of ${values.length}`
const after = (ms: number) => new Promise<void>(resolve => setTimeout(resolve, ms))

/** The times of a quick client alone, and during a crowd. */
async function expectUndelayed(name: string, alone: readonly number[], beside: readonly number[]): Promise<void> {
  console.log(`${name}: a quick client alone ${ofAll(alone)}; beside them ${ofAll(beside)}`)
  expect(beside.length).toBeGreaterThan(5)
  // The crowd runs in the process of the quick client, so much of its own time is included.
  expectWithin(percentile(beside, 0.5), percentile(alone, 0.5) * 3 + 50)
}

/** Sockets of the process without clients, except for the connections to the provider. */
const sockets = async () => (await probe(gateway)).sockets

/** By kind, the time of the cut: seconds from their first byte, or from the connection if none came. */
const DEADLINES: Readonly<Record<SlowKind, number>> = {
  'nothing at all': HEADERS_S,
  'a head without an end': HEADERS_S,
  'a head by the byte': HEADERS_S,
  'a header at a time': HEADERS_S,
  'a body without an end': REQUEST_S,
  'a body by the byte': REQUEST_S,
  'a chunk at a time': REQUEST_S,
  'half a head behind a good request': HEADERS_S,
}

test(`${SLOW} slow clients are cut at their deadlines, and a quick one is not delayed`, async () => {
  await hurry(after(300))
  const alone = await hurry(after(700))
  const before = await sockets()
  const dispatched = provider.requests.length

  const crowd = await startSlow({ url: gateway.url, key, count: SLOW, kinds: Object.keys(DEADLINES) as SlowKind[] })
  const beside = await hurry(crowd.over)
  await crowd.over
  const rows = Object.entries(DEADLINES).map(([kind, deadline]) => {
    const ones = crowd.ones.filter(one => one.kind === kind)
    const seconds = ones.map(({ cutAfterS }) => cutAfterS)
    const [least, most] = [Math.min(...seconds), Math.max(...seconds)]
    const refused = ones.filter(({ status }) => status === 408).length
    expect(least, kind).toBeGreaterThanOrEqual(deadline - 0.05)
    expect(most, kind).toBeLessThanOrEqual(deadline + LOOKS_EVERY_S + SLACK_S)
    // A client that waits for an answer gets the reason; a reset may arrive first if bytes were still in transit.
    expect(refused, kind).toBeGreaterThan(0)
    return `${String(ones.length).padStart(5)} × ${kind}: cut after ${least.toFixed(2)} to ${most.toFixed(2)} s (allowed: ${deadline} s), ${refused} got 408`
  })
  expect(crowd.ones.filter(({ status }) => status !== 408 && status !== null)).toEqual([])
  console.log(`slow clients, a byte each ${DRIP.everyMs} ms:\n${rows.join('\n')}`)
  await expectUndelayed(`${SLOW} slow clients`, alone, beside)

  // None of them has closed its end.
  await expect.poll(sockets).toBeLessThanOrEqual(before)
  crowd.leave()
  expect(provider.requests.length - dispatched).toBe(beside.length + crowd.goodRequests)
  expect(gateway.logs().filter(({ level }) => level === 'error')).toEqual([])
})

describe('floods of headers', () => {
  const START = 'GET /v1/models HTTP/1.1\r\nHost: gateway\r\n'
  const FLOOD: Readonly<Record<string, string>> = {
    '101 headers': START + list(100, at => `x-${at}: y\r\n`),
    '5,000 tiny ones': START + list(5000, () => 'x:\r\n'),
    '100,000 tiny ones': START + list(100_000, () => 'x:\r\n'),
    'one of a mebibyte': `${START}x: ${'y'.repeat(1024 * 1024)}\r\n`,
    'one whose name has no end': `${START}${'x'.repeat(256 * 1024)}`,
    '16 KiB of one name': START + list(400, () => 'Authorization: Bearer abcdefghijklmnop\r\n'),
    cookies: START + list(1000, at => `Cookie: a${at}=b\r\n`),
  }

  test(`${FLOODS} of them are refused by their size or number, and a quick client is not affected`, async () => {
    const alone = await hurry(after(300))
    const before = await sockets()
    const results: Record<string, number> = {}
    const flood = async () => {
      for (let round = 0; round < FLOODS; round += 10) {
        await Promise.all(
          Array.from({ length: Math.min(10, FLOODS - round) }, async (_, at) => {
            const [name, bytes] = Object.entries(FLOOD)[(round + at) % Object.keys(FLOOD).length]!
            const client = await openRaw(gateway.url)
            const sent = client.send(`${bytes}\r\n`).catch(() => {})
            const answer = await client.readResponse().catch(() => null)
            if (answer) await expectRefusal(answer, 'headers_too_large')
            // If a megabyte was still in transit, the kernel may have reset the connection before the read.
            const how = answer ? '431' : 'reset'
            results[`${name}: ${how}`] = (results[`${name}: ${how}`] ?? 0) + 1
            await sent
            await client.closed
            client.socket.destroy()
          }),
        )
      }
    }
    const flooded = flood()
    const beside = await hurry(flooded)
    await flooded
    for (const name of ['101 headers', 'cookies']) expect(results[`${name}: reset`]).toBe(undefined)
    expect(Object.values(results).reduce((sum, count) => sum + count)).toBe(FLOODS)
    console.log(
      `header floods: ${Object.entries(results)
        .map(each => each.join(' '))
        .join(', ')}`,
    )
    await expectUndelayed(`${FLOODS} floods`, alone, beside)
    await expect.poll(sockets).toBeLessThanOrEqual(before)
  })
})

describe('idle clients', () => {
  test(`${SLOW} connections without a further request take no capacity, and end with their clients`, async () => {
    const before = await sockets()
    const idle: RawClient[] = []
    for (let at = 0; at < SLOW; at++) {
      const client = await openRaw(gateway.url)
      await client.send('GET /livez HTTP/1.1\r\nHost: gateway\r\n\r\n')
      idle.push(client)
    }
    for (const client of idle) expect((await client.readResponse()).status).toBe(200)
    expect(await sockets()).toBeGreaterThanOrEqual(before + SLOW)
    // Longer than the limit for a head: a connection that waits for its next request is not a slow head.
    const beside = await hurry(after((HEADERS_S + LOOKS_EVERY_S + 0.2) * 1000))
    console.log(`${SLOW} idle connections: a quick client beside them ${ofAll(beside)}`)
    await idle[0]!.send('GET /livez HTTP/1.1\r\nHost: gateway\r\n\r\n')
    expect((await idle[0]!.readResponse()).status).toBe(200)
    // One half disconnects by FIN, the other by a reset.
    for (const [at, client] of idle.entries()) at % 2 ? client.fin() : client.reset()
    await expect.poll(sockets).toBeLessThanOrEqual(before)
  })

  test(`${SLOW} half-closed ones with half a request are closed at once, not at their deadline`, async () => {
    const before = await sockets()
    const half: RawClient[] = []
    for (let at = 0; at < SLOW; at++) {
      const client = await openRaw(gateway.url)
      await client.post(CHAT, '', { authorization: `Bearer ${key}`, 'content-length': '100' })
      client.fin()
      half.push(client)
    }
    await Promise.all(half.map(({ closed }) => closed))
    // At its deadline each would have received an error.
    expect(half.filter(client => client.received().includes(' 408 '))).toEqual([])
    await expect.poll(sockets).toBeLessThanOrEqual(before)
  })

  test('every deadline of the listener is set: no default of Node is used', () => {
    const limits = { headersMs: 1234, requestMs: 5678 } as Parameters<typeof createListener>[1]
    const { server } = createListener(new Koa(), limits, () => 'req')
    expect([server.headersTimeout, server.requestTimeout, server.keepAliveTimeout]).toEqual([1234, 5678, 75_000])
  })
})

function list(count: number, item: (at: number) => string): string {
  return Array.from({ length: count }, (_, at) => item(at)).join('')
}
