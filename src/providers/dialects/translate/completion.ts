/**
 * Builds translated answers for the client, whole or as a stream. Both have the members that OpenAI's schema requires
 * (`refusal` and `logprobs` are always present). They have two extensions that clients may send back: `reasoning_details`,
 * as at OpenRouter, and `extra_content.google.thought_signature` on a tool call, as in Google's own OpenAI endpoint.
 */
import type {
  AnswerView,
  AnthropicPiece,
  ChatCompletion,
  Chunk,
  DecodedAnswer,
  Delta,
  StreamItem,
  ToolCallDelta,
  UpstreamFailure,
  WireUsage,
} from '#contract'
import { InputReader, inputOf } from './custom-tools.ts'

/** Dialects never return `function_call`: clients of the older `functions` get it instead of `tool_calls`. */
export type FinishReason = 'stop' | 'length' | 'tool_calls' | 'content_filter'

export type ReasoningDetail =
  | { readonly type: 'reasoning.text'; readonly text: string; readonly signature: string }
  | { readonly type: 'reasoning.encrypted'; readonly data: string }

/** The value of `stop_reason` for a stop sequence that the provider does not name. */
export const UNNAMED_STOP_SEQUENCE = 'stop_sequence'

/** The result of decoding a whole answer. */
export type DecodeResult = DecodedAnswer | { readonly failure: UpstreamFailure }

export const invalid = (detail: string): DecodeResult => ({ failure: { code: 'upstream_invalid', detail } })

export interface TranslatedCall {
  /** Null if the provider sends none; then an id is invented that is unique among exchanges. */
  readonly id: string | null
  readonly name: string
  /** JSON text; empty without arguments. */
  readonly arguments: string
  readonly signature?: string | null
}

export interface TranslatedChoice {
  readonly text: string | null
  readonly reasoning?: string
  readonly details?: readonly ReasoningDetail[]
  readonly refusal?: string | null
  readonly calls?: readonly TranslatedCall[]
  /** Google's signature of the reasoning before the text; calls have their own. */
  readonly signature?: string | null
  /** Generated images, as data URLs. */
  readonly images?: readonly string[]
  /** The order of the blocks, for an answer with Anthropic's web search. */
  readonly native?: readonly AnthropicPiece[]
  /** A failure if the provider's finish reason reports one. */
  readonly finish: FinishReason | UpstreamFailure
  /** The provider's own stop reason, if the canonical one loses information. */
  readonly stopReason?: string | undefined
}

/** Tokens in OpenAI's counting: `prompt` includes cached tokens, `completion` includes reasoning. */
export interface Tokens {
  readonly prompt: number
  readonly completion: number
  readonly cached?: number
  readonly cacheWrite?: number
  /** The part of `cacheWrite` with a TTL of one hour. */
  readonly cacheWriteHour?: number
  /** Audio tokens of the prompt, and the cached part of them. */
  readonly audio?: number
  readonly cachedAudio?: number
  readonly image?: number
  readonly reasoning?: number
  readonly outputAudio?: number
  readonly outputImage?: number
  /** Number of web searches. */
  readonly searches?: number
}

export function wireUsage(tokens: Tokens): WireUsage {
  const { prompt, completion, cached, cacheWrite, reasoning, searches } = tokens
  const details = {
    ...(cached === undefined && cacheWrite === undefined ? {} : { cached_tokens: cached ?? 0 }),
    ...(cacheWrite === undefined ? {} : { cache_write_tokens: cacheWrite }),
    ...(tokens.cacheWriteHour ? { cache_write_1h_tokens: tokens.cacheWriteHour } : {}),
    ...(tokens.audio ? { audio_tokens: tokens.audio } : {}),
    ...(tokens.cachedAudio ? { cached_audio_tokens: tokens.cachedAudio } : {}),
    ...(tokens.image ? { image_tokens: tokens.image } : {}),
  }
  const answer = {
    ...(reasoning === undefined ? {} : { reasoning_tokens: reasoning }),
    ...(tokens.outputAudio ? { audio_tokens: tokens.outputAudio } : {}),
    ...(tokens.outputImage ? { image_tokens: tokens.outputImage } : {}),
  }
  return {
    prompt_tokens: prompt,
    completion_tokens: completion,
    total_tokens: prompt + completion,
    ...(Object.keys(details).length === 0 ? {} : { prompt_tokens_details: details }),
    ...(Object.keys(answer).length === 0 ? {} : { completion_tokens_details: answer }),
    ...(searches === undefined ? {} : { server_tool_use: { web_search_requests: searches } }),
  }
}

/** A provider's count; undefined for an impossible value (a fraction, negative, or above exact integers). */
export function countOf(value: unknown): number | undefined {
  return Number.isSafeInteger(value) && (value as number) >= 0 ? (value as number) : undefined
}

/**
 * Builds a whole answer. `id` is the provider's, or null if it sent none.
 * @param model the provider's name for it, if it sends one
 */
export function translatedAnswer(
  view: AnswerView,
  { id, model = null }: { readonly id: string | null; readonly model?: unknown },
  choices: readonly TranslatedChoice[],
  usage: WireUsage | null,
): DecodeResult {
  for (const { finish } of choices) if (typeof finish !== 'string') return { failure: finish }
  if (view.identity) Object.assign(view.identity, { id, model })
  const completion: ChatCompletion = {
    id: id ?? view.exchange,
    object: 'chat.completion',
    created: view.createdAt,
    model: view.model,
    choices: choices.map((choice, index) => ({
      index,
      message: messageOf(choice, index, view),
      logprobs: null,
      finish_reason: finishFor(choice.finish, view),
      ...(choice.stopReason === undefined ? {} : { stop_reason: choice.stopReason }),
    })),
    ...(usage === null ? {} : { usage }),
  }
  return { completion, raw: null }
}

function messageOf(choice: TranslatedChoice, at: number, view: AnswerView): Delta {
  const { text, reasoning, details, refusal, calls, signature, images, native } = choice
  return {
    role: 'assistant',
    content: text,
    refusal: refusal ?? null,
    ...(reasoning ? { reasoning_content: reasoning } : {}),
    ...(details?.length ? { reasoning_details: details } : {}),
    ...(images?.length ? { images: images.map(imageOf) } : {}),
    ...(native?.length ? { anthropic_content: [...native] } : {}),
    ...signed(signature),
    ...(calls?.length ? callsFor(calls, at, view) : {}),
  }
}

function callsFor(calls: readonly TranslatedCall[], at: number, view: AnswerView): Partial<Delta> {
  const made = calls.map(({ id, name, arguments: text, signature }, index) => ({
    id: id || inventedId(view, index, at),
    ...(view.customTools?.has(name)
      ? { type: 'custom', custom: { name, input: inputOf(text) } }
      : { type: 'function', function: { name, arguments: text || '{}' } }),
    ...signed(signature),
  }))
  return view.functions ? { function_call: functionCall(made[0]!) } : { tool_calls: made }
}

/** The older form of a call, without ids and with one call only; it contains the signature. */
function functionCall({ function: made, extra_content: extra }: ToolCallDelta) {
  return { ...made, ...(extra === undefined ? {} : { extra_content: extra }) }
}

function finishFor(reason: FinishReason | UpstreamFailure, view: AnswerView): string {
  if (typeof reason !== 'string') return 'error'
  return reason === 'tool_calls' && view.functions ? 'function_call' : reason
}

function signed(signature: string | null | undefined) {
  return signature ? { extra_content: { google: { thought_signature: signature } } } : {}
}

/** In OpenRouter's form: OpenAI's format has no images in an answer. */
function imageOf(url: string) {
  return { type: 'image_url', image_url: { url } }
}

/** An id that is unique among all exchanges and choices, and always the same for the same answer. */
export function inventedId({ exchange }: AnswerView, index: number, choice = 0): string {
  const which = choice === 0 ? index : `${choice}_${index}`
  return `call_${exchange.replace(/[^A-Za-z0-9]/g, '')}_${which}`
}

/**
 * Writes a stream. The dialect adds content and takes the resulting items. It supports one choice only, because a stream of a
 * translated format never has several.
 */
export class ChunkWriter {
  readonly #view: AnswerView
  #items: StreamItem[] = []
  #id: string
  #begun = false
  #over = false
  #hasText = false
  /** For each call: whether any arguments arrived. */
  readonly #argued: boolean[] = []
  /** Readers for calls of custom tools, by index. */
  #inputs: Map<number, InputReader> | null = null
  #usage: WireUsage | null = null

  constructor(view: AnswerView) {
    this.#view = view
    this.#id = view.exchange
  }

  /** The items since the last call. */
  take(): readonly StreamItem[] {
    const items = this.#items
    this.#items = []
    return items
  }

  /** Sets the provider's id for the answer and its name for the model. Call before anything else. */
  identify(id: unknown, model: unknown = null): void {
    if (this.#begun) return
    if (this.#view.identity) Object.assign(this.#view.identity, { id, model })
    if (typeof id === 'string' && id !== '') this.#id = id
  }

  /** Writes the first chunk, with the role. Later calls do nothing. */
  begin(): void {
    if (!this.#begun) this.#chunk({}, null)
  }

  text(text: string): void {
    if (text === '') return
    this.#hasText = true
    this.#chunk({ content: text }, null)
  }

  get hasText(): boolean {
    return this.#hasText
  }

  reasoning(text: string): void {
    if (text !== '') this.#chunk({ reasoning_content: text }, null)
  }

  detail(detail: ReasoningDetail): void {
    this.#chunk({ reasoning_details: [detail] }, null)
  }

  /** Google's signature of the reasoning before the text. */
  signature(signature: string): void {
    if (signature !== '') this.#chunk(signed(signature), null)
  }

  /** A generated image, as a data URL. */
  image(url: string): void {
    this.#chunk({ images: [imageOf(url)] }, null)
  }

  /** A complete block of the Messages API, in an answer with web search. */
  native(piece: AnthropicPiece): void {
    this.#chunk({ anthropic_content: [piece] }, null)
  }

  refusal(text: string): void {
    if (text !== '') this.#chunk({ refusal: text }, null)
  }

  get calls(): number {
    return this.#argued.length
  }

  /** Begins a call. Returns its index for `callArguments`. A call that arrives whole includes its arguments. */
  call({ id, name, arguments: text, signature }: TranslatedCall): number {
    const input = this.#view.customTools?.has(name) ? new InputReader() : null
    const index = this.#argued.push(input !== null || text !== '') - 1
    if (input !== null) (this.#inputs ??= new Map()).set(index, input)
    const call: ToolCallDelta = {
      index,
      id: id || inventedId(this.#view, index),
      ...(input === null
        ? { type: 'function', function: { name, arguments: text } }
        : { type: 'custom', custom: { name, input: input.push(text) } }),
      ...signed(signature),
    }
    this.#callChunk(call)
    return index
  }

  callArguments(index: number, text: string): void {
    if (text === '') return
    const input = this.#inputs?.get(index)
    if (input !== undefined) {
      this.#inputChunk(index, input.push(text))
      return
    }
    this.#argued[index] = true
    this.#callChunk({ index, function: { arguments: text } })
  }

  #inputChunk(index: number, input: string): void {
    if (input !== '') this.#callChunk({ index, custom: { input } })
  }

  #callChunk(call: ToolCallDelta): void {
    if (!this.#view.functions) this.#chunk({ tool_calls: [call] }, null)
    else if (call.index === 0) this.#chunk({ function_call: functionCall(call) }, null)
  }

  /** Ends a call. A call without arguments gets an empty object, which clients can parse. */
  callEnd(index: number): void {
    if (this.#argued[index] === false) this.callArguments(index, '{}')
    const input = this.#inputs?.get(index)
    if (input !== undefined) this.#inputChunk(index, input.end())
  }

  /** @param stopReason see `TranslatedChoice` */
  finish(reason: FinishReason | UpstreamFailure, stopReason?: string): void {
    if (typeof reason !== 'string') {
      this.fail(reason)
      return
    }
    for (const index of this.#argued.keys()) this.callEnd(index)
    this.#chunk({}, reason, stopReason)
  }

  /** Sets the usage. The last call before `done` counts. */
  usage(usage: WireUsage): void {
    this.#usage = usage
  }

  /**
   * Sets the usage and reports it at once. For providers that count the prompt first. If the answer breaks off or the client
   * disconnects, the charge then uses the provider's count instead of an estimate.
   */
  usageSoFar(usage: WireUsage): void {
    this.#usage = usage
    if (!this.#over) this.#items.push({ kind: 'usage', usage })
  }

  /** The provider has ended the answer. */
  done(): void {
    if (this.#over) return
    this.#over = true
    if (this.#usage && this.#view.includeUsage) {
      const chunk: Chunk = { ...this.#head(), choices: [], usage: this.#usage }
      this.#items.push({ kind: 'chunk', chunk, raw: null, usage: this.#usage })
    } else if (this.#usage) this.#items.push({ kind: 'usage', usage: this.#usage })
    this.#items.push({ kind: 'done' })
  }

  fail(failure: UpstreamFailure): void {
    if (this.#over) return
    this.#over = true
    // The usage so far is charged.
    if (this.#usage) this.#items.push({ kind: 'usage', usage: this.#usage })
    this.#items.push({ kind: 'failure', failure })
  }

  #chunk(delta: Delta, finish: FinishReason | null, stopReason?: string): void {
    if (this.#over) return
    const first = this.#begun
      ? {}
      : { role: 'assistant', content: delta.tool_calls || delta['function_call'] ? null : '', refusal: null }
    this.#begun = true
    const chunk: Chunk = {
      ...this.#head(),
      choices: [
        {
          index: 0,
          delta: { ...first, ...delta },
          logprobs: null,
          finish_reason: finish && finishFor(finish, this.#view),
          ...(stopReason === undefined ? {} : { stop_reason: stopReason }),
        },
      ],
      ...(this.#view.includeUsage ? { usage: null } : {}),
    }
    this.#items.push({ kind: 'chunk', chunk, raw: null, usage: null })
  }

  #head() {
    return { id: this.#id, object: 'chat.completion.chunk', created: this.#view.createdAt, model: this.#view.model }
  }
}
