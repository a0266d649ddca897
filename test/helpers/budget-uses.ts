/** The spent and held amounts of the budgets of an account, in the order of their names. */
import type { Cursor } from '../../src/store/money/reports.ts'
import type { BudgetUse, StoreReads } from '../../src/store/store.ts'

export function budgetUses(reads: Pick<StoreReads, 'listBudgetUses'>, account: string, nowMs: number): BudgetUse[] {
  const uses: BudgetUse[] = []
  let after: Cursor | undefined
  do {
    const page = reads.listBudgetUses(account, nowMs, { limit: 20, after })
    uses.push(...page.items)
    after = page.next ?? undefined
  } while (after !== undefined)
  return uses.sort((a, b) => (a.budget < b.budget ? -1 : a.budget > b.budget ? 1 : a.start - b.start))
}
