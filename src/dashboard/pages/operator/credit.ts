/** Granting credit: what may be typed as an amount, a reference to begin with, and the same by a machine. */

/** Dollars as people type them; the gateway takes at most 9 decimals. */
const AMOUNT = /^\$?\s*(\d{1,9})(?:\.(\d{1,9}))?$/

/** The amount as the API takes it, or what is wrong with it. Thousands separators are refused: they differ by country. */
export function readAmount(typed: string): { readonly amount: string } | { readonly problem: string } {
  const text = typed.trim()
  if (text === '') return { problem: 'Say how many dollars.' }
  if (text.startsWith('-')) return { problem: 'Credit can only be added. Charges take it away.' }
  if (/^\$?\s*[\d,.]*,[\d,.]*$/.test(text))
    return { problem: 'Write it without commas, with a point before the cents: 1250.50' }
  const match = AMOUNT.exec(text)
  if (!match) return { problem: 'That is not an amount of dollars such as 25 or 12.50 (at most 9 decimals).' }
  const amount = `${match[1]!.replace(/^0+(?=\d)/, '')}.${(match[2] ?? '').padEnd(9, '0')}`
  return /[1-9]/.test(amount) ? { amount } : { problem: 'Say more than zero.' }
}

/**
 * A reference nobody has used yet: the day, and a few letters by chance. It is made once for a dialog, so that a second
 * click or a second try after a lost answer grants nothing twice.
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
