/**
 * The OpenAI dialect: the canonical format itself, so bytes pass, and only what must change is spliced: in the request
 * the model, the output cap and `stream_options`; in the answer the model, and usage that the client did not ask for.
 */
import type {
  AnswerView,
  Chat,
  ChatCompletion,
  DecodedAnswer,
  Dialect,
  EncodedRequest,
  Target,
  UpstreamFailure,
} from '#contract'
import { errorDetails, failureOf, type Redact } from '../failure.ts'
import { scanTopLevel, setMembers } from '../json-splice.ts'
import { decodeOpenAiStream, type Fail, failureInside, isObject } from './stream.ts'

/**
 * @param now milliseconds since the epoch, for a Retry-After that is a date
 * @param redact takes the gateway's own secrets out of what a provider says
 */
export function openAiDialect(now: () => number, redact?: Redact): Dialect {
  const fail: Fail = (status, headers, details) => failureOf(status, headers, details, now(), redact)
  return {
    name: 'openai',
    encodeRequest,
    decodeAnswer: (body, view) => decodeAnswer(body, view, fail),
    decodeStream: view => decodeOpenAiStream(view, fail),
    decodeError: (status, headers, body) => fail(status, headers, errorDetails(body)),
  }
}

function encodeRequest(chat: Chat, target: Target): EncodedRequest {
  return {
    path: '/chat/completions',
    headers: { accept: chat.stream ? 'text/event-stream' : 'application/json' },
    body: ownMemory(spliced(chat, requestChanges(chat, target))),
    dropped: [],
  }
}

/**
 * What differs from the client's own request. The cap is always sent, under the name that the target takes: without it
 * the hold would be a guess. Usage is always asked for: it is what the charge is made from.
 */
function requestChanges(chat: Chat, target: Target): Record<string, string | undefined> {
  const otherField = target.capField === 'max_tokens' ? 'max_completion_tokens' : 'max_tokens'
  const changes: Record<string, string | undefined> = {
    model: JSON.stringify(target.model),
    [target.capField]: String(chat.cap),
    [otherField]: undefined,
  }
  if (chat.stream) changes['stream_options'] = JSON.stringify({ ...chat.body.stream_options, include_usage: true })
  return changes
}

function spliced(chat: Chat, changes: Readonly<Record<string, string | undefined>>): Buffer {
  const spans = scanTopLevel(chat.bytes)
  if (spans) return setMembers(chat.bytes, spans, changes)
  const body: Record<string, unknown> = { ...chat.body }
  for (const [name, json] of Object.entries(changes)) {
    if (json === undefined) delete body[name]
    else body[name] = JSON.parse(json)
  }
  return Buffer.from(JSON.stringify(body))
}

/**
 * Out of Node's pool: a request's bytes stay as long as its answer goes on, and a small piece of the pool keeps all of
 * its 64 KiB. (2,000 streams whose readers stalled: 60 KiB less for each.)
 */
function ownMemory(bytes: Buffer): Buffer {
  if (bytes.buffer.byteLength === bytes.length) return bytes
  const own = Buffer.allocUnsafeSlow(bytes.length)
  bytes.copy(own)
  return own
}

function decodeAnswer(
  bytes: Buffer,
  view: AnswerView,
  fail: Fail,
): DecodedAnswer | { readonly failure: UpstreamFailure } {
  const body = bytes[0] === 0xef && bytes[1] === 0xbb && bytes[2] === 0xbf ? bytes.subarray(3) : bytes
  const invalid = (detail: string) => ({ failure: { code: 'upstream_invalid' as const, detail } })
  if (body.length === 0) return invalid('the answer is empty')
  let parsed: unknown
  try {
    parsed = JSON.parse(body.toString('utf8'))
  } catch {
    return invalid('the answer is not JSON')
  }
  if (typeof parsed !== 'object' || parsed === null) return invalid('the answer is not an object')
  const { error, choices } = parsed as { error?: unknown; choices?: unknown }
  if (error) return { failure: failureInside(parsed, fail) }
  if (!Array.isArray(choices) || choices.length === 0 || !choices.every(isChoice)) {
    return invalid('the answer has no choices')
  }
  const completion = parsed as ChatCompletion
  const repaired = repairMessages(completion)
  completion.model = view.model
  const spans = repaired ? null : scanTopLevel(body)
  return { completion, raw: spans ? setMembers(body, spans, { model: JSON.stringify(view.model) }) : null }
}

/** A choice without a message is real: a filter took it away and left the finish reason. */
function isChoice(value: unknown): boolean {
  if (!isObject(value)) return false
  const { message } = value as { message?: unknown }
  return message == null || isObject(message)
}

/** Steps, and clients, may rely on choices that have a message: a missing one is empty. */
function repairMessages({ choices }: ChatCompletion): boolean {
  const missing = choices.filter(choice => choice.message == null)
  for (const choice of missing) choice.message = { role: 'assistant', content: null }
  return missing.length > 0
}
