/** Usage over time: the rows of a query, and the limit of their number. */

import { type Refusal, refuse } from '#contract'
import { ReadLimitError } from '../store/mistakes.ts'
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
/** With more hours a chart would have more points than pixels. */
const MAX_BY_HOUR_MS = 31 * DAY_MS
/** `auto` uses hours up to this length. */
const HOURS_UNTIL_MS = 3 * DAY_MS

/** The query of a range of time. */
export const RANGE = {
  'from?': { ...TIME, description: 'The start. Default: 30 days before the end.' },
  'to?': { ...TIME, description: 'The end, exclusive. Default: now.' },
} satisfies Properties

/** The query of usage, without the dimensions of rows. */
export const USAGE_RANGE = {
  ...RANGE,
  'step?': {
    type: 'string',
    enum: ['hour', 'day', 'auto'],
    default: 'auto',
    description: 'Rows for each hour or day in UTC. auto: hours for up to 3 days if they are few enough, else days.',
  },
} as const satisfies Properties

/** The dimensions with rows of their own; others are summed. */
export type By = UsageBy

/** The range of time in a query. */
export type RangeQuery = Shape<typeof RANGE>

/** A query for usage. */
export type UsageQueryText = Shape<typeof USAGE_RANGE> & { readonly by: By }

/** From `from` (inclusive) to `to` (exclusive). */
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
      message: `From ${showTime(begin)} to ${showTime(end)} is more than ${MAX_MS / DAY_MS} days.`,
    })
  }
  return { from: begin, to: end }
}

/** The rows of a query, and their step. */
export interface FoundUsage {
  readonly step: 'hour' | 'day'
  readonly range: Range
  readonly rows: readonly SummedRow[]
}

/** A row of sums; null for a summed dimension. */
export type SummedRow = Omit<UsageRow, 'keyId' | 'model'> & {
  readonly keyId: string | null
  readonly model: string | null
}

/** More rows do not make a chart, and such an answer would delay other requests. */
export const MAX_ROWS = 4000
/** With at most this many rows the answer is below the limit for all realistic names of models. */
const SURELY_SMALL_ROWS = 1000
const LARGEST_BYTES = 1_000_000

/** The usage of one account, or of all together. Refuses a query with too many rows. */
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
      message: `With step=hour the maximum is ${MAX_BY_HOUR_MS / DAY_MS} days. Use step=day, or a shorter range.`,
    })
  }
  const spanMs = step === 'hour' ? HOUR_MS : DAY_MS
  const range = { from: Math.floor(from / spanMs) * spanMs, to: Math.ceil(to / spanMs) * spanMs }
  try {
    const rows = await store.reports.usage({ accountId, step, by: query.by, limit: MAX_ROWS, ...range })
    return { step, range, rows: rows.map(row => summedBy(query.by, row)) }
  } catch (error) {
    if (!(error instanceof ReadLimitError)) throw error
    if (query.step === 'auto' && step === 'hour')
      return await findUsage(store, accountId, { ...query, step: 'day' }, nowMs)
    throw tooMuch(step, query.by)
  }
}

/** The answer to a query: rows by its dimensions, and their total. */
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

/** Refuses an answer above a million bytes, because writing it at once would delay other requests. */
export function checkSize(text: string, step: 'hour' | 'day', by: By): void {
  if (Buffer.byteLength(text) > LARGEST_BYTES) throw tooMuch(step, by)
}

/** The advice for a smaller query. */
function tooMuch(step: 'hour' | 'day', by: By): Refusal {
  const other = { none: [], key: ['by=none'], model: ['by=none'], both: ['by=model', 'by=key'] }[by]
  const advice = ['a shorter time', ...(step === 'hour' ? ['step=day'] : []), ...other]
  const last = advice.pop()
  return refuse('invalid_value', {
    param: by === 'none' ? 'from' : 'by',
    message: `The answer would be too large. Use ${advice.length > 0 ? `${advice.join(', ')} or ` : ''}${last}.`,
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
