/** Models as operators see them: beside the price the cost of each target, and the margin between them. */
import { type Model, marginOf, type Price, type PriceRule, ruleFor, type Tier, type Unit } from '#contract'
import { showMaybe, showModel, showPrice } from './show.ts'
import type { OperatorModelView } from './views.ts'

/** A model with its costs: for operators alone. */
export function showModelToOperators(model: Model, aliases: readonly string[]): OperatorModelView {
  const price = model.price ?? []
  const costs = model.targets.flatMap(({ id, cost }) => (cost === null ? [] : [{ target: id, cost }]))
  const margin = (unit: Unit) =>
    smallest(costs.flatMap(({ cost }) => marginOf(ruleFor(price, unit), ruleFor(cost, unit)) ?? []))
  return {
    id: model.id,
    model: showModel(model, aliases),
    public: model.public,
    enabled: model.enabled,
    targets: model.targets.map(({ id, cost }) => ({ target: id, cost: showMaybe(cost, showPrice) })),
    margin: { input: margin('input'), output: margin('output') },
    below_cost: costs.flatMap(({ target, cost }) =>
      belowCost(price, cost)
        // The gateway refuses searches of other models, whatever their prices are.
        .filter(({ unit }) => unit !== 'search' || model.allow.includes('web_search'))
        .map(rule => ({ target, ...rule })),
    ),
  }
}

const FREE = { nanos: 0n, per: 1 }

const smallest = (margins: readonly number[]): number | null => (margins.length === 0 ? null : Math.min(...margins))

interface Case {
  readonly unit: Unit
  readonly above?: number
  readonly tier?: Tier
}

/** The cases of a price and a cost in which the price is the lower one. */
function belowCost(price: Price, cost: Price): Case[] {
  const cases = new Map<string, Case>()
  for (const { unit, above, tier } of [...cost, ...price]) {
    const rule = { unit, ...(above === undefined ? {} : { above }), ...(tier === undefined ? {} : { tier }) }
    cases.set(JSON.stringify(rule), rule)
  }
  return [...cases.values()].filter(({ unit, above, tier }) => {
    const of = (rules: Price): Pick<PriceRule, 'nanos' | 'per'> =>
      ruleFor(rules, unit, above === undefined ? 0 : above + 1, tier) ?? FREE
    const [ours, theirs] = [of(price), of(cost)]
    return ours.nanos * BigInt(theirs.per) < theirs.nanos * BigInt(ours.per)
  })
}
