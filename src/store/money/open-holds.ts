/**
 * Which holds are open, and from where recovery must look for them.
 *
 * A million events must not be read to find ten open holds. So `meta.open_from` (in PostgreSQL `replica.open_from`, for the
 * holds of one replica) says: no open hold has a smaller exchange
 * id. It is moved forward once a minute, within a commit that happens anyway, and moved back at once, in the same
 * transaction, by a hold with a smaller id; so it is true after every commit, whatever the clock does. Ids are
 * time-ordered, hence there is at most about a minute of events behind it.
 */
import type { NanoUsd } from '#contract'
import type { Database, Row } from '../engine/database.ts'

/** A hold without its settle. */
export interface OpenHold {
  readonly exchange: string
  readonly account: string
  readonly amount: NanoUsd
}

/** The fields of a hold that its settle needs; no event ever changes. A type: an interface would not fit a row's index signature. */
export type Hold = {
  readonly account: string
  readonly amount: NanoUsd
  readonly key: string
  readonly model: string
  /** In which it has reserved, as `budgetsText` writes them; null: none. */
  readonly budgets: string | null
}

export interface OpenHolds {
  count(): number
  /**
   * Within a transaction; counts only once it is committed.
   * @param hold left out: only the database has it
   */
  opened(exchange: string, hold?: Hold): void
  /** One that is open and certainly on disk; undefined: look there. */
  find(exchange: string): Hold | undefined
  /** There is no open hold of this exchange any more, or never was. */
  closed(exchange: string): void
  /** As the last thing before COMMIT: moves `open_from` when it is time, or when the transaction opened a smaller one. */
  beforeCommit(nowMs: number): void
  committed(): void
  rolledBack(): void
  /** COMMIT failed, and may have happened: what it opened counts as open until something else is known. */
  uncertain(): void
  /** Makes the next commit move `open_from` forward: at close. */
  moveForward(): void
  /** What it says on disk is not known any more: the next commit writes it. */
  lost(): void
}

const EVERY_MS = 60_000

/** Open holds from an id on; the primary key is (id, kind), so both halves are searches. */
export const OPEN_HOLDS_SQL = `
  SELECT hold.id AS exchange, hold.account AS account, hold.amount AS amount
  FROM event AS hold
  WHERE hold.id >= ? AND hold.kind = 0
    AND NOT EXISTS (SELECT 1 FROM event AS settle WHERE settle.id = hold.id AND settle.kind = 1)`

/** The same of one replica. Where to begin is a value and no join: else the server plans to read all events. */
const OPEN_HOLDS_OF_SQL = `${OPEN_HOLDS_SQL} AND hold.replica = ?`
/** The same as long as a certain one has taken it over: in one look, so that it has written nothing since. */
const TAKEN_HOLDS_SQL = `${OPEN_HOLDS_OF_SQL} AND EXISTS (SELECT 1 FROM replica WHERE id = ? AND taken_by = ?)`

/**
 * What recovery settles: every open hold on disk.
 * @param replica those of one replica; null: all, where there are no replicas
 * @param takenBy none if another one has taken it over, or nobody
 */
export function readOpenHolds(database: Database, replica: number | null, takenBy?: number): OpenHold[] {
  if (replica === null) {
    return database.prepareMoney(OPEN_HOLDS_SQL).all(readOpenFrom(database, null)) as unknown as OpenHold[]
  }
  const row = findOpenFrom(database, replica)
  // A replica that is not there has none.
  if (row === undefined) return []
  const from = row['value']!
  const found =
    takenBy === undefined
      ? database.prepareMoney(OPEN_HOLDS_OF_SQL).all(from, replica)
      : database.prepareMoney(TAKEN_HOLDS_SQL).all(from, replica, replica, takenBy)
  return found as unknown as OpenHold[]
}

/** An empty text, before which nothing sorts, when none was ever written. */
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
  // Undefined after an uncertain commit that moved it: the next one has to say it again.
  let onDisk: string | undefined = readOpenFrom(database, replica)
  let movedAtMs = Number.NEGATIVE_INFINITY
  // What the running transaction has done, in order: open (true) or not any more. `written` is what it says about open_from.
  const pending: [exchange: string, isOpen: boolean, hold?: Hold | undefined][] = []
  let written: string | undefined

  function isTime(nowMs: number): boolean {
    // Also when the clock has stepped back.
    if (onDisk === undefined || Math.abs(nowMs - movedAtMs) >= EVERY_MS) return true
    for (const [exchange, isOpen] of pending) if (isOpen && exchange < onDisk) return true
    return false
  }

  /** Of those open after this commit. With none open the newest there was: later ones are larger, or move it back. */
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
