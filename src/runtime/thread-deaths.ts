/** The serving threads that have ended because of an error: three within a minute are a fault that lasts. */

const MAX_DEATHS = 3
const MINUTE_MS = 60_000

export class ThreadDeaths {
  readonly #now: () => number
  readonly #recent: number[] = []
  /** Since the start. */
  all = 0
  /** Why the last one ended. */
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

  /** How many there were within the last minute. */
  ofMinute(): number {
    const now = this.#now()
    while (this.#recent.length > 0 && now - this.#recent[0]! > MINUTE_MS) this.#recent.shift()
    return this.#recent.length
  }

  /** Null when there were few. */
  problem(): string | null {
    const recent = this.ofMinute()
    return recent < MAX_DEATHS ? null : `${recent} serving threads have ended within a minute: ${this.last}`
  }
}
