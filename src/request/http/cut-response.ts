/** The response of every listener: it keeps its head as a list, and a destroyed response never looks complete. */
import {
  type IncomingMessage,
  type OutgoingHttpHeader,
  type OutgoingHttpHeaders,
  ServerResponse,
  validateHeaderName,
  validateHeaderValue,
} from 'node:http'
import { LEFTOVER } from './leftover.ts'

type HeaderValue = number | string | readonly string[]

/** Valid header names, with their lower case. Limited, because providers and steps may send any number of names. */
const GOOD_NAMES = new Map<string, string>()
const MAX_GOOD_NAMES = 512

/** Returns the name in lower case. Throws Node's error for an invalid name. */
function goodName(name: string): string {
  const known = GOOD_NAMES.get(name)
  if (known !== undefined) return known
  validateHeaderName(name)
  const lower = name.toLowerCase()
  if (GOOD_NAMES.size < MAX_GOOD_NAMES) GOOD_NAMES.set(name, lower)
  return lower
}

/** Missing in Node's types. */
const { getRawHeaderNames } = ServerResponse.prototype as unknown as { getRawHeaderNames(): string[] }

const isStatus = (status: number): boolean => status >= 100 && status <= 999

/** Node has its own rules for this header's value. */
const READ_BY_NODE = 'content-disposition'

/**
 * Node keeps a head as an object in dictionary mode with an array for each header. Here it is two lists, which Node writes as
 * they are. In rare cases (several values of one name, a list for `writeHead`) Node gets all headers and handles them.
 *
 * `destroy()` closes the connection with a FIN, which marks a complete answer if it has neither chunks nor a length (RFC 9112, 6.3).
 * So a response without chunks resets its connection.
 */
export class CutResponse<Request extends IncomingMessage = IncomingMessage> extends ServerResponse<Request> {
  /** The names in lower case; null: Node keeps the headers. */
  #names: string[] | null = []
  /** Each name as it was given, followed by its value. */
  #head: (string | number)[] = []

  // biome-ignore lint/correctness/noUnreachableSuper: the returned object exists already
  constructor(request: Request, options?: object) {
    // biome-ignore lint/correctness/noConstructorReturn: as for the request
    if (request === LEFTOVER) return UNSENT as CutResponse<Request>
    // Node passes options; its types omit them.
    super(...([request, options] as unknown as [Request]))
  }

  override setHeader(name: string, value: HeaderValue): this {
    // A sent head cannot change: Node throws.
    if (this.#names === null || this.headersSent) return super.setHeader(name, value)
    const lower = goodName(name)
    validateHeaderValue(name, value as string)
    if (typeof value === 'object' || lower === READ_BY_NODE) {
      this.#giveToNode()
      return super.setHeader(name, value)
    }
    const at = this.#names.indexOf(lower)
    if (at === -1) {
      this.#names.push(lower)
      this.#head.push(name, value)
    } else {
      this.#head[at * 2] = name
      this.#head[at * 2 + 1] = value
    }
    return this
  }

  override setHeaders(headers: Headers | Map<string, HeaderValue>): this {
    this.#giveToNode()
    return super.setHeaders(headers)
  }

  override appendHeader(name: string, value: string | readonly string[]): this {
    this.#giveToNode()
    return super.appendHeader(name, value)
  }

  override getHeader(name: string): number | string | string[] | undefined {
    if (this.#names === null || typeof name !== 'string') return super.getHeader(name)
    const at = this.#names.indexOf(name.toLowerCase())
    return at === -1 ? undefined : this.#head[at * 2 + 1]
  }

  override hasHeader(name: string): boolean {
    if (this.#names === null || typeof name !== 'string') return super.hasHeader(name)
    return this.#names.includes(name.toLowerCase())
  }

  override removeHeader(name: string): void {
    // Without its last header it would look like a response that never had one.
    if (this.#names?.length === 1) this.#giveToNode()
    // Node records the removal of some default headers.
    super.removeHeader(name)
    const at = this.#names?.indexOf(name.toLowerCase()) ?? -1
    if (at === -1) return
    this.#names!.splice(at, 1)
    this.#head.splice(at * 2, 2)
  }

  override getHeaderNames(): string[] {
    return this.#names === null ? super.getHeaderNames() : [...this.#names]
  }

  getRawHeaderNames(): string[] {
    return this.#names?.map((_, at) => this.#head[at * 2] as string) ?? getRawHeaderNames.call(this)
  }

  override getHeaders(): OutgoingHttpHeaders {
    if (this.#names === null) return super.getHeaders()
    const headers = Object.create(null) as OutgoingHttpHeaders
    for (const [at, name] of this.#names.entries()) headers[name] = this.#head[at * 2 + 1]
    return headers
  }

  override writeHead(
    status: number,
    reason?: string | OutgoingHttpHeaders | OutgoingHttpHeader[],
    given?: OutgoingHttpHeaders | OutgoingHttpHeader[],
  ): this {
    // If no header was set, Node writes these without keeping them.
    if (this.#names !== null && this.#names.length > 0) {
      if (given === undefined && isStatus(status) && this.#take(reason)) return super.writeHead(status, this.#head)
      this.#giveToNode()
    }
    // The two signatures do not fit one call.
    return super.writeHead(status, reason as string, given as OutgoingHttpHeaders)
  }

  /** @returns false: Node has to take or refuse these */
  #take(headers: unknown): boolean {
    if (headers === undefined) return this.#names !== null
    if (typeof headers !== 'object' || headers === null || Array.isArray(headers) || this.headersSent) return false
    try {
      for (const name of Object.keys(headers))
        if (name !== '') this.setHeader(name, (headers as Record<string, string>)[name]!)
    } catch {
      return false
    }
    return this.#names !== null
  }

  #giveToNode(): void {
    if (this.#names === null || this.headersSent) return
    this.#names = null
    for (let at = 0; at < this.#head.length; at += 2) super.setHeader(this.#head[at] as string, this.#head[at + 1]!)
    this.#head = []
  }

  override destroy(error?: Error): this {
    if (!this.destroyed && this.headersSent && !this.chunkedEncoding) this.socket?.resetAndDestroy()
    return super.destroy(error)
  }
}

/** The response to `LEFTOVER`. It discards everything, including Node's own answer to a bad head. */
class Unsent extends CutResponse {
  override on(): this {
    return this
  }
  override assignSocket(): void {}
  override writeContinue(): void {}
  override writeHead(): this {
    return this
  }
  override end(): this {
    return this
  }
}

const UNSENT: CutResponse = new Unsent(Object.create(LEFTOVER))
