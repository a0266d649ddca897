/** Whose work the event loop does, and how much of it lately. */
/** The half-life of work: after this time it counts half, in milliseconds. */
const HALF_LIFE_MS = 1000

/** An account, or the network of a client without one. Work is in milliseconds of the event loop. */
export class WorkOwner {
  /** An owner of weight 4 has the same share with four times the work. */
  weight = 1
  /** Its work counts for this group too, and its share includes that of the group; null: it is in none. */
  readonly group: WorkOwner | null
  /** None of its work in the queue begins before this time. */
  restUntilMs = 0
  /** The part of a refusal that it has collected, below 1. */
  refusalDebt = 0
  #ms = 0
  #atMs = 0

  constructor(group: WorkOwner | null = null) {
    this.group = group
  }

  /** Its recent work by weight. @param nowMs the clock of the queue */
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

/** From now on, work in slices with this signal is the owner's. */
export function ownSignal(signal: AbortSignal, owner: WorkOwner): void {
  ownersOfSignals.set(signal, owner)
}

/** The owner of work with this signal, where one is known. */
export function ownerOfSignal(signal: AbortSignal | undefined): WorkOwner | undefined {
  return signal && ownersOfSignals.get(signal)
}
