/**
 * What a step of a policy costs: an empty one, a condition, a shadow, the trail, a watch, an edit. By the functions alone
 * (step-costs.ts), and through one gateway that is kept busy, with a route for each kind; routes take turns within a
 * round, and differences are made within a round.
 */
import type { Bench } from './bench.ts'
import { type Contestant, start } from './contestants.ts'
import { wholeOf } from './cpu.ts'
import type { Model } from './load.ts'
import { markdown, median } from './report.ts'
import { inTurn, MANY_EDITS, measureStepCosts, ONE_EDIT, type StepCosts, spreadOf, TIMES, WATCH } from './step-costs.ts'
import { PLAIN, type ProviderConnection, ROADS, STREAM_ROADS, steppingPath } from './step-files.ts'

/** The most that a step may cost a request, in microseconds. */
const AIM = 3
const ALONE_ROUNDS = 11
const STREAMS = 16
const WINDOW_MAX_MS = 1000
const CONDITIONS =
  `Steps: ${TIMES} of a kind behind one another; what the same policy costs without them is taken off, and the rest divided. ` +
  `Alone: plan, runner and exchange in one process, ${ALONE_ROUNDS} rounds. Gateway: the whole process through sockets, without ` +
  'credits. Medians; in brackets the middle half of the rounds.'

/** Microseconds of CPU a step or tap, by the road's name, and of the plain roads a request and a chunk. */
export interface StepFigures {
  readonly alone: StepCosts
  readonly through: ReadonlyMap<string, readonly number[]>
  readonly request: readonly number[]
  readonly chunk: readonly number[]
}

export async function measureSteps(
  bench: Bench,
  upstreamPort: number,
  rounds: number,
  progress: (text: string) => void,
): Promise<StepFigures> {
  const alone = await measureStepCosts(ALONE_ROUNDS, progress)
  const gateway = await start('stepping', { ...bench.rig, upstreamPort })
  const figures = { through: new Map<string, number[]>(), request: [] as number[], chunk: [] as number[] }
  const kinds = [
    { providerConnections: ROADS, model: 'json-openai', plain: figures.request },
    { providerConnections: STREAM_ROADS, model: 'stream-openai', plain: figures.chunk },
  ] as const
  for (let round = -1; round < rounds; round++) {
    for (const { providerConnections, model, plain } of kinds) {
      const costs = new Map<ProviderConnection, number>()
      for (const providerConnection of inTurn([PLAIN, ...providerConnections], round)) {
        progress(`steps, round ${Math.max(round + 1, 0)} of ${rounds}: ${providerConnection.name}, ${model}`)
        costs.set(providerConnection, await cpuOf(bench, gateway, providerConnection, model))
      }
      // The first is for the compiler.
      if (round < 0) continue
      plain.push(costs.get(PLAIN)!)
      for (const providerConnection of providerConnections) {
        const added = (costs.get(providerConnection)! - costs.get(PLAIN)!) / providerConnection.times
        figures.through.set(providerConnection.name, [...(figures.through.get(providerConnection.name) ?? []), added])
      }
    }
  }
  await gateway.stop()
  return { alone, ...figures }
}

async function cpuOf(
  bench: Bench,
  gateway: Contestant<'stepping'>,
  { name }: ProviderConnection,
  model: Model,
): Promise<number> {
  const target = { ...gateway, path: steppingPath(name) }
  const isStream = model.startsWith('stream-')
  const { cpu, answers, events } = await bench.saturate(target, model, WINDOW_MAX_MS, isStream ? STREAMS : undefined)
  const count = isStream ? events : answers
  if (count === 0) throw new Error(`${name}: nothing was answered in the window`)
  return wholeOf(cpu!) / count
}

/** The figures as tables for a README. */
export function stepsTable({ alone, through, request, chunk }: StepFigures): string {
  const byTitle = new Map(
    [...ROADS, ...STREAM_ROADS].map(providerConnection => [providerConnection.title, providerConnection.name]),
  )
  const throughOf = (title: string) => {
    const values = through.get(byTitle.get(title) ?? '')
    return values === undefined ? '–' : spreadOf(values)
  }
  // Where both are known, the dearer one counts: in a gateway more lives, so that what a step leaves behind costs more.
  const verdict = (title: string, values: readonly number[]) =>
    median(through.get(byTitle.get(title) ?? '') ?? values)! < AIM ? 'met' : 'missed'
  const steps = markdown(
    ['CPU µs a step and request', 'alone', 'gateway', `aim: < ${AIM}`],
    [...alone.steps].map(([title, values]) => [title, spreadOf(values), throughOf(title), verdict(title, values)]),
  )
  const taps = markdown(
    ['CPU µs a chunk', 'alone', 'gateway'],
    [
      [WATCH, spreadOf(alone.taps.get(WATCH)!), throughOf(WATCH)],
      [ONE_EDIT, spreadOf(alone.taps.get(ONE_EDIT)!), throughOf(ONE_EDIT)],
      [MANY_EDITS, spreadOf(alone.taps.get(MANY_EDITS)!), spreadOf(furtherEdits(through))],
    ],
  )
  const plain = `Without them a request costs ${spreadOf(request, 1)} µs, a chunk ${spreadOf(chunk, 1)} µs.`
  return [CONDITIONS, '', steps, '', taps, '', plain].join('\n')
}

/** By the difference between many and one, as they are measured in one round. */
function furtherEdits(through: StepFigures['through']): readonly number[] {
  const [one, many] = [through.get('edit')!, through.get('edits')!]
  return many.map((each, round) => (each * TIMES - one[round]!) / (TIMES - 1))
}
