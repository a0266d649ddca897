/** The Messages API of Anthropic, at the provider itself and on Vertex AI. */
import type { ProviderRequest } from '../fake-provider.ts'
import {
  countOf,
  jsonOf,
  leakyMessage,
  raw,
  renumber,
  type SaidError,
  type Say,
  sseEvent,
  TOKENS,
  usageMember,
  type Voice,
} from './voice.ts'

/** An event of the Messages API before it is framed. */
export interface MessageEvent {
  readonly kind: 'open' | 'token' | 'finish' | 'end'
  readonly type: string
  readonly json: Buffer
}

export function messagesVoice(dialect: 'anthropic' | 'vertex-anthropic'): Voice {
  const framed = ({ kind, type, json }: MessageEvent) => ({ kind, bytes: sseEvent(json, type) })
  const event = (type: string, value: object) => sseEvent(JSON.stringify({ type, ...value }), type)
  return {
    dialect,
    framing: 'sse',
    types: { whole: 'application/json', stream: 'text/event-stream; charset=utf-8' },
    early: 'prompt',
    ends: true,
    usageName: 'usage',
    capOf: messagesCap,
    whole: wholeMessage,
    stream: say => messageEvents(say).map(framed),
    usage: messagesUsage,
    usageEvent: (prompt, completion) =>
      event('message_delta', { delta: {}, usage: JSON.parse(messagesUsage(prompt, completion)) }),
    error: dialect === 'anthropic' ? anthropicError : googleError,
    errorEvent: (status, message) => sseEvent(JSON.stringify(anthropicError(status, message).body), 'error'),
    // From an intermediary that does not know the format: only the outer name is set.
    namedErrorEvent: status => sseEvent(JSON.stringify({ error: { message: leakyMessage(status) } }), 'error'),
    badEvent: () => sseEvent('{"type":"content_block_delta","index":0,', 'content_block_delta'),
    endless: Buffer.from('event: content_block_delta\ndata: {"x": "'),
    twoFinishes: (mode, request) => (mode === 'whole' ? twoReasons(request) : framedTwice(messageEvents({}), framed)),
    reindex: (json, indexes) => renumber(json, /("index":)(\d)/g, indexes),
  }
}

export function messagesCap({ body }: ProviderRequest): number | null {
  const cap = body?.['max_tokens']
  return typeof cap === 'number' ? cap : null
}

export function messagesUsage(prompt: string, completion: string | null): string {
  return completion === null ? `{"input_tokens":${prompt}}` : `{"input_tokens":${prompt},"output_tokens":${completion}}`
}

export function wholeMessage(say: Say): Buffer {
  const content = say.calls
    ? say.calls.map((name, index) => ({ type: 'tool_use', id: `toolu_${index}`, name, input: {} }))
    : [{ type: 'text', text: (say.tokens ?? TOKENS).join('') }]
  const stop_reason = say.finish === false ? null : say.calls ? 'tool_use' : 'end_turn'
  const message = { id: 'msg_1', type: 'message', role: 'assistant', model: 'claude-upstream-model', content }
  return jsonOf({ ...message, stop_reason, stop_sequence: null, ...usageMember(MEMBER, say) }, say)
}

const MEMBER = { usageName: 'usage', usage: messagesUsage }

export function twoReasons(
  request: ProviderRequest,
  whole: (say: Say, request: ProviderRequest) => Buffer = wholeMessage,
) {
  return Buffer.from(String(whole({}, request)).replace(/"(stop_reason|stopReason)":"end_turn"/, '$&,$&'))
}

/** With the reason for the end once more. */
export function framedTwice(
  events: readonly MessageEvent[],
  framed: (event: MessageEvent) => { readonly bytes: Buffer },
): Buffer {
  return Buffer.concat(
    events.flatMap(event => (event.kind === 'finish' ? [event, event] : [event])).map(event => framed(event).bytes),
  )
}

/** The prompt's tokens come with the first event, those of the answer with the reason for its end. */
export function messageEvents(say: Say): MessageEvent[] {
  const event = (kind: MessageEvent['kind'], type: string, value: object): MessageEvent => ({
    kind,
    type,
    json: jsonOf({ type, ...value }, say),
  })
  const { start, end } = usages(say)
  const message = { id: 'msg_1', type: 'message', role: 'assistant', model: 'claude-upstream-model', content: [] }
  const stop_reason = say.calls ? 'tool_use' : 'end_turn'
  return [
    event('open', 'message_start', { message: { ...message, stop_reason: null, stop_sequence: null, ...start } }),
    ...(say.calls ? callEvents(say.calls, event) : textEvents(say.tokens ?? TOKENS, event)),
    ...(say.finish === false
      ? []
      : [event('finish', 'message_delta', { delta: { stop_reason, stop_sequence: null }, ...end })]),
    ...(say.end === false ? [] : [event('end', 'message_stop', {})]),
  ]
}

type MakeEvent = (kind: MessageEvent['kind'], type: string, value: object) => MessageEvent

function textEvents(tokens: readonly string[], event: MakeEvent): MessageEvent[] {
  return [
    event('open', 'content_block_start', { index: 0, content_block: { type: 'text', text: '' } }),
    event('open', 'ping', {}),
    ...tokens.map(text => event('token', 'content_block_delta', { index: 0, delta: { type: 'text_delta', text } })),
    event('finish', 'content_block_stop', { index: 0 }),
  ]
}

function callEvents(names: readonly string[], event: MakeEvent): MessageEvent[] {
  return names.flatMap((name, index) => [
    event('token', 'content_block_start', {
      index,
      content_block: { type: 'tool_use', id: `toolu_${index}`, name, input: {} },
    }),
    event('token', 'content_block_delta', { index, delta: { type: 'input_json_delta', partial_json: '{}' } }),
    event('finish', 'content_block_stop', { index }),
  ])
}

function usages(say: Say): { start: object; end: object } {
  const { usage = { prompt: '10', completion: String(countOf(say)) } } = say
  if (usage === null) return { start: {}, end: {} }
  if (typeof usage === 'string') return { start: { usage: raw(usage) }, end: { usage: raw(usage) } }
  const { prompt, completion } = usage
  if (completion === null) return { start: { usage: raw(messagesUsage(prompt, null)) }, end: {} }
  return {
    start: { usage: raw(messagesUsage(prompt, '1')) },
    end: { usage: raw(`{"output_tokens":${completion}}`) },
  }
}

const TYPES: Readonly<Record<number, string>> = {
  400: 'invalid_request_error',
  401: 'authentication_error',
  402: 'billing_error',
  403: 'permission_error',
  404: 'not_found_error',
  413: 'request_too_large',
  422: 'invalid_request_error',
  429: 'rate_limit_error',
  503: 'overloaded_error',
  529: 'overloaded_error',
}

export function anthropicError(status: number, message = leakyMessage(status)): SaidError {
  const type = TYPES[status] ?? 'api_error'
  return { body: { type: 'error', error: { type, message }, request_id: 'req_011CSHoEeqs5C35K2UUqR7Fy' }, headers: {} }
}

const STATUSES: Readonly<Record<number, string>> = {
  400: 'INVALID_ARGUMENT',
  401: 'UNAUTHENTICATED',
  403: 'PERMISSION_DENIED',
  404: 'NOT_FOUND',
  429: 'RESOURCE_EXHAUSTED',
  500: 'INTERNAL',
  503: 'UNAVAILABLE',
  504: 'DEADLINE_EXCEEDED',
}

/** Google's form, which precedes all models that Google hosts. */
export function googleError(status: number, message = leakyMessage(status)): SaidError {
  return { body: { error: { code: status, message, status: STATUSES[status] ?? 'UNKNOWN' } }, headers: {} }
}
