/** Combines several prices into one that covers them. */
import { type Price, type PriceRule, ruleFor, TIERS, UNIT_NAMES, UNITS, type Unit } from '#contract'
import { nanosFor } from './listed-model.ts'

/** The highest of several prices in each unit, for every prompt length and service tier. No usage costs less than at any of them. */
export function dearest(prices: readonly Price[]): Price {
  const [first, ...others] = prices
  if (first === undefined) return []
  if (others.every(price => isSame(price, first))) return first
  const rules = prices.flat()
  const own = new Set(rules.map(({ unit }) => unit))
  const tiers = [undefined, ...TIERS.filter(tier => rules.some(rule => rule.tier === tier))]
  // The price without a step is first, because it also applies above a step that has no price of its own.
  const lengths = rules.flatMap(({ above }) => above ?? [])
  const steps = [undefined, ...[...new Set(lengths)].sort((a, b) => a - b)]
  return tiers.flatMap(tier =>
    steps.flatMap(above => {
      const best = new Map<Unit, PriceRule>()
      for (const unit of UNIT_NAMES) {
        const reached = prices.flatMap(price => ruleFor(price, unit, (above ?? -1) + 1, tier) ?? [])
        const most = reached.toSorted((a, b) => compare(b, a))[0]
        const whole = UNITS[unit].wholes.map(each => best.get(each)).find(each => each !== undefined)
        // A part with the price of its whole needs no rule, unless it has one under another condition.
        if (most === undefined || (!own.has(unit) && whole !== undefined && compare(most, whole) === 0)) continue
        const { source } = most
        own.add(unit)
        best.set(unit, {
          unit,
          nanos: nanosFor(most, unit),
          per: UNITS[unit].per,
          ...(above === undefined ? {} : { above }),
          ...(tier === undefined ? {} : { tier }),
          ...(source === undefined ? {} : { source }),
        })
      }
      return [...best.values()]
    }),
  )
}

const isSame = (a: Price, b: Price): boolean =>
  a.length === b.length &&
  a.every((rule, index) => {
    const other = b[index]!
    return (
      rule.unit === other.unit &&
      rule.nanos === other.nanos &&
      rule.per === other.per &&
      rule.above === other.above &&
      rule.tier === other.tier
    )
  })

function compare(a: PriceRule, b: PriceRule): number {
  const difference = a.nanos * BigInt(b.per) - b.nanos * BigInt(a.per)
  return difference > 0n ? 1 : difference < 0n ? -1 : 0
}
