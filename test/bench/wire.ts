/**
 * A keep-alive connection that sends prepared requests, one at a time. It parses as little of the answers as possible, because a
 * full client would cost more than the measured gateway.
 */
import { connect, type Socket } from 'node:net'

export interface Handler {
  /** Called with the number of stream events received. */
  onEvents?(count: number): void
  /** Called when the whole answer has arrived, with status 200. */
  onEnd(): void
}

export interface Wire {
  /** Must be called only after the previous answer is complete. */
  send(request: Buffer, handler: Handler): void
  destroy(): void
}

const END_OF_HEAD = '\r\n\r\n'
const LAST_CHUNK = '0\r\n\r\n'
const EVENT = Buffer.from('data:')
const AT_STATUS = 'HTTP/1.1 '.length

/** @param onFailure receives what invalidates a measurement: a status other than 200, or a broken connection */
export function openWire(port: number, onFailure: (reason: string) => void): Wire {
  let handler: Handler | null = null
  let answer: { readonly isStream: boolean; left: number } | null = null
  let isOver = false
  const socket: Socket = connect({ port, host: '127.0.0.1', noDelay: true })
  socket.on('data', read)
  socket.on('error', error => fail(error.message))
  socket.on('close', () => fail('the connection was closed'))

  function read(bytes: Buffer): void {
    if (handler === null) {
      fail(`bytes without a request: ${bytes.toString('latin1', 0, 200)}`)
      return
    }
    if (answer === null) {
      const bodyAt = bytes.indexOf(END_OF_HEAD) + END_OF_HEAD.length
      const head = bytes.toString('latin1', 0, bodyAt)
      if (bodyAt < END_OF_HEAD.length || !head.startsWith('200', AT_STATUS)) {
        fail(`an answer with another status than 200: ${bytes.toString('latin1', 0, 1000)}`)
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
    // The last chunk ends a chunked answer; here it is never split over reads, and no other data looks like it.
    if (answer.isStream ? endsStream(bytes) : answer.left <= 0) end()
  }

  function end(): void {
    const { onEnd } = handler!
    handler = null
    answer = null
    onEnd()
  }

  function fail(reason: string): void {
    if (isOver) return
    isOver = true
    socket.destroy()
    onFailure(reason)
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
