/** Connections of unknown clients: when their bytes are parsed, and how many of them. */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterEach, describe, expect, test } from 'vitest'
import { ClientRequest } from '../../../src/request/http/leftover.ts'
import { lingerAtEnd } from '../../../src/request/http/linger.ts'
import { refuseOn } from '../../../src/request/http/malformed.ts'
import { noteKnown, Strangers, stopWatching } from '../../../src/request/http/strangers.ts'
import { openRaw, type RawClient } from '../../helpers/raw-client.ts'
import { until } from '../../helpers/until.ts'

/** 64 KiB on the wire. */
const PIECES = 10_900
const BURST = '1\r\nx\r\n'.repeat(PIECES)
const END = '0\r\n\r\n'
const head = (rest: string) => `POST /v1 HTTP/1.1\r\nHost: gateway\r\n${rest}\r\n`
const CHUNKED = 'Transfer-Encoding: chunked\r\n'
const KEY = 'Authorization: Bearer good\r\n'

let parsed = 0
class Counted extends ClientRequest {
  override push(piece: Buffer | null): boolean {
    parsed++
    return super.push(piece)
  }
}

let server: Server
const clients: RawClient[] = []
afterEach(() => {
  for (const client of clients.splice(0)) client.socket.destroy()
  server.close()
})

/** Reads the bodies of clients with the good key, and refuses all others by their heads. */
function answer(request: IncomingMessage, response: ServerResponse): void {
  if (request.headers.authorization === 'Bearer good') {
    noteKnown(request)
    let bytes = 0
    request.on('data', (piece: Buffer) => (bytes += piece.length)).on('end', () => response.end(String(bytes)))
    return
  }
  if (!request.complete && request.headers['transfer-encoding'] !== undefined) {
    response.setHeader('connection', 'close')
    lingerAtEnd(request)
  }
  response.writeHead(401).end('no')
}

/** @param costMs of each look at the processor's time */
async function start(costMs = 0): Promise<{ url: string; clock: { ms: number } }> {
  parsed = 0
  const clock = { ms: 0 }
  let spent = 0
  const strangers = new Strangers(
    () => clock.ms,
    () => (spent += costMs),
  )
  server = createServer({ IncomingMessage: Counted }, answer)
  strangers.watch(server, (socket, refusal) => refuseOn(socket, refusal))
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, clock }
}

async function ask(
  url: string,
  bytes: string | readonly string[],
): Promise<{ status: number; text: string; client: RawClient }> {
  const client = await openRaw(url)
  clients.push(client)
  for (const part of typeof bytes === 'string' ? [bytes] : bytes) await client.send(part)
  const response = await client.readResponse()
  return { status: response.status, text: await response.text(), client }
}

describe('the chunks of a refused body', () => {
  test.each([
    ['that comes with its head', [head(CHUNKED) + BURST]],
    ['that comes behind its head', [head(CHUNKED), BURST]],
    ['of a key that is not good', [head(`${CHUNKED}Authorization: Bearer bad\r\n`) + BURST]],
  ])('%s are not parsed', async (_, parts) => {
    const { url } = await start()
    const { status, client } = await ask(url, parts)
    expect(status).toBe(401)
    await client.closed
    expect(parsed).toBeLessThan(10)
  })
})

describe('a known client', () => {
  test.each([
    ['at once', [head(CHUNKED + KEY) + BURST + END]],
    ['behind its head', [head(CHUNKED + KEY), BURST + END]],
    ['in parts', [head(CHUNKED + KEY) + BURST, BURST, END]],
  ])('has its whole body read that comes %s, and the next request on the connection too', async (_, parts) => {
    const { url } = await start()
    const { status, text, client } = await ask(url, parts)
    const size = String(PIECES * (parts.length === 3 ? 2 : 1))
    expect({ status, text }).toEqual({ status: 200, text: size })
    for (let round = 0; round < 3; round++) {
      for (const part of parts) await client.send(part)
      const next = await client.readResponse()
      expect(await next.text()).toBe(size)
    }
    await client.send(`${head(`${KEY}Content-Length: 3\r\n`)}abc`)
    expect(await (await client.readResponse()).text()).toBe('3')
  })
})

test('a socket that Node gives away is not parsed any more', async () => {
  const { url } = await start()
  server.on('connect', (_request, socket) => {
    stopWatching(socket)
    socket.resume().on('error', () => {})
    socket.write('given away')
  })
  const client = await openRaw(url)
  clients.push(client)
  await client.send(`CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\n${CHUNKED}\r\n${BURST}`)
  await client.readUntil('given away')
  await client.send(BURST)
  expect(parsed).toBeLessThan(10)
  expect((await ask(url, head('Content-Length: 0\r\n'))).status).toBe(401)
})

describe('a budget that is exhausted', () => {
  test('refuses who is not known, lets in whose credential was good before, and comes back with time', async () => {
    // 100 ms for each request: the first ones of one address use up two fifths of a second.
    const { url, clock } = await start(50)
    const good = await ask(url, `${head(`${KEY}Content-Length: 1\r\n`)}x`)
    expect(good.status).toBe(200)
    const statuses: number[] = []
    for (let round = 0; round < 12; round++) statuses.push((await ask(url, head('Content-Length: 0\r\n'))).status)
    expect(statuses.slice(0, 2)).toEqual([401, 401])
    expect(statuses.at(-1)).toBe(503)
    const refused = await ask(url, head('Content-Length: 0\r\n'))
    expect(JSON.parse(refused.text)).toMatchObject({ error: { code: 'overloaded' } })
    await refused.client.closed
    expect((await ask(url, `${head(`${KEY}Content-Length: 1\r\n`)}x`)).status).toBe(200)
    expect((await ask(url, head('Authorization: Bearer other\r\nContent-Length: 0\r\n'))).status).toBe(503)
    clock.ms += 10_000
    expect((await ask(url, head('Content-Length: 0\r\n'))).status).toBe(401)
  })

  test('refuses the next request of a connection that is open', async () => {
    const { url } = await start(50)
    const { client } = await ask(url, head('Content-Length: 0\r\n'))
    const bytes = head('Content-Length: 0\r\n')
    await until(async () => {
      await client.send(bytes)
      expect((await client.readResponse()).status).toBe(503)
    })
    await client.closed
  })
})
