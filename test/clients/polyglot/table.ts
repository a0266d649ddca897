/** The table of test/clients/README.md: one row per client, one column per feature. */
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { ROOT, tableOf } from '../../helpers/repository.ts'
import { FEATURES } from './features.ts'

const FILE = join(ROOT, 'test/clients/README.md')
const HEAD = ['Client', ...FEATURES.map(({ title }) => title)]

/** The cells of each client that has a row. */
export function readTable(): Map<string, readonly string[]> {
  return new Map(tableOf(readFileSync(FILE, 'utf8'), HEAD[0]!).map(([client, ...cells]) => [client!, cells]))
}

/** Rewrites the rows of the clients that ran; other rows stay. */
export function writeTable(clients: readonly string[], ran: ReadonlyMap<string, readonly string[]>): void {
  const before = readTable()
  const rows = clients.flatMap(client => {
    const cells = ran.get(client) ?? before.get(client)
    return cells ? [[client, ...cells]] : []
  })
  const table = [HEAD, HEAD.map(() => '---'), ...rows].map(cells => `| ${cells.join(' | ')} |`).join('\n')
  writeFileSync(FILE, readFileSync(FILE, 'utf8').replace(/^\| Client \|.*(\n\|.*)*/m, table))
}
