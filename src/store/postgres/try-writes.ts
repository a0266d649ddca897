/** Tries that count at all replicas together: one row for each subject of a limit, whose state is a rule's (tries.ts). */
import type { Clock } from '#contract'
import type { Database } from '../database.ts'
import type { SharedResult, TryRow } from '../replicas.ts'
import { type Counted, countTry, endOf, type TryState, takeBack } from '../tries.ts'

export interface TryOperations {
  /** All of them, or none. Run again after a COMMIT in doubt, they may count twice, which only makes somebody wait. */
  countTries(tries: readonly TryRow[]): SharedResult
  takeTriesBack(taken: { readonly tries: readonly TryRow[]; readonly counted: readonly Counted[] }): void
}

/** One process counts in its memory alone. */
export const NO_TRIES: TryOperations = { countTries: () => ({ counted: [] }), takeTriesBack() {} }

export function createTryOperations(database: Database, clock: Clock): TryOperations {
  const find = database.prepare('SELECT state FROM try_count WHERE limit_name = ? AND subject = ?')
  const put = database.prepare(`
    INSERT INTO try_count (limit_name, subject, state, until) VALUES (?, ?, ?, ?)
    ON CONFLICT (limit_name, subject) DO UPDATE SET state = excluded.state, until = excluded.until`)
  const remove = database.prepare('DELETE FROM try_count WHERE limit_name = ? AND subject = ?')
  const sweep = database.prepare('DELETE FROM try_count WHERE until < ?')

  function read({ name, subject }: TryRow): TryState | null {
    const row = find.get(name, subject)
    return row === undefined ? null : JSON.parse(row['state'] as string)
  }

  function write({ name, rule, subject }: TryRow, state: TryState | null): void {
    if (state === null) remove.run(name, subject)
    else put.run(name, subject, JSON.stringify(state), endOf(rule, state))
  }

  return {
    countTries(tries) {
      const now = clock.now()
      sweep.run(now)
      const results = tries.map(each => countTry(each.rule, read(each), now))
      const counted: Counted[] = []
      for (const [refusedBy, result] of results.entries()) {
        if ('waitMs' in result) return { ...result, refusedBy }
        counted.push(result.counted)
      }
      for (const [index, result] of results.entries()) if ('state' in result) write(tries[index]!, result.state)
      return { counted }
    },
    takeTriesBack({ tries, counted }) {
      for (const [index, each] of tries.entries()) write(each, takeBack(each.rule, read(each), counted[index]!))
    },
  }
}
