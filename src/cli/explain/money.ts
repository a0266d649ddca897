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
} from '#contract'
import { showNano } from '../exposure-text.ts'
import { count } from '../format.ts'
import type { SeenHold } from './witness.ts'

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
  const ceiling = exchange?.chat ? inputCeiling(last) : null
  return {
    amount,
    formula: exchange?.chat ? chatFormula(last, ceiling, exchange) : rawFormula(last, exchange),
    price,
    inputCeiling: ceiling,
    outputCap: capTokens,
    available: last.result.available,
  }
}

/** What of the hold is for the prompt, in tokens; null when it cannot be told. */
function inputCeiling({ request: { amount, price, capTokens } }: SeenHold): number | null {
  const dearest = dearestInput(price)
  if (dearest === 0n) return null
  const forInput = (amount - price.request) * 1_000_000n - BigInt(capTokens) * price.output
  const tokens = Number(forInput / dearest)
  return mostOf(price, tokens, capTokens) === amount ? tokens : null
}

function chatFormula({ request: { price, capTokens } }: SeenHold, ceiling: number | null, exchange: Exchange) {
  const dearest = dearestInput(price)
  if (ceiling === null && dearest > 0n) return null
  const input =
    ceiling === null ? [] : [`input ceiling ${ceiling} tokens${ceilingWhy(ceiling, exchange)} x ${each(dearest)}`]
  const output = `output cap ${capTokens} tokens${capWhy(capTokens, exchange.chat!)} x ${each(price.output)}`
  return [...input, output, ...perRequest(price)].join(' + ')
}

/** Where a ceiling comes from, when one of the known ways leads to it. */
function ceilingWhy(ceiling: number, { chat, model }: Exchange): string {
  if (!chat || !model) return ''
  if (ceiling === model.context) return ' (the whole context: not to be told from its bytes)'
  const messages = chat.body.messages.length
  const own = chat.bytes.length + 16 * messages
  const counted = `${chat.bytes.length} bytes + 16 for each of ${count(messages, 'message')}`
  if (ceiling === own) return ` (${counted})`
  return ceiling === own + model.inputOverhead ? ` (${counted} + ${model.inputOverhead} for tools)` : ''
}

function capWhy(capTokens: number, { choices, cap }: Chat): string {
  const outside = capTokens / choices - cap
  if (choices === 1 && outside === 0) return ''
  const thinking = outside > 0 ? ` + ${outside} of thinking outside of it` : ''
  return ` (${choices} choices x ${cap}${thinking})`
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

/** What the receipt says; null when there was nothing to charge. */
export function chargeStory(receipt: Receipt | undefined): ChargeStory | null {
  if (!receipt || receipt.charged === null) return null
  return { amount: receipt.charged, formula: chargeFormula(receipt, receipt.charged), source: receipt.source }
}

function chargeFormula(receipt: Receipt, charged: NanoUsd): string | null {
  const { price, promptTokens, cachedTokens, cacheWriteTokens, completionTokens } = receipt
  const tokens = {
    prompt: promptTokens,
    cached: cachedTokens,
    cacheWrite: cacheWriteTokens,
    completion: completionTokens,
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
  return [...sums, ...perRequest(price)].join(' + ') || null
}
