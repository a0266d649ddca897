/** Answers requests that Node's parser rejects: the client still gets the JSON error with all four keys. */
import { type IncomingMessage, STATUS_CODES } from 'node:http'
import type { Duplex } from 'node:stream'
import { type ErrorCode, envelope, type Refusal, refuse } from '#contract'
import { stopWatching } from './arrivals.ts'

const CODES: Readonly<Record<string, ErrorCode>> = {
  HPE_HEADER_OVERFLOW: 'headers_too_large',
  ERR_HTTP_REQUEST_TIMEOUT: 'request_timeout',
}

/** The response that Node keeps on a socket while an answer is due. */
interface PendingResponse {
  readonly headersSent: boolean
  readonly req: IncomingMessage
  shouldKeepAlive: boolean
  destroy(): void
}

/**
 * Answers a server's `clientError`.
 *
 * @param of `requestId`: sent as x-request-id if no request exists. `isInProgress`: if left out, it is true if the socket has a
 * pending response.
 */
export function answerMalformed(
  error: NodeJS.ErrnoException,
  socket: Duplex,
  of: { readonly requestId?: string; readonly isInProgress?: boolean } = {},
): void {
  if (!socket.writable || error.code === 'ECONNRESET') {
    socket.destroy()
    return
  }
  const refusal = refuse(CODES[error.code ?? ''] ?? 'bad_request')
  if (of.isInProgress === false) answerRaw(socket, refusal, of.requestId)
  else refuseOn(socket, refusal, of.requestId)
}

/** Answers a request whose socket Node has detached (CONNECT): it has no other listener. */
export function answerUnserved(socket: Duplex, refusal: Refusal, requestId?: string): void {
  stopWatching(socket)
  socket.on('error', () => {})
  // The client may disconnect while its answer is due.
  socket.once('end', () => socket.destroy())
  socket.resume()
  refuseOn(socket, refusal, requestId)
}

function refuseOn(socket: Duplex, refusal: Refusal, requestId?: string): void {
  const pending = (socket as { _httpMessage?: PendingResponse })._httpMessage
  if (!pending) answerRaw(socket, refusal, requestId)
  // Anything written while an answer is due would be read as that answer, or as part of it.
  else if (pending.headersSent) pending.destroy()
  // The error came after a good request: it is still answered, and the connection ends after the answer.
  else if (!refuseBody(pending.req, refusal)) pending.shouldKeepAlive = false
}

/** Refusals of bodies that have no reader yet. A reader gets its refusal when it begins. */
const refusedEarly = new WeakMap<IncomingMessage, Refusal>()

/**
 * Ends the reading of a body that will not arrive as it should. Its reader, now or later, gets the refusal and answers with it.
 * @returns false if the body has no reader yet, or is complete
 */
export function refuseBody(request: IncomingMessage, refusal: Refusal): boolean {
  if (request.complete) return false
  if (request.listenerCount('error') > 0) return request.emit('error', refusal)
  refusedEarly.set(request, refusal)
  return false
}

/** The refusal of a body before it was read; undefined: none. */
export function earlyRefusal(request: IncomingMessage): Refusal | undefined {
  return refusedEarly.get(request)
}

/** Answers on a socket without a response object, and closes it. */
function answerRaw(socket: Duplex, refusal: Refusal, requestId?: string): void {
  const body = JSON.stringify(envelope(refusal))
  // Without this, a client that never closes its end keeps the socket for ever: Node checks its timeout only once.
  socket.once('finish', () => socket.destroy())
  socket.end(
    `HTTP/1.1 ${refusal.status} ${STATUS_CODES[refusal.status]}\r\n` +
      'content-type: application/json\r\n' +
      `content-length: ${Buffer.byteLength(body)}\r\n` +
      'cache-control: no-store\r\n' +
      (requestId === undefined ? '' : `x-request-id: ${requestId}\r\n`) +
      'connection: close\r\n\r\n' +
      body,
  )
}
