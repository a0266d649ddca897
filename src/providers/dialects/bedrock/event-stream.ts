/**
 * Parses `application/vnd.amazon.eventstream` from bytes split anywhere.
 *
 * A message is a frame. It has its total length (4 bytes), the length of its headers (4) and the CRC-32 of these eight bytes (4).
 * Headers, payload, and the CRC-32 of everything before (4) follow. Numbers are big-endian. The first checksum is verified as soon
 * as it has arrived, so the parser never waits for a wrong length.
 */
import { crc32 } from 'node:zlib'

export interface EventStreamMessage {
  /** Headers with a text value. The protocol uses no others. */
  readonly headers: ReadonlyMap<string, string>
  /** Usually a view of the input: copy it to keep it. */
  readonly payload: Buffer
}

/** The bytes are not an event stream, or it is damaged. It cannot be parsed further. */
export class EventStreamBroken extends Error {
  override readonly name = 'EventStreamBroken'
  /** The messages that the same piece of input completed before the error. */
  readonly messages: readonly EventStreamMessage[]

  constructor(message: string, messages: readonly EventStreamMessage[]) {
    super(message)
    this.messages = messages
  }
}

const LENGTHS_BYTES = 8
const PRELUDE_BYTES = 12
const SUM_BYTES = 4
const SMALLEST_FRAME_BYTES = PRELUDE_BYTES + SUM_BYTES
const NOTHING = Buffer.alloc(0)

export class EventStreamReader {
  readonly #limitBytes: number
  /** The beginning of an incomplete frame, with room to grow. */
  #rest: Buffer = NOTHING
  #restSize = 0
  /** Length of the frame in `#rest` once its prelude is verified; 0 before. */
  #frameBytes = 0

  /** @param limitBytes maximum length of a frame in bytes; a longer one throws. Default: the protocol's limit. */
  constructor(limitBytes = 16 * 1024 * 1024) {
    this.#limitBytes = limitBytes
  }

  /** Takes the next piece of the body and returns the messages it completes. Throws `EventStreamBroken`. */
  push(bytes: Buffer): EventStreamMessage[] {
    const messages: EventStreamMessage[] = []
    let at = 0
    try {
      while (at < bytes.length) {
        const left = bytes.length - at
        if (this.#restSize === 0 && left >= PRELUDE_BYTES) {
          const size = this.#checkedLength(bytes, at)
          if (left >= size) {
            messages.push(messageIn(bytes.subarray(at, at + size)))
            at += size
            continue
          }
          this.#frameBytes = size
        }
        at += this.#keep(bytes, at)
        this.#complete(messages)
      }
    } catch (error) {
      if (error instanceof FrameError) throw new EventStreamBroken(error.message, messages)
      throw error
    }
    return messages
  }

  /** Adds the kept frame to the messages if it is complete. */
  #complete(messages: EventStreamMessage[]): void {
    if (this.#frameBytes === 0 && this.#restSize === PRELUDE_BYTES)
      this.#frameBytes = this.#checkedLength(this.#rest, 0)
    if (this.#frameBytes === 0 || this.#restSize < this.#frameBytes) return
    const frame = this.#rest.subarray(0, this.#frameBytes)
    this.#rest = NOTHING
    this.#restSize = 0
    this.#frameBytes = 0
    messages.push(messageIn(frame))
  }

  /** Keeps bytes up to the end of the prelude, or of the frame if its length is known. Returns the number of bytes kept. */
  #keep(bytes: Buffer, at: number): number {
    const wanted = (this.#frameBytes || PRELUDE_BYTES) - this.#restSize
    const taken = Math.min(wanted, bytes.length - at)
    const size = this.#restSize + taken
    if (size > this.#rest.length) {
      // Not the length that the frame claims: it has not arrived yet. Not from Node's pool, because it may be kept for long.
      const larger = Buffer.allocUnsafeSlow(Math.max(size, this.#rest.length * 2, 512))
      this.#rest.copy(larger, 0, 0, this.#restSize)
      this.#rest = larger
    }
    bytes.copy(this.#rest, this.#restSize, at, at + taken)
    this.#restSize = size
    return taken
  }

  /** The verified length of the frame at this position. */
  #checkedLength(bytes: Buffer, at: number): number {
    const sum = crc32(bytes.subarray(at, at + LENGTHS_BYTES))
    if (sum !== bytes.readUInt32BE(at + LENGTHS_BYTES))
      throw new FrameError('the checksum of a frame’s lengths is wrong')
    const size = bytes.readUInt32BE(at)
    const headersBytes = bytes.readUInt32BE(at + 4)
    if (size < SMALLEST_FRAME_BYTES || headersBytes > size - SMALLEST_FRAME_BYTES) {
      throw new FrameError(`a frame of ${size} bytes cannot hold headers of ${headersBytes} bytes`)
    }
    if (size > this.#limitBytes) throw new FrameError(`a frame is longer than ${this.#limitBytes} bytes`)
    return size
  }
}

/** A problem of a frame. `push` turns it into an `EventStreamBroken` with the earlier messages. */
class FrameError extends Error {}

function messageIn(frame: Buffer): EventStreamMessage {
  const end = frame.length - SUM_BYTES
  if (crc32(frame.subarray(0, end)) !== frame.readUInt32BE(end))
    throw new FrameError('the checksum of a frame is wrong')
  const payloadAt = PRELUDE_BYTES + frame.readUInt32BE(4)
  return {
    headers: headersIn(frame.subarray(PRELUDE_BYTES, payloadAt)),
    payload: frame.subarray(payloadAt, end),
  }
}

/** Lengths of the values of each type: true, false, byte, short, integer, long, …, timestamp, UUID. Types 6 and 7 contain their length. */
const VALUE_BYTES: readonly number[] = [0, 0, 1, 2, 4, 8, -1, -1, 8, 16]
const BYTES = 6
const TEXT = 7

function headersIn(bytes: Buffer): Map<string, string> {
  const headers = new Map<string, string>()
  let at = 0
  while (at < bytes.length) {
    const nameEnd = at + 1 + bytes[at]!
    const type = bytes[nameEnd]
    let valueAt = nameEnd + 1
    let size = type === undefined ? undefined : VALUE_BYTES[type]
    if (type === BYTES || type === TEXT) {
      size = valueAt + 2 <= bytes.length ? bytes.readUInt16BE(valueAt) : undefined
      valueAt += 2
    }
    if (size === undefined || valueAt + size > bytes.length)
      throw new FrameError('the headers of a frame are malformed')
    if (type === TEXT)
      headers.set(bytes.toString('utf8', at + 1, nameEnd), bytes.toString('utf8', valueAt, valueAt + size))
    at = valueAt + size
  }
  return headers
}
