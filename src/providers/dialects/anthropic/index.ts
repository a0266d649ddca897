/**
 * The Anthropic dialect: the Messages API of the provider or of Vertex AI. Hosts with another framing also use `encodeMessages` and
 * `MessageEvents`.
 */
import type { Chat, Dialect, EncodedRequest, Target } from '#contract'
import type { Redact } from '../failure.ts'
import { bodyOf } from '../translate/body.ts'
import { decodeMessage } from './answer.ts'
import { errorReader } from './errors.ts'
import { encodeMessages } from './request.ts'
import { decodeMessageStream } from './stream.ts'
import type { Host } from './traits.ts'

export { decodeMessage } from './answer.ts'
export { type ErrorReader, errorReader } from './errors.ts'
export { MessageEvents } from './events.ts'
export { encodeMessages } from './request.ts'

export interface AnthropicOptions {
  /**
   * `api`: `/messages` below a base_url that ends in `/v1`. `vertex`: the path contains the model, below a base_url that ends in
   * `/publishers/anthropic`.
   */
  readonly addressing?: 'api' | 'vertex'
}

/**
 * @param now milliseconds since the epoch, for a Retry-After that is a date
 * @param redact removes the gateway's own secrets from a provider's words
 */
export function anthropicDialect(
  now: () => number,
  redact?: Redact,
  { addressing = 'api' }: AnthropicOptions = {},
): Dialect {
  const errors = errorReader(now, redact)
  return {
    name: addressing === 'api' ? 'anthropic' : 'vertex-anthropic',
    encodeRequest: addressing === 'api' ? encodeForApi : encodeForVertex,
    counting: { encodeRequest: addressing === 'api' ? countForApi : countForVertex, field: 'input_tokens' },
    decodeAnswer: (body, view) => decodeMessage(body, view, errors),
    decodeStream: view => decodeMessageStream(view, errors),
    decodeError: (status, headers, body) => errors.answer(status, headers, body),
  }
}

/** The headers of a request to the provider itself. Vertex AI takes a bearer token like the rest of Google. */
export function anthropicHeaders(apiKey: string): Record<string, string> {
  return { 'x-api-key': apiKey, 'anthropic-version': '2023-06-01' }
}

function encodeForApi(chat: Chat, target: Target): EncodedRequest {
  const { body, dropped } = encodeMessages(chat, target.model, 'anthropic')
  return request(chat, '/messages', { model: target.model, ...body }, dropped)
}

const VERTEX_VERSION = 'vertex-2023-10-16'

function encodeForVertex(chat: Chat, target: Target): EncodedRequest {
  const { body, dropped } = encodeMessages(chat, target.model, 'cloud')
  // Names have versions after an @, which stays unencoded in the recorded requests.
  const model = encodeURIComponent(target.model).replaceAll('%40', '@')
  const verb = chat.stream ? 'streamRawPredict' : 'rawPredict'
  return request(chat, `/models/${model}:${verb}`, { anthropic_version: VERTEX_VERSION, ...body }, dropped)
}

function countForApi(chat: Chat, { model }: Target): EncodedRequest {
  return request(chat, '/messages/count_tokens', { model, ...prompt(chat, model, 'anthropic') }, [])
}

/** The model is in the body here, because the path is the same for all models. */
function countForVertex(chat: Chat, { model }: Target): EncodedRequest {
  const body = { anthropic_version: VERTEX_VERSION, model, ...prompt(chat, model, 'cloud') }
  return request(chat, '/models/count-tokens:rawPredict', body, [])
}

/** The members of a body that affect the size of the prompt. A count with any other member is refused. */
const COUNTED = ['messages', 'system', 'tools', 'tool_choice', 'thinking', 'output_config']

function prompt(chat: Chat, model: string, host: Host): Readonly<Record<string, unknown>> {
  const { body } = encodeMessages(chat, model, host)
  return Object.fromEntries(Object.entries(body).filter(([name]) => COUNTED.includes(name)))
}

function request(
  chat: Chat,
  path: string,
  body: Readonly<Record<string, unknown>>,
  dropped: readonly string[],
): EncodedRequest {
  return {
    path,
    headers: { accept: chat.stream ? 'text/event-stream' : 'application/json' },
    body: bodyOf(chat.stream ? { ...body, stream: true } : body),
    dropped,
  }
}
