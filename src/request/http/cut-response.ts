/** The response of every listener: one that is destroyed never looks complete to its client. */
import { type IncomingMessage, ServerResponse } from 'node:http'
import { LEFTOVER } from './leftover.ts'

/**
 * `destroy()` closes the connection with a FIN. Where neither chunks nor a length tell the body's end (HTTP/1.0), that FIN
 * is the end of a complete answer (RFC 9112, 6.3). So such a response resets its connection.
 */
export class CutResponse extends ServerResponse<IncomingMessage> {
  // biome-ignore lint/correctness/noUnreachableSuper: what is returned has been made before
  constructor(request: IncomingMessage, options?: object) {
    // biome-ignore lint/correctness/noConstructorReturn: as for the request
    if (request === LEFTOVER) return UNSENT
    // Node gives options; its types do not say so.
    super(...([request, options] as unknown as [IncomingMessage]))
  }

  override destroy(error?: Error): this {
    if (!this.destroyed && this.headersSent && !this.chunkedEncoding) this.socket?.resetAndDestroy()
    return super.destroy(error)
  }
}

/** The response to `LEFTOVER`. Node itself may answer a head that lacks something: nothing of that goes anywhere. */
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
