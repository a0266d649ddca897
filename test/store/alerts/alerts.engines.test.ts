/** Alerts and their deliveries in the store: each is claimed once over all replicas, also after the death of an owner. */
import { describe, expect, test } from 'vitest'
import type { Claim, NewAlert } from '../../../src/store/alerts/alert-rows.ts'
import { afterDeath, aHold, fund, onEveryEngine, type TestStore, testStore } from '../helpers.ts'

const ALL = ['budget', 'provider_down', 'low_balance']
const LEASE_MS = 60_000
const DAY_MS = 86_400_000

onEveryEngine(() => {
  const claimOf = (store: TestStore, name = 'ops', events: readonly string[] = ALL): Claim => ({
    name,
    events,
    nowMs: store.clock.now(),
    leaseMs: LEASE_MS,
    most: 10,
  })
  const claim = async (store: TestStore, name?: string, events?: readonly string[]) =>
    (await store.alerts.claim(claimOf(store, name, events))).map(({ alert, attempt }) => `${alert.id} ${attempt}`)
  const anAlert = (store: TestStore, id: string, kind = 'provider_down', account: string | null = null): NewAlert => ({
    id,
    kind,
    at: store.clock.now(),
    account,
    data: { provider: 'p' },
  })

  describe('deliveries', () => {
    test('a new receiver gets no earlier alerts, and later ones of its kinds only', async () => {
      const store = await testStore()
      await store.alerts.put([anAlert(store, 'early')])
      store.clock.ms += 1
      expect(await store.alerts.due([{ name: 'ops', events: ALL }], store.clock.ms)).toEqual(['ops'])
      expect(await claim(store)).toEqual([])
      store.clock.ms += 1
      await store.alerts.put([anAlert(store, 'b'), anAlert(store, 'c', 'reload_invalid')])
      expect(await store.alerts.due([{ name: 'ops', events: ALL }], store.clock.ms)).toEqual(['ops'])
      expect(await claim(store)).toEqual(['b 1'])
      expect(await store.alerts.due([{ name: 'ops', events: ALL }], store.clock.ms)).toEqual([])
    })

    test('are claimed once for a lease, and again by the next owner after the first one has died', async () => {
      const store = await testStore()
      await claim(store)
      await store.alerts.put([anAlert(store, 'a')])
      expect(await claim(store)).toEqual(['a 1'])
      store.clock.ms += LEASE_MS - 1
      expect(await claim(store)).toEqual([])
      const next = await afterDeath(store)
      next.clock.ms += 1
      expect(await claim(next)).toEqual(['a 2'])
    })

    test('that failed are claimed again when they are due; the failure of a late attempt does not count', async () => {
      const store = await testStore()
      await claim(store)
      await store.alerts.put([anAlert(store, 'a')])
      await claim(store)
      const nowMs = store.clock.ms
      const sent = { alert: 'a', receiver: 'ops', attempt: 1, nowMs }
      await store.alerts.mark({ ...sent, failure: 'HTTP 500', nextAt: nowMs + 5000 })
      store.clock.ms += 4999
      expect(await claim(store)).toEqual([])
      store.clock.ms += 1
      expect(await claim(store)).toEqual(['a 2'])
      await store.alerts.mark({ ...sent, failure: 'late', nextAt: null })
      const [listed] = (await store.alerts.list({ limit: 10 })).items
      expect(listed!.deliveries).toMatchObject([{ receiver: 'ops', attempts: 2, failure: 'HTTP 500', givenUpAt: null }])
      await store.alerts.mark({ ...sent, failure: null, nextAt: null })
      store.clock.ms += LEASE_MS
      expect(await claim(store)).toEqual([])
    })

    test('of one receiver do not wait for those of another, and abandoned ones are sent again on request', async () => {
      const store = await testStore()
      await Promise.all([claim(store), claim(store, 'slack')])
      await store.alerts.put([anAlert(store, 'a'), anAlert(store, 'b')])
      const nowMs = store.clock.ms
      expect(await claim(store)).toEqual(['a 1', 'b 1'])
      await store.alerts.mark({ alert: 'a', receiver: 'ops', attempt: 1, nowMs, failure: 'HTTP 404', nextAt: null })
      expect(await claim(store, 'slack')).toEqual(['a 1', 'b 1'])
      expect(await store.alerts.figures(nowMs)).toEqual({
        kinds: new Map([['provider_down', 2]]),
        waiting: new Map([
          ['ops', 1],
          ['slack', 2],
        ]),
      })
      await store.alerts.resend('a', nowMs)
      expect(await claim(store)).toEqual(['a 2'])
      await expect(store.alerts.resend('x', nowMs)).rejects.toMatchObject({ code: 'not_found' })
    })

    test('are each claimed by only one of two replicas that claim at once', async () => {
      const one = await testStore()
      const other = one.path.startsWith('postgres:') ? await testStore({ path: one.path, clock: one.clock }) : one
      await claim(one)
      await one.alerts.put(Array.from({ length: 8 }, (_, index) => anAlert(one, `a${index}`)))
      const claimed = await Promise.all([claim(one), claim(other), claim(one), claim(other)])
      expect(claimed.flat().sort()).toEqual(Array.from({ length: 8 }, (_, index) => `a${index} 1`))
    })
  })

  test('an alert is written once, is listed with its account, and is removed when it expires', async () => {
    const store = await testStore()
    const account = await fund(store, 10n)
    await claim(store)
    const first = anAlert(store, 'a', 'budget', account)
    await store.alerts.put([first, first, anAlert(store, 'b')])
    await claim(store)
    store.clock.ms += 1
    await store.alerts.put([{ ...first, data: {} }, anAlert(store, 'c')])
    const page = await store.alerts.list({ limit: 2 })
    expect(page.items.map(({ id }) => id)).toEqual(['c', 'b'])
    const rest = await store.alerts.list({ limit: 2, after: page.next! })
    expect(rest).toMatchObject({ items: [{ id: 'a', accountName: 'alice', data: { provider: 'p' } }], next: null })
    expect((await store.alerts.list({ limit: 9, kind: 'budget' })).items.map(({ id }) => id)).toEqual(['a'])
    expect((await store.alerts.list({ limit: 9, accountId: account })).items.map(({ id }) => id)).toEqual(['a'])
    expect((await store.alerts.list({ limit: 9, accountId: 'acc_other' })).items).toEqual([])
    await store.alerts.sweep(store.clock.ms)
    expect((await store.alerts.list({ limit: 9 })).items.map(({ id }) => id)).toEqual(['c'])
  })

  describe('low balance', () => {
    const BELOW = 100n
    const look = async (store: TestStore) => {
      await store.alerts.lookAtBalances(BELOW, store.clock.now())
      return (await store.alerts.list({ limit: 50, kind: 'low_balance' })).items.length
    }
    const change = (store: TestStore, account: string, reference: string, amount: bigint) =>
      store.credit({ account, amount, reference, actor: 'test', note: 'a test' })

    test('causes one alert, and the next one only after the credit was above the limit', async () => {
      const store = await testStore()
      const account = await fund(store, 150n)
      expect(await look(store)).toBe(0)
      await change(store, account, 'second', -60n)
      await Promise.all([store.alerts.lookAtBalances(BELOW, store.clock.ms), look(store)])
      const [alert] = (await store.alerts.list({ limit: 9 })).items
      expect(alert).toMatchObject({ account, accountName: 'alice', data: { below: '100', credit: '90' } })
      store.clock.ms += 1
      await change(store, account, 'third', 5n)
      expect(await look(store)).toBe(1)
      await change(store, account, 'fourth', 50n)
      expect(await look(store)).toBe(1)
      store.clock.ms += 1
      await change(store, account, 'fifth', -100n)
      expect(await look(store)).toBe(2)
      expect(await look(store)).toBe(2)
    })

    test('causes no alert for accounts that were low for long, never had credit, or hold all of it for requests', async () => {
      const store = await testStore()
      await fund(store, 50n, 'poor')
      await store.createAccount({ name: 'empty' })
      const account = await fund(store, 150n, 'busy')
      store.clock.ms += 2 * DAY_MS
      const { key } = await store.createKey({ account, name: 'first' })
      await store.ledger.hold(aHold({ accountId: account, keyId: key.id, amount: 140n }))
      expect(await look(store)).toBe(0)
      expect(await look(store)).toBe(0)
    })
  })
})
