/**
 * Usage: what was used, summed up in the transaction of each settle, by hour and by day. Pages and charts read these rows
 * and never the ledger.
 */
import type { NanoUsd, SettleRequest } from '#contract'
import type { Database, Row } from './database.ts'
import { LARGEST } from './ledger.ts'
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

/** Counts what a transaction settles and writes it as its last thing, so that exchanges that share a row share its write. */
export interface UsageWriter {
  /** Adds an exchange that has just been settled, once: the caller knows that it was not settled before. */
  add(used: Used, settle: SettleRequest, nowMs: number): void
  /** As a part of the transaction. */
  beforeCommit(): void
  /** The transaction is over, or there was none of it: what was counted is written, or never was. */
  forget(): void
}

/** What is still to be added to a row. */
interface Sum extends Used {
  readonly grain: number
  readonly at: number
  requests: number
  failed: number
  promptTokens: number
  cachedTokens: number
  completionTokens: number
  reasoningTokens: number
  charged: NanoUsd
}

export function createUsageWriter(database: Database): UsageWriter {
  // What would not fit a column stays at its brim, for a sum must never keep a charge from being written.
  const write = database.prepare(`
    INSERT INTO usage (account, grain, at, key, model, requests, failed, prompt_tokens, cached_tokens, completion_tokens,
      reasoning_tokens, charged)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
    ON CONFLICT DO UPDATE SET requests = requests + excluded.requests, failed = failed + excluded.failed,
      prompt_tokens = prompt_tokens + excluded.prompt_tokens, cached_tokens = cached_tokens + excluded.cached_tokens,
      completion_tokens = completion_tokens + excluded.completion_tokens,
      reasoning_tokens = reasoning_tokens + excluded.reasoning_tokens,
      charged = charged + min(excluded.charged, ${LARGEST} - charged)`)
  const sums = new Map<string, Sum>()

  function count(used: Used, grain: number, at: number, settle: SettleRequest): void {
    const name = `${grain} ${at} ${used.account} ${used.key} ${used.model}`
    let sum = sums.get(name)
    if (sum === undefined) {
      const nothing = {
        requests: 0,
        failed: 0,
        promptTokens: 0,
        cachedTokens: 0,
        completionTokens: 0,
        reasoningTokens: 0,
      }
      sum = { ...used, grain, at, ...nothing, charged: 0n }
      sums.set(name, sum)
    }
    sum.requests++
    if (settle.outcome !== 'answered') sum.failed++
    sum.promptTokens += settle.promptTokens
    sum.cachedTokens += settle.cachedTokens
    sum.completionTokens += settle.completionTokens
    sum.reasoningTokens += settle.reasoningTokens
    sum.charged += settle.amount
  }

  return {
    add({ account, key, model }, settle, nowMs) {
      for (const used of [
        { account, key, model },
        { account: ALL, key: ALL, model },
      ]) {
        count(used, HOURS, startOf(HOUR_MS, nowMs), settle)
        count(used, DAYS, startOf(DAY_MS, nowMs), settle)
      }
    },
    beforeCommit() {
      for (const sum of sums.values()) {
        const { account, grain, at, key, model, requests, failed } = sum
        const { promptTokens, cachedTokens, completionTokens, reasoningTokens } = sum
        const charged = sum.charged < LARGEST ? sum.charged : LARGEST
        const tokens = [promptTokens, cachedTokens, completionTokens, reasoningTokens]
        write.run(account, grain, at, key, model, requests, failed, ...tokens, charged)
      }
    },
    forget: () => sums.clear(),
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
