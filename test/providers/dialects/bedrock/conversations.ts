/** What the tests of this folder ask and how they look at what comes of it. */
import type { AnswerView, Chat, ChatRequest, Chunk, StreamItem, Target, UpstreamFailure } from '#contract'
import { bedrockDialect } from '../../../../src/providers/dialects/bedrock/index.ts'

export const dialect = bedrockDialect(
  () => Date.parse('2026-11-20T12:00:00Z'),
  text => text.replaceAll('SECRET', '[secret]'),
)

export const CLAUDE = 'us.anthropic.claude-sonnet-4-5-20250929-v1:0'
export const NEW_CLAUDE = 'global.anthropic.claude-sonnet-5'
export const NOVA = 'amazon.nova-lite-v1:0'

export const USER = { role: 'user', content: 'hi' }
export const WEATHER = {
  type: 'function',
  function: { name: 'weather', description: 'The weather.', parameters: { type: 'object', properties: { city: {} } } },
}
export const CLOCK = { type: 'function', function: { name: 'clock' } }

/** An assistant's message with one call of a tool. */
export const calls = (id: string, name = 'weather', args = '{"city":"Bonn"}', more: object = {}) => ({
  role: 'assistant',
  content: null,
  tool_calls: [{ id, type: 'function', function: { name, arguments: args } }],
  ...more,
})
export const result = (id: string, content: string) => ({ role: 'tool', tool_call_id: id, content })

/** A request's body; its members are looked at by comparing. */
export interface Sent {
  readonly messages: readonly {
    readonly role: string
    readonly content: readonly Readonly<Record<string, unknown>>[]
  }[]
  readonly system?: unknown
  readonly inferenceConfig: Readonly<Record<string, unknown>>
  readonly toolConfig?: { readonly tools: readonly unknown[]; readonly toolChoice?: unknown }
  readonly additionalModelRequestFields?: unknown
  readonly [member: string]: unknown
}

/** The request that is made of a body with a cap of 3,000 tokens. */
export function encode(body: object, model = CLAUDE, cap = 3000) {
  const whole = { model: 'chat-small', messages: [USER], ...body } as ChatRequest
  const before = JSON.stringify(whole)
  const request = dialect.encodeRequest(chatOf(whole, cap), targetOf(model))
  if (JSON.stringify(whole) !== before) throw new Error('the request was changed')
  return { ...request, sent: JSON.parse(request.body.toString()) as Sent }
}

export function chatOf(body: ChatRequest, cap = 3000): Chat {
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

export const targetOf = (model: string) =>
  ({
    id: `bedrock/${model}`,
    provider: 'bedrock',
    model,
    weight: 1,
    priority: 0,
    maxInflight: Number.POSITIVE_INFINITY,
    cost: null,
    capField: 'max_tokens',
    reasoningOutsideCap: 0,
  }) as Target

export const view: AnswerView = { model: 'chat-small', includeUsage: true, exchange: 'x-1', createdAt: 1_790_000_000 }

/** All items of a stream that comes in these pieces. */
export function decode(pieces: readonly Buffer[], seen: AnswerView = view): StreamItem[] {
  const decoder = dialect.decodeStream(seen)
  return [...pieces.flatMap(piece => decoder.push(piece)), ...decoder.end()]
}

export const chunksOf = (items: readonly StreamItem[]): Chunk[] =>
  items.flatMap(item => (item.kind === 'chunk' ? [item.chunk] : []))

export const failureOf = (items: readonly StreamItem[]): UpstreamFailure | undefined =>
  items.flatMap(item => (item.kind === 'failure' ? [item.failure] : []))[0]

/** What a client has at the end of a stream: its deltas put together as the official libraries do. */
export function fold(items: readonly StreamItem[]) {
  const message: Record<string, unknown> = {}
  const calls: { id?: string; type?: string; function: { name?: string; arguments: string } }[] = []
  const details: unknown[] = []
  let finish: string | null = null
  for (const { choices } of chunksOf(items)) {
    for (const { delta, finish_reason } of choices) {
      finish = finish_reason ?? finish
      for (const name of ['role', 'content', 'refusal', 'reasoning_content']) {
        const value = delta[name]
        if (typeof value === 'string') message[name] = `${message[name] ?? ''}${value}`
        else if (value === null) message[name] ??= null
      }
      details.push(...((delta['reasoning_details'] as unknown[] | undefined) ?? []))
      for (const { index, id, type, function: piece } of delta.tool_calls ?? []) {
        const call = (calls[index!] ??= { function: { arguments: '' } })
        if (id !== undefined) Object.assign(call, { id, type })
        if (piece?.name !== undefined) call.function.name = piece.name
        call.function.arguments += piece?.arguments ?? ''
      }
    }
  }
  return {
    message: {
      ...message,
      content: message['content'] || null,
      ...(details.length > 0 ? { reasoning_details: details } : {}),
      ...(calls.length > 0 ? { tool_calls: calls } : {}),
    },
    finish,
  }
}
