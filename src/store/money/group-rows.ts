/**
 * Rows of one table that the writer has read: it changes them in memory, and writes each once in a transaction. So a group of holds
 * and settles changes the row of an account once, however many they are. Rows stay known from one transaction to the next, until
 * something else may have changed them.
 */
import type { Database } from '../engine/database.ts'

/** Some two megabytes. */
const MOST_KNOWN = 10_000

export interface RowAccess<Row> {
  read(name: string): Row | undefined
  write(name: string, row: Row): void
}

export class GroupRows<Row extends object> {
  readonly #access: RowAccess<Row>
  readonly #known = new Map<string, Row>()
  readonly #changed = new Map<string, Row>()

  constructor(access: RowAccess<Row>) {
    this.#access = access
  }

  /** As the transaction has it; undefined: the table lacks it. */
  find(name: string): Row | undefined {
    let row = this.#known.get(name)
    if (row === undefined) {
      row = this.#access.read(name)
      if (row !== undefined) this.#known.set(name, row)
    }
    return row
  }

  /** The row has changed, or is a new one. */
  change(name: string, row: Row): void {
    this.#known.set(name, row)
    this.#changed.set(name, row)
  }

  /** Before COMMIT, and before anything else reads or writes the table. */
  flush(): void {
    for (const [name, row] of this.#changed) this.#access.write(name, row)
    this.#changed.clear()
    if (this.#known.size > MOST_KNOWN) this.#known.clear()
  }

  /** Something else may have changed the table, or what was written here was undone. */
  forget(): void {
    this.#known.clear()
    this.#changed.clear()
  }
}

type Table = Pick<GroupRows<object>, 'flush' | 'forget'>

export interface KnownTables extends Table {
  /** As the first thing in a transaction. */
  begin(): void
  /** To an operation that may read and change the tables itself. */
  handOver(): void
}

/** The tables whose rows the writer keeps in memory. In PostgreSQL it keeps none. */
export function createKnownTables(database: Database, tables: readonly Table[]): KnownTables {
  const isShared = database.dialect.engine === 'postgres'
  // Another one when another connection has written.
  const findVersion = database.prepare('PRAGMA data_version')
  let version: unknown

  function flush(): void {
    for (const table of tables) table.flush()
  }

  function forget(): void {
    for (const table of tables) table.forget()
  }

  return {
    begin() {
      const seen = version
      version = isShared ? undefined : findVersion.get()!['data_version']
      if (version !== seen) forget()
    },
    handOver() {
      flush()
      forget()
    },
    flush,
    forget,
  }
}
