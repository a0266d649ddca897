/** Formats the cost of recorded traffic at two price lists, as text and as JSON. */
import { formatMoney } from '#contract'
import type { Cost } from '../../replay/compare.ts'
import { costsOf } from '../../replay/report.ts'
import { count, showNano, showTime, table } from '../format.ts'
import { percentOf, percentText } from './rates.ts'
import type { TrafficCost } from './traffic-cost.ts'

/** The maximum number of models and of accounts in the table; the JSON has all. */
const MOST = 10

/** A table of the models and accounts that change, the largest change first. */
export function trafficText({ compared, charged, unused, unknown, skipped, skippedCount, span }: TrafficCost): string {
  const when = span === null ? '' : `, ${timeText(span.from)} to ${timeText(span.to)}`
  const row = (what: string, { before, after }: Cost) => [
    what,
    showNano(before),
    showNano(after),
    `${after > before ? '+' : ''}${showNano(after - before)}`,
    percentText(percentOf(before, after)),
  ]
  const changed = <Item extends Cost>(costs: ReadonlyMap<string, Item>) =>
    costsOf(costs).filter(([, { before, after }]) => before !== after)
  const [models, accounts] = [changed(compared.models), changed(compared.accounts)]
  const more = Math.max(0, models.length - MOST) + Math.max(0, accounts.length - MOST)
  const columns = [
    { title: 'COST' },
    { title: 'BEFORE', right: true },
    { title: 'AFTER', right: true },
    { title: 'CHANGE', right: true },
    { title: '%', right: true },
  ]
  const rows = [
    row('all', compared.cost),
    ...models.slice(0, MOST).map(([id, cost]) => row(`model ${id}`, cost)),
    ...accounts.slice(0, MOST).map(([id, cost]) => row(`account ${cost.name || id || '(none)'}`, cost)),
  ]
  return [
    `${count(compared.lines, 'exchange')} with usage in the log${when}. ${showNano(charged)} was charged for them.\n`,
    table(columns, rows),
    more > 0 ? `and ${more} more (--json has all)\n` : '',
    unused > 0 ? `${count(unused, 'line')} without usage omitted.\n` : '',
    unknown > 0 ? `${count(unknown, 'line')} with unknown models omitted.\n` : '',
    skippedCount > 0 ? `${count(skippedCount, 'line')} skipped:\n` : '',
    ...skipped.map(({ file, number, reason }) => `  ${file}:${number}: ${reason}\n`),
    skippedCount > skipped.length ? `  and ${skippedCount - skipped.length} more\n` : '',
  ].join('')
}

const timeText = (ms: number): string => showTime(new Date(ms).toISOString())

/** The same as JSON. */
export function trafficJson({ compared, charged, unused, unknown, skipped, skippedCount, span }: TrafficCost): object {
  return {
    lines: compared.lines,
    from: span && new Date(span.from).toISOString(),
    to: span && new Date(span.to).toISOString(),
    charged: formatMoney(charged),
    cost: costJson(compared.cost),
    models: costsOf(compared.models).map(([id, cost]) => ({ id, ...costJson(cost) })),
    accounts: costsOf(compared.accounts).map(([id, cost]) => ({ id, name: cost.name, ...costJson(cost) })),
    without_usage: unused,
    unknown_models: unknown,
    skipped: skippedCount,
    skipped_lines: skipped,
  }
}

const costJson = ({ before, after }: Cost): object => ({
  before: formatMoney(before),
  after: formatMoney(after),
  difference: formatMoney(after - before),
  percent: percentOf(before, after),
})
