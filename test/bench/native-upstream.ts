/**
 * A provider of every dialect: one thread, raw sockets and prepared answers. The first part of the path is the dialect
 * (`/anthropic/v1/messages`). Streams have 400 pieces without a pause, each in its own write, with backpressure. run.ts starts
 * this process and receives its port.
 */
import { type AddressInfo, createServer, type Socket } from 'node:net'
import { NATIVES, type Native } from './native.ts'

const PIECES = 400
const END_OF_HEAD = Buffer.from('\r\n\r\n')

interface PreparedAnswer {
  readonly whole: Buffer
  /** The response head, and the events before the text. */
  readonly begin: Buffer
  readonly piece: Buffer
  readonly end: Buffer
}

const prepared = new Map(Object.entries(NATIVES).map(([name, native]) => [name, prepare(native)]))

const server = createServer({ noDelay: true }, serve)
server.listen(0, '127.0.0.1', 8192, () => process.send!((server.address() as AddressInfo).port))
process.on('disconnect', () => process.exit())

function serve(socket: Socket): void {
  let unread: Buffer | null = null
  socket.on('data', (bytes: Buffer) => {
    const request = unread === null ? bytes : Buffer.concat([unread, bytes])
    unread = isWhole(request) ? null : request
    if (unread === null) answer(socket, request.toString('latin1'))
  })
  // The gateway may reset its connections.
  socket.on('error', () => {})
}

function isWhole(request: Buffer): boolean {
  const headEnd = request.indexOf(END_OF_HEAD)
  if (headEnd < 0) return false
  const length = /content-length: *(\d+)/i.exec(request.toString('latin1', 0, headEnd))?.[1] ?? '0'
  return request.length >= headEnd + END_OF_HEAD.length + Number(length)
}

/** Some dialects request a stream by the path, the others by the body. */
function answer(socket: Socket, request: string): void {
  const [, path = '', dialect = ''] = /^POST (\/([^/ ]+)[^ ]*)/.exec(request) ?? []
  const native = prepared.get(dialect)
  if (!native) throw new Error(`no dialect has the path ${path}`)
  const body = request.slice(request.indexOf('\r\n\r\n'))
  if (/stream/i.test(path) || body.includes('"stream":true')) stream(socket, native)
  else socket.write(native.whole)
}

function stream(socket: Socket, { begin, piece, end }: PreparedAnswer): void {
  let left = PIECES
  const next = (): void => {
    if (socket.destroyed) return
    if (left-- === 0) socket.write(end)
    else if (socket.write(piece)) setImmediate(next)
    else socket.once('drain', next)
  }
  socket.write(begin)
  setImmediate(next)
}

function prepare({ streamType, begin, piece, end, whole }: Native): PreparedAnswer {
  return {
    whole: Buffer.concat([head('application/json', `content-length: ${whole.length}`), whole]),
    begin: Buffer.concat([head(streamType, 'transfer-encoding: chunked'), framed(begin)]),
    piece: framed(piece),
    end: Buffer.concat([framed(end(PIECES)), Buffer.from('0\r\n\r\n')]),
  }
}

function framed(bytes: Buffer): Buffer {
  return Buffer.concat([Buffer.from(`${bytes.length.toString(16)}\r\n`), bytes, Buffer.from('\r\n')])
}

function head(type: string, length: string): Buffer {
  const lines = ['HTTP/1.1 200 OK', 'date: Sat, 21 Nov 2026 03:00:00 GMT', `content-type: ${type}`, length]
  return Buffer.from([...lines, 'x-request-id: req_5c1a0b7d2f5d4b6f', 'server: bench', '', ''].join('\r\n'))
}
