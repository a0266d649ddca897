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
import { GroupRows } from './group-rows.ts'
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
  /** The first limit that has no room for a hold; null: all have room. */
  shortOf(hold: HoldRecord, nowMs: number): ShortHold | null
  /** The ids of the budgets of a hold, with a space between two; null: none. */
  idsOf(hold: HoldRecord): string | null
  /** Reserves in all of them. */
  reserve(hold: HoldRecord, nowMs: number): void
  /** @param charged below 0: an amount that is given back */
  settle(reserved: Reserved, held: NanoUsd, charged: NanoUsd): void
  /** The smallest rest, 0 at least; null without a limit. */
  free(reserved: Reserved): NanoUsd | null
  setCap(key: string, cap: NanoUsd | null): void
  setBudget(budget: SetBudget): void
  /** Writes what holds and settles have changed: before COMMIT, and before anything else uses the tables. */
  flush(): void
  /** Reads everything again: something else may have changed it, or a change was undone. */
  forget(): void
}

type Budget = {
  readonly id: string
  readonly of: SetBudget['of']
  readonly name: string
  readonly period: Period
  readonly amount: NanoUsd
}

/** The held and spent amounts of a limit, as the transaction has them. */
interface Used {
  readonly amount: NanoUsd | null
  held: NanoUsd
  spent: NanoUsd
}

interface UsedOfKey extends Used {
  requests: bigint
  lastUsedAt: bigint | number | null
}

/** The table `budget`. One process writes to SQLite; in PostgreSQL the function `write_group` reserves. */
class KnownBudgets {
  readonly #read: () => readonly Budget[]
  #bySubject: ReadonlyMap<string, readonly Budget[]> | null = null
  #periods: ReadonlyMap<string, Period> = new Map()

  constructor(read: () => readonly Budget[]) {
    this.#read = read
  }

  /** Those in which a hold reserves. */
  of(hold: HoldRecord): readonly Budget[] {
    const found = this.#known()
    if (found.size === 0) return []
    const names = { account: hold[HOLD_AT.accountId], key: hold[HOLD_AT.keyId], model: hold[HOLD_AT.model] }
    return SUBJECTS.flatMap(of => found.get(`${of} ${names[of]}`) ?? [])
  }

  /** Undefined: the budget is not there any more. */
  periodOf(id: string): Period | undefined {
    this.#known()
    return this.#periods.get(id)
  }

  forget(): void {
    this.#bySubject = null
  }

  #known(): ReadonlyMap<string, readonly Budget[]> {
    if (this.#bySubject === null) {
      const all = this.#read()
      this.#bySubject = Map.groupBy(all, ({ of, name }) => `${of} ${name}`)
      this.#periods = new Map(all.map(({ id, period }) => [id, period]))
    }
    return this.#bySubject
  }
}

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
  const known = new KnownBudgets(() => statements.list.all() as Budget[])
  const { keys, uses } = createRows(statements)

  const keyOf = (key: string): UsedOfKey =>
    keys.find(key) ?? { amount: null, held: 0n, spent: 0n, requests: 0n, lastUsedAt: null }

  const useOf = (name: string, { amount }: Budget): Used => uses.find(name) ?? { amount, held: 0n, spent: 0n }

  /** The rows of a hold in the budgets that are still there. */
  function namesOf({ budgets, at }: Reserved): readonly string[] {
    if (budgets === null) return []
    return budgets.split(' ').flatMap(id => {
      const period = known.periodOf(id)
      return period === undefined ? [] : [nameOf(id, period, Number(at))]
    })
  }

  return {
    shortOf(hold, nowMs) {
      const amount = hold[HOLD_AT.amount]
      const used = keyOf(hold[HOLD_AT.keyId])
      if (!hasRoom(used, amount)) return short('key', used)
      for (const budget of known.of(hold)) {
        const use = useOf(nameOf(budget.id, budget.period, nowMs), budget)
        if (!hasRoom(use, amount)) return short(budget.of === 'key' ? 'key' : 'account', use)
      }
      return null
    },
    idsOf(hold) {
      const budgets = known.of(hold)
      return budgets.length === 0 ? null : budgets.map(({ id }) => id).join(' ')
    },
    reserve(hold, nowMs) {
      const [key, amount] = [hold[HOLD_AT.keyId], hold[HOLD_AT.amount]]
      const used = keyOf(key)
      used.held += amount
      used.requests++
      used.lastUsedAt = nowMs
      keys.change(key, used)
      for (const budget of known.of(hold)) {
        const name = nameOf(budget.id, budget.period, nowMs)
        const use = useOf(name, budget)
        use.held += amount
        uses.change(name, use)
      }
    },
    settle(reserved, held, charged) {
      charge(keys, reserved.key, held, charged)
      for (const name of namesOf(reserved)) charge(uses, name, held, charged)
    },
    free(reserved) {
      const rows = [keys.find(reserved.key), ...namesOf(reserved).map(name => uses.find(name))]
      const limits = rows.filter(row => row !== undefined && row.amount !== null) as Used[]
      if (limits.length === 0) return null
      return limits.map(restOf).reduce((least, rest) => (rest < least ? rest : least), LARGEST)
    },
    setCap: (key, cap) => void statements.setCap.run(key, cap),
    setBudget({ id, of, name, period, amount }) {
      known.forget()
      if (of === 'key' && statements.isKey.get(name) === undefined) throw notFound(`The key ${name} is not there.`)
      const subject = of === 'account' ? idOf(name) : name
      if (of === 'key' && period === 'life') statements.setCap.run(name, amount)
      else if (amount === null) statements.remove.run(of, subject, period)
      else statements.setUse.run(amount, statements.put.get(id, of, subject, period, amount)!['id']!)
    },
    flush() {
      keys.flush()
      uses.flush()
    },
    forget() {
      known.forget()
      keys.forget()
      uses.forget()
    },
  }
}

function createRows(statements: ReturnType<typeof prepare>) {
  return {
    keys: new GroupRows<UsedOfKey>({
      read: key => statements.findKey.get(key) as unknown as UsedOfKey | undefined,
      write(key, { held, spent, requests, lastUsedAt }) {
        const values = [held, spent, requests, lastUsedAt, key]
        if (statements.changeKey.run(...values).changes === 0) statements.putKey.run(...values)
      },
    }),
    /** By the budget's id and the begin of the period. */
    uses: new GroupRows<Used>({
      read: name => statements.findUse.get(...name.split(' ')) as unknown as Used | undefined,
      write(name, { amount, held, spent }) {
        const values = [held, spent, ...name.split(' ')]
        if (statements.changeUse.run(...values).changes === 0) statements.putUse.run(...values, amount)
      },
    }),
  }
}

const nameOf = (id: string, period: Period, ms: number): string => `${id} ${startOfPeriod(period, ms)}`

const hasRoom = ({ amount, spent, held }: Used, more: NanoUsd): boolean =>
  amount === null || spent + held + more <= amount

function charge<Row extends Used>(rows: GroupRows<Row>, name: string, held: NanoUsd, charged: NanoUsd): void {
  const row = rows.find(name)
  if (row === undefined) return
  row.held -= held
  const spent = row.spent + charged
  row.spent = spent < LARGEST ? spent : LARGEST
  rows.change(name, row)
}

const restOf = ({ amount, spent, held }: Used): NanoUsd => (amount! > spent + held ? amount! - spent - held : 0n)

function short(of: ShortHold['of'], { amount, spent, held }: Used): ShortHold {
  return { held: false, reason: 'short', of, available: amount! - spent - held, onHold: held }
}

const ceiling = (limit: string, used: string) => `CASE WHEN ${limit} < ${used} THEN ${used} ELSE ${limit} END`

function prepare(database: Database) {
  return {
    findKey: database.prepareMoney(`
      SELECT cap AS amount, held, spent, requests, last_used_at AS "lastUsedAt" FROM key_total WHERE key = ?`),
    changeKey: database.prepare(
      'UPDATE key_total SET held = ?1, spent = ?2, requests = ?3, last_used_at = ?4 WHERE key = ?5',
    ),
    putKey: database.prepare('INSERT INTO key_total (held, spent, requests, last_used_at, key) VALUES (?, ?, ?, ?, ?)'),
    isKey: database.prepare('SELECT 1 FROM key WHERE id = ?'),
    setCap: database.prepare(`
      INSERT INTO key_total (key, cap, ceiling) VALUES (?1, ?2, ?2)
      ON CONFLICT (key) DO UPDATE SET cap = excluded.cap,
        ceiling = ${ceiling('excluded.cap', 'key_total.spent + key_total.held')}`),
    list: database.prepareMoney('SELECT id, of, name, period, amount FROM budget ORDER BY id'),
    findUse: database.prepareMoney(`
      SELECT amount, held, spent FROM budget_use WHERE budget = ? AND period_start = CAST(? AS BIGINT)`),
    changeUse: database.prepare(
      'UPDATE budget_use SET held = ?1, spent = ?2 WHERE budget = ?3 AND period_start = CAST(?4 AS BIGINT)',
    ),
    putUse: database.prepare(`
      INSERT INTO budget_use (held, spent, budget, period_start, amount, ceiling)
      VALUES (?1, ?2, ?3, CAST(?4 AS BIGINT), ?5, ?5)`),
    put: database.prepare(`
      INSERT INTO budget (id, of, name, period, zone, amount) VALUES (?, ?, ?, ?, 'UTC', ?)
      ON CONFLICT (of, name, period) DO UPDATE SET amount = excluded.amount RETURNING id`),
    setUse: database.prepare(`
      UPDATE budget_use SET amount = ?1, ceiling = ${ceiling('?1', 'spent + held')} WHERE budget = ?2`),
    remove: database.prepare('DELETE FROM budget WHERE of = ? AND name = ? AND period = ?'),
  }
}
