/** Collects bytes that arrive in pieces of any size. The memory is proportional to the bytes. */
import type { UpstreamFailure } from '#contract'

/** Limits the memory for a provider's answer. */
export interface AnswerRoom {
  /** The limit of a whole answer, or of one event of a stream. */
  readonly largestBytes: number
  /** Counts bytes in the memory of all answers. @returns false without room for them */
  holds(bytes: number): boolean
}

/** The first bytes of an unfinished event are not counted: every stream has some. */
export const UNCOUNTED_BYTES = 256 * 1024

/** The reason why an answer of this size cannot be kept; null: it can. */
export function roomFailure(bytes: number, room: AnswerRoom): UpstreamFailure | null {
  const { largestBytes } = room
  if (bytes > largestBytes) {
    const detail = `the answer, or an event of it, is larger than ${largestBytes} bytes (limits.answer)`
    return { code: 'upstream_too_large', detail }
  }
  return room.holds(bytes) ? null : NO_ROOM
}

/** A temporary limit of the gateway; the size of the answer itself is allowed. */
const NO_ROOM: UpstreamFailure = {
  code: 'overloaded',
  retryAfterMs: 1000,
  detail: 'the memory for answers is full (limits.bodies_in_flight)',
}

/** A shorter piece is copied, because the object around a piece takes hundreds of bytes. */
const MIN_KEPT_BYTES = 4096
const SMALLEST_BLOCK_BYTES = 1024
const LARGEST_BLOCK_BYTES = 1024 * 1024
const NOTHING: Buffer = Buffer.alloc(0)
/** Shared by empty collectors. The first part gets an array of length 1, because most collectors never have a second one. */
const NO_PARTS: Buffer[] = []

/**
 * A growing sequence of bytes. Large pieces are kept as they are. Small ones are copied into blocks, each as large as all bytes before it,
 * up to 1 MiB, so adding is linear in the bytes. The caller must not write to a piece after adding it.
 */
export class ByteCollector {
  readonly #ownsPieces: boolean
  readonly #expectedBytes: number
  #size = 0
  #held = 0
  /** All but the last one are full. */
  #parts: Buffer[] = NO_PARTS
  #room = 0

  /**
   * @param ownsPieces whether no one else reads added pieces, so that `take()` and `clear()` free their memory at once. Otherwise the
   * pieces of a few long bodies cause a full garbage collection.
   * @param expectedBytes the number of bytes, as far as it is known. When half of them have arrived, they move to a block with room for
   *   all. Joined at the end, a long body would block the event loop twice as long.
   */
  constructor(ownsPieces: boolean = false, expectedBytes: number = 0) {
    this.#ownsPieces = ownsPieces
    this.#expectedBytes = expectedBytes
  }

  get size(): number {
    return this.#size
  }

  /** The allocated memory in bytes: at most twice `size` and 1 MiB. */
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
    const expected = this.#expectedBytes
    if (this.#size <= expected && this.#size * 2 >= expected && this.#parts.length > 1) {
      this.#move(rest, expected)
      return
    }
    // A view of a much larger buffer would keep all of the buffer.
    const isCompact = rest.length * 2 >= rest.buffer.byteLength
    if (isCompact && (this.#parts.length === 0 || rest.length >= MIN_KEPT_BYTES)) {
      this.#keep(rest)
      this.#held += rest.buffer.byteLength
    } else this.#open(rest)
  }

  /** Returns all bytes and resets the collector. The bytes of a single piece are that piece, not a copy. */
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

  /** Drops all bytes. */
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

  /** Fills the last part and returns the rest. */
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
    // Not from Node's pool: a long-lived block would keep the pool.
    const block = Buffer.allocUnsafeSlow(Math.max(wanted, piece.length))
    piece.copy(block)
    this.#keep(block)
    this.#held += block.length
    this.#room = block.length - piece.length
  }
}

/** Frees the memory now; the buffer is empty afterwards. */
function free(buffer: Buffer): void {
  if (buffer.buffer.byteLength === buffer.length && buffer.buffer instanceof ArrayBuffer) buffer.buffer.transfer(0)
}
