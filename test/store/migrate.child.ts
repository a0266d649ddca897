/**
 * A process that brings a database in PostgreSQL up to date: `node migrate.child.ts URL FOLDER`. Without a folder it looks whether a
 * gateway could start there.
 */
import { checkPostgres, migratePostgres, openPostgres } from '../../src/store/engine/postgres/index.ts'

const [url, folder] = process.argv.slice(2) as [string, string?]
if (folder === undefined) checkPostgres(url)
else {
  const database = openPostgres(url)
  migratePostgres(database, { folder })
  database.close()
}
