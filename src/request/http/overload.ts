/**
 * Refuses new requests while the event loop is overloaded: those of the accounts and networks with most of the load. Otherwise every
 * request waits behind all others, and clients give up on answers that are still in progress. A refusal by the head costs a tenth of an
 * answer. Connections are always accepted: /livez needs one.
 *
 * The signal is a delay: how long work has waited since it was ready. It is the longer of two: the delay of the queue of sliced work, and
 * the CPU time of a timer round beyond its interval. Time in which other processes have the processor does not count.
 */
import type { SliceQueue, WorkOwner } from '#contract'

export interface OverloadOptions {
  /** The longest acceptable delay, in milliseconds. */
  mostMs(): number
  /** The interval of rounds, in milliseconds. */
  readonly roundMs: number
  /** The CPU time that this thread has used, in milliseconds. */
  cpuMs(): number
  readonly slices: Pick<SliceQueue, 'delay' | 'isHeavy' | 'waitOf'>
  /** Called when a request is refused. */
  refused(): void
  /** Called when refusing begins and when it ends. */
  changed(isOverloaded: boolean): void
}

export interface Overload {
  /** Measures the delay. Call it on every round of the deadline clock. @param nowMs its monotonic time */
  round(nowMs: number): void
  /** Whether requests are refused at all. */
  isActive(): boolean
  /** Whether to refuse a request of that owner. A request is judged once for each owner. */
  refuses(request: object, owner: WorkOwner): boolean
  /** Call it when a request is refused. */
  refused(): void
}

/** Refusing begins after this number of late rounds in a row. A garbage collection or a large body makes fewer. */
const ROUNDS = 10
/** A late round adds RISE to the pressure, and a round in time subtracts FALL. */
const RISE = 0.1
const FALL = 0.05
/** The highest share of requests that is refused. The rest show when the overload is over. */
const MAX_PRESSURE = 0.95
/** An owner's new work is refused, overload or not, if its oldest work has waited for this multiple of the acceptable delay. */
const LONGEST_WAIT = 40

export function createOverload({ mostMs, roundMs, cpuMs, slices, changed, refused }: OverloadOptions): Overload {
  let spentMs = cpuMs()
  let atMs = Number.NEGATIVE_INFINITY
  let lateRounds = 0
  let pressure = 0
  const judged = new WeakMap<object, WorkOwner>()
  return {
    isActive: () => pressure > 0,
    round(nowMs) {
      const usedMs = cpuMs() - spentMs
      // Ready work waits only for the processor. So the wait counts in proportion to the CPU time that the thread had.
      const delayMs = Math.max(usedMs - roundMs, slices.delay() * Math.min(1, usedMs / (nowMs - atMs)))
      spentMs += usedMs
      atMs = nowMs
      lateRounds = delayMs > mostMs() ? lateRounds + 1 : 0
      const before = pressure
      if (lateRounds >= ROUNDS) pressure = Math.min(MAX_PRESSURE, pressure + RISE)
      else if (lateRounds === 0) pressure = Math.max(0, pressure - FALL)
      if (before > 0 !== pressure > 0) changed(pressure > 0)
    },
    refuses(request, owner) {
      if (slices.waitOf(owner) > LONGEST_WAIT * mostMs()) return true
      if (pressure === 0 || judged.get(request) === owner || !slices.isHeavy(owner)) return false
      judged.set(request, owner)
      owner.refusalDebt += pressure
      if (owner.refusalDebt < 1) return false
      owner.refusalDebt--
      return true
    },
    refused,
  }
}
