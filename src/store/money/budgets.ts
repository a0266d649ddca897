/**
 * Limits on money besides the balance: the cap of a key, and the budgets of a hold. A hold reserves in all of them, in its own
 * transaction; its settle gives the rest back. The event of a hold keeps its budgets with their periods, so later changes do not affect
 * its reservation.
 *
 * The cap of a key is in the table `key_total`, which replicas of earlier versions write too, and counts for the key's life. A key
 * without a row has made no request and has no cap. In PostgreSQL the function `write_group` does the same.
 */
import type { HoldBudget, NanoUsd, ShortHold } from '#contract'
import type { Database } from '../engine/database.ts'
import { GroupRows } from './group-rows.ts'
import { budgetsOf, HOLD_INDEX, type HoldRecord, LARGEST } from './ledger-fields.ts'

/** The limits in which a hold has reserved, besides the balance of its account. */
export interface Reservation {
  readonly account: string
  readonly key: string
  /** Written by `budgetsText`; null: none. */
  readonly budgets: string | null
}

export interface BudgetRows {
  /** The first limit without room for a hold; null: all have room. */
  shortOf(hold: HoldRecord): ShortHold | null
  /**
   * Writes the alert for the budget that refused a hold, if the budget would have refused it even without other open holds. Never for a
   * budget less than 80% spent.
   */
  refused(hold: HoldRecord, short: ShortHold, nowMs: number): void
  /** Reserves in all limits of the hold. */
  reserve(hold: HoldRecord, nowMs: number): void
  /** @param charged below 0 for a refund */
  settle(reserved: Reservation, held: NanoUsd, charged: NanoUsd, nowMs: number): void
  /** The smallest remaining amount, at least 0; null without a limit. */
  free(reserved: Reservation): NanoUsd | null
  /** Writes the changed rows: before COMMIT, and before anything else uses the tables. */
  flush(): void
  /** Drops the rows in memory: something else may have changed them, or a change was undone. */
  forget(): void
}

/** The held and spent amounts of a limit, as the transaction has them. */
interface BudgetAmounts {
  held: NanoUsd
  spent: NanoUsd
}

interface UsedOfKey extends BudgetAmounts {
  readonly amount: NanoUsd | null
  requests: bigint
  lastUsedAt: bigint | number | null
}

interface UsedOfBudget extends BudgetAmounts {
  /** The limit of the last hold that had room. */
  amount: NanoUsd
  readonly end: bigint | number | null
  /** The highest mark with an alert, in percent. */
  marked: number | bigint
}

export function createBudgetRows(database: Database): BudgetRows {
  const statements = prepare(database)
  const { keys, uses } = createRows(statements)

  const keyOf = (key: string): UsedOfKey =>
    keys.find(key) ?? { amount: null, held: 0n, spent: 0n, requests: 0n, lastUsedAt: null }

  const mark = createMarker(statements, uses)

  return {
    shortOf(hold) {
      const [account, more] = [hold[HOLD_INDEX.accountId], hold[HOLD_INDEX.amount]]
      const used = keyOf(hold[HOLD_INDEX.keyId])
      if (used.amount !== null && used.spent + used.held + more > used.amount) {
        return { held: false, reason: 'short', of: 'key', available: restOf(used.amount, used), onHold: used.held }
      }
      const budgets = budgetsOf(hold[HOLD_INDEX.budgets])
      for (const [index, budget] of budgets.entries()) {
        const { spent, held } = uses.find(nameOf(account, budget)) ?? NOTHING
        if (spent + held + more <= budget.amount) continue
        const available = budget.amount - spent - held
        return { held: false, reason: 'short', of: 'budget', budget: index, available, onHold: held }
      }
      return null
    },
    refused(hold, short, nowMs) {
      if (short.of !== 'budget') return
      const [account, more] = [hold[HOLD_INDEX.accountId], hold[HOLD_INDEX.amount]]
      const budget = budgetsOf(hold[HOLD_INDEX.budgets])[short.budget!]!
      const use = uses.find(nameOf(account, budget))
      // Below `MOSTLY_SPENT`, the hold is large rather than the budget used up, so no alert is written.
      if (use === undefined || use.spent + more <= budget.amount) return
      if (use.spent * 100n >= budget.amount * MOSTLY_SPENT) mark(account, budget, use, { above: 99, upto: 100 }, nowMs)
    },
    reserve(hold, nowMs) {
      const [account, key, more] = [hold[HOLD_INDEX.accountId], hold[HOLD_INDEX.keyId], hold[HOLD_INDEX.amount]]
      const used = keyOf(key)
      used.held += more
      used.requests++
      used.lastUsedAt = nowMs
      keys.change(key, used)
      for (const budget of budgetsOf(hold[HOLD_INDEX.budgets])) {
        reserveIn(uses, account, budget, more)
      }
    },
    settle(reserved, held, charged, nowMs) {
      const used = keys.find(reserved.key)
      if (used !== undefined) {
        charge(used, held, charged)
        keys.change(reserved.key, used)
      }
      for (const budget of budgetsOf(reserved.budgets)) {
        const name = nameOf(reserved.account, budget)
        const use = uses.find(name)
        if (use === undefined) continue
        charge(use, held, charged)
        uses.change(name, use)
        // The limit may have changed since the hold.
        const limited = { ...budget, amount: use.amount }
        mark(reserved.account, limited, use, { above: 0, upto: markOf(limited, use.spent) }, nowMs)
      }
    },
    free({ account, key, budgets }) {
      const rests = budgetsOf(budgets).flatMap(budget => {
        const use = uses.find(nameOf(account, budget))
        return use === undefined ? [] : [restOf(use.amount, use)]
      })
      const used = keys.find(key)
      if (used !== undefined && used.amount !== null) rests.push(restOf(used.amount, used))
      if (rests.length === 0) return null
      return rests.reduce((least, rest) => (rest < 0n ? 0n : rest < least ? rest : least), LARGEST)
    },
    flush() {
      keys.flush()
      uses.flush()
    },
    forget() {
      keys.forget()
      uses.forget()
    },
  }
}

const NOTHING = { held: 0n, spent: 0n }
/** In percent. Above it, a hold without room means that the budget is used up. */
const MOSTLY_SPENT = 80n

/** Sets the spending cap of a key, for its life; null: no cap. */
export function createCapSetter(database: Database): (key: string, cap: NanoUsd | null) => void {
  const set = database.prepare(`
    INSERT INTO key_total (key, cap, ceiling) VALUES (?1, ?2, ?2)
    ON CONFLICT (key) DO UPDATE SET cap = excluded.cap,
      ceiling = CASE WHEN excluded.cap < key_total.spent + key_total.held
        THEN key_total.spent + key_total.held ELSE excluded.cap END`)
  return (key, cap) => void set.run(key, cap)
}

function reserveIn(uses: GroupRows<UsedOfBudget>, account: string, budget: HoldBudget, more: NanoUsd): void {
  const { amount, end } = budget
  const name = nameOf(account, budget)
  const use = uses.find(name) ?? { ...NOTHING, amount, end, marked: 0 }
  use.held += more
  if (use.amount !== amount) {
    use.amount = amount
    // After a change of the limit, marks that are no longer reached may cause an alert again.
    const reached = markOf(budget, use.spent)
    if (reached < use.marked) use.marked = reached
  }
  uses.change(name, use)
}

/** Marks in percent: greater than `above`, and at most `upto`. */
interface MarkRange {
  readonly above: number
  readonly upto: number
}

/** Writes an alert for each reached mark that has none in the period. */
function createMarker(statements: ReturnType<typeof prepare>, uses: GroupRows<UsedOfBudget>) {
  return (account: string, budget: HoldBudget, use: UsedOfBudget, { above, upto }: MarkRange, nowMs: number): void => {
    if (upto <= use.marked) return
    const { budget: name, start, end, amount, marks } = budget
    for (const each of marks) {
      if (each <= use.marked || each <= above || each > upto) continue
      const id = ['budget', account, name, start, each, amount].join(' ')
      const data = { budget: name, start, end, amount: String(amount), spent: String(use.spent), mark: each }
      statements.putAlert.run(id, nowMs, account, JSON.stringify(data))
    }
    // `marked` applies to the limit stored in the row. A refused hold may carry a different limit; then leave `marked` unchanged.
    if (use.amount !== amount) return
    use.marked = upto
    uses.change(nameOf(account, budget), use)
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
    uses: new GroupRows<UsedOfBudget>({
      read: name => statements.findUse.get(...partsOf(name)) as unknown as UsedOfBudget | undefined,
      write(name, { amount, end, held, spent, marked }) {
        const values = [amount, held, spent, marked, ...partsOf(name)]
        if (statements.changeUse.run(...values).changes === 0) statements.putUse.run(...values, end)
      },
    }),
  }
}

/** `partsOf` can split the name, because an account's id has no space. */
const nameOf = (account: string, { budget, start }: HoldBudget): string => `${account} ${start} ${budget}`

function partsOf(name: string): readonly [account: string, start: number, budget: string] {
  const [account, start] = name.split(' ', 2) as [string, string]
  return [account, Number(start), name.slice(account.length + start.length + 2)]
}

function charge(used: BudgetAmounts, held: NanoUsd, charged: NanoUsd): void {
  used.held -= held
  const spent = used.spent + charged
  used.spent = spent < LARGEST ? spent : LARGEST
}

const restOf = (amount: NanoUsd, { spent, held }: BudgetAmounts): NanoUsd => amount - spent - held

/** The highest mark that an amount has reached; 0: none. */
function markOf({ amount, marks }: Pick<HoldBudget, 'amount' | 'marks'>, spent: NanoUsd): number {
  let reached = 0
  for (const mark of marks) if (amount > 0n && spent * 100n >= amount * BigInt(mark) && mark > reached) reached = mark
  return reached
}

function prepare(database: Database) {
  return {
    findKey: database.prepareMoney(`
      SELECT cap AS amount, held, spent, requests, last_used_at AS "lastUsedAt" FROM key_total WHERE key = ?`),
    changeKey: database.prepare(
      'UPDATE key_total SET held = ?1, spent = ?2, requests = ?3, last_used_at = ?4 WHERE key = ?5',
    ),
    putKey: database.prepare('INSERT INTO key_total (held, spent, requests, last_used_at, key) VALUES (?, ?, ?, ?, ?)'),
    findUse: database.prepareMoney(`
      SELECT amount, period_end AS "end", held, spent, marked FROM budget_period
      WHERE account = ? AND period_start = CAST(? AS BIGINT) AND budget = ?`),
    changeUse: database.prepare(`
      UPDATE budget_period SET amount = ?1, held = ?2, spent = ?3, marked = ?4
      WHERE account = ?5 AND period_start = CAST(?6 AS BIGINT) AND budget = ?7`),
    putUse: database.prepare(`
      INSERT INTO budget_period (amount, held, spent, marked, account, period_start, budget, period_end)
      VALUES (?1, ?2, ?3, ?4, ?5, CAST(?6 AS BIGINT), ?7, CAST(?8 AS BIGINT))`),
    putAlert: database.prepare(`
      INSERT INTO alert (id, kind, at, account, data) VALUES (?, 'budget', ?, ?, ?) ON CONFLICT (id) DO NOTHING`),
  }
}
