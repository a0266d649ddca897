/** Where a page begins, as text for clients: a list of values, which only the store reads. */
import { invalid } from '../mistakes.ts'
import type { Cursor } from './reports.ts'

type Value = string | number

export function encodeCursor(values: readonly Value[]): Cursor {
  return Buffer.from(JSON.stringify(values)).toString('base64url')
}

/** Throws `invalid` for anything that `encodeCursor` would not have made of such values. */
export function decodeCursor(cursor: Cursor, types: readonly ('string' | 'number')[]): readonly Value[] {
  const values = parse(cursor)
  const fits = Array.isArray(values) && values.length === types.length
  const isOf = (value: unknown, type: string) =>
    type === 'number' ? Number.isSafeInteger(value) : typeof value === type
  if (fits && types.every((type, index) => isOf(values[index], type))) return values
  throw invalid('The cursor is none that this list has given: take `next` of a page as it is.')
}

function parse(cursor: Cursor): unknown {
  try {
    return JSON.parse(Buffer.from(cursor, 'base64url').toString())
  } catch {
    return undefined
  }
}
