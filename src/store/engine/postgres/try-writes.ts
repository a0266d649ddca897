/** Tries that count for all replicas together: one row for each subject of a limit, with the state of its rule (tries.ts). */
import type { Clock } from '#contract'
import { type CountedTry, countTry, endOf, type TryState, takeBack } from '../../people/tries.ts'
import type { Database } from '../database.ts'
import type { SharedResult, TryRow } from '../replicas.ts'

export interface TryOperations {
  /** Counts all tries or none. After a COMMIT with an unknown result they may count twice, which only makes a person wait longer. */
  countTries(tries: readonly TryRow[]): SharedResult
  takeTriesBack(taken: { readonly tries: readonly TryRow[]; readonly counted: readonly CountedTry[] }): void
}

/** A single process counts in memory only. */
export const NO_TRIES: TryOperations = { countTries: () => ({ counted: [] }), takeTriesBack() {} }

export function createTryOperations(database: Database, clock: Clock): TryOperations {
  const find = database.prepare('SELECT state FROM try_count WHERE limit_name = ? AND subject = ?')
  const put = database.prepare(`
    INSERT INTO try_count (limit_name, subject, state, until) VALUES (?, ?, ?, ?)
    ON CONFLICT (limit_name, subject) DO UPDATE SET state = excluded.state, until = excluded.until`)
  const remove = database.prepare('DELETE FROM try_count WHERE limit_name = ? AND subject = ?')
  const sweep = database.prepare('DELETE FROM try_count WHERE until < ?')

  /** Reads all in one round trip, because holds wait for it too. */
  function read(tries: readonly TryRow[]): (TryState | null)[] {
    const last = tries.length - 1
    const rows = tries.map(({ name, subject }, index) => {
      if (index < last) return find.laterAll!(name, subject)
      const found = find.all(name, subject)
      return () => found
    })
    return rows.map(found => (found()[0] === undefined ? null : JSON.parse(found()[0]!['state'] as string)))
  }

  /** Deferred to the next statement, which is COMMIT at the latest. */
  function write({ name, rule, subject }: TryRow, state: TryState | null): void {
    if (state === null) remove.later!(name, subject)
    else put.later!(name, subject, JSON.stringify(state), endOf(rule, state))
  }

  return {
    countTries(tries) {
      const now = clock.now()
      sweep.later!(now)
      const states = read(tries)
      const results = tries.map((each, index) => countTry(each.rule, states[index]!, now))
      const counted: CountedTry[] = []
      for (const [refusedBy, result] of results.entries()) {
        if ('waitMs' in result) return { ...result, refusedBy }
        counted.push(result.counted)
      }
      for (const [index, result] of results.entries()) if ('state' in result) write(tries[index]!, result.state)
      return { counted }
    },
    takeTriesBack({ tries, counted }) {
      const states = read(tries)
      for (const [index, each] of tries.entries()) write(each, takeBack(each.rule, states[index]!, counted[index]!))
    },
  }
}
