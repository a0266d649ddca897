/** Where SQLite and PostgreSQL need other words for the same: all statements of the store are written once, with these. */
export interface Dialect {
  readonly engine: 'sqlite' | 'postgres'
  /** Begins a transaction that writes. */
  readonly begin: string
  /** Begins one that reads one state of the database. */
  readonly snapshot: string
  /** LIKE for which `a` is `A`; of other letters it knows nothing. */
  readonly like: string
  /** A table without its children. */
  only(table: string): string
  /** A sum that is never too large. */
  readonly total: string
  /** A text as it is ordered where `a` is `A`; the index on it says the same. */
  folded(text: string): string
  /** Whether a text is one of a JSON array. */
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
