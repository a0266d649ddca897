/**
 * Splits a stream of JSON into its objects: Google's own form of a stream is one array, sent in pieces. Only the bytes between the
 * objects are checked here; `JSON.parse` checks the objects.
 */
import { BACKSLASH, BRACE_CLOSE, BRACE_OPEN, BRACKET_CLOSE, BRACKET_OPEN, COMMA, QUOTE } from '../json-bytes.ts'

const MAX_SPACE = 0x20

/** Something else was found where an object should begin. */
export class JsonValuesError extends Error {
  override readonly name = 'JsonValuesError'
  /** The objects that the same piece of input completed before the error. */
  readonly values: readonly Buffer[]

  constructor(message: string, values: readonly Buffer[]) {
    super(message)
    this.values = values
  }
}

/** Does not limit the length of an object; the caller must. */
export class JsonValues {
  /** The beginning of an incomplete object, in a buffer that grows by doubling. */
  #rest: Buffer = Buffer.alloc(0)
  #restSize = 0
  /** Open brackets in the object; 0 between objects. */
  #depth = 0
  #inText = false
  #escaped = false
  #list: 'none' | 'open' | 'closed' = 'none'

  /** Whether neither an object nor the array around them is incomplete. */
  get isWhole(): boolean {
    return this.#depth === 0 && this.#list !== 'open'
  }

  /** Takes the next piece of the body and returns the objects it completes. */
  push(bytes: Buffer): Buffer[] {
    const values: Buffer[] = []
    let start = 0
    for (let at = 0; at < bytes.length; at++) {
      const byte = bytes[at]!
      if (this.#depth === 0) {
        if (byte === BRACE_OPEN && this.#list !== 'closed') {
          this.#depth = 1
          start = at
        } else this.#between(byte, values)
      } else if (this.#inside(byte)) {
        this.#keep(bytes, start, at + 1)
        values.push(this.#rest.subarray(0, this.#restSize))
        this.#rest = Buffer.alloc(0)
        this.#restSize = 0
      }
    }
    if (this.#depth > 0) this.#keep(bytes, this.#restSize > 0 ? 0 : start, bytes.length)
    return values
  }

  #between(byte: number, values: readonly Buffer[]): void {
    if (byte <= MAX_SPACE || (byte === COMMA && this.#list !== 'closed')) return
    if (byte === BRACKET_OPEN && this.#list === 'none') this.#list = 'open'
    else if (byte === BRACKET_CLOSE && this.#list === 'open') this.#list = 'closed'
    else throw new JsonValuesError('something in the stream is neither an object nor the list around them', values)
  }

  /** @returns whether the object ends with this byte */
  #inside(byte: number): boolean {
    if (this.#inText) {
      if (this.#escaped) this.#escaped = false
      else if (byte === BACKSLASH) this.#escaped = true
      else if (byte === QUOTE) this.#inText = false
      return false
    }
    if (byte === QUOTE) this.#inText = true
    else if (byte === BRACE_OPEN || byte === BRACKET_OPEN) this.#depth++
    else if (byte === BRACE_CLOSE || byte === BRACKET_CLOSE) this.#depth--
    return this.#depth === 0
  }

  #keep(bytes: Buffer, start: number, end: number): void {
    const from = this.#restSize > 0 ? 0 : start
    const size = this.#restSize + end - from
    if (size > this.#rest.length) {
      const larger = Buffer.allocUnsafeSlow(Math.max(size, this.#rest.length * 2))
      this.#rest.copy(larger, 0, 0, this.#restSize)
      this.#rest = larger
    }
    bytes.copy(this.#rest, this.#restSize, from, end)
    this.#restSize = size
  }
}
