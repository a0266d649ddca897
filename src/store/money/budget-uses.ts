/** Reads the spent and held amounts of an account's budgets. */
import type { Database, Row } from '../engine/database.ts'
import type { BudgetUse, StoreReads } from '../store.ts'
import { decodeCursor, encodeCursor } from './cursor.ts'

const COLUMNS = 'budget, period_start AS start, period_end AS "end", amount, held, spent'
/** The end of a budget for life in the index: it sorts after all others. */
const LIFE = 9223372036854775807n
const END = `coalesce(period_end, ${LIFE})`

/** `LIFE` in a cursor: a number cannot hold it. */
const NO_END = -1

export function createBudgetUseFinder(database: Database): StoreReads['findBudgetUses'] {
  const find = database.prepareMoney(`
    SELECT ${COLUMNS} FROM budget_period
    WHERE account = ?1 AND period_start = ?2 AND ${database.dialect.isListed('budget', '?3')}`)
  return (account, periods) =>
    [...Map.groupBy(periods, ({ start }) => start)].flatMap(([start, budgets]) =>
      find.all(account, start, JSON.stringify(budgets.map(({ budget }) => budget))).map(toUse),
    )
}

export function createBudgetUseReader(database: Database): StoreReads['listBudgetUses'] {
  // An account gathers ended periods over time. Adding a CAST or changing the order defeats the index, so SQLite would scan them all.
  const list = database.prepareMoney(`
    SELECT ${COLUMNS} FROM budget_period
    WHERE account = ?1 AND ${END} >= ?2 AND (${END}, budget, period_start) > (?2, ?3, ?4)
    ORDER BY ${END}, budget, period_start LIMIT ?5`)

  return (account, nowMs, { limit, after }) => {
    const [end, budget, start] =
      after === undefined ? [nowMs + 1, '', 0] : decodeCursor(after, ['number', 'string', 'number'])
    const uses = list.all(account, end === NO_END ? LIFE : end!, budget!, start!, limit + 1).map(toUse)
    const items = uses.slice(0, limit)
    const last = items.at(-1)
    return {
      items: items.filter(each => each.start <= nowMs),
      next: uses.length > limit && last ? encodeCursor([last.end ?? NO_END, last.budget, last.start]) : null,
    }
  }
}

function toUse(row: Row): BudgetUse {
  const { budget, start, end, amount, held, spent } = row as unknown as Omit<BudgetUse, 'start' | 'end'> & {
    readonly start: bigint
    readonly end: bigint | null
  }
  return { budget, start: Number(start), end: end === null ? null : Number(end), amount, held, spent }
}
