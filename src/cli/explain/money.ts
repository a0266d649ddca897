/** How a hold and a charge came about: the sums of the step that made them, written out. Shown only when they come out even. */

import {
  type Chat,
  costOf,
  dearestInput,
  type Exchange,
  mostOf,
  type NanoUsd,
  type Price,
  type Receipt,
  type Searching,
  searchingOf,
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
}

/** What was charged when it was over. */
export interface ChargeStory extends Sum {
  readonly source: Receipt['source']
}

/** The hold that was made; null when none was. */
export function holdStory(holds: readonly SeenHold[], exchange: Exchange | null): HoldStory | null {
  const last = holds.at(-1)
  if (!last?.result.held) return null
  const { amount, price, capTokens } = last.request
  const searching = exchange?.chat ? searchingOf(exchange.chat.body) : null
  const ceiling = searching && inputCeiling(last, searching)
  return {
    amount,
    formula: exchange && searching ? chatFormula(last, ceiling, exchange, searching) : rawFormula(last, exchange),
    price,
    inputCeiling: ceiling,
    outputCap: capTokens,
    available: last.result.available,
  }
}

/** What of the hold is for the prompt, in tokens; null when it cannot be told. */
function inputCeiling({ request: { amount, price, capTokens } }: SeenHold, { most }: Searching): number | null {
  const dearest = dearestInput(price)
  if (dearest === 0n) return null
  const fixed = price.request + BigInt(most) * (price.search ?? 0n)
  const tokens = Number(((amount - fixed) * 1_000_000n - BigInt(capTokens) * price.output) / dearest)
  return mostOf(price, tokens, capTokens, most) === amount ? tokens : null
}

function chatFormula(
  { request: { price, capTokens } }: SeenHold,
  ceiling: number | null,
  exchange: Exchange,
  searching: Searching,
) {
  const dearest = dearestInput(price)
  if (ceiling === null && dearest > 0n) return null
  const input =
    ceiling === null ? [] : [`input ceiling ${ceiling} tokens${ceilingWhy(ceiling, exchange)} x ${each(dearest)}`]
  const output = `output cap ${capTokens} tokens${capWhy(capTokens, exchange.chat!, searching)} x ${each(price.output)}`
  return [...input, output, ...perRequest(price), ...perSearch(price, searching.most)].join(' + ')
}

/** Where a ceiling comes from, when one of the known ways leads to it. */
function ceilingWhy(ceiling: number, { chat, model }: Exchange): string {
  if (!chat || !model) return ''
  const { passes } = searchingOf(chat.body)
  if (passes > 1) return ceiling === passes * model.context ? ` (${passes} passes of a search x the whole context)` : ''
  if (ceiling === model.context) return ' (the whole context: not to be told from its bytes)'
  const messages = chat.body.messages.length
  const own = chat.bytes.length + 16 * messages
  const counted = `${chat.bytes.length} bytes + 16 for each of ${count(messages, 'message')}`
  if (ceiling === own) return ` (${counted})`
  return ceiling === own + model.inputOverhead ? ` (${counted} + ${model.inputOverhead} for tools)` : ''
}

function capWhy(capTokens: number, { choices, cap }: Chat, { passes }: Searching): string {
  const outside = capTokens / (choices * passes) - cap
  if (choices === 1 && passes === 1 && outside === 0) return ''
  const thinking = outside > 0 ? ` + ${outside} of thinking outside of it` : ''
  const times = passes === 1 ? `${choices} choices` : `${choices * passes} passes of a search`
  return ` (${times} x ${cap}${thinking})`
}

function rawFormula({ request: { amount, price } }: SeenHold, exchange: Exchange | null): string | null {
  if (!exchange) return null
  if (exchange.route.hold === amount) return 'what the route says under hold'
  const bytes = exchange.bytes.length
  if (mostOf(price, bytes, 0) !== amount) return null
  const dearest = dearestInput(price)
  const input = dearest === 0n ? [] : [`${bytes} bytes as tokens x ${each(dearest)}`]
  return [...input, ...perRequest(price)].join(' + ') || null
}

const each = (price: NanoUsd) => `${showNano(price)}/M`
const perRequest = ({ request }: Price) => (request === 0n ? [] : [`${showNano(request)} for the request`])
const perSearch = ({ search = 0n }: Price, searches: number) =>
  searches === 0 || search === 0n ? [] : [`${searches} ${searches === 1 ? 'search' : 'searches'} x ${showNano(search)}`]

/** What the receipt says; null when there was nothing to charge. */
export function chargeStory(receipt: Receipt | undefined): ChargeStory | null {
  if (!receipt || receipt.charged === null) return null
  return { amount: receipt.charged, formula: chargeFormula(receipt, receipt.charged), source: receipt.source }
}

function chargeFormula(receipt: Receipt, charged: NanoUsd): string | null {
  const { price, promptTokens, cachedTokens, cacheWriteTokens, completionTokens, searches = 0 } = receipt
  const tokens = {
    prompt: promptTokens,
    cached: cachedTokens,
    cacheWrite: cacheWriteTokens,
    completion: completionTokens,
    searches,
  }
  if (charged === 0n || costOf(price, tokens) !== charged) return null
  const parts: readonly (readonly [number, string, NanoUsd])[] = [
    [promptTokens - cachedTokens - cacheWriteTokens, 'of the prompt', price.input],
    [cachedTokens, 'from a cache', price.cachedInput],
    [cacheWriteTokens, 'written to a cache', price.cacheWrite],
    [completionTokens, 'of the answer', price.output],
  ]
  const sums = parts
    .filter(([tokens]) => tokens > 0)
    .map(([tokens, what, at]) => `${count(tokens, 'token')} ${what} x ${each(at)}`)
  return [...sums, ...perRequest(price), ...perSearch(price, searches)].join(' + ') || null
}
