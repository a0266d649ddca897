/**
 * Prepaid credit: sets aside the most that a request can cost before anything is sent, and charges exactly what was
 * used when it is over, on every ending.
 */
import {
  type Account,
  asksModel,
  type BucketShape,
  type Buckets,
  type Chat,
  type Counts,
  ceiling,
  definePlugin,
  type ErrorCode,
  type ExchangeWith,
  formatMoney,
  formatSpan,
  type HoldResult,
  isRefusal,
  type Model,
  type NanoUsd,
  type OnDisconnect,
  type Price,
  rawBound,
  rawHold,
  refuse,
  type SettleRequest,
  type ShortHold,
  searchingOf,
} from '#contract'
import { type Bounds, type Charge, chargeFor, LARGEST } from './charge.ts'
import { type Checkpoints, startCheckpoints } from './checkpoints.ts'
import { affordableCap, boundOf, holdFor, smallestCap } from './hold.ts'
import { roundedDown, roundedUp } from './rounded.ts'
import { type Books, isUnavailable, settle } from './settle.ts'

interface Settings {
  readonly when_short: readonly ('clamp_output' | 'refuse')[]
  readonly on_disconnect?: OnDisconnect | 'cancel_free'
}

/** The header that says that the output was capped below what the client asked for. */
const CAP_HEADER = 'x-tollgate-max-output-tokens'

export default definePlugin({
  name: 'credits',
  description: 'Sets credit aside before a request is sent and charges exactly what was used.',
  dryRun: true,
  critical: true,
  needs: (_settings: Settings, kind) => (asksModel(kind) ? ['key', 'account', 'chat', 'model'] : ['key', 'account']),
  gives: ['hold'],
  uses: ['ledger', 'clock', 'log', 'buckets'],
  settings: {
    type: 'object',
    additionalProperties: false,
    properties: {
      when_short: {
        description:
          'What to do when the balance does not pay for the whole hold: lower the output cap first, or refuse at once.',
        type: 'array',
        items: { enum: ['clamp_output', 'refuse'] },
        minItems: 1,
        uniqueItems: true,
        not: { const: ['refuse', 'clamp_output'] },
        sentence: 'must be a list of clamp_output, refuse or both in this order (behind refuse nothing is reached)',
        default: ['clamp_output', 'refuse'],
      },
      on_disconnect: {
        description:
          'When the client leaves: cancel the provider and charge what came, at least the prompt of a request that was sent; or drain (at most 30 s) to learn the usage; or cancel_free: as cancel, but nothing is charged before the first token. Default: cancel; drain for thinking models.',
        enum: ['cancel', 'drain', 'cancel_free'],
      },
    },
  },
  create(settings: Settings, books) {
    const checkpoints = startCheckpoints(books.ledger, books.log)
    return {
      decide(ctx): Held | null | Promise<Held | null> {
        const exchange = ctx.exchange as ExchangeWith<'key' | 'account'>
        const price = priceOf(exchange)
        if (price === null) {
          const free = () => {
            exchange.note('free')
            exchange.give('hold', 0n)
            return null
          }
          return exchange.route.counts ? takeCount(books.buckets, exchange.account).then(free) : free()
        }
        const bill =
          exchange.chat && exchange.model ? chatBill(exchange.chat, exchange.model, price) : rawBill(exchange, price)
        const setHeader = (name: string, value: string) => ctx.set(name, value)
        return hold({ exchange, bill, settings, books, setHeader }).then(amount => {
          try {
            exchange.give('hold', amount)
          } catch (error) {
            // The gateway has given the step up meanwhile.
            books.ledger.abandon(nothingFor(exchange))
            throw error
          }
          const wish = settings.on_disconnect ?? (exchange.model?.reasoning ? 'drain' : 'cancel')
          exchange.onDisconnect = wish === 'drain' ? 'drain' : 'cancel'
          const unwatch = exchange.chat?.stream ? watchProgress(checkpoints, exchange, bill, amount) : null
          return { amount, bill, forgivesPrompt: wish === 'cancel_free', unwatch }
        })
      },
      after(ctx, outcome, held: Held | null, error) {
        if (held === null) return
        const exchange = ctx.exchange as ExchangeWith<'key' | 'account'>
        const { amount, bill, forgivesPrompt, unwatch } = held
        unwatch?.()
        const charge = chargeFor(endingOf(exchange, forgivesPrompt), bill.price, bill.bounds(amount))
        // The receipt has the code that the client gets. The trail has that of a failed attempt.
        const code = isRefusal(error) ? error.code : null
        return settle(books, settlement(exchange, charge, code)).then(isCertain => {
          exchange.charge = charge
          if (outcome === 'answered' && isCertain) ctx.set('x-tollgate-cost', formatMoney(charge.amount))
        })
      },
      dispose: () => checkpoints.stop(),
    }
  },
})

/** The credit on hold for an exchange. */
interface Held {
  readonly amount: NanoUsd
  readonly bill: Bill
  readonly forgivesPrompt: boolean
  /** Ends the checkpoints of a stream. */
  readonly unwatch: (() => void) | null
}

/** A count costs the account nothing, so no balance ends them; the provider that counts has limits of its own. */
const COUNTS: BucketShape = { capacity: 600, refillPerMs: 600 / 60_000 }

/** Throws the refusal when the account has asked for too many counts, in whatever policy. */
async function takeCount(buckets: Buckets, { id }: Account): Promise<void> {
  const { taken, retryAfterMs } = await buckets.take(`credits/counts/account:${id}`, COUNTS, 1)
  if (taken) return
  throw refuse('rate_limit_exceeded', {
    message: `Rate limit reached: this account can have tokens counted ${COUNTS.capacity} times per minute. Try again in ${formatSpan(retryAfterMs)}.`,
    retryAfterMs,
  })
}

/** Null: it costs nothing. To have tokens counted is free, whatever the model. */
function priceOf({ model, route }: ExchangeWith<'key' | 'account'>): Price | null {
  if (route.counts) return null
  return model ? model.price : route.price
}

/** What a request can cost, and how its hold depends on the output cap. */
interface Bill {
  readonly price: Price
  readonly modelId: string
  readonly chat: Chat | null
  readonly model: Model | null
  hold(bound: Counts): NanoUsd
  /** The most that the request can use, by its output cap. */
  bound(): Counts
  bounds(hold: NanoUsd): Bounds
}

function chatBill(chat: Chat, model: Model, price: Price): Bill {
  return {
    price,
    modelId: model.id,
    chat,
    model,
    hold: bound => ceiling(bound, price).total,
    bound: () => boundOf(chat, model, chat.cap),
    bounds: hold => ({
      hold,
      most: boundOf(chat, model, chat.cap),
      leastSearches: searchingOf(chat.body).least,
    }),
  }
}

/** Raw routes: charged as usage says, within the hold. */
function rawBill({ bytes: { length: bytes }, route, rawModel }: ExchangeWith<'key'>, price: Price): Bill {
  const { path, hold: most = null } = route
  return {
    price,
    // Where nobody knows the model, the receipt says by which road it went.
    modelId: rawModel ?? path,
    chat: null,
    model: null,
    hold: () => rawHold(price, bytes, most),
    bound: () => (most === null ? rawBound(bytes, null) : {}),
    bounds: hold => ({ hold, most: rawBound(bytes, most), leastSearches: 0 }),
  }
}

interface HoldParts {
  readonly exchange: ExchangeWith<'key' | 'account'>
  readonly bill: Bill
  readonly settings: Settings
  readonly books: Books
  setHeader(name: string, value: string): void
}

/** Commits the hold, with a lowered cap where the policy allows it, or refuses. Returns what is held. */
async function hold({ exchange, bill, settings, books, setHeader }: HoldParts): Promise<NanoUsd> {
  const { account, key, chat, model, id, idempotencyKey } = { ...exchangeFacts(exchange) }
  let amount = 0n
  const tryHold = (): Promise<HoldResult> => {
    const bound = bill.bound()
    const needed = bill.hold(bound)
    amount = needed < LARGEST ? needed : LARGEST
    return books.ledger.hold({
      exchange: id,
      accountId: account.id,
      keyId: key.id,
      amount,
      model: bill.modelId,
      price: bill.price,
      bound,
      idempotencyKey,
      tags: exchange.tags,
    })
  }
  const asked = chat?.cap ?? 0
  // The account is short of credit, or the key of what it may spend; then perhaps the other of them too.
  const short: ShortHold['of'][] = []
  let result: HoldResult
  try {
    result = await tryHold()
    while (isShort(result) && !short.includes(result.of) && chat && model && clamps(settings)) {
      short.push(result.of)
      const before = chat.cap
      chat.cap = affordableCap(chat, model, bill.price, result.available)
      if (chat.cap < before) result = await tryHold()
    }
  } catch (cause) {
    // What the ledger refuses as a mistake is a mistake the next time too, and nothing was written.
    if (!isUnavailable(cause)) throw cause
    // A hold whose commit failed may have been written all the same. Nothing is sent for it, so it is given back.
    if (cause.written !== 'not_written') books.ledger.abandon(nothingFor(exchange))
    throw refuse('store_unavailable', { retryAfterMs: 1000, detail: 'the hold could not be written', cause })
  }
  if (!result.held) throw refusalFor(result, bill, leastHold(bill, settings), account)
  if (chat && chat.cap < asked) {
    setHeader(CAP_HEADER, String(chat.cap))
    const what = short.map(of => (of === 'key' ? "the key's spending cap" : 'the balance')).join(' and ')
    exchange.note(
      `output capped at ${chat.cap} tokens: ${what} ${short.length > 1 ? 'do' : 'does'} not pay for ${asked}`,
    )
  }
  return amount
}

function isShort(result: HoldResult): result is ShortHold {
  return !result.held && result.reason === 'short'
}

/** Nothing stands behind `refuse`. */
function clamps(settings: Settings): boolean {
  return settings.when_short[0] === 'clamp_output'
}

function exchangeFacts(exchange: ExchangeWith<'key' | 'account'>) {
  const { account, key, chat, model, id, idempotencyKey } = exchange
  return { account, key, chat: chat ?? null, model: model ?? null, id, idempotencyKey }
}

/** The smallest hold under which this request would have been let through. */
function leastHold(bill: Bill, settings: Settings): NanoUsd {
  const { chat, model, price } = bill
  if (!chat || !model || !clamps(settings)) return bill.hold(bill.bound())
  return holdFor(chat, model, price, Math.min(smallestCap(model), chat.cap))
}

/** Whether a lower output cap would let the request through: advice that cannot help sends people the wrong way. */
function canAskForLess({ chat, model, price }: Bill, available: NanoUsd): boolean {
  return chat !== null && model !== null && holdFor(chat, model, price, 1) <= available
}

function refusalFor(result: Exclude<HoldResult, { held: true }>, bill: Bill, needed: NanoUsd, account: Account) {
  if (result.reason !== 'short') {
    if (result.reason === 'frozen') return refuse('account_frozen')
    return refuse('invalid_api_key', { detail: `no account ${account.id}` })
  }
  // A cap that was set below what its key has spent and holds leaves less than nothing.
  const [available, aside] = [roundedDown(result.available), roundedUp(needed)]
  if (result.available + result.onHold >= needed) {
    const [free, whose] =
      result.of === 'key' ? ["of the key's spending cap is free", "key's"] : ['is free', "account's"]
    return refuse('credit_on_hold', {
      retryAfterMs: 1000,
      message: `${aside} must be set aside for this request, ${available} ${free} and ${roundedDown(result.onHold)} is held for the ${whose} open requests. Try again when they are over.`,
    })
  }
  const less = canAskForLess(bill, result.available) ? ', or ask for less with max_completion_tokens' : ''
  if (result.of === 'key') {
    return refuse('spending_cap_reached', {
      message: `Of this key's spending cap ${available} is left, and ${aside} must be set aside for this request. Raise the cap (tollgate key update KEY --cap DOLLARS, or the dashboard's API keys)${less === '' ? ' or' : ','} use another key${less}.`,
    })
  }
  return refuse('insufficient_quota', {
    message: `The account has ${available} of credit, and ${aside} must be set aside for this request. Add credit${less}.`,
  })
}

function endingOf(exchange: ExchangeWith<'key'>, forgivesPrompt = false) {
  return {
    outcome: exchange.outcome,
    usage: exchange.usage,
    progress: exchange.progress,
    stream: exchange.chat?.stream ?? false,
    reasoning: exchange.model?.reasoning ?? false,
    forgivesPrompt,
    answerPrice: exchange.answerPrice,
  }
}

function settlement(exchange: ExchangeWith<'key'>, charge: Charge, told: ErrorCode | null): SettleRequest {
  const { cost: _, ...settled } = charge
  return {
    ...settled,
    exchange: exchange.id,
    outcome: exchange.outcome ?? 'failed',
    code: told ?? exchange.attempts.at(-1)?.code ?? null,
    attempts: exchange.attempts,
    trail: exchange.trail,
  }
}

/** The settle of a hold for which nothing was sent. */
function nothingFor(exchange: ExchangeWith<'key' | 'account'>): SettleRequest {
  const bounds = { hold: 0n, most: {}, leastSearches: 0 }
  const nothing = chargeFor({ ...endingOf(exchange), outcome: 'refused', usage: null }, [], bounds)
  return { ...settlement(exchange, nothing, 'store_unavailable'), outcome: 'refused' }
}

/** Lets the checkpoints follow a stream; the returned function ends that. */
function watchProgress(
  checkpoints: Checkpoints,
  exchange: ExchangeWith<'key' | 'account'>,
  bill: Bill,
  held: NanoUsd,
): () => void {
  const bounds = bill.bounds(held)
  return checkpoints.follow({
    exchange: exchange.id,
    tokens: () => exchange.progress.countedTokens,
    sofar: () => {
      const charge = chargeFor(
        { ...endingOf(exchange), outcome: 'cut', usage: exchange.progress.estimate },
        bill.price,
        bounds,
      )
      return { exchange: exchange.id, amount: charge.amount, usage: charge.usage }
    },
  })
}
