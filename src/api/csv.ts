/**
 * Tables for spreadsheets (RFC 4180). Names that users chose (of a key, a model, a note) must stay text. So a cell that a spreadsheet would
 * read as a formula begins with an apostrophe.
 */

/** A column: its name, and its cell for a row; null: an empty cell. */
export interface Column<Row> {
  readonly name: string
  of(row: Row): string | number | null
}

/** The whole file, with a header row, lines ended by CRLF. */
export function toCsv<Row>(columns: readonly Column<Row>[], rows: Iterable<Row>): string {
  return csvHeader(columns) + csvLines(columns, rows)
}

/** The header row of a file that is sent in pieces. */
export function csvHeader<Row>(columns: readonly Column<Row>[]): string {
  return `${columns.map(({ name }) => cell(name)).join(',')}\r\n`
}

/** The rows of a piece of the file. */
export function csvLines<Row>(columns: readonly Column<Row>[], rows: Iterable<Row>): string {
  let lines = ''
  for (const row of rows) lines += `${columns.map(column => cell(column.of(row))).join(',')}\r\n`
  return lines
}

const NUMBER = /^-?\d+(\.\d+)?$/
/** Some spreadsheets read the last four as the first four, and skip a tab or a line end before them. */
const FORMULA = /^[\t\r\n ]*[=+\-@\uff1d\uff0b\uff0d\uff20]|^[\t\r\n]/
/** In countries with decimal commas, a semicolon or a tab separates cells. */
const NEEDS_QUOTES = /[",;\t\r\n]|^ | $/

function cell(value: string | number | null): string {
  if (value === null) return ''
  const text = String(value)
  const harmless = FORMULA.test(text) && !NUMBER.test(text) ? `'${text}` : text
  return NEEDS_QUOTES.test(harmless) ? `"${harmless.replaceAll('"', '""')}"` : harmless
}
