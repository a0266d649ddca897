/**
 * Parses `text/event-stream` (WHATWG HTML, 9.2) from bytes split anywhere. It works on bytes, so that an event's data can be passed on
 * without being decoded. Data within one piece of input is a view of it, not a copy.
 */
import { ByteCollector } from '../../common/bytes.ts'

export interface SseEvent {
  /** The `event:` field, or an empty string. */
  readonly event: string
  readonly data: Buffer
}

const LF = 10
const CR = 13
const COLON = 58
const SPACE = 32
const BRACE_OPEN = 123
const FIELD = /^(?:data|event):/
const NOTHING = Buffer.alloc(0)
const NEWLINE = Buffer.from('\n')

/** Does not limit the length of an event; the caller must. */
export class SseReader {
  /** The beginning of an incomplete line. Not from Node's pool: it may be kept for long, and would keep 64 KiB alive. */
  #rest: Buffer = NOTHING
  #restSize = 0
  #event = ''
  /** Null before the first line of data. */
  #data: Buffer | null = null
  /** All lines of data, if there are several. */
  readonly #lines = new ByteCollector()
  /** The last piece ended in CR: an LF at the start of the next one belongs to it. */
  #afterCr = false
  #first = true
  /** JSON without `data:` has begun: some servers write an error into a stream like this. It ends at an empty line. */
  #isBare = false

  /** Takes the next piece of the body and returns the events it completes. */
  push(bytes: Buffer): SseEvent[] {
    const events: SseEvent[] = []
    // The kept bytes have no line end, so only the new bytes are searched.
    let searched = this.#restSize
    const input = searched > 0 ? this.#joined(bytes) : bytes
    // A CR is rare, so it is searched for once and not for every line.
    const hasCr = bytes.includes(CR)
    let at = this.#start(input)
    while (at < input.length) {
      const end = lineEnd(input, Math.max(at, searched), hasCr)
      if (end === -1) break
      this.#line(input, at, end, events)
      at = end + 1
      searched = 0
      this.#first = false
      if (input[end] === CR) {
        if (at === input.length) this.#afterCr = true
        else if (input[at] === LF) at++
      }
    }
    this.#keep(input, at)
    return events
  }

  /** Whether the next byte begins an event. */
  get isBetweenEvents(): boolean {
    return this.#restSize === 0 && this.#data === null && this.#event === '' && !this.#afterCr && !this.#isBare
  }

  /** Ends the body. An event without its closing blank line counts, because some providers end that way. */
  end(): SseEvent[] {
    const events: SseEvent[] = []
    if (this.#restSize > 0) {
      const [rest, size] = [this.#rest, this.#restSize]
      this.#rest = NOTHING
      this.#restSize = 0
      this.#line(rest, 0, size, events)
    }
    this.#dispatch(events)
    return events
  }

  /** Where reading starts: after a byte order mark, and after the LF of a CRLF that was split between pieces. */
  #start(input: Buffer): number {
    if (this.#afterCr && input.length > 0) {
      this.#afterCr = false
      return input[0] === LF ? 1 : 0
    }
    // Shorter than a byte order mark: wait for more bytes.
    if (!this.#first || input.length < 3) return 0
    this.#first = false
    return input[0] === 0xef && input[1] === 0xbb && input[2] === 0xbf ? 3 : 0
  }

  /**
   * Appends the new bytes to the kept line, in a buffer with room to grow. A long line that arrives byte by byte is copied a
   * logarithmic number of times, not once a byte.
   */
  #joined(bytes: Buffer): Buffer {
    const size = this.#restSize + bytes.length
    if (size > this.#rest.length) {
      const larger = Buffer.allocUnsafeSlow(Math.max(size, this.#rest.length * 2, 1024))
      this.#rest.copy(larger, 0, 0, this.#restSize)
      this.#rest = larger
    }
    bytes.copy(this.#rest, this.#restSize)
    return this.#rest.subarray(0, size)
  }

  /** Keeps the incomplete line. Events are views of the old buffer, so a new one is allocated unless nothing was read. */
  #keep(input: Buffer, at: number): void {
    const size = input.length - at
    if (size > 0 && (at > 0 || this.#restSize === 0)) {
      this.#rest = Buffer.allocUnsafeSlow(Math.max(size * 2, 1024))
      input.copy(this.#rest, 0, at)
    } else if (size === 0) {
      this.#rest = NOTHING
    }
    this.#restSize = size
  }

  /** @param at start of the line in the input; `end` is after its last byte */
  #line(input: Buffer, at: number, end: number, events: SseEvent[]): void {
    const size = end - at
    if (size === 0) {
      this.#dispatch(events)
      return
    }
    if (this.#isBare) {
      if (!FIELD.test(input.toString('latin1', at, Math.min(end, at + 6)))) {
        this.#addData(input.subarray(at, end))
        return
      }
      this.#dispatch(events)
    }
    const isData =
      size > 3 && input[at] === 0x64 && input[at + 1] === 0x61 && input[at + 2] === 0x74 && input[at + 3] === 0x61
    if (isData && (size === 4 || input[at + 4] === COLON)) {
      const skipped = size > 5 && input[at + 5] === SPACE ? 6 : 5
      this.#addData(input.subarray(Math.min(at + skipped, end), end))
      return
    }
    if (size > 5 && input[at] === 0x65 && input.toString('latin1', at, at + 6) === 'event:') {
      this.#event = input.toString('utf8', size > 6 && input[at + 6] === SPACE ? at + 7 : at + 6, end)
    }
    // Comments, `id`, `retry` and unknown fields are ignored, but no field begins with a brace.
    const line =
      this.#data === null && (input[at] === BRACE_OPEN || input[at]! <= SPACE)
        ? input.toString('latin1', at, end).trim()
        : ''
    if (line.startsWith('{')) {
      this.#addData(input.subarray(at, end))
      if (line.endsWith('}')) this.#dispatch(events)
      else this.#isBare = true
    }
  }

  /** A single line is a view of the input. Several lines are joined one by one, because each may be empty. */
  #addData(line: Buffer): void {
    if (this.#data === null) {
      this.#data = line
      return
    }
    if (this.#lines.size === 0) this.#lines.add(this.#data)
    this.#lines.add(NEWLINE)
    this.#lines.add(line)
  }

  #dispatch(events: SseEvent[]): void {
    if (this.#data !== null) {
      const data = this.#lines.size > 0 ? this.#lines.take() : this.#data
      if (data.length > 0) events.push({ event: this.#event, data })
      this.#data = null
    }
    this.#event = ''
    this.#isBare = false
  }
}

/** The next LF or CR from `from` on, or -1. */
function lineEnd(input: Buffer, from: number, hasCr: boolean): number {
  const lf = input.indexOf(LF, from)
  if (!hasCr) return lf
  const cr = input.indexOf(CR, from)
  return cr !== -1 && (lf === -1 || cr < lf) ? cr : lf
}
