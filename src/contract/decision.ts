/** Answers that a trail gives: the same in headers, logs, receipts, policy tests and replays. */
import type { Refusal } from './errors.ts'
import type { TrailEntry } from './exchange.ts'

/** Where an exchange is: before and after its steps it is the gateway's own, between them what stands behind them decides. */
export type Stage = 'gateway' | 'send'

/**
 * The id of the step that refused, failed or answered. Of a refusal that no step made: `send` when it came from behind the
 * steps, `gateway` when it came before or after them. Null when the exchange was answered in the ordinary way.
 */
export function decidedBy(
  trail: readonly TrailEntry[],
  refusal: Pick<Refusal, 'code' | 'step'> | null,
  stage: Stage,
): string | null {
  if (refusal === null) return trail.find(({ verdict }) => verdict === 'answered')?.step ?? null
  // Of a mistake the refusal says whose it is: other steps may have made some that ended nothing.
  if (refusal.step !== undefined) return refusal.step
  // The outermost one: a step that turned the refusal of an inner one into its own has the last word.
  return trail.find(entry => entry.verdict === 'refused' && entry.code === refusal.code)?.step ?? stage
}

/** The id of the model that the client asked for, where a step asked another one; null: none did. */
export const askedModel = (trail: readonly TrailEntry[]): string | null =>
  trail.find(({ asked }) => asked !== undefined)?.asked ?? null
