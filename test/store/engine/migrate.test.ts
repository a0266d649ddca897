/** Opening: addresses, foreign files, and migrations of the schema. */
import { mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { connect, openDatabase } from '../../../src/store/engine/database.ts'
import { migrate } from '../../../src/store/engine/migrate.ts'
import { openStore } from '../../../src/store/engine/sqlite.ts'
import { StoreError } from '../../../src/store/error.ts'
import { aHold, aSettle, folder, fund, SECRET, testClock, testStore } from '../helpers.ts'

const NEWEST = 12

describe('an address', () => {
  test.each([
    ['postgres://user:hunter2@127.0.0.1:1/db', /^The store postgres:\/\/user@127\.0\.0\.1:1\/db cannot be reached: /],
    ['redis://:hunter2@host', /not valid/],
    ['sqlite:relative.db', /^The address of the store is not valid\. Use sqlite:/],
    ['sqlite:', /not valid/],
    ['sqlite::memory:', /not valid/],
    ['mysql:hunter2', /not valid/],
    ['', /not valid/],
  ])('%s is refused with a sentence without the password', async (url, message) => {
    const opening = openStore({ url, secret: SECRET, clock: testClock() })
    await expect(opening).rejects.toBeInstanceOf(StoreError)
    await expect(opening).rejects.toThrow(message)
    await expect(opening).rejects.not.toThrow(/hunter2/)
  })

  test('a folder, or a file that is not a database, is refused by name', async () => {
    const dir = folder()
    await expect(testStore({ path: dir })).rejects.toThrow(`The store ${dir} cannot be opened:`)
    const path = join(dir, 'notes.txt')
    writeFileSync(path, 'dear diary, '.repeat(100))
    await expect(testStore({ path })).rejects.toThrow(`The store ${path} cannot be opened: file is not a database.`)
  })

  test('a new store makes a private folder and private files', async () => {
    const path = join(folder(), 'a', 'b', 'tollgate.db')
    await testStore({ path })
    expect(statSync(join(path, '..')).mode & 0o777).toBe(0o700)
    for (const end of ['', '-wal', '-shm']) expect(statSync(path + end).mode & 0o777).toBe(0o600)
  })
})

describe('a database', () => {
  test('of another program is refused and not changed', async () => {
    const path = join(folder(), 'other.db')
    const other = connect(path)
    other.exec('CREATE TABLE recipe (name TEXT)')
    other.close()
    await expect(testStore({ path })).rejects.toThrow('This file is the database of another program.')
    const again = connect(path)
    expect(again.prepare('SELECT name FROM sqlite_schema').all()).toMatchObject([{ name: 'recipe' }])
    again.close()
  })

  test('of a newer version is refused', async () => {
    const store = await testStore()
    await store.close()
    const newer = connect(store.path)
    newer.exec(`PRAGMA user_version = ${NEWEST + 1}`)
    newer.close()
    await expect(testStore({ path: store.path })).rejects.toThrow(
      `This store has schema ${NEWEST + 1}, and this Tollgate knows schemas up to ${NEWEST}. Run the newer version`,
    )
  })

  test('keeps its content when it is opened again', async () => {
    const store = await testStore()
    await fund(store, 42n)
    await store.close()
    const again = await testStore({ path: store.path })
    expect(again.reads.findAccount('alice')).toMatchObject({ posted: 42n })
  })

  test('commits reach the disk: write-ahead log, synchronous FULL', () => {
    const database = openDatabase(join(folder(), 'tollgate.db'))
    expect(database.prepare('PRAGMA journal_mode').get()).toMatchObject({ journal_mode: 'wal' })
    expect(database.prepare('PRAGMA synchronous').get()).toMatchObject({ synchronous: 2 })
    database.close()
  })
})

describe('a store of an earlier version', () => {
  /** Undoes the migrations from 7 on. */
  const NEWER =
    'DROP TABLE budget_period; DROP TABLE low_account; DROP TABLE alert_delivery; DROP TABLE alert_receiver; DROP TABLE alert; ALTER TABLE account DROP COLUMN budgets; ALTER TABLE key DROP COLUMN budgets; ALTER TABLE event DROP COLUMN tags; ALTER TABLE event DROP COLUMN budgets; DROP TABLE correction; DROP TABLE response_box; DROP TABLE response; DROP TABLE response_total; ALTER TABLE event DROP COLUMN price_search; ALTER TABLE event DROP COLUMN searches; ALTER TABLE event DROP COLUMN price; ALTER TABLE event DROP COLUMN units;'

  /** Undoes the migrations from 3 on. */
  function downgrade(path: string): void {
    const database = connect(path)
    database.exec(`
      PRAGMA foreign_keys = OFF; ${NEWER}
      DROP INDEX key_alive; DROP INDEX secret_alive;
      DROP TABLE usage; DROP TABLE key_total; DROP INDEX event_by_account; DROP INDEX credit_by_account;
      DROP TABLE session; DROP TABLE link; DROP TABLE operator_token; DROP TABLE person;
      DROP INDEX account_by_name; DROP INDEX account_by_plan; ALTER TABLE key DROP COLUMN purpose;
      PRAGMA user_version = 2`)
    database.close()
  }

  test('finds all people by their addresses, also two whose addresses now fold to the same', async () => {
    const store = await testStore()
    const password = '$argon2id$v=19$m=19456,t=2,p=1$c2FsdHNhbHQ$aGFzaGhhc2g'
    const make = (email: string) =>
      store.people.create({ email, password, role: 'member', membership: { name: email, plan: 'free', credit: 0n } })
    const ids = [await make('plain@example.com'), await make('b@example.com'), await make('c@example.com')].map(
      ({ id }) => id,
    )
    await store.close()
    const database = connect(store.path)
    const rename = database.prepare('UPDATE person SET email = ? WHERE id = ?')
    // The previous schema stored addresses as they were written. One of these folds to the address of another person.
    rename.run('\uff50\uff4c\uff41\uff49\uff4e@example.com', ids[1]!)
    rename.run('stra\u00dfe@example.com', ids[2]!)
    database.exec(
      `${NEWER} DROP INDEX person_by_folded; ALTER TABLE person DROP COLUMN folded; PRAGMA user_version = 5`,
    )
    database.close()

    const { people, reads } = await testStore({ path: store.path })
    const found = ['plain', '\uff50\uff4c\uff41\uff49\uff4e', '\uff30lain', 'stra\u00dfe', 'STRASSE'].map(
      name => reads.people.findByEmail(`${name}@example.com`)?.id,
    )
    expect(found).toEqual([ids[0], ids[1], ids[0], ids[2], ids[2]])
    await expect(
      people.create({ email: 'strasse@example.com', password, role: 'member', membership: { accountId: 'acc_x' } }),
    ).rejects.toThrow('is taken by another person')
  })

  test('gets its usage and the totals of its keys from its events', async () => {
    const store = await testStore()
    const accounts = [await fund(store, 10_000n), await fund(store, 10_000n, 'bob')]
    for (let index = 0; index < 60; index++) {
      const [accountId, keyId, exchange] = [accounts[index % 2]!, `key_${index % 3}`, `req_${100 + index}`]
      store.clock.ms += 1_700_000
      await store.ledger.hold(aHold({ accountId, keyId, exchange, model: `m${index % 4}` }))
      if (index % 10 === 9) continue
      const outcome = index % 5 === 0 ? 'failed' : 'answered'
      await store.ledger.settle(
        aSettle({ exchange, amount: BigInt(index), usage: { input: index, output: 20 }, outcome }),
      )
    }
    const usage = (of: typeof store) =>
      [undefined, ...accounts].flatMap(accountId =>
        (['hour', 'day'] as const).map(step =>
          of.reads.reports.usage({ accountId, step, from: 0, to: of.clock.ms + 1 }),
        ),
      )
    const totals = (path: string) => {
      const database = connect(path, { readOnly: true })
      const rows = database.prepare('SELECT * FROM key_total').all()
      database.close()
      return rows
    }
    const before = { usage: usage(store), totals: totals(store.path) }
    expect(before.totals).toHaveLength(3)
    await store.close()
    downgrade(store.path)
    const again = await testStore({ path: store.path, clock: store.clock })
    expect({ usage: usage(again), totals: totals(again.path) }).toEqual(before)
    expect(again.reads.verify()).toMatchObject({ openHolds: 6, violations: [] })
  })

  test('whose charges add up to more than a column holds can be opened', async () => {
    const store = await testStore()
    const [accountId, half] = [await fund(store, 1n), 2n ** 62n]
    await store.close()
    const database = connect(store.path)
    // No real store reaches this: there is not so much credit, and events never change.
    const put = database.prepare(`
      INSERT INTO event (id, kind, account, amount, at, key, model, outcome, prompt_tokens, cached_tokens, completion_tokens,
        reasoning_tokens) VALUES (?, ?, ?, ?, ?, ?, ?, 'answered', 0, 0, 0, 0)`)
    for (const [id, key, amount] of [
      ['req_1', 'key_1', half],
      ['req_2', 'key_1', half],
      ['req_3', 'key_2', half],
      ['req_4', 'key_2', half - 1n],
    ] as const) {
      for (const kind of [0, 1]) put.run(id, kind, accountId, amount, store.clock.ms, key, 'm')
    }
    database.close()
    downgrade(store.path)
    const again = await testStore({ path: store.path, clock: store.clock })
    const most = 2n ** 63n - 1n
    const rows = connect(again.path, { readOnly: true })
    const charged = rows.prepareMoney('SELECT charged FROM usage WHERE account = ? AND grain = 1 ORDER BY key')
    const found = [charged.all(accountId), charged.all(''), rows.prepareMoney('SELECT spent FROM key_total').all()]
    rows.close()
    const all = [{ charged: most }, { charged: most }]
    expect(found).toMatchObject([all, [{ charged: most }], [{ spent: most }, { spent: most }]])
  })

  test('without any events has no usage', async () => {
    const store = await testStore()
    await store.close()
    downgrade(store.path)
    const again = await testStore({ path: store.path })
    expect(again.reads.reports.usage({ step: 'day', from: 0, to: again.clock.ms })).toEqual([])
  })
})

describe('migrations', () => {
  function files(contents: Record<string, string>): string {
    const dir = join(folder(), 'migrations')
    mkdirSync(dir)
    for (const [name, sql] of Object.entries(contents)) writeFileSync(join(dir, name), sql)
    return dir
  }

  /** The store's own migrations, up to a number. */
  const migrationsBefore = (number: string) => {
    const own = new URL('../../../src/store/engine/migrations/', import.meta.url)
    const old = readdirSync(own).filter(name => name < number)
    return files(Object.fromEntries(old.map(name => [name, readFileSync(new URL(name, own), 'utf8')])))
  }

  const version = (database: ReturnType<typeof connect>) =>
    database.prepare('PRAGMA user_version').get()?.['user_version']

  test('a failing migration is named and rolled back', () => {
    const database = openDatabase(':memory:')
    const dir = files({
      '001-first.sql': 'CREATE TABLE a (x INTEGER) STRICT;',
      '002-broken.sql': 'CREATE TABLE b (x INTEGER) STRICT; INSERT INTO nowhere VALUES (1);',
    })
    expect(() => migrate(database, { folder: dir })).toThrow(
      'Migration 002-broken.sql failed and was rolled back: no such table: nowhere.',
    )
    expect(version(database)).toBe(1)
    expect(database.prepare('SELECT name FROM sqlite_schema').all()).toMatchObject([{ name: 'a' }])
    expect(database.inTransaction()).toBe(false)
  })

  test.each([
    ['a gap', ['001-a.sql', '003-c.sql'], /003-c\.sql: migrations are numbered without gaps; expected 002-name\.sql/],
    ['the same number twice', ['001-a.sql', '001-b.sql'], /001-b\.sql: .* expected 002/],
    ['no number', ['first.sql'], /first\.sql: .* expected 001/],
  ])('%s is refused before anything is applied', (_what, names, message) => {
    const database = openDatabase(':memory:')
    const dir = files(Object.fromEntries(names.map(name => [name, 'CREATE TABLE a (x INTEGER) STRICT;'])))
    expect(() => migrate(database, { folder: dir })).toThrow(message)
    expect(version(database)).toBe(0)
  })

  test('are each applied once, and later ones are added', () => {
    const database = openDatabase(':memory:')
    const first = { '001-first.sql': 'CREATE TABLE a (x INTEGER) STRICT; INSERT INTO a VALUES (1);' }
    expect(migrate(database, { folder: files(first) })).toBe(1)
    expect(migrate(database, { folder: files(first) })).toBe(1)
    expect(migrate(database, { folder: files({ ...first, '002-second.sql': 'UPDATE a SET x = x + 1;' }) })).toBe(2)
    expect(database.prepare('SELECT x FROM a').all()).toMatchObject([{ x: 2 }])
  })

  test('responses in one piece are deleted, and the account has its space back', () => {
    const database = openDatabase(':memory:')
    migrate(database, { folder: migrationsBefore('008') })
    database.exec(`PRAGMA foreign_keys = OFF;
      INSERT INTO response VALUES ('resp_1', 'acc_1', 1, 100);
      INSERT INTO response_box VALUES ('resp_1', x'00');
      PRAGMA foreign_keys = ON`)
    expect(migrate(database)).toBe(NEWEST)
    expect(database.prepare('SELECT id FROM response').all()).toEqual([])
    expect(database.prepare('SELECT bytes FROM response_total').all()).toMatchObject([{ bytes: 0 }])
    expect(database.prepare('SELECT part FROM response_box').all()).toEqual([])
  })

  test('credit can be removed in an existing store, and nothing else may be below 0', () => {
    const path = join(folder(), 'tollgate.db')
    const [database, other] = [openDatabase(path), openDatabase(path)]
    migrate(database, { folder: migrationsBefore('011') })
    const put = (on: typeof database, kind: number) =>
      on.prepare("INSERT INTO event (id, kind, account, amount, at) VALUES ('a', ?, 'acc_1', -1, 1)").run(kind)
    for (const kind of [0, 1, 2]) expect(() => put(other, kind)).toThrow(/CHECK constraint failed/)
    expect(migrate(database)).toBe(NEWEST)
    for (const each of [database, other]) {
      for (const kind of [0, 1]) expect(() => put(each, kind)).toThrow(/CHECK constraint failed/)
    }
    put(other, 2)
    expect(() => database.exec('DELETE FROM event')).toThrow(/append-only/)
    expect(database.prepare('PRAGMA integrity_check').all()).toMatchObject([{ integrity_check: 'ok' }])
    // The text of the schema is protected again.
    expect(() => database.exec("UPDATE sqlite_schema SET sql = '' WHERE name = 'event'")).toThrow(/may not be modified/)
    for (const each of [database, other]) each.close()
  })

  test('a ledger with an unexpected CHECK is not changed', () => {
    const database = openDatabase(':memory:')
    migrate(database, { folder: migrationsBefore('011') })
    const text = () => database.prepare("SELECT sql FROM sqlite_schema WHERE name = 'event'").get()!['sql']
    database.editSchema!(() =>
      database.exec("UPDATE sqlite_schema SET sql = replace(sql, 'amount >= 0', 'amount>=0') WHERE name = 'event'"),
    )
    const was = text()
    expect(() => migrate(database)).toThrow(/Migration 011-money\.sql failed and was rolled back/)
    expect([text(), version(database)]).toEqual([was, 10])
    expect(() => database.exec("UPDATE sqlite_schema SET sql = ''")).toThrow(/may not be modified/)
  })

  test('of the store end at the newest schema', () => {
    const database = openDatabase(':memory:')
    expect(migrate(database)).toBe(NEWEST)
    expect(version(database)).toBe(NEWEST)
  })
})

test('later databases in memory equal the first one, and do not share data', () => {
  const open = () => {
    const database = openDatabase(':memory:')
    return { database, version: migrate(database) }
  }
  const [first, second] = [open(), open()]
  const schemaOf = ({ database }: ReturnType<typeof open>) => ({
    tables: database.prepare('SELECT type, name, sql FROM sqlite_schema ORDER BY name').all(),
    pragmas: ['user_version', 'application_id', 'foreign_keys'].map(name => database.prepare(`PRAGMA ${name}`).get()),
  })
  expect(second.version).toBe(first.version)
  expect(schemaOf(second)).toEqual(schemaOf(first))
  first.database.exec('CREATE TABLE mine (x)')
  const isMine = "SELECT 1 FROM sqlite_schema WHERE name = 'mine'"
  expect(second.database.prepare(isMine).get()).toBeUndefined()
  const third = open()
  expect(third.database.prepare(isMine).get()).toBeUndefined()
  for (const { database } of [first, second, third]) database.close()
})
