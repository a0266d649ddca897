/** The mailboxes of the ledger's thread: when each side sees the other's records, and what a full mailbox does. */
import { expect, onTestFinished, test } from 'vitest'
import { holdRecord } from '../../../src/store/money/ledger-fields.ts'
import type { Reply } from '../../../src/store/thread/codec.ts'
import { ThreadHost } from '../../../src/store/thread/thread-host.ts'
import { faultyConnector } from '../faulty.ts'
import { aHold, fund, testStore } from '../helpers.ts'

/** Starts a thread. `looks` has its replies: one list for each delivery. */
async function openPort() {
  const store = await testStore()
  const accountId = await fund(store, 10n ** 9n)
  const { connector, faults } = faultyConnector()
  const looks: Reply[][] = []
  let found: Reply[] = []
  let notify = () => {}
  const until = async (count: number) => {
    while (looks.flat().length < count) await new Promise<void>(resolve => (notify = resolve))
  }
  const ended = Promise.withResolvers<void>()
  const thread = new ThreadHost(store.path, connector, null).start({
    onReply: reply => void found.push(reply),
    onReplies() {
      looks.push(found)
      found = []
      notify()
    },
    onEnd: () => ended.resolve(),
  })
  onTestFinished(async () => {
    thread.end(0)
    await ended.promise
  })
  await until(1)
  looks.length = 0
  return { store, thread, faults, looks, until, accountId }
}

test('operations of one turn are one commit, and their answers arrive together', async () => {
  const { thread, faults, looks, until, accountId } = await openPort()
  for (let id = 1; id <= 200; id++) {
    thread.put({ id, name: 'hold', request: holdRecord(aHold({ accountId, exchange: `req_${id}` })) }, 7)
  }
  expect(faults.commitsElsewhere).toBe(0)
  thread.send()
  await until(200)
  expect([looks.length, faults.commitsElsewhere, thread.openHolds()]).toEqual([1, 1, 200])
  expect(looks[0]!.map(reply => reply.id)).toEqual(Array.from({ length: 200 }, (_, index) => index + 1))
  expect(looks[0]!.at(-1)?.result).toEqual({ held: true, available: 10n ** 9n - 200n * 100n })
})

test('answers without room wait, and none is lost', async () => {
  const { store, thread, looks, until } = await openPort()
  // Two answers fill a mailbox: of five, two are in the mailbox and three wait in the thread. This turn of the event loop does not end
  // before, so nothing is read.
  const plan = 'x'.repeat(400_000)
  for (let id = 1; id <= 5; id++) {
    const request = { id: `acc_${id}`, name: `customer ${id}`, plan }
    while (!thread.put({ id, name: 'createAccount', request }, 7)) {}
    thread.send()
  }
  while (store.reads.findAccount('acc_3') === undefined) {}
  await until(5)
  expect(looks.flat().map(({ id, result }) => [id, (result as { plan: string }).plan === plan])).toEqual(
    [1, 2, 3, 4, 5].map(id => [id, true]),
  )
})
