/** Ollama's own chat API: a stream is lines of JSON, and the last of them says that it is the last. */
import type { ProviderRequest } from '../fake-provider.ts'
import { jsonOf, leakyMessage, type Say, type StreamPart, TOKENS, usageMember, type Voice } from './voice.ts'

/** The counts are two members of the answer itself; the second one rides on the text of the first. */
const MEMBER = { usageName: 'prompt_eval_count', usage }

export function ollamaVoice(): Voice {
  const error = (status: number, message = leakyMessage(status)) => ({ body: { error: message }, headers: {} })
  // Its cloud says the status too.
  const inside = (status: number, message = leakyMessage(status)) => ({ StatusCode: status, error: message })
  return {
    dialect: 'ollama',
    framing: 'lines',
    types: { whole: 'application/json; charset=utf-8', stream: 'application/x-ndjson' },
    early: 'nothing',
    ends: false,
    ...MEMBER,
    capOf,
    whole,
    stream,
    usageEvent: (prompt, completion) => line(`{"done":false,"prompt_eval_count":${usage(prompt, completion)}}`),
    error,
    inside,
    errorEvent: (status, message) => line(JSON.stringify(inside(status, message))),
    namedErrorEvent: status => line(JSON.stringify(error(status).body)),
    badEvent: () => line('{"message":{"role":'),
    endless: Buffer.from('{"x": "'),
    twoFinishes: mode =>
      mode === 'stream'
        ? Buffer.concat(stream({}).flatMap(({ bytes, kind }) => (kind === 'finish' ? [bytes, bytes] : [bytes])))
        : Buffer.from(String(whole({})).replace('"done_reason":"stop"', '$&,$&')),
    // Its calls have an index that is not needed.
    reindex: (json, indexes) => json.replace(/("index":)(\d)/g, (_all, start, at) => start + indexes[Number(at)]),
  }
}

function capOf({ body }: ProviderRequest): number | null {
  const cap = (body?.['options'] as { num_predict?: unknown } | undefined)?.num_predict
  return typeof cap === 'number' ? cap : null
}

function usage(prompt: string, completion: string | null): string {
  return completion === null ? prompt : `${prompt},"eval_count":${completion}`
}

function line(json: Buffer | string): Buffer {
  return Buffer.concat([Buffer.from(json as string), Buffer.from('\n')])
}

const HEAD = { model: 'claude-upstream-model', created_at: '2026-11-20T12:00:00Z' }

function callsOf(names: readonly string[]): object[] {
  return names.map((name, index) => ({ id: `call_${index}`, function: { index, name, arguments: {} } }))
}

function last(say: Say): object {
  const reason = say.finish === false ? {} : { done: true, done_reason: 'stop' }
  return { ...reason, total_duration: 1_000, ...usageMember(MEMBER, say) }
}

function whole(say: Say): Buffer {
  const content = say.calls ? { tool_calls: callsOf(say.calls) } : { content: (say.tokens ?? TOKENS).join('') }
  return jsonOf({ ...HEAD, message: { role: 'assistant', ...content }, ...last(say) }, say)
}

function stream(say: Say): StreamPart[] {
  const said = (kind: StreamPart['kind'], message: object, more: object): StreamPart => ({
    kind,
    bytes: line(jsonOf({ ...HEAD, message: { role: 'assistant', content: '', ...message }, ...more }, say)),
  })
  const tokens = say.calls
    ? [said('token', { tool_calls: callsOf(say.calls) }, { done: false })]
    : (say.tokens ?? TOKENS).map(content => said('token', { content }, { done: false }))
  return [...tokens, said('finish', {}, last(say))]
}
