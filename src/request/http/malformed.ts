/** Answers to what is not HTTP at all: Node's parser gives up, and the client still gets JSON with all four keys. */
import { type IncomingMessage, STATUS_CODES } from 'node:http'
import type { Duplex } from 'node:stream'
import { type ErrorCode, envelope, type Refusal, refuse } from '#contract'
import { stopWatching } from './arrivals.ts'

const CODES: Readonly<Record<string, ErrorCode>> = {
  HPE_HEADER_OVERFLOW: 'headers_too_large',
  ERR_HTTP_REQUEST_TIMEOUT: 'request_timeout',
}

/** What Node hangs on a socket while it owes an answer on it. */
interface Owed {
  readonly headersSent: boolean
  readonly req: IncomingMessage
  shouldKeepAlive: boolean
  destroy(): void
}

/**
 * The listener for a server's `clientError`.
 *
 * @param of `requestId`: for the header x-request-id, when there is no request; `isInProgress`: whether a request of the
 * connection is in progress (left out: whether Node owes an answer)
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

/** Answers a request with which Node gives the socket away (CONNECT): nobody else listens to it any more. */
export function answerUnserved(socket: Duplex, refusal: Refusal, requestId?: string): void {
  stopWatching(socket)
  socket.on('error', () => {})
  // Whose answer is still owed may leave.
  socket.once('end', () => socket.destroy())
  socket.resume()
  refuseOn(socket, refusal, requestId)
}

function refuseOn(socket: Duplex, refusal: Refusal, requestId?: string): void {
  const owed = (socket as { _httpMessage?: Owed })._httpMessage
  if (!owed) answerRaw(socket, refusal, requestId)
  // Whatever is written while an answer is owed would be read as that answer, or as a part of it.
  else if (owed.headersSent) owed.destroy()
  // What is wrong came behind a good request: that one is answered, and the connection ends with it.
  else if (!refuseBody(owed.req, refusal)) owed.shouldKeepAlive = false
}

/** Refusals of bodies that nobody read yet: whoever begins to, gets it at once. */
const refusedEarly = new WeakMap<IncomingMessage, Refusal>()

/**
 * Ends the reading of a body that will not come as it should: whoever reads it, now or later, gets the refusal and answers
 * with it.
 * @returns false when nobody reads, or the body is here already
 */
export function refuseBody(request: IncomingMessage, refusal: Refusal): boolean {
  if (request.complete) return false
  if (request.listenerCount('error') > 0) return request.emit('error', refusal)
  refusedEarly.set(request, refusal)
  return false
}

/** With what a body was refused before anybody read it; undefined: it was not. */
export function earlyRefusal(request: IncomingMessage): Refusal | undefined {
  return refusedEarly.get(request)
}

/** Answers on a socket for which there is no response object, and closes it. */
function answerRaw(socket: Duplex, refusal: Refusal, requestId?: string): void {
  const body = JSON.stringify(envelope(refusal))
  // Who does not close the other end would keep the socket for ever: after its timeout Node looks at none again.
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
