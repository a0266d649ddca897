/**
 * Open holds, and the place from which recovery must look for them.
 *
 * Ten open holds must be found without reading a million events. No open hold has a smaller exchange id than `meta.open_from` (in
 * PostgreSQL `replica.open_from`, for one replica). Once a minute, a commit that happens anyway moves it to the oldest open hold. A hold
 * with a smaller id moves it back in its own transaction. So it is correct after every commit, even if the clock is set back. Ids are
 * time-ordered, so recovery reads only events from this id on.
 */
import type { NanoUsd } from '#contract'
import type { Database, Row } from '../engine/database.ts'

/** A hold without its settle. */
export interface OpenHold {
  readonly exchange: string
  readonly account: string
  readonly amount: NanoUsd
}

/** The fields of a hold that its settle needs; events never change. A type, because an interface does not fit a row's index signature. */
export type Hold = {
  readonly account: string
  readonly amount: NanoUsd
  readonly key: string
  readonly model: string
  /** The budgets in which it reserves, written by `budgetsText`; null: none. */
  readonly budgets: string | null
}

export interface OpenHolds {
  count(): number
  /**
   * Records a hold of the transaction, to be counted once that is committed.
   * @param hold left out: only the database has its fields
   */
  opened(exchange: string, hold?: Hold): void
  /** An open hold that is certainly on disk; undefined: only the database can show it. */
  find(exchange: string): Hold | undefined
  /** Records that the exchange has no open hold. */
  closed(exchange: string): void
  /** Call it last before COMMIT. Moves `open_from` when it is time, or when the transaction opened a smaller id. */
  beforeCommit(nowMs: number): void
  committed(): void
  rolledBack(): void
  /** COMMIT failed but may have happened: the opened holds count as open until more is known. */
  uncertain(): void
  /** Makes the next commit move `open_from` forward. For the close. */
  moveForward(): void
  /** The value on disk is unknown: the next commit writes it. */
  lost(): void
}

const EVERY_MS = 60_000

/** Open holds from an id on. The primary key is (id, kind), so both halves are searches. */
export const OPEN_HOLDS_SQL = `
  SELECT hold.id AS exchange, hold.account AS account, hold.amount AS amount
  FROM event AS hold
  WHERE hold.id >= ? AND hold.kind = 0
    AND NOT EXISTS (SELECT 1 FROM event AS settle WHERE settle.id = hold.id AND settle.kind = 1)`

/** The same for one replica. The beginning is a value: with a join the server plans to read all events. */
const OPEN_HOLDS_OF_SQL = `${OPEN_HOLDS_SQL} AND hold.replica = ?`
/** The same, if a certain replica has taken it over. One statement, so that the takeover cannot end in between. */
const TAKEN_HOLDS_SQL = `${OPEN_HOLDS_OF_SQL} AND EXISTS (SELECT 1 FROM replica WHERE id = ? AND taken_by = ?)`

/**
 * Reads every open hold on disk, for recovery.
 * @param replica only its holds; null: all, in a store without replicas
 * @param takenBy the replica that must have taken it over; otherwise none are returned
 */
export function readOpenHolds(database: Database, replica: number | null, takenBy?: number): OpenHold[] {
  if (replica === null) {
    return database.prepareMoney(OPEN_HOLDS_SQL).all(readOpenFrom(database, null)) as unknown as OpenHold[]
  }
  const row = findOpenFrom(database, replica)
  // A replica without a row has no holds.
  if (row === undefined) return []
  const from = row['value']!
  const found =
    takenBy === undefined
      ? database.prepareMoney(OPEN_HOLDS_OF_SQL).all(from, replica)
      : database.prepareMoney(TAKEN_HOLDS_SQL).all(from, replica, replica, takenBy)
  return found as unknown as OpenHold[]
}

/** An empty text, which sorts before all ids, if none was ever written. */
export function readOpenFrom(database: Database, replica: number | null): string {
  return String(findOpenFrom(database, replica)?.['value'] ?? '')
}

function findOpenFrom(database: Database, replica: number | null): Row | undefined {
  return replica === null
    ? database.prepare("SELECT value FROM meta WHERE name = 'open_from'").get()
    : database.prepare('SELECT open_from AS value FROM replica WHERE id = ?').get(replica)
}

function createPut(database: Database, replica: number | null): (from: string) => void {
  if (replica !== null) {
    const update = database.prepare('UPDATE replica SET open_from = ? WHERE id = ?')
    return from => void update.run(from, replica)
  }
  const insert = database.prepare(
    "INSERT INTO meta (name, value) VALUES ('open_from', ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value",
  )
  return from => void insert.run(from)
}

export function createOpenHolds(database: Database, replica: number | null): OpenHolds {
  const put = createPut(database, replica)
  const open = new Map<string, Hold | undefined>()
  for (const { exchange } of readOpenHolds(database, replica)) open.set(exchange, undefined)
  let newest = [...open.keys()].reduce(larger, '')
  // Undefined after an uncertain commit that moved it: the next commit writes it again.
  let onDisk: string | undefined = readOpenFrom(database, replica)
  let movedAtMs = Number.NEGATIVE_INFINITY
  // The changes of the running transaction in order: opened (true) or closed. `written` is its new open_from.
  const pending: [exchange: string, isOpen: boolean, hold?: Hold | undefined][] = []
  let written: string | undefined

  function isTime(nowMs: number): boolean {
    // The absolute value: the clock may have stepped back.
    if (onDisk === undefined || Math.abs(nowMs - movedAtMs) >= EVERY_MS) return true
    for (const [exchange, isOpen] of pending) if (isOpen && exchange < onDisk) return true
    return false
  }

  /** The smallest id that is open after this commit. Without one, the newest id so far: later ones are larger or move it back. */
  function smallest(): string {
    const last = new Map(pending.map(([exchange, isOpen]) => [exchange, isOpen]))
    const opening = [...last.keys()].filter(exchange => last.get(exchange))
    const left = [...open.keys()].filter(exchange => last.get(exchange) !== false).concat(opening)
    return left.length > 0 ? left.reduce(smaller) : larger(newest, onDisk ?? '')
  }

  function finish(): void {
    pending.length = 0
    written = undefined
  }

  return {
    count: () => open.size,
    opened: (exchange, hold) => void pending.push([exchange, true, hold]),
    find: exchange => open.get(exchange),
    closed: exchange => void pending.push([exchange, false]),
    beforeCommit(nowMs) {
      if (!isTime(nowMs)) return
      movedAtMs = nowMs
      const value = smallest()
      if (value === onDisk) return
      put(value)
      written = value
    },
    committed() {
      for (const [exchange, isOpen, hold] of pending) {
        if (isOpen) open.set(exchange, hold)
        else open.delete(exchange)
        if (isOpen) newest = larger(newest, exchange)
      }
      if (written !== undefined) onDisk = written
      finish()
    },
    rolledBack: finish,
    uncertain() {
      for (const [exchange, isOpen] of pending) if (isOpen) open.set(exchange, undefined)
      if (written !== undefined) onDisk = undefined
      finish()
    },
    moveForward() {
      movedAtMs = Number.NEGATIVE_INFINITY
    },
    lost() {
      onDisk = undefined
    },
  }
}

const larger = (a: string, b: string): string => (a > b ? a : b)
const smaller = (a: string, b: string): string => (a < b ? a : b)
