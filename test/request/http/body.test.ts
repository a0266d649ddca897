import { IncomingMessage, type IncomingMessage as Request, ServerResponse } from 'node:http'
import { Socket } from 'node:net'
import { afterEach, describe, expect, test } from 'vitest'
import { isRefusal } from '#contract'
import { type ReadBody, readBody } from '../../../src/request/http/body.ts'
import type { Room } from '../../../src/request/http/shares.ts'
import { until } from '../answer/wire.ts'
import { type Listener, listen } from './listener.ts'

const listeners: Listener[] = []
afterEach(async () => {
  for (const listener of listeners.splice(0)) await listener[Symbol.asyncDispose]()
})

/** A room that counts the bytes in use. */
interface CountingRoom extends Room {
  bytes: number
}

function roomOf(limitBytes = 1_000_000): CountingRoom {
  return {
    bytes: 0,
    take(bytes) {
      if (this.bytes + bytes > limitBytes) return false
      this.bytes += bytes
      return true
    },
    give(bytes) {
      this.bytes -= bytes
    },
  }
}

/** The result for each body: its bytes, or the code of the refusal. */
async function reading(limitBytes: number, shared = roomOf()) {
  const results: (ReadBody | string)[] = []
  const requests: Request[] = []
  const listener = await listen((request, response) => {
    requests.push(request)
    readBody(request, response, { bytes: limitBytes }, shared)
      .catch(error => {
        if (!isRefusal(error)) throw error
        return error.code
      })
      .then(result => {
        results.push(result)
        response.setHeader('connection', 'close')
        response.end()
      })
  })
  listeners.push(listener)
  const bodies = () => results.map(result => (typeof result === 'string' ? result : result.bytes.toString()))
  return { ...listener, results, requests, bodies, shared }
}

const post = (headers: string, body = '') => `POST / HTTP/1.1\r\nhost: x\r\n${headers}\r\n\r\n${body}`
const withLength = (body: string, length = body.length) => post(`content-length: ${length}`, body)
const chunked = (...pieces: string[]) =>
  post(
    'transfer-encoding: chunked',
    `${pieces.map(piece => `${piece.length.toString(16)}\r\n${piece}\r\n`).join('')}0\r\n\r\n`,
  )

describe('a body is refused', () => {
  test.each<[name: string, bytes: string, code: string]>([
    [
      'when its declared length is too long, before a byte of it is read',
      post('content-length: 101'),
      'request_too_large',
    ],
    ['when it is too long by far', post('content-length: 9007199254740991'), 'request_too_large'],
    ['when it grows too long without a declared length', chunked('x'.repeat(60), 'x'.repeat(41)), 'request_too_large'],
  ])('%s', async (_name, bytes, code) => {
    const { send, bodies, shared } = await reading(100)
    await send(bytes)
    await until(() => bodies().length === 1 || shared.bytes < 0)
    expect(bodies()).toEqual([code])
    expect(shared.bytes).toBe(0)
  })

  test.each<[name: string, first: string]>([
    ['with a declared length', withLength('x'.repeat(600), 601)],
    ['without one', post('transfer-encoding: chunked', `258\r\n${'x'.repeat(600)}`)],
  ])('when too many bytes are in use: another body %s', async (_name, first) => {
    const { send, bodies, shared } = await reading(1_000, roomOf(1_000))
    const other = await send(first)
    await until(() => shared.bytes === 600)
    await send(withLength('y'.repeat(401)))
    await send(chunked('y'.repeat(401)))
    await until(() => bodies().length === 2)
    expect(bodies()).toEqual(['overloaded', 'overloaded'])
    expect(shared.bytes).toBe(600)
    await send(withLength('y'.repeat(400)))
    await until(() => bodies().length === 3)
    expect(bodies()[2]).toBe('y'.repeat(400))
    other.reset()
    await until(() => bodies().length === 4)
    expect(bodies()[3]).toBe('bad_request')
    expect(shared.bytes).toBe(400)
  })

  test.each(['fin', 'reset'] as const)('when the client disconnects in the middle, by %s', async how => {
    for (const bytes of [withLength('half', 100), post('transfer-encoding: chunked', '5\r\nhal')]) {
      const { send, bodies, shared } = await reading(100)
      const client = await send(bytes)
      await until(() => shared.bytes > 0)
      client[how]()
      await until(() => bodies().length === 1)
      expect(bodies()).toEqual(['bad_request'])
      expect(shared.bytes).toBe(0)
    }
  })

  test('when the client had disconnected before it was read: the read does not hang', async () => {
    const disconnected: Request[] = []
    let closed = false
    const listener = await listen(request => {
      request.on('error', () => {})
      request.on('close', () => {
        closed = true
      })
      disconnected.push(request)
    })
    listeners.push(listener)
    const client = await listener.send(withLength('half', 100))
    await until(() => disconnected.length === 1)
    client.reset()
    await until(() => closed)
    const shared = roomOf()
    await expect(
      readBody(disconnected[0]!, new ServerResponse(disconnected[0]!), { bytes: 100 }, shared),
    ).rejects.toMatchObject({
      code: 'bad_request',
    })
    expect(shared.bytes).toBe(0)
  })

  test('with its memory freed at once', async () => {
    const request = new IncomingMessage(new Socket())
    const refused = readBody(request, new ServerResponse(request), { bytes: 2_000_000 }, roomOf(2_000_000))
    const pieces = [Buffer.allocUnsafeSlow(500_000), Buffer.allocUnsafeSlow(500_000)]
    for (const piece of pieces) request.push(piece)
    await until(() => request.readableLength === 0)
    request.destroy()
    await expect(refused).rejects.toMatchObject({ code: 'bad_request' })
    expect(pieces.map(({ length }) => length)).toEqual([0, 0])
  })

  test('with the reason', async () => {
    const request = new IncomingMessage(new Socket())
    request.headers['content-length'] = '101'
    await expect(readBody(request, new ServerResponse(request), { bytes: 100 }, roomOf())).rejects.toMatchObject({
      status: 413,
      message: 'The body is larger than 100 bytes.',
    })
    request.headers['content-length'] = '100'
    const refused = readBody(request, new ServerResponse(request), { bytes: 100 }, roomOf(99))
    request.push(Buffer.alloc(100))
    await expect(refused).rejects.toMatchObject({ status: 503, retryAfterMs: 1_000 })
  })

  test('received bytes count, not declared ones: a silent client takes no room', async () => {
    const { send, bodies, requests, shared } = await reading(1_000, roomOf(1_000))
    const silent = await Promise.all([1, 2, 3].map(() => send(post('content-length: 1000'))))
    await until(() => requests.length === 3)
    expect(shared.bytes).toBe(0)
    await send(withLength('y'.repeat(1_000)))
    await until(() => bodies().length === 1)
    expect(bodies()).toEqual(['y'.repeat(1_000)])
    expect(shared.bytes).toBe(1_000)
    for (const client of silent) client.reset()
    await until(() => bodies().length === 4)
    expect(shared.bytes).toBe(1_000)
  })
})

describe('a body is read', () => {
  test.each<[name: string, bytes: string, body: string]>([
    ['with a length', withLength('hello'), 'hello'],
    ['of exactly the limit', withLength('x'.repeat(100)), 'x'.repeat(100)],
    ['in chunks', chunked('hel', 'l', 'o'), 'hello'],
    ['in chunks of exactly the limit', chunked('x'.repeat(50), 'x'.repeat(50)), 'x'.repeat(100)],
    ['of nothing', withLength(''), ''],
    ['in no chunk', chunked(), ''],
    ['that does not exist', 'GET / HTTP/1.1\r\nhost: x\r\n\r\n', ''],
  ])('%s', async (_name, bytes, body) => {
    const { send, bodies, results, shared } = await reading(100)
    await send(bytes)
    await until(() => bodies().length === 1)
    expect(bodies()).toEqual([body])
    expect(shared.bytes).toBe(body.length)
    const { release } = results[0] as ReadBody
    release()
    expect(shared.bytes).toBe(0)
    // A second release does nothing.
    release()
    expect(shared.bytes).toBe(0)
  })

  test('in any pieces', async () => {
    const { send, bodies } = await reading(100)
    const bytes = Buffer.from(withLength('na\u00efve', 6))
    const client = await send(bytes.subarray(0, 1))
    for (const byte of bytes.subarray(1)) await client.send(Buffer.of(byte))
    await until(() => bodies().length === 1)
    expect(bodies()).toEqual(['na\u00efve'])
  })

  test('its listeners are removed', async () => {
    const { send, bodies, requests } = await reading(100)
    await send(withLength('hello'))
    await until(() => bodies().length === 1)
    expect(requests[0]!.listenerCount('data')).toBe(0)
    expect(requests[0]!.listenerCount('error')).toBe(0)
  })
})
