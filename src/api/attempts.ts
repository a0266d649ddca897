/**
 * Limits attempts, such as sign-ins. Attempts are counted in bounded memory. With replicas, some limits are also counted in their
 * database, so that they hold for all replicas together. Memory comes first: a refusal there costs the database nothing.
 */
import { type Clock, refuse } from '#contract'
import { boundedMap } from '../common/bounded.ts'
import type { Replicas, SharedTry } from '../store/engine/replicas.ts'
import { countTry, type TryRule, type TryState, takeBack } from '../store/people/tries.ts'

export interface Attempts {
  /**
   * Counts an attempt in this process, or throws the refusal `too_many_attempts`. The returned function removes the attempt from
   * the count; call it after a success.
   */
  take(subject: string): () => void
  /** After a refusal of the database, refuses further attempts here for a moment, at no cost for the database. */
  refuse(subject: string, waitMs: number): void
  /** The limit that all replicas share; null: each process has its own. */
  readonly shared: Omit<SharedTry, 'subject'> | null
}

export interface AttemptsOptions {
  /** The name of a limit that all replicas share. Default: each process has its own limit. */
  readonly name?: string
  /** Only for tests. */
  readonly mostSubjects?: number
}

/** The maximum number of subjects in memory. Above it the least recent ones are removed. */
const MAX_SUBJECTS = 50_000
/** The time for which a refusal of the database is cached. Short, because another replica may take an attempt back. */
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

/** The kind of an attempt, and its subject. */
export type Try = readonly [attempts: Attempts, subject: string]

/**
 * Counts an attempt in each of several limits, or in none of them if one refuses it. The returned function removes it from all.
 *
 * @param replicas null: this is the only process
 */
export async function takeAll(tries: readonly Try[], replicas: Replicas | null): Promise<() => void> {
  const taken: (() => void)[] = []
  const takeBackHere = () => {
    for (const each of taken) each()
  }
  try {
    for (const [attempts, subject] of tries) taken.push(attempts.take(subject))
    const common = tries.filter(([attempts]) => attempts.shared !== null)
    if (replicas === null || common.length === 0) return takeBackHere
    const shared = common.map(([attempts, subject]) => ({ ...attempts.shared!, subject }))
    const result = await replicas.countTries(shared)
    if ('waitMs' in result) {
      const [attempts, subject] = common[result.refusedBy]!
      attempts.refuse(subject, result.waitMs)
      throw tooMany(result.waitMs)
    }
    return () => {
      takeBackHere()
      // If this fails, the attempt stays counted, and the subject only waits longer.
      replicas.takeTriesBack(shared, result.counted).catch(() => {})
    }
  } catch (error) {
    takeBackHere()
    throw error
  }
}
