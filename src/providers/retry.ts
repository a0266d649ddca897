/**
 * Whether an attempt that failed is followed by another one. Retries help against one bad answer and make an outage worse,
 * so there is a budget for all exchanges together, and only failures that were quick and that another try may mend count.
 */
import type { ErrorCode, UpstreamFailure } from '#contract'

/** Of all exchanges, so many may be asked a second time (reliability.md U4: at most 1.2 attempts an exchange). */
const BUDGET_SHARE = 0.2
/** So many retries may come together before the share is felt. */
const BUDGET_MOST = 20
/** A failure that took longer than this is not tried again: who waits so long again gets nothing better. */
export const SLOW_MS = 10_000
/** The first pause before the same target is asked again; doubled each time, and a lot drawn between half and all of it. */
const PAUSE_MS = 200
/** Longer waits are the client's affair: it is told Retry-After. */
export const MAX_PAUSE_MS = 2000

/** Mended by asking again, anybody. */
const PASSING: ReadonlySet<ErrorCode> = new Set([
  'upstream_unreachable',
  'upstream_timeout',
  'upstream_error',
  'upstream_overloaded',
  'upstream_rate_limited',
  'upstream_invalid',
  'upstream_truncated',
])
/** Mended only by asking somebody else: this target will say the same again. */
const ITS_OWN: ReadonlySet<ErrorCode> = new Set([
  'upstream_auth',
  'upstream_forbidden',
  'upstream_quota',
  'model_not_found',
  'loop_detected',
  'overloaded',
])
/** Of the credential and not of the target: the same one under another may take the request. */
export const THE_CREDENTIALS: ReadonlySet<ErrorCode> = new Set([
  'upstream_auth',
  'upstream_quota',
  'upstream_rate_limited',
])

export interface RetryBudget {
  /** An exchange has made its first attempt. */
  earn(): void
  /** Takes one retry; false when there is none left. */
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

/** What may still be done after a failure. */
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
  /** How often this target was asked, this attempt included. */
  readonly attempts: number
  readonly hasOther: boolean
  /** Whether the same provider can be asked under another credential. */
  readonly hasCredential: boolean
}

/** Null: this failure is the answer. `random` in [0, 1). */
export function retryAfterFailure(
  { failure, tookMs, attempts, hasOther, hasCredential }: FailedAttempt,
  random: () => number,
): Retry | null {
  const { code, retryAfterMs = 0 } = failure
  if (tookMs > SLOW_MS) return null
  if (hasCredential && THE_CREDENTIALS.has(code)) return { where: 'as_another' }
  if (hasOther) return PASSING.has(code) || ITS_OWN.has(code) ? { where: 'elsewhere' } : null
  if (!PASSING.has(code)) return null
  const pauseMs = PAUSE_MS * 2 ** (attempts - 1) * (0.5 + random() / 2)
  const wanted = Math.max(Math.min(pauseMs, MAX_PAUSE_MS), retryAfterMs)
  return wanted <= MAX_PAUSE_MS ? { where: 'here', pauseMs: wanted } : null
}
