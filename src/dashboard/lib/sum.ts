/**
 * A receipt's charge as a little sum that adds up: tokens by their price, the fraction that is rounded up, and what the
 * gateway took off or left out.
 */
import type { PriceView, ReceiptView } from '../../api/views.ts'
import { dollars, nano } from './format.ts'

/** One line: so many tokens at so much a million. */
export interface SumLine {
  readonly label: string
  readonly tokens: number
  /** Dollars for a million tokens. */
  readonly price: string
  /** Exactly, with up to 15 decimals: a token may cost a fraction of a nano-dollar. */
  readonly amount: string
}

/** How a charge came about. */
export interface Sum {
  readonly lines: readonly SumLine[]
  /** The price of a request on top; null: there is none. */
  readonly request: string | null
  /** Searches of the web; null: there were none, or they had no price. */
  readonly searches: { readonly count: number; readonly price: string; readonly amount: string } | null
  /** Added to come to a whole nano-dollar; null: nothing. */
  readonly rounding: string | null
  /** What all of it comes to. */
  readonly total: string
  /** What the operator pays, because more was never held, or nothing was to be charged; null: the total is the charge. */
  readonly relief: string | null
  /** What was charged beyond the total; null, as it should be: nothing. */
  readonly excess: string | null
}

type Spent = Pick<
  ReceiptView,
  'price' | 'charged' | 'prompt_tokens' | 'cached_tokens' | 'cache_write_tokens' | 'completion_tokens' | 'searches'
>

/** Null while the request is in progress. */
export function sumOf(receipt: Spent): Sum | null {
  if (receipt.charged === null) return null
  const lines = linesOf(receipt)
  const millionths = lines.reduce((sum, line) => sum + line.millionths, 0n)
  const used = lines.length > 0
  const whole = (millionths + MILLION - 1n) / MILLION
  const rounding = whole * MILLION - millionths
  // Where no token was charged, the request was not either, unless the charge says so.
  const request = used || nano(receipt.charged) > 0n ? nano(receipt.price.request) : 0n
  const searched = BigInt(receipt.searches) * nano(receipt.price.web_search)
  const total = whole + request + searched
  const relief = total - nano(receipt.charged)
  return {
    lines: lines.map(({ millionths: amount, ...line }) => ({ ...line, amount: exact(amount) })),
    request: request === 0n ? null : dollars(request),
    searches:
      searched === 0n ? null : { count: receipt.searches, price: receipt.price.web_search, amount: dollars(searched) },
    rounding: rounding === 0n ? null : exact(rounding),
    total: dollars(total),
    relief: relief > 0n ? dollars(relief) : null,
    excess: relief < 0n ? dollars(-relief) : null,
  }
}

/**
 * Amounts as they stand under each other: each with the decimals that it has, and two at least; what the longest has more
 * is filled up with blanks as wide as figures, so that the points stand in one line.
 */
export function aligned(amounts: readonly string[]): string[] {
  const parts = amounts.map(amount => {
    const [whole = '0', decimals = ''] = amount.split('.')
    return { whole, decimals: decimals.replace(/0+$/, '').padEnd(2, '0') }
  })
  const most = Math.max(0, ...parts.map(({ decimals }) => decimals.length))
  return parts.map(
    ({ whole, decimals }) => `$${BigInt(whole).toLocaleString('en')}.${decimals.padEnd(most, FIGURE_SPACE)}`,
  )
}

const FIGURE_SPACE = '\u2007'
const MILLION = 1_000_000n

function linesOf(receipt: Spent): (Omit<SumLine, 'amount'> & { readonly millionths: bigint })[] {
  const { price, prompt_tokens, cached_tokens, cache_write_tokens, completion_tokens } = receipt
  const plain = Math.max(0, prompt_tokens - cached_tokens - cache_write_tokens)
  const parts: readonly [label: string, tokens: number, price: keyof PriceView][] = [
    ['Prompt', plain, 'input'],
    ['Prompt, from the cache', cached_tokens, 'cached_input'],
    ['Prompt, written to the cache', cache_write_tokens, 'cache_write'],
    ['Answer', completion_tokens, 'output'],
  ]
  return parts
    .filter(([, tokens]) => tokens > 0)
    .map(([label, tokens, name]) => ({
      label,
      tokens,
      price: price[name],
      millionths: BigInt(tokens) * nano(price[name]),
    }))
}

/** Millionths of nano-dollars as dollars, without zeros at the end but for cents. */
function exact(millionths: bigint): string {
  const digits = String(millionths).padStart(16, '0')
  const decimals = digits.slice(-15).replace(/0+$/, '').padEnd(2, '0')
  return `${digits.slice(0, -15)}.${decimals}`
}
