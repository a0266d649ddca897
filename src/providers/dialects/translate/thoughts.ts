/** Earlier thinking: what of it can be sent back, and whether some of it is missing. */
import type { ChatMessage } from '#contract'

/** What a provider wants to have back of its thinking: the text with a signature, or a closed box. */
export interface Reasoning {
  readonly kind: 'reasoning'
  readonly text: string
  readonly signature: string | null
  /** In place of text and signature: thinking that nobody but the provider can read. */
  readonly sealed: string | null
}

/**
 * `reasoning_details` as this gateway (and OpenRouter) gives them out; what has no signature is of no use to anybody, and
 * what OpenRouter says is another maker's than Anthropic's would be refused.
 */
export function reasoningOf(message: ChatMessage): Reasoning[] {
  const details = message['reasoning_details']
  if (!Array.isArray(details)) return []
  return details.flatMap((detail: Readonly<Record<string, unknown>> | null): Reasoning[] => {
    const format = detail?.['format']
    if (typeof format === 'string' && !format.startsWith('anthropic-')) return []
    if (detail?.['type'] === 'reasoning.encrypted' && isSaid(detail['data'])) {
      return [{ kind: 'reasoning', text: '', signature: null, sealed: detail['data'] }]
    }
    if (detail?.['type'] !== 'reasoning.text' || !isSaid(detail['signature'])) return []
    const text = typeof detail['text'] === 'string' ? detail['text'] : ''
    return [{ kind: 'reasoning', text, signature: detail['signature'], sealed: null }]
  })
}

const isSaid = (value: unknown): value is string => typeof value === 'string' && value !== ''
