/**
 * Counts what comes from upstream while it passes: counters, not text. A provider's own usage always wins; the count is
 * for answers that end without it.
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
  /** Of the web, seen in the answer. */
  #searches = 0
  #usage: WireUsage | null = null
  /** The class of service in which it is answered; undefined: the ordinary one. */
  #tier: Tier | undefined = undefined
  /** Whether the last usage came when every choice had finished: then it speaks of the whole answer. */
  #usageIsLast = false
  #usageIsPartial = false
  /** Whether content has come behind the finish reason of its choice. */
  #goesOn = false
  /** By the choice's index: whether it has begun, and whether it has ended. */
  #choices: ('begun' | 'finished' | undefined)[] = []
  /** The request that is being answered; null for raw routes. */
  chat: Chat | null = null
  /** The estimate of its prompt, once it is needed. */
  #promptTokens: number | null = null
  /** The output tokens that the target was allowed, over all choices. */
  outputCeiling = Number.POSITIVE_INFINITY

  /** An attempt begins; what was counted of one before it is forgotten: nobody is charged for an answer that he did not get. */
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
   * Providers mostly send one token a chunk, some send many: the larger of the number of content deltas and a quarter
   * of their UTF-8 bytes is near the truth for both (characters / 4 alone was 28 % short of a provider's own count).
   */
  get countedTokens(): number {
    return Math.max(this.#deltas, Math.ceil(this.#bytes / 4))
  }

  /** The last usage seen that says something: some providers repeat it, and it is cumulative then. */
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
   * What the answer took. The provider's word counts, also when it says nothing at all; but a usage that came on the way
   * speaks only of what was before it, and nobody who has delivered tokens has used none. What was counted takes the
   * place of its completion then, and of its prompt if that is missing too.
   * @param whole whether the answer has ended as it should, so that no further usage could have come
   */
  spent(whole: boolean): MeteredUsage | null {
    const said = normalise(this.#usage, 'reported')
    if (said === null) return this.started || this.abandoned ? this.estimate : null
    const reported = this.#withSeen(said)
    const counted = this.countedTokens
    const { input = 0, output = 0 } = reported
    // Some say zeros until they know better, and of a request that was given up they never do.
    if (this.abandoned && counted === 0 && !(input > 0)) return this.estimate
    const isLast = (whole || this.#usageIsLast) && !this.#usageIsPartial
    const believed = isLast ? output > 0 : output >= counted
    if (believed || counted === 0) return reported
    return { ...reported, input: input > 0 ? input : this.estimate.input!, output: counted, source: 'estimated' }
  }

  /** Searches and the class of service are said elsewhere in the answer, too. */
  #withSeen(said: MeteredUsage): MeteredUsage {
    const sees = this.#tier !== undefined || (said.search === undefined && this.#searches > 0)
    if (!sees) return said
    return {
      ...said,
      ...(said.search === undefined && this.#searches > 0 ? { search: this.#searches } : {}),
      ...(this.#tier === undefined ? {} : { tier: this.#tier }),
    }
  }

  /**
   * Whether every choice that was asked for or has begun has its finish reason: one of several is not the end. If a
   * provider goes on behind a finish reason, only its [DONE] is the end.
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
   * Whether the provider goes on far beyond what it was allowed. Counting from outside is not exact (some send less than a
   * token a chunk, some tokens are long), so the line is drawn where no miscount can be the reason.
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
   * @returns false where it has not begun, or has finished: then nothing is counted, and the chunk has to be looked at
   */
  text({ index, bytes }: TextPiece): boolean {
    if (this.#choices[indexOf(index)] !== 'begun') return false
    this.#deltas++
    this.#bytes += bytes
    return true
  }

  /** Counts a whole answer. Each choice is one of its own, whatever index it has. */
  whole({ choices, service_tier: tier }: Pick<ChatCompletion, 'choices'> & { readonly service_tier?: unknown }): void {
    if (tier != null) this.#tier = tierOf(tier)
    for (let index = 0; index < choices.length; index++) {
      const { message, finish_reason } = choices[index]!
      this.#count(indexOf(index), message, finish_reason)
    }
  }

  /** The same for an answer that has only text. */
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
      // Sound, or a content of a kind that nobody knows, has no bytes to count: it is a piece all the same.
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
    // Some end with an empty one, or with nothing but zeros: it takes nothing back, but what came before was not the last word.
    if (this.#usage !== null && !saysSomething(usage) && saysSomething(this.#usage)) {
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

/** The UTF-8 bytes of a text, or of the texts in Mistral's list of parts; its thinking is a list in the list. */
function sizeOf(content: unknown, depth = 0): number {
  if (typeof content === 'string') return Buffer.byteLength(content)
  if (!Array.isArray(content) || depth > 1) return 0
  let bytes = 0
  for (const part of content as readonly ({ text?: unknown; thinking?: unknown } | null)[]) {
    bytes += sizeOf(typeof part === 'string' ? part : part?.text) + sizeOf(part?.thinking, depth + 1)
  }
  return bytes
}

function saysSomething(wire: WireUsage): boolean {
  const usage = normalise(wire, 'reported')
  return usage !== null && (usage.input! > 0 || usage.output! > 0)
}

/** What one image, sound or file is taken for when nobody reports usage. */
const TOKENS_PER_PART = 1024

/**
 * A guess at the prompt's tokens: a quarter of the text's bytes, four a message, and a flat figure for other parts. Whatever
 * a model reads counts, also calls, thoughts and schemas: text in a place that does not count would be read for nothing.
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
