/**
 * The budgets of an account, with the remaining amount of the current period. Budgets of accounts and keys are listed completely.
 * Budgets of tags and callers have a row for each value, so they are listed in pages, in the ledger's order.
 */
import {
  type Account,
  type Budget,
  type BudgetPer,
  budgetName,
  type ChainedBudget,
  type Every,
  type Key,
  marksOf,
  type NanoUsd,
} from '#contract'
import { chainOf, ofOwners, type Spender } from './budget-chain.ts'
import { partsOf } from './budget-names.ts'
import { periodAt } from './periods.ts'

/** A budget with its remaining amount. */
export interface BudgetLeft {
  /** Where it is defined: `account`, `key`, `plan NAME`, or `policy NAME/STEP`. */
  readonly place: string
  readonly name: string
  /** Null, like `zone`, `marks` and `then`, if the gateway does not run: then only the row in the ledger is known. */
  readonly per: BudgetPer | null
  /** The key that it limits. */
  readonly key: Pick<Key, 'id' | 'name'> | null
  /** The value of a tag, empty for requests without the tag, or the caller of a token. Null: it limits a key, or the account. */
  readonly value: string | null
  readonly every: Every
  readonly zone: string | null
  readonly amount: NanoUsd
  readonly spent: NanoUsd
  readonly held: NanoUsd
  /** At least 0. */
  readonly left: NanoUsd
  /** Milliseconds since the epoch. */
  readonly start: number
  /** Null: the budget is for life. */
  readonly end: number | null
  /** In percent of the amount. */
  readonly marks: readonly number[] | null
  /** `refuse`, or a model. */
  readonly then: string | null
}

/** The spent and held amounts of a budget in one period: a row of the ledger. */
export interface Use {
  readonly budget: string
  readonly start: number
  readonly end: number | null
  readonly amount: NanoUsd
  readonly held: NanoUsd
  readonly spent: NanoUsd
}

/** The budgets of plans and policies, by place: `plan pro`, `policy standard/credits`. */
export type BudgetRules = ReadonlyMap<string, readonly Budget[]>

type BudgetKey = Pick<Key, 'id' | 'name' | 'budgets' | 'revokedAt'>

/** An account with everything that defines budgets for it. */
export interface BudgetSources {
  readonly account: Pick<Account, 'name' | 'plan' | 'budgets'>
  readonly keys: readonly BudgetKey[]
  /** Null: unknown, because the gateway does not run. */
  readonly rules: BudgetRules | null
}

/** A budget of an account or of a key, in its current period. */
export interface OwnedBudget {
  readonly budget: ChainedBudget
  readonly key: BudgetLeft['key']
  /** Whether it is listed before its first use. A budget of a policy may never limit this account. */
  readonly always: boolean
}

/** The key of a budget that limits the whole account. */
const NO_KEY = { id: '', name: '' }
const PER_KEY = ['key', 'caller']

/**
 * The budgets of the account and of its keys: their own ones, and those of plans and policies.
 *
 * @param nowMs milliseconds since the epoch
 */
export function ownedBudgets({ account, keys, rules }: BudgetSources, nowMs: number): readonly OwnedBudget[] {
  const ownPlan = `plan ${account.plan}`
  function ofRules(spender: Spender, pers: readonly string[], key: BudgetLeft['key'], live: boolean): OwnedBudget[] {
    return [...(rules ?? [])].flatMap(([place, budgets]) =>
      chainOf(
        budgets.filter(({ per }) => pers.includes(per)),
        place,
        spender,
        nowMs,
      ).map(budget => ({ budget, key, always: live && place === ownPlan })),
    )
  }
  function ofKey(key: BudgetKey): OwnedBudget[] {
    const spender: Spender = { account: { name: account.name }, key }
    const subject = { id: key.id, name: key.name }
    const live = key.revokedAt === null
    return [
      ...ofOwners(spender, nowMs).map(budget => ({ budget, key: subject, always: live })),
      ...ofRules(spender, PER_KEY, subject, live),
    ]
  }
  const spender: Spender = { account, key: NO_KEY }
  return [
    ...ofOwners(spender, nowMs).map(budget => ({ budget, key: null, always: true })),
    ...ofRules(spender, ['account'], null, true),
    ...keys.flatMap(ofKey),
  ]
}

/** The names of their rows in the ledger. */
export const periodsOf = (owned: readonly OwnedBudget[]): Pick<Use, 'budget' | 'start'>[] =>
  owned.map(({ budget: { budget, start } }) => ({ budget, start }))

/** @param uses the existing rows of these budgets */
export function leftOfOwned(owned: readonly OwnedBudget[], uses: readonly Use[]): readonly BudgetLeft[] {
  const rows = new Map(uses.map(use => [rowName(use), use]))
  return owned.flatMap(({ budget, key, always }) => {
    const use = rows.get(rowName(budget))
    if (use === undefined && !always) return []
    const { rule, start, end, amount } = budget
    const { place } = partsOf(budget.budget)
    return [{ ...ofRule(rule), place, key, value: null, start, end, ...sums(amount, use) }]
  })
}

/**
 * The budgets of callers and of values of tags, from their rows.
 *
 * @param uses rows of the ledger; those of `owned`, and of removed budgets, are left out
 */
export function leftOfRows(
  uses: readonly Use[],
  owned: readonly OwnedBudget[],
  rules: BudgetRules | null,
  nowMs: number,
): readonly BudgetLeft[] {
  const listed = new Set(owned.map(({ budget }) => rowName(budget)))
  return uses.filter(use => !listed.has(rowName(use))).flatMap(use => ofRow(use, rules, nowMs) ?? [])
}

/** A budget has one row in a period. */
const rowName = ({ budget, start }: Pick<Use, 'budget' | 'start'>): string => `${start} ${budget}`

function ofRow(use: Use, rules: BudgetRules | null, nowMs: number): BudgetLeft | undefined {
  const { place, name, every, subject } = partsOf(use.budget)
  const { start, end } = use
  const row = { place, key: null, value: subject, start, end }
  if (rules === null) {
    const unknown = { per: null, zone: null, marks: null, then: null }
    const value = subject === '' ? null : subject
    return { ...row, ...unknown, value, name, every: every as Every, ...sums(use.amount, use) }
  }
  const rule = rules.get(place)?.find(each => budgetName(each) === name && each.every === every)
  // Another zone makes other periods, so the row of the old zone does not count any more.
  if (rule === undefined || periodAt(rule.every, rule.zone ?? 'UTC', nowMs).start !== start) return undefined
  return { ...row, ...ofRule(rule), ...sums(rule.amount, use) }
}

function ofRule(rule: Budget): Pick<BudgetLeft, 'name' | 'per' | 'every' | 'zone' | 'marks' | 'then'> {
  const { per, every, zone = 'UTC', then = 'refuse' } = rule
  return { name: budgetName(rule), per, every, zone, marks: marksOf(rule), then }
}

function sums(amount: NanoUsd, use: Use | undefined): Pick<BudgetLeft, 'amount' | 'spent' | 'held' | 'left'> {
  const { spent, held } = use ?? { spent: 0n, held: 0n }
  const left = amount - spent - held
  return { amount, spent, held, left: left < 0n ? 0n : left }
}
