/** Formats money, times and tables of the commands for people. */
import { formatMoney, type NanoUsd, visible, visibleJson } from '#contract'

/**
 * Formats money exactly: `"10.000000000"` is `$10`, `"5.250000000"` is `$5.25`, `"0.000123400"` is `$0.0001234`.
 *
 * @param dollars with 9 decimals, as in JSON
 */
export function showMoney(dollars: string): string {
  const negative = dollars.startsWith('-')
  const [whole = '0', decimals = ''] = dollars.replace('-', '').split('.')
  const needed = decimals.replace(/0+$/, '')
  const sign = negative ? '-$' : '$'
  return needed === '' ? `${sign}${whole}` : `${sign}${whole}.${needed.padEnd(2, '0')}`
}

/** A time to the minute, in UTC: `2027-01-31 00:00 UTC`. */
export function showTime(iso: string): string {
  return `${iso.slice(0, 10)} ${iso.slice(11, 16)} UTC`
}

/** A count with its noun: `1 provider`, `3 models`. */
export function count(number: number, noun: string): string {
  return `${number} ${noun}${number === 1 ? '' : 's'}`
}

export interface Column {
  readonly title: string
  /** Aligns money and numbers to the right. */
  readonly right?: boolean
}

/** Aligned rows under titles, without trailing spaces. The title line is omitted if all titles are empty. */
export function table(columns: readonly Column[], rows: readonly (readonly string[])[]): string {
  const titles = columns.map(({ title }) => title)
  const lines = [...(titles.some(Boolean) ? [titles] : []), ...rows.map(row => row.map(visible))]
  const widths = columns.map((_, at) => Math.max(...lines.map(line => width(line[at] ?? ''))))
  return lines
    .map(line =>
      columns
        .map((column, at) => pad(line[at] ?? '', widths[at] ?? 0, column.right ?? false))
        .join('  ')
        .trimEnd(),
    )
    .map(line => `${line}\n`)
    .join('')
}

/** Lines of names and aligned values. */
export function pairs(entries: readonly (readonly [string, string])[]): string {
  const shown = entries.map(entry => entry.map(visible) as [string, string])
  const widest = Math.max(...shown.map(([name]) => width(name)))
  return shown.map(([name, value]) => `  ${pad(name, widest, false)}  ${value}\n`).join('')
}

/** A value as indented JSON. */
export function json(value: unknown): string {
  return `${visibleJson(JSON.stringify(value, null, 2))}\n`
}

function pad(text: string, to: number, right: boolean): string {
  const space = ' '.repeat(Math.max(0, to - width(text)))
  return right ? space + text : text + space
}

function width(text: string): number {
  return [...text].length
}

export function showNano(nano: NanoUsd): string {
  return showMoney(formatMoney(nano))
}
