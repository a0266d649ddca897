/** The summary of automatic prices for `tollgate check`: counts, and a line for each model of the file. */
import { type Price, rateOf } from '#contract'
import type { Configuration } from '../../config/configuration.ts'
import { count, showNano, table } from '../format.ts'
import { BY_HAND, modelJson, modelsOf, type PricedModel } from './price-view.ts'

/** Empty if no price comes from a list. */
export function priceSummary(configuration: Configuration): string {
  const models = modelsOf(configuration)
  const automatic = models.filter(({ from }) => from !== BY_HAND)
  if (automatic.length === 0) return ''
  const lists = [...grouped(automatic, ({ from }) => from)].map(
    ([from, all]) => `${count(all.length, 'model')} from ${from}`,
  )
  const byHand = models.length - automatic.length
  const defaults = (['maxOutput', 'context'] as const).flatMap(size => {
    const sizes = automatic.flatMap(model => (model[size].source === 'default' ? [model[size].value] : []))
    const name = size === 'maxOutput' ? 'max_output' : 'context'
    return sizes.length === 0 ? [] : [`${name} of ${count(sizes.length, 'model')} is a default (${Math.max(...sizes)})`]
  })
  const head = [[...lists, ...(byHand === 0 ? [] : [`${byHand} by hand`])].join(', '), ...defaults].join('; ')
  const rows = [...grouped(models, ({ id, wildcard }) => wildcard ?? id)].map(([id, all]) => rowOf(id, all))
  const columns = [{ title: '' }, { title: '', right: true }, { title: '' }, { title: '' }]
  return `prices: ${head}\n${table(columns, rows)}`
}

function rowOf(id: string, models: readonly PricedModel[]): string[] {
  const number = models.some(({ wildcard }) => wildcard === id) ? count(models.length, 'model') : ''
  const from = [...new Set(models.map(model => model.from))].join(', ')
  const prices = models.flatMap(({ price }) => (price === null ? [] : [price]))
  const rates =
    prices.length === 0 ? 'free' : `${range(prices, 'input')} in, ${range(prices, 'output')} out (1M tokens)`
  return [`  ${id}`, number, rates, from]
}

/** `$0.05 to $150`. */
function range(prices: readonly Price[], unit: 'input' | 'output'): string {
  const rates = prices.map(price => rateOf(price, unit)).sort((a, b) => (a < b ? -1 : a > b ? 1 : 0))
  const [least, most] = [rates[0]!, rates.at(-1)!]
  return least === most ? showNano(least) : `${showNano(least)} to ${showNano(most)}`
}

function grouped<Item>(items: readonly Item[], keyOf: (item: Item) => string): Map<string, Item[]> {
  const groups = new Map<string, Item[]>()
  for (const item of items) groups.set(keyOf(item), [...(groups.get(keyOf(item)) ?? []), item])
  return groups
}

/** The prices of each model as JSON; null if no price comes from a list. */
export function pricesJson(configuration: Configuration): object[] | null {
  const models = modelsOf(configuration)
  return models.some(({ from }) => from !== BY_HAND) ? models.map(modelJson) : null
}
