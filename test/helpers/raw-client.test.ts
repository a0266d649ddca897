import { type AddressInfo, createServer, type Server, type Socket } from 'node:net'
import { afterEach, describe, expect, it } from 'vitest'
import { openRaw } from './raw-client.ts'

let server: Server
afterEach(() => void server.close())

describe('reading', () => {
  it.each([
    ['nothing at all', '', 'before a response head'],
    ['half a head', 'HTTP/1.1 200 OK\r\ncontent-le', 'before a response head'],
  ])('rejects: %s', async (_title, bytes, message) => {
    const client = await openRaw(await serve(socket => socket.end(bytes)))
    await expect(client.readResponse()).rejects.toThrow(message)
    expect(await client.closed).toBe('fin')
  })

  it.each([
    ['by length', 'content-length: 5\r\n\r\nhello', 'length', 'hello'],
    ['by length, cut', 'content-length: 6\r\n\r\nhello', 'cut', 'hello'],
    ['by chunks', 'transfer-encoding: chunked\r\n\r\n3\r\nhel\r\n2\r\nlo\r\n0\r\n\r\n', 'chunked', 'hello'],
    ['by chunks, cut in a chunk', 'transfer-encoding: chunked\r\n\r\n3\r\nhel\r\n5\r\nlo', 'cut', 'hello'],
    ['by chunks, cut between two', 'transfer-encoding: chunked\r\n\r\n5\r\nhello\r\n', 'cut', 'hello'],
    ['by chunks, last one missing', 'transfer-encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n', 'cut', 'hello'],
    ['by the end', '\r\nhello', 'close', 'hello'],
  ])('the body ends %s', async (_title, bytes, end, body) => {
    const client = await openRaw(await serve(socket => socket.end(`HTTP/1.1 200 OK\r\n${bytes}`)))
    const response = await client.readResponse()
    expect([response.status, response.end, response.text()]).toEqual([200, end, body])
  })

  it('informational responses are skipped, and two answers on one connection are kept apart', async () => {
    const answer = (text: string) => `HTTP/1.1 200 OK\r\ncontent-length: 1\r\nX-Twice: 1\r\nx-twice: 2\r\n\r\n${text}`
    const bytes = `HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n${answer('a')}${answer('b')}HTTP/1.1 204 No Content\r\n\r\n`
    const client = await openRaw(await serve(socket => socket.end(bytes)))
    const first = await client.readResponse()
    expect(first.text()).toBe('a')
    expect(first.headers.slice(1)).toEqual([
      ['X-Twice', '1'],
      ['x-twice', '2'],
    ])
    expect((await client.readResponse()).text()).toBe('b')
    expect((await client.readResponse()).status).toBe(204)
    expect((await client.readToEnd()).length).toBe(0)
  })

  it('readUntil waits for text that comes in pieces', async () => {
    const client = await openRaw(
      await serve(socket => {
        socket.write('one t')
        setImmediate(() => socket.write('wo three'))
      }),
    )
    await client.readUntil('two')
    expect(client.received().toString()).toContain('one two')
    client.fin()
    await expect(client.readUntil('four')).rejects.toThrow('before "four" came')
  })
})

describe('sending and leaving', () => {
  it('sends the bytes as they are', async () => {
    const got = received()
    const client = await openRaw(await serve(socket => got.from(socket)))
    await client.send('GET / HTTP/1.1\n\xff')
    await client.post('/x', { a: 1 }, { 'content-length': '3' })
    client.fin()
    const text = (await got.bytes).toString('latin1')
    expect(text.startsWith('GET / HTTP/1.1\n\xffPOST /x HTTP/1.1\r\nhost: 127.0.0.1:')).toBe(true)
    expect(text.endsWith('content-length: 3\r\n\r\n{"a":1}')).toBe(true)
  })

  it.each([
    ['fin', 'end'],
    ['reset', 'ECONNRESET'],
  ] as const)('%s', async (leave, seen) => {
    let sign = (_how: string) => {}
    const signs = new Promise<string>(resolve => (sign = resolve))
    const port = await serve(socket => {
      socket.resume().on('end', () => sign('end'))
      socket.on('error', (error: NodeJS.ErrnoException) => sign(error.code!))
    })
    const client = await openRaw(port)
    await client.send('x')
    client[leave]()
    expect(await signs).toBe(seen)
    expect(await client.closed).toBe('own')
  })

  it.each(['fin', 'reset'] as const)('knows how the other side left: %s', async how => {
    const port = await serve(socket => {
      // Not before the client's first byte: a reset may be quicker than the news of having connected.
      socket.once('data', () => (how === 'fin' ? socket.end() : socket.resetAndDestroy()))
    })
    const client = await openRaw(port)
    await client.send('x')
    expect(await client.closed).toBe(how)
  })

  it('a paused client makes the other side wait', async () => {
    const chunk = Buffer.alloc(65_536)
    let full = () => {}
    const stuck = new Promise<void>(resolve => (full = resolve))
    const client = await openRaw(
      await serve(socket => {
        // More than loopback buffers hold: the writes stop being taken at once.
        let sent = 0
        while (sent < 64 * 1024 * 1024 && socket.writableLength < 4 * 1024 * 1024) {
          socket.write(chunk)
          sent += chunk.length
        }
        full()
        socket.end()
      }),
    )
    client.pause()
    await stuck
    const before = client.received().length
    client.resume()
    expect((await client.readToEnd()).length).toBeGreaterThan(before + 4 * 1024 * 1024 - 1)
  })
})

function received() {
  let resolve = (_bytes: Buffer) => {}
  const bytes = new Promise<Buffer>(done => (resolve = done))
  return {
    bytes,
    from(socket: Socket) {
      const pieces: Buffer[] = []
      socket.on('data', (piece: Buffer) => pieces.push(piece)).on('end', () => resolve(Buffer.concat(pieces)))
    },
  }
}

async function serve(onSocket: (socket: Socket) => unknown): Promise<number> {
  server = createServer({ allowHalfOpen: false }, socket => {
    socket.on('error', () => {})
    onSocket(socket)
  })
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  return (server.address() as AddressInfo).port
}
