/** The view of prices that `tollgate prices show` prints, also as JSON. */
import { formatMoney, type Model, type ModelEnd, marginOf, type NanoUsd, type Price, priceFields } from '#contract'
import type { CatalogModel, WithSource } from '../../catalog/price-catalog.ts'
import type { Configuration } from '../../config/configuration.ts'
import { vendorOf } from '../../providers/dialects/vendors.ts'
import { type Condition, conditionsOf, rateUnder, ruleUnder } from './rates.ts'

/** A model of the configuration, or of the price catalog without targets. */
export interface PricedModel {
  readonly id: string
  readonly aliases: readonly string[]
  /** The wildcard that it comes from. */
  readonly wildcard: string | null
  /** Null: free, or in the catalog without a price for tokens. */
  readonly price: Price | null
  readonly from: string
  /** Tokens. */
  readonly context: WithSource<number>
  readonly maxOutput: WithSource<number>
  readonly reasoning: WithSource<boolean>
  readonly targets: readonly PricedTarget[]
  /** Whether requests may use web search; if not, the price of a search has no effect. */
  readonly searches: boolean
  /** Units that the list prices but the gateway does not count. */
  readonly uncounted: readonly string[]
  /** Whether its price is the highest of the day. */
  readonly hourly: boolean
  /** The date of the next price in the list, as YYYY-MM-DD. */
  readonly changes: string | null
  readonly end: ModelEnd | null
}

/** A target of a model. */
export interface PricedTarget {
  /** Provider and model. */
  readonly id: string
  /** Its row in the catalog, as VENDOR/MODEL; null: not needed. */
  readonly listed: string | null
  /** Null: unknown. */
  readonly cost: Price | null
  readonly from: string | null
  readonly margins: readonly Margin[]
}

/** The difference between a rate of the price and that of the cost. */
export interface Margin extends Condition {
  readonly price: NanoUsd
  readonly cost: NanoUsd
  /** Of the price; null: the price is 0. */
  readonly percent: number | null
}

/** The source of values in gateway.yaml. */
export const BY_HAND = 'gateway.yaml'

/** The models of a configuration. */
export function modelsOf(configuration: Configuration): PricedModel[] {
  const { models, origins, aliases, providers } = configuration
  return [...models.values()].map(model => {
    const origin = origins.get(model.id)!
    const rows = origin.targets.flatMap(row => (row === null ? [] : [row]))
    const automatic = origin.price === null ? [] : rows
    return {
      id: model.id,
      aliases: [...aliases].flatMap(([alias, id]) => (id === model.id ? [alias] : [])),
      wildcard: model.wildcard ?? null,
      price: model.price,
      from: origin.price === null ? BY_HAND : sourcesOf(model.price!, origin.price.source),
      context: { value: model.context, source: origin.context },
      maxOutput: { value: model.maxOutput, source: origin.maxOutput },
      reasoning: { value: model.reasoning, source: origin.reasoning },
      targets: model.targets.map((target, index) => {
        const row = origin.targets[index] ?? null
        return {
          id: target.id,
          listed: row && `${vendorOf(providers.get(target.provider)!)!.name}/${row.id}`,
          cost: target.cost,
          from: target.cost && sourcesOf(target.cost, BY_HAND),
          margins: target.cost === null ? [] : marginsOf(model, target.cost),
        }
      }),
      searches: model.allow.includes('web_search'),
      uncounted: [...new Set(automatic.flatMap(({ uncounted }) => uncounted))],
      hourly: automatic.some(({ hourly }) => hourly),
      changes: automatic.flatMap(({ changes }) => changes ?? []).sort()[0] ?? null,
      end: model.deprecation ?? null,
    }
  })
}

/** A row of the price catalog. */
export function catalogModel(id: string, row: CatalogModel): PricedModel {
  return {
    id,
    aliases: [],
    wildcard: null,
    price: row.price,
    from: row.source,
    context: row.context,
    maxOutput: row.maxOutput,
    reasoning: row.reasoning,
    targets: [],
    searches: true,
    uncounted: row.uncounted,
    hourly: row.hourly,
    changes: row.changes,
    end: row.deprecation,
  }
}

/** The lists of a price, each with its date. */
function sourcesOf(price: Price, otherwise: string): string {
  return [...new Set(price.map(rule => rule.source ?? otherwise))].join(', ') || otherwise
}

/** Omits searches if the model does not allow them. */
function marginsOf({ price: ours, allow }: Pick<Model, 'price' | 'allow'>, cost: Price): Margin[] {
  const price = ours ?? []
  const conditions = conditionsOf(price, cost)
  return conditions
    .filter(({ unit }) => unit !== 'search' || allow.includes('web_search'))
    .map(condition => ({
      ...condition,
      price: rateUnder(price, condition) ?? 0n,
      cost: rateUnder(cost, condition) ?? 0n,
      percent: marginOf(ruleUnder(price, condition), ruleUnder(cost, condition)),
    }))
}

/** The smallest margin of all targets; null if no cost is known or all are 0. */
export function smallestMargin({ targets }: PricedModel): Margin | null {
  const margins = targets.flatMap(target => target.margins).filter(({ price, cost }) => price > 0n || cost > 0n)
  const least = ({ percent }: Margin) => percent ?? Number.NEGATIVE_INFINITY
  return margins.toSorted((a, b) => (least(a) < least(b) ? -1 : 1))[0] ?? null
}

/** A model as JSON. */
export function modelJson(model: PricedModel): object {
  const { id, aliases, wildcard, price, from, context, maxOutput, reasoning, targets, uncounted, hourly } = model
  const sourced = <T>({ value, source }: WithSource<T>) => ({ value, from: source })
  return {
    id,
    aliases,
    wildcard,
    price: price && priceFields(price),
    price_from: from,
    context: sourced(context),
    max_output: sourced(maxOutput),
    reasoning: sourced(reasoning),
    targets: targets.map(target => ({
      id: target.id,
      listed_as: target.listed,
      cost: target.cost && priceFields(target.cost),
      cost_from: target.from,
      margins: target.margins.map(margin => ({
        ...conditionJson(margin),
        price: formatMoney(margin.price),
        cost: formatMoney(margin.cost),
        margin: formatMoney(margin.price - margin.cost),
        percent: margin.percent,
      })),
    })),
    uncounted,
    dearest_of_the_day: hourly,
    changes: model.changes,
    ends: model.end,
  }
}

/** The unit and the condition of a rate, as JSON. */
export function conditionJson({ unit, above, tier }: Condition): object {
  return { unit, above: above ?? null, tier: tier ?? null }
}
