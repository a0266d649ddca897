/** A model of budgets: a Map with a row for each period, and the alerts of their marks. */
import type { HoldBudget } from '#contract'

interface Row {
  amount: bigint
  held: bigint
  spent: bigint
  marked: number
}

const MARKS = [50, 80, 100]
const DAY_MS = 86_400_000

/** A budget of a hold: `day` has daily periods, `team` is for life. */
export interface ModelBudget {
  readonly name: 'day' | 'team'
  readonly amount: bigint
}

export function holdBudget({ name, amount }: ModelBudget, nowMs: number): HoldBudget {
  const start = name === 'day' ? Math.floor(nowMs / DAY_MS) * DAY_MS : 0
  return { budget: name, start, end: name === 'day' ? start + DAY_MS : null, amount, marks: MARKS }
}

export class BudgetModel {
  readonly rows = new Map<string, Row>()
  readonly alerts = new Set<string>()

  /** The answer for a hold without room; null: there is room. */
  shortOf(account: string, budgets: readonly HoldBudget[], amount: bigint): string | null {
    for (const [index, budget] of budgets.entries()) {
      const row = this.rows.get(nameOf(account, budget))
      const [spent, held] = [row?.spent ?? 0n, row?.held ?? 0n]
      if (spent + held + amount <= budget.amount) continue
      // The hold reaches the mark of 100 % only if 80 % are spent.
      if (row && spent + amount > budget.amount && spent * 10n >= budget.amount * 8n) {
        this.#mark(account, budget, row, [100], budget.amount)
      }
      return `short budget ${index} ${budget.amount - spent - held} ${held}`
    }
    return null
  }

  reserve(account: string, budgets: readonly HoldBudget[], amount: bigint): void {
    for (const budget of budgets) {
      const name = nameOf(account, budget)
      const row = this.rows.get(name) ?? { amount: budget.amount, held: 0n, spent: 0n, marked: 0 }
      if (row.amount !== budget.amount) row.marked = Math.min(row.marked, reached(row.spent, budget.amount))
      row.amount = budget.amount
      row.held += amount
      this.rows.set(name, row)
    }
  }

  settle(account: string, budgets: readonly HoldBudget[], held: bigint, charged: bigint): void {
    for (const budget of budgets) {
      const row = this.rows.get(nameOf(account, budget))!
      row.held -= held
      row.spent += charged
      const marks = MARKS.filter(mark => mark <= reached(row.spent, row.amount))
      this.#mark(account, budget, row, marks, row.amount)
    }
  }

  /** The available amount of each budget. */
  free(account: string, budgets: readonly HoldBudget[]): bigint[] {
    return budgets.map(budget => {
      const { amount, spent, held } = this.rows.get(nameOf(account, budget))!
      return amount > spent + held ? amount - spent - held : 0n
    })
  }

  #mark(account: string, { budget, start }: HoldBudget, row: Row, marks: readonly number[], amount: bigint): void {
    for (const each of marks) {
      if (each > row.marked) this.alerts.add(`${account} ${budget} ${start} ${each} ${amount}`)
    }
    if (row.amount === amount) row.marked = Math.max(row.marked, ...marks)
  }
}

const nameOf = (account: string, { budget, start }: HoldBudget): string => `${account} ${budget} ${start}`

const reached = (spent: bigint, amount: bigint): number =>
  MARKS.findLast(mark => amount > 0n && spent * 100n >= amount * BigInt(mark)) ?? 0
