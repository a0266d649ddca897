/** The audit finds rows edited by hand, one broken invariant at a time, and damaged pages. */
import { readFileSync, writeFileSync } from 'node:fs'
import { describe, expect, test } from 'vitest'
import type { Database } from '../../../src/store/engine/database.ts'
import { aHold, aSettle, fund, onEveryEngine, type TestStore, testStore, UNGUARDED } from '../helpers.ts'

/** Two accounts; one exchange settled at 40 of 100, one open with a checkpoint, one released. */
async function sampleStore(): Promise<TestStore & { alice: string; bob: string }> {
  const store = await testStore()
  const alice = await fund(store, 1000n)
  const bob = await fund(store, 500n, 'bob')
  for (const exchange of ['req_1', 'req_2', 'req_3']) {
    await store.ledger.hold(aHold({ accountId: alice, exchange, amount: 100n }))
  }
  await store.ledger.settle(aSettle({ exchange: 'req_1', amount: 40n }))
  await store.ledger.checkpoint([{ exchange: 'req_2', amount: 9n, usage: { input: 1, output: 1 } }])
  await store.ledger.settle(aSettle({ exchange: 'req_3', amount: 0n, source: 'released', outcome: 'refused' }))
  await store.createKey({ account: 'alice', name: 'laptop' })
  return Object.assign(store, { alice, bob })
}

/** Edits the database as its owner could: without triggers, CHECKs and foreign keys. */
function tamper(store: TestStore, edit: (database: Database) => void): void {
  const database = store.connect()
  database.exec(UNGUARDED[database.dialect.engine])
  edit(database)
  database.close()
}

/** The violations without duplicates: a key with several wrong figures is reported more than once. */
const found = (store: TestStore) =>
  [...new Set(store.reads.verify().violations.map(({ invariant, subject }) => `${invariant} ${subject}`))].sort()

onEveryEngine(engine => {
  test('a sound store has no violations, and is counted', async () => {
    const store = await sampleStore()
    expect(store.reads.verify()).toEqual({ accounts: 2, events: 7, openHolds: 1, violations: [] })
  })

  test('the database itself refuses to change an event, and an amount below 0 that is not a credit', async () => {
    const store = await sampleStore()
    const database = store.connect()
    expect(() => database.exec('UPDATE event SET amount = 1')).toThrow('events are append-only')
    expect(() => database.exec('DELETE FROM event')).toThrow('events are append-only')
    expect(() => database.exec('UPDATE balance SET held = posted + 1')).toThrow(/check constraint/i)
    expect(() => database.exec('UPDATE balance SET held = -1')).toThrow(/check constraint/i)
    for (const kind of [0, 1]) {
      const charge = `INSERT INTO event (id, kind, account, amount, at) VALUES ('req_9', ${kind}, '${store.bob}', -1, 1)`
      expect(() => database.exec(charge)).toThrow(/check constraint/i)
    }
    database.close()
  })

  describe('edited by hand', () => {
    const rows: [what: string, sql: string, expected: string[]][] = [
      ['held too high', "UPDATE balance SET held = 150 WHERE account = 'ALICE'", ['I2 ALICE']],
      ['held too low', "UPDATE balance SET held = 0 WHERE account = 'ALICE'", ['I2 ALICE']],
      ['posted too high', "UPDATE balance SET posted = posted + 1 WHERE account = 'ALICE'", ['I3 ALICE', 'I6 ledger']],
      [
        'money moved between accounts',
        "UPDATE balance SET posted = posted + CASE account WHEN 'BOB' THEN -5 ELSE 5 END",
        ['I3 ALICE', 'I3 BOB'],
      ],
      [
        'a negative balance',
        "UPDATE balance SET posted = 50 WHERE account = 'ALICE'",
        ['I1 ALICE', 'I3 ALICE', 'I6 ledger'],
      ],
      ['a negative hold', "UPDATE balance SET held = -1 WHERE account = 'BOB'", ['I1 BOB', 'I2 BOB']],
      [
        'a settle above its hold',
        "UPDATE event SET amount = 101 WHERE id = 'req_1' AND kind = 1",
        ['I11 ALICE', 'I11 all accounts', 'I12 key_1', 'I3 ALICE', 'I5 req_1', 'I6 ledger'],
      ],
      ['a settle without a hold', "DELETE FROM event WHERE id = 'req_1' AND kind = 0", ['I12 key_1', 'I7 req_1']],
      [
        'a missing settle',
        "DELETE FROM event WHERE id = 'req_1' AND kind = 1",
        ['I11 ALICE', 'I11 all accounts', 'I12 key_1', 'I2 ALICE', 'I3 ALICE', 'I6 ledger'],
      ],
      ['a missing open hold', "DELETE FROM event WHERE id = 'req_2'", ['I12 key_1', 'I2 ALICE', 'I7 req_2']],
      [
        'a settle of another account',
        "UPDATE event SET account = 'BOB' WHERE id = 'req_1' AND kind = 1",
        ['I11 ALICE', 'I11 BOB', 'I3 ALICE', 'I3 BOB', 'I7 req_1'],
      ],
      [
        'a refused exchange that is charged',
        "UPDATE event SET amount = 1 WHERE id = 'req_3' AND kind = 1",
        ['I10 req_3', 'I11 ALICE', 'I11 all accounts', 'I12 key_1', 'I3 ALICE', 'I6 ledger'],
      ],
      ['a missing grant', "DELETE FROM event WHERE kind = 2 AND account = 'BOB'", ['I3 BOB', 'I6 ledger']],
      [
        'an invented grant',
        "INSERT INTO event (id, kind, account, amount, at) VALUES ('credit:x', 2, 'BOB', 9, 1)",
        ['I3 BOB', 'I6 ledger'],
      ],
      [
        'an invented removal of credit',
        "INSERT INTO event (id, kind, account, amount, at) VALUES ('credit:x', 2, 'BOB', -9, 1)",
        ['I3 BOB', 'I6 ledger'],
      ],
      [
        'a negative charge',
        "UPDATE event SET amount = -1 WHERE id = 'req_1' AND kind = 1",
        ['I11 ALICE', 'I11 all accounts', 'I12 key_1', 'I3 ALICE', 'I5 req_1', 'I6 ledger', 'corrupt req_1'],
      ],
      ['a missing account', "DELETE FROM balance WHERE account = 'BOB'", ['I6 BOB', 'I6 ledger']],
      [
        'an event of an unknown kind',
        "INSERT INTO event (id, kind, account, amount, at) VALUES ('req_9', 7, 'BOB', 9, 1)",
        ['corrupt req_9'],
      ],
      [
        'a late start of recovery',
        engine === 'sqlite'
          ? "INSERT INTO meta VALUES ('open_from', 'req_9')"
          : "UPDATE replica SET open_from = 'req_9'",
        ['I8 req_2'],
      ],
      ['a checkpoint without a hold', "INSERT INTO checkpoint VALUES ('req_9', 1, 1, 1, 1, 1)", ['I7 req_9']],
      [
        'too many requests in the usage',
        "UPDATE usage SET requests = 9 WHERE account = 'ALICE' AND grain = 0",
        ['I11 ALICE'],
      ],
      ['missing tokens', "UPDATE usage SET cached_tokens = 0 WHERE account = '' AND grain = 1", ['I11 all accounts']],
      ['missing usage', "DELETE FROM usage WHERE account = 'ALICE'", ['I11 ALICE']],
      [
        'usage of an unknown account',
        "INSERT INTO usage SELECT 'acc_unknown', grain, at, key, model, 1, 0, 0, 0, 0, 0, 0 FROM usage LIMIT 1",
        ['I11 acc_unknown'],
      ],
      ['a key that holds too little', 'UPDATE key_total SET held = 1', ['I12 key_1']],
      ['a key that has spent too much', 'UPDATE key_total SET spent = spent + 1', ['I12 key_1']],
      ['a key that was used more often', 'UPDATE key_total SET requests = 9', ['I12 key_1']],
      ['a key beyond its cap', 'UPDATE key_total SET cap = 139, ceiling = 139', ['I12 key_1']],
      ['a cap without its ceiling', 'UPDATE key_total SET cap = 500', ['I12 key_1']],
      ['a missing total of a key', 'DELETE FROM key_total', ['I12 key_1']],
      // Without its primary key the table accepts a second settle.
      [
        'an exchange that ends twice',
        "CREATE TABLE copy AS SELECT * FROM event; INSERT INTO copy SELECT * FROM event WHERE id = 'req_3' AND kind = 1; DROP TABLE event; ALTER TABLE copy RENAME TO event",
        ['I4 req_3'],
      ],
      [
        'an exchange with two holds',
        "CREATE TABLE copy AS SELECT * FROM event; INSERT INTO copy SELECT * FROM event WHERE id = 'req_2' AND kind = 0; DROP TABLE event; ALTER TABLE copy RENAME TO event",
        ['corrupt req_2'],
      ],
    ]
    /** PostgreSQL always enforces types and references. */
    const inFiles: typeof rows = [
      ['a trail that is not JSON', "UPDATE event SET trail = '[' WHERE id = 'req_1' AND kind = 1", ['corrupt req_1']],
      ['a key of an unknown account', "UPDATE key SET account = 'acc_unknown'", ['corrupt key']],
    ]

    test.each(engine === 'sqlite' ? [...rows, ...inFiles] : rows)('%s', async (_what, sql, expected) => {
      const store = await sampleStore()
      const named = (text: string) => text.replaceAll('ALICE', store.alice).replaceAll('BOB', store.bob)
      tamper(store, database => database.exec(named(sql)))
      expect(found(store)).toEqual(expected.map(named).sort())
    })
  })

  describe('a correction that is edited by hand', () => {
    test.each<[what: string, sql: string, expected: string[]]>([
      ['is missing', 'DELETE FROM correction', ['I11 ALICE', 'I11 all accounts', 'I12 key_1', 'I3 ALICE', 'I6 ledger']],
      [
        'books more',
        'UPDATE correction SET amount = amount + 1',
        ['I11 ALICE', 'I11 all accounts', 'I12 key_1', 'I3 ALICE', 'I6 ledger'],
      ],
      [
        'belongs to a settle with known usage',
        "UPDATE event SET source = 'estimated' WHERE id = 'req_4' AND kind = 1",
        ['I4 req_4'],
      ],
      [
        'belongs to no settle',
        "UPDATE correction SET id = 'req_x'",
        ['I11 ALICE', 'I11 all accounts', 'I12 key_1', 'I3 ALICE', 'I4 req_x', 'I6 ledger'],
      ],
      ['belongs to another account', "UPDATE correction SET account = 'BOB'", ['I7 req_4']],
      ['has another time', 'UPDATE correction SET settled_at = 1', ['I11 req_4']],
    ])('%s', async (_what, sql, expected) => {
      const store = await sampleStore()
      const named = (text: string) => text.replaceAll('ALICE', store.alice).replaceAll('BOB', store.bob)
      await store.ledger.hold(aHold({ accountId: store.alice, exchange: 'req_4', amount: 100n }))
      await store.ledger.settle(aSettle({ exchange: 'req_4', amount: 1n, source: 'recovered', outcome: 'failed' }))
      await store.ledger.settle(aSettle({ exchange: 'req_4', amount: 40n }))
      expect(found(store)).toEqual([])
      tamper(store, database => database.exec(named(sql)))
      expect(found(store)).toEqual(expected.map(named).sort())
    })

    test('the database itself refuses to change it', async () => {
      const store = await sampleStore()
      const database = store.connect()
      await store.ledger.settle(aSettle({ exchange: 'req_2', amount: 1n, source: 'recovered', outcome: 'failed' }))
      await store.ledger.settle(aSettle({ exchange: 'req_2', amount: 40n }))
      for (const sql of ['UPDATE correction SET amount = 1', 'DELETE FROM correction'])
        expect(() => database.exec(sql)).toThrow(/are append-only/)
      database.close()
    })
  })

  test('every violation is a sentence with its figures', async () => {
    const store = await sampleStore()
    tamper(store, database => database.exec("UPDATE event SET amount = 101 WHERE id = 'req_1' AND kind = 1"))
    expect(store.reads.verify().violations).toContainEqual({
      invariant: 'I5',
      subject: 'req_1',
      message: 'It holds 100 and is charged 101.',
    })
  })

  test('a cap that was lowered below the spent amount is not a violation', async () => {
    const store = await sampleStore()
    const { key } = await store.createKey({ account: 'alice', name: 'capped', spendingCap: 100n })
    await store.ledger.hold(aHold({ accountId: store.alice, keyId: key.id, exchange: 'req_4', amount: 90n }))
    await store.changeKey({ id: key.id, spendingCap: 10n })
    expect(store.reads.verify().violations).toEqual([])
    await store.ledger.settle(aSettle({ exchange: 'req_4', amount: 80n }))
    expect(store.reads.verify().violations).toEqual([])
  })

  if (engine === 'sqlite')
    test('damaged pages are reported, never ignored and never thrown', async () => {
      const store = await sampleStore()
      for (let index = 0; index < 200; index++) {
        const exchange = `req_x${index}`
        await store.ledger.hold(aHold({ accountId: store.alice, exchange, amount: 1n }))
      }
      await store.close()
      // The last connection that closes moves the log into the file, so that no page is hidden by one in the log.
      const last = store.connect()
      last.exec('PRAGMA wal_checkpoint(TRUNCATE)')
      last.close()
      const sound = readFileSync(store.path)
      for (let page = 2; page < sound.length / 4096; page++) {
        const damaged = Buffer.from(sound)
        damaged.fill(0xa5, page * 4096, page * 4096 + 200)
        const path = `${store.path}.${page}`
        writeFileSync(path, damaged)
        let violations: readonly { invariant: string }[] = []
        try {
          const again = await testStore({ path })
          violations = again.reads.verify().violations
          await again.close()
        } catch (error) {
          // The damage was found while opening, which counts as reported too.
          expect(String(error)).toMatch(/malformed|corrupt|not a database/)
          continue
        }
        expect(violations, `page ${page}`).toContainEqual(expect.objectContaining({ invariant: 'corrupt' }))
      }
    })

  test('progress is reported up to the end', async () => {
    const store = await sampleStore()
    const steps: [number, number][] = []
    store.reads.verify((done, total) => steps.push([done, total]))
    expect(steps.at(-1)).toEqual([7, 7])
  })

  test('the audit reads one snapshot and leaves no transaction open', async () => {
    const store = await testStore({ url: 'memory' })
    const accountId = await fund(store, 1000n)
    store.reads.verify()
    expect(await store.ledger.hold(aHold({ accountId }))).toMatchObject({ held: true })
    expect(store.reads.verify()).toMatchObject({ openHolds: 1, violations: [] })
  })
})
