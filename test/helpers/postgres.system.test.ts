/** The server that the store's tests share. */
import { readFileSync } from 'node:fs'
import { describe, expect, onTestFinished, test } from 'vitest'
import { describeWith } from './missing.ts'
import { storeDatabase, testDatabase, testServer, WITHOUT_POSTGRES } from './postgres.ts'

describeWith(WITHOUT_POSTGRES, 'the server of a test run', () => {
  test('is started once, by an ordinary user', async () => {
    const [first, second] = await Promise.all([testServer(), testServer()])
    expect(second).toEqual(first)
    expect(/^Uid:\t(\d+)/m.exec(readFileSync(`/proc/${first.pid}/status`, 'utf8'))?.[1]).not.toBe('0')
  })

  test('each test has a database of its own; a cut ends its connections and no others', async () => {
    const [one, other] = [await testDatabase(), await testDatabase()]
    expect(one.name).not.toBe(other.name)
    const { Client } = await import('pg')
    const ended = [one, other].map(({ url }) => {
      const client = new Client(url)
      onTestFinished(() => client.end())
      const end = new Promise<string>(resolve => client.on('error', error => resolve(error.message)))
      return client.connect().then(() => ({ client, end }))
    })
    const [cut, kept] = [await ended[0]!, await ended[1]!]
    await one.cut()
    expect(await cut.end).toContain('terminating connection')
    expect((await kept.client.query('SELECT 1 AS one')).rows).toEqual([{ one: 1 }])
  })

  describe('a database with the tables of a store', () => {
    const ROWS =
      'SELECT (SELECT count(*)::int FROM account) AS accounts, (SELECT count(*)::int FROM replica) AS replicas'
    const ADD = `INSERT INTO account (id, name, plan, created_at) VALUES ('one', 'one', 'default', 0);
      INSERT INTO replica (host, version, lease_until, open_from) VALUES ('one', '1', now(), '')`
    const used: string[] = []

    test('is filled by one test', async () => {
      const { name, run } = await storeDatabase()
      used.push(name)
      await run(ADD)
      expect(await run(ROWS)).toEqual([{ accounts: 1, replicas: 1 }])
    })

    test('is there for the next one, empty and with its first numbers, which changes a table', async () => {
      const { name, run } = await storeDatabase()
      expect([name]).toEqual(used)
      expect(await run(ROWS)).toEqual([{ accounts: 0, replicas: 0 }])
      await run(ADD)
      expect(await run('SELECT id::int FROM replica')).toEqual([{ id: 1 }])
      await run('ALTER TABLE account DISABLE TRIGGER ALL')
    })

    test('is not there for the one after that', async () => {
      const { name, run } = await storeDatabase()
      expect(used).not.toContain(name)
      expect(await run(ROWS)).toEqual([{ accounts: 0, replicas: 0 }])
    })
  })
})
