/**
 * Clocks. Other code gets its time from these instead of the system, so that tests can replace them.
 *
 * The deadline clock is one interval for all deadlines of all exchanges. A stream moves its deadline with every chunk. A timer of its own
 * would have to be restarted each time; comparing a number in each round costs nothing.
 */
import type { Clock } from '#contract'
import { Chain } from './chain.ts'

/** A day in UTC, in milliseconds. */
export const DAY_MS = 86_400_000

export const systemClock: Clock = { now: () => Date.now() }

/** Called in every round with the monotonic time in milliseconds. Must not throw. */
export type Check = (monotonicMs: number) => void

export interface DeadlineClock {
  /** Monotonic milliseconds; only differences are meaningful. */
  now(): number
  /** Calls `check` in every round until the returned function is called. */
  watch(check: Check): () => void
  stop(): void
}

/** The interval of the deadline clock, in milliseconds. */
export const ROUND_MS = 50

/** @param roundMs the interval; a deadline is noticed at most this late */
export function createDeadlineClock(roundMs = ROUND_MS): DeadlineClock {
  const checks = new Chain<Check>()
  let timer: NodeJS.Timeout | null = null
  const now = () => performance.now()
  const round = () => {
    if (checks.size === 0 && timer !== null) {
      clearInterval(timer)
      timer = null
    }
    const at = now()
    checks.forEach(check => void check(at))
  }
  return {
    now,
    watch(check) {
      const link = checks.add(check)
      if (timer === null) {
        timer = setInterval(round, roundMs)
        timer.unref()
      }
      return () => checks.remove(link)
    },
    stop() {
      checks.clear()
      if (timer !== null) clearInterval(timer)
      timer = null
    },
  }
}
