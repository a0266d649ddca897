/** Reads prices of a row in LiteLLM's keys, and writes prices for gateway.yaml. */
import { formatMoney, isToken, type Price, type PriceRule, UNIT_NAMES, UNITS, type Unit } from '#contract'
import { scaled } from '../../catalog/decimal.ts'
import { LITELLM_KEYS } from '../../catalog/litellm-list.ts'
import { MAX_PRICE } from '../../config/prices.ts'
import { showMoney } from '../format.ts'
import type { Fields, TextValue } from './read.ts'
import type { Remarks } from './remarks.ts'

/** LiteLLM's price key of each unit, in dollars for one. */
const KEYS: Readonly<Partial<Record<Unit, string>>> = Object.fromEntries(
  Object.entries(LITELLM_KEYS)
    .toReversed()
    .map(([key, unit]) => [unit, key]),
)

/** A map of prices by the size of a search. */
const SEARCH = 'search_context_cost_per_query'

/** The prices of a row or of its model_info. Adds a remark for each invalid one. */
export function rowPrices(params: Fields, info: Fields, remarks: Remarks): Price {
  const rules = UNIT_NAMES.flatMap(unit => {
    const key = KEYS[unit]
    if (key === undefined) return []
    const [own, other] = [params.text(key), info.text(key)]
    if (own && other && own.text !== other.text)
      remarks.add('changed', other, 'the price in litellm_params has precedence')
    const value = own ?? other
    return value ? (ruleOf(unit, value, remarks) ?? []) : []
  })
  const searches = params.map(SEARCH) ?? info.map(SEARCH)
  // An answer does not report the size of its searches, so the highest price is used.
  const sizes = (searches?.keys() ?? []).flatMap(size => {
    const value = searches!.text(size)
    return value ? (ruleOf('search', value, remarks) ?? []) : []
  })
  return [...rules, ...plain(sizes)]
}

function ruleOf(unit: Unit, value: TextValue, remarks: Remarks): PriceRule | null {
  const { per } = UNITS[unit]
  // Nine decimals for nano-dollars, and six more for a million tokens.
  const price = scaled(value.text, isToken(unit) ? 15 : 9)
  if (price === null || price.value > MAX_PRICE) {
    const most = isToken(unit) ? 'token, from 0 to 0.1' : `${unit}, from 0 to 100000`
    remarks.wrongNumber(value, `a price is dollars for one ${most}`)
    return null
  }
  if (!price.exact) remarks.add('changed', value, 'the price is rounded up to nine decimals')
  return { unit, nanos: price.value, per }
}

/** Adds a remark for each price in a row that cannot have one. */
export function refusePrices(params: Fields, info: Fields, remarks: Remarks): void {
  const instead = 'give a model with its own price its own row, and import again'
  for (const fields of [params, info])
    for (const key of fields.keys().filter(each => /cost/.test(each)))
      remarks.add('lost', fields.take(key)!, 'models of a wildcard have the prices of the price list', instead, key)
}

/** The highest price of each unit, for all prompt lengths, in the standard service tier. */
export function plain(price: Price): Price {
  return UNIT_NAMES.flatMap(unit => {
    const per = UNITS[unit].per
    const rules = price.filter(rule => rule.unit === unit && rule.tier === undefined)
    const rates = rules.map(rule => (rule.nanos * BigInt(per)) / BigInt(rule.per))
    return rates.length === 0 ? [] : [{ unit, nanos: rates.reduce((a, b) => (a > b ? a : b)), per }]
  })
}

/** The rule of a unit; undefined: the price has none. */
export const ruleIn = (price: Price, unit: Unit): PriceRule | undefined => price.find(rule => rule.unit === unit)

/** A price for gateway.yaml. @param price without steps and service tiers */
export function priceYaml(price: Price): object {
  return {
    per: '1M tokens',
    ...Object.fromEntries(price.map(({ unit, nanos }) => [UNITS[unit].key, showMoney(formatMoney(nanos))])),
  }
}
