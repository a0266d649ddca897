/** Converts LiteLLM's budgets to budgets of the step `credits`, to the cap of a key, and to options of `account budget`. */
import { type Budget, type Every, isZone } from '#contract'
import { scaled } from '../../catalog/decimal.ts'
import { formatMoney } from '../../contract/quantities.ts'
import { showMoney } from '../format.ts'
import type { Fields, TextValue } from './read.ts'
import { hasReference } from './references.ts'
import type { Remarks } from './remarks.ts'

/** A budget as in gateway.yaml, without `per`. */
export interface Period extends Pick<Budget, 'every' | 'zone' | 'at'> {
  /** `$10`. */
  readonly amount: string
}

/** A budget of the step `credits`. */
export interface BudgetYaml extends Period {
  readonly per: 'account' | 'key' | 'caller'
}

/** All budgets of a file. */
export interface ImportedBudgets {
  /** For the step `credits`. */
  readonly rules: readonly BudgetYaml[]
  /** The lifetime limit of a key, such as `$10`. */
  readonly cap: string | null
  /** For each account, set by a command. */
  readonly ofAccounts: readonly Period[]
}

interface Parts {
  /** The time zone of days; null: UTC. */
  readonly zone: string | null
  readonly remarks: Remarks
}

/** The names of a budget's settings. */
interface Names {
  readonly amount: string
  readonly length: string
  readonly soft: string | null
}

const OF_KEYS: Names = { amount: 'max_budget', length: 'budget_duration', soft: 'soft_budget' }
const OF_ALL: Names = { ...OF_KEYS, soft: null }
const OF_USERS: Names = { amount: 'max_internal_user_budget', length: 'internal_user_budget_duration', soft: null }

interface Sources {
  readonly settings: Fields | null
  /** `default_key_generate_params`. */
  readonly defaults: Fields | null
  /** Whether there is a second policy, for raw routes. */
  readonly hasRaw: boolean
  readonly remarks: Remarks
}

/** The budgets of `litellm_settings`. */
export function budgetsOf({ settings, defaults, hasRaw, remarks }: Sources): ImportedBudgets {
  const parts: Parts = { zone: zoneOf(settings, remarks), remarks }
  const keys = periodsOf(defaults, parts)
  // An alert mark needs a budget; a cap cannot have one.
  const cap = keys.find(({ every, at }) => every === 'life' && at === undefined) ?? null
  const ofKeys = keys.filter(period => period !== cap)
  if (cap) {
    const message = 'a default of keys becomes an option of key create: keys created elsewhere have no cap'
    remarks.add(
      'changed',
      defaults!.peek(OF_KEYS.amount) ?? defaults!,
      message,
      'per: key, every: life at the step credits',
    )
  }
  if (ofKeys.length > 0) {
    const message = 'the budget applies to every key of the policy, and no key can have more'
    remarks.add('changed', defaults!, message, 'for single keys, remove it and use key budget')
  }
  const all = settings === null ? [] : [periodOf(settings, OF_ALL, parts) ?? []].flat()
  if (all.length > 0) {
    const message = 'a budget cannot span accounts: each account has this one'
    remarks.add('changed', settings!.peek(OF_ALL.amount)!, message, 'divide the amount by the number of accounts')
  }
  const rules = [
    ...all.map(period => ({ per: 'account' as const, ...period })),
    ...ofUsers(settings, parts).map(period => ({ per: 'caller' as const, ...period })),
    ...ofKeys.map(period => ({ per: 'key' as const, ...period })),
  ]
  if (hasRaw && rules.length > 0)
    remarks.add(
      'changed',
      settings!,
      'chats and raw routes have two policies, each with its own budgets',
      'budgets of a plan count in all policies',
    )
  return { rules, cap: cap?.amount ?? null, ofAccounts: ofTeams(settings, parts) }
}

function zoneOf(settings: Fields | null, remarks: Remarks): string | null {
  const zone = settings?.text('timezone') ?? null
  if (zone === null || isZone(zone.text)) return zone?.text ?? null
  remarks.add('lost', zone, 'it is not a time zone: days begin in UTC', 'zone: of the budgets')
  return null
}

function ofUsers(settings: Fields | null, parts: Parts): Period[] {
  const { remarks } = parts
  const params = settings?.map('default_internal_user_params') ?? null
  const own = periodsOf(params, parts)
  if (params) remarks.rest(params, 'user')
  const older = settings && periodOf(settings, OF_USERS, parts)
  const found = own.length > 0 ? own : older ? [older] : []
  if (found.length === 0) return []
  const at = settings!.peek(OF_USERS.amount)
  if (own.length > 0 && older) remarks.add('changed', at!, 'the budget of default_internal_user_params has precedence')
  const message = 'a budget of a user becomes one of a caller: a key, or the subject of a token'
  remarks.add('changed', own.length > 0 ? params! : at!, message, 'use the step jwt for users with several keys')
  return found
}

function ofTeams(settings: Fields | null, parts: Parts): Period[] {
  const { remarks } = parts
  const params = settings?.map('default_team_params') ?? null
  const periods = periodsOf(params, parts)
  if (params) remarks.rest(params, 'team')
  if (periods.length > 0)
    remarks.add(
      'yours',
      params!,
      'the budget of a team becomes one of its account',
      'run account budget for each, or write it in the plan default in gateway.yaml',
    )
  return periods
}

/** The budget of a map and its `budget_limits`, one for each period. */
function periodsOf(fields: Fields | null, parts: Parts): Period[] {
  if (fields === null) return []
  const { remarks } = parts
  const periods = new Map<Every, Period>()
  const add = (of: Fields, period: Period | null): void => {
    const other = period && periods.get(period.every)
    if (other) remarks.add('changed', of, 'of two budgets with the same period, the lower one is used')
    if (period && !(other && nanoOf(other.amount.slice(1)) <= nanoOf(period.amount.slice(1))))
      periods.set(period.every, period)
  }
  add(fields, periodOf(fields, OF_KEYS, parts))
  for (const item of fields.list('budget_limits')?.items ?? []) {
    if (item.kind !== 'map') remarks.add('lost', item, 'a row of budget_limits is a map')
    else {
      add(item, periodOf(item, OF_ALL, parts))
      remarks.rest(item, 'key')
    }
  }
  return [...periods.values()]
}

/** 0 if the text is not an amount. */
const nanoOf = (text: string): bigint => scaled(text, 9)?.value ?? 0n

/** The largest amount, in nano-dollars: a whole number of 64 bits. */
const MOST = 2n ** 63n - 1n

/** Null: the file has no such budget, or it cannot be converted, after a remark. */
function periodOf(fields: Fields, names: Names, { zone, remarks }: Parts): Period | null {
  const amount = fields.text(names.amount)
  const length = fields.text(names.length)
  const soft = names.soft === null ? null : fields.text(names.soft)
  if (amount === null) {
    if (length) remarks.add('lost', length, 'a period needs an amount', `write ${names.amount}, and import again`)
    if (soft) remarks.add('lost', soft, 'a mark needs a budget', 'at: of a budget of the step credits')
    return null
  }
  const nano = nanoOf(amount.text)
  const every = everyOf(length, remarks)
  if (nano === 0n || nano > MOST) remarks.wrongNumber(amount, 'a budget must be more than $0 and at most $9 billion')
  if (nano === 0n || nano > MOST || every === null) return null
  const hasDays = every !== 'hour' && every !== 'life'
  const mark = soft && markOf(soft, nano, remarks)
  return {
    amount: showMoney(formatMoney(nano)),
    every,
    ...(zone !== null && hasDays ? { zone } : {}),
    // LiteLLM also sends an alert when a budget is used up.
    ...(mark ? { at: [...new Set([mark, '100%'])] } : {}),
  }
}

/** A soft budget as a percentage of the hard one. */
function markOf(soft: TextValue, nano: bigint, remarks: Remarks): string | null {
  const part = nanoOf(soft.text) * 100n
  const percent = part / nano
  if (percent < 1n || percent > 100n) {
    remarks.wrongNumber(soft, 'a mark must be from 1% to 100% of the budget')
    return null
  }
  if (percent * nano !== part) remarks.add('changed', soft, 'a mark is a whole percentage', 'at: of the budget')
  return `${percent}%`
}

/** LiteLLM's units in seconds. */
const UNITS: Readonly<Record<string, number>> = { s: 1, m: 60, h: 3600, d: 86_400, w: 604_800, mo: 2_592_000 }
const PERIODS = [
  ['hour', 3600],
  ['day', 86_400],
  ['week', 604_800],
  ['month', 2_592_000],
] as const

/** Null: no period has this length. Without a duration, a budget is never reset. */
function everyOf(length: TextValue | null, remarks: Remarks): Every | null {
  if (length === null) return 'life'
  const [, many, unit] = /^([1-9]\d{0,8})(s|m|h|d|w|mo)$/.exec(length.text) ?? []
  if (unit === undefined) {
    const isVariable = hasReference(length)
    const message = isVariable ? 'a period is a variable' : 'it is not a duration such as 30d'
    remarks.add(isVariable ? 'yours' : 'lost', length, message, 'write the value in the file and import again')
    return null
  }
  const seconds = Number(many) * UNITS[unit]!
  const distance = (of: number): number => Math.abs(Math.log(seconds / of))
  const [every, exact] = PERIODS.toSorted(([, a], [, b]) => distance(a) - distance(b))[0]!
  if (seconds !== exact) {
    const message = 'a budget is for an hour, a day, a week, a month or for life'
    remarks.add('lost', length, message, 'write a budget of the nearest period at the step credits', `every: ${every}`)
    return null
  }
  if (every === 'hour')
    remarks.add('changed', length, 'an hour begins by the clock: LiteLLM counts from the last reset')
  if (every === 'month' && unit !== 'mo')
    remarks.add('changed', length, 'a month begins on its first day: old versions of LiteLLM count 30 days')
  return every
}

/** The options of `account budget` for a POSIX shell. */
export function budgetOptions({ amount, every, zone, at }: Period): string {
  return [
    `--amount ${amount.slice(1)} --every ${every}`,
    ...(zone === undefined ? [] : [`--zone ${zone}`]),
    ...(at === undefined ? [] : [`--at ${at.join(',')}`]),
  ].join(' ')
}
