/**
 * Decides whether a failed attempt is followed by another one. Retries help against a single bad answer but make an outage worse. So
 * all exchanges share one budget, and only quick failures that another attempt may fix are retried.
 */
import type { ErrorCode, UpstreamFailure } from '#contract'

/** Share of exchanges that may be retried: at most 1.2 attempts an exchange. */
const BUDGET_SHARE = 0.2
/** The maximum burst of retries before the share applies. */
const BUDGET_MOST = 20
/** Slower failures are not retried: another long wait would not help the client. */
export const SLOW_MS = 10_000
/** Pause before the same target is tried again. Doubles each time; the actual pause is random, from half of it to all of it. */
const PAUSE_MS = 200
/** Longer waits are left to the client, which gets Retry-After. */
export const MAX_PAUSE_MS = 2000

/** Failures that the same or another target may not repeat. */
const TRANSIENT: ReadonlySet<ErrorCode> = new Set([
  'upstream_unreachable',
  'upstream_timeout',
  'upstream_error',
  'upstream_overloaded',
  'upstream_rate_limited',
  'upstream_invalid',
  'upstream_truncated',
])
/** Failures that only another target can fix: this one would fail again. */
const TARGET_FAILURES: ReadonlySet<ErrorCode> = new Set([
  'upstream_auth',
  'upstream_forbidden',
  'upstream_quota',
  'model_not_found',
  'loop_detected',
  'overloaded',
])
/** Failures of the credential, not of the target: another credential may work. */
export const CREDENTIAL_FAILURES: ReadonlySet<ErrorCode> = new Set([
  'upstream_auth',
  'upstream_quota',
  'upstream_rate_limited',
])

export interface RetryBudget {
  /** An exchange made its first attempt. */
  earn(): void
  /** Takes one retry from the budget; false if none is left. */
  spend(): boolean
}

export function createRetryBudget(): RetryBudget {
  let left = BUDGET_MOST
  return {
    earn() {
      left = Math.min(BUDGET_MOST, left + BUDGET_SHARE)
    },
    spend() {
      if (left < 1) return false
      left--
      return true
    },
  }
}

/** The next step after a failure. */
export type Retry =
  /** Another target, at once. */
  | { readonly where: 'elsewhere' }
  /** The same target, after a pause. */
  | { readonly where: 'here'; readonly pauseMs: number }
  /** The same target under another credential, at once. */
  | { readonly where: 'as_another' }

export interface FailedAttempt {
  readonly failure: UpstreamFailure
  readonly tookMs: number
  /** Number of attempts at this target, including this one. */
  readonly attempts: number
  readonly hasOther: boolean
  /** Whether the provider has another usable credential. */
  readonly hasOtherCredential: boolean
}

/** Returns null if the client gets this failure. `random` in [0, 1). */
export function retryAfterFailure(
  { failure, tookMs, attempts, hasOther, hasOtherCredential }: FailedAttempt,
  random: () => number,
): Retry | null {
  const { code, retryAfterMs = 0 } = failure
  if (tookMs > SLOW_MS) return null
  if (hasOtherCredential && CREDENTIAL_FAILURES.has(code)) return { where: 'as_another' }
  if (hasOther) return TRANSIENT.has(code) || TARGET_FAILURES.has(code) ? { where: 'elsewhere' } : null
  if (!TRANSIENT.has(code)) return null
  const pauseMs = PAUSE_MS * 2 ** (attempts - 1) * (0.5 + random() / 2)
  const wanted = Math.max(Math.min(pauseMs, MAX_PAUSE_MS), retryAfterMs)
  return wanted <= MAX_PAUSE_MS ? { where: 'here', pauseMs: wanted } : null
}
