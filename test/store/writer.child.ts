/**
 * A process that a test kills. 32 loops hold, checkpoint and settle as fast as they can. Each acknowledged operation is printed before
 * the loop continues.
 *
 *     node writer.child.ts STORE
 */
import { writeSync } from 'node:fs'
import { openStore } from '../../src/store/engine/sqlite.ts'
import { createIds } from '../../src/store/ids.ts'
import { aHold, aSettle, SECRET } from './requests.ts'

const clock = { now: () => Date.now() }
const [, , path] = process.argv as [string, string, string]
const store = await openStore({ url: `sqlite:${path}`, secret: SECRET, clock, writes: 'here' })
await store.recover()
const accounts = store.reads.listAccounts()
const ids = createIds(clock)
const say = (...words: (string | bigint)[]) => writeSync(1, `${words.join(' ')}\n`)

await Promise.all(
  Array.from({ length: 32 }, async (_, index) => {
    const accountId = accounts[index % accounts.length]!.id
    for (let round = 0n; ; round++) {
      const exchange = ids.next('req_')
      await store.ledger.hold(aHold({ accountId, exchange, amount: 1000n }))
      say('held', exchange)
      await store.ledger.checkpoint([{ exchange, amount: round % 900n, usage: { input: 1, output: 2 } }])
      say('reached', exchange, round % 900n)
      await store.ledger.settle(aSettle({ exchange, amount: round % 1000n }))
      say('settled', exchange, round % 1000n)
    }
  }),
)
