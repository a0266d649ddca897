import { firstLineOf, placeOfMistake, shownPlace } from '#contract'
import type { PlannedStep } from '../../loader/plan.ts'
import type { Exchange } from '../exchange.ts'

/** Mistakes of a step, as predicates without a subject. */
const MISTAKES = {
  threw: 'threw',
  threw_in_shadow: 'threw (in shadow)',
  threw_in_answer: 'threw in a watch or an edit',
  threw_after_error: 'threw after an inner error',
  skipped_on_error: 'threw and was skipped (onError: skip)',
  kept_error: 'caught the error of the answer and did not rethrow it',
  not_awaited: 'returned while its next() was pending',
  no_decision: 'returned without next(), an answer or a refusal',
  when_threw: 'threw in its `when`',
  next_after_end: 'called next() after it was over',
  next_after_answer: 'called next() after it had answered',
  late: 'did not return in time after the answer ended or the client disconnected',
} as const

export type StepMistake = keyof typeof MISTAKES

/** The remedy for a plugin's author, if the predicate does not state it. */
export const REMEDIES: { readonly [mistake in StepMistake]?: string } = {
  no_decision: 'add `await next()`, or throw a refusal',
  not_awaited: 'write `await next()` or `return next()`',
}

/** A report about a step's mistake, for the log and the metrics, never for the client. */
export interface StepReport {
  readonly exchange: string
  readonly policy: string
  readonly step: string
  readonly mistake: StepMistake
  /** With `late`: how long the gateway waited for the step. */
  readonly waitedMs?: number
  readonly error?: unknown
  /** The place in the plugin's code that threw: `policies/mine.ts:4:11`. */
  readonly at?: string
}

/** Creates the report of a step's mistake, with the place in the plugin's code if the error has one. */
export function reportOf(
  { id, plan }: Exchange,
  step: Pick<PlannedStep, 'id' | 'position'>,
  mistake: StepMistake,
  error?: unknown,
): StepReport {
  const at = shownPlace(placeOfMistake(error), step.position?.file)
  return { exchange: id, policy: plan.name, step: step.id, mistake, error, ...(at === null ? {} : { at }) }
}

/** Returns a mistake in words, for the log: `threw`. */
export function mistakeWords({ mistake, waitedMs }: Pick<StepReport, 'mistake' | 'waitedMs'>): string {
  return waitedMs === undefined
    ? MISTAKES[mistake]
    : `did not return within ${waitedMs} ms after the answer ended or the client disconnected`
}

/** Returns a step's mistake as a sentence without a full stop. */
export function mistakeSentence(report: StepReport): string {
  const { step, error, at } = report
  const why = error === undefined ? '' : `: ${firstLineOf(error)}`
  return `the step "${step}" ${mistakeWords(report)}${why}${at === undefined ? '' : ` (${at})`}`
}
