/** Helpers for the tests of the Messages dialect: requests, answers, and a client's reading of streams. */
import type { ChatCompletion, ChatRequest, Chunk, Delta, InboundRequest, WireUsage } from '#contract'
import { messagesInbound } from '../../../../../src/providers/dialects/inbound/messages/index.ts'

export const VIEW = { exchange: 'req_01ab-7', createdAt: 1_790_000_000 }
export const HI = [{ role: 'user', content: 'Hi' }]
export const LEAST = { model: 'chat-small', max_tokens: 100, messages: HI }

/** Fields of a request whose answer includes reasoning. */
export const SHOWN = { thinking: { type: 'adaptive' } }
export const HIDDEN = {}

export const read = (fields: object, view: object = {}): InboundRequest =>
  messagesInbound.decodeRequest({ ...LEAST, ...fields }, { ...VIEW, ...view })

/** The canonical body. */
export const bodyOf = (fields: object, view: object = {}) => read(fields, view).body as unknown as ChatRequest

export const chunk = (delta: Delta | null, more: object = {}, finish: string | null = null): Chunk => ({
  id: 'chatcmpl-1',
  object: 'chat.completion.chunk',
  created: 1,
  model: 'chat-small',
  choices: delta === null ? [] : [{ index: 0, delta, finish_reason: finish }],
  ...more,
})

export const completion = (message: Delta, finish: string | null = 'stop', usage?: WireUsage): ChatCompletion => ({
  id: 'chatcmpl-1',
  object: 'chat.completion',
  created: 1,
  model: 'chat-small',
  choices: [{ index: 0, message: { role: 'assistant', ...message }, finish_reason: finish }],
  ...(usage ? { usage } : {}),
})

export const USAGE: WireUsage = {
  prompt_tokens: 100,
  completion_tokens: 20,
  total_tokens: 120,
  prompt_tokens_details: { cached_tokens: 30, cache_write_tokens: 5 },
  completion_tokens_details: { reasoning_tokens: 7 },
}

export interface Block {
  readonly type: string
  readonly id?: string
  readonly text?: string
  readonly thinking?: string
  readonly input?: unknown
}

export interface Message {
  readonly content: readonly Block[]
  readonly stop_reason: string | null
  readonly usage: object
}

/** Parses a whole answer. */
export const answer = (of: ChatCompletion, fields: object = SHOWN): Message =>
  JSON.parse(read(fields).encodeAnswer(of).toString('utf8'))

/** The bytes of a stream of these chunks. */
export function streamed(chunks: readonly Chunk[], fields: object = SHOWN): string {
  const encoder = read({ stream: true, ...fields }).encodeStream()
  return Buffer.concat([...chunks.map(one => encoder.chunk(one)), encoder.finish()]).toString('utf8')
}

/** The events of a stream. Checks that their names match their data. */
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

type Fields = Record<string, unknown>

/** Joins the events of a stream into a message, as the official library does. */
export function folded(text: string): Message {
  let message: Fields = {}
  const blocks: Fields[] = []
  for (const { type, index, ...event } of eventsOf(text)) {
    const block = blocks[index as number]
    if (type === 'message_start') message = event['message'] as Fields
    else if (type === 'content_block_start') blocks.push({ ...(event['content_block'] as Fields) })
    else if (type === 'content_block_delta') extend(block!, event['delta'] as Fields)
    else if (type === 'content_block_stop') end(block!)
    else if (type === 'message_delta') message = { ...message, ...(event['delta'] as Fields), usage: event['usage'] }
    else if (type !== 'message_stop') throw new Error(`an event of the type ${type}`)
  }
  return { ...message, content: blocks } as unknown as Message
}

function extend(block: Fields, { type, ...delta }: Fields): void {
  for (const [name, value] of Object.entries(delta)) {
    if (type === 'citations_delta') block['citations'] = [...((block['citations'] as unknown[]) ?? []), value]
    else if (type === 'signature_delta') block[name] = value
    else block[name] = `${block[name] ?? ''}${value}`
  }
}

function end(block: Fields): void {
  const { partial_json: json } = block
  if (json !== undefined) block['input'] = JSON.parse(String(json))
  delete block['partial_json']
}

/** Joins chunks as a client of chat completions would. */
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
