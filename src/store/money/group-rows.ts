/**
 * Rows of one table that a transaction reads once, changes in memory, and writes once. So a group of holds and settles changes the
 * row of an account once, however many they are. Nobody else writes meanwhile: the transaction has the lock of the database.
 */

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

  /** As the transaction has it; undefined: there is none. */
  find(name: string): Row | undefined {
    let row = this.#rows.get(name)
    if (row === undefined) {
      row = this.#access.read(name)
      if (row !== undefined) this.#rows.set(name, row)
    }
    return row
  }

  /** The row has changed, or is a new one. */
  change(name: string, row: Row): void {
    this.#rows.set(name, row)
    this.#changed.set(name, row)
  }

  /** Before COMMIT, and before anything else reads or writes the table. */
  flush(): void {
    for (const [name, row] of this.#changed) this.#access.write(name, row)
    this.forget()
  }

  /** What was changed is not written. */
  forget(): void {
    this.#rows.clear()
    this.#changed.clear()
  }
}
