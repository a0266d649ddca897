/** What the tests of the Cohere dialect share: requests, events, and everything that comes of a body. */
import type { ChatRequest, DecodedAnswer, StreamItem, UpstreamFailure } from '#contract'
import { cohereDialect } from '../../../src/dialects/cohere/index.ts'
import { chatOf, NOW, target, view } from '../anthropic/helpers.ts'

export { chatOf, chunksOf, folded, HI, NOW, target, view } from '../anthropic/helpers.ts'

export const dialect = cohereDialect(() => NOW)
export const MODEL = 'command-a-03-2025'
export const THINKER = 'command-a-reasoning-08-2025'

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

export const itemsOfEvents = (events: readonly (Event | string)[], includeUsage = false): StreamItem[] =>
  itemsOf(events.map(frame).join(''), includeUsage)
