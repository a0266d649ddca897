/** A process of scale.ts that holds and settles at full load or 500 times a second, sends its figures and exits. */
import { hostname } from 'node:os'
import { openServedStore } from '../../src/store/engine/sqlite.ts'
import { createIds } from '../../src/store/ids.ts'
import type { Store } from '../../src/store/store.ts'
import { summary } from '../store/paced.ts'
import { aHold, aSettle, SECRET } from '../store/requests.ts'

export interface LedgerTask {
  readonly kind: 'saturate' | 'rate'
  readonly url: string
  /** For the store's own files. */
  readonly folder: string
  readonly round: number
  /** Whether all exchanges are of one account. */
  readonly account: 'one' | 'many'
  /** Length of the measurement. */
  readonly ms: number
}

/** Figures of exchanges: a hold and its settle. */
export interface LedgerFigures {
  readonly perSecond: number
  readonly cpuUs: number
  /** From the start of the hold to the end of the settle. */
  readonly p50Ms: number
  readonly p99Ms: number
}

const IN_FLIGHT = 64
const WARM_MS = 500
const PER_SECOND = 500
const ACCOUNTS = 1000

const clock = { now: () => Date.now() }
const ids = createIds(clock)

async function fund(store: Store, name: string): Promise<string> {
  const found = await store.findAccount(name)
  if (found) return found.id
  const { id } = await store.createAccount({ name }).catch(async () => (await store.findAccount(name))!)
  await store.credit({ account: id, amount: 10n ** 15n, reference: name, actor: hostname() })
  return id
}

async function measure({ kind, url, folder, round, account, ms }: LedgerTask): Promise<LedgerFigures> {
  const store = await openServedStore({ url, folder, secret: SECRET, clock })
  const count = account === 'one' ? 1 : ACCOUNTS
  const accounts = await Promise.all(
    Array.from({ length: count }, (_, index) => fund(store, `${account} ${round} ${index}`)),
  )
  let next = 0
  const took: number[] = []
  const exchange = async () => {
    const at = performance.now()
    const id = ids.next('req_')
    const accountId = accounts[next++ % accounts.length]!
    const { held } = await store.ledger.hold(aHold({ accountId, exchange: id, amount: 100n }))
    if (!held) throw new Error('the account has no credit left')
    await store.ledger.settle(aSettle({ exchange: id }))
    took.push(performance.now() - at)
  }
  const work = kind === 'saturate' ? saturate : atRate
  await work(exchange, WARM_MS)
  took.length = 0
  const [cpu, begunAt] = [process.cpuUsage(), performance.now()]
  await work(exchange, ms)
  const { user, system } = process.cpuUsage(cpu)
  const seconds = (performance.now() - begunAt) / 1000
  await store.close()
  return { perSecond: took.length / seconds, cpuUs: (user + system) / took.length, ...summary(took) }
}

async function saturate(exchange: () => Promise<void>, ms: number): Promise<void> {
  const endAt = performance.now() + ms
  const one = async () => {
    while (performance.now() < endAt) await exchange()
  }
  await Promise.all(Array.from({ length: IN_FLIGHT }, one))
}

/** An open loop: one exchange every 2 ms, without waiting for the previous ones. */
async function atRate(exchange: () => Promise<void>, ms: number): Promise<void> {
  const begunAt = performance.now()
  const exchanges: Promise<void>[] = []
  while (performance.now() - begunAt < ms) {
    const due = Math.floor(((performance.now() - begunAt) / 1000) * PER_SECOND)
    while (exchanges.length < due) exchanges.push(exchange())
    await new Promise(resolve => setTimeout(resolve, 1))
  }
  await Promise.all(exchanges)
}

const figures = await measure(JSON.parse(process.argv[2]!) as LedgerTask)
process.send!(figures)
process.disconnect?.()
