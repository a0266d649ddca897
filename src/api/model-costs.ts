/** Models for operators: the price, the cost of each target, and the margin. */
import { type Model, marginOf, ruleFor, type Unit } from '#contract'
import { unitsBelow } from '../common/below-cost.ts'
import { showMaybe, showModel, showPrice } from './show.ts'
import type { OperatorModelView } from './views.ts'

/** A model with its costs, for operators only. */
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
    below_cost: costs.flatMap(({ target, cost }) => unitsBelow(model, cost).map(each => ({ target, ...each }))),
  }
}

const smallest = (margins: readonly number[]): number | null => (margins.length === 0 ? null : Math.min(...margins))
