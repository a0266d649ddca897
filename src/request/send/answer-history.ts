/** The answer history of one exchange: the kept answers that its request names, and the one that it adds. */
import { atOnce, type KeptAnswer, type KeptAnswers, type KeptItem, refuse, type Sliced } from '#contract'
import type { Store } from '../../store/store.ts'
import type { Room } from '../http/shares.ts'

interface Parts {
  readonly store: Store
  readonly account: string
  /** The limit for the request's body and all answers that it names together. */
  readonly mostBytes: number
  /** The size of the request's body, for which room was taken before. */
  readonly bodyBytes: number
  /** Loaded answers take room like a body. */
  readonly room: Room
}

type Half = 'input' | 'output'

/** One half of an answer, read and parsed. */
interface ReadHalf {
  readonly items: readonly KeptItem[]
  readonly byId: ReadonlyMap<unknown, KeptItem>
  /** Set for the input only. */
  readonly previous: string | null
}

export class AnswerHistory implements KeptAnswers {
  readonly #parts: Parts
  readonly #used = new Set<string>()
  /** Undefined: no such answer exists. */
  readonly #halves = new Map<string, ReadHalf | undefined>()
  readonly #named = new Set<KeptItem>()
  #bytes = 0
  /** The answer to store. */
  toKeep: { readonly id: string; readonly parts: KeptParts } | null = null

  constructor(parts: Parts) {
    this.#parts = parts
  }

  *load(answer: string, half: Half): Sliced<ReadHalf | undefined> {
    const name = `${answer} ${half}`
    const known = this.#halves.get(name)
    if (known || this.#halves.has(name)) return known
    const { store, account } = this.#parts
    const bytes = yield* store.responses.read(answer, account, half)
    if (bytes === undefined) {
      this.#halves.set(name, undefined)
      return undefined
    }
    this.#used.add(answer)
    this.#take(bytes.length)
    yield
    const read = JSON.parse(bytes.toString('utf8')) as KeptItem[] | KeptInput
    const { input: items, previous } = Array.isArray(read) ? { input: read, previous: null } : (read as KeptInput)
    const found = { items, byId: new Map(items.map(item => [item['id'], item])), previous }
    this.#halves.set(name, found)
    return found
  }

  find(id: string): KeptAnswer | undefined {
    const [asked, answered] = [atOnce(this.load(id, 'input')), atOnce(this.load(id, 'output'))]
    if (!asked || !answered) return undefined
    for (const { items } of [asked, answered]) for (const item of items) this.#name(item)
    return { id, input: asked.items, output: answered.items, previous: asked.previous }
  }

  item(answer: string, half: Half, id: string): KeptItem | undefined {
    const item = atOnce(this.load(answer, half))?.byId.get(id)
    if (item) this.#name(item)
    return item
  }

  /** Reading the half already counted each item once, so only repeated references are counted here. */
  #name(item: KeptItem): void {
    if (this.#named.has(item)) this.#take(Buffer.byteLength(JSON.stringify(item)))
    else this.#named.add(item)
  }

  #take(bytes: number): void {
    const { mostBytes, bodyBytes, room } = this.#parts
    if (bodyBytes + this.#bytes + bytes > mostBytes) {
      const message = `This request and the kept responses and items that it names have more than ${mostBytes} bytes together. Begin with a shorter conversation in 'input'.`
      throw refuse('request_too_large', { message })
    }
    if (!room.take(bytes)) {
      throw refuse('overloaded', { retryAfterMs: 1000, detail: 'too many bytes of kept responses in flight' })
    }
    this.#bytes += bytes
  }

  keep({ id, input, output, previous }: KeptAnswer, response: Fields): void {
    const asked: KeptInput = { input, previous }
    const rest = { ...response, output: null }
    this.toKeep = {
      id,
      parts: { output: JSON.stringify(output), input: JSON.stringify(asked), rest: JSON.stringify(rest) },
    }
  }

  get used(): readonly string[] {
    return [...this.#used]
  }

  /** Returns the room; once. */
  release(): void {
    this.#parts.room.give(this.#bytes)
    this.#bytes = 0
  }
}

export type Fields = Readonly<Record<string, unknown>>

export type KeptInput = Pick<KeptAnswer, 'input' | 'previous'>

/** The stored parts of a response: each is JSON and can be read alone. */
export interface KeptParts extends Readonly<Record<string, string>> {
  /** Enough for a reference to an item of the output. */
  readonly output: string
  /** May repeat a whole conversation. */
  readonly input: string
  /** The rest of the response. It repeats the request's tools, and only a reader of the response needs it. */
  readonly rest: string
}
