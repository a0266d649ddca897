/** The time that steps have to return when their exchange is over. */

import { Chain, type Link } from '../../common/chain.ts'

/** Who waits for a step. */
export interface Patient {
  /** Its place, and since when it has it, in parts; for the clock alone. */
  graceLink: Link<Patient> | null
  graceSince: number
  /** The time is over. */
  giveUp(): void
}

/** How finely time is measured here: a step is given up at most so many parts of its time too late. */
const GRACE_PARTS = 8

/** One timer for all exchanges whose steps have so long. Adding one, or giving it its time anew, costs no timer. */
export class GraceClock {
  readonly #partMs: number
  readonly #onIdle: () => void
  readonly #patients = new Chain<Patient>()
  #now = 0
  #timer: NodeJS.Timeout | null = null

  /** @param onIdle called when the last one that waited has left */
  constructor(graceMs: number, onIdle: () => void = () => {}) {
    this.#partMs = graceMs / GRACE_PARTS
    this.#onIdle = onIdle
  }

  add(each: Patient): void {
    this.delete(each)
    each.graceLink = this.#patients.add(each)
    each.graceSince = this.#now
    if (this.#timer === null) {
      this.#timer = setInterval(() => this.#tick(), this.#partMs)
      this.#timer.unref()
    }
  }

  delete(each: Patient): void {
    if (each.graceLink === null) return
    this.#patients.remove(each.graceLink)
    each.graceLink = null
  }

  #tick(): void {
    if (this.#patients.size === 0) {
      clearInterval(this.#timer!)
      this.#timer = null
      this.#onIdle()
      return
    }
    this.#now++
    for (const each of this.#patients) {
      if (this.#now - each.graceSince <= GRACE_PARTS) continue
      this.delete(each)
      each.giveUp()
    }
  }
}

const graceClocks = new Map<number, GraceClock>()

/** The clock for steps with so much time. An idle one is forgotten, because a reload may have changed the time. */
export function graceClock(graceMs: number): GraceClock {
  let clock = graceClocks.get(graceMs)
  if (!clock) {
    clock = new GraceClock(graceMs, () => graceClocks.delete(graceMs))
    graceClocks.set(graceMs, clock)
  }
  return clock
}
