/**
 * Settles that come late. Another process may have settled the exchange in the meantime without knowing its usage (recovery.ts):
 * the writer was cut off from the database, or suspended, for longer than its lease. The ledger is append-only, so the late settle
 * adds a correction. It books the difference, once for each exchange, and its fields replace those of the settle that recovery wrote.
 */
import type { Clock, NanoUsd } from '#contract'
import type { Database } from '../engine/database.ts'
import type { KeyTotals } from './key-totals.ts'
import type { SettleRecord } from './settle-record.ts'
import { failedOf, type UsageWriter, type Used } from './usage.ts'

type Recovered = {
  readonly amount: NanoUsd
  readonly at: bigint
  readonly outcome: SettleRecord['outcome']
  readonly prompt_tokens: bigint
  readonly cached_tokens: bigint
  readonly completion_tokens: bigint
  readonly reasoning_tokens: bigint
}

export interface CorrectionParts {
  readonly keys: KeyTotals
  readonly usage: UsageWriter
  readonly clock: Clock
}

/**
 * Prepares the operation, which runs in the transaction of the late settle.
 * @returns whether it corrected; false: the settle that is there knew the usage, or was corrected before
 */
export function createCorrection(
  database: Database,
  { keys, usage, clock }: CorrectionParts,
): (late: SettleRecord, hold: Used) => boolean {
  const findRecovered = database.prepareMoney(`
    SELECT amount, at, outcome, prompt_tokens, cached_tokens, completion_tokens, reasoning_tokens FROM ${database.dialect.only('event')}
    WHERE id = ? AND kind = 1 AND source = 'recovered'
      AND NOT EXISTS (SELECT 1 FROM correction WHERE correction.id = event.id)`)
  // In PostgreSQL this locks the row until COMMIT, so that what is free stays free.
  const lock = database.prepare('UPDATE balance SET posted = posted WHERE account = ?')
  const findFree = database.prepareMoney('SELECT posted - held AS free FROM balance WHERE account = ?')
  const put = database.prepare(`
    INSERT INTO correction (id, kind, account, amount, at, settled_at, key, model, overrun, source, outcome, code, prompt_tokens,
      cached_tokens, cache_write_tokens, completion_tokens, reasoning_tokens, searches, attempts, trail)
    VALUES (?, 1, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`)
  const post = database.prepare('UPDATE balance SET posted = posted - ? WHERE account = ?')

  return (late, hold) => {
    if (late.source === 'recovered') return false
    lock.run(hold.account)
    const recovered = findRecovered.get(late.exchange) as Recovered | undefined
    if (recovered === undefined) return false
    const difference = late.amount - recovered.amount
    const free = findFree.get(hold.account)!['free'] as NanoUsd
    const booked = least(difference, least(free, keys.free(hold.key) ?? free))
    const settledAt = Number(recovered.at)
    put.run(
      late.exchange,
      hold.account,
      booked,
      clock.now(),
      settledAt,
      hold.key,
      hold.model,
      // Neither the account nor the key can pay the rest any more.
      late.overrun + difference - booked,
      late.source,
      late.outcome,
      late.code,
      late.promptTokens,
      late.cachedTokens,
      late.cacheWriteTokens,
      late.completionTokens,
      late.reasoningTokens,
      late.searches || null,
      late.attempts,
      late.trail,
    )
    post.run(booked, hold.account)
    keys.settle(hold.key, 0n, booked)
    const counts = {
      requests: 0,
      failed: failedOf(late.outcome) - failedOf(recovered.outcome),
      promptTokens: late.promptTokens - Number(recovered.prompt_tokens),
      cachedTokens: late.cachedTokens - Number(recovered.cached_tokens),
      completionTokens: late.completionTokens - Number(recovered.completion_tokens),
      reasoningTokens: late.reasoningTokens - Number(recovered.reasoning_tokens),
      charged: booked,
    }
    usage.correct(hold, counts, settledAt)
    return true
  }
}

const least = (one: bigint, other: bigint): bigint => (one < other ? one : other)
