/** The grace period: the time that a step has to return after the answer has ended or the client has disconnected. */

import { Chain, type ChainNode } from '../../common/chain.ts'

/** An entry of the grace clock: its step is given up when the time is over. */
export interface GraceEntry {
  /** The entry's position and start, in parts of the grace period; used by the clock only. */
  graceNode: ChainNode<GraceEntry> | null
  graceSince: number
  /** Called when the time is over. */
  giveUp(): void
}

/** The number of parts of a grace period. A step is given up at most one part too late. */
const GRACE_PARTS = 8

/** One timer for all exchanges with the same grace period. Adding or restarting an entry costs no timer. */
export class GraceClock {
  readonly #partMs: number
  readonly #onIdle: () => void
  readonly #entries = new Chain<GraceEntry>()
  #now = 0
  #timer: NodeJS.Timeout | null = null

  /** @param onIdle called when the last entry was removed */
  constructor(graceMs: number, onIdle: () => void = () => {}) {
    this.#partMs = graceMs / GRACE_PARTS
    this.#onIdle = onIdle
  }

  add(each: GraceEntry): void {
    this.delete(each)
    each.graceNode = this.#entries.add(each)
    each.graceSince = this.#now
    if (this.#timer === null) {
      this.#timer = setInterval(() => this.#tick(), this.#partMs)
      this.#timer.unref()
    }
  }

  delete(each: GraceEntry): void {
    if (each.graceNode === null) return
    this.#entries.remove(each.graceNode)
    each.graceNode = null
  }

  #tick(): void {
    if (this.#entries.size === 0) {
      clearInterval(this.#timer!)
      this.#timer = null
      this.#onIdle()
      return
    }
    this.#now++
    for (const each of this.#entries) {
      if (this.#now - each.graceSince <= GRACE_PARTS) continue
      this.delete(each)
      each.giveUp()
    }
  }
}

const graceClocks = new Map<number, GraceClock>()

/** The clock for a grace period. Idle clocks are dropped, because a reload may change the period. */
export function graceClock(graceMs: number): GraceClock {
  let clock = graceClocks.get(graceMs)
  if (!clock) {
    clock = new GraceClock(graceMs, () => graceClocks.delete(graceMs))
    graceClocks.set(graceMs, clock)
  }
  return clock
}
