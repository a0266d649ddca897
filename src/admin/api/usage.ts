/** Usage over time: which rows a query asks for, and their sums by what the query names. */
import { refuse } from '#contract'
import type { UsageRow } from '../../store/reports.ts'
import type { Store } from '../../store/store.ts'
import { TIME } from './inputs.ts'
import type { Schema } from './route.ts'
import { showTime, showUsed } from './show.ts'
import type { UsageRowView, UsageView } from './views.ts'

const HOUR_MS = 3_600_000
const DAY_MS = 24 * HOUR_MS
const DEFAULT_SPAN_MS = 30 * DAY_MS
const LONGEST_MS = 400 * DAY_MS
/** More hours than these are more points than a chart has pixels. */
const LONGEST_BY_HOUR_MS = 31 * DAY_MS
/** `auto`: hours up to here. */
const HOURS_UNTIL_MS = 3 * DAY_MS

/** What a query for a span of time takes. */
export const RANGE: Readonly<Record<string, Schema>> = {
  'from?': { ...TIME, description: 'Where it begins; 30 days before its end, when it is left out.' },
  'to?': { ...TIME, description: 'Where it ends, itself not part of it; now, when it is left out.' },
}

/** What a query for usage takes beside what its rows are of. */
export const USAGE_RANGE: Readonly<Record<string, Schema>> = {
  ...RANGE,
  'step?': {
    type: 'string',
    enum: ['hour', 'day', 'auto'],
    default: 'auto',
    description: 'Rows for each hour or day of UTC; auto: hours up to 3 days, else days.',
  },
}

/** What has rows of its own; the rest is summed over. */
export type By = 'none' | 'key' | 'model' | 'both'

/** A span of time as a query says it. */
export interface RangeQuery {
  readonly from?: string
  readonly to?: string
}

/** Usage as a query asks for it, but for what its rows are of. */
export interface UsageQueryText extends RangeQuery {
  readonly step: 'hour' | 'day' | 'auto'
}

/** From `from` on, before `to`. */
export interface Range {
  readonly from: number
  readonly to: number
}

/** The range of a query, at most 400 days long. */
export function readRange({ from, to }: RangeQuery, nowMs: number): Range {
  const end = to === undefined ? nowMs : Date.parse(to)
  const begin = from === undefined ? end - DEFAULT_SPAN_MS : Date.parse(from)
  if (begin >= end) throw refuse('invalid_value', { param: 'from', message: '`from` must be before `to`.' })
  if (end - begin > LONGEST_MS) {
    throw refuse('invalid_value', {
      param: 'from',
      message: `From ${showTime(begin)} to ${showTime(end)} are more than ${LONGEST_MS / DAY_MS} days.`,
    })
  }
  return { from: begin, to: end }
}

/** One account's usage, or that of all together; not yet summed. */
export function findUsage(
  store: Store,
  accountId: string | undefined,
  query: UsageQueryText,
  nowMs: number,
): { readonly step: 'hour' | 'day'; readonly range: Range; readonly rows: readonly UsageRow[] } {
  const { from, to } = readRange(query, nowMs)
  const step = query.step === 'auto' ? (to - from <= HOURS_UNTIL_MS ? 'hour' : 'day') : query.step
  if (step === 'hour' && to - from > LONGEST_BY_HOUR_MS) {
    throw refuse('invalid_value', {
      param: 'step',
      message: `By the hour at most ${LONGEST_BY_HOUR_MS / DAY_MS} days are shown; ask for step=day, or for less.`,
    })
  }
  const spanMs = step === 'hour' ? HOUR_MS : DAY_MS
  const range = { from: Math.floor(from / spanMs) * spanMs, to: Math.ceil(to / spanMs) * spanMs }
  const rows = store.reports.usage({ ...(accountId === undefined ? {} : { accountId }), step, ...range })
  return { step, range, rows }
}

/** The answer to a query: rows summed by what it names, and their total. */
export function usageView(
  store: Store,
  accountId: string | undefined,
  query: UsageQueryText & { readonly by: By },
  nowMs: number,
): UsageView {
  const { step, range, rows } = findUsage(store, accountId, query, nowMs)
  return {
    step,
    from: showTime(range.from),
    to: showTime(range.to),
    rows: sumRows(rows, query.by).map(showRow),
    total: showUsed(sumRows(rows, 'nothing')[0] ?? NOTHING),
  }
}

/** A row of sums; null for what was summed over. */
export type SummedRow = Omit<UsageRow, 'keyId' | 'model'> & {
  readonly keyId: string | null
  readonly model: string | null
}

const NOTHING: SummedRow = {
  at: 0,
  keyId: null,
  model: null,
  requests: 0,
  failed: 0,
  promptTokens: 0,
  cachedTokens: 0,
  completionTokens: 0,
  reasoningTokens: 0,
  charged: 0n,
}

/** By time, then key and model; `nothing`: one sum of all, over time too. */
export function sumRows(rows: readonly UsageRow[], by: By | 'nothing'): SummedRow[] {
  const byKey = by === 'key' || by === 'both'
  const byModel = by === 'model' || by === 'both'
  const sums = new Map<string, Sum>()
  for (const row of rows) {
    const at = by === 'nothing' ? 0 : row.at
    const keyId = byKey ? row.keyId : null
    const model = byModel ? row.model : null
    // A model may be named in any way, an id has no space in it.
    const name = `${at} ${keyId} ${model}`
    let sum = sums.get(name)
    if (sum === undefined) sums.set(name, (sum = { ...NOTHING, at, keyId, model }))
    add(sum, row)
  }
  // Without the keys, what was in order by them is not in order any more.
  return [...sums.values()].sort(inOrder)
}

type Sum = { -readonly [Name in keyof SummedRow]: SummedRow[Name] }

/** In place: there may be tens of thousands of rows. */
function add(sum: Sum, row: UsageRow): void {
  sum.requests += row.requests
  sum.failed += row.failed
  sum.promptTokens += row.promptTokens
  sum.cachedTokens += row.cachedTokens
  sum.completionTokens += row.completionTokens
  sum.reasoningTokens += row.reasoningTokens
  sum.charged += row.charged
}

function inOrder(a: SummedRow, b: SummedRow): number {
  return a.at - b.at || compare(a.keyId ?? '', b.keyId ?? '') || compare(a.model ?? '', b.model ?? '')
}

function compare(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0
}

function showRow(row: SummedRow): UsageRowView {
  return { at: showTime(row.at), key_id: row.keyId, model: row.model, ...showUsed(row) }
}
