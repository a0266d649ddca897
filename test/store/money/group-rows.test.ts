/** Rows that a commit group reads and writes once: the number of statements, and the state after a rollback. */
import { describe, expect, test } from 'vitest'
import { type Database, openDatabase } from '../../../src/store/engine/database.ts'
import { migrate } from '../../../src/store/engine/migrate.ts'
import { GroupRows } from '../../../src/store/money/group-rows.ts'
import { holdRecord, settleRecord } from '../../../src/store/money/ledger-fields.ts'
import { createWriter } from '../../../src/store/writer.ts'
import { hookStatement } from '../../helpers/transactions.ts'
import { aHold, aSettle, fund, testClock, testStore } from '../helpers.ts'

/** A table of one column; `log` has the reads and writes. */
function table(values: Readonly<Record<string, number>>) {
  const log: string[] = []
  const rows = new GroupRows<{ value: number }>({
    read(name) {
      log.push(`read ${name}`)
      const value = values[name]
      return value === undefined ? undefined : { value }
    },
    write: (name, { value }) => void log.push(`write ${name} ${value}`),
  })
  return { rows, log }
}

describe('rows of a group', () => {
  test('dropped rows are not written, and are read again', () => {
    const { rows, log } = table({ a: 1 })
    const row = rows.find('a')!
    row.value = 2
    rows.change('a', row)
    rows.forget()
    rows.flush()
    expect(rows.find('a')).toEqual({ value: 1 })
    expect(log).toEqual(['read a', 'read a'])
  })

  test('a missing row is read each time, until it is created', () => {
    const { rows, log } = table({})
    expect([rows.find('a'), rows.find('a')]).toEqual([undefined, undefined])
    rows.change('a', { value: 3 })
    expect(rows.find('a')).toEqual({ value: 3 })
    rows.flush()
    expect(log).toEqual(['read a', 'read a', 'write a 3'])
  })

  test('each row is read once, and written once if it has changed', () => {
    const { rows, log } = table({ a: 1, b: 1 })
    for (let times = 3; times > 0; times--) {
      rows.find('b')
      const row = rows.find('a')!
      row.value++
      rows.change('a', row)
    }
    rows.flush()
    rows.flush()
    expect(log).toEqual(['read b', 'read a', 'write a 4'])
  })

  test('written rows stay in memory', () => {
    const { rows, log } = table({ a: 1 })
    const row = rows.find('a')!
    row.value = 2
    rows.change('a', row)
    rows.flush()
    expect(rows.find('a')).toEqual({ value: 2 })
    expect(log).toEqual(['read a', 'write a 2'])
  })

  test('too many rows are dropped from memory', () => {
    const { rows, log } = table({ a: 1 })
    rows.find('a')
    for (let at = 0; at < 10_000; at++) rows.change(`made ${at}`, { value: at })
    rows.flush()
    rows.find('a')
    expect(log.filter(entry => entry === 'read a')).toHaveLength(2)
  })
})

/** A writer in memory with one account. `commit` runs a group and returns its number of statements. */
function countedWriter() {
  let statements = 0
  let commit = () => {}
  const plain = openDatabase(':memory:')
  migrate(plain)
  const call = <Result>(run: () => Result) => {
    statements++
    return run()
  }
  const database: Database = {
    ...plain,
    prepare: sql => hookStatement(plain.prepare(sql), call),
    prepareMoney: sql => hookStatement(plain.prepareMoney(sql), call),
  }
  const writer = createWriter(database, testClock(), run => {
    commit = run
  })
  return {
    writer,
    run() {
      statements = 0
      commit()
      return statements
    },
  }
}

const REQUESTS = 64

/** 64 requests, in groups of 32. */
async function statementsOf(
  { writer, run }: ReturnType<typeof countedWriter>,
  whose: (at: number) => object,
  name = 'req',
) {
  let statements = 0
  const numbers = Array.from({ length: REQUESTS }, (_, at) => at)
  for (const half of [numbers.slice(0, 32), numbers.slice(32)]) {
    const requests = half.map(at => aHold({ exchange: `${name}_${100 + at}`, accountId: 'acct_0', ...whose(at) }))
    const holds = requests.map(request => writer.op('hold', holdRecord(request)))
    statements += run()
    const settles = requests.map(({ exchange }) => writer.op('settle', settleRecord(aSettle({ exchange }))))
    statements += run()
    expect((await Promise.all(holds)).every(({ held }) => held)).toBe(true)
    expect(new Set(await Promise.all(settles))).toEqual(new Set(['settled']))
  }
  return statements / REQUESTS
}

async function fundedWriter(accounts: number) {
  const made = countedWriter()
  const ready: Promise<unknown>[] = []
  for (let at = 0; at < accounts; at++) {
    const id = `acct_${at}`
    ready.push(made.writer.op('createAccount', { id, name: `customer ${at}`, plan: 'standard' }))
    ready.push(made.writer.op('credit', { account: id, amount: 1_000_000n, reference: id, actor: 'test' }))
  }
  made.run()
  await Promise.all(ready)
  return made
}

describe('statements of a request', () => {
  test.each([0, 3])('of one account: at most four; with budgets: %i', async budgets => {
    const made = await fundedWriter(1)
    const names = ['account', 'key', 'team'].slice(0, budgets)
    const chain = names.map(budget => ({ budget, start: 0, end: null, amount: 1_000_000n, marks: [80, 100] }))
    expect(await statementsOf(made, () => ({ budgets: chain }))).toBeLessThanOrEqual(4)
  })

  test('of many accounts: one for each row that it writes, once the rows are in memory', async () => {
    const made = await fundedWriter(REQUESTS)
    const whose = (at: number) => ({ accountId: `acct_${at}`, keyId: `key_${at}` })
    await statementsOf(made, whose)
    // Two events, the balance and the key twice, the usage of an hour and of a day.
    expect(Math.floor(await statementsOf(made, whose, 'req_again'))).toBe(8)
  })
})

describe('a change by another connection', () => {
  test('is seen by the next group, which does not overwrite it', async () => {
    const store = await testStore({ writes: 'here' })
    const accountId = await fund(store, 1000n)
    const hold = (exchange: string) => store.ledger.hold(aHold({ accountId, exchange }))
    await hold('req_1')
    const other = store.connect()
    other.exec('UPDATE balance SET posted = 250')
    other.exec('UPDATE key_total SET cap = 240, ceiling = 240')
    expect(await hold('req_2')).toEqual({ held: true, available: 50n })
    expect(await hold('req_3')).toEqual({ held: false, reason: 'short', of: 'account', available: 50n, onHold: 200n })
    other.exec('UPDATE balance SET posted = 1000')
    expect(await hold('req_3')).toEqual({ held: false, reason: 'short', of: 'key', available: 40n, onHold: 200n })
    other.close()
  })
})

describe('a row that cannot be written', () => {
  test('fails the requests that change it, and no others of the group', async () => {
    const store = await testStore({ writes: 'here' })
    const accountId = await fund(store, 1000n)
    const hold = (exchange: string, keyId: string) => store.ledger.hold(aHold({ accountId, exchange, keyId }))
    await hold('req_1', 'key_bad')
    store.connect().exec(`CREATE TRIGGER spoiled BEFORE UPDATE ON key_total WHEN NEW.key = 'key_bad'
      BEGIN SELECT RAISE(ABORT, 'this row is spoiled'); END`)
    const group = [hold('req_2', 'key_good'), hold('req_3', 'key_bad'), hold('req_4', 'key_good')]
    const results = await Promise.allSettled(group)
    expect(results.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'fulfilled'])
    expect(store.reads.findAccount('alice')).toMatchObject({ held: 300n })
    expect(store.openHolds()).toBe(3)
    expect(store.reads.verify().violations).toEqual([])
  })
})
