/**
 * The ledger compared with a model of a few Maps. Credits, holds, settles, checkpoints and freezes run in any order, alone or many in one
 * turn, sometimes repeated, with kill -9 in between. After every command the test compares balances, open holds and receipts. It also
 * compares their sums: usage by hour and day, totals of keys, and periods of budgets. fast-check prints the seed and the shortest failing run.
 */
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import type { HoldBudget } from '#contract'
import { createSpool } from '../../../src/store/money/spool.ts'
import { budgetUses } from '../../helpers/budget-uses.ts'
import { countsOf } from '../../helpers/counts.ts'
import {
  aHold,
  aSettle,
  copyData,
  type Engine,
  folder,
  onEveryEngine,
  type TestStore,
  type TestStoreOptions,
  testClock,
  testStore,
} from '../helpers.ts'
import { BudgetModel, holdBudget, type ModelBudget } from './budget-model.ts'

const counts = countsOf('ledger')

// No power loss happens here, so waiting for the disk would only cost time.
const MEMORY = existsSync('/dev/shm') ? '/dev/shm' : undefined

const ACCOUNTS = ['alice', 'bob'] as const
const KEYS = ['capped', 'free'] as const
const CAP = 90n
const EXCHANGES = ['req_1', 'req_2', 'req_3', 'req_4', 'req_5', 'req_6']

type Operation =
  | { do: 'credit'; account: string; amount: bigint; reference: string }
  | { do: 'hold'; account: string; key: string; exchange: string; amount: bigint; budgets: ModelBudget[] }
  | { do: 'settle'; exchange: string; amount: bigint }
  | { do: 'checkpoint'; exchange: string; amount: bigint }
  | { do: 'freeze'; account: string; frozen: boolean }
  | { do: 'cap'; key: string; cap: bigint | null }

interface ModelHold {
  account: string
  key: string
  amount: bigint
  budgets: readonly HoldBudget[]
  charged: bigint | null
  checkpoint: bigint | null
  /** The time and tokens of recovery's settle; null: none, or a corrected one. */
  recovered: { readonly atMs: number; readonly tokens: readonly [bigint, bigint] } | null
}

interface ModelKey {
  cap: bigint | null
  held: bigint
  spent: bigint
  requests: number
}

class Model {
  readonly keys = new Map<string, ModelKey>(
    KEYS.map(name => [name, { cap: name === 'capped' ? CAP : null, held: 0n, spent: 0n, requests: 0 }]),
  )
  /** By account (or all of them), span and key: [requests, failed, prompt, completion, charged]. */
  readonly usage = new Map<string, bigint[]>()
  readonly accounts = new Map(ACCOUNTS.map(name => [name as string, { posted: 0n, held: 0n, frozen: false }]))
  readonly holds = new Map<string, ModelHold>()
  readonly credits = new Map<string, { account: string; amount: bigint }>()
  readonly budgets = new BudgetModel()
  readonly spooled: { exchange: string; amount: bigint }[] = []

  open(): [string, ModelHold][] {
    return [...this.holds].filter(([, hold]) => hold.charged === null)
  }

  /** The expected answer of the store: a word, or `mistake`. */
  apply(operation: Operation, nowMs: number): string {
    if (operation.do === 'credit') return this.credit(operation)
    if (operation.do === 'hold') return this.hold(operation, nowMs)
    if (operation.do === 'settle') return this.settle(operation.exchange, operation.amount, nowMs)
    if (operation.do === 'cap') {
      this.keys.get(operation.key)!.cap = operation.cap
      return 'done'
    }
    if (operation.do === 'freeze') {
      this.accounts.get(operation.account)!.frozen = operation.frozen
      return 'done'
    }
    const hold = this.holds.get(operation.exchange)
    if (hold?.charged === null) hold.checkpoint = operation.amount
    return 'done'
  }

  credit({ account, amount, reference }: Operation & { do: 'credit' }): string {
    const known = this.credits.get(reference)
    if (known) return known.account === account && known.amount === amount ? 'known' : 'mistake'
    const owner = this.accounts.get(account)!
    if (owner.posted - owner.held + amount < 0n) return 'mistake'
    this.credits.set(reference, { account, amount })
    owner.posted += amount
    return 'granted'
  }

  hold({ account, key, exchange, amount, budgets: written }: Operation & { do: 'hold' }, nowMs: number): string {
    const budgets = written.map(each => holdBudget(each, nowMs))
    const known = this.holds.get(exchange)
    if (known)
      return known.account === account && known.amount === amount && known.charged === null ? 'held' : 'mistake'
    const owner = this.accounts.get(account)!
    if (owner.frozen) return 'frozen'
    if (owner.posted - owner.held < amount) return `short account ${owner.posted - owner.held} ${owner.held}`
    const total = this.keys.get(key)!
    const left = total.cap === null ? null : total.cap - total.spent - total.held
    if (left !== null && left < amount) return `short key ${left} ${total.held}`
    const short = this.budgets.shortOf(account, budgets, amount)
    if (short !== null) return short
    this.budgets.reserve(account, budgets, amount)
    owner.held += amount
    total.held += amount
    total.requests++
    this.holds.set(exchange, { account, key, amount, budgets, charged: null, checkpoint: null, recovered: null })
    return 'held'
  }

  /** @param tokens of the prompt and of the completion; undefined: those of a settle that a step requests */
  settle(exchange: string, amount: bigint, nowMs: number, tokens?: readonly [bigint, bigint]): string {
    const hold = this.holds.get(exchange)
    if (!hold) return 'no_hold'
    if (amount > hold.amount) return 'mistake'
    if (hold.charged !== null) return tokens ? 'already_settled' : this.correct(hold, hold.charged, amount)
    hold.charged = amount
    if (tokens) hold.recovered = { atMs: nowMs, tokens }
    const owner = this.accounts.get(hold.account)!
    owner.held -= hold.amount
    owner.posted -= amount
    const total = this.keys.get(hold.key)!
    total.held -= hold.amount
    total.spent += amount
    this.budgets.settle(hold.account, hold.budgets, hold.amount, amount)
    this.count(hold, nowMs, [1n, tokens ? 1n : 0n, ...(tokens ?? [10n, 20n]), amount])
    return 'settled'
  }

  /** A settle after recovery: it books the difference, as far as the account and the key can pay. */
  correct(hold: ModelHold, charged: bigint, amount: bigint): string {
    const { recovered } = hold
    if (recovered === null) return 'already_settled'
    hold.recovered = null
    const owner = this.accounts.get(hold.account)!
    const total = this.keys.get(hold.key)!
    const free = [owner.posted - owner.held]
    if (total.cap !== null) free.push(total.cap > total.spent + total.held ? total.cap - total.spent - total.held : 0n)
    free.push(...this.budgets.free(hold.account, hold.budgets))
    const booked = free.reduce((least, each) => (each < least ? each : least), amount - charged)
    hold.charged = charged + booked
    owner.posted -= booked
    total.spent += booked
    this.budgets.settle(hold.account, hold.budgets, 0n, booked)
    const [prompt, completion] = recovered.tokens
    this.count(hold, recovered.atMs, [0n, -1n, 10n - prompt, 20n - completion, booked])
    return 'corrected'
  }

  count(hold: ModelHold, atMs: number, used: readonly bigint[]): void {
    for (const step of ['hour', 'day'] as const) {
      this.use(`${hold.account} ${step} ${spanOf(step, atMs)} ${hold.key}`, used)
      this.use(`all ${step} ${spanOf(step, atMs)} `, used)
    }
  }

  use(row: string, used: readonly bigint[]): void {
    const before = this.usage.get(row)
    this.usage.set(row, before ? before.map((count, index) => count + used[index]!) : [...used])
  }

  recover(nowMs: number) {
    const report = { settled: 0, replayed: 0, rejected: 0, charged: 0n }
    for (const { exchange, amount } of this.spooled.splice(0)) {
      const result = this.settle(exchange, amount, nowMs)
      if (result === 'settled' || result === 'corrected') {
        report.replayed++
        report.charged += amount
      } else if (result !== 'already_settled') report.rejected++
    }
    for (const [exchange, hold] of this.open()) {
      const reached = hold.checkpoint ?? 0n
      const amount = reached < hold.amount ? reached : hold.amount
      this.settle(exchange, amount, nowMs, hold.checkpoint === null ? [0n, 0n] : [1n, 2n])
      report.settled++
      report.charged += amount
    }
    return report
  }
}

const spanOf = (step: 'hour' | 'day', ms: number) => ms - (ms % (step === 'hour' ? 3_600_000 : 86_400_000))

/** The store under test; `crash` replaces the store by a copy of its data. */
class Real {
  readonly clock = testClock()
  readonly ids = new Map<string, string>()
  store!: TestStore
  readonly engine: Engine
  readonly writes: 'thread' | 'here'

  constructor(writes: 'thread' | 'here', engine: Engine) {
    this.writes = writes
    this.engine = engine
  }

  async start(): Promise<this> {
    const place = folder(MEMORY)
    await this.boot(this.engine === 'sqlite' ? { path: join(place, 'tollgate.db') } : { folder: place })
    for (const name of ACCOUNTS) this.ids.set(name, (await this.store.createAccount({ name })).id)
    for (const name of KEYS) {
      const spendingCap = name === 'capped' ? CAP : null
      // The ledger does not check whose key it is: here both accounts use both.
      const { key } = await this.store.createKey({ account: 'alice', name, spendingCap })
      this.ids.set(name, key.id)
    }
    return this
  }

  async boot(options: Partial<TestStoreOptions>): Promise<void> {
    const { clock, writes } = this
    this.store = await testStore({ ...options, clock, writes })
  }

  /** The data after kill -9, without the writes of close(). */
  async crash(): Promise<void> {
    const [path, folder] = await copyData(this.store.path, this.store.spool, MEMORY)
    await this.store.close()
    await this.boot({ path, folder })
  }

  async perform(operation: Operation): Promise<string> {
    const { ledger } = this.store
    try {
      if (operation.do === 'credit') {
        const { granted } = await this.store.credit({ ...operation, actor: 'test', note: 'why' })
        return granted ? 'granted' : 'known'
      }
      if (operation.do === 'hold') {
        const accountId = this.ids.get(operation.account)!
        const keyId = this.ids.get(operation.key)!
        const budgets = operation.budgets.map(each => holdBudget(each, this.clock.ms))
        const result = await ledger.hold(aHold({ ...operation, accountId, keyId, budgets }))
        if (result.held) return 'held'
        if (result.reason !== 'short') return result.reason
        const which = result.of === 'budget' ? `budget ${result.budget}` : result.of
        return `short ${which} ${result.available} ${result.onHold}`
      }
      if (operation.do === 'settle') return await ledger.settle(aSettle(operation))
      if (operation.do === 'freeze') await this.store.freeze(operation.account, operation.frozen)
      else if (operation.do === 'cap') {
        await this.store.changeKey({ id: this.ids.get(operation.key)!, spendingCap: operation.cap })
      } else await ledger.checkpoint([{ ...operation, usage: { input: 1, output: 2 } }])
      return 'done'
    } catch (error) {
      if ((error as Error).name !== 'StoreError') throw error
      return 'mistake'
    }
  }
}

/** Every row of usage, in the model's form. */
function usageOf({ store, ids }: Real): Map<string, bigint[]> {
  const rows = new Map<string, bigint[]>()
  const names = new Map([...ids].map(([name, id]) => [id, name]))
  for (const account of ['all', ...ACCOUNTS]) {
    for (const step of ['hour', 'day'] as const) {
      const query = { step, from: 0, to: Number.MAX_SAFE_INTEGER }
      for (const row of store.reads.reports.usage(
        account === 'all' ? query : { ...query, accountId: ids.get(account)! },
      )) {
        const counts = [row.requests, row.failed, row.promptTokens, row.completionTokens].map(BigInt)
        rows.set(`${account} ${step} ${row.at} ${names.get(row.keyId) ?? ''}`, [...counts, row.charged])
      }
    }
  }
  return rows
}

/** The marks with an alert. */
function alertsOf({ store, ids }: Real): Set<string> {
  const database = store.connect()
  const rows = database.prepare("SELECT id FROM alert WHERE kind = 'budget'").all()
  database.close()
  const names = new Map([...ids].map(([name, id]) => [id, name]))
  return new Set(
    rows.map(({ id }) => {
      const [, account, ...rest] = String(id).split(' ')
      return [names.get(account!), ...rest].join(' ')
    }),
  )
}

/** @param open the number of open holds that the store knows */
function compare(model: Model, real: Real, open = model.open().length): void {
  const { store, ids } = real
  expect(usageOf(real)).toEqual(model.usage)
  for (const [name, { cap, spent, requests }] of model.keys) {
    expect(store.reads.findKey(ids.get(name)!)).toMatchObject({ spendingCap: cap, spent, requests })
  }
  for (const [name, { posted, held, frozen }] of model.accounts) {
    expect(store.reads.findAccount(name)).toMatchObject({ posted, held, frozen })
  }
  const rows = new Map<string, object>()
  for (const name of ACCOUNTS) {
    // Periods of today, of the days before and after, and for life.
    for (const days of [-1, 0, 1]) {
      for (const use of budgetUses(store.reads, ids.get(name)!, real.clock.ms + days * 86_400_000)) {
        const { budget, start, amount, held, spent } = use
        rows.set(`${name} ${budget} ${start}`, { amount, held, spent })
      }
    }
  }
  for (const [name, row] of rows) expect(model.budgets.rows.get(name), name).toMatchObject(row)
  expect(store.openHolds()).toBe(open)
  for (const exchange of EXCHANGES) {
    const hold = model.holds.get(exchange)
    expect(store.reads.findReceipt(exchange)?.held).toBe(hold?.amount)
    expect(store.reads.findReceipt(exchange)?.charged).toBe(hold?.charged)
  }
}

type Command = fc.AsyncCommand<Model, Real>

/** Several operations in one turn of the event loop share a transaction, and still answer as if they ran one after the other. */
class Turn implements Command {
  readonly operations: readonly Operation[]
  readonly laterMs: number
  constructor(operations: readonly Operation[], laterMs: number) {
    this.operations = operations
    this.laterMs = laterMs
  }
  check = () => true
  async run(model: Model, real: Real): Promise<void> {
    real.clock.ms += this.laterMs
    const expected = this.operations.map(operation => model.apply(operation, real.clock.ms))
    expect(await Promise.all(this.operations.map(operation => real.perform(operation)))).toEqual(expected)
    compare(model, real)
  }
  toString = () => `turn(+${this.laterMs} ms: ${this.operations.map(o => Object.values(o).join(' ')).join(', ')})`
}

class Crash implements Command {
  check = () => true
  async run(model: Model, real: Real): Promise<void> {
    await real.crash()
    // This replica knows the holds of another one only after a takeover.
    compare(model, real, real.engine === 'sqlite' ? model.open().length : 0)
    expect(await real.store.recover()).toEqual(model.recover(real.clock.ms))
    compare(model, real)
    expect(real.store.reads.verify()).toMatchObject({ openHolds: 0, violations: [] })
    expect(alertsOf(real)).toEqual(model.budgets.alerts)
  }
  toString = () => 'crash'
}

/** Spooled settles, then the end of the process. (A living process replays them with its next write.) */
class SpoolAndCrash extends Crash {
  readonly settles: readonly { readonly exchange: string; readonly amount: bigint }[]
  constructor(settles: readonly { readonly exchange: string; readonly amount: bigint }[]) {
    super()
    this.settles = settles
  }
  override async run(model: Model, real: Real): Promise<void> {
    for (const settle of this.settles) {
      // In PostgreSQL the close takes so long that the store would write the settles first. There the test appends the line itself.
      if (real.engine === 'sqlite') real.store.ledger.spool(aSettle(settle))
      else createSpool(real.store.spool).append(aSettle(settle))
      model.spooled.push(settle)
    }
    compare(model, real)
    await super.run(model, real)
  }
  override toString = () =>
    `spool(${this.settles.map(settle => `${settle.exchange} ${settle.amount}`).join(', ')}), crash`
}

const account = fc.constantFrom(...ACCOUNTS)
const exchange = fc.constantFrom(...EXCHANGES)
const key = fc.constantFrom(...KEYS)
const amount = fc.bigInt({ min: 0n, max: 60n })
const limit = fc.constantFrom(40n, 80n, 150n)
const budgets = fc
  .tuple(fc.option(limit), fc.option(limit))
  .map(([day, team]): ModelBudget[] => [
    ...(day === null ? [] : [{ name: 'day' as const, amount: day }]),
    ...(team === null ? [] : [{ name: 'team' as const, amount: team }]),
  ])
const operation: fc.Arbitrary<Operation> = fc.oneof(
  fc.record({
    do: fc.constant('credit' as const),
    account,
    amount: fc.bigInt({ min: -60n, max: 100n }).filter(each => each !== 0n),
    reference: fc.constantFrom('a', 'b', 'c', 'd', 'e', 'f'),
  }),
  { weight: 3, arbitrary: fc.record({ do: fc.constant('hold' as const), account, key, exchange, amount, budgets }) },
  { weight: 3, arbitrary: fc.record({ do: fc.constant('settle' as const), exchange, amount }) },
  fc.record({ do: fc.constant('checkpoint' as const), exchange, amount }),
  fc.record({ do: fc.constant('freeze' as const), account, frozen: fc.boolean() }),
  fc.record({ do: fc.constant('cap' as const), key, cap: fc.option(fc.bigInt({ min: 0n, max: 200n })) }),
)
// The clock also goes backwards, passes the minute after which open_from moves, and enters other hours and days of usage.
const laterMs = fc.constantFrom(0, 1, 70_000, -70_000, 3_600_000, 80_000_000)
const command = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.tuple(fc.array(operation, { minLength: 1, maxLength: 4 }), laterMs).map(([o, ms]) => new Turn(o, ms)),
  },
  { weight: 1, arbitrary: fc.tuple(operation, laterMs).map(([o, ms]) => new Turn([o, o], ms)) },
  {
    weight: 1,
    arbitrary: fc
      .array(fc.record({ exchange, amount }), { minLength: 1, maxLength: 3 })
      .map(settles => new SpoolAndCrash(settles)),
  },
  { weight: 1, arbitrary: fc.constant(new Crash()) },
)

// Every crash starts a thread, which takes longer than the operations in it.
onEveryEngine(engine =>
  test.each([
    ['thread', counts(2, 100)],
    ['here', engine === 'sqlite' ? counts(25, 1000) : counts(6, 100)],
  ] as const)(
    'after any operations in any order the ledger equals the model, written by: %s',
    async (writes, numRuns) => {
      await fc.assert(
        fc.asyncProperty(fc.commands([command], { maxCommands: counts(20, 100), size: 'max' }), async commands => {
          const real = await new Real(writes, engine).start()
          try {
            await fc.asyncModelRun(() => ({ model: new Model(), real }), commands)
            expect(real.store.reads.verify().violations).toEqual([])
          } finally {
            await real.store.close()
          }
        }),
        { numRuns },
      )
    },
  ),
)
