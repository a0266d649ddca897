/** What the tests of the Gemini dialect share. */
import type { AnswerView, Chat, Dialect, StreamItem, Target, WireUsage } from '#contract'
import { geminiDialect } from '../../../../src/providers/dialects/gemini/index.ts'

export const NOW = Date.parse('2026-11-20T12:00:00Z')
export const studio = geminiDialect(() => NOW)
export const vertex = geminiDialect(() => NOW, undefined, { platform: 'vertex' })

export const view: AnswerView = {
  model: 'chat-large',
  includeUsage: true,
  exchange: 'ex-01J',
  createdAt: 1_790_000_000,
}

export const target = (model: string): Target => ({
  id: `google/${model}`,
  provider: 'google',
  model,
  weight: 1,
  cost: null,
  capField: 'max_completion_tokens',
  reasoningOutsideCap: 0,
  priority: 1,
  maxInflight: Number.POSITIVE_INFINITY,
})

export function chatOf(more: Readonly<Record<string, unknown>>, cap = 4_000): Chat {
  const body = { model: 'chat-large', messages: [{ role: 'user', content: 'Hello' }], ...more } as Chat['body']
  return {
    body,
    bytes: Buffer.from(JSON.stringify(body)),
    stream: body.stream === true,
    includeUsage: false,
    choices: body.n ?? 1,
    requestedCap: null,
    cap,
  }
}

/** The items of a stream that comes in these pieces. */
export function decoded(pieces: readonly Buffer[], dialect: Dialect = studio, seen: AnswerView = view): StreamItem[] {
  const decoder = dialect.decodeStream(seen)
  return [...pieces.flatMap(piece => [...decoder.push(piece)]), ...decoder.end()]
}

export const bytewise = (body: Buffer): Buffer[] => Array.from(body, (_, at) => body.subarray(at, at + 1))

/** As Google sends events: with carriage returns. */
export const sse = (...values: readonly unknown[]): Buffer =>
  Buffer.from(values.map(value => `data: ${JSON.stringify(value)}\r\n\r\n`).join(''))

/** As Google sends a stream without events. */
export const list = (...values: readonly unknown[]): Buffer =>
  Buffer.from(`[${values.map(value => JSON.stringify(value, null, 2)).join(',\r\n')}]\n`)

export const parts = (list: readonly unknown[], more: object = {}) => ({
  candidates: [{ content: { role: 'model', parts: list }, index: 0, ...more }],
  responseId: 'resp-1',
  modelVersion: 'gemini-3.6-flash',
})

interface Folded {
  readonly message: Readonly<Record<string, unknown>>
  readonly finish: string | null
  readonly usage: WireUsage | null
}

/** What a client that collects chunks has in the end. */
export function folded(items: readonly StreamItem[]): Folded {
  const message: Record<string, unknown> = {}
  const calls: Record<string, unknown>[] = []
  let finish: string | null = null
  let used: WireUsage | null = null
  for (const item of items) {
    if (item.kind !== 'chunk') continue
    used = item.usage ?? used
    for (const { delta, finish_reason } of item.chunk.choices) {
      finish = finish_reason ?? finish
      for (const [name, value] of Object.entries(delta)) {
        const before = message[name]
        if (name === 'tool_calls') {
          for (const { index, ...call } of delta.tool_calls!) {
            const known = calls[index!]
            if (known) (known['function'] as { arguments: string }).arguments += call.function!.arguments
            else calls[index!] = structuredClone(call)
          }
        } else if (Array.isArray(value)) message[name] = [...((before as unknown[]) ?? []), ...value]
        else message[name] = typeof value === 'string' && typeof before === 'string' ? before + value : value
      }
    }
  }
  return { message: { ...message, ...(calls.length > 0 ? { tool_calls: calls } : {}) }, finish, usage: used }
}

/** A model without peculiarities. */
export const FLASH = 'gemini-2.0-flash'

/** The request for a body, its JSON parsed. */
export function encode(more: Readonly<Record<string, unknown>>, model = FLASH, dialect = studio, cap = 4_000) {
  const { path, dropped, headers, body } = dialect.encodeRequest(chatOf(more, cap), target(model))
  return { path, dropped, headers, wire: JSON.parse(body.toString()) }
}
