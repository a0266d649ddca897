/** Budgets as the API and the commands show them. */
import type { AccountBalance, Budget, KeySummary } from '#contract'
import { type BudgetSources, budgetsLeft, budgetsLeftOfKey } from '../budgets/left.ts'
import type { Store } from '../store/store.ts'
import { showBudget } from './show.ts'
import type { BudgetView } from './views.ts'

/** The sources of budgets: the store, the plans, and the time in milliseconds since the epoch. */
export interface BudgetReads {
  readonly store: Pick<Store, 'listKeys' | 'listBudgetUses'>
  /** The budgets of a plan, by its name. */
  readonly budgetsOf: BudgetSources['budgetsOf']
  readonly now: number
}

/** All budgets that limit an account, its keys or its callers. */
export async function budgetsOfAccount(account: AccountBalance, reads: BudgetReads): Promise<readonly BudgetView[]> {
  const { store, budgetsOf, now } = reads
  const [keys, uses] = await Promise.all([store.listKeys(account.id), store.listBudgetUses(account.id, now)])
  return budgetsLeft({ account, keys, budgetsOf, uses }, now).map(showBudget)
}

/** Those that limit one key: its own, and those of its account. */
export async function budgetsOfKey(
  key: KeySummary,
  account: AccountBalance,
  { store, budgetsOf, now }: BudgetReads,
): Promise<readonly BudgetView[]> {
  const uses = await store.listBudgetUses(account.id, now)
  return budgetsLeftOfKey({ account, key, budgetsOf, uses }, now).map(showBudget)
}

/** The budget that an account or a key has of its own for a period. */
export function ownBudget(owner: { readonly budgets?: readonly Budget[] }, every: string): Budget | undefined {
  return owner.budgets?.find(budget => budget.every === every)
}
