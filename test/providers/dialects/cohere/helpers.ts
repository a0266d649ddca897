/** What the tests of the Cohere dialect share: requests, events, and everything that comes of a body. */
import type { StreamItem } from '#contract'
import { cohereDialect } from '../../../../src/providers/dialects/cohere/index.ts'
import { NOW } from '../anthropic/helpers.ts'
import { workWith } from '../support.ts'

export { chatOf, chunksOf, folded, HI, NOW, target, view } from '../anthropic/helpers.ts'

export const dialect = cohereDialect(() => NOW)
export const MODEL = 'command-a-03-2025'
export const THINKER = 'command-a-reasoning-08-2025'

export const { encoded, decoded, itemsOf } = workWith(dialect, MODEL)

export type Event = Readonly<Record<string, unknown>>

export const frame = (event: Event | string): string =>
  typeof event === 'string' ? `data: ${event}\n\n` : `event: ${event['type']}\ndata: ${JSON.stringify(event)}\n\n`

const inMessage = (type: string, message: object, more: object = {}): Event => ({ type, ...more, delta: { message } })

export const START: Event = inMessage('message-start', { role: 'assistant', content: [] }, { id: 'ans-1' })
export const DONE = '[DONE]'
export const text = (piece: string): Event => inMessage('content-delta', { content: { text: piece } }, { index: 0 })
export const thought = (piece: string): Event =>
  inMessage('content-delta', { content: { thinking: piece } }, { index: 0 })
export const plan = (piece: string): Event => inMessage('tool-plan-delta', { tool_plan: piece })

/** A call whose arguments come in pieces. */
export const call = (index: number, id: string, name: string, ...pieces: string[]): Event[] => [
  inMessage('tool-call-start', { tool_calls: { id, type: 'function', function: { name, arguments: '' } } }, { index }),
  ...pieces.map(piece => inMessage('tool-call-delta', { tool_calls: { function: { arguments: piece } } }, { index })),
  { type: 'tool-call-end', index },
]

export const USED = {
  billed_units: { input_tokens: 2, output_tokens: 1 },
  tokens: { input_tokens: 10, output_tokens: 5 },
  cached_tokens: 4,
}
export const USAGE = {
  prompt_tokens: 10,
  completion_tokens: 5,
  total_tokens: 15,
  prompt_tokens_details: { cached_tokens: 4 },
}

export const end = (finish_reason: string | null, usage: unknown = USED, more: object = {}): Event => ({
  type: 'message-end',
  delta: { finish_reason, usage, ...more },
})

export const itemsOfEvents = (events: readonly (Event | string)[], includeUsage = false): StreamItem[] =>
  itemsOf(events.map(frame).join(''), includeUsage)
