/**
 * Tables for spreadsheets (RFC 4180). What strangers have named (a key, a model, a note) must stay text there: a cell that
 * a spreadsheet would take for a formula gets an apostrophe before it.
 */

/** A column: its name, and what a row has in it; null is an empty cell. */
export interface Column<Row> {
  readonly name: string
  of(row: Row): string | number | null
}

/** The whole file, with a header row, lines ended by CRLF. */
export function toCsv<Row>(columns: readonly Column<Row>[], rows: Iterable<Row>): string {
  const lines = [columns.map(({ name }) => cell(name)).join(',')]
  for (const row of rows) lines.push(columns.map(column => cell(column.of(row))).join(','))
  return `${lines.join('\r\n')}\r\n`
}

const NUMBER = /^-?\d+(\.\d+)?$/
/** The last four are what some spreadsheets take for the first four; a tab or a line's end they skip. */
const FORMULA = /^[\t\r\n ]*[=+\-@\uff1d\uff0b\uff0d\uff20]|^[\t\r\n]/
/** A semicolon or a tab separates cells where the comma is part of numbers. */
const NEEDS_QUOTES = /[",;\t\r\n]|^ | $/

function cell(value: string | number | null): string {
  if (value === null) return ''
  const text = String(value)
  const harmless = FORMULA.test(text) && !NUMBER.test(text) ? `'${text}` : text
  return NEEDS_QUOTES.test(harmless) ? `"${harmless.replaceAll('"', '""')}"` : harmless
}
