/** Puts the chunks of an answer together again: the whole answer, or its beginning. */
import { isDeepStrictEqual } from 'node:util'
import type { ChatCompletion, Chunk, Delta, ToolCallDelta } from './chat.ts'

/** Members of a delta whose pieces are put one behind the other. */
const TEXTS: ReadonlySet<string> = new Set(['content', 'reasoning_content', 'reasoning', 'refusal'])
/** Of a chunk itself: said anew for a whole answer, or there for each chunk only. */
const OF_CHUNKS: ReadonlySet<string> = new Set(['choices', 'usage', 'object', 'obfuscation'])

type Members = Record<string, unknown>

interface Folded {
  readonly message: Members
  readonly calls: Map<number, Members>
  readonly rest: Members
  finish: string | null
}

/** Takes the chunks of one answer, such as a `watch` gets, and gives back the answer as one. */
export class AnswerCollector {
  readonly #largest: number
  readonly #isBeginningEnough: boolean
  readonly #choices = new Map<number, Folded>()
  #head: Members | null = null
  #size = 0
  #isLost = false
  #isCut = false

  /**
   * @param largest characters beyond which no more is kept of the answer
   * @param isBeginningEnough whether it is kept then as far as it has come, and where pieces contradict each other, the first
   * one counts; else there is no answer
   */
  constructor(largest: number, isBeginningEnough = false) {
    this.#largest = largest
    this.#isBeginningEnough = isBeginningEnough
  }

  /** Whether chunks were left out because of the size of those before. */
  get isCut(): boolean {
    return this.#isCut
  }

  /** Reads one chunk and keeps nothing of it but what it says. */
  add(chunk: Chunk): void {
    if (this.#isLost) return
    if (this.#size > this.#largest) {
      this.#isCut = true
      return
    }
    this.#headOf(chunk)
    for (const choice of chunk.choices) {
      const { index, delta, finish_reason, ...rest } = choice
      const folded = this.#choice(index)
      if (finish_reason) folded.finish = finish_reason
      for (const [name, value] of Object.entries(rest)) if (value !== null) this.#set(folded.rest, name, value)
      if (delta) this.#delta(folded, delta)
    }
  }

  /** What has come, without usage; null: nothing, or more than is kept. Who goes on adding changes what was given out. */
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
        message: calls.size > 0 ? { ...message, tool_calls: inOrder(calls) } : message,
        ...rest,
        finish_reason: finish,
      })),
    }
  }

  #headOf(chunk: Chunk): void {
    this.#head ??= {}
    for (const [name, value] of Object.entries(chunk)) {
      if (OF_CHUNKS.has(name) || value === null) continue
      if (name === 'id' || name === 'created' || name === 'model') this.#head[name] ??= value
      // What a provider adds at the top (sources, a fingerprint) comes once or grows: the last one has all of it.
      else if (!isDeepStrictEqual(this.#head[name], value)) this.#replace(this.#head, name, value)
    }
  }

  #choice(index: number): Folded {
    let folded = this.#choices.get(index)
    if (!folded) this.#choices.set(index, (folded = { message: {}, calls: new Map(), rest: {}, finish: null }))
    return folded
  }

  #delta(folded: Folded, delta: Delta): void {
    for (const [name, value] of Object.entries(delta)) {
      if (name === 'tool_calls' && Array.isArray(value)) {
        for (const [place, call] of (value as ToolCallDelta[]).entries()) this.#call(folded, place, call)
      } else if (name === 'role') folded.message[name] ??= value
      else if (name === 'function_call' && isMembers(value)) {
        this.#texts((folded.message[name] ??= {}) as Members, value)
      } else if (TEXTS.has(name) && typeof value === 'string') this.#append(folded.message, name, value)
      else if (value === null) folded.message[name] ??= null
      else this.#set(folded.message, name, value)
    }
  }

  #call({ calls }: Folded, place: number, { index = place, ...call }: ToolCallDelta): void {
    let folded = calls.get(index)
    if (!folded) calls.set(index, (folded = {}))
    for (const [name, value] of Object.entries(call)) {
      if (isMembers(value)) this.#texts((folded[name] ??= {}) as Members, value)
      // Some say the id and the type again with every piece, some say them empty.
      else if (value !== null && value !== '') this.#set(folded, name, value)
    }
  }

  /** The name and the arguments of a call: texts, put one behind the other. */
  #texts(into: Members, from: Members): void {
    for (const [name, value] of Object.entries(from)) {
      if (typeof value !== 'string') this.#set(into, name, value)
      // A name that comes again with every piece is one name.
      else if (name !== 'name' || into[name] !== value) this.#append(into, name, value)
    }
  }

  #append(into: Members, name: string, text: string): void {
    const before = into[name] ?? ''
    if (typeof before !== 'string') this.#lose()
    else {
      into[name] = `${before}${text}`
      this.#count(text.length)
    }
  }

  /** A member of which nobody knows how its pieces belong together: one value, or the answer is not kept. */
  #set(into: Members, name: string, value: unknown): void {
    if (into[name] === undefined || into[name] === null) this.#replace(into, name, value)
    else if (!isDeepStrictEqual(into[name], value)) this.#lose()
  }

  #replace(into: Members, name: string, value: unknown): void {
    into[name] = value
    this.#count(typeof value === 'object' ? JSON.stringify(value).length : String(value).length)
  }

  #count(characters: number): void {
    this.#size += characters
    if (this.#size > this.#largest) this.#lose()
  }

  #lose(): void {
    if (this.#isBeginningEnough) return
    this.#isLost = true
    this.#choices.clear()
    this.#head = null
  }
}

function inOrder(calls: ReadonlyMap<number, Members>): ToolCallDelta[] {
  return [...calls].sort(([one], [other]) => one - other).map(([, call]) => call)
}

function isMembers(value: unknown): value is Members {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
