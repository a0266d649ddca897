/** Frames of AWS's event streams, written from the protocol's description, not from the reader's code. */
import { crc32 } from 'node:zlib'

/** Values by header name. A buffer starts with the type byte; a string is a text header. */
export type Headers = Readonly<Record<string, string | Buffer>>

export function frame(headers: Headers, payload: Buffer | string = ''): Buffer {
  const head = Buffer.concat(Object.entries(headers).map(([name, value]) => header(name, value)))
  const body = Buffer.from(payload as string)
  const prelude = Buffer.concat([u32(16 + head.length + body.length), u32(head.length)])
  const before = Buffer.concat([prelude, u32(crc32(prelude)), head, body])
  return Buffer.concat([before, u32(crc32(before))])
}

/** An event of ConverseStream. */
export function event(type: string, payload: object): Buffer {
  return frame(
    { ':event-type': type, ':content-type': 'application/json', ':message-type': 'event' },
    JSON.stringify(payload),
  )
}

/** An exception in the middle of a stream. */
export function exception(type: string, message: string): Buffer {
  return frame({ ':exception-type': type, ':message-type': 'exception' }, JSON.stringify({ message }))
}

export function u32(value: number): Buffer {
  const bytes = Buffer.alloc(4)
  bytes.writeUInt32BE(value)
  return bytes
}

function header(name: string, value: string | Buffer): Buffer {
  const text = Buffer.from(value as string)
  const size = Buffer.from([text.length >> 8, text.length & 255])
  const typed = typeof value === 'string' ? Buffer.concat([Buffer.from([7]), size, text]) : value
  return Buffer.concat([Buffer.from([name.length]), Buffer.from(name), typed])
}

/** The same bytes in pieces of these sizes, repeated. */
export function split(bytes: Buffer, sizes: readonly number[]): Buffer[] {
  const pieces: Buffer[] = []
  for (let at = 0, turn = 0; at < bytes.length; turn++) {
    const size = sizes[turn % sizes.length]!
    // Copies: a later write would expose a reader that keeps views of its input.
    pieces.push(Buffer.from(bytes.subarray(at, at + size)))
    at += size
  }
  return pieces
}
