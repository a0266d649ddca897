/**
 * A mailbox between two threads: one writes texts into shared memory, the other reads them in order. No message of the
 * runtime is needed for either, so that a busy reader is not woken for what it will find anyway; who sleeps is woken
 * through `tail`.
 *
 * The memory is a ring of frames, each a length and as many bytes of UTF-8. Both ends only ever grow (modulo 2^32):
 * `head` is the reader's, `tail` the writer's, and what lies between is unread.
 */

/** Shared by both ends; structured clones of it are the same mailbox. */
export interface MailboxMemory {
  /** `head`, then `tail`. */
  readonly ends: Int32Array<SharedArrayBuffer>
  readonly bytes: Uint8Array<SharedArrayBuffer>
}

export interface Mailbox {
  /** False when there is no room for it now; `largest` bytes always fit into an empty one. */
  write(text: string): boolean
  /** Whether there is room for a mark. */
  writable(): boolean
  /** Puts a mark in a text's place: that text comes another way. False when there is no room. */
  writeElsewhere(): boolean
  /** The oldest unread text, `ELSEWHERE` for a mark, or undefined. */
  read(): string | typeof ELSEWHERE | undefined
  /** Whether everything was read. */
  empty(): boolean
  /** Most bytes of one text. */
  readonly largest: number
}

/** Says: this text was too large for the mailbox. */
export const ELSEWHERE = Symbol('elsewhere')

/** Indexes in `ends`. */
export const HEAD = 0
export const TAIL = 1

/** In the place of a frame's length. */
const SKIP = -1
const MARK = -2
const LENGTH_BYTES = 4

/** @param size Of the ring in bytes: a power of 2. */
export function createMailboxMemory(size: number): MailboxMemory {
  if (size < 64 || !Number.isInteger(Math.log2(size))) throw new RangeError(`A ring of ${size} bytes is no power of 2`)
  return {
    ends: new Int32Array(new SharedArrayBuffer(8)),
    bytes: new Uint8Array(new SharedArrayBuffer(size)),
  }
}

/** One end of it; a thread uses either `write` or `read`, never both. */
export function createMailbox({ ends, bytes }: MailboxMemory): Mailbox {
  const size = bytes.length
  const buffer = Buffer.from(bytes.buffer)
  const words = new Int32Array(bytes.buffer)
  // A frame is never broken in two: what does not fit before the end begins at the start.
  const largest = size / 2 - LENGTH_BYTES

  const used = () => (Atomics.load(ends, TAIL) - Atomics.load(ends, HEAD)) >>> 0
  const placeOf = (end: number) => (end >>> 0) & (size - 1)

  /** Where a frame of so many bytes can begin; undefined when there is no room. */
  function reserve(length: number): { place: number; next: number } | undefined {
    const tail = Atomics.load(ends, TAIL)
    const place = placeOf(tail)
    const needed = LENGTH_BYTES + aligned(length)
    const skipped = needed > size - place ? size - place : 0
    if (used() + skipped + needed > size) return undefined
    if (skipped > 0) words[place / LENGTH_BYTES] = SKIP
    return { place: skipped > 0 ? 0 : place, next: (tail + skipped + needed) | 0 }
  }

  function mark(length: number, word: number, text: string): boolean {
    const room = reserve(length)
    if (room === undefined) return false
    words[room.place / LENGTH_BYTES] = word
    if (length > 0) buffer.write(text, room.place + LENGTH_BYTES, length, 'utf8')
    // Only now can the other end see it.
    Atomics.store(ends, TAIL, room.next)
    return true
  }

  function read(): string | typeof ELSEWHERE | undefined {
    if (used() === 0) return undefined
    const head = Atomics.load(ends, HEAD)
    const place = placeOf(head)
    const length = words[place / LENGTH_BYTES]!
    if (length === SKIP) {
      Atomics.store(ends, HEAD, (head + size - place) | 0)
      return read()
    }
    const start = place + LENGTH_BYTES
    const text = length === MARK ? ELSEWHERE : buffer.toString('utf8', start, start + length)
    Atomics.store(ends, HEAD, (head + LENGTH_BYTES + (length === MARK ? 0 : aligned(length))) | 0)
    return text
  }

  return {
    write(text) {
      const length = Buffer.byteLength(text)
      if (length > largest) throw new RangeError(`A text of ${length} bytes is beyond the mailbox's ${largest}`)
      return mark(length, length, text)
    },
    writable: () => reserve(0) !== undefined,
    writeElsewhere: () => mark(0, MARK, ''),
    read,
    empty: () => used() === 0,
    largest,
  }
}

const aligned = (length: number): number => (length + LENGTH_BYTES - 1) & ~(LENGTH_BYTES - 1)
