/** How fast bodies in tiny pieces are read: each piece costs as much as a large one, and many would leave no time for others. */
import type { IncomingMessage } from 'node:http'

/** A piece that is shorter costs more to take than to carry. */
export const TINY_BYTES = 64
/** After so many tiny pieces of a body it waits for its turn. No client library sends as many. */
const PIECES_A_TURN = 2048
/** Of all bodies together. It takes a fifth of a core. */
const PIECES_A_SECOND = 200_000

/** When the next turn may begin, in monotonic milliseconds: all bodies of the process wait in one line. */
let freeAtMs = 0

/** The reading of one body that comes in tiny pieces. */
export class PacedReading {
  readonly #request: IncomingMessage
  #pieces = 0
  #timer: NodeJS.Timeout | null = null

  constructor(request: IncomingMessage) {
    this.#request = request
  }

  /** A tiny piece has come. After a turn of them nothing more is read until the next turn. */
  took(): void {
    if (++this.#pieces < PIECES_A_TURN) return
    const now = performance.now()
    freeAtMs = Math.max(freeAtMs, now) + (this.#pieces * 1000) / PIECES_A_SECOND
    this.#pieces = 0
    this.#pause(freeAtMs - now)
  }

  /** Reads on now, whoever's turn it is: for the end of the reading too. */
  resume(): void {
    if (!this.#timer) return
    clearTimeout(this.#timer)
    this.#timer = null
    this.#request.socket.resume()
    this.#request.resume()
  }

  #pause(ms: number): void {
    if (this.#timer) clearTimeout(this.#timer)
    // What Node is taking apart now comes all the same; paused in the middle of it, its pieces would pile up.
    else setImmediate(() => this.#stop())
    this.#timer = setTimeout(() => this.resume(), ms)
  }

  #stop(): void {
    if (!this.#timer) return
    this.#request.pause()
    this.#request.socket.pause()
  }
}
