/** Receipts: the events of a hold, its settle and its correction in one record. */
import { cost, NO_COST, type Price, plainPrice, type Receipt, UNIT_NAMES, type Usage, withoutZeros } from '#contract'
import type { Database, Row, Value } from '../engine/database.ts'
import { HOLD, SETTLE } from './ledger.ts'
import { type Field, HOLD_FIELDS, priceOf, SETTLE_FIELDS } from './ledger-fields.ts'

const shown = (fields: readonly Field<never>[]) => fields.filter(({ hidden }) => !hidden)
const OF_HOLD = shown(HOLD_FIELDS)
/** Fields of a correction replace them. */
const OF_SETTLE = shown(SETTLE_FIELDS)

/** Prepares the statement once. The reader returns undefined if the exchange has no hold. */
export function createReceiptReader(database: Database): (exchange: string) => Receipt | undefined {
  const find = database.prepareMoney(`
    SELECT hold.id, hold.amount AS held, hold.at AS created_at, settle.amount + coalesce(correction.amount, 0) AS charged,
      settle.at AS settled_at, correction.at AS corrected_at, hold.price, ${OLD_PRICE.map(column => `hold.${column}`).join(', ')},
      coalesce(correction.units, settle.units) AS units, ${OF_HOLD.map(({ column }) => `hold.${column}`).join(', ')},
      ${OF_SETTLE.map(({ column }) => `coalesce(correction.${column}, settle.${column}) AS ${column}`).join(', ')}
    FROM event AS hold LEFT JOIN ${database.dialect.only('event')} AS settle ON settle.id = hold.id AND settle.kind = ${SETTLE}
      LEFT JOIN correction ON correction.id = settle.id
    WHERE hold.id = ? AND hold.kind = ${HOLD}`)
  return exchange => {
    const row = find.get(exchange)
    return row && toReceipt(row)
  }
}

function toReceipt(row: Row): Receipt {
  const receipt = {
    id: row['id'],
    createdAt: Number(row['created_at']),
    settledAt: row['settled_at'] === null ? null : Number(row['settled_at']),
    correctedAt: row['corrected_at'] === null ? null : Number(row['corrected_at']),
    held: row['held'],
    charged: row['charged'],
    usage: jsonIn(row['units']!) ?? {},
    tags: {},
  }
  for (const field of [...OF_HOLD, ...OF_SETTLE]) putField(receipt, field, row[field.column]!)
  const usage = withoutZeros(receipt.usage as Usage)
  const price = priceIn(row)
  // Without usage a request costs nothing, unless it was charged.
  const isUsed = UNIT_NAMES.some(unit => usage[unit]) || (receipt.charged as bigint | null)
  // A step that answers from a cache has a price of its own.
  const isPriced = isUsed && row['source'] !== 'cached'
  return { ...receipt, usage, price, cost: isPriced ? cost(usage, price) : NO_COST } as unknown as Receipt
}

/** Columns of the price in holds of earlier versions. */
const OLD_PRICE = [
  'price_input',
  'price_cached_input',
  'price_cache_write',
  'price_output',
  'price_request',
  'price_search',
]

function priceIn(row: Row): Price {
  if (row['price'] !== null) return priceOf(row['price'] as string)
  const [input, cached_input, cache_write, output, request, search] = OLD_PRICE.map(
    column => row[column] as bigint | null,
  )
  const sold = { input, cached_input, cache_write, output, request, search }
  return plainPrice(Object.fromEntries(Object.entries(sold).filter(([, nanos]) => nanos !== null)))
}

const jsonIn = (text: Value): unknown => (text === null ? null : JSON.parse(text as string))

function putField(receipt: object, { name, kind, optional }: Field<never>, value: Value): void {
  if (value === null && optional && kind !== 'text') return
  const path = name.split('.')
  const last = path.pop()!
  const into = path.reduce((object, part) => object[part] as Fields, receipt as Fields)
  if (kind === 'count') into[last] = Number(value ?? 0)
  else into[last] = kind === 'json' ? JSON.parse((value as string | null) ?? '[]') : value
}

type Fields = Record<string, unknown>
