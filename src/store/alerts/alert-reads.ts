/** Reads of alerts: lists for pages, and checks whether the writer has work. */
import type { Database, Row } from '../engine/database.ts'
import { decodeCursor, encodeCursor } from '../money/cursor.ts'
import {
  ALERT_COLUMNS,
  type AlertReads,
  type Delivery,
  LATE_MS,
  type ListedAlert,
  toAlert,
  UPTO_EVERY_MS,
} from './alert-rows.ts'

const DAY_MS = 86_400_000
/** Maximum number of accounts that one read returns; the next one returns others. */
const MOST_CHANGED = 200

export function createAlertReads(database: Database): AlertReads {
  const { isListed } = database.dialect
  const receiver = database.prepare('SELECT since, upto FROM alert_receiver WHERE name = ?')
  const unmade = database.prepare(`
    SELECT 1 FROM alert WHERE at >= ?1 AND ${isListed('kind', '?2')}
      AND NOT EXISTS (SELECT 1 FROM alert_delivery WHERE alert_delivery.alert = alert.id AND receiver = ?3) LIMIT 1`)
  const open = database.prepare(`
    SELECT 1 FROM alert_delivery
    WHERE receiver = ? AND delivered_at IS NULL AND given_up_at IS NULL AND next_at <= ? LIMIT 1`)
  const changed = database.prepare(`
    SELECT balance.account FROM balance LEFT JOIN low_account ON low_account.account = balance.account
    WHERE (posted < ?1) <> (low_account.account IS NOT NULL) LIMIT ${MOST_CHANGED}`)
  const older = database.prepare('SELECT 1 FROM alert WHERE at < ? LIMIT 1')
  const kinds = database.prepare('SELECT kind AS name, count(*) AS count FROM alert WHERE at >= ? GROUP BY kind')
  const waiting = database.prepare(`
    SELECT receiver AS name, count(*) AS count FROM alert_delivery
    WHERE delivered_at IS NULL AND given_up_at IS NULL GROUP BY receiver`)

  function hasWork(name: string, events: string, nowMs: number): boolean {
    const row = receiver.get(name)
    if (row === undefined) return true
    const upto = Number(row['upto'])
    if (nowMs - upto >= UPTO_EVERY_MS) return true
    const from = Math.max(Number(row['since']), upto - LATE_MS)
    return unmade.get(from, events, name) !== undefined || open.get(name, nowMs) !== undefined
  }

  return {
    list: createAlertLister(database),
    due: (receivers, nowMs) =>
      receivers.flatMap(({ name, events }) => (hasWork(name, JSON.stringify(events), nowMs) ? [name] : [])),
    changedBalances: below => changed.all(below).map(row => row['account'] as string),
    areOlder: thanMs => older.get(thanMs) !== undefined,
    figures: nowMs => ({ kinds: counts(kinds.all(nowMs - DAY_MS)), waiting: counts(waiting.all()) }),
  }
}

function createAlertLister(database: Database): AlertReads['list'] {
  const select = (where: string) =>
    database.prepare(`
    SELECT ${ALERT_COLUMNS} FROM alert LEFT JOIN account ON account.id = alert.account
    WHERE ${where} AND (alert.at, alert.id) < (?1, ?2) AND (CAST(?3 AS TEXT) IS NULL OR alert.kind = CAST(?3 AS TEXT))
    ORDER BY alert.at DESC, alert.id DESC LIMIT ?4`)
  const all = select('TRUE')
  const ofAccount = select('alert.account = ?5')
  const deliveries = database.prepare(`
    SELECT alert, receiver, attempts, next_at, delivered_at, given_up_at, failure FROM alert_delivery
    WHERE ${database.dialect.isListed('alert', '?1')} ORDER BY alert, receiver`)

  return ({ kind = null, accountId, limit, after }) => {
    const [at, id] = after === undefined ? [Number.MAX_SAFE_INTEGER, ''] : decodeCursor(after, ['number', 'string'])
    const wanted = [at!, id!, kind, limit + 1]
    const rows = accountId === undefined ? all.all(...wanted) : ofAccount.all(...wanted, accountId)
    const alerts = rows.slice(0, limit).map(toAlert)
    const found = deliveries.all(JSON.stringify(alerts.map(alert => alert.id)))
    const byAlert = Map.groupBy(found, row => row['alert'] as string)
    const items = alerts.map(
      (alert): ListedAlert => ({ ...alert, deliveries: (byAlert.get(alert.id) ?? []).map(toDelivery) }),
    )
    const last = items.at(-1)
    return { items, next: rows.length > limit && last ? encodeCursor([last.at, last.id]) : null }
  }
}

function toDelivery(row: Row): Delivery {
  const time = (name: string) => (row[name] === null ? null : Number(row[name]))
  return {
    receiver: row['receiver'] as string,
    attempts: Number(row['attempts']),
    nextAt: Number(row['next_at']),
    deliveredAt: time('delivered_at'),
    givenUpAt: time('given_up_at'),
    failure: row['failure'] as string | null,
  }
}

function counts(rows: readonly Row[]): Map<string, number> {
  return new Map(rows.map(row => [row['name'] as string, Number(row['count'])]))
}
