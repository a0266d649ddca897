/**
 * Refuses new requests while the event loop is overloaded: requests of the accounts and networks that have most of it. Without it
 * every request waits behind all others, until clients give up on answers that are still worked for. A refusal by the head costs a
 * tenth of an answer. Connections are always accepted: who asks for /livez opens one.
 *
 * The signal is a delay: how long work has waited since it was ready. It is measured at the queue of sliced work, and as the
 * processor's time by which a round of the timer is late. Other processes that have the processor do not count.
 */
import type { SliceQueue, WorkOwner } from '#contract'

export interface OverloadOptions {
  /** The longest acceptable delay, in milliseconds. */
  mostMs(): number
  /** Between two rounds, in milliseconds. */
  readonly roundMs: number
  /** The processor's time that this thread has used, in milliseconds. */
  cpuMs(): number
  readonly slices: Pick<SliceQueue, 'delay' | 'isHeavy' | 'waitOf'>
  /** A request is refused. */
  refused(): void
  /** Called when refusing begins and when it ends. */
  changed(isOverloaded: boolean): void
}

export interface Overload {
  /** Measures; to be called on every round of the deadlineClock. */
  round(): void
  /** Whether to refuse a request of that owner. */
  refuses(owner: WorkOwner): boolean
  /** To be called when it is. */
  refused(): void
}

/** So many late rounds in a row are no coincidence: a collection of garbage, a large body. */
const ROUNDS = 5
/** What a late round adds to the pressure, and another one takes. */
const RISE = 0.1
const FALL = 0.05
/** The part of requests that is refused at most. A few are always let in: they show when it is over. */
const MAX_PRESSURE = 0.95
/** An owner whose work has waited for so long gets no more of it, also when the loop is not overloaded. */
const LONGEST_WAIT_MS = 2000

export function createOverload({ mostMs, roundMs, cpuMs, slices, changed, refused }: OverloadOptions): Overload {
  let spentMs = cpuMs()
  let lateRounds = 0
  let pressure = 0
  return {
    round() {
      const now = cpuMs()
      const delayMs = Math.max(now - spentMs - roundMs, slices.delay())
      spentMs = now
      lateRounds = delayMs > mostMs() ? lateRounds + 1 : 0
      const before = pressure
      if (lateRounds >= ROUNDS) pressure = Math.min(MAX_PRESSURE, pressure + RISE)
      else if (lateRounds === 0) pressure = Math.max(0, pressure - FALL)
      if (before > 0 !== pressure > 0) changed(pressure > 0)
    },
    refuses(owner) {
      if (slices.waitOf(owner) > LONGEST_WAIT_MS) return true
      if (pressure === 0 || !slices.isHeavy(owner)) return false
      owner.refusalDebt += pressure
      if (owner.refusalDebt < 1) return false
      owner.refusalDebt--
      return true
    },
    refused,
  }
}
