/**
 * Rows of one table that the writer changes in memory and writes once before COMMIT. A group of holds and settles thus writes an
 * account's row once. Rows stay in memory between transactions until something else may have changed them.
 */
import type { Database } from '../engine/database.ts'

/** About two megabytes. */
const MOST_ROWS = 10_000

export interface RowAccess<Row> {
  read(name: string): Row | undefined
  write(name: string, row: Row): void
}

export class GroupRows<Row extends object> {
  readonly #access: RowAccess<Row>
  readonly #rows = new Map<string, Row>()
  readonly #changed = new Map<string, Row>()

  constructor(access: RowAccess<Row>) {
    this.#access = access
  }

  /** The row as the transaction has it; undefined: the table has none. */
  find(name: string): Row | undefined {
    let row = this.#rows.get(name)
    if (row === undefined) {
      row = this.#access.read(name)
      if (row !== undefined) this.#rows.set(name, row)
    }
    return row
  }

  /** Records a changed or a new row. */
  change(name: string, row: Row): void {
    this.#rows.set(name, row)
    this.#changed.set(name, row)
  }

  /** Writes the changed rows: before COMMIT, and before anything else reads or writes the table. */
  flush(): void {
    for (const [name, row] of this.#changed) this.#access.write(name, row)
    this.#changed.clear()
    if (this.#rows.size > MOST_ROWS) this.#rows.clear()
  }

  /** Drops all rows: something else may have changed the table, or the writes were undone. */
  forget(): void {
    this.#rows.clear()
    this.#changed.clear()
  }
}

type Table = Pick<GroupRows<object>, 'flush' | 'forget'>

export interface KnownTables extends Table {
  /** Call it first in a transaction. */
  begin(): void
  /** Call it before an operation that may read and change the tables itself. */
  handOver(): void
}

/** The tables whose rows the writer keeps in memory. In PostgreSQL none are kept: `write_group` reads and writes them. */
export function createKnownTables(database: Database, tables: readonly Table[]): KnownTables {
  const isShared = database.dialect.engine === 'postgres'
  // `data_version` changes when another connection has committed.
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
      const before = version
      version = isShared ? undefined : findVersion.get()!['data_version']
      if (version !== before) forget()
    },
    handOver() {
      flush()
      forget()
    },
    flush,
    forget,
  }
}
