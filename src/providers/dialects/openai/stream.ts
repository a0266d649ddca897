/** The decoder of an OpenAI stream: `data:` events with chunks, then `[DONE]`; read leniently, because relatives differ. */
import type { AnswerView, Chunk, StreamDecoder, StreamItem, UpstreamFailure, WireUsage } from '#contract'
import { detailsOf, type ErrorDetails } from '../failure.ts'
import { scanTopLevel, setMembers } from '../json-splice.ts'
import { type SseEvent, SseReader } from '../sse.ts'
import { CustomCalls } from './custom-calls.ts'
import { TextPattern } from './pattern.ts'
import { type CallPlaces, repairChunk } from './repair.ts'

const NONE: readonly StreamItem[] = []

/** What a status, headers with lower-case names and an error's details mean. */
export type Fail = (status: number, headers: Readonly<Record<string, string>>, details: ErrorDetails) => UpstreamFailure

/**
 * @param fail makes the failure of an error in the middle of the stream
 * @param customTools that the provider calls as functions
 */
export function decodeOpenAiStream(view: AnswerView, fail: Fail, customTools?: ReadonlySet<string>): StreamDecoder {
  const reader = new SseReader()
  const reading = {
    view,
    modelJson: JSON.stringify(view.model),
    fail,
    places: new Map(),
    customCalls: customTools === undefined ? null : new CustomCalls(customTools),
    pattern: new TextPattern(),
  }
  const items = (events: readonly SseEvent[]): readonly StreamItem[] => {
    if (events.length === 0) return NONE
    if (events.length === 1) {
      const item = itemOf(events[0]!, reading)
      return item ? [item] : NONE
    }
    const found: StreamItem[] = []
    for (const event of events) {
      const item = itemOf(event, reading)
      if (item) found.push(item)
    }
    return found
  }
  return { push: bytes => items(reader.push(bytes)), end: () => items(reader.end()) }
}

/** What one stream's events are read with. */
interface Reading {
  readonly view: AnswerView
  readonly modelJson: string
  readonly fail: Fail
  readonly places: CallPlaces
  readonly customCalls: CustomCalls | null
  readonly pattern: TextPattern
}

function itemOf({ event, data }: SseEvent, reading: Reading): StreamItem | null {
  if (event === '') {
    const text = reading.pattern.match(data)
    if (text !== null) return text
  }
  if (data.length < 16 && data.toString('latin1').trim() === '[DONE]') return { kind: 'done' }
  let parsed: unknown
  try {
    parsed = JSON.parse(data.toString('utf8'))
  } catch {
    return broken('an event of the stream is not JSON')
  }
  if (typeof parsed !== 'object' || parsed === null) return broken('an event of the stream is not an object')
  // Google's errors come in an array.
  const value = (Array.isArray(parsed) ? parsed[0] : parsed) as { error?: unknown } | null | undefined
  if (event === 'error' || value?.error) return { kind: 'failure', failure: failureInside(parsed, reading.fail) }
  if (!Array.isArray((parsed as { choices?: unknown }).choices)) {
    if (isBareError(value)) return { kind: 'failure', failure: failureInside(value, reading.fail) }
    // A keep-alive or an extension without choices: nothing that our client asked for.
    return null
  }
  const item = chunkItem(parsed as Chunk, data, reading)
  if (event === '' && item?.kind === 'chunk') reading.pattern.learn(data, item)
  return item
}

/** The chunk as the client sees it: bytes are spliced where only `model` and `usage` differ. */
function chunkItem(chunk: Chunk, data: Buffer, reading: Reading): StreamItem | null {
  const { view, modelJson, places, customCalls } = reading
  const usage = usageIn(chunk)
  // Azure's first, with what its filters say of the prompt: it has neither an id nor a kind, and readers of schemas refuse it.
  if (usage === null && chunk.choices.length === 0 && chunk.object === '') return null
  if (view.identity?.id === null) {
    view.identity.id = chunk.id || null
    view.identity.model = chunk.model
  }
  const repaired = repairChunk(chunk, places)
  const isCustom = customCalls?.change(chunk) === true
  const changes: Record<string, string | undefined> = {}
  if (chunk.model !== view.model) {
    chunk.model = view.model
    changes['model'] = modelJson
  }
  if (!view.includeUsage && 'usage' in chunk) {
    // Its own event was only made because the gateway asks for usage.
    if (usage && chunk.choices.length === 0) return { kind: 'usage', usage }
    delete chunk.usage
    changes['usage'] = undefined
  }
  // A line break would end the event early: such JSON is encoded again, on one line.
  const spans = repaired || isCustom || data.includes(10) || data.includes(13) ? null : scanTopLevel(data)
  return { kind: 'chunk', chunk, raw: spans && setMembers(data, spans, changes), usage }
}

/** Usage where it belongs, or where relatives put it: Groq under its own name, Moonshot's earlier API in the choice. */
function usageIn(chunk: Chunk): WireUsage | null {
  if (hasCounts(chunk.usage)) return chunk.usage
  const groq = chunk['x_groq'] as { usage?: unknown } | null | undefined
  if (hasCounts(groq?.usage)) return groq.usage
  const [choice] = chunk.choices as readonly ({ usage?: unknown } | null | undefined)[]
  if (hasCounts(choice?.usage)) return choice.usage
  return isUsage(chunk.usage) ? chunk.usage : null
}

function hasCounts(value: unknown): value is WireUsage {
  return isUsage(value) && typeof value.prompt_tokens === 'number'
}

function isUsage(value: unknown): value is WireUsage {
  return typeof value === 'object' && value !== null
}

function broken(detail: string): StreamItem {
  return { kind: 'failure', failure: { code: 'upstream_invalid', detail } }
}

/** An error without a wrapper, as vLLM and Mistral write it: `{"object":"error","message":"..."}`. */
export function isBareError(value: unknown): value is object {
  return typeof value === 'object' && value !== null && (value as { object?: unknown }).object === 'error'
}

/** An error inside a 200: its numeric `code`, where there is one, is the status that it should have had. */
export function failureInside(parsed: object, fail: Fail): UpstreamFailure {
  const details = detailsOf(parsed)
  const status = Number(details.code)
  const known = Number.isInteger(status) && status >= 400 && status <= 599
  return fail(known ? status : statusOfType(details.type), {}, details)
}

/** What an error's type says where no status does. */
function statusOfType(type: string | null): number {
  if (type === 'rate_limit_error' || type === 'rate_limit_exceeded' || type === 'rate_limited') return 429
  if (type === 'overloaded_error') return 529
  return type === 'invalid_request_error' ? 400 : 500
}
