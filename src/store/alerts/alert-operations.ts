/**
 * Writes of alerts. Each alert has one row for each receiver, which replicas claim for a lease. If a replica dies after it sent an alert
 * and before it recorded that, another one sends the alert again under the same id.
 */
import type { NanoUsd } from '#contract'
import type { Database } from '../engine/database.ts'
import { notFound } from '../mistakes.ts'
import {
  ALERT_COLUMNS,
  type AttemptResult,
  type Claim,
  type ClaimedDelivery,
  LATE_MS,
  type NewAlert,
  toAlert,
} from './alert-rows.ts'

/** Maximum number of alerts that one transaction removes. */
const MOST_REMOVED = 100
/** An account below the limit without a credit or a charge for this long gets no alert. */
const RECENT_MS = 86_400_000

export interface Balances {
  readonly accounts: readonly string[]
  readonly below: NanoUsd
  readonly nowMs: number
}

export interface AlertOperations {
  /** Existing alerts stay as they are. */
  putAlerts(alerts: readonly NewAlert[]): void
  /** Makes the deliveries of new alerts, and claims the oldest ones that are due. A new receiver gets no earlier alerts. */
  claimAlerts(claim: Claim): readonly ClaimedDelivery[]
  /** A failure is ignored if a later attempt has begun; a success always counts. */
  markAlert(sent: AttemptResult): void
  /** Sends an alert to each of its receivers again. */
  resendAlert(of: { readonly alert: string; readonly nowMs: number }): void
  /** Removes a few alerts from before a time, with their deliveries. */
  sweepAlerts(beforeMs: number): void
  /** Writes an alert for each of these accounts whose credit has fallen below an amount. */
  markBalances(balances: Balances): void
}

export function createAlertOperations(database: Database): AlertOperations {
  return { ...createAlertWrites(database), ...createDeliveryWrites(database) }
}

function createAlertWrites(database: Database): Pick<AlertOperations, 'putAlerts' | 'sweepAlerts' | 'markBalances'> {
  const put = database.prepare(
    'INSERT INTO alert (id, kind, at, account, data) VALUES (?, ?, ?, ?, ?) ON CONFLICT (id) DO NOTHING',
  )
  const remove = database.prepare(
    `DELETE FROM alert WHERE id IN (SELECT id FROM alert WHERE at < ? ORDER BY at LIMIT ${MOST_REMOVED})`,
  )
  const balance = database.prepareMoney('SELECT posted FROM balance WHERE account = ?')
  const lower = database.prepare('INSERT INTO low_account (account) VALUES (?) ON CONFLICT (account) DO NOTHING')
  const raise = database.prepare('DELETE FROM low_account WHERE account = ?')
  const lastEvent = database.prepare(
    `SELECT max(at) AS at FROM ${database.dialect.only('event')} WHERE account = ? AND kind <> 0`,
  )
  const putAlert = ({ id, kind, at, account, data }: NewAlert): void =>
    void put.run(id, kind, at, account, JSON.stringify(data))

  return {
    putAlerts: alerts => alerts.forEach(putAlert),
    sweepAlerts: beforeMs => void remove.run(beforeMs),
    markBalances({ accounts, below, nowMs }) {
      for (const account of accounts) {
        const posted = balance.get(account)?.['posted'] as NanoUsd | undefined
        if (posted === undefined) continue
        if (posted >= below) raise.run(account)
        else if (Number(lower.run(account).changes) === 1) {
          if (Number(lastEvent.get(account)?.['at'] ?? 0) < nowMs - RECENT_MS) continue
          const data = { below: String(below), credit: String(posted) }
          putAlert({ id: `low_balance ${account} ${nowMs}`, kind: 'low_balance', at: nowMs, account, data })
        }
      }
    },
  }
}

function createDeliveryWrites(database: Database): Pick<AlertOperations, 'claimAlerts' | 'markAlert' | 'resendAlert'> {
  const isOpen = 'delivered_at IS NULL AND given_up_at IS NULL'
  const findReceiver = database.prepare('SELECT since, upto FROM alert_receiver WHERE name = ?')
  const putReceiver = database.prepare(`
    INSERT INTO alert_receiver (name, since, upto) VALUES (?1, ?2, ?2)
    ON CONFLICT (name) DO UPDATE SET upto = excluded.upto`)
  const make = database.prepare(`
    INSERT INTO alert_delivery (alert, receiver, next_at)
    SELECT id, CAST(?1 AS TEXT), CAST(?2 AS BIGINT) FROM alert
    WHERE at >= ?3 AND ${database.dialect.isListed('kind', '?4')}
    ON CONFLICT (alert, receiver) DO NOTHING`)
  const due = database.prepare(`
    SELECT ${ALERT_COLUMNS}, attempts FROM alert_delivery JOIN alert ON alert.id = alert_delivery.alert
      LEFT JOIN account ON account.id = alert.account
    WHERE receiver = ? AND ${isOpen} AND next_at <= ? ORDER BY alert.at, alert.id LIMIT ?`)
  const claim = database.prepare(`
    UPDATE alert_delivery SET attempts = attempts + 1, next_at = ?
    WHERE alert = ? AND receiver = ? AND ${isOpen} AND next_at <= ?`)
  const deliver = database.prepare(`
    UPDATE alert_delivery SET delivered_at = ?, given_up_at = NULL, failure = NULL
    WHERE alert = ? AND receiver = ? AND delivered_at IS NULL`)
  const fail = database.prepare(`
    UPDATE alert_delivery SET next_at = ?, failure = ? WHERE alert = ? AND receiver = ? AND attempts = ? AND ${isOpen}`)
  const giveUp = database.prepare(`
    UPDATE alert_delivery SET given_up_at = ?, failure = ? WHERE alert = ? AND receiver = ? AND attempts = ? AND ${isOpen}`)
  const again = database.prepare(
    'UPDATE alert_delivery SET next_at = ?, delivered_at = NULL, given_up_at = NULL WHERE alert = ?',
  )

  return {
    claimAlerts({ name, events, nowMs, leaseMs, most }) {
      const receiver = findReceiver.get(name)
      putReceiver.run(name, nowMs)
      if (receiver === undefined) return []
      const from = Math.max(Number(receiver['since']), Number(receiver['upto']) - LATE_MS)
      make.run(name, nowMs, from, JSON.stringify(events))
      return due.all(name, nowMs, most).flatMap(row => {
        const alert = toAlert(row)
        const isMine = Number(claim.run(nowMs + leaseMs, alert.id, name, nowMs).changes) === 1
        return isMine ? [{ alert, attempt: Number(row['attempts']) + 1 }] : []
      })
    },
    markAlert({ alert, receiver, attempt, nowMs, failure, nextAt }) {
      if (failure === null) deliver.run(nowMs, alert, receiver)
      else if (nextAt === null) giveUp.run(nowMs, failure, alert, receiver, attempt)
      else fail.run(nextAt, failure, alert, receiver, attempt)
    },
    resendAlert({ alert, nowMs }) {
      if (Number(again.run(nowMs, alert).changes) === 0)
        throw notFound(`No receiver was sent the alert ${JSON.stringify(alert)}.`)
    },
  }
}
