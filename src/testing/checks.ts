/** What `conform` looks at when an ending has been played; each answers with sentences, none where all is well. */
import { getEventListeners } from 'node:events'
import { type AnyPlugin, type Chunk, cost, mistakeText } from '#contract'
import { mistakeSentence, type StepMistake } from '../request/pipeline/step-report.ts'
import { turn } from '../simulate/time.ts'
import type { BenchAnswer, BenchRequest } from '../simulate/visit.ts'
import type { Bench } from './bench.ts'
import { AROUND, type Ending } from './endings.ts'
import type { WatchedPlugin } from './watch-plugin.ts'

/** What was played. */
export interface Tried {
  readonly plugin: AnyPlugin
  readonly form: 'whole' | 'stream'
  readonly ending: Ending
  readonly options: {
    readonly request?: Pick<BenchRequest, 'headers'>
    readonly secrets?: readonly string[]
  }
}

/** Nothing stays held, and the account has paid what the receipts say since it had so much. */
export function moneyWrong(bench: Bench, answers: readonly BenchAnswer[], start: bigint): string[] {
  const wrong: string[] = []
  const { posted, held } = bench.ledger.balance()
  if (held !== 0n || bench.ledger.openHolds() > 0) wrong.push(`${held} nano-dollars stay held`)
  const receipts = answers.map(bench.ledger.receipt)
  const charged = receipts.reduce((sum, receipt) => sum + (receipt?.charged ?? 0n), 0n)
  if (posted !== start - charged) wrong.push(`the account paid ${start - posted}, and its receipts say ${charged}`)
  for (const receipt of receipts) {
    if (receipt?.source !== 'reported') continue
    const owed = cost(receipt.usage, receipt.price).total
    if (owed !== receipt.charged) wrong.push(`the receipt's usage costs ${owed}, and ${receipt.charged} was charged`)
  }
  for (const { invariant, message } of bench.ledger.verify().violations)
    wrong.push(`the ledger breaks ${invariant}: ${message}`)
  return wrong
}

/** The client was told something that it can understand, or it had left. */
export function answerWrong(answer: BenchAnswer, { form, ending }: Tried): string[] {
  if (answer.left) return []
  const { status, error, events, isWhole } = answer
  if (status === null) return ['the client got no answer']
  if (form === 'whole' || status !== 200) {
    if (!isWhole) return ['the answer does not come to its end']
    return status === 200 || (error !== null && 'type' in error && 'param' in error)
      ? []
      : [`a ${status} without an envelope`]
  }
  const finished = events.some(event => (event as Chunk).choices?.some?.(choice => choice.finish_reason))
  const done = events.at(-1) === '[DONE]'
  if (error ? done || finished : !done || !finished) {
    return [`the stream ends neither in a finish reason and [DONE] nor in an error (${ending.name})`]
  }
  return []
}

/** Nothing of a secret is in what is kept or told, and nothing listens on. */
export function traceWrong(bench: Bench, answer: BenchAnswer, { options }: Tried): string[] {
  const record = bench.record(answer)
  const places: Record<string, string> = {
    trail: JSON.stringify([bench.trail(answer), bench.ledger.receipt(answer)?.trail ?? []]),
    log: JSON.stringify(bench.log, (_, value: unknown) => (value instanceof Error ? String(value.stack) : value)),
    answer: JSON.stringify(answer.headers) + answer.text,
  }
  // Of `Bearer …` the second word.
  const words = Object.values(options.request?.headers ?? {}).flatMap(value => value?.split(' ') ?? [])
  const sent = words.filter(word => word.length > 15)
  const secrets = [bench.key, ...sent, ...(options.secrets ?? [])]
  const wrong = Object.entries(places).flatMap(([place, text]) =>
    secrets.some(secret => text.includes(secret)) ? [`a secret is in the ${place}`] : [],
  )
  const listeners = record ? getEventListeners(record.signal, 'abort').length : 0
  if (listeners > 0) wrong.push(`${listeners} listeners are left on exchange.signal`)
  return wrong
}

/** The step went on once or not at all, has left the facts alone, and the runner has nothing to say about it. */
export function stepWrong(
  bench: Bench,
  answers: readonly BenchAnswer[],
  { plugin, ending }: Tried,
  watched: WatchedPlugin,
): string[] {
  const wrong = watched.nexts.flatMap(count => (count > 1 ? [`next() was called ${count} times`] : []))
  wrong.push(...watched.facts)
  for (const mistake of bench.mistakes) {
    const step = 'step' in mistake ? mistake.step : null
    if (step === AROUND.inner || step === AROUND.outer) continue
    if (!('mistake' in mistake))
      wrong.push(`the gateway met an error that nobody expected: ${mistakeText(mistake.error)}`)
    else if (!isExcused(ending, mistake.mistake)) wrong.push(mistakeSentence(mistake))
  }
  const entries = answers.flatMap(answer => bench.trail(answer).filter(({ step }) => step === plugin.name))
  if (entries.some(({ verdict }) => verdict === 'late')) wrong.push('the step did not return when the answer was over')
  return wrong
}

/** Without its services a step may throw. */
function isExcused({ isServed }: Ending, mistake: StepMistake): boolean {
  return isServed === false && mistake === 'threw'
}

/** What a start would find if the process were killed now. */
export async function crashWrong(bench: Bench): Promise<string[]> {
  // A turn, so that what the steps have asked of the ledger is committed.
  await turn()
  const { openHolds, violations, balances } = await bench.crash()
  return [
    ...(openHolds > 0 ? [`${openHolds} holds stay open after recovery`] : []),
    ...balances.flatMap(({ held }) => (held > 0n ? [`${held} nano-dollars stay held after recovery`] : [])),
    ...violations.map(each => `the recovered ledger breaks ${each}`),
  ]
}

/** When the gateway has let go of the plugin, nothing of it goes on. */
export function leftWrong(watched: WatchedPlugin): string[] {
  const { created, disposed } = watched.lives
  const wrong = created === disposed ? [] : [`it was created ${created} times and disposed of ${disposed} times`]
  const lasting = watched.lasting()
  if (lasting.length > 0) wrong.push(`after dispose() something goes on: ${[...new Set(lasting)].join(', ')}`)
  for (const name of watched.listeners()) wrong.push(`after dispose() a listener for "${name}" is left on the process`)
  return wrong
}
