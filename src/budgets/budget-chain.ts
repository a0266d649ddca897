/** The budgets that apply to a request, each with its subject and its current period. */
import {
  type Budget,
  type Budgets,
  budgetName,
  type ChainedBudget,
  type Clock,
  type Exchange,
  type Key,
  marksOf,
  type Plans,
  tagOf,
} from '#contract'
import { escaped } from './budget-names.ts'
import { periodAt, showTime } from './periods.ts'

const NONE: readonly ChainedBudget[] = []
const NO_RULES: readonly Budget[] = []

/** The account, key and tags that budgets may limit. */
export interface Spender {
  readonly account: { readonly name: string; readonly budgets?: readonly Budget[] }
  readonly key: Pick<Key, 'id' | 'name' | 'budgets'>
  readonly tags?: Readonly<Record<string, string>> | undefined
}

export function createBudgets(clock: Clock, plans: Pick<Plans, 'find'>): Budgets {
  return {
    chain(exchange: Exchange, own, place) {
      const { account, key, tags } = exchange
      if (account === undefined || key === undefined) return NONE
      const plan = plans.find(account.plan)?.budgets ?? NO_RULES
      if (account.budgets === undefined && key.budgets === undefined && plan.length + own.length === 0) return NONE
      const spender = { account, key, tags }
      const now = clock.now()
      return [
        ...ofOwners(spender, now),
        ...chainOf(plan, `plan ${account.plan}`, spender, now),
        ...chainOf(own, `policy ${place}`, spender, now),
      ]
    },
    resets: ({ end, rule }) => (end === null ? null : showTime(end, rule.zone ?? UTC)),
  }
}

const UTC = 'UTC'

/** The own budgets of the account and of the key. */
export function ofOwners(spender: Spender, nowMs: number): readonly ChainedBudget[] {
  const { account, key } = spender
  return [
    ...chainOf(account.budgets ?? [], 'account', spender, nowMs),
    ...chainOf(key.budgets ?? [], `key`, spender, nowMs),
  ]
}

/**
 * @param place where the budgets are defined; a part of their names
 * @param nowMs milliseconds since the epoch
 */
export function chainOf(
  budgets: readonly Budget[],
  place: string,
  spender: Spender,
  nowMs: number,
): readonly ChainedBudget[] {
  return budgets.map(rule => {
    const { subject, whose } = subjectOf(rule, spender)
    const { start, end } = periodAt(rule.every, rule.zone ?? UTC, nowMs)
    const budget = `${prefixOf(rule, place)}${escaped(subject)}`
    return { budget, start, end, amount: rule.amount, marks: marksOf(rule), rule, whose }
  })
}

/** The beginning of a budget's name depends only on where it is defined. */
const prefixes = new WeakMap<Budget, string>()

function prefixOf(rule: Budget, place: string): string {
  let prefix = prefixes.get(rule)
  if (prefix === undefined) {
    prefix = [place, budgetName(rule), rule.every, ''].map(escaped).join('/')
    prefixes.set(rule, prefix)
  }
  return prefix
}

/** Requests without the tag share one budget, so that none is unlimited. */
function subjectOf({ per }: Budget, { account, key, tags }: Spender): { subject: string; whose: string } {
  if (per === 'account') return { subject: '', whose: `of the account ${account.name}` }
  if (per === 'key') return { subject: key.id, whose: `of the key ${key.name}` }
  if (per === 'caller') return { subject: key.id, whose: `of the caller ${key.name}` }
  const tag = tagOf(per)!
  const value = tags !== undefined && Object.hasOwn(tags, tag) ? tags[tag]! : ''
  return { subject: value, whose: value === '' ? `of requests without ${tag}` : `of ${tag} ${value}` }
}
