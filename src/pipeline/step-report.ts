import { firstLineOf } from '#contract'

/** What the runner tells of a step's mistake: for the log and the metrics, never for the client. */
export interface StepReport {
  readonly exchange: string
  readonly policy: string
  readonly step: string
  readonly what: string
  readonly error?: unknown
  /** Where in the plugin's code it was thrown: `policies/mine.ts:4:11`. */
  readonly at?: string
}

/** A step's mistake as a sentence without a full stop. */
export function mistakeSentence({ step, what, error, at }: StepReport): string {
  const why = error === undefined ? '' : `: ${firstLineOf(error)}`
  return `the step "${step}" ${what}${why}${at === undefined ? '' : ` (${at})`}`
}
