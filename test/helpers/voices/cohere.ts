/** Cohere's Chat API, version 2: events with a type, the usage with the last of them, and OpenAI's word behind it. */
import { messagesCap } from './messages.ts'
import {
  jsonOf,
  leakyMessage,
  renumber,
  type Say,
  type StreamPart,
  sseEvent,
  TOKENS,
  usageMember,
  type Voice,
} from './voice.ts'

const MEMBER = { usageName: 'usage', usage }

export function cohereVoice(): Voice {
  const error = (status: number, message = leakyMessage(status)) => ({ body: { id: 'err_1', message }, headers: {} })
  return {
    dialect: 'cohere',
    framing: 'sse',
    types: { whole: 'application/json', stream: 'text/event-stream' },
    early: 'nothing',
    ends: true,
    ...MEMBER,
    capOf: messagesCap,
    whole,
    stream,
    // Of an unknown type: the event that may carry usage is the last one.
    usageEvent: (prompt, completion) => sseEvent(`{"type":"usage","delta":{"usage":${usage(prompt, completion)}}}`),
    error,
    errorEvent: (status, message) => sseEvent(JSON.stringify(error(status, message).body), 'error'),
    namedErrorEvent: status => sseEvent(JSON.stringify(error(status).body)),
    badEvent: () => sseEvent('{"type":"content-delta","delta":', 'content-delta'),
    endless: Buffer.from('event: content-delta\ndata: {"x": "'),
    twoFinishes: mode =>
      mode === 'stream'
        ? Buffer.concat(stream({}).flatMap(({ bytes, kind }) => (kind === 'finish' ? [bytes, bytes] : [bytes])))
        : Buffer.from(String(whole({})).replace('"finish_reason":"COMPLETE"', '$&,$&')),
    reindex: (json, indexes) => renumber(json, /("index":)(\d)/g, indexes),
  }
}

function usage(prompt: string, completion: string | null): string {
  const output = completion === null ? '' : `,"output_tokens":${completion}`
  return `{"billed_units":{"input_tokens":1,"output_tokens":1},"tokens":{"input_tokens":${prompt}${output}}}`
}

function reasonOf({ calls, finish }: Say): object {
  return finish === false ? {} : { finish_reason: calls ? 'TOOL_CALL' : 'COMPLETE' }
}

function callOf(name: string, index: number, args: string): object {
  return { id: `${name}_${index}`, type: 'function', function: { name, arguments: args } }
}

function whole(say: Say): Buffer {
  const content = say.calls
    ? { tool_calls: say.calls.map((name, index) => callOf(name, index, '{}')) }
    : { content: [{ type: 'text', text: (say.tokens ?? TOKENS).join('') }] }
  const message = { role: 'assistant', ...content }
  return jsonOf({ id: 'msg_1', message, ...reasonOf(say), ...usageMember(MEMBER, say) }, say)
}

function stream(say: Say): StreamPart[] {
  const event = (kind: StreamPart['kind'], type: string, value: object): StreamPart => ({
    kind,
    bytes: sseEvent(jsonOf({ type, ...value }, say), type),
  })
  const message = (value: object) => ({ delta: { message: value } })
  const content = say.calls
    ? say.calls.flatMap((name, index) => [
        event('token', 'tool-call-start', { index, ...message({ tool_calls: callOf(name, index, '') }) }),
        event('token', 'tool-call-delta', { index, ...message({ tool_calls: { function: { arguments: '{}' } } }) }),
        event('finish', 'tool-call-end', { index }),
      ])
    : [
        event('open', 'content-start', { index: 0, ...message({ content: { type: 'text', text: '' } }) }),
        ...(say.tokens ?? TOKENS).map(text =>
          event('token', 'content-delta', { index: 0, ...message({ content: { text } }) }),
        ),
        event('finish', 'content-end', { index: 0 }),
      ]
  return [
    event('open', 'message-start', { id: 'msg_1', ...message({ role: 'assistant' }) }),
    ...content,
    event('finish', 'message-end', { delta: { ...reasonOf(say), ...usageMember(MEMBER, say) } }),
    ...(say.end === false ? [] : [{ kind: 'end' as const, bytes: sseEvent('[DONE]') }]),
  ]
}
