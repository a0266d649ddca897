/** Prepaid credit: reserves the highest cost of a request before it is sent, and charges exactly the usage at its end. */
import {
  type Account,
  asksModel,
  BUDGET_SCHEMA,
  type BucketShape,
  type Buckets,
  type Budget,
  definePlugin,
  type ErrorCode,
  type Exchange,
  type ExchangeWith,
  formatMoney,
  formatSpan,
  isRefusal,
  type NanoUsd,
  type OnDisconnect,
  type Price,
  problemsOfBudgets,
  refuse,
  type SettleRequest,
} from '#contract'
import type { Bill } from './bill.ts'
import { type Charge, chargeFor } from './charge.ts'
import { type Checkpoints, startCheckpoints } from './checkpoints.ts'
import { reserveCredit } from './reserve-credit.ts'
import { settle } from './settle.ts'

interface Settings {
  readonly when_short: readonly ('clamp_output' | 'refuse')[]
  readonly on_disconnect?: OnDisconnect | 'cancel_free'
  readonly budgets?: readonly Budget[]
}

export default definePlugin({
  name: 'credits',
  description: 'Reserves credit before a request is sent, and charges exactly what was used.',
  dryRun: true,
  critical: true,
  needs: ({ budgets = [] }: Settings, kind) => [
    ...(['key', 'account'] as const),
    ...(asksModel(kind) ? (['chat', 'model'] as const) : []),
    ...(budgets.some(({ per }) => per.startsWith('tag ')) ? (['tags'] as const) : []),
  ],
  // Another model has other targets.
  before: ({ budgets = [] }: Settings) => (budgets.some(({ then = 'refuse' }) => then !== 'refuse') ? ['targets'] : []),
  gives: ['hold'],
  uses: ['ledger', 'budgets', 'plans', 'catalog', 'clock', 'log', 'buckets'],
  settings: {
    type: 'object',
    additionalProperties: false,
    properties: {
      when_short: {
        description: 'The response to a balance below the hold: lower the output cap first, or refuse at once.',
        type: 'array',
        items: { enum: ['clamp_output', 'refuse'] },
        minItems: 1,
        uniqueItems: true,
        not: { const: ['refuse', 'clamp_output'] },
        sentence: 'must be [clamp_output], [refuse], or [clamp_output, refuse]: nothing after refuse would run',
        default: ['clamp_output', 'refuse'],
      },
      on_disconnect: {
        description:
          'If the client disconnects. `cancel`: stop the provider, and charge what it sent, at least the prompt. `drain`: read on for at most 30 s, for the exact usage. `cancel_free`: like cancel, but free before the first token. Default: cancel; drain for reasoning models.',
        enum: ['cancel', 'drain', 'cancel_free'],
      },
      budgets: {
        type: 'array',
        minItems: 1,
        maxItems: 20,
        items: BUDGET_SCHEMA,
        description:
          'Limits on spending in a period, of an account, a key, a caller or a tag. They count the requests of this policy only.',
      },
    },
  },
  check: ({ budgets = [] }: Settings) =>
    problemsOfBudgets(budgets).map(({ at, message }) => ({ at: `/budgets${at}`, message })),
  create(settings: Settings, books, { policy, id }) {
    const { budgets: own = [] } = settings
    const place = `${policy}/${id}`
    // The list ends with `refuse`.
    const clamps = settings.when_short[0] === 'clamp_output'
    const checkpoints = startCheckpoints(books.ledger, books.log)
    return {
      decide(ctx): HoldOnCredit | null | Promise<HoldOnCredit | null> {
        const exchange = ctx.exchange as ExchangeWith<'key' | 'account'>
        const price = priceOf(exchange)
        if (price === null) {
          if (!exchange.route.counts) return free(exchange)
          return takeCount(books.buckets, exchange.account).then(() => free(exchange))
        }
        const setHeader = (name: string, value: string) => ctx.set(name, value)
        const abandon = () => books.ledger.abandon(nothingFor(exchange))
        const chain = books.budgets.chain(exchange, own, place)
        return reserveCredit({ exchange, price, chain, clamps, books, setHeader, abandon }).then(held => {
          if (held === null) return free(exchange)
          const { amount, bill } = held
          try {
            exchange.give('hold', amount)
          } catch (error) {
            // The gateway has abandoned the step while the hold was written.
            abandon()
            throw error
          }
          const wish = settings.on_disconnect ?? (exchange.model?.reasoning ? 'drain' : 'cancel')
          exchange.onDisconnect = wish === 'drain' ? 'drain' : 'cancel'
          const unwatch = exchange.chat?.stream ? watchProgress(checkpoints, exchange, bill, amount) : null
          return { amount, bill, forgivesPrompt: wish === 'cancel_free', unwatch }
        })
      },
      after(ctx, outcome, held: HoldOnCredit | null, error) {
        if (held === null) return
        const exchange = ctx.exchange as ExchangeWith<'key' | 'account'>
        const { amount, bill, forgivesPrompt, unwatch } = held
        unwatch?.()
        const charge = chargeFor(endingOf(exchange, forgivesPrompt), bill.price, bill.bounds(amount))
        // The receipt has the error code that the client received. The trail has that of a failed attempt.
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
interface HoldOnCredit {
  readonly amount: NanoUsd
  readonly bill: Bill
  readonly forgivesPrompt: boolean
  /** Ends the checkpoints of a stream. */
  readonly unwatch: (() => void) | null
}

/** The request costs nothing. */
function free(exchange: Exchange): null {
  exchange.note('free')
  exchange.give('hold', 0n)
  return null
}

/** Counting tokens is free, so no balance limits it. This limit protects the limits of the provider. */
const COUNTS: BucketShape = { capacity: 600, refillPerMs: 600 / 60_000 }

/** Throws a refusal if the account has exceeded the limit of counts over all policies. */
async function takeCount(buckets: Buckets, { id }: Account): Promise<void> {
  const { taken, retryAfterMs } = await buckets.take(`credits/counts/account:${id}`, COUNTS, 1)
  if (taken) return
  throw refuse('rate_limit_exceeded', {
    message: `Rate limit reached: this account can count tokens ${COUNTS.capacity} times per minute. Try again in ${formatSpan(retryAfterMs)}.`,
    retryAfterMs,
  })
}

/** Null: free. Counting tokens is free for each model. */
function priceOf({ model, route }: ExchangeWith<'key' | 'account'>): Price | null {
  if (route.counts) return null
  return model ? model.price : route.price
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

function settlement(exchange: ExchangeWith<'key'>, charge: Charge, code: ErrorCode | null): SettleRequest {
  const { cost: _, ...settled } = charge
  return {
    ...settled,
    exchange: exchange.id,
    outcome: exchange.outcome ?? 'failed',
    code: code ?? exchange.attempts.at(-1)?.code ?? null,
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

/** Writes checkpoints of a stream until the returned function is called. */
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
