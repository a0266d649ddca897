/** Budgets of one account over three replicas: exact to the nano-dollar, and never exceeded under concurrency. */
import { expect, test } from 'vitest'
import type { HoldBudget } from '#contract'
import { StoreUnavailable } from '../../src/store/store.ts'
import { budgetUses } from '../helpers/budget-uses.ts'
import { countsOf } from '../helpers/counts.ts'
import { seeded } from '../helpers/seeded.ts'
import { beside, QUICK } from './beside.ts'
import { aHold, aSettle, onPostgres, type TestStore, testStore } from './helpers.ts'

const counts = countsOf('replicas')
const REQUESTS = 1000
/** The number of requests that the limits pay for. */
const PAID = 300n
const AMOUNT = 7n

onPostgres(() => {
  test('of a balance and three budgets, the smallest pays for exactly as many requests as it can', async () => {
    const seed = Number(process.env['SEED'] ?? Math.floor(Math.random() * 2 ** 31))
    const random = seeded(seed)
    const first = await testStore(QUICK)
    const stores = [first, await beside(first), await beside(first)]
    for (let round = 0; round < counts(6, 50); round++) await raceOnce(stores, round, random, `SEED=${seed}`)
    expect(first.reads.verify().violations).toEqual([])
  })
})

async function raceOnce(stores: readonly TestStore[], round: number, random: () => number, seed: string) {
  const [first] = stores as [TestStore]
  const { id: accountId } = await first.createAccount({ name: `account ${round}` })
  // One of the four is reached exactly; the others have a little more.
  const most = (place: number) => AMOUNT * PAID + (place === round % 4 ? 0n : BigInt(Math.floor(random() * 20)))
  const limits = [0, 1, 2, 3].map(most)
  await first.credit({ account: accountId, amount: limits[0]!, reference: `r${round}`, actor: 'test' })
  const names = ['account/account month/month/', 'key/key day/day/key_1', 'policy p/tag team life/life/search']
  const budgets = names.map(
    (budget, index): HoldBudget => ({ budget, start: 0, end: null, amount: limits[index + 1]!, marks: [50, 100] }),
  )
  const ids = Array.from({ length: REQUESTS }, (_, index) => `req_${round}_${index}`)
  const hold = (exchange: string, index: number) =>
    persistently(() =>
      stores[index % stores.length]!.ledger.hold(aHold({ accountId, exchange, amount: AMOUNT, budgets })),
    )
  const results = await Promise.all(ids.map(hold))
  const held = ids.filter((_, index) => results[index]!.held)
  const least = limits.reduce((one, other) => (one < other ? one : other))
  expect(BigInt(held.length), seed).toBe(least / AMOUNT)
  const uses = () => budgetUses(first.reads, accountId, 0).map(({ held, spent }) => ({ held, spent }))
  expect(uses(), seed).toEqual(names.map(() => ({ held: AMOUNT * BigInt(held.length), spent: 0n })))
  // Another replica settles each hold, while new holds take the returned amount.
  let spent = 0n
  const settles = held.map(async (exchange, index) => {
    const charge = BigInt(Math.floor(random() * (Number(AMOUNT) + 1)))
    spent += charge
    const { ledger } = stores[(index + 1) % stores.length]!
    const settled = await persistently(() => ledger.settle(aSettle({ exchange, amount: charge })))
    expect(['settled', 'already_settled'], seed).toContain(settled)
  })
  const again = ids.slice(0, 200).map(id => `${id}_again`)
  const [more] = await Promise.all([Promise.all(again.map(hold)), Promise.all(settles)])
  const still = AMOUNT * BigInt(more.filter(({ held }) => held).length)
  expect(uses(), seed).toEqual(names.map(() => ({ held: still, spent })))
  const { posted, held: onHold } = first.reads.findAccount(accountId)!
  expect([posted, onHold], seed).toEqual([limits[0]! - spent, still])
}

/** On a busy machine a statement may exceed its timeout. The same hold may be requested again: it is placed once. */
async function persistently<Result>(ask: () => Promise<Result>): Promise<Result> {
  for (;;) {
    try {
      return await ask()
    } catch (error) {
      if (!(error instanceof StoreUnavailable)) throw error
    }
  }
}
