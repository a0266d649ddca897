/** What the gateway knows of one exchange under way; the senders and the diary share it. */
import type { Context } from 'koa'
import { type Clock, type Log, type Refusal, refuse, type UpstreamFailure } from '#contract'
import type { Client } from '../answer/client.ts'
import type { Meter } from '../answer/meter.ts'
import type { StreamAnswer } from '../answer/stream.ts'
import type { Watchman } from '../clock.ts'
import type { Generation, LiveRoute, Upstream } from '../generation.ts'
import type { LiveExchange } from '../pipeline/exchange.ts'
import type { StepReport } from '../pipeline/runner.ts'
import type { Store } from '../store/store.ts'
import type { RawProxy } from '../upstream/raw.ts'

/** The parts of the gateway that a sender may use. */
export interface SenderParts {
  readonly store: Store
  readonly clock: Clock
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
  return (status: number | null, failure: UpstreamFailure | null): void => {
    trip.exchange.attempts.push({
      target,
      status,
      code: failure?.code ?? null,
      ms: Math.round(watchman.now() - startedMs),
    })
  }
}

/**
 * A provider's failure as our client is to hear it: names of the provider's models become the catalog's, and what the
 * provider was sent to know us by is taken out of its words.
 */
export function refusalOf(
  failure: UpstreamFailure,
  provider: Pick<Upstream['provider'], 'apiKey' | 'headers'>,
  names?: { readonly theirs: string; readonly ours: string },
): Refusal {
  const { code, message, param, retryAfterMs, detail } = failure
  const said = message && names && names.theirs.length > 3 ? message.replaceAll(names.theirs, names.ours) : message
  return refuse(code, {
    ...(said ? { message: withoutSecrets(said, provider) } : {}),
    ...(param === undefined ? {} : { param: param && withoutSecrets(param, provider) === param ? param : null }),
    ...(retryAfterMs === undefined ? {} : { retryAfterMs }),
    detail,
  })
}

/** A shorter header value is a word like others. */
const SHORTEST_SECRET = 8

/** A text without the provider's key and the values of its headers; one that was cut may end within a secret. */
function withoutSecrets(text: string, { apiKey, headers }: Pick<Upstream['provider'], 'apiKey' | 'headers'>): string {
  let clean = text
  const sent = [apiKey ?? '', ...Object.values(headers)].flatMap(value => [value, ...value.split(' ')])
  for (const secret of sent) {
    if (secret.length < SHORTEST_SECRET) continue
    clean = clean.replaceAll(secret, '[secret]')
    for (let size = secret.length - 1; size >= SHORTEST_SECRET; size--) {
      if (clean.endsWith(`${secret.slice(0, size)}…`)) clean = `${clean.slice(0, -size - 1)}…`
    }
  }
  return clean
}
