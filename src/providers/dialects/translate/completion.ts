/**
 * What a translated answer looks like to the client: one way to build a whole answer, one to build a stream. Both emit
 * what OpenAI's schema asks for (`refusal` and `logprobs` are always there), and beside it two extensions that clients may
 * send back: `reasoning_details` as OpenRouter has them, and `extra_content.google.thought_signature` on a tool call, as
 * Google's own OpenAI endpoint has it.
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

/** `function_call` is what clients of the older `functions` are told in place of `tool_calls`: dialects never say it. */
export type FinishReason = 'stop' | 'length' | 'tool_calls' | 'content_filter'

export type ReasoningDetail =
  | { readonly type: 'reasoning.text'; readonly text: string; readonly signature: string }
  | { readonly type: 'reasoning.encrypted'; readonly data: string }

/** The word for an end at one of the request's sequences, where the provider does not say at which. */
export const AT_A_SEQUENCE = 'stop_sequence'

/** What decoding a whole answer comes to. */
export type Decoded = DecodedAnswer | { readonly failure: UpstreamFailure }

export const invalid = (detail: string): Decoded => ({ failure: { code: 'upstream_invalid', detail } })

export interface TranslatedCall {
  /** Null where the provider gives none: then one is made that no other exchange has. */
  readonly id: string | null
  readonly name: string
  /** JSON text; empty means no arguments. */
  readonly arguments: string
  readonly signature?: string | null
}

export interface TranslatedChoice {
  readonly text: string | null
  readonly reasoning?: string
  readonly details?: readonly ReasoningDetail[]
  readonly refusal?: string | null
  readonly calls?: readonly TranslatedCall[]
  /** Google's signature of the thought behind the text; those of calls stand at the calls. */
  readonly signature?: string | null
  /** Pictures that the model made, as data URLs. */
  readonly images?: readonly string[]
  /** Where each block stood, of an answer with searches of Anthropic's. */
  readonly native?: readonly AnthropicPiece[]
  /** A failure: the provider's word for the end says that there is no answer. */
  readonly finish: FinishReason | UpstreamFailure
  /** The provider's own word for the end, where the canonical one does not say all. */
  readonly stopReason?: string | undefined
}

/** Tokens on OpenAI's counting: `prompt` holds what was cached, `completion` what was thought. */
export interface Tokens {
  readonly prompt: number
  readonly completion: number
  readonly cached?: number
  readonly cacheWrite?: number
  /** Of the written ones, those that are kept for an hour. */
  readonly cacheWriteHour?: number
  /** Of sound, in the prompt and in what of it was cached. */
  readonly audio?: number
  readonly cachedAudio?: number
  readonly image?: number
  readonly reasoning?: number
  readonly outputAudio?: number
  readonly outputImage?: number
  /** Of the web. */
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

/** A count as a provider may write it; what can't be one (a fraction, below 0, beyond exact numbers) is absent. */
export function countOf(value: unknown): number | undefined {
  return Number.isSafeInteger(value) && (value as number) >= 0 ? (value as number) : undefined
}

/**
 * A whole answer. `id` is the provider's, or null where it gives none.
 * @param model as the provider calls it, if it does
 */
export function translatedAnswer(
  view: AnswerView,
  { id, model = null }: { readonly id: string | null; readonly model?: unknown },
  choices: readonly TranslatedChoice[],
  usage: WireUsage | null,
): Decoded {
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

/** The older form, which has no ids and one call only; a signature stands inside of it. */
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

/** As OpenRouter shows them; OpenAI's format has no place for pictures in an answer. */
function imageOf(url: string) {
  return { type: 'image_url', image_url: { url } }
}

/** Unique among all exchanges and choices, and the same however often the answer is decoded. */
export function inventedId({ exchange }: AnswerView, index: number, choice = 0): string {
  const which = choice === 0 ? index : `${choice}_${index}`
  return `call_${exchange.replace(/[^A-Za-z0-9]/g, '')}_${which}`
}

/**
 * Writes a stream: the dialect says what came, and takes the items. One choice only: of the translated formats those that
 * have several candidates are never asked for more in a stream.
 */
export class ChunkWriter {
  readonly #view: AnswerView
  #items: StreamItem[] = []
  #id: string
  #begun = false
  #over = false
  #hasText = false
  /** Of each call, in their order: whether any arguments came. */
  readonly #argued: boolean[] = []
  /** Of calls of custom tools, by their indexes. */
  #inputs: Map<number, InputReader> | null = null
  #usage: WireUsage | null = null

  constructor(view: AnswerView) {
    this.#view = view
    this.#id = view.exchange
  }

  /** What was written since the last time. */
  take(): readonly StreamItem[] {
    const items = this.#items
    this.#items = []
    return items
  }

  /** The provider's id for the answer, before anything else, and what it calls the model, if it does. */
  identify(id: unknown, model: unknown = null): void {
    if (this.#begun) return
    if (this.#view.identity) Object.assign(this.#view.identity, { id, model })
    if (typeof id === 'string' && id !== '') this.#id = id
  }

  /** The first chunk, with the role; said once however often it is called. */
  begin(): void {
    if (!this.#begun) this.#chunk({}, null)
  }

  text(text: string): void {
    if (text === '') return
    this.#hasText = true
    this.#chunk({ content: text }, null)
  }

  /** Whether any text has come. */
  get hasText(): boolean {
    return this.#hasText
  }

  reasoning(text: string): void {
    if (text !== '') this.#chunk({ reasoning_content: text }, null)
  }

  detail(detail: ReasoningDetail): void {
    this.#chunk({ reasoning_details: [detail] }, null)
  }

  /** Google's signature of the thought behind the text. */
  signature(signature: string): void {
    if (signature !== '') this.#chunk(signed(signature), null)
  }

  /** A picture that the model made, as a data URL. */
  image(url: string): void {
    this.#chunk({ images: [imageOf(url)] }, null)
  }

  /** A block of the Messages API that an answer with searches has, once it is whole. */
  native(piece: AnthropicPiece): void {
    this.#chunk({ anthropic_content: [piece] }, null)
  }

  refusal(text: string): void {
    if (text !== '') this.#chunk({ refusal: text }, null)
  }

  /** How many calls have begun. */
  get calls(): number {
    return this.#argued.length
  }

  /** A call begins; returns its index, by which its arguments follow. A call that comes whole brings them along. */
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

  /** A call has all that it will get: one without arguments gets an empty object, which clients can parse. */
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

  /** What is known of usage so far: the last word before `done` counts. */
  usage(usage: WireUsage): void {
    this.#usage = usage
  }

  /**
   * The same, and told at once: for providers that name the prompt's tokens first, so that an answer that breaks off, or
   * whose client leaves, is charged by what the provider counted and not by a guess.
   */
  usageSoFar(usage: WireUsage): void {
    this.#usage = usage
    if (!this.#over) this.#items.push({ kind: 'usage', usage })
  }

  /** The provider has said that the answer is over. */
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
    // What was used until then is charged.
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
