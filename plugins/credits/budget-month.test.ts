/** A month of requests with a virtual clock: the spending of each period is the sum of its receipts. */
import { expect, test } from 'vitest'
import { type Budget, parseMoney, type Receipt } from '#contract'
import { budgetUses } from '../../test/helpers/budget-uses.ts'
import { seeded } from '../../test/helpers/seeded.ts'
import { answered, rig } from './test-rig.ts'
import { chat, usage } from './test-samples.ts'

const REQUESTS = 10_000
const HOUR_MS = 3_600_000
/** Summer time ends in Berlin within this month. */
const BEGIN = Date.UTC(2026, 9, 5, 12)
const MONTH_MS = 31 * 24 * HOUR_MS

const budget = (more: Partial<Budget>): Budget => ({
  per: 'account',
  amount: parseMoney('$1000'),
  every: 'day',
  ...more,
})
const PLAN = [
  budget({ every: 'hour', zone: 'Asia/Kolkata' }),
  budget({ every: 'day', zone: 'Europe/Berlin', amount: parseMoney('$0.004') }),
  budget({ every: 'week', per: 'key' }),
  budget({ every: 'month', zone: 'America/New_York', per: 'tag team', amount: parseMoney('$0.05') }),
  budget({ every: 'life', per: 'tag team' }),
]

/** The period of a time, computed by `Intl` and not by the product. */
const KEYS: Record<Budget['every'], (at: Date, zone: string) => string> = {
  hour: (at, zone) => `${partsOf(at, zone, 'hour')} ${Math.floor((at.getTime() - 30 * 60_000) / HOUR_MS)}`,
  day: (at, zone) => partsOf(at, zone, 'day'),
  week: at => String(Math.floor((at.getTime() / HOUR_MS / 24 + 3) / 7)),
  month: (at, zone) => partsOf(at, zone, 'month'),
  life: () => '',
}

function partsOf(at: Date, timeZone: string, until: 'hour' | 'day' | 'month'): string {
  const names = ['year', 'month', 'day', 'hour'].slice(0, { month: 2, day: 3, hour: 4 }[until])
  const format = Object.fromEntries(names.map(name => [name, 'numeric']))
  return new Intl.DateTimeFormat('en-GB', { timeZone, ...format }).format(at)
}

test('ten thousand requests in a month', async () => {
  const seed = Number(process.env['SEED'] ?? Math.floor(Math.random() * 2 ** 31))
  const random = seeded(seed)
  const { run, store, id, clock, receipt, sound } = await rig({ plan: PLAN, credit: '$100' })
  const done: { receipt: Receipt; team: string }[] = []
  let refused = 0
  for (let index = 0; index < REQUESTS; index++) {
    clock.time = BEGIN + Math.floor((index / REQUESTS) * MONTH_MS)
    const team = ['a', 'b', ''][Math.floor(random() * 3)]!
    const used = usage(Math.floor(random() * 20), Math.floor(random() * 40))
    const next = (exchange: Parameters<ReturnType<typeof answered>>[0]) => {
      // Some answers end in another period than their start.
      if (random() < 0.2) clock.time += Math.floor(random() * 2 * HOUR_MS)
      answered(used)(exchange)
    }
    const { exchange, refusal } = await run({ next, facts: { chat: chat({}, 100), tags: team === '' ? {} : { team } } })
    if (refusal === null) done.push({ receipt: receipt(exchange)!, team })
    else {
      expect(refusal.code, `SEED=${seed}`).toBe('budget_exhausted')
      refused++
    }
  }
  expect(refused).toBeGreaterThan(0)
  expect(done.length).toBeGreaterThan(REQUESTS / 10)
  const found = new Map<string, bigint>()
  for (let ms = BEGIN - 32 * 24 * HOUR_MS; ms < BEGIN + 2 * MONTH_MS; ms += HOUR_MS / 2) {
    for (const { budget, start, spent, held } of budgetUses(store.reads, id, ms)) {
      expect(held).toBe(0n)
      found.set(`${budget} ${start}`, spent)
    }
  }
  const sums = PLAN.flatMap(({ every, zone = 'UTC', per }) => {
    const groups = Map.groupBy(done, ({ receipt, team }) => {
      return `${KEYS[every](new Date(receipt.createdAt), zone)} ${per === 'tag team' ? team : ''}`
    })
    return [...groups.values()].map(all => all.reduce((sum, { receipt }) => sum + receipt.charged!, 0n))
  })
  const inOrder = (all: Iterable<bigint>) => [...all].sort((a, b) => (a < b ? -1 : a > b ? 1 : 0)).map(String)
  expect(inOrder(found.values()), `SEED=${seed}`).toEqual(inOrder(sums))
  sound()
})
