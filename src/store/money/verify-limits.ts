/** The audit of limits (I12): what keys and budgets should have spent and hold, by the exchanges, beside their rows. */
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
  /** By account, begin of the period and budget. */
  readonly #budgets = new Map<string, Sums>()

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
      SELECT account, period_start, budget, amount, amount AS ceiling, held, spent FROM budget_period`)
    for (const row of uses.iterate()) {
      checkRow(`${row['account']} ${row['period_start']} ${row['budget']}`, row, this.#budgets, found)
    }
    for (const [name, { requests }] of [...this.#keys, ...this.#budgets]) {
      if (requests > 0n) found('I12', name, `It has ${requests} exchanges, and their total is missing.`)
    }
  }

  #sumsOf({ account, key, budgets }: Hold): Sums[] {
    const found = key === null ? [] : [sumsOf(this.#keys, key)]
    // Most holds have none, and this runs for each that there ever was.
    if (budgets === null) return found
    for (const { budget, start } of budgetsOf(budgets)) {
      found.push(sumsOf(this.#budgets, `${account} ${start} ${budget}`))
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
