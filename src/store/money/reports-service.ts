/** Assembles the reports: lists of an account's ledger, usage, accounts and people. */
import type { NanoUsd } from '#contract'
import type { Database } from '../engine/database.ts'
import { ACCOUNT_PREFIX, BALANCE_COLUMNS, toBalance } from '../people/accounts.ts'
import { foldEmail, formerEmail } from '../people/email.ts'
import { toPerson } from '../people/person-rows.ts'
import { decodeCursor, encodeCursor } from './cursor.ts'
import { createEntryReader, createEventCounter, createReceiptLister } from './lists.ts'
import type { Reports } from './reports.ts'
import { createUsageReader } from './usage.ts'

export function createReports(database: Database): Reports {
  return {
    entries: createEntryReader(database),
    receipts: createReceiptLister(database),
    countEvents: createEventCounter(database),
    usage: createUsageReader(database),
    accounts: createAccountLister(database),
    people: createPersonLister(database),
    plans: createPlans(database),
    totals: createTotals(database),
  }
}

function createAccountLister(database: Database): Reports['accounts'] {
  // A place is a name and an id, because two names may differ in case alone. The name alone makes the index usable.
  const { like, folded } = database.dialect
  const [wanted, beginning, ofPlan] = ['CAST(?3 AS TEXT)', 'CAST(?4 AS TEXT)', 'CAST(?5 AS TEXT)']
  const list = database.prepareMoney(`
    SELECT ${BALANCE_COLUMNS} FROM account JOIN balance ON balance.account = account.id
    WHERE ${folded('name')} >= ${folded('?1')} AND (${folded('name')}, id) > (${folded('?1')}, ?2)
      AND (${wanted} IS NULL OR name ${like} ${wanted} ESCAPE '\\' OR id ${like} ${beginning} ESCAPE '\\')
      AND (${ofPlan} IS NULL OR plan = ${ofPlan}) AND (CAST(?6 AS BIGINT) IS NULL OR frozen = ?6)
    ORDER BY ${folded('name')}, id LIMIT ?7`)
  return ({ search, plan, frozen, limit, after }) => {
    const [name, id] = after === undefined ? ['', ''] : decodeCursor(after, ['string', 'string'])
    const part = search === undefined || search === '' ? null : escapeLike(search)
    const beginning = part?.toLowerCase().startsWith(escapeLike(ACCOUNT_PREFIX)) ? `${part}%` : null
    const isFrozen = frozen === undefined ? null : Number(frozen)
    const rows = list.all(name!, id!, part && `%${part}%`, beginning, plan ?? null, isFrozen, limit + 1)
    const items = rows.slice(0, limit).map(toBalance)
    const last = items.at(-1)
    return { items, next: rows.length > limit && last ? encodeCursor([last.name, last.id]) : null }
  }
}

function createPersonLister(database: Database): Reports['people'] {
  const { like } = database.dialect
  // LEFT fixes the order of the join: people by address, each with its account, so that the query stops when the page is full.
  const wanted = 'CAST(?2 AS TEXT)'
  const select = (where: string) =>
    database.prepare(`
    SELECT person.id, email, person.account, role, person.created_at, account.name
    FROM person LEFT JOIN account ON account.id = person.account
    WHERE ${where} AND email > ?1
      AND (${wanted} IS NULL OR email ${like} ${wanted} ESCAPE '\\' OR folded ${like} CAST(?3 AS TEXT) ESCAPE '\\')
    ORDER BY email LIMIT ?4`)
  const all = select('TRUE')
  const ofAccount = select('person.account = ?5')
  return ({ search, accountId, limit, after }) => {
    const [email] = after === undefined ? [''] : decodeCursor(after, ['string'])
    // Searched as addresses are stored and as they are compared, because LIKE ignores the case of a to z only.
    const part = (fold: (text: string) => string) => (search ? `%${escapeLike(fold(search))}%` : null)
    const wanted = [email!, part(formerEmail), part(foldEmail), limit + 1]
    const rows = accountId === undefined ? all.all(...wanted) : ofAccount.all(...wanted, accountId)
    const items = rows.slice(0, limit).map(row => ({ ...toPerson(row), account: row['name'] as string }))
    const last = items.at(-1)
    return { items, next: rows.length > limit && last ? encodeCursor([last.email]) : null }
  }
}

function createPlans(database: Database): Reports['plans'] {
  const count = database.prepare('SELECT plan, count(*) AS accounts FROM account GROUP BY plan ORDER BY plan')
  return () => count.all().map(row => ({ plan: row['plan'] as string, accounts: row['accounts'] as number }))
}

function createTotals(database: Database): Reports['totals'] {
  // In two halves, because SQLite's sum of many balances could overflow its integers.
  const half = 1_000_000_000n
  const sum = database.prepareMoney(`
    SELECT count(*) AS accounts,
      coalesce(sum(posted / ${half}), 0) AS posted_high, coalesce(sum(posted % ${half}), 0) AS posted_low,
      coalesce(sum(held / ${half}), 0) AS held_high, coalesce(sum(held % ${half}), 0) AS held_low
    FROM balance`)
  return () => {
    const row = sum.get()!
    const whole = (name: string) => (row[`${name}_high`] as NanoUsd) * half + (row[`${name}_low`] as NanoUsd)
    return { accounts: Number(row['accounts']), posted: whole('posted'), held: whole('held') }
  }
}

/** Makes LIKE take the text literally. */
function escapeLike(text: string): string {
  return text.replace(/[\\%_]/g, character => `\\${character}`)
}
