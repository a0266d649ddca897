/** One store with several serving threads of a process. */
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { Worker } from 'node:worker_threads'
import { expect, onTestFinished, test } from 'vitest'
import type { Connector } from '../../src/store/engine/database.ts'
import { LARGEST_GROUP } from '../../src/store/engine/group.ts'
import { attachStore } from '../../src/store/engine/sqlite.ts'
import { createIds } from '../../src/store/ids.ts'
import { countsOf } from '../helpers/counts.ts'
import { until } from '../helpers/until.ts'
import { faultyConnector } from './faulty.ts'
import { aHold, fund, SECRET, type TestStore, testStore } from './helpers.ts'
import type { Change, FoundKey, ServingOptions, Task } from './threads.worker.ts'

const counts = countsOf('kills')

const REAL_TIME = { now: () => Date.now() }

interface ServingThread {
  readonly worker: Worker
  readonly lane: number
  ask(task: Task): Promise<unknown>
}

async function startThread(store: TestStore, accountId: string, lane: number): Promise<ServingThread> {
  const handle = store.threads!.attach(lane)
  const workerData: ServingOptions = { handle, accountId }
  const worker = new Worker(new URL('./threads.worker.ts', import.meta.url), {
    workerData,
    transferList: [handle.client.port],
  })
  onTestFinished(() => void worker.terminate())
  await once(worker, 'message')
  return {
    worker,
    lane,
    async ask(task) {
      worker.postMessage(task)
      return (await once(worker, 'message'))[0]
    },
  }
}

async function storeOf(amount: bigint, threads: number, connector?: Connector) {
  const store = await testStore({ writes: 'thread', clock: REAL_TIME, ...(connector ? { connector } : {}) })
  const accountId = await fund(store, amount)
  const all = await Promise.all(Array.from({ length: threads }, (_, index) => startThread(store, accountId, index + 1)))
  return { store, accountId, all }
}

test('of a thousand concurrent holds in four threads exactly those succeed that the balance pays for', async () => {
  const { store, accountId, all } = await storeOf(1000n, 4)
  for (let round = 0; round < counts(3, 50); round++) {
    const held = await Promise.all(all.map(thread => thread.ask({ do: 'hold', times: 250, amount: 100n })))
    expect(held.reduce<number>((sum, each) => sum + (each as number), 0)).toBe(10)
    expect(store.reads.findAccount(accountId)).toMatchObject({ posted: 1000n, held: 1000n })
    await Promise.all(all.map(thread => thread.ask({ do: 'settle', amount: 0n })))
    expect(store.reads.findAccount(accountId)).toMatchObject({ posted: 1000n, held: 0n })
  }
  expect(store.openHolds()).toBe(0)
  expect(store.reads.verify().violations).toEqual([])
})

/** A change in one thread, and how the others find the key afterwards. */
const CHANGES: readonly [Change, FoundKey][] = [
  ['revoke', { found: 'revoked' }],
  ['rotate', { found: 'rotated' }],
  ['limit', { found: 'live', models: ['one'] }],
  ['freeze', { found: 'live', frozen: true }],
  ['plan', { found: 'live', plan: 'team' }],
]

test.each(CHANGES)('%s in one thread is visible to all from the next lookup on', async (how, seen) => {
  const { store, accountId, all } = await storeOf(1n, 2)
  const { key, token } = await store.createKey({ account: accountId, name: 'laptop' })
  const look = () => Promise.all(all.map(thread => thread.ask({ do: 'find', token })))
  const before = { found: 'live', models: null, frozen: false, plan: 'default' }
  expect([...(await look()), store.keys.find(token, REAL_TIME.now()).found]).toEqual([before, before, 'live'])
  await all[0]!.ask({ do: 'change', how, key: key.id })
  expect(await look()).toMatchObject([seen, seen])
  const here = store.keys.find(token, REAL_TIME.now())
  expect('key' in here ? { ...here, ...here.key, ...here.account } : here).toMatchObject(seen)
})

test('a key that the main thread revokes is refused in all others from the next lookup on', async () => {
  const { store, accountId, all } = await storeOf(1n, 2)
  const { key, token } = await store.createKey({ account: accountId, name: 'laptop' })
  const look = () => Promise.all(all.map(thread => thread.ask({ do: 'find', token })))
  expect(await look()).toMatchObject([{ found: 'live' }, { found: 'live' }])
  await store.revokeKey(key.id)
  expect(await look()).toEqual([{ found: 'revoked' }, { found: 'revoked' }])
})

test('threads that flood the ledger delay the hold of another one by at most two commits', async () => {
  const { connector, faults } = faultyConnector()
  const store = await testStore({ writes: 'thread', clock: REAL_TIME, connector })
  const amount = 10n ** 9n
  const accountId = await fund(store, amount)
  const clients = [1, 2, 3, 4].map(async lane => {
    const client = await attachStore(store.threads!.attach(lane), { secret: SECRET, clock: REAL_TIME })
    onTestFinished(() => client.close())
    const ids = createIds(REAL_TIME, { lane })
    return () => client.ledger.hold(aHold({ accountId, exchange: ids.next('req_'), amount: 1n }))
  })
  const [quiet, ...floods] = await Promise.all(clients)
  // Also if this test fails: a store can close only when no COMMIT waits for a permit.
  onTestFinished(() => void (faults.paced = 0))
  faults.paced = 1
  const flooded = Promise.all(floods.map(hold => Promise.all(Array.from({ length: 4000 }, hold))))
  for (let round = 0; round < 5; round++) {
    await until(() => expect(faults.waiting).toBe(1))
    const before = store.reads.findAccount(accountId)!.held
    let available: bigint | undefined
    void quiet!().then(result => {
      available = result.held ? result.available : 0n
    })
    // The hold is published after this turn of the event loop.
    await new Promise(resolve => setImmediate(resolve))
    while (available === undefined) {
      faults.permits = 1
      await until(() => expect([faults.permits, faults.waiting]).toEqual([0, 1]))
      await new Promise(resolve => setImmediate(resolve))
    }
    // Each earlier hold has taken 1 from the available amount.
    const [wait, most] = [amount - available - before, 2n * BigInt(LARGEST_GROUP)]
    expect(wait, `the hold came after ${wait} operations, at most ${most}`).toBeLessThanOrEqual(most)
  }
  faults.paced = 0
  await flooded
})

test('open holds of a dead thread are settled at their checkpoints, those of others are not', async () => {
  const { store, accountId, all } = await storeOf(1000n, 2)
  const [one, other] = all as [ServingThread, ServingThread]
  expect(await one.ask({ do: 'hold', times: 2, amount: 100n })).toBe(2)
  expect(await other.ask({ do: 'hold', times: 1, amount: 100n })).toBe(1)
  await store.ledger.hold(aHold({ accountId, exchange: 'req_of_the_main_thread' }))
  await one.worker.terminate()
  expect(await store.threads!.detach(one.lane)).toMatchObject({ settled: 2, replayed: 0, charged: 0n })
  expect(store.openHolds()).toBe(2)
  expect(await other.ask({ do: 'settle', amount: 60n })).toEqual(['settled'])
  expect(store.reads.findAccount(accountId)).toMatchObject({ posted: 940n, held: 100n })
})

test('spooled settles of a dead thread are charged once, and its file is removed', async () => {
  const { store, accountId, all } = await storeOf(1000n, 1)
  const [one] = all as [ServingThread]
  expect(await one.ask({ do: 'hold', times: 1, amount: 100n })).toBe(1)
  expect(await one.ask({ do: 'spool', amount: 40n })).toEqual(['spooled'])
  await one.worker.terminate()
  const report = await store.threads!.detach(one.lane)
  expect([report.replayed + report.settled, report.rejected]).toEqual([report.replayed, 0])
  expect(store.reads.findAccount(accountId)).toMatchObject({ posted: 960n, held: 0n })
  expect(existsSync(`${store.path}.spool.1`)).toBe(false)
})

test('a start finds the spool of a thread that no longer exists', async () => {
  const { store, accountId, all } = await storeOf(1000n, 1)
  const [one] = all as [ServingThread]
  await one.ask({ do: 'hold', times: 1, amount: 100n })
  await one.ask({ do: 'spool', amount: 40n })
  await one.worker.terminate()
  await store.close()
  const next = await testStore({ path: store.path })
  expect(await next.recover()).toMatchObject({ rejected: 0 })
  expect(next.reads.findAccount(accountId)).toMatchObject({ posted: 960n, held: 0n })
  expect(existsSync(`${store.path}.spool.1`)).toBe(false)
})

test('threads that are killed at any time lose nothing and charge nothing twice', async () => {
  const { store, accountId, all } = await storeOf(10n ** 12n, 1)
  const settled: string[] = []
  let dying = all[0]!
  for (let round = 1; round <= counts(10, 200); round++) {
    const { worker, lane } = dying
    worker.on('message', exchange => void settled.push(exchange))
    worker.postMessage({ do: 'repeat' } satisfies Task)
    const seen = settled.length
    while (settled.length < seen + 5) await once(worker, 'message')
    const [, next] = await Promise.all([worker.terminate(), startThread(store, accountId, (lane % 31) + 1)])
    await store.threads!.detach(lane)
    expect(store.openHolds()).toBe(0)
    dying = next
  }
  for (const exchange of settled) expect(store.reads.findReceipt(exchange)).toMatchObject({ charged: 9n })
  expect(store.reads.verify().violations).toEqual([])
  expect(store.reads.findAccount(accountId)).toMatchObject({ held: 0n })
})

test("the death of the ledger's thread is reported to every thread, and the next one serves them all", async () => {
  const { connector, faults } = faultyConnector()
  const { store, accountId, all } = await storeOf(1000n, 2, connector)
  faults.dieAfter = 1
  const asked = await Promise.all(all.map(thread => thread.ask({ do: 'hold', times: 1, amount: 100n })))
  // At least one hold was in the last commit of the dead thread. The other one may have waited for the restart.
  expect(asked.filter(result => result !== 1)).not.toEqual([])
  for (const result of asked) if (result !== 1) expect(result).toContain('It may still have been written.')
  expect(await Promise.all(all.map(thread => thread.ask({ do: 'hold', times: 1, amount: 100n })))).toEqual([1, 1])
  for (const { worker, lane } of all) {
    await worker.terminate()
    await store.threads!.detach(lane)
  }
  expect(store.reads.findAccount(accountId)).toMatchObject({ posted: 1000n, held: 0n })
  expect(store.reads.verify().violations).toEqual([])
})

test('a thread that closes its store does not affect the others', async () => {
  const { store, accountId, all } = await storeOf(1000n, 2)
  const [one, other] = all as [ServingThread, ServingThread]
  await one.ask({ do: 'hold', times: 1, amount: 100n })
  expect(await one.ask({ do: 'close' })).toBe('closed')
  expect(await other.ask({ do: 'hold', times: 1, amount: 100n })).toBe(1)
  expect(await store.threads!.detach(one.lane)).toMatchObject({ settled: 1 })
  expect(store.reads.findAccount(accountId)).toMatchObject({ held: 100n })
})
