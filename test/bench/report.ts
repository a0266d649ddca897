/** The figures of all rounds as tables for a README: medians, bests, ratios within a round, and aims. */
import type { Name } from './contestants.ts'
import { type CpuTime, wholeOf } from './cpu.ts'

/** Figures of one contestant in one round. */
export interface Round {
  readonly 'json-1k'?: FullLoad
  readonly 'json-16k'?: FullLoad
  /** Milliseconds at a fixed rate. */
  readonly rate?: { readonly p50: number; readonly p99: number; readonly cpu: CpuTime | null }
  /** Paced streams: microseconds of CPU a chunk, and milliseconds to the first one. */
  readonly streams?: { readonly cpu: CpuTime | null; readonly first50: number; readonly first99: number }
}

/** Figures at full load: one request in progress on each connection. */
export interface FullLoad {
  /** Microseconds of CPU a request. */
  readonly cpu: CpuTime
  /** Per request; null if they are not counted. */
  readonly instructions: number | null
  /** Requests a second of elapsed time. */
  readonly perSecond: number
  /** Milliseconds from sending a request to the end of its answer. */
  readonly p50: number
  readonly p99: number
  /** MiB in RAM at the end of the window. */
  readonly rss: number
}

export interface Memory {
  /** MiB, two seconds after the start. */
  readonly idle: number
  /** KiB for each of 2,000 open streams. */
  readonly perStream: number
}

export interface Measurement {
  readonly machine: string
  readonly conditions: string
  /** Why instructions are not counted; null if they are. */
  readonly uncounted: string | null
  /** In display order, including `direct`. */
  readonly names: readonly Name[]
  readonly rounds: ReadonlyMap<Name, readonly Round[]>
  readonly memory: ReadonlyMap<Name, Memory>
  /** Share of the main thread's time with credits: 0 to 1; null if it was not measured. */
  readonly messaging: number | null
}

export const TITLES: Readonly<Record<Name, string>> = {
  direct: 'direct',
  bare: 'bare proxy',
  nginx: 'nginx',
  unmetered: 'Tollgate without credits',
  credits: 'Tollgate, durable credits',
  telemetry: 'Tollgate without credits, traces of 1 %',
  'bare-http': 'bare proxy, node:http client',
  'bare-undici8': 'bare proxy, undici 8',
}

type FigureOf = (round: Round) => number | null

const cpuAt = (kind: AnswerSize, part: (cpu: CpuTime) => number = wholeOf): FigureOf => {
  return round => (round[kind] ? part(round[kind].cpu) : null)
}
type AnswerSize = 'json-1k' | 'json-16k'
const instructionsAt = (kind: AnswerSize): FigureOf => {
  return round => (round[kind]?.instructions == null ? null : round[kind].instructions / 1000)
}
const atSaturation = (value: (saturated: FullLoad) => number): FigureOf => {
  return round => (round['json-1k'] ? value(round['json-1k']) : null)
}
const tail = atSaturation(({ p50, p99 }) => p99 / p50)
const cpuOfChunk: FigureOf = round => (round.streams?.cpu ? wholeOf(round.streams.cpu) : null)

export function tables(measured: Measurement): string {
  const { uncounted } = measured
  const note = uncounted === null ? [] : [`Instructions a request are omitted: ${uncounted}.`, '']
  return [measured.machine, '', measured.conditions, '', ...note, figures(measured), '', aims(measured)].join('\n')
}

function figures(measured: Measurement): string {
  const { memory, messaging } = measured
  const names = measured.names.filter(name => name !== 'direct')
  const row = (title: string, cell: (name: Name) => string) => [title, ...names.map(cell)]
  const figure = (pick: FigureOf) => (name: Name) => bestAndMedian(valuesOf(measured, name, pick))
  const ratio = (pick: FigureOf) => (name: Name) => ratioCell(measured, name, pick)
  const added = (pick: FigureOf) => (name: Name) => milliseconds(addedOf(measured, name, pick))
  const onlyTollgate = (cell: (name: Name) => string) => (name: Name) =>
    name === 'credits' || name === 'unmetered' ? cell(name) : ''
  const part = (which: keyof CpuTime) =>
    onlyTollgate(name =>
      which === 'ledger' && name !== 'credits' ? '–' : figure(cpuAt('json-1k', each => each[which]))(name),
    )
  const message = onlyTollgate(name => {
    const main = median(
      valuesOf(
        measured,
        name,
        cpuAt('json-1k', each => each.main),
      ),
    )
    return name === 'credits' && messaging !== null && main !== null ? `– / ${(main * messaging).toFixed(1)}` : '–'
  })
  const instructions = (kind: AnswerSize, size: string) =>
    measured.uncounted === null
      ? [
          row(`**instructions a request, thousand, ${size}**`, figure(instructionsAt(kind))),
          row('… × bare proxy', ratio(instructionsAt(kind))),
        ]
      : []
  const rows = [
    ...instructions('json-1k', '1 kB'),
    ...instructions('json-16k', '16 kB'),
    row('**CPU µs a request, 1 kB**', figure(cpuAt('json-1k'))),
    row('… × bare proxy', ratio(cpuAt('json-1k'))),
    row('… main thread', part('main')),
    row('… … messages to and from the ledger', message),
    row("… ledger's thread", part('ledger')),
    row('… V8, libuv', part('helpers')),
    row('requests/s a core from it (best)', name => perCore(measured, name)),
    row('**CPU µs a request, 16 kB**', figure(cpuAt('json-16k'))),
    row('… × bare proxy', ratio(cpuAt('json-16k'))),
    row('closed loop of 64, 1 kB, p50, ms', figure(atSaturation(({ p50 }) => p50))),
    row('closed loop of 64, 1 kB, p99, ms', figure(atSaturation(({ p99 }) => p99))),
    row('… p99 / p50', figure(tail)),
    row('**CPU µs a chunk**, paced streams', figure(cpuOfChunk)),
    row('… × bare proxy', ratio(cpuOfChunk)),
    row(
      'added p50 at 500/s, ms',
      added(round => round.rate?.p50 ?? null),
    ),
    row(
      'added p99 at 500/s, ms',
      added(round => round.rate?.p99 ?? null),
    ),
    row(
      'added to the first chunk, p50, ms',
      added(round => round.streams?.first50 ?? null),
    ),
    row('memory at saturation, 1 kB, MiB', figure(rss)),
    row('memory idle, MiB', name => memory.get(name)?.idle.toFixed(0) ?? '–'),
    row('memory a stream, 2,000 open, KiB', name => memory.get(name)?.perStream.toFixed(0) ?? '–'),
  ]
  return markdown(['best / median of rounds', ...names.map(name => TITLES[name])], rows)
}

interface Aim {
  readonly what: string
  readonly name: Name
  readonly most: number
  readonly unit: string
  value(measured: Measurement): number | null
}

const medianAim = (what: string, name: Name, most: number, unit: string, pick: FigureOf): Aim => ({
  what,
  name,
  most,
  unit,
  value: measured => median(valuesOf(measured, name, pick)),
})
const ratioAim = (what: string, name: Name, most: number, pick: FigureOf): Aim => ({
  what,
  name,
  most,
  unit: '×',
  value: measured => median(ratiosOf(measured, name, pick)),
})
const addedAim = (what: string, name: Name, most: number, pick: FigureOf): Aim => ({
  what,
  name,
  most,
  unit: 'ms',
  value: measured => median(addedOf(measured, name, pick)),
})
const memoryAim = (what: string, name: Name, most: number, unit: 'MiB' | 'KiB', key: keyof Memory): Aim => ({
  what,
  name,
  most,
  unit,
  value: measured => measured.memory.get(name)?.[key] ?? null,
})
const [p50, first]: [FigureOf, FigureOf] = [round => round.rate?.p50 ?? null, round => round.streams?.first50 ?? null]

const rss = atSaturation(each => each.rss)

const AIMS: readonly Aim[] = [
  ratioAim('instructions a request, 1 kB, without credits', 'unmetered', 1.9, instructionsAt('json-1k')),
  ratioAim('instructions a request, 1 kB, with credits', 'credits', 2.5, instructionsAt('json-1k')),
  ratioAim('instructions a request, 16 kB, without credits', 'unmetered', 1.6, instructionsAt('json-16k')),
  ratioAim('instructions a request, 16 kB, with credits', 'credits', 2, instructionsAt('json-16k')),
  ratioAim('CPU a request, 1 kB, without credits', 'unmetered', 2, cpuAt('json-1k')),
  ratioAim('CPU a request, 1 kB, with credits', 'credits', 2.4, cpuAt('json-1k')),
  ratioAim('CPU a chunk, without credits', 'unmetered', 1.4, cpuOfChunk),
  ratioAim('CPU a chunk, with credits', 'credits', 1.6, cpuOfChunk),
  medianAim('closed loop of 64, p99 / p50, without credits', 'unmetered', 2.5, '×', tail),
  medianAim('closed loop of 64, p99 / p50, with credits', 'credits', 2.5, '×', tail),
  addedAim('added p50 at 500/s, without credits', 'unmetered', 0.3, p50),
  addedAim('added p50 at 500/s, with credits', 'credits', 0.8, p50),
  addedAim('added to the first chunk, without credits', 'unmetered', 0.3, first),
  addedAim('added to the first chunk, with credits', 'credits', 0.9, first),
  medianAim('memory at saturation, 1 kB', 'credits', 150, 'MiB', rss),
  memoryAim('memory idle', 'credits', 120, 'MiB', 'idle'),
  memoryAim('memory a stream, 2,000 open', 'credits', 60, 'KiB', 'perStream'),
]

function aims(measured: Measurement): string {
  const rows = AIMS.flatMap(aim => {
    const value = aim.value(measured)
    if (value === null) return []
    const digits = aim.unit === '×' || aim.unit === 'ms' ? 2 : 0
    const beyond = value - aim.most
    // Compares the rounded value, so that the verdict matches the displayed figure.
    const isMet = Number(value.toFixed(digits)) <= aim.most
    const verdict = isMet ? 'met' : `missed by ${((beyond / aim.most) * 100).toFixed(0)} %`
    return [[aim.what, `≤ ${aim.most} ${aim.unit}`, `${value.toFixed(digits)} ${aim.unit}`, verdict]]
  })
  return markdown(['Aim', 'at most', 'measured', ''], rows)
}

function valuesOf({ rounds }: Measurement, name: Name, pick: FigureOf): number[] {
  return (rounds.get(name) ?? []).map(pick).filter(value => value !== null)
}

/** Ratios to the bare proxy of the same round. */
function ratiosOf({ rounds }: Measurement, name: Name, pick: FigureOf): number[] {
  const bare = rounds.get('bare') ?? []
  return pairs(rounds.get(name) ?? [], bare, pick, (value, other) => value / other)
}

/** Differences from the upstream without a gateway in the same round. */
function addedOf({ rounds }: Measurement, name: Name, pick: FigureOf): number[] {
  return pairs(rounds.get(name) ?? [], rounds.get('direct') ?? [], pick, (value, other) => value - other)
}

function pairs(
  mine: readonly Round[],
  others: readonly Round[],
  pick: FigureOf,
  combine: (mine: number, other: number) => number,
): number[] {
  return mine.flatMap((round, index) => {
    const [value, other] = [pick(round), others[index] ? pick(others[index]) : null]
    return value === null || other === null ? [] : [combine(value, other)]
  })
}

function ratioCell(measured: Measurement, name: Name, pick: FigureOf): string {
  if (name === 'bare') return '1'
  const ratio = median(ratiosOf(measured, name, pick))
  if (ratio === null) return '–'
  const best = Math.min(...valuesOf(measured, name, pick)) / Math.min(...valuesOf(measured, 'bare', pick))
  return `${best.toFixed(2)} / ${ratio.toFixed(2)}`
}

function perCore(measured: Measurement, name: Name): string {
  const values = valuesOf(measured, name, cpuAt('json-1k'))
  return values.length === 0 ? '–' : Math.round(1e6 / Math.min(...values)).toLocaleString('en')
}

function bestAndMedian(values: readonly number[]): string {
  return values.length === 0 ? '–' : `${Math.min(...values).toFixed(1)} / ${median(values)!.toFixed(1)}`
}

function milliseconds(values: readonly number[]): string {
  return values.length === 0 ? '–' : `${Math.min(...values).toFixed(2)} / ${median(values)!.toFixed(2)}`
}

export function median(values: readonly number[]): number | null {
  if (values.length === 0) return null
  const sorted = values.toSorted((a, b) => a - b)
  const middle = sorted.length >> 1
  return sorted.length % 2 === 1 ? sorted[middle]! : (sorted[middle - 1]! + sorted[middle]!) / 2
}

export function markdown(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const rule = head.map((_, index) => (index === 0 ? '---' : '--:'))
  return [head, rule, ...rows].map(cells => `| ${cells.join(' | ')} |`).join('\n')
}
