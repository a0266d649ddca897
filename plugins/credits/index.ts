/**
 * Prepaid credit: sets aside the most that a request can cost before anything is sent, and charges exactly what was
 * used when it is over, on every ending.
 */
import {
  type Account,
  asksModel,
  type Chat,
  type Clock,
  definePlugin,
  type ErrorCode,
  type ExchangeWith,
  formatMoney,
  type HoldResult,
  isRefusal,
  type Key,
  type Ledger,
  type Log,
  type Model,
  type NanoUsd,
  type OnDisconnect,
  type Price,
  refuse,
  type SettleRequest,
  type ShortHold,
  searchingOf,
} from '#contract'
import { type Bounds, type Charge, chargeFor } from './charge.ts'
import { type Checkpoints, startCheckpoints } from './checkpoints.ts'
import { affordableCap, completionCeiling, holdFor, promptCeiling, rawCeilings, rawHold, smallestCap } from './hold.ts'

interface Settings {
  readonly when_short: readonly ('clamp_output' | 'refuse')[]
  readonly on_disconnect?: OnDisconnect | 'cancel_free'
}

/** The header that says that the output was capped below what the client asked for. */
const CAP_HEADER = 'x-tollgate-max-output-tokens'
/** A settle is tried again for so long; the runner gives every step 5 s after an answer, and the spool needs a moment. */
const SETTLE_FOR_MS = 4_500
const FIRST_PAUSE_MS = 20
const MAX_PAUSE_MS = 500
/** What a 64-bit column holds; no account owns more, so that a larger hold is short of credit wherever it is asked for. */
const LARGEST_HOLD: NanoUsd = 2n ** 63n - 1n

/** What it takes to write to the ledger and to talk about it. */
interface Books {
  readonly ledger: Ledger
  readonly clock: Clock
  readonly log: Log
}

export default definePlugin({
  name: 'credits',
  description: 'Sets credit aside before a request is sent and charges exactly what was used.',
  dryRun: true,
  critical: true,
  needs: (_settings: Settings, kind) => (asksModel(kind) ? ['key', 'account', 'chat', 'model'] : ['key', 'account']),
  gives: ['hold'],
  uses: ['ledger', 'clock', 'log'],
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
      async handle(ctx, next) {
        const exchange = ctx.exchange as ExchangeWith<'key' | 'account'>
        const price = priceOf(exchange)
        if (price === null) {
          exchange.note('free')
          exchange.give('hold', 0n)
          return next()
        }
        const bill =
          exchange.chat && exchange.model ? chatBill(exchange.chat, exchange.model, price) : rawBill(exchange, price)
        const held = await hold({ exchange, bill, settings, books, setHeader: (name, value) => ctx.set(name, value) })
        exchange.give('hold', held)
        const wish = settings.on_disconnect ?? (exchange.model?.reasoning ? 'drain' : 'cancel')
        exchange.onDisconnect = wish === 'drain' ? 'drain' : 'cancel'
        const end = exchange.chat?.stream ? watchProgress(checkpoints, exchange, bill, held) : () => {}
        let told: ErrorCode | null = null
        try {
          await next()
        } catch (error) {
          // What the client is told is what its receipt says; of an attempt that failed the trail knows more.
          if (isRefusal(error)) told = error.code
          throw error
        } finally {
          end()
          const charge = chargeFor(endingOf(exchange, wish === 'cancel_free'), price, bill.bounds(held))
          await settle(books, settlement(exchange, charge, told))
          exchange.charge = charge
          if (exchange.outcome === 'answered') ctx.set('x-tollgate-cost', formatMoney(charge.amount))
        }
      },
      dispose: () => checkpoints.stop(),
    }
  },
})

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
  hold(): NanoUsd
  bounds(hold: NanoUsd): Bounds
}

function chatBill(chat: Chat, model: Model, price: Price): Bill {
  return {
    price,
    modelId: model.id,
    chat,
    model,
    hold: () => holdFor(chat, model, price, chat.cap),
    bounds: hold => ({
      hold,
      promptCeiling: promptCeiling(chat, model),
      completionCeiling: completionCeiling(chat, model, chat.cap),
      searching: searchingOf(chat.body),
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
    bounds: hold => ({ hold, ...rawCeilings(bytes, most) }),
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
  const tryHold = async (): Promise<{ amount: NanoUsd; result: HoldResult }> => {
    const needed = bill.hold()
    const amount = needed < LARGEST_HOLD ? needed : LARGEST_HOLD
    const capTokens = chat && model ? completionCeiling(chat, model, chat.cap) : 0
    const request = {
      exchange: id,
      accountId: account.id,
      keyId: key.id,
      amount,
      model: bill.modelId,
      price: bill.price,
      capTokens,
      idempotencyKey,
    }
    try {
      return { amount, result: await books.ledger.hold(request) }
    } catch (cause) {
      // What the ledger refuses as a mistake is a mistake the next time too, and nothing was written.
      if (!isUnavailable(cause)) throw cause
      // A hold whose commit failed may have been written all the same. Nothing is sent for it, so it is given back.
      if (cause.written !== 'not_written') books.ledger.abandon(nothingFor(exchange))
      throw refuse('store_unavailable', { retryAfterMs: 1000, detail: 'the hold could not be written', cause })
    }
  }
  let { amount, result } = await tryHold()
  const asked = chat?.cap ?? 0
  // The account is short of credit, or the key of what it may spend; then perhaps the other of them too.
  const short = new Set<ShortHold['of']>()
  while (isShort(result) && !short.has(result.of) && chat && model && clamps(settings)) {
    short.add(result.of)
    const before = chat.cap
    chat.cap = affordableCap(chat, model, bill.price, result.available)
    if (chat.cap < before) ({ amount, result } = await tryHold())
  }
  if (!result.held) throw refusalFor(result, bill, leastHold(bill, settings), account, key)
  if (chat && chat.cap < asked) {
    setHeader(CAP_HEADER, String(chat.cap))
    const what = [...short].map(of => (of === 'key' ? "the key's spending cap" : 'the balance')).join(' and ')
    exchange.note(`output capped at ${chat.cap} tokens: ${what} ${short.size > 1 ? 'do' : 'does'} not pay for ${asked}`)
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
  if (!chat || !model || !clamps(settings)) return bill.hold()
  return holdFor(chat, model, price, Math.min(smallestCap(model), chat.cap))
}

/** Whether a lower output cap would let the request through: advice that cannot help sends people the wrong way. */
function canAskForLess({ chat, model, price }: Bill, available: NanoUsd): boolean {
  return chat !== null && model !== null && holdFor(chat, model, price, 1) <= available
}

function refusalFor(
  result: Exclude<HoldResult, { held: true }>,
  bill: Bill,
  needed: NanoUsd,
  account: Account,
  key: Key,
) {
  if (result.reason !== 'short') {
    if (result.reason === 'frozen') return refuse('account_frozen')
    return refuse('invalid_api_key', { detail: `no account ${account.id}` })
  }
  // A cap that was set below what its key has spent and holds leaves less than nothing.
  const available = formatMoney(result.available > 0n ? result.available : 0n)
  if (result.available + result.onHold >= needed) {
    const [free, whose] =
      result.of === 'key' ? ["of the key's spending cap is free", "key's"] : ['is free', "account's"]
    return refuse('credit_on_hold', {
      retryAfterMs: 1000,
      message: `$${formatMoney(needed)} must be set aside for this request, $${available} ${free} and $${formatMoney(result.onHold)} is held for the ${whose} open requests. Try again when they are over.`,
    })
  }
  const less = canAskForLess(bill, result.available) ? ', or ask for less with max_completion_tokens' : ''
  if (result.of === 'key') {
    return refuse('spending_cap_reached', {
      message: `Of this key's spending cap $${available} is left, and $${formatMoney(needed)} must be set aside for this request. Raise the cap (tollgate key update ${key.id} --cap DOLLARS, or the dashboard's API keys)${less === '' ? ' or' : ','} use another key${less}.`,
    })
  }
  return refuse('insufficient_quota', {
    message: `The account has $${available} of credit, and $${formatMoney(needed)} must be set aside for this request. Add credit${less}.`,
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
  return {
    ...charge,
    exchange: exchange.id,
    outcome: exchange.outcome ?? 'failed',
    code: told ?? exchange.attempts.at(-1)?.code ?? null,
    attempts: exchange.attempts,
    trail: exchange.trail,
  }
}

/**
 * Commits the charge, again and again for some seconds: it is idempotent. What cannot be committed is spooled, which is as
 * good: it is on disk, and will be charged. Where the disk refuses that too, the store goes on trying, but nobody can be sure
 * of the charge, so the answer is not let out as if it had been paid. Nor is the client told to try again: it would pay twice
 * for one answer.
 */
async function settle(books: Books, request: SettleRequest): Promise<void> {
  const { ledger, log } = books
  try {
    const result = await persistently(books, () => ledger.settle(request))
    if (result === 'no_hold') log.error({ exchange: request.exchange }, 'a settle found no hold')
  } catch (error) {
    const owed = { exchange: request.exchange, amount: formatMoney(request.amount), error: String(error) }
    if (ledger.spool(request) === 'spooled') {
      log.error(owed, 'a settle could not be written; it is spooled')
      // What the ledger has refused as a mistake is not as good as charged.
      if (isUnavailable(error)) return
    } else log.error(owed, 'a settle could neither be written nor spooled; it waits in memory')
    throw refuse('store_unavailable', {
      message: 'The charge could not be written, so the answer was not let out. It is charged when the ledger is back.',
      headers: { 'x-should-retry': 'false' },
      detail: 'the charge could not be written',
      cause: error,
    })
  }
}

/** The disk's failure, by name: the class belongs to the store. */
function isUnavailable(error: unknown): error is { readonly written: 'not_written' | 'unknown' } {
  return (error as Error).name === 'StoreUnavailable'
}

/** The settle of a hold for which nothing was sent. */
function nothingFor(exchange: ExchangeWith<'key' | 'account'>): SettleRequest {
  const nothing = chargeFor({ ...endingOf(exchange), outcome: 'refused', usage: null }, FREE, {
    hold: 0n,
    promptCeiling: 0,
    completionCeiling: 0,
  })
  return { ...settlement(exchange, nothing, 'store_unavailable'), outcome: 'refused' }
}

const FREE: Price = { input: 0n, cachedInput: 0n, cacheWrite: 0n, output: 0n, request: 0n }

/**
 * Tries for some seconds, with growing pauses; what is tried has to be idempotent. Throws the last error. The pauses are
 * counted too: a clock that is set back must not keep it trying. A try that is under way when the time is over is not
 * waited for: behind an unreachable database each takes a second, and the step has no time for that.
 */
async function persistently<Result>({ clock }: Books, attempt: () => Promise<Result>): Promise<Result> {
  const until = clock.now() + SETTLE_FOR_MS
  let [paused, isOver] = [0, false]
  let run = attempt
  for (let pause = FIRST_PAUSE_MS; ; pause = Math.min(pause * 2, MAX_PAUSE_MS)) {
    paused += pause
    try {
      return await run()
    } catch (error) {
      if (isOver || paused > SETTLE_FOR_MS || clock.now() + pause > until) throw error
      const late = () => {
        isOver = true
        return error
      }
      run = () => inTime(attempt(), Math.min(until - clock.now(), SETTLE_FOR_MS), late)
    }
    await new Promise(resolve => setTimeout(resolve, pause))
  }
}

/** What comes of a try; after so many milliseconds it is an error instead. */
async function inTime<Result>(trying: Promise<Result>, ms: number, late: () => unknown): Promise<Result> {
  let timer: NodeJS.Timeout | undefined
  const end = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(late()), ms)
  })
  try {
    return await Promise.race([trying, end])
  } finally {
    clearTimeout(timer)
  }
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
      return {
        exchange: exchange.id,
        amount: charge.amount,
        promptTokens: charge.promptTokens,
        completionTokens: charge.completionTokens,
      }
    },
  })
}
