/** How an answer ended, in OpenAI's four words. */
import type { FinishReason } from '../translate/completion.ts'
import { isFields, textIn } from '../translate/value.ts'

const REASONS: Readonly<Record<string, FinishReason>> = {
  end_turn: 'stop',
  stop_sequence: 'stop',
  pause_turn: 'stop',
  compaction: 'stop',
  max_tokens: 'length',
  model_context_window_exceeded: 'length',
  refusal: 'content_filter',
}

/** @param calls how many calls the client has to answer: one that gave the answer itself (JSON_TOOL) is none */
export function finishOf(stopReason: unknown, calls: number): FinishReason {
  const known = typeof stopReason === 'string' && Object.hasOwn(REASONS, stopReason) ? REASONS[stopReason] : undefined
  return known ?? (calls > 0 ? 'tool_calls' : 'stop')
}

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
