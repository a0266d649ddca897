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
  return csvHeader(columns) + csvLines(columns, rows)
}

/** The first line of a file that is sent in pieces. */
export function csvHeader<Row>(columns: readonly Column<Row>[]): string {
  return `${columns.map(({ name }) => cell(name)).join(',')}\r\n`
}

/** More lines of it. */
export function csvLines<Row>(columns: readonly Column<Row>[], rows: Iterable<Row>): string {
  let lines = ''
  for (const row of rows) lines += `${columns.map(column => cell(column.of(row))).join(',')}\r\n`
  return lines
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
