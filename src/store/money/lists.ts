/**
 * An account's ledger as lists, newest first: its entries, and the receipts of its exchanges. A page begins at a cursor (a time and an
 * id), so that new rows do not move it. A page reads a bounded number of events, even if its filter matches few.
 */
import type { NanoUsd, Outcome, Receipt } from '#contract'
import type { Database, Row } from '../engine/database.ts'
import { decodeCursor, encodeCursor } from './cursor.ts'
import { CREDIT, CREDIT_PREFIX, HOLD, SETTLE } from './ledger.ts'
import { createReceiptReader } from './receipts.ts'
import type { Cursor, Entry, Page, Reports } from './reports.ts'
import { type BareEntry, createRunningBalance } from './running-balance.ts'

/** Maximum number of events that are read for a page. */
export const MAX_LOOKED_AT = 2000

type Place = readonly [at: number, id: string]

const NEWEST: Place = [Number.MAX_SAFE_INTEGER, '']

interface Walk<Item> {
  readonly after: Cursor | undefined
  readonly limit: number
  /** Reads the next `count` rows after a place, with `at` and `id`. */
  read(place: Place, count: number): Row[]
  /** Turns a row into an item; undefined: the filter leaves it out. */
  keep(row: Row): Item | undefined
}

/** `kind` of a correction entry, which has a table of its own. */
const CORRECTION = 3
const KINDS = { [CREDIT]: 'credit', [SETTLE]: 'charge', [CORRECTION]: 'correction' } as const

export function createEntryReader(database: Database): Reports['entries'] {
  const { only } = database.dialect
  const behind = (at: string, id: string) => `(${at}, ${id}) < (?2, ?3) ORDER BY ${at} DESC, ${id} DESC LIMIT ?4`
  // The index has the condition `kind <> 0`: it is used only if the query has the same words.
  const events = (of: string) => `
      SELECT event.id, event.kind, event.at, event.amount, event.actor, event.note, event.outcome, hold.key, hold.model,
        hold.tags
      FROM ${only('event')} LEFT JOIN event AS hold ON hold.id = event.id AND hold.kind = ${HOLD} AND event.kind = ${SETTLE}
      WHERE event.account = ?1 AND ${of} AND ${behind('event.at', 'event.id')}`
  const corrections = `
      SELECT correction.id, ${CORRECTION}, correction.at, correction.amount, correction.actor, correction.note,
        correction.outcome, correction.key, correction.model, hold.tags
      FROM correction LEFT JOIN event AS hold ON hold.id = correction.id AND hold.kind = ${HOLD}
      WHERE correction.account = ?1 AND ${behind('correction.at', 'correction.id')}`
  const withCorrections = (of: string) =>
    database.prepareMoney(`
      SELECT * FROM (SELECT * FROM (${events(of)}) AS events UNION ALL SELECT * FROM (${corrections}) AS corrections) AS entries
      ORDER BY at DESC, id DESC LIMIT ?4`)
  const all = withCorrections('event.kind <> 0')
  const charges = withCorrections(`event.kind <> 0 AND event.kind = ${SETTLE}`)
  const credits = database.prepareMoney(events(`event.kind = ${CREDIT}`))
  const withBalances = createRunningBalance(database)

  return (accountId, { kind, limit, after, from = 0, to = Number.MAX_SAFE_INTEGER }) => {
    const list = kind === undefined ? all : kind === 'credit' ? credits : charges
    const { items, next } = walk<BareEntry>({
      after: after ?? encodeCursor([to, '']),
      limit,
      read: ([at, id], count) => list.all(accountId, at, id, count).filter(row => Number(row['at']) >= from),
      keep: row => (row['amount'] === 0n ? undefined : toEntry(row)),
    })
    return { items: withBalances(accountId, items, kind), next }
  }
}

export function createReceiptLister(database: Database): Reports['receipts'] {
  const list = database.prepare(`
    SELECT settle.id, settle.at, settle.outcome, hold.key, hold.model, hold.tags
    FROM ${database.dialect.only('event')} AS settle LEFT JOIN event AS hold ON hold.id = settle.id AND hold.kind = ${HOLD}
    WHERE settle.account = ?1 AND settle.kind <> 0 AND settle.kind = ${SETTLE} AND (settle.at, settle.id) < (?2, ?3)
    ORDER BY settle.at DESC, settle.id DESC LIMIT ?4`)
  const find = createReceiptReader(database)

  return (accountId, { keyId, model, outcome, tag, limit, after }) => {
    const isWanted = (row: Row) =>
      (keyId === undefined || row['key'] === keyId) &&
      (model === undefined || row['model'] === model) &&
      (outcome === undefined || row['outcome'] === outcome) &&
      (tag === undefined || tagsIn(row)?.[tag.name] === tag.value)
    return walk<Receipt>({
      after,
      limit,
      read: ([at, id], count) => list.all(accountId, at, id, count),
      keep: row => (isWanted(row) ? find(row['id'] as string) : undefined),
    })
  }
}

/** Counts in the index alone: a cheap check whether a list is too long to be read. */
export function createEventCounter(database: Database): Reports['countEvents'] {
  const count = database.prepare(`
    SELECT count(*) AS events FROM (
      SELECT 1 FROM event WHERE account = ?1 AND kind <> 0 AND at >= ?2 AND at < ?3 LIMIT ?4) AS looked`)
  return (accountId, { from, to, most }) => count.get(accountId, from, to, most)!['events'] as number
}

/** Fills a page. The next cursor is null only if no row is left. */
function walk<Item>({ after, limit, read, keep }: Walk<Item>): Page<Item> {
  const items: Item[] = []
  let place: Place = after === undefined ? NEWEST : toPlace(after)
  for (let looked = 0; looked < MAX_LOOKED_AT; ) {
    // Double the count each time: a filter that matches few rows then needs few statements, even for a short page.
    const count = Math.min(Math.max(limit + 1, looked), MAX_LOOKED_AT - looked)
    const rows = read(place, count)
    for (const row of rows) {
      if (items.length === limit) return { items, next: encodeCursor(place) }
      const item = keep(row)
      if (item !== undefined) items.push(item)
      place = [Number(row['at']), row['id'] as string]
    }
    if (rows.length < count) return { items, next: null }
    looked += rows.length
  }
  return { items, next: encodeCursor(place) }
}

function toPlace(cursor: Cursor): Place {
  return decodeCursor(cursor, ['number', 'string']) as unknown as Place
}

function toEntry(row: Row): BareEntry {
  const id = row['id'] as string
  const amount = row['amount'] as NanoUsd
  const kind = KINDS[Number(row['kind']) as keyof typeof KINDS]
  const isCredit = kind === 'credit'
  return {
    id,
    kind,
    at: Number(row['at']),
    amount: isCredit ? amount : -amount,
    actor: row['actor'] as string | null,
    note: row['note'] as string | null,
    reference: isCredit ? id.slice(CREDIT_PREFIX.length) : null,
    keyId: row['key'] as string | null,
    model: row['model'] as string | null,
    outcome: row['outcome'] as Outcome | null,
    tags: tagsIn(row),
  }
}

function tagsIn(row: Row): Entry['tags'] {
  const text = row['tags'] as string | null
  return text === null ? null : (JSON.parse(text) as Entry['tags'])
}
