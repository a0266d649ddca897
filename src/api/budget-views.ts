/** Budgets as the API and the commands show them. */
import type { AccountBalance, Budget, KeySummary } from '#contract'
import { type BudgetRules, leftOfOwned, leftOfRows, ownedBudgets, periodsOf } from '../budgets/left.ts'
import type { PageQuery } from '../store/money/reports.ts'
import type { Store } from '../store/store.ts'
import { showBudget } from './show.ts'
import type { BudgetView, PageView } from './views.ts'

/** The sources of budgets: the store, the configuration, and the time in milliseconds since the epoch. */
export interface BudgetReads {
  readonly store: Pick<Store, 'listKeys' | 'findBudgetUses' | 'listBudgetUses'>
  /** Null: not known, because the gateway does not run. */
  readonly rules: BudgetRules | null
  readonly now: number
}

/**
 * The budgets that limit an account, its keys or its callers. The first page begins with all budgets of the account and of its
 * keys. Budgets of callers and of tag values follow, a page at a time.
 */
export async function budgetsOfAccount(
  account: AccountBalance,
  { store, rules, now }: BudgetReads,
  page: PageQuery,
): Promise<PageView<BudgetView>> {
  const owned = ownedBudgets({ account, keys: await store.listKeys(account.id), rules }, now)
  const [used, { items, next }] = await Promise.all([
    page.after === undefined ? store.findBudgetUses(account.id, periodsOf(owned)) : null,
    store.listBudgetUses(account.id, now, page),
  ])
  const first = used === null ? [] : leftOfOwned(owned, used)
  return { items: [...first, ...leftOfRows(items, owned, rules, now)].map(showBudget), next }
}

/** The budgets that limit the account itself or one of these keys, each with its remainder. */
export async function budgetsOfKeys(
  account: AccountBalance,
  keys: readonly KeySummary[],
  { store, rules, now }: BudgetReads,
): Promise<readonly BudgetView[]> {
  const owned = ownedBudgets({ account, keys, rules }, now)
  return leftOfOwned(owned, await store.findBudgetUses(account.id, periodsOf(owned))).map(showBudget)
}

/** The budget that was set for an account or a key itself, not by its plan; undefined: none for this period. */
export function ownBudget(owner: { readonly budgets?: readonly Budget[] }, every: string): Budget | undefined {
  return owner.budgets?.find(budget => budget.every === every)
}
