/** Decodes an OpenAI stream: `data:` events with chunks, then `[DONE]`. Lenient, because compatible providers differ. */
import type { AnswerView, Chunk, StreamDecoder, StreamItem, UpstreamFailure, WireUsage } from '#contract'
import { shownUsage } from '../../../common/usage.ts'
import { type ErrorDetails, errorDetails, failureInside, isEmptyValue, isError } from '../failure.ts'
import { scanTopLevel, setMembers } from '../json-splice.ts'
import { type SseEvent, SseReader } from '../sse.ts'
import { parseWithCalls } from './call-pieces.ts'
import { CustomCalls } from './custom-calls.ts'
import { TextPattern } from './pattern.ts'
import { ChunkRepair, isObject, repairHead } from './repair.ts'

const NONE: readonly StreamItem[] = []

/** Maps a status, headers with lower-case names and an error's details to a failure. */
export type Fail = (status: number, headers: Readonly<Record<string, string>>, details: ErrorDetails) => UpstreamFailure

/**
 * @param fail maps an error in the middle of the stream to a failure
 * @param customTools names of custom tools that the provider gets as functions
 */
export function decodeOpenAiStream(view: AnswerView, fail: Fail, customTools?: ReadonlySet<string>): StreamDecoder {
  return new OpenAiStream(view, fail, customTools)
}

class OpenAiStream implements StreamDecoder {
  readonly #view: AnswerView
  readonly #modelJson: string
  readonly #fail: Fail
  readonly #reader = new SseReader()
  readonly #repair: ChunkRepair
  readonly #customCalls: CustomCalls | null
  readonly #pattern = new TextPattern()
  /** The first id that the provider sent. */
  #id: string | null = null
  /** The last usage, for a client that requested it: some providers send it in every chunk, and clients add it up. */
  #usageItem: StreamItem | null = null

  constructor(view: AnswerView, fail: Fail, customTools: ReadonlySet<string> | undefined) {
    this.#view = view
    this.#modelJson = JSON.stringify(view.model)
    this.#fail = fail
    this.#repair = new ChunkRepair(view)
    this.#customCalls = customTools === undefined ? null : new CustomCalls(customTools)
  }

  push(bytes: Buffer): readonly StreamItem[] {
    // A piece is nearly always one event with text.
    const text = this.#reader.isBetweenEvents ? this.#pattern.matchEvent(bytes) : null
    if (text !== null) return [text]
    return this.#items(this.#reader.push(bytes))
  }

  end(): readonly StreamItem[] {
    const items = this.#items(this.#reader.end())
    return [...items, ...this.#rest()]
  }

  #items(events: readonly SseEvent[]): readonly StreamItem[] {
    if (events.length === 0) return NONE
    const found: StreamItem[] = []
    for (const event of events) {
      const text = event.event === '' ? this.#pattern.match(event.data, 0, event.data.length) : null
      if (text === null) found.push(...this.#itemsOf(event))
      else found.push(text)
    }
    return found
  }

  /** The missing pieces of calls at the end of the stream, and the usage. */
  #rest(): readonly StreamItem[] {
    const item = this.#usageItem
    this.#usageItem = null
    const items: StreamItem[] = this.#repair.rest().map(choice => {
      const chunk: Chunk = {
        id: this.#id ?? this.#view.exchange,
        object: 'chat.completion.chunk',
        created: this.#view.createdAt,
        model: this.#view.model,
        choices: [choice],
      }
      this.#customCalls?.change(chunk)
      return { kind: 'chunk', chunk, raw: null, usage: null }
    })
    return item === null ? items : [...items, item]
  }

  /** Decodes an event that is not known to be text. */
  #itemsOf({ event, data }: SseEvent): readonly StreamItem[] {
    if (data.length < 16 && data.toString('latin1').trim() === '[DONE]') return [...this.#rest(), { kind: 'done' }]
    let parsed: unknown
    try {
      parsed = parseWithCalls(data.toString('utf8'))
    } catch {
      if (event === 'error') return failed(this.#fail(500, {}, errorDetails(data)))
      return broken('an event of the stream is not JSON')
    }
    if (typeof parsed !== 'object' || parsed === null) return broken('an event of the stream is not an object')
    // Google's errors come in an array.
    const value = (Array.isArray(parsed) ? parsed[0] : parsed) as Partial<Chunk> & { readonly error?: unknown }
    if (event === 'error' || !isEmptyValue(value?.error)) return failed(failureInside(parsed, this.#fail))
    if (Array.isArray(value?.choices)) {
      const items = this.#chunkItems(value as Chunk, data)
      const [item, ...others] = items
      if (event === '' && item?.kind === 'chunk' && others.length === 0) this.#pattern.learn(data, item)
      return items
    }
    // A chunk may have only usage. The client did not ask for keep-alives and extensions.
    if (isObject(value?.usage)) return this.#chunkItems({ ...(value as Chunk), choices: [] }, null)
    return isError(value) ? failed(failureInside(value, this.#fail)) : NONE
  }

  /**
   * The chunk for the client: bytes are spliced if only members of its outermost object differ.
   * @param data null if it must be written anew
   */
  #chunkItems(chunk: Chunk, data: Buffer | null): readonly StreamItem[] {
    const view = this.#view
    const usage = usageIn(chunk)
    // Azure's first chunk, with the filter results of the prompt. It has neither an id nor an object, so strict clients refuse it.
    if (usage === null && chunk.choices.length === 0 && chunk.object === '') return NONE
    if (view.identity?.id === null) {
      view.identity.id = chunk.id || null
      view.identity.model = chunk.model
    }
    const { isChanged, failure } = this.#repair.repair(chunk)
    const isCustom = this.#customCalls?.change(chunk) === true
    const changes: Record<string, string | undefined> = {}
    if (chunk.model !== view.model) {
      chunk.model = view.model
      changes['model'] = this.#modelJson
    }
    const id = this.#id ?? view.exchange
    repairHead(chunk, { id, object: 'chat.completion.chunk', created: view.createdAt }, changes)
    if (changes['id'] === undefined) this.#id ??= chunk.id
    const counted: readonly StreamItem[] = usage === null ? NONE : [{ kind: 'usage', usage }]
    if ('usage' in chunk || usage !== null) {
      // An empty usage does not replace an earlier one.
      const counts =
        usage !== null && (this.#usageItem === null || usage.prompt_tokens > 0 || usage.completion_tokens > 0)
      if (view.includeUsage && counts) this.#usageItem = usageItem(chunk, usage)
      // The separate event exists only because the gateway requested usage.
      if (usage !== null && chunk.choices.length === 0) return counted
      if (!view.includeUsage) {
        delete chunk.usage
        changes['usage'] = undefined
      } else if (chunk.usage) {
        chunk.usage = null
        changes['usage'] = 'null'
      }
    }
    // A line break would end the event early, so such JSON is encoded again, on one line.
    const isSpliced = data !== null && !isChanged && !isCustom && !data.includes(10) && !data.includes(13)
    const spans = isSpliced ? scanTopLevel(data) : null
    const raw = spans && setMembers(data!, spans, changes)
    const item: StreamItem = { kind: 'chunk', chunk, raw, usage }
    return failure === null ? [item] : [item, { kind: 'failure', failure }]
  }
}

/** The last chunk for `include_usage`: with usage, and without a choice. */
function usageItem({ id, object, created, model, ...more }: Chunk, usage: WireUsage): StreamItem {
  const { service_tier: tier, system_fingerprint: fingerprint } = more
  const chunk: Chunk = {
    id,
    object,
    created,
    model,
    ...(tier === undefined ? {} : { service_tier: tier }),
    ...(fingerprint === undefined ? {} : { system_fingerprint: fingerprint }),
    choices: [],
    usage,
  }
  // Null, because the usage was reported when it arrived. A later, empty one may have followed.
  return { kind: 'chunk', chunk, raw: null, usage: null }
}

/** Usage in its usual place, or where compatible providers put it: Groq under its own name, Moonshot's earlier API in the choice. */
function usageIn(chunk: Chunk): WireUsage | null {
  const groq = chunk['x_groq'] as { usage?: unknown } | null | undefined
  const [choice] = chunk.choices as readonly ({ usage?: unknown } | null | undefined)[]
  for (const place of [chunk.usage, groq?.usage, choice?.usage]) {
    const usage = shownUsage(place)
    if (typeof usage?.prompt_tokens === 'number') return usage
  }
  return shownUsage(chunk.usage)
}

function failed(failure: UpstreamFailure): readonly StreamItem[] {
  return [{ kind: 'failure', failure }]
}

function broken(detail: string): readonly StreamItem[] {
  return failed({ code: 'upstream_invalid', detail })
}
