/** A receipt's charge as a sum: the lines of its cost, the rounding, and the operator's part. */
import type { ReceiptView } from '../../api/views.ts'
import { count, dollars, exactMoney, nano } from './format.ts'
import type { Rule } from './price-lines.ts'

/** A number of units at a price. */
export interface SumLine {
  readonly label: string
  readonly quantity: string
  readonly price: string
  /** Dollars with up to 15 decimals: a token may cost a fraction of a nano-dollar. */
  readonly amount: string
  /** The price list and its day; null: the operator set the price. */
  readonly list: string | null
}

/** An amount that is added to the lines or subtracted. */
export interface SumRest {
  readonly label: string
  readonly sign: string
  readonly amount: string
}

export interface Sum {
  readonly lines: readonly SumLine[]
  readonly rest: readonly SumRest[]
}

type Line = ReceiptView['lines'][number]

const LABELS: Readonly<Record<Line['unit'], string>> = {
  input: 'Prompt',
  cached_input: 'Prompt, from the cache',
  cache_write: 'Prompt, written to the cache',
  cache_write_1h: 'Prompt, written to the cache for an hour',
  input_audio: 'Prompt, sound',
  cached_audio: 'Prompt, sound from the cache',
  input_image: 'Prompt, pictures',
  output: 'Answer',
  reasoning: 'Answer, reasoning',
  output_audio: 'Answer, sound',
  output_image: 'Answer, pictures',
  image: 'Images',
  second: 'Sound',
  character: 'Characters',
  page: 'Pages',
  search: 'Web searches',
  request: 'For the request',
}

type Charged = Pick<ReceiptView, 'lines' | 'rounding' | 'cost' | 'charged' | 'overrun'> & {
  readonly price: Pick<ReceiptView['price'], 'rules'>
}

/** The sum of a charge; null while the request is in progress. */
export function sumOf({ lines, rounding, cost, charged, overrun, price }: Charged): Sum | null {
  if (charged === null) return null
  const uncharged = nano(cost) - nano(charged)
  const isCapped = overrun !== null && nano(overrun) > 0n
  const rest = [
    { label: 'Rounded up to a billionth of a dollar', sign: '', amount: rounding },
    {
      label: isCapped ? 'Paid by the operator' : 'Not charged',
      sign: '\u2212',
      amount: dollars(uncharged > 0n ? uncharged : 0n),
    },
    { label: 'Not in these figures', sign: '', amount: dollars(uncharged < 0n ? -uncharged : 0n) },
  ]
  return {
    lines: lines.map(line => sumLine(line, price.rules ?? [])),
    rest: rest.filter(({ amount }) => /[1-9]/.test(amount)),
  }
}

function sumLine({ unit, quantity, rate, per, amount }: Line, rules: readonly Rule[]): SumLine {
  const isTime = unit === 'second'
  return {
    label: LABELS[unit],
    quantity: isTime ? `${count(quantity)} s` : count(quantity),
    price: exactMoney(rate) + (per === 1_000_000 ? ' per 1M' : isTime && per === 60 ? ' a minute' : ''),
    amount,
    list: rules.find(rule => rule.unit === unit && rule.price === rate && rule.per === per)?.source ?? null,
  }
}

/**
 * Amounts with aligned decimal points. Each keeps its own decimals, at least two; figure spaces fill up to the longest.
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
