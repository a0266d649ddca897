/** Helpers for the tests of the Anthropic dialect: a request, a view, events, and a client's reading of chunks. */
import type { AnswerView, Chat, ChatRequest, Chunk, Delta, StreamItem, Target } from '#contract'
import { anthropicDialect } from '../../../../src/providers/dialects/anthropic/index.ts'

export const NOW = Date.parse('2026-11-20T12:00:00Z')
export const dialect = anthropicDialect(() => NOW)

export const target = (model = 'claude-sonnet-4-5'): Target => ({
  id: `anthropic/${model}`,
  provider: 'anthropic',
  model,
  weight: 1,
  cost: null,
  reasoningOutsideCap: 0,
  priority: 1,
  maxInflight: Number.POSITIVE_INFINITY,
})

export const HI = [{ role: 'user', content: 'Hi' }]

export function chatOf(fields: Partial<ChatRequest>, cap = 4096): Chat {
  const body: ChatRequest = { model: 'chat-small', messages: HI, ...fields }
  return {
    body,
    bytes: Buffer.from(JSON.stringify(body)),
    stream: body.stream === true,
    includeUsage: body.stream_options?.include_usage === true,
    choices: body.n ?? 1,
    requestedCap: null,
    cap,
  }
}

export const view = (includeUsage = false): AnswerView => ({
  model: 'chat-small',
  includeUsage,
  exchange: 'ex_7',
  createdAt: 1_790_000_000,
})

export type Event = Readonly<Record<string, unknown>> & { readonly type: string }

export const frame = (event: Event | string): string =>
  typeof event === 'string' ? `data: ${event}\n\n` : `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`

export const start = (usage: object = { input_tokens: 10, output_tokens: 1 }): Event => ({
  type: 'message_start',
  message: { id: 'msg_1', type: 'message', role: 'assistant', content: [], model: 'claude', usage },
})
export const blockStart = (index: number, block: object): Event => ({
  type: 'content_block_start',
  index,
  content_block: block,
})
export const delta = (index: number, type: string, fields: object): Event => ({
  type: 'content_block_delta',
  index,
  delta: { type, ...fields },
})
export const blockStop = (index: number): Event => ({ type: 'content_block_stop', index })
export const end = (stop: string | null, usage: object = { output_tokens: 5 }, more: object = {}): Event[] => [
  { type: 'message_delta', delta: { stop_reason: stop, stop_sequence: null, ...more }, usage },
  { type: 'message_stop' },
]
/** A text block that comes in pieces. */
export const text = (index: number, ...pieces: string[]): Event[] => [
  blockStart(index, { type: 'text', text: '' }),
  ...pieces.map(piece => delta(index, 'text_delta', { text: piece })),
  blockStop(index),
]

/** All items of a body that arrives in pieces of a size. */
export function itemsOf(body: string | Buffer, includeUsage = false, size = Number.POSITIVE_INFINITY): StreamItem[] {
  const bytes = Buffer.from(body as string)
  const decoder = dialect.decodeStream(view(includeUsage))
  const items: StreamItem[] = []
  for (let at = 0; at < bytes.length; at += size) items.push(...decoder.push(bytes.subarray(at, at + size)))
  return [...items, ...decoder.end()]
}

export const itemsOfEvents = (events: readonly (Event | string)[], includeUsage = false): StreamItem[] =>
  itemsOf(events.map(frame).join(''), includeUsage)

export const chunksOf = (items: readonly StreamItem[]): Chunk[] =>
  items.flatMap(item => (item.kind === 'chunk' ? [item.chunk] : []))

/** The message that a client assembles, and its finish reason. */
export function folded(chunks: readonly Chunk[]): { message: Delta; finish: string | null } {
  const message: Delta = { content: null }
  let finish: string | null = null
  const append = (name: string, piece: unknown) => {
    if (typeof piece === 'string') message[name] = `${message[name] ?? ''}${piece}`
  }
  for (const { delta: piece, finish_reason } of chunks.flatMap(chunk => chunk.choices)) {
    if (piece.role) message.role = piece.role
    for (const name of ['content', 'reasoning_content', 'refusal']) append(name, piece[name])
    const details = piece['reasoning_details']
    if (Array.isArray(details)) {
      message['reasoning_details'] = [...((message['reasoning_details'] as unknown[]) ?? []), ...details]
    }
    for (const { index = 0, id, type, function: made } of piece.tool_calls ?? []) {
      message.tool_calls ??= []
      const call = (message.tool_calls[index] ??= {
        id: id!,
        type: type!,
        function: { name: made!.name!, arguments: '' },
      })
      call.function!.arguments += made?.arguments ?? ''
    }
    finish ??= finish_reason ?? null
  }
  return { message, finish }
}
