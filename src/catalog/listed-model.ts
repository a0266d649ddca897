/** A model in a price list. */
import { type NanoUsd, type Price, type PriceRule, UNITS, type Unit } from '#contract'
import { decimalOf } from './decimal.ts'

/** A mistake in a price list, at a path of its JSON. */
export interface ListProblem {
  readonly path: readonly string[]
  /** Index in the text, if it is not the value at `path`. */
  readonly offset?: number
  /** Whether the operator can accept it for the model. */
  readonly isAcceptable?: true
  readonly message: string
  readonly suggestion?: string
  /** The text may not be a price list, so no line of it is shown. */
  readonly concealed?: boolean
}

/** The end of a model, and the provider's name of its successor. */
export interface Deprecation {
  /** The day on which the provider turns the model off, as YYYY-MM-DD; null if the list does not have it. */
  readonly date: string | null
  readonly successor: string | null
}

/** One model of a price list. Null fields are missing in the list. */
export interface ListedModel {
  /** The provider's name of the model. */
  readonly id: string
  /** In nano-dollars; null if the list has no token prices for chats. */
  readonly price: Price | null
  /** The next day on which the price changes, as YYYY-MM-DD. */
  readonly changes: string | null
  /** Whether the price depends on the hour; `price` is then the highest of the day. */
  readonly hourly: boolean
  readonly context: number | null
  readonly maxOutput: number | null
  readonly reasoning: boolean | null
  /** Whether the price also applies to each name with a date after this one. */
  readonly dated: boolean
  /** Whether it answers chats. */
  readonly chat: boolean
  readonly deprecation: Deprecation | null
  /** Prices in the list for units that the gateway does not count. */
  readonly uncounted: readonly string[]
  /** Path of the model in the JSON of its list. */
  readonly path: readonly string[]
  readonly problems: readonly ListProblem[]
}

/** A list in a file has the prices of one day, and full names only. */
export const WITHOUT_TIME = { changes: null, hourly: false, dated: false } as const

/** Converts a rule's price to the quantity of YAML, `UNITS[unit].per`. @param unit the rule's own, or a part of it */
export const nanosFor = ({ nanos, per, unit: own }: PriceRule, unit: Unit = own): NanoUsd =>
  (nanos * BigInt(UNITS[unit].per)) / BigInt(per)

/** Maximum price of the quantity in YAML, `UNITS[unit].per`. A higher one is a typing error. */
export const MAX_DOLLARS = 100_000

/**
 * The price of a unit as a rule, in YAML's quantity, rounded up to the nano-dollar.
 * @param per the number of units that `dollars` are for
 */
export function ruleOf(
  unit: Unit,
  dollars: number,
  per: number,
  condition: Pick<PriceRule, 'above' | 'tier' | 'source'>,
): PriceRule {
  const own = UNITS[unit].per
  const { digits, exponent } = decimalOf(String(dollars))!
  const numerator = digits * BigInt(own) * 10n ** BigInt(Math.max(exponent + 9, 0))
  const divisor = BigInt(per) * 10n ** BigInt(Math.max(-exponent - 9, 0))
  return { unit, nanos: (numerator + divisor - 1n) / divisor, per: own, ...condition }
}

/** Why a price is invalid; null if it is valid. `dollars` are for `per`. */
export function faultOf(dollars: unknown, unit: Unit, per: number): string | null {
  if (typeof dollars !== 'number' || !Number.isFinite(dollars)) {
    return `${JSON.stringify(dollars)} is not a price: it must be a number of dollars`
  }
  if (dollars < 0) return `${dollars} is not a price: it must not be below 0`
  const shown = (dollars / per) * UNITS[unit].per
  if (shown > MAX_DOLLARS) {
    return `${dollars} is $${Math.round(shown)} ${UNITS[unit].per === 1_000_000 ? 'for 1M tokens' : `a ${UNITS[unit].one}`}: a price is at most $${MAX_DOLLARS}`
  }
  return null
}

export type Members = Readonly<Record<string, unknown>>

export const isMap = (value: unknown): value is Members =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/** Whether a text is a calendar date, as YYYY-MM-DD. */
export function isDay(text: unknown): text is string {
  if (typeof text !== 'string') return false
  const day = new Date(`${text}T00:00:00Z`)
  return !Number.isNaN(day.getTime()) && day.toISOString().slice(0, 10) === text
}

/** Whether a provider's model can have this name: 1 to 200 printable characters without spaces. */
export const isModelName = (name: string): boolean => /^[!-~]{1,200}$/.test(name)

/** An integer number of tokens; null if the list has no plausible one. */
export function tokensOf(value: unknown): number | null {
  return typeof value === 'number' && Number.isInteger(value) && value > 0 && value <= 100_000_000 ? value : null
}

/** Why the end day in the member `key` of a row at `path` is invalid; null if it is valid or missing. */
export function endFault(row: Members, key: string, path: readonly string[]): ListProblem | null {
  const date = row[key] ?? null
  if (date === null || date === '' || isDay(date)) return null
  const message = `${path.at(-1)}: ${key}: ${JSON.stringify(date)} is not a calendar date`
  return { path: [...path, key], message, suggestion: 'write it as YYYY-MM-DD' }
}

/** The end of a model; null if the list has no valid day. */
export function deprecationOf(date: unknown, successor: string | null = null): Deprecation | null {
  return isDay(date) ? { date, successor } : null
}

/** Whether a rule applies to ordinary requests of any length. */
export const isOrdinary = ({ above, tier }: PriceRule): boolean => above === undefined && tier === undefined

/** One rule for each unit and condition: some lists have a price under two names, and the higher one counts. */
export function merged(rules: readonly PriceRule[]): PriceRule[] {
  const found = new Map<string, PriceRule>()
  for (const rule of rules) {
    const key = `${rule.unit} ${rule.above} ${rule.tier}`
    const other = found.get(key)
    if (other === undefined || rule.nanos > other.nanos) found.set(key, rule)
  }
  return [...found.values()]
}

/** Adds a model under its name in lower case. A second row with the same name and another chat price is a problem of the model. */
export function addModel(models: Map<string, ListedModel>, model: ListedModel): void {
  const key = model.id.toLowerCase()
  const other = models.get(key)
  if (other === undefined) {
    models.set(key, model)
    return
  }
  const problems = [...other.problems, ...model.problems]
  const isChat = other.chat || model.chat
  if (isChat && other.price !== null && model.price !== null && priceKey(other.price) !== priceKey(model.price)) {
    const message = `"${model.path.join('.')}" has another price than "${other.path.join('.')}", but is the same model`
    const suggestion = 'remove one of them, or accept the model: the later one then counts'
    problems.push({ path: model.path, message, suggestion, isAcceptable: true })
  }
  models.set(key, { ...(model.price === null ? other : model), problems })
}

/** Units for which some lists have 0 if the provider does not bill them. */
export const CACHES: readonly Unit[] = ['cached_input', 'cache_write', 'cache_write_1h', 'cached_audio']

/** A key that is equal for equal rules in any order. */
const priceKey = (price: Price): string =>
  price
    .filter(({ unit, nanos }) => nanos > 0n || !CACHES.includes(unit))
    .map(({ unit, nanos, above, tier }) => `${unit} ${nanos} ${above} ${tier}`)
    .sort()
    .join()

/** The member in which `tollgate prices update` writes the day and the source of a list. */
export const MARK = '_tollgate'

/** A price list and its day, as in receipts. */
export const sourceOf = (name: string, date: string): string => `${name} of ${date}`
