/**
 * One operation among those that share its transaction: one that is refused is undone alone. Without that, one client
 * whose operations are refused would make each of their neighbours wait for a commit of its own.
 */

import { Refused } from '../error.ts'
import { type Database, isStorageFailure, type Statement } from './database.ts'

/**
 * Wraps `perform`, so that it answers `Refused` after a mistake of its caller. What the storage fails to do is still thrown.
 * @param plain by name: those that leave nothing behind when they refuse
 * @param before writes what these have left in memory, so that every other one sees it, and undoes none of it
 */
export function createRefusing<Operation extends { readonly name: string }>(
  database: Database,
  perform: (operation: Operation) => unknown,
  plain: ReadonlySet<string>,
  before: () => void,
): (operation: Operation) => unknown {
  const begin = database.prepare('SAVEPOINT operation')
  const undo = database.prepare('ROLLBACK TO SAVEPOINT operation')
  const end = database.prepare('RELEASE SAVEPOINT operation')

  function performAlone(operation: Operation): unknown {
    before()
    soon(begin)
    const result = performOrUndo(operation)
    soon(end)
    return result
  }

  function performOrUndo(operation: Operation): unknown {
    try {
      return perform(operation)
    } catch (error) {
      if (isStorageFailure(error)) throw error
      undo.run()
      return new Refused(error)
    }
  }

  return operation => (plain.has(operation.name) ? perform(operation) : performAlone(operation))
}

/** With the next statement, where a way to the server would cost time. */
function soon(statement: Statement): void {
  if (statement.later) statement.later()
  else statement.run()
}
