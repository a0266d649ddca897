/** The details of an end in the Messages API, beside its reason. */
import { isFields, textIn } from '../translate/value.ts'

/**
 * The end in the provider's own word, where the canonical one does not say all: the sequence at which the answer stopped, as
 * vLLM gives it, and a pause in a turn with searches.
 */
export function stopReasonOf(stopReason: unknown, sequence: unknown, tellsPauses: boolean): string | undefined {
  if (stopReason === 'stop_sequence' && textIn(sequence) !== '') return textIn(sequence)
  return tellsPauses && stopReason === PAUSE ? PAUSE : undefined
}

/** The end of a turn that the provider goes on with when it gets it back. */
const PAUSE = 'pause_turn'

/** Why the model refused, in the provider's words; empty when it did not, or did not say. */
export function refusalOf(stopReason: unknown, details: unknown): string {
  return stopReason === 'refusal' && isFields(details) ? textIn(details['explanation']) : ''
}
