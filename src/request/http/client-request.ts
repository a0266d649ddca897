/** The request of every listener: a short body is there without the stream. */
import { IncomingMessage } from 'node:http'
import type { Socket } from 'node:net'
import { LEFTOVER } from './leftover.ts'

/**
 * A body that comes in one piece waits beside the stream: `readBody` takes it from there, without the
 * stream's listeners and ticks. A reader of the stream (a step, or Node after the answer) gets it from the stream.
 */
export class ClientRequest extends IncomingMessage {
  #whole: Buffer | null = null

  // biome-ignore lint/correctness/noUnreachableSuper: what is returned has been made before
  constructor(socket: Socket) {
    // biome-ignore lint/correctness/noConstructorReturn: Node asks for an object, and it is this one
    if (socket.destroyed) return LEFTOVER as ClientRequest
    super(socket)
  }

  /** The whole body, once; null: it has not come whole and in one piece, or the stream has a reader. */
  takeWhole(): Buffer | null {
    const whole = this.#whole
    if (whole === null || !this.complete || this.readableFlowing !== null || this.destroyed) return null
    this.#whole = null
    this.#end()
    return whole
  }

  /** From here on the stream is as one that was read to its end. */
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
    // Node 26 does not read a dumped body by itself.
    if ((this as Internal)._dumped === true) this.resume()
  }
}

/** Node's own. Where they are missing, the stream itself ends (`#end`), and is read when it is dumped. */
interface Internal {
  /** Node calls it for requests without a body (`optimizeEmptyRequests`). */
  readonly _dumpAndCloseReadable?: () => void
  /** The answer has left, and the body had no reader. */
  readonly _dumped?: boolean
}
