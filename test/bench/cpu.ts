/**
 * CPU time by kind of thread, and memory, of a process and all its descendants, from Linux's /proc. CPU time has a resolution of
 * nanoseconds (schedstat), so a window of a second is measured to well below 1 %.
 */
import { existsSync, readdirSync, readFileSync } from 'node:fs'

/** Microseconds since the start of the threads that are running now. */
export interface CpuTime {
  /** The first thread of each process: in Node the serving thread. */
  readonly main: number
  /** The thread that writes Tollgate's ledger. */
  readonly ledger: number
  /** All others: V8's (compiler, garbage collection) and libuv's. */
  readonly helpers: number
}

/** The name in src/store/thread/mailbox-port.ts; the kernel keeps 15 characters. */
const LEDGER_THREAD = 'tollgate-ledger'

/** Why this machine cannot run the benchmark; null if it can. */
export function whyNotHere(): string | null {
  if (existsSync(`/proc/self/task/${process.pid}/schedstat`)) return null
  return 'The benchmark needs Linux with /proc/PID/task/*/schedstat: it measures CPU time by thread.'
}

export function cpuOf(pid: number): CpuTime {
  const sum = { main: 0, ledger: 0, helpers: 0 }
  for (const process of treeOf(pid)) {
    for (const thread of listOf(`/proc/${process}/task`)) {
      const folder = `/proc/${process}/task/${thread}`
      const [nanoseconds = '0'] = textOf(`${folder}/schedstat`).split(' ')
      const isLedger = textOf(`${folder}/comm`).trim() === LEDGER_THREAD
      sum[isLedger ? 'ledger' : thread === String(process) ? 'main' : 'helpers'] += Number(nanoseconds) / 1000
    }
  }
  return sum
}

export const cpuBetween = (from: CpuTime, to: CpuTime): CpuTime => ({
  main: to.main - from.main,
  ledger: to.ledger - from.ledger,
  helpers: to.helpers - from.helpers,
})

export const wholeOf = ({ main, ledger, helpers }: CpuTime): number => main + ledger + helpers

/** Returns memory in RAM in KiB: `rss` as operators see it, `pss` with shared pages divided among their processes. */
export function memoryOf(pid: number): { rss: number; pss: number } {
  const sum = { rss: 0, pss: 0 }
  for (const process of treeOf(pid)) {
    const text = textOf(`/proc/${process}/smaps_rollup`)
    sum.rss += Number(/^Rss: +(\d+)/m.exec(text)?.[1] ?? 0)
    sum.pss += Number(/^Pss: +(\d+)/m.exec(text)?.[1] ?? 0)
  }
  return sum
}

/** Returns the process and its descendants: a launcher may run the program as a child. */
export function treeOf(pid: number): number[] {
  const children = listOf(`/proc/${pid}/task`).flatMap(thread =>
    textOf(`/proc/${pid}/task/${thread}/children`).split(' ').filter(Boolean).map(Number),
  )
  return [pid, ...children.flatMap(treeOf)]
}

/** A thread that ends before its file is read counts as 0. */
function textOf(path: string): string {
  try {
    return readFileSync(path, 'utf8')
  } catch {
    return ''
  }
}

function listOf(path: string): string[] {
  try {
    return readdirSync(path)
  } catch {
    return []
  }
}
