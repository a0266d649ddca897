/** Clients that try a WebSocket before HTTP: they fall back at once if the refusal is 426, and otherwise retry for seconds. */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type InProcess, startInProcess } from '../helpers/in-process.ts'
import { openRaw } from '../helpers/raw-client.ts'

let gateway: InProcess

beforeAll(async () => {
  const paths = ['/v1/responses', '/v1/messages', '/office/v1/chat/completions', '/v1/chat/completions']
  gateway = await startInProcess({
    provider: 'http://127.0.0.1:9/v1',
    yaml: { routes: paths.map(path => ({ path, policy: 'test' })) },
  })
})
afterAll(() => gateway.stop())

const upgrade = (path: string, more: readonly string[] = ['Upgrade: websocket']) =>
  [`GET ${path} HTTP/1.1`, 'Host: gateway', 'Connection: Upgrade', 'Sec-WebSocket-Version: 13', ...more, '', ''].join(
    '\r\n',
  )

test.each([
  ['/v1/responses', ['Upgrade: websocket']],
  ['/v1/responses?model=m', ['Upgrade: WebSocket', 'Authorization: Bearer nonsense']],
  ['/v1/responses/input_tokens', ['Upgrade: websocket']],
  ['/v1/chat/completions', ['Upgrade: websocket']],
  ['/office/v1/chat/completions', ['Upgrade: websocket']],
  ['/v1/messages', ['Upgrade: websocket']],
])('%s answers 426 and ends the connection', async (path, more) => {
  const client = await openRaw(gateway.url)
  // A frame of a client that does not wait for the answer.
  await client.send(`${upgrade(path, more)}\x81\x85\x00\x00\x00\x00Hello`)
  const answer = await client.readResponse()
  expect([answer.status, answer.header('connection')]).toEqual([426, 'close'])
  expect(answer.header('upgrade')).toBeUndefined()
  const { error } = JSON.parse(answer.text())
  expect(error).toMatchObject({ code: 'websocket_not_supported', type: 'invalid_request_error', param: null })
  expect((await client.readToEnd()).toString()).toBe('')
  client.socket.destroy()
})

test.each([
  ['another protocol', upgrade('/v1/responses', ['Upgrade: h2c']), 405],
  ['no protocol', 'GET /v1/responses HTTP/1.1\r\nHost: gateway\r\n\r\n', 405],
  ['a route without a model', upgrade('/v1/models'), 401],
  ['no route', upgrade('/v1/realtime'), 404],
])('%s is answered as before', async (_name, bytes, status) => {
  const client = await openRaw(gateway.url)
  await client.send(bytes)
  expect((await client.readResponse()).status).toBe(status)
  client.socket.destroy()
})
