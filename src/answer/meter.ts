/**
 * Counts what comes from upstream while it passes: counters, not text. A provider's own usage always wins; the count is
 * for answers that end without it.
 */
import type { Chat, Chunk, ContentPart, Progress, Usage, WireUsage } from '#contract'
import { finishes, hasContent } from './stream.ts'

export class Meter implements Progress {
  dispatched = false
  started = false
  finished = false
  #deltas = 0
  #bytes = 0
  #usage: WireUsage | null = null
  /** The request that is being answered; null for raw routes. */
  chat: Chat | null = null

  /**
   * Providers mostly send one token a chunk, some send many: the larger of the number of content deltas and a quarter
   * of their UTF-8 bytes is near the truth for both (characters / 4 alone was 28 % short of a provider's own count).
   */
  get countedTokens(): number {
    return Math.max(this.#deltas, Math.ceil(this.#bytes / 4))
  }

  /** The last usage seen: some providers repeat it, and it is cumulative then. */
  get usage(): WireUsage | null {
    return this.#usage
  }

  get estimate(): Usage {
    return {
      promptTokens: this.chat ? promptEstimate(this.chat) : 0,
      cachedTokens: 0,
      cacheWriteTokens: 0,
      completionTokens: this.countedTokens,
      reasoningTokens: 0,
      source: 'estimated',
    }
  }

  chunk(chunk: Chunk): void {
    if (finishes(chunk)) this.finished = true
    if (!hasContent(chunk)) return
    this.started = true
    for (const choice of chunk.choices) {
      const bytes = bytesOf(choice?.delta)
      if (bytes === 0) continue
      this.#deltas++
      this.#bytes += bytes
    }
  }

  reported(usage: WireUsage): void {
    this.#usage = usage
  }
}

function bytesOf(delta: Chunk['choices'][number]['delta'] | undefined): number {
  if (!delta) return 0
  let bytes = sizeOf(delta.content) + sizeOf(delta.reasoning_content ?? delta['reasoning']) + sizeOf(delta.refusal)
  if (Array.isArray(delta.tool_calls)) {
    for (const call of delta.tool_calls) bytes += sizeOf(call?.function?.name) + sizeOf(call?.function?.arguments)
  }
  const old = delta['function_call'] as { name?: unknown; arguments?: unknown } | null | undefined
  return old ? bytes + sizeOf(old.name) + sizeOf(old.arguments) : bytes
}

function sizeOf(text: unknown): number {
  if (typeof text === 'string') return Buffer.byteLength(text)
  return Array.isArray(text) ? Buffer.byteLength(JSON.stringify(text)) : 0
}

/**
 * A provider's usage on our counting. Numbers are taken as they are, also absurd ones: what to make of them is the
 * credits step's business. Null when it has no numbers at all.
 */
export function usageOf(wire: WireUsage | null, source: Usage['source']): Usage | null {
  if (wire === null || typeof wire !== 'object') return null
  const { prompt_tokens: prompt, completion_tokens: completion } = wire
  if (typeof prompt !== 'number' || typeof completion !== 'number') return null
  return {
    promptTokens: prompt,
    cachedTokens: numberOr0(wire.prompt_tokens_details?.cached_tokens),
    cacheWriteTokens: numberOr0(wire.prompt_tokens_details?.cache_write_tokens),
    completionTokens: completion,
    reasoningTokens: numberOr0(wire.completion_tokens_details?.reasoning_tokens),
    source,
  }
}

function numberOr0(value: unknown): number {
  return typeof value === 'number' && Number.isFinite(value) && value > 0 ? value : 0
}

/** What one image, sound or file is taken for when nobody reports usage. */
const TOKENS_PER_PART = 1024

/** A guess at the prompt's tokens: a quarter of the text's bytes, four a message, and a flat figure for other parts. */
function promptEstimate(chat: Chat): number {
  let bytes = 0
  let parts = 0
  for (const { content } of chat.body.messages) {
    if (typeof content === 'string') bytes += Buffer.byteLength(content)
    else if (Array.isArray(content)) {
      for (const part of content as readonly ContentPart[]) {
        if (typeof part.text === 'string') bytes += Buffer.byteLength(part.text)
        else parts++
      }
    }
  }
  if (chat.body.tools?.length) bytes += Buffer.byteLength(JSON.stringify(chat.body.tools))
  return Math.ceil(bytes / 4) + 4 * chat.body.messages.length + TOKENS_PER_PART * parts
}
