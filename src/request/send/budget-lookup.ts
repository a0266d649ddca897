/** `GET /v1/budgets`: the budgets of a key and of its account, with the amount left in each. */
import { formatMoney, refuse } from '#contract'
import { type BudgetLeft, leftOfOwned, ownedBudgets, periodsOf } from '../../budgets/left.ts'
import type { Reply } from '../finish.ts'
import type { LiveExchange } from './live-exchange.ts'
import { jsonReply } from './reply.ts'

export async function sendBudgets(exchange: LiveExchange): Promise<Reply> {
  const { account, key, generation, host } = exchange
  if (account === undefined || key === undefined) throw refuse('unauthorized')
  const sources = { account, keys: [key], rules: generation.budgetRules }
  const owned = ownedBudgets(sources, host.clock.now())
  const uses = await host.store.findBudgetUses(account.id, periodsOf(owned))
  return jsonReply(exchange, { object: 'list', data: leftOfOwned(owned, uses).map(entryOf) })
}

/** Money is in dollars with nine decimals, times in seconds since the epoch, as in receipts. */
function entryOf({ name, place, per, key, every, zone, amount, spent, held, left, start, end, then }: BudgetLeft) {
  return {
    object: 'budget',
    name,
    place,
    per,
    key: key?.id ?? null,
    every,
    zone,
    amount: formatMoney(amount),
    spent: formatMoney(spent),
    held: formatMoney(held),
    left: formatMoney(left),
    start: end === null ? null : Math.floor(start / 1000),
    resets_at: end === null ? null : Math.floor(end / 1000),
    then,
  }
}
