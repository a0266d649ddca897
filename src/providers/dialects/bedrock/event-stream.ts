/**
 * The reader of `application/vnd.amazon.eventstream`: bytes in, messages out, the same ones however the bytes were split.
 *
 * A message is a frame of big-endian numbers: its whole length (4 bytes), the length of its headers (4), the CRC-32 of
 * these eight bytes (4), headers, payload, and the CRC-32 of all before (4). The first sum is checked as soon as it is
 * there, so a broken length is never waited for.
 */
import { crc32 } from 'node:zlib'

export interface EventStreamMessage {
  /** Those whose value is a text; all that this protocol's meaning lies in are. */
  readonly headers: ReadonlyMap<string, string>
  /** Mostly a view of the piece of input that it came in: not to be kept. */
  readonly payload: Buffer
}

/** What came is no event stream, or a damaged one: it cannot be followed any further. */
export class EventStreamBroken extends Error {
  override readonly name = 'EventStreamBroken'
  /** What the same piece of input had completed before it. */
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
  /** The beginning of a frame whose end has not arrived, with room to grow. */
  #rest: Buffer = NOTHING
  #restSize = 0
  /** Length of the frame in `#rest`, once its prelude has been checked; 0 before. */
  #frameBytes = 0

  /** @param limitBytes the longest frame, in bytes; a longer one throws. By default what the protocol itself allows. */
  constructor(limitBytes = 16 * 1024 * 1024) {
    this.#limitBytes = limitBytes
  }

  /** Takes the next piece of the body and returns the messages that it completes. Throws `EventStreamBroken`. */
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
      if (error instanceof Mistake) throw new EventStreamBroken(error.message, messages)
      throw error
    }
    return messages
  }

  /** The kept frame, if it is whole now. */
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

  /** Keeps what belongs to the prelude, or to the frame when its length is known; returns how much that was. */
  #keep(bytes: Buffer, at: number): number {
    const wanted = (this.#frameBytes || PRELUDE_BYTES) - this.#restSize
    const taken = Math.min(wanted, bytes.length - at)
    const size = this.#restSize + taken
    if (size > this.#rest.length) {
      // Never as much as the frame claims to be: that much has not come yet. Not of Node's pool, as it may stay for long.
      const larger = Buffer.allocUnsafeSlow(Math.max(size, this.#rest.length * 2, 512))
      this.#rest.copy(larger, 0, 0, this.#restSize)
      this.#rest = larger
    }
    bytes.copy(this.#rest, this.#restSize, at, at + taken)
    this.#restSize = size
    return taken
  }

  /** The length of the frame that begins here. */
  #checkedLength(bytes: Buffer, at: number): number {
    const sum = crc32(bytes.subarray(at, at + LENGTHS_BYTES))
    if (sum !== bytes.readUInt32BE(at + LENGTHS_BYTES)) throw new Mistake('the check sum of a frame’s lengths is wrong')
    const size = bytes.readUInt32BE(at)
    const headersBytes = bytes.readUInt32BE(at + 4)
    if (size < SMALLEST_FRAME_BYTES || headersBytes > size - SMALLEST_FRAME_BYTES) {
      throw new Mistake(`a frame of ${size} bytes cannot hold headers of ${headersBytes} bytes`)
    }
    if (size > this.#limitBytes) throw new Mistake(`a frame is longer than ${this.#limitBytes} bytes`)
    return size
  }
}

/** Becomes an `EventStreamBroken` where it is known what came before. */
class Mistake extends Error {}

function messageIn(frame: Buffer): EventStreamMessage {
  const end = frame.length - SUM_BYTES
  if (crc32(frame.subarray(0, end)) !== frame.readUInt32BE(end)) throw new Mistake('the check sum of a frame is wrong')
  const payloadAt = PRELUDE_BYTES + frame.readUInt32BE(4)
  return {
    headers: headersIn(frame.subarray(PRELUDE_BYTES, payloadAt)),
    payload: frame.subarray(payloadAt, end),
  }
}

/** Bytes of the values of each type but 6 and 7, which say their length: true, false, byte, short, integer, long, …, timestamp, UUID. */
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
    if (size === undefined || valueAt + size > bytes.length) throw new Mistake('the headers of a frame are malformed')
    if (type === TEXT)
      headers.set(bytes.toString('utf8', at + 1, nameEnd), bytes.toString('utf8', valueAt, valueAt + size))
    at = valueAt + size
  }
  return headers
}
