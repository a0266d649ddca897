/** The verbs for budgets of accounts and keys. verbs.ts has the others and explains verbs. */
import { type Budget, type Clock, EVERY, type Every, mistakeInBudget } from '#contract'
import type { BudgetRules } from '../../budgets/left.ts'
import { systemClock } from '../../common/clock.ts'
import type { BudgetChange, Store } from '../../store/store.ts'
import { type BudgetReads, budgetsOfAccount, budgetsOfKeys, ownBudget } from '../budget-views.ts'
import type { BudgetView } from '../views.ts'
import { type Arguments, VerbError } from './arguments.ts'
import { accountNamed, keyWith } from './named.ts'

/** The parts of a running gateway that budgets need beside the store. */
export interface PlanBudgets {
  /** The budgets of plans and policies. */
  budgetRules?(): BudgetRules
  /** Default: the system's clock. */
  readonly clock?: Clock
}

/** The most budgets of callers and tag values in one answer. */
export const PAGE_SIZE = 100

/** The answers of the verbs: the name of the account, and all budgets that limit the account or the key. */
export interface BudgetVerbResults {
  'account.budget': {
    readonly account: string
    readonly budgets: readonly BudgetView[]
    /** The cursor of the next page; null: this was the last one. */
    readonly next: string | null
  }
  'key.budget': { readonly account: string; readonly key: string; readonly budgets: readonly BudgetView[] }
}

type BudgetVerbs = {
  readonly [Name in keyof BudgetVerbResults]: (
    store: Store,
    args: Arguments,
    running: PlanBudgets,
  ) => Promise<BudgetVerbResults[Name]>
}

/** A verb without `every` changes nothing; `amount: null` removes a budget. */
export const BUDGET_VERBS: BudgetVerbs = {
  async 'account.budget'(store, args, running) {
    const name = args.name('account')
    const change = readChange('account.budget', args)
    const after = args.optional('after', args.name)
    args.end()
    const account = await accountNamed(store, name)
    if (change !== undefined) {
      refuseMissing('account.budget', change, account, `the account ${account.name}`)
      await store.setBudget({ ...withOwn(change, account), of: 'account', name: account.id })
    }
    const page = { limit: PAGE_SIZE, after }
    const { items, next } = await budgetsOfAccount(await accountNamed(store, account.id), readsOf(store, running), page)
    return { account: account.name, budgets: items, next }
  },

  async 'key.budget'(store, args, running) {
    const id = args.name('key')
    const change = readChange('key.budget', args)
    args.end()
    const key = await keyWith(store, id)
    if (change !== undefined) {
      refuseMissing('key.budget', change, key, `the key ${id}`)
      await store.setBudget({ ...withOwn(change, key), of: 'key', name: id })
    }
    const account = await accountNamed(store, key.accountId)
    const budgets = await budgetsOfKeys(account, [await keyWith(store, id)], readsOf(store, running))
    return { account: account.name, key: key.name, budgets }
  },
}

/** The sources of budgets. */
export function readsOf(store: Store, { clock = systemClock, budgetRules }: PlanBudgets): BudgetReads {
  return { store, rules: budgetRules?.() ?? null, now: clock.now() }
}

type Change = Pick<BudgetChange, 'every' | 'budget'>

function readChange(verb: string, args: Arguments): Change | undefined {
  const every = args.optional('every', key => everyOf(verb, args.name(key)))
  const amount = args.nullable('amount', args.money)
  const zone = args.optional('zone', args.name)
  const at = args.optional('at', args.names)
  const then = args.optional('then', args.name)
  // The socket logs it.
  args.optional('actor', args.name)
  const terms = { ...(zone && { zone }), ...(at && { at }), ...(then && { then }) }
  if (amount == null && Object.keys(terms).length > 0) {
    throw new VerbError(`${verb}: "${Object.keys(terms)[0]}" needs "amount"`)
  }
  if ((every === undefined) !== (amount === undefined)) {
    throw new VerbError(`${verb}: "every" and "amount" go together; an amount of null removes the budget`)
  }
  const mistake = mistakeInBudget(terms)
  if (mistake !== null) {
    const { field, value, rule } = mistake
    throw new VerbError(`${verb}: "${field}" ${rule}, and is ${JSON.stringify(value)}`)
  }
  if (every === undefined) return undefined
  return { every, budget: amount == null ? null : { amount, ...terms } }
}

function everyOf(verb: string, text: string): Every {
  const every = EVERY.find(each => each === text)
  if (every === undefined) throw new VerbError(`${verb}: "every" must be one of ${EVERY.join(', ')}`)
  return every
}

/** Refuses to remove a missing budget: usually its period is wrong. */
function refuseMissing(verb: string, { every, budget }: Change, owner: BudgetOwner, what: string): void {
  if (budget !== null || ownBudget(owner, every) !== undefined) return
  const own = owner.budgets?.map(each => each.every).join(', ') ?? 'none'
  throw new VerbError(`${verb}: ${what} has no budget for "${every}"; it has: ${own}`)
}

/** A new amount alone keeps the zone, the marks and the model: another zone would start a new period. */
function withOwn({ every, budget }: Change, owner: BudgetOwner): Change {
  const own = ownBudget(owner, every)
  if (budget === null || own === undefined) return { every, budget }
  const { zone, at, then } = own
  return { every, budget: { ...(zone && { zone }), ...(at && { at }), ...(then && { then }), ...budget } }
}

interface BudgetOwner {
  readonly budgets?: readonly Budget[]
}
