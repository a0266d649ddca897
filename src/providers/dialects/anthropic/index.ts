/**
 * The Anthropic dialect: the Messages API, at the provider itself or on Vertex AI. `encodeMessages` and `MessageEvents`
 * are also what a host with another framing is built from.
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
   * `api`: `/messages` below a base_url that ends in `/v1`. `vertex`: the model stands in the path, below a base_url that
   * ends in `/publishers/anthropic`.
   */
  readonly addressing?: 'api' | 'vertex'
}

/**
 * @param now milliseconds since the epoch, for a Retry-After that is a date
 * @param redact takes the gateway's own secrets out of what a provider says
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

/** What a request to the provider itself needs beside its body; Vertex AI takes a bearer token like the rest of Google. */
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
  // Names have versions behind an @, which the recorded requests leave as it is.
  const model = encodeURIComponent(target.model).replaceAll('%40', '@')
  const verb = chat.stream ? 'streamRawPredict' : 'rawPredict'
  return request(chat, `/models/${model}:${verb}`, { anthropic_version: VERTEX_VERSION, ...body }, dropped)
}

function countForApi(chat: Chat, { model }: Target): EncodedRequest {
  return request(chat, '/messages/count_tokens', { model, ...prompt(chat, model, 'anthropic') }, [])
}

/** The model stands in the body here: the path is one for all of them. */
function countForVertex(chat: Chat, { model }: Target): EncodedRequest {
  const body = { anthropic_version: VERTEX_VERSION, model, ...prompt(chat, model, 'cloud') }
  return request(chat, '/models/count-tokens:rawPredict', body, [])
}

/** What of a body is the prompt, or changes its size: a count is refused for any other parameter. */
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
