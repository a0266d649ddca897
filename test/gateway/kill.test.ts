/**
 * kill -9 of a real gateway under load, again and again on the same store: what a client saw end is charged once and to
 * the nano-dollar, what nobody saw end is settled at its checkpoint or for nothing, and nothing stays held.
 *
 * Looked at from outside: what clients received, what the provider sent, what the commands and the receipts say. The
 * database is read too, between two processes, to know what the dead one had promised.
 */
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { formatMoney, parseMoney, type WireUsage } from '#contract'
import { openDatabase } from '../../src/store/database.ts'
import { counts } from '../helpers/counts.ts'
import {
  errorAnswer,
  exact,
  type FakeProvider,
  gated,
  type ProviderRequest,
  startFakeProvider,
} from '../helpers/fake-provider.ts'
import { createAccount, type Gateway, startGateway, tollgate } from '../helpers/gateway.ts'
import { type Asked, type Load, type Question, seeded, startLoad } from '../helpers/load.ts'

const SEED = Number(process.env.TOLLGATE_SEED ?? Date.now() % 1_000_000)
const random = seeded(SEED)
const KILLS = counts(5, 20)
const CLIENTS = 40
/** These ask for quick answers only, so that something always goes on. */
const QUICK_CLIENTS = 12

// Nano-dollars a million tokens that no count divides evenly: what is charged shows how it was rounded.
const PRICE = { input: 123_456_789n, output: 1_987_654_321n }
/** The provider's figure for every prompt, and more than what the gateway would guess for the prompts here. */
const PROMPT_TOKENS = 40
/** The last account is poor: some of its requests are refused, and their output caps lowered. */
const CREDITS = ['100', '0.02']
const TOKEN = ' tok'

const yaml = {
  version: 1,
  listen: '127.0.0.1:0',
  store: 'sqlite:./data/tollgate.db',
  models: {
    m: {
      targets: [{ provider: 'p', model: 'upstream' }],
      price: { per: '1M tokens', input: money(PRICE.input), output: money(PRICE.output) },
      context: 8192,
      max_output: 1000,
    },
  },
  routes: [
    { path: '/v1/chat/completions', policy: 'chat' },
    { path: '/v1/receipts/{id}', policy: 'receipts' },
  ],
}
const policies = {
  chat: {
    steps: [
      { use: 'api-key' },
      { use: 'schema' },
      { use: 'rate-limit', with: { per: 'key', requests: '1000000 per minute' } },
      { use: 'credits' },
      { use: 'route' },
    ],
  },
  receipts: { steps: [{ use: 'api-key' }] },
}

let provider: FakeProvider
let gateway: Gateway
let accounts: { accountId: string; key: string }[]
/** Held answers at the provider. */
let slow: ProviderRequest[] = []
let serials = 0
let dir: string | undefined

beforeAll(async () => {
  provider = await startFakeProvider({
    script(request) {
      const { kind, tokens } = planOf(request)
      if (kind === 'error') return errorAnswer(500)
      const options = { tokens: Array<string>(tokens).fill(TOKEN), promptTokens: PROMPT_TOKENS }
      if (kind === 'quick') return exact(options)
      slow.push(request)
      return gated(options)
    },
  })
  await start()
  accounts = await Promise.all(CREDITS.map(credit => createAccount(gateway, { credit })))
})
afterAll(() => provider.close())

interface Plan {
  readonly serial: string
  readonly kind: 'quick' | 'slow' | 'error'
  readonly tokens: number
}

test(
  `kill -9 under load, ${KILLS} times (TOLLGATE_SEED=${SEED})`,
  async () => {
    console.log(`kill -9 of the gateway: TOLLGATE_SEED=${SEED}`)
    const known = new Map<string, Exchange>()
    const endings = new Map<string, number>()
    const sums = { recovered: 0, atCheckpoint: 0 }
    for (let kill = 0; kill < KILLS; kill++) {
      const from = provider.requests.length
      const load = startLoad({ url: gateway.url, clients: CLIENTS, choose, onEnded: stepOne })
      // Streams reach a checkpoint after five seconds, so not every round waits for one.
      await momentToKill(load, kill % counts(5, 2) === 0)
      expect(load.open().length).toBeGreaterThanOrEqual(30)
      expect(
        load.asked.filter(({ ending }) => ending === 'broken'),
        'broken before the kill',
      ).toEqual([])
      await gateway.kill9()
      await load.over
      await Promise.all(slow.map(request => provider.waitForClose(request)))

      const before = readLedger()
      expectPromises(load, before, provider.requests.slice(from))
      await start()
      const after = readLedger()
      const report = expectRecovered(before, after)
      expectBounded(after)
      await expectBooks(after)
      await expectReceipts(load, after)
      // What earlier rounds left behind is as it was.
      for (const [id, exchange] of known) expect(after.exchanges.get(id)).toEqual(exchange)
      for (const [id, exchange] of after.exchanges) known.set(id, exchange)
      for (const { ending, code } of load.asked) {
        const word = code ?? ending!
        endings.set(word, (endings.get(word) ?? 0) + 1)
      }
      sums.recovered += report.recovered
      sums.atCheckpoint += report.atCheckpoint
    }
    expect(await gateway.stop()).toBe(0)
    const counted = [...endings].map(([word, times]) => `${times} ${word}`).join(', ')
    console.log(
      `${known.size} exchanges (${counted}), ${sums.recovered} recovered, ${sums.atCheckpoint} of them at a checkpoint`,
    )
    // Or the rounds would have shown nothing.
    for (const word of ['complete', 'left', 'broken', 'credit_on_hold', 'upstream_error']) {
      expect(endings.get(word), word).toBeGreaterThan(0)
    }
    expect(sums.recovered).toBeGreaterThan(KILLS)
    expect(sums.atCheckpoint).toBeGreaterThan(0)
  },
  10 * 60_000,
)

/** Starts on the same directory each time. */
async function start(): Promise<void> {
  const providers = { p: { dialect: 'openai', base_url: provider.baseUrl } }
  gateway = await startGateway({ yaml: { ...yaml, providers }, policies, ...(dir === undefined ? {} : { dir }) })
  dir = gateway.dir
}

/** What a client asks next. */
function choose(client: number): Question {
  const serial = `serial-${++serials}`
  const quick = client < QUICK_CLIENTS
  const kind = random() < 0.03 ? 'error' : quick ? 'quick' : 'slow'
  const tokens = 1 + Math.floor(random() * (quick ? 20 : 200))
  const stream = random() < 0.7
  const plan: Plan = { serial, kind, tokens }
  const { key } = accounts[Math.floor(random() * accounts.length)]!
  return {
    serial,
    key,
    body: {
      model: 'm',
      max_tokens: 200 + Math.floor(random() * 800),
      messages: [{ role: 'user', content: JSON.stringify(plan) }],
      ...(stream ? { stream, stream_options: { include_usage: true } } : {}),
    },
    ...(random() < 0.1 ? { leaveAfter: Math.floor(random() * 30) } : {}),
  }
}

/** Each answer that ends lets one held answer go on by an event: slow streams, without a clock. */
function stepOne(): void {
  slow = slow.filter(request => request.ending === null)
  void slow[Math.floor(random() * slow.length)]?.step()
}

/** After some answers, while some streams are open; and sometimes only when open ones have reached a checkpoint. */
async function momentToKill(load: Load, atCheckpoint: boolean): Promise<void> {
  const answers = Math.floor(random() * 200)
  const streams = 1 + Math.floor(random() * 10)
  await load.until(() => load.ended >= answers && load.open().filter(({ arrived }) => arrived).length >= streams)
  if (!atCheckpoint) return
  const database = openDatabase(storePath(), { readOnly: true })
  const count = database.prepare(`SELECT count(DISTINCT exchange) AS count FROM checkpoint
    WHERE NOT EXISTS (SELECT 1 FROM event WHERE id = exchange AND kind = 1)`)
  let lookAgainAt = 0
  await load.until(() => {
    if (load.ended < lookAgainAt) return false
    lookAgainAt = load.ended + 50
    return Number(count.get()?.['count']) >= 3
  })
  database.close()
}

/** What the dead process had promised is on disk, before anybody recovers anything. */
function expectPromises(load: Load, ledger: Ledger, asked: readonly ProviderRequest[]): void {
  const sent = new Set(load.asked.map(({ question }) => question.serial))
  // I7: what the provider was asked has its hold.
  for (const request of asked) {
    const { serial } = planOf(request)
    expect(ledger.bySerial.has(serial), `${serial} was sent to the provider without a hold`).toBe(true)
    expect(sent).toContain(serial)
  }
  for (const one of load.asked) {
    const exchange = ledger.bySerial.get(one.question.serial)
    if (exchange && one.id !== null) expect(exchange.id).toBe(one.id)
    // The last bytes leave after the charge is committed, so no complete answer is without one.
    if (one.ending === 'complete') expectCharged(one, exchange)
    // I10
    if (one.ending === 'refused' && !one.arrived && exchange) expect(exchange.charged, one.code ?? '').toBe(0n)
  }
}

function expectCharged(one: Asked, exchange: Exchange | undefined): void {
  expect(exchange, `${one.id} was answered`).toBeDefined()
  expect(one.usage, `${one.id} has a usage`).not.toBeNull()
  const charged = costOf(one.usage!)
  expect(exchange).toMatchObject({ id: one.id, charged, source: 'reported', outcome: 'answered' })
  if (!one.question.body['stream']) expect(one.cost).toBe(formatMoney(charged))
}

/** Every open hold was settled where its checkpoint was, or for nothing; all else is as it was. */
function expectRecovered(before: Ledger, after: Ledger) {
  const open = [...before.exchanges.values()].filter(({ charged }) => charged === null)
  // Recovery comes before listening, so it has been said already.
  const line = gateway.logs().find(({ settled }) => settled !== undefined)
  expect(line).toMatchObject({ settled: open.length, replayed: 0 })
  expect([...after.exchanges.keys()]).toEqual([...before.exchanges.keys()])
  for (const exchange of before.exchanges.values()) {
    const now = after.exchanges.get(exchange.id)
    if (exchange.charged !== null) {
      expect(now).toEqual(exchange)
      continue
    }
    const reached = before.checkpoints.get(exchange.id)
    expect(now).toEqual({
      ...exchange,
      charged: reached?.amount ?? 0n,
      completionTokens: reached?.completionTokens ?? 0,
      source: 'recovered',
      outcome: 'failed',
    })
  }
  return { recovered: open.length, atCheckpoint: open.filter(({ id }) => before.checkpoints.has(id)).length }
}

/** Nobody pays for more than what the provider says it sent. */
function expectBounded({ bySerial }: Ledger): void {
  const sent = new Map(provider.requests.map(request => [planOf(request).serial, request.emitted.tokens]))
  for (const { id, serial, charged, completionTokens } of bySerial.values()) {
    const tokens = sent.get(serial) ?? 0
    expect(completionTokens, id).toBeLessThanOrEqual(tokens)
    expect(charged, id).toBeLessThanOrEqual(tokens === 0 ? 0n : cost(PROMPT_TOKENS, tokens))
  }
}

/** I1 to I6 and I8, by the audit and by our own sums. */
async function expectBooks(ledger: Ledger): Promise<void> {
  const config = gateway.config
  const [verify, ...shown] = await Promise.all([
    tollgate(['ledger', 'verify', '--json'], { config }),
    ...accounts.map(({ accountId }) => tollgate(['account', 'show', accountId, '--json'], { config })),
  ])
  expect(JSON.parse(verify.stdout)).toEqual({
    accounts: CREDITS.length,
    events: CREDITS.length + 2 * ledger.exchanges.size,
    open_holds: 0,
    violations: [],
  })
  expect(verify.code).toBe(0)
  for (const [index, { stdout }] of shown.entries()) {
    const charges = [...ledger.exchanges.values()].filter(({ account }) => account === accounts[index]!.accountId)
    const spent = charges.reduce((sum, { charged }) => sum + charged!, 0n)
    const posted = formatMoney(parseMoney(CREDITS[index]!) - spent)
    expect(JSON.parse(stdout).account).toMatchObject({ posted, held: formatMoney(0n), available: posted })
  }
}

/** Owners read the same as what stands in the ledger. */
async function expectReceipts(load: Load, ledger: Ledger): Promise<void> {
  const recovered = load.asked.filter(({ question }) => ledger.bySerial.get(question.serial)?.source === 'recovered')
  const others = load.asked.filter(one => one.ending === 'complete' || one.ending === 'left')
  for (const one of [...recovered, ...others.slice(-50)]) {
    const exchange = ledger.bySerial.get(one.question.serial)
    if (!exchange) continue
    const answer = await fetch(`${gateway.url}/v1/receipts/${exchange.id}`, {
      headers: { authorization: `Bearer ${one.question.key}` },
    })
    expect(await answer.json()).toMatchObject({
      id: exchange.id,
      charged: formatMoney(exchange.charged!),
      held: formatMoney(exchange.held),
      outcome: exchange.outcome,
      idempotency_key: one.question.serial,
      usage: { completion_tokens: exchange.completionTokens, source: exchange.source },
    })
  }
}

interface Exchange {
  readonly id: string
  readonly serial: string
  readonly account: string
  readonly held: bigint
  /** Null: the hold is open. */
  readonly charged: bigint | null
  readonly source: string | null
  readonly outcome: string | null
  readonly completionTokens: number
}

/** The journal as rows, and the last checkpoint of each exchange. */
interface Ledger {
  readonly exchanges: ReadonlyMap<string, Exchange>
  readonly bySerial: ReadonlyMap<string, Exchange>
  readonly checkpoints: ReadonlyMap<string, { readonly amount: bigint; readonly completionTokens: number }>
}

/** Reads the journal, and closes it again: the next owner must find nobody. */
function readLedger(): Ledger {
  const database = openDatabase(storePath(), { readOnly: true })
  try {
    const rows = database.prepareMoney(`
      SELECT hold.id, hold.idempotency_key AS serial, hold.account, hold.amount AS held, settle.amount AS charged,
        settle.source, settle.outcome, ifnull(settle.completion_tokens, 0) AS tokens
      FROM event AS hold LEFT JOIN event AS settle ON settle.id = hold.id AND settle.kind = 1
      WHERE hold.kind = 0 ORDER BY hold.id`)
    const exchanges = rows.all().map(({ tokens, ...row }) => ({ ...row, completionTokens: Number(tokens) }) as Exchange)
    const bySerial = new Map(exchanges.map(exchange => [exchange.serial, exchange]))
    expect(bySerial.size, 'no request has two holds').toBe(exchanges.length)
    const reached = database.prepareMoney('SELECT exchange, amount, completion_tokens FROM checkpoint ORDER BY seq')
    return {
      exchanges: new Map(exchanges.map(exchange => [exchange.id, exchange])),
      bySerial,
      checkpoints: new Map(
        reached.all().map(row => {
          const { exchange, amount, completion_tokens: tokens } = row
          return [String(exchange), { amount: amount as bigint, completionTokens: Number(tokens) }]
        }),
      ),
    }
  } finally {
    database.close()
  }
}

function storePath(): string {
  return join(dir!, 'data/tollgate.db')
}

function planOf(request: ProviderRequest): Plan {
  return JSON.parse((request.body as { messages: [{ content: string }] }).messages[0].content)
}

function costOf({ prompt_tokens, completion_tokens }: WireUsage): bigint {
  return cost(prompt_tokens, completion_tokens)
}

/** By the price list, rounded up once. */
function cost(prompt: number, completion: number): bigint {
  return (BigInt(prompt) * PRICE.input + BigInt(completion) * PRICE.output + 999_999n) / 1_000_000n
}

function money(amount: bigint): string {
  return `$${formatMoney(amount)}`
}
