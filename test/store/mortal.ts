/**
 * Connections of processes that can die. Every statement of a dead process fails, and none reaches the server. A process may also be cut
 * off
 * from the server for a while, or not receive the answer of a COMMIT.
 */
import type { Connector, Database, DatabaseOptions, Statement } from '../../src/store/engine/database.ts'
import { PostgresError } from '../../src/store/engine/postgres/blocking-io.ts'
import { openDatabase as open } from '../../src/store/engine/postgres/connector.ts'
import { hookStatement } from '../helpers/transactions.ts'

const dead = new Set<number>()
const lost = new Set<number>()
/** How the next COMMIT fails: before it is done, or after; null: it succeeds. */
type Flaw = () => 'before' | 'after' | null
const flaws = new Map<number, Flaw>()
const connections = new Map<number, Database[]>()

/** @param life a number of its own for each process */
export const mortalConnector = (life: number): Connector => ({ module: import.meta.url, data: life })

/** The server sees the end of a dead process: its connections are closed. */
export function die(life: number): void {
  dead.add(life)
  for (const each of connections.get(life) ?? []) each.close()
}

/** Cuts it off from the server until `comeBack`. The caller also ends its connections, so that their transactions are lost. */
export const getLost = (life: number): void => void lost.add(life)
export const comeBack = (life: number): void => void lost.delete(life)

/** Its COMMITs report a lost connection, some of them after they are done. */
export const breakCommits = (life: number, flaw: Flaw): void => void flaws.set(life, flaw)
export const mendCommits = (life: number): void => void flaws.delete(life)

/** Replaces the store's own function, see `Connector`. */
export function openDatabase(url: string, options: DatabaseOptions | undefined, life: number): Database {
  live(life)
  const database = open(url, options)
  connections.set(life, [...(connections.get(life) ?? []), database])
  const prepare = (made: Statement): Statement => hookStatement(made, run => live(life, run))
  return {
    ...database,
    exec: sql => live(life, () => database.exec(sql)),
    prepare: sql => (sql === 'COMMIT' ? commit(life, prepare(database.prepare(sql))) : prepare(database.prepare(sql))),
    prepareMoney: sql => prepare(database.prepareMoney(sql)),
    inTransaction: () => !dead.has(life) && !lost.has(life) && database.inTransaction(),
    close: () => {
      if (!dead.has(life)) database.close()
    },
  }
}

function commit(life: number, made: Statement): Statement {
  return {
    ...made,
    run(...values) {
      const flaw = flaws.get(life)?.() ?? null
      if (flaw !== 'before') {
        const done = made.run(...values)
        if (flaw === null) return done
      }
      throw lostConnection(`the answer was lost (${flaw})`)
    },
  }
}

function live<Result>(life: number, work: () => Result = () => undefined as Result): Result {
  if (dead.has(life)) throw lostConnection('this process is dead')
  if (lost.has(life)) throw lostConnection('the server is out of reach')
  return work()
}

const lostConnection = (message: string): PostgresError =>
  new PostgresError({ message, code: null, lost: true, late: false }, false)
