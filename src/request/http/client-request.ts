/** The request of every listener: a short body bypasses the stream. */
import { IncomingMessage } from 'node:http'
import type { Socket } from 'node:net'
import { LEFTOVER } from './leftover.ts'

/**
 * A body that arrives in one piece is kept beside the stream, and `readBody` takes it without the stream's listeners and ticks. Readers
 * of the stream (a step, or Node after the answer) still get it from the stream.
 */
export class ClientRequest extends IncomingMessage {
  #whole: Buffer | null = null

  // biome-ignore lint/correctness/noUnreachableSuper: the returned object exists already
  constructor(socket: Socket) {
    // biome-ignore lint/correctness/noConstructorReturn: Node needs an object and gets this one
    if (socket.destroyed) return LEFTOVER as ClientRequest
    super(socket)
  }

  /** Returns the whole body, once. Null: it has not arrived in one piece, or the stream has a reader. */
  takeWhole(): Buffer | null {
    const whole = this.#whole
    if (whole === null || !this.complete || this.readableFlowing !== null || this.destroyed) return null
    this.#whole = null
    this.#end()
    return whole
  }

  /** Marks the stream as read to its end. */
  #end(): void {
    const { _dumpAndCloseReadable: close } = this as Internal
    if (close !== undefined && this.listenerCount('end') + this.listenerCount('close') === 0) close.call(this)
    else {
      super.push(null)
      this.resume()
    }
  }

  override push(piece: Buffer | null): boolean {
    if (piece === null ? this.#whole !== null : this.#isWhole(piece)) {
      if (piece !== null) this.#whole = piece
      return true
    }
    return super.push(piece)
  }

  #isWhole({ length }: Buffer): boolean {
    if (this.readableFlowing !== null || length >= this.readableHighWaterMark) return false
    return length === Number(this.headers['content-length'])
  }

  override _read(size: number): void {
    super._read(size)
    const whole = this.#whole
    if (whole === null) return
    this.#whole = null
    super.push(whole)
    if (this.complete) super.push(null)
    // Node 26 does not read on after dumping a body.
    if ((this as Internal)._dumped === true) this.resume()
  }
}

/** Node internals. If they are missing, the stream itself ends (`#end`), and a dumped body is read. */
interface Internal {
  /** Node calls it for requests without a body (`optimizeEmptyRequests`). */
  readonly _dumpAndCloseReadable?: () => void
  /** The answer was sent, and the body had no reader. */
  readonly _dumped?: boolean
}
