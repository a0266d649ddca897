/**
 * Closes connections on which a body is still arriving. After an immediate close, the kernel answers further bytes with a reset. The
 * reset makes many clients lose the answer that they have not read yet (RFC 9112, 9.6).
 */
import type { IncomingMessage } from 'node:http'
import { dropUnread } from './arrivals.ts'

/**
 * Lets Node parse the bytes that arrived with the head. A request that is refused by its head is then often complete, and its connection
 * can stay open.
 */
export function parseArrived(request: IncomingMessage): Promise<void> | null {
  return request.complete ? null : new Promise(resolve => setImmediate(resolve))
}

const MAX_MS = 2_000
/** Limit of bytes that are read from a refused body. */
const MAX_BYTES = 4 * 1024 * 1024
/** A chunked body is not read any further: tiny chunks would cost much for nothing. */
const CHUNKED_MS = 250
const LOOK_EVERY_MS = 50

/**
 * Makes the end of an answer a half-close: further bytes are read and discarded for a short time, and then the connection ends. Call it
 * before the answer is sent, for a request whose body is incomplete.
 */
export function lingerAtEnd(request: IncomingMessage): void {
  const { socket } = request
  const isChunked = request.headers['transfer-encoding'] !== undefined
  const linger = () => {
    socket.destroySoon = ignore
    socket.end()
    if (isChunked) {
      dropUnread(socket)
      // Node has begun to discard the body. The pause comes after Node's own ticks, and before any further bytes are read.
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
  // Node's server calls this when the answer was handed to the kernel.
  socket.destroySoon = linger
}

const ignore = () => {}
