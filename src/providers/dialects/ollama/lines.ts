/** Splits a stream of JSON lines (NDJSON) from bytes split anywhere. A line within one piece of input is a view of it, not a copy. */

const LF = 10
const SPACE = 32
const MIN_BYTES = 1024

/** Does not limit the length of a line; the caller must. */
export class LineReader {
  /** The beginning of an incomplete line, in a buffer that grows by doubling. */
  #rest: Buffer = Buffer.alloc(0)
  #restSize = 0

  /** Takes the next piece of the body and returns the lines it completes, without empty ones. */
  push(bytes: Buffer): Buffer[] {
    const lines: Buffer[] = []
    let at = 0
    for (let end = bytes.indexOf(LF); end !== -1; end = bytes.indexOf(LF, at)) {
      this.#line(bytes.subarray(at, end), lines)
      at = end + 1
    }
    this.#keep(bytes.subarray(at))
    return lines
  }

  /** Ends the body. The last line may have no line feed. */
  end(): Buffer[] {
    const lines: Buffer[] = []
    this.#line(Buffer.alloc(0), lines)
    return lines
  }

  #line(last: Buffer, lines: Buffer[]): void {
    if (this.#restSize === 0) {
      if (!isBlank(last)) lines.push(last)
      return
    }
    this.#keep(last)
    const line = this.#rest.subarray(0, this.#restSize)
    // The line is a view of the buffer.
    this.#rest = Buffer.alloc(0)
    this.#restSize = 0
    if (!isBlank(line)) lines.push(line)
  }

  #keep(bytes: Buffer): void {
    const size = this.#restSize + bytes.length
    if (size > this.#rest.length) {
      const larger = Buffer.allocUnsafeSlow(Math.max(size, this.#rest.length * 2, MIN_BYTES))
      this.#rest.copy(larger, 0, 0, this.#restSize)
      this.#rest = larger
    }
    bytes.copy(this.#rest, this.#restSize)
    this.#restSize = size
  }
}

function isBlank(line: Buffer): boolean {
  return line.every(byte => byte <= SPACE)
}
