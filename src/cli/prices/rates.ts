/** Rates of prices, for comparison and printing. */
import {
  isToken,
  type NanoUsd,
  type Price,
  type PriceRule,
  ruleFor,
  type Tier,
  UNIT_NAMES,
  UNITS,
  type Unit,
} from '#contract'
import { nanosFor } from '../../catalog/listed-model.ts'
import { showNano } from '../format.ts'

/** The condition of a rate: prompts with more tokens than `above`, and a service tier. */
export interface Condition {
  readonly unit: Unit
  readonly above?: number
  readonly tier?: Tier
}

/** The rule that charges a unit under a condition; undefined: the price has none. */
export const ruleUnder = (price: Price, { unit, above, tier }: Condition): PriceRule | undefined =>
  ruleFor(price, unit, (above ?? -1) + 1, tier)

/** The price of `UNITS[unit].per` units under a condition; null: the price has no rule for them. */
export function rateUnder(price: Price, condition: Condition): NanoUsd | null {
  const rule = ruleUnder(price, condition)
  return rule === undefined ? null : nanosFor(rule, condition.unit)
}

/** The distinct conditions of several prices, in the order of the units. */
export function conditionsOf(...prices: readonly Price[]): Condition[] {
  const conditions = new Map(prices.flat().map(rule => [nameOf(rule), conditionOf(rule)]))
  return [...conditions.values()].sort(
    (a, b) =>
      UNIT_NAMES.indexOf(a.unit) - UNIT_NAMES.indexOf(b.unit) ||
      (a.tier ?? '').localeCompare(b.tier ?? '') ||
      (a.above ?? 0) - (b.above ?? 0),
  )
}

const conditionOf = ({ unit, above, tier }: PriceRule): Condition => ({
  unit,
  ...(above === undefined ? {} : { above }),
  ...(tier === undefined ? {} : { tier }),
})

/** `input`, `input above 200000 tokens`, `output (flex)`: with the unit's key in gateway.yaml. */
export function nameOf({ unit, above, tier }: Condition): string {
  const name = tier === undefined ? UNITS[unit].key : `${UNITS[unit].key} (${tier})`
  return above === undefined ? name : `${name} above ${above} tokens`
}

/** The number of units of a rate: `1M tokens`, `1M characters`, `page`. */
export function perOf(unit: Unit): string {
  if (isToken(unit)) return '1M tokens'
  if (unit === 'character') return '1M characters'
  return unit === 'second' ? 'second' : UNITS[unit].one
}

/** `$1.25`, or `-` if the price has no such rate. */
export const rateText = (rate: NanoUsd | null): string => (rate === null ? '-' : showNano(rate))

/** The change in percent with two decimals; null if `before` is 0. */
export function percentOf(before: NanoUsd, after: NanoUsd): number | null {
  return before === 0n ? null : Number(((after - before) * 10_000n) / before) / 100
}

/** `+12.5 %`, or `new` if the amount was 0. */
export function percentText(percent: number | null): string {
  return percent === null ? 'new' : `${percent > 0 ? '+' : ''}${percent} %`
}
