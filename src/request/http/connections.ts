/**
 * Handles one exchange at a time on each connection. A client may send requests without waiting for answers (pipelining, RFC 9112,
 * 9.3.2). Node would begin all of them at once, and keep all their answers if the client reads none.
 */
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { LEFTOVER } from './leftover.ts'

type Begin = (request: IncomingMessage, response: ServerResponse) => void

interface WaitingRequest {
  readonly request: IncomingMessage
  readonly response: ServerResponse
  readonly bytes: number
}

/** The state of a connection, kept as long as the connection. */
interface Connection {
  readonly socket: Socket
  current: ServerResponse | null
  /** The requests behind the current one, in order. */
  waiting: WaitingRequest[]
  /** No further request of it begins. */
  isOver: boolean
  /** The answer bytes that the kernel had taken at the last look, and since when it has taken no more; 0: it is not blocked. */
  takenBytes: number
  blockedSinceMs: number
}

/** The memory of a waiting request: its objects, and the pieces of its body that Node has read ahead. */
const HEAD_BYTES = 8 * 1024
const BODY_BYTES = 96 * 1024
/** Node makes an object of each chunk, and reads ahead 64 KiB of the wire: one-byte chunks take this much memory. */
const CHUNKED_BODY_BYTES = 4 * 1024 * 1024

/** The limit for all waiting requests of the process. */
const MAX_WAITING_BYTES = 64 * 1024 * 1024
/** Reading pauses at this many requests behind an exchange. Below it, a disconnect is noticed at once. */
const PAUSED_FROM = 16
/** A request beyond this limit ends the connection: Node spends about 5 KiB per request, for many connections in one event-loop turn. */
const MAX_WAITING = 512

export interface ConnectionsOptions {
  /** The listener is closed: waiting requests do not begin. */
  isClosed(): boolean
  /** A client that reads nothing for this long is cut off. */
  stallMs(): number
}

/** Begins the requests of each connection one after the other. */
export class Connections {
  readonly #begin: Begin
  readonly #options: ConnectionsOptions
  readonly #known = new WeakMap<Socket, Connection>()
  readonly #busy = new Set<Connection>()
  #waitingBytes = 0

  constructor(begin: Begin, options: ConnectionsOptions) {
    this.#begin = begin
    this.#options = options
  }

  begin(request: IncomingMessage, response: ServerResponse): void {
    if (request === LEFTOVER) return
    const { socket } = request
    let connection = this.#known.get(socket)
    if (!connection) {
      connection = { socket, current: null, waiting: [], isOver: false, takenBytes: 0, blockedSinceMs: 0 }
      this.#known.set(socket, connection)
    }
    if (connection.isOver) return
    if (connection.current === null && connection.waiting.length === 0) this.#start(connection, request, response)
    else this.#wait(connection, request, response)
  }

  /**
   * Ends a connection on which Node's parser failed. Complete requests on it are still answered; an incomplete one does not begin.
   * @returns where to send the error. `current`: the request in progress, which may be the broken one. `none`: the answers before the
   * broken request are still due. `connection`: it has no request.
   */
  giveUp(socket: object): 'current' | 'none' | 'connection' {
    const connection = this.#known.get(socket as Socket)
    if (!connection) return 'connection'
    connection.isOver = true
    const { waiting, current } = connection
    const broken = waiting.at(-1)?.request.complete === false ? waiting.pop() : null
    if (broken) this.#waitingBytes -= broken.bytes
    const last = waiting.at(-1)?.response ?? (broken ? current : null)
    if (!last) return current === null ? 'connection' : 'current'
    last.shouldKeepAlive = false
    return 'none'
  }

  /** The requests that have begun and are unanswered. */
  *current(): Iterable<IncomingMessage> {
    for (const { current } of this.#busy) if (current !== null) yield current.req
  }

  /** Cuts the connections of clients that have stopped reading their answers. @param nowMs any monotonic clock */
  cutStalled(nowMs: number): void {
    for (const connection of this.#busy) {
      const { socket } = connection
      const takenBytes = socket.bytesWritten - socket.writableLength
      if (socket.writableLength === 0) connection.blockedSinceMs = 0
      else if (connection.blockedSinceMs === 0 || takenBytes > connection.takenBytes) connection.blockedSinceMs = nowMs
      else if (nowMs - connection.blockedSinceMs > this.#options.stallMs()) (connection.current ?? socket).destroy()
      connection.takenBytes = takenBytes
    }
  }

  #start(connection: Connection, request: IncomingMessage, response: ServerResponse): void {
    connection.current = response
    connection.blockedSinceMs = 0
    this.#busy.add(connection)
    response.on('close', () => this.#ended(connection, response))
    this.#begin(request, response)
  }

  #wait(connection: Connection, request: IncomingMessage, response: ServerResponse): void {
    const bytes = costOf(request)
    if (connection.waiting.length === MAX_WAITING || this.#waitingBytes + bytes > MAX_WAITING_BYTES) {
      this.#end(connection)
      request.socket.destroy()
      return
    }
    this.#waitingBytes += bytes
    connection.waiting.push({ request, response, bytes })
    // Deferred, because Node's parser continues to read after each complete request.
    if (connection.waiting.length >= PAUSED_FROM) setImmediate(pause, connection)
  }

  #ended(connection: Connection, response: ServerResponse): void {
    const { socket } = connection
    connection.current = null
    this.#busy.delete(connection)
    // RFC 9112, 9.6: data after an answer that ends the connection is ignored.
    if (this.#options.isClosed() || endsConnection(response) || socket.destroyed) {
      this.#end(connection)
      // The sent head may have promised to keep the connection.
      socket.destroySoon()
      return
    }
    // One per turn: many quick answers in a row would block other connections.
    if (connection.waiting.length > 0) setImmediate(() => this.#startNext(connection))
  }

  #startNext(connection: Connection): void {
    if (this.#options.isClosed() || connection.socket.destroyed) {
      this.#end(connection)
      connection.socket.destroySoon()
    }
    const next = connection.waiting.shift()
    if (!next) return
    this.#waitingBytes -= next.bytes
    if (connection.waiting.length < PAUSED_FROM) connection.socket.resume()
    this.#start(connection, next.request, next.response)
  }

  #end(connection: Connection): void {
    connection.isOver = true
    for (const { bytes } of connection.waiting.splice(0)) this.#waitingBytes -= bytes
  }
}

function pause({ waiting, socket }: Connection): void {
  if (waiting.length >= PAUSED_FROM) socket.pause()
}

function costOf({ headers }: IncomingMessage): number {
  if (headers['transfer-encoding'] !== undefined) return CHUNKED_BODY_BYTES
  return (headers['content-length'] ?? '0') === '0' ? HEAD_BYTES : BODY_BYTES
}

/** Whether no answer can follow this one, even if its head is unsent. */
function endsConnection(response: ServerResponse): boolean {
  return !response.shouldKeepAlive || response.getHeader('connection') === 'close'
}
