/**
 * `npm run bench -- scale`: the gain and cost of more threads and of a database server. Threads are compared within a round.
 * No process is bound to a core, so clients and provider share the cores with the threads.
 */
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Bench } from './bench.ts'
import { type Contestant, start } from './contestants.ts'
import { wholeOf } from './cpu.ts'
import { markdown, median } from './report.ts'
import type { LedgerFigures, LedgerTask } from './scale-ledger.ts'

const WITH = ['unmetered', 'credits'] as const
const HOT_PROCESSES = 3

/** Requests a second, and microseconds of CPU a request, by round. */
interface ThreadFigures {
  readonly perSecond: number[]
  readonly cpu: number[]
}

export interface ScaleFigures {
  readonly threads: ReadonlyMap<string, ThreadFigures>
  /** By measurement; null without a server. */
  readonly ledger: ReadonlyMap<string, LedgerFigures> | null
}

export interface ScaleOptions {
  readonly rounds: number
  readonly ms: number
  /** The URL of an empty PostgreSQL database. */
  readonly postgres: string | null
}

/** Returns the numbers of threads that the machine may have cores for. */
export const threadCounts = (cores: number): number[] => [1, 2, 4, 8].filter(count => count <= Math.max(2, cores))

export async function measureScale(
  bench: Bench,
  { rounds, ms, postgres }: ScaleOptions,
  progress: (text: string) => void,
): Promise<ScaleFigures> {
  const threads = new Map<string, ThreadFigures>()
  for (const name of WITH) {
    const contestants: [key: string, Contestant<typeof name>][] = []
    for (const count of threadCounts(availableParallelism())) {
      contestants.push([`${name} ${count}`, await start(name, { ...bench.rig, core: null, threads: count })])
    }
    for (const [, contestant] of contestants) await bench.warm(contestant)
    for (let round = 0; round < rounds; round++) {
      for (const [key, contestant] of contestants) {
        progress(`scale, round ${round + 1} of ${rounds}: ${key}`)
        const { 'json-1k': found } = await bench.saturated(contestant, 'json-1k')
        const figures = threads.get(key) ?? { perSecond: [], cpu: [] }
        figures.perSecond.push(found!.perSecond)
        figures.cpu.push(wholeOf(found!.cpu))
        threads.set(key, figures)
      }
    }
    for (const [, contestant] of contestants) await contestant.stop()
  }
  return { threads, ledger: postgres === null ? null : await measureLedger(bench, { rounds, ms, postgres }, progress) }
}

async function measureLedger(
  { rig }: Bench,
  { rounds, ms, postgres }: ScaleOptions & { readonly postgres: string },
  progress: (text: string) => void,
): Promise<Map<string, LedgerFigures>> {
  const folder = () => mkdtempSync(join(rig.folder, 'scale-'))
  const all = new Map<string, LedgerFigures[]>()
  const note = (name: string, figures: LedgerFigures) => void all.set(name, [...(all.get(name) ?? []), figures])
  for (let round = 0; round < rounds; round++) {
    progress(`scale, round ${round + 1} of ${rounds}: the ledger`)
    const urls = { SQLite: `sqlite:${join(folder(), 'tollgate.db')}`, PostgreSQL: postgres }
    for (const [engine, url] of Object.entries(urls)) {
      const task = { url, round, ms, account: 'many' } as const
      note(`${engine}, 64 in flight, 1,000 accounts`, await inProcess({ ...task, folder: folder(), kind: 'saturate' }))
      note(`${engine}, 500 a second`, await inProcess({ ...task, folder: folder(), kind: 'rate' }))
    }
    const hot = Array.from({ length: HOT_PROCESSES }, () =>
      inProcess({ url: postgres, round, ms, account: 'one', folder: folder(), kind: 'saturate' }),
    )
    note(`PostgreSQL, one account, ${HOT_PROCESSES} processes`, together(await Promise.all(hot)))
  }
  return new Map([...all].map(([name, figures]) => [name, middle(figures)]))
}

async function inProcess(task: LedgerTask): Promise<LedgerFigures> {
  const child = fork(fileURLToPath(new URL('./scale-ledger.ts', import.meta.url)), [JSON.stringify(task)])
  const [figures] = (await once(child, 'message')) as [LedgerFigures]
  if (child.exitCode === null) await once(child, 'exit')
  return figures
}

function together(figures: readonly LedgerFigures[]): LedgerFigures {
  const perSecond = figures.reduce((sum, each) => sum + each.perSecond, 0)
  return { ...middle(figures), perSecond }
}

function middle(figures: readonly LedgerFigures[]): LedgerFigures {
  const of = (name: keyof LedgerFigures) => median(figures.map(each => each[name]))!
  return { perSecond: of('perSecond'), cpuUs: of('cpuUs'), p50Ms: of('p50Ms'), p99Ms: of('p99Ms') }
}

export function scaleTable({ threads, ledger }: ScaleFigures): string {
  const counts = threadCounts(availableParallelism())
  const rows = WITH.map(name => {
    const one = threads.get(`${name} 1`)!
    return [
      name === 'credits' ? 'durable credits' : 'without credits',
      ...counts.map(count => {
        const { perSecond, cpu } = threads.get(`${name} ${count}`)!
        const ratio = median(perSecond.map((each, round) => each / one.perSecond[round]!))!
        return `${Math.round(median(perSecond)!)} (${ratio.toFixed(2)} ×), ${median(cpu)!.toFixed(0)} µs`
      }),
    ]
  })
  const cores = availableParallelism()
  const shared = `${cores} cores, which the threads share with the clients, the provider and the store's thread.`
  const tables = [
    `Requests/s at 64 connections, and CPU a request. ${shared}`,
    markdown(['', ...counts.map(count => `threads: ${count}`)], rows),
  ]
  if (ledger !== null) {
    const figures = [...ledger].map(([name, { perSecond, cpuUs, p50Ms, p99Ms }]) => [
      name,
      Math.round(perSecond).toString(),
      cpuUs.toFixed(0),
      `${p50Ms.toFixed(2)} / ${p99Ms.toFixed(2)}`,
    ])
    const head = ['hold and settle', 'exchanges/s', 'CPU µs an exchange', 'p50 / p99 of both, ms']
    tables.push(
      'The ledger alone, without a gateway. CPU is that of the process, not of the server.',
      markdown(head, figures),
    )
  }
  return tables.join('\n\n')
}
