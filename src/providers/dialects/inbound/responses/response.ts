/** The Response object: what was asked, repeated, around what was answered. */

import type { InboundView, WireUsage } from '#contract'
import { readUsage } from '../../../../common/usage.ts'
import type { OutputItem, Sealing } from './items.ts'
import { type Fields, isFields } from './read.ts'

/** The API's words for how an answer ended. */
export type Status = 'in_progress' | 'completed' | 'incomplete' | 'failed'

/** How a model stopped before its answer was whole, by the canonical finish reason. */
const CUTS: ReadonlyMap<unknown, string> = new Map([
  ['length', 'max_output_tokens'],
  ['content_filter', 'content_filter'],
])

/** Why an answer is incomplete, or null for one that is whole. */
export const cutOf = (finishReason: unknown): string | null => CUTS.get(finishReason) ?? null

/** An answer without any item is not whole either: only a compaction without a summary is one. */
export const statusOf = (cut: string | null, items: readonly OutputItem[]) =>
  cut === null && items.length > 0 ? 'completed' : 'incomplete'

export interface Answered {
  readonly status: Status
  readonly output: readonly OutputItem[]
  /** The catalog's id. */
  readonly model: string
  readonly usage?: WireUsage | null
  readonly cut?: string | null
  readonly serviceTier?: unknown
  readonly error?: { readonly code: string; readonly message: string } | null
}

/**
 * Every field that the API has, as it repeats the request. Where the client sent nothing and the value is the model's own
 * affair (`temperature`), it is null rather than a guess.
 */
export function responseOf(asked: Fields, view: InboundView, answered: Answered): Fields {
  const { status, output, model, usage = null, cut = null, serviceTier, error = null } = answered
  const text = isFields(asked['text']) ? asked['text'] : {}
  const reasoning = isFields(asked['reasoning']) ? asked['reasoning'] : {}
  const said = (name: string, otherwise: unknown = null) => asked[name] ?? otherwise
  return {
    id: responseId(view),
    object: 'response',
    created_at: view.createdAt,
    status,
    background: false,
    error,
    // The API has no reason of its own for a summary that is empty.
    incomplete_details: status === 'incomplete' ? { reason: cut ?? 'max_output_tokens' } : null,
    instructions: said('instructions'),
    max_output_tokens: said('max_output_tokens'),
    max_tool_calls: said('max_tool_calls'),
    model,
    output,
    parallel_tool_calls: said('parallel_tool_calls', true),
    previous_response_id: said('previous_response_id'),
    prompt_cache_key: said('prompt_cache_key'),
    reasoning: {
      effort: reasoning['effort'] ?? null,
      summary: reasoning['summary'] ?? reasoning['generate_summary'] ?? null,
    },
    safety_identifier: said('safety_identifier'),
    service_tier: serviceTier ?? said('service_tier'),
    store: isKept(asked, view),
    temperature: said('temperature'),
    text: { ...text, format: text['format'] ?? { type: 'text' } },
    tool_choice: said('tool_choice', 'auto'),
    tools: said('tools', []),
    top_logprobs: said('top_logprobs', 0),
    top_p: said('top_p'),
    truncation: 'disabled',
    usage: usage === null ? null : usageOf(readUsage(usage) ?? usage),
    user: said('user'),
    metadata: said('metadata', {}),
  }
}

/**
 * `include` with `reasoning.encrypted_content` promises a box for each thought, whether a provider has signed it or not. A thought
 * without a summary has one too: some providers refuse the next turn without the thought, and the client has it nowhere else.
 */
export function sealingOf(asked: Fields, view: InboundView): Sealing {
  const { include, reasoning } = asked
  const { summary, generate_summary: older } = isFields(reasoning) ? reasoning : {}
  const wish = summary ?? older ?? 'none'
  const isShown = wish !== 'none'
  const isIncluded = Array.isArray(include) && include.includes('reasoning.encrypted_content')
  return { boxes: view.boxes, withText: isIncluded || !isShown, isShown }
}

/** Whether this answer is to be kept. */
export const isKept = ({ store }: Fields, { kept }: InboundView): boolean => kept !== undefined && store !== false

export const responseId = (view: Pick<InboundView, 'exchange'>): string => `resp_${keyOf(view)}`

/** The exchange's id as part of others: unique among exchanges, and the same however often an answer is written. */
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
