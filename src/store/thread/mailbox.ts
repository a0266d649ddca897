/**
 * A mailbox between two threads: one writes records into shared memory, the other reads them in order. It needs no messages of the
 * runtime, so a busy reader is not woken for records that it will find anyway. A sleeping client waits on `tail`. The
 * sleeping ledger thread waits on `BELL` (mailbox-port.ts).
 *
 * The memory is a ring of frames, each a length followed by that many bytes. Both ends only grow (modulo 2^32): the reader moves `head`,
 * the writer `tail`, and the bytes in between are unread. Records are written and read in place.
 */

/** Shared by both ends; structured clones of it are the same mailbox. */
export interface MailboxMemory {
  /** `head`, then `tail`. */
  readonly ends: Int32Array<SharedArrayBuffer>
  readonly bytes: Uint8Array<SharedArrayBuffer>
}

export interface Mailbox {
  /** Two views of the memory; a place is the same offset in both. */
  readonly bytes: Buffer
  readonly view: DataView
  /** Maximum number of bytes of a record. */
  readonly largest: number
  /**
   * The place for a record of at most `most` bytes; `NONE` if the mailbox is full. Once the reader has released everything, a record of
   * up to `largest` bytes always fits.
   */
  reserve(most: number): number
  /** Completes the record at the last reserved place, with its length in bytes. */
  put(length: number): void
  /** Shows the other end all records that were put. */
  publish(): void
  /** The place of the next record; `NONE` at the end. It stays valid until `release`. */
  next(): number
  /** The length in bytes of the record at a place. */
  lengthAt(place: number): number
  /** Gives the writer back the space of all records that `next` has returned. */
  release(): void
  /** Whether `next` has returned everything. */
  empty(): boolean
}

export const NONE = -1

/** Indexes in `ends`. */
export const HEAD = 0
export const TAIL = 1

/** Marks the unused end of the ring, in place of a frame's length. */
const SKIP = -1
const LENGTH_BYTES = 4

/** @param size of the ring in bytes: a power of 2 */
export function createMailboxMemory(size: number): MailboxMemory {
  if (size < 64 || !Number.isInteger(Math.log2(size)))
    throw new RangeError(`The size of the ring is ${size} bytes; expected a power of 2`)
  return {
    ends: new Int32Array(new SharedArrayBuffer(8)),
    bytes: new Uint8Array(new SharedArrayBuffer(size)),
  }
}

/** The unread fraction, from 0 to 1. Any thread may call it. */
export function fillOf({ ends, bytes }: MailboxMemory): number {
  return ((Atomics.load(ends, TAIL) - Atomics.load(ends, HEAD)) >>> 0) / bytes.length
}

/** One end of a mailbox. A thread either writes (`reserve`, `put`, `publish`) or reads (`next`, `release`), never both. */
export function createMailbox({ ends, bytes }: MailboxMemory): Mailbox {
  const size = bytes.length
  const words = new Int32Array(bytes.buffer)
  // A frame is never split: one that does not fit before the end of the ring begins at the start.
  const largest = size / 2 - LENGTH_BYTES
  // Of the writer: the reserved frame, and the end of the last one that was put.
  let begin = Atomics.load(ends, TAIL)
  let end = begin
  // Of the reader: the end of the last frame that `next` has returned, and the last known end of the writer.
  let read = Atomics.load(ends, HEAD)
  let written = read

  const placeOf = (at: number) => at & (size - 1)

  return {
    bytes: Buffer.from(bytes.buffer),
    view: new DataView(bytes.buffer),
    largest,
    reserve(most) {
      if (most > largest)
        throw new RangeError(`A record of ${most} bytes does not fit the mailbox; at most ${largest} are possible`)
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
      if (read === written) written = Atomics.load(ends, TAIL)
      if (read === written) return NONE
      // A gap at the end of the ring is always followed by a frame at its start.
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
