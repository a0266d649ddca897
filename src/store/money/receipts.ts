/** Receipts: a hold's event, its settle's and its correction, read as one. */
import type { Receipt } from '#contract'
import type { Database, Row, Value } from '../engine/database.ts'
import { HOLD, SETTLE } from './ledger.ts'
import { type Field, HOLD_FIELDS, SETTLE_FIELDS } from './ledger-fields.ts'

const shown = (fields: readonly Field<never>[]) => fields.filter(({ hidden }) => !hidden)
const OF_HOLD = shown(HOLD_FIELDS)
/** Those of its correction replace them. */
const OF_SETTLE = shown(SETTLE_FIELDS)

/** Prepares the search once; undefined when the exchange has no hold. */
export function createReceiptReader(database: Database): (exchange: string) => Receipt | undefined {
  const find = database.prepareMoney(`
    SELECT hold.id, hold.amount AS held, hold.at AS created_at, settle.amount + coalesce(correction.amount, 0) AS charged,
      settle.at AS settled_at, correction.at AS corrected_at, ${OF_HOLD.map(({ column }) => `hold.${column}`).join(', ')},
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
    price: {},
    held: row['held'],
    charged: row['charged'],
  }
  for (const field of [...OF_HOLD, ...OF_SETTLE]) putField(receipt, field, row[field.column]!)
  return receipt as unknown as Receipt
}

function putField(receipt: object, { name, kind, optional }: Field<never>, value: Value): void {
  if (value === null && optional && kind !== 'text') return
  const path = name.split('.')
  const last = path.pop()!
  const into = path.reduce((object, part) => object[part] as Fields, receipt as Fields)
  if (kind === 'count') into[last] = Number(value ?? 0)
  else into[last] = kind === 'json' ? JSON.parse((value as string | null) ?? '[]') : value
}

type Fields = Record<string, unknown>
