/**
 * kill -9 of a real writer at random moments, and a log that was cut anywhere: nothing that was acknowledged is lost,
 * every balance is exact, and recovery leaves no hold open.
 */
import { copyFileSync, mkdirSync, readFileSync, statSync, truncateSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { counts } from '../helpers/counts.ts'
import { startChild } from './child.ts'
import { aHold, aSettle, folder, fund, testClock, testStore } from './helpers.ts'

const SEED = Number(process.env.TOLLGATE_SEED ?? Date.now() % 1_000_000)

test.each(['thread', 'here'] as const)(
  `kill -9 under load, written by: %s (TOLLGATE_SEED=${SEED})`,
  async writes => {
    const random = seeded(SEED)
    const path = join(folder(), 'tollgate.db')
    const setup = await testStore({ path })
    for (let index = 0; index < 4; index++) await fund(setup, 10n ** 15n, `customer ${index}`)
    await setup.close()

    for (let kill = 0; kill < counts(5, 50); kill++) {
      const child = startChild('writer.child.ts', path, writes)
      await child.said(1 + Math.floor(random() * 3000))
      await child.kill()

      const store = await testStore({ path })
      const reached = new Map<string, bigint>()
      for (const line of child.lines) {
        const [word, exchange, amount] = line.split(' ') as [string, string, string]
        const receipt = store.findReceipt(exchange)
        if (word === 'held') expect(receipt, line).toBeDefined()
        if (word === 'reached') reached.set(exchange, BigInt(amount))
        if (word === 'settled') expect(receipt?.charged, line).toBe(BigInt(amount))
      }
      expect(store.verify().violations).toEqual([])
      const open = store.openHolds()
      expect(open).toBeLessThanOrEqual(32)
      const dead = [...reached.keys()].filter(exchange => store.findReceipt(exchange)?.charged === null)

      expect(await store.recover()).toMatchObject({ settled: open, replayed: 0, rejected: 0 })
      for (const exchange of dead) {
        expect(store.findReceipt(exchange)).toMatchObject({ charged: reached.get(exchange), source: 'recovered' })
      }
      expect(store.openHolds()).toBe(0)
      for (const account of store.listAccounts()) expect(account.held).toBe(0n)
      expect(store.verify()).toMatchObject({ openHolds: 0, violations: [] })
      await store.close()
    }
  },
  counts(120_000, 900_000),
)

test(`a log cut anywhere is a shorter log (TOLLGATE_SEED=${SEED})`, async () => {
  const random = seeded(SEED)
  const clock = testClock()
  const store = await testStore({ clock })
  const accountId = await fund(store, 1_000_000n)
  for (let index = 0; index < 8; index++) {
    clock.ms += 30_000
    const exchange = `req_${index}`
    await store.ledger.hold(aHold({ accountId, exchange }))
    await store.ledger.checkpoint([{ exchange, amount: 7n, promptTokens: 1, completionTokens: 1 }])
    if (index % 3 !== 0) await store.ledger.settle(aSettle({ exchange }))
  }
  const wal = readFileSync(`${store.path}-wal`)
  const [header, frame] = [32, 24 + 4096]
  const boundaries = Array.from({ length: Math.floor((wal.length - header) / frame) }, (_, i) => header + i * frame)
  const cuts = [
    ...boundaries.filter((_, index) => index % counts(8, 1) === 0),
    ...Array.from({ length: counts(10, 1000) }, () => Math.floor(random() * wal.length)),
  ]
  const base = folder()
  for (const [index, cut] of cuts.entries()) {
    const copy = join(base, String(index), 'tollgate.db')
    mkdirSync(join(base, String(index)))
    copyFileSync(store.path, copy)
    writeFileSync(`${copy}-wal`, wal)
    truncateSync(`${copy}-wal`, cut)
    expect(statSync(`${copy}-wal`).size).toBe(cut)
    const shorter = await testStore({ path: copy, clock })
    await shorter.recover()
    expect(shorter.verify(), `cut at ${cut}`).toMatchObject({ openHolds: 0, violations: [] })
    await shorter.close()
  }
})

/** A small generator of its own (mulberry32), so that a printed seed repeats the run. */
function seeded(seed: number): () => number {
  let state = seed
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
}
