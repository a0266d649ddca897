/** Reads what the budgets of an account have spent and hold. */
import type { Database } from '../engine/database.ts'
import type { BudgetUse, StoreReads } from '../store.ts'

export function createBudgetUseReader(database: Database): StoreReads['listBudgetUses'] {
  // An account has more periods that are over each hour: with a CAST or an order SQLite reads them all.
  const list = database.prepareMoney(`
    SELECT budget, period_start AS start, period_end AS "end", amount, held, spent FROM budget_period
    WHERE account = ?1 AND coalesce(period_end, 9223372036854775807) > ?2`)
  return (account, nowMs) =>
    list
      .all(account, nowMs)
      .map((row): BudgetUse => {
        const { budget, start, end, amount, held, spent } = row as unknown as Omit<BudgetUse, 'start' | 'end'> & {
          readonly start: bigint
          readonly end: bigint | null
        }
        return { budget, start: Number(start), end: end === null ? null : Number(end), amount, held, spent }
      })
      .filter(({ start }) => start <= nowMs)
      .sort((a, b) => (a.budget < b.budget ? -1 : a.budget > b.budget ? 1 : a.start - b.start))
}
