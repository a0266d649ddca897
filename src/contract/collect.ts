/** Assembles the chunks of an answer: the whole answer, or its beginning. */
import { isDeepStrictEqual } from 'node:util'
import type { ChatCompletion, Chunk, Delta, ToolCallDelta } from './chat.ts'

/** Members of a delta whose pieces are concatenated. */
const TEXTS: ReadonlySet<string> = new Set(['content', 'reasoning_content', 'reasoning', 'refusal'])
/** Members of a chunk that a whole answer does not take over. */
const OF_CHUNKS: ReadonlySet<string> = new Set(['choices', 'usage', 'object', 'obfuscation'])

/** Characters that each choice, call and member counts besides its text, because empty ones take memory too. */
const ENTRY = 64

type Members = Record<string, unknown>

/** Without a prototype: providers choose the names of members, such as `__proto__` and `constructor`. */
const noMembers = (): Members => Object.create(null) as Members

interface FoldedChoice {
  readonly message: Members
  readonly calls: Map<number, Members>
  readonly rest: Members
  finish: string | null
}

/** How much an `AnswerCollector` keeps. */
export interface CollectorOptions {
  /** The limit for the answer, with about 64 for each choice, tool call and member. The chunk that exceeds it is the last one. */
  readonly maxCharacters: number
  /**
   * The part that is kept of an answer beyond the limit: nothing, or its beginning. For contradicting pieces: nothing, or the first one.
   */
  readonly onOverflow: 'discard' | 'truncate'
}

/** Collects the chunks of one answer, for instance in a `watch`, and assembles the answer. */
export class AnswerCollector {
  readonly #options: CollectorOptions
  readonly #choices = new Map<number, FoldedChoice>()
  #head: Members | null = null
  #size = 0
  #isLost = false
  #isCut = false

  constructor(options: CollectorOptions) {
    this.#options = options
  }

  /** Whether chunks were left out because the limit was exceeded. */
  get isCut(): boolean {
    return this.#isCut
  }

  /** Adds the content of one chunk; the chunk itself is not kept. */
  add(chunk: Chunk): void {
    if (this.#isLost) return
    if (this.#isFull) {
      this.#addEnds(chunk)
      return
    }
    this.#headOf(chunk)
    for (const choice of chunk.choices) {
      if (this.#isLost) return
      const { index, delta, finish_reason, ...rest } = choice
      const folded = this.#choice(index)
      if (finish_reason) this.#end(folded, finish_reason)
      for (const [name, value] of Object.entries(rest)) if (value !== null) this.#set(folded.rest, name, value)
      if (delta) this.#delta(folded, delta)
    }
  }

  get #isFull(): boolean {
    return this.#size > this.#options.maxCharacters
  }

  /** After the limit, records only how the choices end. */
  #addEnds({ choices }: Chunk): void {
    for (const { index, delta, finish_reason: finish } of choices) {
      const folded = this.#choices.get(index)
      if (folded && finish && sizeOf(finish) <= ENTRY) this.#end(folded, finish)
      this.#isCut ||= Object.entries(delta ?? {}).some(
        ([name, value]) => name !== 'role' && value !== null && value !== '',
      )
    }
  }

  #end(folded: FoldedChoice, finish: string): void {
    if (folded.finish === finish) return
    folded.finish = finish
    this.#count(sizeOf(finish))
  }

  /** Returns the answer so far, without usage; null: nothing, or it was discarded. Later calls of `add` change the returned object. */
  completion(): ChatCompletion | null {
    if (this.#isLost || this.#head === null) return null
    const folded = [...this.#choices].sort(([one], [other]) => one - other)
    const { id, created, model, ...others } = this.#head as Pick<ChatCompletion, 'id' | 'created' | 'model'>
    return {
      id,
      object: 'chat.completion',
      created,
      model,
      ...others,
      choices: folded.map(([index, { rest, message, calls, finish }]) => ({
        index,
        message: calls.size > 0 ? { ...message, tool_calls: inOrder(calls) } : { ...message },
        ...rest,
        finish_reason: finish,
      })),
    }
  }

  #headOf(chunk: Chunk): void {
    const head = (this.#head ??= noMembers())
    for (const [name, value] of Object.entries(chunk)) {
      if (OF_CHUNKS.has(name) || value === null) continue
      if (name === 'id' || name === 'created' || name === 'model') this.#first(head, name, value)
      // Top-level additions of a provider (sources, a fingerprint) come once or grow: the last one is complete.
      else if (!isDeepStrictEqual(head[name], value)) this.#replace(head, name, value)
    }
  }

  #choice(index: number): FoldedChoice {
    let folded = this.#choices.get(index)
    if (folded) return folded
    folded = { message: noMembers(), calls: new Map(), rest: noMembers(), finish: null }
    this.#choices.set(index, folded)
    this.#count(ENTRY)
    return folded
  }

  #delta(folded: FoldedChoice, delta: Delta): void {
    for (const [name, value] of Object.entries(delta)) {
      if (name === 'tool_calls' && Array.isArray(value)) {
        for (const [place, call] of (value as ToolCallDelta[]).entries()) this.#call(folded, place, call)
      } else if (name === 'role') this.#first(folded.message, name, value)
      else if (name === 'function_call' && isMembers(value)) {
        this.#textsAt(folded.message, name, value)
      } else if (TEXTS.has(name) && typeof value === 'string') this.#append(folded.message, name, value)
      else if (value === null) this.#first(folded.message, name, null)
      else this.#set(folded.message, name, value)
    }
  }

  #call({ calls }: FoldedChoice, place: number, { index = place, ...call }: ToolCallDelta): void {
    let folded = calls.get(index)
    if (!folded) {
      calls.set(index, (folded = noMembers()))
      this.#count(ENTRY)
    }
    for (const [name, value] of Object.entries(call)) {
      if (isMembers(value)) this.#textsAt(folded, name, value)
      // Some providers repeat the id and the type in every piece, some send them empty.
      else if (value !== null && value !== '') this.#set(folded, name, value)
    }
  }

  /** Concatenates the name and the arguments of a call. */
  #textsAt(parent: Members, member: string, from: Members): void {
    this.#first(parent, member, noMembers())
    const into = parent[member]
    if (!isMembers(into)) {
      this.#lose()
      return
    }
    for (const [name, value] of Object.entries(from)) {
      if (typeof value !== 'string') this.#set(into, name, value)
      // A name that is repeated in every piece is one name.
      else if (name !== 'name' || into[name] !== value) this.#append(into, name, value)
    }
  }

  #append(into: Members, name: string, text: string): void {
    const before = into[name] ?? ''
    if (typeof before !== 'string') this.#lose()
    else {
      this.#begin(into, name)
      into[name] = `${before}${text}`
      this.#count(text.length)
    }
  }

  /** A member with unknown semantics: it has one value, or the answer is discarded. */
  #set(into: Members, name: string, value: unknown): void {
    if (into[name] === undefined || into[name] === null) this.#replace(into, name, value)
    else if (!isDeepStrictEqual(into[name], value)) this.#lose()
  }

  #first(into: Members, name: string, value: unknown): void {
    if (into[name] === undefined || (into[name] === null && value !== null)) this.#replace(into, name, value)
  }

  #replace(into: Members, name: string, value: unknown): void {
    this.#begin(into, name)
    into[name] = value
    this.#count(sizeOf(value))
  }

  #begin(into: Members, name: string): void {
    if (into[name] === undefined) this.#count(ENTRY + name.length)
  }

  #count(characters: number): void {
    this.#size += characters
    if (this.#isFull) this.#lose()
  }

  #lose(): void {
    if (this.#options.onOverflow === 'truncate') return
    this.#isLost = true
    this.#choices.clear()
    this.#head = null
  }
}

const sizeOf = (value: unknown) => (typeof value === 'object' ? JSON.stringify(value) : String(value)).length

function inOrder(calls: ReadonlyMap<number, Members>): ToolCallDelta[] {
  return [...calls].sort(([one], [other]) => one - other).map(([, call]) => call)
}

function isMembers(value: unknown): value is Members {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
