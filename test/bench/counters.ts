/** Counts of a request that do not depend on other load: calls, bytes by owner, system calls. */
import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import type { Bench } from './bench.ts'
import { type Contestant, type Name, start } from './contestants.ts'
import type { Count } from './counters-probe.ts'

/** Counts of one contestant, for a request or a chunk of a stream. */
export interface Counters {
  readonly name: string
  readonly calls: Readonly<Record<string, number>>
  readonly bytes: number
  readonly owners: Readonly<Record<string, number>>
  /** Of all threads; null without strace. */
  readonly systemCalls: Readonly<Record<string, number>> | null
}

type Mode = 'calls' | 'bytes' | 'owners'
type Load = 'requests' | 'chunks'

const PROBE = new URL('./counters-probe.ts', import.meta.url)
/** Events of each stream of upstream.ts. */
const CHUNKS = 100
const WINDOW_MS = 2000

/** Counts for requests and for chunks of each contestant. Each kind of count has its own process. */
export async function measureCounters(
  bench: Bench,
  names: readonly Name[],
  progress: (text: string) => void,
): Promise<Counters[]> {
  const results: Counters[] = []
  const loads: readonly Load[] = ['requests', 'chunks']
  for (const load of loads) {
    for (const name of names) {
      const counted = async (mode: Mode) => {
        progress(`counters: ${mode} of ${load}, ${name}`)
        return countOf(bench, name, mode, load)
      }
      const calls = await counted('calls')
      const { bytes = Number.NaN } = await counted('bytes')
      const owners = await counted('owners')
      const sampled = Object.values(owners).reduce((a, b) => a + b, 0)
      const shares = Object.entries(owners).map(([owner, size]) => [owner, (size / sampled) * bytes] as const)
      const systemCalls = load === 'requests' ? await systemCallsOf(bench, name, progress) : null
      results.push({
        name: load === 'chunks' ? `${name}, a chunk` : name,
        calls,
        bytes,
        owners: Object.fromEntries(shares),
        systemCalls,
      })
    }
  }
  return results
}

async function countOf(bench: Bench, name: Name, mode: Mode, load: Load): Promise<Readonly<Record<string, number>>> {
  const { requests, counts } = await countBetween(bench, name, mode, load, work => work())
  const each = requests * (load === 'chunks' ? CHUNKS : 1)
  return divided(counts, each)
}

/** @param around runs the counted load */
async function countBetween(
  bench: Bench,
  name: Name,
  mode: Mode,
  load: Load,
  around: (work: () => Promise<unknown>, target: Contestant) => Promise<unknown>,
): Promise<Count> {
  const out = join(bench.rig.folder, `counters-${name}-${mode}-${load}.json`)
  rmSync(out, { force: true })
  const probe = new URL(PROBE)
  probe.search = new URLSearchParams({ mode, out }).toString()
  const target = await start(name, bench.rig, [`--import=${probe}`])
  await run(bench, target, load)
  process.kill(target.pid!, 'SIGUSR2')
  await around(() => run(bench, target, load), target)
  process.kill(target.pid!, 'SIGUSR2')
  while (!existsSync(out) || readFileSync(out, 'utf8') === '') await new Promise(resolve => setTimeout(resolve, 20))
  await target.stop()
  return JSON.parse(readFileSync(out, 'utf8')) as Count
}

const divided = (counts: Readonly<Record<string, number>>, by: number): Record<string, number> =>
  Object.fromEntries(Object.entries(counts).map(([key, value]) => [key, value / by]))

const run = (bench: Bench, target: Contestant, load: Load) =>
  load === 'chunks' ? bench.pace(target, WINDOW_MS) : bench.saturate(target, 'json-1k', WINDOW_MS)

const hasStrace = () => spawnSync('strace', ['-V'], { stdio: 'ignore' }).status === 0

async function systemCallsOf(
  bench: Bench,
  name: Name,
  progress: (text: string) => void,
): Promise<Readonly<Record<string, number>> | null> {
  if (!hasStrace()) return null
  progress(`counters: system calls, ${name}`)
  const out = join(bench.rig.folder, `strace-${name}.txt`)
  const { requests } = await countBetween(bench, name, 'bytes', 'requests', async (work, { pid }) => {
    const strace = spawn('strace', ['-f', '-qq', '-c', '-U', 'calls,name', '-o', out, '-p', `${pid}`])
    await work()
    strace.kill('SIGINT')
    await once(strace, 'exit')
  })
  return divided(parseStrace(readFileSync(out, 'utf8')), requests)
}

/** Parses the output of `strace -c -U calls,name`. */
export function parseStrace(text: string): Record<string, number> {
  const rows = [...text.matchAll(/^\s*(\d+)\s+(\w+)\s*$/gm)].filter(([, , name]) => name !== 'total')
  return Object.fromEntries(rows.map(([, calls, name]) => [name!, Number(calls)]))
}

/** Returns a table with a row for each count, in the order of the first contestant that has it. */
export function countersTable(all: readonly Counters[]): string {
  const rows: [string, (counters: Counters) => number | undefined][] = [
    ...keysOf(all, each => each.calls).map(
      key => [key, (each: Counters) => each.calls[key] ?? 0] as [string, (each: Counters) => number],
    ),
    ['bytes allocated, main thread', each => each.bytes],
    ...keysOf(all, each => each.owners).map(
      owner => [`… ${owner}`, (each: Counters) => each.owners[owner] ?? 0] as [string, (each: Counters) => number],
    ),
    ...keysOf(all, each => each.systemCalls ?? {}).map(
      name =>
        [`system call ${name}`, (each: Counters) => each.systemCalls?.[name]] as [string, (each: Counters) => number],
    ),
  ]
  const line = (cells: readonly string[]) => `| ${cells.join(' | ')} |`
  const shown = rows.filter(([, of]) => all.some(each => (of(each) ?? 0) >= 0.005))
  return [
    line(['a request, or a chunk', ...all.map(({ name }) => name)]),
    `|---|${'--:|'.repeat(all.length)}`,
    ...shown.map(([title, of]) => line([title, ...all.map(each => figure(of(each)))])),
  ].join('\n')
}

function keysOf(all: readonly Counters[], of: (each: Counters) => Readonly<Record<string, number>>): string[] {
  return [...new Set(all.flatMap(each => Object.keys(of(each))))]
}

function figure(value: number | undefined): string {
  if (value === undefined || Number.isNaN(value)) return '–'
  return value >= 1000 ? `${(value / 1000).toFixed(1)} k` : value.toFixed(2)
}
