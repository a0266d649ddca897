/** The budgets that accounts and keys have themselves, each a list in the row of its owner. One for each length of a period. */
import { type Budget, EVERY, type Every, isZone } from '#contract'
import type { Database } from '../engine/database.ts'
import { invalid, notFound } from '../mistakes.ts'
import { money, text } from '../money/preconditions.ts'
import type { BudgetChange } from '../store.ts'
import { createAccountFinder } from './accounts.ts'

const MARK = /^([1-9]\d?|100)%$/

export interface BudgetOperations {
  setBudget(change: BudgetChange): void
}

export function createBudgetOperations(database: Database): BudgetOperations {
  const idOf = createAccountFinder(database)
  const statements = {
    account: prepare(database, 'account'),
    key: prepare(database, 'key'),
  }
  return {
    setBudget({ of, name, every, budget }) {
      const id = of === 'account' ? idOf(name) : name
      const { find, put } = statements[of]
      const row = find.get(id)
      if (row === undefined) throw notFound(`There is no key ${JSON.stringify(id)}. A list of keys shows their ids.`)
      const others = readBudgets(row['budgets'], of)?.filter(other => other.every !== every) ?? []
      const all = budget === null ? others : [...others, { ...budget, per: of, every }]
      all.sort((a, b) => EVERY.indexOf(a.every) - EVERY.indexOf(b.every))
      put.run(all.length === 0 ? null : writeBudgets(all), id)
    },
  }
}

function prepare(database: Database, table: 'account' | 'key') {
  return {
    find: database.prepare(`SELECT budgets FROM ${table} WHERE id = ?`),
    put: database.prepare(`UPDATE ${table} SET budgets = ? WHERE id = ?`),
  }
}

function writeBudgets(budgets: readonly Budget[]): string {
  return JSON.stringify(budgets.map(({ per: _, ...budget }) => ({ ...budget, amount: String(budget.amount) })))
}

/**
 * The column `budgets` of an account or a key.
 * @returns undefined for none
 */
export function readBudgets(column: unknown, per: 'account' | 'key'): readonly Budget[] | undefined {
  if (column == null) return undefined
  const all = JSON.parse(column as string) as readonly (Omit<Budget, 'amount' | 'per'> & { readonly amount: string })[]
  return all.map(budget => ({ ...budget, per, amount: BigInt(budget.amount) }))
}

/** Throws a `StoreError` that names what is wrong. */
export function checkBudget({ every, budget }: BudgetChange): void {
  if (!EVERY.includes(every)) throw invalid(`budget: every ${JSON.stringify(every)} is none of ${EVERY.join(', ')}.`)
  if (budget === null) return
  const { amount, zone, at = [], then } = budget
  money('budget', 'amount', amount)
  if (then !== undefined) text('budget', 'model in then', then)
  if (zone !== undefined && !isZone(zone)) {
    throw invalid(`budget: ${JSON.stringify(zone)} is no time zone such as Europe/Berlin or UTC.`)
  }
  for (const mark of at) {
    if (MARK.test(mark)) continue
    throw invalid(`budget: the mark ${JSON.stringify(mark)} is not a percentage from 1% to 100%.`)
  }
  if (new Set(at).size < at.length) throw invalid('budget: a mark is there twice.')
}

/** A period that a person has written. */
export const isEvery = (text: string): text is Every => (EVERY as readonly string[]).includes(text)
