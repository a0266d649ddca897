/** One price that covers several. */
import { type Price, type PriceRule, ruleFor, TIERS, UNIT_NAMES, UNITS } from '#contract'

/** The dearest of several prices in each unit, for every length of prompt and class of service. No usage costs less than at one of them. */
export function dearest(prices: readonly Price[]): Price {
  const [first, ...others] = prices
  if (first === undefined) return []
  if (others.every(price => isSame(price, first))) return first
  const rules = prices.flat()
  const units = UNIT_NAMES.filter(unit => rules.some(rule => rule.unit === unit))
  const tiers = [undefined, ...TIERS.filter(tier => rules.some(rule => rule.tier === tier))]
  const steps = [...new Set(rules.map(({ above }) => above))].sort((a, b) => (a ?? -1) - (b ?? -1))
  const all = new Set([undefined, ...steps])
  return tiers.flatMap(tier =>
    [...all].flatMap(above =>
      units.flatMap((unit): PriceRule[] => {
        const reached = prices.flatMap(price => ruleFor(price, unit, (above ?? -1) + 1, tier) ?? [])
        const best = reached.toSorted((a, b) => compare(b, a))[0]
        if (best === undefined) return []
        // As many as YAML has it: no `per` of a rule differs from that of its unit.
        const nanos = (best.nanos * BigInt(UNITS[unit].per)) / BigInt(best.per)
        const { source } = best
        return [
          {
            unit,
            nanos,
            per: UNITS[unit].per,
            ...(above === undefined ? {} : { above }),
            ...(tier === undefined ? {} : { tier }),
            ...(source === undefined ? {} : { source }),
          },
        ]
      }),
    ),
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

/** By the price of one. */
function compare(a: PriceRule, b: PriceRule): number {
  const difference = a.nanos * BigInt(b.per) - b.nanos * BigInt(a.per)
  return difference > 0n ? 1 : difference < 0n ? -1 : 0
}
