/** Alerts and their deliveries, as they are kept. */
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
  /** The id of an account; null: it is about the gateway. */
  readonly account: string | null
  /** Can be written as JSON. Amounts are texts of nano-dollars. */
  readonly data: Readonly<Record<string, unknown>>
}

export interface Alert extends NewAlert {
  readonly accountName: string | null
}

/** An alert on its way to one receiver. */
export interface Delivery {
  readonly receiver: string
  readonly attempts: number
  /** When it is sent next. */
  readonly nextAt: number
  readonly deliveredAt: number | null
  readonly givenUpAt: number | null
  /** Of the last attempt. */
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

/** A receiver that takes alerts of these kinds. */
export interface Receiver {
  readonly name: string
  readonly events: readonly string[]
}

export interface Claim extends Receiver {
  readonly nowMs: number
  /** Until then no other replica sends them. */
  readonly leaseMs: number
  readonly most: number
}

/** An alert that the caller sends now. */
export interface Claimed {
  readonly alert: Alert
  /** This one included. */
  readonly attempt: number
}

/** The result of an attempt. */
export interface Sent {
  readonly alert: string
  readonly receiver: string
  readonly attempt: number
  readonly nowMs: number
  /** Null: the receiver took it. */
  readonly failure: string | null
  /** When it is sent again; null: never, or it was delivered. */
  readonly nextAt: number | null
}

export interface AlertFigures {
  /** Alerts of the last 24 hours, by kind. */
  readonly kinds: ReadonlyMap<string, number>
  /** Deliveries that are not over, by receiver. */
  readonly waiting: ReadonlyMap<string, number>
}

/** Reads of alerts. */
export interface AlertReads {
  /** The newest first. */
  list(filter: AlertFilter): Page<ListedAlert>
  /** Of these receivers, the names of those for which `claim` has work. */
  due(receivers: readonly Receiver[], nowMs: number): readonly string[]
  /** Accounts whose credit has fallen below an amount since the last look, or has risen to it. */
  changedBalances(below: NanoUsd): readonly string[]
  /** Whether there are alerts from before a time. */
  areOlder(thanMs: number): boolean
  figures(nowMs: number): AlertFigures
}

/** Alerts of a store. */
export interface Alerts extends Promised<Pick<AlertReads, 'list' | 'due' | 'figures'>> {
  put(alerts: readonly NewAlert[]): Promise<void>
  /** Alerts to be sent to a receiver now, the oldest first. */
  claim(claim: Claim): Promise<readonly Claimed[]>
  mark(sent: Sent): Promise<void>
  /** Throws `not_found` where no receiver was sent it. */
  resend(alert: string, nowMs: number): Promise<void>
  /** Removes those from before a time, a few in a transaction. */
  sweep(beforeMs: number): Promise<void>
  /** Writes alerts of accounts whose credit has fallen below an amount since the last look. */
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
 * An alert may be committed so much later than its time, by a replica whose clock is behind: it is looked for so long.
 */
export const LATE_MS = 15 * 60_000
/** How often a receiver's row says anew until when its deliveries are made. */
export const UPTO_EVERY_MS = 5 * 60_000
