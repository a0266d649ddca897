/** Usage, summed up by hour and by day in the transaction of each settle. Pages and charts read these rows, never the ledger. */
import type { NanoUsd, Outcome } from '#contract'
import type { Database, Row, Statement, Value } from '../engine/database.ts'
import { ReadLimitError } from '../mistakes.ts'
import { LARGEST, SETTLE_INDEX, type SettleRecord } from './ledger-fields.ts'
import type { Reports, UsageRow } from './reports.ts'

const HOUR_MS = 3_600_000
const DAY_MS = 24 * HOUR_MS

/** Values of `grain` in the table. */
export const HOURS = 0
export const DAYS = 1

/** Account and key of the rows for all accounts together: no id is empty. */
export const ALL = ''

/** The owner of an exchange, from its hold. */
export interface ExchangeOwner {
  readonly account: string
  readonly key: string
  readonly model: string
}

/** Sums up the settles of a transaction and writes them at its end, so that exchanges with the same row share a write. */
export interface UsageWriter {
  /** Adds a newly settled exchange. The caller makes sure that it was not settled before. */
  add(used: ExchangeOwner, settle: SettleRecord, nowMs: number): void
  /** Adds the difference of a correction to an exchange, at the time of its settle. */
  correct(used: ExchangeOwner, difference: Counts, settledAtMs: number): void
  /** Call it within the transaction. */
  beforeCommit(): void
  /** The transaction has ended: the sums were written or rolled back. */
  forget(): void
}

/** An amount to add to a row. */
interface Sum extends ExchangeOwner, Counts {
  readonly grain: number
  readonly at: number
}

export interface Counts {
  requests: number
  failed: number
  promptTokens: number
  cachedTokens: number
  completionTokens: number
  reasoningTokens: number
  charged: NanoUsd
}

export function noCounts(): Counts {
  return {
    requests: 0,
    failed: 0,
    promptTokens: 0,
    cachedTokens: 0,
    completionTokens: 0,
    reasoningTokens: 0,
    charged: 0n,
  }
}

export function addCounts(sum: Counts, more: Readonly<Counts>): void {
  sum.requests += more.requests
  sum.failed += more.failed
  sum.promptTokens += more.promptTokens
  sum.cachedTokens += more.cachedTokens
  sum.completionTokens += more.completionTokens
  sum.reasoningTokens += more.reasoningTokens
  sum.charged += more.charged
}

/** The number of failed exchanges for an outcome: 1 or 0. */
export const failedOf = (outcome: Outcome): number => (outcome === 'answered' ? 0 : 1)

const COLUMNS = [
  'account',
  'grain',
  'at',
  'key',
  'model',
  'requests',
  'failed',
  'prompt_tokens',
  'cached_tokens',
  'completion_tokens',
  'reasoning_tokens',
  'charged',
] as const

/** Adds rows to those of the table. */
type WriteRows = (rows: readonly Sum[]) => void

// Sums are cut off at the largest integer: an overflow must never prevent a charge.
const ADDED = `
    ON CONFLICT (account, grain, at, key, model) DO UPDATE SET requests = usage.requests + excluded.requests,
      failed = usage.failed + excluded.failed, prompt_tokens = usage.prompt_tokens + excluded.prompt_tokens,
      cached_tokens = usage.cached_tokens + excluded.cached_tokens,
      completion_tokens = usage.completion_tokens + excluded.completion_tokens,
      reasoning_tokens = usage.reasoning_tokens + excluded.reasoning_tokens,
      charged = CASE WHEN usage.charged - ${LARGEST} + excluded.charged > 0 THEN ${LARGEST} ELSE usage.charged + excluded.charged END`

function createRowsWriter(database: Database): WriteRows {
  const into = `INSERT INTO usage (${COLUMNS.join(', ')})`
  const one = database.prepare(`${into} VALUES (${COLUMNS.map(() => '?').join(', ')}) ${ADDED}`)
  return rows => {
    for (const row of rows) one.run(...valuesOf(row))
  }
}

/** The values in the order of the columns. */
function valuesOf(sum: Sum): Value[] {
  const { account, grain, at, key, model, requests, failed } = sum
  const { promptTokens, cachedTokens, completionTokens, reasoningTokens } = sum
  const tokens = [promptTokens, cachedTokens, completionTokens, reasoningTokens]
  return [account, grain, at, key, model, requests, failed, ...tokens, sum.charged < LARGEST ? sum.charged : LARGEST]
}

export function createUsageWriter(database: Database): UsageWriter {
  const write = createRowsWriter(database)
  // By hour and owner. Days, and all accounts together, are made of these.
  const sums = new Map<string, Sum>()

  function sumOf(into: Map<string, Sum>, { account, key, model }: ExchangeOwner, grain: number, at: number): Sum {
    const name = `${grain} ${at} ${account} ${key} ${model}`
    let sum = into.get(name)
    if (sum === undefined) {
      sum = { account, key, model, grain, at, ...noCounts() }
      into.set(name, sum)
    }
    return sum
  }

  return {
    add(used, settle, nowMs) {
      addCounts(sumOf(sums, used, HOURS, startOf(HOUR_MS, nowMs)), {
        requests: 1,
        failed: failedOf(settle[SETTLE_INDEX.outcome]),
        promptTokens: settle[SETTLE_INDEX['usage.input']],
        cachedTokens: settle[SETTLE_INDEX['usage.cached_input']],
        completionTokens: settle[SETTLE_INDEX['usage.output']],
        reasoningTokens: settle[SETTLE_INDEX['usage.reasoning']],
        charged: settle[SETTLE_INDEX.amount],
      })
    },
    correct(used, difference, settledAtMs) {
      addCounts(sumOf(sums, used, HOURS, startOf(HOUR_MS, settledAtMs)), difference)
    },
    beforeCommit() {
      const rows = new Map<string, Sum>()
      for (const sum of sums.values()) {
        for (const used of [sum, { account: ALL, key: ALL, model: sum.model }]) {
          addCounts(sumOf(rows, used, HOURS, sum.at), sum)
          addCounts(sumOf(rows, used, DAYS, startOf(DAY_MS, sum.at)), sum)
        }
      }
      // In one order, independent of the order of the settles.
      write([...rows].sort(byName).map(([, row]) => row))
    },
    forget: () => sums.clear(),
  }
}

/** Maximum number of rows that are summed up for one answer, because a sum blocks the event loop. */
export const MAX_SUMMED = 40_000

/** Reads rows by time, then key and model, in the order of the primary key. Only sums by model have to be sorted. */
export function createUsageReader(database: Database): Reports['usage'] {
  const find = {
    none: prepareSums(database, "'' AS key, '' AS model", 'at'),
    key: prepareSums(database, "key, '' AS model", 'at, key'),
    model: prepareSums(database, "'' AS key, model", 'at, model'),
    both: database.prepareMoney(`
      SELECT at, key, model, 1 AS summed, requests, failed, prompt_tokens, cached_tokens, completion_tokens,
        reasoning_tokens, charged / ${HALF} AS charged_high, charged % ${HALF} AS charged_low
      FROM usage WHERE account = ? AND grain = ? AND at >= ? AND at < ? ORDER BY at, key, model LIMIT ?`),
  }
  return ({ accountId = ALL, step, by = 'both', from, to, limit = MAX_SUMMED }) => {
    const [grain, span] = step === 'hour' ? [HOURS, HOUR_MS] : [DAYS, DAY_MS]
    const times = [startOf(span, from), Math.ceil(to)] as const
    const limits = by === 'both' ? [Math.min(MAX_SUMMED, limit) + 1] : [MAX_SUMMED + 1, limit + 1]
    const rows = find[by].all(accountId, grain, ...times, ...limits)
    if (rows.length > limit) throw new ReadLimitError(`there are more than ${limit} rows of usage`)
    const summed = rows.reduce((sum, row) => sum + Number(row['summed']), 0)
    if (summed > MAX_SUMMED) throw new ReadLimitError(`there are more than ${MAX_SUMMED} rows of usage to sum`)
    return rows.map(toUsageRow)
  }
}

// Money is summed in two halves, which cannot overflow SQLite's integers. Counts use `total`: a damaged one then makes a wrong figure
// instead of an error.
function prepareSums(database: Database, names: string, group: string): Statement {
  const { total } = database.dialect
  return database.prepareMoney(`
    SELECT at, ${names}, count(*) AS summed, ${total}(requests) AS requests, ${total}(failed) AS failed,
      ${total}(prompt_tokens) AS prompt_tokens, ${total}(cached_tokens) AS cached_tokens,
      ${total}(completion_tokens) AS completion_tokens, ${total}(reasoning_tokens) AS reasoning_tokens,
      sum(charged / ${HALF}) AS charged_high, sum(charged % ${HALF}) AS charged_low
    FROM (SELECT * FROM usage WHERE account = ? AND grain = ? AND at >= ? AND at < ? ORDER BY at, key, model LIMIT ?) AS found
    GROUP BY ${group} ORDER BY ${group} LIMIT ?`)
}

const HALF = 1_000_000_000n

/** The start of the span that contains a time. */
function startOf(spanMs: number, ms: number): number {
  return Math.floor(ms / spanMs) * spanMs
}

function toUsageRow(row: Row): UsageRow {
  return {
    at: Number(row['at']),
    keyId: row['key'] as string,
    model: row['model'] as string,
    requests: Number(row['requests']),
    failed: Number(row['failed']),
    promptTokens: Number(row['prompt_tokens']),
    cachedTokens: Number(row['cached_tokens']),
    completionTokens: Number(row['completion_tokens']),
    reasoningTokens: Number(row['reasoning_tokens']),
    charged: (row['charged_high'] as NanoUsd) * HALF + (row['charged_low'] as NanoUsd),
  }
}

const byName = ([a]: readonly [string, unknown], [b]: readonly [string, unknown]): number => (a < b ? -1 : 1)
