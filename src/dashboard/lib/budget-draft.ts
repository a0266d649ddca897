/** Budgets on the page: their texts, and the draft that a person types. */
import type { BudgetView } from '../../api/views.ts'
import { amountOf, exactMoney, nano, sum } from './format.ts'

/** The periods with their labels in forms. */
export const PERIODS = [
  { value: 'hour', label: 'Hour' },
  { value: 'day', label: 'Day' },
  { value: 'week', label: 'Week' },
  { value: 'month', label: 'Month' },
  { value: 'life', label: 'For life' },
] as const

const EACH: Readonly<Record<BudgetView['every'], string>> = {
  hour: 'an hour',
  day: 'a day',
  week: 'a week',
  month: 'a month',
  life: 'for life',
}

/** `$25.00 a month` */
export function limitOf({ amount, every }: Pick<BudgetView, 'amount' | 'every'>): string {
  return `${exactMoney(amount)} ${EACH[every]}`
}

/** `Month` */
export function periodOf({ every }: Pick<BudgetView, 'every'>): string {
  return PERIODS.find(({ value }) => value === every)!.label
}

/** The used part of a budget: spent, and held for requests in progress. */
export function usedOf({ spent, held }: Pick<BudgetView, 'spent' | 'held'>): string {
  return sum([spent, held])
}

/** Where a budget is set, and for whom: `set for the key app`, `of the plan pro`. */
export function sourceOf({ place, key, value }: Pick<BudgetView, 'place' | 'key' | 'value'>): string {
  const whom = value === '' ? 'requests without the tag' : (value ?? key)
  if (place === 'account') return 'set for the account'
  if (place === 'key') return `set for the key ${key}`
  const [kind, ...name] = place.split(' ')
  return `of the ${kind} ${name.join(' ')}${whom === null ? '' : `, for ${whom}`}`
}

/** The start of the next period, in the budget's time zone: `1 Dec 2026, 00:00 Europe/Berlin`. */
export function resetOf({ resets_at: at, zone }: Pick<BudgetView, 'resets_at' | 'zone'>): string {
  if (at === null) return 'Never'
  const timeZone = zone ?? 'UTC'
  const text = new Intl.DateTimeFormat('en-GB', { ...DAY_AND_MINUTE, timeZone }).format(new Date(at))
  return `${text} ${timeZone}`
}

const DAY_AND_MINUTE = { day: 'numeric', month: 'short', year: 'numeric', hour: '2-digit', minute: '2-digit' } as const

/** The fields of a form, as typed. */
export interface BudgetDraft {
  readonly every: string
  readonly amount: string
  readonly zone: string
  readonly at: string
  readonly then: string
}

/** The draft of an existing budget, or of a new one for the first free period. */
export function draftOf(budget: BudgetView | undefined, free: readonly string[]): BudgetDraft {
  if (budget === undefined) {
    return {
      every: free.includes('month') ? 'month' : free[0]!,
      amount: '',
      zone: 'UTC',
      at: '80%, 100%',
      then: 'refuse',
    }
  }
  const { every, amount, zone, at, then } = budget
  return {
    every,
    amount: exactMoney(amount).slice(1),
    zone: zone ?? 'UTC',
    at: at?.join(', ') ?? '',
    then: then ?? 'refuse',
  }
}

type BudgetBody = Readonly<Record<'amount' | 'zone' | 'then', string>> & { readonly at: readonly string[] }

/** The body to send, or the error of each field. */
export function budgetOf({ amount: typed, zone, at, then }: BudgetDraft): {
  readonly body?: BudgetBody
  readonly wrong?: { readonly [Field in keyof BudgetDraft]?: string }
} {
  const amount = amountOf(typed)
  const marks = marksOf(at)
  const wrong = {
    ...(amount === null
      ? { amount: 'Enter an amount in dollars, for example 25 or 2.50, at most 999,999,999.' }
      : nano(amount) === 0n && { amount: 'The amount must be more than $0.' }),
    ...(!isZone(zone.trim()) && { zone: 'Enter a time zone, for example Europe/Berlin or UTC.' }),
    ...(marks === null && { at: 'Enter percentages from 1% to 100%, for example 80%, 100%.' }),
  }
  if (amount === null || marks === null || Object.keys(wrong).length > 0) return { wrong }
  return { body: { amount, zone: zone.trim(), at: marks, then } }
}

/** Parses `80, 100%` to the API's format. An empty list: no alerts. Null: invalid. */
function marksOf(typed: string): string[] | null {
  const marks = typed.split(',').flatMap(part => part.trim().replace(/\s*%$/, '') || [])
  if (marks.some(mark => !/^([1-9]\d?|100)$/.test(mark))) return null
  return [...new Set(marks)].map(mark => `${mark}%`)
}

function isZone(zone: string): boolean {
  try {
    return new Intl.DateTimeFormat('en', { timeZone: zone }) !== null
  } catch {
    return false
  }
}
