/** How an exchange ends: the only place that turns replies, refusals and errors into an outcome. */
import { isRefusal, type MeteredUsage, type Outcome, type Refusal } from '#contract'

/** What was sent in answer to an exchange, up to what leaves only when its steps have returned. */
export interface Reply {
  readonly outcome: Outcome
  /** What the answer used; null: nothing, or nobody knows. */
  readonly usage: MeteredUsage | null
  /** What the client is told of a bad end; null: there is nothing to tell, or nobody to tell it to. */
  readonly refusal: Refusal | null
  /** Lets out what was kept back. Throws when it cannot be sent. */
  commit(): void
  /** Ends an answer whose head has left. */
  fail(refusal: Refusal): void
}

/** Why nobody waits for an answer any more. */
export type Stop = 'client_left' | 'cut'

/** Something broke: a refusal is somebody's decision, anything else a mistake. */
export interface Broken {
  readonly error: unknown
  /** Whether the client has seen something of the answer. */
  readonly hasSeen: boolean
}

/** How an exchange ends behind this, when before it was to end like that. */
export function outcomeAfter(before: Outcome | null, end: Pick<Reply, 'outcome'> | Broken): Outcome {
  if ('outcome' in end) return end.outcome
  const refusal = isRefusal(end.error) && end.error.code !== 'plugin_error' ? end.error : null
  if (before === null) return refusal === null ? 'failed' : 'refused'
  return before === 'answered' ? outcomeOfBroken(refusal, end.hasSeen) : before
}

/**
 * A step has refused an answer that was there, or broken on it (null). It is refused where the client has seen nothing of it;
 * what has been delivered is paid for.
 */
export function outcomeOfBroken(refusal: Refusal | null, hasSeen: boolean): Outcome {
  return refusal === null || refusal.status >= 500 || hasSeen ? 'failed' : 'refused'
}

/** What the client gets; null when it has left before there was a status. */
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
