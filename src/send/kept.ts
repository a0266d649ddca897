/** Answers that are kept for an account: those that a request names, the one that it leaves, and their own addresses. */
import { type KeptAnswer, type KeptAnswers, type KeptItem, refuse } from '#contract'
import type { Room } from '../http/shares.ts'
import { StoreUnavailable } from '../store/store.ts'
import type { SenderParts, Trip } from './trip.ts'
import { endStopped } from './trip.ts'

const JSON_HEADERS = { 'content-type': 'application/json', 'cache-control': 'no-store' }

interface Parts {
  readonly store: SenderParts['store']
  readonly account: string
  /** What the request's own body and all that it names may have together. */
  readonly mostBytes: number
  /** Of the request's own body, which has its room already. */
  readonly bodyBytes: number
  /** What it names takes room as a body does. */
  readonly room: Room
}

/** What one request has to do with kept answers. */
export class ExchangeAnswers implements KeptAnswers {
  readonly #parts: Parts
  readonly #used = new Set<string>()
  /** The items by their ids, of each half of an answer that was asked for. */
  readonly #halves = new Map<string, ReadonlyMap<unknown, KeptItem>>()
  readonly #named = new Set<KeptItem>()
  #bytes = 0
  /** What this request leaves. */
  left: { readonly id: string; readonly content: string } | null = null

  constructor(parts: Parts) {
    this.#parts = parts
  }

  find(id: string): KeptAnswer | undefined {
    const lines = this.#read(id)
    if (lines === undefined) return undefined
    this.#take(Buffer.byteLength(lines.output) + Buffer.byteLength(lines.asked))
    return { ...(JSON.parse(lines.asked) as Asked), id, output: JSON.parse(lines.output) as KeptItem[] }
  }

  item(answer: string, half: 'input' | 'output', id: string): KeptItem | undefined {
    const item = this.#half(answer, half)?.get(id)
    // The half was counted when it was read, and with it each item once.
    if (item && this.#named.has(item)) this.#take(Buffer.byteLength(JSON.stringify(item)))
    else if (item) this.#named.add(item)
    return item
  }

  #half(answer: string, half: 'input' | 'output'): ReadonlyMap<unknown, KeptItem> | undefined {
    const name = `${answer} ${half}`
    const known = this.#halves.get(name)
    if (known) return known
    const lines = this.#read(answer)
    if (lines === undefined) return undefined
    const line = half === 'output' ? lines.output : lines.asked
    this.#take(Buffer.byteLength(line))
    const items = half === 'output' ? (JSON.parse(line) as KeptItem[]) : (JSON.parse(line) as Asked).input
    const byId = new Map(items.map(item => [item['id'], item]))
    this.#halves.set(name, byId)
    return byId
  }

  #read(id: string): Lines | undefined {
    const { store, account } = this.#parts
    const content = store.responses.find(id, account)
    if (content === undefined) return undefined
    this.#used.add(id)
    return linesIn(content)
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

  keep(answer: KeptAnswer, response: Fields): void {
    this.left = { id: answer.id, content: contentOf(answer, response) }
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

/** What is kept of a response, each in JSON, which has no line ends of its own. */
interface Lines {
  /** Alone: a reference to an item of the output needs no more. The input may be a whole conversation. */
  readonly output: string
  readonly asked: string
  /** The rest of the response, which repeats the request's tools and which only its reader needs. */
  readonly rest: string
}

function contentOf({ input, output, previous }: KeptAnswer, response: Fields): string {
  const asked: Asked = { input, previous }
  return [output, asked, { ...response, output: null }].map(each => JSON.stringify(each)).join('\n')
}

function linesIn(content: string): Lines {
  const [output, asked, rest] = content.split('\n') as [string, string, string]
  return { output, asked, rest }
}

/**
 * Keeps the answer that has just been sent. Nobody waits for the disk: the next request finds it already. When it cannot
 * be written, the answer stands, and the log says so.
 */
export function keepAnswer({ exchange, route, generation, kept }: Trip, { store, log }: SenderParts): void {
  const { left, used } = kept!
  if (left === null) return
  const { keptResponseBytes, keptAccountBytes } = generation.configuration.limits
  const response = {
    ...left,
    account: exchange.account!.id,
    keepMs: route.config.keepResponsesMs!,
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
export async function sendKept(trip: Trip, { store }: SenderParts, path: string): Promise<void> {
  const { exchange, ctx, client } = trip
  const [id, part, ...more] = path.split('/') as [string, string?, ...string[]]
  if (more.length > 0 || (part !== undefined && (part !== 'input_items' || ctx.method === 'DELETE'))) {
    throw refuse('unknown_url')
  }
  const account = exchange.account?.id ?? ''
  const body = ctx.method === 'DELETE' ? await remove(id) : read(id)
  if (exchange.signal.aborted) return endStopped(trip)
  exchange.outcome = 'answered'
  const finish = () => client.sendWhole(200, JSON_HEADERS, JSON.stringify(body))
  trip.finish = finish

  function read(id: string): object {
    const content = store.responses.find(id, account)
    if (content === undefined) throw notFound(id)
    const { output, asked, rest } = linesIn(content)
    if (part !== undefined) return page((JSON.parse(asked) as Asked).input, ctx.query)
    if (ctx.query['stream'] === 'true') {
      const message = "Unsupported parameter: 'stream'. A kept response is given as a whole."
      throw refuse('unsupported_parameter', { message, param: 'stream' })
    }
    return { ...(JSON.parse(rest) as Fields), output: JSON.parse(output) as unknown }
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
