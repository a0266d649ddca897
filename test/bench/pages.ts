/**
 * The latency of the dashboard's pages with a large store: every reading route of the account API, over HTTP. The callers are an
 * ordinary account, the largest ones and an operator. It also prints the query plans.
 *
 *     node test/bench/pages.ts [ENTRIES] [ACCOUNTS] [FOLDER]        (1000000 10000)
 *
 * Exchanges are spread over 90 days, and one account has a tenth of them. Another account has the largest possible usage: 100 keys
 * used each of five models in every hour of 31 days. Reports that are too large for one answer are refused, and refusals must be
 * fast too. With FOLDER, the store is kept there and reused.
 */
import { existsSync, mkdtempSync, rmSync } from 'node:fs'
import { createServer } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import Koa from 'koa'
import { createApi } from '../../src/api/server.ts'
import { createJsonReader, listen } from '../../src/app.ts'
import { connect } from '../../src/store/engine/database.ts'
import { openStore } from '../../src/store/engine/sqlite.ts'
import { createIds } from '../../src/store/ids.ts'
import type { LocalStore } from '../../src/store/local-store.ts'
import { createReports } from '../../src/store/money/reports-service.ts'
import { createAccountReader } from '../../src/store/people/accounts.ts'
import { summary } from '../store/paced.ts'
import { aHold, aSettle, SECRET } from '../store/requests.ts'

const ENTRIES = Number(process.argv[2] ?? 1_000_000)
const ACCOUNTS = Number(process.argv[3] ?? 10_000)
const KEPT = process.argv[4]
const DAYS = 90
const DAY_MS = 86_400_000
const ROUNDS = 30
const IN_FLIGHT = 512
const AIM_MS = 50
const LARGEST_BYTES = 1_000_000
const LARGE = 'large@example.com'
const ORDINARY = 'ordinary@example.com'
const OPERATOR = 'operator@example.com'
const HEAVY = 'heavy@example.com'
const HEAVY_DAYS = 31
const HEAVY_KEYS = 100
const HEAVY_MODELS = 5
/** Never verified: the store creates the sessions. */
const PASSWORD = '$argon2id$v=19$m=8,t=1,p=1$c2FsdHNhbHQ$aGFzaGhhc2hoYXNo'

const startedAt = Date.now()
const clock = { ms: startedAt - DAYS * DAY_MS, now: () => clock.ms }
const folder = KEPT ?? mkdtempSync(join(tmpdir(), 'tollgate-pages-'))
const path = join(folder, 'tollgate.db')
const exists = existsSync(path)
const store = await openStore({ url: `sqlite:${path}`, secret: SECRET, clock, writes: 'here' })
try {
  if (!exists) await fill(store)
  if (!store.reads.people.hasOperator()) await addPeople(store)
  clock.ms = startedAt
  if (!store.reads.people.findByEmail(HEAVY)) await addHeavy(store)
  await measure(store)
  plans()
} finally {
  await store.close()
  if (KEPT === undefined) rmSync(folder, { recursive: true })
}

/** Creates accounts, keys and exchanges with the store's own functions, so that the rows are those of a gateway. */
async function fill(store: LocalStore): Promise<void> {
  const ids = createIds(clock)
  const accounts: { id: string; keys: string[] }[] = []
  for (let at = 0; at < ACCOUNTS; at += IN_FLIGHT) {
    const names = Array.from({ length: Math.min(IN_FLIGHT, ACCOUNTS - at) }, (_, index) => at + index)
    accounts.push(...(await Promise.all(names.map(number => anAccount(store, number)))))
  }
  const exchanges = Math.floor(ENTRIES / 2)
  for (let at = 0; at < exchanges; at += IN_FLIGHT) {
    const numbers = Array.from({ length: Math.min(IN_FLIGHT, exchanges - at) }, (_, index) => at + index)
    await Promise.all(
      numbers.map(async number => {
        clock.ms = startedAt - DAYS * DAY_MS + Math.floor((number / exchanges) * DAYS * DAY_MS)
        const { id, keys } = accounts[number % 10 === 0 ? 0 : (number * 7919) % accounts.length]!
        const exchange = ids.next('req_')
        const keyId = keys[number % keys.length]!
        await store.ledger.hold(aHold({ exchange, accountId: id, keyId, model: `model-${number % 5}` }))
        await store.ledger.settle(aSettle({ exchange, outcome: number % 50 === 0 ? 'failed' : 'answered' }))
      }),
    )
    if (process.stderr.isTTY) process.stderr.write(`\r${at} of ${exchanges} exchanges`)
  }
}

async function addPeople(store: LocalStore): Promise<void> {
  const person = (email: string, account: string, role: 'member' | 'operator') =>
    store.people.create({
      email,
      password: PASSWORD,
      role,
      membership: { accountId: store.reads.findAccount(account)!.id },
    })
  await person(LARGE, 'customer 0', 'member')
  await person(ORDINARY, 'customer 1', 'member')
  await person(OPERATOR, 'customer 2', 'operator')
}

async function anAccount(store: LocalStore, number: number): Promise<{ id: string; keys: string[] }> {
  const { id } = await store.createAccount({ name: `customer ${number}`, plan: number % 3 === 0 ? 'free' : 'default' })
  await store.credit({ account: id, amount: 10n ** 12n, reference: `first ${number}`, actor: 'bench' })
  const keys = await Promise.all(
    Array.from({ length: number === 0 ? 20 : 2 }, async (_, index) => {
      const { key } = await store.createKey({ account: id, name: `key ${index}` })
      return key.id
    }),
  )
  return { id, keys }
}

/** Writes usage directly, because the ledger would need a month for it. The account has few entries and receipts. */
async function addHeavy(store: LocalStore): Promise<void> {
  const membership = { name: 'heavy', plan: 'default', credit: 10n ** 12n }
  const { accountId } = await store.people.create({ email: HEAVY, password: PASSWORD, role: 'member', membership })
  const keys: string[] = []
  for (let index = 0; index < HEAVY_KEYS; index++) {
    keys.push((await store.createKey({ account: accountId, name: `key ${index}` })).key.id)
  }
  const database = connect(path, { busyMs: 10_000 })
  const put = database.prepare(`
    INSERT INTO usage
    WITH RECURSIVE span (i) AS (VALUES (0) UNION ALL SELECT i + 1 FROM span WHERE i + 1 < ?1),
      model (m) AS (VALUES (0) UNION ALL SELECT m + 1 FROM model WHERE m + 1 < ${HEAVY_MODELS})
    SELECT ?2, ?3, ?4 - i * ?5, key.value, 'maker/model-' || m, 20, 1, 20000, 5000, 8000, 1000, 1234567890
    FROM span, json_each(?6) AS key, model`)
  for (const [grain, spanMs] of [
    [0, DAY_MS / 24],
    [1, DAY_MS],
  ] as const) {
    const last = Math.floor(startedAt / spanMs) * spanMs
    put.run((HEAVY_DAYS * DAY_MS) / spanMs, accountId, grain, last, spanMs, JSON.stringify(keys))
  }
  database.close()
}

async function measure(store: LocalStore): Promise<void> {
  const app = new Koa()
  app.silent = true
  app.use((ctx, next) => {
    ctx.state['address'] = '127.0.0.1'
    return next()
  })
  let origin = ''
  const nothing = { info() {}, warn() {}, error() {}, debug() {} }
  app.use(
    createApi(
      {
        store,
        clock,
        log: nothing,
        version: '0',
        startedAt,
        budgetRules: () => new Map(),
        registration: { mode: 'closed', credit: 0n, plan: 'default' },
        origins: () => [origin],
        baseUrl: () => `${origin}/v1`,
        models: () => [],
        plans: () => null,
        aliases: () => [],
        readiness: () => ({ ready: true }),
        past: { exchange: async () => undefined, shadow: () => ({ since: '', steps: [] }), most: 0 },
        exchanges: async () => [],
        counts: async () => ({ inflight: 0, openHolds: 0 }),
        providers: async () => [],
        configuration: () => Promise.reject(new Error('not measured')),
        playground: () => null,
      },
      'dashboard',
      { readJson: createJsonReader() },
    ),
  )
  const server = createServer(app.callback())
  origin = `http://127.0.0.1:${await listen(server, { host: '127.0.0.1', port: 0 })}`
  const from = new Date(startedAt - DAYS * DAY_MS).toISOString()
  const receipts = '/api/receipts?limit=50'
  const forMembers = [
    '/api/session',
    '/api/account',
    '/api/keys',
    '/api/entries?limit=50',
    '/api/entries?limit=50&kind=credit',
    receipts,
    `${receipts}&outcome=failed`,
    `${receipts}&model=model-3`,
    `${receipts}&model=never`,
    '/api/usage?by=both',
    `/api/usage?by=both&step=day&from=${from}`,
    '/api/usage?step=hour&by=model',
    `/api/usage.csv?from=${from}`,
    '/api/entries.csv',
  ]
  const ago = (days: number) => new Date(startedAt - days * DAY_MS).toISOString()
  const forHeavy = [
    '/api/keys',
    ...['none', 'key', 'model', 'both'].flatMap(by => [
      `/api/usage?by=${by}&step=hour&from=${ago(HEAVY_DAYS)}`,
      `/api/usage?by=${by}&step=hour&from=${ago(3)}`,
      `/api/usage?by=${by}&step=hour&from=${ago(1)}`,
      `/api/usage?by=${by}&step=day&from=${ago(HEAVY_DAYS)}`,
      `/api/usage?by=${by}&step=day&from=${ago(7)}`,
      `/api/usage.csv?by=${by}&from=${ago(HEAVY_DAYS)}`,
    ]),
  ]
  const forOperators = [
    '/api/operator/summary',
    '/api/operator/accounts?limit=50',
    '/api/operator/accounts?limit=50&search=omer%2099',
    '/api/operator/accounts?limit=50&plan=free&frozen=false',
    '/api/operator/plans',
    '/api/operator/people',
    `/api/operator/usage?by=model&step=day&from=${from}`,
  ]
  console.log(`${ENTRIES} entries, ${ACCOUNTS} accounts; milliseconds, aim ${AIM_MS}\n`)
  console.log('| caller | route | answer, kB | p50 | p99 |\n|---|---|--:|--:|--:|')
  for (const [email, routes] of [
    [ORDINARY, forMembers],
    [LARGE, forMembers],
    [HEAVY, forHeavy],
    [OPERATOR, forOperators],
  ] as const) {
    const cookie = `tollgate=${await store.people.createSession(store.reads.people.findByEmail(email)!.id)}`
    for (const route of routes) {
      const times: number[] = []
      let bytes = 0
      let refused = ''
      for (let round = 0; round < ROUNDS; round++) {
        const before = performance.now()
        const answer = await fetch(origin + route, { headers: { cookie } })
        const text = await answer.text()
        times.push(performance.now() - before)
        bytes = Buffer.byteLength(text)
        if (answer.status === 200) continue
        refused = ` ${answer.status}`
        if (email !== HEAVY || answer.status !== 400)
          throw new Error(`${route} answered ${answer.status}, expected 200`)
      }
      const { p50Ms, p99Ms } = summary(times)
      const shown = route.replace(/from=([^&]+)/, (_, time) => {
        return `from=${Math.round((startedAt - Date.parse(time)) / DAY_MS)} days ago`
      })
      const late = p99Ms > AIM_MS || bytes > LARGEST_BYTES ? ' !' : ''
      console.log(
        `| ${email.split('@')[0]} | \`${shown}\`${refused} | ${(bytes / 1000).toFixed(1)} | ${p50Ms.toFixed(1)} | ${p99Ms.toFixed(1)}${late} |`,
      )
    }
  }
  server.closeAllConnections()
  server.close()
}

/** Prints SQLite's query plan for each statement of the reports. A SCAN of a growing table would slow its page down. */
function plans(): void {
  const database = connect(path, { readOnly: true })
  const statements: string[] = []
  const watched = {
    ...database,
    prepare(sql: string) {
      statements.push(sql)
      return database.prepare(sql)
    },
    prepareMoney(sql: string) {
      statements.push(sql)
      return database.prepareMoney(sql)
    },
  }
  const reports = createReports(watched)
  const { id } = createAccountReader(watched).list()[0]!
  reports.entries(id, { limit: 1 })
  reports.receipts(id, { limit: 1 })
  console.log('\nplans')
  for (const sql of new Set(statements)) {
    console.log(`\n${sql.replaceAll(/\s+/g, ' ').trim()}`)
    for (const row of database.prepare(`EXPLAIN QUERY PLAN ${sql}`).all()) console.log(`    ${row['detail']}`)
  }
  database.close()
}
