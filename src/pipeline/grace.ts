/** The time that steps have to return when their exchange is over. */

/** Who waits for a step. */
export interface Patient {
  /** The time is over. */
  giveUp(): void
}

/** How finely time is measured here: a step is given up at most so many parts of its time too late. */
const GRACE_PARTS = 8

/** One timer for all exchanges whose steps have so long. Adding one, or giving it its time anew, costs no timer. */
export class GraceClock {
  readonly #partMs: number
  /** When each began, in parts. */
  readonly #since = new Map<Patient, number>()
  #now = 0
  #timer: NodeJS.Timeout | null = null

  constructor(graceMs: number) {
    this.#partMs = graceMs / GRACE_PARTS
  }

  add(each: Patient): void {
    this.#since.set(each, this.#now)
    if (this.#timer === null) {
      this.#timer = setInterval(() => this.#tick(), this.#partMs)
      this.#timer.unref()
    }
  }

  delete(each: Patient): void {
    this.#since.delete(each)
  }

  #tick(): void {
    if (this.#since.size === 0) {
      clearInterval(this.#timer!)
      this.#timer = null
      return
    }
    this.#now++
    for (const [each, since] of this.#since) {
      if (this.#now - since <= GRACE_PARTS) continue
      this.#since.delete(each)
      each.giveUp()
    }
  }
}

const graceClocks = new Map<number, GraceClock>()

/** The clock of everybody who has so long. */
export function graceClock(graceMs: number): GraceClock {
  let clock = graceClocks.get(graceMs)
  if (!clock) graceClocks.set(graceMs, (clock = new GraceClock(graceMs)))
  return clock
}
