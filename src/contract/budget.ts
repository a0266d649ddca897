/** Budgets: limits on spending in a period. */
import { type NanoUsd, unit } from './quantities.ts'

/** The length of a period. `life` has no end. Weeks begin on Monday (ISO 8601). */
export const EVERY = ['hour', 'day', 'week', 'month', 'life'] as const
/** The length of a period. */
export type Every = (typeof EVERY)[number]

/** The subjects of a budget, each within an account. `caller`: the subject of a key or a token. */
export type BudgetPer = 'account' | 'key' | 'caller' | `tag ${string}`

/** A limit on spending in a period, in a plan, a policy, an account or a key. */
export interface Budget {
  /** For people; unique for its period and place. Default: `PER EVERY`. */
  readonly name?: string
  readonly per: BudgetPer
  readonly amount: NanoUsd
  readonly every: Every
  /** The time zone in which days begin: a name of the IANA database. Default: UTC. */
  readonly zone?: string
  /** Percentages of the amount that trigger an alert: `80%`. Default: 80 % and 100 %. */
  readonly at?: readonly string[]
  /** `refuse`, or the model that answers requests beyond the budget. Default: refuse. */
  readonly then?: string
}

/** A budget for one hold: its row in the ledger, and its limit. */
export interface HoldBudget {
  /** The budget's place, name, period and subject; unique in the account. */
  readonly budget: string
  /** The start of the period, in milliseconds since the epoch. */
  readonly start: number
  /** Null: the period has no end. */
  readonly end: number | null
  readonly amount: NanoUsd
  /** In percent of the amount, lowest first. */
  readonly marks: readonly number[]
}

/** A budget that counts a request. */
export interface ChainedBudget extends HoldBudget {
  readonly rule: Budget
  /** For people: `of the key app`. */
  readonly whose: string
}

/** The pattern of `per: tag NAME`, in limits and budgets. */
export const PER_TAG = 'tag [A-Za-z_][\\w-]{0,63}'

/** The field `per` of a plan's limit and of a budget, for the settings schema. */
export const PER_SETTING = {
  type: 'string',
  pattern: `^(account|key|caller|${PER_TAG})$`,
  examples: ['account', 'key', 'caller'],
  sentence: 'must be account, key, caller or "tag NAME"',
} as const

/** The pattern of a percentage: `80%`. */
export const MARK_PATTERN = '^([1-9]\\d?|100)%$'
/** The rule of `MARK_PATTERN`, after the name of a field. */
export const MARK_RULE = 'must be a percentage from 1% to 100%'

/** A budget in YAML, for the settings schema. */
export const BUDGET_SCHEMA = {
  type: 'object',
  additionalProperties: false,
  required: ['per', 'amount', 'every'],
  properties: {
    name: {
      type: 'string',
      pattern: '^[^\\p{C}\\s]([^\\p{C}]{0,58}[^\\p{C}\\s])?$',
      sentence: 'must be 1 to 60 visible characters without space around them',
      description: 'The name in refusals, headers and alerts. Default: PER EVERY, such as "key month".',
    },
    per: {
      ...PER_SETTING,
      description: 'Who has a budget of their own, each within an account: account, key, caller, or "tag NAME".',
    },
    amount: { ...unit('money'), description: 'What may be spent and held in a period: $100.' },
    every: { enum: EVERY, description: 'The period. Weeks begin on Monday; life has no end.' },
    zone: {
      type: 'string',
      minLength: 1,
      maxLength: 64,
      description: 'The time zone in which days begin, such as Europe/Berlin. Default: UTC.',
    },
    at: {
      type: 'array',
      uniqueItems: true,
      maxItems: 10,
      items: { type: 'string', pattern: MARK_PATTERN, sentence: MARK_RULE },
      description: 'At which parts of the amount there is an alert. Default: [80%, 100%].',
    },
    then: {
      type: 'string',
      minLength: 1,
      description: 'refuse, or the id of a model that answers what the budget cannot pay. Default: refuse.',
    },
  },
} as const

const DEFAULT_MARKS: readonly number[] = [80, 100]

/** Returns the tag in `per`: `team` of `tag team`; null: none. */
export const tagOf = (per: string): string | null => (per.startsWith('tag ') ? per.slice('tag '.length) : null)

/** Returns the marks of a budget in percent, lowest first. */
export function marksOf({ at }: Pick<Budget, 'at'>): readonly number[] {
  return at === undefined ? DEFAULT_MARKS : at.map(text => Number.parseInt(text, 10)).sort((a, b) => a - b)
}

/** Returns the name of a budget, or `PER EVERY`. */
export const budgetName = ({ name, per, every }: Budget): string => name ?? `${per} ${every}`

/** Whether the time zone exists. */
export function isZone(zone: string): boolean {
  try {
    return new Intl.DateTimeFormat('en', { timeZone: zone }) !== null
  } catch {
    return false
  }
}

/** An invalid term of a budget. */
export interface BudgetMistake {
  readonly field: 'zone' | 'at'
  readonly value: string
  /** Follows the name of the field: `must be …`. */
  readonly rule: string
}

const MARK = new RegExp(MARK_PATTERN)

/** Returns the mistake in the terms of a budget: an unknown time zone, or an invalid or repeated percentage. */
export function mistakeInBudget({ zone, at = [] }: Pick<Budget, 'zone' | 'at'>): BudgetMistake | null {
  if (zone !== undefined && !isZone(zone)) {
    return { field: 'zone', value: zone, rule: 'must be a time zone such as Europe/Berlin or UTC' }
  }
  const mark = at.find(each => !MARK.test(each))
  if (mark !== undefined) return { field: 'at', value: mark, rule: MARK_RULE }
  const twice = at.find((each, i) => at.indexOf(each) < i)
  return twice === undefined ? null : { field: 'at', value: twice, rule: 'must have each percentage once' }
}

/** Returns the mistakes in a list of budgets that its schema cannot find: unknown time zones and repeated names. Each has its place. */
export function problemsOfBudgets(budgets: readonly Budget[]): { readonly at: string; readonly message: string }[] {
  const names = new Set<string>()
  return budgets.flatMap((budget, index) => {
    const found: { at: string; message: string }[] = []
    const mistake = mistakeInBudget(budget)
    if (mistake !== null) {
      const { field, value, rule } = mistake
      found.push({ at: `/${index}/${field}`, message: `${field} ${rule}, and is ${JSON.stringify(value)}` })
    }
    const name = `${budgetName(budget)} ${budget.every}`
    if (names.has(name)) {
      found.push({ at: `/${index}`, message: `is a second budget "${budgetName(budget)}"; give it a \`name\`` })
    }
    names.add(name)
    return found
  })
}
