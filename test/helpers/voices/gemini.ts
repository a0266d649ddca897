/** `generateContent` of Google, at the Gemini API and on Vertex AI. Nothing but the body's end says that a stream is over. */
import type { ProviderRequest } from '../fake-provider.ts'
import { googleError } from './messages.ts'
import { jsonOf, renumber, type Say, type StreamPart, sseEvent, TOKENS, usageMember, type Voice } from './voice.ts'

const MEMBER = { usageName: 'usageMetadata', usage }

export function geminiVoice(dialect: 'gemini' | 'vertex'): Voice {
  // Vertex says how it is paid until the end, the Gemini API what was used.
  const early = dialect === 'gemini' ? 'all' : 'nothing'
  return {
    dialect,
    framing: 'sse',
    types: { whole: 'application/json; charset=UTF-8', stream: 'text/event-stream' },
    early,
    ends: false,
    ...MEMBER,
    capOf,
    whole,
    stream: say => stream(say, early === 'all'),
    usageEvent: (prompt, completion) => sseEvent(`{"usageMetadata":${usage(prompt, completion)}}`),
    error: googleError,
    // In a list now and then.
    errorEvent: (status, message) => sseEvent(JSON.stringify(googleError(status, message).body)),
    namedErrorEvent: status => sseEvent(JSON.stringify([googleError(status).body]), 'error'),
    badEvent: () => sseEvent('{"candidates": [{"content": '),
    endless: Buffer.from('data: {"x": "'),
    twoFinishes: mode =>
      mode === 'stream'
        ? Buffer.concat(stream({}, true).flatMap(({ bytes, kind }) => (kind === 'finish' ? [bytes, bytes] : [bytes])))
        : Buffer.from(String(whole({})).replace('"finishReason":"STOP"', '$&,$&')),
    // Calls have no index, candidates have.
    reindex(json, indexes) {
      let calls = -1
      const numbered = json.replace(/("index":)0/g, (_all, start: string) => `${start}${++calls}`)
      return renumber(numbered, /("index":)(\d)/g, indexes)
    },
  }
}

function capOf({ body }: ProviderRequest): number | null {
  const cap = (body?.['generationConfig'] as { maxOutputTokens?: unknown } | undefined)?.maxOutputTokens
  return typeof cap === 'number' ? cap : null
}

function usage(prompt: string, completion: string | null): string {
  if (completion === null) return `{"promptTokenCount":${prompt}}`
  return `{"promptTokenCount":${prompt},"candidatesTokenCount":${completion}}`
}

const HEAD = { modelVersion: 'claude-upstream-model', responseId: 'resp_1' }

function candidate(parts: readonly object[], finish: boolean) {
  return { content: { role: 'model', parts }, ...(finish ? { finishReason: 'STOP' } : {}), index: 0 }
}

function whole(say: Say): Buffer {
  const parts = say.calls ? say.calls.map(callOf) : [{ text: (say.tokens ?? TOKENS).join('') }]
  return jsonOf({ candidates: [candidate(parts, say.finish !== false)], ...usageMember(MEMBER, say), ...HEAD }, say)
}

function stream(say: Say, counts: boolean): StreamPart[] {
  const piece = (parts: readonly object[], tokens: number, kind: StreamPart['kind']): StreamPart => {
    const used = counts || kind === 'finish' ? usageMember(MEMBER, say, tokens) : NO_COUNT
    const finish = kind === 'finish' && say.finish !== false
    return { kind, bytes: sseEvent(jsonOf({ candidates: [candidate(parts, finish)], ...used, ...HEAD }, say)) }
  }
  const pieces = say.calls ? say.calls.map(callOf) : (say.tokens ?? TOKENS).map(text => ({ text }))
  const each = say.calls ? 2 : 1
  return [
    ...pieces.map((part, index) => piece([part], each * (index + 1), 'token')),
    piece([{ text: '' }], each * pieces.length, 'finish'),
  ]
}

const NO_COUNT = { usageMetadata: { trafficType: 'ON_DEMAND' } }

function callOf(name: string): object {
  return { functionCall: { name, args: {} } }
}
