/** Answers that are kept for an account: those that a request names, the one that it leaves, and their own addresses. */
import { type KeptAnswer, type KeptAnswers, refuse } from '#contract'
import type { Room } from '../http/shares.ts'
import { StoreUnavailable } from '../store/store.ts'
import type { SenderParts, Trip } from './trip.ts'
import { endStopped } from './trip.ts'

const JSON_HEADERS = { 'content-type': 'application/json', 'cache-control': 'no-store' }

interface Parts {
  readonly store: SenderParts['store']
  readonly account: string
  /** Together they may be as large as a body, and take room as one. */
  readonly mostBytes: number
  readonly room: Room
}

/** What one request has to do with kept answers. */
export class ExchangeAnswers implements KeptAnswers {
  readonly #parts: Parts
  readonly #found = new Map<string, KeptAnswer>()
  #bytes = 0
  /** What this request leaves. */
  left: { readonly id: string; readonly content: string } | null = null

  constructor(parts: Parts) {
    this.#parts = parts
  }

  find(id: string): KeptAnswer | undefined {
    const known = this.#found.get(id)
    if (known) return known
    const { store, account, mostBytes, room } = this.#parts
    const content = store.responses.find(id, account)
    if (content === undefined) return undefined
    const items = itemsIn(content)
    const bytes = Buffer.byteLength(items)
    if (this.#bytes + bytes > mostBytes) {
      const message = `The kept responses that this request names have more than ${mostBytes} bytes together. Begin with a shorter conversation in 'input'.`
      throw refuse('request_too_large', { message })
    }
    if (!room.take(bytes)) {
      throw refuse('overloaded', { retryAfterMs: 1000, detail: 'too many bytes of kept responses in flight' })
    }
    this.#bytes += bytes
    const answer = JSON.parse(items) as KeptAnswer
    this.#found.set(id, answer)
    return answer
  }

  keep(answer: KeptAnswer, response: Fields): void {
    this.left = { id: answer.id, content: contentOf(answer, response) }
  }

  get used(): readonly string[] {
    return [...this.#found.keys()]
  }

  /** Gives the room back; once. */
  release(): void {
    this.#parts.room.give(this.#bytes)
    this.#bytes = 0
  }
}

type Fields = Readonly<Record<string, unknown>>

/**
 * Two lines: the items, which a later request needs, and the rest of the response, which repeats the request's tools and
 * which only its reader needs.
 */
function contentOf(answer: KeptAnswer, response: Fields): string {
  return `${JSON.stringify(answer)}\n${JSON.stringify({ ...response, output: null })}`
}

/** JSON has no line ends of its own. */
const itemsIn = (content: string): string => content.slice(0, content.indexOf('\n'))

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
    const items = itemsIn(content)
    const { input, output } = JSON.parse(items) as KeptAnswer
    if (part !== undefined) return page(input, ctx.query)
    if (ctx.query['stream'] === 'true') {
      const message = "Unsupported parameter: 'stream'. A kept response is given as a whole."
      throw refuse('unsupported_parameter', { message, param: 'stream' })
    }
    return { ...(JSON.parse(content.slice(items.length)) as Fields), output }
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
