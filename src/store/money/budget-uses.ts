/** Reads what the budgets of an account have spent and hold. */
import type { Database } from '../engine/database.ts'
import type { BudgetUse, StoreReads } from '../store.ts'

export function createBudgetUseReader(database: Database): StoreReads['listBudgetUses'] {
  const list = database.prepareMoney(`
    SELECT budget, period_start AS start, period_end AS "end", amount, held, spent FROM budget_period
    WHERE account = ?1 AND period_start <= CAST(?2 AS BIGINT) AND (period_end IS NULL OR period_end > CAST(?2 AS BIGINT))
    ORDER BY budget, period_start`)
  return (account, nowMs) =>
    list.all(account, nowMs).map((row): BudgetUse => {
      const { budget, start, end, amount, held, spent } = row as unknown as Omit<BudgetUse, 'start' | 'end'> & {
        readonly start: bigint
        readonly end: bigint | null
      }
      return { budget, start: Number(start), end: end === null ? null : Number(end), amount, held, spent }
    })
}
