/**
 * Checks the arguments of the store before anything waits for a transaction, so that a mistake fails its own caller only. A message has
 * the place, the value and the rule.
 */
import type { Checkpoint, NanoUsd } from '#contract'
import { invalid } from '../mistakes.ts'
import type { CreditGrant } from '../store.ts'
import { type Field, HOLD_FIELDS, LARGEST, SETTLE_FIELDS } from './ledger-fields.ts'

// Printable ASCII, so that ids sort in SQLite (bytes) as they do here (UTF-16).
const EXCHANGE = /^[\x21-\x7e]{1,100}$/
// No control or unassigned characters, no lone surrogates.
const TEXT = /^[^\p{C}]{1,200}$/u

export const checkHold = createCheck('hold', HOLD_FIELDS)
export const checkSettle = createCheck('settle', SETTLE_FIELDS)

function createCheck<Request extends { readonly exchange: string }>(place: string, fields: readonly Field<Request>[]) {
  const numbers = fields.filter(({ kind }) => kind === 'money' || kind === 'count')
  return (request: Request): void => {
    exchange(request.exchange)
    for (const { name, kind, optional, read } of numbers) {
      const value = read(request)
      if (value === null && optional) continue
      if (kind === 'money') checkMoney(place, name, value as NanoUsd)
      else whole(place, name, value as number)
    }
  }
}

export function checkCheckpoint(checkpoint: Checkpoint): void {
  exchange(checkpoint.exchange)
  checkMoney('checkpoint', 'amount', checkpoint.amount)
  whole('checkpoint', 'usage.input', checkpoint.usage.input ?? 0)
  whole('checkpoint', 'usage.output', checkpoint.usage.output ?? 0)
}

export function checkCredit(grant: CreditGrant): void {
  if (grant.amount < -LARGEST || grant.amount > LARGEST) {
    throw invalid(`credit: the amount ${grant.amount} is not between -${LARGEST} and ${LARGEST} nano-dollars.`)
  }
  if (grant.amount === 0n) throw invalid('credit: the amount is 0; grant or take at least one nano-dollar.')
  if (grant.amount < 0n && !grant.note)
    throw invalid('credit: the note is missing; a removal of credit needs its reason.')
  checkText('credit', 'reference', grant.reference)
  checkText('credit', 'actor', grant.actor)
  if (grant.note !== undefined && grant.note !== '') checkText('credit', 'note', grant.note)
}

/** Checks a name that a person chose: 1 to 200 visible characters. */
export function checkText(place: string, field: string, value: string): void {
  if (typeof value === 'string' && TEXT.test(value) && value.trim() === value) return
  throw invalid(
    `${place}: the ${field} ${JSON.stringify(value)} is not 1 to 200 visible characters without space around them.`,
  )
}

function exchange(id: string): void {
  if (!EXCHANGE.test(id))
    throw invalid(`${JSON.stringify(id)} is not an exchange id; expected 1 to 100 printable ASCII characters.`)
}

/** Checks an amount: it must fit a 64-bit column. */
export function checkMoney(place: string, field: string, value: NanoUsd): void {
  if (typeof value === 'bigint' && value >= 0n && value <= LARGEST) return
  throw invalid(`${place}: the ${field} ${value} is not between 0 and ${LARGEST} nano-dollars.`)
}

function whole(place: string, field: string, value: number): void {
  if (Number.isSafeInteger(value) && value >= 0) return
  throw invalid(`${place}: ${field} is ${value}; expected a whole number of at least 0.`)
}
