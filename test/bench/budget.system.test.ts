import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { afterAll, expect, test } from 'vitest'
import { ROOT } from '../helpers/repository.ts'
import { type Budget, budgetTable, rowsOf } from './budget.ts'
import { readProfiles } from './profile.ts'
import { TITLES } from './report.ts'

const folder = mkdtempSync(join(tmpdir(), 'tollgate-budget-'))
afterAll(() => rmSync(folder, { recursive: true }))

const ours = (file: string) => pathToFileURL(join(ROOT, file)).href

/** Function, file, index of its caller (0 is the root), and the row that its time belongs to. */
const CALLS = [
  ['(garbage collector)', '', 0, 'garbage collection'],
  ['(program)', '', 0, 'native: V8, libuv, kernel'],
  ['parserOnHeadersComplete', 'node:_http_common', 0, 'Node.js: http'],
  ['emit', 'node:events', 0, 'Node.js: sockets, streams, events, timers'],
  ['run', 'node:internal/timers', 0, 'Node.js: sockets, streams, events, timers'],
  ['write', 'node:fs', 0, 'Node.js: files (the log)'],
  ['handle', ours('node_modules/koa/lib/application.js'), 0, 'Koa, router'],
  ['compose', ours('node_modules/koa-compose/index.js'), 0, 'Koa, router'],
  ['dispatch', ours('node_modules/undici/lib/client.js'), 0, 'undici'],
  ['info', ours('node_modules/pino/pino.js'), 0, 'other packages'],
  ['runPlan', ours('src/request/pipeline/runner.ts'), 0, 'src/request/pipeline'],
  ['handle', ours('src/gateway.ts'), 0, 'src: files at the top'],
  ['find', ours('src/store/people/keys.ts'), 0, 'src/store/people'],
  ['post', ours('src/store/thread/mailbox-port.ts'), 0, 'src/store: mailboxes of the ledger'],
  ['check', ours('plugins/schema/index.ts'), 0, 'plugins'],
  ['onData', ours('test/bench/bare.ts'), 0, 'the bare proxy itself'],
  // Functions of the runtime count for their caller, except system calls.
  ['stringify', '', 11, 'src/request/pipeline'],
  ['writev', '', 4, 'writes to sockets and files'],
  ['(idle)', '', 0, null],
] as const

/** Each call has one more sample of 100 µs than the one before. */
function writeProfile(): void {
  const nodes = CALLS.map(([functionName, url], index) => ({
    id: index + 1,
    callFrame: { functionName, url, lineNumber: 0 },
    children: CALLS.flatMap(([, , caller], other) => (caller === index + 1 ? [other + 1] : [])),
  }))
  const top = CALLS.flatMap(([, , caller], index) => (caller === 0 ? [index + 1] : []))
  const root = { id: 0, callFrame: { functionName: '(root)', url: '', lineNumber: 0 }, children: top }
  const samples = CALLS.flatMap((_, index) => Array<number>(index + 1).fill(index + 1))
  const endTime = samples.length * 100
  const profile = { nodes: [root, ...nodes], samples, timeDeltas: samples.map(() => 100), startTime: 0, endTime }
  writeFileSync(join(folder, 'CPU.20260101.000000.1.0.001.cpuprofile'), JSON.stringify(profile))
}

test('each part of a profile has a row, and the rows add up to the main thread', () => {
  writeProfile()
  const { main } = readProfiles(folder, 1000)
  const busy = CALLS.flatMap(([, , , row], index) => (row === null ? [] : index + 1)).reduce((sum, each) => sum + each)
  const expected = new Map<string, number>()
  for (const [index, [, , , row]] of CALLS.entries()) {
    if (row !== null) expected.set(row, (expected.get(row) ?? 0) + ((index + 1) / busy) * 200)
  }
  const rows = rowsOf({ cpu: { main: 200, ledger: 0, helpers: 0 }, main })
  expect([...rows.keys()].sort()).toEqual([...expected.keys()].sort())
  for (const [row, value] of expected) expect(rows.get(row), row).toBeCloseTo(value, 6)
})

test('the table has each row once, the other threads, and ratios to the bare proxy', () => {
  writeProfile()
  const { main } = readProfiles(folder, 1000)
  const bare: Budget = { name: 'bare', cpu: { main: 30, ledger: 0, helpers: 10 }, instructions: 285_000, main }
  const credits: Budget = { name: 'credits', cpu: { main: 80, ledger: 15, helpers: 5 }, instructions: 712_500, main }
  const rows = budgetTable([bare, credits], TITLES)
    .split('\n')
    .map(line => line.split('|').map(cell => cell.trim()))
  const cells = (title: string) => rows.filter(([, first]) => first === title).map(([, , ...rest]) => rest.slice(0, 2))
  for (const row of new Set(CALLS.flatMap(([, , , each]) => each ?? []))) expect(cells(row), row).toHaveLength(1)
  expect(cells('ledger thread')).toEqual([['0.0', '15.0']])
  expect(cells('other threads: V8, libuv')).toEqual([['10.0', '5.0']])
  expect(cells('**all**')).toEqual([['40.0', '100.0']])
  expect(cells('**instructions, thousand**')).toEqual([['285', '713']])
  expect(cells('… × bare proxy')).toEqual([
    ['1.00', '2.50'],
    ['1.00', '2.50'],
  ])
  const uncounted = [bare, credits].map(each => ({ ...each, instructions: null }))
  expect(budgetTable(uncounted, TITLES)).not.toContain('instructions')
})
