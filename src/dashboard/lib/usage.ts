/**
 * Usage as chart data: gaps filled with zeros, sums by model or key, and the smallest series combined into one. Every figure is
 * a `bigint`; only a bar's height is a floating-point number.
 */
import type { KeyView, UsageRowView } from '../../api/views.ts'
import { compact, dollars, money, nano } from './format.ts'

/** A chart's measure: nano-dollars, requests, or tokens of prompts and answers. */
export type Metric = 'charged' | 'requests' | 'tokens'

/** The titles of metrics. */
export const METRIC_NAMES: Readonly<Record<Metric, string>> = {
  charged: 'Spend',
  requests: 'Requests',
  tokens: 'Tokens',
}

/** The division of the bars. */
export type By = 'none' | 'model' | 'key'

/** The span of one bar, in UTC. */
export type Step = 'hour' | 'day'

/** The id of the combined smallest series. No model or key has this name: theirs have no spaces. */
export const OTHER = ' other'

/** The maximum number of series with their own colour. The others are combined into `OTHER`. */
export const MAX_SERIES = 8

/** One colour of a chart. */
export interface Series {
  /** A model's or key's id, `OTHER`, or an empty string when nothing is divided. */
  readonly id: string
  /** One for each span. */
  readonly values: readonly bigint[]
  readonly total: bigint
}

/** The data of a chart. */
export interface ChartData {
  /** The beginnings of the spans, milliseconds since the epoch, without gaps. */
  readonly times: readonly number[]
  /** The largest first; `OTHER` last. */
  readonly series: readonly Series[]
  /** Of all series, one for each span. */
  readonly totals: readonly bigint[]
}

/** The parameters of a chart. */
export interface ChartQuery {
  readonly step: Step
  /** ISO 8601; without them from the first row to the last. */
  readonly from?: string | undefined
  readonly to?: string | undefined
  readonly metric: Metric
  readonly by: By
}

/** Rows of the API as series without gaps. */
export function chartData(rows: readonly UsageRowView[], { step, from, to, metric, by }: ChartQuery): ChartData {
  const times = spans(step, ...bounds(rows, step, from, to))
  const place = new Map(times.map((at, index) => [at, index]))
  const groups = new Map<string, bigint[]>()
  for (const row of rows) {
    const index = place.get(spanOf(Date.parse(row.at), step))
    if (index === undefined) continue
    const id = groupOf(row, by)
    let values = groups.get(id)
    if (!values) groups.set(id, (values = times.map(() => 0n)))
    values[index]! += amountIn(row, metric)
  }
  const all = [...groups].map(([id, values]) => ({ id, values, total: total(values) }))
  const series = combineSmallest(all.sort(largestFirst))
  return { times, series, totals: stacked(series, times.length)[0] ?? times.map(() => 0n) }
}

/**
 * A colour for each series, from 1. It is the place of the id in `list`, which does not depend on the shown data. So a model has
 * the same colour on every page and day. If two ids have the same colour, the later one in the list gets the next free colour.
 */
export function coloursOf(ids: readonly string[], list: readonly string[]): ReadonlyMap<string, number> {
  const colours = new Map<string, number>()
  const places = ids
    .filter(id => id !== OTHER)
    .map(id => ({ id, place: list.indexOf(id) }))
    // Ids that are not in the list sort after it.
    .map(({ id, place }) => ({ id, place: place < 0 ? list.length + hashOf(id) : place }))
    .sort((one, other) => one.place - other.place || (one.id < other.id ? -1 : 1))
  const taken = new Set<number>()
  for (const { id, place } of places) {
    let colour = place % MAX_SERIES
    while (taken.has(colour)) colour = (colour + 1) % MAX_SERIES
    taken.add(colour)
    colours.set(id, colour + 1)
  }
  return colours
}

/** A small hash of a name. */
function hashOf(name: string): number {
  let size = 0
  for (const character of name) size = (size * 31 + character.codePointAt(0)!) % 65_521
  return size
}

/**
 * The heights of stacked bars: each series plus all later ones. If each series is drawn in front of the one before, the bars look
 * stacked, with the last series at the bottom.
 */
export function stacked(series: readonly { readonly values: readonly bigint[] }[], length: number): bigint[][] {
  const sums: bigint[][] = []
  let above: readonly bigint[] = Array.from({ length }, () => 0n)
  for (const { values } of series.toReversed()) {
    const next = values.map((value, index) => value + above[index]!)
    sums.push(next)
    above = next
  }
  return sums.toReversed()
}

/** Sums over time, the most expensive first. */
export interface UsageSum {
  readonly id: string
  readonly requests: number
  readonly failed: number
  readonly promptTokens: number
  readonly cachedTokens: number
  readonly completionTokens: number
  readonly charged: bigint
}

/** The sums by model or by key. */
export function sumsBy(rows: readonly UsageRowView[], by: By): UsageSum[] {
  const sums = new Map<string, UsageSum>()
  for (const row of rows) {
    const id = groupOf(row, by)
    const before = sums.get(id) ?? { ...NOTHING, id }
    sums.set(id, {
      id,
      requests: before.requests + row.requests,
      failed: before.failed + row.failed,
      promptTokens: before.promptTokens + row.prompt_tokens,
      cachedTokens: before.cachedTokens + row.cached_tokens,
      completionTokens: before.completionTokens + row.completion_tokens,
      charged: before.charged + nano(row.charged),
    })
  }
  return [...sums.values()].sort(
    (a, b) => compare(b.charged, a.charged) || b.requests - a.requests || (a.id < b.id ? -1 : 1),
  )
}

const NOTHING = {
  requests: 0,
  failed: 0,
  promptTokens: 0,
  cachedTokens: 0,
  completionTokens: 0,
  charged: 0n,
}

/** The predefined ranges. */
export const RANGES = {
  '24h': { label: '24 hours', ms: 86_400_000, step: 'hour' },
  '7d': { label: '7 days', ms: 7 * 86_400_000, step: 'day' },
  '30d': { label: '30 days', ms: 30 * 86_400_000, step: 'day' },
  '90d': { label: '90 days', ms: 90 * 86_400_000, step: 'day' },
} as const satisfies Record<string, { label: string; ms: number; step: Step }>

export type RangeName = keyof typeof RANGES

/** The API's parameters of a range: whole spans that end with the current one. */
export function rangeOf(
  name: RangeName,
  now: number,
): { readonly from: string; readonly to: string; readonly step: Step } {
  const { ms, step } = RANGES[name]
  const to = spanOf(now, step) + LENGTH[step]
  return { from: new Date(to - ms).toISOString(), to: new Date(to).toISOString(), step }
}

/** The API's limit for one request. */
const MAX_DAYS = 400

/** The range of two date fields, both days included; or the problem with them. */
export function customRange(
  first: string,
  last: string,
): { readonly from: string; readonly to: string; readonly step: Step } | { readonly problem: string } {
  const [from, until] = [Date.parse(`${first}T00:00:00Z`), Date.parse(`${last}T00:00:00Z`)]
  if (Number.isNaN(from) || Number.isNaN(until)) return { problem: 'Choose both dates.' }
  if (until < from) return { problem: 'The last day is before the first. Choose a later last day.' }
  const to = until + LENGTH.day
  const days = (to - from) / LENGTH.day
  if (days > MAX_DAYS) return { problem: `The range has ${days} days. Choose at most ${MAX_DAYS}.` }
  return { from: new Date(from).toISOString(), to: new Date(to).toISOString(), step: days <= 3 ? 'hour' : 'day' }
}

/** The values of the grid lines: at most four above zero, and the last at least as high as the highest bar. */
export function gridOf(most: number, metric: Metric): number[] {
  if (most <= 0) return [0, 1]
  let power = Math.floor(Math.log10(most)) - 1
  // Requests and tokens are whole numbers.
  if (metric !== 'charged') power = Math.max(0, power)
  for (; ; power++) {
    for (const digit of [1, 2, 5]) {
      // Computed with whole powers only: 3 * 0.1 is not 0.3.
      const at = (line: number) => (power < 0 ? (line * digit) / 10 ** -power : line * digit * 10 ** power)
      const lines = Math.max(1, Math.ceil(most / at(1) - 1e-9))
      if (lines <= 4) return Array.from({ length: lines + 1 }, (_, line) => at(line))
    }
  }
}

/** The text of a figure: `$0.0523`, or `12.3k`. */
export function figure(value: bigint, metric: Metric): string {
  return metric === 'charged' ? money(dollars(value)) : compact(Number(value))
}

/** The height of a figure: dollars or counts as a number, for drawing only. */
export function height(value: bigint, metric: Metric): number {
  return metric === 'charged' ? Number(value) / 1e9 : Number(value)
}

/** The names of keys, by id. Keys with equal names also get the end of their secret. */
export function keyNames(keys: readonly KeyView[]): Readonly<Record<string, string>> {
  const often = new Map<string, number>()
  for (const { name } of keys) often.set(name, (often.get(name) ?? 0) + 1)
  return Object.fromEntries(
    keys.map(({ id, name, secrets }) => [
      id,
      often.get(name) === 1 ? name : `${name} (…${secrets[0]?.last4 ?? id.slice(-4)})`,
    ]),
  )
}

/** A span's full name: `21 Nov 2026` (days are in UTC), or `21 Nov, 14:00`, in the browser's time zone. */
export function spanName(at: number, step: Step): string {
  return (step === 'day' ? DAY_NAME : HOUR_NAME).format(at)
}

/** The labels below the bars: at most `most`, evenly spaced. */
export function tickLabels(times: readonly number[], step: Step, most: number): { at: number; label: string }[] {
  if (step === 'day') {
    const every = nice(times.length / most, [1, 2, 3, 5, 7, 14, 30, 60])
    // Counted from the end: today always has its date.
    const chosen = times.filter((_, index) => (times.length - 1 - index) % every === 0)
    return chosen.map(at => ({ at, label: SHORT_DAY.format(at) }))
  }
  const every = nice(times.length / most, [1, 2, 3, 4, 6, 12, 24, 48])
  const hourOf = (at: number): number => new Date(at).getHours()
  const chosen =
    every > 24 ? times.filter((_, index) => index % every === 0) : times.filter(at => hourOf(at) % every === 0)
  return chosen.map(at => ({ at, label: (hourOf(at) === 0 ? MIDNIGHT : HOUR).format(at) }))
}

function nice(least: number, steps: readonly number[]): number {
  return steps.find(step => step >= least) ?? Math.ceil(least)
}

const DAY_NAME = new Intl.DateTimeFormat('en-GB', { day: 'numeric', month: 'short', year: 'numeric', timeZone: 'UTC' })
const SHORT_DAY = new Intl.DateTimeFormat('en-GB', { day: 'numeric', month: 'short', timeZone: 'UTC' })
const HOUR_NAME = new Intl.DateTimeFormat('en-GB', {
  day: 'numeric',
  month: 'short',
  hour: '2-digit',
  minute: '2-digit',
})
const HOUR = new Intl.DateTimeFormat('en-GB', { hour: '2-digit', minute: '2-digit' })
const MIDNIGHT = new Intl.DateTimeFormat('en-GB', { day: 'numeric', month: 'short' })

const LENGTH = { hour: 3_600_000, day: 86_400_000 } as const

function spanOf(at: number, step: Step): number {
  return at - (at % LENGTH[step])
}

function spans(step: Step, from: number, to: number): number[] {
  const times: number[] = []
  for (let at = spanOf(from, step); at < to; at += LENGTH[step]) times.push(at)
  return times
}

function bounds(rows: readonly UsageRowView[], step: Step, from?: string, to?: string): [from: number, to: number] {
  const times = rows.map(row => Date.parse(row.at))
  return [
    from === undefined ? Math.min(...times) : Date.parse(from),
    to === undefined ? Math.max(...times) + LENGTH[step] : Date.parse(to),
  ]
}

function groupOf(row: UsageRowView, by: By): string {
  if (by === 'none') return ''
  return (by === 'model' ? row.model : row.key_id) ?? ''
}

function amountIn(row: UsageRowView, metric: Metric): bigint {
  if (metric === 'charged') return nano(row.charged)
  return BigInt(metric === 'requests' ? row.requests : row.prompt_tokens + row.completion_tokens)
}

/** Combines the smallest series into one: only `MAX_SERIES` colours can be distinguished. */
function combineSmallest(all: readonly Series[]): readonly Series[] {
  if (all.length <= MAX_SERIES) return all
  const rest = all.slice(MAX_SERIES - 1)
  const values = rest[0]!.values.map((_, index) => total(rest.map(each => each.values[index]!)))
  return [...all.slice(0, MAX_SERIES - 1), { id: OTHER, values, total: total(values) }]
}

function largestFirst(a: Series, b: Series): number {
  return compare(b.total, a.total) || (a.id < b.id ? -1 : 1)
}

function compare(a: bigint, b: bigint): number {
  return a < b ? -1 : a > b ? 1 : 0
}

function total(values: readonly bigint[]): bigint {
  return values.reduce((sum, value) => sum + value, 0n)
}
