/** SQL that differs between SQLite and PostgreSQL. Statements that both run are written once, with these words. */
export interface Dialect {
  readonly engine: 'sqlite' | 'postgres'
  /** Begins a write transaction. */
  readonly begin: string
  /** Begins a transaction that reads one state of the database. */
  readonly snapshot: string
  /** LIKE that ignores the case of a to z. */
  readonly like: string
  /** A table without its child tables. */
  only(table: string): string
  /** A sum that cannot overflow. */
  readonly total: string
  /** Orders a text without the case of a to z. The index on it has the same words. */
  folded(text: string): string
  /** Whether a text is in a JSON array. */
  isListed(text: string, json: string): string
  /** Whether a text is JSON or null. */
  isJson(text: string): string
}

export const SQLITE: Dialect = {
  engine: 'sqlite',
  begin: 'BEGIN IMMEDIATE',
  snapshot: 'BEGIN',
  like: 'LIKE',
  total: 'total',
  only: table => table,
  folded: text => `${text} COLLATE NOCASE`,
  isListed: (text, json) => `${text} IN (SELECT value FROM json_each(${json}))`,
  isJson: text => `coalesce(json_valid(${text}), 1)`,
}
