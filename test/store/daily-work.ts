/** The daily work of a gateway with its store. Each part is repeated often enough for a server to settle on a plan. */
import { expect } from 'vitest'
import { aHold, aSettle, fund, type TestStore } from './helpers.ts'

/** Exchanges of several accounts at once, and each kind of exception. */
export async function serve(store: TestStore, name: string): Promise<string> {
  const accounts = await Promise.all(['a', 'b', 'c'].map(each => fund(store, 1000n, `${name} ${each}`)))
  const { key, token } = await store.createKey({ account: accounts[0]!, name: 'main' })
  const exchanges = Array.from({ length: 12 }, (_, index) => ({
    exchange: `req_1${name}${index}`,
    accountId: accounts[index % 3]!,
    keyId: key.id,
  }))
  for (let round = 0; round < 8; round++) {
    const all = exchanges.map(each => ({ ...each, exchange: `${each.exchange}_${round}` }))
    await Promise.all(all.map(each => store.ledger.hold(aHold({ ...each, amount: 10n }))))
    const [{ exchange }] = all as [(typeof all)[0]]
    await store.accounts.find(`name ${round + 1}`)
    await store.keys.find(`${token}${round}`, round)
    await store.ledger.checkpoint([{ exchange, amount: 1n, usage: { input: 1, output: 1 } }])
    const tooMuch = store.ledger.hold(aHold({ accountId: accounts[0]!, exchange: `${exchange}x`, amount: 5000n }))
    const settled = all.map(each => store.ledger.settle(aSettle({ exchange: each.exchange, amount: 1n })))
    expect((await tooMuch).held).toBe(false)
    await Promise.all([...settled, store.ledger.settle(aSettle({ exchange, amount: 1n }))])
  }
  await store.ledger.hold(aHold({ ...exchanges[0]!, exchange: `req_2${name}` }))
  return accounts[0]!
}

/** The reads of pages and commands for an account. */
export function read(store: TestStore, accountId: string): void {
  const { reads } = store
  for (let round = 0; round < 8; round++) {
    reads.findAccount(accountId)
    for (const { id } of reads.listKeys(accountId)) reads.findKey(id)
    reads.keyNames([`key_${round + 1}`])
    reads.findReceipt(`req_0${round}`)
    reads.reports.receipts(accountId, { limit: 10 })
    reads.reports.entries(accountId, { limit: 10 })
    reads.reports.usage({ accountId, step: 'hour', from: 0, to: 3_600_000 })
    reads.reports.accounts({ limit: 10 })
  }
}
