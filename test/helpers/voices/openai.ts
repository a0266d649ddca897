/** OpenAI's own format, and what its relatives do differently in their answers. */
import type { Chunk, WireUsage } from '#contract'
import { capOf, errorBody, type Part, streamParts, wholePart } from '../answers.ts'
import type { ProviderRequest } from '../fake-provider.ts'
import { countOf, leakyMessage, renumber, type Say, type StreamPart, sseEvent, type Voice } from './voice.ts'

/** How a relative differs. */
export interface Relative {
  /** Where a stream says its usage: in an event of its own, with the finish, there under Groq's name, or in each chunk. */
  readonly usageIn?: 'own' | 'finish' | 'groq' | 'each'
  /** False: no `[DONE]`. */
  readonly done?: false
  /** In place of `stop`. */
  readonly finish?: string
  /** Sent before the first chunk. */
  readonly before?: string
  error?(status: number, message: string): object
}

/** Placeholder for the text of the usage. */
const MARK: WireUsage = { prompt_tokens: 10, completion_tokens: 3, total_tokens: 13, marker: true }

export function openAiVoice(dialect: string, relative: Relative = {}): Voice {
  const stream = (say: Say, request: ProviderRequest) => streamOf(say, request, relative)
  const errorOf = (status: number, message?: string) =>
    relative.error?.(status, message ?? leakyMessage(status)) ?? errorBody(status, message)
  return {
    dialect,
    framing: 'sse',
    types: { whole: 'application/json', stream: 'text/event-stream' },
    early: relative.usageIn === 'each' ? 'all' : 'nothing',
    ends: relative.done !== false,
    usageName: 'usage',
    capOf,
    whole: (say, request) => bytesOf(wholePart(request, optionsOf(say, relative)).text, say),
    stream,
    usage: usageText,
    usageEvent: (prompt, completion) => sseEvent(`{"choices":[],"usage":${usageText(prompt, completion)}}`),
    error: (status, message) => ({ body: errorOf(status, message), headers: {} }),
    inside: typed,
    errorEvent: (status, message) => sseEvent(JSON.stringify(typed(status, message))),
    namedErrorEvent: status => sseEvent(JSON.stringify(errorOf(status)), 'error'),
    badEvent: () => Buffer.from('data: {"choices": [{"index": 0,\n\n'),
    endless: Buffer.from('data: {"x": "'),
    twoFinishes(mode, request) {
      if (mode === 'stream') {
        const said = stream({}, request)
        return Buffer.concat(said.flatMap(({ bytes, kind }) => (kind === 'finish' ? [bytes, bytes] : [bytes])))
      }
      const completion = JSON.parse(wholePart(request).text)
      return Buffer.from(JSON.stringify({ ...completion, choices: [...completion.choices, ...completion.choices] }))
    },
    reindex: (json, indexes) => renumber(json, /("tool_calls":\[\{"index":)(\d)/g, indexes),
  }
}

const used = (tokens: number): WireUsage => ({
  ...MARK,
  completion_tokens: tokens,
  total_tokens: 10 + tokens,
  marker: false,
})

function usageText(prompt: string, completion: string | null): string {
  if (completion === null) return `{"prompt_tokens":${prompt}}`
  return `{"prompt_tokens":${prompt},"completion_tokens":${completion},"total_tokens":${prompt}}`
}

/** An error inside of a 200 has no status, so its type has to say what it is. */
function typed(status: number, message?: string): object {
  const { error } = errorBody(status, message) as { error: object }
  return { error: status === 503 || status === 529 ? { ...error, type: 'overloaded_error' } : error }
}

function streamOf(say: Say, request: ProviderRequest, relative: Relative): StreamPart[] {
  const parts = streamParts(request, { ...optionsOf(say, relative), includeUsage: true })
  const said = parts.flatMap((part, index) => {
    const kind = kindOf(part, index)
    if (kind === 'finish' && say.finish === false) return []
    return [{ kind, text: part.text }]
  })
  if (relative.before !== undefined) said.unshift({ kind: 'open', text: relative.before })
  const placed = (relative.usageIn ?? 'own') === 'own' ? said : withUsage(said, say, relative)
  return placed.map(({ kind, text }) => ({ kind, bytes: bytesOf(text, say) }))
}

interface Text {
  readonly kind: StreamPart['kind']
  readonly text: string
}

/** The usage is not said in an event of its own, but in others. */
function withUsage(said: readonly Text[], say: Say, { usageIn }: Relative): Text[] {
  let tokens = 0
  return said.flatMap(({ kind, text }) => {
    if (!text.startsWith('data: {')) return [{ kind, text }]
    const chunk = JSON.parse(text.slice('data: '.length)) as Chunk
    if (chunk.choices.length === 0) return chunk.usage ? [] : [{ kind, text }]
    if (kind === 'token') tokens++
    const usage = say.usage === undefined ? used(tokens) : MARK
    const isHere = say.usage !== null && (usageIn === 'each' || kind === 'finish')
    delete chunk.usage
    const more = usageIn === 'groq' ? { x_groq: { id: 'req_1', usage } } : { usage }
    return [{ kind, text: `data: ${JSON.stringify({ ...chunk, ...(isHere ? more : {}) })}\n\n` }]
  })
}

function kindOf({ text, meter }: Part, index: number): StreamPart['kind'] {
  if (index === 0) return 'open'
  if (meter.tokens) return 'token'
  return text.includes('"finish_reason":"') ? 'finish' : 'end'
}

function optionsOf(say: Say, { done, finish }: Relative) {
  const { tokens, calls, usage, end } = say
  return {
    obeyCap: false,
    ...(tokens ? { tokens } : {}),
    ...(calls ? { toolCalls: calls.map(name => ({ name, arguments: ['{}'] })) } : {}),
    ...(usage === undefined ? usageOf(say) : { usage: usage === null ? null : MARK }),
    ...(end === false || done === false ? { done: false } : {}),
    ...(finish === undefined || calls ? {} : { finish }),
  }
}

/** As it is made up where nothing else is said: 10 and what there is. */
function usageOf(say: Say) {
  return { promptTokens: 10, usage: used(countOf(say)) }
}

function bytesOf(text: string, { usage, finish, spoil }: Say): Buffer {
  let said = text
  if (usage) {
    const json = typeof usage === 'string' ? usage : usageText(usage.prompt, usage.completion)
    said = said.replace(JSON.stringify(MARK), json)
  }
  if (finish === false) said = said.replace(/"finish_reason":"\w+"/, '"finish_reason":null')
  return Buffer.from((spoil ? spoil(said) : said) as string)
}
