/** The response of every listener: one that is destroyed never looks complete to its client. */
import { type IncomingMessage, ServerResponse } from 'node:http'

/**
 * `destroy()` closes the connection with a FIN. Where neither chunks nor a length tell the body's end (HTTP/1.0), that FIN
 * is the end of a complete answer (RFC 9112, 6.3). So such a response resets its connection.
 */
export class CutResponse extends ServerResponse<IncomingMessage> {
  override destroy(error?: Error): this {
    if (!this.destroyed && this.headersSent && !this.chunkedEncoding) this.socket?.resetAndDestroy()
    return super.destroy(error)
  }
}
