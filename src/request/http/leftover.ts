/**
 * Node takes all of a read apart (64 KiB, up to 1,771 heads) and makes some 5 KiB of objects of each head, also when the
 * first of them has ended the connection. What comes behind that end is this one request with this one response.
 */
import { IncomingMessage } from 'node:http'
import { Socket } from 'node:net'

/** Takes part in nothing: no listener, no header, no body, no end. */
class Leftover extends IncomingMessage {
  constructor() {
    const socket = new Socket()
    super(socket)
    socket.destroy()
  }
  override on(): this {
    return this
  }
  /** Node's own: one request of all strangers must not collect what they send. */
  _addHeaderLines(): void {}
  override push(): boolean {
    return false
  }
  override destroy(): this {
    return this
  }
}

/** The request of everything that is parsed on a connection after its end. */
export const LEFTOVER: IncomingMessage = new Leftover()
