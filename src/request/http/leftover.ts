/**
 * The one request for everything that is parsed on a connection after its end. Its response is `UNSENT` in cut-response.ts. Node parses
 * all of a read (64 KiB, up to 1,771 heads), even if the first head has ended the connection. A request of its own would make some 5 KiB
 * of objects.
 */
import { IncomingMessage } from 'node:http'
import { Socket } from 'node:net'

/** Ignores everything: listeners, headers, body, end. */
class Leftover extends IncomingMessage {
  constructor() {
    const socket = new Socket()
    super(socket)
    socket.destroy()
  }
  override on(): this {
    return this
  }
  /** Node internal. One shared request must not collect what strangers send. */
  _addHeaderLines(): void {}
  override push(): boolean {
    return false
  }
  override destroy(): this {
    return this
  }
}

export const LEFTOVER: IncomingMessage = new Leftover()
