/** The checks of `conform` after an ending. Each returns its problems as sentences. */
import { getEventListeners } from 'node:events'
import { type AnyPlugin, type Chunk, cost, mistakeText } from '#contract'
import { mistakeSentence, type StepMistake } from '../request/pipeline/step-report.ts'
import { turn } from '../simulate/time.ts'
import type { BenchAnswer, BenchRequest } from '../simulate/visit.ts'
import type { Bench } from './bench.ts'
import { AROUND, type EndingCase } from './endings.ts'
import type { WatchedPlugin } from './watch-plugin.ts'

export interface PlayedTrial {
  readonly plugin: AnyPlugin
  readonly form: 'whole' | 'stream'
  readonly ending: EndingCase
  readonly options: {
    readonly request?: Pick<BenchRequest, 'headers'>
    readonly secrets?: readonly string[]
  }
}

/** Checks that no hold is left, and that the account paid the amounts of its receipts. @param start its balance before the ending */
export function moneyFailures(bench: Bench, answers: readonly BenchAnswer[], start: bigint): string[] {
  const wrong: string[] = []
  const { posted, held } = bench.ledger.balance()
  if (held !== 0n || bench.ledger.openHolds() > 0) wrong.push(`${held} nano-dollars are still held`)
  const receipts = answers.map(bench.ledger.receipt)
  const charged = receipts.reduce((sum, receipt) => sum + (receipt?.charged ?? 0n), 0n)
  if (posted !== start - charged) wrong.push(`the account paid ${start - posted}, but its receipts have ${charged}`)
  for (const receipt of receipts) {
    if (receipt?.source !== 'reported') continue
    const owed = cost(receipt.usage, receipt.price).total
    if (owed !== receipt.charged) wrong.push(`the receipt's usage costs ${owed}, but ${receipt.charged} was charged`)
  }
  for (const { invariant, message } of bench.ledger.verify().violations)
    wrong.push(`the ledger breaks ${invariant}: ${message}`)
  return wrong
}

/** Checks that the client got a valid answer or error, or disconnected. */
export function answerFailures(answer: BenchAnswer, { form, ending }: PlayedTrial): string[] {
  if (answer.left) return []
  const { status, error, events, isWhole } = answer
  if (status === null) return ['the client got no answer']
  if (form === 'whole' || status !== 200) {
    if (!isWhole) return ['the answer is incomplete']
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

/** Checks that no secret is in the trail, the log or the answer, and that no listener is left. */
export function traceFailures(bench: Bench, answer: BenchAnswer, { options }: PlayedTrial): string[] {
  const record = bench.record(answer)
  const places: Record<string, string> = {
    trail: JSON.stringify([bench.trail(answer), bench.ledger.receipt(answer)?.trail ?? []]),
    log: JSON.stringify(bench.log, (_, value: unknown) => (value instanceof Error ? String(value.stack) : value)),
    answer: JSON.stringify(answer.headers) + answer.text,
  }
  // The token of `Bearer …` is the second word.
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

/** Checks that the step called `next` at most once, did not change facts, and that the runner reports no mistake. */
export function stepFailures(
  bench: Bench,
  answers: readonly BenchAnswer[],
  { plugin, ending }: PlayedTrial,
  watched: WatchedPlugin,
): string[] {
  const wrong = watched.nexts.flatMap(count => (count > 1 ? [`next() was called ${count} times`] : []))
  wrong.push(...watched.facts)
  for (const mistake of bench.mistakes) {
    const step = 'step' in mistake ? mistake.step : null
    if (step === AROUND.inner || step === AROUND.outer) continue
    if (!('mistake' in mistake)) wrong.push(`the gateway had an unexpected error: ${mistakeText(mistake.error)}`)
    else if (!isExcused(ending, mistake.mistake)) wrong.push(mistakeSentence(mistake))
  }
  const entries = answers.flatMap(answer => bench.trail(answer).filter(({ step }) => step === plugin.name))
  if (entries.some(({ verdict }) => verdict === 'late'))
    wrong.push('the step did not return after the answer had ended')
  return wrong
}

/** A step may throw if its services fail. */
function isExcused({ isServed }: EndingCase, mistake: StepMistake): boolean {
  return isServed === false && mistake === 'threw'
}

/** Checks the state that a start would find if the process were killed now. */
export async function crashFailures(bench: Bench): Promise<string[]> {
  // One turn, so that pending ledger operations of the steps are committed.
  await turn()
  const { openHolds, violations, balances } = await bench.crash()
  return [
    ...(openHolds > 0 ? [`${openHolds} holds are still open after recovery`] : []),
    ...balances.flatMap(({ held }) => (held > 0n ? [`${held} nano-dollars are still held after recovery`] : [])),
    ...violations.map(each => `the recovered ledger breaks ${each}`),
  ]
}

/** Checks that nothing of the plugin continues after its release. */
export function leftoverFailures(watched: WatchedPlugin): string[] {
  const { created, disposed } = watched.lives
  const wrong = created === disposed ? [] : [`it was created ${created} times and disposed of ${disposed} times`]
  const lasting = watched.lasting()
  if (lasting.length > 0) wrong.push(`after dispose() something is still active: ${[...new Set(lasting)].join(', ')}`)
  for (const name of watched.listeners()) wrong.push(`after dispose() a listener for "${name}" is left on the process`)
  return wrong
}
