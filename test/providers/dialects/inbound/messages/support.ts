/** What the tests of the Messages dialect share: requests, answers, and the official library as the one who reads them. */
import Anthropic from '@anthropic-ai/sdk'
import type { ChatCompletion, ChatRequest, Chunk, Delta, InboundRequest, WireUsage } from '#contract'
import { messagesInbound } from '../../../../../src/providers/dialects/inbound/messages/index.ts'

export const VIEW = { exchange: 'req_01ab-7', createdAt: 1_790_000_000 }
export const HI = [{ role: 'user', content: 'Hi' }]
export const LEAST = { model: 'chat-small', max_tokens: 100, messages: HI }

export const findModel = (id: string) => ({ thinker: { maxOutput: 8192 }, 'chat-small': { maxOutput: 1000 } })[id]

export const read = (fields: object, view: object = {}): InboundRequest =>
  messagesInbound.decodeRequest({ ...LEAST, ...fields }, { ...VIEW, ...view })

/** The canonical body. */
export const bodyOf = (fields: object, view: object = {}) => read(fields, view).body as unknown as ChatRequest

export const messagesOf = (...messages: unknown[]) => bodyOf({ messages }).messages

export const chunk = (delta: Delta | null, more: object = {}, finish: string | null = null): Chunk => ({
  id: 'chatcmpl-1',
  object: 'chat.completion.chunk',
  created: 1,
  model: 'chat-small',
  choices: delta === null ? [] : [{ index: 0, delta, finish_reason: finish }],
  ...more,
})

export const completion = (
  message: Delta,
  finish: string | null = 'stop',
  usage?: WireUsage,
  choice: object = {},
): ChatCompletion => ({
  id: 'chatcmpl-1',
  object: 'chat.completion',
  created: 1,
  model: 'chat-small',
  choices: [{ index: 0, message: { role: 'assistant', ...message }, finish_reason: finish, ...choice }],
  ...(usage ? { usage } : {}),
})

export const USAGE: WireUsage = {
  prompt_tokens: 100,
  completion_tokens: 20,
  total_tokens: 120,
  prompt_tokens_details: { cached_tokens: 30, cache_write_tokens: 5 },
  completion_tokens_details: { reasoning_tokens: 7 },
}

/** The whole answer, read. */
export const answer = (of: ChatCompletion, fields: object = {}): Anthropic.Message =>
  JSON.parse(read(fields).encodeAnswer(of).toString('utf8'))

/** The bytes of a stream of these chunks. */
export function streamed(chunks: readonly Chunk[], fields: object = {}): string {
  const encoder = read({ stream: true, ...fields }).encodeStream()
  return Buffer.concat([...chunks.map(one => encoder.chunk(one)), encoder.finish()]).toString('utf8')
}

/** The events of a stream; their names are those of their data. */
export function eventsOf(text: string): Record<string, unknown>[] {
  return text
    .split('\n\n')
    .filter(frame => frame !== '')
    .map(frame => {
      const [name, data, ...rest] = frame.split('\n')
      const event = JSON.parse(data!.replace(/^data: /, '')) as Record<string, unknown>
      if (rest.length > 0 || name !== `event: ${event['type']}`) throw new Error(`no frame: ${frame}`)
      return event
    })
}

/** What the official library makes of a stream. */
export async function folded(text: string): Promise<Anthropic.Message> {
  const client = clientOf(() => new Response(text, { headers: { 'content-type': 'text/event-stream' } }))
  const stream = client.messages.stream({ model: 'm', max_tokens: 1, messages: [{ role: 'user', content: 'Hi' }] })
  // The library's own addition.
  const { parsed_output: _parsed, ...message } = await stream.finalMessage()
  return message
}

/** The official library; what it would send is answered here. */
export const clientOf = (respond: () => Response): Anthropic =>
  new Anthropic({ apiKey: 'a', logLevel: 'off', maxRetries: 0, fetch: async () => respond() })

/** What a stream adds up to, as a client of chat completions would put it together. */
export function completionOf(chunks: readonly Chunk[]): ChatCompletion {
  const message: Delta = {}
  let finish: string | null = null
  let usage: WireUsage | undefined
  for (const { choices, usage: counted } of chunks) {
    usage = counted ?? usage
    for (const { delta, finish_reason } of choices) {
      finish = finish_reason ?? finish
      for (const name of ['content', 'reasoning_content', 'reasoning', 'refusal'] as const) {
        if (delta[name]) message[name] = `${message[name] ?? ''}${delta[name]}`
      }
      if (delta['reasoning_details']) {
        const details = (message['reasoning_details'] ?? []) as unknown[]
        message['reasoning_details'] = details.concat(delta['reasoning_details'])
      }
      for (const { index, function: called, ...call } of delta.tool_calls ?? []) {
        message.tool_calls ??= []
        const known = (message.tool_calls[index!] ??= { function: { arguments: '' } })
        Object.assign(known, call)
        if (called?.name) known.function!.name = called.name
        known.function!.arguments += called?.arguments ?? ''
      }
    }
  }
  return completion(message, finish, usage)
}
