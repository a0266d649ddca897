/** A connection whose transactions can be made to fail, to be slow, or to end their process. */
import type { Database, Statement } from '../../src/store/engine/database.ts'

/** Each receives the function that it wraps. */
export interface TransactionHooks {
  begin<Result>(run: () => Result): Result
  commit<Result>(run: () => Result): Result
}

export function hookTransactions(database: Database, { begin, commit }: TransactionHooks): Database {
  return {
    ...database,
    prepare(sql) {
      const statement = database.prepare(sql)
      if (sql.startsWith(database.dialect.begin)) return { ...statement, run: () => begin(() => statement.run()) }
      if (sql === 'COMMIT') return { ...statement, run: () => commit(() => statement.run()) }
      return statement
    },
  }
}

/** A statement whose calls go through `call`. */
export function hookStatement(statement: Statement, call: <Result>(run: () => Result) => Result): Statement {
  const { later, laterAll } = statement
  return {
    run: (...values) => call(() => statement.run(...values)),
    get: (...values) => call(() => statement.get(...values)),
    all: (...values) => call(() => statement.all(...values)),
    iterate: (...values) => call(() => statement.iterate(...values)),
    ...(later && { later: (...values) => call(() => later(...values)) }),
    ...(laterAll && { laterAll: (...values) => call(() => laterAll(...values)) }),
  }
}
