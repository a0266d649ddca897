/** A model's price as lines: one for each unit, prompt length and tier with its own price. */
import type { OperatorModelView, PriceView } from '../../api/views.ts'
import { compact, count, exactMoney, nano } from './format.ts'

/** One rule of a price, as the API sends it. */
export type Rule = NonNullable<PriceView['rules']>[number]
type Unit = Rule['unit']
/** The requests that a rule applies to. */
export type Case = Pick<Rule, 'unit' | 'above' | 'tier'>

/**
 * All units, in order, with the units whose price applies if the unit has none: the first in the list that has a price. A test
 * compares the table with the gateway's.
 */
export const WHOLES: Readonly<Record<Unit, readonly Unit[]>> = {
  input: [],
  cached_input: ['input'],
  cache_write: ['input'],
  cache_write_1h: ['cache_write', 'input'],
  input_audio: ['input'],
  cached_audio: ['cached_input', 'input_audio', 'input'],
  input_image: ['input'],
  output: [],
  reasoning: ['output'],
  output_audio: ['output'],
  output_image: ['output'],
  image: [],
  second: [],
  character: [],
  page: [],
  search: [],
  request: [],
}
const ORDER = Object.keys(WHOLES)

/** The unit as in gateway.yaml, for people: `Cached input`. */
export function unitName(unit: Unit): string {
  const words = unit === 'search' ? 'web search' : unit.replaceAll('_', ' ')
  return words[0]!.toUpperCase() + words.slice(1)
}

/** All rules of a price. A part that costs the same as its whole has no rule. */
export function rulesOf(price: PriceView | null): readonly Rule[] {
  if (price === null) return []
  if (price.rules !== null) return price.rules
  const { input, cached_input, cache_write, output, request, web_search } = price
  const rule = (unit: Unit, amount: string, per: number, isOwn: boolean): Rule[] =>
    isOwn ? [{ unit, price: amount, per }] : []
  return [
    ...rule('input', input, MILLION, true),
    ...rule('cached_input', cached_input, MILLION, cached_input !== input),
    ...rule('cache_write', cache_write, MILLION, cache_write !== input),
    ...rule('output', output, MILLION, true),
    ...rule('search', web_search, 1, nano(web_search) > 0n),
    ...rule('request', request, 1, nano(request) > 0n),
  ]
}

const MILLION = 1_000_000

/** The cases with their own price, by unit, then by tier, then by length. */
export function casesOf(prices: readonly (readonly Rule[])[]): Case[] {
  const cases = new Map<string, Case>()
  for (const { unit, above, tier } of prices.flat()) {
    const each: Case = { unit, ...(above ? { above } : {}), ...(tier ? { tier } : {}) }
    cases.set(caseKey(each), each)
  }
  return [...cases.values()].sort(
    (a, b) =>
      ORDER.indexOf(a.unit) - ORDER.indexOf(b.unit) ||
      (a.tier ?? '').localeCompare(b.tier ?? '') ||
      (a.above ?? 0) - (b.above ?? 0),
  )
}

/** The same text for equal cases. */
export const caseKey = ({ unit, above, tier }: Case): string => `${unit} ${above ?? 0} ${tier ?? ''}`

/** The rule for a case: that of its unit, or else of a larger unit that contains it; undefined: free. */
export function ruleFor(rules: readonly Rule[], { unit, above = 0, tier }: Case): Rule | undefined {
  for (const each of [unit, ...WHOLES[unit]]) {
    const [best] = rules
      .filter(rule => rule.unit === each && (rule.above ?? 0) <= above && (!rule.tier || rule.tier === tier))
      .sort((a, b) => Number(!!b.tier) - Number(!!a.tier) || (b.above ?? 0) - (a.above ?? 0))
    if (best) return best
  }
  return undefined
}

/** `$2.50` for a million tokens; other rates name their unit: `$10.00 for 1k searches`. */
export function rateText(rule: Rule | undefined): string {
  if (rule === undefined) return 'free'
  const { unit, per, price } = rule
  const noun = WHOLES[unit].length > 0 || unit === 'input' || unit === 'output' ? 'token' : unit
  if (noun === 'token' && per === MILLION) return exactMoney(price)
  const many = noun === 'search' ? 'searches' : `${noun}s`
  return `${exactMoney(price)} for ${per === 1 ? `one ${noun}` : `${compact(per)} ${many}`}`
}

/** `prompt above 200,000 tokens, tier flex`; empty for ordinary requests. */
export function caseText({ above, tier }: Case): string {
  return [above && `prompt above ${count(above)} tokens`, tier && `tier ${tier}`].filter(Boolean).join(', ')
}

/** The price lists of the rules, each once. The operator's own prices have none. */
export function listsOf(rules: readonly Rule[]): string[] {
  return [...new Set(rules.map(({ source }) => source ?? 'set by the operator'))]
}

/** The margins of a model, and the cases whose price is below the cost. */
export type Margins = Pick<OperatorModelView, 'margin' | 'below_cost'>

/** Whether a unit is free in ordinary requests although it costs the operator something. */
export function hasNoPrice({ margin, below_cost }: Margins, of: 'input' | 'output'): boolean {
  return margin[of] === null && below_cost.some(({ unit, above, tier }) => unit === of && !above && !tier)
}

/** `25%`, `25% input, 30% output`, `no price`, or `no price for input, 30% output`. */
export function marginText(costs: Margins): string {
  const { input, output } = costs.margin
  const free = (['input', 'output'] as const).filter(unit => hasNoPrice(costs, unit))
  if (free.length === 2) return 'no price'
  if (free.length === 0 && input === output) return input === null ? 'not known' : percentText(input)
  const of = (margin: number | null, unit: 'input' | 'output') =>
    free.includes(unit) ? `no price for ${unit}` : margin !== null && `${percentText(margin)} ${unit}`
  return [of(input, 'input'), of(output, 'output')].filter(Boolean).join(', ')
}

const percentText = (percent: number): string => `${count(percent).replace('-', '\u2212')}%`
