/** How fast bodies in tiny pieces are taken: each piece costs as much as a large one, and many would leave no time for others. */

/** A piece that is shorter costs more to take than to carry. */
const TINY_BYTES = 64
/** After so many tiny pieces of a body it waits for its turn. No client library sends as many. */
const PIECES_A_TURN = 2048
/** Of all bodies together. It takes a fifth of a core. */
const PIECES_A_SECOND = 200_000

/** One for the whole process. @param nowMs a clock that does not go back */
export function createPace(nowMs: () => number) {
  let freeAtMs = 0
  return {
    /** When the next turn may begin, in milliseconds from now; at most 0: at once. Takes the turn. */
    take(pieces: number): number {
      const now = nowMs()
      freeAtMs = Math.max(freeAtMs, now) + (pieces * 1000) / PIECES_A_SECOND
      return freeAtMs - now
    },
  }
}

export type Pace = ReturnType<typeof createPace>

/** The tiny pieces of one body. */
export class TinyPieces {
  readonly #pace: Pace
  #count = 0

  constructor(pace: Pace) {
    this.#pace = pace
  }

  /** How long to read no more after this piece, in milliseconds; 0: go on. */
  count(pieceBytes: number): number {
    if (pieceBytes >= TINY_BYTES || ++this.#count < PIECES_A_TURN) return 0
    const waitMs = this.#pace.take(this.#count)
    this.#count = 0
    return waitMs
  }
}
