/**
 * A store with a million entries beside an empty one: what a request, a start and an audit cost. Only an audit may grow
 * with what was; the statements on which that depends are searches, and that is looked at here too.
 */
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { beforeAll, describe, expect, test } from 'vitest'
import { createAccountReader } from '../../src/store/accounts.ts'
import { connect, type Database } from '../../src/store/database.ts'
import { createIds } from '../../src/store/ids.ts'
import { createKeyReader } from '../../src/store/keys.ts'
import { createReceiptReader } from '../../src/store/receipts.ts'
import { recover } from '../../src/store/recovery.ts'
import { openStore } from '../../src/store/sqlite.ts'
import type { Store } from '../../src/store/store.ts'
import { digestKey } from '../../src/store/token.ts'
import { createWriter } from '../../src/store/writer.ts'
import { counts, full } from '../helpers/counts.ts'
import { startGateway, temporaryDirectory, tollgate, writeConfiguration } from '../helpers/gateway.ts'
import { aHold, aSettle, PRICE, SECRET, testClock, testStore } from './helpers.ts'

const ENTRIES = counts(20_000, 1_000_000)
const ACCOUNTS = counts(200, 10_000)
/** One exchange of so many had a checkpoint: streams of more than five seconds. */
const CHECKPOINT_EVERY = 5
const CREDIT = 10n ** 12n
const CHARGE = 40n

const clock = { now: () => Date.now() }

interface Sample {
  readonly name: string
  /** Where a gateway could be started. */
  readonly dir: string
  readonly path: string
  readonly accounts: readonly string[]
  readonly token: string
}

let empty: Sample
let large: Sample

beforeAll(async () => {
  const startedAt = performance.now()
  empty = await sample('empty', 1, 0)
  large = await sample('large', ACCOUNTS, ENTRIES)
  const megabytes = readFileSync(large.path).length / 2 ** 20
  console.log(
    `${ENTRIES} entries, ${ACCOUNTS} accounts: ${megabytes.toFixed(0)} MiB, made in ${since(startedAt).toFixed(0)} ms`,
  )
}, 120_000)

/** A store with so many accounts, each with a key, and so many entries: settled exchanges of a while ago. */
async function sample(name: string, accountCount: number, entries: number): Promise<Sample> {
  const dir = await temporaryDirectory()
  const path = join(dir, 'data/tollgate.db')
  const store = await openSample(path)
  const { id } = await store.createAccount({ name: 'first' })
  await store.credit({ account: id, amount: CREDIT, reference: 'first', actor: 'test' })
  const { token } = await store.createKey({ account: id, name: 'first' })
  await store.close()
  writeFileSync(join(dir, 'data/secret'), SECRET, { mode: 0o600 })
  const database = connect(path)
  // One transaction that nobody has to survive.
  database.exec('PRAGMA synchronous = OFF; BEGIN')
  const accounts = [id, ...fillAccounts(database, accountCount - 1)]
  fillEvents(database, accounts, entries / 2)
  database.exec('COMMIT; PRAGMA wal_checkpoint(TRUNCATE)')
  database.close()
  return { name, dir, path, accounts, token }
}

function openSample(path: string): Promise<Store> {
  return openStore({ url: `sqlite:${path}`, secret: SECRET, clock })
}

function fillAccounts(database: Database, count: number): string[] {
  const putAccount = database.prepare("INSERT INTO account VALUES (?, ?, 'default', 0)")
  const putBalance = database.prepare('INSERT INTO balance (account, posted) VALUES (?, ?)')
  const putCredit = database.prepare(
    "INSERT INTO event (id, kind, account, amount, at, actor) VALUES (?, 2, ?, ?, 0, 'test')",
  )
  const putKey = database.prepare("INSERT INTO key (id, account, name, created_at) VALUES (?, ?, 'key', 0)")
  const putSecret = database.prepare("INSERT INTO secret (digest, key, last4, created_at) VALUES (?, ?, 'last', 0)")
  const ids = createIds(testClock(1_700_000_000_000))
  return Array.from({ length: count }, (_, index) => {
    const [account, key] = [ids.next('acc_'), ids.next('key_')]
    putAccount.run(account, `customer ${index}`)
    putBalance.run(account, CREDIT)
    putCredit.run(`credit:${index}`, account, CREDIT)
    putKey.run(key, account)
    putSecret.run(crypto.getRandomValues(new Uint8Array(32)), key)
    return account
  })
}

/** Each exchange as the ledger leaves it: a hold, its settle, now and then a checkpoint; and where recovery looks. */
function fillEvents(database: Database, accounts: readonly string[], exchanges: number): void {
  const hold = database.prepare(`
    INSERT INTO event (id, kind, account, amount, at, key, model, price_input, price_cached_input, price_cache_write,
      price_output, price_request, cap_tokens) VALUES (?, 0, ?, 100, 0, 'key_1', 'chat-small', ?, ?, ?, ?, 0, 64)`)
  const settle = database.prepare(`
    INSERT INTO event (id, kind, account, amount, at, overrun, source, outcome, prompt_tokens, cached_tokens,
      cache_write_tokens, completion_tokens, reasoning_tokens, attempts, trail)
    VALUES (?, 1, ?, ?, 0, 0, 'reported', 'answered', 10, 4, 0, 20, 5, ?, ?)`)
  const reach = database.prepare('INSERT INTO checkpoint VALUES (?, 1, 7, 10, 3, 0)')
  const post = database.prepare('UPDATE balance SET posted = posted - ? WHERE account = ?')
  const { attempts, trail } = aSettle()
  const told = [JSON.stringify(attempts), JSON.stringify(trail)] as const
  // Ids of a while ago: what is written later comes behind them, as in life.
  const then = testClock(1_750_000_000_000)
  const ids = createIds(then)
  const charged = new Map<string, bigint>()
  let id = ''
  for (let index = 0; index < exchanges; index++) {
    then.ms += 10
    id = ids.next('req_')
    const account = accounts[(index * 7919) % accounts.length]!
    hold.run(id, account, PRICE.input, PRICE.cachedInput, PRICE.cacheWrite, PRICE.output)
    settle.run(id, account, CHARGE, ...told)
    if (index % CHECKPOINT_EVERY === 0) reach.run(id)
    charged.set(account, (charged.get(account) ?? 0n) + CHARGE)
  }
  for (const [account, amount] of charged) post.run(amount, account)
  database.prepare("INSERT INTO meta VALUES ('open_from', ?)").run(id)
}

const since = (startedAt: number) => performance.now() - startedAt

/** Runs it for one and the other in turns, so that a slow moment of the machine is both's. */
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

function tell(
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

test('what a request costs beside what it costs in an empty store', async () => {
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
  tell('hold + settle, alone', await inTurns(counts(10, 500), exchanges(1)), 1, 'us')
  tell('hold + settle, 64 at once, each', await inTurns(counts(5, 100), exchanges(64)), 64, 'us')
  const lookups = counts(200, 2000)
  const look = (one: Sample) => {
    const { keys } = one === empty ? stores.empty : stores.large
    for (let index = 0; index < lookups; index++) {
      if (keys.find(one.token, clock.now()).found !== 'live') throw new Error('not found')
    }
  }
  tell('key lookup', await inTurns(counts(3, 20), look), lookups, 'us')
  for (const store of [stores.empty, stores.large]) await store.close()
})

test('what a start costs', async () => {
  const start = async ({ path }: Sample) => {
    const store = await openSample(path)
    expect(await store.recover()).toMatchObject({ settled: 0, replayed: 0 })
    await store.close()
  }
  tell('open, recover and close', await inTurns(counts(1, 15), start))
})

test.runIf(full)('what the start of a process costs', async () => {
  const memory = { empty: 0, large: 0 }
  const gateways = await inTurns(5, async one => {
    const gateway = await startGateway({ dir: one.dir, ...CONFIGURATION })
    memory[one === empty ? 'empty' : 'large'] = residentBytes(gateway.pid)
    expect(await gateway.stop()).toBe(0)
  })
  tell('`tollgate serve` to listening, and its end', gateways)
  const [small, big] = [memory.empty, memory.large].map(bytes => (bytes / 2 ** 20).toFixed(0))
  console.log(`resident memory when it listens: ${small} MiB empty, ${big} MiB with ${ENTRIES} entries`)
})

test('what an audit costs, and that it finds nothing', async () => {
  const audit = async ({ dir }: Sample) => {
    await writeConfiguration(dir, CONFIGURATION)
    const { code, stdout } = await tollgate(['ledger', 'verify', '--json'], { config: join(dir, 'gateway.yaml') })
    expect(JSON.parse(stdout)).toMatchObject({ open_holds: 0, violations: [] })
    expect(code).toBe(0)
  }
  tell('`tollgate ledger verify`', await inTurns(1, audit))
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

/** Of a process, from Linux; 0 elsewhere. */
function residentBytes(pid: number): number {
  try {
    const kibibytes = /^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]
    return Number(kibibytes ?? 0) * 1024
  } catch {
    return 0
  }
}

describe('no statement of a request, a write or a start reads a table from end to end', () => {
  /** Those that answer with every row there is, and are asked for by people. */
  const LISTS = [
    / FROM account JOIN balance .* ORDER BY id$/s,
    / FROM key WHERE account = \?1 OR \?1 IS NULL ORDER BY id$/,
  ]

  test('by their plans', async () => {
    const store = await testStore()
    const database = connect(store.path)
    const statements = new Set<string>()
    const noted = noteStatements(database, statements)
    createWriter(noted, clock, () => {})
    createKeyReader(noted, digestKey(SECRET), clock)
    createAccountReader(noted)
    createReceiptReader(noted)
    await recover({ reader: noted, spool: null, settle: async () => 'settled' })
    const scanned = [...statements].filter(sql => {
      if (/^(BEGIN|COMMIT|ROLLBACK)/.test(sql)) return false
      const plan = database
        .prepare(`EXPLAIN QUERY PLAN ${sql}`)
        .all()
        .map(({ detail }) => String(detail))
      return plan.some(step => step.startsWith('SCAN') && step !== 'SCAN CONSTANT ROW')
    })
    database.close()
    expect(statements.size).toBeGreaterThan(30)
    expect(scanned.filter(sql => !LISTS.some(list => list.test(sql)))).toEqual([])
    expect(scanned).toHaveLength(LISTS.length)
  })

  function noteStatements(database: Database, statements: Set<string>): Database {
    const noting = (prepare: Database['prepare']) => (sql: string) => {
      statements.add(sql.trim())
      return prepare(sql)
    }
    return { ...database, prepare: noting(database.prepare), prepareMoney: noting(database.prepareMoney) }
  }
})
