/** Tables for spreadsheets: text of strangers stays text in them, and reads back unchanged. */
import { describe, expect, test } from 'vitest'
import { toCsv } from '../../src/api/csv.ts'
import { seeded } from '../helpers/seeded.ts'
import { readCsv } from './read-csv.ts'

const COLUMNS = [
  { name: 'name', of: (row: Row) => row[0] },
  { name: 'amount', of: (row: Row) => row[1] },
]
type Row = readonly [string | number | null, string | number | null]

const cellOf = (value: string | number | null) =>
  toCsv(COLUMNS, [[value, 0]]).slice('name,amount\r\n'.length, -',0\r\n'.length)

describe('a cell', () => {
  test.each([
    // All beginnings of a formula.
    ['=1+1', "'=1+1"],
    ['+1+1', "'+1+1"],
    ['-1+1', "'-1+1"],
    ['@SUM(A1:A9)', "'@SUM(A1:A9)"],
    ['=HYPERLINK("http://x.example","y")', `"'=HYPERLINK(""http://x.example"",""y"")"`],
    ["=cmd|'/C calc'!A0", "'=cmd|'/C calc'!A0"],
    ['\t=1+1', `"'\t=1+1"`],
    ['\r=1+1', `"'\r=1+1"`],
    ['\n=1+1', `"'\n=1+1"`],
    ['  =1+1', "'  =1+1"],
    ['＝1+1', "'＝1+1"],
    ['＋1', "'＋1"],
    ['－1', "'－1"],
    ['＠x', "'＠x"],
    ['-', "'-"],
    ['--1', "'--1"],
    ['+1', "'+1"],
    ['-1e5', "'-1e5"],
    ['-1.', "'-1."],
    ['- a list', "'- a list"],
    // Formulas after a character that another program reads as the end of a cell.
    ['a;=1+1', '"a;=1+1"'],
    ['a\t=1+1', '"a\t=1+1"'],
    ['a",=1+1', '"a"",=1+1"'],
    ['a\r\n=1+1', '"a\r\n=1+1"'],
    // Numbers are not formulas.
    ['-1', '-1'],
    ['-0.000034000', '-0.000034000'],
    ['12.500000000', '12.500000000'],
    [-5, '-5'],
    [0, '0'],
    // Anything else is unchanged, and quoted where necessary.
    [null, ''],
    ['', ''],
    ['plain', 'plain'],
    ['a=b', 'a=b'],
    ['ada@example.com', 'ada@example.com'],
    ['a,b', '"a,b"'],
    ['say "yes"', '"say ""yes"""'],
    [' padded ', '" padded "'],
    ['<script>alert(1)</script>', '<script>alert(1)</script>'],
    ['日本語 🎈', '日本語 🎈'],
  ])('%j is %j', (value, expected) => {
    expect(cellOf(value)).toBe(expected)
  })
})

test('a table without rows is its header', () => {
  expect(toCsv(COLUMNS, [])).toBe('name,amount\r\n')
})

test('all text reads back to the last character, except for the added apostrophe', () => {
  const random = seeded(5)
  const characters = ['=', '+', '-', '@', '"', ',', ';', '\r', '\n', '\t', ' ', 'a', '1', '.', "'", 'é', '🎈', '＝']
  const word = () =>
    Array.from({ length: Math.floor(random() * 6) }, () => characters[Math.floor(random() * characters.length)]).join(
      '',
    )
  const rows: Row[] = Array.from({ length: 2000 }, () => [word(), word()])
  const [, ...read] = readCsv(toCsv(COLUMNS, rows))
  expect(read).toHaveLength(rows.length)
  let changed = 0
  for (const [index, row] of rows.entries()) {
    for (const column of [0, 1] as const) {
      const [written, got] = [row[column] as string, read[index]![column]!]
      if (got !== written) {
        expect(got).toBe(`'${written}`)
        changed++
      }
      if (!/^-?\d+(\.\d+)?$/.test(got)) expect(got).not.toMatch(/^[\s]*[=+\-@＝＋－＠]/)
    }
  }
  expect(changed).toBeGreaterThan(500)
})
