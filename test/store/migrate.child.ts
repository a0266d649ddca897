/** A process that brings a database in PostgreSQL up to date: `node migrate.child.ts URL FOLDER`. */
import { migratePostgres, openPostgres } from '../../src/store/postgres/index.ts'

const [url, folder] = process.argv.slice(2) as [string, string]
const database = openPostgres(url)
migratePostgres(database, { folder })
database.close()
