/** Compares the prices of models and the costs of their targets under two price lists. */
import { isDeepStrictEqual } from 'node:util'
import { formatMoney, type ModelEnd, type NanoUsd, type Price, UNITS } from '#contract'
import type { CatalogModel, PriceCatalog } from '../../catalog/price-catalog.ts'
import type { Configuration } from '../../config/configuration.ts'
import { vendorOf } from '../../providers/dialects/vendors.ts'
import { modelsOf, type PricedModel, type PricedTarget } from './price-view.ts'
import { type Condition, conditionsOf, percentOf, rateUnder } from './rates.ts'

/** A configuration with the catalog of its prices. */
export interface PricedConfiguration {
  readonly configuration: Configuration
  readonly catalog: PriceCatalog | null
}

/** A rate that changes. Null: the price has no rule for the unit, so it is free. */
export interface RateChange extends Condition {
  readonly before: NanoUsd | null
  readonly after: NanoUsd | null
  /** `jump`: more than ten times higher or lower; `zero`: becomes free. */
  readonly mark: 'jump' | 'zero' | null
}

/** A changed price of a model, or a changed cost of one of its targets. */
export interface PriceChange {
  readonly model: string
  /** The target of a cost; null: it is the price. */
  readonly target: string | null
  /** The rows of the catalog that it comes from, as VENDOR/MODEL. */
  readonly listed: readonly string[]
  readonly rates: readonly RateChange[]
  /** Whether all of these rows are in `accept`. */
  readonly accepted: boolean
}

/** A changed size. */
export interface SizeChange {
  readonly model: string
  readonly what: 'context' | 'max_output'
  readonly before: number
  readonly after: number
}

export interface PriceDiff {
  readonly changed: readonly PriceChange[]
  readonly sizes: readonly SizeChange[]
  /** Models that wildcards gain. */
  readonly added: readonly PricedModel[]
  /** Models that wildcards lose. */
  readonly removed: readonly string[]
  /** Models of the previous list whose price now comes from another list. */
  readonly missing: readonly { readonly model: string; readonly from: string }[]
  /** Prices in gateway.yaml for which the list has other rates. These prices do not change. */
  readonly byHand: readonly PriceChange[]
  /** The number of models with the same price. */
  readonly same: number
  /** Models with an end that the previous list did not have. */
  readonly ends: readonly { readonly model: string; readonly end: ModelEnd }[]
}

/**
 * Compares a configuration under two price lists.
 * @param accept `VENDOR/MODEL` whose price may become 0 or change more than tenfold
 */
export function diffOf(before: PricedConfiguration, after: PricedConfiguration, accept: readonly string[]): PriceDiff {
  const [old, now] = [modelsOf(before.configuration), modelsOf(after.configuration)]
  const known = new Map(old.map(model => [model.id, model]))
  const remaining = new Set(now.map(({ id }) => id))
  const both = now.flatMap(model => {
    const was = known.get(model.id)
    return was === undefined ? [] : [[was, model] as const]
  })
  const removed = old.filter(({ id }) => !remaining.has(id))
  const changed = [
    ...both.flatMap(([was, is]) => changesOf(was, is, accept)),
    ...removed.flatMap(was => freedOf(was, before.configuration, after.catalog)),
  ]
  const lists = [before.catalog?.list?.source, after.catalog?.list?.source]
  return {
    changed,
    sizes: both.flatMap(([was, is]) => sizesOf(was, is)),
    added: now.filter(({ id }) => !known.has(id)),
    removed: removed.map(({ id }) => id),
    missing: both.flatMap(([was, is]) =>
      lists[0] !== undefined && was.from === lists[0] && is.from !== lists[1] ? [{ model: is.id, from: is.from }] : [],
    ),
    byHand: byHandOf(after),
    same: both.filter(([{ id }]) => !changed.some(({ model }) => model === id)).length,
    ends: both.flatMap(([was, is]) => (was.end === null && is.end !== null ? [{ model: is.id, end: is.end }] : [])),
  }
}

function changesOf(was: PricedModel, is: PricedModel, accept: readonly string[]): PriceChange[] {
  const change = (target: string | null, listed: readonly string[], rates: readonly RateChange[]): PriceChange[] =>
    rates.length === 0
      ? []
      : [
          {
            model: is.id,
            target,
            listed,
            rates,
            accepted: listed.length > 0 && listed.every(row => accept.includes(row)),
          },
        ]
  const price = ratesOf(was.price ?? [], is.price ?? [], is.searches)
  const costs = is.targets.map((target, index) => {
    const before = was.targets[index]?.cost
    const known = before != null && target.cost !== null
    return { ...target, rates: known ? ratesOf(before, target.cost, is.searches) : [] }
  })
  const rowsOf = (some: readonly PricedTarget[]) => [...new Set(some.flatMap(({ listed }) => listed ?? []))]
  // Only the targets whose own cost jumps must be accepted.
  const jumping = rowsOf(costs.filter(({ rates }) => rates.some(({ mark }) => mark !== null)))
  return [
    ...change(null, jumping.length > 0 ? jumping : rowsOf(is.targets), price),
    // A cost that equals the price would be listed twice.
    ...costs
      .filter(({ rates }) => !isDeepStrictEqual(rates, price))
      .flatMap(target => change(target.id, rowsOf([target]), target.rates)),
  ]
}

/** The changes of a model that a wildcard loses because the list makes it free: a free model must be accepted first. */
function freedOf(was: PricedModel, { models, providers }: Configuration, catalog: PriceCatalog | null): PriceChange[] {
  return models.get(was.id)!.targets.flatMap(({ provider, model }) => {
    const vendor = vendorOf(providers.get(provider)!)
    const price = (vendor && catalog?.find(vendor, model))?.price
    if (price == null || was.price === null || price.some(({ nanos }) => nanos > 0n)) return []
    const rates = ratesOf(was.price, price, was.searches)
    return [{ model: was.id, target: null, listed: [`${vendor!.name}/${model}`], rates, accepted: false }]
  })
}

/** The rates that differ between two prices. */
function ratesOf(before: Price, after: Price, searches: boolean): RateChange[] {
  return conditionsOf(before, after).flatMap(condition => {
    if (condition.unit === 'search' && !searches) return []
    const [was, is] = [rateUnder(before, condition), rateUnder(after, condition)]
    if ((was ?? 0n) === (is ?? 0n)) return []
    return [{ ...condition, before: was, after: is, mark: markOf(was ?? 0n, is ?? 0n) }]
  })
}

function markOf(was: NanoUsd, is: NanoUsd): RateChange['mark'] {
  if (was === 0n) return null
  if (is === 0n) return 'zero'
  return is > was * 10n || was > is * 10n ? 'jump' : null
}

function sizesOf(was: PricedModel, is: PricedModel): SizeChange[] {
  const sizes = [
    { what: 'context', before: was.context.value, after: is.context.value },
    { what: 'max_output', before: was.maxOutput.value, after: is.maxOutput.value },
  ] as const
  return sizes.flatMap(size => (size.before === size.after ? [] : [{ model: is.id, ...size }]))
}

/** Handwritten prices compared with the list, for models with one target. */
function byHandOf({ configuration, catalog }: PricedConfiguration): PriceChange[] {
  const { models, origins, providers } = configuration
  return [...models.values()].flatMap(({ id, price, targets, allow }) => {
    const [target] = targets
    if (price === null || targets.length !== 1 || origins.get(id)!.price !== null) return []
    const provider = providers.get(target!.provider)!
    const vendor = vendorOf(provider)
    const row: CatalogModel | null = (vendor && catalog?.find(vendor, target!.model)) ?? null
    if (row?.price == null) return []
    // These prices do not change, so nothing must be accepted.
    const rates = ratesOf(price, row.price, allow.includes('web_search')).map(rate => ({ ...rate, mark: null }))
    return rates.length === 0
      ? []
      : [{ model: id, target: null, listed: [`${vendor!.name}/${row.id}`], rates, accepted: true }]
  })
}

/** Changes that must be accepted. */
export const unaccepted = ({ changed }: PriceDiff): PriceChange[] =>
  changed.filter(({ rates, accepted }) => !accepted && rates.some(({ mark }) => mark !== null))

export function diffJson(diff: PriceDiff): object {
  const { changed, sizes, added, removed, missing, byHand, same, ends } = diff
  return {
    changed: changed.map(changeJson),
    sizes,
    new: added.map(({ id, price, from }) => ({ model: id, price: price && ratesJson(ratesOf([], price, true)), from })),
    removed,
    missing,
    by_hand: byHand.map(changeJson),
    same,
    ends: ends.map(({ model, end }) => ({ model, ...end })),
  }
}

const changeJson = ({ model, target, listed, rates, accepted }: PriceChange): object => ({
  model,
  target,
  listed_as: listed,
  rates: ratesJson(rates),
  accepted,
})

const money = (rate: NanoUsd | null): string => formatMoney(rate ?? 0n)

const ratesJson = (rates: readonly RateChange[]): object[] =>
  rates.map(({ unit, above, tier, before, after, mark }) => ({
    unit,
    above: above ?? null,
    tier: tier ?? null,
    per: UNITS[unit].per / (unit === 'second' ? 1000 : 1),
    before: money(before),
    after: money(after),
    difference: money((after ?? 0n) - (before ?? 0n)),
    percent: percentOf(before ?? 0n, after ?? 0n),
    mark,
  }))
