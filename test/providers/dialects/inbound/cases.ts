/** Decodes and encodes the cases of the client formats with the inbound dialects. */
import {
  type ChatCompletion,
  type Chunk,
  type ErrorCode,
  type InboundDialect,
  type InboundRequest,
  type InboundView,
  refuse,
} from '#contract'
import { messagesInbound } from '../../../../src/providers/dialects/inbound/messages/index.ts'
import { responsesInbound } from '../../../../src/providers/dialects/inbound/responses/index.ts'
import { boxesOf } from '../../../helpers/boxes.ts'
import type { Case, Json } from '../../../helpers/cases.ts'

export const FOLDER = 'test/providers/dialects/inbound'

const DIALECTS: Readonly<Record<string, InboundDialect>> = { messages: messagesInbound, responses: responsesInbound }
const VIEW: InboundView = { exchange: 'req_01ab-7', createdAt: 1_790_000_000 }
/** The members of most requests: a case has only the members that differ. */
const LEAST: Readonly<Record<string, Json>> = {
  messages: { model: 'chat-small', max_tokens: 100, messages: [{ role: 'user', content: 'Hi' }] },
  responses: { model: 'chat-small', input: 'Hello' },
}
const HEAD = { id: 'chatcmpl-1', created: 1, model: 'chat-small' }

/** Decodes the request of a case. `view.models` has the data of each model by its id; `view.boxes` is an account. */
export function requestOf(given: Case, more: Json = {}): InboundRequest {
  const name = given['dialect'] as string
  const body = { ...LEAST[name], ...more, ...(given['request'] as Json | undefined) }
  const { models, boxes, ...view } = (given['view'] ?? {}) as Json
  return DIALECTS[name]!.decodeRequest(structuredClone(body), {
    ...VIEW,
    ...view,
    ...(models ? { findModel: (id: string) => (models as Readonly<Record<string, never>>)[id] } : {}),
    ...(boxes ? { boxes: boxesOf(String(boxes)) } : {}),
  })
}

export function answerOf(given: Case): Json {
  const { choices, ...more } = given['completion'] as Json
  const completion = { ...HEAD, object: 'chat.completion', choices: choicesOf(choices), ...more }
  const bytes = requestOf(given, shownThoughts(given)).encodeAnswer(completion as unknown as ChatCompletion)
  return JSON.parse(bytes.toString())
}

/** Clients of Messages get reasoning only if they ask for it. */
const shownThoughts = ({ dialect }: Case): Json => (dialect === 'messages' ? { thinking: { type: 'adaptive' } } : {})

/** The whole body of a stream. */
export function streamOf(given: Case): string {
  const encoder = requestOf(given, { stream: true, ...shownThoughts(given) }).encodeStream()
  const bytes = (given['chunks'] as readonly Json[]).map(({ delta, finish, choices, ...more }) => {
    const all = choicesOf(delta === undefined ? (choices ?? []) : [{ delta, finish }])
    return encoder.chunk({ ...HEAD, object: 'chat.completion.chunk', choices: all, ...more } as unknown as Chunk)
  })
  const { code, ...why } = (given['fails'] ?? {}) as Json
  const end = code === undefined ? encoder.finish() : encoder.fail(refuse(code as ErrorCode, why))
  return Buffer.concat([...bytes, end]).toString()
}

function choicesOf(choices: unknown): Json[] {
  return (choices as readonly Json[]).map(({ finish, ...choice }, index) => ({
    index,
    ...choice,
    finish_reason: finish ?? null,
  }))
}
