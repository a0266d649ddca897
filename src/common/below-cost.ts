/** Finds prices below the operator's cost, for every length of the prompt and every tier. */
import { MAX_PASSES, type Model, marginOf, type Price, type PriceRule, ruleFor, TIERS, UNIT_NAMES } from '#contract'

/** A unit, and the requests for which its price is below the cost. */
export type Case = Pick<PriceRule, 'unit' | 'above' | 'tier'>

/**
 * The cases in which a price is below a cost, in the order of the units. Cases with the same two rules are one. A unit without a rule is
 * charged with the unit that contains it, which is named instead. Left out are searches and service tiers that the model does not
 * allow. So are prompts that are longer than any billed one: the context, which a request with searches reads several times.
 */
export function unitsBelow(
  { price, allow, context }: Pick<Model, 'price' | 'allow' | 'context'>,
  cost: Price,
): readonly Case[] {
  const [own, all] = [price ?? [], [...(price ?? []), ...cost]]
  const units = UNIT_NAMES.filter(
    unit => all.some(rule => rule.unit === unit) && (unit !== 'search' || allow.includes('web_search')),
  )
  const longest = context * (allow.includes('web_search') ? MAX_PASSES : 1)
  const steps = new Set(all.flatMap(({ above }) => (above !== undefined && above < longest ? above : [])))
  const lengths = [undefined, ...[...steps].sort((a, b) => a - b)]
  // Clients can request a service tier only if the model allows it.
  const offered = allow.includes('service_tier') ? TIERS : []
  const tiers = [undefined, ...offered.filter(tier => all.some(rule => rule.tier === tier))]
  return units.flatMap(unit => {
    const compared: (readonly (PriceRule | undefined)[])[] = []
    const cases = tiers.flatMap(tier => lengths.map(above => ({ above, tier })))
    return cases.flatMap(({ above, tier }): Case[] => {
      const [ours, theirs] = [own, cost].map(rules => ruleFor(rules, unit, above === undefined ? 0 : above + 1, tier))
      if (compared.some(pair => pair[0] === ours && pair[1] === theirs)) return []
      compared.push([ours, theirs])
      const margin = marginOf(ours, theirs)
      if (margin === null ? !theirs?.nanos : margin >= 0) return []
      return [{ unit, ...(above === undefined ? {} : { above }), ...(tier === undefined ? {} : { tier }) }]
    })
  })
}
