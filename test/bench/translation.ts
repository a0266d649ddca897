/**
 * The cost of translation: a provider of each dialect, compared with a provider of OpenAI's dialect, whose chunks are forwarded
 * unchanged. The cost is measured for the functions alone (costs.ts), and in one busy gateway. Dialects take turns within a round,
 * and ratios are computed within a round.
 */
import type { Bench } from './bench.ts'
import { type Contestant, start } from './contestants.ts'
import { type Costs, measureCosts } from './costs.ts'
import { wholeOf } from './cpu.ts'
import type { Model, Result } from './load.ts'
import { NATIVES } from './native.ts'
import { markdown, median } from './report.ts'

/** The dialect that the others are compared to. */
const PASSED = 'openai'
/** The least ratio of a translated stream's chunks a second to those of `PASSED`. */
const AIM = 0.5
/** Streams at once; enough to keep the gateway busy. */
const STREAMS = 16
const FUNCTION_ROUNDS = 7
const CONDITIONS =
  `Translation: ${STREAMS} streams at once of 400 chunks, each as fast as it is read; whole answers of 1 kB; without ` +
  'credits. × is the ratio to the passed-on dialect, within a round.'
/** A second has 30,000 chunks or more, so longer windows would add nothing. */
const WINDOW_MAX_MS = 1000

/** One dialect in one round: microseconds of CPU, and chunks a second of elapsed time. */
interface Figures {
  readonly chunk: number
  readonly chunksPerSecond: number
  readonly request: number
}

export interface Translation {
  readonly costs: ReadonlyMap<string, Costs>
  /** By dialect, with figures for each round. */
  readonly rounds: ReadonlyMap<string, readonly Figures[]>
}

export async function measureTranslation(
  bench: Bench,
  upstreamPort: number,
  rounds: number,
  progress: (text: string) => void,
): Promise<Translation> {
  const names = Object.keys(NATIVES)
  progress('translation: the functions alone')
  const costs = measureCosts(names, FUNCTION_ROUNDS)
  const gateway = await start('translating', { ...bench.rig, upstreamPort })
  const figures = new Map<string, Figures[]>(names.map(name => [name, []]))
  const warm = names.map(name => measure(bench, gateway, name))
  for (const one of warm) await one()
  for (let round = 0; round < rounds; round++) {
    const place = round % names.length
    for (const name of [...names.slice(place), ...names.slice(0, place)]) {
      progress(`translation, round ${round + 1} of ${rounds}: ${name}`)
      figures.get(name)!.push(await measure(bench, gateway, name)())
    }
  }
  await gateway.stop()
  return { costs, rounds: figures }
}

function measure(bench: Bench, gateway: Contestant, name: string): () => Promise<Figures> {
  const cpuFor = ({ cpu }: Result, count: number) => wholeOf(cpu!) / count
  const run = (model: Model, connections?: number) => bench.saturate(gateway, model, WINDOW_MAX_MS, connections)
  return async () => {
    const streams = await run(`stream-${name}`, STREAMS)
    const whole = await run(`json-${name}`)
    if (streams.events === 0 || whole.answers === 0) throw new Error(`${name}: no request was answered in the window`)
    return {
      chunk: cpuFor(streams, streams.events),
      chunksPerSecond: streams.events / streams.seconds,
      request: cpuFor(whole, whole.answers),
    }
  }
}

/** Returns the medians of the rounds as a table for a README. */
export function translationTable({ costs, rounds }: Translation): string {
  const passed = rounds.get(PASSED)!
  const ratio = (name: string, pick: (figures: Figures) => number) =>
    median(rounds.get(name)!.map((figures, round) => pick(figures) / pick(passed[round]!)))!
  const beside = (name: string, value: number, times: number, digits: number) =>
    `${value.toFixed(digits)}${name === PASSED ? '' : ` (${times.toFixed(2)} ×)`}`
  const alone = (name: string, key: keyof Costs, digits: number) => {
    const value = costs.get(name)![key]
    return beside(name, value, value / costs.get(PASSED)![key], digits)
  }
  const through = (name: string, key: 'chunk' | 'request') => {
    const value = median(rounds.get(name)!.map(figures => figures[key]))!
    return beside(
      name,
      value,
      ratio(name, figures => figures[key]),
      1,
    )
  }
  // From CPU time, because elapsed time would include other load.
  const perCore = ({ chunk }: Figures) => 1e6 / chunk
  const speed = (name: string) => Math.round(median(rounds.get(name)!.map(perCore))!)
  const verdict = (name: string) => {
    const value = ratio(name, perCore)
    return `${value.toFixed(2)} ×, ${value >= AIM ? 'met' : 'missed'}`
  }
  const table = markdown(
    [
      'CPU µs, medians',
      'a chunk, functions alone',
      'a request and its answer, functions alone',
      'a chunk, gateway',
      'chunks/s a core from it',
      `aim: ≥ ${AIM} × those passed on`,
      'a request, gateway',
    ],
    [...rounds.keys()].map(name => [
      name === PASSED ? `${name} (passed on)` : name,
      alone(name, 'chunk', 2),
      alone(name, 'request', 1),
      through(name, 'chunk'),
      speed(name).toLocaleString('en'),
      name === PASSED ? '' : verdict(name),
      through(name, 'request'),
    ]),
  )
  return `${CONDITIONS}\n\n${table}`
}
