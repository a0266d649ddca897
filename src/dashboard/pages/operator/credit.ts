/** Grants of credit: typed amounts, suggested references, and the command for machines. */
import type { AccountView } from '../../../api/views.ts'
import { amountOf, dollars, nano } from '../../lib/format.ts'

/** A typed amount in the API's format, or the problem with it. */
interface ReadAmount {
  readonly amount?: string
  readonly problem?: string
}

/** Reads an amount above zero. */
export function readAmount(typed: string): ReadAmount {
  const text = typed.trim()
  if (text === '') return { problem: 'Enter an amount of dollars.' }
  if (text.startsWith('-')) return { problem: 'Enter an amount above zero.' }
  const amount = amountOf(text)
  if (amount === null) return { problem: 'Enter an amount of dollars, for example 25 or 12.50, at most 999,999,999.' }
  return nano(amount) > 0n ? { amount } : { problem: 'Enter an amount above zero.' }
}

/** Reads an amount; with a minus sign the credit is taken. */
export function readChange(typed: string): ReadAmount {
  const text = typed.trim()
  const size = text.replace(MINUS, '$1')
  const read = readAmount(size)
  return size === text || read.amount === undefined ? read : { amount: `-${read.amount}` }
}

const MINUS = /^(\$?)\s*[-\u2212]\s*/

/** Whether credit is taken. */
export function isTaken(typed: string): boolean {
  return readChange(typed).amount?.startsWith('-') === true
}

/** The available balance after the change; null if the amount is invalid. */
export function availableAfter({ available }: Pick<AccountView, 'available'>, typed: string): string | null {
  const { amount } = readChange(typed)
  return amount === undefined ? null : dollars(nano(available) + nano(amount))
}

/** The problem of an optional credit; undefined: none. */
export function creditProblem(typed: string): string | undefined {
  return typed.trim() === '' ? undefined : readAmount(typed).problem
}

/** The credit in the API's format; empty for none. */
export function creditOf(typed: string): string {
  return readAmount(typed).amount ?? ''
}

/**
 * A new reference: the day and a few random letters. A dialog keeps it, so that a second click, or a retry after a lost
 * answer, does not grant twice.
 */
export function suggestReference(now: Date, random: Uint8Array): string {
  const letters = Array.from(random, byte => LETTERS[byte % LETTERS.length]).join('')
  return `manual-${now.toISOString().slice(0, 10)}-${letters}`
}

/** Letters and digits that are not confused with each other. */
const LETTERS = 'abcdefghjkmnpqrstuvwxyz23456789'

/** The request by which a payment's webhook grants credit. The token comes from the environment, so scripts do not contain it. */
export function creditCommand(adminUrl: string | null, accountId = 'ACCOUNT_ID'): string {
  const body = JSON.stringify({ amount: '25.00', reference: 'PAYMENT_ID', note: 'Card payment' })
  return [
    `curl -sS ${adminUrl ?? 'http://ADMIN_ADDRESS'}/api/operator/accounts/${accountId}/credit \\`,
    '  -H "authorization: Bearer $TOLLGATE_OPERATOR_TOKEN" \\',
    "  -H 'content-type: application/json' \\",
    `  -d '${body}'`,
  ].join('\n')
}
