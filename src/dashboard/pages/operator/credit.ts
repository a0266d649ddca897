/** Granting and taking credit: what may be typed as an amount, a reference to begin with, and the same by a machine. */
import type { AccountView } from '../../../api/views.ts'
import { amountOf, dollars, nano } from '../../lib/format.ts'

/** The amount as the API takes it, or what is wrong with it. */
interface ReadAmount {
  readonly amount?: string
  readonly problem?: string
}

/** More than nothing. */
export function readAmount(typed: string): ReadAmount {
  const text = typed.trim()
  if (text === '') return { problem: 'Say how many dollars.' }
  if (text.startsWith('-')) return { problem: 'Enter an amount above zero.' }
  const amount = amountOf(text)
  if (amount === null) return { problem: 'Enter an amount of dollars, for example 25 or 12.50, at most 999,999,999.' }
  return nano(amount) > 0n ? { amount } : { problem: 'Say more than zero.' }
}

/** The same, or with a minus what is taken. */
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

/** The available balance after the change; null when the amount cannot be read. */
export function availableAfter({ available }: Pick<AccountView, 'available'>, typed: string): string | null {
  const { amount } = readChange(typed)
  return amount === undefined ? null : dollars(nano(available) + nano(amount))
}

/** What is wrong with a credit that may be left out. */
export function creditProblem(typed: string): string | undefined {
  return typed.trim() === '' ? undefined : readAmount(typed).problem
}

/** The credit as the API takes it; empty for none. */
export function creditOf(typed: string): string {
  return readAmount(typed).amount ?? ''
}

/**
 * A reference that nobody has used yet: the day, and a few letters by chance. It is made once for a dialog, so that a
 * second click, or another try after a lost answer, grants nothing twice.
 */
export function suggestReference(now: Date, random: Uint8Array): string {
  const letters = Array.from(random, byte => LETTERS[byte % LETTERS.length]).join('')
  return `manual-${now.toISOString().slice(0, 10)}-${letters}`
}

/** Without those that are taken for one another. */
const LETTERS = 'abcdefghjkmnpqrstuvwxyz23456789'

/** How a payment's webhook grants credit. The token comes from the environment, so that it stays out of scripts. */
export function creditCommand(adminUrl: string | null, accountId = 'ACCOUNT_ID'): string {
  const body = JSON.stringify({ amount: '25.00', reference: 'PAYMENT_ID', note: 'Card payment' })
  return [
    `curl -sS ${adminUrl ?? 'http://ADMIN_ADDRESS'}/api/operator/accounts/${accountId}/credit \\`,
    '  -H "authorization: Bearer $TOLLGATE_OPERATOR_TOKEN" \\',
    "  -H 'content-type: application/json' \\",
    `  -d '${body}'`,
  ].join('\n')
}
