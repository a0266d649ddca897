/**
 * Time that stands still until somebody lets it pass: the clock that plugins ask, and the deadline clock over the gateway's
 * deadlines. What falls due on the way happens at its moment.
 */
import type { Clock, Random } from '#contract'
import type { Check, DeadlineClock } from '../common/clock.ts'

/** A test's own time. */
export interface BenchTime {
  readonly clock: Clock
  readonly deadlineClock: DeadlineClock
  /** Lets so many milliseconds pass. */
  pass(ms: number): Promise<void>
}

/** 2027-01-15 08:00 UTC. */
export const STANDARD_START_MS = 1_800_000_000_000

/** As often as the real deadlineClock goes round; a long time is passed in longer rounds. */
const ROUND_MS = 50
const MAX_ROUNDS = 400

export function createTime(startMs = STANDARD_START_MS): BenchTime {
  const checks = new Set<Check>()
  // Not 0: the product takes 0 for "never".
  let passedMs = 1_000
  const deadlineClock: DeadlineClock = {
    now: () => passedMs,
    watch(check) {
      checks.add(check)
      return () => checks.delete(check)
    },
    stop: () => checks.clear(),
  }
  return {
    clock: { now: () => startMs + Math.floor(passedMs) - 1_000 },
    deadlineClock,
    async pass(ms) {
      const end = passedMs + ms
      const round = Math.max(ROUND_MS, Math.ceil(ms / MAX_ROUNDS))
      while (passedMs < end) {
        passedMs = Math.min(end, passedMs + round)
        for (const check of checks) check(passedMs)
        await turn()
      }
    },
  }
}

/** Chance that is the same in every run: the middle of everything. */
export function sameNumbers(): Random {
  return () => 0.5
}

/** Until all that is ready to happen has happened. */
export async function turn(): Promise<void> {
  // A client's leaving takes two: its FIN is read in one, and told in the next.
  for (let left = 2; left > 0; left--) await new Promise<void>(resolve => setImmediate(resolve))
}
