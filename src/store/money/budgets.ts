/**
 * Limits on money beside the balance, each a row: what an account, a key or a model may spend in its life, in a day or in a month.
 * A hold reserves in all of them, in its own transaction; its settle gives the rest back. A hold names the budgets in which it has
 * reserved, and counts in the period in which it began, so later changes of budgets do not touch it.
 *
 * The budget of a key for its life is its cap. It is in the table `key_total`, which replicas of earlier versions write too, and
 * counts from the beginning. A key without a row has done nothing yet and has no cap.
 */
import type { NanoUsd, ShortHold } from '#contract'
import type { Database } from '../engine/database.ts'
import { notFound } from '../mistakes.ts'
import { createAccountFinder } from '../people/accounts.ts'
import type { NewBudget } from '../store.ts'
import { HOLD_AT, type HoldRecord, LARGEST } from './ledger-fields.ts'

const SUBJECTS = ['account', 'key', 'model'] as const
const DAY_MS = 86_400_000

export type Period = NewBudget['period']

export interface SetBudget extends NewBudget {
  /** Made by the caller; a budget that is there keeps its own. */
  readonly id: string
}

/** The budgets of a hold. */
export interface Reserved {
  readonly key: string
  readonly at: bigint | number
  /** Their ids, with a space between two; null: none. */
  readonly budgets: string | null
}

export interface Budgets {
  /** All or nothing: the ids of the budgets, null for none, or what is short. */
  reserve(hold: HoldRecord, nowMs: number): string | null | ShortHold
  /** Takes a `reserve` back. */
  unreserve(reserved: Reserved, amount: NanoUsd): void
  /** @param charged below 0: an amount that is given back */
  settle(reserved: Reserved, held: NanoUsd, charged: NanoUsd): void
  /** The smallest rest, 0 at least; null without a limit. */
  free(reserved: Reserved): NanoUsd | null
  setCap(key: string, cap: NanoUsd | null): void
  setBudget(budget: SetBudget): void
  /** Reads the budgets again: a change of them may not have been committed. */
  forget(): void
}

type Budget = {
  readonly id: string
  readonly of: SetBudget['of']
  readonly name: string
  readonly period: Period
  readonly amount: NanoUsd
}

/** A row of what is used. */
type Used = { readonly amount: NanoUsd | null; readonly held: NanoUsd; readonly spent: NanoUsd }

/** When the period of a time began, in UTC. */
export function startOfPeriod(period: Period, ms: number): number {
  if (period === 'life') return 0
  if (period === 'day') return Math.floor(ms / DAY_MS) * DAY_MS
  const date = new Date(ms)
  return Date.UTC(date.getUTCFullYear(), date.getUTCMonth())
}

export function createBudgets(database: Database): Budgets {
  const statements = prepare(database)
  const idOf = createAccountFinder(database)
  /** By subject and name. One process writes to SQLite; in PostgreSQL the function `write_group` reserves. */
  let known: ReadonlyMap<string, readonly Budget[]> | null = null

  function budgetsOf(hold: HoldRecord): readonly Budget[] {
    known ??= Map.groupBy(statements.list.all() as Budget[], ({ of, name }) => `${of} ${name}`)
    if (known.size === 0) return []
    const names = { account: hold[HOLD_AT.accountId], key: hold[HOLD_AT.keyId], model: hold[HOLD_AT.model] }
    return SUBJECTS.flatMap(of => known!.get(`${of} ${names[of]}`) ?? [])
  }

  /** The budgets of a hold that are still there, each with the row's begin. */
  function rowsOf({ budgets, at }: Reserved): readonly (readonly [id: string, start: number])[] {
    if (budgets === null) return []
    return budgets.split(' ').flatMap(id => {
      const period = statements.period.get(id)?.['period'] as Period | undefined
      return period === undefined ? [] : [[id, startOfPeriod(period, Number(at))] as const]
    })
  }

  function shortOf({ id, of, period, amount }: Budget, nowMs: number): ShortHold {
    const nothing = { amount, spent: 0n, held: 0n }
    const used = (statements.findUse.get(id, startOfPeriod(period, nowMs)) as Used | undefined) ?? nothing
    return short(of === 'key' ? 'key' : 'account', used)
  }

  function unreserve(reserved: Reserved, amount: NanoUsd): void {
    statements.unreserveKey.run(amount, reserved.key)
    for (const [id, start] of rowsOf(reserved)) statements.settle.run(amount, 0n, id, start)
  }

  return {
    reserve(hold, nowMs) {
      const [key, amount] = [hold[HOLD_AT.keyId], hold[HOLD_AT.amount]]
      if (statements.reserveKey.run(key, amount, nowMs).changes === 0) {
        return short('key', statements.findKey.get(key) as Used)
      }
      const reserved: string[] = []
      for (const budget of budgetsOf(hold)) {
        const start = startOfPeriod(budget.period, nowMs)
        if (statements.reserve.run(budget.id, start, budget.amount, amount).changes === 0) {
          unreserve({ key, at: nowMs, budgets: listOf(reserved) }, amount)
          return shortOf(budget, nowMs)
        }
        reserved.push(budget.id)
      }
      return listOf(reserved)
    },
    unreserve,
    settle(reserved, held, charged) {
      statements.settleKey.run(held, charged, reserved.key)
      for (const [id, start] of rowsOf(reserved)) statements.settle.run(held, charged, id, start)
    },
    free(reserved) {
      const uses = rowsOf(reserved).map(([id, start]) => statements.findUse.get(id, start))
      const rows = [statements.findKey.get(reserved.key), ...uses]
      const limits = (rows as (Used | undefined)[]).filter(row => row !== undefined && row.amount !== null) as Used[]
      if (limits.length === 0) return null
      return limits.map(restOf).reduce((least, rest) => (rest < least ? rest : least), LARGEST)
    },
    setCap: (key, cap) => void statements.setCap.run(key, cap),
    setBudget({ id, of, name, period, amount }) {
      known = null
      if (of === 'key' && statements.isKey.get(name) === undefined) throw notFound(`The key ${name} is not there.`)
      const subject = of === 'account' ? idOf(name) : name
      if (of === 'key' && period === 'life') statements.setCap.run(name, amount)
      else if (amount === null) statements.remove.run(of, subject, period)
      else statements.setUse.run(amount, statements.put.get(id, of, subject, period, amount)!['id']!)
    },
    forget() {
      known = null
    },
  }
}

const restOf = ({ amount, spent, held }: Used): NanoUsd => (amount! > spent + held ? amount! - spent - held : 0n)

const listOf = (ids: readonly string[]): string | null => (ids.length === 0 ? null : ids.join(' '))

function short(of: ShortHold['of'], { amount, spent, held }: Used): ShortHold {
  return { held: false, reason: 'short', of, available: amount! - spent - held, onHold: held }
}

const brim = (column: string, more: string) =>
  `CASE WHEN ${column} - ${LARGEST} + ${more} > 0 THEN ${LARGEST} ELSE ${column} + ${more} END`
const ceiling = (limit: string, used: string) => `CASE WHEN ${limit} < ${used} THEN ${used} ELSE ${limit} END`

function prepare(database: Database) {
  return {
    // The condition is the lock, as that of the balance is.
    reserveKey: database.prepare(`
      INSERT INTO key_total (key, held, requests, last_used_at) VALUES (?1, ?2, 1, ?3)
      ON CONFLICT (key) DO UPDATE
      SET held = key_total.held + excluded.held, requests = key_total.requests + 1, last_used_at = excluded.last_used_at
      WHERE key_total.cap IS NULL OR key_total.spent + key_total.held + excluded.held <= key_total.cap`),
    unreserveKey: database.prepare('UPDATE key_total SET held = held - ?, requests = requests - 1 WHERE key = ?'),
    settleKey: database.prepare(`
      UPDATE key_total SET held = held - ?1, spent = ${brim('spent', '?2')} WHERE key = ?3`),
    findKey: database.prepareMoney('SELECT cap AS amount, held, spent FROM key_total WHERE key = ?'),
    isKey: database.prepare('SELECT 1 FROM key WHERE id = ?'),
    setCap: database.prepare(`
      INSERT INTO key_total (key, cap, ceiling) VALUES (?1, ?2, ?2)
      ON CONFLICT (key) DO UPDATE SET cap = excluded.cap,
        ceiling = ${ceiling('excluded.cap', 'key_total.spent + key_total.held')}`),
    list: database.prepareMoney('SELECT id, of, name, period, amount FROM budget ORDER BY id'),
    period: database.prepare('SELECT period FROM budget WHERE id = ?'),
    reserve: database.prepare(`
      INSERT INTO budget_use (budget, period_start, amount, ceiling, held) SELECT ?1, ?2, ?3, ?3, ?4 WHERE ?4 <= ?3
      ON CONFLICT (budget, period_start) DO UPDATE SET held = budget_use.held + excluded.held
      WHERE budget_use.spent + budget_use.held + excluded.held <= budget_use.amount`),
    settle: database.prepare(`
      UPDATE budget_use SET held = held - ?1, spent = ${brim('spent', '?2')} WHERE budget = ?3 AND period_start = ?4`),
    findUse: database.prepareMoney('SELECT amount, held, spent FROM budget_use WHERE budget = ? AND period_start = ?'),
    put: database.prepare(`
      INSERT INTO budget (id, of, name, period, zone, amount) VALUES (?, ?, ?, ?, 'UTC', ?)
      ON CONFLICT (of, name, period) DO UPDATE SET amount = excluded.amount RETURNING id`),
    setUse: database.prepare(`
      UPDATE budget_use SET amount = ?1, ceiling = ${ceiling('?1', 'spent + held')} WHERE budget = ?2`),
    remove: database.prepare('DELETE FROM budget WHERE of = ? AND name = ? AND period = ?'),
  }
}
