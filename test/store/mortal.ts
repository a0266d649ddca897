/**
 * Connections of processes that can die. Every statement of a dead process fails, and none reaches the server. A process may also lose
 * the server for a while, or not receive the answer of a COMMIT.
 */
import type { Connector, Database, DatabaseOptions, Statement } from '../../src/store/engine/database.ts'
import { PostgresError } from '../../src/store/engine/postgres/blocking-io.ts'
import { openDatabase as open } from '../../src/store/engine/postgres/connector.ts'
import { hookStatement } from '../helpers/transactions.ts'

const dead = new Set<number>()
const lost = new Set<number>()
/** `before`: the next COMMIT is not executed. `after`: it is executed, but its answer is lost. Null: it succeeds. */
type CommitFault = () => 'before' | 'after' | null
const faults = new Map<number, CommitFault>()
const connections = new Map<number, Database[]>()

/** @param life the number of the process */
export const mortalConnector = (life: number): Connector => ({ module: import.meta.url, data: life })

/** Ends the process: the server sees that its connections are closed. */
export function die(life: number): void {
  dead.add(life)
  for (const each of connections.get(life) ?? []) each.close()
}

/** Separates the process from the server until `reconnect`. The caller also ends its connections, which loses their transactions. */
export const disconnect = (life: number): void => void lost.add(life)
export const reconnect = (life: number): void => void lost.delete(life)

/** Makes COMMITs of the process report a lost connection, some of them after they were executed. */
export const breakCommits = (life: number, fault: CommitFault): void => void faults.set(life, fault)
export const mendCommits = (life: number): void => void faults.delete(life)

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
      const fault = faults.get(life)?.() ?? null
      if (fault !== 'before') {
        const done = made.run(...values)
        if (fault === null) return done
      }
      throw lostConnection(`the answer was lost (${fault})`)
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
