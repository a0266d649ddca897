/** The replies of the senders: they hold the withheld part of an answer until the steps have returned. */
import { type MeteredUsage, type Outcome, type Refusal, refuse, type WireUsage } from '#contract'
import { wireUsageOf } from '../../common/usage.ts'
import type { Client } from '../answer/client.ts'
import type { Reply } from '../finish.ts'
import type { LiveExchange } from './live-exchange.ts'

export const JSON_HEADERS = { 'content-type': 'application/json' }

/** A whole answer. Nothing was sent yet. */
export class WholeReply implements Reply {
  readonly outcome: Outcome
  readonly usage: MeteredUsage | null
  readonly refusal = null
  readonly #client: Client
  readonly #body: Buffer | string
  readonly #status: number
  readonly #headers: Readonly<Record<string, string>>

  constructor(
    { client }: LiveExchange,
    body: Buffer | string,
    { usage = null, status = 200, headers = JSON_HEADERS, outcome = 'answered' }: Partial<WholeParts> = {},
  ) {
    this.outcome = outcome
    this.usage = usage
    this.#client = client
    this.#body = body
    this.#status = status
    this.#headers = headers
  }

  commit(): void {
    this.#client.sendWhole(this.#status, this.#headers, this.#body)
  }

  fail(): void {
    this.#client.destroy()
  }
}

interface WholeParts {
  readonly usage: MeteredUsage | null
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly outcome: Outcome
}

/** The end of an answer. */
export interface End {
  readonly outcome: Outcome
  readonly usage: MeteredUsage | null
  readonly refusal: Refusal | null
}

/** A stream whose end is withheld, or any answer that failed or was stopped, even before its first byte. */
export class StreamReply implements Reply {
  readonly outcome: Outcome
  readonly usage: MeteredUsage | null
  readonly refusal: Refusal | null
  readonly #exchange: LiveExchange

  constructor(exchange: LiveExchange, { outcome, usage, refusal }: End) {
    this.outcome = outcome
    this.usage = usage
    this.refusal = refusal
    this.#exchange = exchange
  }

  commit(): void {
    this.#exchange.stream?.finish(lastUsage(this.#exchange, this.usage))
  }

  fail(refusal: Refusal): void {
    this.#exchange.breakOff(refusal)
  }
}

/**
 * The usage at the end of a stream: the one that is charged, wherever the provider reported it. Null in the canonical format if the
 * provider's own usage stays, or the client did not ask for it.
 */
function lastUsage({ inbound, chat }: LiveExchange, usage: MeteredUsage | null): WireUsage | null {
  if (usage === null) return null
  if (!inbound && !(chat?.includeUsage && usage.source === 'estimated')) return null
  return wireUsageOf(usage)
}

/** The reply of a stopped exchange. A client that disconnected or stalled gets no error. At a shutdown, the client gets one. */
export function stoppedReply(exchange: LiveExchange, usage: MeteredUsage | null = null): Reply {
  const outcome = exchange.stopped ?? 'cut'
  const refusal = outcome === 'cut' ? refuse('shutting_down', { retryAfterMs: 1000 }) : null
  return new StreamReply(exchange, { outcome, usage, refusal })
}

/** The gateway's own answer, as JSON. Undefined: the exchange was stopped meanwhile. */
export function jsonReply(exchange: LiveExchange, body: object | undefined): Reply {
  if (exchange.stopped) return stoppedReply(exchange)
  return new WholeReply(exchange, JSON.stringify(body), { headers: { ...JSON_HEADERS, 'cache-control': 'no-store' } })
}
