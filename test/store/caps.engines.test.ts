/** Spending caps of keys: a key never spends and holds more than its cap, at any concurrency. */
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { countsOf } from '../helpers/counts.ts'
import { aHold, aSettle, fund, onEveryEngine, type TestStore, testStore } from './helpers.ts'

const counts = countsOf('ledger')

async function capped(store: TestStore, spendingCap: bigint | null, credit = 1_000_000n) {
  const accountId = await fund(store, credit)
  const { key } = await store.createKey({ account: accountId, name: 'capped', spendingCap })
  const hold = (exchange: string, amount: bigint) =>
    store.ledger.hold(aHold({ accountId, keyId: key.id, exchange, amount }))
  const figures = () => {
    const { spent, spendingCap: cap } = store.reads.findKey(key.id)!
    return { spent, cap, held: store.reads.findAccount(accountId)!.held }
  }
  return { accountId, keyId: key.id, hold, figures }
}

onEveryEngine(() => {
  describe.each(['here', 'thread'] as const)('written by: %s', writes => {
    test('of 1,000 concurrent holds on a cap for ten, ten are held and nothing is reserved for the others', async () => {
      const store = await testStore({ writes })
      const { hold, figures } = await capped(store, 1009n)
      const results = await Promise.all(
        Array.from({ length: 1000 }, (_, index) => hold(`req_${String(index).padStart(4, '0')}`, 100n)),
      )
      expect(results.filter(({ held }) => held)).toHaveLength(10)
      expect(results.slice(10).every(result => !result.held && result.reason === 'short')).toBe(true)
      expect(results.at(-1)).toEqual({ held: false, reason: 'short', of: 'key', available: 9n, onHold: 1000n })
      expect(figures()).toEqual({ cap: 1009n, spent: 0n, held: 1000n })
      expect(store.reads.findReceipt('req_0010')).toBeUndefined()
      expect(store.openHolds()).toBe(10)
      expect(store.reads.verify().violations).toEqual([])
    })
  })

  test('a settle gives the rest of its hold back to the cap', async () => {
    const store = await testStore()
    const { hold, keyId, figures } = await capped(store, 100n)
    expect(await hold('req_1', 100n)).toMatchObject({ held: true })
    expect(await hold('req_2', 1n)).toMatchObject({ of: 'key', available: 0n, onHold: 100n })
    store.clock.ms += 5
    expect(await store.ledger.settle(aSettle({ exchange: 'req_1', amount: 40n }))).toBe('settled')
    expect(await store.ledger.settle(aSettle({ exchange: 'req_1', amount: 40n }))).toBe('already_settled')
    expect(figures()).toEqual({ cap: 100n, spent: 40n, held: 0n })
    expect(await hold('req_3', 61n)).toMatchObject({ of: 'key', available: 60n, onHold: 0n })
    expect(await hold('req_4', 60n)).toMatchObject({ held: true })
    expect(store.reads.findKey(keyId)).toMatchObject({ requests: 2, lastUsedAt: store.clock.ms })
  })

  test('a repeated hold returns the same result, even if it has used up the cap', async () => {
    const store = await testStore()
    const { hold, keyId, figures } = await capped(store, 100n)
    const answers = await Promise.all([hold('req_1', 100n), hold('req_1', 100n), hold('req_1', 100n)])
    expect(answers).toEqual(Array(3).fill({ held: true, available: 999_900n }))
    await expect(hold('req_1', 60n)).rejects.toThrow(/already has a hold/)
    expect(figures()).toMatchObject({ held: 100n })
    expect(store.reads.findKey(keyId)).toMatchObject({ requests: 1 })
    // The same holds while the cap has room for another hold.
    await store.changeKey({ id: keyId, spendingCap: 1000n })
    expect(await hold('req_1', 100n)).toEqual({ held: true, available: 999_900n })
    expect(store.reads.findKey(keyId)).toMatchObject({ requests: 1 })
    expect(store.reads.verify().violations).toEqual([])
  })

  test('the account is checked first: a frozen or short account is reported, whatever the cap', async () => {
    const store = await testStore()
    const { accountId, hold } = await capped(store, 10n, 20n)
    expect(await hold('req_1', 30n)).toMatchObject({ of: 'account', available: 20n })
    expect(await hold('req_2', 15n)).toMatchObject({ of: 'key', available: 10n })
    await store.freeze(accountId, true)
    expect(await hold('req_3', 5n)).toEqual({ held: false, reason: 'frozen' })
  })

  test('a cap may be lowered below the spent and held amount: charges stay, and no more holds are accepted', async () => {
    const store = await testStore()
    const { hold, keyId } = await capped(store, null)
    await hold('req_1', 80n)
    await store.changeKey({ id: keyId, spendingCap: 50n })
    expect(await hold('req_2', 1n)).toEqual({ held: false, reason: 'short', of: 'key', available: -30n, onHold: 80n })
    await store.ledger.settle(aSettle({ exchange: 'req_1', amount: 20n }))
    expect(await hold('req_3', 30n)).toMatchObject({ held: true })
    await store.changeKey({ id: keyId, spendingCap: 0n })
    expect(await hold('req_4', 1n)).toMatchObject({ of: 'key', available: -50n })
    await store.changeKey({ id: keyId, spendingCap: null })
    expect(await hold('req_5', 900n)).toMatchObject({ held: true })
    expect(store.reads.verify().violations).toEqual([])
  })

  test('the database itself refuses a hold beyond the cap', async () => {
    const store = await testStore({ url: 'memory' })
    const { hold, figures } = await capped(store, 0n)
    expect(await hold('req_1', 0n)).toMatchObject({ held: true })
    expect(await hold('req_2', 1n)).toMatchObject({ of: 'key' })
    expect(figures()).toEqual({ cap: 0n, spent: 0n, held: 0n })
  })

  test('any order of concurrent holds, settles and cap changes matches the model', async () => {
    const amount = fc.bigInt({ min: 0n, max: 60n })
    const step = fc.oneof(
      { weight: 4, arbitrary: fc.record({ do: fc.constant('hold' as const), amount }) },
      { weight: 3, arbitrary: fc.record({ do: fc.constant('settle' as const), of: fc.nat(20), share: fc.nat(100) }) },
      { weight: 1, arbitrary: fc.record({ do: fc.constant('cap' as const), cap: fc.option(amount) }) },
    )
    await fc.assert(
      fc.asyncProperty(fc.array(fc.array(step, { minLength: 1, maxLength: 8 }), { maxLength: 12 }), async turns => {
        const store = await testStore({ url: 'memory' })
        const { hold, keyId } = await capped(store, 100n)
        // The model.
        let [cap, spent, next] = [100n as bigint | null, 0n, 0]
        const open: { exchange: string; amount: bigint }[] = []
        const held = () => open.reduce((sum, each) => sum + each.amount, 0n)
        for (const turn of turns) {
          const work = turn.map(each => {
            if (each.do === 'cap') {
              cap = each.cap
              return store.changeKey({ id: keyId, spendingCap: cap }).then(() => [true, true])
            }
            if (each.do === 'hold') {
              const exchange = `req_${String(next++).padStart(4, '0')}`
              const fits = cap === null || spent + held() + each.amount <= cap
              if (fits) open.push({ exchange, amount: each.amount })
              return hold(exchange, each.amount).then(result => [result.held, fits])
            }
            const [ending] = open.length > 0 ? open.splice(each.of % open.length, 1) : []
            if (ending === undefined) return Promise.resolve([true, true])
            const charge = (ending.amount * BigInt(each.share)) / 100n
            spent += charge
            const settle = aSettle({ exchange: ending.exchange, amount: charge })
            return store.ledger.settle(settle).then(result => [result, 'settled'])
          })
          for (const [is, should] of await Promise.all(work)) expect(is).toBe(should)
          expect(store.reads.findKey(keyId)).toMatchObject({ spendingCap: cap, spent })
          expect(store.reads.verify().violations).toEqual([])
        }
      }),
      { numRuns: counts(50, 3000) },
    )
  })
})
