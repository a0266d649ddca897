/**
 * Refuses new requests while the event loop is overloaded. Without it every request waits behind all others, until clients
 * give up on answers that are still worked for. A refusal by the head costs a tenth of an answer. Connections are always
 * accepted: who asks for /livez opens one.
 *
 * The measure is the processor's time between two rounds of a timer: what the loop had to do at a stretch. It grows with the
 * requests that wait, and not because other processes have the processor.
 */

export interface OverloadOptions {
  /** So much work at a stretch is too much, in milliseconds. */
  mostMs(): number
  /** The processor's time that this thread has used, in milliseconds. */
  cpuMs(): number
  random(): number
  /** A request is refused. */
  refused(): void
  /** Told when refusing begins and when it ends. */
  changed(isOverloaded: boolean): void
}

export interface Overload {
  /** Measures; to be called on every round of the deadlineClock. */
  round(): void
  /** Whether to refuse a request whose head has come. */
  refusesRequest(): boolean
  /** To be called when it is. */
  refused(): void
}

/** So many busy rounds in a row are no coincidence: a collection of garbage, a large body. */
const ROUNDS = 5
/** What a busy round adds to the pressure, and a quiet one takes. */
const RISE = 0.1
const FALL = 0.05
/** The part of requests that is refused at most. A few are always let in: they show when it is over. */
const MAX_PRESSURE = 0.95

export function createOverload({ mostMs, cpuMs, random, changed, refused }: OverloadOptions): Overload {
  let spentMs = cpuMs()
  let busyRounds = 0
  let pressure = 0
  return {
    round() {
      const now = cpuMs()
      busyRounds = now - spentMs > mostMs() ? busyRounds + 1 : 0
      spentMs = now
      const before = pressure
      if (busyRounds >= ROUNDS) pressure = Math.min(MAX_PRESSURE, pressure + RISE)
      else if (busyRounds === 0) pressure = Math.max(0, pressure - FALL)
      if (before > 0 !== pressure > 0) changed(pressure > 0)
    },
    refusesRequest: () => pressure > 0 && random() < pressure,
    refused,
  }
}
