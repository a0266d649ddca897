/** Collects bytes that arrive in pieces of any size, in memory that is proportional to the bytes. */
import type { UpstreamFailure } from '#contract'

/** How much of a provider's answer may be kept. */
export interface AnswerRoom {
  /** Of all of it, or of one event of a stream. */
  readonly largestBytes: number
  /** Counts what is kept in the memory of all answers. @returns false when there is no room for it */
  holds(bytes: number): boolean
}

/** Less than this of an unfinished event is not counted: every stream has it. */
export const UNCOUNTED_BYTES = 256 * 1024

/** Why so many bytes of an answer cannot be kept; null: they can. */
export function tooMuch(bytes: number, room: AnswerRoom): UpstreamFailure | null {
  const { largestBytes } = room
  if (bytes > largestBytes) {
    const detail = `the answer, or an event of it, is larger than ${largestBytes} bytes (limits.answer)`
    return { code: 'upstream_too_large', detail }
  }
  return room.holds(bytes) ? null : NO_ROOM
}

/** The gateway's own limit, and it passes: the answer itself may be of any size. */
const NO_ROOM: UpstreamFailure = {
  code: 'overloaded',
  retryAfterMs: 1000,
  detail: 'there is no room for the answer (limits.bodies_in_flight)',
}

/** A shorter piece is copied: the object around a piece takes hundreds of bytes. */
const MIN_KEPT_BYTES = 4096
const SMALLEST_BLOCK_BYTES = 1024
const LARGEST_BLOCK_BYTES = 1024 * 1024
const NOTHING: Buffer = Buffer.alloc(0)
/** Until there is one. The first one gets a list of its own length: most collectors never have a second. */
const NO_PARTS: Buffer[] = []

/**
 * A sequence of bytes that grows. Large pieces are kept as they are; small ones are copied into blocks, each as large as
 * all before it, up to 1 MiB. So adding is linear in the bytes. The caller must not write to a piece that it has added.
 */
export class ByteCollector {
  readonly #ownsPieces: boolean
  readonly #expectedBytes: number
  #size = 0
  #held = 0
  /** All but the last one are full. */
  #parts: Buffer[] = NO_PARTS
  /** Free bytes at the end of the last part. */
  #room = 0

  /**
   * @param ownsPieces nobody else looks at a piece that was added: `take()` and `clear()` free its memory at once. Left to
   * the garbage collector, the pieces of a few long bodies bring about a full collection.
   * @param expectedBytes how many will come, as far as that is known. When half of them are there, they move to a block that has
   * room for all: joined at the end, a long body would hold the event loop twice as long.
   */
  constructor(ownsPieces: boolean = false, expectedBytes: number = 0) {
    this.#ownsPieces = ownsPieces
    this.#expectedBytes = expectedBytes
  }

  /** The bytes collected so far. */
  get size(): number {
    return this.#size
  }

  /** The memory that is kept for them, in bytes: at most twice `size` and 1 MiB. */
  get held(): number {
    return this.#held
  }

  add(piece: Buffer): void {
    if (piece.length === 0) return
    this.#size += piece.length
    const rest = this.#room > 0 ? this.#fill(piece) : piece
    if (rest.length === 0) {
      if (this.#ownsPieces) free(piece)
      return
    }
    // A view of something much larger would keep all of it.
    const expected = this.#expectedBytes
    if (this.#size <= expected && this.#size * 2 >= expected && this.#parts.length > 1) {
      this.#move(rest, expected)
      return
    }
    const isCompact = rest.length * 2 >= rest.buffer.byteLength
    if (isCompact && (this.#parts.length === 0 || rest.length >= MIN_KEPT_BYTES)) {
      this.#keep(rest)
      this.#held += rest.buffer.byteLength
    } else this.#open(rest)
  }

  /** All bytes, and begins anew. The bytes of a single piece are that piece, not a copy. */
  take(): Buffer {
    const parts = this.#parts
    const size = this.#size
    this.#forget()
    const first = parts[0] ?? NOTHING
    if (first.length === size) return first
    if (parts.length === 1) return first.subarray(0, size)
    const all = Buffer.concat(parts, size)
    this.#free(parts)
    return all
  }

  /** Forgets the bytes. */
  clear(): void {
    this.#free(this.#parts)
    this.#forget()
  }

  #free(parts: readonly Buffer[]): void {
    if (this.#ownsPieces) for (const part of parts) free(part)
  }

  #forget(): void {
    this.#parts = NO_PARTS
    this.#size = this.#held = this.#room = 0
  }

  /** Copies what fits into the last part. Returns the rest. */
  #fill(piece: Buffer): Buffer {
    const last = this.#parts.at(-1)!
    const copied = piece.copy(last, last.length - this.#room)
    this.#room -= copied
    return piece.subarray(copied)
  }

  /** Moves all bytes to one block. */
  #move(rest: Buffer, blockBytes: number): void {
    const block = Buffer.allocUnsafeSlow(blockBytes)
    let at = 0
    for (const part of this.#parts) at += part.copy(block, at)
    at += rest.copy(block, at)
    this.#free([...this.#parts, rest])
    this.#parts = [block]
    this.#held = blockBytes
    this.#room = blockBytes - at
  }

  #keep(part: Buffer): void {
    if (this.#parts.length === 0) this.#parts = [part]
    else this.#parts.push(part)
  }

  #open(piece: Buffer): void {
    const wanted = Math.min(Math.max(this.#size, SMALLEST_BLOCK_BYTES), LARGEST_BLOCK_BYTES)
    // Not of Node's pool: a block may stay for long, and would keep the pool.
    const block = Buffer.allocUnsafeSlow(Math.max(wanted, piece.length))
    piece.copy(block)
    this.#keep(block)
    this.#held += block.length
    this.#room = block.length - piece.length
  }
}

/** Gives the memory back now. The buffer is empty from then on. */
function free(buffer: Buffer): void {
  if (buffer.buffer.byteLength === buffer.length && buffer.buffer instanceof ArrayBuffer) buffer.buffer.transfer(0)
}
