/**
 * How often somebody may try something: a sliding window for each subject, or delays that grow, in memory and bounded.
 * Whoever is turned away is not counted again, so that one who keeps knocking is let in when the time has passed.
 */
import { type Clock, refuse } from '#contract'
import { boundedMap } from '../store/bounded.ts'

export interface Attempts {
  /** Counts a try, or throws the refusal `too_many_attempts`. The answer takes this try back, for one that succeeded. */
  take(subject: string): () => void
}

export interface Window {
  readonly most: number
  readonly windowMs: number
}

/** Beyond so many subjects the ones that tried longest ago are forgotten. */
const MAX_SUBJECTS = 50_000

/** @param mostSubjects only for tests */
export function createAttempts(clock: Clock, { most, windowMs }: Window, mostSubjects = MAX_SUBJECTS): Attempts {
  const tries = boundedMap<number[]>(mostSubjects)
  return {
    take(subject) {
      const now = clock.now()
      // A clock that was set back must not lock anybody out for longer.
      const recent = (tries.get(subject) ?? []).filter(at => at > now - windowMs && at <= now)
      if (recent.length >= most) {
        tries.set(subject, recent)
        throw refuse('too_many_attempts', { retryAfterMs: recent[0]! + windowMs - now })
      }
      recent.push(now)
      tries.set(subject, recent)
      let counts = true
      return () => {
        const counted = tries.get(subject)
        const index = counts ? (counted?.lastIndexOf(now) ?? -1) : -1
        if (index >= 0) counted!.splice(index, 1)
        // What is taken back leaves nothing behind that would push out somebody else's.
        if (counted?.length === 0) tries.delete(subject)
        counts = false
      }
    },
  }
}

/** Delays that double. */
export interface Growth {
  /** So many tries need not wait for each other. */
  readonly free: number
  readonly firstMs: number
  /** The longest delay. After each such time without a try, one try is forgotten. */
  readonly longestMs: number
}

interface Tried {
  readonly tries: number
  readonly at: number
}

/**
 * Each try has to wait longer after the one before it. So a few mistakes cost seconds, and whoever goes on guessing comes to
 * one guess in the longest delay.
 *
 * @param mostSubjects only for tests
 */
export function createDelays(
  clock: Clock,
  { free, firstMs, longestMs }: Growth,
  mostSubjects = MAX_SUBJECTS,
): Attempts {
  const subjects = boundedMap<Tried>(mostSubjects)
  return {
    take(subject) {
      const now = clock.now()
      const before = subjects.get(subject)
      // A clock that was set back must not lock anybody out for longer.
      const passedMs = before === undefined || before.at > now ? longestMs : now - before.at
      const forgotten = before === undefined || before.at > now ? 0 : Math.floor(passedMs / longestMs)
      const tries = Math.max(0, (before?.tries ?? 0) - forgotten)
      const delayMs = tries < free ? 0 : Math.min(firstMs * 2 ** (tries - free), longestMs)
      if (passedMs < delayMs) throw refuse('too_many_attempts', { retryAfterMs: delayMs - passedMs })
      const taken = { tries: tries + 1, at: now }
      subjects.set(subject, taken)
      let counts = true
      return () => {
        const current = subjects.get(subject)
        // Others have tried meanwhile: theirs stay.
        if (counts && current !== undefined && current !== taken) {
          subjects.set(subject, { ...current, tries: Math.max(0, current.tries - 1) })
        } else if (counts && before !== undefined) subjects.set(subject, before)
        else if (counts) subjects.delete(subject)
        counts = false
      }
    },
  }
}

/** What is tried, and by whom. */
export type Try = readonly [attempts: Attempts, subject: string]

/**
 * Counts a try in each of several windows, or in none of them: a try that one window refuses is not one, and takes nothing
 * from the others. The answer takes it back in all of them.
 */
export function takeAll(tries: readonly Try[]): () => void {
  const taken: (() => void)[] = []
  const takeBack = () => {
    for (const each of taken) each()
  }
  try {
    for (const [attempts, subject] of tries) taken.push(attempts.take(subject))
  } catch (error) {
    takeBack()
    throw error
  }
  return takeBack
}
