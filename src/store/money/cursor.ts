/** Cursors: the beginning of a page as text for clients. A list of values, which only the store reads. */
import { invalid } from '../mistakes.ts'
import type { Cursor } from './reports.ts'

type Value = string | number

export function encodeCursor(values: readonly Value[]): Cursor {
  return Buffer.from(JSON.stringify(values)).toString('base64url')
}

/** Throws `invalid` for a cursor that `encodeCursor` did not make of values of these types. */
export function decodeCursor(cursor: Cursor, types: readonly ('string' | 'number')[]): readonly Value[] {
  const values = parse(cursor)
  const fits = Array.isArray(values) && values.length === types.length
  const isOf = (value: unknown, type: string) =>
    type === 'number' ? Number.isSafeInteger(value) : typeof value === type
  if (fits && types.every((type, index) => isOf(values[index], type))) return values
  throw invalid('The cursor is not from this list. Use `next` of a page unchanged.')
}

function parse(cursor: Cursor): unknown {
  try {
    return JSON.parse(Buffer.from(cursor, 'base64url').toString())
  } catch {
    return undefined
  }
}
