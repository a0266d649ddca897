/** The kept answers of one exchange: those that its request names, and the one that it leaves. */
import { atOnce, type KeptAnswer, type KeptAnswers, type KeptItem, refuse, type Sliced } from '#contract'
import type { Store } from '../../store/store.ts'
import type { Room } from '../http/shares.ts'

interface Parts {
  readonly store: Store
  readonly account: string
  /** What the request's own body and all that it names may have together. */
  readonly mostBytes: number
  /** Of the request's own body, which has its room already. */
  readonly bodyBytes: number
  /** What it names takes room as a body does. */
  readonly room: Room
}

type Half = 'input' | 'output'

/** One half of an answer, read and parsed. */
interface ReadHalf {
  readonly items: readonly KeptItem[]
  readonly byId: ReadonlyMap<unknown, KeptItem>
  /** Of the input alone; of the output it says nothing. */
  readonly previous: string | null
}

/** What one request has to do with kept answers. */
export class ExchangeAnswers implements KeptAnswers {
  readonly #parts: Parts
  readonly #used = new Set<string>()
  /** Undefined: there is no such answer. */
  readonly #halves = new Map<string, ReadHalf | undefined>()
  readonly #named = new Set<KeptItem>()
  #bytes = 0
  /** What this request leaves. */
  left: { readonly id: string; readonly parts: KeptParts } | null = null

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
    const read = JSON.parse(bytes.toString('utf8')) as KeptItem[] | Asked
    const { input: items, previous } = Array.isArray(read) ? { input: read, previous: null } : (read as Asked)
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

  /** Its half was counted when it was read, and with it each item once. */
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
    const asked: Asked = { input, previous }
    const rest = { ...response, output: null }
    this.left = {
      id,
      parts: { output: JSON.stringify(output), input: JSON.stringify(asked), rest: JSON.stringify(rest) },
    }
  }

  get used(): readonly string[] {
    return [...this.#used]
  }

  /** Gives the room back; once. */
  release(): void {
    this.#parts.room.give(this.#bytes)
    this.#bytes = 0
  }
}

export type Fields = Readonly<Record<string, unknown>>

export type Asked = Pick<KeptAnswer, 'input' | 'previous'>

/** What is kept of a response, each part in JSON and read alone. */
export interface KeptParts extends Readonly<Record<string, string>> {
  /** A reference to an item of the output needs no more. */
  readonly output: string
  /** It may repeat a whole conversation. */
  readonly input: string
  /** The rest of the response, which repeats the request's tools and which only its reader needs. */
  readonly rest: string
}
