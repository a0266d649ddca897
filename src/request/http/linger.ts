/**
 * Closing a connection on which a body is still coming. Closed at once, the kernel answers what still comes with a reset,
 * and the reset makes many clients lose the answer that they have not read yet (RFC 9112, 9.6).
 */
import type { IncomingMessage } from 'node:http'
import { dropUnread } from './arrivals.ts'

/**
 * Lets Node parse what came together with the head. A request that is refused by its head has then often come whole, and
 * its connection can stay.
 */
export function parseArrived(request: IncomingMessage): Promise<void> | null {
  return request.complete ? null : new Promise(resolve => setImmediate(resolve))
}

const MAX_MS = 2_000
/** Nobody needs so much of a body that was refused. */
const MAX_BYTES = 4 * 1024 * 1024
/** Of a body in chunks nothing more is read: tiny ones would cost much, for nothing. */
const CHUNKED_MS = 250
const LOOK_EVERY_MS = 50

/**
 * Makes the end of an answer a half-close: what still comes is read and thrown away for a short time, and then the
 * connection ends. Call it before the answer is sent, for a request whose body has not come whole.
 */
export function lingerAtEnd(request: IncomingMessage): void {
  const { socket } = request
  const isChunked = request.headers['transfer-encoding'] !== undefined
  const linger = () => {
    socket.destroySoon = ignore
    socket.end()
    if (isChunked) {
      dropUnread(socket)
      // Node has begun to throw the body away by itself. Its ticks come first, and nothing has been read by then.
      process.nextTick(queueMicrotask, () => socket.pause())
    }
    const longestMs = isChunked ? CHUNKED_MS : MAX_MS
    const startedAt = performance.now()
    const bytesBefore = socket.bytesRead
    const look = setInterval(() => {
      const isOver = request.complete || socket.destroyed
      if (!isOver && performance.now() - startedAt < longestMs && socket.bytesRead - bytesBefore < MAX_BYTES) return
      clearInterval(look)
      socket.destroy()
    }, LOOK_EVERY_MS)
    look.unref()
  }
  // Node's server calls this when the answer has been handed to the kernel.
  socket.destroySoon = linger
}

const ignore = () => {}
