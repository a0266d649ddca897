/** Helpers for the tests of the Responses format: requests, and answers as the client gets them. */
import { type ChatCompletion, type Chunk, type InboundView, isRefusal, type Refusal, type WireUsage } from '#contract'
import { responsesInbound } from '../../../../../src/providers/dialects/inbound/responses/index.ts'
import { boxesOf } from '../../../../helpers/boxes.ts'
import type { Json } from '../../../../helpers/cases.ts'
import { parseSse } from '../../../../helpers/sse.ts'
import { complaintAbout } from '../canonical.ts'

export const VIEW: InboundView = { exchange: 'req_01ABC', createdAt: 1_700_000_000, boxes: boxesOf('acct_1') }

export const MINIMAL = { model: 'm', input: 'Hello' }

export interface Item extends Json {
  readonly type: string
  readonly call_id?: string
  readonly encrypted_content?: string
  readonly summary?: readonly { readonly text: string }[]
  readonly content?: readonly { readonly type: string; readonly text?: string; readonly refusal?: string }[]
}

export interface Response extends Json {
  readonly output: Item[]
}

export interface Event extends Json {
  readonly type: string
  readonly item?: Item
  readonly response?: Response
}

/** The canonical body of a request. The `schema` step must accept it. */
export function canonical(more: Json): Json {
  const { body } = responsesInbound.decodeRequest({ ...MINIMAL, ...more }, VIEW)
  const complaint = complaintAbout(body)
  if (complaint !== null) throw new Error(`not canonical: ${complaint}`)
  return body
}

/** The canonical messages of an input. */
export const messagesOf = (input: unknown, more: Json = {}): unknown => canonical({ ...more, input })['messages']

/** The refusal of a request. */
export function refusalOf(body: unknown): Refusal {
  try {
    responsesInbound.decodeRequest(body, VIEW)
  } catch (error) {
    if (isRefusal(error)) return error
    throw error
  }
  throw new Error('the request was not refused')
}

export const USAGE: WireUsage = {
  prompt_tokens: 10,
  completion_tokens: 7,
  total_tokens: 17,
  prompt_tokens_details: { cached_tokens: 4 },
  completion_tokens_details: { reasoning_tokens: 2 },
}

const HEAD = { id: 'chatcmpl-1', created: 1, model: 'm' }

/** A chunk with one choice. */
export function chunk(delta: Json, finish: string | null = null): Chunk {
  return { ...HEAD, object: 'chat.completion.chunk', choices: [{ index: 0, delta, finish_reason: finish }] }
}

export const usageChunk = (usage = USAGE): Chunk => ({ ...HEAD, object: 'chat.completion.chunk', choices: [], usage })

/** A whole answer. */
export function completion(message: Json, finish = 'stop'): ChatCompletion {
  return { ...HEAD, object: 'chat.completion', choices: [{ index: 0, message, finish_reason: finish }], usage: USAGE }
}

/** The Response for a whole answer. */
export function answered(message: Json, { finish = 'stop', request = {} }: AnswerOptions = {}): Response {
  const { encodeAnswer } = responsesInbound.decodeRequest({ ...MINIMAL, ...request }, VIEW)
  return JSON.parse(encodeAnswer(completion(message, finish)).toString())
}

interface AnswerOptions {
  readonly finish?: string
  readonly request?: Json
}

/** The body of a successful stream. */
export function streamed(chunks: readonly Chunk[], request: Json = {}): string {
  const encoder = responsesInbound.decodeRequest({ ...MINIMAL, stream: true, ...request }, VIEW).encodeStream()
  return Buffer.concat([...chunks.map(each => encoder.chunk(each)), encoder.finish()]).toString()
}

/** The events of a stream. Throws if an event's name is not its type, or a number is missing. */
export function eventsOf(body: string): Event[] {
  const { events, done, rest } = parseSse(body)
  if (done || rest !== '') throw new Error('the stream has an end of another format')
  return events.map(({ event, data }, index) => {
    const value = JSON.parse(data) as Event & { readonly sequence_number: number }
    if (value.type !== event) throw new Error(`the event ${event} has the type ${value.type}`)
    if (value.sequence_number !== index) throw new Error(`event ${index} has the number ${value.sequence_number}`)
    return value
  })
}
