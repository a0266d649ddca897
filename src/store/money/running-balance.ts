/**
 * The balance after each entry of a list: the posted balance minus all later changes. Later days and hours are summed from usage, so an
 * old entry costs no more than a new one.
 */
import type { NanoUsd } from '#contract'
import type { Database } from '../engine/database.ts'
import { CREDIT, SETTLE } from './ledger.ts'
import type { Entry, EntryFilter } from './reports.ts'
import { DAYS, HOURS, MAX_SUMMED } from './usage.ts'

const HOUR_MS = 3_600_000
const DAY_MS = 24 * HOUR_MS
/** Money is summed in two halves, because SQLite's sum of many amounts could overflow its integers. */
const HALF = 1_000_000_000n

export type BareEntry = Omit<Entry, 'balance'>
/** Adds the balances. The list has no gaps: between its first and last entry it has each one of `kind`; undefined: of every kind. */
export type RunningBalance = (
  accountId: string,
  entries: readonly BareEntry[],
  kind: EntryFilter['kind'],
) => readonly Entry[]

export function createRunningBalance(database: Database): RunningBalance {
  // One statement reads one moment of the ledger. Sums of more rows would take too long.
  const part = (select: string) => `SELECT * FROM (${select} LIMIT ${MAX_SUMMED + 1}) AS part`
  const usage = (grain: number) => `SELECT -charged AS amount FROM usage WHERE account = ?1 AND grain = ${grain}`
  const since = database.prepareMoney(`
    WITH newer AS (
      ${part(`${usage(DAYS)} AND at >= ?5`)} UNION ALL ${part(`${usage(HOURS)} AND at >= ?4 AND at < ?5`)} UNION ALL
      ${part(`SELECT -amount AS amount FROM ${database.dialect.only('event')}
        WHERE account = ?1 AND kind <> 0 AND kind = ${SETTLE} AND (at, id) > (?2, ?3) AND at < ?4`)} UNION ALL
      ${part('SELECT -amount AS amount FROM correction WHERE account = ?1 AND (at, id) > (?2, ?3) AND settled_at < ?4')} UNION ALL
      ${part(`SELECT amount FROM event WHERE account = ?1 AND kind = ${CREDIT} AND (at, id) > (?2, ?3)`)}
    )
    SELECT (SELECT posted FROM balance WHERE account = ?1) AS posted, count(*) AS rows,
      coalesce(sum(amount / ${HALF}), 0) AS high, coalesce(sum(amount % ${HALF}), 0) AS low
    FROM newer`)
  const creditsBetween = database.prepareMoney(`
    SELECT amount FROM event WHERE account = ?1 AND kind = ${CREDIT} AND (at, id) > (?2, ?3) AND (at, id) < (?4, ?5)`)

  /** The balance is null if too much was written since. */
  function balanceAfter(accountId: string, { at, id }: BareEntry, most: number) {
    const nextHour = (Math.floor(at / HOUR_MS) + 1) * HOUR_MS
    const nextDay = (Math.floor(at / DAY_MS) + 1) * DAY_MS
    const row = since.get(accountId, at, id, nextHour, nextDay)!
    const rows = Number(row['rows'])
    if (rows > most) return { rows, balance: null }
    const newer = (row['high'] as NanoUsd) * HALF + (row['low'] as NanoUsd)
    return { rows, balance: (row['posted'] as NanoUsd) - newer }
  }

  return (accountId, entries, kind) => {
    let left = MAX_SUMMED
    let newer: Entry | undefined
    return entries.map(entry => {
      let balance: NanoUsd | null = null
      if (newer !== undefined && newer.balance !== null && kind !== 'credit') {
        balance = newer.balance - newer.amount
        if (kind === 'charge') {
          const between = creditsBetween.all(accountId, entry.at, entry.id, newer.at, newer.id)
          for (const { amount } of between) balance -= amount as NanoUsd
        }
      } else if (left >= 0) {
        const current = balanceAfter(accountId, entry, left)
        left -= current.rows
        balance = current.balance
      }
      newer = { ...entry, balance }
      return newer
    })
  }
}
