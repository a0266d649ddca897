/**
 * The fields of a hold and of a settle. Everything that lists them is made of these lists: checks, records in the mailbox,
 * statements, lines to PostgreSQL, receipts and the spool.
 */
import type { HoldRequest, NanoUsd, SettleRequest } from '#contract'

/** The largest amount that a 64-bit column holds: some nine billion dollars. */
export const LARGEST: NanoUsd = 2n ** 63n - 1n

/** Money is a 64-bit integer, a count a whole number, and JSON a text that is parsed for the receipt. */
type Kind = 'money' | 'count' | 'text' | 'json'

export interface Field<Request> {
  /** In the request, in the spool and in the receipt; a point leads into an object. */
  readonly name: string
  /** In the table `event`. */
  readonly column: string
  readonly kind: Kind
  /** Whether it may be null. A receipt leaves out a number that is. */
  readonly optional?: true
  /** Receipts do not show it, or show it in another way. */
  readonly hidden?: true
  readonly read: (request: Request) => NanoUsd | number | string | null
}

export const HOLD_FIELDS = [
  { name: 'exchange', column: 'id', kind: 'text', hidden: true, read: hold => hold.exchange },
  { name: 'accountId', column: 'account', kind: 'text', read: hold => hold.accountId },
  { name: 'amount', column: 'amount', kind: 'money', hidden: true, read: hold => hold.amount },
  { name: 'keyId', column: 'key', kind: 'text', read: hold => hold.keyId },
  { name: 'model', column: 'model', kind: 'text', read: hold => hold.model },
  { name: 'price.input', column: 'price_input', kind: 'money', read: hold => hold.price.input },
  { name: 'price.cachedInput', column: 'price_cached_input', kind: 'money', read: hold => hold.price.cachedInput },
  { name: 'price.cacheWrite', column: 'price_cache_write', kind: 'money', read: hold => hold.price.cacheWrite },
  { name: 'price.output', column: 'price_output', kind: 'money', read: hold => hold.price.output },
  { name: 'price.request', column: 'price_request', kind: 'money', read: hold => hold.price.request },
  {
    name: 'price.search',
    column: 'price_search',
    kind: 'money',
    optional: true,
    read: hold => hold.price.search ?? null,
  },
  { name: 'capTokens', column: 'cap_tokens', kind: 'count', hidden: true, read: hold => hold.capTokens },
  {
    name: 'idempotencyKey',
    column: 'idempotency_key',
    kind: 'text',
    optional: true,
    read: hold => hold.idempotencyKey,
  },
] as const satisfies readonly Field<HoldRequest>[]

export const SETTLE_FIELDS = [
  { name: 'exchange', column: 'id', kind: 'text', hidden: true, read: settle => settle.exchange },
  { name: 'amount', column: 'amount', kind: 'money', hidden: true, read: settle => settle.amount },
  { name: 'overrun', column: 'overrun', kind: 'money', read: settle => settle.overrun },
  { name: 'source', column: 'source', kind: 'text', read: settle => settle.source },
  { name: 'outcome', column: 'outcome', kind: 'text', read: settle => settle.outcome },
  { name: 'code', column: 'code', kind: 'text', optional: true, read: settle => settle.code },
  { name: 'promptTokens', column: 'prompt_tokens', kind: 'count', read: settle => settle.promptTokens },
  { name: 'cachedTokens', column: 'cached_tokens', kind: 'count', read: settle => settle.cachedTokens },
  { name: 'cacheWriteTokens', column: 'cache_write_tokens', kind: 'count', read: settle => settle.cacheWriteTokens },
  { name: 'completionTokens', column: 'completion_tokens', kind: 'count', read: settle => settle.completionTokens },
  { name: 'reasoningTokens', column: 'reasoning_tokens', kind: 'count', read: settle => settle.reasoningTokens },
  {
    name: 'searches',
    column: 'searches',
    kind: 'count',
    optional: true,
    read: settle => (settle.searches === 0 ? null : (settle.searches ?? null)),
  },
  { name: 'attempts', column: 'attempts', kind: 'json', read: settle => JSON.stringify(settle.attempts) },
  { name: 'trail', column: 'trail', kind: 'json', read: settle => JSON.stringify(settle.trail) },
] as const satisfies readonly Field<SettleRequest>[]

/** The values in the order of the fields: arrays, because objects whose names come from a list are slow. */
type RecordOf<Fields extends readonly Field<never>[]> = {
  readonly [Place in keyof Fields]: ReturnType<Fields[Place]['read']>
}

/** By name, where in the record a value is. */
type PlacesOf<Fields extends readonly Field<never>[]> = {
  readonly [Place in keyof Fields & `${number}` as Fields[Place]['name']]: Place extends `${infer At extends number}`
    ? At
    : never
}

/** A hold as it is written. */
export type HoldRecord = RecordOf<typeof HOLD_FIELDS>
/** A settle as it is written. */
export type SettleRecord = RecordOf<typeof SETTLE_FIELDS>

export const HOLD_AT = placesOf(HOLD_FIELDS)
export const SETTLE_AT = placesOf(SETTLE_FIELDS)

export const holdRecord = (request: HoldRequest): HoldRecord => recordOf(HOLD_FIELDS, request)
export const settleRecord = (request: SettleRequest): SettleRecord => recordOf(SETTLE_FIELDS, request)

/** For a statement: the columns, and a mark for each value. */
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
