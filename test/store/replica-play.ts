/**
 * A random play with three processes and one database. The error of each clock is up to 10 s. Leases end, processes die and restart, and
 * connections are cut. COMMITs fail or seem to fail, rows are locked, and a process loses the database for a while. A seed repeats the
 * random choices, as far as the server allows.
 *
 * It checks these promises:
 * - The answer to a caller is true.
 * - Each exchange is charged at most once.
 * - The amount owed is charged, also if the lease of the process ended, unless the process died.
 * - Each live process can write again, and nothing is held in the end.
 * - The budgets of each kind add up to the charges.
 */
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import { expect } from 'vitest'
import type { HoldBudget } from '#contract'
import { readFormer } from '../../src/store/engine/replica-keeper.ts'
import { StoreUnavailable } from '../../src/store/store.ts'
import { budgetUses } from '../helpers/budget-uses.ts'
import { seeded } from '../helpers/seeded.ts'
import { endLease, QUICK, run } from './beside.ts'
import { folder, fund, type TestStore, type TestStoreOptions, testClock, testStore } from './helpers.ts'
import { breakCommits, die, disconnect, mendCommits, mortalConnector, reconnect } from './mortal.ts'
import { aHold, aSettle } from './requests.ts'

const SKEW_MS = 10_000
const CREDIT = 2000n
/** A lease lasts 60 s after its renewal. A slow server may need 1 s more to report it. */
const LEASE_S = 61

/** Provides stores and folders, which a test removes. */
export interface Ground {
  open(options: TestStoreOptions): Promise<TestStore>
  folder(): string
}

/** A process, from its start to its death. */
interface Life {
  readonly id: number
  readonly store: TestStore
  readonly folder: string
  readonly replica: number
  /** Whether the process has lost the database. */
  isLost: boolean
}

/** The caller's knowledge of an exchange. */
interface Exchange {
  readonly id: string
  readonly life: Life
  held: 'asked' | 'yes' | 'no' | 'unknown'
  /** `owed`: the store has accepted the settle and writes it when it can. */
  settled: 'no' | 'asked' | 'yes' | 'other' | 'owed' | 'unknown'
  /** Whether the process keeps its lease until everything is written. */
  readonly isLast: boolean
  readonly amount: bigint
  readonly reached: bigint[]
  asked: bigint
}

let lives = 0

export class Play {
  readonly random: () => number
  readonly ground: Ground
  readonly alive: Life[] = []
  readonly dead: Life[] = []
  readonly exchanges: Exchange[] = []
  readonly waiting = new Set<Promise<unknown>>()
  /** Errors that the store must not throw. */
  readonly unexpected: unknown[] = []
  first!: TestStore
  account = ''

  constructor(seed: number, ground: Ground = { open: testStore, folder }) {
    this.random = seeded(seed)
    this.ground = ground
  }

  pick<Item>(items: readonly Item[]): Item {
    return items[Math.floor(this.random() * items.length)]!
  }

  /** @param planted statements that break the schema */
  async start(planted = ''): Promise<void> {
    this.first = await this.ground.open({ writes: 'here' })
    const database = this.first.connect()
    if (planted !== '') database.exec(planted)
    database.close()
    this.account = await fund(this.first, CREDIT)
    for (let count = 0; count < 3; count++) await this.join(this.ground.folder())
  }

  /** Starts a process; it recovers the holds of the previous process of its folder. */
  async join(place: string): Promise<void> {
    const id = ++lives
    const clock = testClock()
    clock.ms += Math.round((this.random() * 2 - 1) * SKEW_MS)
    const store = await this.ground.open({
      ...QUICK,
      writes: 'here',
      path: this.first.path,
      folder: place,
      clock,
      connector: mortalConnector(id),
    })
    await store.recover().catch(error => {
      die(id)
      throw error
    })
    const replica = readFormer(join(place, 'tollgate.replica'))!.id
    this.alive.push({ id, store, folder: place, replica, isLost: false })
  }

  /** Starts work that is awaited only at the end. */
  begin(work: Promise<unknown>): void {
    const settled = work
      .catch(error => void (isUnavailable(error) || this.unexpected.push(error)))
      .finally(() => this.waiting.delete(settled))
    this.waiting.add(settled)
  }

  async hold(life: Life, isLast = false): Promise<void> {
    const id = `req_${String(this.exchanges.length).padStart(4, '0')}`
    const amount = BigInt(1 + Math.floor(this.random() * 300))
    const exchange: Exchange = { id, life, isLast, amount, held: 'asked', settled: 'no', reached: [], asked: 0n }
    this.exchanges.push(exchange)
    const { ledger } = life.store
    try {
      const budgets = this.budgets()
      const { held } = await ledger.hold(aHold({ accountId: this.account, exchange: id, amount, budgets }))
      exchange.held = held ? 'yes' : 'no'
    } catch (error) {
      const isWritten = !(error instanceof StoreUnavailable) || error.written === 'unknown'
      exchange.held = isWritten ? 'unknown' : 'no'
      if (isWritten && this.alive.includes(life)) ledger.abandon(aSettle({ exchange: id, amount: 0n }))
      throw error
    }
  }

  /** Budgets of the account, of one of two keys, and of one of three values of a tag. */
  budgets(): HoldBudget[] {
    const rest = { start: 0, end: null, marks: [50, 100] }
    return [
      { budget: 'account/all/life/', amount: CREDIT - 200n, ...rest },
      { budget: `key/key/life/${this.pick(['one', 'two'])}`, amount: 1200n, ...rest },
      { budget: `policy p/team/life/${this.pick(['a', 'b', 'c'])}`, amount: 700n, ...rest },
    ]
  }

  async reach(exchange: Exchange): Promise<void> {
    const reached = BigInt(Math.floor(this.random() * Number(exchange.amount)))
    exchange.reached.push(reached)
    const { id } = exchange
    await exchange.life.store.ledger.checkpoint([{ exchange: id, amount: reached, usage: { input: 1, output: 1 } }])
  }

  /** Settles that the database does not accept are left to the store, as the gateway does. */
  async settle(exchange: Exchange): Promise<void> {
    exchange.settled = 'asked'
    exchange.asked = BigInt(Math.floor(this.random() * Number(exchange.amount + 1n)))
    const { life, id, asked } = exchange
    const request = aSettle({ exchange: id, amount: asked })
    try {
      const result = await life.store.ledger.settle(request)
      exchange.settled = result === 'settled' || result === 'corrected' ? 'yes' : 'other'
    } catch (error) {
      exchange.settled = this.alive.includes(life) ? 'owed' : 'unknown'
      if (exchange.settled === 'owed') life.store.ledger.spool(request)
      throw error
    }
  }

  async step(): Promise<void> {
    const chance = this.random()
    const life = this.pick(this.alive)
    const own = this.exchanges.filter(each => each.life === life && each.held === 'yes' && each.settled === 'no')
    if (chance < 0.45) this.begin(this.hold(life))
    else if (chance < 0.55 && own.length > 0) this.begin(this.reach(this.pick(own)))
    else if (chance < 0.75 && own.length > 0) this.begin(this.settle(this.pick(own)))
    else if (chance < 0.82) this.endOneLease()
    else if (chance < 0.86 && this.alive.length > 1) this.kill(life)
    else if (chance < 0.9 && this.alive.length < 3) await this.join(this.folderOfNext()).catch(expectUnavailable)
    else if (chance < 0.92) {
      run(
        this.first,
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND application_name LIKE 'tollgate replica %'",
      )
    } else if (chance < 0.923) this.lockBalances()
    else if (chance < 0.96) this.breakCommits(life, 0.8)
    else if (!life.isLost) this.loseDatabase(life)
    const lost = this.alive.find(({ isLost }) => isLost)
    if (lost !== undefined && this.random() < 0.1) this.regainDatabase(lost)
    if (this.random() < 0.05) mendCommits(this.pick(this.alive).id)
    if (this.random() < 0.5) await wait(this.random() * 20)
  }

  endOneLease(): void {
    const replicas = run(this.first, 'SELECT id FROM replica')
    if (replicas.length > 0) this.endLease(Number(this.pick(replicas)['id']))
  }

  endLease(replica: number): void {
    endLease(this.first, replica)
  }

  kill(life: Life): void {
    this.alive.splice(this.alive.indexOf(life), 1)
    this.dead.push(life)
    die(life.id)
  }

  /** Restarts a dead process, or starts a new one. */
  folderOfNext(): string {
    const former = this.random() < 0.5 ? this.dead.pop() : undefined
    return former?.folder ?? this.ground.folder()
  }

  /** Another connection locks every balance for longer than the timeout of a statement, or nearly as long. */
  lockBalances(): void {
    const other = this.first.connect()
    other.exec('BEGIN')
    other.prepare('SELECT * FROM balance FOR UPDATE').all()
    this.begin(wait(this.random() * 1500).then(() => other.close()))
  }

  /** Makes most COMMITs of the process report a failure, also all three attempts. @param undone the share of them that really fails */
  breakCommits(life: Life, undone: number): void {
    const random = seeded(Math.floor(this.random() * 2 ** 31))
    const soundness = 0.1 + 0.2 * random()
    breakCommits(life.id, () => (random() < soundness ? null : random() < undone ? 'before' : 'after'))
  }

  /** Separates the process from the database. The server notices at once, and often the lease ends before the process is back. */
  loseDatabase(life: Life): void {
    life.isLost = true
    disconnect(life.id)
    // Only in this database: other databases of the server have replicas with the same numbers.
    run(
      this.first,
      `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
      WHERE datname = current_database() AND application_name = 'tollgate replica ${life.replica}'`,
    )
    if (this.random() < 0.7) this.endLease(life.replica)
  }

  regainDatabase(life: Life): void {
    life.isLost = false
    reconnect(life.id)
    // The first operation uses state from before the loss. Some processes die right after it.
    const next = this.random()
    const hold = this.hold(life)
    this.begin(
      next < 0.5 ? hold.then(() => this.alive.length > 1 && this.alive.includes(life) && this.kill(life)) : hold,
    )
  }

  /** All processes reach the database again; owed settles are written, and dead processes are taken over. */
  async end(patienceMs = 20_000): Promise<void> {
    for (const life of this.alive) if (life.isLost) this.regainDatabase(life)
    await Promise.all(this.waiting)
    if (this.unexpected.length > 0) throw this.unexpected[0]
    const leases = run(
      this.first,
      `SELECT id FROM replica WHERE lease_until > clock_timestamp() + interval '${LEASE_S} s'`,
    )
    expect(leases, 'leases that last too long by the clock of the database').toEqual([])
    for (const { id } of this.alive) mendCommits(id)
    for (const { id, store, replica } of this.alive) {
      const isKept = `SELECT 1 FROM replica WHERE id = ${replica} AND taken_by IS NULL AND lease_until > clock_timestamp()`
      await this.within(patienceMs, `process ${id} can write again, and has its lease`, async () => {
        this.endTakeoverLeases()
        return (await canWrite(store)) && run(this.first, isKept).length === 1
      })
    }
    await this.settleAll()
    const isWritten = ({ store }: Life) => store.unwritten().spooled + store.unwritten().waiting === 0
    await this.within(patienceMs, 'what is owed is written', () => {
      this.endTakeoverLeases()
      return this.alive.every(isWritten)
    })
    await this.within(patienceMs, 'nothing is held', () => {
      // Leases of living processes do not end: on a busy machine these processes would take over each other first.
      const live = this.alive.map(({ replica }) => replica)
      const dead = `SELECT id FROM replica
        WHERE lease_until > clock_timestamp() + interval '1 s' AND (taken_by IS NOT NULL OR id NOT IN (${live}))`
      for (const { id } of run(this.first, dead)) endLease(this.first, Number(id))
      return run(this.first, 'SELECT held FROM balance')[0]!['held'] === 0
    })
  }

  /** All living processes settle their holds, while the database fails for a while. */
  async settleAll(): Promise<void> {
    const last = this.alive.flatMap(life => [this.hold(life, true), this.hold(life, true)])
    await Promise.all(last.map(each => each.catch(expectUnavailable)))
    for (const life of this.alive) if (this.random() < 0.8) this.breakCommits(life, 1)
    const isOpen = (each: Exchange) => this.alive.includes(each.life) && each.held === 'yes' && each.settled === 'no'
    await Promise.all(this.exchanges.filter(isOpen).map(each => this.settle(each).catch(expectUnavailable)))
    await wait(300)
    for (const { id } of this.alive) mendCommits(id)
  }

  /** Ends the leases of takeovers whose process died or lost its own lease, so that another process continues at once. */
  endTakeoverLeases(): void {
    for (const { id } of run(this.first, 'SELECT id FROM replica WHERE taken_by IS NOT NULL'))
      endLease(this.first, Number(id))
  }

  async within(ms: number, what: string, test: () => boolean | Promise<boolean>): Promise<void> {
    for (const until = performance.now() + ms; !(await test()); await wait(50)) {
      if (performance.now() < until) continue
      const replicas = run(this.first, 'SELECT id, taken_by, lease_until - clock_timestamp() AS lease FROM replica')
      const alive = this.alive.map(({ id, replica }) => [id, replica])
      throw new Error(`not within ${ms} ms: ${what}; ${JSON.stringify({ alive, replicas })}`)
    }
  }

  check(): void {
    const { reads } = this.first
    expect(reads.verify()).toMatchObject({ openHolds: 0, violations: [] })
    let charged = 0n
    for (const each of this.exchanges) {
      const receipt = reads.findReceipt(each.id)
      const { store: _, ...life } = each.life
      const what = JSON.stringify({ ...each, life }, (_, value) => (typeof value === 'bigint' ? `${value}` : value))
      if (each.held === 'yes') expect(receipt, what).toBeDefined()
      if (each.held === 'no') expect(receipt, what).toBeUndefined()
      const isSure = each.isLast || each.settled === 'yes' || this.alive.includes(each.life)
      // The account may have spent the rest before the correction.
      const unpaid = receipt?.correctedAt ? receipt.overrun! : 0n
      if (receipt && isSure) expect(receipt.charged! + unpaid, what).toBe(each.asked)
      else if (receipt) expect([0n, ...each.reached, each.asked], what).toContain(receipt.charged! + unpaid)
      charged += receipt?.charged ?? 0n
    }
    expect(reads.findAccount(this.account)).toMatchObject({ posted: CREDIT - charged, held: 0n })
    // Every exchange counts in one budget of each kind.
    const uses = budgetUses(reads, this.account, 0)
    for (const kind of ['account', 'key', 'policy']) {
      const of = uses.filter(({ budget }) => budget.startsWith(kind))
      expect(of.reduce((sum, { spent }) => sum + spent, 0n)).toBe(charged)
      for (const { amount, spent, held } of of) expect([held, spent <= amount]).toEqual([0n, true])
    }
  }
}

/** Whether an operation that changes nothing succeeds, in a transaction of its own. */
function canWrite({ ledger }: TestStore): Promise<boolean> {
  const nothing = { exchange: 'req_none', amount: 0n, usage: { input: 0, output: 0 } }
  return ledger.checkpoint([nothing]).then(
    () => true,
    () => false,
  )
}

function isUnavailable(error: unknown): boolean {
  return error instanceof StoreUnavailable || /store is closed|process is dead/.test(String(error))
}

function expectUnavailable(error: unknown): void {
  if (!isUnavailable(error)) throw error
}
