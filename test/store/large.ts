/** Large stores with given numbers of accounts and entries, written directly into the tables as the ledger would leave them. */
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { connect, type Database } from '../../src/store/engine/database.ts'
import { openStore } from '../../src/store/engine/sqlite.ts'
import { createIds } from '../../src/store/ids.ts'
import type { LocalStore } from '../../src/store/local-store.ts'
import { aSettle, SECRET } from './requests.ts'

/** In the columns of earlier versions: most receipts of a large store are old. */
const OLD_PRICE = [150_000_000n, 37_500_000n, 190_000_000n, 600_000_000n] as const
/** One exchange in this many has a checkpoint, as a stream of more than five seconds has. */
const CHECKPOINT_EVERY = 5
const MODELS = ['chat-small', 'chat-large', 'thinker', 'embedder'] as const
const OUTCOMES = ['answered', 'answered', 'failed', 'answered', 'answered', 'client_left', 'answered'] as const
export const CREDIT = 10n ** 12n
export const CHARGE = 40n
/** The entries are spread over 90 days in the past, so that later writes have higher ids, as in production. */
export const SAMPLE_FROM = 1_750_000_000_000
export const SAMPLE_MS = 90 * 24 * 3_600_000

export interface Sample {
  readonly name: string
  /** The folder in which a gateway could start. */
  readonly dir: string
  readonly path: string
  /** The accounts that are not frozen; the first one has half of the entries. */
  readonly accounts: readonly string[]
  readonly token: string
}

const clock = { now: () => Date.now() }

/** Makes a store with `accountCount` accounts, each with a key, and `entries` entries of settled exchanges in the past. */
export async function makeSample(dir: string, name: string, accountCount: number, entries: number): Promise<Sample> {
  const path = join(dir, 'data/tollgate.db')
  const store = await openSample(path)
  const { id } = await store.createAccount({ name: 'first' })
  await store.credit({ account: id, amount: CREDIT, reference: 'first', actor: 'test' })
  const { token, key } = await store.createKey({ account: id, name: 'first' })
  await store.close()
  writeFileSync(join(dir, 'data/secret'), SECRET, { mode: 0o600 })
  const database = connect(path)
  // One transaction without durability.
  database.exec('PRAGMA synchronous = OFF; BEGIN')
  const accounts = [{ account: id, key: key.id }, ...fillAccounts(database, accountCount - 1)]
  fillEvents(database, accounts, entries / 2)
  fillTotals(database)
  database.exec('COMMIT; PRAGMA wal_checkpoint(TRUNCATE)')
  database.close()
  const thawed = accounts.filter((_, index) => !isFrozen(index))
  return { name, dir, path, accounts: thawed.map(({ account }) => account), token }
}

export function openSample(path: string): Promise<LocalStore> {
  return openStore({ url: `sqlite:${path}`, secret: SECRET, clock })
}

/** Runs the migration that fills the totals from the events. */
export function fillTotals(database: Database): void {
  const file = join(import.meta.dirname, '../../src/store/engine/migrations/004-usage.sql')
  const sql = readFileSync(file, 'utf8')
  database.exec(/^WITH settled[\s\S]*?(?=^CREATE)/m.exec(sql)![0])
}

interface Owner {
  readonly account: string
  readonly key: string
}

const isFrozen = (index: number) => index % 100 === 99

function fillAccounts(database: Database, count: number): Owner[] {
  const putAccount = database.prepare('INSERT INTO account (id, name, plan, created_at) VALUES (?, ?, ?, 0)')
  const putBalance = database.prepare('INSERT INTO balance (account, posted, frozen) VALUES (?, ?, ?)')
  const putCredit = database.prepare(
    "INSERT INTO event (id, kind, account, amount, at, actor) VALUES (?, 2, ?, ?, 0, 'test')",
  )
  const putKey = database.prepare("INSERT INTO key (id, account, name, created_at) VALUES (?, ?, 'key', 0)")
  const putSecret = database.prepare("INSERT INTO secret (digest, key, last4, created_at) VALUES (?, ?, 'last', 0)")
  const ids = createIds({ now: () => 1_700_000_000_000 })
  return Array.from({ length: count }, (_, index) => {
    const [account, key] = [ids.next('acc_'), ids.next('key_')]
    putAccount.run(account, `Customer ${index}`, index % 10 === 0 ? 'free' : 'default')
    putBalance.run(account, CREDIT, isFrozen(index + 1) ? 1 : 0)
    putCredit.run(`credit:${index}`, account, CREDIT)
    putKey.run(key, account)
    putSecret.run(crypto.getRandomValues(new Uint8Array(32)), key)
    return { account, key }
  })
}

/**
 * Writes exchanges as the ledger leaves them: a hold, its settle, and sometimes a checkpoint. Also writes the start of recovery. Every
 * second exchange belongs to the first account.
 */
function fillEvents(database: Database, owners: readonly Owner[], exchanges: number): void {
  const hold = database.prepare(`
    INSERT INTO event (id, kind, account, amount, at, key, model, price_input, price_cached_input, price_cache_write,
      price_output, price_request, cap_tokens) VALUES (?, 0, ?, 100, ?, ?, ?, ?, ?, ?, ?, 0, 64)`)
  const settle = database.prepare(`
    INSERT INTO event (id, kind, account, amount, at, overrun, source, outcome, prompt_tokens, cached_tokens,
      cache_write_tokens, completion_tokens, reasoning_tokens, attempts, trail)
    VALUES (?, 1, ?, ?, ?, 0, 'reported', ?, 10, 4, 0, 20, 5, ?, ?)`)
  const reach = database.prepare('INSERT INTO checkpoint VALUES (?, 1, 7, 10, 3, 0)')
  const post = database.prepare('UPDATE balance SET posted = posted - ? WHERE account = ?')
  const { attempts, trail } = aSettle()
  const json = [JSON.stringify(attempts), JSON.stringify(trail)] as const
  const sampleClock = { ms: SAMPLE_FROM, now: () => Math.floor(sampleClock.ms) }
  const ids = createIds(sampleClock)
  const charged = new Map<string, bigint>()
  let id = ''
  for (let index = 0; index < exchanges; index++) {
    sampleClock.ms += SAMPLE_MS / exchanges
    id = ids.next('req_')
    const { account, key } = index % 2 === 0 ? owners[0]! : owners[(index * 7919) % owners.length]!
    const model = MODELS[index % MODELS.length]!
    hold.run(id, account, sampleClock.now(), key, model, ...OLD_PRICE)
    settle.run(id, account, CHARGE, sampleClock.now(), OUTCOMES[index % OUTCOMES.length]!, ...json)
    if (index % CHECKPOINT_EVERY === 0) reach.run(id)
    charged.set(account, (charged.get(account) ?? 0n) + CHARGE)
  }
  for (const [account, amount] of charged) post.run(amount, account)
  database.prepare("INSERT INTO meta VALUES ('open_from', ?)").run(id)
}
