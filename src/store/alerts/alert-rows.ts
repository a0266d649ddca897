/** Types of stored alerts and their deliveries. */
import type { NanoUsd } from '#contract'
import type { Row } from '../engine/database.ts'
import type { Cursor, Page } from '../money/reports.ts'
import type { Promised } from '../promised.ts'

export interface NewAlert {
  /** Identifies the event. An alert with the same id is the same alert. */
  readonly id: string
  readonly kind: string
  /** Milliseconds since the epoch. */
  readonly at: number
  /** The id of an account; null: the alert is about the gateway. */
  readonly account: string | null
  /** Can be written as JSON. Amounts are texts of nano-dollars. */
  readonly data: Readonly<Record<string, unknown>>
}

export interface Alert extends NewAlert {
  readonly accountName: string | null
}

/** The delivery of an alert to one receiver. */
export interface Delivery {
  readonly receiver: string
  readonly attempts: number
  /** Time of the next attempt. */
  readonly nextAt: number
  readonly deliveredAt: number | null
  readonly givenUpAt: number | null
  /** The reason why the last attempt failed. */
  readonly failure: string | null
}

export interface ListedAlert extends Alert {
  readonly deliveries: readonly Delivery[]
}

export interface AlertFilter {
  readonly kind?: string | undefined
  readonly accountId?: string | undefined
  readonly limit: number
  readonly after?: Cursor | undefined
}

/** A receiver of alerts of these kinds. */
export interface Receiver {
  readonly name: string
  readonly events: readonly string[]
}

export interface Claim extends Receiver {
  readonly nowMs: number
  /** For this time no other replica sends them. */
  readonly leaseMs: number
  readonly most: number
}

/** An alert that the caller must send now. */
export interface ClaimedDelivery {
  readonly alert: Alert
  /** The number of this attempt, from 1. */
  readonly attempt: number
}

export interface AttemptResult {
  readonly alert: string
  readonly receiver: string
  readonly attempt: number
  readonly nowMs: number
  /** Null: the receiver accepted it. */
  readonly failure: string | null
  /** Time of the next attempt; null: none follows. */
  readonly nextAt: number | null
}

export interface AlertFigures {
  /** Alerts of the last 24 hours, by kind. */
  readonly kinds: ReadonlyMap<string, number>
  /** Deliveries that have not ended, by receiver. */
  readonly waiting: ReadonlyMap<string, number>
}

export interface AlertReads {
  /** Newest first. */
  list(filter: AlertFilter): Page<ListedAlert>
  /** The names of those receivers for which `claim` has work. */
  due(receivers: readonly Receiver[], nowMs: number): readonly string[]
  /** Accounts whose credit has crossed an amount since the last check. */
  changedBalances(below: NanoUsd): readonly string[]
  /** Whether there are alerts from before a time. */
  areOlder(thanMs: number): boolean
  figures(nowMs: number): AlertFigures
}

export interface Alerts extends Promised<Pick<AlertReads, 'list' | 'due' | 'figures'>> {
  put(alerts: readonly NewAlert[]): Promise<void>
  /** Alerts to send to a receiver now, oldest first. */
  claim(claim: Claim): Promise<readonly ClaimedDelivery[]>
  mark(sent: AttemptResult): Promise<void>
  /** Throws `not_found` if no receiver was sent it. */
  resend(alert: string, nowMs: number): Promise<void>
  /** Removes alerts from before a time, a few in a transaction. */
  sweep(beforeMs: number): Promise<void>
  /** Writes alerts for accounts whose credit has fallen below an amount since the last check. */
  lookAtBalances(below: NanoUsd, nowMs: number): Promise<void>
}

/** The columns of `toAlert`. */
export const ALERT_COLUMNS =
  'alert.id, alert.kind, alert.at, alert.account, CAST(alert.data AS TEXT) AS data, account.name AS account_name'

export function toAlert(row: Row): Alert {
  return {
    id: row['id'] as string,
    kind: row['kind'] as string,
    at: Number(row['at']),
    account: row['account'] as string | null,
    accountName: row['account_name'] as string | null,
    data: JSON.parse(row['data'] as string),
  }
}

/**
 * An alert may be committed this long after its `at`, for example by a replica whose clock is behind. `claim` therefore looks back this
 * far.
 */
export const LATE_MS = 15 * 60_000
/** Longest time between updates of a receiver's `upto`. Alerts dated up to `upto` have delivery rows, unless they were committed late. */
export const UPTO_EVERY_MS = 5 * 60_000
