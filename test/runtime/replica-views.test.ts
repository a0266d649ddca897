/** The operators' views of all replicas: combined, published on changes, and available while the database is busy. */
import { expect, test } from 'vitest'
import type { ExchangeView, ProviderView } from '../../src/api/views.ts'
import { createReplicaViews } from '../../src/runtime/replica-views.ts'
import type { Replicas, ReplicaView } from '../../src/store/engine/replicas.ts'
import { expectWithin } from '../helpers/promised.ts'

const exchange = (id: string) => ({ id, replica: null }) as ExchangeView
const provider = (inflight: number) =>
  ({
    name: 'p',
    credentials: { total: 1, good: 1, refused: 0 },
    targets: [{ target: 'p/m', state: 'well', inflight }],
  }) as unknown as ProviderView

/** The views of one replica, with others. The database answers after `busy.until`. */
function rig(others: readonly ReplicaView[]) {
  const published: string[] = []
  const busy = { until: Promise.resolve() as Promise<unknown> }
  const own = { exchanges: ['req_2'] as readonly string[] }
  let check: (atMs: number) => void = () => {}
  const replicas = {
    name: 'one (1)',
    publish: async (view: string) => void published.push(view),
    others: () => busy.until.then(() => others),
  } as unknown as Replicas
  const views = createReplicaViews({
    views: {
      exchanges: async () => own.exchanges.map(exchange),
      providers: async () => [provider(own.exchanges.length)],
    },
    openHolds: () => 1,
    replicas,
    watch(each) {
      check = each
      return () => {}
    },
  })
  const round = async (atMs: number) => {
    check(atMs)
    await new Promise(setImmediate)
  }
  return { views, published, busy, own, round }
}

const view = (more: object = {}) => ({
  name: 'two (2)',
  view: JSON.stringify({
    format: 2,
    inflight: 700,
    openHolds: 5,
    exchanges: [exchange('req_1')],
    providers: [provider(700)],
    ...more,
  }),
})

test('exchanges, targets and figures include all replicas', async () => {
  const { views } = rig([view()])
  expect(await views.exchanges()).toEqual([
    { id: 'req_1', replica: 'two (2)' },
    { id: 'req_2', replica: 'one (1)' },
  ])
  expect((await views.providers())[0]!.targets).toMatchObject([{ inflight: 701 }])
  expect(await views.counts()).toEqual({ inflight: 701, openHolds: 6 })
})

test('the view of a replica of another version is left out', async () => {
  const { views } = rig([view({ format: 3 })])
  expect(await views.counts()).toEqual({ inflight: 1, openHolds: 1 })
})

test('while the database is busy, the last known views are returned; one read waits, however many requests there are', async () => {
  const { views, busy } = rig([view()])
  await views.exchanges()
  busy.until = new Promise(() => {})
  const began = performance.now()
  const all = await Promise.all([views.exchanges(), views.exchanges(), views.counts()])
  expect(all[0]).toHaveLength(2)
  expect(all[2]).toEqual({ inflight: 701, openHolds: 6 })
  expectWithin(performance.now() - began, 5000)
})

test('while the database is unavailable, this replica and the last known views are shown', async () => {
  const { views, busy } = rig([view()])
  await views.exchanges()
  busy.until = Promise.reject(new Error('the database is away'))
  expect(await views.exchanges()).toHaveLength(2)
  expect(await views.counts()).toEqual({ inflight: 701, openHolds: 6 })
})

test('a view is published when it has changed, and once a minute', async () => {
  const { published, own, round } = rig([])
  for (const atMs of [0, 1000, 5000, 10_000]) await round(atMs)
  expect(published).toHaveLength(1)
  own.exchanges = []
  await round(15_000)
  expect(published).toHaveLength(2)
  for (let atMs = 20_000; atMs < 75_000; atMs += 5000) await round(atMs)
  expect(published).toHaveLength(2)
  await round(75_000)
  expect(published).toHaveLength(3)
})

test('of thousands of exchanges the oldest 200 are published, and the number of all', async () => {
  const { published, own, round } = rig([])
  own.exchanges = Array.from({ length: 5000 }, (_, index) => `req_${index}`)
  await round(0)
  const view = JSON.parse(published[0]!)
  expect([view.inflight, view.exchanges.length, view.exchanges[0].id]).toEqual([5000, 200, 'req_0'])
})
