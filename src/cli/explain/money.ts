/** The formulas of a hold and a charge. A formula is shown only if its result equals the amount. */

import {
  type Budget,
  budgetName,
  type ChainedBudget,
  type Chat,
  type CostLine,
  ceiling,
  type Exchange,
  type NanoUsd,
  type Price,
  type Receipt,
  searchBounds,
  UNITS,
  type Unit,
} from '#contract'
import { count, showNano } from '../format.ts'
import type { HoldRecord } from './recorder.ts'

/** An amount with its formula. The formula is null if it is unknown. */
export interface Sum {
  readonly amount: NanoUsd
  readonly formula: string | null
}

/** The hold before the request was sent. */
export interface HoldStory extends Sum {
  readonly price: Price
  /** The maximum number of prompt tokens; null on routes without a model. */
  readonly inputCeiling: number | null
  /** The output cap of all choices together, in tokens. */
  readonly outputCap: number
  readonly available: NanoUsd
  /** The budgets in which it counts. */
  readonly budgets: readonly BudgetStory[]
}

/** A budget in which a hold counts. */
export interface BudgetStory {
  readonly name: string
  /** For people: `of the key app`. */
  readonly whose: string
  readonly every: Budget['every']
  readonly zone: string
  readonly amount: NanoUsd
  readonly then: string
}

/** The charge at the end. */
export interface ChargeStory extends Sum {
  readonly source: Receipt['source']
}

/** The hold of an exchange; null without one. */
export function holdStory(holds: readonly HoldRecord[], exchange: Exchange | null): HoldStory | null {
  const last = holds.at(-1)
  if (!last?.result.held) return null
  const { amount, price, bound } = last.request
  return {
    amount,
    formula: exchange && holdFormula(last, exchange),
    price,
    inputCeiling: bound.input ?? null,
    outputCap: bound.output ?? 0,
    available: last.result.available,
    budgets: ((last.request.budgets ?? []) as readonly ChainedBudget[]).map(({ rule, whose, amount }) => {
      const { every, zone = 'UTC', then = 'refuse' } = rule
      return { name: budgetName(rule), whose, every, zone, amount, then }
    }),
  }
}

function holdFormula({ request: { amount, price, bound } }: HoldRecord, exchange: Exchange): string | null {
  const { lines, total } = ceiling(bound, price)
  if (exchange.route.hold === amount && !exchange.chat) return 'the hold of the route'
  if (total !== amount) return null
  const priced = lines.filter(({ rate }) => rate > 0n)
  return priced.map(line => lineText(line, boundText(line, exchange))).join(' + ') || null
}

function boundText({ unit, quantity }: CostLine, exchange: Exchange): string {
  if (unit === 'input') return `input ceiling ${quantity} tokens${ceilingReason(quantity, exchange)}`
  if (unit === 'output' && exchange.chat) return `output cap ${quantity} tokens${capReason(quantity, exchange.chat)}`
  return unitsText(quantity, unit)
}

/** Explains a ceiling if a known formula gives it. */
function ceilingReason(ceiling: number, { chat, model, bytes }: Exchange): string {
  if (!chat || !model) return ceiling === bytes.length ? ` (${ceiling} bytes)` : ''
  const { passes } = searchBounds(chat.body)
  if (passes > 1) return ceiling === passes * model.context ? ` (${passes} passes of a search x the whole context)` : ''
  if (ceiling === model.context) return ' (the whole context: its bytes do not show the number of tokens)'
  const messages = chat.body.messages.length
  const own = chat.bytes.length + 16 * messages
  const counted = `${chat.bytes.length} bytes + 16 for each of ${count(messages, 'message')}`
  if (ceiling === own) return ` (${counted})`
  return ceiling === own + model.inputOverhead ? ` (${counted} + ${model.inputOverhead} for tools)` : ''
}

function capReason(capTokens: number, { choices, cap, body }: Chat): string {
  const { passes } = searchBounds(body)
  const outside = capTokens / (choices * passes) - cap
  if (choices === 1 && passes === 1 && outside === 0) return ''
  const reasoning = outside > 0 ? ` + ${outside} of reasoning outside the cap` : ''
  const times = passes === 1 ? `${choices} choices` : `${choices * passes} passes of a search`
  return ` (${times} x ${cap}${reasoning})`
}

/** The charge of the receipt; null if nothing was charged. */
export function chargeStory(receipt: Receipt | undefined): ChargeStory | null {
  if (!receipt || receipt.charged === null) return null
  return { amount: receipt.charged, formula: chargeFormula(receipt, receipt.charged), source: receipt.source }
}

function chargeFormula({ cost: { lines, total } }: Receipt, charged: NanoUsd): string | null {
  if (charged === 0n || total !== charged) return null
  return lines.map(line => lineText(line, unitsText(line.quantity, line.unit))).join(' + ')
}

const unitsText = (quantity: number, unit: Unit) => `${quantity} ${quantity === 1 ? UNITS[unit].one : UNITS[unit].many}`

function lineText(line: CostLine, quantity: string): string {
  return line.unit === 'request' ? `${showNano(line.rate)} for the request` : `${quantity} x ${rateText(line)}`
}

const rateText = ({ rate, per }: CostLine) =>
  per === 1 ? showNano(rate) : `${showNano(rate)}/${per === 1_000_000 ? 'M' : per}`
