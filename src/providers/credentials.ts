/**
 * The credentials of one provider, used in rotation so that their limits add up. A credential that the provider refuses is skipped for
 * a while, and the operator is notified.
 */
import type { UpstreamFailure } from '#contract'
import { CREDENTIAL_FAILURES } from './retry.ts'

export interface Credentials<Credential> {
  /** The next usable one. If none is usable, the one that is usable again first. Null if the provider has no credentials. */
  next(): Turn<Credential> | null
  /** Number of credentials that are usable now. */
  good(): number
  /** Number of credentials that the provider refused and has not accepted since. */
  refused(): number
}

/** A credential in use for one request. `refused` and `limited` return how many other credentials are usable. */
export interface Turn<Credential> {
  readonly credential: Credential
  /** The provider does not accept it, or its quota is used up. `forMs`: for how long, if the provider says so. */
  refused(forMs?: number): number
  /** The provider rate-limits it for this long. */
  limited(forMs: number): number
  /** The provider accepted it. */
  accepted(): void
}

/** Takes a credential out of rotation if it caused the failure. Returns whether another one is usable. */
export function blameCredential(
  turn: Pick<Turn<unknown>, 'refused' | 'limited'>,
  { code, retryAfterMs = 0, restMs }: UpstreamFailure,
): boolean {
  if (!CREDENTIAL_FAILURES.has(code)) return false
  return (code === 'upstream_rate_limited' ? turn.limited(retryAfterMs) : turn.refused(restMs)) > 0
}

/** Time before a refused credential is used again. Providers restore keys without notice. */
const OUT_MS = 60_000

interface CredentialState {
  outUntilMs: number
  /** How often it was taken out. A turn that started before the last time is ignored. */
  times: number
  isRefused: boolean
}

/**
 * @param now monotonic milliseconds
 * @param onRefused called once each time a credential is refused; `left`: how many are still usable
 */
export function createCredentials<Credential>(
  all: readonly Credential[],
  now: () => number,
  onRefused: (index: number, left: number) => void,
): Credentials<Credential> {
  const states = all.map((): CredentialState => ({ outUntilMs: 0, times: 0, isRefused: false }))
  let turn = 0
  const isOut = (state: CredentialState) => state.outUntilMs > now()
  const putOut = (state: CredentialState, forMs: number): number => {
    state.outUntilMs = Math.max(state.outUntilMs, now() + forMs)
    state.times++
    return states.filter(other => other !== state && !isOut(other)).length
  }
  const take = (index: number): Turn<Credential> => {
    const state = states[index]!
    const { times } = state
    return {
      credential: all[index]!,
      refused(forMs = OUT_MS) {
        const wasOut = isOut(state)
        const left = putOut(state, forMs)
        state.isRefused = true
        if (!wasOut) onRefused(index, left)
        return left
      },
      limited: forMs => putOut(state, forMs),
      accepted() {
        if (state.times !== times) return
        state.outUntilMs = 0
        state.isRefused = false
      },
    }
  }
  return {
    good: () => states.filter(state => !isOut(state)).length,
    refused: () => states.filter(({ isRefused }) => isRefused).length,
    next() {
      if (all.length === 0) return null
      for (let step = 0; step < all.length; step++) {
        const index = (turn + step) % all.length
        if (isOut(states[index]!)) continue
        turn = index + 1
        return take(index)
      }
      const soonest = states.toSorted((one, other) => one.outUntilMs - other.outUntilMs)[0]!
      return take(states.indexOf(soonest))
    },
  }
}
