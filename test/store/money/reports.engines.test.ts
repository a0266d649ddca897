/** Lists by page: rows that are added meanwhile repeat or hide no row, filters take bounded time, and usage is correct. */

import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { ReadLimitError } from '../../../src/store/mistakes.ts'
import { MAX_LOOKED_AT } from '../../../src/store/money/lists.ts'
import type { Page, UsageRow } from '../../../src/store/money/reports.ts'
import { MAX_SUMMED } from '../../../src/store/money/usage.ts'
import { countsOf } from '../../helpers/counts.ts'
import { aHold, aSettle, fund, onEveryEngine, type TestStore, testStore } from '../helpers.ts'

const counts = countsOf('ledger')

const PASSWORD = '$argon2id$v=19$m=19456,t=2,p=1$c2FsdA$aGFzaA'

/** Writes `count` exchanges. The last digit of an id determines model, outcome and charge. */
async function exchanges(store: TestStore, accountId: string, count: number, first = 0): Promise<void> {
  for (let index = first; index < first + count; index++) {
    const exchange = `req_${String(index).padStart(6, '0')}`
    const isFree = index % 10 === 9
    const keyId = index % 2 === 0 ? 'key_even' : 'key_odd'
    store.clock.ms += index % 3 === 0 ? 1 : 0
    const tags = index % 4 === 0 ? undefined : { team: `t${index % 4}` }
    await store.ledger.hold(aHold({ accountId, keyId, exchange, model: `m${index % 3}`, amount: 10n, tags }))
    const outcome = isFree ? 'refused' : index % 5 === 0 ? 'failed' : 'answered'
    await store.ledger.settle(aSettle({ exchange, amount: isFree ? 0n : 7n, outcome }))
  }
}

/** All of a list, page by page; `between` runs after each. */
async function allOf<Item extends { readonly id: string }>(
  page: (after: string | undefined) => Page<Item>,
  between: () => unknown = () => {},
): Promise<Item[]> {
  const items: Item[] = []
  for (let after: string | undefined; ; ) {
    const { items: more, next } = page(after)
    items.push(...more)
    if (next === null) return items
    after = next
    await between()
  }
}

const ids = (items: readonly { readonly id: string }[]) => items.map(({ id }) => id)

onEveryEngine(() => {
  describe('a cursor', () => {
    test.each([
      ['nothing', ''],
      ['an object', Buffer.from('{"at":1}').toString('base64url')],
      ['invalid JSON', 'abc'],
      ['too few', Buffer.from('[1]').toString('base64url')],
      ['other types', Buffer.from('["1",2]').toString('base64url')],
      ['null', Buffer.from('[null,null]').toString('base64url')],
    ])('with %s is refused', async (_what, after) => {
      const store = await testStore()
      const refusal = expect.objectContaining({
        code: 'invalid',
        message: expect.stringMatching(/Use `next` of a page/),
      })
      for (const list of [
        () => store.reads.reports.entries('acc_x', { limit: 5, after }),
        () => store.reads.reports.receipts('acc_x', { limit: 5, after }),
        () => store.reads.reports.accounts({ limit: 5, after }),
        () => store.reads.reports.people({ limit: 5, after }),
      ]) {
        expect(list).toThrow(refusal)
      }
    })
  })

  describe('the count of events', () => {
    test('includes free ones, but not those of other accounts or times, and reads no more than requested', async () => {
      const store = await testStore()
      const alice = await fund(store, 1000n)
      const bob = await fund(store, 1000n, 'bob')
      const from = store.clock.ms + 1
      store.clock.ms += 5
      await exchanges(store, alice, 30)
      const to = store.clock.ms + 1
      store.clock.ms = to
      await exchanges(store, bob, 5, 100)
      await exchanges(store, alice, 5, 200)
      const count = (range: object) => store.reads.reports.countEvents(alice, { from, to, most: 1000, ...range })
      expect(count({})).toBe(30)
      expect(store.reads.reports.entries(alice, { limit: 100, from, to }).items).toHaveLength(27)
      expect(count({ from: 0 })).toBe(31)
      expect(count({ to: to + 1000 })).toBe(35)
      expect(count({ to: from })).toBe(0)
      expect([29, 30, 31].map(most => count({ most }))).toEqual([29, 30, 30])
      expect(store.reads.reports.countEvents('acc_x', { from: 0, to, most: 5 })).toBe(0)
    })
  })

  describe('entries', () => {
    test('of an unknown account, and of an account without any', async () => {
      const store = await testStore()
      const { id } = await store.createAccount({ name: 'alice' })
      for (const account of ['acc_x', '', id]) {
        expect(store.reads.reports.entries(account, { limit: 5 })).toEqual({ items: [], next: null })
      }
    })

    test('are the credits and charges of one account, newest first', async () => {
      const store = await testStore()
      const alice = await fund(store, 1000n)
      await fund(store, 500n, 'bob')
      const begun = store.clock.ms
      await exchanges(store, alice, 10)
      await store.ledger.hold(aHold({ accountId: alice, exchange: 'req_open', amount: 5n }))
      const note = { actor: 'stripe', note: 'invoice 7' }
      store.clock.ms += 1000
      await store.credit({ account: alice, amount: 3n, reference: 'i-7', ...note })
      const { items, next } = store.reads.reports.entries(alice, { limit: 100 })
      expect(next).toBeNull()
      expect(items).toHaveLength(11)
      expect(items[0]).toEqual({
        id: 'credit:i-7',
        kind: 'credit',
        at: store.clock.ms,
        amount: 3n,
        balance: store.reads.findAccount(alice)!.posted,
        ...note,
        reference: 'i-7',
        keyId: null,
        model: null,
        outcome: null,
        tags: null,
      })
      expect(items[1]).toMatchObject({
        id: 'req_000008',
        kind: 'charge',
        amount: -7n,
        keyId: 'key_even',
        model: 'm2',
        outcome: 'answered',
      })
      expect(items.reduce((sum, { amount }) => sum + amount, 0n)).toBe(store.reads.findAccount(alice)!.posted)
      const of = (filter: object) => ids(store.reads.reports.entries(alice, { limit: 100, ...filter }).items)
      expect(of({ kind: 'credit' })).toEqual(['credit:i-7', 'credit:first credit of alice'])
      expect(of({ kind: 'charge' })).toHaveLength(9)
      expect(of({ from: begun + 1, to: begun + 1000 })).toHaveLength(9)
      expect(of({ from: store.clock.ms })).toEqual(['credit:i-7'])
      expect(of({ to: begun + 1 })).toEqual(['credit:first credit of alice'])
    })
  })

  describe('the balance after an entry', () => {
    /** The balance after each entry, from the entries themselves. */
    function expectSums(store: TestStore, account: string, limit: number): void {
      let balance = 0n
      const all = allOfNow(after => store.reads.reports.entries(account, { limit, after }))
      for (const entry of all.toReversed()) {
        balance += entry.amount
        expect(entry.balance, `${entry.kind} ${entry.id}`).toBe(balance)
      }
      expect(store.reads.findAccount(account)!.posted).toBe(balance)
      for (const kind of ['credit', 'charge'] as const) {
        const some = allOfNow(after => store.reads.reports.entries(account, { kind, limit, after }))
        expect(some).toEqual(all.filter(entry => entry.kind === kind))
      }
    }

    function allOfNow<Item>(page: (after: string | undefined) => Page<Item>): Item[] {
      const items: Item[] = []
      for (let after: string | null | undefined; after !== null; ) {
        const { items: more, next } = page(after)
        items.push(...more)
        after = next
      }
      return items
    }

    test('is that of the ledger, on every page, by kind, and over hours and days', async () => {
      const waits = fc.constantFrom(0, 1, 60_000, 3_600_000, 11 * 3_600_000, 86_400_000, 40 * 86_400_000)
      const steps = fc.array(fc.record({ wait: waits, charge: fc.nat(20), credit: fc.integer({ min: -9, max: 9 }) }), {
        maxLength: 40,
      })
      await fc.assert(
        fc.asyncProperty(steps, fc.integer({ min: 1, max: 9 }), async (written, limit) => {
          const store = await testStore()
          const alice = await fund(store, 1_000_000n)
          const bob = await fund(store, 1_000_000n, 'bob')
          for (const [index, { wait, charge, credit }] of written.entries()) {
            store.clock.ms += wait
            const [exchange, amount] = [`req_${String(index).padStart(6, '0')}`, BigInt(charge)]
            const model = `m${index % 3}`
            await store.ledger.hold(aHold({ accountId: index % 4 === 3 ? bob : alice, exchange, model, amount: 20n }))
            await store.ledger.settle(aSettle({ exchange, amount }))
            const grant = { account: alice, amount: BigInt(credit), reference: `r${index}`, actor: 'test', note: 'why' }
            if (credit !== 0) await store.credit(grant)
          }
          expectSums(store, alice, limit)
          await store.close()
        }),
        { numRuns: counts(8, 300) },
      )
    })

    test('is unknown if too much was written since', async () => {
      const store = await testStore()
      const alice = await fund(store, 1000n)
      await exchanges(store, alice, 3)
      const hand = store.connect()
      const day = Math.floor(store.clock.ms / 86_400_000 + 2) * 86_400_000
      hand.exec(`
      WITH RECURSIVE many (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM many WHERE i <= ${MAX_SUMMED})
      INSERT INTO usage SELECT '${alice}', 1, ${day}, 'k' || i, 'm', 1, 0, 0, 0, 0, 0, 0 FROM many`)
      hand.close()
      const { items } = store.reads.reports.entries(alice, { limit: 10 })
      expect(items.length).toBeGreaterThan(2)
      expect(items.map(({ balance }) => balance)).toEqual(items.map(() => null))
    })
  })

  describe('page by page', () => {
    test('no entry or receipt is repeated or missing while others are added', async () => {
      const store = await testStore()
      const alice = await fund(store, 1_000_000n)
      const bob = await fund(store, 1_000_000n, 'bob')
      await exchanges(store, alice, 60)
      const list = { entries: store.reads.reports.entries, receipts: store.reads.reports.receipts }
      let added = 1000
      for (const name of ['entries', 'receipts'] as const) {
        const whole = ids(list[name](alice, { limit: 1000 }).items)
        for (const limit of [1, 7, 10, 1000]) {
          const paged = await allOf<{ id: string }>(
            after => list[name](alice, { limit, ...(after === undefined ? {} : { after }) }),
            async () => {
              await exchanges(store, bob, 1, added++)
              await exchanges(store, alice, 1, added++)
            },
          )
          expect(ids(paged).filter(id => whole.includes(id))).toEqual(whole)
          expect(new Set(ids(paged)).size).toBe(paged.length)
          whole.unshift(...ids(list[name](alice, { limit: 1000 }).items).filter(id => !whole.includes(id)))
        }
      }
    })

    test('a filter returns the same as a scan of everything', async () => {
      const store = await testStore()
      const alice = await fund(store, 1_000_000n)
      await exchanges(store, alice, 90)
      const everything = store.reads.reports.receipts(alice, { limit: 1000 }).items
      expect(everything).toHaveLength(90)
      expect(everything[0]).toEqual(store.reads.findReceipt(everything[0]!.id))
      await fc.assert(
        fc.asyncProperty(
          fc.record(
            {
              keyId: fc.constantFrom('key_even', 'key_odd', 'key_x'),
              model: fc.constantFrom('m0', 'm1', 'm9'),
              outcome: fc.constantFrom('answered' as const, 'failed' as const, 'refused' as const, 'cut' as const),
              tag: fc.constantFrom('t1', 't2', 't9').map(value => ({ name: 'team', value })),
            },
            { requiredKeys: [] },
          ),
          fc.integer({ min: 1, max: 40 }),
          async (filter, limit) => {
            const { tag, ...plain } = filter
            const wanted = everything.filter(
              receipt =>
                (tag === undefined || receipt.tags['team'] === tag.value) &&
                Object.entries(plain).every(([name, value]) => receipt[name as keyof typeof receipt] === value),
            )
            const paged = await allOf(after =>
              store.reads.reports.receipts(alice, { ...filter, limit, ...(after === undefined ? {} : { after }) }),
            )
            expect(ids(paged)).toEqual(ids(wanted))
          },
        ),
        { numRuns: counts(50, 2000) },
      )
    })

    test('a page reads a bounded number of receipts, and the next one continues from there', async () => {
      const store = await testStore()
      const alice = await fund(store, 1000n)
      const database = store.connect()
      database.exec(`
      WITH RECURSIVE n (i) AS (SELECT CAST(0 AS BIGINT) UNION ALL SELECT i + 1 FROM n WHERE i < ${2 * MAX_LOOKED_AT}),
        kinds (kind) AS (VALUES (0), (1))
      INSERT INTO event (id, kind, account, amount, at, key, model, price_input, price_cached_input, price_cache_write,
        price_output, price_request, cap_tokens, overrun, source, outcome, prompt_tokens, cached_tokens,
        completion_tokens, reasoning_tokens, attempts, trail)
      SELECT 'req_' || substr(CAST(1000000 + i AS TEXT), 2), kind, '${alice}', 0, i, 'k', CASE i WHEN 0 THEN 'rare' ELSE 'm' END, 0, 0, 0, 0, 0, 0, 0, 'released',
        'refused', 0, 0, 0, 0, '[]', '[]'
      FROM n, kinds`)
      database.close()
      const page = (after?: string) =>
        store.reads.reports.receipts(alice, { model: 'rare', limit: 5, ...(after === undefined ? {} : { after }) })
      const first = page()
      expect(first).toEqual({ items: [], next: expect.any(String) })
      const second = page(first.next!)
      expect(second).toEqual({ items: [], next: expect.any(String) })
      expect(page(second.next!)).toMatchObject({ items: [{ id: 'req_000000', model: 'rare' }], next: null })
    })
  })

  describe('accounts', () => {
    const NAMES = ['Zoë', 'alice', 'ALICE', 'Bob 100%', 'bob_1', 'bobx1', 'c\\d', 'Émile', 'acme']

    async function manyAccounts() {
      const store = await testStore()
      for (const [index, name] of NAMES.entries()) {
        await store.createAccount({ name, plan: index % 2 === 0 ? 'free' : 'gold' })
      }
      await store.freeze('alice', true)
      await store.credit({ account: 'Zoë', amount: 2n ** 62n, reference: 'z', actor: 'test' })
      await store.credit({ account: 'alice', amount: 2n ** 62n + 5n, reference: 'a', actor: 'test' })
      await store.credit({ account: 'acme', amount: 2n ** 62n, reference: 'c', actor: 'test' })
      return store
    }

    const names = (page: Page<{ readonly name: string }>) => page.items.map(({ name }) => name)

    test.each<[what: string, filter: object, expected: string[]]>([
      [
        'everything, by name in any case',
        {},
        ['acme', 'alice', 'ALICE', 'Bob 100%', 'bob_1', 'bobx1', 'c\\d', 'Zoë', 'Émile'],
      ],
      ['a part of a name', { search: 'OB' }, ['Bob 100%', 'bob_1', 'bobx1']],
      ['a literal percent sign', { search: '0%' }, ['Bob 100%']],
      ['a literal underscore', { search: 'b_1' }, ['bob_1']],
      ['a literal backslash', { search: '\\' }, ['c\\d']],
      ['a quote has no effect', { search: "' OR 1=1 --" }, []],
      [
        'an empty search',
        { search: '' },
        ['acme', 'alice', 'ALICE', 'Bob 100%', 'bob_1', 'bobx1', 'c\\d', 'Zoë', 'Émile'],
      ],
      ['a plan', { plan: 'gold' }, ['alice', 'Bob 100%', 'bobx1', 'Émile']],
      ['an unused plan', { plan: 'x' }, []],
      ['frozen accounts', { frozen: true }, ['alice']],
      [
        'accounts that are not frozen, with more filters',
        { frozen: false, plan: 'gold', search: 'b' },
        ['Bob 100%', 'bobx1'],
      ],
    ])('%s', async (_what, filter, expected) => {
      const store = await manyAccounts()
      expect(names(store.reads.reports.accounts({ limit: 100, ...filter }))).toEqual(expected)
      for (const limit of [1, 2, 4]) {
        const paged = await allOf(after =>
          store.reads.reports.accounts({ limit, ...filter, ...(after ? { after } : {}) }),
        )
        expect(paged.map(({ name }) => name)).toEqual(expected)
      }
    })

    test('by the beginning of an id', async () => {
      const store = await manyAccounts()
      const { id } = store.reads.findAccount('acme')!
      const search = (part: string) => names(store.reads.reports.accounts({ limit: 100, search: part }))
      expect(search(id)).toEqual(['acme'])
      expect(search(id.toLowerCase())).toEqual(['acme'])
      expect(search('acc_')).toHaveLength(NAMES.length)
      expect(search(id.slice(4))).toEqual([])
    })

    test('have their plans, and a total beyond the range of a column', async () => {
      const store = await manyAccounts()
      expect(store.reads.reports.plans()).toEqual([
        { plan: 'free', accounts: 5 },
        { plan: 'gold', accounts: 4 },
      ])
      const alice = store.reads.findAccount('alice')!
      await store.freeze(alice.id, false)
      await store.ledger.hold(aHold({ accountId: alice.id, amount: 9n }))
      expect(store.reads.reports.totals()).toEqual({ accounts: 9, posted: 3n * 2n ** 62n + 5n, held: 9n })
      expect((await testStore()).reads.reports.totals()).toEqual({ accounts: 0, posted: 0n, held: 0n })
    })
  })

  describe('people', () => {
    const ADDRESSES = ['zoe@x.org', 'ada@x.org', '100%@y.org', 'a_b@y.org', 'axb@y.org', 'c\\d@y.org', 'émile@z.org']

    async function manyPeople() {
      const store = await testStore()
      const { id } = await store.createAccount({ name: 'acme' })
      for (const [index, email] of ADDRESSES.entries()) {
        const membership = index % 3 === 0 ? { accountId: id } : { name: email, plan: 'free', credit: 0n }
        await store.people.create({ email, password: PASSWORD, role: 'member', membership })
      }
      return { store, acme: id }
    }

    const emails = (items: readonly { readonly email: string }[]) => items.map(({ email }) => email)
    const SORTED = ['100%@y.org', 'a_b@y.org', 'ada@x.org', 'axb@y.org', 'c\\d@y.org', 'zoe@x.org', 'émile@z.org']

    test.each<[what: string, search: string | undefined, expected: readonly string[]]>([
      ['an unused address', 'bob', []],
      ['a quote has no effect', "' OR 1=1 --", []],
      ['all people, by address', undefined, SORTED],
      ['an empty search', '', SORTED],
      ['a part, in any case', 'X.ORG', ['ada@x.org', 'zoe@x.org']],
      ['a literal percent sign', '%@', ['100%@y.org']],
      ['a percent sign is not a wildcard', 'a%y', []],
      ['a literal underscore', 'a_b', ['a_b@y.org']],
      ['a literal backslash', '\\', ['c\\d@y.org']],
      ['letters beyond a to z', 'ÉMILE', ['émile@z.org']],
      ['the same letter as two code points', 'e\u0301mile', ['émile@z.org']],
    ])('%s', async (_what, search, expected) => {
      const { store } = await manyPeople()
      for (const limit of [1, 2, 3, 100]) {
        const paged = await allOf(after =>
          store.reads.reports.people({
            limit,
            ...(search === undefined ? {} : { search }),
            ...(after ? { after } : {}),
          }),
        )
        expect(emails(paged)).toEqual(expected)
      }
    })

    test('of one account have its name and no password', async () => {
      const { store, acme } = await manyPeople()
      const list = (filter: object) => store.reads.reports.people({ limit: 2, accountId: acme, ...filter })
      const first = list({})
      expect(emails(first.items)).toEqual(['a_b@y.org', 'zoe@x.org'])
      const person = store.reads.people.findByEmail('a_b@y.org')!
      const { password, ...shown } = person
      expect(first.items[0]).toEqual({ ...shown, account: 'acme' })
      expect(list({ after: first.next })).toMatchObject({ items: [{ email: 'émile@z.org' }], next: null })
      expect(emails(list({ search: 'x.o' }).items)).toEqual(['zoe@x.org'])
      expect(store.reads.reports.people({ limit: 5, accountId: 'acc_x' })).toEqual({ items: [], next: null })
    })

    test('no person is repeated or missing while others are added and removed', async () => {
      const { store } = await manyPeople()
      let added = 0
      for (const limit of [1, 2, 3]) {
        const before = emails(store.reads.reports.people({ limit: 100 }).items)
        const paged = await allOf(
          after => store.reads.reports.people({ limit, ...(after ? { after } : {}) }),
          async () => {
            for (const letter of ['0', 'm', 'zz']) {
              const email = `${letter}${added++}@new.org`
              const membership = { name: email, plan: 'free', credit: 0n }
              const { id } = await store.people.create({ email, password: PASSWORD, role: 'member', membership })
              if (added % 2 === 0) await store.people.remove(id)
            }
            // The last person of the page is removed. The next page must still begin after that person.
            const person = store.reads.people.findByEmail('a_b@y.org')
            if (person) await store.people.remove(person.id)
          },
        )
        const still = emails(store.reads.reports.people({ limit: 100 }).items)
        const stayed = before.filter(email => still.includes(email))
        expect(emails(paged).filter(email => stayed.includes(email))).toEqual(stayed)
        expect(new Set(emails(paged)).size).toBe(paged.length)
      }
    })

    test('of ten thousand, a page is read at once', async () => {
      const store = await testStore()
      const database = store.connect()
      database.exec(`
      BEGIN;
      CREATE TEMP TABLE n AS WITH RECURSIVE n (i) AS (SELECT CAST(0 AS BIGINT) UNION ALL SELECT i + 1 FROM n WHERE i < 9999) SELECT i FROM n;
      INSERT INTO account (id, name, plan, created_at) SELECT 'acc_' || substr(CAST(100000 + i AS TEXT), 2), 'Customer ' || i, 'default', 0 FROM n;
      INSERT INTO person (id, email, folded, password, account, role, created_at)
        SELECT 'per_' || substr(CAST(100000 + i AS TEXT), 2), 'p' || (i * 7919 % 10000) || '@example.com', '', '$hash', 'acc_' || substr(CAST(100000 + i AS TEXT), 2),
        'member', 0 FROM n;
      COMMIT`)
      database.close()
      const { next } = store.reads.reports.people({ limit: 100 })
      for (const [what, filter, found] of [
        ['the first', {}, 100],
        ['the second', { after: next! }, 100],
        ['some', { search: '999' }, 19],
        ['none', { search: 'unused' }, 0],
        ['of an account', { accountId: 'acc_00500' }, 1],
      ] as const) {
        const startedAt = performance.now()
        const { items } = store.reads.reports.people({ limit: 100, ...filter })
        console.log(`${what} of 10000 people: ${(performance.now() - startedAt).toFixed(2)} ms`)
        expect(items).toHaveLength(found)
      }
    })
  })

  describe('usage', () => {
    const HOUR = 3_600_000
    const DAY = 24 * HOUR

    test('is by whole hours and days of UTC, by time, key and model; for all accounts together by model', async () => {
      const store = await testStore()
      const midnight = Math.ceil(store.clock.ms / DAY) * DAY
      const [alice, bob] = [await fund(store, 1000n), await fund(store, 1000n, 'bob')]
      const use = async (accountId: string, at: number, exchange: string, keyId: string, model: string) => {
        store.clock.ms = at
        await store.ledger.hold(aHold({ accountId, exchange, keyId, model, amount: 10n }))
        await store.ledger.settle(aSettle({ exchange, amount: 3n, outcome: keyId === 'k2' ? 'cut' : 'answered' }))
      }
      await use(alice, midnight - 1, 'req_1', 'k1', 'm1')
      await use(alice, midnight, 'req_2', 'k2', 'm1')
      await use(alice, midnight, 'req_3', 'k1', 'm2')
      await use(alice, midnight + HOUR - 1, 'req_4', 'k1', 'm1')
      await use(bob, midnight + HOUR, 'req_5', 'k3', 'm1')
      const usage = (step: 'hour' | 'day', from: number, to: number, accountId?: string) =>
        store.reads.reports
          .usage({ step, from, to, ...(accountId === undefined ? {} : { accountId }) })
          .map(row => [row.at - midnight, row.keyId, row.model, row.requests, row.failed, row.charged])
      expect(usage('hour', midnight - 1, midnight + 1, alice)).toEqual([
        [-HOUR, 'k1', 'm1', 1, 0, 3n],
        [0, 'k1', 'm1', 1, 0, 3n],
        [0, 'k1', 'm2', 1, 0, 3n],
        [0, 'k2', 'm1', 1, 1, 3n],
      ])
      expect(usage('hour', midnight - HOUR, midnight, alice)).toEqual([[-HOUR, 'k1', 'm1', 1, 0, 3n]])
      expect(usage('hour', midnight + HOUR, midnight + DAY, alice)).toEqual([])
      expect(usage('day', midnight + 5 * HOUR, midnight + 6 * HOUR)).toEqual([
        [0, '', 'm1', 3, 1, 9n],
        [0, '', 'm2', 1, 0, 3n],
      ])
      expect(usage('day', 0, midnight + 2 * DAY, bob)).toEqual([[0, 'k3', 'm1', 1, 0, 3n]])
      expect(usage('day', 0, midnight + 2 * DAY, 'acc_x')).toEqual([])
      const [row] = store.reads.reports.usage({ step: 'day', from: midnight - 1, to: midnight, accountId: alice })
      expect(row).toMatchObject({ promptTokens: 10, cachedTokens: 4, completionTokens: 20, reasoningTokens: 5 })
    })

    /** Written directly to the table: otherwise it would take weeks of exchanges. */
    function write(store: TestStore, rows: string, account = 'acc_x') {
      const database = store.connect()
      database.exec(`
      INSERT INTO usage
      WITH RECURSIVE n (i) AS (SELECT CAST(0 AS BIGINT) UNION ALL SELECT i + 1 FROM n WHERE i < ${rows} - 1)
      SELECT '${account}', 0, i / 50 * ${HOUR}, 'k' || (i / 5 % 10), 'm' || (i % 5), 1, i % 2, 2, 3, 4, 5, ${BRIM} - i FROM n`)
      database.close()
    }
    const BRIM = 2n ** 63n - 1n

    test.each([
      ['none', []],
      ['key', ['keyId']],
      ['model', ['model']],
      ['both', ['keyId', 'model']],
    ] as const)('by %s: sums of the rows by both, to the nano-dollar, beyond what a column holds', async (by, kept) => {
      const store = await testStore()
      write(store, '487')
      const query = { step: 'hour', accountId: 'acc_x', from: HOUR, to: 9 * HOUR } as const
      const rows = store.reads.reports.usage(query)
      expect(rows).toHaveLength(400)
      const sums = new Map<string, UsageRow>()
      for (const row of rows) {
        const names = { keyId: '', model: '', ...Object.fromEntries(kept.map(name => [name, row[name]])) }
        const name = JSON.stringify([row.at, names.keyId, names.model])
        const before = sums.get(name) ?? { ...row, ...names, ...NONE }
        sums.set(name, { ...before, ...add(before, row) })
      }
      const found = store.reads.reports.usage({ ...query, by })
      const inOrder = (a: UsageRow, b: UsageRow) =>
        a.at - b.at || (`${a.keyId} ${a.model}` < `${b.keyId} ${b.model}` ? -1 : 1)
      expect(found).toEqual([...sums.values()].sort(inOrder))
      expect(found.reduce((sum, { charged }) => sum + charged, 0n)).toBe(
        rows.reduce((sum, { charged }) => sum + charged, 0n),
      )
      if (by !== 'both') expect(found[0]!.charged).toBeGreaterThan(BRIM)
    })

    test('more rows than requested, or than are summed at once, are refused', async () => {
      const store = await testStore()
      write(store, String(MAX_SUMMED + 1))
      const all = { step: 'hour', accountId: 'acc_x', from: 0, to: Number.MAX_SAFE_INTEGER } as const
      for (const by of ['none', 'key', 'model', 'both'] as const) {
        expect(() => store.reads.reports.usage({ ...all, by }), by).toThrow(ReadLimitError)
        // Ten hours have exactly this number of rows.
        const [few, rows] = [{ ...all, by, to: 10 * HOUR }, { none: 10, key: 100, model: 50, both: 500 }[by]]
        expect(store.reads.reports.usage({ ...few, limit: rows })).toHaveLength(rows)
        expect(() => store.reads.reports.usage({ ...few, limit: rows - 1 }), by).toThrow(/more than \d+ rows/)
      }
      const whole = store.reads.reports.usage({ ...all, by: 'none', to: (MAX_SUMMED / 50) * HOUR })
      expect(whole.reduce((sum, { requests }) => sum + requests, 0)).toBe(MAX_SUMMED)
    })

    test('a sum beyond the range of a column never prevents a charge', async () => {
      const store = await testStore()
      for (const name of ['alice', 'bob', 'carol']) {
        const accountId = await fund(store, 2n ** 62n, name)
        await store.ledger.hold(aHold({ accountId, keyId: name, exchange: `req_${name}`, amount: 2n ** 62n }))
        const settle = aSettle({ exchange: `req_${name}`, amount: 2n ** 62n })
        expect(await store.ledger.settle(settle)).toBe('settled')
      }
      expect(store.reads.reports.usage({ step: 'day', from: 0, to: store.clock.ms + 1 })).toMatchObject([
        { requests: 3, charged: 2n ** 63n - 1n },
      ])
    })
  })

  const NONE = {
    requests: 0,
    failed: 0,
    promptTokens: 0,
    cachedTokens: 0,
    completionTokens: 0,
    reasoningTokens: 0,
    charged: 0n,
  }

  function add(a: UsageRow, b: UsageRow): typeof NONE {
    return {
      requests: a.requests + b.requests,
      failed: a.failed + b.failed,
      promptTokens: a.promptTokens + b.promptTokens,
      cachedTokens: a.cachedTokens + b.cachedTokens,
      completionTokens: a.completionTokens + b.completionTokens,
      reasoningTokens: a.reasoningTokens + b.reasoningTokens,
      charged: a.charged + b.charged,
    }
  }
})
