/** The outcome of an exchange: the only place that derives it from replies, refusals and errors. */
import { isRefusal, type MeteredUsage, type Outcome, type Refusal } from '#contract'

/** The result of sending. The end, or a whole answer, is withheld until the steps have returned. */
export interface Reply {
  readonly outcome: Outcome
  /** The usage of the answer; null: nothing, or unknown. */
  readonly usage: MeteredUsage | null
  /** The error that the client gets; null: the answer succeeded, or the client disconnected. */
  readonly refusal: Refusal | null
  /** Sends the withheld part. Throws if it cannot be sent. */
  commit(): void
  /** Ends an answer whose head was sent. */
  fail(refusal: Refusal): void
}

/** Why an exchange was stopped. `client_left`: its client disconnected or stalled. `cut`: the gateway shuts down. */
export type Stop = 'client_left' | 'cut'

/** An error: a refusal is a decision, anything else a bug. */
export interface ExchangeError {
  readonly error: unknown
  /** Whether the client has received a part of the answer. */
  readonly hasReceived: boolean
}

/** The outcome after a new end, given the outcome before it. */
export function outcomeAfter(before: Outcome | null, end: Pick<Reply, 'outcome'> | ExchangeError): Outcome {
  if ('outcome' in end) return end.outcome
  const refusal = isRefusal(end.error) && end.error.code !== 'plugin_error' ? end.error : null
  if (before === null) return refusal === null ? 'failed' : 'refused'
  return before === 'answered' ? outcomeOfError(refusal, end.hasReceived) : before
}

/** The outcome of an answer that a step refused (null: the step failed). Delivered content is charged, so its answer is not `refused`. */
export function outcomeOfError(refusal: Refusal | null, hasReceived: boolean): Outcome {
  return refusal === null || refusal.status >= 500 || hasReceived ? 'failed' : 'refused'
}

/** The status that the client gets; null if it disconnected before there was one. */
export function statusAfter(
  outcome: Outcome | null,
  stopped: Stop | null,
  {
    sent,
    refused,
    prepared,
  }: { readonly sent: number | null; readonly refused: number | null; readonly prepared: number },
): number | null {
  return stopped === 'client_left' && outcome === 'client_left' ? null : (sent ?? refused ?? prepared)
}
