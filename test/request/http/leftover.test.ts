import { once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { type AddressInfo, connect } from 'node:net'
import { afterEach, expect, test } from 'vitest'
import { ClientRequest } from '../../../src/request/http/client-request.ts'
import { Connections } from '../../../src/request/http/connections.ts'
import { CutResponse } from '../../../src/request/http/cut-response.ts'
import { LEFTOVER } from '../../../src/request/http/leftover.ts'

const HEAD = 'GET / HTTP/1.1\r\nHost: a\r\n\r\n'

const closers: (() => unknown)[] = []
afterEach(() => {
  for (const close of closers.splice(0)) close()
})

async function start(answer: (response: ServerResponse) => void) {
  const requests = new Set<IncomingMessage>()
  const responses = new Set<ServerResponse>()
  let heads = 0
  const connections = new Connections((_request, response) => answer(response), {
    isClosed: () => false,
    stallMs: () => 60_000,
  })
  const options = { IncomingMessage: ClientRequest, ServerResponse: CutResponse, requireHostHeader: false }
  const server = createServer(options, (request, response) => {
    heads++
    requests.add(request)
    responses.add(response)
    connections.begin(request, response)
  })
  await once(server.listen(0, '127.0.0.1'), 'listening')
  closers.push(() => server.close())
  const { port } = server.address() as AddressInfo
  return { port, requests, responses, heads: () => heads }
}

/** Sends the bytes in one piece. Resolves with all received text at the end of the connection. */
async function send(port: number, wire: string): Promise<string> {
  const socket = connect({ port, host: '127.0.0.1' })
  let text = ''
  socket.on('data', piece => (text += piece.toString('latin1')))
  socket.on('error', () => {})
  socket.write(wire)
  await once(socket, 'close')
  return text
}

test('all heads after the end of the connection share one request object', async () => {
  const { port, requests, responses, heads } = await start(() => {})
  await send(port, HEAD.repeat(2000))
  expect(heads()).toBeGreaterThan(1000)
  expect([requests.size, responses.size].every(size => size > 512 && size < 530)).toBe(true)
  // Other connections share the same object.
  await send(port, HEAD.repeat(2000))
  expect(requests.size).toBeLessThan(1060)
})

test.each([
  ['whole', 'GET / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nx-a: 1\r\n\r\n'],
  ['without its body', 'POST / HTTP/1.1\r\nHost: a\r\nx-a: 1\r\nContent-Length: 1000000\r\n\r\n'],
  ['with trailers', 'POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nx-a: 1\r\n\r\n'],
])('the shared object keeps nothing of a head: %s', async (_name, last) => {
  const { port, requests } = await start(() => {})
  for (let round = 0; round < 3; round++) await send(port, HEAD.repeat(600) + last)
  expect(requests.has(LEFTOVER)).toBe(true)
  expect([LEFTOVER.headers, LEFTOVER.rawHeaders, LEFTOVER.trailers, LEFTOVER.rawTrailers]).toEqual([{}, [], {}, []])
})

test('leftover bytes do not affect the next connection', async () => {
  let left = 0
  const { port } = await start(response => {
    if (left++ === 0) return
    response.end('ok')
  })
  await send(port, HEAD.repeat(2000))
  expect(await send(port, HEAD.replace('\r\n\r\n', '\r\nConnection: close\r\n\r\n'))).toMatch(/^HTTP\/1\.1 200 .*ok$/s)
})
