/** Reads earlier reasoning that can be sent back to a provider. */
import type { ChatMessage } from '#contract'

/** Reasoning as a provider requires it back: signed text, or encrypted data. */
export interface Reasoning {
  readonly kind: 'reasoning'
  readonly text: string
  readonly signature: string | null
  /** Encrypted data instead of text and signature; only the provider can read it. */
  readonly sealed: string | null
}

/**
 * `reasoning_details` in the form of this gateway and OpenRouter. Reasoning without a signature is omitted, because no provider accepts
 * it. So is reasoning that OpenRouter marks as another vendor's: Anthropic would refuse it.
 */
export function reasoningOf(message: ChatMessage): Reasoning[] {
  const details = message['reasoning_details']
  if (!Array.isArray(details)) return []
  return details.flatMap((detail: Readonly<Record<string, unknown>> | null): Reasoning[] => {
    const format = detail?.['format']
    if (typeof format === 'string' && !format.startsWith('anthropic-')) return []
    if (detail?.['type'] === 'reasoning.encrypted' && isText(detail['data'])) {
      return [{ kind: 'reasoning', text: '', signature: null, sealed: detail['data'] }]
    }
    if (detail?.['type'] !== 'reasoning.text' || !isText(detail['signature'])) return []
    const text = typeof detail['text'] === 'string' ? detail['text'] : ''
    return [{ kind: 'reasoning', text, signature: detail['signature'], sealed: null }]
  })
}

const isText = (value: unknown): value is string => typeof value === 'string' && value !== ''
