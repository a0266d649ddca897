/**
 * The balance after each entry of a list: what is posted now, less what was written since. Sums of whole days and hours are
 * read where usage has them, so that an old entry costs no more than a new one.
 */
import type { NanoUsd } from '#contract'
import type { Database } from '../engine/database.ts'
import { CREDIT, SETTLE } from './ledger.ts'
import type { Entry, EntryFilter } from './reports.ts'
import { DAYS, HOURS, MAX_SUMMED } from './usage.ts'

const HOUR_MS = 3_600_000
const DAY_MS = 24 * HOUR_MS
/** Money is summed in two halves: SQLite's sum of many amounts could be more than an integer of its own holds. */
const HALF = 1_000_000_000n

/** An entry as the ledger has it; `balance` is added here. */
export type BareEntry = Omit<Entry, 'balance'>
/** Adds the balances. `kind`: the entries are all that there are of this kind between the first and the last. */
export type RunningBalance = (
  accountId: string,
  entries: readonly BareEntry[],
  kind: EntryFilter['kind'],
) => readonly Entry[]

export function createRunningBalance(database: Database): RunningBalance {
  // One statement, and so one moment of the ledger. A sum of more rows than this is not waited for.
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

  /** Null when too much was written since. */
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
        const found = balanceAfter(accountId, entry, left)
        left -= found.rows
        balance = found.balance
      }
      newer = { ...entry, balance }
      return newer
    })
  }
}
