/** Connections of processes that can die: of one that is dead every statement fails, and nothing of it reaches the server any more. */
import type { Connector, Database, DatabaseOptions, Statement } from '../../src/store/database.ts'
import { PostgresError } from '../../src/store/postgres/blocking-io.ts'
import { openDatabase as open } from '../../src/store/postgres/connector.ts'

const dead = new Set<number>()
const connections = new Map<number, Database[]>()

/** @param life a number of its own for each process */
export const mortalConnector = (life: number): Connector => ({ module: import.meta.url, data: life })

/** The server sees what a dead process's server sees: its connections are closed. */
export function die(life: number): void {
  dead.add(life)
  for (const each of connections.get(life) ?? []) each.close()
}

/** What the store calls in place of its own, see `Connector`. */
export function openDatabase(url: string, options: DatabaseOptions | undefined, life: number): Database {
  live(life)
  const database = open(url, options)
  connections.set(life, [...(connections.get(life) ?? []), database])
  const prepare = (made: Statement): Statement => ({
    run: (...values) => live(life, () => made.run(...values)),
    get: (...values) => live(life, () => made.get(...values)),
    all: (...values) => live(life, () => made.all(...values)),
    iterate: (...values) => live(life, () => made.iterate(...values)),
    later: (...values) => live(life, () => made.later!(...values)),
    laterAll: (...values) => live(life, () => made.laterAll!(...values)),
  })
  return {
    ...database,
    exec: sql => live(life, () => database.exec(sql)),
    prepare: sql => prepare(database.prepare(sql)),
    prepareMoney: sql => prepare(database.prepareMoney(sql)),
    inTransaction: () => !dead.has(life) && database.inTransaction(),
    close: () => {
      if (!dead.has(life)) database.close()
    },
  }
}

function live<Result>(life: number, work: () => Result = () => undefined as Result): Result {
  if (!dead.has(life)) return work()
  throw new PostgresError({ message: 'this process is dead', code: null, lost: true, late: false }, false)
}
