/**
 * What the store demands of its callers before anything waits for a transaction: so that one caller's mistake is told
 * to that caller alone, with the place, the value and the rule.
 */
import type { Checkpoint, HoldRequest, NanoUsd, SettleRequest } from '#contract'
import { invalid } from '../mistakes.ts'
import type { CreditGrant } from '../store.ts'
import { LARGEST } from './settle-record.ts'

// Printable ASCII, so that ids sort in SQLite (bytes) as they do here (UTF-16).
const EXCHANGE = /^[\x21-\x7e]{1,100}$/
// No control or unassigned characters, no lone surrogates.
const TEXT = /^[^\p{C}]{1,200}$/u

export function checkHold(request: HoldRequest): void {
  exchange(request.exchange)
  money('hold', 'amount', request.amount)
  const { price } = request
  money('hold', 'price.input', price.input)
  money('hold', 'price.cachedInput', price.cachedInput)
  money('hold', 'price.cacheWrite', price.cacheWrite)
  money('hold', 'price.output', price.output)
  money('hold', 'price.request', price.request)
  if (price.search !== undefined) money('hold', 'price.search', price.search)
  whole('hold', 'capTokens', request.capTokens)
}

export function checkSettle(request: SettleRequest): void {
  exchange(request.exchange)
  money('settle', 'amount', request.amount)
  money('settle', 'overrun', request.overrun)
  whole('settle', 'promptTokens', request.promptTokens)
  whole('settle', 'cachedTokens', request.cachedTokens)
  whole('settle', 'cacheWriteTokens', request.cacheWriteTokens)
  whole('settle', 'completionTokens', request.completionTokens)
  whole('settle', 'reasoningTokens', request.reasoningTokens)
  whole('settle', 'searches', request.searches ?? 0)
}

export function checkCheckpoint(checkpoint: Checkpoint): void {
  exchange(checkpoint.exchange)
  money('checkpoint', 'amount', checkpoint.amount)
  whole('checkpoint', 'promptTokens', checkpoint.promptTokens)
  whole('checkpoint', 'completionTokens', checkpoint.completionTokens)
}

export function checkCredit(grant: CreditGrant): void {
  money('credit', 'amount', grant.amount)
  if (grant.amount === 0n) throw invalid('credit: the amount is 0; grant at least one nano-dollar.')
  text('credit', 'reference', grant.reference)
  text('credit', 'actor', grant.actor)
  if (grant.note !== undefined && grant.note !== '') text('credit', 'note', grant.note)
}

/** A name that people gave: 1 to 200 visible characters. */
export function text(place: string, field: string, value: string): void {
  if (typeof value === 'string' && TEXT.test(value) && value.trim() === value) return
  throw invalid(
    `${place}: the ${field} ${JSON.stringify(value)} is not 1 to 200 visible characters without space around them.`,
  )
}

function exchange(id: string): void {
  if (!EXCHANGE.test(id)) throw invalid(`${JSON.stringify(id)} is no exchange id.`)
}

/** An amount that a column holds. */
export function money(place: string, field: string, value: NanoUsd): void {
  if (typeof value === 'bigint' && value >= 0n && value <= LARGEST) return
  throw invalid(`${place}: the ${field} ${value} is not 0 to ${LARGEST} nano-dollars.`)
}

function whole(place: string, field: string, value: number): void {
  if (Number.isSafeInteger(value) && value >= 0) return
  throw invalid(`${place}: ${field} is ${value}, not a whole number from 0 on.`)
}
