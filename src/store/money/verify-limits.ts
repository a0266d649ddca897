/** The audit of limits (I12): what keys and budgets should have spent and hold, by the exchanges, beside their rows. */
import type { NanoUsd } from '#contract'
import type { Database, Row } from '../engine/database.ts'
import { type Period, startOfPeriod } from './budgets.ts'

/** The hold of an exchange. */
interface Hold {
  readonly amount: NanoUsd
  readonly at: bigint
  readonly key: string | null
  readonly budgets: string | null
}

interface Sums {
  requests: bigint
  open: NanoUsd
  charges: NanoUsd
}

type Report = (invariant: string, subject: string, message: string) => void

export class LimitsAudit {
  readonly #periods: ReadonlyMap<string, Period>
  readonly #keys = new Map<string, Sums>()
  /** By budget and begin of the period. */
  readonly #budgets = new Map<string, Sums>()

  constructor(database: Database) {
    const rows = database.prepare('SELECT id, period FROM budget').all()
    this.#periods = new Map(rows.map(row => [row['id'] as string, row['period'] as Period]))
  }

  held(hold: Hold): void {
    for (const sums of this.#sumsOf(hold)) sums.requests++
  }

  isOpen(hold: Hold): void {
    for (const sums of this.#sumsOf(hold)) sums.open += hold.amount
  }

  charged(hold: Hold, amount: NanoUsd): void {
    for (const sums of this.#sumsOf(hold)) sums.charges += amount
  }

  check(database: Database, found: Report): void {
    const keys = database.prepareMoney(
      'SELECT key AS name, cap AS amount, ceiling, held, spent, requests FROM key_total',
    )
    for (const row of keys.iterate()) {
      const name = row['name'] as string
      const { requests } = checkRow(name, row, this.#keys, found)
      if (row['requests'] !== requests) {
        found('I12', name, `It counts ${row['requests']} requests; its holds are ${requests}.`)
      }
    }
    const uses = database.prepareMoney(`
      SELECT budget, period_start, budget_use.amount, budget.amount AS set_amount, ceiling, held, spent
      FROM budget_use JOIN budget ON budget.id = budget_use.budget`)
    for (const row of uses.iterate()) {
      const name = `${row['budget']} ${row['period_start']}`
      checkRow(name, row, this.#budgets, found)
      if (row['amount'] !== row['set_amount']) {
        found('I12', name, `It may reach ${row['amount']}; its budget is ${row['set_amount']}.`)
      }
    }
    for (const [name, { requests }] of [...this.#keys, ...this.#budgets]) {
      if (requests > 0n) found('I12', name, `It has ${requests} exchanges, and their total is missing.`)
    }
  }

  #sumsOf({ key, budgets, at }: Hold): Sums[] {
    const found = key === null ? [] : [sumsOf(this.#keys, key)]
    // Most holds have none, and this runs for each that there ever was.
    if (budgets === null) return found
    for (const id of budgets.split(' ')) {
      const period = this.#periods.get(id)
      // A budget that was removed takes its rows with it.
      if (period !== undefined) found.push(sumsOf(this.#budgets, `${id} ${startOfPeriod(period, Number(at))}`))
    }
    return found
  }
}

/** Returns what the row should say, and takes it off the list. */
function checkRow(name: string, row: Row, sums: Map<string, Sums>, found: Report): Sums {
  const [held, spent, amount] = [row['held'] as bigint, row['spent'] as bigint, row['amount'] as bigint | null]
  const expected = sums.get(name) ?? { requests: 0n, open: 0n, charges: 0n }
  sums.delete(name)
  if (held !== expected.open) found('I12', name, `It holds ${held}; its open holds are ${expected.open}.`)
  if (spent !== expected.charges) found('I12', name, `It has spent ${spent}; its charges are ${expected.charges}.`)
  // The ceiling is the limit, or what was spent and held when a lower one was set.
  const most = row['ceiling'] as bigint | null
  if (amount !== null && (most === null || spent + held > most)) {
    found('I12', name, `It has spent ${spent} and holds ${held}, beyond the ${most ?? amount} that it may.`)
  }
  return expected
}

function sumsOf(sums: Map<string, Sums>, name: string): Sums {
  let found = sums.get(name)
  if (found === undefined) sums.set(name, (found = { requests: 0n, open: 0n, charges: 0n }))
  return found
}
