/** The budgets of an account with what is left of each in its period of now, used or not. */
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
import { type BudgetParts, partsOf } from './budget-names.ts'
import { periodAt } from './periods.ts'

/** A budget and what is left of it. */
export interface BudgetLeft {
  /** Where it is written: `account`, `key`, `plan NAME`, or `policy NAME/STEP`. */
  readonly place: string
  readonly name: string
  /** Null: it is of a policy, and only its row in the ledger is known. So are `zone`, `at` and `then`. */
  readonly per: BudgetPer | null
  /** The key that it limits. */
  readonly key: Pick<Key, 'id' | 'name'> | null
  /** The value of a tag that it limits; null: a key, or all of the account. */
  readonly value: string | null
  readonly every: Every
  readonly zone: string | null
  readonly amount: NanoUsd
  readonly spent: NanoUsd
  readonly held: NanoUsd
  /** Never below 0. */
  readonly left: NanoUsd
  /** Milliseconds since the epoch. */
  readonly start: number
  /** Null: it never begins anew. */
  readonly end: number | null
  /** In percent of the amount. */
  readonly marks: readonly number[] | null
  /** `refuse`, or a model. */
  readonly then: string | null
}

/** A row of the ledger: what a budget has spent and holds in one period. */
interface Use {
  readonly budget: string
  readonly start: number
  readonly end: number | null
  readonly amount: NanoUsd
  readonly held: NanoUsd
  readonly spent: NanoUsd
}

type BudgetKey = Pick<Key, 'id' | 'name' | 'budgets' | 'revokedAt'>

/** An account with what its budgets are made of. */
export interface BudgetSources {
  readonly account: Pick<Account, 'name' | 'plan' | 'budgets'>
  readonly keys: readonly BudgetKey[]
  /** The budgets of a plan, by its name. */
  readonly budgetsOf: (plan: string) => readonly Budget[]
  /** The periods that go on now, of all budgets of the account. */
  readonly uses: readonly Use[]
}

/** Whom a budget of the whole account is asked for. */
const NO_KEY = { id: '', name: '' }

/**
 * All budgets of an account: its own, those of its keys and of its plan, and those of callers, tags and policies that were used in
 * this period. Of a key that was revoked only what it has used is there.
 *
 * @param nowMs milliseconds since the epoch
 */
export function budgetsLeft(sources: BudgetSources, nowMs: number): readonly BudgetLeft[] {
  return listed(sources, nowMs, ['key'])
}

/** @param perKey the budgets of a plan that each key is listed with, used or not */
function listed(
  { account, keys, budgetsOf, uses }: BudgetSources,
  nowMs: number,
  perKey: readonly BudgetPer[],
): readonly BudgetLeft[] {
  const plan = budgetsOf(account.plan)
  const place = `plan ${account.plan}`
  const rows = new Map(uses.map(use => [rowName(use), use]))
  const ofAll = (per: BudgetPer) => plan.filter(rule => rule.per === per)
  const ofAccount: Spender = { account, key: NO_KEY }
  const ofKey = (key: BudgetKey): BudgetLeft[] => {
    const spender: Spender = { account: { name: account.name }, key }
    const ofPlan = perKey.flatMap(ofAll)
    return [...ofOwners(spender, nowMs), ...chainOf(ofPlan, place, spender, nowMs)]
      .filter(budget => key.revokedAt === null || rows.has(rowName(budget)))
      .map(budget => leftOf(budget, rows.get(rowName(budget)), { id: key.id, name: key.name }))
  }
  return [
    ...[...ofOwners(ofAccount, nowMs), ...chainOf(ofAll('account'), place, ofAccount, nowMs)].map(budget =>
      leftOf(budget, rows.get(rowName(budget)), null),
    ),
    ...keys.flatMap(ofKey),
    ...uses.flatMap(use => ofRow(use, { plan, place, keys, nowMs, perKey }) ?? []),
  ]
}

/** For a client with a key: the budgets of the key, and those of the whole account. Neither other keys nor values of tags. */
export function budgetsLeftOfKey(
  sources: Omit<BudgetSources, 'keys'> & { readonly key: BudgetKey },
  nowMs: number,
): readonly BudgetLeft[] {
  const { key } = sources
  return listed({ ...sources, keys: [key] }, nowMs, ['key', 'caller']).filter(budget => budget.value === null)
}

/** In one period a budget has one row. */
const rowName = ({ budget, start }: Pick<Use, 'budget' | 'start'>): string => `${start} ${budget}`

function leftOf({ budget, rule, ...period }: ChainedBudget, use: Use | undefined, key: BudgetLeft['key']): BudgetLeft {
  const { start, end, amount } = period
  return { ...ofRule(rule), place: partsOf(budget).place, key, value: null, start, end, ...sums(amount, use) }
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

interface RowContext {
  readonly plan: readonly Budget[]
  readonly place: string
  readonly keys: readonly BudgetKey[]
  readonly nowMs: number
  readonly perKey: readonly BudgetPer[]
}

/** A row whose budget is known by the row alone; undefined: it is in the list already, or its budget was removed. */
function ofRow(use: Use, { plan, place, keys, nowMs, perKey }: RowContext): BudgetLeft | undefined {
  const parts = partsOf(use.budget)
  const { start, end } = use
  const found = { place: parts.place, ...subjectOf(parts, keys), start, end }
  if (parts.place.startsWith('policy ')) {
    const { name, every } = parts
    const unknown = { per: null, zone: null, marks: null, then: null }
    return { ...found, ...unknown, name, every: every as Every, ...sums(use.amount, use) }
  }
  if (parts.place !== place) return undefined
  const rule = plan.find(each => budgetName(each) === parts.name && each.every === parts.every)
  if (rule === undefined || rule.per === 'account' || rule.per === 'key') return undefined
  if (found.key && perKey.includes(rule.per)) return undefined
  // Another zone makes other periods: the row of the one before counts nothing any more.
  if (periodAt(rule.every, rule.zone ?? 'UTC', nowMs).start !== start) return undefined
  return { ...found, ...ofRule(rule), ...sums(rule.amount, use) }
}

function subjectOf({ subject }: BudgetParts, keys: readonly BudgetKey[]): Pick<BudgetLeft, 'key' | 'value'> {
  const key = keys.find(({ id }) => id === subject)
  if (key !== undefined) return { key: { id: key.id, name: key.name }, value: null }
  return { key: null, value: subject === '' ? null : subject }
}
