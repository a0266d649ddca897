/** How a hold and a charge came about: the sums of the step that made them, written out. Shown only when they come out even. */

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
  searchingOf,
  UNITS,
  type Unit,
} from '#contract'
import { count, showNano } from '../format.ts'
import type { SeenHold } from './recorder.ts'

/** An amount, and what it is made of; the formula is null where it is not known. */
export interface Sum {
  readonly amount: NanoUsd
  readonly formula: string | null
}

/** What was set aside before anything was sent. */
export interface HoldStory extends Sum {
  readonly price: Price
  /** The most tokens that the prompt can have; null on routes without a request to a model. */
  readonly inputCeiling: number | null
  /** Tokens of all choices together. */
  readonly outputCap: number
  readonly available: NanoUsd
  /** Those in which it counts. */
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

/** What was charged when it was over. */
export interface ChargeStory extends Sum {
  readonly source: Receipt['source']
}

/** The hold that was made; null when none was. */
export function holdStory(holds: readonly SeenHold[], exchange: Exchange | null): HoldStory | null {
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

function holdFormula({ request: { amount, price, bound } }: SeenHold, exchange: Exchange): string | null {
  const { lines, total } = ceiling(bound, price)
  if (exchange.route.hold === amount && !exchange.chat) return 'what the route says under hold'
  if (total !== amount) return null
  const priced = lines.filter(({ rate }) => rate > 0n)
  return priced.map(line => lineText(line, boundText(line, exchange))).join(' + ') || null
}

function boundText({ unit, quantity }: CostLine, exchange: Exchange): string {
  if (unit === 'input') return `input ceiling ${quantity} tokens${ceilingWhy(quantity, exchange)}`
  if (unit === 'output' && exchange.chat) return `output cap ${quantity} tokens${capWhy(quantity, exchange.chat)}`
  return unitsText(quantity, unit)
}

/** Where a ceiling comes from, when one of the known ways leads to it. */
function ceilingWhy(ceiling: number, { chat, model, bytes }: Exchange): string {
  if (!chat || !model) return ceiling === bytes.length ? ` (${ceiling} bytes)` : ''
  const { passes } = searchingOf(chat.body)
  if (passes > 1) return ceiling === passes * model.context ? ` (${passes} passes of a search x the whole context)` : ''
  if (ceiling === model.context) return ' (the whole context: not to be told from its bytes)'
  const messages = chat.body.messages.length
  const own = chat.bytes.length + 16 * messages
  const counted = `${chat.bytes.length} bytes + 16 for each of ${count(messages, 'message')}`
  if (ceiling === own) return ` (${counted})`
  return ceiling === own + model.inputOverhead ? ` (${counted} + ${model.inputOverhead} for tools)` : ''
}

function capWhy(capTokens: number, { choices, cap, body }: Chat): string {
  const { passes } = searchingOf(body)
  const outside = capTokens / (choices * passes) - cap
  if (choices === 1 && passes === 1 && outside === 0) return ''
  const thinking = outside > 0 ? ` + ${outside} of thinking outside of it` : ''
  const times = passes === 1 ? `${choices} choices` : `${choices * passes} passes of a search`
  return ` (${times} x ${cap}${thinking})`
}

/** What the receipt says; null when there was nothing to charge. */
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
