/**
 * kill -9 of a process that writes in its main thread, as a command does. No acknowledged write is lost, no exchange is half written, every
 * balance is exact, and recovery leaves no hold open. (test/gateway/kill-suite.ts kills gateways.)
 */
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { countsOf } from '../helpers/counts.ts'
import { seeded } from '../helpers/seeded.ts'
import { startChild } from './child.ts'
import { folder, fund, testStore } from './helpers.ts'

const counts = countsOf('kills')
const SEED = Number(process.env.TOLLGATE_SEED ?? Date.now() % 1_000_000)

test(`kill -9 of a writer (TOLLGATE_SEED=${SEED})`, async () => {
  const random = seeded(SEED)
  const path = join(folder(), 'tollgate.db')
  const setup = await testStore({ path })
  for (let index = 0; index < 4; index++) await fund(setup, 10n ** 15n, `customer ${index}`)
  await setup.close()

  for (let kill = 0; kill < counts(1, 50); kill++) {
    const child = startChild('writer.child.ts', path)
    await child.untilLines(100 + Math.floor(random() * 3000))
    await child.kill()

    const store = await testStore({ path })
    const reached = new Map<string, bigint>()
    for (const line of child.lines) {
      const [word, exchange, amount] = line.split(' ') as [string, string, string]
      const receipt = store.reads.findReceipt(exchange)
      if (word === 'held') expect(receipt, line).toBeDefined()
      if (word === 'reached') reached.set(exchange, BigInt(amount))
      if (word === 'settled') expect(receipt?.charged, line).toBe(BigInt(amount))
    }
    expect(store.lostCommits).toBeNull()
    expect(store.reads.verify().violations).toEqual([])
    const open = store.openHolds()
    expect(open).toBeLessThanOrEqual(32)
    const dead = [...reached.keys()].filter(exchange => store.reads.findReceipt(exchange)?.charged === null)

    expect(await store.recover()).toMatchObject({ settled: open, replayed: 0, rejected: 0 })
    for (const exchange of dead)
      expect(store.reads.findReceipt(exchange)).toMatchObject({ charged: reached.get(exchange), source: 'recovered' })
    expect(store.openHolds()).toBe(0)
    for (const account of store.reads.listAccounts()) expect(account.held).toBe(0n)
    expect(store.reads.verify()).toMatchObject({ openHolds: 0, violations: [] })
    await store.close()
  }
})
