/** Short builders of chunks and answers, for the tests of this folder. */
import type { ChatCompletion, Chunk, Delta, WireUsage } from '#contract'

const HEAD = { id: 'chatcmpl-1', object: 'chat.completion.chunk', created: 1_790_000_000, model: 'chat-small' }

/** A chunk with one choice. */
export const chunk = (delta: Delta, finish: string | null = null, index = 0): Chunk => ({
  ...HEAD,
  choices: [{ index, delta, finish_reason: finish }],
})

export const text = (content: string, index = 0): Chunk => chunk({ content }, null, index)
export const finish = (index = 0, reason = 'stop'): Chunk => chunk({}, reason, index)
export const usageChunk = (usage: WireUsage): Chunk => ({ ...HEAD, choices: [], usage })

export const usage = (prompt: number, completion: number, more: Partial<WireUsage> = {}): WireUsage => ({
  prompt_tokens: prompt,
  completion_tokens: completion,
  total_tokens: prompt + completion,
  ...more,
})

/** A whole answer with a choice for each message. */
export const completion = (...messages: (Delta | string)[]): ChatCompletion => ({
  ...HEAD,
  object: 'chat.completion',
  choices: messages.map((message, index) => ({
    index,
    message: typeof message === 'string' ? { role: 'assistant', content: message } : message,
    finish_reason: 'stop',
  })),
  usage: usage(3, messages.length),
})
