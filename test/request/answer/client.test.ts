import { once } from 'node:events'
import type { ServerResponse } from 'node:http'
import { describe, expect, test, vi } from 'vitest'
import { listen } from '../http/listener.ts'
import { clientOn, openWire, until } from './wire.ts'

const frame = (text: string) => Buffer.from(`data: ${text}\n\n`)
const LARGE = Buffer.alloc(64 * 1024, 'x')

/** Writes until the client no longer reads. Returns the number of writes. */
async function fill(client: ReturnType<typeof clientOn>['client'], response: ServerResponse): Promise<number> {
  let writes = 0
  for (;;) {
    do writes++
    while (client.writeStream(LARGE))
    // Loopback buffers some MiB, not hundreds.
    if (writes > 5_000) throw new Error('the client never stopped reading')
    if (!(await drains(response))) return writes
  }
}

/** Opens a connection with two pipelined requests. */
async function openPipeline() {
  const responses: ServerResponse[] = []
  const listener = await listen((_, response) => responses.push(response))
  const request = 'GET / HTTP/1.1\r\nhost: x\r\n\r\n'
  const raw = await listener.send(request + request)
  await until(() => responses.length === 2)
  return { ...listener, raw, responses }
}

/** Whether the written bytes drain within 30 ms. A loopback socket with free buffer takes them at once. */
async function drains(response: ServerResponse): Promise<boolean> {
  const moment = new AbortController()
  const timer = setTimeout(() => moment.abort(), 30)
  try {
    await once(response, 'drain', { signal: moment.signal })
    return true
  } catch {
    return false
  } finally {
    clearTimeout(timer)
  }
}

describe('the client disconnects', () => {
  test.each(['fin', 'reset'] as const)('by %s, before anything was written', async how => {
    await using wire = await openWire()
    const { client, left, deadlineClock } = clientOn(wire.response)
    let resumed = 0
    client.onResume(() => resumed++)
    wire.raw[how]()
    await until(() => client.left)
    expect(left).toHaveLength(1)
    expect(resumed).toBe(1)
    expect(deadlineClock.watched).toBe(0)
    expect(client.headSent).toBe(false)
  })

  test.each(['fin', 'reset'] as const)('by %s, in the middle of a stream: later writes are harmless', async how => {
    await using wire = await openWire()
    const { client, left } = clientOn(wire.response)
    client.writeStream(frame('a'))
    await wire.raw.readUntil('data: a')
    wire.raw[how]()
    await until(() => client.left)
    expect(client.writeStream(frame('b'))).toBe(true)
    client.endStream(frame('c'))
    client.sendWhole(200, {}, 'e')
    client.release()
    expect(left).toHaveLength(1)
  })

  test('a writer that waits for a slow client is resumed', async () => {
    await using wire = await openWire()
    const { client } = clientOn(wire.response)
    wire.raw.pause()
    await fill(client, wire.response)
    const resumed = new Promise<void>(resolve => client.onResume(resolve))
    wire.raw.reset()
    await resumed
    expect(client.left).toBe(true)
  })

  test('a connection that closed before the check counts as a disconnect', async () => {
    await using wire = await openWire()
    wire.raw.reset()
    await once(wire.response, 'close')
    const { client, left } = clientOn(wire.response)
    expect(client.left).toBe(true)
    expect(left).toHaveLength(1)
  })

  test.each<[string, (client: ReturnType<typeof clientOn>['client']) => void]>([
    ['a whole answer', client => client.sendWhole(200, {}, '{}')],
    ['a stream', client => client.endStream(frame('[DONE]'))],
    ['the answer of Koa', client => client.release()],
  ])('a close after the end of %s is not a disconnect', async (_name, end) => {
    await using wire = await openWire()
    const { client, left, deadlineClock } = clientOn(wire.response)
    client.startHeartbeat()
    end(client)
    wire.raw.reset()
    await once(wire.response, 'close')
    expect(deadlineClock.watched).toBe(0)
    expect(client.left).toBe(false)
    expect(left).toEqual([])
  })
})

describe('a client that does not keep up', () => {
  test('makes a write return false, and resumes when it has read everything', async () => {
    await using wire = await openWire()
    const { client } = clientOn(wire.response)
    wire.raw.pause()
    const writes = await fill(client, wire.response)
    const resumed = new Promise<void>(resolve => client.onResume(resolve))
    wire.raw.resume()
    await resumed
    expect(client.writeStream(frame('after'))).toBe(true)
    await wire.raw.readUntil('data: after')
    expect(wire.raw.received().length).toBeGreaterThan(writes * LARGE.length)
  })

  test('is cut when it reads nothing for too long, which counts as a disconnect', async () => {
    await using wire = await openWire()
    const { client, deadlineClock, left } = clientOn(wire.response, { stallMs: 60_000 })
    wire.raw.pause()
    await fill(client, wire.response)
    deadlineClock.advance(60_000)
    expect(wire.response.destroyed).toBe(false)
    deadlineClock.advance(1)
    expect(wire.response.destroyed).toBe(true)
    await until(() => client.left)
    expect(left).toHaveLength(1)
  })

  test('has the stall time from the moment when it stopped reading, not from the last write', async () => {
    await using wire = await openWire()
    const { client, deadlineClock } = clientOn(wire.response)
    wire.raw.pause()
    await fill(client, wire.response)
    deadlineClock.advance(40_000)
    client.writeStream(frame('more'))
    deadlineClock.advance(20_001)
    expect(wire.response.destroyed).toBe(true)
  })

  test('has the full stall time each time', async () => {
    await using wire = await openWire()
    const { client, deadlineClock } = clientOn(wire.response)
    for (let round = 0; round < 3; round++) {
      wire.raw.pause()
      await fill(client, wire.response)
      deadlineClock.advance(50_000)
      const resumed = new Promise<void>(resolve => client.onResume(resolve))
      wire.raw.resume()
      await resumed
      deadlineClock.advance(50_000)
    }
    expect(wire.response.destroyed).toBe(false)
  })

  test.each<[string, (client: ReturnType<typeof clientOn>['client'], body: Buffer) => void]>([
    ['whole answer', (client, body) => client.sendWhole(200, { 'content-type': 'application/json' }, body)],
    ['end of a stream', (client, body) => client.endStream(body)],
  ])('is cut also if it does not read the %s', async (_name, send) => {
    await using wire = await openWire()
    const { client, deadlineClock, flushed } = clientOn(wire.response)
    wire.raw.pause()
    send(client, Buffer.alloc(16 * 1024 * 1024, 'x'))
    while (await drains(wire.response));
    deadlineClock.advance(60_000)
    expect(wire.response.destroyed).toBe(false)
    deadlineClock.advance(1)
    // Without a deadline this would hang, and keep 16 MiB.
    expect(wire.response.destroyed).toBe(true)
    expect(wire.response.writableFinished).toBe(false)
    await flushed
    expect(deadlineClock.watched).toBe(0)
  })

  test('gets everything if it reads a little within each stall time', async () => {
    await using wire = await openWire()
    const { client, deadlineClock, flushed } = clientOn(wire.response)
    const size = 32 * 1024 * 1024
    const start = deadlineClock.now()
    let received = 0
    wire.raw.socket.on('data', bytes => {
      received += bytes.length
    })
    wire.raw.pause()
    client.sendWhole(200, {}, Buffer.alloc(size, 'x'))
    while (!wire.response.writableFinished && !wire.response.destroyed) {
      deadlineClock.advance(50_000)
      wire.raw.resume()
      await Promise.race([once(wire.response, 'drain'), flushed])
      wire.raw.pause()
      while (await drains(wire.response));
    }
    expect(deadlineClock.now() - start).toBeGreaterThan(120_000)
    expect(wire.response.writableFinished).toBe(true)
    wire.raw.resume()
    await until(() => received >= size)
  })

  test('is not watched after it has read everything', async () => {
    await using wire = await openWire()
    const { client, deadlineClock, flushed } = clientOn(wire.response)
    const { socket } = wire.response
    client.sendWhole(200, {}, Buffer.alloc(8 * 1024 * 1024, 'x'))
    await flushed
    expect(deadlineClock.watched).toBe(0)
    deadlineClock.advance(1_000_000)
    expect((await wire.raw.readResponse()).body).toHaveLength(8 * 1024 * 1024)
    // The connection stays open for the next request.
    expect(socket!.destroyed).toBe(false)
  })
})

describe('small frames', () => {
  const numbered = (count: number) => Array.from({ length: count }, (_, index) => `${index},`)

  test('after a pending write are sent together, in order', async () => {
    await using wire = await openWire()
    const { client } = clientOn(wire.response)
    const frames = numbered(2_000)
    for (const text of frames) expect(client.writeStream(Buffer.from(text))).toBe(true)
    client.endStream(Buffer.from('end'))
    await wire.raw.readUntil('\r\n0\r\n\r\n')
    // Each write is one chunk of the chunked encoding.
    expect(
      wire.raw
        .received()
        .toString('latin1')
        .match(/\r\n[0-9a-f]+\r\n/g)!.length,
    ).toBeLessThan(8)
    const { body } = await wire.raw.readResponse()
    expect(body.toString()).toBe(`${frames.join('')}end`)
  })

  test('count as pending above the buffer of the connection, until they are sent', async () => {
    await using wire = await openWire()
    const { client } = clientOn(wire.response)
    const resumed = new Promise<void>(resolve => client.onResume(resolve))
    const frames = numbered(1_000_000)
    let written = 0
    while (client.writeStream(Buffer.from(frames[written++]!)) && written < frames.length);
    expect(written).toBeLessThan(wire.response.writableHighWaterMark)
    await resumed
    expect(client.writeStream(Buffer.from('after'))).toBe(true)
    client.endStream(Buffer.from('end'))
    const { body } = await wire.raw.readResponse()
    expect(body.toString()).toBe(`${frames.slice(0, written).join('')}afterend`)
  })
})

describe('the answer of Koa', () => {
  test('may be slow: only a client that has stopped reading is cut', async () => {
    await using wire = await openWire()
    const { client, deadlineClock, flushed } = clientOn(wire.response)
    client.release()
    for (let piece = 0; piece < 3; piece++) {
      deadlineClock.advance(100_000)
      await new Promise<void>(resolve => wire.response.write(`piece ${piece};`, () => resolve()))
    }
    deadlineClock.advance(100_000)
    expect(wire.response.destroyed).toBe(false)
    wire.raw.pause()
    do wire.response.write(LARGE)
    while (!wire.response.writableNeedDrain || (await drains(wire.response)))
    deadlineClock.advance(1)
    deadlineClock.advance(60_000)
    expect(wire.response.destroyed).toBe(false)
    deadlineClock.advance(1)
    expect(wire.response.destroyed).toBe(true)
    await flushed
    expect(deadlineClock.watched).toBe(0)
  })

  test('is not stalled if it is read slowly', async () => {
    await using wire = await openWire()
    const { client, deadlineClock } = clientOn(wire.response)
    client.release()
    for (let round = 0; round < 3; round++) {
      wire.raw.pause()
      do wire.response.write(LARGE)
      while (!wire.response.writableNeedDrain || (await drains(wire.response)))
      deadlineClock.advance(50_000)
      deadlineClock.advance(9_000)
      wire.raw.resume()
      await once(wire.response, 'drain')
    }
    expect(wire.response.destroyed).toBe(false)
  })

  test('may be endless, but does not block the shutdown', async () => {
    await using wire = await openWire()
    const { client, deadlineClock } = clientOn(wire.response)
    client.release()
    wire.response.write('for ever and')
    await wire.raw.readUntil('ever')
    client.hurry()
    deadlineClock.advance(2_000)
    expect(wire.response.destroyed).toBe(false)
    deadlineClock.advance(1)
    expect(wire.response.destroyed).toBe(true)
  })
})

describe('an answer after another one on its connection', () => {
  test('is neither stalled nor flushed before the other one has ended', async () => {
    await using pipeline = await openPipeline()
    const [first, second] = pipeline.responses
    const { client, deadlineClock, flushed } = clientOn(second!)
    client.sendWhole(200, {}, 'second')
    deadlineClock.advance(60_001)
    deadlineClock.advance(60_001)
    await new Promise(resolve => setImmediate(resolve))
    expect([second!.destroyed, client.isFlushed]).toEqual([false, false])
    first!.end('first')
    await flushed
    expect((await pipeline.raw.readResponse()).text()).toBe('first')
    expect((await pipeline.raw.readResponse()).text()).toBe('second')
    expect(deadlineClock.watched).toBe(0)
  })
})

describe('the heartbeat', () => {
  const pings = (text: Buffer) => text.toString().split(': ping\n\n').length - 1

  test('sends nothing before it is started', async () => {
    await using wire = await openWire()
    const { client, deadlineClock } = clientOn(wire.response)
    deadlineClock.advance(100_000)
    expect(client.headSent).toBe(false)
  })

  test('comes after each silence; the first one commits the status', async () => {
    await using wire = await openWire()
    const { client, deadlineClock } = clientOn(wire.response)
    client.startHeartbeat()
    deadlineClock.advance(9_999)
    expect(client.headSent).toBe(false)
    deadlineClock.advance(1)
    expect(client.headSent).toBe(true)
    expect(client.firstWriteMs).toBeNull()
    deadlineClock.advance(14_999)
    await wire.raw.readUntil(': ping')
    expect(pings(wire.raw.received())).toBe(1)
    deadlineClock.advance(1)
    client.endStream(frame('[DONE]'))
    const { status, body } = await wire.raw.readResponse()
    expect(status).toBe(200)
    expect(pings(body)).toBe(2)
  })

  test('counts silence from the last event', async () => {
    await using wire = await openWire()
    const { client, deadlineClock } = clientOn(wire.response)
    client.startHeartbeat()
    for (let i = 0; i < 20; i++) {
      deadlineClock.advance(9_000)
      client.writeStream(frame(`${i}`))
    }
    deadlineClock.advance(9_999)
    client.endStream(frame('[DONE]'))
    deadlineClock.advance(100_000)
    expect(pings((await wire.raw.readResponse()).body)).toBe(0)
  })

  test('is not sent to a client that does not keep up', async () => {
    await using wire = await openWire()
    const { client, deadlineClock } = clientOn(wire.response)
    client.startHeartbeat()
    wire.raw.pause()
    await fill(client, wire.response)
    deadlineClock.advance(30_000)
    client.endStream(frame('[DONE]'))
    wire.raw.resume()
    expect(pings((await wire.raw.readResponse()).body)).toBe(0)
  })
})

describe('an answer', () => {
  test.each<[name: string, body: string | Buffer, writes: number]>([
    ['no body', '', 1],
    ['a short body, of any bytes', Buffer.from(Array.from({ length: 8192 }, (_, at) => at & 255)), 1],
    ['a longer body', Buffer.alloc(8193, 'x'), 2],
  ])('is sent whole, in one write if it is short: %s', async (_name, body, writes) => {
    await using wire = await openWire()
    const { client } = clientOn(wire.response)
    wire.response.setHeader('x-a', '1')
    const write = vi.spyOn(wire.response.socket!, 'write')
    client.sendWhole(200, { 'x-b': '2' }, body)
    const answer = await wire.raw.readResponse()
    expect([answer.header('x-a'), answer.header('x-b'), answer.end]).toEqual(['1', '2', 'length'])
    expect(answer.body).toEqual(Buffer.from(body))
    expect(write).toHaveBeenCalledTimes(writes)
  })

  test('that is a stream begins with its head, once', async () => {
    await using wire = await openWire()
    const { client, deadlineClock } = clientOn(wire.response)
    wire.response.setHeader('x-request-id', 'req_1')
    expect([client.headSent, client.firstWriteMs]).toEqual([false, null])
    deadlineClock.advance(7)
    client.writeStream(frame('a'))
    expect([client.headSent, client.firstWriteMs]).toEqual([true, 5_007])
    deadlineClock.advance(7)
    client.writeStream(frame('b'))
    expect(client.firstWriteMs).toBe(5_007)
    client.endStream(frame('[DONE]'))
    const { status, header, text, end } = await wire.raw.readResponse()
    expect([status, end]).toEqual([200, 'chunked'])
    expect(header('content-type')).toBe('text/event-stream; charset=utf-8')
    expect(header('cache-control')).toBe('no-cache, no-transform')
    expect(header('x-accel-buffering')).toBe('no')
    expect(header('x-request-id')).toBe('req_1')
    expect(text()).toBe('data: a\n\ndata: b\n\ndata: [DONE]\n\n')
  })

  test('that is an empty stream has a head too', async () => {
    await using wire = await openWire()
    clientOn(wire.response).client.endStream(frame('[DONE]'))
    const { status, text } = await wire.raw.readResponse()
    expect([status, text()]).toEqual([200, 'data: [DONE]\n\n'])
  })

  test.each(['content-length', 'content-encoding', 'transfer-encoding', 'trailer', 'upgrade', 'keep-alive'])(
    'keeps its framing when a step has set %s',
    async name => {
      await using wire = await openWire()
      const { client } = clientOn(wire.response)
      wire.response.setHeader(name, name === 'content-length' ? '5' : 'gzip')
      client.writeStream(frame('a longer event than that'))
      client.endStream(frame('[DONE]'))
      const { end, header, text } = await wire.raw.readResponse()
      expect(text()).toBe('data: a longer event than that\n\ndata: [DONE]\n\n')
      expect(['chunked', 'close']).toContain(end)
      for (const name of ['content-encoding', 'trailer', 'upgrade']) expect(header(name)).toBeUndefined()
      expect(header('keep-alive')).not.toBe('gzip')
    },
  )

  test.each([
    [true, 'keep-alive'],
    [false, 'close'],
  ])('has a correct connection header, whatever a step has set (keep-alive: %s)', async (stays, expected) => {
    await using wire = await openWire()
    const { client } = clientOn(wire.response)
    wire.response.setHeader('connection', stays ? 'close' : 'keep-alive, x-secret')
    wire.response.shouldKeepAlive = stays
    client.sendWhole(200, {}, '{}')
    const { header, end } = await wire.raw.readResponse()
    expect([end, header('connection')]).toEqual(['length', expected])
  })

  test.each<[string, number, Record<string, string>]>([
    ['a header with a line break', 200, { 'x-why': 'a\nb' }],
    ['a header without a value', 200, { 'x-why': undefined as unknown as string }],
    ['a trailer', 200, { trailer: 'x-sum' }],
    ['no status', 9, {}],
  ])('that cannot be sent (%s) throws, and another answer can be sent', async (_name, status, headers) => {
    await using wire = await openWire()
    const { client, left } = clientOn(wire.response)
    expect(() => client.sendWhole(status, headers, 'one')).toThrow()
    expect(client.headSent).toBe(false)
    client.sendWhole(500, {}, 'two')
    const answer = await wire.raw.readResponse()
    expect([answer.status, answer.text()]).toEqual([500, 'two'])
    expect(left).toEqual([])
  })

  test('that is whole is reported with its size, and is flushed when the client has read it', async () => {
    await using wire = await openWire()
    const sizes: number[] = []
    const { client, flushed } = clientOn(wire.response, { onWhole: bytes => void sizes.push(bytes) })
    wire.raw.pause()
    client.sendWhole(200, {}, Buffer.alloc(16 * 1024 * 1024))
    while (await drains(wire.response));
    expect([sizes, client.isFlushed]).toEqual([[16 * 1024 * 1024], false])
    wire.raw.resume()
    await flushed
  })

  test('that is whole is flushed when the client has disconnected', async () => {
    await using wire = await openWire()
    const { client, flushed } = clientOn(wire.response, {})
    wire.raw.pause()
    client.sendWhole(200, {}, Buffer.alloc(16 * 1024 * 1024))
    wire.raw.reset()
    await flushed
  })

  test('that ends after a pending write has all its events, in order', async () => {
    await using wire = await openWire()
    const { client } = clientOn(wire.response)
    wire.raw.pause()
    await fill(client, wire.response)
    client.writeStream(frame('one before'))
    client.endStream(frame('error'))
    wire.raw.resume()
    const { end, text } = await wire.raw.readResponse()
    expect([end, text().slice(text().indexOf('data:'))]).toEqual(['chunked', 'data: one before\n\ndata: error\n\n'])
  })

  test('that ends is cut after the stall time of its client', async () => {
    await using wire = await openWire('HTTP/1.0')
    const { client, deadlineClock, flushed } = clientOn(wire.response)
    wire.raw.pause()
    await fill(client, wire.response)
    client.endStream(frame('error'))
    deadlineClock.advance(60_001)
    await flushed
    wire.raw.resume()
    expect((await wire.raw.readResponse()).end).toBe('cut')
  })

  test.each(['HTTP/1.1', 'HTTP/1.0'])('that is destroyed over %s never looks complete', async version => {
    await using wire = await openWire(version)
    const { client } = clientOn(wire.response)
    client.writeStream(frame('a'))
    await wire.raw.readUntil('data: a\n\n')
    client.destroy()
    expect((await wire.raw.readResponse()).end).toBe('cut')
  })

  test('that is whole has its length in bytes', async () => {
    await using wire = await openWire()
    clientOn(wire.response).client.sendWhole(201, { 'content-type': 'application/json', 'x-a': 1 }, '{"a":"€"}')
    const { status, header, text, end } = await wire.raw.readResponse()
    expect([status, end, header('content-length'), header('x-a')]).toEqual([201, 'length', '11', '1'])
    expect(text()).toBe('{"a":"€"}')
  })

  test.each<[string, (client: ReturnType<typeof clientOn>['client']) => void]>([
    ['whole', client => client.sendWhole(200, {}, 'one')],
    ['a stream', client => client.endStream(frame('one'))],
  ])('ends once: %s', async (_name, end) => {
    await using wire = await openWire()
    const { client } = clientOn(wire.response)
    end(client)
    client.sendWhole(500, {}, 'two')
    client.endStream(frame('two'))
    await until(() => wire.response.writableFinished)
    const { status, text } = await wire.raw.readResponse()
    expect(status).toBe(200)
    expect(text()).toContain('one')
    expect(text()).not.toContain('two')
  })
})
