/** When the bytes of a connection are parsed, and in which order. */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterEach, describe, expect, test } from 'vitest'
import { SliceQueue } from '#contract'
import { noteKnown, stopWatching, watchArrivals } from '../../../src/request/http/arrivals.ts'
import { ClientRequest } from '../../../src/request/http/client-request.ts'
import { lingerAtEnd } from '../../../src/request/http/linger.ts'
import { WorkOwners } from '../../../src/request/http/owners.ts'
import { openRaw, type RawClient } from '../../helpers/raw-client.ts'

/** 64 KiB on the wire. */
const PIECES = 10_900
const BURST = '1\r\nx\r\n'.repeat(PIECES)
const END = '0\r\n\r\n'
const head = (rest: string) => `POST /v1 HTTP/1.1\r\nHost: gateway\r\n${rest}\r\n`
const CHUNKED = 'Transfer-Encoding: chunked\r\n'
const KEY = 'Authorization: Bearer good\r\n'

let parsed = 0
class CountingRequest extends ClientRequest {
  override push(piece: Buffer | null): boolean {
    parsed++
    return super.push(piece)
  }
}

let server: Server
let owners: WorkOwners
const clients: RawClient[] = []
afterEach(() => {
  for (const client of clients.splice(0)) client.socket.destroy()
  server.close()
})

/** Reads the bodies of clients with the good key, and refuses all others by their heads. */
function answer(request: IncomingMessage, response: ServerResponse): void {
  if (request.headers.authorization === 'Bearer good') {
    noteKnown(request, owners.account('good'))
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

/** A server whose clock the test advances. Each request without a key takes `costMs`. */
async function start(costMs = 0) {
  parsed = 0
  const clock = { ms: 0 }
  const turns: (() => void)[] = []
  const now = () => clock.ms
  // The test ends rests.
  const defer = (turn: () => void, restMs: number) => void (restMs > 0 ? turns.push(turn) : setImmediate(turn))
  owners = new WorkOwners()
  const slices = new SliceQueue(now, defer)
  server = createServer({ IncomingMessage: CountingRequest }, (request, response) => {
    if (request.headers.authorization === undefined) clock.ms += costMs
    answer(request, response)
  })
  watchArrivals(server, { slices, owners, now, unparsedBytes: 0 })
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  return { url, clock, turns, slices, defer }
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
    ['that arrives with its head', [head(CHUNKED) + BURST]],
    ['that arrives after its head', [head(CHUNKED), BURST]],
    ['of a request with an invalid key', [head(`${CHUNKED}Authorization: Bearer bad\r\n`) + BURST]],
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
    ['after its head', [head(CHUNKED + KEY), BURST + END]],
    ['in parts', [head(CHUNKED + KEY) + BURST, BURST, END]],
  ])('has its whole body read if it comes %s, and later requests on the connection too', async (_, parts) => {
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

test('a socket that Node detaches is not parsed any further', async () => {
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

test('further requests of an unknown client are parsed when the first one was answered', async () => {
  const { url } = await start()
  const begun: number[] = []
  server.on('request', (_request, response) =>
    begun.push(server.listenerCount('request') && response.socket!.bytesWritten),
  )
  const client = await openRaw(url)
  clients.push(client)
  await client.send(`${head('Content-Length: 0\r\n').repeat(3)}${head('Content-Length: 2\r\n')}ab${head('')}`)
  for (let answers = 0; answers < 5; answers++) expect((await client.readResponse()).status).toBe(401)
  // Each request began after the answer to the one before.
  expect(new Set(begun).size).toBe(5)
})

test('heads that arrive byte by byte, and bodies cut anywhere, are read as usual', async () => {
  const { url } = await start()
  const client = await openRaw(url)
  clients.push(client)
  for (const bytes of [
    `${head(`${KEY}Content-Length: 3\r\n`)}abc`,
    `${head(CHUNKED + KEY)}2\r\nab\r\n1\r\nc\r\n0\r\n\r\n`,
  ]) {
    for (let round = 0; round < 2; round++) {
      for (const byte of bytes) await client.send(byte)
      expect(await (await client.readResponse()).text()).toBe('3')
    }
  }
})

test('a body of 4 MiB in chunks is read whole, whatever their size', async () => {
  const { url } = await start()
  const client = await openRaw(url)
  clients.push(client)
  for (const size of [0x1000, 0x10000, 0x100000]) {
    const chunk = `${size.toString(16)}\r\n${'x'.repeat(size)}\r\n`
    await client.send(head(CHUNKED + KEY) + chunk.repeat(0x400000 / size) + END)
    expect(await (await client.readResponse()).text()).toBe(String(0x400000))
  }
})

describe('an unknown client whose network has used much of the loop', () => {
  const BARE = head('Content-Length: 0\r\n')

  test('waits while others have work; a client that was accepted before does not, even on a new connection', async () => {
    const { url, clock, turns, slices } = await start(400)
    expect((await ask(url, `${head(`${KEY}Content-Length: 1\r\n`)}x`)).status).toBe(200)
    const { status, client } = await ask(url, BARE)
    expect(status).toBe(401)
    slices.spend(owners.account('other'), 1)
    await client.send(BARE)
    expect((await ask(url, `${head(`${KEY}Content-Length: 1\r\n`)}x`)).status).toBe(200)
    expect(slices.waiting).toBe(1)
    clock.ms += 10_000
    for (const turn of turns.splice(0)) turn()
    expect((await client.readResponse()).status).toBe(401)
  })

  test('does not wait when it is alone', async () => {
    const { url, slices } = await start(2)
    const { client } = await ask(url, BARE)
    for (let round = 0; round < 200; round++) {
      await client.send(BARE)
      expect((await client.readResponse()).status).toBe(401)
    }
    expect(slices.waiting).toBe(0)
  })
})

test('a chunked body whose reader pauses is read completely', async () => {
  const { url } = await start()
  server.removeAllListeners('request')
  server.on('request', async (request: IncomingMessage, response: ServerResponse) => {
    noteKnown(request, owners.account('good'))
    let bytes = 0
    for await (const piece of request) {
      bytes += (piece as Buffer).length
      if (bytes % 3 === 0) await new Promise(setImmediate)
    }
    response.end(String(bytes))
  })
  const chunk = `3e9\r\n${'x'.repeat(1001)}\r\n`
  const { text } = await ask(url, head(CHUNKED) + chunk.repeat(2000) + END)
  expect(text).toBe(String(1001 * 2000))
})
