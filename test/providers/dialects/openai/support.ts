/** What the tests of OpenAI's relatives share: a request, a target, a view, and what a client makes of a stream. */
import type { AnswerView, Chat, ChatRequest, Chunk, StreamItem, Target } from '#contract'
import { createDialect, type DialectName } from '../../../../src/providers/dialects/index.ts'

export const NOW = Date.parse('2026-11-20T12:00:00Z')

export const target = (fields: Partial<Target> = {}): Target => ({
  id: 'near/some-mini',
  provider: 'near',
  model: 'some-mini',
  weight: 1,
  cost: null,
  capField: 'max_completion_tokens',
  reasoningOutsideCap: 0,
  priority: 1,
  maxInflight: Number.POSITIVE_INFINITY,
  ...fields,
})

/** The fact `chat` for a body as the client wrote it, with a cap of 100 tokens. */
export function chatOf(text: string): Chat {
  const body = JSON.parse(text) as ChatRequest
  return {
    body,
    bytes: Buffer.from(text),
    stream: body.stream === true,
    includeUsage: body.stream_options?.include_usage === true,
    choices: body.n ?? 1,
    requestedCap: null,
    cap: 100,
  }
}

/** What goes upstream: the body as text, and what is said to be dropped. */
export function sent(name: DialectName, text: string, fields: Partial<Target> = {}) {
  const { body, dropped } = createDialect(name, () => NOW).dialect.encodeRequest(chatOf(text), target(fields))
  return { text: body.toString(), dropped }
}

/** The messages that go upstream for those of a client. */
export function messagesSent(name: DialectName, messages: readonly object[]) {
  const { text, dropped } = sent(name, JSON.stringify({ model: 'chat-small', messages }))
  return { messages: (JSON.parse(text) as { readonly messages: readonly unknown[] }).messages, dropped }
}

export const VIEW: AnswerView = { model: 'chat-small', includeUsage: true, exchange: 'req_1', createdAt: 1_790_000_000 }

/** The chunks that a client sees of events, each as JSON. Throws when what steps and clients see differs. */
export function chunksSeen(events: readonly string[]): Chunk[] {
  const decoder = createDialect('openai', () => NOW).dialect.decodeStream(VIEW)
  const items: StreamItem[] = [...decoder.push(Buffer.from(events.map(text => `data: ${text}\n\n`).join('')))]
  items.push(...decoder.end())
  return items.flatMap(item => {
    if (item.kind !== 'chunk') return []
    if (item.raw !== null && JSON.stringify(JSON.parse(item.raw.toString())) !== JSON.stringify(item.chunk)) {
      throw new Error(`${item.raw} is not what steps see`)
    }
    return [item.chunk]
  })
}
