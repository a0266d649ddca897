/** Answers to what is not HTTP at all: Node's parser gives up, and the client still gets JSON with all four keys. */
import { STATUS_CODES } from 'node:http'
import type { Duplex } from 'node:stream'
import { type ErrorCode, envelope, refuse } from '#contract'

const CODES: Readonly<Record<string, ErrorCode>> = {
  HPE_HEADER_OVERFLOW: 'headers_too_large',
  ERR_HTTP_REQUEST_TIMEOUT: 'request_timeout',
}

/** The listener for a server's `clientError`. */
export function answerMalformed(error: NodeJS.ErrnoException, socket: Duplex): void {
  // A connection that is gone, or one on which an answer has begun: there is nobody to tell, or no place to tell it.
  const begun = (socket as { _httpMessage?: { headersSent?: boolean } })._httpMessage?.headersSent === true
  if (!socket.writable || begun || error.code === 'ECONNRESET') {
    socket.destroy()
    return
  }
  const refusal = refuse(CODES[error.code ?? ''] ?? 'bad_request')
  const body = JSON.stringify(envelope(refusal))
  socket.end(
    `HTTP/1.1 ${refusal.status} ${STATUS_CODES[refusal.status]}\r\n` +
      'content-type: application/json\r\n' +
      `content-length: ${Buffer.byteLength(body)}\r\n` +
      'connection: close\r\n\r\n' +
      body,
  )
}
