/**
 * Connections that have not shown a valid credential. All of their bytes are parsed on a budget of the event loop's time: half of it
 * for all strangers together, two fifths for one address. Beyond it their requests are refused before they are parsed, unless they
 * bring a credential that was valid a while ago. And the bytes of a chunked body are not parsed before the body is read: Node makes
 * an object of each chunk, which is 1.7 MiB and 10 ms for 64 KiB of chunks of one byte.
 */
import { hash } from 'node:crypto'
import type { IncomingMessage, Server } from 'node:http'
import type { Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import { LRUCache } from 'lru-cache'
import { addressGroup, type Refusal, refuse } from '#contract'

/** The part of the loop's time for all strangers together, and for one address. */
const SHARE = 0.5
const SHARE_OF_ADDRESS = 0.4
/** The budget of so many milliseconds may be used at once: clients with good keys that all come back after a restart. */
const MOST_MS = 1000
const MAX_ADDRESSES = 10_000
const MAX_CREDENTIALS = 10_000
/** Node's limit of a head is as long. */
const MAX_HEAD_BYTES = 16 * 1024

/** Milliseconds of the processor's time that come back with time. Below 0 it is exhausted. */
class Budget {
  readonly #share: number
  #leftMs: number
  #atMs: number

  constructor(share: number, nowMs: number) {
    this.#share = share
    this.#leftMs = MOST_MS * share
    this.#atMs = nowMs
  }

  left(nowMs: number): number {
    return Math.min(MOST_MS * this.#share, this.#leftMs + (nowMs - this.#atMs) * this.#share)
  }

  spend(ms: number, nowMs: number): void {
    this.#leftMs = this.left(nowMs) - ms
    this.#atMs = nowMs
  }
}

/** The parts that the server of Node keeps at a socket. */
interface ServedSocket extends Socket {
  readonly _httpMessage?: { readonly req: IncomingMessage } | null
  readonly _handle?: { _consumed: boolean } | null
  readonly parser?: { _consumed: boolean; consume(handle: object): void } | null
}

type RefuseOn = (socket: Socket, refusal: Refusal) => void

/** The strangers among the connections of a process: at all of its listeners together. */
export class Strangers {
  readonly now: () => number
  readonly cpuMs: () => number
  readonly #all: Budget
  readonly #addresses = new LRUCache<string, Budget>({ max: MAX_ADDRESSES })
  /** Digests of credentials that were valid. */
  readonly #credentials = new LRUCache<string, true>({ max: MAX_CREDENTIALS })

  /** @param cpuMs the processor's time that this thread has used; both in milliseconds */
  constructor(now: () => number, cpuMs: () => number) {
    this.now = now
    this.cpuMs = cpuMs
    this.#all = new Budget(SHARE, now())
  }

  /** Watches all connections of a server. @param refuseOn answers a connection for which the budget is exhausted, and ends it */
  watch(server: Server, refuseOn: RefuseOn): void {
    // Node's own listener is the first one: it has made the parser.
    server.on('connection', (socket: Socket) => new Stranger(this, socket, refuseOn))
  }

  isExhausted(address: string): boolean {
    const now = this.now()
    return Math.min(this.#all.left(now), this.#of(address, now).left(now)) < 0
  }

  spend(address: string, ms: number): void {
    const now = this.now()
    this.#all.spend(ms, now)
    this.#of(address, now).spend(ms, now)
  }

  remember(headers: IncomingMessage['headers']): void {
    for (const name of ['authorization', 'x-api-key', 'api-key', 'cookie'] as const) {
      const value = headers[name]
      if (typeof value === 'string') this.#credentials.set(digest(name, value), true)
    }
  }

  /** Whether bytes begin with a head whose first credential was valid before. */
  isRemembered(bytes: Buffer): boolean {
    const [, name, value] = CREDENTIAL.exec(bytes.toString('latin1', 0, MAX_HEAD_BYTES)) ?? []
    return name !== undefined && this.#credentials.has(digest(name.toLowerCase(), value!.trimEnd()))
  }

  #of(address: string, nowMs: number): Budget {
    let budget = this.#addresses.get(address)
    if (budget === undefined) this.#addresses.set(address, (budget = new Budget(SHARE_OF_ADDRESS, nowMs)))
    return budget
  }
}

const CREDENTIAL = /\r\n(authorization|x-api-key|api-key|cookie):[ \t]*([^\r\n]+)/i
const digest = (name: string, value: string): string => hash('sha256', `${name} ${value}`, 'base64')

/** Those of this thread. */
export const STRANGERS = new Strangers(
  () => performance.now(),
  // Not the time that passes: another process may have the processor.
  () => {
    const { user, system } = process.threadCpuUsage()
    return (user + system) / 1000
  },
)

const watched = new WeakMap<Duplex, Stranger>()

/** The client of a request is known: its connection is not watched any more. */
export function noteKnown({ socket, headers }: IncomingMessage): void {
  watched.get(socket)?.becomeKnown(headers)
}

/** Node's server has given the socket away (CONNECT): it has no parser any more. */
export function stopWatching(socket: Duplex): void {
  watched.get(socket)?.stop()
}

/** Drops the bytes of a body that will not be read. */
export function dropUnread(socket: Socket): void {
  watched.get(socket)?.dropUnread()
}

/** One connection, between its socket and Node's parser. */
class Stranger {
  readonly #strangers: Strangers
  readonly #socket: ServedSocket
  readonly #address: string
  readonly #refuseOn: RefuseOn
  readonly #parse: (bytes: Buffer) => void
  readonly #onData = (bytes: Buffer) => this.#take(bytes)
  readonly #onResume = () => this.#takeUnread()
  /** Bytes of a body whose reading has not begun. */
  #unread: Buffer[] = []
  #isOver = false

  constructor(strangers: Strangers, socket: ServedSocket, refuseOn: RefuseOn) {
    this.#strangers = strangers
    this.#socket = socket
    this.#address = addressGroup(socket.remoteAddress ?? '')
    this.#refuseOn = refuseOn
    this.#parse = socket.listeners('data')[0] as (bytes: Buffer) => void
    watched.set(socket, this)
    socket.off('data', this.#parse)
    // With another listener, Node takes its parser off the handle of the socket.
    socket.on('data', this.#onData)
    socket.on('resume', this.#onResume)
  }

  becomeKnown(headers: IncomingMessage['headers']): void {
    watched.delete(this.#socket)
    this.#strangers.remember(headers)
  }

  dropUnread(): void {
    this.#unread = []
  }

  stop(): void {
    this.#unread = []
    this.#isOver = true
    this.#socket.off('data', this.#onData)
    this.#socket.off('resume', this.#onResume)
  }

  #take(bytes: Buffer): void {
    if (!watched.has(this.#socket)) {
      this.#giveBack()
      this.#parse(bytes)
    } else if (isUnread(this.#socket)) this.#keep(bytes)
    else if (this.#strangers.isExhausted(this.#address) && !this.#strangers.isRemembered(bytes)) this.#refuse()
    else {
      const before = this.#strangers.cpuMs()
      this.#parseHeadFirst(bytes)
      this.#strangers.spend(this.#address, this.#strangers.cpuMs() - before)
    }
  }

  #parseHeadFirst(bytes: Buffer): void {
    const end = endOfChunkedHead(bytes)
    this.#parse(bytes.subarray(0, end))
    if (end === bytes.length || this.#isOver || this.#socket.destroyed) return
    if (isUnread(this.#socket)) this.#keep(bytes.subarray(end))
    else this.#parse(bytes.subarray(end))
  }

  #keep(bytes: Buffer): void {
    this.#unread.push(bytes)
    this.#socket.pause()
  }

  /** The reading of the body begins, or the answer is over and Node goes on reading. */
  #takeUnread(): void {
    for (const bytes of this.#unread.splice(0)) this.#take(bytes)
  }

  #refuse(): void {
    this.stop()
    const options = { retryAfterMs: 1000, detail: 'too many requests of unknown clients' }
    this.#refuseOn(this.#socket, refuse('overloaded', options))
  }

  /** As Node's own listener does it: the parser reads from the socket's handle, without JavaScript in between. */
  #giveBack(): void {
    const { parser, _handle: handle } = this.#socket
    this.stop()
    this.#socket.on('data', this.#parse)
    if (!parser || !handle || handle._consumed) return
    parser._consumed = true
    handle._consumed = true
    parser.consume(handle)
  }
}

/** Whether a request of a chunked body is in progress whose reading has not begun. */
function isUnread({ _httpMessage: owed }: ServedSocket): boolean {
  if (!owed) return false
  const { req } = owed
  return req.headers['transfer-encoding'] !== undefined && !req.complete && req.readableFlowing === null
}

/** Where the head of a request with a chunked body ends; for all other bytes their length. */
function endOfChunkedHead(bytes: Buffer): number {
  const end = bytes.indexOf('\r\n\r\n')
  if (end === -1) return bytes.length
  return /\r\ntransfer-encoding:/i.test(bytes.toString('latin1', 0, end)) ? end + 4 : bytes.length
}
