/**
 * Corrections for late settles. A writer may be cut off from the database, or suspended, for longer than its lease. Meanwhile another
 * process may settle the exchange without its usage (recovery.ts). The ledger is append-only, so the late settle adds a correction: the
 * difference, once for each exchange. Its fields replace those of the settle that recovery wrote.
 */
import type { Clock, NanoUsd, SettleRequest } from '#contract'
import type { Database, Value } from '../engine/database.ts'
import type { Balance } from './balances.ts'
import type { BudgetRows } from './budgets.ts'
import type { GroupRows } from './group-rows.ts'
import { columnsOf, marksOf, SETTLE_FIELDS, SETTLE_INDEX, type SettleRecord } from './ledger-fields.ts'
import type { Hold } from './open-holds.ts'
import { failedOf, type UsageWriter } from './usage.ts'

type RecoveredSettle = {
  readonly amount: NanoUsd
  readonly at: bigint
  readonly outcome: SettleRequest['outcome']
  readonly prompt_tokens: bigint
  readonly cached_tokens: bigint
  readonly completion_tokens: bigint
  readonly reasoning_tokens: bigint
}

export interface CorrectionParts {
  readonly balances: GroupRows<Balance>
  readonly budgets: BudgetRows
  readonly usage: UsageWriter
  readonly clock: Clock
}

/**
 * Prepares the operation, which runs in the transaction of the late settle.
 * @returns whether it wrote a correction. It writes none if the late settle is from recovery, the existing one is not, or the exchange was
 * corrected before.
 */
export function createCorrection(
  database: Database,
  { balances, budgets, usage, clock }: CorrectionParts,
): (late: SettleRecord, hold: Hold) => boolean {
  const findRecovered = database.prepareMoney(`
    SELECT amount, at, outcome, prompt_tokens, cached_tokens, completion_tokens, reasoning_tokens FROM ${database.dialect.only('event')}
    WHERE id = ? AND kind = 1 AND source = 'recovered'
      AND NOT EXISTS (SELECT 1 FROM correction WHERE correction.id = event.id)`)
  const put = database.prepare(`
    INSERT INTO correction (kind, account, key, model, at, settled_at, ${columnsOf(SETTLE_FIELDS)})
    VALUES (1, ?, ?, ?, ?, ?, ${marksOf(SETTLE_FIELDS)})`)

  return (late, hold) => {
    const [exchange, amount, overrun, source, outcome] = late
    if (source === 'recovered') return false
    const recovered = findRecovered.get(exchange) as RecoveredSettle | undefined
    if (recovered === undefined) return false
    const difference = amount - recovered.amount
    const balance = balances.find(hold.account)!
    const free = balance.posted - balance.held
    const booked = least(difference, least(free, budgets.free(hold) ?? free))
    const settledAt = Number(recovered.at)
    const fields: Value[] = [...late]
    fields[SETTLE_INDEX.amount] = booked
    // The rest, for which the account, the key's cap or a budget has no room.
    fields[SETTLE_INDEX.overrun] = overrun + difference - booked
    const now = clock.now()
    put.run(hold.account, hold.key, hold.model, now, settledAt, ...fields)
    balance.posted -= booked
    balances.change(hold.account, balance)
    budgets.settle(hold, 0n, booked, now)
    const counts = {
      requests: 0,
      failed: failedOf(outcome) - failedOf(recovered.outcome),
      promptTokens: late[SETTLE_INDEX['usage.input']] - Number(recovered.prompt_tokens),
      cachedTokens: late[SETTLE_INDEX['usage.cached_input']] - Number(recovered.cached_tokens),
      completionTokens: late[SETTLE_INDEX['usage.output']] - Number(recovered.completion_tokens),
      reasoningTokens: late[SETTLE_INDEX['usage.reasoning']] - Number(recovered.reasoning_tokens),
      charged: booked,
    }
    usage.correct(hold, counts, settledAt)
    return true
  }
}

const least = (one: bigint, other: bigint): bigint => (one < other ? one : other)
