/** A connection without a network. The gateway's end is a stream for Node's HTTP server; the client's end is method calls. */
import { Duplex } from 'node:stream'

/** Receives data at the client's end. */
export interface WireEnd {
  data(bytes: Buffer): void
  /** The gateway sent FIN. */
  end(): void
  /** The connection is closed in both directions. */
  closed(): void
}

/** Bytes that may be buffered before the gateway must pause. */
const HIGH_WATER_BYTES = 2048

export class Wire extends Duplex {
  readonly remoteAddress: string
  readonly remotePort = 1
  readonly #client: WireEnd
  #isTaking = true
  #waiting: { readonly bytes: Buffer; readonly taken: () => void } | null = null
  /** Whether the client process has ended. */
  #isCut = false

  constructor(client: WireEnd, address = '127.0.0.1') {
    super({ allowHalfOpen: true, writableHighWaterMark: HIGH_WATER_BYTES })
    this.#client = client
    this.remoteAddress = address
    this.on('error', () => {})
  }

  /** Whether written data waits for the client. */
  get isBlocked(): boolean {
    return this.#waiting !== null
  }

  stall(): void {
    this.#isTaking = false
  }

  resumeTaking(): void {
    this.#isTaking = true
    const waiting = this.#waiting
    this.#waiting = null
    if (!waiting || this.destroyed) return
    this.#deliver(waiting.bytes)
    waiting.taken()
  }

  send(bytes: Buffer): void {
    if (!this.destroyed && !this.#isCut) this.push(bytes)
  }

  /** The client disconnects, by FIN or by RST. */
  leave(how: 'fin' | 'reset'): void {
    if (this.destroyed || this.#isCut) return
    if (how === 'fin') this.push(null)
    else this.destroy(Object.assign(new Error('read ECONNRESET'), { code: 'ECONNRESET' }))
  }

  /** Simulates the end of the client process. Later writes are discarded. */
  cut(): void {
    this.#isCut = true
  }

  // The methods that Node's HTTP server calls on a socket.

  destroySoon(): void {
    if (this.writable) this.end()
    if (this.writableFinished) this.destroy()
    else this.once('finish', () => this.destroy())
  }

  resetAndDestroy(): void {
    this.destroy()
  }

  setTimeout(): this {
    return this
  }

  setNoDelay(): this {
    return this
  }

  setKeepAlive(): this {
    return this
  }

  override _read(): void {}

  override _write(bytes: Buffer, _encoding: string, taken: () => void): void {
    if (!this.#isTaking) {
      this.#waiting = { bytes, taken }
      return
    }
    this.#deliver(bytes)
    taken()
  }

  override _final(done: () => void): void {
    if (!this.#isCut) this.#client.end()
    done()
  }

  override _destroy(error: Error | null, done: (error?: Error | null) => void): void {
    this.#waiting = null
    if (!this.#isCut) this.#client.closed()
    done(error)
  }

  #deliver(bytes: Buffer): void {
    if (!this.#isCut) this.#client.data(bytes)
  }
}
