/**
 * The client's end of an exchange: writes with backpressure, notices that the client has gone or takes nothing, and
 * says `: ping` while there is nothing else to say.
 */
import type { ServerResponse } from 'node:http'
import { ByteCollector } from '../../common/bytes.ts'
import type { DeadlineClock } from '../../common/clock.ts'

export interface ClientOptions {
  readonly deadlineClock: DeadlineClock
  /** A client that takes nothing for so long is cut. */
  readonly stallMs: number
  /** Silence until the first comment, and between comments. The first one commits status 200. */
  readonly heartbeat: { readonly firstMs: number; readonly everyMs: number }
}

/** Whose client it is. */
export interface ClientOwner {
  /** A whole answer of so many bytes is kept until it is flushed. */
  onWhole(bytes: number): void
  /** The client has left (a FIN is leaving: there is no half-close here), or was cut because it stalled. */
  onLeave(): void
  /**
   * The kernel has everything, or the connection is gone: only then may the process end. An answer behind another one on
   * its connection (pipelining) waits for that one first.
   */
  onFlushed(): void
}

/** A client that does not take so much within its time counts as one that takes nothing. */
const PIECE_BYTES = 256 * 1024

/** A shorter body and its head leave as one string, in one write. Node writes up to 16 KiB so without a buffer. */
const SHORT_BYTES = 8 * 1024

/** So long when nobody can be waited for any more. */
const HURRY_MS = 2_000

/** Node takes about 500 bytes for a write, so what is shorter is not written by itself behind others. */
const SMALL_BYTES = 4096

const PING = Buffer.from(': ping\n\n')

/** Of this connection and no other (RFC 9110, 7.6.1): Node and the gateway say them, a step's would contradict. */
const HOP_BY_HOP = ['connection', 'keep-alive', 'upgrade', 'trailer']

/** Headers that only the gateway can know: one set by a step would break the framing. */
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
  /** Somebody else writes the answer; here it is only watched. */
  #released = false
  #unsentBytes = 0
  #hurriedSince = 0
  #resume: (() => void) | null = null
  /** Frames behind a write that is on its way: they leave together when it is done. */
  #queue: ByteCollector | null = null
  #isWriting = false
  #isQueueFull = false
  /** When the first piece of an answer (not a comment) was written; monotonic milliseconds. */
  firstWriteMs: number | null = null
  /** When the exchange began; monotonic milliseconds. */
  readonly openedMs: number
  /** Whether the owner was told `onFlushed`. */
  isFlushed = false
  #awaitsDrain = false

  constructor(response: ServerResponse, owner: ClientOwner, options: ClientOptions) {
    this.#response = response
    this.#owner = owner
    this.#options = options
    this.#stallMs = options.stallMs
    this.#lastWrite = this.openedMs = options.deadlineClock.now()
    this.#unwatch = options.deadlineClock.watch(now => this.#look(now))
    if (response.destroyed || response.socket?.destroyed) this.#gone()
    // Node emits it behind `finish` too.
    else response.on('close', () => this.#gone())
  }

  get left(): boolean {
    return this.#left
  }

  /** Whether the status has left: from then on a failure can only be told in the stream. */
  get headSent(): boolean {
    return this.#response.headersSent
  }

  /** From now on silence is filled with comments: something was sent to a provider and a stream was asked for. */
  startHeartbeat(): void {
    this.#beating = true
    this.#lastWrite = this.#options.deadlineClock.now()
  }

  /**
   * Writes a piece of a stream, with the head before the first one.
   * @returns false when the client does not keep up: write nothing more until `onResume`'s callback is called
   */
  writeStream(frame: Buffer): boolean {
    this.firstWriteMs ??= this.#options.deadlineClock.now()
    return this.#write(frame)
  }

  /** Throws what Node says about a header or status that cannot be sent; nothing has left then. */
  writeHead(status: number, headers: Readonly<Record<string, string | number>>): void {
    this.#drop(FRAMING)
    this.#response.writeHead(status, headers)
  }

  #drop(names: readonly string[]): void {
    const response = this.#response
    // Node takes the removal of a header that is not there as a wish to send none.
    for (const name of response.getHeaderNames()) {
      if (!names.includes(name)) continue
      response.removeHeader(name)
      // ... and that of one that is there too; whether the connection stays must be said all the same.
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

  /** @param keepsUp what a write has returned; when it has not, the response says when it has drained */
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

  /** What was written has reached the kernel. */
  #written(): void {
    this.#isWriting = false
    if (this.#ended || this.#response.destroyed || !this.#queue || this.#queue.size === 0) return
    const wasFull = this.#isQueueFull
    this.#isQueueFull = false
    if (this.#keepsUp(this.#response.write(this.#queue.take())) && wasFull) this.#drained()
  }

  /** The frame with what waits before it. */
  #withQueue(frame: Buffer): Buffer {
    if (!this.#queue || this.#queue.size === 0) return frame
    this.#queue.add(frame)
    return this.#queue.take()
  }

  /** Whom to call when the client has taken what was written. Leaving counts: nobody waits for a client that is gone. */
  onResume(resume: () => void): void {
    this.#resume = resume
  }

  /** Ends a stream. */
  endStream(frame: Buffer): void {
    if (this.#left || this.#ended) return
    // First what may throw: an answer has ended only when there is one.
    if (!this.#response.headersSent) this.writeHead(200, STREAM_HEAD)
    this.#finish()
    this.#response.end(this.#withQueue(frame))
  }

  /** Sends a whole answer. Throws when its head cannot be sent; then another one can still be given. */
  sendWhole(status: number, headers: Readonly<Record<string, string | number>>, body: Buffer | string): void {
    if (this.#left || this.#ended) return
    const bytes = typeof body === 'string' ? Buffer.from(body) : body
    this.writeHead(status, status === 204 ? headers : { ...headers, 'content-length': bytes.length })
    this.#finish()
    this.#owner.onWhole(bytes.length)
    this.#sendRest(bytes)
  }

  /** A large body goes in pieces: so a client that takes one now and then is told from one that takes nothing. */
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

  /** The gateway ends: from now on a client that takes nothing is cut after two seconds. */
  hurry(): void {
    this.#stallMs = Math.min(this.#stallMs, HURRY_MS)
    this.#hurriedSince = this.#options.deadlineClock.now()
    if (this.#blockedSince > 0) this.#blockedSince = this.#options.deadlineClock.now()
  }

  /**
   * Koa writes from now on, and closing is no longer leaving. Its answer may be a stream of a step that takes its time:
   * so the client's time begins when something waits for it, and anew whenever it has taken of that.
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

  /** The last resort: an answer for which there are no words is a broken connection, not silence. */
  destroy(): void {
    if (!this.#response.writableEnded) this.#response.destroy()
  }

  /** The deadlineClock stays: the client may still refuse to take the rest. */
  #finish(): void {
    this.#ended = true
    this.#beating = false
    if (this.#blockedSince === 0) this.#blockedSince = this.#options.deadlineClock.now()
  }

  /** Nothing more reaches it: it has everything, or its connection is gone. */
  #gone(): void {
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
    // Behind another answer on its connection: this client has not been offered anything yet.
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

  /** What Koa writes is not seen here; what of it waits is. */
  #lookAtKoa(now: number): void {
    const bytes = this.#response.writableLength
    if (bytes === 0) this.#blockedSince = 0
    else if (bytes < this.#unsentBytes || this.#blockedSince === 0) this.#blockedSince = now
    this.#unsentBytes = bytes
    // A stream that need not end does not keep the gateway from ending.
    const isLate = this.#hurriedSince > 0 && now - this.#hurriedSince > HURRY_MS
    if (isLate && !this.#response.writableEnded) this.#response.destroy()
  }
}
