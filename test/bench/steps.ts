/**
 * The cost of a policy step: empty, with a condition, in shadow mode, with a note, a watch or an edit. The cost is measured for the
 * functions alone (step-costs.ts), and in one busy gateway with a route for each kind. Routes take turns within a round, and
 * differences are computed within a round.
 */
import type { Bench } from './bench.ts'
import { type Contestant, start } from './contestants.ts'
import { wholeOf } from './cpu.ts'
import type { Model } from './load.ts'
import { markdown, median } from './report.ts'
import { inTurn, MANY_EDITS, measureStepCosts, ONE_EDIT, type StepCosts, spreadOf, TIMES, WATCH } from './step-costs.ts'
import { PLAIN, STEP_ROUTES, STREAM_ROUTES, type StepRoute, steppingPath } from './step-files.ts'

/** The most that a step should cost per request, in microseconds. */
const AIM = 3
const ALONE_ROUNDS = 11
const STREAMS = 16
const WINDOW_MAX_MS = 1000
const CONDITIONS =
  `Steps: ${TIMES} of a kind in a row; the cost of the same policy without them is subtracted, and the rest divided. ` +
  `Alone: plan, runner and exchange in one process, ${ALONE_ROUNDS} rounds. Gateway: the whole process through sockets, without ` +
  'credits. Medians; in brackets the middle half of the rounds.'

/** Microseconds of CPU per step or tap, by route name, and per request and chunk of the plain route. */
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
    { routes: STEP_ROUTES, model: 'json-openai', plain: figures.request },
    { routes: STREAM_ROUTES, model: 'stream-openai', plain: figures.chunk },
  ] as const
  for (let round = -1; round < rounds; round++) {
    for (const { routes, model, plain } of kinds) {
      const costs = new Map<StepRoute, number>()
      for (const route of inTurn([PLAIN, ...routes], round)) {
        progress(`steps, round ${Math.max(round + 1, 0)} of ${rounds}: ${route.name}, ${model}`)
        costs.set(route, await cpuOf(bench, gateway, route, model))
      }
      // V8 compiles in the first round.
      if (round < 0) continue
      plain.push(costs.get(PLAIN)!)
      for (const route of routes) {
        const added = (costs.get(route)! - costs.get(PLAIN)!) / route.times
        figures.through.set(route.name, [...(figures.through.get(route.name) ?? []), added])
      }
    }
  }
  await gateway.stop()
  return { alone, ...figures }
}

async function cpuOf(
  bench: Bench,
  gateway: Contestant<'stepping'>,
  { name }: StepRoute,
  model: Model,
): Promise<number> {
  const target = { ...gateway, path: steppingPath(name) }
  const isStream = model.startsWith('stream-')
  const { cpu, answers, events } = await bench.saturate(target, model, WINDOW_MAX_MS, isStream ? STREAMS : undefined)
  const count = isStream ? events : answers
  if (count === 0) throw new Error(`${name}: no request was answered in the window`)
  return wholeOf(cpu!) / count
}

/** Returns the figures as tables for a README. */
export function stepsTable({ alone, through, request, chunk }: StepFigures): string {
  const byTitle = new Map([...STEP_ROUTES, ...STREAM_ROUTES].map(route => [route.title, route.name]))
  const throughOf = (title: string) => {
    const values = through.get(byTitle.get(title) ?? '')
    return values === undefined ? '–' : spreadOf(values)
  }
  // The gateway's figure counts if there is one: its larger heap makes the garbage of a step more expensive.
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

/** Returns the cost of an edit after the first, from the difference between many and one in the same round. */
function furtherEdits(through: StepFigures['through']): readonly number[] {
  const [one, many] = [through.get('edit')!, through.get('edits')!]
  return many.map((each, round) => (each * TIMES - one[round]!) / (TIMES - 1))
}
