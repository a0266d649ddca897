/**
 * Time, passed in: everything below asks these and not the system, so that tests bring their own.
 *
 * The deadline clock is one interval for all deadlines of all exchanges. A stream touches its deadline with every chunk; a
 * timer of its own would have to be re-armed each time, a number that somebody looks at now and then costs nothing.
 */
import type { Clock } from '#contract'
import { Chain } from './chain.ts'

/** A day in milliseconds, in UTC. */
export const DAY_MS = 86_400_000

export const systemClock: Clock = { now: () => Date.now() }

/** Called on every round with the monotonic time in milliseconds. Must not throw. */
export type Check = (monotonicMs: number) => void

export interface DeadlineClock {
  /** Monotonic milliseconds; only differences mean something. */
  now(): number
  /** Looks in on every round until the returned function is called. */
  watch(check: Check): () => void
  stop(): void
}

/** How often the deadline clock goes round, in milliseconds. */
export const ROUND_MS = 50

/** @param roundMs how often the deadlineClock goes round; a deadline is noticed at most so much late */
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
