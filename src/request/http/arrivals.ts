/**
 * Passes the bytes of connections to Node's parser in portions. The cost of bytes is unknown before they are parsed: 64 KiB of one-byte
 * chunks take 10 ms and 1.7 MiB of objects. So bytes of unknown clients and of chunked bodies are parsed in small portions, queued as
 * sliced work of their owner. Chunks are not parsed before the body is read.
 */
import type { IncomingHttpHeaders, IncomingMessage, Server, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import { addressGroup, type Sliced, type WorkOwner } from '#contract'
import type { WorkQueue } from './owners.ts'

/** A portion of a chunked body: the first size and its bounds. It adapts to the time that the last portion took. */
const FIRST_PORTION_BYTES = 2048
const LEAST_PORTION_BYTES = 512
const MOST_PORTION_BYTES = 64 * 1024
const SHORT_MS = 0.2
const LONG_MS = 1
/** The limit for the unparsed bytes of all connections of a thread. Above it, unknown clients that send more are cut. */
const MAX_UNPARSED_BYTES = 64 * 1024 * 1024
/** A portion of bytes that belong to no body. */
const HEAD_PORTION_BYTES = 4096

/** The fields that Node's server keeps on a socket. */
interface ServedSocket extends Socket {
  /** The answer that is due next. */
  readonly _httpMessage?: (ServerResponse & { readonly req: IncomingMessage }) | null
  /** Node has paused parsing, because the client reads too little of its answers. */
  readonly _paused?: boolean
  /** `incoming`: the request that was parsed last; it may be incomplete. */
  readonly parser?: { readonly incoming: IncomingMessage | null } | null
}

const watched = new WeakMap<Duplex, Arrival>()

/** Parses the bytes of all new connections of a server in portions. */
export function watchArrivals(server: Server, work: WorkQueue): void {
  // Node's own listener runs first: it has created the parser.
  server.on('connection', (socket: Socket) => new Arrival(socket, work))
}

/** Marks the client of a request as known: its later bytes are the owner's work. */
export function noteKnown({ socket, headers }: IncomingMessage, owner: WorkOwner): void {
  watched.get(socket)?.becomeKnown(owner, headers)
}

/** Node's server has detached the socket (CONNECT): it has no parser any more. */
export function stopWatching(socket: Duplex): void {
  watched.get(socket)?.stop()
}

/** The owner of a request before its steps run: by its credential or, if that is new, by its connection. */
export function requestOwner({ socket, headers }: IncomingMessage): WorkOwner {
  return watched.get(socket)!.ownerOf(headers)
}

/** Drops the bytes of a body that will not be read. */
export function dropUnread(socket: Duplex): void {
  watched.get(socket)?.dropUnread()
}

/** One connection, between its socket and Node's parser. */
class Arrival {
  readonly #work: WorkQueue
  readonly #socket: ServedSocket
  readonly #parse: (bytes: Buffer) => void
  readonly #onData = (bytes: Buffer) => this.#take(bytes)
  readonly #onResume = () => this.#resumed()
  #owner: WorkOwner
  /** Whether no complete head has arrived yet. */
  #isNew = true
  #isKnown = false
  #isOver = false
  /** Bytes that are not parsed yet. */
  #unread: Buffer[] = []
  /** Bytes of a body of known length that are still due. */
  #bodyBytes = 0
  #portionBytes = FIRST_PORTION_BYTES
  /** Whether portions are being parsed or wait for their turn. */
  #isQueued = false
  #hasPaused = false
  /** The answer after which the next request is parsed. */
  #waitsFor: ServerResponse | null = null

  constructor(socket: ServedSocket, work: WorkQueue) {
    this.#socket = socket
    this.#work = work
    this.#owner = work.owners.network(addressGroup(socket.remoteAddress ?? ''))
    this.#parse = socket.listeners('data')[0] as (bytes: Buffer) => void
    watched.set(socket, this)
    socket.off('data', this.#parse)
    // With a second listener, Node's parser no longer reads from the socket's handle.
    socket.on('data', this.#onData)
    socket.on('resume', this.#onResume)
    socket.once('close', () => this.stop())
  }

  becomeKnown(owner: WorkOwner, headers: IncomingHttpHeaders): void {
    if (this.#isKnown && this.#owner === owner) return
    this.#owner = owner
    if (owner.group === null) this.#work.owners.remember(headers, owner)
    this.#isKnown = true
    this.#bodyBytes = 0
    if (this.#waitsFor !== null) setImmediate(() => this.#go())
  }

  ownerOf(headers: IncomingHttpHeaders): WorkOwner {
    return this.#work.owners.find(headers) ?? this.#owner
  }

  dropUnread(): void {
    for (const { length } of this.#unread.splice(0)) this.#count(-length)
    this.#hasPaused = false
  }

  stop(): void {
    this.dropUnread()
    this.#isOver = true
    watched.delete(this.#socket)
    this.#socket.off('data', this.#onData)
    this.#socket.off('resume', this.#onResume)
  }

  #take(bytes: Buffer): void {
    if (this.#isKnown && this.#isCheap(bytes)) {
      this.#parse(bytes)
      return
    }
    this.#unread.push(bytes)
    this.#count(bytes.length)
    if (this.#isNew) this.#recall(bytes)
    if (!this.#isKnown && this.#work.unparsedBytes > MAX_UNPARSED_BYTES) this.#socket.destroy()
    else this.#resumed()
  }

  /** A client that was accepted before does not wait among unknown ones. */
  #recall(bytes: Buffer): void {
    this.#isNew = !bytes.includes('\r\n\r\n')
    const owner = this.#work.owners.recall(bytes)
    if (owner === undefined) return
    this.#owner = owner
    this.#isNew = false
    this.#isKnown = true
  }

  #count(bytes: number): void {
    this.#work.unparsedBytes += bytes
  }

  /** Node resumes the socket whenever more of a body is read. Bytes that have already arrived are parsed first. */
  #resumed(): void {
    this.#go()
    if (this.#unread.length > 0) this.#pause()
  }

  /** Whether these bytes are at most a head, or part of a body without chunks. */
  #isCheap(bytes: Buffer): boolean {
    if (this.#unread.length > 0 || this.#socket._paused) return false
    const incoming = bodyOn(this.#socket)
    return incoming === null ? bytes.length <= HEAD_PORTION_BYTES : !isChunked(incoming) && !isFull(incoming)
  }

  /** Parses as much as is allowed now. */
  #go(): void {
    if (this.#isQueued || this.#isOver || this.#unread.length === 0) return
    if (this.#isBlocked()) return
    this.#isQueued = true
    const parsed = this.#work.slices.run(this.#portions(), undefined, { owner: this.#owner })
    if (parsed instanceof Promise) {
      void parsed.then(
        () => this.#parsed(),
        (error: Error) => this.#socket.destroy(error),
      )
    } else this.#parsed()
  }

  #parsed(): void {
    this.#isQueued = false
    if (this.#isOver || this.#socket.destroyed) return
    // The body may have been read meanwhile.
    if (this.#unread.length > 0) this.#resumed()
    if (this.#unread.length > 0 || !this.#hasPaused) return
    this.#hasPaused = false
    const incoming = bodyOn(this.#socket)
    if (!this.#socket._paused && (incoming === null || !isFull(incoming))) this.#socket.resume()
  }

  /** Only the code that paused a socket may resume it. */
  #pause(): void {
    if (this.#socket.isPaused()) return
    this.#hasPaused = true
    this.#socket.pause()
  }

  *#portions(): Sliced<void> {
    do {
      yield
      if (this.#isOver || this.#socket.destroyed || this.#unread.length === 0 || this.#isBlocked()) return
      this.#parsePortion()
    } while (!this.#isBlocked())
  }

  #parsePortion(): void {
    const bytes = this.#unread[0]!
    const incoming = bodyOn(this.#socket)
    const isInChunks = incoming !== null && isChunked(incoming)
    const length = isInChunks ? this.#portionBytes : this.#bodyBytes || requestLength(bytes)
    const portion = bytes.subarray(0, length)
    if (portion.length === bytes.length) this.#unread.shift()
    else this.#unread[0] = bytes.subarray(length)
    this.#count(-portion.length)
    const { now } = this.#work
    const began = now()
    this.#parse(portion)
    const tookMs = now() - began
    if (isInChunks) this.#adapt(tookMs)
    else this.#bodyBytes = length - portion.length
  }

  #adapt(tookMs: number): void {
    if (tookMs < SHORT_MS) this.#portionBytes = Math.min(MOST_PORTION_BYTES, this.#portionBytes * 2)
    else if (tookMs > LONG_MS) this.#portionBytes = Math.max(LEAST_PORTION_BYTES, this.#portionBytes / 2)
  }

  /** Whether the next bytes have to wait: for the reader of their body, or for the answer to the previous request. */
  #isBlocked(): boolean {
    if (this.#socket._paused) return true
    const incoming = bodyOn(this.#socket)
    if (incoming !== null) return isFull(incoming) || (isChunked(incoming) && incoming.readableFlowing === null)
    const pending = this.#socket._httpMessage
    // Further requests of a known client wait in `Connections`.
    if (!pending || this.#isKnown) return false
    if (this.#waitsFor !== pending) {
      this.#waitsFor = pending
      pending.once('close', () => this.#answered())
    }
    return true
  }

  #answered(): void {
    this.#waitsFor = null
    // Node sets the next answer in the next tick.
    setImmediate(() => this.#go())
  }
}

function isChunked({ headers }: IncomingMessage): boolean {
  return headers['transfer-encoding'] !== undefined
}

/** The request whose body is incomplete; null: all are complete. It may wait behind others. */
function bodyOn({ parser }: ServedSocket): IncomingMessage | null {
  const incoming = parser?.incoming
  return incoming && !incoming.complete ? incoming : null
}

/** Whether the buffer of the body's reader is full. */
function isFull(request: IncomingMessage): boolean {
  return request.readableLength >= request.readableHighWaterMark
}

/** The length of the request at the start of these bytes, without a chunked body; or of a part of its head. */
function requestLength(bytes: Buffer): number {
  const end = bytes.indexOf('\r\n\r\n')
  if (end === -1 || end >= HEAD_PORTION_BYTES) return Math.min(bytes.length, HEAD_PORTION_BYTES)
  const head = bytes.toString('latin1', 0, end)
  if (/\r\ntransfer-encoding:/i.test(head)) return end + 4
  return end + 4 + Number(/\r\ncontent-length:[ \t]*(\d+)/i.exec(head)?.[1] ?? 0)
}
