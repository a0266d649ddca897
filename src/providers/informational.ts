/**
 * Drops unsolicited informational (1xx) responses. RFC 9110, 15.2 requires clients to ignore them, but undici destroys the connection
 * at a `100 Continue`. So they are dropped before undici reads them.
 */
import type { Socket } from 'node:net'
import { ByteCollector } from '../common/bytes.ts'
import { MAX_INFORMATIONAL, SWITCHES } from './head.ts'

const START = Buffer.from('HTTP/1.1 1')
/** A longer head is passed to undici, which refuses it. */
const MAX_HEAD_BYTES = 16 * 1024
const HEAD_END = '\r\n\r\n'
const NOTHING: Buffer = Buffer.alloc(0)

/**
 * Filters the data read from a connection to a provider. The first bytes after a write are the beginning of a head. Destroys the
 * connection with the code `UND_ERR_RESPONSE` after more than 100 informational heads, and at a `101 Switching Protocols`. Everything
 * that may be something else passes unchanged.
 */
export function withoutInformational<Connection extends Socket>(socket: Connection): Connection {
  const readAny = socket.read.bind(socket)
  const writeAny = socket.write.bind(socket) as (...args: unknown[]) => boolean
  const filter = new Filter(socket, readAny)
  // Node reads 0 bytes to start reading; undici reads everything available.
  const read = (size?: number): Buffer | null => (size === undefined ? filter.read() : readAny(size))
  const write = (bytes: unknown, encoding?: unknown, done?: unknown): boolean => {
    filter.expectHead()
    return writeAny(bytes, encoding, done)
  }
  socket.read = read
  socket.write = write
  return socket
}

class Filter {
  readonly #socket: Socket
  readonly #read: () => Buffer | null
  #expectsHead = true
  #count = 0
  /** The incomplete head. */
  readonly #kept = new ByteCollector()
  /** Its last bytes: the end of the head may start in them. */
  #last: Buffer = NOTHING

  constructor(socket: Socket, read: () => Buffer | null) {
    this.#socket = socket
    this.#read = read
  }

  read(): Buffer | null {
    for (let bytes = this.#read(); bytes !== null; bytes = this.#read()) {
      const rest = this.#expectsHead ? this.#afterHeads(bytes) : bytes
      if (rest !== null) return rest
    }
    return null
  }

  /** Called before a request is written. Each request is written at once, before its answer comes. */
  expectHead(): void {
    this.#count = 0
    this.#expectsHead = true
  }

  /** The bytes after the informational heads; null if they have not arrived. */
  #afterHeads(bytes: Buffer): Buffer | null {
    if (this.#kept.size >= START.length && !this.#mayEnd(bytes)) return null
    this.#kept.add(bytes)
    let rest = this.#kept.take()
    while (rest.length > 0) {
      if (!startsInformational(rest)) return this.#pass(rest)
      const end = rest.indexOf(HEAD_END)
      if (end === -1 && rest.length <= MAX_HEAD_BYTES) {
        this.#keep(rest)
        return null
      }
      const head = rest.toString('latin1', 0, Math.max(end, 0))
      // Both parsers must agree on the end of a head: undici might end it at a bare line feed.
      if (!/^HTTP\/1\.1 1\d\d(?:[ \r]|$)/.test(head) || /(?<!\r)\n/.test(head)) return this.#pass(rest)
      const why = this.#whyRefused(head)
      if (why !== null) {
        this.#socket.destroy(Object.assign(new Error(why), { code: 'UND_ERR_RESPONSE' }))
        return null
      }
      rest = rest.subarray(end + HEAD_END.length)
    }
    return null
  }

  /** Keeps bytes that do not end the head. It may arrive byte by byte, so only the new bytes are searched. */
  #mayEnd(bytes: Buffer): boolean {
    const seam = Buffer.concat([this.#last, bytes])
    if (seam.includes(HEAD_END) || this.#kept.size + bytes.length > MAX_HEAD_BYTES) return true
    this.#kept.add(bytes)
    this.#last = seam.subarray(1 - HEAD_END.length)
    return false
  }

  #keep(rest: Buffer): void {
    this.#kept.add(rest)
    this.#last = rest.subarray(1 - HEAD_END.length)
  }

  #pass(rest: Buffer): Buffer {
    this.#expectsHead = false
    return rest
  }

  #whyRefused(head: string): string | null {
    if (head.startsWith('101', START.length - 1)) return SWITCHES
    return ++this.#count > MAX_INFORMATIONAL ? 'too many informational responses' : null
  }
}

/** Whether the bytes are the beginning of such a head, or a prefix of one. */
function startsInformational(bytes: Buffer): boolean {
  const length = Math.min(bytes.length, START.length)
  return bytes.compare(START, 0, length, 0, length) === 0
}
