/** Usage over time: which rows a query asks for, and whether they are few enough to be answered. */

import { type Refusal, refuse } from '#contract'
import { TooMuch } from '../store/mistakes.ts'
import type { UsageBy, UsageRow } from '../store/money/reports.ts'
import { addCounts, type Counts, noCounts } from '../store/money/usage.ts'
import type { Store } from '../store/store.ts'
import { TIME } from './inputs.ts'
import type { Properties, Shape } from './schema.ts'
import { showTime, showUsed } from './show.ts'
import type { UsageRowView, UsageView } from './views.ts'

const HOUR_MS = 3_600_000
const DAY_MS = 24 * HOUR_MS
const DEFAULT_SPAN_MS = 30 * DAY_MS
const MAX_MS = 400 * DAY_MS
/** More hours than these are more points than a chart has pixels. */
const MAX_BY_HOUR_MS = 31 * DAY_MS
/** `auto`: hours up to here. */
const HOURS_UNTIL_MS = 3 * DAY_MS

/** What a query for a span of time takes. */
export const RANGE = {
  'from?': { ...TIME, description: 'Where it begins; 30 days before its end, when it is left out.' },
  'to?': { ...TIME, description: 'Where it ends, itself not part of it; now, when it is left out.' },
} satisfies Properties

/** What a query for usage takes beside what its rows are of. */
export const USAGE_RANGE = {
  ...RANGE,
  'step?': {
    type: 'string',
    enum: ['hour', 'day', 'auto'],
    default: 'auto',
    description: 'Rows for each hour or day of UTC; auto: hours up to 3 days when they are few enough, else days.',
  },
} as const satisfies Properties

/** What has rows of its own; the rest is summed over. */
export type By = UsageBy

/** A span of time as a query says it. */
export type RangeQuery = Shape<typeof RANGE>

/** Usage as a query asks for it. */
export type UsageQueryText = Shape<typeof USAGE_RANGE> & { readonly by: By }

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
  if (end - begin > MAX_MS) {
    throw refuse('invalid_value', {
      param: 'from',
      message: `From ${showTime(begin)} to ${showTime(end)} are more than ${MAX_MS / DAY_MS} days.`,
    })
  }
  return { from: begin, to: end }
}

/** What was found for a query, and by which step. */
export interface FoundUsage {
  readonly step: 'hour' | 'day'
  readonly range: Range
  readonly rows: readonly SummedRow[]
}

/** A row of sums; null for what was summed over. */
export type SummedRow = Omit<UsageRow, 'keyId' | 'model'> & {
  readonly keyId: string | null
  readonly model: string | null
}

/** More rows than these are no chart, and an answer that others have to wait for. */
export const MAX_ROWS = 4000
/** So few are smaller than that for any name that a model has in earnest. */
const SURELY_SMALL_ROWS = 1000
const LARGEST_BYTES = 1_000_000

/** One account's usage, or that of all together. Refuses what is too much for an answer. */
export async function findUsage(
  store: Store,
  accountId: string | undefined,
  query: UsageQueryText,
  nowMs: number,
): Promise<FoundUsage> {
  const { from, to } = readRange(query, nowMs)
  const step = query.step === 'auto' ? (to - from <= HOURS_UNTIL_MS ? 'hour' : 'day') : query.step
  if (step === 'hour' && to - from > MAX_BY_HOUR_MS) {
    throw refuse('invalid_value', {
      param: 'step',
      message: `By the hour at most ${MAX_BY_HOUR_MS / DAY_MS} days are shown; ask for step=day, or for less.`,
    })
  }
  const spanMs = step === 'hour' ? HOUR_MS : DAY_MS
  const range = { from: Math.floor(from / spanMs) * spanMs, to: Math.ceil(to / spanMs) * spanMs }
  try {
    const rows = await store.reports.usage({ accountId, step, by: query.by, limit: MAX_ROWS, ...range })
    return { step, range, rows: rows.map(row => summedBy(query.by, row)) }
  } catch (error) {
    if (!(error instanceof TooMuch)) throw error
    if (query.step === 'auto' && step === 'hour')
      return await findUsage(store, accountId, { ...query, step: 'day' }, nowMs)
    throw tooMuch(step, query.by)
  }
}

/** The answer to a query: rows summed by what it names, and their total. */
export async function usageView(
  store: Store,
  accountId: string | undefined,
  query: UsageQueryText,
  nowMs: number,
): Promise<UsageView> {
  const { step, range, rows } = await findUsage(store, accountId, query, nowMs)
  const shown = rows.map(showRow)
  if (shown.length > SURELY_SMALL_ROWS) checkSize(JSON.stringify(shown), step, query.by)
  return { step, from: showTime(range.from), to: showTime(range.to), rows: shown, total: showUsed(totalOf(rows)) }
}

/** Refuses an answer of more than a million bytes: what is written at once, others wait for. */
export function checkSize(text: string, step: 'hour' | 'day', by: By): void {
  if (Buffer.byteLength(text) > LARGEST_BYTES) throw tooMuch(step, by)
}

/** Says what would be less of it. */
function tooMuch(step: 'hour' | 'day', by: By): Refusal {
  const other = { none: [], key: ['by=none'], model: ['by=none'], both: ['by=model', 'by=key'] }[by]
  const advice = ['a shorter time', ...(step === 'hour' ? ['step=day'] : []), ...other]
  const last = advice.pop()
  return refuse('invalid_value', {
    param: by === 'none' ? 'from' : 'by',
    message: `That is more than one answer holds. Ask for ${advice.length > 0 ? `${advice.join(', ')} or ` : ''}${last}.`,
  })
}

function summedBy(by: By, row: UsageRow): SummedRow {
  const keyId = by === 'key' || by === 'both' ? row.keyId : null
  const model = by === 'model' || by === 'both' ? row.model : null
  return { ...row, keyId, model }
}

function totalOf(rows: readonly SummedRow[]): Counts {
  const total = noCounts()
  for (const row of rows) addCounts(total, row)
  return total
}

function showRow(row: SummedRow): UsageRowView {
  return { at: showTime(row.at), key_id: row.keyId, model: row.model, ...showUsed(row) }
}
