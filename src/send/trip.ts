/** What the gateway knows of one exchange under way; the senders and the diary share it. */
import type { Context } from 'koa'
import { type Clock, type Log, type Random, type Refusal, refuse, type UpstreamFailure } from '#contract'
import type { Client } from '../answer/client.ts'
import type { Meter } from '../answer/meter.ts'
import type { StreamAnswer } from '../answer/stream.ts'
import type { Watchman } from '../clock.ts'
import type { Generation, LiveRoute } from '../generation.ts'
import type { ReadBody } from '../http/body.ts'
import type { LiveExchange } from '../pipeline/exchange.ts'
import type { StepReport } from '../pipeline/step-report.ts'
import type { Store } from '../store/store.ts'
import type { RawProxy } from '../upstream/raw.ts'
import type { ExchangeAnswers } from './kept.ts'

/** The parts of the gateway that a sender may use. */
export interface SenderParts {
  readonly store: Store
  readonly clock: Clock
  readonly random: Random
  readonly watchman: Watchman
  readonly rawProxy: RawProxy
  readonly log: Log
  /** A step's mistake, for the log and the metrics. */
  reportStep(report: StepReport): void
}

export interface Trip {
  readonly ctx: Context
  readonly route: LiveRoute
  readonly generation: Generation
  readonly exchange: LiveExchange
  readonly client: Client
  readonly meter: Meter
  /** The header of that name for the provider. */
  readonly via: string
  /** Null until it has been read. */
  body: ReadBody | null
  /** The model that a form is about, under the content type by which it was read; null: none was read. */
  form: { readonly type: string; readonly model: string | null } | null
  /** On a route that keeps answers, from the moment at which its request is read. */
  kept: ExchangeAnswers | null
  /** Bytes that are counted for its whole answer: a guess before it is asked for, and what it is once it is there. */
  answerBytes: number
  /** Whose address the client has, while nobody knows the account; found out when it is asked for. */
  network: string | null
  /** The target that is asked now; null between two attempts. */
  asking: string | null
  /** Why the signal was aborted; null while it is not. */
  stopped: 'client_left' | 'cut' | null
  /** Tells the sender that the trip was stopped; set while one waits for upstream. */
  onStop: (() => void) | null
  /** The stream to the client, from the moment at which one exists. */
  stream: StreamAnswer | null
  /** Lets out what was kept back until the pipeline has unwound. */
  finish: (() => void) | null
}

/** For an exchange that was stopped without a provider: who left is not told, who is cut is. */
export function endStopped(trip: Trip): void {
  const { exchange, stopped } = trip
  exchange.outcome = stopped ?? 'cut'
  if (stopped === 'cut') throw refuse('shutting_down', { retryAfterMs: 1000 })
}

/** Begins a try at a target; the returned function writes down how it went, for the receipt. */
export function recordAttempt(trip: Trip, { watchman }: SenderParts, target: string) {
  const startedMs = watchman.now()
  trip.asking = target
  return (status: number | null, failure: UpstreamFailure | null): void => {
    trip.asking = null
    trip.exchange.attempts.push({
      target,
      status,
      code: failure?.code ?? null,
      ms: Math.round(watchman.now() - startedMs),
    })
  }
}

/** A client that tries again makes the gateway use all its attempts again: one call reached a provider 34 times. */
const DO_NOT_RETRY = { 'x-should-retry': 'false' }

/**
 * A provider's failure as our client is to hear it: names of the provider's models become the catalog's.
 * @param isSpent whether the gateway has tried again itself; then a client should only where waiting can help
 */
export function refusalOf(
  { code, message, param, retryAfterMs, detail }: UpstreamFailure,
  names?: { readonly theirs: string; readonly ours: string },
  isSpent = false,
): Refusal {
  const said = message && names && names.theirs.length > 3 ? message.replaceAll(names.theirs, names.ours) : message
  return refuse(code, {
    ...(said ? { message: said } : {}),
    ...(param === undefined ? {} : { param }),
    ...(retryAfterMs === undefined ? {} : { retryAfterMs }),
    ...(isSpent && retryAfterMs === undefined && code !== 'overloaded' ? { headers: DO_NOT_RETRY } : {}),
    detail,
  })
}
