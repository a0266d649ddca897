/** Usage, prices and costs as JSON, for receipts, lists, logs and exports. Money is dollars, as exact text. */
import { formatMoney } from './quantities.ts'
import {
  type Cost,
  type Counts,
  type Price,
  rateOf,
  type Tier,
  UNIT_NAMES,
  UNITS,
  type Unit,
  type Usage,
} from './units.ts'

/** Counts by unit; six of them are always present, even if 0. */
export interface UsageFields {
  readonly prompt_tokens: number
  readonly cached_tokens: number
  readonly cache_write_tokens: number
  readonly completion_tokens: number
  readonly reasoning_tokens: number
  readonly searches: number
  /** Other units that were used. */
  readonly units?: Counts
  readonly tier?: Tier
}

/**
 * Converts usage to JSON.
 * @param count rounds a provider's figure to a whole number; left out: the figures are whole
 */
export function usageFields(usage: Usage, count: (reported: number) => number = same): UsageFields {
  const others = UNIT_NAMES.filter(unit => UNITS[unit].field === null && usage[unit])
  return {
    prompt_tokens: count(usage.input ?? 0),
    cached_tokens: count(usage.cached_input ?? 0),
    cache_write_tokens: count(usage.cache_write ?? 0),
    completion_tokens: count(usage.output ?? 0),
    reasoning_tokens: count(usage.reasoning ?? 0),
    searches: count(usage.search ?? 0),
    ...(others.length === 0
      ? {}
      : { units: Object.fromEntries(others.map(unit => [unit, count(usage[unit]!) / scaleOf(unit)])) }),
    ...(usage.tier === undefined ? {} : { tier: usage.tier }),
  }
}

const same = (reported: number): number => reported

/** JSON counts in seconds, usage in milliseconds. */
const scaleOf = (unit: Unit): number => (unit === 'second' ? 1000 : 1)

/** A price as JSON: the rates of an ordinary request. */
export interface PriceFields {
  readonly unit: '1M tokens'
  readonly input: string
  readonly cached_input: string
  readonly cache_write: string
  readonly output: string
  readonly request: string
  readonly web_search: string
  /** All rules, if the fields above do not cover all of them. */
  readonly rules?: readonly RuleFields[]
}

/** One rule of a price as JSON. */
export interface RuleFields {
  readonly unit: Unit
  readonly price: string
  /** The number of units that the price covers. */
  readonly per: number
  readonly above?: number
  readonly tier?: Tier
  /** The price list and its day. Left out: the operator wrote the price. */
  readonly source?: string
}

const PLAIN: readonly Unit[] = ['input', 'cached_input', 'cache_write', 'output', 'request', 'search']

/** Converts a price to JSON. */
export function priceFields(price: Price): PriceFields {
  const shown = (unit: Unit) => formatMoney(rateOf(price, unit))
  const isPlain = price.every(
    ({ unit, above, tier, source }) =>
      PLAIN.includes(unit) && above === undefined && tier === undefined && source === undefined,
  )
  return {
    unit: '1M tokens',
    input: shown('input'),
    cached_input: shown('cached_input'),
    cache_write: shown('cache_write'),
    output: shown('output'),
    request: shown('request'),
    web_search: shown('search'),
    ...(isPlain
      ? {}
      : {
          rules: price.map(({ nanos, ...rule }) => ({
            ...rule,
            per: rule.per / scaleOf(rule.unit),
            price: formatMoney(nanos),
          })),
        }),
  }
}

/** A cost as JSON. */
export interface CostFields {
  readonly lines: readonly LineFields[]
  /** Dollars by which the cost exceeds its lines: it is rounded up to the nano-dollar, once. */
  readonly rounding: string
  readonly cost: string
}

/** One line of a cost as JSON. */
export interface LineFields {
  readonly unit: Unit
  readonly quantity: number
  /** In dollars, for `per` units. */
  readonly rate: string
  readonly per: number
  /** In dollars, with 15 decimals. */
  readonly amount: string
}

/** Converts a cost to JSON. */
export function costFields({ lines, rounding, total }: Cost): CostFields {
  return {
    lines: lines.map(({ unit, quantity, per, rate, amount }) => ({
      unit,
      quantity: quantity / scaleOf(unit),
      rate: formatMoney(rate),
      per: per / scaleOf(unit),
      amount: exact(amount),
    })),
    rounding: exact(rounding),
    cost: formatMoney(total),
  }
}

/** Formats millionths of nano-dollars as dollars. */
function exact(millionths: bigint): string {
  const digits = String(millionths).padStart(16, '0')
  return `${digits.slice(0, -15)}.${digits.slice(-15)}`
}
