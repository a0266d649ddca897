/**
 * One exchange at a time on each connection. A client may send requests without waiting for answers (pipelining, RFC 9112,
 * 9.3.2); Node would begin all of them at once, and keep all their answers where the client reads none.
 */
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { LEFTOVER } from './leftover.ts'

type Begin = (request: IncomingMessage, response: ServerResponse) => void

interface Waiting {
  readonly request: IncomingMessage
  readonly response: ServerResponse
  readonly bytes: number
}

/** What is known of a connection; kept for as long as the connection. */
interface Connection {
  readonly socket: Socket
  current: ServerResponse | null
  /** The requests behind the current one, in their order. */
  waiting: Waiting[]
  /** Nothing that still comes on it is begun. */
  isOver: boolean
  /** What the kernel had taken of its answers when it last took something, and since when it has taken nothing. */
  takenBytes: number
  blockedSinceMs: number
}

export interface Connections {
  readonly begin: Begin
  /**
   * Node's parser has given up on a connection. Requests that had come whole are still answered, and then the connection
   * ends; one that waits and had not come whole is not begun.
   * @returns who is to be told: the request in progress, which may be the broken one; nobody, because the answers before the
   * broken one still come; or the connection, on which there is no request
   */
  giveUp(socket: object): 'current' | 'nobody' | 'connection'
  /** Cuts the connections whose clients take nothing of their answers. @param nowMs any clock that does not go back */
  cutStalled(nowMs: number): void
}

/** The memory of a request that waits: its objects, and the pieces of its body that Node has read ahead. */
const HEAD_BYTES = 8 * 1024
const BODY_BYTES = 96 * 1024
/** Node makes an object of each chunk, and reads ahead 64 KiB of the wire: chunks of one byte come to this. */
const CHUNKED_BODY_BYTES = 4 * 1024 * 1024

/** Of all requests that wait, in one process. */
const MAX_WAITING_BYTES = 64 * 1024 * 1024
/** Behind one exchange; from so many on nothing more is read. Before, one who leaves is noticed at once. */
const PAUSED_FROM = 16
/** The next one ends the connection. Node has made some 5 KiB of objects of each, and of many connections in one turn. */
const MAX_WAITING = 512

export interface ConnectionsOptions {
  /** The listener has been closed: what waits is not begun. */
  isClosed(): boolean
  /** A client that takes nothing for so long is cut. */
  stallMs(): number
}

/** Makes a listener for `request` that begins the requests of each connection one after the other. */
export function oneAtATime(begin: Begin, { isClosed, stallMs }: ConnectionsOptions): Connections {
  const connections = new WeakMap<Socket, Connection>()
  const busy = new Set<Connection>()
  let waitingBytes = 0

  function start(connection: Connection, request: IncomingMessage, response: ServerResponse): void {
    connection.current = response
    connection.blockedSinceMs = 0
    busy.add(connection)
    response.once('close', () => ended(connection, response))
    begin(request, response)
  }

  function wait(connection: Connection, request: IncomingMessage, response: ServerResponse): void {
    const bytes = costOf(request)
    if (connection.waiting.length === MAX_WAITING || waitingBytes + bytes > MAX_WAITING_BYTES) {
      end(connection)
      request.socket.destroy()
      return
    }
    waitingBytes += bytes
    connection.waiting.push({ request, response, bytes })
    // Not now: behind each whole request Node's parser goes on reading.
    if (connection.waiting.length === PAUSED_FROM) setImmediate(pause, connection)
  }

  function pause({ waiting, socket }: Connection): void {
    if (waiting.length >= PAUSED_FROM) socket.pause()
  }

  function ended(connection: Connection, response: ServerResponse): void {
    const { socket } = connection
    connection.current = null
    busy.delete(connection)
    // RFC 9112, 9.6: what came behind an answer that ends the connection is not looked at.
    if (isClosed() || endsConnection(response) || socket.destroyed) {
      end(connection)
      // The head may have promised more: it left before the end was in sight.
      socket.destroySoon()
      return
    }
    // One a turn: requests whose answers are there at once would let nobody else in until the last of them.
    if (connection.waiting.length > 0) setImmediate(startNext, connection)
  }

  function startNext(connection: Connection): void {
    if (isClosed() || connection.socket.destroyed) {
      end(connection)
      connection.socket.destroySoon()
    }
    const next = connection.waiting.shift()
    if (!next) return
    waitingBytes -= next.bytes
    if (connection.waiting.length < PAUSED_FROM) connection.socket.resume()
    start(connection, next.request, next.response)
  }

  function end(connection: Connection): void {
    connection.isOver = true
    for (const { bytes } of connection.waiting.splice(0)) waitingBytes -= bytes
  }

  return {
    begin(request, response) {
      if (request === LEFTOVER) return
      const { socket } = request
      let connection = connections.get(socket)
      if (!connection) {
        connection = { socket, current: null, waiting: [], isOver: false, takenBytes: 0, blockedSinceMs: 0 }
        connections.set(socket, connection)
      }
      if (connection.isOver) return
      if (connection.current === null && connection.waiting.length === 0) start(connection, request, response)
      else wait(connection, request, response)
    },
    giveUp(socket) {
      const connection = connections.get(socket as Socket)
      if (!connection) return 'connection'
      connection.isOver = true
      const { waiting, current } = connection
      const broken = waiting.at(-1)?.request.complete === false ? waiting.pop() : null
      if (broken) waitingBytes -= broken.bytes
      const last = waiting.at(-1)?.response ?? (broken ? current : null)
      if (!last) return current === null ? 'connection' : 'current'
      last.shouldKeepAlive = false
      return 'nobody'
    },
    cutStalled(nowMs) {
      for (const connection of busy) {
        const { socket } = connection
        const takenBytes = socket.bytesWritten - socket.writableLength
        if (socket.writableLength === 0) connection.blockedSinceMs = 0
        else if (connection.blockedSinceMs === 0 || takenBytes > connection.takenBytes)
          connection.blockedSinceMs = nowMs
        else if (nowMs - connection.blockedSinceMs > stallMs()) (connection.current ?? socket).destroy()
        connection.takenBytes = takenBytes
      }
    },
  }
}

function costOf({ headers }: IncomingMessage): number {
  if (headers['transfer-encoding'] !== undefined) return CHUNKED_BODY_BYTES
  return (headers['content-length'] ?? '0') === '0' ? HEAD_BYTES : BODY_BYTES
}

/** Whether no answer can follow this one, also where its head has not left yet. */
function endsConnection(response: ServerResponse): boolean {
  return !response.shouldKeepAlive || response.getHeader('connection') === 'close'
}
