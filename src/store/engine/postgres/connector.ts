/** Opens connections to PostgreSQL instead of SQLite, see `Connector`. The path is the address. */
import type { Connector, Database, DatabaseOptions } from '../database.ts'
import { openPostgres } from './postgres-database.ts'

/** A slower statement counts as failed, so that a request that waits for it fails in time. */
const STATEMENT_MS = 1000
/** Reports and the audit read much. A page that takes longer fails. */
const READ_MS = 60_000

export const POSTGRES_CONNECTOR: Connector = { module: import.meta.url, data: null }

export function openDatabase(url: string, options: DatabaseOptions = {}): Database {
  const { readOnly = false, replica = null, isQuick = false } = options
  if (readOnly) return openPostgres(url, { readOnly, statementMs: isQuick ? STATEMENT_MS : READ_MS })
  return openPostgres(url, { statementMs: STATEMENT_MS, replica })
}
