/** Bytes that many owners keep in memory at once, each within a share of its own. */

/** Where bytes are counted. */
export interface Room {
  /** Counts bytes that are about to be kept. False: there is no room for them, and nothing was counted. */
  take(bytes: number): boolean
  give(bytes: number): void
}

export interface ShareLimits {
  /** All owners together, in bytes. */
  total(): number
  /**
   * What one owner may have at most, in bytes.
   * @param free what nobody has
   */
  share(free: number): number
}

/**
 * The share of an owner as a part of what is still free: `n` owners that take all they can have `1/(n+1)` of the total
 * each, so there is room for one more at any time. (Dynamic thresholds: Choudhury and Hahne, IEEE/ACM ToN 6(2), 1998.)
 *
 * @param least what an owner may have in any case, as far as the total allows it
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

  /** What all owners have, in bytes. */
  get bytes(): number {
    return this.#all
  }

  /** What one owner has, in bytes. */
  held(owner: string): number {
    return this.#taken.get(owner) ?? 0
  }

  /** The room of one owner, for one body. */
  of(owner: string): Room {
    return { take: bytes => this.take(owner, bytes), give: bytes => this.add(owner, -bytes) }
  }

  /** Counts bytes that are about to be kept. False: there is no room for them, and nothing was counted. */
  take(owner: string, bytes: number): boolean {
    const free = this.#limits.total() - this.#all
    if (bytes > free || this.held(owner) + bytes > this.#limits.share(free)) return false
    this.add(owner, bytes)
    return true
  }

  /** Counts bytes that are kept in any case; less than 0: that are kept no longer. */
  add(owner: string, bytes: number): void {
    const taken = this.held(owner) + bytes
    this.#all += bytes
    if (taken === 0) this.#taken.delete(owner)
    else this.#taken.set(owner, taken)
  }
}
