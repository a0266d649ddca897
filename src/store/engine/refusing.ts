/**
 * Undoes a refused operation alone, within the transaction of its group. Otherwise one refused operation would make each other operation
 * of the group wait for a commit of its own.
 */

import { RefusedOperation } from '../error.ts'
import { type Database, isStorageFailure, type Statement } from './database.ts'

/**
 * Wraps `perform` so that it returns a `RefusedOperation` after a mistake of its caller. Failures of the storage are still thrown.
 * @param plain names of operations that change nothing when they refuse
 * @param before writes the rows that `plain` operations changed in memory. Then other operations see them, and undoing one does not
 * undo them.
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
      return new RefusedOperation(error)
    }
  }

  return operation => (plain.has(operation.name) ? perform(operation) : performAlone(operation))
}

/** Deferred to the next statement if a round trip would cost time. */
function soon(statement: Statement): void {
  if (statement.later) statement.later()
  else statement.run()
}
