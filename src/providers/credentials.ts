/**
 * The credentials of one provider. Several take turns, so that their limits add up; one that the provider refuses is left
 * out for a while and told to the operator, because nobody else can mend it.
 */
import type { UpstreamFailure } from '#contract'
import { THE_CREDENTIALS } from './retry.ts'

export interface Credentials<Credential> {
  /** The next one; of none but those that are out the one whose time is over first. Null when there are none at all. */
  next(): Turn<Credential> | null
  /** How many are not out now. */
  good(): number
  /** How many the provider has refused, and has not taken since. */
  refused(): number
}

/** A credential on its way to the provider. What the provider makes of it returns how many others are good. */
export interface Turn<Credential> {
  readonly credential: Credential
  /** The provider does not know it, or its quota is used up, for so long if the provider says that. */
  refused(forMs?: number): number
  /** The provider takes nothing under it for so long. */
  limited(forMs: number): number
  /** The provider has taken it. */
  taken(): void
}

/** Puts a credential out if the failure is its own. Returns whether another one is good. */
export function blameCredential(
  turn: Pick<Turn<unknown>, 'refused' | 'limited'>,
  { code, retryAfterMs = 0, restMs }: UpstreamFailure,
): boolean {
  if (!THE_CREDENTIALS.has(code)) return false
  return (code === 'upstream_rate_limited' ? turn.limited(retryAfterMs) : turn.refused(restMs)) > 0
}

/** A refused credential is tried again after so long: keys are restored without a word to the gateway. */
const OUT_MS = 60_000

/** What is known of one credential. */
interface Standing {
  outUntilMs: number
  /** How often it was put out: a turn from before says nothing of the time after. */
  times: number
  isRefused: boolean
}

/**
 * @param now monotonic milliseconds
 * @param onRefused called once each time a credential is taken out; `left` is how many are still good
 */
export function createCredentials<Credential>(
  all: readonly Credential[],
  now: () => number,
  onRefused: (index: number, left: number) => void,
): Credentials<Credential> {
  const standings = all.map((): Standing => ({ outUntilMs: 0, times: 0, isRefused: false }))
  let turn = 0
  const isOut = (standing: Standing) => standing.outUntilMs > now()
  const putOut = (standing: Standing, forMs: number): number => {
    standing.outUntilMs = Math.max(standing.outUntilMs, now() + forMs)
    standing.times++
    return standings.filter(other => other !== standing && !isOut(other)).length
  }
  const take = (index: number): Turn<Credential> => {
    const standing = standings[index]!
    const { times } = standing
    return {
      credential: all[index]!,
      refused(forMs = OUT_MS) {
        const wasOut = isOut(standing)
        const left = putOut(standing, forMs)
        standing.isRefused = true
        if (!wasOut) onRefused(index, left)
        return left
      },
      limited: forMs => putOut(standing, forMs),
      taken() {
        if (standing.times !== times) return
        standing.outUntilMs = 0
        standing.isRefused = false
      },
    }
  }
  return {
    good: () => standings.filter(standing => !isOut(standing)).length,
    refused: () => standings.filter(({ isRefused }) => isRefused).length,
    next() {
      if (all.length === 0) return null
      for (let step = 0; step < all.length; step++) {
        const index = (turn + step) % all.length
        if (isOut(standings[index]!)) continue
        turn = index + 1
        return take(index)
      }
      const soonest = standings.toSorted((one, other) => one.outUntilMs - other.outUntilMs)[0]!
      return take(standings.indexOf(soonest))
    },
  }
}
