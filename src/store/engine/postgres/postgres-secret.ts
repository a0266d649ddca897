/** The secret of a store in PostgreSQL: from the configuration, or from a file. */
import { loadSecret } from '../../secret.ts'
import { placeOf } from './postgres-address.ts'
import { openPostgres } from './postgres-database.ts'

/** Like `loadSecret`. Makes no new secret for a database that has a store already. */
export function loadPostgresSecret(configured: string | null, folder: string, url: string): string {
  return loadSecret(configured, folder, placeOf(url), () => hasStore(url))
}

function hasStore(url: string): boolean {
  const database = openPostgres(url, { readOnly: true })
  try {
    return database.prepare("SELECT to_regclass('tollgate_schema') IS NOT NULL AS found").get()?.['found'] === 1
  } finally {
    database.close()
  }
}
