/** What the tests of the Ollama dialect share: requests, lines, and everything that comes of a body. */
import type { StreamItem } from '#contract'
import { ollamaDialect } from '../../../../src/providers/dialects/ollama/index.ts'
import { NOW } from '../anthropic/helpers.ts'
import { workWith } from '../support.ts'

export { chatOf, chunksOf, folded, HI, NOW, target, view } from '../anthropic/helpers.ts'

export const dialect = ollamaDialect(() => NOW)
export const MODEL = 'qwen3:8b'
export const IMAGE = 'data:image/png;base64,iVBORw0KGgo='

export const { encoded, decoded, itemsOf } = workWith(dialect, MODEL)

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

export const itemsOfLines = (lines: readonly (Line | string)[], includeUsage = false): StreamItem[] =>
  itemsOf(lines.map(frame).join(''), includeUsage)
