/** Owners of work on the event loop, with their recent use of the loop. */

/** The half-life of work, in milliseconds: after this time it counts half. */
const HALF_LIFE_MS = 1000

/** An account, or the network of a client without one. Work is in milliseconds of the event loop. */
export class WorkOwner {
  /** An owner of weight 4 has the same share with four times the work. */
  weight = 1
  /** A group whose share includes this owner's work, and is added to its share; null: none. */
  readonly group: WorkOwner | null
  /** No queued work of this owner begins before this time. */
  restUntilMs = 0
  /** Accumulated fractions of a refusal, below 1. */
  refusalDebt = 0
  #ms = 0
  #atMs = 0

  constructor(group: WorkOwner | null = null) {
    this.group = group
  }

  /** Returns its recent work divided by its weight. @param nowMs the clock of the queue */
  share(nowMs: number): number {
    const own = (this.#ms * 2 ** ((this.#atMs - nowMs) / HALF_LIFE_MS)) / this.weight
    return this.group === null ? own : own + this.group.share(nowMs)
  }

  add(ms: number, nowMs: number): void {
    this.#ms = this.#ms * 2 ** ((this.#atMs - nowMs) / HALF_LIFE_MS) + ms
    this.#atMs = nowMs
    this.group?.add(ms, nowMs)
  }
}

const ownersOfSignals = new WeakMap<AbortSignal, WorkOwner>()

/** Assigns sliced work with this signal to the owner. */
export function ownSignal(signal: AbortSignal, owner: WorkOwner): void {
  ownersOfSignals.set(signal, owner)
}

/** Returns the owner of work with this signal, if it is known. */
export function ownerOfSignal(signal: AbortSignal | undefined): WorkOwner | undefined {
  return signal && ownersOfSignals.get(signal)
}
