/** Counts serving threads that ended because of an error: three within a minute are a lasting fault. */

const MAX_DEATHS = 3
const MINUTE_MS = 60_000

export class ThreadDeaths {
  readonly #now: () => number
  readonly #recent: number[] = []
  /** Since the start. */
  all = 0
  /** The error of the last one. */
  last = ''

  /** @param now monotonic milliseconds */
  constructor(now: () => number) {
    this.#now = now
  }

  add(reason: string): void {
    this.#recent.push(this.#now())
    this.all++
    this.last = reason
  }

  /** The number within the last minute. */
  ofMinute(): number {
    const now = this.#now()
    while (this.#recent.length > 0 && now - this.#recent[0]! > MINUTE_MS) this.#recent.shift()
    return this.#recent.length
  }

  /** Null below the limit. */
  problem(): string | null {
    const recent = this.ofMinute()
    return recent < MAX_DEATHS ? null : `${recent} serving threads have ended within a minute: ${this.last}`
  }
}
