/** Memory shares: bytes that many owners keep at once, each within a share of its own. */

/** A memory quota. */
export interface Room {
  /** Counts bytes that are about to be kept. False: the share is used up, and nothing was counted. */
  take(bytes: number): boolean
  /** Gives counted bytes back. */
  give(bytes: number): void
}

export interface ShareLimits {
  /** The limit for all owners together, in bytes. */
  total(): number
  /**
   * The limit for one owner, in bytes.
   * @param free bytes that no owner has taken
   */
  share(free: number): number
}

/**
 * Makes an owner's share as large as the free bytes. `n` owners at their limit have `1/(n+1)` of the total each, so another always has
 * room. (Dynamic thresholds: Choudhury and Hahne, IEEE/ACM ToN 6(2), 1998.)
 *
 * @param least the minimum share of an owner, as far as the total allows
 */
export function freeShare(least: () => number): ShareLimits['share'] {
  return free => Math.max(free, least())
}

export class Shares {
  readonly #limits: ShareLimits
  readonly #taken = new Map<string, number>()
  #all = 0

  constructor(limits: ShareLimits) {
    this.#limits = limits
  }

  /** The bytes of all owners. */
  get bytes(): number {
    return this.#all
  }

  /** The bytes of one owner. */
  held(owner: string): number {
    return this.#taken.get(owner) ?? 0
  }

  /** The room of one owner, for one body. */
  of(owner: string): Room {
    return { take: bytes => this.take(owner, bytes), give: bytes => this.add(owner, -bytes) }
  }

  /** Counts bytes that are about to be kept. False: the share is used up, and nothing was counted. */
  take(owner: string, bytes: number): boolean {
    const free = this.#limits.total() - this.#all
    if (bytes > free || this.held(owner) + bytes > this.#limits.share(free)) return false
    this.add(owner, bytes)
    return true
  }

  /** Counts bytes without a check; negative: bytes that are no longer kept. */
  add(owner: string, bytes: number): void {
    const taken = this.held(owner) + bytes
    this.#all += bytes
    if (taken === 0) this.#taken.delete(owner)
    else this.#taken.set(owner, taken)
  }
}
