/** Frames of AWS's event streams, written by the protocol's description and not by the reader's code. */
import { crc32 } from 'node:zlib'

/** A header's name and its value with the bytes of its type in front; a text is given as it is. */
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

/** The same bytes in pieces of these sizes, over and over. */
export function split(bytes: Buffer, sizes: readonly number[]): Buffer[] {
  const pieces: Buffer[] = []
  for (let at = 0, turn = 0; at < bytes.length; turn++) {
    const size = sizes[turn % sizes.length]!
    // Copies: a reader that keeps views of what it was given is found out by what comes after.
    pieces.push(Buffer.from(bytes.subarray(at, at + size)))
    at += size
  }
  return pieces
}
