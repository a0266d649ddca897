/** The ledger's own thread: its deaths, values that are too large for its mailbox, and its end. */
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { StoreError } from '../../../src/store/error.ts'
import { StoreUnavailable } from '../../../src/store/store.ts'
import { until } from '../../helpers/until.ts'
import { startChild } from '../child.ts'
import { faultyConnector } from '../faulty.ts'
import { aHold, aSettle, folder, fund, type TestStore, testStore } from '../helpers.ts'

async function threaded() {
  const { connector, faults } = faultyConnector()
  const store = await testStore({ connector, writes: 'thread' })
  return { store, faults, accountId: await fund(store, 1_000_000n) }
}

/** Requests all holds in one turn. */
function hold(store: TestStore, accountId: string, ...exchanges: string[]) {
  return Promise.allSettled(exchanges.map(exchange => store.ledger.hold(aHold({ accountId, exchange }))))
}

describe('a thread that cannot open the database', () => {
  test('at the start: the store does not open, and reports the reason', async () => {
    const { connector, faults } = faultyConnector()
    faults.refuse = 1
    const path = join(folder(), 'tollgate.db')
    const opening = testStore({ connector, path, writes: 'thread' })
    await expect(opening).rejects.toBeInstanceOf(StoreError)
    await expect(opening).rejects.toThrow(`The store ${path} is out of reach.`)
  })

  test('later: another one is started, and operations wait for it', async () => {
    const { store, faults, accountId } = await threaded()
    faults.refuse = 2
    faults.dieBefore = 1
    await hold(store, accountId, 'req_1')
    expect(await hold(store, accountId, 'req_2')).toMatchObject([{ value: { held: true } }])
    expect([faults.refuse, store.openHolds()]).toEqual([0, 1])
  })
})

describe('a thread that dies', () => {
  test.each([
    ['before its COMMIT', 'dieBefore' as const, 0n],
    ['after its COMMIT', 'dieAfter' as const, 200n],
  ])(
    '%s: its operations are unknown, and repeating their ids returns their results',
    async (_when, fault, heldOnDisk) => {
      const { store, faults, accountId } = await threaded()
      faults[fault] = 1
      const lost = await hold(store, accountId, 'req_1', 'req_2')
      expect(store.healthy()).toBe(false)
      for (const result of lost) {
        const reason = (result as PromiseRejectedResult).reason
        expect(reason).toBeInstanceOf(StoreUnavailable)
        expect(reason).toMatchObject({
          written: 'unknown',
          message:
            'The store could not be written: the thread that writes has ended (it ended with code 7). It may still have been written.',
        })
      }
      expect(store.reads.findAccount('alice')?.held).toBe(heldOnDisk)
      expect(await hold(store, accountId, 'req_1', 'req_2')).toMatchObject([
        { value: { held: true } },
        { value: { held: true } },
      ])
      expect(store.healthy()).toBe(true)
      expect(store.openHolds()).toBe(2)
      expect(await store.ledger.settle(aSettle({ exchange: 'req_1', amount: 40n }))).toBe('settled')
      expect(store.reads.findAccount('alice')).toMatchObject({ posted: 999_960n, held: 100n })
      expect(store.reads.verify()).toMatchObject({ openHolds: 1, violations: [] })
    },
  )

  test('is replaced without a request, and proves its health with a commit', async () => {
    const { store, faults, accountId } = await threaded()
    faults.dieBefore = 1
    await hold(store, accountId, 'req_1')
    const commits = faults.commitsElsewhere
    await until(() => expect(store.healthy()).toBe(true))
    expect(faults.commitsElsewhere).toBe(commits + 1)
  })

  test('repeatedly: it is restarted a few times, then operations fail; a minute later it is started again', async () => {
    const { store, faults, accountId } = await threaded()
    faults.dieBefore = 1000
    const written: unknown[] = []
    for (let index = 0; index < 20 && written.at(-1) !== 'not_written'; index++) {
      const [result] = await hold(store, accountId, `req_${index}`)
      written.push((result as PromiseRejectedResult).reason.written)
    }
    expect(written.at(-1)).toBe('not_written')
    // The first thread and five restarts.
    expect(faults.dieBefore).toBe(1000 - 6)
    expect([store.healthy(), faults.dieBefore]).toEqual([false, 1000 - 6])

    faults.dieBefore = 0
    expect(await hold(store, accountId, 'req_a')).toMatchObject([{ reason: { written: 'not_written' } }])
    store.clock.ms += 60_000
    expect(await hold(store, accountId, 'req_a')).toMatchObject([{ value: { held: true } }])
    // Health changes only after a check that could write.
    await store.look()
    expect(store.healthy()).toBe(true)
    expect(store.reads.verify()).toMatchObject({ openHolds: 1, violations: [] })
  })

  test('repeatedly while the store closes: closing still ends', async () => {
    const { store, faults, accountId } = await threaded()
    faults.dieBefore = 1000
    const holding = hold(store, accountId, 'req_1')
    await store.close()
    expect(await holding).toMatchObject([{ reason: { written: 'unknown' } }])
    // After the close there are no more restarts.
    const left = faults.dieBefore
    expect(left).toBe(1000 - 6)
    await expect(store.freeze('acc_1', true)).rejects.toThrow()
  })
})

describe('more than the mailbox can hold', () => {
  test('a request larger than the mailbox arrives in its place', async () => {
    const { store, accountId } = await threaded()
    const points = Array.from({ length: 30_000 }, (_, index) => ({
      exchange: index === 0 ? 'req_1' : `req_without_hold_${index}`,
      amount: 7n,
      usage: { input: 1, output: 1 },
    }))
    const all = [
      store.ledger.hold(aHold({ accountId, exchange: 'req_1' })),
      store.ledger.checkpoint(points),
      store.ledger.settle(aSettle({ exchange: 'req_1' })),
    ]
    expect(await Promise.all(all)).toEqual([expect.objectContaining({ held: true }), undefined, 'settled'])
    const model = 'm\u00fc'.repeat(200_000)
    await store.ledger.hold(aHold({ accountId, exchange: 'req_2', model }))
    expect(store.reads.findReceipt('req_2')?.model).toBe(model)
    const next = await reopened(store)
    expect(next.reads.verify()).toMatchObject({ openHolds: 1, violations: [] })
  })

  test('operations without room wait in the sender, and are processed completely and in order', async () => {
    const { store, accountId } = await threaded()
    const model = 'm\u00fc'.repeat(1000)
    const exchanges = Array.from({ length: 3000 }, (_, index) => `req_${index}`)
    const done: string[] = []
    await Promise.all(
      exchanges.map(async exchange => {
        await store.ledger.hold(aHold({ accountId, exchange, model, amount: 1n }))
        done.push(exchange)
      }),
    )
    expect(done).toEqual(exchanges)
    expect(store.reads.findReceipt('req_2999')?.model).toBe(model)
    expect(store.openHolds()).toBe(3000)
  })
})

describe('the end', () => {
  test('a process with an open store ends by itself, but not before its answers have arrived', async () => {
    const child = startChild('idle.child.ts', join(folder(), 'tollgate.db'))
    await child.untilLines(1)
    expect(child.lines).toEqual(['alice'])
    expect(await child.ended()).toBe(0)
  })

  test('closing twice while the thread works is one orderly end', async () => {
    const { store, faults, accountId } = await threaded()
    faults.delayMs = 5
    const holding = hold(store, accountId, 'req_1', 'req_2')
    await Promise.all([store.close(), store.close()])
    expect(await holding).toMatchObject([{ status: 'fulfilled' }, { status: 'fulfilled' }])
    expect(await (await reopened(store)).recover()).toMatchObject({ settled: 2 })
  })
})

async function reopened(store: TestStore): Promise<TestStore> {
  await store.close()
  return testStore({ path: store.path, clock: store.clock })
}
