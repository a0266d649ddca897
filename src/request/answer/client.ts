/**
 * The client's end of an exchange: writes with backpressure, detects clients that disconnect or stop reading, and sends `: ping` during
 * silence.
 */
import type { ServerResponse } from 'node:http'
import { ByteCollector } from '../../common/bytes.ts'
import type { DeadlineClock } from '../../common/clock.ts'

export interface ClientOptions {
  readonly deadlineClock: DeadlineClock
  /** A client that does not read `PIECE_BYTES`, or all waiting bytes, within this time is cut off. */
  readonly stallMs: number
  /** Silence before the first comment, and between comments. The first comment commits status 200. */
  readonly heartbeat: { readonly firstMs: number; readonly everyMs: number }
}

/** The owner of a client: it is notified of the client's events. */
export interface ClientOwner {
  /** A whole answer of this size is kept until it is flushed. */
  onWhole(bytes: number): void
  /** The client disconnected (a FIN counts: half-closed connections are not supported), or was cut because it stalled. */
  onLeave(): void
  /**
   * The kernel has all bytes, or the connection is closed; the process may end only then. An answer behind another one on its connection
   * (pipelining) waits for that one first.
   */
  onFlushed(): void
}

/** The part of a large answer that a client must read within the stall time. */
const PIECE_BYTES = 256 * 1024

/** A body below this is sent with its head as one string, in one write. Node allocates no buffer for a string of up to 16 KiB. */
const SHORT_BYTES = 8 * 1024

/** The stall time during shutdown. */
const HURRY_MS = 2_000

/** Shorter frames behind a pending write are written together, because Node needs about 500 bytes per write. */
const SMALL_BYTES = 4096

const PING = Buffer.from(': ping\n\n')

/** Headers of this connection only (RFC 9110, 7.6.1). Node and the gateway set them; a step's would contradict. */
const HOP_BY_HOP = ['connection', 'keep-alive', 'upgrade', 'trailer']

/** Headers that only the gateway may set: a step's would break the framing. */
export const FRAMING: readonly string[] = ['content-length', 'content-encoding', 'transfer-encoding', ...HOP_BY_HOP]

const STREAM_HEAD = {
  'content-type': 'text/event-stream; charset=utf-8',
  'cache-control': 'no-cache, no-transform',
  'x-accel-buffering': 'no',
}

export class Client {
  readonly #response: ServerResponse
  readonly #owner: ClientOwner
  readonly #options: ClientOptions
  readonly #unwatch: () => void
  #stallMs: number
  #blockedSince = 0
  #lastWrite: number
  #beating = false
  #pinged = false
  #left = false
  #ended = false
  /** Koa writes the answer; here it is only watched. */
  #released = false
  #unsentBytes = 0
  #hurriedSince = 0
  #resume: (() => void) | null = null
  /** Frames behind a pending write: they are sent together when it is done. */
  #queue: ByteCollector | null = null
  #isWriting = false
  #isQueueFull = false
  /** When the first piece of an answer (not a comment) was written; monotonic milliseconds. */
  firstWriteMs: number | null = null
  /** When the exchange began; monotonic milliseconds. */
  readonly openedMs: number
  /** Whether `onFlushed` was called. */
  isFlushed = false
  #awaitsDrain = false

  constructor(response: ServerResponse, owner: ClientOwner, options: ClientOptions) {
    this.#response = response
    this.#owner = owner
    this.#options = options
    this.#stallMs = options.stallMs
    this.#lastWrite = this.openedMs = options.deadlineClock.now()
    this.#unwatch = options.deadlineClock.watch(now => this.#look(now))
    if (response.destroyed || response.socket?.destroyed) this.#closed()
    // Node emits it after `finish` too.
    else response.on('close', () => this.#closed())
  }

  get left(): boolean {
    return this.#left
  }

  /** Whether the head was sent. After that, an error can only be sent in the stream. */
  get headSent(): boolean {
    return this.#response.headersSent
  }

  /** Sends comments during silence from now on. Call it when a streamed request was sent to a provider. */
  startHeartbeat(): void {
    this.#beating = true
    this.#lastWrite = this.#options.deadlineClock.now()
  }

  /**
   * Writes a piece of a stream, with the head before the first one.
   * @returns false if the client does not keep up: write nothing more until the callback of `onResume` is called
   */
  writeStream(frame: Buffer): boolean {
    this.firstWriteMs ??= this.#options.deadlineClock.now()
    return this.#write(frame)
  }

  /** Writes the head. Throws Node's error for a header or status that cannot be sent; nothing was sent then. */
  writeHead(status: number, headers: Readonly<Record<string, string | number>>): void {
    this.#drop(FRAMING)
    this.#response.writeHead(status, headers)
  }

  #drop(names: readonly string[]): void {
    const response = this.#response
    // Removing a missing header makes Node omit its own default.
    for (const name of response.getHeaderNames()) {
      if (!names.includes(name)) continue
      response.removeHeader(name)
      // Removing an existing header does the same, but the connection header must be sent.
      if (name === 'connection') response.setHeader(name, response.shouldKeepAlive ? 'keep-alive' : 'close')
    }
  }

  #write(frame: Buffer): boolean {
    if (this.#left) return true
    if (!this.#response.headersSent) this.writeHead(200, STREAM_HEAD)
    this.#lastWrite = this.#options.deadlineClock.now()
    const keepsUp = this.#hand(frame)
    if (!keepsUp && this.#blockedSince === 0) this.#blockedSince = this.#lastWrite
    return keepsUp
  }

  #hand(frame: Buffer): boolean {
    const response = this.#response
    if (this.#isWriting) {
      this.#queue ??= new ByteCollector()
      this.#queue.add(frame)
      this.#isQueueFull = this.#queue.held + response.writableLength >= response.writableHighWaterMark
      return !this.#isQueueFull
    }
    if (response.writableLength === 0 || frame.length >= SMALL_BYTES) return this.#keepsUp(response.write(frame))
    this.#isWriting = true
    return this.#keepsUp(response.write(frame, () => this.#written()))
  }

  /** @param keepsUp the result of a write; if false, the response emits `drain` later */
  #keepsUp(keepsUp: boolean): boolean {
    if (!keepsUp && !this.#awaitsDrain) {
      this.#awaitsDrain = true
      this.#response.once('drain', () => {
        this.#awaitsDrain = false
        this.#drained()
      })
    }
    return keepsUp
  }

  /** A write has reached the kernel. */
  #written(): void {
    this.#isWriting = false
    if (this.#ended || this.#response.destroyed || !this.#queue || this.#queue.size === 0) return
    const wasFull = this.#isQueueFull
    this.#isQueueFull = false
    if (this.#keepsUp(this.#response.write(this.#queue.take())) && wasFull) this.#drained()
  }

  /** The frame with the queued frames before it. */
  #withQueue(frame: Buffer): Buffer {
    if (!this.#queue || this.#queue.size === 0) return frame
    this.#queue.add(frame)
    return this.#queue.take()
  }

  /** Sets the callback for when the client has read what was written. It is also called when the client disconnects. */
  onResume(resume: () => void): void {
    this.#resume = resume
  }

  endStream(frame: Buffer): void {
    if (this.#left || this.#ended) return
    // The call that may throw comes first: an answer has ended only if it was sent.
    if (!this.#response.headersSent) this.writeHead(200, STREAM_HEAD)
    this.#finish()
    this.#response.end(this.#withQueue(frame))
  }

  /** Sends a whole answer. Throws if its head cannot be sent; another one can still be sent then. */
  sendWhole(status: number, headers: Readonly<Record<string, string | number>>, body: Buffer | string): void {
    if (this.#left || this.#ended) return
    const bytes = typeof body === 'string' ? Buffer.from(body) : body
    this.writeHead(status, status === 204 ? headers : { ...headers, 'content-length': bytes.length })
    this.#finish()
    this.#owner.onWhole(bytes.length)
    this.#sendRest(bytes)
  }

  /** Sends a large body in pieces, to distinguish a client that reads slowly from one that has stopped. */
  #sendRest(bytes: Buffer): void {
    let at = 0
    const sendNext = () => {
      while (bytes.length - at > PIECE_BYTES) {
        const from = at
        at += PIECE_BYTES
        if (!this.#write(bytes.subarray(from, at))) return
      }
      this.#resume = null
      this.#blockedSince = this.#options.deadlineClock.now()
      const rest = bytes.subarray(at)
      if (rest.length > SHORT_BYTES) this.#response.end(rest)
      else this.#response.end(rest.toString('latin1'), 'latin1')
    }
    this.#resume = sendNext
    sendNext()
  }

  /** Called at shutdown: a client that stops reading is now cut after two seconds. */
  hurry(): void {
    this.#stallMs = Math.min(this.#stallMs, HURRY_MS)
    this.#hurriedSince = this.#options.deadlineClock.now()
    if (this.#blockedSince > 0) this.#blockedSince = this.#options.deadlineClock.now()
  }

  /**
   * Koa writes from now on, and a close no longer counts as a disconnect. Koa's answer may be a slow stream of a step. So the stall time
   * begins when bytes wait for the client, and restarts whenever the client reads some of them.
   */
  release(): void {
    if (this.#ended) return
    this.#ended = true
    this.#beating = false
    this.#released = true
    this.#blockedSince = 0
    this.#response.on('drain', () => this.#drained())
    if (!this.#response.headersSent) this.#drop(HOP_BY_HOP)
  }

  /** Breaks the connection, if no error can be sent: otherwise the client would wait. */
  destroy(): void {
    if (!this.#response.writableEnded) this.#response.destroy()
  }

  /** The deadline clock is still watched: the client may stall on the rest. */
  #finish(): void {
    this.#ended = true
    this.#beating = false
    if (this.#blockedSince === 0) this.#blockedSince = this.#options.deadlineClock.now()
  }

  /** The response is closed: the kernel has all its bytes, or the client disconnected. */
  #closed(): void {
    this.#unwatch()
    if (!this.#left && !this.#ended) {
      this.#left = true
      this.#beating = false
      this.#owner.onLeave()
      this.#resume?.()
    }
    this.isFlushed = true
    this.#owner.onFlushed()
  }

  #drained(): void {
    this.#blockedSince = 0
    this.#resume?.()
  }

  #look(now: number): void {
    // The answer waits behind another one on its connection, so the client cannot have read it.
    if (this.#response.socket === null) {
      if (this.#blockedSince > 0) this.#blockedSince = now
    } else if (this.#released) this.#lookAtKoa(now)
    if (this.#blockedSince > 0) {
      if (now - this.#blockedSince > this.#stallMs) this.#response.destroy()
      return
    }
    if (!this.#beating) return
    const { firstMs, everyMs } = this.#options.heartbeat
    if (now - this.#lastWrite < (this.#pinged ? everyMs : firstMs)) return
    this.#pinged = true
    this.#write(PING)
  }

  /** Koa's writes are not visible here, only the bytes that wait. */
  #lookAtKoa(now: number): void {
    const bytes = this.#response.writableLength
    if (bytes === 0) this.#blockedSince = 0
    else if (bytes < this.#unsentBytes || this.#blockedSince === 0) this.#blockedSince = now
    this.#unsentBytes = bytes
    // An endless stream must not block the shutdown.
    const isLate = this.#hurriedSince > 0 && now - this.#hurriedSince > HURRY_MS
    if (isLate && !this.#response.writableEnded) this.#response.destroy()
  }
}
