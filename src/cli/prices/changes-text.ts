/** Formats the changes in another price list as text. */
import { count, pairs, showNano, table } from '../format.ts'
import type { PriceChange, PriceDiff, RateChange } from './price-changes.ts'
import { shortList } from './price-text.ts'
import { nameOf, percentOf, percentText, perOf, rateText } from './rates.ts'

/** The tables, and lines for new, missing and unchanged models. */
export function diffText(diff: PriceDiff): string {
  const { changed, sizes, added, removed, missing, byHand, same, ends } = diff
  const lines = [
    line(
      'new',
      added.map(({ id }) => id),
      added.length,
      'model',
    ),
    line('removed', removed, removed.length, 'model'),
    line(
      'missing',
      missing.map(({ model, from }) => `${model} (price from ${from})`),
      missing.length,
      'model',
    ),
    line(
      'sizes',
      sizes.map(({ model, what, before, after }) => `${model} ${what} ${before} -> ${after}`),
      sizes.length,
      'size',
    ),
    line(
      'turned off',
      ends.map(({ model, end }) => `${model} ${end.date ?? 'soon'}`),
      ends.length,
      'model',
    ),
    ['the same', count(same, 'model')] as const,
  ].filter(each => each !== null)
  const hand =
    byHand.length === 0
      ? ''
      : `\nHandwritten prices do not change. The list has other prices:\n${rateTable(byHand, ['GATEWAY.YAML', 'LIST'])}`
  return `${changed.length === 0 ? 'No price changes.\n' : rateTable(changed, ['BEFORE', 'AFTER'])}\n${pairs(lines)}${hand}`
}

function line(name: string, texts: readonly string[], number: number, noun: string): readonly [string, string] | null {
  return number === 0 ? null : [name, `${count(number, noun)}: ${shortList(texts)}`]
}

function rateTable(changes: readonly PriceChange[], [before, after]: readonly [string, string]): string {
  const columns = [
    { title: 'MODEL' },
    { title: 'UNIT' },
    { title: before, right: true },
    { title: after, right: true },
    { title: 'CHANGE', right: true },
    { title: '%', right: true },
    { title: 'FOR' },
    { title: '' },
  ]
  return table(
    columns,
    changes.flatMap(change => change.rates.map((rate, index) => rateRow(change, rate, index === 0))),
  )
}

function rateRow({ model, target, accepted }: PriceChange, rate: RateChange, isFirst: boolean): string[] {
  const [was, is] = [rate.before ?? 0n, rate.after ?? 0n]
  const mark = rate.mark === null ? '' : rate.mark === 'zero' ? 'FREE' : 'JUMP'
  return [
    isFirst ? `${model}${target === null ? '' : ` (cost of ${target})`}` : '',
    nameOf(rate),
    rateText(rate.before),
    rateText(rate.after),
    `${is > was ? '+' : ''}${showNano(is - was)}`,
    percentText(percentOf(was, is)),
    perOf(rate.unit),
    mark === '' || !accepted ? mark : `${mark}, accepted`,
  ]
}
