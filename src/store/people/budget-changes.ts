/** Changes the budgets of accounts and keys. The row of an account or a key has a list with one budget for each length of a period. */
import { EVERY, mistakeInBudget } from '#contract'
import type { Database } from '../engine/database.ts'
import { invalid, notFound } from '../mistakes.ts'
import { checkMoney, checkText } from '../money/preconditions.ts'
import type { BudgetChange } from '../store.ts'
import { createAccountFinder } from './accounts.ts'
import { readBudgets, writeBudgets } from './budgets-column.ts'

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
      if (row === undefined)
        throw notFound(`The key ${JSON.stringify(id)} does not exist. Take its id from a list of keys.`)
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

/** Throws a `StoreError` that names the mistake. */
export function checkBudget({ every, budget }: BudgetChange): void {
  if (!EVERY.includes(every))
    throw invalid(`budget: every is ${JSON.stringify(every)}; expected one of ${EVERY.join(', ')}.`)
  if (budget === null) return
  const { amount, then } = budget
  checkMoney('budget', 'amount', amount)
  if (then !== undefined) checkText('budget', 'model in then', then)
  const mistake = mistakeInBudget(budget)
  if (mistake === null) return
  const { field, value, rule } = mistake
  throw invalid(`budget: ${field} is ${JSON.stringify(value)}; it ${rule}.`)
}
