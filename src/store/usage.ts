/**
 * Usage: what was used, summed up in the transaction of each settle, by hour and by day. Pages and charts read these rows
 * and never the ledger.
 */
import type { NanoUsd, SettleRequest } from '#contract'
import type { Database, Row } from './database.ts'
import type { Reports, UsageRow } from './reports.ts'

const HOUR_MS = 3_600_000
const DAY_MS = 24 * HOUR_MS

/** `grain` in the table. */
export const HOURS = 0
export const DAYS = 1

/** Under which account and key the rows of all accounts together stand: no id is empty. */
export const ALL = ''

/** Whose exchange it was, as its hold says. */
export interface Used {
  readonly account: string
  readonly key: string
  readonly model: string
}

/** Adds an exchange that has just been settled, once: the caller knows that it was not settled before. */
export function createUsageWriter(database: Database): (used: Used, settle: SettleRequest, nowMs: number) => void {
  // One statement for the four rows: half the cost of four. What would not fit a column stays at its brim, for a sum must
  // never keep a charge from being written.
  const add = database.prepare(`
    INSERT INTO usage (account, grain, at, key, model, requests, failed, prompt_tokens, cached_tokens, completion_tokens,
      reasoning_tokens, charged)
    VALUES (?1, ${HOURS}, ?2, ?4, ?5, 1, ?6, ?7, ?8, ?9, ?10, ?11), (?1, ${DAYS}, ?3, ?4, ?5, 1, ?6, ?7, ?8, ?9, ?10, ?11),
      ('${ALL}', ${HOURS}, ?2, '${ALL}', ?5, 1, ?6, ?7, ?8, ?9, ?10, ?11),
      ('${ALL}', ${DAYS}, ?3, '${ALL}', ?5, 1, ?6, ?7, ?8, ?9, ?10, ?11)
    ON CONFLICT DO UPDATE SET requests = requests + 1, failed = failed + excluded.failed,
      prompt_tokens = prompt_tokens + excluded.prompt_tokens, cached_tokens = cached_tokens + excluded.cached_tokens,
      completion_tokens = completion_tokens + excluded.completion_tokens,
      reasoning_tokens = reasoning_tokens + excluded.reasoning_tokens,
      charged = charged + min(excluded.charged, 9223372036854775807 - charged)`)
  return ({ account, key, model }, settle, nowMs) => {
    add.run(
      account,
      startOf(HOUR_MS, nowMs),
      startOf(DAY_MS, nowMs),
      key,
      model,
      settle.outcome === 'answered' ? 0 : 1,
      settle.promptTokens,
      settle.cachedTokens,
      settle.completionTokens,
      settle.reasoningTokens,
      settle.amount,
    )
  }
}

/** Rows by time, then key and model: as the primary key has them. */
export function createUsageReader(database: Database): Reports['usage'] {
  const find = database.prepareMoney(`
    SELECT at, key, model, requests, failed, prompt_tokens, cached_tokens, completion_tokens, reasoning_tokens, charged
    FROM usage WHERE account = ? AND grain = ? AND at >= ? AND at < ? ORDER BY at, key, model`)
  return ({ accountId = ALL, step, from, to }) => {
    const [grain, span] = step === 'hour' ? [HOURS, HOUR_MS] : [DAYS, DAY_MS]
    return find.all(accountId, grain, startOf(span, from), Math.ceil(to)).map(toUsageRow)
  }
}

/** Of the span that a time falls into. */
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
    charged: row['charged'] as NanoUsd,
  }
}
