/** Decisions derived from a trail, the same in headers, logs, receipts, policy tests and replays. */
import type { Refusal } from './errors.ts'
import type { TrailEntry } from './exchange.ts'

/** The decider if no step decided: the gateway, before or after the steps; or the upstream call. */
export type Stage = 'gateway' | 'send'

/**
 * Returns the id of the step that refused, failed or answered. If no step refused: `send` for a refusal of the upstream call, `gateway`
 * for one before or after the steps. Null if the provider answered.
 */
export function decidedBy(
  trail: readonly TrailEntry[],
  refusal: Pick<Refusal, 'code' | 'step'> | null,
  stage: Stage,
): string | null {
  if (refusal === null) return trail.find(({ verdict }) => verdict === 'answered')?.step ?? null
  // A refusal after an error names the failed step: other steps may have failed without ending the exchange.
  if (refusal.step !== undefined) return refusal.step
  // The outermost match: a step may have turned an inner refusal into its own.
  return trail.find(entry => entry.verdict === 'refused' && entry.code === refusal.code)?.step ?? stage
}

/** Returns the id of the requested model if a step replaced it; null otherwise. */
export const requestedModel = (trail: readonly TrailEntry[]): string | null =>
  trail.find(({ asked }) => asked !== undefined)?.asked ?? null
