/**
 * Sends alerts to webhooks, each at least once, under one id. Receivers do not wait for each other, and a failing alert does not block
 * later
 * ones. With several replicas, an alert is sent by the one that has claimed it.
 */
import type { Clock, Log, Random } from '#contract'
import type { Webhook } from '../common/alerts-config.ts'
import type { Alerts, ClaimedDelivery } from '../store/alerts/alert-rows.ts'
import { type DeliveryAttempt, deliver } from './deliver.ts'

/** The result of an attempt. */
export type DeliveryResult = 'delivered' | 'failed' | 'given_up'

export interface SenderParts {
  readonly alerts: Pick<Alerts, 'due' | 'claim' | 'mark'>
  /** Of the running configuration. */
  webhooks(): readonly Webhook[]
  readonly clock: Clock
  readonly random: Random
  readonly log: Log
  attempted(receiver: string, result: DeliveryResult): void
  /** Timeout of an attempt; tests shorten it. */
  readonly timeoutMs?: number
}

/** A batch must end within its lease, even if each attempt times out. */
const LEASE_MS = 120_000
const BATCH = 8
/** Pauses double from the first to the longest. */
const PAUSE_MS = { first: 5_000, longest: 30 * 60_000 }
const REFUSED_PAUSE_MS = { first: 5 * 60_000, longest: 6 * 3_600_000 }
/** Older alerts are not retried. */
export const GIVEN_UP_MS = 3 * 86_400_000

export class Sender {
  readonly #parts: SenderParts
  /** Deliveries in progress, by receiver. */
  readonly #lanes = new Map<string, Promise<void>>()
  readonly #end = new AbortController()
  #isLooking = false
  /** Receivers whose last attempt failed, so that the log reports it once. */
  readonly #failing = new Set<string>()

  constructor(parts: SenderParts) {
    this.#parts = parts
  }

  /** Starts to send due alerts. Resolves when the deliveries have started; rejects if the store cannot be read. */
  async look(): Promise<void> {
    const webhooks = this.#parts.webhooks()
    if (this.#isLooking || this.#end.signal.aborted || webhooks.length === 0) return
    this.#isLooking = true
    try {
      const due = await this.#parts.alerts.due(
        webhooks.filter(({ name }) => !this.#lanes.has(name)),
        this.#parts.clock.now(),
      )
      for (const webhook of webhooks) if (due.includes(webhook.name)) this.#start(webhook)
    } finally {
      this.#isLooking = false
    }
  }

  /** Resolves when no delivery is in progress. */
  async idle(): Promise<void> {
    await Promise.all(this.#lanes.values())
  }

  /** Aborts attempts in progress; the next owner of the store repeats them. */
  async close(): Promise<void> {
    this.#end.abort()
    await this.idle()
  }

  #start(webhook: Webhook): void {
    const { name } = webhook
    const lane = this.#sendDue(webhook)
      .catch((error: unknown) => this.#parts.log.warn({ receiver: name, error }, 'alerts cannot be sent now'))
      .finally(() => this.#lanes.delete(name))
    this.#lanes.set(name, lane)
  }

  async #sendDue(webhook: Webhook): Promise<void> {
    const { alerts, clock } = this.#parts
    const { name, events } = webhook
    while (!this.#end.signal.aborted) {
      const claimed = await alerts.claim({ name, events, nowMs: clock.now(), leaseMs: LEASE_MS, most: BATCH })
      if (claimed.length === 0) return
      for (const each of claimed) await this.#send(webhook, each)
    }
  }

  async #send(webhook: Webhook, { alert, attempt }: ClaimedDelivery): Promise<void> {
    const { alerts, clock, timeoutMs } = this.#parts
    const end = this.#end.signal
    if (end.aborted) return
    const attempted = await deliver(webhook, alert, {
      nowMs: clock.now(),
      end,
      ...(timeoutMs === undefined ? {} : { timeoutMs }),
    })
    // It may have arrived nevertheless. Its lease ends, and it is sent again under the same id.
    if (attempted.failure !== null && end.aborted) return
    const nowMs = clock.now()
    const nextAt = attempted.failure === null ? null : this.#nextAt(attempted, attempt, alert.at, nowMs)
    const { failure } = attempted
    await alerts.mark({ alert: alert.id, receiver: webhook.name, attempt, nowMs, failure, nextAt })
    this.#report(webhook, attempted, nextAt)
  }

  /** Null: no further attempt. */
  #nextAt({ isRefused, retryAfterMs }: DeliveryAttempt, attempt: number, at: number, nowMs: number): number | null {
    if (nowMs - at >= GIVEN_UP_MS) return null
    const { first, longest } = isRefused ? REFUSED_PAUSE_MS : PAUSE_MS
    const pauseMs = Math.min(longest, first * 2 ** Math.min(attempt - 1, 30))
    // Half of the pause is random, so that alerts that failed together are not retried together.
    return nowMs + Math.max(retryAfterMs, Math.round(pauseMs * (0.5 + this.#parts.random() / 2)))
  }

  /** Logs once that a receiver fails, and once that it accepts alerts again. */
  #report({ name, host }: Webhook, { failure }: DeliveryAttempt, nextAt: number | null): void {
    const { attempted, log } = this.#parts
    attempted(name, failure === null ? 'delivered' : nextAt === null ? 'given_up' : 'failed')
    if (failure === null) {
      if (this.#failing.delete(name)) log.info({ receiver: name, host }, 'alerts are sent again')
    } else if (nextAt === null) log.error({ receiver: name, host, failure }, 'an alert is not retried any more')
    else if (!this.#failing.has(name)) {
      this.#failing.add(name)
      log.warn({ receiver: name, host, failure }, 'an alert could not be sent and will be retried')
    }
  }
}
