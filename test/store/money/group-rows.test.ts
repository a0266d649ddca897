/** Rows that a commit group reads and writes once: how many statements that leaves, and what a rollback leaves of them. */
import { describe, expect, test } from 'vitest'
import { type Database, openDatabase } from '../../../src/store/engine/database.ts'
import { migrate } from '../../../src/store/engine/migrate.ts'
import { GroupRows } from '../../../src/store/money/group-rows.ts'
import { holdRecord, settleRecord } from '../../../src/store/money/ledger-fields.ts'
import { createWriter } from '../../../src/store/writer.ts'
import { hookStatement } from '../../helpers/transactions.ts'
import { aHold, aSettle, testClock } from '../helpers.ts'

/** A table of one column; `log` says who read and wrote. */
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
  test('what was forgotten is not written, and is read again', () => {
    const { rows, log } = table({ a: 1 })
    const row = rows.find('a')!
    row.value = 2
    rows.change('a', row)
    rows.forget()
    rows.flush()
    expect(rows.find('a')).toEqual({ value: 1 })
    expect(log).toEqual(['read a', 'read a'])
  })

  test('one that is not there is read each time, until it is made', () => {
    const { rows, log } = table({})
    expect([rows.find('a'), rows.find('a')]).toEqual([undefined, undefined])
    rows.change('a', { value: 3 })
    expect(rows.find('a')).toEqual({ value: 3 })
    rows.flush()
    expect(log).toEqual(['read a', 'read a', 'write a 3'])
  })

  test('each is read once and written once, and only what has changed', () => {
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
})

/** A writer in memory with one account, a group of which is run by `commit`, and how many statements that took. */
function counted() {
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

test.each([0, 3])('64 requests in groups of 32 take at most four statements each; budgets: %i', async budgets => {
  const { writer, run } = counted()
  const id = 'acct_1'
  const grant = { account: id, amount: 1_000_000n, reference: 'first', actor: 'test' }
  const setup: Promise<unknown>[] = [writer.op('createAccount', { id, name: 'alice', plan: 'standard' }), writer.op('credit', grant)]
  for (const period of (['life', 'day', 'month'] as const).slice(0, budgets)) {
    setup.push(writer.op('setBudget', { id: `bud_${period}`, of: 'account', name: id, period, amount: 1_000_000n }))
  }
  run()
  await Promise.all(setup)
  let statements = 0
  const exchanges = Array.from({ length: 64 }, (_, at) => `req_${100 + at}`)
  for (const half of [exchanges.slice(0, 32), exchanges.slice(32)]) {
    const holds = half.map(exchange => writer.op('hold', holdRecord(aHold({ exchange, accountId: id }))))
    statements += run()
    const settles = half.map(exchange => writer.op('settle', settleRecord(aSettle({ exchange }))))
    statements += run()
    expect((await Promise.all(holds)).every(({ held }) => held)).toBe(true)
    expect(new Set(await Promise.all(settles))).toEqual(new Set(['settled']))
  }
  expect(statements / 64).toBeLessThanOrEqual(4)
})
