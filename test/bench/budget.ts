/** The table of `npm run bench -- profile`: the CPU time of a request by part of the program. */
import { readFileSync } from 'node:fs'
import type { Name } from './contestants.ts'
import { type CpuTime, wholeOf } from './cpu.ts'
import { SYSTEM_CALLS, type ThreadProfile } from './profile.ts'
import { markdown } from './report.ts'

/** The cost of a request for one contestant, and the division of its main thread's time. */
export interface Budget {
  readonly name: Name
  /** Microseconds a request, in a process without a profiler. */
  readonly cpu: CpuTime
  /** Per request; null if they are not counted. */
  readonly instructions: number | null
  readonly main: ThreadProfile
}

const packagesOf = (name: string): string[] => {
  const manifest = readFileSync(new URL(`../../node_modules/${name}/package.json`, import.meta.url), 'utf8')
  return [name, ...Object.keys((JSON.parse(manifest) as { dependencies?: object }).dependencies ?? {})]
}
const KOA = new Set(['koa', 'koa-router'].flatMap(packagesOf))

const COLLECTION = 'garbage collection'
const HTTP = 'Node.js: http'
const FILES = 'Node.js: files (the log)'
const NODE = 'Node.js: sockets, streams, events, timers'
const PACKAGES = 'other packages'
const NATIVE = 'native: V8, libuv, kernel'
/** Rows before and after those of our own code. */
const FIRST = [COLLECTION, HTTP, NODE, FILES, 'Koa, router', 'undici', PACKAGES]
const LAST = ['plugins', 'the bare proxy itself', 'writes to sockets and files', NATIVE]

/** Returns the row for a part of profile.ts. */
function rowOf(part: string): string {
  if (part === '(garbage collector)') return COLLECTION
  if (SYSTEM_CALLS.test(part)) return 'writes to sockets and files'
  if (/^node:_?http/.test(part)) return HTTP
  if (part === 'node:fs') return FILES
  if (part.startsWith('node:')) return NODE
  if (KOA.has(part)) return 'Koa, router'
  if (part === 'undici') return part
  if (part.startsWith('plugins/')) return 'plugins'
  if (part.startsWith('test/')) return 'the bare proxy itself'
  if (part === 'src') return 'src: files at the top'
  if (part.startsWith('src/')) return part
  // '(program)', and C++ functions without a JavaScript caller.
  return part.startsWith('(') ? NATIVE : PACKAGES
}

/** Returns microseconds of CPU a request by row: each share of the profile, times the CPU time measured without a profiler. */
export function rowsOf({ cpu, main }: Pick<Budget, 'cpu' | 'main'>): ReadonlyMap<string, number> {
  const rows = new Map<string, number>()
  for (const { name, share } of main.parts) rows.set(rowOf(name), (rows.get(rowOf(name)) ?? 0) + share * cpu.main)
  return rows
}

/** @param budgets begin with the bare proxy's, to which the last rows are ratios */
export function budgetTable(budgets: readonly Budget[], titles: Readonly<Record<Name, string>>): string {
  const columns = budgets.map(rowsOf)
  const most = (row: string) => Math.max(...columns.map(column => column.get(row) ?? 0))
  const present = [...new Set(columns.flatMap(column => [...column.keys()]))]
  const ours = present.filter(row => row.startsWith('src')).sort((a, b) => most(b) - most(a))
  const rows = [...FIRST, ...ours, ...LAST]
    .filter(row => present.includes(row))
    .map(row => [row, ...columns.map(column => column.get(row)?.toFixed(1) ?? '')])
  const line = (title: string, value: (budget: Budget) => number | null, digits = 1) => [
    title,
    ...budgets.map(budget => value(budget)?.toFixed(digits) ?? '–'),
  ]
  const [bare] = budgets
  const ratio = (value: (budget: Budget) => number | null) => (budget: Budget) => {
    const [mine, theirs] = [value(budget), value(bare!)]
    return mine === null || theirs === null ? null : mine / theirs
  }
  const whole = (budget: Budget) => wholeOf(budget.cpu)
  const thousands = ({ instructions }: Budget) => (instructions === null ? null : instructions / 1000)
  const counted = budgets.some(({ instructions }) => instructions !== null)
  return markdown(
    ['CPU µs a request, 1 kB', ...budgets.map(({ name }) => titles[name])],
    [
      ...rows,
      line('ledger thread', ({ cpu }) => cpu.ledger),
      line('other threads: V8, libuv', ({ cpu }) => cpu.helpers),
      line('**all**', whole),
      line('… × bare proxy', ratio(whole), 2),
      ...(counted
        ? [line('**instructions, thousand**', thousands, 0), line('… × bare proxy', ratio(thousands), 2)]
        : []),
    ],
  )
}
