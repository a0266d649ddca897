/**
 * Counts an answer while it passes, without keeping its text. The provider's usage has priority if it covers the whole answer. Otherwise
 * the count replaces its output tokens.
 */
import type {
  Chat,
  ChatCompletion,
  Chunk,
  ContentPart,
  Delta,
  MeteredUsage,
  PlainAnswer,
  Progress,
  TextPiece,
  Tier,
  WireUsage,
} from '#contract'
import { countOr0, normalise, tierOf, wireUsageOf } from '../../common/usage.ts'
import { carries, indexOf } from './stream.ts'

export class Meter implements Progress {
  started = false
  finished = false
  /** The last finish reason, as the provider gave it; null: none was received. */
  finish: string | null = null
  /** Set by the client's stream. */
  delivered = false
  /** Set by the pump. */
  left = false
  /** Set by the pump, or by the sender of a raw route. */
  abandoned = false
  #deltas = 0
  #bytes = 0
  /** Web searches in the answer. */
  #searches = 0
  #usage: WireUsage | null = null
  /** The service tier of the answer; undefined: the default tier. */
  #tier: Tier | undefined = undefined
  /** Whether the last usage arrived when every choice had finished. It covers the whole answer then. */
  #usageIsLast = false
  #usageIsPartial = false
  /** Whether content arrived after the finish reason of its choice. */
  #goesOn = false
  /** By choice index. */
  #choices: ('begun' | 'finished' | undefined)[] = []
  /** The current request; null for raw routes. */
  chat: Chat | null = null
  /** The estimate of its prompt, once needed. */
  #promptTokens: number | null = null
  /** The output tokens that the request allows, over all choices. */
  outputCeiling = Number.POSITIVE_INFINITY

  /** Begins an attempt and resets the counts: an undelivered answer is not charged. */
  begin(chat: Chat, outputCeiling: number): void {
    this.chat = chat
    this.outputCeiling = outputCeiling
    this.started = this.finished = this.#goesOn = this.#usageIsLast = this.#usageIsPartial = false
    this.#deltas = this.#bytes = this.#searches = 0
    this.#usage = this.#promptTokens = null
    this.#tier = undefined
    this.finish = null
    this.#choices = []
  }

  /**
   * Most providers send one token per chunk, some send many. The larger of the number of content deltas and a quarter of their UTF-8
   * bytes is close for both. (Characters / 4 alone was 28 % below a provider's own count.)
   */
  get countedTokens(): number {
    return Math.max(this.#deltas, Math.ceil(this.#bytes / 4))
  }

  /** The last usage that is not empty. Providers that repeat it send cumulative values. */
  get usage(): WireUsage | null {
    return this.#usage
  }

  get estimate(): MeteredUsage {
    if (this.chat) this.#promptTokens ??= promptEstimate(this.chat)
    return {
      input: this.#promptTokens ?? 0,
      output: this.countedTokens,
      ...(this.#searches === 0 ? {} : { search: this.#searches }),
      ...(this.#tier === undefined ? {} : { tier: this.#tier }),
      source: 'estimated',
    }
  }

  /** The usage for the beginning of an answer: the provider's count of the prompt, or the estimate. */
  get soFar(): WireUsage | null {
    if (this.#usage !== null && countOr0(this.#usage.prompt_tokens) > 0) return this.#usage
    return this.chat === null ? null : wireUsageOf(this.estimate)
  }

  /**
   * The usage of the answer. The provider's usage counts, but a usage from the middle of an answer covers only the part before it, and
   * delivered tokens are never free. In these cases the count replaces the output tokens, and the estimate replaces missing input tokens.
   * A usage of zeros counts only if no content arrived and the request was not abandoned.
   * @param whole whether the answer ended properly, so that no further usage could have come
   */
  spent(whole: boolean): MeteredUsage | null {
    const stated = normalise(this.#usage, 'reported')
    if (stated === null) return this.started || this.abandoned ? this.estimate : null
    const reported = this.#withTierAndSearches(stated)
    const counted = this.countedTokens
    const { input = 0, output = 0 } = reported
    // Some providers send zeros at first. For an abandoned request nothing else comes.
    if (this.abandoned && counted === 0 && !(input > 0)) return this.estimate
    const isLast = (whole || this.#usageIsLast) && !this.#usageIsPartial
    const believed = isLast ? output > 0 : output >= counted
    if (believed || counted === 0) return reported
    return { ...reported, input: input > 0 ? input : this.estimate.input!, output: counted, source: 'estimated' }
  }

  /** Adds the searches and the service tier that the answer states outside of its usage. */
  #withTierAndSearches(stated: MeteredUsage): MeteredUsage {
    const hasMore = this.#tier !== undefined || (stated.search === undefined && this.#searches > 0)
    if (!hasMore) return stated
    return {
      ...stated,
      ...(stated.search === undefined && this.#searches > 0 ? { search: this.#searches } : {}),
      ...(this.#tier === undefined ? {} : { tier: this.#tier }),
    }
  }

  /**
   * Whether every choice that was requested or has begun has its finish reason. If a provider continues after a finish reason, only its
   * [DONE] is the end.
   */
  get complete(): boolean {
    if (!this.finished || this.#goesOn || this.#choices.includes('begun')) return false
    let finished = 0
    for (let index = 0; index < this.#choices.length; index++) if (this.#choices[index] === 'finished') finished++
    return finished >= (this.chat?.choices ?? 1)
  }

  /** The choices that have begun and have no finish reason. */
  get unfinished(): readonly number[] {
    return [...this.#choices.keys()].filter(index => this.#choices[index] === 'begun')
  }

  /**
   * Whether the provider far exceeds the output cap. The count is inexact (some chunks have less than a token, some tokens are long), so
   * the threshold is beyond any miscount.
   */
  get beyondCeiling(): boolean {
    return this.#deltas > 2 * this.outputCeiling + 64 || this.#bytes > 16 * this.outputCeiling + 4096
  }

  /** Counts a chunk. */
  chunk({ choices, service_tier: tier }: Chunk): void {
    if (tier != null) this.#tier = tierOf(tier)
    for (const choice of choices) this.#count(indexOf(choice?.index), choice?.delta, choice?.finish_reason)
  }

  /**
   * Counts a piece that only adds text to a choice that has begun.
   * @returns false if the choice has not begun, or has finished: nothing is counted then, and the chunk must be read
   */
  text({ index, bytes }: TextPiece): boolean {
    if (this.#choices[indexOf(index)] !== 'begun') return false
    this.#deltas++
    this.#bytes += bytes
    return true
  }

  /** Counts a whole answer. Each choice counts as its own, whatever its index. */
  whole({ choices, service_tier: tier }: Pick<ChatCompletion, 'choices'> & { readonly service_tier?: unknown }): void {
    if (tier != null) this.#tier = tierOf(tier)
    for (let index = 0; index < choices.length; index++) {
      const { message, finish_reason } = choices[index]!
      this.#count(indexOf(index), message, finish_reason)
    }
  }

  /** Counts an answer that has only text. */
  plain({ choices, tier }: PlainAnswer): void {
    if (tier !== undefined) this.#tier = tierOf(tier)
    for (let index = 0; index < choices.length; index++) {
      const { bytes, finish } = choices[index]!
      if (bytes > 0) this.#piece(indexOf(index), bytes)
      this.#end(indexOf(index), finish)
    }
  }

  #count(index: number, delta: Delta | null | undefined, finish: string | null | undefined): void {
    if (delta && carries(delta)) {
      // Sound, or content of an unknown kind, has no bytes to count. It counts as a piece.
      this.#piece(index, bytesOf(delta))
      if (delta.anthropic_content !== undefined) this.#searches += searchesIn(delta.anthropic_content)
    }
    this.#end(index, finish)
  }

  #piece(index: number, bytes: number): void {
    this.started = true
    if (this.#choices[index] === 'finished') this.#goesOn = true
    else this.#choices[index] = 'begun'
    this.#deltas++
    this.#bytes += bytes
  }

  #end(index: number, finish: string | null | undefined): void {
    if (finish) {
      this.finished = true
      this.finish = finish
      this.#choices[index] = 'finished'
    }
  }

  reported(usage: WireUsage): void {
    // Some providers end with an empty or all-zero usage. It does not replace an earlier one, but marks that as partial.
    if (this.#usage !== null && !isNonZero(usage) && isNonZero(this.#usage)) {
      this.#usageIsPartial = true
      return
    }
    this.#usage = usage
    this.#usageIsPartial = false
    this.#usageIsLast = this.complete
  }
}

function searchesIn(pieces: unknown): number {
  if (!Array.isArray(pieces)) return 0
  return pieces.filter(piece => piece?.type === 'server_tool_use' && piece.name === 'web_search').length
}

function bytesOf(delta: Delta): number {
  let bytes = sizeOf(delta.content) + sizeOf(delta.reasoning_content ?? delta['reasoning']) + sizeOf(delta.refusal)
  if (Array.isArray(delta.tool_calls)) {
    for (const call of delta.tool_calls) {
      const custom = call?.['custom'] as { name?: unknown; input?: unknown } | null | undefined
      bytes += sizeOf(call?.function?.name) + sizeOf(call?.function?.arguments)
      bytes += sizeOf(custom?.name) + sizeOf(custom?.input)
    }
  }
  const old = delta['function_call'] as { name?: unknown; arguments?: unknown } | null | undefined
  return old ? bytes + sizeOf(old.name) + sizeOf(old.arguments) : bytes
}

/** The UTF-8 bytes of a text, or of the texts in Mistral's list of parts; its `thinking` is a list in the list. */
function sizeOf(content: unknown, depth = 0): number {
  if (typeof content === 'string') return Buffer.byteLength(content)
  if (!Array.isArray(content) || depth > 1) return 0
  let bytes = 0
  for (const part of content as readonly ({ text?: unknown; thinking?: unknown } | null)[]) {
    bytes += sizeOf(typeof part === 'string' ? part : part?.text) + sizeOf(part?.thinking, depth + 1)
  }
  return bytes
}

function isNonZero(wire: WireUsage): boolean {
  const usage = normalise(wire, 'reported')
  return usage !== null && (usage.input! > 0 || usage.output! > 0)
}

/** The flat token count of an image, sound or file without a reported usage. */
const TOKENS_PER_PART = 1024

/**
 * Estimates the prompt's tokens: a quarter of the text's bytes, four per message, and a flat count for other parts. Everything that a
 * model reads counts, including calls, reasoning and schemas: uncounted text would be free.
 */
export function promptEstimate({ body }: Pick<Chat, 'body'>): number {
  let bytes = sizeOfJson(body.tools) + sizeOfJson(body['functions']) + sizeOfJson(body['response_format'])
  let parts = 0
  for (const message of body.messages) {
    for (const name in message) {
      const value = message[name]
      if (name === 'role') continue
      if (name !== 'content' || !Array.isArray(value)) {
        bytes += sizeOfJson(value)
        continue
      }
      for (const part of value as readonly ContentPart[]) {
        const text = part.text ?? part['refusal']
        if (typeof text === 'string') bytes += Buffer.byteLength(text)
        else parts++
      }
    }
  }
  return Math.ceil(bytes / 4) + 4 * body.messages.length + TOKENS_PER_PART * parts
}

/** The UTF-8 bytes of a text, or of a value as JSON; of nothing 0. */
function sizeOfJson(value: unknown): number {
  if (typeof value === 'string') return Buffer.byteLength(value)
  if (value == null || (Array.isArray(value) && value.length === 0)) return 0
  return Buffer.byteLength(JSON.stringify(value))
}
