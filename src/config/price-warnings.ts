/** Warnings about list prices: old lists, price changes, models that end, and prices below the list's. */
import { type Model, type Price, UNITS } from '#contract'
import { BUILT_IN } from '../catalog/built-in-list.ts'
import type { PriceCatalog } from '../catalog/price-catalog.ts'
import { unitsBelow } from '../common/below-cost.ts'
import { DAY_MS } from '../common/clock.ts'
import { vendorOf } from '../providers/dialects/vendors.ts'
import type { Configuration } from './configuration.ts'
import type { GatewayShape } from './file-shapes.ts'
import { isWildcard } from './wildcards.ts'
import { listed } from './yaml/problem.ts'
import { pointer, type Source } from './yaml/source.ts'

/** How long before the end of a model or a price change the warning begins. */
const AHEAD_DAYS = 90
/** Prices of a list change every few weeks. */
const OLD_DAYS = { own: 90, builtIn: 365 }

/** Adds the warnings to the source of gateway.yaml. */
export function warnAboutLists(
  source: Source,
  { models, origins, providers }: Pick<Configuration, 'models' | 'origins' | 'providers'>,
  catalog: PriceCatalog | null,
  today: Date,
): void {
  if (catalog === null) return
  const priced = [...origins.values()].some(({ price }) => price !== null)
  const own = catalog.list?.date
  if (own && daysUntil(own, today) < -OLD_DAYS.own) {
    source.warn('/catalog', `the price list is ${-daysUntil(own, today)} days old (${own})`, {
      rule: 'old-prices',
      suggestion: 'tollgate prices update --from FILE|URL writes a newer one',
    })
  }
  if (priced && catalog.list === null && daysUntil(BUILT_IN.date, today) < -OLD_DAYS.builtIn) {
    source.warn('/models', `the built-in price list is from ${BUILT_IN.date}`, {
      rule: 'old-prices',
      suggestion: 'update Tollgate, or write a list with tollgate prices update',
    })
  }
  // All models of a wildcard share one warning of each kind.
  const ends = new Map<string, string[]>()
  const ended = new Map<string, string[]>()
  const changes = new Map<string, string[]>()
  const below = new Map<string, string[]>()
  for (const model of models.values()) {
    const at = pointer('models', model.wildcard ?? model.id)
    const end = model.deprecation
    // A wildcard's models without an end date get no warning: the operator may not use them.
    const isSoon = end?.date == null ? model.wildcard === undefined : daysUntil(end.date, today) <= AHEAD_DAYS
    if (end !== undefined && isSoon) {
      const isPast = end.date !== null && daysUntil(end.date, today) < 0
      add(isPast ? ended : ends, at, endOf(model, origins.get(model.id)?.price?.deprecation?.successor))
    }
    const change = origins.get(model.id)?.price?.changes
    if (change != null && daysUntil(change, today) <= AHEAD_DAYS) add(changes, at, `${model.id} on ${change}`)
    if (model.wildcard === undefined) warnOfListPrice(source, at, model, providers, catalog)
    else if (source.has(`${at}/price/input`) && isBelow(model, providers, catalog)) add(below, `${at}/price`, model.id)
  }
  for (const [at, ids] of below) {
    source.warn(at, `the price is below the cost, or below the price list, of ${short(ids)}`, {
      rule: 'odd-price',
      suggestion: 'raise it, write price: auto, or give these models entries of their own',
    })
  }
  // Only a note for a wildcard: the operator has not chosen its models one by one.
  const levelAt = (at: string) => (isWildcard(at) ? ({ level: 'note' } as const) : {})
  for (const [verb, places] of [['turned', ended] as const, ['turns', ends] as const]) {
    for (const [at, texts] of places) {
      source.warn(at, `the provider ${verb} off ${short(texts)}`, {
        rule: 'model-ends',
        ...levelAt(at),
        suggestion: 'move its clients to another model',
      })
    }
  }
  for (const [at, texts] of changes) {
    source.warn(at, `the price list has a new price for ${short(texts)}`, {
      rule: 'old-prices',
      ...levelAt(at),
      suggestion: 'reload Tollgate on that day',
    })
  }
}

const add = (map: Map<string, string[]>, at: string, text: string): void =>
  void map.set(at, [...(map.get(at) ?? []), text])

const short = (texts: readonly string[]): string =>
  texts.length <= 3 ? listed(texts, 'and') : `${texts.slice(0, 3).join(', ')} and ${texts.length - 3} more`

/** @param theirs the provider's name of a successor that the gateway does not serve */
function endOf({ id, deprecation }: Model, theirs: string | null | undefined): string {
  const { date } = deprecation!
  const successor = deprecation!.successor ?? theirs
  const when = date === null ? `${id} soon` : `${id} on ${date}`
  return successor == null ? when : `${when} (its successor is ${successor})`
}

/** Warns of a handwritten price below the list's: the operator pays the difference. Handwritten costs have their own warning. */
function warnOfListPrice(
  source: Source,
  at: string,
  model: Model,
  providers: Configuration['providers'],
  catalog: PriceCatalog,
): void {
  if (model.price === null || !source.has(`${at}/price/input`)) return
  const { targets } = (source.value as GatewayShape).models[model.id]!
  for (const [index, { provider: name, cost }] of model.targets.entries()) {
    const { base_model: base, model: own } = targets[index]!
    const vendor = cost === null ? vendorOf(providers.get(name)!) : undefined
    const found = vendor === undefined ? null : catalog.find(vendor, base ?? own)
    const below = found?.price == null ? null : belowText(model, found.price)
    if (below === null) continue
    source.warn(
      `${at}/price`,
      `the price is below that of ${name}/${base ?? own} in the price list (${below}; ${found!.source})`,
      { rule: 'odd-price', suggestion: `raise it, or write your cost at target ${index + 1}` },
    )
  }
}

/** Whether a target of a wildcard's model costs more than the handwritten price. */
function isBelow(model: Model, providers: Configuration['providers'], catalog: PriceCatalog): boolean {
  return model.targets.some(({ provider, model: name, cost }) => {
    const vendor = vendorOf(providers.get(provider)!)
    const paid = cost ?? (vendor === undefined ? null : catalog.find(vendor, name)?.price)
    return paid != null && unitsBelow(model, paid).length > 0
  })
}

/** The cases in which a price is below a cost, as `input, and output above 200000 tokens in tier flex`; null without any. */
export function belowText(model: Model, cost: Price): string | null {
  const cases = unitsBelow(model, cost).map(({ unit, above, tier }) => {
    const when = `${above === undefined ? '' : ` above ${above} tokens`}${tier === undefined ? '' : ` in tier ${tier}`}`
    return UNITS[unit].key + when
  })
  return cases.length === 0 ? null : listed(cases, 'and')
}

function daysUntil(date: string, today: Date): number {
  return Math.ceil((Date.parse(`${date}T00:00:00Z`) - today.getTime()) / DAY_MS)
}
