/** The column `budgets` of an account or a key: JSON, with amounts as texts of nano-dollars. */
import type { Budget } from '#contract'

export function writeBudgets(budgets: readonly Budget[]): string {
  return JSON.stringify(budgets.map(({ per: _, ...budget }) => ({ ...budget, amount: String(budget.amount) })))
}

/** @returns undefined for none */
export function readBudgets(column: unknown, per: 'account' | 'key'): readonly Budget[] | undefined {
  if (column == null) return undefined
  const all = JSON.parse(column as string) as readonly (Omit<Budget, 'amount' | 'per'> & { readonly amount: string })[]
  return all.map(budget => ({ ...budget, per, amount: BigInt(budget.amount) }))
}
