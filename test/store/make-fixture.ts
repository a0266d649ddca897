/**
 * Writes a store of this version as SQL into test/store/fixtures. fixtures.engines.test.ts opens each fixture with the current version. Run
 * it once for each migration, before the version with the migration is released. A fixture is never written again.
 *
 *     node test/store/make-fixture.ts                                       sqlite-NNN.sql
 *     node test/store/make-fixture.ts postgres://USER@HOST/EMPTY_DATABASE   postgres-NNN.sql (needs pg_dump)
 *
 * Time and randomness are fixed, so that the same code writes the same text.
 */
import { execFileSync } from 'node:child_process'
import crypto from 'node:crypto'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { syncBuiltinESMExports } from 'node:module'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Database, Value } from '../../src/store/engine/database.ts'
import { seeded } from '../helpers/seeded.ts'
import { aHold, aSettle, SECRET } from './requests.ts'

const random = seeded(1)
// Import the store's modules only below this line: they would keep the real `randomBytes`.
crypto.randomBytes = ((size: number) => Buffer.from(Array.from({ length: size }, () => random() * 256))) as never
syncBuiltinESMExports()
const { openStore } = await import('../../src/store/engine/sqlite.ts')
const { connect } = await import('../../src/store/engine/database.ts')
const { createIds } = await import('../../src/store/ids.ts')

const DAY_MS = 86_400_000
const clock = {
  ms: Date.UTC(2026, 0, 15, 12),
  now() {
    return this.ms
  },
}
const HASH = '$argon2id$v=19$m=19456,t=2,p=1$c2FsdHNhbHQ$aGFzaGhhc2g'

type Store = Awaited<ReturnType<typeof openStore>>

/** A store as a killed gateway leaves it: at least one row in each table that is copied, and two open holds. */
async function fill(store: Store) {
  const alice = await store.createAccount({ name: 'alice', plan: 'pro' })
  const bob = await store.createAccount({ name: 'bob' })
  await store.credit({
    account: alice.id,
    amount: 10n ** 10n,
    reference: 'invoice-1',
    actor: 'test',
    note: "it's paid",
  })
  await store.credit({ account: alice.id, amount: -1000n, reference: 'refund-1', actor: 'test', note: 'a mistake' })
  await store.credit({ account: bob.id, amount: 2n ** 62n, reference: 'invoice-2', actor: 'test' })
  await store.freeze(bob.id, true)
  const { key, token } = await store.createKey({ account: alice.id, name: 'app' })
  const capped = await store.createKey({ account: alice.id, name: 'capped', models: ['m'], spendingCap: 5000n })
  const rotated = await store.rotateKey(capped.key.id, DAY_MS)
  const revoked = await store.createKey({ account: bob.id, name: 'revoked', expiresAt: clock.ms + 365 * DAY_MS })
  await store.revokeKey(revoked.key.id)
  await fillPeople(store, alice.id)
  await store.setBudget({ of: 'account', name: alice.id, every: 'day', budget: { amount: 10n ** 9n, at: ['50%'] } })
  await fillExchanges(store, alice.id, [key.id, capped.key.id])
  await fillAlerts(store)
  const most = { responseBytes: 10_000, accountBytes: 10_000 }
  const parts = { output: 'what was said', input: 'what was asked' }
  const kept = { id: 'resp_1', account: alice.id, parts, keepMs: 3650 * DAY_MS, used: [], most }
  if ((await store.responses.keep(kept)) !== 'kept') throw new Error('the response was not kept')
  const { posted, held } = store.reads.findAccount(alice.id)!
  const money = { posted: String(posted), held: String(held) }
  return { at: clock.ms, account: alice.id, token, capped: rotated.token, revoked: revoked.token, ...money }
}

async function fillPeople(store: Store, account: string): Promise<void> {
  const createdBy = 'cli:test'
  const place = { plan: null, credit: 0n, email: null, personId: null, createdBy, expiresAt: clock.ms + DAY_MS }
  const { token } = await store.people.createLink({
    ...place,
    accountId: account,
    kind: 'invitation',
    role: 'operator',
  })
  const { id } = await store.people.join(token, { email: 'Ada@example.org', password: HASH })
  await store.people.createLink({ ...place, accountId: null, kind: 'invitation', role: 'member', credit: 7n })
  await store.people.createSession(id)
  await store.people.createToken({ name: 'machine', expiresAt: null, createdBy })
}

/** A webhook, an account with low credit, and its alert in delivery. */
async function fillAlerts(store: Store): Promise<void> {
  const claim = () => {
    clock.ms += 1000
    return store.alerts.claim({ name: 'ops', events: ['low_balance'], nowMs: clock.ms, leaseMs: 60_000, most: 9 })
  }
  await claim()
  await store.alerts.lookAtBalances(10n ** 11n, clock.ms)
  await claim()
}

async function fillExchanges(store: Store, accountId: string, keys: readonly string[]): Promise<void> {
  const ids = createIds(clock)
  for (let index = 0; index < 12; index++) {
    clock.ms += 2_000_000
    const [exchange, keyId] = [ids.next('req_'), keys[index % 2]!]
    await store.ledger.hold(
      aHold({
        accountId,
        keyId,
        exchange,
        model: `m${index % 3}`,
        idempotencyKey: `order ${index}`,
        budgets: [BUDGET],
      }),
    )
    if (index % 4 === 1) await store.ledger.checkpoint([{ exchange, amount: 30n, usage: { input: 10, output: index } }])
    // The last two stay open; one of them has a checkpoint.
    if (index === 8 || index === 9) continue
    const outcome = index % 5 === 4 ? 'failed' : 'answered'
    // One settle is late: it corrects the settle of recovery.
    if (index === 5)
      await store.ledger.settle(aSettle({ exchange, amount: 10n, source: 'recovered', outcome: 'failed' }))
    await store.ledger.settle(aSettle({ exchange, outcome, usage: { ...USED, search: index % 3 } }))
  }
}

const BUDGET = { budget: 'account/account day/day/', start: clock.ms, end: null, amount: 700n, marks: [50] }
const USED = { input: 10, cached_input: 4, output: 20, reasoning: 5 }

/** Writes a comment with the values that a test needs, then statements. */
function writeFixture(engine: string, number: number, facts: object, sql: string): void {
  const file = `${engine}-${String(number).padStart(3, '0')}.sql`
  const { version } = JSON.parse(readFileSync(join(import.meta.dirname, '../../package.json'), 'utf8'))
  const head = `-- ${JSON.stringify({ tollgate: version, engine, schema: number, secret: SECRET, ...facts })}\n`
  writeFileSync(join(import.meta.dirname, 'fixtures', file), head + sql)
  console.log(`test/store/fixtures/${file}`)
}

async function writeSqlite(): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'tollgate-fixture-'))
  const path = join(folder, 'tollgate.db')
  const store = await openStore({ url: `sqlite:${path}`, secret: SECRET, clock, writes: 'here' })
  const facts = await fill(store)
  await store.close()
  const database = connect(path, { readOnly: true })
  const [version, application] = ['user_version', 'application_id'].map(name =>
    Number(database.prepare(`PRAGMA ${name}`).get()![name]),
  )
  const made = database.prepare("SELECT type, name, sql FROM sqlite_schema WHERE name NOT LIKE 'sqlite_%'").all()
  const schema = (isTable: boolean) =>
    made.filter(({ type }) => (type === 'table') === isTable).map(({ sql }) => withoutComments(String(sql)))
  const rows = made.filter(({ type }) => type === 'table').flatMap(({ name }) => insertsOf(database, String(name)))
  const pragmas = `PRAGMA application_id = ${application};\nPRAGMA user_version = ${version};\n`
  // Triggers and indexes come after the rows, because a trigger would count them a second time.
  const lines = [...schema(true), ...rows, ...schema(false)]
  writeFixture('sqlite', version!, facts, `${pragmas}${lines.join('\n')}\n`)
  database.close()
  rmSync(folder, { recursive: true })
}

/** Removes the comments of migrations, which do not describe the store; `--` is in no text of the schema. */
function withoutComments(sql: string): string {
  return `${sql
    .split('\n')
    .map(line => line.replace(/\s*--.*/, ''))
    .filter(line => line.trim() !== '')
    .join('\n')};`
}

function insertsOf(database: Database, table: string): string[] {
  const rows = database
    .prepareMoney(`SELECT * FROM "${table}" ORDER BY ${table === 'low_account' ? '1' : '1, 2'}`)
    .all()
  return rows.map(row => `INSERT INTO "${table}" VALUES (${Object.values(row).map(literal).join(', ')});`)
}

function literal(value: Value): string {
  if (value === null) return 'NULL'
  if (typeof value === 'string') return `'${value.replaceAll("'", "''")}'`
  return value instanceof Uint8Array ? `x'${Buffer.from(value).toString('hex')}'` : String(value)
}

async function writePostgres(url: string): Promise<void> {
  const { openPostgres } = await import('../../src/store/engine/postgres/index.ts')
  const folder = mkdtempSync(join(tmpdir(), 'tollgate-fixture-'))
  const store = await openStore({ url, secret: SECRET, clock, writes: 'here', folder })
  const facts = await fill(store)
  await store.close()
  rmSync(folder, { recursive: true })
  const database = openPostgres(url)
  // Replace values of the server's clock and of this machine.
  database.exec("UPDATE tollgate_schema SET applied_at = '2026-01-15T12:00:00Z'")
  database.exec("UPDATE replica SET host = 'fixture', started_at = '2026-01-15T12:00:00Z'")
  const number = Number(database.prepare('SELECT max(version) AS version FROM tollgate_schema').get()!['version'])
  database.close()
  const dump = execFileSync('pg_dump', [
    '--column-inserts',
    '--no-owner',
    '--no-privileges',
    '--no-comments',
    url,
  ]).toString()
  // Omit commands of psql, and settings that other versions of the server do not know.
  const lines = dump
    .split('\n')
    .filter(line => line.trim() !== '' && !/^(--|\\|SET |SELECT pg_catalog.set_config)/.test(line))
  writeFixture('postgres', number, facts, `${lines.join('\n')}\n`)
}

const [url] = process.argv.slice(2)
await (url === undefined ? writeSqlite() : writePostgres(url))
