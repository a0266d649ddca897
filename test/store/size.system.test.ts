/**
 * A store with a million entries compared with an empty one: the cost of a request, a start and an audit. Only the cost of an audit may
 * grow with the entries. The figures are printed. The last test checks that the statements of a request and a start scan no table.
 */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { beforeAll, describe, expect, test } from 'vitest'
import { createAlertReads } from '../../src/store/alerts/alert-reads.ts'
import { connect, type Database } from '../../src/store/engine/database.ts'
import { createIds } from '../../src/store/ids.ts'
import { createBudgetUseReader } from '../../src/store/money/budget-uses.ts'
import { createReceiptReader } from '../../src/store/money/receipts.ts'
import { createRecoveryReads, recover } from '../../src/store/money/recovery.ts'
import { createReports } from '../../src/store/money/reports-service.ts'
import { createAccountReader } from '../../src/store/people/accounts.ts'
import { createKeyLister } from '../../src/store/people/key-list.ts'
import { createSecretFinder } from '../../src/store/people/keys.ts'
import { createLinkReader } from '../../src/store/people/links.ts'
import { createOperatorTokenReader } from '../../src/store/people/operator-tokens.ts'
import { createPersonReader } from '../../src/store/people/person-rows.ts'
import { createSessionReader } from '../../src/store/people/sessions.ts'
import { digestKey } from '../../src/store/people/token.ts'
import { createWriter } from '../../src/store/writer.ts'
import { countsOf, onlyFull } from '../helpers/counts.ts'
import { startGateway, temporaryDirectory, tollgate, writeConfiguration } from '../helpers/gateway.ts'
import { testWith } from '../helpers/missing.ts'
import { aHold, aSettle, SECRET, testStore } from './helpers.ts'
import { CHARGE, makeSample, openSample, SAMPLE_FROM, SAMPLE_MS, type Sample } from './large.ts'

const counts = countsOf('ledger')

const ENTRIES = counts(20_000, 1_000_000)
const ACCOUNTS = counts(200, 10_000)
const clock = { now: () => Date.now() }

let empty: Sample
let large: Sample

beforeAll(async () => {
  const startedAt = performance.now()
  empty = await makeSample(await temporaryDirectory(), 'empty', 1, 0)
  large = await makeSample(await temporaryDirectory(), 'large', ACCOUNTS, ENTRIES)
  const megabytes = readFileSync(large.path).length / 2 ** 20
  console.log(
    `${ENTRIES} entries, ${ACCOUNTS} accounts: ${megabytes.toFixed(0)} MiB, made in ${since(startedAt).toFixed(0)} ms`,
  )
})

const since = (startedAt: number) => performance.now() - startedAt

/** Runs a function for both stores in turns, so that other load affects both. */
async function inTurns(rounds: number, run: (sample: Sample) => unknown): Promise<{ empty: number; large: number }> {
  const spent = { empty: [] as number[], large: [] as number[] }
  for (let round = 0; round < rounds; round++) {
    for (const [name, one] of [
      ['empty', empty],
      ['large', large],
    ] as const) {
      const startedAt = performance.now()
      await run(one)
      spent[name].push(since(startedAt))
    }
  }
  return { empty: median(spent.empty), large: median(spent.large) }
}

function median(values: number[]): number {
  return values.sort((a, b) => a - b)[Math.floor(values.length / 2)]!
}

function report(
  what: string,
  { empty: small, large: big }: { empty: number; large: number },
  each = 1,
  unit = 'ms',
): void {
  const scale = (unit === 'us' ? 1000 : 1) / each
  console.log(
    `${what}: ${(small * scale).toFixed(1)} ${unit} empty, ${(big * scale).toFixed(1)} ${unit} with ${ENTRIES} entries (x ${(big / small).toFixed(2)})`,
  )
}

test('the cost of a request', async () => {
  const stores = { empty: await openSample(empty.path), large: await openSample(large.path) }
  const ids = createIds(clock)
  let turn = 0
  const exchanges = (count: number) => (one: Sample) =>
    Promise.all(
      Array.from({ length: count }, async () => {
        const { ledger } = one === empty ? stores.empty : stores.large
        const exchange = ids.next('req_')
        const accountId = one.accounts[(++turn * 104_729) % one.accounts.length]!
        expect(await ledger.hold(aHold({ accountId, exchange }))).toMatchObject({ held: true })
        expect(await ledger.settle(aSettle({ exchange, amount: CHARGE }))).toBe('settled')
      }),
    )
  report('hold + settle, alone', await inTurns(counts(10, 500), exchanges(1)), 1, 'us')
  report('hold + settle, 64 at once, each', await inTurns(counts(5, 100), exchanges(64)), 64, 'us')
  const lookups = counts(200, 2000)
  const look = (one: Sample) => {
    const { keys } = one === empty ? stores.empty : stores.large
    for (let index = 0; index < lookups; index++) {
      if (keys.find(one.token, clock.now()).found !== 'live') throw new Error('not found')
    }
  }
  report('key lookup', await inTurns(counts(3, 20), look), lookups, 'us')
  for (const store of [stores.empty, stores.large]) await store.close()
})

/** The aim for a page. The test fails above five times the aim, because the machine may be busy. */
const PAGE_MS = 50

test(`pages are read within five times ${PAGE_MS} ms`, async () => {
  const store = await openSample(large.path)
  const { reports } = store.reads
  const [busy, other] = [large.accounts[0]!, large.accounts[77]!]
  const times = { from: SAMPLE_FROM, to: SAMPLE_FROM + SAMPLE_MS + 1 }
  const pages: [name: string, page: () => unknown][] = [
    ['entries', () => reports.entries(busy, { limit: 100 })],
    ['credits among them', () => reports.entries(busy, { kind: 'credit', limit: 100 })],
    ['receipts', () => reports.receipts(busy, { limit: 100 })],
    ['receipts that failed', () => reports.receipts(busy, { outcome: 'failed', limit: 100 })],
    ['receipts of an unused model', () => reports.receipts(busy, { model: 'none', limit: 100 })],
    ['usage of 90 days', () => reports.usage({ accountId: busy, step: 'day', ...times })],
    ['usage of 90 days by hour', () => reports.usage({ accountId: busy, step: 'hour', ...times })],
    ['usage of 90 days by hour, of all accounts', () => reports.usage({ step: 'hour', by: 'model', ...times })],
    ['accounts', () => reports.accounts({ limit: 100 })],
    ['accounts, a part of a name', () => reports.accounts({ search: 'omer 9', limit: 100 })],
    ['accounts, an unused name', () => reports.accounts({ search: 'unused', limit: 100 })],
    ['accounts, the beginning of an id', () => reports.accounts({ search: other, limit: 100 })],
    ['accounts, frozen', () => reports.accounts({ frozen: true, limit: 100 })],
    ['plans', () => reports.plans()],
    ['totals', () => reports.totals()],
    ['keys of an account', () => store.reads.listKeys(busy)],
  ]
  for (const [name, page] of pages) {
    const spent = Array.from({ length: 15 }, () => {
      const startedAt = performance.now()
      page()
      return since(startedAt)
    })
    const [most, middle] = [Math.max(...spent), median(spent)]
    console.log(`${name}: ${middle.toFixed(2)} ms, at most ${most.toFixed(2)} ms`)
    expect(middle, name).toBeLessThan(5 * PAGE_MS)
  }
  await store.close()
})

test('the cost of a start', async () => {
  const start = async ({ path }: Sample) => {
    const store = await openSample(path)
    expect(await store.recover()).toMatchObject({ settled: 0, replayed: 0 })
    await store.close()
  }
  report('open, recover and close', await inTurns(counts(1, 15), start))
})

testWith(onlyFull('ledger'), 'the cost of the start of a process', async () => {
  const memory = { empty: 0, large: 0 }
  const gateways = await inTurns(5, async one => {
    const gateway = await startGateway({ dir: one.dir, ...CONFIGURATION })
    memory[one === empty ? 'empty' : 'large'] = residentBytes(gateway.pid)
    expect(await gateway.stop()).toBe(0)
  })
  report('`tollgate serve` to listening, and its end', gateways)
  const [small, big] = [memory.empty, memory.large].map(bytes => (bytes / 2 ** 20).toFixed(0))
  console.log(`resident memory when it listens: ${small} MiB empty, ${big} MiB with ${ENTRIES} entries`)
})

test('an audit finds nothing', async () => {
  const audit = async ({ dir }: Sample) => {
    await writeConfiguration(dir, CONFIGURATION)
    const { code, stdout } = await tollgate(['ledger', 'verify', '--json'], { config: join(dir, 'gateway.yaml') })
    expect(JSON.parse(stdout)).toMatchObject({ open_holds: 0, violations: [] })
    expect(code).toBe(0)
  }
  report('`tollgate ledger verify`', await inTurns(1, audit))
})

const CONFIGURATION = {
  yaml: {
    version: 1,
    listen: '127.0.0.1:0',
    store: 'sqlite:./data/tollgate.db',
    providers: { p: { dialect: 'openai', base_url: 'http://127.0.0.1:9/v1' } },
    models: {
      m: {
        targets: [{ provider: 'p', model: 'm' }],
        price: { per: '1M tokens', input: '$1', output: '$1' },
        context: 8192,
        max_output: 64,
      },
    },
    routes: [{ path: '/v1/chat/completions', policy: 'chat' }],
  },
  policies: { chat: { steps: [{ use: 'api-key' }, { use: 'schema' }, { use: 'credits' }, { use: 'route' }] } },
}

/** The resident memory of a process, from Linux's /proc; 0 elsewhere. */
function residentBytes(pid: number): number {
  try {
    const kibibytes = /^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]
    return Number(kibibytes ?? 0) * 1024
  } catch {
    return 0
  }
}

describe('no statement of a request, a write or a start scans a table', () => {
  /** Statements that may scan: they return every row, or add up all accounts. */
  const LISTS = [
    / FROM account JOIN balance .* ORDER BY id$/s,
    / FROM key ORDER BY id$/,
    / FROM person ORDER BY id$/,
    / FROM operator_token WHERE revoked_at IS NULL ORDER BY id DESC$/,
    /^SELECT plan, count\(\*\) AS accounts FROM account GROUP BY plan/,
    / FROM balance$/,
    // Every ten seconds, with alerts of low balances.
    /FROM balance LEFT JOIN low_account /,
    // Uses an index that has only open rows.
    /FROM alert_delivery\s+WHERE delivered_at IS NULL AND given_up_at IS NULL GROUP BY receiver$/,
  ]

  test('by their plans', async () => {
    const store = await testStore()
    const database = connect(store.path)
    const statements = new Set<string>()
    const noted = noteStatements(database, statements)
    createWriter(noted, clock, () => {})
    createSecretFinder(noted, digestKey(SECRET))
    createKeyLister(noted, clock)
    createAccountReader(noted)
    createReceiptReader(noted)
    createReports(noted)
    createBudgetUseReader(noted)
    createAlertReads(noted)
    createPersonReader(noted)
    createSessionReader(noted)
    createLinkReader(noted, clock)
    createOperatorTokenReader(noted, clock)
    await recover({
      reads: createRecoveryReads(noted),
      spool: null,
      orphans: [],
      settle: async () => 'settled',
      dead: { replica: null, lane: null },
    })
    const plans = [...statements]
      .filter(sql => !/^(BEGIN|COMMIT|ROLLBACK)/.test(sql))
      .map(sql => {
        const steps = database.prepare(`EXPLAIN QUERY PLAN ${sql}`).all()
        return { sql, plan: steps.map(({ detail }) => String(detail)) }
      })
    const scanned = plans.filter(({ plan }) => {
      // The result of a part of the statement is scanned; that part has a plan of its own.
      const parts = plan.flatMap(step => /^(?:CO-ROUTINE|MATERIALIZE) (.+)$/.exec(step)?.[1] ?? [])
      return plan.some(step => {
        const what = /^SCAN (?!CONSTANT ROW|\d+ CONSTANT ROWS|\d+-ROW VALUES|json_each VIRTUAL TABLE)(\S+)/.exec(
          step,
        )?.[1]
        return what !== undefined && !parts.includes(what)
      })
    })
    database.close()
    expect(statements.size).toBeGreaterThan(80)
    expect(scanned.filter(({ sql }) => !LISTS.some(list => list.test(sql)))).toEqual([])
    expect(scanned).toHaveLength(LISTS.length)
    // Pages are in the order of an index. Only short lists are sorted.
    const sorted = plans.filter(({ plan }) => plan.some(step => step.includes('TEMP B-TREE')))
    expect(sorted.map(({ sql }) => / FROM (\w+)/.exec(sql)?.[1])).toEqual([
      // Due alerts of one receiver.
      'alert_delivery',
      'key',
      'secret',
      // Entries with corrections: a page of each.
      'event',
      'event',
      'usage',
      'person',
      // Alerts of a day, by kind.
      'alert',
      'person',
      'link',
    ])
  })

  function noteStatements(database: Database, statements: Set<string>): Database {
    const noting = (prepare: Database['prepare']) => (sql: string) => {
      statements.add(sql.trim())
      return prepare(sql)
    }
    return { ...database, prepare: noting(database.prepare), prepareMoney: noting(database.prepareMoney) }
  }
})
