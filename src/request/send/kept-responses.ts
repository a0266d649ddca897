/** Kept responses: stores the answer of an exchange, and serves stored ones. */

import { type KeptAnswer, refuse, type Sliced, slices } from '#contract'
import { StoreUnavailable } from '../../store/store.ts'
import type { Reply } from '../finish.ts'
import { refusalOfUnknown } from '../http/unknown-url.ts'
import type { Fields, KeptInput, KeptParts } from './answer-history.ts'
import type { LiveExchange } from './live-exchange.ts'
import { jsonReply } from './reply.ts'

/**
 * Stores the answer of an exchange; resolves when it is on disk. Requests in the same thread find it before that. If it cannot be
 * written, the answer is still valid, and the failure is logged.
 */
export async function keepAnswer(exchange: LiveExchange): Promise<void> {
  const { live, generation, kept, host } = exchange
  const { store, log } = host
  const { toKeep, used } = kept!
  if (toKeep === null) return
  const { keptResponseBytes, keptAccountBytes } = generation.configuration.limits
  const response = {
    ...toKeep,
    account: exchange.account!.id,
    keepMs: live.config.keepResponsesMs!,
    used,
    most: { responseBytes: keptResponseBytes, accountBytes: keptAccountBytes },
  }
  const report = (reason: unknown) => log.warn({ exchange: exchange.id, reason }, 'a response was not kept')
  await store.responses.keep(response).then(
    outcome => {
      if (outcome !== 'kept') report(outcome)
    },
    (error: Error) => report(error.message),
  )
}

/** The longest time that an answer's end waits for the disk. */
const MAX_WAIT_MS = 1000

/**
 * Stores the answer, and resolves when other threads can find it, which is when it is on disk. If the disk hangs, the answer is sent
 * anyway, and other threads find it later.
 */
export function keepForOthers(exchange: LiveExchange): Promise<void> {
  const { deadlineClock } = exchange.host
  const until = deadlineClock.now() + MAX_WAIT_MS
  return new Promise(resolve => {
    const unwatch = deadlineClock.watch(now => {
      if (now >= until) over()
    })
    const over = () => {
      unwatch()
      resolve()
    }
    void keepAnswer(exchange).then(over)
  })
}

/** The methods for each part of a response. Other parts do not exist. */
const METHODS: Readonly<Record<string, readonly string[]>> = {
  '': ['GET', 'DELETE'],
  input_items: ['GET'],
  cancel: ['POST'],
}

/** `GET` and `DELETE /v1/responses/{id}`, `GET …/input_items` and `POST …/cancel`: of the key's own account. */
export async function sendKept(exchange: LiveExchange, path: string): Promise<Reply> {
  const { ctx } = exchange
  const { store } = exchange.host
  const [id, part, ...more] = path.split('/') as [string, string?, ...string[]]
  const methods = Object.hasOwn(METHODS, part ?? '') ? METHODS[part ?? '']! : null
  if (more.length > 0 || methods === null) throw refuse('unknown_url')
  if (!methods.includes(ctx.method)) {
    if (id === 'compact') throw refusalOfUnknown(ctx.method, ctx.path, [])
    throw refuse('method_not_allowed', { headers: { allow: methods.join(', ') } })
  }
  const account = exchange.account?.id ?? ''
  const body = ctx.method === 'DELETE' ? await remove(id) : await slices.run(read(id), exchange.signal)
  return jsonReply(exchange, body)

  function* read(id: string): Sliced<object> {
    if (part === 'cancel') {
      yield* readPart(id, 'rest')
      throw refuse('bad_request', { message: 'Cannot cancel a synchronous response.' })
    }
    if (part !== undefined) return page(((yield* readPart(id, 'input')) as KeptInput).input, ctx.query)
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

/** One page of a request's items, after the item `after`: newest first unless `order` is `asc`. */
function page(input: KeptAnswer['input'], query: Readonly<Record<string, unknown>>): object {
  const { order = 'desc', after, limit = PAGE.usual } = query
  if (order !== 'asc' && order !== 'desc') throw wrong('order', "it must be 'asc' or 'desc'")
  const size = Number(limit)
  if (!(Number.isInteger(size) && size >= PAGE.least && size <= PAGE.most)) {
    throw wrong('limit', `it must be a whole number from ${PAGE.least} to ${PAGE.most}`)
  }
  const items = order === 'asc' ? input : input.toReversed()
  const at = after === undefined ? 0 : items.findIndex(item => item['id'] === after) + 1
  if (after !== undefined && at === 0) throw wrong('after', 'no item has this id')
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
