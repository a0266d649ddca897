/**
 * The cost of a durable hold and settle, with commits in the serving thread and in a thread of their own:
 *
 *     node test/bench/ledger.ts [ROUNDS] [FOLDER]
 *
 * Rounds are interleaved, because the load of a shared machine drifts. Each figure has its best round and its median.
 * CPU is that of the whole process without the kernel's threads; `main` is that of the serving thread. During 2000 charges a
 * second, a timer measures how late paced chunks would be. Time that the serving thread waits for a core does not count as lateness.
 */
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { openStore } from '../../src/store/engine/sqlite.ts'
import { createIds } from '../../src/store/ids.ts'
import type { LocalStore } from '../../src/store/local-store.ts'
import { faultyConnector } from '../store/faulty.ts'
import { pacedChunks, summary } from '../store/paced.ts'
import { aHold, aSettle, SECRET } from '../store/requests.ts'

const ROUNDS = Number(process.argv[2] ?? 5)
const FOLDER = process.argv[3] ?? tmpdir()
const IN_FLIGHT = 64
const SATURATED_MS = 2000
const WARM_MS = 500
const RATE_MS = 4000
const PER_SECOND = 500

const WRITES = ['here', 'thread'] as const
const clock = { now: () => Date.now() }
const ids = createIds(clock)
const figures = new Map<string, number[]>()

for (let round = 0; round < ROUNDS; round++) {
  for (const writes of round % 2 === 0 ? WRITES : WRITES.toReversed()) await measure(writes)
}
for (const [name, values] of [...figures].sort(([a], [b]) => (a < b ? -1 : 1))) {
  const { p50Ms: median } = summary(values)
  const best = name.includes('per second') ? Math.max(...values) : Math.min(...values)
  console.log(`${name.padEnd(52)} best ${best.toFixed(2).padStart(9)}   median ${median.toFixed(2).padStart(9)}`)
}

async function measure(writes: 'here' | 'thread'): Promise<void> {
  const folder = mkdtempSync(join(FOLDER, 'tollgate-bench-'))
  const { faults, connector } = faultyConnector()
  const store = await openStore({
    url: `sqlite:${join(folder, 'tollgate.db')}`,
    secret: SECRET,
    clock,
    writes,
    connector,
  })
  try {
    const accounts = await Promise.all(Array.from({ length: 1000 }, (_, index) => funded(store, `customer ${index}`)))
    await saturate(store, accounts, WARM_MS)
    await saturated(writes, store, accounts, () => faults.commitsHere + faults.commitsElsewhere)
    await atRate(writes, store, accounts)
    for (const delayMs of [0, 5]) {
      faults.delayMs = delayMs
      const now = () => performance.now()
      const accountId = accounts[0]!
      const options = { store, accountId, prefix: ids.next('req_'), perSecond: 2000, durationMs: 3000, now, waited }
      const { late } = await pacedChunks(options)
      faults.delayMs = 0
      note(`chunks late, fsync +${delayMs} ms, p50 ms`, writes, late.p50Ms)
      note(`chunks late, fsync +${delayMs} ms, p99 ms`, writes, late.p99Ms)
      note(`chunks late, fsync +${delayMs} ms, max ms`, writes, late.maxMs)
    }
  } finally {
    await store.close()
    rmSync(folder, { recursive: true })
  }
}

async function funded(store: LocalStore, name: string): Promise<string> {
  const { id } = await store.createAccount({ name })
  await store.credit({ account: id, amount: 10n ** 15n, reference: name, actor: 'bench' })
  return id
}

async function exchange(store: LocalStore, accountId: string): Promise<void> {
  const id = ids.next('req_')
  await store.ledger.hold(aHold({ accountId, exchange: id, amount: 100n }))
  await store.ledger.settle(aSettle({ exchange: id }))
}

/** Runs exchanges at full load, `IN_FLIGHT` at a time; returns their number. */
async function saturate(store: LocalStore, accounts: readonly string[], durationMs: number): Promise<number> {
  const endAt = performance.now() + durationMs
  let count = 0
  const one = async () => {
    while (performance.now() < endAt) await exchange(store, accounts[count++ % accounts.length]!)
  }
  await Promise.all(Array.from({ length: IN_FLIGHT }, one))
  return count
}

async function saturated(
  writes: string,
  store: LocalStore,
  accounts: readonly string[],
  commits: () => number,
): Promise<void> {
  const before = [commits(), performance.now()] as const
  const cpu = cpuSince()
  const count = await saturate(store, accounts, SATURATED_MS)
  const { all, main } = cpu()
  note('saturated, 64 in flight: exchanges per second', writes, (count / (performance.now() - before[1])) * 1000)
  note('saturated, 64 in flight: CPU us an exchange', writes, all / count)
  note('saturated, 64 in flight: main CPU us an exchange', writes, main / count)
  note('saturated, 64 in flight: operations a commit', writes, (2 * count) / (commits() - before[0]))
}

/** An open loop: one exchange every 2 ms, without waiting for the previous ones. */
async function atRate(writes: string, store: LocalStore, accounts: readonly string[]): Promise<void> {
  const took: number[] = []
  const exchanges: Promise<void>[] = []
  const begunAt = performance.now()
  const cpu = cpuSince()
  await new Promise<void>(resolve => {
    const timer = setInterval(() => {
      const due = Math.floor(((performance.now() - begunAt) / 1000) * PER_SECOND)
      while (exchanges.length < due) exchanges.push(timed(accounts[exchanges.length % accounts.length]!))
      if (performance.now() - begunAt < RATE_MS) return
      clearInterval(timer)
      resolve()
    }, 1)
  })
  await Promise.all(exchanges)
  const { all, main } = cpu()
  const { p50Ms, p99Ms } = summary(took)
  note('500 a second: hold and settle, p50 us', writes, p50Ms * 1000)
  note('500 a second: hold and settle, p99 us', writes, p99Ms * 1000)
  note('500 a second: CPU us an exchange (with timers)', writes, all / exchanges.length)
  note('500 a second: main CPU us an exchange (with timers)', writes, main / exchanges.length)

  async function timed(accountId: string): Promise<void> {
    const at = performance.now()
    await exchange(store, accountId)
    took.push(performance.now() - at)
  }
}

/** Returns a function that returns the CPU microseconds since this call. */
function cpuSince(): () => { all: number; main: number } {
  const [all, main] = [process.cpuUsage(), process.threadCpuUsage()]
  return () => {
    const [sinceAll, sinceMain] = [process.cpuUsage(all), process.threadCpuUsage(main)]
    return { all: sinceAll.user + sinceAll.system, main: sinceMain.user + sinceMain.system }
  }
}

/** Milliseconds that the serving thread has waited for a core (proc(5), schedstat); 0 if the kernel does not count them. */
function waited(): number {
  const file = `/proc/self/task/${process.pid}/schedstat`
  return existsSync(file) ? Number(readFileSync(file, 'utf8').split(' ')[1]) / 1e6 : 0
}

function note(name: string, writes: string, value: number): void {
  const key = `${name} | ${writes}`
  figures.set(key, [...(figures.get(key) ?? []), value])
}
