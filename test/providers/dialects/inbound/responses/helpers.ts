/** What the tests of the Responses format share: requests, streams as the client sees them, and the official library's own fold. */
import { Ajv2020 } from 'ajv/dist/2020.js'
import OpenAI from 'openai'
import type { ResponseStreamParams } from 'openai/lib/responses/ResponseStream'
import type { Response as OpenAiResponse, ResponseStreamEvent } from 'openai/resources/responses/responses'
import {
  type Boxes,
  type ChatCompletion,
  type Chunk,
  type InboundView,
  isRefusal,
  type Refusal,
  type WireUsage,
} from '#contract'
import { chatCompletionsSchema } from '../../../../../plugins/schema/chat-completions.ts'
import { responsesInbound } from '../../../../../src/providers/dialects/inbound/responses/index.ts'
import { createVault } from '../../../../../src/store/vault.ts'
import { parseSse } from '../../../../helpers/sse.ts'

/** Boxes of one account, made with the store's own cipher; without chance, so that two answers can be compared. */
export function boxesOf(account: string, secret = 'a secret that only tests have, long enough'): Boxes {
  const vault = createVault(secret, size => Buffer.alloc(size))
  return {
    seal: text => vault.seal('thought', account, Buffer.from(text)).toString('base64url'),
    open: box => vault.open('thought', account, Buffer.from(box, 'base64url'))?.toString() ?? null,
  }
}

export const VIEW: InboundView = { exchange: 'req_01ABC', createdAt: 1_700_000_000, boxes: boxesOf('acct_1') }

export const MINIMAL = { model: 'm', input: 'Hello' }

export type Json = Readonly<Record<string, unknown>>

const ajv = new Ajv2020({ strict: true, allowUnionTypes: true, discriminator: true, verbose: true })
ajv.addKeyword({ keyword: 'longest', type: 'string', schemaType: 'number' })
const isCanonical = ajv.compile(chatCompletionsSchema('refuse'))

/** The canonical body of a request, which the `schema` step must take. */
export function canonical(more: Json): Json {
  const { body } = responsesInbound.decodeRequest({ ...MINIMAL, ...more }, VIEW)
  if (!isCanonical(body)) throw new Error(`not canonical: ${JSON.stringify(isCanonical.errors?.[0])}`)
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
export function chunk(delta: Json, finish: string | null = null, more: Json = {}): Chunk {
  return { ...HEAD, object: 'chat.completion.chunk', choices: [{ index: 0, delta, finish_reason: finish, ...more }] }
}

export const usageChunk = (usage = USAGE): Chunk => ({ ...HEAD, object: 'chat.completion.chunk', choices: [], usage })

/** A whole answer. */
export function completion(message: Json, finish = 'stop', more: Json = {}): ChatCompletion {
  return {
    ...HEAD,
    object: 'chat.completion',
    choices: [{ index: 0, message, finish_reason: finish, ...more }],
    usage: USAGE,
  }
}

/** The Response that a whole answer becomes. */
export function answered(message: Json, { finish = 'stop', request = {}, choice = {} }: AnswerOptions = {}) {
  const { encodeAnswer } = responsesInbound.decodeRequest({ ...MINIMAL, ...request }, VIEW)
  return JSON.parse(encodeAnswer(completion(message, finish, choice)).toString()) as OpenAiResponse
}

interface AnswerOptions {
  readonly finish?: string
  readonly request?: Json
  readonly choice?: Json
}

/** The body of a stream that went well. */
export function streamed(chunks: readonly Chunk[], request: Json = {}): string {
  const encoder = responsesInbound.decodeRequest({ ...MINIMAL, stream: true, ...request }, VIEW).encodeStream()
  return Buffer.concat([...chunks.map(each => encoder.chunk(each)), encoder.finish()]).toString()
}

/** Its events. Throws when an event's name is not its type, or a number is missing. */
export function eventsOf(body: string): ResponseStreamEvent[] {
  const { events, done, rest } = parseSse(body)
  if (done || rest !== '') throw new Error('the stream has an end of another format')
  return events.map(({ event, data }, index) => {
    const value = JSON.parse(data) as ResponseStreamEvent
    if (value.type !== event) throw new Error(`the event ${event} has the type ${value.type}`)
    if (value.sequence_number !== index) throw new Error(`event ${index} has the number ${value.sequence_number}`)
    return value
  })
}

/** The official library, answered with this stream. */
export function libraryWith(body: string): OpenAI {
  const fetch = async () => new Response(body, { headers: { 'content-type': 'text/event-stream' } })
  return new OpenAI({ apiKey: 'none', baseURL: 'http://127.0.0.1:1/v1', maxRetries: 0, logLevel: 'off', fetch })
}

/** What the library puts together from a stream. */
export async function folded(body: string, request: Json = {}) {
  const stream = libraryWith(body).responses.stream({ ...MINIMAL, ...request } as ResponseStreamParams)
  return stream.finalResponse()
}
