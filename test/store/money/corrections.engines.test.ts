/** Settles after another process has settled the exchange at its last checkpoint: booked once, and never above the available amount. */
import { describe, expect, test } from 'vitest'
import type { SettleRequest } from '#contract'
import { aHold, aSettle, fund, onEveryEngine, type TestStore, testStore } from '../helpers.ts'

const HOUR_MS = 3_600_000

/** A settle as recovery writes it. */
const recovered = (amount: bigint, output = 0): SettleRequest =>
  aSettle({
    amount,
    source: 'recovered',
    outcome: 'failed',
    usage: { input: 7, output },
    attempts: [],
    trail: [],
  })

interface Row {
  readonly name: string
  /** The account's credit, and the key's spending cap. */
  readonly credit?: bigint
  readonly cap?: bigint
  /** A hold of another exchange that takes the available amount. */
  readonly other?: bigint
  readonly recovered: bigint
  readonly late: Partial<SettleRequest>
  readonly charged: bigint
  readonly overrun: bigint
}

const ROWS: readonly Row[] = [
  { name: 'more than the checkpoint', recovered: 25n, late: { amount: 61n }, charged: 61n, overrun: 0n },
  { name: 'without a checkpoint', recovered: 0n, late: { amount: 100n, overrun: 3n }, charged: 100n, overrun: 3n },
  { name: 'less than the checkpoint', recovered: 25n, late: { amount: 10n }, charged: 10n, overrun: 0n },
  { name: 'as much as the checkpoint', recovered: 25n, late: { amount: 25n }, charged: 25n, overrun: 0n },
  {
    name: 'nothing, because nothing was sent',
    recovered: 0n,
    late: { amount: 0n, source: 'released', outcome: 'refused' },
    charged: 0n,
    overrun: 0n,
  },
  {
    name: 'more than the account has',
    credit: 100n,
    recovered: 25n,
    other: 55n,
    late: { amount: 61n },
    charged: 45n,
    overrun: 16n,
  },
  {
    name: 'an account that has nothing left',
    credit: 100n,
    recovered: 25n,
    other: 75n,
    late: { amount: 61n, overrun: 2n },
    charged: 25n,
    overrun: 38n,
  },
  {
    name: 'more than the key may spend',
    cap: 100n,
    recovered: 25n,
    other: 70n,
    late: { amount: 61n },
    charged: 30n,
    overrun: 31n,
  },
]

async function start(
  credit = 1000n,
  cap: bigint | null = null,
): Promise<{ store: TestStore; keyId: string; accountId: string }> {
  const store = await testStore()
  const accountId = await fund(store, credit)
  const { key } = await store.createKey({ account: accountId, name: 'app', spendingCap: cap })
  await store.ledger.hold(aHold({ accountId, keyId: key.id, amount: 100n, tags: { team: 'search' } }))
  return { store, accountId, keyId: key.id }
}

onEveryEngine(() => {
  describe('a late settle', () => {
    test.each(ROWS)('$name', async row => {
      const { store, accountId, keyId } = await start(row.credit, row.cap)
      const settledAt = store.clock.now()
      expect(await store.ledger.settle(recovered(row.recovered))).toBe('settled')
      if (row.other !== undefined) {
        const other = aHold({ accountId, keyId, exchange: 'req_2', amount: row.other })
        expect(await store.ledger.hold(other)).toMatchObject({ held: true })
      }
      // Usage counts the exchange in the hour of its settle.
      store.clock.ms += 2 * HOUR_MS
      const late = aSettle(row.late)
      expect(await store.ledger.settle(late)).toBe('corrected')
      const { exchange: id, amount: _, overrun: __, ...fields } = late
      expect(store.reads.findReceipt(id)).toMatchObject({
        ...fields,
        charged: row.charged,
        overrun: row.overrun,
        settledAt,
        correctedAt: store.clock.now(),
      })
      const credit = row.credit ?? 1000n
      expect(store.reads.findAccount(accountId)).toMatchObject({ posted: credit - row.charged, held: row.other ?? 0n })
      expect(store.reads.findKey(keyId)).toMatchObject({ spent: row.charged })
      const usage = store.reads.reports.usage({ accountId, step: 'hour', from: 0, to: store.clock.now() + HOUR_MS })
      expect(usage).toEqual([
        expect.objectContaining({
          at: Math.floor(settledAt / HOUR_MS) * HOUR_MS,
          requests: 1,
          failed: late.outcome === 'answered' ? 0 : 1,
          promptTokens: late.usage.input,
          completionTokens: late.usage.output,
          charged: row.charged,
        }),
      ])
      expect(store.reads.verify().violations).toEqual([])
    })

    test('corrects once, and only settles of recovery', async () => {
      const { store, accountId } = await start()
      await store.ledger.settle(recovered(25n))
      expect(await store.ledger.settle(recovered(0n))).toBe('already_settled')
      expect(await store.ledger.settle(aSettle({ amount: 61n }))).toBe('corrected')
      expect(await store.ledger.settle(aSettle({ amount: 80n }))).toBe('already_settled')
      expect(await store.ledger.settle(recovered(0n))).toBe('already_settled')
      await store.ledger.hold(aHold({ accountId, exchange: 'req_2', amount: 100n }))
      await store.ledger.settle(aSettle({ exchange: 'req_2', amount: 10n }))
      expect(await store.ledger.settle(aSettle({ exchange: 'req_2', amount: 61n }))).toBe('already_settled')
      expect(store.reads.findAccount(accountId)).toMatchObject({ posted: 1000n - 61n - 10n, held: 0n })
      expect(store.unwritten().corrected).toBe(1)
      expect(store.reads.verify().violations).toEqual([])
    })

    test('above its hold is refused as usual', async () => {
      const { store } = await start()
      await store.ledger.settle(recovered(25n))
      await expect(store.ledger.settle(aSettle({ amount: 101n }))).rejects.toThrow(/holds .* and cannot be charged/)
      expect(store.reads.findReceipt('req_1')).toMatchObject({ charged: 25n, correctedAt: null })
    })

    test('is a separate entry, and each entry has the balance of its time', async () => {
      const { store, accountId, keyId } = await start()
      const charge = async (exchange: string, amount: bigint) => {
        await store.ledger.hold(aHold({ accountId, keyId, exchange, amount: 100n }))
        await store.ledger.settle(aSettle({ exchange, amount }))
      }
      store.clock.ms += 1
      await store.ledger.settle(recovered(25n))
      for (const [exchange, amount, pauseMs] of [
        ['req_2', 10n, 60_000],
        ['req_3', 20n, HOUR_MS],
      ] as const) {
        store.clock.ms += pauseMs
        await charge(exchange, amount)
      }
      store.clock.ms += HOUR_MS
      await store.ledger.settle(aSettle({ amount: 61n }))
      store.clock.ms += 1
      await charge('req_4', 5n)
      const list = (kind?: 'charge' | 'credit') =>
        store.reads.reports
          .entries(accountId, { kind, limit: 50 })
          .items.map(({ id, kind: is, amount, balance }) => [id, is, amount, balance])
      const charges = [
        ['req_4', 'charge', -5n, 904n],
        ['req_1', 'correction', -36n, 909n],
        ['req_3', 'charge', -20n, 945n],
        ['req_2', 'charge', -10n, 965n],
        ['req_1', 'charge', -25n, 975n],
      ]
      expect(list('charge')).toEqual(charges)
      const { items } = store.reads.reports.entries(accountId, { limit: 50 })
      expect(items.filter(({ id }) => id === 'req_1').map(({ tags }) => tags)).toEqual([
        { team: 'search' },
        { team: 'search' },
      ])
      expect(list()).toEqual([...charges, [expect.stringMatching(/^credit:/), 'credit', 1000n, 1000n]])
      const pages = []
      for (let after: string | undefined | null; after !== null; ) {
        const page = store.reads.reports.entries(accountId, { limit: 1, ...(after ? { after } : {}) })
        pages.push(...page.items.map(({ id, balance }) => [id, balance]))
        after = page.next
      }
      expect(pages).toEqual(list().map(([id, , , balance]) => [id, balance]))
    })
  })
})
