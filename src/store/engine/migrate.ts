/**
 * Migrations: numbered SQL files, each applied once, in a transaction that also records its number (`PRAGMA user_version`). A crash
 * thus leaves either the old schema or the new one.
 */
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { StoreError } from '../error.ts'
import { foldEmail } from '../people/email.ts'
import { type Database, transaction } from './database.ts'

/** Identifies our files (`PRAGMA application_id`): the letters TOLL. */
const APPLICATION = 0x544f4c4c

const FOLDER = join(import.meta.dirname, 'migrations')

/** Steps that SQL cannot express. Each runs after the file of its name, in the same transaction. */
const STEPS: Readonly<Record<string, (database: Database) => void>> = {
  '006-emails.sql': foldEmails,
  '011-money.sql': allowTakenCredit,
}

/** An empty database of the newest schema. Tests open hundreds in memory, and making one takes 1.5 ms. */
let empty: Uint8Array | null = null

/**
 * Applies missing migrations and returns the schema's number. Throws a `StoreError` for a database of a newer version or of another
 * program, and one that names the file if a migration fails.
 *
 * @param canWrite false: only checks that the schema is the newest
 */
export function migrate(database: Database, { canWrite = true, folder = FOLDER } = {}): number {
  const files = migrationFiles(folder)
  const version = readSchema(database, files.length)
  if (version < files.length && !canWrite) throw tooOld(version, files.length)
  // Marks an empty database as ours.
  if (version === 0) database.exec(`PRAGMA application_id = ${APPLICATION}`)
  const copies = version === 0 && folder === FOLDER ? database.copies : null
  if (copies && empty) {
    copies.put(empty)
    return files.length
  }
  for (const [index, file] of files.entries()) {
    if (index < version) continue
    const sql = readFileSync(join(folder, file), 'utf8')
    try {
      transaction(database, () => {
        database.exec(sql)
        STEPS[file]?.(database)
        database.exec(`PRAGMA user_version = ${index + 1}`)
      })
    } catch (error) {
      throw new StoreError(`Migration ${file} failed and was rolled back: ${(error as Error).message}.`, {
        cause: error,
      })
    }
  }
  if (copies) empty = copies.take()
  return files.length
}

/** Whether a store has the newest schema, or an older one that can be migrated. Throws a `StoreError` for any other database. */
export function findSchema(database: Database): { readonly schema: number; readonly isNewest: boolean } {
  const newest = migrationFiles(FOLDER).length
  const schema = readSchema(database, newest)
  if (schema === 0) throw tooOld(schema, newest)
  return { schema, isNewest: schema === newest }
}

function readSchema(database: Database, newest: number): number {
  const version = pragma(database, 'user_version')
  if (version > newest) {
    throw new StoreError(
      `This store has schema ${version}, and this Tollgate knows schemas up to ${newest}. Run the newer version that wrote it.`,
    )
  }
  if (version === 0) refuseForeign(database)
  return version
}

export function tooOld(version: number, newest: number): StoreError {
  return new StoreError(
    `This store has schema ${version}, and this Tollgate has schema ${newest}. Start the gateway once: it brings the store up to date.`,
  )
}

/** The files in order. Their numbers must be 1, 2, 3 and so on, or a database could skip one. */
export function migrationFiles(folder: string): string[] {
  const files = readdirSync(folder)
    .filter(file => file.endsWith('.sql'))
    .sort()
  files.forEach((file, index) => {
    const number = /^(\d{3})-[a-z0-9-]+\.sql$/.exec(file)?.[1]
    if (Number(number) !== index + 1) {
      const expected = String(index + 1).padStart(3, '0')
      throw new StoreError(
        `${join(folder, file)}: migrations are numbered without gaps; expected ${expected}-name.sql.`,
      )
    }
  })
  return files
}

/** Refuses a database with tables of another program. */
function refuseForeign(database: Database): void {
  const tables = Number(database.prepare('SELECT count(*) AS count FROM sqlite_schema').get()?.['count'])
  if (tables > 0) throw new StoreError('This file is the database of another program. Choose another path for `store`.')
}

function pragma(database: Database, name: string): number {
  return Number(database.prepare(`PRAGMA ${name}`).get()?.[name])
}

function foldEmails(database: Database): void {
  const set = database.prepare('UPDATE person SET folded = ? WHERE id = ?')
  for (const { id, email } of database.prepare('SELECT id, email FROM person').all()) {
    set.run(foldEmail(email as string), id as string)
  }
}

/** Widens a CHECK by the steps of SQLite's page on ALTER TABLE. The new schema number makes every connection read the text again. */
function allowTakenCredit(database: Database): void {
  const version = pragma(database, 'schema_version')
  const [old, wider] = ['CHECK (amount >= 0)', 'CHECK (amount >= 0 OR kind = 2)']
  const where = "WHERE type = 'table' AND name = 'event'"
  database.editSchema!(() => {
    database.exec(`UPDATE sqlite_schema SET sql = replace(sql, '${old}', '${wider}') ${where}`)
    database.exec(`PRAGMA schema_version = ${version + 1}`)
  })
  // Throws before the commit if the new text cannot be parsed.
  const found = database.prepare(`SELECT instr(sql, ?) AS place FROM sqlite_schema ${where}`).get(wider)
  if (!found?.['place']) throw new Error(`the table event has no ${old}`)
}
