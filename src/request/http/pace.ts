/** How fast bodies in tiny pieces are read: each piece costs as much as a large one, and many would leave no time for others. */
import type { IncomingMessage } from 'node:http'

/** A piece that is shorter costs more to take than to carry. */
export const TINY_BYTES = 64
/** After so many tiny pieces of a body it waits for its turn. No client library sends as many. */
const PIECES_A_TURN = 2048
/** Of all bodies together: they rest four times as long as they took, which leaves them a fifth of a core. */
const REST = 4

/** When the next turn may begin, in monotonic milliseconds: all bodies of the process wait in one line. */
let freeAtMs = 0

/** The reading of one body that comes in tiny pieces. */
export class PacedReading {
  readonly #request: IncomingMessage
  /** Of this turn. */
  #pieces = 0
  #tookMs = 0
  /** When the first piece came of those that Node is taking apart now; null between them. */
  #beganMs: number | null = null
  #timer: NodeJS.Timeout | null = null
  #isOver = false

  constructor(request: IncomingMessage) {
    this.#request = request
  }

  /** A tiny piece has come. */
  took(): void {
    this.#pieces++
    if (this.#beganMs !== null) return
    this.#beganMs = performance.now()
    // Node takes apart all that it has read at once. Paused in the middle of it, its pieces would pile up.
    setImmediate(() => this.#tookAll(performance.now()))
  }

  /** The body has come, or nobody wants it any more: its connection is read on. */
  end(): void {
    this.#isOver = true
    this.#resume()
  }

  /** After a turn of pieces nothing more is read until the next turn. */
  #tookAll(nowMs: number): void {
    this.#tookMs += nowMs - this.#beganMs!
    this.#beganMs = null
    if (this.#pieces < PIECES_A_TURN || this.#isOver) return
    freeAtMs = Math.max(freeAtMs, nowMs) + this.#tookMs * REST
    this.#pieces = 0
    this.#tookMs = 0
    this.#request.pause()
    this.#request.socket.pause()
    this.#timer = setTimeout(() => this.#resume(), freeAtMs - nowMs)
  }

  #resume(): void {
    if (!this.#timer) return
    clearTimeout(this.#timer)
    this.#timer = null
    this.#request.socket.resume()
    this.#request.resume()
  }
}
