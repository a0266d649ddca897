/**
 * The fields of a hold and of a settle. Checks, mailbox records, statements, lines to PostgreSQL, receipts and the spool are all made
 * from these lists.
 */
import {
  type HoldBudget,
  type HoldRequest,
  type NanoUsd,
  type Price,
  type PriceRule,
  type SettleRequest,
  type Tier,
  UNIT_NAMES,
  UNITS,
  type Unit,
  type Usage,
} from '#contract'
import { boundedMap } from '../../common/bounded.ts'

/** The largest amount of a 64-bit column: about nine billion dollars. */
export const LARGEST: NanoUsd = 2n ** 63n - 1n

/** Money is a 64-bit integer, a count a whole number, and JSON a text that receipts parse. */
type Kind = 'money' | 'count' | 'text' | 'json'

export interface Field<Request> {
  /** The name in the request, in the spool and in the receipt; a dot leads into an object. */
  readonly name: string
  /** The name in the table `event`. */
  readonly column: string
  readonly kind: Kind
  /** Whether it may be null. Receipts leave out numbers that are null. */
  readonly optional?: true
  /** Receipts do not show it, or show it differently. */
  readonly hidden?: true
  readonly read: (request: Request) => NanoUsd | number | string | null
}

export const HOLD_FIELDS = [
  { name: 'exchange', column: 'id', kind: 'text', hidden: true, read: hold => hold.exchange },
  { name: 'accountId', column: 'account', kind: 'text', read: hold => hold.accountId },
  { name: 'amount', column: 'amount', kind: 'money', hidden: true, read: hold => hold.amount },
  { name: 'keyId', column: 'key', kind: 'text', read: hold => hold.keyId },
  { name: 'model', column: 'model', kind: 'text', read: hold => hold.model },
  { name: 'price', column: 'price', kind: 'json', hidden: true, read: hold => priceText(hold.price) },
  { name: 'bound.output', column: 'cap_tokens', kind: 'count', hidden: true, read: hold => hold.bound.output ?? 0 },
  {
    name: 'idempotencyKey',
    column: 'idempotency_key',
    kind: 'text',
    optional: true,
    read: hold => hold.idempotencyKey,
  },
  { name: 'tags', column: 'tags', kind: 'json', optional: true, read: hold => tagsText(hold.tags) },
  {
    name: 'budgets',
    column: 'budgets',
    kind: 'text',
    optional: true,
    hidden: true,
    read: hold => budgetsText(hold.budgets),
  },
] as const satisfies readonly Field<HoldRequest>[]

export const SETTLE_FIELDS = [
  { name: 'exchange', column: 'id', kind: 'text', hidden: true, read: settle => settle.exchange },
  { name: 'amount', column: 'amount', kind: 'money', hidden: true, read: settle => settle.amount },
  { name: 'overrun', column: 'overrun', kind: 'money', read: settle => settle.overrun },
  { name: 'source', column: 'source', kind: 'text', read: settle => settle.source },
  { name: 'outcome', column: 'outcome', kind: 'text', read: settle => settle.outcome },
  { name: 'code', column: 'code', kind: 'text', optional: true, read: settle => settle.code },
  { name: 'usage.input', column: 'prompt_tokens', kind: 'count', read: settle => settle.usage.input ?? 0 },
  {
    name: 'usage.cached_input',
    column: 'cached_tokens',
    kind: 'count',
    read: settle => settle.usage.cached_input ?? 0,
  },
  {
    name: 'usage.cache_write',
    column: 'cache_write_tokens',
    kind: 'count',
    read: settle => settle.usage.cache_write ?? 0,
  },
  { name: 'usage.output', column: 'completion_tokens', kind: 'count', read: settle => settle.usage.output ?? 0 },
  { name: 'usage.reasoning', column: 'reasoning_tokens', kind: 'count', read: settle => settle.usage.reasoning ?? 0 },
  {
    name: 'usage.search',
    column: 'searches',
    kind: 'count',
    optional: true,
    read: settle => settle.usage.search || null,
  },
  {
    name: 'units',
    column: 'units',
    kind: 'json',
    optional: true,
    hidden: true,
    read: settle => unitsText(settle.usage),
  },
  { name: 'attempts', column: 'attempts', kind: 'json', read: settle => JSON.stringify(settle.attempts) },
  { name: 'trail', column: 'trail', kind: 'json', read: settle => JSON.stringify(settle.trail) },
] as const satisfies readonly Field<SettleRequest>[]

/** The text of each price, made once: requests of a model share one. */
const priceTexts = new WeakMap<Price, string>()

function priceText(price: Price): string {
  let text = priceTexts.get(price)
  if (text === undefined) {
    text = JSON.stringify(price.map(ruleRecord))
    priceTexts.set(price, text)
  }
  return text
}

/** `[unit, nanos]`, with `per`, `above` and `tier` unless all are defaults, and the source if there is one. Null is the default. */
type RuleRecord = readonly [
  unit: Unit,
  nanos: string,
  per?: number | null,
  above?: number | null,
  tier?: Tier | null,
  source?: string | null,
]

function ruleRecord({ unit, nanos, per, above, tier, source }: PriceRule): RuleRecord {
  if (source !== undefined) return [unit, String(nanos), per, above ?? null, tier ?? null, source]
  if (per === UNITS[unit].per && above === undefined && tier === undefined) return [unit, String(nanos)]
  return [unit, String(nanos), per, above ?? null, tier ?? null]
}

export function priceOf(text: string): Price {
  return (JSON.parse(text) as readonly RuleRecord[]).map(([unit, nanos, per, above, tier, source]) => ({
    unit,
    nanos: BigInt(nanos),
    per: per ?? UNITS[unit].per,
    ...(above == null ? {} : { above }),
    ...(tier == null ? {} : { tier }),
    ...(source == null ? {} : { source }),
  }))
}

function tagsText(tags: HoldRequest['tags']): string | null {
  return tags === undefined || Object.keys(tags).length === 0 ? null : JSON.stringify(tags)
}

type BudgetRecord = readonly [
  budget: string,
  start: number,
  end: number | null,
  amount: string,
  marks: readonly number[],
]

/** The column `budgets` of a hold; null: none. */
export function budgetsText(budgets: readonly HoldBudget[] | undefined): string | null {
  if (budgets === undefined || budgets.length === 0) return null
  return JSON.stringify(
    budgets.map(({ budget, start, end, amount, marks }): BudgetRecord => [budget, start, end, String(amount), marks]),
  )
}

const NONE: readonly HoldBudget[] = []

/** Keyed by the text: requests of a key share one until a period ends. */
const knownBudgets = boundedMap<readonly HoldBudget[]>(1_000)

/** Reads the column `budgets`. Holds of an earlier version have ids there, which have no rows. */
export function budgetsOf(text: string | null): readonly HoldBudget[] {
  if (text === null || !text.startsWith('[')) return NONE
  let budgets = knownBudgets.get(text)
  if (budgets === undefined) {
    budgets = (JSON.parse(text) as readonly BudgetRecord[]).map(([budget, start, end, amount, marks]) => ({
      budget,
      start,
      end,
      amount: BigInt(amount),
      marks,
    }))
    knownBudgets.set(text, budgets)
  }
  return budgets
}

const WITHOUT_COLUMN = UNIT_NAMES.filter(unit => UNITS[unit].field === null && unit !== 'request')

/** The units without a column of their own, and the class of service; null: none. */
function unitsText(usage: Usage): string | null {
  if (usage.tier === undefined && !WITHOUT_COLUMN.some(unit => usage[unit])) return null
  const others = WITHOUT_COLUMN.filter(unit => usage[unit])
  return JSON.stringify({ ...Object.fromEntries(others.map(unit => [unit, usage[unit]])), tier: usage.tier })
}

/** The values in the order of the fields. An array, because objects with computed names are slow. */
type RecordOf<Fields extends readonly Field<never>[]> = {
  readonly [Place in keyof Fields]: ReturnType<Fields[Place]['read']>
}

/** The index of each value in the record, by name. */
type PlacesOf<Fields extends readonly Field<never>[]> = {
  readonly [Place in keyof Fields & `${number}` as Fields[Place]['name']]: Place extends `${infer At extends number}`
    ? At
    : never
}

export type HoldRecord = RecordOf<typeof HOLD_FIELDS>
export type SettleRecord = RecordOf<typeof SETTLE_FIELDS>

export const HOLD_INDEX = placesOf(HOLD_FIELDS)
export const SETTLE_INDEX = placesOf(SETTLE_FIELDS)

export const holdRecord = (request: HoldRequest): HoldRecord => recordOf(HOLD_FIELDS, request)
export const settleRecord = (request: SettleRequest): SettleRecord => recordOf(SETTLE_FIELDS, request)

/** For a statement: the columns, and a placeholder for each value. */
export const columnsOf = (fields: readonly Field<never>[]): string => fields.map(({ column }) => column).join(', ')
export const marksOf = (fields: readonly Field<never>[]): string => fields.map(() => '?').join(', ')

function placesOf<Fields extends readonly Field<never>[]>(fields: Fields): PlacesOf<Fields> {
  return Object.fromEntries(fields.map(({ name }, at) => [name, at])) as PlacesOf<Fields>
}

function recordOf<Request, Fields extends readonly Field<Request>[]>(
  fields: Fields,
  request: Request,
): RecordOf<Fields> {
  const values: unknown[] = []
  for (const { read } of fields) values.push(read(request))
  return values as unknown as RecordOf<Fields>
}
