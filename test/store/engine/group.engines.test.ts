/** Group commit with a bad operation, with a full disk, and with a COMMIT that fails or seems to fail. */
import { describe, expect, onTestFinished, test } from 'vitest'
import { createGroup, Undone } from '../../../src/store/engine/group.ts'
import type { StoreOptions } from '../../../src/store/engine/sqlite.ts'
import { StoreError } from '../../../src/store/error.ts'
import { StoreUnavailable } from '../../../src/store/store.ts'
import { until as untilPasses } from '../../helpers/until.ts'
import { faultyConnector } from '../faulty.ts'
import { aHold, aSettle, fund, onEveryEngine, openFrom, type TestStore, testStore } from '../helpers.ts'

const WRITES = ['thread', 'here'] as const

/** Waits for counts in shared memory, so that no test counts turns of the event loop. */
const until = (what: () => boolean) => untilPasses(() => expect(what()).toBe(true))

onEveryEngine(engine => {
  describe.each(WRITES)('a bad operation among good ones, written by: %s', writes => {
    test('fails alone; the operations before and after it are committed', async () => {
      const store = await testStore({ writes })
      const accountId = await fund(store, 1000n)
      await store.ledger.hold(aHold({ accountId, exchange: 'req_0' }))
      const group = [
        store.ledger.hold(aHold({ accountId, exchange: 'req_1' })),
        store.ledger.settle(aSettle({ exchange: 'req_0', amount: 101n })),
        store.ledger.hold(aHold({ accountId, exchange: 'req_2' })),
        store.credit({ account: 'alice', amount: 7n, reference: 'first credit of alice', actor: 'test' }),
        store.ledger.settle(aSettle({ exchange: 'req_1', amount: 30n })),
      ]
      const results = await Promise.allSettled(group)
      expect(results.map(result => result.status)).toEqual([
        'fulfilled',
        'rejected',
        'fulfilled',
        'rejected',
        'fulfilled',
      ])
      expect(store.reads.findAccount('alice')).toMatchObject({ posted: 970n, held: 200n })
      expect(store.openHolds()).toBe(2)
      expect(store.healthy()).toBe(true)
      expect(store.reads.verify().violations).toEqual([])
    })

    test.each([
      ['a value that JSON cannot have', { trail: 1n as unknown as [] }, /BigInt/],
      engine === 'sqlite'
        ? ['what fits no column', { code: 1.5 as never, source: {} as never }, /cannot be bound/]
        : ['what fits no column', { code: 'a\0b' as never }, /cannot be stored in PostgreSQL/],
    ])('%s is reported unchanged, not as a failure of the disk', async (_what, change, message) => {
      const store = await testStore({ writes })
      const accountId = await fund(store, 1000n)
      await store.ledger.hold(aHold({ accountId, exchange: 'req_1' }))
      const bad = store.ledger.settle(aSettle({ exchange: 'req_1', ...change }))
      const good = store.ledger.hold(aHold({ accountId, exchange: 'req_2' }))
      await expect(bad).rejects.toThrow(message)
      expect(await good).toMatchObject({ held: true })
      expect(store.reads.findAccount('alice')?.held).toBe(200n)
      expect(store.healthy()).toBe(true)
    })
  })

  describe.each(WRITES)('operations that are refused, written by: %s', writes => {
    /** Each operation is refused for another reason, some of them after they have written. */
    async function prepared(connector?: StoreOptions['connector']) {
      const store = await testStore({ writes, ...(connector && { connector }) })
      const accountId = await fund(store, 100_000n)
      await store.createAccount({ name: 'bob' })
      const { key } = await store.createKey({ account: 'bob', name: 'laptop' })
      await store.rotateKey(key.id, 1000)
      await store.ledger.hold(aHold({ accountId, exchange: 'req_open' }))
      for (let index = 0; index < 40; index++)
        await store.ledger.hold(aHold({ accountId, exchange: `req_old${index}` }))
      const refused: readonly [ask: () => Promise<unknown>, message: RegExp][] = [
        [() => store.createAccount({ name: 'bob' }), /is taken|already|bob/],
        [() => store.createKey({ account: 'carol', name: 'laptop' }), /account "carol" does not exist/],
        [() => store.rotateKey(key.id, 1000), /rotated less than a minute ago/],
        [
          () => store.credit({ account: 'bob', amount: 1n, reference: 'first credit of alice', actor: 'test' }),
          /was used/,
        ],
        // The operation makes the account, and then finds that the address is taken.
        [
          () => store.people.create({ ...person, membership: { name: 'dan', plan: 'default', credit: 5n } }),
          /bob@example/,
        ],
        [() => store.ledger.settle(aSettle({ exchange: 'req_open', amount: 101n })), /cannot be charged/],
        [() => store.ledger.hold(aHold({ accountId, exchange: 'req_open', amount: 7n })), /already has a hold/],
      ]
      const person = { email: 'bob@example.com', password: '$argon2id$v=19$hash', role: 'member' as const }
      await store.people.create({ ...person, membership: { name: 'person', plan: 'default', credit: 0n } })
      return { store, accountId, refused }
    }

    /** Requests forty holds and forty settles. `others` has further operations, by the index before which each is requested. */
    function group(
      { store, accountId }: { store: TestStore; accountId: string },
      others: Map<number, () => Promise<unknown>>,
    ) {
      const done: Promise<unknown>[] = []
      const refused: Promise<unknown>[] = []
      for (let index = 0; index < 81; index++) {
        const other = others.get(index)
        if (other) refused.push(other())
        if (index === 80) break
        const number = index >> 1
        if (index % 2 === 0) done.push(store.ledger.hold(aHold({ accountId, exchange: `req_new${number}` })))
        else done.push(store.ledger.settle(aSettle({ exchange: `req_old${number}`, amount: 10n })))
      }
      return { done: Promise.all(done), refused: Promise.allSettled(refused) }
    }

    const commitsOf = (store: TestStore) => store.writing().commits!.operations.count

    test.each<[where: string, places: readonly number[]]>([
      ['at the beginning', [0]],
      ['in the middle', [41]],
      ['at the end', [80]],
      ['everywhere', [0, 1, 2, 13, 40, 79, 80]],
    ])('%s: the others are one commit, and refused operations leave nothing', async (_where, places) => {
      const { store, accountId, refused } = await prepared()
      // Every refused operation is tried at every place.
      for (let turn = 0; turn < refused.length; turn += places.length) {
        const before = commitsOf(store)
        const asked = places.map((_, at) => refused[(turn + at) % refused.length]!)
        const both = group({ store, accountId }, new Map(places.map((place, at) => [place, asked[at]![0]])))
        await both.done
        for (const [at, result] of (await both.refused).entries()) {
          expect(result).toMatchObject({
            status: 'rejected',
            reason: { message: expect.stringMatching(asked[at]![1]) },
          })
          expect(result).toMatchObject({ reason: expect.any(StoreError) })
        }
        expect(commitsOf(store) - before).toBe(1)
      }
      expect(store.openHolds()).toBe(41)
      expect(store.reads.findAccount('alice')).toMatchObject({ posted: 99_600n, held: 4100n })
      expect(store.reads.findAccount('bob')).toMatchObject({ posted: 0n, held: 0n })
      expect(store.reads.findAccount('dan')).toBeUndefined()
      expect(store.reads.verify()).toMatchObject({ openHolds: 41, violations: [] })
    })

    test('that fill their group cause no commit, and the store is healthy', async () => {
      const { store, refused } = await prepared()
      const before = commitsOf(store)
      const results = await Promise.allSettled(refused.map(([ask]) => ask()))
      expect(results.map(({ status }) => status)).toEqual(refused.map(() => 'rejected'))
      expect([commitsOf(store) - before, store.healthy()]).toEqual([0, true])
    })

    test.each(['before', 'after'] as const)('a COMMIT that fails %s it happened is retried with them', async when => {
      const { connector, faults } = faultyConnector()
      const { store, accountId, refused } = await prepared(connector)
      faults[when] = 2
      const both = group({ store, accountId }, new Map(refused.map(([ask], at) => [at * 13, ask])))
      await both.done
      for (const [at, result] of (await both.refused).entries()) {
        expect(result).toMatchObject({ reason: { message: expect.stringMatching(refused[at]![1]) } })
      }
      expect(store.openHolds()).toBe(41)
      expect(store.reads.verify()).toMatchObject({ openHolds: 41, violations: [] })
    })
  })

  test('one refused or repeated operation of 512 causes no second COMMIT and no second run', async () => {
    const { connector, faults } = faultyConnector()
    const store = await testStore({ connector })
    const accountId = await fund(store, 10_000_000n)
    const { hold, settle } = store.ledger
    for (const exchange of ['req_open', 'req_ended', 'req_recovered']) await hold(aHold({ accountId, exchange }))
    await settle(aSettle({ exchange: 'req_ended' }))
    await settle(aSettle({ exchange: 'req_recovered', amount: 0n, source: 'recovered' }))
    const odd: readonly (readonly [expected: unknown, ask: () => Promise<unknown>])[] = [
      [{ held: true }, () => hold(aHold({ accountId, exchange: 'req_open' }))],
      [/already has a hold/, () => hold(aHold({ accountId, exchange: 'req_open', amount: 7n }))],
      [/already has a hold/, () => hold(aHold({ accountId, exchange: 'req_ended', amount: 7n }))],
      [/cannot be held again/, () => hold(aHold({ accountId, exchange: 'req_ended' }))],
      [{ reason: 'short' }, () => hold(aHold({ accountId, exchange: 'req_large', amount: 10n ** 9n }))],
      [{ reason: 'unknown_account' }, () => hold(aHold({ accountId: 'acc_none', exchange: 'req_none' }))],
      [/cannot be charged/, () => settle(aSettle({ exchange: 'req_open', amount: 101n }))],
      ['already_settled', () => settle(aSettle({ exchange: 'req_ended' }))],
      ['no_hold', () => settle(aSettle({ exchange: 'req_never' }))],
      ['corrected', () => settle(aSettle({ exchange: 'req_recovered' }))],
    ]
    for (const [round, [expected, ask]] of odd.entries()) {
      const before = [faults.begun, faults.commitsHere]
      const others = Array.from({ length: 511 }, (_, index) => {
        const about = hold(aHold({ accountId, exchange: `req_${round}_${index}` }))
        return index === 255 ? [about, ask().catch(error => (error as StoreError).message)] : [about]
      })
      const results = (await Promise.all(others.flat())) as unknown[]
      const [result] = results.splice(256, 1)
      if (expected instanceof RegExp) expect(result).toMatch(expected)
      else if (typeof expected === 'string') expect(result).toBe(expected)
      else expect(result).toMatchObject(expected as object)
      expect(results.every(each => (each as { held: boolean }).held)).toBe(true)
      expect([faults.begun, faults.commitsHere]).toEqual(before.map(count => count + 1))
    }
    expect(store.openHolds()).toBe(1 + odd.length * 511)
    expect(store.reads.verify().violations).toEqual([])
  })

  describe.each(WRITES)('a COMMIT that fails, written by: %s', writes => {
    test.each([
      ['before it happened', 'before' as const],
      ['after it happened', 'after' as const],
    ])('%s is retried by id, and nothing is done twice', async (_when, when) => {
      const { connector, faults } = faultyConnector()
      const store = await testStore({ connector, writes })
      const accountId = await fund(store, 1000n)
      faults[when] = 2
      const holds = ['req_1', 'req_2'].map(exchange => store.ledger.hold(aHold({ accountId, exchange })))
      expect(await Promise.all(holds)).toMatchObject([{ held: true }, { held: true }])
      expect(store.reads.findAccount('alice')?.held).toBe(200n)
      expect(store.openHolds()).toBe(2)

      faults[when] = 2
      await store.ledger.settle(aSettle({ exchange: 'req_1', amount: 40n }))
      expect(store.reads.findAccount('alice')).toMatchObject({ posted: 960n, held: 100n })

      faults[when] = 2
      await store.credit({ account: 'alice', amount: 5n, reference: 'again', actor: 'test' })
      faults[when] = 2
      await expect(store.createAccount({ name: 'bob' })).resolves.toMatchObject({ name: 'bob' })
      faults[when] = 2
      const { key, token } = await store.createKey({ account: 'bob', name: 'laptop' })
      faults[when] = 2
      const rotated = await store.rotateKey(key.id, 1000)
      expect(store.keys.find(token, store.clock.ms).found).toBe('live')
      expect(store.keys.find(rotated.token, store.clock.ms).found).toBe('live')
      expect(store.reads.listKeys('bob')[0]?.secrets).toHaveLength(2)
      expect(store.openHolds()).toBe(1)
      expect(store.reads.verify()).toMatchObject({ openHolds: 1, violations: [] })
    })

    test('three times: the result is unknown, and a repetition with the same id returns it', async () => {
      const { connector, faults } = faultyConnector()
      const store = await testStore({ connector, writes })
      const accountId = await fund(store, 1000n)
      faults.after = 3
      const hold = store.ledger.hold(aHold({ accountId }))
      await expect(hold).rejects.toBeInstanceOf(StoreUnavailable)
      await expect(hold).rejects.toMatchObject({ written: 'unknown' })
      // The hold may be on disk, so it counts as open until its result is known.
      expect(store.openHolds()).toBe(1)
      expect(await store.ledger.settle(aSettle({ amount: 0n, source: 'released' }))).toBe('settled')
      expect(store.openHolds()).toBe(0)
      expect(store.reads.findAccount('alice')).toMatchObject({ posted: 1000n, held: 0n })

      faults.before = 3
      await expect(store.ledger.hold(aHold({ accountId, exchange: 'req_2' }))).rejects.toThrow(
        'The store could not be written: disk I/O error. It may still have been written.',
      )
      expect(await store.ledger.settle(aSettle({ exchange: 'req_2', amount: 0n }))).toBe('no_hold')
      expect(store.openHolds()).toBe(0)
      expect(store.reads.verify().violations).toEqual([])
    })

    test('recovery reaches an unknown hold, however many commits follow', async () => {
      const { connector, faults } = faultyConnector()
      const store = await testStore({ connector, writes })
      const accountId = await fund(store, 1000n)
      faults.after = 3
      await expect(store.ledger.hold(aHold({ accountId, exchange: 'req_1' }))).rejects.toThrow()
      for (const exchange of ['req_2', 'req_3', 'req_4']) {
        store.clock.ms += 120_000
        await store.ledger.hold(aHold({ accountId, exchange }))
        await store.ledger.settle(aSettle({ exchange }))
      }
      await store.close()
      const next = await testStore({ path: store.path })
      expect(await next.recover()).toMatchObject({ settled: 1 })
      expect(next.reads.findAccount('alice')?.held).toBe(0n)
    })

    test('after an unknown commit that moved open_from, the next commit writes open_from again', async () => {
      const { connector, faults } = faultyConnector()
      const store = await testStore({ connector, writes })
      const accountId = await fund(store, 1000n)
      store.clock.ms += 60_000
      faults.after = 3
      await expect(store.ledger.hold(aHold({ accountId, exchange: 'req_5' }))).rejects.toThrow()
      const reader = store.connect({ readOnly: true })
      onTestFinished(() => reader.close())
      expect(openFrom(reader)).toBe('req_5')
      await store.ledger.hold(aHold({ accountId, exchange: 'req_3' }))
      expect(openFrom(reader)).toBe('req_3')
    })

    test('makes the store unhealthy until a commit succeeds; checks of health start a write, at most once a second', async () => {
      const { connector, faults } = faultyConnector()
      const store = await testStore({ connector, writes })
      await fund(store, 1000n)
      faults.before = 6
      await expect(store.createAccount({ name: 'bob' })).rejects.toThrow()
      expect(store.healthy()).toBe(false)
      await until(() => faults.before === 0)
      // The first write has failed three times. The next one must wait until a second has passed.
      const tried = faults.commitsHere + faults.commitsElsewhere
      await turns()
      expect([faults.commitsHere + faults.commitsElsewhere, store.healthy()]).toEqual([tried, false])
      store.clock.ms += 1000
      store.healthy()
      await until(() => store.healthy())
      expect(faults.commitsHere + faults.commitsElsewhere).toBe(tried + 1)
    })
  })

  test.each(engine === 'sqlite' ? WRITES : [])(
    'a full disk, written by %s: nothing is written, and writes succeed again when there is space',
    async writes => {
      const { connector, faults } = faultyConnector()
      const store = await testStore({ connector, writes })
      const accountId = await fund(store, 10_000n)
      const reader = store.connect({ readOnly: true })
      faults.maxPages = Number(reader.prepare('PRAGMA page_count').get()?.['page_count'])
      reader.close()
      const model = 'm'.repeat(3000)
      const holds = Array.from({ length: 8 }, (_, i) =>
        store.ledger.hold(aHold({ accountId, exchange: `req_${i}`, model })),
      )
      const results = await Promise.allSettled(holds)
      const refused = results.filter(result => result.status === 'rejected')
      expect(refused.length).toBeGreaterThan(0)
      for (const { reason } of refused) {
        expect(reason).toBeInstanceOf(StoreUnavailable)
        expect(reason).toMatchObject({
          written: 'not_written',
          message: expect.stringMatching(/full.*Nothing was changed/),
        })
      }
      expect(store.reads.findAccount('alice')?.held).toBe(100n * BigInt(8 - refused.length))
      expect(store.healthy()).toBe(false)
      faults.maxPages = 100_000
      expect(await store.ledger.hold(aHold({ accountId, exchange: 'req_9', model }))).toMatchObject({ held: true })
      expect(store.healthy()).toBe(true)
      expect(store.reads.verify().violations).toEqual([])
    },
  )

  test.each(WRITES)('a closed store reports that, written by: %s', async writes => {
    const store = await testStore({ writes })
    await store.close()
    await expect(store.createAccount({ name: 'bob' })).rejects.toThrow('The store is closed.')
  })

  test.each(WRITES)('closing waits for operations in progress, written by: %s', async writes => {
    const store = await testStore({ writes })
    const accountId = await fund(store, 1000n)
    const hold = store.ledger.hold(aHold({ accountId }))
    await store.close()
    expect(await hold).toMatchObject({ held: true })
  })

  describe('the group itself', () => {
    /** Records its calls; `schedule` is a list of callbacks that the test runs. */
    function recorded({ apply = (operation: string) => operation.toUpperCase(), failingCommits = 0, undone = 0 } = {}) {
      const log: string[] = []
      const scheduled: (() => void)[] = []
      const group = createGroup<string, string>(
        {
          begin: () => void log.push('BEGIN'),
          apply: operation => {
            log.push(operation)
            return apply(operation)
          },
          commit() {
            if (failingCommits-- > 0) throw new Error('disk I/O error')
            log.push('COMMIT')
            if (undone-- > 0) throw new Undone('no', { cause: new StoreError('no') })
          },
          rollback: () => void log.push('ROLLBACK'),
        },
        fn => void scheduled.push(fn),
      )
      return { group, log, tick: () => runAll(scheduled) }
    }

    test('an operation that throws is rolled back with the others, and each runs by itself, in order', async () => {
      const { group, log, tick } = recorded({
        apply(operation) {
          if (operation === 'bad') throw new StoreError('no')
          return operation
        },
      })
      const all = Promise.allSettled(['a', 'bad', 'b'].map(group.op))
      tick()
      expect(log.join(' ')).toBe('BEGIN a bad ROLLBACK BEGIN a COMMIT BEGIN bad ROLLBACK BEGIN b COMMIT')
      expect((await all).map(result => result.status)).toEqual(['fulfilled', 'rejected', 'fulfilled'])
    })

    test('operations of one turn share a commit; nothing resolves before it', async () => {
      const { group, log, tick } = recorded()
      const done: string[] = []
      const all = ['a', 'b'].map(operation => group.op(operation).then(result => done.push(result)))
      await Promise.resolve()
      expect([log, done]).toEqual([[], []])
      tick()
      expect(log.join(' ')).toBe('BEGIN a b COMMIT')
      await Promise.all(all)
      expect(done).toEqual(['A', 'B'])
    })

    test('retried operations go before later ones', async () => {
      const { group, log, tick } = recorded({ failingCommits: 1 })
      const all = [group.op('a'), group.op('b')]
      tick()
      all.push(group.op('c'))
      tick()
      expect(await Promise.all(all)).toEqual(['A', 'B', 'C'])
      expect(log.join(' ')).toBe('BEGIN a b ROLLBACK BEGIN a b c COMMIT')
    })

    test('after a COMMIT that certainly undid the group, each operation runs by itself', async () => {
      const { group, log, tick } = recorded({ undone: 2 })
      const all = Promise.allSettled(['a', 'b'].map(group.op))
      tick()
      expect((await all).map(result => result.status)).toEqual(['rejected', 'fulfilled'])
      expect(log.join(' ')).toBe('BEGIN a b COMMIT ROLLBACK BEGIN a COMMIT ROLLBACK BEGIN b COMMIT')
    })

    test('a flood is committed in bounded groups', async () => {
      const { group, log, tick } = recorded()
      const all = Promise.all(Array.from({ length: 1200 }, (_, i) => group.op(`op${i}`)))
      tick()
      expect(log.filter(line => line.startsWith('op'))).toHaveLength(512)
      tick()
      tick()
      expect(await all).toHaveLength(1200)
      expect(log.filter(line => line === 'COMMIT')).toHaveLength(3)
    })

    test('after a failed BEGIN it is certain that nothing was written', async () => {
      const scheduled: (() => void)[] = []
      const group = createGroup<string, void>(
        {
          begin() {
            throw new Error('database is locked')
          },
          apply() {},
          commit() {},
          rollback() {},
        },
        fn => void scheduled.push(fn),
      )
      const failure = expect(group.op('a')).rejects.toMatchObject({ written: 'not_written' })
      for (let tries = 0; tries < 3; tries++) runAll(scheduled)
      expect(scheduled).toHaveLength(0)
      await failure
      expect(group.healthy()).toBe(false)
    })
  })

  function runAll(scheduled: (() => void)[]): void {
    for (const fn of scheduled.splice(0)) fn()
  }

  /** Lets callbacks of setImmediate run, and those that follow. */
  async function turns(): Promise<void> {
    for (let turn = 0; turn < 6; turn++) await new Promise(resolve => setImmediate(resolve))
  }
})
