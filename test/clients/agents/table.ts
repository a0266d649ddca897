/** The tables of the page about agents that a run writes: the programs, their versions, and the day. */
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { ROOT } from '../../helpers/repository.ts'

export const PAGE = 'src/request/AGENTS-AND-APPS.md'
const FILE = join(ROOT, PAGE)

/** `npm run test:full -- clients test/clients/agents --update`. */
export const UPDATE = process.env['TOLLGATE_UPDATE'] === '1'

/** The cells after the name, by name, of the table below this mark. */
export function readRows(mark: string): Map<string, readonly string[]> {
  const [, , table = ''] = blockOf(mark).exec(readFileSync(FILE, 'utf8')) ?? []
  const rows = table.split('\n').slice(2, -1)
  return new Map(rows.map(row => row.slice(2, -2).split(' | ')).map(([name, ...cells]) => [name!, cells]))
}

/** Rewrites the rows of the programs that ran, with the day as the last cell; other rows stay. `names` is their order. */
export function writeRows(mark: string, names: readonly string[], ran: ReadonlyMap<string, readonly string[]>): void {
  const rows = readRows(mark)
  const day = new Date().toISOString().slice(0, 10)
  for (const [name, cells] of ran) rows.set(name, [...cells, day])
  const lines = names.flatMap(name => (rows.has(name) ? [`| ${[name, ...rows.get(name)!].join(' | ')} |\n`] : []))
  const page = readFileSync(FILE, 'utf8')
  writeFileSync(
    FILE,
    page.replace(blockOf(mark), (_all, start, table, end) => {
      const head = table.split('\n').slice(0, 2).join('\n')
      return `${start}${head}\n${lines.join('')}${end}`
    }),
  )
}

function blockOf(mark: string): RegExp {
  return new RegExp(`(<!-- written by the tests: ${mark} -->\\n)([\\s\\S]*?)(<!-- end -->)`)
}
