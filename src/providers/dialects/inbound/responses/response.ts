/** Builds the Response object: the parameters of the request and the output. */

import type { InboundView, WireUsage } from '#contract'
import { readUsage } from '../../../../common/usage.ts'
import type { OutputItem, SealOptions } from './items.ts'
import { type Fields, isFields } from './read.ts'

export type Status = 'in_progress' | 'completed' | 'incomplete' | 'failed'

/** Reasons for an incomplete answer, by the canonical finish reason. */
const CUTS: ReadonlyMap<unknown, string> = new Map([
  ['length', 'max_output_tokens'],
  ['content_filter', 'content_filter'],
])

/** Why an answer is incomplete, or null for a complete one. */
export const cutOf = (finishReason: unknown): string | null => CUTS.get(finishReason) ?? null

/** An answer without any item is incomplete too; only a compaction without a summary has none. */
export const statusOf = (cut: string | null, items: readonly OutputItem[]) =>
  cut === null && items.length > 0 ? 'completed' : 'incomplete'

export interface ResponseState {
  readonly status: Status
  readonly output: readonly OutputItem[]
  /** The model's id in the catalog. */
  readonly model: string
  readonly usage?: WireUsage | null
  readonly cut?: string | null
  readonly serviceTier?: unknown
  readonly error?: { readonly code: string; readonly message: string } | null
}

/**
 * Every member of the API's object, repeated from the request. A missing member whose default depends on the model (`temperature`) is
 * null.
 */
export function responseOf(asked: Fields, view: InboundView, answered: ResponseState): Fields {
  const { status, output, model, usage = null, cut = null, serviceTier, error = null } = answered
  const text = isFields(asked['text']) ? asked['text'] : {}
  const reasoning = isFields(asked['reasoning']) ? asked['reasoning'] : {}
  const requested = (name: string, otherwise: unknown = null) => asked[name] ?? otherwise
  return {
    id: responseId(view),
    object: 'response',
    created_at: view.createdAt,
    status,
    background: false,
    error,
    // The API has no reason for an empty summary.
    incomplete_details: status === 'incomplete' ? { reason: cut ?? 'max_output_tokens' } : null,
    instructions: requested('instructions'),
    max_output_tokens: requested('max_output_tokens'),
    max_tool_calls: requested('max_tool_calls'),
    model,
    output,
    parallel_tool_calls: requested('parallel_tool_calls', true),
    previous_response_id: requested('previous_response_id'),
    prompt_cache_key: requested('prompt_cache_key'),
    reasoning: {
      effort: reasoning['effort'] ?? null,
      summary: reasoning['summary'] ?? reasoning['generate_summary'] ?? null,
    },
    safety_identifier: requested('safety_identifier'),
    service_tier: serviceTier ?? requested('service_tier'),
    store: isKept(asked, view),
    temperature: requested('temperature'),
    text: { ...text, format: text['format'] ?? { type: 'text' } },
    tool_choice: requested('tool_choice', 'auto'),
    tools: requested('tools', []),
    top_logprobs: requested('top_logprobs', 0),
    top_p: requested('top_p'),
    truncation: 'disabled',
    usage: usage === null ? null : usageOf(readUsage(usage) ?? usage),
    user: requested('user'),
    metadata: requested('metadata', {}),
  }
}

/**
 * `include` with `reasoning.encrypted_content` requires a box for each reasoning item, signed or not. Reasoning without a summary has
 * one too: some providers refuse the next turn without it, and the client has no other copy.
 */
export function sealingOf(asked: Fields, view: InboundView): SealOptions {
  const { include, reasoning } = asked
  const { summary, generate_summary: older } = isFields(reasoning) ? reasoning : {}
  const requested = summary ?? older ?? 'none'
  const isShown = requested !== 'none'
  const isIncluded = Array.isArray(include) && include.includes('reasoning.encrypted_content')
  return { boxes: view.boxes, withText: isIncluded || !isShown, isShown }
}

/** Whether this answer is kept. */
export const isKept = ({ store }: Fields, { kept }: InboundView): boolean => kept !== undefined && store !== false

export const responseId = (view: Pick<InboundView, 'exchange'>): string => `resp_${keyOf(view)}`

/** The exchange's id as part of other ids: unique among exchanges, and always the same for the same answer. */
export const keyOf = ({ exchange }: Pick<InboundView, 'exchange'>): string =>
  exchange.replace(/^req_/, '').replace(/[^A-Za-z0-9]/g, '')

function usageOf({ prompt_tokens, completion_tokens, total_tokens, ...details }: WireUsage) {
  const { prompt_tokens_details: prompt, completion_tokens_details: completion } = details
  return {
    input_tokens: count(prompt_tokens),
    input_tokens_details: {
      cached_tokens: count(prompt?.cached_tokens),
      cache_write_tokens: count(prompt?.cache_write_tokens),
    },
    output_tokens: count(completion_tokens),
    output_tokens_details: { reasoning_tokens: count(completion?.reasoning_tokens) },
    total_tokens: count(total_tokens ?? count(prompt_tokens) + count(completion_tokens)),
  }
}

const count = (value: unknown): number => (typeof value === 'number' ? value : 0)
