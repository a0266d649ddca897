/**
 * A keep-alive connection that sends prepared requests, one at a time, and parses as little of the answers as it can: a
 * full client would cost more than the gateway that it measures.
 */
import { connect, type Socket } from 'node:net'

export interface Handler {
  /** Events of a stream have come; called with how many. */
  onEvents?(count: number): void
  /** The whole answer has come, with status 200. */
  onEnd(): void
}

export interface Wire {
  /** Only when the answer to the request before is there. */
  send(request: Buffer, handler: Handler): void
  destroy(): void
}

const END_OF_HEAD = '\r\n\r\n'
const LAST_CHUNK = '0\r\n\r\n'
const EVENT = Buffer.from('data:')
const AT_STATUS = 'HTTP/1.1 '.length

/** @param onFailure gets what no measurement may have: an answer other than 200, or a connection that breaks */
export function openWire(port: number, onFailure: (what: string) => void): Wire {
  let handler: Handler | null = null
  let answer: { readonly isStream: boolean; left: number } | null = null
  let isOver = false
  const socket: Socket = connect({ port, host: '127.0.0.1', noDelay: true })
  socket.on('data', read)
  socket.on('error', error => fail(error.message))
  socket.on('close', () => fail('the connection was closed'))

  function read(bytes: Buffer): void {
    if (handler === null) {
      fail(`bytes that nobody asked for: ${bytes.toString('latin1', 0, 200)}`)
      return
    }
    if (answer === null) {
      const bodyAt = bytes.indexOf(END_OF_HEAD) + END_OF_HEAD.length
      const head = bytes.toString('latin1', 0, bodyAt)
      if (bodyAt < END_OF_HEAD.length || !head.startsWith('200', AT_STATUS)) {
        fail(`an answer that is not 200: ${bytes.toString('latin1', 0, 1000)}`)
        return
      }
      const length = /content-length: *(\d+)/i.exec(head)?.[1]
      answer = { isStream: length === undefined, left: Number(length ?? 0) + bodyAt }
    }
    if (handler.onEvents !== undefined) {
      const count = eventsIn(bytes)
      if (count > 0) handler.onEvents(count)
    }
    answer.left -= bytes.length
    // A chunked answer ends with its last chunk, which here is never cut in two or looks like something else.
    if (answer.isStream ? endsStream(bytes) : answer.left <= 0) end()
  }

  function end(): void {
    const { onEnd } = handler!
    handler = null
    answer = null
    onEnd()
  }

  function fail(what: string): void {
    if (isOver) return
    isOver = true
    socket.destroy()
    onFailure(what)
  }

  return {
    send(request, next) {
      handler = next
      socket.write(request)
    },
    destroy() {
      isOver = true
      socket.destroy()
    },
  }
}

function eventsIn(bytes: Buffer): number {
  let count = 0
  for (let at = bytes.indexOf(EVENT); at >= 0; at = bytes.indexOf(EVENT, at + EVENT.length)) count++
  return count
}

function endsStream(bytes: Buffer): boolean {
  return bytes.length >= LAST_CHUNK.length && bytes.toString('latin1', bytes.length - LAST_CHUNK.length) === LAST_CHUNK
}
