/**
 * Three processes with one database, whose clocks are up to 10 s apart, while chance ends leases, kills processes, cuts
 * connections, and lets others come. Whatever happens in whatever order: what a caller was told is so, each exchange is charged at
 * most once, and in the end nothing is held and every nano-dollar is accounted for. A seed repeats what chance drew, as far as
 * the server lets it.
 */
import { setTimeout as wait } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { StoreUnavailable } from '../../src/store/store.ts'
import { counts } from '../helpers/counts.ts'
import { seeded } from '../helpers/seeded.ts'
import { endLease, QUICK, run } from './beside.ts'
import { aHold, aSettle, fund, onPostgres, type TestStore, testClock, testStore } from './helpers.ts'
import { die, mortalConnector } from './mortal.ts'

const SKEW_MS = 10_000
const STEPS = 60
const CREDIT = 2000n

interface Life {
  readonly id: number
  readonly store: TestStore
  /** Its number in the database. */
  readonly replica: number
}

/** What is known of an exchange by who asked for it. */
interface Exchange {
  readonly id: string
  readonly life: Life
  held: 'asked' | 'yes' | 'no' | 'unknown'
  settled: 'no' | 'asked' | 'yes' | 'other' | 'unknown'
  readonly amount: bigint
  readonly reached: bigint[]
  asked: bigint
}

let lives = 0

class Play {
  readonly random: () => number
  readonly alive: Life[] = []
  readonly exchanges: Exchange[] = []
  readonly waiting = new Set<Promise<unknown>>()
  first!: TestStore
  account = ''

  constructor(seed: number) {
    this.random = seeded(seed)
  }

  pick<Item>(items: readonly Item[]): Item {
    return items[Math.floor(this.random() * items.length)]!
  }

  /** @param planted statements that break the schema */
  async start(planted = ''): Promise<void> {
    this.first = await testStore({ writes: 'here' })
    const database = this.first.connect()
    if (planted !== '') database.exec(planted)
    database.close()
    this.account = await fund(this.first, CREDIT)
    for (let count = 0; count < 3; count++) await this.join()
  }

  async join(): Promise<void> {
    const id = ++lives
    const clock = testClock()
    clock.ms += Math.round((this.random() * 2 - 1) * SKEW_MS)
    const store = await testStore({
      ...QUICK,
      writes: 'here',
      path: this.first.path,
      clock,
      connector: mortalConnector(id),
    })
    await store.recover()
    const { last } = run(this.first, 'SELECT max(id) AS last FROM replica')[0]!
    this.alive.push({ id, store, replica: Number(last) })
  }

  /** Nobody waits for it before the end. */
  begin(work: Promise<unknown>): void {
    const settled = work.catch(expectUnavailable).finally(() => this.waiting.delete(settled))
    this.waiting.add(settled)
  }

  async hold(life: Life): Promise<void> {
    const id = `req_${String(this.exchanges.length).padStart(4, '0')}`
    const amount = BigInt(1 + Math.floor(this.random() * 300))
    const exchange: Exchange = { id, life, amount, held: 'asked', settled: 'no', reached: [], asked: 0n }
    this.exchanges.push(exchange)
    try {
      const { held } = await life.store.ledger.hold(aHold({ accountId: this.account, exchange: id, amount }))
      exchange.held = held ? 'yes' : 'no'
    } catch (error) {
      exchange.held = 'unknown'
      throw error
    }
  }

  async reach(exchange: Exchange): Promise<void> {
    const reached = BigInt(Math.floor(this.random() * Number(exchange.amount)))
    exchange.reached.push(reached)
    const { id } = exchange
    await exchange.life.store.ledger.checkpoint([
      { exchange: id, amount: reached, promptTokens: 1, completionTokens: 1 },
    ])
  }

  async settle(exchange: Exchange): Promise<void> {
    exchange.settled = 'asked'
    exchange.asked = BigInt(Math.floor(this.random() * Number(exchange.amount + 1n)))
    try {
      const { id, asked } = exchange
      const result = await exchange.life.store.ledger.settle(aSettle({ exchange: id, amount: asked }))
      exchange.settled = result === 'settled' ? 'yes' : 'other'
    } catch (error) {
      exchange.settled = 'unknown'
      throw error
    }
  }

  async step(): Promise<void> {
    const chance = this.random()
    const life = this.pick(this.alive)
    const own = this.exchanges.filter(each => each.life === life && each.held === 'yes' && each.settled === 'no')
    if (chance < 0.5) this.begin(this.hold(life))
    else if (chance < 0.6 && own.length > 0) this.begin(this.reach(this.pick(own)))
    else if (chance < 0.82 && own.length > 0) this.begin(this.settle(this.pick(own)))
    else if (chance < 0.88) {
      const replicas = run(this.first, 'SELECT id FROM replica')
      if (replicas.length > 0) endLease(this.first, Number(this.pick(replicas)['id']))
    } else if (chance < 0.92 && this.alive.length > 1) {
      this.alive.splice(this.alive.indexOf(life), 1)
      die(life.id)
    } else if (chance < 0.95 && this.alive.length < 3) await this.join()
    else if (chance < 0.97) {
      run(
        this.first,
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND application_name LIKE 'tollgate replica %'",
      )
    }
    if (this.random() < 0.5) await wait(this.random() * 20)
  }

  /** All that lives settles what it holds; what the dead have held is taken over. */
  async end(patienceMs = 20_000): Promise<void> {
    await Promise.all(this.waiting)
    const open = (each: Exchange) => this.alive.includes(each.life) && each.held === 'yes' && each.settled !== 'yes'
    for (const each of this.exchanges.filter(open)) await this.settle(each).catch(expectUnavailable)
    // What one that lives was not told the end of is settled by another one.
    if (this.alive.length === 1) await this.join()
    const live = this.alive.map(({ replica }) => replica)
    let nextMs = 0
    await expect
      .poll(
        () => {
          const dead = `SELECT id FROM replica
            WHERE lease_until > clock_timestamp() + interval '1 s' AND (taken_by IS NOT NULL OR id NOT IN (${live}))`
          for (const { id } of run(this.first, dead)) endLease(this.first, Number(id))
          // All at once would take each other over before they come to the dead.
          if (performance.now() > nextMs) {
            live.push(live.shift()!)
            endLease(this.first, live[0]!)
            nextMs = performance.now() + 1000
          }
          return run(this.first, 'SELECT held FROM balance')[0]!['held']
        },
        { timeout: patienceMs, interval: 100 },
      )
      .toBe(0)
  }

  check(): void {
    const { reads } = this.first
    expect(reads.verify()).toMatchObject({ openHolds: 0, violations: [] })
    let charged = 0n
    for (const each of this.exchanges) {
      const receipt = reads.findReceipt(each.id)
      const what = JSON.stringify({ ...each, life: each.life.id }, (_, value) =>
        typeof value === 'bigint' ? `${value}` : value,
      )
      if (each.held === 'yes') expect(receipt, what).toBeDefined()
      if (each.held === 'no') expect(receipt, what).toBeUndefined()
      if (each.settled === 'yes') expect(receipt?.charged, what).toBe(each.asked)
      else if (receipt) expect([0n, ...each.reached, each.asked], what).toContain(receipt.charged)
      charged += receipt?.charged ?? 0n
    }
    expect(reads.findAccount(this.account)).toMatchObject({ posted: CREDIT - charged, held: 0n })
  }
}

/** What keeps the promises, taken away: chance has to find out. */
const PLANTED: readonly (readonly [name: string, sql: string])[] = [
  [
    'a replica that was taken over writes on',
    'CREATE OR REPLACE FUNCTION fence(replica_id BIGINT) RETURNS VOID LANGUAGE plpgsql AS $$ BEGIN END $$',
  ],
  ['holds do not say whose they are', 'ALTER TABLE event ALTER COLUMN replica DROP DEFAULT'],
  [
    'recovery looks from too late on',
    `CREATE FUNCTION too_late() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN new.open_from := '~'; RETURN new; END $$;
     CREATE TRIGGER too_late BEFORE INSERT OR UPDATE ON replica FOR EACH ROW EXECUTE FUNCTION too_late()`,
  ],
  [
    'a hold does not look at the credit',
    `ALTER TABLE balance DROP CONSTRAINT balance_check;
     CREATE FUNCTION plenty() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN new.posted := new.posted + 1; RETURN new; END $$;
     CREATE TRIGGER plenty BEFORE UPDATE ON balance FOR EACH ROW WHEN (new.held > old.held) EXECUTE FUNCTION plenty()`,
  ],
]

function expectUnavailable(error: unknown): void {
  if (error instanceof StoreUnavailable || /store is closed|process is dead/.test(String(error))) return
  throw error
}

onPostgres(() => {
  const seeds = process.env['SEED'] === undefined ? [] : [Number(process.env['SEED'])]
  const first = Math.floor(Math.random() * 2 ** 31)
  while (seeds.length === 0 || (seeds.length < counts(8, 400) && process.env['SEED'] === undefined))
    seeds.push(first + seeds.length)

  test.each(PLANTED)(
    'a planted bug is found: %s',
    async (_, sql) => {
      let found: unknown
      for (let seed = first; found === undefined && seed < first + 20; seed++) {
        const play = new Play(seed)
        await play.start(sql)
        try {
          for (let step = 0; step < STEPS; step++) await play.step()
          await play.end(1500)
          play.check()
        } catch (error) {
          found = error
        }
        await Promise.all(play.waiting)
      }
      expect(found).toBeDefined()
    },
    120_000,
  )

  test.each(seeds)(
    'three replicas, with the seed %i (SEED repeats it)',
    async seed => {
      const play = new Play(seed)
      await play.start()
      for (let step = 0; step < STEPS; step++) await play.step()
      await play.end()
      play.check()
    },
    60_000,
  )
})
