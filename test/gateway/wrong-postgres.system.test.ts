/** Databases that a gateway cannot use: one problem, with its line in gateway.yaml and the remedy, and nothing is started. */
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { systemClock } from '../../src/common/clock.ts'
import { checkPostgres, openPostgres } from '../../src/store/engine/postgres/index.ts'
import { openStore } from '../../src/store/engine/sqlite.ts'
import { copyStore } from '../../src/store/files/copy-store.ts'
import { temporaryDirectory, tollgate, writeConfiguration } from '../helpers/gateway.ts'
import { FIVE_STEPS, PRICE } from '../helpers/in-process.ts'
import { describeWith, testWith } from '../helpers/missing.ts'
import { startPgbouncer, WITHOUT_PGBOUNCER } from '../helpers/pgbouncer.ts'
import { LOCKED, type TestDatabase, testDatabase, testServer, WITHOUT_POSTGRES } from '../helpers/postgres.ts'
import { aHold, aSettle, fund, SECRET } from '../store/helpers.ts'
import { makeSample } from '../store/large.ts'

const SCHEMA = 'CREATE TABLE tollgate_schema (version BIGINT, file TEXT)'

interface Mistake {
  readonly name: string
  /** Creates the database; returns the address. */
  url(database: TestDatabase, at: string): Promise<string> | string
  readonly says: RegExp
}

const MISTAKES: readonly Mistake[] = [
  {
    name: 'no server listens',
    url: () => 'postgres://u:hunter2@127.0.0.1:1/db',
    says: /store: The store postgres:\/\/u@127\.0\.0\.1:1\/db cannot be reached: .*\. Start the server, or correct `store`/,
  },
  {
    name: 'a wrong password',
    url: (_database, at) => `postgres://${LOCKED.user}:hunter2@${at}/postgres`,
    says: /store: The store postgres:\/\/locked@.* refuses the user or the password: .*\. Correct `store`/,
  },
  {
    name: 'no such database',
    url: (_database, at) => `postgres://postgres:hunter2@${at}/nowhere`,
    says: /store: The store .*\/nowhere does not exist: .*\. Create it: createdb NAME/,
  },
  {
    name: 'a server that is too old',
    // The version of a server is fixed, but a function of the same name can shadow it.
    async url({ run, name, url }) {
      await run(`CREATE FUNCTION public.current_setting(text) RETURNS text LANGUAGE sql AS
        $$ SELECT CASE $1 WHEN 'server_version_num' THEN '130021' ELSE pg_catalog.current_setting($1, false) END $$`)
      await run(`ALTER DATABASE ${name} SET search_path = public, pg_catalog`)
      return url
    },
    says: /store: The server of postgres:.* is PostgreSQL 13\. Use PostgreSQL 14 or newer/,
  },
  {
    name: 'a server that is read-only',
    async url({ run, name, url }) {
      await run(`ALTER DATABASE ${name} SET default_transaction_read_only = on`)
      return url
    },
    says: /store: The database postgres:.* is read-only\. Name the primary server, and a role that may write/,
  },
  {
    name: 'a schema of a newer version',
    async url({ run, url }) {
      await run(`${SCHEMA}; INSERT INTO tollgate_schema VALUES (99, '099-more.sql')`)
      return url
    },
    says: /store: This store has schema 99, and this Tollgate knows schemas up to \d+\. Run the newer version that wrote it/,
  },
  {
    name: 'tables of another program',
    async url({ run, url }) {
      await run('CREATE TABLE customer (id BIGINT)')
      return url
    },
    says: /store: The database has tables of another program \(customer\)\. Create a database for Tollgate alone: createdb/,
  },
  {
    name: 'no database in the address',
    url: (_database, at) => `postgres://u:hunter2@${at}`,
    says: /postgres: needs a host and a database; write postgres:\/\/USER@HOST\/DATABASE/,
  },
]

async function serve(store: string, secret?: string) {
  const dir = await temporaryDirectory()
  const yaml = {
    version: 1,
    listen: '127.0.0.1:0',
    store: '${DATABASE_URL}',
    ...(secret === undefined ? {} : { secret: '${SECRET}' }),
    providers: { p: { dialect: 'demo' } },
    models: { m: { targets: [{ provider: 'p', model: 'm' }], price: PRICE, context: 8192, max_output: 1000 } },
    routes: [{ path: '/v1/chat/completions', policy: 'main' }],
  }
  const config = await writeConfiguration(dir, { yaml, policies: { main: { steps: FIVE_STEPS } } })
  const { code, stdout, stderr } = await tollgate(['serve'], {
    config,
    env: { DATABASE_URL: store, SECRET: secret ?? '' },
  })
  return { dir, code, said: stdout + stderr }
}

describeWith(WITHOUT_POSTGRES, 'a gateway does not start on', () => {
  test.each(MISTAKES)('$name', async ({ url, says }) => {
    const [database, { port }] = [await testDatabase(), await testServer()]
    const store = await url(database, `127.0.0.1:${port}`)
    const tables = "SELECT table_name FROM information_schema.tables WHERE table_schema = 'public'"
    const before = await database.run(tables)
    const { dir, code, said } = await serve(store)
    expect(code).toBe(1)
    expect(said.match(/gateway\.yaml:\d+:\d+: .*/g), said).toEqual([
      expect.stringMatching(new RegExp(`^gateway\\.yaml:3:\\d+: ${says.source}`)),
    ])
    expect(said).not.toContain('hunter2')
    expect(said).not.toContain('listening')
    expect(existsSync(join(dir, '.tollgate'))).toBe(false)
    expect(await database.run(tables)).toEqual(before)
  })

  testWith(WITHOUT_PGBOUNCER, 'a pooler without sessions; one with sessions works like the server', async () => {
    const database = await testDatabase()
    const pooled = await startPgbouncer(database, 'transaction')
    const { code, said } = await serve(pooled)
    expect(code).toBe(1)
    expect(said.match(/gateway\.yaml:\d+:\d+: .*/g), said).toEqual([
      expect.stringMatching(
        /:3:\d+: store: There is a pooler in transaction or statement mode at postgres:.*session mode of the pooler/,
      ),
    ])
    const command = openStore({ url: pooled, secret: SECRET, clock: systemClock, writes: 'here' })
    await expect(command).rejects.toThrow('Connect to the server directly')
    const { path } = await makeSample(await temporaryDirectory(), 'copy', 1, 1)
    const copy = copyStore({ from: `sqlite:${path}`, to: pooled, clock: systemClock })
    await expect(copy).rejects.toThrow('Connect to the server directly')
    const url = await startPgbouncer(database, 'session')
    const store = await openStore({ url, secret: SECRET, clock: systemClock, folder: await temporaryDirectory() })
    const account = await fund(store, 1000n)
    expect(await store.ledger.hold(aHold({ accountId: account, amount: 400n }))).toMatchObject({ held: true })
    expect(await store.ledger.settle(aSettle({ amount: 300n }))).toBe('settled')
    expect(store.reads.findAccount(account)).toMatchObject({ posted: 700n, held: 0n })
    await store.close()
  })

  testWith(WITHOUT_PGBOUNCER, 'a pooler without sessions, in any order of its connections', async () => {
    const database = await testDatabase()
    const inTurn = await startPgbouncer(database, 'transaction', ['server_round_robin = 1'])
    // It has two connections to the server.
    const clients = [openPostgres(inTurn), openPostgres(inTurn)]
    for (const statement of ['BEGIN', 'SELECT 1', 'COMMIT']) for (const client of clients) client.exec(statement)
    const cleaned = await startPgbouncer(database, 'transaction', ['server_reset_query_always = 1'])
    for (const url of [inTurn, cleaned]) expect(() => checkPostgres(url)).toThrow('Connect to the server directly')
    for (const client of clients) client.close()
  })

  test('a database that was created with another secret', async () => {
    const { url, run } = await testDatabase()
    const first = {
      url,
      secret: 'the first one, of more than 32 characters',
      clock: systemClock,
      writes: 'here',
    } as const
    await (await openStore(first)).close()
    const { code, said } = await serve(url, 'hunter2 and more than 32 characters')
    expect(code).toBe(1)
    expect(said.match(/gateway\.yaml:\d+:\d+: .*/g), said).toEqual([
      expect.stringMatching(
        /^gateway\.yaml:\d+:\d+: secret: The keys of .* were made with another secret than `secret:` of gateway\.yaml\. Restore the secret that was used/,
      ),
    ])
    expect(said).not.toContain('hunter2')
    expect(await run('SELECT id FROM replica')).toEqual([])
  })
})
