/** What the tests of the Ollama dialect share: requests, lines, and everything that comes of a body. */
import type { ChatRequest, DecodedAnswer, StreamItem, UpstreamFailure } from '#contract'
import { ollamaDialect } from '../../../src/dialects/ollama/index.ts'
import { chatOf, NOW, target, view } from '../anthropic/helpers.ts'

export { chatOf, chunksOf, folded, HI, NOW, target, view } from '../anthropic/helpers.ts'

export const dialect = ollamaDialect(() => NOW)
export const MODEL = 'qwen3:8b'
export const IMAGE = 'data:image/png;base64,iVBORw0KGgo='

type Json = Record<string, unknown>

/** The request for a body, its JSON parsed. */
export function encoded(fields: Partial<ChatRequest>, model = MODEL, cap = 4000) {
  const { body, ...request } = dialect.encodeRequest(chatOf(fields, cap), target(model))
  return { ...request, body: JSON.parse(body.toString()) as Json }
}

export function decoded(answer: unknown): DecodedAnswer | { readonly failure: UpstreamFailure } {
  const text = typeof answer === 'string' ? answer : JSON.stringify(answer)
  return dialect.decodeAnswer(Buffer.from(text), view())
}

export type Line = Readonly<Record<string, unknown>>

export const line = (message: object, more: object = {}): Line => ({
  model: 'qwen3:8b',
  created_at: '2026-11-20T12:00:00Z',
  message: { role: 'assistant', content: '', ...message },
  done: false,
  ...more,
})
export const text = (content: string): Line => line({ content })
export const call = (id: string | null, name: string, args: unknown): Line =>
  line({ tool_calls: [{ ...(id === null ? {} : { id }), function: { index: 0, name, arguments: args } }] })

export const COUNTED = { prompt_eval_count: 10, eval_count: 5 }
export const USAGE = { prompt_tokens: 10, completion_tokens: 5, total_tokens: 15 }

export const end = (done_reason: string | null = 'stop', counted: object = COUNTED): Line =>
  line({}, { done: true, ...(done_reason === null ? {} : { done_reason }), ...counted })

export const frame = (value: Line | string): string => `${typeof value === 'string' ? value : JSON.stringify(value)}\n`

/** Everything that comes of a body, in pieces of these sizes, over and over. */
export function itemsOf(
  body: string,
  includeUsage = false,
  sizes: readonly number[] = [body.length * 4],
): StreamItem[] {
  const bytes = Buffer.from(body)
  const decoder = dialect.decodeStream(view(includeUsage))
  const items: StreamItem[] = []
  for (let at = 0, turn = 0; at < bytes.length; turn++) {
    const size = sizes[turn % sizes.length]!
    items.push(...decoder.push(bytes.subarray(at, at + size)))
    at += size
  }
  return [...items, ...decoder.end()]
}

export const itemsOfLines = (lines: readonly (Line | string)[], includeUsage = false): StreamItem[] =>
  itemsOf(lines.map(frame).join(''), includeUsage)
