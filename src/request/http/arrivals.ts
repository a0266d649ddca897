/**
 * The bytes of connections on their way to Node's parser. What a byte costs is unknown before it is parsed: 64 KiB of chunks of one
 * byte take 10 ms and 1.7 MiB of objects. So the bytes of unknown clients and of chunked bodies are parsed in small portions, which
 * wait in the queue of sliced work as the work of their owner. The chunks of a body are not parsed before the body is read.
 */
import type { IncomingHttpHeaders, IncomingMessage, Server, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import { addressGroup, type Sliced, type WorkOwner } from '#contract'
import type { Work } from './owners.ts'

/** A portion of a chunked body: at first, at least and at most. It follows the time that the last one took. */
const FIRST_PORTION_BYTES = 2048
const LEAST_PORTION_BYTES = 512
const MOST_PORTION_BYTES = 64 * 1024
const SHORT_MS = 0.2
const LONG_MS = 1
/** Of all connections of unknown clients together; a connection that brings more is cut. */
const MAX_UNPARSED_BYTES = 64 * 1024 * 1024
/** Of bytes without a body to which they belong. */
const HEAD_PORTION_BYTES = 4096

/** The parts that the server of Node keeps at a socket. */
interface ServedSocket extends Socket {
  /** The answer that is owed next. */
  readonly _httpMessage?: (ServerResponse & { readonly req: IncomingMessage }) | null
  /** Whether the client takes too little of its answers: Node parses nothing then. */
  readonly _paused?: boolean
  /** `incoming`: the request that was parsed last; it may be on its way. */
  readonly parser?: { readonly incoming: IncomingMessage | null } | null
}

const watched = new WeakMap<Duplex, Arrival>()

/** Parses the bytes of all new connections of a server by portions. */
export function watchArrivals(server: Server, work: Work): void {
  // Node's own listener is the first one: it has made the parser.
  server.on('connection', (socket: Socket) => new Arrival(socket, work))
}

/** The client of a request is known: what it sends from now on is the owner's work. */
export function noteKnown({ socket, headers }: IncomingMessage, owner: WorkOwner): void {
  watched.get(socket)?.becomeKnown(owner, headers)
}

/** Node's server has given the socket away (CONNECT): it has no parser any more. */
export function stopWatching(socket: Duplex): void {
  watched.get(socket)?.stop()
}

/** Whose work a request is before its steps run: by its credential or, where that is new, by its connection. */
export function requestOwner({ socket, headers }: IncomingMessage): WorkOwner {
  return watched.get(socket)!.ownerOf(headers)
}

/** Drops the bytes of a body that will not be read. */
export function dropUnread(socket: Duplex): void {
  watched.get(socket)?.dropUnread()
}

/** One connection, between its socket and Node's parser. */
class Arrival {
  readonly #work: Work
  readonly #socket: ServedSocket
  readonly #parse: (bytes: Buffer) => void
  readonly #onData = (bytes: Buffer) => this.#take(bytes)
  readonly #onResume = () => this.#resumed()
  #owner: WorkOwner
  /** Nothing has come yet. */
  #isNew = true
  #isKnown = false
  #isOver = false
  /** Bytes that have not been parsed. */
  #unread: Buffer[] = []
  /** Bytes of a body of known length that are still to come. */
  #bodyBytes = 0
  #portionBytes = FIRST_PORTION_BYTES
  /** Whether portions are parsed, or wait for their turn. */
  #isQueued = false
  #hasPaused = false
  /** The answer behind which the next request is parsed. */
  #waitsFor: ServerResponse | null = null

  constructor(socket: ServedSocket, work: Work) {
    this.#socket = socket
    this.#work = work
    this.#owner = work.owners.network(addressGroup(socket.remoteAddress ?? ''))
    this.#parse = socket.listeners('data')[0] as (bytes: Buffer) => void
    watched.set(socket, this)
    socket.off('data', this.#parse)
    // With another listener Node's parser does not read from the handle of the socket any more.
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

  /** A client that was let in before does not wait among unknown ones. */
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

  /** Node resumes the socket whenever more of a body is read. What has come already is first. */
  #resumed(): void {
    this.#go()
    if (this.#unread.length > 0) this.#pause()
  }

  /** Whether these bytes are a head at most, or a part of a body that Node does not take apart. */
  #isCheap(bytes: Buffer): boolean {
    if (this.#unread.length > 0 || this.#socket._paused) return false
    const coming = bodyOn(this.#socket)
    return coming === null ? bytes.length <= HEAD_PORTION_BYTES : !isChunked(coming) && !isFull(coming)
  }

  /** Parses what may be parsed now. */
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
    // The body may have been read on meanwhile.
    if (this.#unread.length > 0) this.#resumed()
    if (this.#unread.length > 0 || !this.#hasPaused) return
    this.#hasPaused = false
    const coming = bodyOn(this.#socket)
    if (!this.#socket._paused && (coming === null || !isFull(coming))) this.#socket.resume()
  }

  /** A socket that others have paused is theirs to resume. */
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
    const coming = bodyOn(this.#socket)
    const isInChunks = coming !== null && isChunked(coming)
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

  /** Whether the next bytes have to wait: for the reading of their body, or for the answer to the request before them. */
  #isBlocked(): boolean {
    if (this.#socket._paused) return true
    const coming = bodyOn(this.#socket)
    if (coming !== null) return isFull(coming) || (isChunked(coming) && coming.readableFlowing === null)
    const owed = this.#socket._httpMessage
    // The requests behind the first one of a known client wait elsewhere (`Connections`).
    if (!owed || this.#isKnown) return false
    if (this.#waitsFor !== owed) {
      this.#waitsFor = owed
      owed.once('close', () => this.#answered())
    }
    return true
  }

  #answered(): void {
    this.#waitsFor = null
    // The next answer is owed from the next tick on.
    setImmediate(() => this.#go())
  }
}

function isChunked({ headers }: IncomingMessage): boolean {
  return headers['transfer-encoding'] !== undefined
}

/** The request whose body has not come whole; null where all have. It may wait behind others. */
function bodyOn({ parser }: ServedSocket): IncomingMessage | null {
  const incoming = parser?.incoming
  return incoming && !incoming.complete ? incoming : null
}

/** Whether the reader of a body has enough for now. */
function isFull(request: IncomingMessage): boolean {
  return request.readableLength >= request.readableHighWaterMark
}

/** The length of the request at the beginning of these bytes, without the body where that is chunked; or of a part of its head. */
function requestLength(bytes: Buffer): number {
  const end = bytes.indexOf('\r\n\r\n')
  if (end === -1 || end >= HEAD_PORTION_BYTES) return Math.min(bytes.length, HEAD_PORTION_BYTES)
  const head = bytes.toString('latin1', 0, end)
  if (/\r\ntransfer-encoding:/i.test(head)) return end + 4
  return end + 4 + Number(/\r\ncontent-length:[ \t]*(\d+)/i.exec(head)?.[1] ?? 0)
}
