/** A clock that only a test or script advances: for plugins and for the gateway's deadlines. Deadlines expire at their time. */
import type { Clock, Random } from '#contract'
import type { Check, DeadlineClock } from '../common/clock.ts'

export interface BenchTime {
  readonly clock: Clock
  readonly deadlineClock: DeadlineClock
  pass(ms: number): Promise<void>
}

/** 2027-01-15 08:00 UTC. */
export const STANDARD_START_MS = 1_800_000_000_000

/** The interval of the real deadline clock. A long time is passed in longer intervals. */
const ROUND_MS = 50
const MAX_ROUNDS = 400

export function createTime(startMs = STANDARD_START_MS): BenchTime {
  const checks = new Set<Check>()
  // Not 0: the gateway treats 0 as "never".
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

/** Random numbers that are the same in every run: always the middle. */
export function sameNumbers(): Random {
  return () => 0.5
}

/** Waits for two turns of the event loop. A disconnect takes two: its FIN is read in one, and reported in the next. */
export async function turn(): Promise<void> {
  for (let left = 2; left > 0; left--) await new Promise<void>(resolve => setImmediate(resolve))
}
