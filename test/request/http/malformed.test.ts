import { afterEach, expect, test } from 'vitest'
import { until } from '../answer/wire.ts'
import { type Listener, listen } from './listener.ts'

const listeners: Listener[] = []
afterEach(async () => {
  for (const listener of listeners.splice(0)) await listener[Symbol.asyncDispose]()
})

async function listening(...parameters: Parameters<typeof listen>) {
  const listener = await listen(...parameters)
  listeners.push(listener)
  return listener
}

test.each([
  ['not HTTP', 'hello\r\n\r\n', 400, 'bad_request'],
  ['binary', '\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03', 400, 'bad_request'],
  ['too large a head', `GET / HTTP/1.1\r\nx: ${'y'.repeat(20_000)}\r\n\r\n`, 431, 'headers_too_large'],
])('%s is answered in JSON with all four keys, and the connection ends', async (_name, bytes, status, code) => {
  const { send } = await listening(() => expect.fail('this is not a request'))
  const client = await send(bytes)
  const response = await client.readResponse()
  expect(response.status).toBe(status)
  expect(response.header('content-type')).toBe('application/json')
  expect(response.header('connection')).toBe('close')
  expect(response.end).toBe('length')
  const { error } = JSON.parse(response.text())
  expect(Object.keys(error)).toEqual(['message', 'type', 'param', 'code'])
  expect(error).toMatchObject({ type: 'invalid_request_error', param: null, code })
  expect(await client.closed).toBe('fin')
})

test('a head that does not arrive in time is refused', async () => {
  const { send } = await listening(() => expect.fail('this is not a request'), { headersTimeout: 60 })
  const response = await (await send('GET / HTTP/1.1\r\nhost: a\r\n')).readResponse()
  expect(response.status).toBe(408)
  expect(JSON.parse(response.text()).error.code).toBe('request_timeout')
})

test('after the start of an answer no error is written: the client would read it as part of the answer', async () => {
  const { send } = await listening((_request, response) => {
    response.writeHead(200, { 'content-type': 'text/event-stream' })
    response.write('data: a\n\n')
  })
  const client = await send('GET / HTTP/1.1\r\nhost: a\r\n\r\n')
  await client.readUntil('data: a')
  await client.send('\x00\x01nonsense\r\n\r\n')
  const text = (await client.readToEnd()).toString()
  expect(text).not.toContain('400')
  expect(text).not.toContain('bad_request')
})

test('a client that resets the connection is not answered', async () => {
  let closed = false
  const { send } = await listening(request => {
    request.on('close', () => {
      closed = true
    })
  })
  const client = await send('POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 5\r\n\r\nhe')
  await new Promise(resolve => setTimeout(resolve, 20))
  client.reset()
  await until(() => closed)
  expect(client.received().toString()).toBe('')
})
