/** Audits limits (I12): compares the rows of keys and budgets with the sums of their exchanges. */
import type { NanoUsd } from '#contract'
import type { Database, Row } from '../engine/database.ts'
import { budgetsOf } from './ledger-fields.ts'

/** The hold of an exchange. */
interface Hold {
  readonly account: string
  readonly amount: NanoUsd
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
  readonly #keys = new Map<string, Sums>()
  /** By account, start of the period, and budget. */
  readonly #budgets = new Map<string, Sums>()

  addHold(hold: Hold): void {
    for (const sums of this.#sumsOf(hold)) sums.requests++
  }

  addOpenHold(hold: Hold): void {
    for (const sums of this.#sumsOf(hold)) sums.open += hold.amount
  }

  addCharge(hold: Hold, amount: NanoUsd): void {
    for (const sums of this.#sumsOf(hold)) sums.charges += amount
  }

  check(database: Database, report: Report): void {
    const keys = database.prepareMoney(
      'SELECT key AS name, cap AS amount, ceiling, held, spent, requests FROM key_total',
    )
    for (const row of keys.iterate()) {
      const name = row['name'] as string
      const { requests } = checkRow(name, row, this.#keys, report)
      if (row['requests'] !== requests) {
        report('I12', name, `It counts ${row['requests']} requests; its holds are ${requests}.`)
      }
    }
    const uses = database.prepareMoney(`
      SELECT account, period_start, budget, amount, amount AS ceiling, held, spent FROM budget_period`)
    for (const row of uses.iterate()) {
      checkRow(`${row['account']} ${row['period_start']} ${row['budget']}`, row, this.#budgets, report)
    }
    for (const [name, { requests }] of [...this.#keys, ...this.#budgets]) {
      if (requests > 0n) report('I12', name, `It has ${requests} exchanges but no total.`)
    }
  }

  #sumsOf({ account, key, budgets }: Hold): Sums[] {
    const all = key === null ? [] : [sumsOf(this.#keys, key)]
    // Most holds have no budgets, and this runs for every hold of the ledger.
    if (budgets === null) return all
    for (const { budget, start } of budgetsOf(budgets)) {
      all.push(sumsOf(this.#budgets, `${account} ${start} ${budget}`))
    }
    return all
  }
}

/** Compares a row with its expected sums, removes them from the map and returns them. */
function checkRow(name: string, row: Row, sums: Map<string, Sums>, report: Report): Sums {
  const [held, spent, amount] = [row['held'] as bigint, row['spent'] as bigint, row['amount'] as bigint | null]
  const expected = sums.get(name) ?? { requests: 0n, open: 0n, charges: 0n }
  sums.delete(name)
  if (held !== expected.open) report('I12', name, `It holds ${held}; its open holds are ${expected.open}.`)
  if (spent !== expected.charges) report('I12', name, `It has spent ${spent}; its charges are ${expected.charges}.`)
  // The ceiling is the limit, or the spent and held amount if a lower one was set.
  const most = row['ceiling'] as bigint | null
  if (amount !== null && (most === null || spent + held > most)) {
    report('I12', name, `It has spent ${spent} and holds ${held}; its limit is ${most ?? amount}.`)
  }
  return expected
}

function sumsOf(sums: Map<string, Sums>, name: string): Sums {
  let row = sums.get(name)
  if (row === undefined) sums.set(name, (row = { requests: 0n, open: 0n, charges: 0n }))
  return row
}
