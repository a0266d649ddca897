/** Copies of a store to the other engine: everything or nothing, and never from a store in use or with open holds. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { expect, onTestFinished, test } from 'vitest'
import { connect } from '../../../src/store/engine/database.ts'
import { openPostgres } from '../../../src/store/engine/postgres/index.ts'
import { WRITE_LOCK } from '../../../src/store/engine/postgres/postgres-schema.ts'
import { openStore } from '../../../src/store/engine/sqlite.ts'
import { copyStore } from '../../../src/store/files/copy-store.ts'
import { takeLock } from '../../../src/store/files/lock.ts'
import { createSpool } from '../../../src/store/money/spool.ts'
import { countsOf } from '../../helpers/counts.ts'
import { describeWith } from '../../helpers/missing.ts'
import { testDatabase, WITHOUT_POSTGRES } from '../../helpers/postgres.ts'
import { seeded } from '../../helpers/seeded.ts'
import { aHold, aSettle, folder, SECRET, UNGUARDED } from '../helpers.ts'
import { makeSample, openSample, type Sample } from '../large.ts'

const counts = countsOf('ledger')

const HASH = '$argon2id$v=19$m=19456,t=2,p=1$c2FsdHNhbHQ$aGFzaGhhc2g'
const clock = { now: () => Date.now() }

/** Rows in every table, with difficult values: large amounts, bytes, and texts with quotes. */
async function sample(entries = 2000): Promise<Sample> {
  const made = await makeSample(folder(), 'copy', 30, entries)
  const store = await openSample(made.path)
  const [account] = made.accounts as [string]
  await store.credit({ account, amount: 2n ** 59n, reference: 'too much', actor: 'test' })
  await store.credit({ account, amount: -(2n ** 59n), reference: 'taken', actor: 'test', note: 'it was too much' })
  await store.credit({ account, amount: 2n ** 60n, reference: `it's "large" \\ ☃`, actor: 'test', note: 'a "note"' })
  const { key } = await store.createKey({ account, name: 'capped', models: ['m'], spendingCap: 2n ** 53n + 1n })
  await store.rotateKey(key.id, 60_000)
  await store.setBudget({ of: 'account', name: account, every: 'day', budget: { amount: 2n ** 62n } })
  const budgets = [{ budget: 'account/account day/day/', start: 0, end: 86_400_000, amount: 200n, marks: [5] }]
  await store.ledger.hold(aHold({ accountId: account, keyId: key.id, exchange: 'req_late', amount: 100n, budgets }))
  await store.ledger.settle(aSettle({ exchange: 'req_late', amount: 40n, source: 'recovered', outcome: 'failed' }))
  await store.ledger.settle(aSettle({ exchange: 'req_late', amount: 10n }))
  await store.freeze(made.accounts[1]!, true)
  const createdBy = 'cli:test'
  const place = { accountId: null, plan: null, credit: 5n, email: null, personId: null, createdBy }
  const { token } = await store.people.createLink({
    ...place,
    kind: 'invitation',
    role: 'operator',
    expiresAt: clock.now() + 3_600_000,
  })
  const { id } = await store.people.join(token, { email: 'Ada@example.org', password: HASH })
  await store.people.createSession(id)
  await store.people.createToken({ name: 'machine', expiresAt: null, createdBy })
  const most = { responseBytes: 1000, accountBytes: 1000 }
  await store.responses.keep({ id: 'resp_1', account, parts: { output: 'said' }, keepMs: 60_000, used: [], most })
  // A known webhook, an account with low credit, and its alert in delivery.
  const claim = () => {
    const nowMs = clock.now() + 1
    return store.alerts.claim({ name: 'ops', events: ['low_balance', 'budget'], nowMs, leaseMs: 60_000, most: 9 })
  }
  await claim()
  const low = await store.createAccount({ name: 'low' })
  await store.credit({ account: low.id, amount: 1n, reference: 'a little', actor: 'test' })
  await store.ledger.hold(aHold({ accountId: low.id, exchange: 'req_low', amount: 1n }))
  await store.ledger.settle(aSettle({ exchange: 'req_low', amount: 1n }))
  await store.alerts.lookAtBalances(1_000n, clock.now())
  await claim()
  await store.close()
  return made
}

/** A copy that must be refused, and its error message. */
type Refusal = readonly [name: string, make: () => Promise<{ from: string; to: string }>, rule: RegExp]

const emptyDatabase = async () => (await testDatabase()).url
const sqlite = (path: string) => `sqlite:${path}`

/** A copy from a damaged store. */
async function fromDamaged(sql: string) {
  const { path } = await makeSample(folder(), 'copy', 2, 20)
  const database = connect(path)
  database.exec(`${UNGUARDED.sqlite}; ${sql}`)
  database.close()
  return { from: sqlite(path), to: await emptyDatabase() }
}

async function toDatabase(prepare: (url: string) => Promise<void> | void) {
  const { path } = await makeSample(folder(), 'copy', 2, 20)
  const to = await emptyDatabase()
  await prepare(to)
  return { from: sqlite(path), to }
}

const inPostgres = (url: string, options: object = {}) =>
  openStore({ url, secret: SECRET, clock, writes: 'here', ...options }).then(store => {
    onTestFinished(() => store.close().catch(() => {}))
    return store
  })

const REFUSED: readonly Refusal[] = [
  [
    'two of the same engine',
    async () => ({ from: sqlite(join(folder(), 'a')), to: sqlite(join(folder(), 'b')) }),
    /^A store is copied from SQLite to PostgreSQL, or from PostgreSQL to SQLite\./,
  ],
  [
    'a missing source',
    async () => ({ from: sqlite(join(folder(), 'none.db')), to: await emptyDatabase() }),
    /^The store .*none\.db does not exist\.$/,
  ],
  [
    'a source in use',
    async () => {
      const { path } = await makeSample(folder(), 'copy', 2, 20)
      const lock = await takeLock(path, clock, 'serve')
      onTestFinished(() => lock.release())
      return { from: sqlite(path), to: await emptyDatabase() }
    },
    /^The store .* is in use by process \d+.*\. Stop that one first/,
  ],
  [
    'a source with open holds',
    async () => {
      const { path, accounts } = await makeSample(folder(), 'copy', 2, 20)
      const store = await openSample(path)
      await store.ledger.hold(aHold({ accountId: accounts[0]!, exchange: 'req_open' }))
      await store.close()
      return { from: sqlite(path), to: await emptyDatabase() }
    },
    /has 1 open hold of a gateway that was killed\. Start the gateway once/,
  ],
  [
    'a source in PostgreSQL with open holds',
    async () => {
      const from = await emptyDatabase()
      const store = await inPostgres(from, { folder: folder() })
      const { id } = await store.createAccount({ name: 'another' })
      await store.credit({ account: id, amount: 10n ** 12n, reference: 'first', actor: 'test' })
      await store.ledger.hold(aHold({ accountId: id, exchange: 'req_open' }))
      await store.close()
      return { from, to: sqlite(join(folder(), 'new.db')) }
    },
    /^The store postgres:.* has 1 open hold of a gateway that was killed\. Start the gateway once/,
  ],
  [
    'a source in PostgreSQL that is in use',
    async () => {
      const from = await emptyDatabase()
      await inPostgres(from, { folder: folder() })
      return { from, to: sqlite(join(folder(), 'new.db')) }
    },
    /^The store postgres:.* is in use by replica 1 on .*\. Stop all gateways/,
  ],
  [
    'a source with waiting charges',
    async () => {
      const { path } = await makeSample(folder(), 'copy', 2, 20)
      createSpool(`${path}.spool`).append(aSettle())
      return { from: sqlite(path), to: await emptyDatabase() }
    },
    /^Charges in .*\.spool are not in the store yet\. Start the gateway once/,
  ],
  [
    'a source that is not sound',
    () => fromDamaged('UPDATE balance SET posted = posted + 1'),
    /is not sound: .* Run: tollgate ledger verify$/,
  ],
  [
    'a source of an older version',
    () => fromDamaged('PRAGMA user_version = 3'),
    /has schema 3, .*Start the gateway once/,
  ],
  [
    'a source of a newer version',
    () => fromDamaged('PRAGMA user_version = 999'),
    /has schema 999, and this Tollgate knows/,
  ],
  [
    'a target that is in use',
    () => toDatabase(async url => void (await inPostgres(url, { folder: folder() }))),
    /^The store postgres:.* is in use by replica 1 on .*\. Stop all gateways/,
  ],
  [
    'a file as target on which a gateway starts',
    async () => {
      const to = join(folder(), 'new.db')
      const lock = await takeLock(to, clock, 'serve')
      onTestFinished(() => lock.release())
      const from = await emptyDatabase()
      await (await inPostgres(from)).close()
      return { from, to: sqlite(to) }
    },
    /^The store .*new\.db is in use by process \d+/,
  ],
  [
    'a target that is not empty',
    () => toDatabase(async url => void (await (await inPostgres(url)).createAccount({ name: 'another' }))),
    /^The store postgres:.* is not empty: the table account has rows\./,
  ],
  [
    "a target with another program's tables",
    () =>
      toDatabase(url => {
        const database = openPostgres(url)
        database.exec('CREATE TABLE theirs (i BIGINT)')
        database.close()
      }),
    /has tables of another program \(theirs\)/,
  ],
  [
    'a missing target',
    async () => ({ ...(await toDatabase(() => {})), to: 'postgres://postgres:secret-word@127.0.0.1:1/none' }),
    /^The store postgres:\/\/postgres@127\.0\.0\.1:1\/none cannot be reached: /,
  ],
]

/** All rows of a store except those about the use of one database. */
function rowsOf(path: string): Record<string, unknown[]> {
  const database = connect(path, { readOnly: true })
  const tables = database.prepare("SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name").all()
  const rows = tables.map(({ name }) => {
    const only = name === 'meta' ? "WHERE name = 'secret_check'" : ''
    return [
      String(name),
      database.prepareMoney(`SELECT * FROM ${name} ${only} ORDER BY ${name === 'low_account' ? '1' : '1, 2'}`).all(),
    ]
  })
  database.close()
  return Object.fromEntries(rows)
}

describeWith(WITHOUT_POSTGRES, 'a copy', () => {
  test.each(REFUSED)('is refused: %s', async (_, make, rule) => {
    const { from, to } = await make()
    const error = (await copyStore({ from, to, clock }).catch((error: Error) => error)) as Error
    expect(error.message).toMatch(rule)
    expect(error.message).not.toContain('secret-word')
  })

  // SQLite would apply the log of a former store, Tollgate would replay its spool, and a start would report lost commits.
  test.each(['', '-wal', '.commits', '.spool'])(
    'to an existing file is refused, and the file is not changed: *%s',
    async end => {
      const from = (await testDatabase()).url
      await (await inPostgres(from)).close()
      const to = join(folder(), 'there.db')
      writeFileSync(to + end, 'x')
      await expect(copyStore({ from, to: sqlite(to), clock })).rejects.toThrow(
        `There is a file at ${to}${end} already.`,
      )
      expect(readFileSync(to + end, 'utf8')).toBe('x')
      if (end !== '') expect(existsSync(to)).toBe(false)
    },
  )

  test('to a missing folder makes it', async () => {
    const from = (await testDatabase()).url
    await (await inPostgres(from)).close()
    const to = join(folder(), 'new', 'there.db')
    await copyStore({ from, to: sqlite(to), clock })
    expect(existsSync(to)).toBe(true)
  })

  test('reports the process it waits for before it can make its tables', async () => {
    const { path } = await makeSample(folder(), 'copy', 2, 20)
    const url = await emptyDatabase()
    const holder = openPostgres(url)
    holder.prepare('SELECT pg_advisory_lock(?)').get(WRITE_LOCK + 1n)
    const said: string[] = []
    const onWait = (sentence: string) => {
      said.push(sentence)
      holder.close()
    }
    await copyStore({ from: sqlite(path), to: url, clock, onWait })
    expect(said).toEqual([
      expect.stringMatching(/^Waiting for process \d+ of the server \(tollgate\), which is migrating/),
    ])
  })

  test('there and back has every row of every table, and the key still works', async () => {
    const { path, token, accounts } = await sample()
    const before = rowsOf(path)
    expect(Object.keys(before).filter(name => before[name]!.length === 0)).toEqual([])
    const url = await emptyDatabase()
    const seen = new Set<string>()
    const report = await copyStore({ from: sqlite(path), to: url, clock, onProgress: what => void seen.add(what) })
    expect(report.tables.find(({ table }) => table === 'event')!.rows).toBe(before['event']!.length)
    expect([...seen]).toEqual(['Verifying', 'Copying', 'Comparing'])

    const back = join(folder(), 'back.db')
    await copyStore({ from: url, to: sqlite(back), clock })
    expect(rowsOf(back)).toEqual(before)
    expect(existsSync(`${back}.copying`)).toBe(false)

    const store = await inPostgres(url, { folder: folder() })
    expect(await store.keys.find(token, clock.now())).toMatchObject({ account: { id: accounts[0] } })
    const { posted } = store.reads.findAccount(accounts[0]!)!
    await store.ledger.hold(aHold({ accountId: accounts[0]!, exchange: 'req_new' }))
    await store.ledger.settle(aSettle({ exchange: 'req_new' }))
    expect(store.reads.findAccount(accounts[0]!)!.posted).toBe(posted - aSettle().amount)
    expect(store.reads.verify().violations).toEqual([])
  })

  test('of a database on which a gateway starts meanwhile is refused at the end', async () => {
    const { path } = await sample()
    const from = await emptyDatabase()
    await copyStore({ from: sqlite(path), to: from, clock })
    const gateway = openPostgres(from)
    onTestFinished(() => gateway.close())
    let starts = 0
    const onProgress = (doing: string) => {
      if (doing !== 'Copying' || starts++ > 0) return
      gateway.exec(
        "INSERT INTO replica (host, version, lease_until, open_from) VALUES ('there', '1', now() + interval '1 minute', '')",
      )
    }
    const to = join(folder(), 'new.db')
    await expect(copyStore({ from, to: sqlite(to), clock, onProgress })).rejects.toThrow(
      /^The store postgres:.* is in use by replica \d+ on there\. Stop all gateways/,
    )
    expect([starts > 0, existsSync(to), existsSync(`${to}.copying`)]).toEqual([true, false, false])
  })

  test('that is killed leaves the target empty, and the next one is complete', async () => {
    const { path } = await sample(counts(4000, 40_000))
    const url = await emptyDatabase()
    const seed = Math.floor(Math.random() * 2 ** 32)
    console.info(`killed by the seed ${seed}`)
    const random = seeded(seed)
    const program = fileURLToPath(new URL('../../../src/cli/tollgate.js', import.meta.url))
    const args = [program, 'store', 'copy', '--from', sqlite(path), '--to', '${TO}']
    const look = openPostgres(url)
    onTestFinished(() => look.close())
    let killed = 0
    let isCopied = false
    for (let round = 0; round < counts(3, 30); round++) {
      const child = spawn(process.execPath, args, { env: { ...process.env, TO: url }, stdio: 'ignore' })
      const ended = once(child, 'exit')
      const isThere = "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND query LIKE 'INSERT INTO%'"
      // The command is killed some time after it has begun to write.
      while (child.exitCode === null && look.prepare(isThere).get() === undefined) await wait(5)
      await wait(random() * 50)
      child.kill('SIGKILL')
      await ended
      if (child.signalCode !== 'SIGKILL') {
        isCopied = child.exitCode === 0
        break
      }
      killed++
      // The server notices when it writes to the connection.
      await expect.poll(() => look.prepare('SELECT count(*) AS n FROM account').get()).toEqual({ n: 0 })
    }
    expect(killed).toBeGreaterThan(0)
    // The next copy uses the same database. No copy is needed if an earlier one was faster than its kill.
    if (!isCopied) await copyStore({ from: sqlite(path), to: url, clock })
    const back = join(folder(), 'back.db')
    await copyStore({ from: url, to: sqlite(back), clock })
    expect(rowsOf(back)).toEqual(rowsOf(path))
  })
})
