/**
 * How often somebody may try something: counted in memory, bounded, and where replicas share a database also there, so that a
 * try at one of them counts at all. Memory comes first: who is turned away there costs the database nothing.
 */
import { type Clock, refuse } from '#contract'
import { boundedMap } from '../common/bounded.ts'
import type { Replicas, SharedTry } from '../store/engine/replicas.ts'
import { countTry, type TryRule, type TryState, takeBack } from '../store/people/tries.ts'

export interface Attempts {
  /**
   * Counts a try in this process alone, or throws the refusal `too_many_attempts`. The answer takes this try back, for one
   * that succeeded.
   */
  take(subject: string): () => void
  /** The database has refused: for a moment whoever tries again is refused here, and costs it nothing. */
  refuse(subject: string, waitMs: number): void
  /** As which limit it counts at all replicas together; null: it does not. */
  readonly shared: Omit<SharedTry, 'subject'> | null
}

export interface AttemptsOptions {
  /** Of a limit that all replicas share; left out: each process has its own. */
  readonly name?: string
  /** Only for tests. */
  readonly mostSubjects?: number
}

/** Beyond so many subjects the ones that tried longest ago are forgotten. */
const MAX_SUBJECTS = 50_000
/** So long a refusal of the database is remembered: a try may be taken back at another replica. */
const REMEMBERED_MS = 1000

export function createAttempts(
  clock: Clock,
  rule: TryRule,
  { name, mostSubjects = MAX_SUBJECTS }: AttemptsOptions = {},
): Attempts {
  const subjects = boundedMap<TryState>(mostSubjects)
  const refused = boundedMap<{ readonly at: number; readonly waitMs: number }>(mostSubjects)
  return {
    shared: name === undefined ? null : { name, rule },
    refuse: (subject, waitMs) => void refused.set(subject, { at: clock.now(), waitMs }),
    take(subject) {
      const now = clock.now()
      const { at = Number.NEGATIVE_INFINITY, waitMs = 0 } = refused.get(subject) ?? {}
      const passedMs = now - at
      if (passedMs >= 0 && passedMs < Math.min(waitMs, REMEMBERED_MS)) throw tooMany(waitMs - passedMs)
      const result = countTry(rule, subjects.get(subject) ?? null, now)
      if ('waitMs' in result) throw tooMany(result.waitMs)
      subjects.set(subject, result.state)
      let counts = true
      return () => {
        if (!counts) return
        counts = false
        const left = takeBack(rule, subjects.get(subject) ?? null, result.counted)
        if (left === null) subjects.delete(subject)
        else subjects.set(subject, left)
      }
    },
  }
}

const tooMany = (waitMs: number) => refuse('too_many_attempts', { retryAfterMs: waitMs })

/** What is tried, and by whom. */
export type Try = readonly [attempts: Attempts, subject: string]

/**
 * Counts a try in each of several windows, or in none of them: a try that one window refuses is not one, and takes nothing
 * from the others. The answer takes it back in all of them.
 *
 * @param replicas null: there are no others
 */
export async function takeAll(tries: readonly Try[], replicas: Replicas | null): Promise<() => void> {
  const taken: (() => void)[] = []
  const takeBackHere = () => {
    for (const each of taken) each()
  }
  try {
    for (const [attempts, subject] of tries) taken.push(attempts.take(subject))
    const atAll = tries.filter(([attempts]) => attempts.shared !== null)
    if (replicas === null || atAll.length === 0) return takeBackHere
    const shared = atAll.map(([attempts, subject]) => ({ ...attempts.shared!, subject }))
    const result = await replicas.countTries(shared)
    if ('waitMs' in result) {
      const [attempts, subject] = atAll[result.refusedBy]!
      attempts.refuse(subject, result.waitMs)
      throw tooMany(result.waitMs)
    }
    return () => {
      takeBackHere()
      // One that stays counted makes somebody wait, no more.
      replicas.takeTriesBack(shared, result.counted).catch(() => {})
    }
  } catch (error) {
    takeBackHere()
    throw error
  }
}
