/**
 * The finish reasons of all providers, in one table. A word that is not in it is a failure, because the answer may be incomplete.
 * Sources: each provider's API reference, as of November 2026.
 */
import type { UpstreamFailure } from '#contract'
import type { FinishReason } from './translate/completion.ts'

/** `ended`: a normal end; it becomes `tool_calls` if the answer has calls, otherwise `stop`. */
type Meaning = 'ended' | 'length' | 'content_filter' | 'overloaded' | 'late'

/** In lower case. Words that several providers share are listed once. */
const MEANINGS: ReadonlyMap<string, Meaning> = new Map(
  Object.entries({
    ended:
      // OpenAI, xAI, Together, Text Generation Inference.
      'stop tool_calls function_call end_turn eos eos_token stop_sequence ' +
      // Anthropic, Bedrock.
      'pause_turn compaction tool_use ' +
      // Cohere, Baidu, relays.
      'complete completed tool_call normal end',
    length:
      'length max_tokens model_length model_context_window_exceeded max_length max_output_tokens token_limit ' +
      'max_tokens_reached context_length_exceeded',
    content_filter:
      // OpenAI, Anthropic, Z.ai and Tencent, relays.
      'content_filter refusal sensitive moderation content_policy content_policy_violation ' +
      // Google.
      'blocked_prompt safety recitation language blocklist prohibited_content spii model_armor image_safety ' +
      'image_prohibited_content image_recitation image_other ' +
      // Bedrock, Cohere.
      'content_filtered guardrail_intervened error_toxic',
    // DeepSeek, vLLM.
    overloaded: 'insufficient_system_resource engine_overloaded overloaded',
    late: 'timeout',
  } satisfies Record<Meaning, string>).flatMap(([meaning, words]) =>
    words.split(' ').map(word => [word, meaning as Meaning] as const),
  ),
)

/** Whether a finish reason is missing: some servers write `"null"` for null. */
export function lacksFinishReason(word: unknown): boolean {
  return word === null || word === undefined || word === '' || word === 'null'
}

/**
 * Maps a provider's finish reason to OpenAI's, or to a failure.
 * @param word the provider's finish reason; a missing one counts as a normal end, which the caller must check
 */
export function finishOf(word: unknown, hasCalls: boolean): FinishReason | UpstreamFailure {
  const meaning = lacksFinishReason(word) ? 'ended' : MEANINGS.get(String(word).toLowerCase())
  if (meaning === 'ended') return hasCalls ? 'tool_calls' : 'stop'
  if (meaning === 'length' || meaning === 'content_filter') return meaning
  const code =
    meaning === 'overloaded' ? 'upstream_overloaded' : meaning === 'late' ? 'upstream_timeout' : 'upstream_error'
  return { code, detail: `the answer finished with the reason ${String(word).slice(0, 100)}` }
}
