/** Answers that are kept for an account: those that a request names, the one that it leaves, and their own addresses. */
import { atOnce, type KeptAnswer, type KeptAnswers, type KeptItem, refuse, type Sliced, slices } from '#contract'
import { type Store, StoreUnavailable } from '../../store/store.ts'
import type { Reply } from '../finish.ts'
import type { Room } from '../http/shares.ts'
import type { LiveExchange } from './live-exchange.ts'
import { jsonReply } from './reply.ts'

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
  readonly #halves = new Map<string, ReadHalf>()
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
    if (known) return known
    const { store, account } = this.#parts
    const bytes = yield* store.responses.read(answer, account, half)
    if (bytes === undefined) return undefined
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

type Fields = Readonly<Record<string, unknown>>
type Asked = Pick<KeptAnswer, 'input' | 'previous'>

/** What is kept of a response, each part in JSON and read alone. */
interface KeptParts extends Readonly<Record<string, string>> {
  /** A reference to an item of the output needs no more. */
  readonly output: string
  /** It may repeat a whole conversation. */
  readonly input: string
  /** The rest of the response, which repeats the request's tools and which only its reader needs. */
  readonly rest: string
}

/**
 * Keeps the answer that has just been sent. Nobody waits for the disk: the next request finds it already. When it cannot
 * be written, the answer stands, and the log says so.
 */
export function keepAnswer(exchange: LiveExchange): void {
  const { live, generation, kept, host } = exchange
  const { store, log } = host
  const { left, used } = kept!
  if (left === null) return
  const { keptResponseBytes, keptAccountBytes } = generation.configuration.limits
  const response = {
    ...left,
    account: exchange.account!.id,
    keepMs: live.config.keepResponsesMs!,
    used,
    most: { responseBytes: keptResponseBytes, accountBytes: keptAccountBytes },
  }
  const tell = (reason: unknown) => log.warn({ exchange: exchange.id, reason }, 'a response was not kept')
  store.responses.keep(response).then(
    outcome => {
      if (outcome !== 'kept') tell(outcome)
    },
    (error: Error) => tell(error.message),
  )
}

/** `GET` and `DELETE /v1/responses/{id}`, and `GET /v1/responses/{id}/input_items`: of the key's own account. */
export async function sendKept(exchange: LiveExchange, path: string): Promise<Reply> {
  const { ctx } = exchange
  const { store } = exchange.host
  const [id, part, ...more] = path.split('/') as [string, string?, ...string[]]
  if (more.length > 0 || (part !== undefined && (part !== 'input_items' || ctx.method === 'DELETE'))) {
    throw refuse('unknown_url')
  }
  const account = exchange.account?.id ?? ''
  const body = ctx.method === 'DELETE' ? await remove(id) : await slices.run(read(id), exchange.signal)
  return jsonReply(exchange, body)

  function* read(id: string): Sliced<object> {
    if (part !== undefined) return page(((yield* readPart(id, 'input')) as Asked).input, ctx.query)
    const rest = yield* readPart(id, 'rest')
    if (ctx.query['stream'] === 'true') {
      const message = "Unsupported parameter: 'stream'. A kept response is given as a whole."
      throw refuse('unsupported_parameter', { message, param: 'stream' })
    }
    return { ...(rest as Fields), output: yield* readPart(id, 'output') }
  }

  function* readPart(id: string, name: keyof KeptParts & string): Sliced<unknown> {
    const bytes = yield* store.responses.read(id, account, name)
    if (bytes === undefined) throw notFound(id)
    yield
    return JSON.parse(bytes.toString('utf8'))
  }

  async function remove(id: string): Promise<object> {
    try {
      if (!(await store.responses.remove(id, account))) throw notFound(id)
    } catch (cause) {
      if (!(cause instanceof StoreUnavailable)) throw cause
      throw refuse('store_unavailable', { message: 'The response could not be deleted. Try again.', cause })
    }
    return { id, object: 'response', deleted: true }
  }
}

const notFound = (id: string) =>
  refuse('response_not_found', { message: `Response with id ${JSON.stringify(id.slice(0, 100))} not found.` })

const PAGE = { least: 1, most: 100, usual: 20 }

/** One page of a request's items: the newest first unless `order` says `asc`, behind the item `after`. */
function page(input: KeptAnswer['input'], query: Readonly<Record<string, unknown>>): object {
  const { order = 'desc', after, limit = PAGE.usual } = query
  if (order !== 'asc' && order !== 'desc') throw wrong('order', "it must be 'asc' or 'desc'")
  const size = Number(limit)
  if (!(Number.isInteger(size) && size >= PAGE.least && size <= PAGE.most)) {
    throw wrong('limit', `it must be a whole number from ${PAGE.least} to ${PAGE.most}`)
  }
  const items = order === 'asc' ? input : input.toReversed()
  const at = after === undefined ? 0 : items.findIndex(item => item['id'] === after) + 1
  if (after !== undefined && at === 0) throw wrong('after', 'there is no such item')
  const data = items.slice(at, at + size)
  const idOf = (item: KeptAnswer['input'][number] | undefined) => item?.['id'] ?? null
  return {
    object: 'list',
    data,
    first_id: idOf(data[0]),
    last_id: idOf(data.at(-1)),
    has_more: at + size < items.length,
  }
}

const wrong = (param: string, rule: string) =>
  refuse('invalid_value', { message: `Invalid value for '${param}': ${rule}.`, param })
