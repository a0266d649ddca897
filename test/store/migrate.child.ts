/**
 * A process that migrates a database in PostgreSQL: `node migrate.child.ts URL FOLDER`. Without FOLDER, the process checks whether a
 * gateway could start with the database.
 */
import { checkPostgres, migratePostgres, openPostgres } from '../../src/store/engine/postgres/index.ts'

const [url, folder] = process.argv.slice(2) as [string, string?]
if (folder === undefined) checkPostgres(url)
else {
  const database = openPostgres(url)
  migratePostgres(database, { folder })
  database.close()
}
