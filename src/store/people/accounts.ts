/** Accounts: the owners of credit. Rows are read on every lookup; nothing is cached. */
import type { Account, AccountBalance, Clock } from '#contract'
import type { Database, Row } from '../engine/database.ts'
import { conflict, invalid, noAccount } from '../mistakes.ts'
import { checkText } from '../money/preconditions.ts'
import type { NewAccount } from '../store.ts'
import { readBudgets } from './budgets-column.ts'

export const ACCOUNT_PREFIX = 'acc_'
const DEFAULT_PLAN = 'default'

export interface AccountOperations {
  /** The caller makes the id, so that a repeat finds the row. */
  createAccount(account: { readonly id: string; readonly name: string; readonly plan: string }): Account
  freeze(change: { readonly account: string; readonly frozen: boolean }): Account
  setPlan(change: { readonly account: string; readonly plan: string }): Account
}

export interface AccountReader {
  find(idOrName: string): AccountBalance | undefined
  /** Like `find`, but throws a `StoreError` that names the missing account. */
  get(idOrName: string): AccountBalance
  list(): readonly AccountBalance[]
}

/** Columns of an account with its balance, for `toBalance`. */
export const BALANCE_COLUMNS = 'id, name, plan, budgets, frozen, created_at, posted, held'
const SELECT = `SELECT ${BALANCE_COLUMNS} FROM account JOIN balance ON balance.account = account.id`

/** Returns the id for an id or a name; throws a `StoreError` that names the missing account. */
export function createAccountFinder(database: Database): (idOrName: string) => string {
  const find = database.prepare('SELECT id FROM account WHERE id = ?1 OR name = ?1')
  return idOrName => {
    const row = find.get(idOrName)
    if (row === undefined) throw noAccount(JSON.stringify(idOrName))
    return row['id'] as string
  }
}

export function createAccountOperations(database: Database, clock: Clock): AccountOperations {
  const idOf = createAccountFinder(database)
  const findById = database.prepareMoney(`${SELECT} WHERE id = ?`)
  const findByName = database.prepareMoney(`${SELECT} WHERE name = ?`)
  const put = database.prepare('INSERT INTO account (id, name, plan, created_at) VALUES (?, ?, ?, ?)')
  const putBalance = database.prepare('INSERT INTO balance (account) VALUES (?)')
  const freeze = database.prepare('UPDATE balance SET frozen = ? WHERE account = ?')
  const setPlan = database.prepare('UPDATE account SET plan = ? WHERE id = ?')
  return {
    createAccount({ id, name, plan }) {
      const taken = findByName.get(name)
      if (taken !== undefined && taken['id'] !== id)
        throw conflict(`The name "${name}" is taken by another account. Choose another name.`)
      if (taken === undefined) {
        put.run(id, name, plan, clock.now())
        putBalance.run(id)
      }
      return toAccount(findById.get(id)!)
    },
    freeze({ account, frozen }) {
      const id = idOf(account)
      freeze.run(frozen ? 1 : 0, id)
      return toAccount(findById.get(id)!)
    },
    setPlan({ account, plan }) {
      const id = idOf(account)
      setPlan.run(plan, id)
      return toAccount(findById.get(id)!)
    },
  }
}

export function createAccountReader(database: Database): AccountReader {
  const byId = database.prepareMoney(`${SELECT} WHERE id = ?`)
  const byName = database.prepareMoney(`${SELECT} WHERE name = ?`)
  const all = database.prepareMoney(`${SELECT} ORDER BY id`)
  function find(idOrName: string): AccountBalance | undefined {
    const row = (idOrName.startsWith(ACCOUNT_PREFIX) ? byId : byName).get(idOrName)
    return row && toBalance(row)
  }
  return {
    find,
    get(idOrName) {
      const account = find(idOrName)
      if (account === undefined) throw noAccount(JSON.stringify(idOrName))
      return account
    },
    list: () => all.all().map(toBalance),
  }
}

/** Checks a new account's fields. A name must not look like an id: a search could then mean two accounts. */
export function checkAccount({ name, plan = DEFAULT_PLAN }: NewAccount): { name: string; plan: string } {
  checkText('account', 'name', name)
  checkText('account', 'plan', plan)
  if (name.startsWith(ACCOUNT_PREFIX)) {
    throw invalid(`account: the name "${name}" begins with ${ACCOUNT_PREFIX}, which only ids may.`)
  }
  return { name, plan }
}

function toAccount(row: Row): Account {
  const budgets = readBudgets(row['budgets'], 'account')
  return {
    ...(budgets && { budgets }),
    id: row['id'] as string,
    name: row['name'] as string,
    plan: row['plan'] as string,
    frozen: Number(row['frozen']) === 1,
    createdAt: Number(row['created_at']),
  }
}

/** Converts a row that `prepareMoney` has read. */
export function toBalance(row: Row): AccountBalance {
  return { ...toAccount(row), posted: row['posted'] as bigint, held: row['held'] as bigint }
}
