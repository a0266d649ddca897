/** Opens connections to PostgreSQL where SQLite's are opened otherwise, see `Connector`: the path is the address. */
import type { Connector, Database, DatabaseOptions } from '../database.ts'
import { openPostgres } from './postgres-database.ts'

/** A statement that takes longer is as good as none: a request that waits for it is told so in time. */
const STATEMENT_MS = 1000
/** Reports and the audit read much; a page that takes longer than this is given up. */
const READ_MS = 60_000

export const POSTGRES_CONNECTOR: Connector = { module: import.meta.url, data: null }

export function openDatabase(url: string, options: DatabaseOptions = {}): Database {
  const { readOnly = false, replica = null, isQuick = false } = options
  if (readOnly) return openPostgres(url, { readOnly, statementMs: isQuick ? STATEMENT_MS : READ_MS })
  return openPostgres(url, { statementMs: STATEMENT_MS, replica })
}
