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

  /** A request has come. */
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
   * Node's parser has given up on a connection. Requests that had come whole are still answered, and then the connection
   * ends; one that waits and had not come whole is not begun.
   * @returns who is to be told: the request in progress, which may be the broken one; nobody, because the answers before the
   * broken one still come; or the connection, on which there is no request
   */
  giveUp(socket: object): 'current' | 'nobody' | 'connection' {
    const connection = this.#known.get(socket as Socket)
    if (!connection) return 'connection'
    connection.isOver = true
    const { waiting, current } = connection
    const broken = waiting.at(-1)?.request.complete === false ? waiting.pop() : null
    if (broken) this.#waitingBytes -= broken.bytes
    const last = waiting.at(-1)?.response ?? (broken ? current : null)
    if (!last) return current === null ? 'connection' : 'current'
    last.shouldKeepAlive = false
    return 'nobody'
  }

  /** The requests that have begun and are not answered yet. */
  *current(): Iterable<IncomingMessage> {
    for (const { current } of this.#busy) if (current !== null) yield current.req
  }

  /** Cuts the connections whose clients take nothing of their answers. @param nowMs any clock that does not go back */
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
    // Not now: behind each whole request Node's parser goes on reading.
    if (connection.waiting.length >= PAUSED_FROM) setImmediate(pause, connection)
  }

  #ended(connection: Connection, response: ServerResponse): void {
    const { socket } = connection
    connection.current = null
    this.#busy.delete(connection)
    // RFC 9112, 9.6: what came behind an answer that ends the connection is not looked at.
    if (this.#options.isClosed() || endsConnection(response) || socket.destroyed) {
      this.#end(connection)
      // The head may have promised more: it left before the end was in sight.
      socket.destroySoon()
      return
    }
    // One a turn: requests whose answers are there at once would let nobody else in until the last of them.
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

/** Whether no answer can follow this one, also where its head has not left yet. */
function endsConnection(response: ServerResponse): boolean {
  return !response.shouldKeepAlive || response.getHeader('connection') === 'close'
}
