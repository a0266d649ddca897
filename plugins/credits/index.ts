/**
 * Prepaid credit: sets aside the most that a request can cost before anything is sent, and charges exactly what was
 * used when it is over, on every ending.
 */
import {
  type Account,
  type Chat,
  type Clock,
  definePlugin,
  type ExchangeWith,
  formatMoney,
  type HoldResult,
  isRefusal,
  type Ledger,
  type Log,
  type Model,
  type NanoUsd,
  type OnDisconnect,
  type Price,
  refuse,
  type SettleRequest,
} from '#contract'
import { type Bounds, type Charge, chargeFor } from './charge.ts'
import { type Checkpoints, startCheckpoints } from './checkpoints.ts'
import { affordableCap, completionCeiling, holdFor, promptCeiling, rawHold, smallestCap } from './hold.ts'

interface Settings {
  readonly when_short: readonly ('clamp_output' | 'refuse')[]
  readonly on_disconnect?: OnDisconnect
}

/** The header that says that the output was capped below what the client asked for. */
const CAP_HEADER = 'x-tollgate-max-output-tokens'
/** A settle is tried again for so long; the runner gives every step 5 s after an answer, and the spool needs a moment. */
const SETTLE_FOR_MS = 4_500
const FIRST_PAUSE_MS = 20

export default definePlugin({
  name: 'credits',
  description: 'Sets credit aside before a request is sent and charges exactly what was used.',
  critical: true,
  needs: (_settings: Settings, kind) => (kind === 'chat' ? ['key', 'account', 'chat', 'model'] : ['key', 'account']),
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
        default: ['clamp_output', 'refuse'],
      },
      on_disconnect: {
        description:
          'When the client leaves: cancel the provider and charge what came, or drain (at most 30 s) to learn the usage. Default: cancel; drain for thinking models.',
        enum: ['cancel', 'drain'],
      },
    },
  },
  create(settings: Settings, { ledger, clock, log }) {
    const checkpoints = startCheckpoints(ledger, log)
    return {
      async handle(ctx, next) {
        const exchange = ctx.exchange as ExchangeWith<'key' | 'account'>
        const price = exchange.model ? exchange.model.price : exchange.route.price
        if (price === null) {
          exchange.note('free')
          return next()
        }
        const bill =
          exchange.chat && exchange.model
            ? chatBill(exchange.chat, exchange.model, price)
            : rawBill(exchange.bytes.length, price)
        const held = await hold({ exchange, bill, settings, ledger, setHeader: (name, value) => ctx.set(name, value) })
        exchange.onDisconnect = settings.on_disconnect ?? (exchange.model?.reasoning ? 'drain' : 'cancel')
        const end = exchange.chat?.stream ? watchProgress(checkpoints, exchange, bill, held) : () => {}
        try {
          await next()
        } finally {
          end()
          const charge = chargeFor(endingOf(exchange), price, bill.bounds(held))
          await settle({ ledger, clock, log }, settlement(exchange, charge))
          exchange.charge = charge
          if (exchange.outcome === 'answered') ctx.set('x-tollgate-cost', formatMoney(charge.amount))
        }
      },
      dispose: () => checkpoints.stop(),
    }
  },
})

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
    }),
  }
}

/** Raw routes: the prompt is at most the body's bytes; their answers are charged as usage says, within the hold. */
function rawBill(bytes: number, price: Price): Bill {
  return {
    price,
    modelId: '',
    chat: null,
    model: null,
    hold: () => rawHold(price, bytes, 0),
    bounds: hold => ({ hold, promptCeiling: bytes, completionCeiling: 0 }),
  }
}

interface HoldParts {
  readonly exchange: ExchangeWith<'key' | 'account'>
  readonly bill: Bill
  readonly settings: Settings
  readonly ledger: Ledger
  setHeader(name: string, value: string): void
}

/** Commits the hold, with a lowered cap where the policy allows it, or refuses. Returns what is held. */
async function hold({ exchange, bill, settings, ledger, setHeader }: HoldParts): Promise<NanoUsd> {
  const { account, key, chat, model, id, idempotencyKey } = { ...exchangeFacts(exchange) }
  const tryHold = async (): Promise<{ amount: NanoUsd; result: HoldResult }> => {
    const amount = bill.hold()
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
      return { amount, result: await ledger.hold(request) }
    } catch (cause) {
      throw refuse('store_unavailable', { retryAfterMs: 1000, detail: 'the hold could not be written', cause })
    }
  }
  let { amount, result } = await tryHold()
  if (!result.held && result.reason === 'short' && chat && model && settings.when_short.includes('clamp_output')) {
    const asked = chat.cap
    chat.cap = affordableCap(chat, model, bill.price, result.available)
    if (chat.cap < asked) {
      ;({ amount, result } = await tryHold())
      if (result.held) {
        setHeader(CAP_HEADER, String(chat.cap))
        exchange.note(`output capped at ${chat.cap} tokens: the balance does not pay for ${asked}`)
      }
    }
  }
  if (result.held) return amount
  throw refusalFor(result, leastHold(bill, settings), account)
}

function exchangeFacts(exchange: ExchangeWith<'key' | 'account'>) {
  const { account, key, chat, model, id, idempotencyKey } = exchange
  return { account, key, chat: chat ?? null, model: model ?? null, id, idempotencyKey }
}

/** The smallest hold under which this request would have been let through. */
function leastHold(bill: Bill, settings: Settings): NanoUsd {
  const { chat, model, price } = bill
  if (!chat || !model || !settings.when_short.includes('clamp_output')) return bill.hold()
  return holdFor(chat, model, price, Math.min(smallestCap(model), chat.cap))
}

function refusalFor(result: Exclude<HoldResult, { held: true }>, needed: NanoUsd, account: Account) {
  if (result.reason !== 'short') {
    if (result.reason === 'frozen') return refuse('account_frozen')
    return refuse('invalid_api_key', { detail: `no account ${account.id}` })
  }
  const available = formatMoney(result.available)
  if (result.available + result.onHold >= needed) {
    return refuse('credit_on_hold', {
      retryAfterMs: 1000,
      message: `$${formatMoney(needed)} must be set aside for this request, $${available} is free and $${formatMoney(result.onHold)} is held for the account's open requests. Try again when they are over.`,
    })
  }
  return refuse('insufficient_quota', {
    message: `The account has $${available} of credit, and $${formatMoney(needed)} must be set aside for this request. Add credit, or ask for less with max_completion_tokens.`,
  })
}

function endingOf(exchange: ExchangeWith<'key'>) {
  return {
    outcome: exchange.outcome,
    usage: exchange.usage,
    progress: exchange.progress,
    stream: exchange.chat?.stream ?? false,
    reasoning: exchange.model?.reasoning ?? false,
  }
}

function settlement(exchange: ExchangeWith<'key'>, charge: Charge): SettleRequest {
  return {
    ...charge,
    exchange: exchange.id,
    outcome: exchange.outcome ?? 'failed',
    code: exchange.attempts.at(-1)?.code ?? null,
    attempts: exchange.attempts,
    trail: exchange.trail,
  }
}

/**
 * Commits the charge, again and again for some seconds: it is idempotent. When the ledger cannot be written, what is
 * known goes to the spool for the next start, and the answer is not let out as if it had been paid.
 */
async function settle(
  { ledger, clock, log }: { ledger: Ledger; clock: Clock; log: Log },
  request: SettleRequest,
): Promise<void> {
  const until = clock.now() + SETTLE_FOR_MS
  let pause = FIRST_PAUSE_MS
  for (;;) {
    try {
      const result = await ledger.settle(request)
      if (result === 'no_hold') log.error({ exchange: request.exchange }, 'a settle found no hold')
      return
    } catch (error) {
      if (isRefusal(error)) throw error
      if (clock.now() + pause > until) {
        log.error({ exchange: request.exchange, error: String(error) }, 'a settle could not be written; it is spooled')
        ledger.spool(request)
        throw refuse('store_unavailable', {
          message:
            'The charge could not be written, so the answer was not let out. It is charged when the ledger is back.',
          detail: 'the charge could not be written',
          cause: error,
        })
      }
    }
    await new Promise(resolve => setTimeout(resolve, pause))
    pause = Math.min(pause * 2, 500)
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
