/**
 * A mailbox between two threads: one writes records into shared memory, the other reads them in order. Neither needs a
 * message of the runtime for it, so that a busy reader is not woken for what it will find anyway; who sleeps is woken
 * through `tail`.
 *
 * The memory is a ring of frames, each a length and as many bytes. Both ends only ever grow (modulo 2^32): `head` is the
 * reader's, `tail` the writer's, and what lies between is unread. Records are written and read in place.
 */

/** Shared by both ends; structured clones of it are the same mailbox. */
export interface MailboxMemory {
  /** `head`, then `tail`. */
  readonly ends: Int32Array<SharedArrayBuffer>
  readonly bytes: Uint8Array<SharedArrayBuffer>
}

export interface Mailbox {
  /** The memory, in both of which a place is the same number. */
  readonly bytes: Buffer
  readonly view: DataView
  /** Most bytes of one record. */
  readonly largest: number
  /** Where a record of at most so many bytes may be written; `NONE` when there is no room now. `largest` fit when all is read. */
  reserve(most: number): number
  /** What was written at the last reserved place is a record of so many bytes. */
  put(length: number): void
  /** Shows the other end all records that were put. */
  publish(): void
  /** Where the next record begins; `NONE` when there is none. It stays there until `release`. */
  next(): number
  /** Of the record at a place, in bytes. */
  lengthAt(place: number): number
  /** Gives the room of all records that `next` has returned back to the writer. */
  release(): void
  /** Whether `next` has returned everything. */
  empty(): boolean
}

/** In the place of a place. */
export const NONE = -1

/** Indexes in `ends`. */
export const HEAD = 0
export const TAIL = 1

/** In the place of a frame's length. */
const SKIP = -1
const LENGTH_BYTES = 4

/** @param size Of the ring in bytes: a power of 2. */
export function createMailboxMemory(size: number): MailboxMemory {
  if (size < 64 || !Number.isInteger(Math.log2(size))) throw new RangeError(`A ring of ${size} bytes is no power of 2`)
  return {
    ends: new Int32Array(new SharedArrayBuffer(8)),
    bytes: new Uint8Array(new SharedArrayBuffer(size)),
  }
}

/** How much of it is unread, from 0 to 1. Neither end need be this thread's. */
export function fillOf({ ends, bytes }: MailboxMemory): number {
  return ((Atomics.load(ends, TAIL) - Atomics.load(ends, HEAD)) >>> 0) / bytes.length
}

/** One end of it: a thread either writes (`reserve`, `put`, `publish`) or reads (`next`, `release`), never both. */
export function createMailbox({ ends, bytes }: MailboxMemory): Mailbox {
  const size = bytes.length
  const words = new Int32Array(bytes.buffer)
  // A frame is never broken in two: what does not fit before the end begins at the start.
  const largest = size / 2 - LENGTH_BYTES
  // The writer's: where the reserved frame begins, and where the one behind the last that was put will.
  let begin = Atomics.load(ends, TAIL)
  let end = begin
  // The reader's: behind the last frame that `next` has returned, and how far it has seen the writer come.
  let read = Atomics.load(ends, HEAD)
  let seen = read

  const placeOf = (at: number) => at & (size - 1)

  return {
    bytes: Buffer.from(bytes.buffer),
    view: new DataView(bytes.buffer),
    largest,
    reserve(most) {
      if (most > largest) throw new RangeError(`A record of ${most} bytes is beyond the mailbox's ${largest}`)
      const place = placeOf(end)
      const needed = frameBytes(most)
      const skipped = needed > size - place ? size - place : 0
      const used = (end - Atomics.load(ends, HEAD)) >>> 0
      if (used + skipped + needed > size) return NONE
      if (skipped > 0) words[place / LENGTH_BYTES] = SKIP
      begin = (end + skipped) | 0
      return placeOf(begin) + LENGTH_BYTES
    },
    put(length) {
      words[placeOf(begin) / LENGTH_BYTES] = length
      end = (begin + frameBytes(length)) | 0
    },
    // Only now can the other end see them.
    publish: () => void Atomics.store(ends, TAIL, end),
    next() {
      if (read === seen) seen = Atomics.load(ends, TAIL)
      if (read === seen) return NONE
      // Behind a gap at the end of the ring there is always a frame at its start.
      if (words[placeOf(read) / LENGTH_BYTES] === SKIP) read = (read + size - placeOf(read)) | 0
      const place = placeOf(read)
      read = (read + frameBytes(words[place / LENGTH_BYTES]!)) | 0
      return place + LENGTH_BYTES
    },
    lengthAt: place => words[place / LENGTH_BYTES - 1]!,
    release: () => void Atomics.store(ends, HEAD, read),
    empty: () => Atomics.load(ends, TAIL) === read,
  }
}

const frameBytes = (length: number): number => LENGTH_BYTES + ((length + LENGTH_BYTES - 1) & ~(LENGTH_BYTES - 1))
