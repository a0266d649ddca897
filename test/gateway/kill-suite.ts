/**
 * kill -9 of a real gateway under load, repeatedly on the same store. An answer whose end the client received is charged once, to the
 * nano-dollar. Any other is settled as spooled, at its checkpoint, or for nothing. Nothing stays held. Meanwhile providers fail,
 * connections to them break, clients disconnect or stop reading, and the disk is slow or fails.
 *
 * The test compares the clients' data, the provider's data, the output of commands, and receipts. Between two processes it also reads the
 * database, for the promises of the killed one.
 *
 * All random choices of a round come from TOLLGATE_SEED plus its number: a failed round is the first one of its own seed.
 */
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { formatMoney, parseMoney, type WireUsage } from '#contract'
import {
  errorAnswer,
  exact,
  type FakeProvider,
  gated,
  type ProviderRequest,
  startFakeProvider,
  stream,
} from '../helpers/fake-provider.ts'
import { type FaultProxy, startFaultProxy } from '../helpers/fault-proxy.ts'
import { FAULTS } from '../helpers/faults.ts'
import { answerOf, createAccount, type Gateway, startGateway } from '../helpers/gateway.ts'
import { type Load, type LoadRequest, type Question, startLoad } from '../helpers/load.ts'
import { seeded } from '../helpers/seeded.ts'
import { cost, policies, yamlOf } from './kill-configuration.ts'
import { type Exchange, expectBooks, expectRecovered, type Ledger, lookInto, readLedger } from './kill-ledger.ts'

const SEED = Number(process.env.TOLLGATE_SEED ?? Date.now() % 1_000_000)
let kills = 1
const CLIENTS = 40
/** Accounts that request only quick answers, so that some answer always ends. */
const QUICK_CLIENTS = 12
/** Accounts that request much and stop reading. */
const STALLED_CLIENTS = 2
/** Running the commands too takes a second, so only some rounds do. */
const COMMANDS_EVERY = 10

/** The provider's figure for every prompt, which exceeds the gateway's estimate for the prompts here. */
const PROMPT_TOKENS = 40
/** The last account is poor: some of its requests are refused, and their output caps lowered. */
const CREDITS = ['100', '0.004']
/** Its further credits, in dollars. */
const MORE_CREDIT = '0.0005'
const TOKEN = ' tok'
/** More than the buffers of two sockets, so that the gateway waits for a client that does not read. */
const LARGE = { tokens: 60, token: 'x'.repeat(128 * 1024), most: 2_000_000 }
/** Long ones, and those with false usage, have their own tests. */
const UPSTREAM_FAULTS = FAULTS.filter(
  ({ id }) => !['F11', 'F16', 'F22', 'F24', 'F25', 'F26', 'F29', 'F30'].includes(id),
)
const BAD_DISK = new URL('kill.child.ts', import.meta.url).pathname

interface Plan {
  readonly serial: string
  readonly kind: 'quick' | 'slow' | 'error' | 'fault' | 'large'
  readonly tokens: number
  /** An index in `UPSTREAM_FAULTS`. */
  readonly fault: number
}

/** One run of a gateway, with its provider and its proxy. */
interface GatewayRun {
  readonly random: () => number
  readonly gateway: Gateway
  readonly provider: FakeProvider
  readonly proxy: FaultProxy
  /** Held answers at the provider. */
  slow: ProviderRequest[]
  /** The event after which the gateway is killed. */
  readonly moment: 'any' | 'checkpoint' | 'spool'
  readonly badDisk: boolean
}

let accounts: { accountId: string; key: string }[]
let dir: string | undefined
const plans = new Map<string, Plan>()
const granted = new Map<string, { amount: bigint; times: number }>()
const sums = { recovered: 0, atCheckpoint: 0, spooled: 0, replayed: 0 }
const endings = new Map<string, number>()

/** Defines the test with this number of kills. From 100 on it also expects that every kind of ending occurred. */
export function testKills(count: number): void {
  kills = count
  test(`kill -9 under load, ${count} times (TOLLGATE_SEED=${SEED})`, async () => {
    console.log(`kill -9 of the gateway: TOLLGATE_SEED=${SEED}`)
    const startedAt = performance.now()
    let run = await begin(0)
    accounts = await Promise.all(CREDITS.map(credit => createAccount(run.gateway, { credit })))
    for (const [index, { accountId }] of accounts.entries()) grant(accountId, CREDITS[index]!)
    for (let kill = 0; kill < kills; kill++) {
      run = await oneKill(run, kill).catch((error: Error) => {
        error.message = `kill ${kill}, which is the first one of TOLLGATE_SEED=${SEED + kill}: ${error.message}`
        throw error
      })
    }
    expect(await run.gateway.stop()).toBe(0)
    await leave(run)
    const counted = [...endings].map(([word, times]) => `${times} ${word}`).join(', ')
    console.log(
      `${kills} kills in ${((performance.now() - startedAt) / 1000).toFixed(0)} s: ${plans.size} requests (${counted}); ` +
        `${sums.recovered} recovered, ${sums.atCheckpoint} of them at a checkpoint; ${sums.spooled} were in the spool, ${sums.replayed} of them unsettled`,
    )
    // Rounds without these endings would prove nothing. A few rounds do not have all of them.
    const isMany = kills >= 100
    const met = isMany ? ['left', 'credit_on_hold', 'upstream_error', 'store_unavailable'] : []
    for (const word of ['complete', 'broken', ...met]) expect(endings.get(word) ?? 0, word).toBeGreaterThan(0)
    expect(sums.recovered).toBeGreaterThan(0)
    if (isMany) expect(Math.min(sums.atCheckpoint, sums.spooled)).toBeGreaterThan(0)
  })
}

/** Load, the moment, the kill, the next run, and all conditions that must hold then. */
async function oneKill(run: GatewayRun, kill: number): Promise<GatewayRun> {
  const { gateway, provider } = run
  const load = startLoad({
    url: gateway.url,
    clients: CLIENTS,
    choose: client => choose(run, client),
    onEnded: () => stepOne(run),
  })
  await momentToKill(run, load)
  const broken = load.asked.filter(({ ending }) => ending === 'broken')
  await gateway.kill9()
  await load.over
  await Promise.all(run.slow.map(request => provider.waitForClose(request)))

  const before = readLedger(storePath())
  // After a broken stream its connection ends. A request that is sent on it too late never reaches the gateway.
  const begun = broken.filter(({ question }) => before.bySerial.has(question.serial))
  expect(begun, 'broken before the kill').toEqual([])
  expectPromises(run, load, before)
  await leave(run)
  const next = await begin(kill + 1)
  const after = readLedger(storePath())
  const recovery = expectRecovered(before, after)
  // Recovery comes before listening, so the log has it by now.
  const line = next.gateway.logs().find(({ settled }) => settled !== undefined)
  const { recovered: settled, replayed } = recovery
  if (settled + replayed > 0) expect(line).toMatchObject({ settled, replayed })
  else expect(line).toBeUndefined()
  expectBounded(provider, load, after)
  expectBooks(storePath(), after, granted)
  await expectReceipts(next, load, after)
  if (kill % COMMANDS_EVERY === 0 || kill === kills - 1) await expectCommands(next, after)
  for (const { ending, code } of load.asked) {
    const word = code ?? ending!
    endings.set(word, (endings.get(word) ?? 0) + 1)
  }
  for (const name of ['recovered', 'atCheckpoint', 'replayed'] as const) sums[name] += recovery[name]
  sums.spooled += before.spooled.size
  return next
}

/** A new provider, a new proxy in front of it, and a gateway on the same directory. */
async function begin(kill: number): Promise<GatewayRun> {
  const seed = SEED + kill
  const random = seeded(seed)
  // Of five rounds at least two have a bad disk: one kills at a checkpoint, one with charges in the spool.
  const badDisk = kill < kills && (seed % 5 < 2 || random() < 0.3)
  // On a good disk a checkpoint takes five seconds, so few rounds wait for one there.
  const moment = badDisk && seed % 5 === 0 ? 'spool' : badDisk || seed % 40 === 39 ? 'checkpoint' : 'any'
  const provider = await startFakeProvider({ script: request => behave(run, request) })
  const proxy = await startFaultProxy({ target: provider.url, faults: () => faultsOf(random) })
  const direct = { dialect: 'openai', base_url: provider.baseUrl }
  const gateway = await startGateway({
    yaml: yamlOf({ direct, through: { ...direct, base_url: `${proxy.url}/v1` } }),
    policies,
    ...(dir === undefined ? {} : { dir }),
    ...(badDisk ? { entry: BAD_DISK, env: diskOf(random) } : {}),
  })
  dir = gateway.dir
  const run: GatewayRun = { random, gateway, provider, proxy, slow: [], moment, badDisk }
  return run
}

function diskOf(random: () => number): Record<string, string> {
  return {
    TEST_COMMIT_MS: String(random() < 0.5 ? 0 : Math.floor(random() * 15)),
    TEST_COMMIT_FAILS: random() < 0.5 ? 'before' : 'after',
  }
}

/** The faults of a connection between the gateway and the provider. */
function faultsOf(random: () => number) {
  const chance = random()
  const afterBytes = 200 + Math.floor(random() * 20_000)
  if (chance < 0.1) return { refuse: true }
  if (chance < 0.3) return { down: { cut: { afterBytes, how: 'rst' as const } } }
  if (chance < 0.5) return { down: { cut: { afterBytes, how: 'fin' as const } } }
  return chance < 0.7 ? { down: { sliceBytes: 1 + Math.floor(random() * 50) } } : {}
}

async function leave({ provider, proxy }: GatewayRun): Promise<void> {
  await proxy.close()
  await provider.close()
}

/** Chooses the provider's answer to a request. */
function behave(run: GatewayRun, request: ProviderRequest) {
  const { kind, tokens, fault } = planOf(request)
  if (kind === 'error') return errorAnswer(500)
  if (kind === 'fault') return UPSTREAM_FAULTS[fault]!.make(request.body?.['stream'] ? 'stream' : 'whole')
  if (kind === 'large') return stream({ tokens: Array<string>(tokens).fill(LARGE.token), promptTokens: PROMPT_TOKENS })
  const options = { tokens: Array<string>(tokens).fill(TOKEN), promptTokens: PROMPT_TOKENS }
  if (kind === 'quick') return exact(options)
  run.slow.push(request)
  return gated(options)
}

/** Chooses the next request of a client. */
function choose({ random }: GatewayRun, client: number): Question {
  const serial = `serial-${plans.size}`
  const { key } = accounts[random() < 0.2 ? 1 : 0]!
  const stalls = client >= CLIENTS - STALLED_CLIENTS
  const plan = stalls
    ? { serial, kind: 'large' as const, tokens: LARGE.tokens, fault: 0 }
    : planFor(serial, client, random)
  plans.set(serial, plan)
  const messages = [{ role: 'user', content: JSON.stringify(plan) }]
  const streamed = { stream: true, stream_options: { include_usage: true } }
  if (stalls) {
    const body = { model: 'large', max_tokens: LARGE.most, messages, ...streamed }
    return { serial, key: accounts[0]!.key, body, stall: true }
  }
  return {
    serial,
    key,
    body: {
      model: random() < 0.15 ? 'through' : 'm',
      max_tokens: 200 + Math.floor(random() * 800),
      messages,
      ...(random() < 0.7 ? streamed : {}),
    },
    ...(random() < 0.1 ? { leaveAfter: Math.floor(random() * 30) } : {}),
  }
}

function planFor(serial: string, client: number, random: () => number): Plan {
  const quick = client < QUICK_CLIENTS
  const chance = random()
  const kind = chance < 0.03 ? 'error' : chance < 0.1 ? 'fault' : quick ? 'quick' : 'slow'
  const tokens = 1 + Math.floor(random() * (quick ? 20 : 200))
  return { serial, kind, tokens, fault: Math.floor(random() * UPSTREAM_FAULTS.length) }
}

/** Each answer that ends releases an event of a held answer: slow streams, without a clock. */
function stepOne(run: GatewayRun): void {
  run.slow = run.slow.filter(request => request.ending === null)
  void run.slow[Math.floor(run.random() * run.slow.length)]?.step()
}

/** After some answers, while some streams are open; and sometimes only when some have a checkpoint, or a spooled settle. */
async function momentToKill({ random, moment, gateway }: GatewayRun, load: Load): Promise<void> {
  const answers = Math.floor(random() * 120)
  const streams = 1 + Math.floor(random() * 10)
  await load.until(() => load.ended >= answers && load.open().filter(({ arrived }) => arrived).length >= streams)
  // A single kill must not come before an answer whose charge it could lose.
  if (kills === 1) await load.until(() => load.asked.some(({ ending }) => ending === 'complete'))
  if (moment === 'any') return
  if (moment === 'spool') process.kill(gateway.pid, 'SIGUSR2')
  const look = lookInto(storePath())
  let lookAgainAt = 0
  await load.until(() => {
    if (load.ended < lookAgainAt) return false
    lookAgainAt = load.ended + (moment === 'spool' ? 1 : 50)
    return (moment === 'spool' ? look.spooled() : look.atCheckpoint()) >= 3
  })
  look.close()
}

/** Before recovery, the disk has every charge that the killed process had promised. */
function expectPromises({ provider }: GatewayRun, load: Load, ledger: Ledger): void {
  const sent = new Set(load.asked.map(({ question }) => question.serial))
  // I7: every request at the provider has its hold.
  for (const request of provider.requests) {
    // Requests that were cut on their way in are unknown.
    if (request.body === undefined) continue
    const { serial } = planOf(request)
    expect(ledger.bySerial.has(serial), `${serial} was sent to the provider without a hold`).toBe(true)
    expect(sent.has(serial), serial).toBe(true)
  }
  for (const one of load.asked) {
    const exchange = promised(ledger, one)
    if (exchange && one.id !== null) expect(exchange.id).toBe(one.id)
    // The last bytes are sent after the charge is committed or spooled, so every complete answer has one.
    if (one.ending === 'complete') expectCharged(one, exchange)
    // I10. The answer "store_unavailable" means that the ledger could not be written.
    if (one.ending === 'refused' && !one.arrived && exchange && one.code !== 'store_unavailable') {
      expect(exchange.charged, one.code ?? '').toBe(0n)
    }
  }
}

/** The exchange, with its charge on disk: in the ledger, or in the spool. */
function promised({ bySerial, spooled }: Ledger, { question }: LoadRequest): Exchange | undefined {
  const exchange = bySerial.get(question.serial)
  const settle = exchange && spooled.get(exchange.id)
  if (exchange?.charged !== null || !settle) return exchange
  return { ...exchange, ...settle, charged: settle.amount, completionTokens: settle.usage.output ?? 0 }
}

function expectCharged(one: LoadRequest, exchange: Exchange | undefined): void {
  expect(exchange, `${one.id} was answered`).toBeDefined()
  expect(one.usage, `${one.id} has a usage`).not.toBeNull()
  const { kind } = plans.get(one.question.serial)!
  const charged = costOf(kind, one.usage!)
  expect(exchange, JSON.stringify(plans.get(one.question.serial))).toMatchObject({
    id: one.id,
    charged,
    completionTokens: one.usage!.completion_tokens,
    source: 'reported',
    outcome: 'answered',
  })
  if (!one.question.body['stream']) expect(one.cost).toBe(formatMoney(charged))
  else if (kind === 'quick' || kind === 'slow') expect(one.pieces, one.id!).toBe(one.usage!.completion_tokens)
}

/** No charge exceeds the provider's record. */
function expectBounded(provider: FakeProvider, load: Load, { bySerial }: Ledger): void {
  const sent = new Map<string, { tokens: number; bytes: number }>()
  for (const request of provider.requests) {
    if (request.body === undefined) continue
    const { serial } = planOf(request)
    const { tokens, bytes } = sent.get(serial) ?? { tokens: 0, bytes: 0 }
    sent.set(serial, { tokens: tokens + request.emitted.tokens, bytes: bytes + request.emitted.bytes })
  }
  for (const { question } of load.asked) {
    const exchange = bySerial.get(question.serial)
    if (exchange === undefined) continue
    const { id, serial, held, charged, completionTokens, source } = exchange
    const { kind } = plans.get(serial)!
    const { tokens, bytes } = sent.get(serial) ?? { tokens: 0, bytes: 0 }
    expect(charged, id).toBeLessThanOrEqual(held)
    if (source === 'prompt_estimated') {
      // The client disconnected before the first token; the provider may have sent some tokens.
      const [message] = question.body['messages'] as [{ content: string }]
      expect(charged, id).toBe(cost(kind, Math.ceil(message.content.length / 4) + 4, 0))
      continue
    }
    if (bytes === 0) expect(charged, id).toBe(0n)
    // A fault is not metered, and pieces larger than a token are counted by bytes.
    if (kind === 'fault' || kind === 'large') continue
    expect(completionTokens, id).toBeLessThanOrEqual(tokens)
    expect(charged, id).toBeLessThanOrEqual(tokens === 0 ? 0n : cost(kind, PROMPT_TOKENS, tokens))
  }
}

/** The commands agree with the files, and give the poor account more credit. */
async function expectCommands({ gateway }: GatewayRun, ledger: Ledger): Promise<void> {
  const poor = accounts.at(-1)!.accountId
  const audit = await answerOf(['ledger', 'verify'], gateway)
  expect(audit).toMatchObject({ accounts: CREDITS.length, open_holds: 0, violations: [] })
  for (const { accountId } of accounts) {
    const { account } = await answerOf<{ account: unknown }>(['account', 'show', accountId], gateway)
    const charges = [...ledger.exchanges.values()].filter(({ account }) => account === accountId)
    const spent = charges.reduce((sum, { charged }) => sum + charged!, 0n)
    const posted = formatMoney(granted.get(accountId)!.amount - spent)
    expect(account).toMatchObject({ posted, held: formatMoney(0n), available: posted })
  }
  await answerOf(['account', 'credit', poor, '--amount', MORE_CREDIT], gateway)
  grant(poor, MORE_CREDIT)
}

function grant(accountId: string, dollars: string): void {
  const { amount, times } = granted.get(accountId) ?? { amount: 0n, times: 0 }
  granted.set(accountId, { amount: amount + parseMoney(dollars), times: times + 1 })
}

/** The receipts of the last requests, or of all before a single kill, as their owners read them, match the ledger. */
async function expectReceipts({ gateway }: GatewayRun, load: Load, ledger: Ledger): Promise<void> {
  for (const one of load.asked.slice(kills === 1 ? 0 : -CLIENTS)) {
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

function storePath(): string {
  return join(dir!, 'data/tollgate.db')
}

function planOf(request: ProviderRequest): Plan {
  return JSON.parse((request.body as { messages: [{ content: string }] }).messages[0].content)
}

function costOf(kind: Plan['kind'], { prompt_tokens, completion_tokens }: WireUsage): bigint {
  return cost(kind, prompt_tokens, completion_tokens)
}
