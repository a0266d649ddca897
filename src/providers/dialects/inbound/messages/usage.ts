/** Converts usage to Anthropic's counting: cache reads and cache writes are separate from the input. */
import type { WireUsage } from '#contract'
import { readUsage } from '../../../../common/usage.ts'

export interface Usage {
  readonly input_tokens: number
  readonly cache_creation_input_tokens: number
  readonly cache_read_input_tokens: number
  readonly output_tokens: number
  /** Present if the provider counts reasoning, which is part of the output. */
  readonly output_tokens_details?: { readonly thinking_tokens: number }
  /** Present if the provider searched the web. */
  readonly server_tool_use?: { readonly web_search_requests: number }
}

const UNCOUNTED: Usage = {
  input_tokens: 0,
  cache_creation_input_tokens: 0,
  cache_read_input_tokens: 0,
  output_tokens: 0,
}

/**
 * The usage at the beginning of a stream. The complete usage at the end replaces it. Some clients add up both outputs, so this one is
 * 0.
 */
export function firstUsage(soFar: WireUsage | null): Usage {
  const { input_tokens, cache_creation_input_tokens, cache_read_input_tokens } = messagesUsage(soFar)
  return { input_tokens, cache_creation_input_tokens, cache_read_input_tokens, output_tokens: 0 }
}

export function messagesUsage(wire: WireUsage | null | undefined): Usage {
  const usage = readUsage(wire)
  if (usage === null) return UNCOUNTED
  const read = countOf(usage.prompt_tokens_details?.cached_tokens)
  const written = countOf(usage.prompt_tokens_details?.cache_write_tokens)
  const thinking = usage.completion_tokens_details?.reasoning_tokens
  const searches = countOf(usage.server_tool_use?.web_search_requests)
  return {
    input_tokens: Math.max(0, countOf(usage.prompt_tokens) - read - written),
    cache_creation_input_tokens: written,
    cache_read_input_tokens: read,
    output_tokens: countOf(usage.completion_tokens),
    ...(typeof thinking === 'number' ? { output_tokens_details: { thinking_tokens: countOf(thinking) } } : {}),
    ...(searches > 0 ? { server_tool_use: { web_search_requests: searches } } : {}),
  }
}

function countOf(value: unknown): number {
  return typeof value === 'number' && Number.isFinite(value) && value > 0 ? value : 0
}
