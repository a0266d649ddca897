/** The ledger's operations, one at a time and concurrently: in a file, written by its own thread and by this one, and in memory. */

import { describe, expect, test } from 'vitest'
import { cost, NO_COST } from '#contract'
import { StoreError } from '../../../src/store/error.ts'
import { LARGEST } from '../../../src/store/money/ledger-fields.ts'
import { aHold, aSettle, fund, onEveryEngine, PRICE, type TestStore, testStore } from '../helpers.ts'

const kinds = [
  { kind: 'database, written by its own thread', open: () => testStore({ writes: 'thread' }) },
  { kind: 'database, written by this thread', open: () => testStore({ writes: 'here' }) },
]
const memory = { kind: 'database in memory', open: () => testStore({ url: 'memory' }) }

onEveryEngine(engine => {
  describe.each(engine === 'sqlite' ? [...kinds, memory] : kinds)('a ledger in a $kind', ({ open }) => {
    describe('hold', () => {
      test('of an unknown account is refused', async () => {
        const store = await open()
        expect(await store.ledger.hold(aHold({ accountId: 'acc_nobody' }))).toEqual({
          held: false,
          reason: 'unknown_account',
        })
      })

      test('of a frozen account is refused until the account is unfrozen', async () => {
        const store = await open()
        const accountId = await fund(store, 100n)
        await store.freeze('alice', true)
        expect(await store.ledger.hold(aHold({ accountId }))).toEqual({ held: false, reason: 'frozen' })
        await store.freeze('alice', false)
        expect(await store.ledger.hold(aHold({ accountId }))).toEqual({ held: true, available: 0n })
      })

      test('that was refused is held when it is repeated with less in the same turn, and is open', async () => {
        const store = await open()
        const accountId = await fund(store, 100n)
        const hold = (amount: bigint) => store.ledger.hold(aHold({ accountId, exchange: 'req_1', amount }))
        expect((await Promise.all([hold(101n), hold(100n)])).map(({ held }) => held)).toEqual([false, true])
        expect(store.openHolds()).toBe(1)
      })

      test('above the available amount is refused with the available and the held amount', async () => {
        const store = await open()
        const accountId = await fund(store, 150n)
        await store.ledger.hold(aHold({ accountId, exchange: 'req_1', amount: 100n }))
        expect(await store.ledger.hold(aHold({ accountId, exchange: 'req_2', amount: 51n }))).toEqual({
          held: false,
          reason: 'short',
          of: 'account',
          available: 50n,
          onHold: 100n,
        })
        expect(store.reads.findReceipt('req_2')).toBeUndefined()
        expectMoney(store, 150n, 100n)
      })

      test('that is repeated gets the same answer and reserves nothing more, even when the credit is used up', async () => {
        const store = await open()
        const accountId = await fund(store, 100n)
        const request = aHold({ accountId, amount: 100n })
        const answers = await Promise.all([store.ledger.hold(request), store.ledger.hold(request)])
        expect(answers).toEqual([
          { held: true, available: 0n },
          { held: true, available: 0n },
        ])
        expect(await store.ledger.hold(request)).toEqual({ held: true, available: 0n })
        expectMoney(store, 100n, 100n)
        expect(store.openHolds()).toBe(1)
      })

      test.each([
        ['another amount', { amount: 99n }, /already has a hold of \$0\.000000100/],
        ['another account', { accountId: 'bob' }, /already has a hold of \$0\.000000100 on acc_/],
      ])('repeated with %s is an error, and no money moves', async (_what, change, message) => {
        const store = await open()
        const accountId = await fund(store, 500n)
        const bob = await fund(store, 500n, 'bob')
        await store.ledger.hold(aHold({ accountId, amount: 100n }))
        const second = aHold({ accountId, amount: 100n, ...change })
        const again = store.ledger.hold(second.accountId === 'bob' ? { ...second, accountId: bob } : second)
        await expect(again).rejects.toThrow(message)
        expectMoney(store, 500n, 100n)
        expectMoney(store, 500n, 0n, 'bob')
      })

      test('is refused after its settle, so that nothing is sent upstream on a closed hold', async () => {
        const store = await open()
        const accountId = await fund(store, 500n)
        await store.ledger.hold(aHold({ accountId }))
        await store.ledger.settle(aSettle({ amount: 0n }))
        await expect(store.ledger.hold(aHold({ accountId }))).rejects.toThrow(
          'req_1 is settled; it cannot be held again.',
        )
        expectMoney(store, 500n, 0n)
      })

      test.each([
        ['a negative amount', { amount: -1n }, /amount -1 is not between 0 and/],
        ['an amount beyond 64 bits', { amount: LARGEST + 1n }, /is not between 0 and/],
        ['half a token', { bound: { output: 1.5 } }, /bound\.output is 1.5/],
        ['an invalid id', { exchange: 'req ü' }, /not an exchange id/],
      ])('%s is refused', async (_what, change, message) => {
        const store = await open()
        const accountId = await fund(store, 500n)
        await expect(store.ledger.hold(aHold({ accountId, ...change }))).rejects.toThrow(message)
      })

      test('of a thousand concurrent holds on one balance exactly ten succeed, and ten more when half is released', async () => {
        const store = await open()
        const accountId = await fund(store, 1000n)
        const storm = (round: number) =>
          Promise.all(
            Array.from({ length: 1000 }, async (_, index) => {
              const exchange = `req_${round}_${String(index).padStart(4, '0')}`
              const { held } = await store.ledger.hold(aHold({ accountId, exchange, amount: 100n }))
              return held ? [exchange] : []
            }),
          )
        const first = (await storm(1)).flat()
        expect(first).toHaveLength(10)
        expectMoney(store, 1000n, 1000n)
        await Promise.all(first.map(exchange => store.ledger.settle(aSettle({ exchange, amount: 50n }))))
        expect((await storm(2)).flat()).toHaveLength(5)
        expectMoney(store, 500n, 500n)
        expect(store.reads.verify().violations).toEqual([])
      })
    })

    describe('settle', () => {
      test('above its hold is an error, and the hold stays', async () => {
        const store = await open()
        const accountId = await fund(store, 500n)
        await store.ledger.hold(aHold({ accountId, amount: 100n }))
        const settle = store.ledger.settle(aSettle({ amount: 101n }))
        await expect(settle).rejects.toThrow('req_1 holds $0.000000100 and cannot be charged $0.000000101.')
        await expect(settle).rejects.toBeInstanceOf(StoreError)
        expectMoney(store, 500n, 100n)
        expect(store.openHolds()).toBe(1)
      })

      test('without a hold reports that', async () => {
        const store = await open()
        expect(await store.ledger.settle(aSettle())).toBe('no_hold')
      })

      test('twice: the second one changes nothing and reports that, whatever its amount', async () => {
        const store = await open()
        const accountId = await fund(store, 500n)
        await store.ledger.hold(aHold({ accountId, amount: 100n }))
        const both = [store.ledger.settle(aSettle({ amount: 40n })), store.ledger.settle(aSettle({ amount: 60n }))]
        expect(await Promise.all(both)).toEqual(['settled', 'already_settled'])
        expectMoney(store, 460n, 0n)
        expect(store.reads.findReceipt('req_1')?.charged).toBe(40n)
      })

      test.each([
        ['a negative amount', { amount: -1n }],
        ['a negative overrun', { overrun: -1n }],
        ['tokens that are not a number', { usage: { input: Number.NaN } }],
        ['half a token', { usage: { output: 0.5 } }],
        ['tokens beyond 2^53', { usage: { reasoning: 2 ** 53 } }],
      ])('%s is refused', async (_what, change) => {
        const store = await open()
        await expect(store.ledger.settle(aSettle(change))).rejects.toBeInstanceOf(StoreError)
      })

      test('of a frozen account is charged', async () => {
        const store = await open()
        const accountId = await fund(store, 500n)
        await store.ledger.hold(aHold({ accountId, amount: 100n }))
        await store.freeze(accountId, true)
        expect(await store.ledger.settle(aSettle({ amount: 100n }))).toBe('settled')
        expectMoney(store, 400n, 0n)
      })
    })

    describe('credit', () => {
      test.each([
        ['nothing', { amount: 0n }, /amount is 0/],
        ['beyond 64 bits', { amount: 2n ** 63n }, /amount 9223372036854775808/],
        ['beyond 64 bits, taken', { amount: -(2n ** 63n), note: 'n' }, /amount -9223372036854775808/],
        ['taken without a note', { amount: -5n }, /the note is missing/],
        ['taken with an empty note', { amount: -5n, note: '' }, /the note is missing/],
        ['taken from an empty account', { amount: -5n, note: 'n' }, /Take at most \$0\.000000000/],
        ['without a reference', { reference: '' }, /reference ""/],
        ['with a line break in the reference', { reference: 'a\nb' }, /reference/],
        ['without an actor', { actor: ' ' }, /actor/],
        ['to an unknown account', { account: 'bob' }, /The account "bob" does not exist/],
      ])('%s is refused', async (_what, change, message) => {
        const store = await open()
        await store.createAccount({ name: 'alice' })
        const grant = { account: 'alice', amount: 5n, reference: 'invoice 1', actor: 'test', ...change }
        await expect(store.credit(grant)).rejects.toThrow(message)
        expectMoney(store, 0n, 0n)
      })

      test('a balance stays within 64 bits, to the last nano-dollar', async () => {
        const store = await open()
        const accountId = await fund(store, LARGEST - 1n)
        const grant = { account: accountId, amount: 2n, reference: 'invoice 2', actor: 'test' }
        await expect(store.credit(grant)).rejects.toThrow(/the largest balance/)
        await store.credit({ ...grant, amount: 1n })
        expect(await store.ledger.hold(aHold({ accountId, amount: LARGEST }))).toEqual({ held: true, available: 0n })
        await store.ledger.settle(aSettle({ amount: LARGEST - 2n ** 53n - 1n }))
        expectMoney(store, 2n ** 53n + 1n, 0n)
        expect(store.reads.verify().violations).toEqual([])
      })

      test('the same reference again changes nothing and reports that; another amount or account is an error', async () => {
        const store = await open()
        await fund(store, 100n, 'bob')
        const accountId = await fund(store, 100n)
        const grant = { account: 'alice', amount: 25n, reference: 'invoice 7', actor: 'test' }
        const first = await store.credit(grant)
        const second = await store.credit({ ...grant, account: accountId })
        expect([first.granted, second.granted]).toEqual([true, false])
        expect(second.balance).toMatchObject({ id: accountId, posted: 125n, held: 0n })
        await expect(store.credit({ ...grant, amount: 26n })).rejects.toThrow(
          /"invoice 7" was used for \$0\.000000025 to acc_/,
        )
        await expect(store.credit({ ...grant, account: 'bob' })).rejects.toThrow(/"invoice 7" was used/)
        expectMoney(store, 125n, 0n)
      })
    })

    test('credit is removed once for a reference, and never the held amount', async () => {
      const store = await open()
      const accountId = await fund(store, 100n)
      await store.ledger.hold(aHold({ accountId, amount: 40n }))
      await store.freeze(accountId, true)
      const taken = { account: 'alice', amount: -60n, reference: 'refund 7', actor: 'test', note: 'it was a mistake' }
      await expect(store.credit({ ...taken, amount: -61n })).rejects.toThrow(
        /^\$0\.000000061 cannot .* \$0\.000000060 is available and \$0\.000000040 is held .* Take at most \$0\.000000060/,
      )
      expectMoney(store, 100n, 40n)
      const both = await Promise.all([store.credit(taken), store.credit(taken)])
      expect(both.map(({ granted }) => granted)).toEqual([true, false])
      expectMoney(store, 40n, 40n)
      await expect(store.credit({ ...taken, amount: 60n })).rejects.toThrow(/was used for -\$0\.000000060 to acc_/)
      const { items } = store.reads.reports.entries(accountId, { kind: 'credit', limit: 1 })
      expect(items).toMatchObject([
        { kind: 'credit', amount: -60n, balance: 40n, reference: 'refund 7', actor: 'test' },
      ])
      expect(await store.ledger.settle(aSettle({ amount: 40n }))).toBe('settled')
      expectMoney(store, 0n, 0n)
      expect(store.reads.verify().violations).toEqual([])
    })

    describe('receipts', () => {
      test('do not exist without a hold', async () => {
        const store = await open()
        expect(store.reads.findReceipt('req_1')).toBeUndefined()
      })

      test.each([undefined, {}])('without tags (%j)', async tags => {
        const store = await open()
        const accountId = await fund(store, 1_000_000n)
        await store.ledger.hold(aHold({ accountId, tags }))
        expect(store.reads.findReceipt('req_1')).toMatchObject({ tags: {} })
      })

      test('while the hold is open, and when it has ended', async () => {
        const store = await open()
        const accountId = await fund(store, 1_000_000n)
        const createdAt = store.clock.ms
        const tags = { team: 'search', user: 'Zoë "z"' }
        await store.ledger.hold(aHold({ accountId, amount: 100n, idempotencyKey: 'order-17', tags }))
        const common = {
          id: 'req_1',
          accountId,
          keyId: 'key_1',
          model: 'chat-small',
          createdAt,
          price: PRICE,
          held: 100n,
          idempotencyKey: 'order-17',
          tags,
        }
        expect(store.reads.findReceipt('req_1')).toEqual({
          ...common,
          settledAt: null,
          charged: null,
          overrun: null,
          correctedAt: null,
          source: null,
          outcome: null,
          code: null,
          usage: {},
          cost: NO_COST,
          attempts: [],
          trail: [],
        })
        store.clock.ms += 1500
        const { exchange: _, amount, ...settle } = aSettle({ code: 'upstream_truncated', outcome: 'cut' })
        await store.ledger.settle(aSettle({ code: 'upstream_truncated', outcome: 'cut' }))
        expect(store.reads.findReceipt('req_1')).toEqual({
          ...common,
          ...settle,
          cost: cost(settle.usage, PRICE),
          charged: amount,
          correctedAt: null,
          settledAt: createdAt + 1500,
        })
      })
    })

    test('a checkpoint after the end adds nothing', async () => {
      const store = await open()
      const accountId = await fund(store, 500n)
      await store.ledger.hold(aHold({ accountId }))
      await store.ledger.settle(aSettle({ amount: 40n }))
      await store.ledger.checkpoint([{ exchange: 'req_1', amount: 99n, usage: { input: 1, output: 1 } }])
      expectMoney(store, 460n, 0n)
      expect(store.reads.verify()).toEqual({ accounts: 1, events: 3, openHolds: 0, violations: [] })
    })
  })

  function expectMoney(store: TestStore, posted: bigint, held: bigint, account = 'alice'): void {
    expect(store.reads.findAccount(account)).toMatchObject({ posted, held })
  }
})
