/** Details of the stop reason in the Messages API. */
import { isFields, textIn } from '../translate/value.ts'

/**
 * Details that the canonical finish reason loses: the stop sequence that ended the answer, in vLLM's form, or a pause in a turn with
 * searches.
 */
export function stopReasonOf(stopReason: unknown, sequence: unknown, showsPauses: boolean): string | undefined {
  if (stopReason === 'stop_sequence' && textIn(sequence) !== '') return textIn(sequence)
  return showsPauses && stopReason === PAUSE ? PAUSE : undefined
}

/** The stop reason of a turn that the provider continues when it is sent back. */
const PAUSE = 'pause_turn'

/** The model's explanation of a refusal; empty if there was no refusal or no explanation. */
export function refusalOf(stopReason: unknown, details: unknown): string {
  return stopReason === 'refusal' && isFields(details) ? textIn(details['explanation']) : ''
}
