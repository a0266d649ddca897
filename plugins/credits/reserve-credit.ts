/** Reserves credit for a request in the account, in the cap of its key, and in each of its budgets, or in none of them. */
import {
  type Budgets,
  budgetName,
  type Catalog,
  type ChainedBudget,
  type Chat,
  type ExchangeWith,
  type HoldResult,
  isRefusal,
  type Model,
  mayUse,
  type NanoUsd,
  type Plans,
  type Price,
  type Refusal,
  refuse,
  type ShortHold,
} from '#contract'
import { type Bill, billOf } from './bill.ts'
import { LARGEST } from './charge.ts'
import { affordableCap, holdFor, smallestCap } from './hold.ts'
import { roundedDown, roundedUp } from './rounded.ts'
import { isUnavailable, type SettleServices } from './settle.ts'

/** The output cap, if it is lower than the client asked. */
const CAP_HEADER = 'x-tollgate-max-output-tokens'
/** The model that answers in place of the requested one, and the budget that is exhausted. */
const MODEL_HEADER = 'x-tollgate-model'
const BUDGET_HEADER = 'x-tollgate-budget'

export interface ReservationParts {
  readonly exchange: ExchangeWith<'key' | 'account'>
  readonly price: Price
  /** The budgets that count the request. */
  readonly chain: readonly ChainedBudget[]
  /** Whether the output cap may be lowered to what the balance can pay. */
  readonly clamps: boolean
  readonly books: ReservationServices
  setHeader(name: string, value: string): void
  /** Releases a hold that may have been written. */
  abandon(): void
}

export interface ReservationServices extends SettleServices {
  readonly catalog: Catalog
  readonly plans: Plans
  readonly budgets: Budgets
}

/** The amount on hold, and the bill that it pays. */
export interface Reservation {
  readonly amount: NanoUsd
  readonly bill: Bill
}

/**
 * Commits the hold, with a lower cap or for another model if needed. Throws a refusal if no limit has room.
 * @returns null: another model answers, and is free
 */
export async function reserveCredit(parts: ReservationParts): Promise<Reservation | null> {
  const { exchange } = parts
  let { price, chain } = parts
  let switchedBy: ChainedBudget | null = null
  for (;;) {
    const bill = billOf(exchange, price)
    const asked = bill.chat?.cap ?? 0
    const { amount, result, short } = await holdWithin(parts, bill, chain)
    if (result.held) {
      noteCap(parts, bill.chat, asked, short)
      setModelHeaders(parts, switchedBy)
      return { amount, bill }
    }
    const budget = result.reason === 'short' && result.of === 'budget' ? chain[result.budget!]! : null
    const other = budget && otherModel(parts, budget)
    if (budget === null || other === null) throw refusalFor(parts, result, bill, budget)
    const before = exchange.model!.id
    const isTaken = askInstead(parts, other, budget)
    if (exchange.model!.id !== before) switchedBy = budget
    if (isTaken && other.price === null) {
      setModelHeaders(parts, switchedBy)
      return null
    }
    if (isTaken) price = other.price!
    // The cost of the other model does not count in this budget, which could not pay.
    chain = chain.flatMap(each => (each !== budget ? each : isTaken ? [] : withoutOther(each)))
  }
}

interface HoldAttempt {
  readonly amount: NanoUsd
  readonly result: HoldResult
  /** The limits that had no room, each once. Their number limits the attempts. */
  readonly short: readonly string[]
}

/** Tries the hold with lower and lower caps as long as that can help. */
async function holdWithin(parts: ReservationParts, bill: Bill, chain: readonly ChainedBudget[]): Promise<HoldAttempt> {
  const { exchange, books, clamps, abandon } = parts
  const { chat, model } = bill
  const short: string[] = []
  let amount = 0n
  const tryHold = (): Promise<HoldResult> => {
    const bound = bill.bound()
    const needed = bill.hold(bound)
    amount = needed < LARGEST ? needed : LARGEST
    return books.ledger.hold({
      exchange: exchange.id,
      accountId: exchange.account.id,
      keyId: exchange.key.id,
      amount,
      model: bill.modelId,
      price: bill.price,
      bound,
      idempotencyKey: exchange.idempotencyKey,
      tags: exchange.tags,
      ...(chain.length === 0 ? null : { budgets: chain }),
    })
  }
  try {
    let result = await tryHold()
    while (isShort(result) && chat && model && clamps) {
      const what = nameOfShort(result, chain)
      // A cheaper model is better than a short answer.
      if (short.includes(what) || (result.of === 'budget' && otherModel(parts, chain[result.budget!]!))) break
      short.push(what)
      const before = chat.cap
      chat.cap = affordableCap(chat, model, bill.price, result.available)
      if (chat.cap === before) break
      result = await tryHold()
    }
    return { amount, result, short }
  } catch (cause) {
    // A mistake in the request: the ledger has written nothing, and would refuse it again.
    if (!isUnavailable(cause)) throw cause
    // A hold whose commit failed may have been written. Its request is not sent, so it is released.
    if (cause.written !== 'not_written') abandon()
    throw refuse('store_unavailable', { retryAfterMs: 1000, detail: 'failed to write the hold', cause })
  }
}

const isShort = (result: HoldResult): result is ShortHold => !result.held && result.reason === 'short'

const withoutOther = (budget: ChainedBudget): ChainedBudget => ({ ...budget, rule: { ...budget.rule, then: 'refuse' } })

function nameOfShort({ of, budget }: ShortHold, chain: readonly ChainedBudget[]): string {
  if (of === 'budget') return `the budget "${budgetName(chain[budget!]!.rule)}"`
  return of === 'key' ? "the key's spending cap" : 'the balance'
}

function noteCap(
  { exchange, setHeader }: ReservationParts,
  chat: Chat | null,
  asked: number,
  short: readonly string[],
) {
  if (chat === null || chat.cap >= asked) return
  setHeader(CAP_HEADER, String(chat.cap))
  const verb = short.length > 1 ? 'do' : 'does'
  exchange.note(`output capped at ${chat.cap} tokens: ${short.join(' and ')} ${verb} not pay for ${asked}`)
}

/** The model that a budget names in `then`; null: none, or the key may not use it. */
function otherModel({ exchange, books }: ReservationParts, { rule: { then = 'refuse' } }: ChainedBudget): Model | null {
  if (then === 'refuse' || exchange.targets !== undefined || exchange.chat?.forModel === undefined) return null
  const model = books.catalog.find(then)
  return model !== undefined && mayUse(model, exchange.key, books.plans.of(exchange.account)) ? model : null
}

/** Whether the other model accepts the request. It may be the requested one. */
function askInstead({ exchange }: ReservationParts, model: Model, budget: ChainedBudget): boolean {
  const asked = exchange.model!.id
  if (asked === model.id) return true
  try {
    exchange.askInstead(model)
  } catch (error) {
    if (!isRefusal(error)) throw error
    return false
  }
  const name = budgetName(budget.rule)
  exchange.note(`${model.id} answers in place of ${asked}: the budget "${name}" ${budget.whose} does not pay for it`)
  return true
}

/** Names the model that answers, and the budget. Only an answer has these headers, not a refusal by another limit. */
function setModelHeaders({ exchange, setHeader }: ReservationParts, switchedBy: ChainedBudget | null): void {
  if (switchedBy === null) return
  setHeader(MODEL_HEADER, exchange.model!.id)
  setHeader(BUDGET_HEADER, asciiOf(budgetName(switchedBy.rule)))
}

/** Headers carry ASCII only. */
const asciiOf = (name: string): string => name.replace(/[^ -~]+/g, encodeURIComponent)

/** The smallest hold with which this request would have been sent. */
function leastHold({ chat, model, price, hold, bound }: Bill, clamps: boolean): NanoUsd {
  if (!chat || !model || !clamps) return hold(bound())
  return holdFor(chat, model, price, Math.min(smallestCap(model), chat.cap))
}

/** Whether a lower output cap would help: otherwise the message must not advise it. */
function canAskForLess({ chat, model, price }: Bill, available: NanoUsd): boolean {
  return chat !== null && model !== null && holdFor(chat, model, price, 1) <= available
}

function refusalFor(
  parts: ReservationParts,
  result: Exclude<HoldResult, { held: true }>,
  bill: Bill,
  budget: ChainedBudget | null,
): Refusal {
  const { exchange, clamps } = parts
  if (result.reason !== 'short') {
    if (result.reason === 'frozen') return refuse('account_frozen')
    return refuse('invalid_api_key', { detail: `no account ${exchange.account.id}` })
  }
  const needed = leastHold(bill, clamps)
  const [available, reserved] = [roundedDown(result.available), roundedUp(needed)]
  if (result.available + result.onHold >= needed) {
    const [free, whose] = FREE_OF[result.of](budget)
    return refuse('credit_on_hold', {
      retryAfterMs: 1000,
      message: `This request needs ${reserved}. ${available} ${free}, and ${roundedDown(result.onHold)} is held for ${whose} open requests. Try again when they have ended.`,
    })
  }
  const canBeLess = canAskForLess(bill, result.available)
  if (budget !== null) return exhausted(parts, budget, { left: available, reserved, canBeLess })
  const less = canBeLess ? ', or ask for less with max_completion_tokens' : ''
  if (result.of === 'key') {
    return refuse('spending_cap_reached', {
      message: `This request needs ${reserved}, and the key's spending cap has ${available} left. Raise the cap (tollgate key update KEY --cap DOLLARS, or the dashboard's API keys)${less === '' ? ' or' : ','} use another key${less}.`,
    })
  }
  return refuse('insufficient_quota', {
    message: `This request needs ${reserved}, and the account has ${available} of credit. Add credit${less}.`,
  })
}

/** The free part, and the owner of the requests that hold the rest. */
const FREE_OF: Record<ShortHold['of'], (budget: ChainedBudget | null) => readonly [free: string, whose: string]> = {
  account: () => ['is free', "the account's"],
  key: () => ["of the key's spending cap is free", "the key's"],
  budget: budget => [`of the budget "${budgetName(budget!.rule)}" ${budget!.whose} is free`, 'its'],
}

/** Names the budget, its rest and its reset. Client libraries do not retry this error. */
function exhausted(
  { books, setHeader }: ReservationParts,
  budget: ChainedBudget,
  { left, reserved, canBeLess }: { readonly left: string; readonly reserved: string; readonly canBeLess: boolean },
): Refusal {
  const { rule, whose } = budget
  const name = budgetName(rule)
  const resets = books.budgets.resets(budget)
  setHeader(BUDGET_HEADER, asciiOf(name))
  const period = rule.every === 'life' ? '' : ` for this ${rule.every}`
  const when = resets === null ? 'It does not reset.' : `It resets at ${resets}.`
  const less = canBeLess ? ' Or ask for less with max_completion_tokens.' : ''
  return refuse('budget_exhausted', {
    message: `This request needs ${reserved}, and the budget "${name}" ${whose} has ${left} left${period}. ${when}${less}`,
  })
}
