/** Formats prices of models: one line each, or with all details. */
import { type ModelEnd, rateOf } from '#contract'
import type { WithSource } from '../../catalog/price-catalog.ts'
import { pairs, showNano, table } from '../format.ts'
import { type Margin, type PricedModel, type PricedTarget, smallestMargin } from './price-view.ts'
import { conditionsOf, nameOf, perOf, rateText, rateUnder } from './rates.ts'

/** A table with a line for each model, followed by remarks with their models. */
export function priceTable(models: readonly PricedModel[]): string {
  const rows = models.map(model => [
    model.id,
    ...(['input', 'output'] as const).map(unit =>
      model.price === null ? 'free' : showNano(rateOf(model.price, unit)),
    ),
    sizeText(model.context),
    sizeText(model.maxOutput),
    marginText(smallestMargin(model)),
    model.from,
  ])
  const columns = [
    { title: 'MODEL' },
    { title: 'INPUT', right: true },
    { title: 'OUTPUT', right: true },
    { title: 'CONTEXT', right: true },
    { title: 'MAX OUTPUT', right: true },
    { title: 'MARGIN', right: true },
    { title: 'PRICE FROM' },
  ]
  const remarks = remarksOn(models)
  return `${table(columns, rows)}\nDollars for 1M tokens.\n${remarks.length === 0 ? '' : `\n${remarks.map(line => `${line}\n`).join('')}`}`
}

/** All values of a model. */
export function priceDetails(model: PricedModel): string {
  const { id, aliases, wildcard, price, from, context, maxOutput, reasoning, hourly, changes, end, uncounted } = model
  const facts: readonly (readonly [name: string, value: string | null])[] = [
    ['aliases', aliases.length === 0 ? null : aliases.join(', ')],
    ['comes from', wildcard],
    ['price from', `${from}${hourly ? ' (the highest price of the day)' : ''}`],
    ['context', `${context.value} tokens (${context.source})`],
    ['max output', `${maxOutput.value} tokens (${maxOutput.source})`],
    ['reasoning', `${reasoning.value ? 'yes' : 'no'} (${reasoning.source})`],
    ['not counted', uncounted.length === 0 ? null : `${uncounted.join(', ')} (the list has a price)`],
    ['next price', changes],
    ['ends', end && endText(end)],
  ]
  const known = facts.flatMap(([name, value]) => (value === null ? [] : [[name, value] as const]))
  return [`${id}\n${pairs(known)}`, rulesText(price), ...targetsText(model.targets)].join('\n')
}

/** `2027-01-31 (successor gpt-6)`. */
const endText = ({ date, successor }: ModelEnd): string =>
  `${date ?? 'soon'}${successor === null ? '' : ` (successor ${successor})`}`

function rulesText(price: PricedModel['price']): string {
  if (price === null) return 'free\n'
  const rows = conditionsOf(price).map(condition => [
    nameOf(condition),
    rateText(rateUnder(price, condition)),
    perOf(condition.unit),
  ])
  return table([{ title: 'UNIT' }, { title: 'PRICE', right: true }, { title: 'FOR' }], rows)
}

function targetsText(targets: readonly PricedTarget[]): string[] {
  return targets.map(target => {
    const listed = target.listed === null || target.listed === target.id ? '' : `, listed as ${target.listed}`
    const head = `Target ${target.id}${listed}: `
    if (target.cost === null) return `${head}its cost is unknown.\n`
    if (target.margins.every(({ price, cost }) => price === cost)) {
      return `${head}its cost is the price, from ${target.from}; the margin is 0.\n`
    }
    const columns = [
      { title: 'UNIT' },
      { title: 'COST', right: true },
      { title: 'MARGIN', right: true },
      { title: '', right: true },
      { title: 'FOR' },
    ]
    return `${head}its cost is from ${target.from}.\n${table(columns, target.margins.map(marginRow))}`
  })
}

const marginRow = (margin: Margin): string[] => [
  nameOf(margin),
  showNano(margin.cost),
  showNano(margin.price - margin.cost),
  marginText(margin),
  perOf(margin.unit),
]

/** `12.5 %`; `no price` if a unit with a cost is free; `-` if the cost is unknown or both are 0. */
function marginText(margin: Margin | null): string {
  if (margin === null || (margin.price === 0n && margin.cost === 0n)) return '-'
  return margin.percent === null ? 'no price' : `${margin.percent} %`
}

/** Marks sizes that are from no list. */
function sizeText({ value, source }: WithSource<number>): string {
  return source === 'default' || source === 'family' ? `${value} (${source})` : String(value)
}

function remarksOn(models: readonly PricedModel[]): string[] {
  const all: readonly (readonly [what: string, of: (model: PricedModel) => string | null])[] = [
    ['Other rates for long prompts or service tiers', model => (hasConditions(model) ? model.id : null)],
    ['The price is the highest of the day', model => (model.hourly ? model.id : null)],
    ['The price changes', model => model.changes && `${model.id} on ${model.changes}`],
    ['The provider turns off', ({ id, end }) => end && `${id} ${endText(end)}`],
    [
      'The list prices something that Tollgate does not count',
      ({ id, uncounted }) => (uncounted.length === 0 ? null : id),
    ],
  ]
  return all.flatMap(([what, of]) => {
    const texts = models.flatMap(model => of(model) ?? [])
    return texts.length === 0 ? [] : [`${what}: ${shortList(texts)}.`]
  })
}

const hasConditions = ({ price }: PricedModel): boolean =>
  price?.some(({ above, tier }) => above !== undefined || tier !== undefined) === true

const MOST_NAMED = 4

/** A list of at most four names. */
export function shortList(texts: readonly string[]): string {
  if (texts.length <= MOST_NAMED) return texts.join(', ')
  return `${texts.slice(0, MOST_NAMED).join(', ')} and ${texts.length - MOST_NAMED} more`
}
