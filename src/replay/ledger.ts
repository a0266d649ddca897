/**
 * The ledger of a replay: holds and charges like the real one, in memory. Balances and spending caps are not in a usage log. They come
 * from the options, or follow from the recorded verdict.
 */
import type { HoldBudget, HoldResult, Ledger, NanoUsd } from '#contract'
import type { LogLine } from './line.ts'

interface AccountMoney {
  /** Null: unlimited. */
  posted: NanoUsd | null
  held: NanoUsd
}

interface Open {
  readonly account: AccountMoney
  readonly uses: readonly BudgetUse[]
  readonly amount: NanoUsd
}

interface BudgetUse {
  spent: NanoUsd
  held: NanoUsd
}

/** The initial balance of an account, by its id or name; null: unlimited. */
export type BalanceOf = (account: { readonly id: string; readonly name: string }) => NanoUsd | null

/** The maximum balance. Every ledger refuses a larger hold. */
const LARGEST: NanoUsd = 2n ** 63n - 1n

/** @param lineOf the line of an exchange that is being replayed */
export function createLedger(balanceOf: BalanceOf, lineOf: (exchange: string) => LogLine | undefined): Ledger {
  const accounts = new Map<string, AccountMoney>()
  const open = new Map<string, Open>()
  const budgetUses = new Map<string, BudgetUse>()

  function accountOf(line: LogLine | undefined, id: string): AccountMoney {
    let account = accounts.get(id)
    if (!account) accounts.set(id, (account = { posted: balanceOf(line?.who?.account ?? { id, name: id }), held: 0n }))
    return account
  }

  function useOf(account: string, { budget, start }: HoldBudget): BudgetUse {
    const name = `${account} ${start} ${budget}`
    let use = budgetUses.get(name)
    if (!use) budgetUses.set(name, (use = { spent: 0n, held: 0n }))
    return use
  }

  return {
    async hold({ exchange, accountId, amount, budgets = [] }): Promise<HoldResult> {
      const line = lineOf(exchange)
      const account = accountOf(line, accountId)
      const refused = line ? recorded(line, account) : null
      if (refused) return refused
      const available = (account.posted ?? LARGEST) - account.held
      if (available < amount) {
        return { held: false, reason: 'short', of: 'account', available, onHold: account.held }
      }
      const uses = budgets.map(budget => useOf(accountId, budget))
      const short = uses.findIndex(({ spent, held }, index) => spent + held + amount > budgets[index]!.amount)
      if (short >= 0) {
        const { spent, held } = uses[short]!
        const left = budgets[short]!.amount - spent - held
        return { held: false, reason: 'short', of: 'budget', budget: short, available: left, onHold: held }
      }
      account.held += amount
      for (const use of uses) use.held += amount
      open.set(exchange, { account, uses, amount })
      return { held: true, available: available - amount }
    },
    async settle({ exchange, amount }) {
      const hold = open.get(exchange)
      if (!hold) return 'no_hold'
      open.delete(exchange)
      hold.account.held -= hold.amount
      if (hold.account.posted !== null) hold.account.posted -= amount
      for (const use of hold.uses) {
        use.held -= hold.amount
        use.spent += amount
      }
      return 'settled'
    },
    async checkpoint() {},
    spool: () => 'spooled',
    abandon() {},
  }
}

/** Repeats a recorded refusal whose reason is not in the log. */
function recorded({ code }: LogLine, { posted, held }: AccountMoney): HoldResult | null {
  if (code === 'account_frozen') return { held: false, reason: 'frozen' }
  if (code === 'spending_cap_reached') return { held: false, reason: 'short', of: 'key', available: 0n, onHold: 0n }
  if (posted !== null) return null
  if (code === 'insufficient_quota') return { held: false, reason: 'short', of: 'account', available: 0n, onHold: 0n }
  // With so much on hold, `credits` attributes the shortage to other requests, whatever this one needs.
  if (code === 'credit_on_hold') {
    return { held: false, reason: 'short', of: 'account', available: 0n, onHold: held > LARGEST ? held : LARGEST }
  }
  return null
}
