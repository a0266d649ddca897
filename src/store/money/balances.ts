/** The balances of accounts: the posted amount, and the part that open holds reserve. */
import type { NanoUsd } from '#contract'
import type { Database } from '../engine/database.ts'
import { GroupRows } from './group-rows.ts'

/** An account's row, as the transaction has it. */
export interface Balance {
  posted: NanoUsd
  held: NanoUsd
  readonly frozen: bigint
}

export function createBalances(database: Database): GroupRows<Balance> {
  const find = database.prepareMoney('SELECT posted, held, frozen FROM balance WHERE account = ?')
  const change = database.prepare('UPDATE balance SET posted = ?, held = ? WHERE account = ?')
  return new GroupRows<Balance>({
    read: account => find.get(account) as unknown as Balance | undefined,
    write: (account, { posted, held }) => void change.run(posted, held, account),
  })
}
