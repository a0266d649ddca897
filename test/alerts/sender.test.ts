/** Alerts to real receivers, from a real store, with a manual clock. */
import { describe, expect, test } from 'vitest'
import type { Log } from '#contract'
import { deliver } from '../../src/alerts/deliver.ts'
import { GIVEN_UP_MS, Sender, type SenderParts } from '../../src/alerts/sender.ts'
import { webhookId } from '../../src/alerts/webhook-request.ts'
import type { Webhook } from '../../src/common/alerts-config.ts'
import { afterDeath, type TestStore, testStore } from '../store/helpers.ts'
import { anAlert, aWebhook, startReceiver } from './receiver.ts'

const MINUTE_MS = 60_000

interface Way {
  readonly sender: Sender
  readonly log: string[]
  readonly results: string[]
  /** Sends due alerts now. */
  round(): Promise<void>
  /** Repeats that while so much time passes. */
  pass(ms: number): Promise<void>
}

async function wayTo(store: TestStore, webhooks: readonly Webhook[], more: Partial<SenderParts> = {}): Promise<Way> {
  const log: string[] = []
  const results: string[] = []
  const write = (fields: object, message: string) => void log.push(`${message} ${JSON.stringify(fields)}`)
  const sender = new Sender({
    alerts: store.alerts,
    webhooks: () => webhooks,
    clock: store.clock,
    random: () => 0.5,
    log: { info: write, warn: write, error: write } as Log,
    attempted: (receiver, result) => void results.push(`${receiver} ${result}`),
    ...more,
  })
  const round = async () => {
    await sender.look()
    await sender.idle()
  }
  await round()
  store.clock.ms += 1
  const pass = async (ms: number) => {
    const until = store.clock.ms + ms
    while (store.clock.ms < until) {
      store.clock.ms += MINUTE_MS
      await round()
    }
  }
  return { sender, log, results, round, pass }
}

const put = (store: TestStore, ...ids: string[]) =>
  store.alerts.put(ids.map(id => ({ ...anAlert({ id }), at: store.clock.now() })))
const listed = async (store: TestStore) => (await store.alerts.list({ limit: 50 })).items

describe('a receiver', () => {
  test('that is down for an hour loses no alert, and gets repetitions under the same id only', async () => {
    const store = await testStore()
    const receiver = await startReceiver()
    const way = await wayTo(store, [aWebhook(receiver.url)])
    receiver.behaves({ status: 503 })
    const ids = Array.from({ length: 12 }, (_, index) => `alert ${index}`)
    for (const id of ids) {
      await put(store, id)
      await way.pass(5 * MINUTE_MS)
    }
    const failed = receiver.received.length
    receiver.behaves({ status: 204 })
    await way.pass(60 * MINUTE_MS)
    expect(receiver.ids().slice(failed).sort()).toEqual(ids.map(webhookId).sort())
    expect(failed).toBeLessThan(12 * 12)
    expect(new Set(receiver.ids())).toEqual(new Set(ids.map(webhookId)))
    expect(
      (await listed(store)).flatMap(({ deliveries }) => deliveries.map(each => each.deliveredAt === null)),
    ).toEqual(ids.map(() => false))
    const messages = way.log.map(line => line.replace(/ \{.*/, ''))
    expect(messages).toEqual(['an alert could not be sent and will be retried', 'alerts are sent again'])
  })

  test('gets an alert again under its id after a death between the attempt and its record', async () => {
    const store = await testStore()
    const receiver = await startReceiver()
    const dying = { ...store.alerts, mark: () => Promise.reject(new Error('killed')) }
    const way = await wayTo(store, [aWebhook(receiver.url)], { alerts: dying })
    await put(store, 'a')
    await way.round()
    expect(receiver.ids()).toEqual([webhookId('a')])
    const next = await afterDeath(store)
    const after = await wayTo(next, [aWebhook(receiver.url)])
    await after.pass(3 * MINUTE_MS)
    expect(receiver.ids()).toEqual([webhookId('a'), webhookId('a')])
    await after.pass(60 * MINUTE_MS)
    expect(receiver.received).toHaveLength(2)
  })

  test('that is slow, or refuses one alert, blocks neither another receiver nor later alerts', async () => {
    const store = await testStore()
    const [slow, quick] = [await startReceiver(), await startReceiver()]
    slow.behaves('hang')
    const webhooks = [aWebhook(slow.url, { name: 'slow' }), aWebhook(quick.url, { name: 'quick' })]
    const way = await wayTo(store, webhooks, { timeoutMs: 3_000 })
    await put(store, 'a', 'b')
    await way.round()
    expect(quick.ids()).toEqual([webhookId('a'), webhookId('b')])
    expect(way.results.sort()).toEqual(['quick delivered', 'quick delivered', 'slow failed', 'slow failed'])
    const failures = (await listed(store)).flatMap(({ deliveries }) => deliveries.map(({ failure }) => failure))
    expect(failures.sort()).toEqual(['no answer in time', 'no answer in time', null, null].sort())
  })

  test('that refuses an alert for three days gets it again only on request', async () => {
    const store = await testStore()
    const receiver = await startReceiver()
    receiver.behaves({ status: 410 })
    const way = await wayTo(store, [aWebhook(receiver.url)])
    await put(store, 'a')
    await way.round()
    for (let hours = 0; hours < 90; hours++) {
      store.clock.ms += 60 * MINUTE_MS
      await way.round()
    }
    const tries = receiver.received.length
    expect(tries).toBeLessThan(40)
    const [alert] = await listed(store)
    expect(alert!.deliveries).toMatchObject([{ attempts: tries, failure: 'HTTP 410', deliveredAt: null }])
    expect(alert!.deliveries[0]!.givenUpAt! - alert!.at).toBeGreaterThanOrEqual(GIVEN_UP_MS)
    expect(way.results.at(-1)).toBe('ops given_up')
    receiver.behaves({ status: 200 })
    await store.alerts.resend('a', store.clock.now())
    await way.round()
    expect(way.results.at(-1)).toBe('ops delivered')
  })

  test('gets nothing for as long as it requests', async () => {
    const store = await testStore()
    const receiver = await startReceiver()
    receiver.behaves({ status: 429, headers: { 'retry-after': '7200' } })
    const way = await wayTo(store, [aWebhook(receiver.url)])
    await put(store, 'a')
    await way.pass(119 * MINUTE_MS)
    expect(receiver.received).toHaveLength(1)
    await way.pass(2 * MINUTE_MS)
    expect(receiver.received).toHaveLength(2)
  })

  test('gets each alert once from two gateways that share the store', async () => {
    const store = await testStore()
    const receiver = await startReceiver()
    const ways = [await wayTo(store, [aWebhook(receiver.url)]), await wayTo(store, [aWebhook(receiver.url)])]
    const ids = Array.from({ length: 30 }, (_, index) => `alert ${index}`)
    await put(store, ...ids)
    await Promise.all(ways.map(way => way.round()))
    expect(receiver.ids().toSorted()).toEqual(ids.map(webhookId).sort())
  })

  test('that redirects gets no second request, and the log has no URL', async () => {
    const store = await testStore()
    const [receiver, other] = [await startReceiver(), await startReceiver()]
    receiver.behaves({ status: 307, headers: { location: other.url } })
    const way = await wayTo(store, [
      aWebhook(receiver.url),
      aWebhook('http://127.0.0.1:9/very-secret-part', { name: 'b' }),
    ])
    await put(store, 'a')
    await way.round()
    expect(other.received).toEqual([])
    const [alert] = await listed(store)
    expect(alert!.deliveries.map(({ failure }) => failure)).toEqual([
      expect.any(String),
      'HTTP 307: redirects are not followed',
    ])
    expect(`${way.log.join()}${JSON.stringify(alert)}`).not.toContain('secret')
  })
})

test('a shutdown during an attempt leaves the alert to the next owner', async () => {
  const store = await testStore()
  const receiver = await startReceiver()
  receiver.behaves('hang')
  const way = await wayTo(store, [aWebhook(receiver.url)])
  await put(store, 'a')
  await way.sender.look()
  await expect.poll(() => receiver.received.length).toBe(1)
  await way.sender.close()
  expect((await listed(store))[0]!.deliveries).toMatchObject([{ attempts: 1, failure: null, deliveredAt: null }])
})

test('a receiver may request a retry by a date', async () => {
  const receiver = await startReceiver()
  receiver.behaves({ status: 503, headers: { 'retry-after': 'Fri, 15 Jan 2027 08:01:00 GMT' } })
  const attempted = await deliver(aWebhook(receiver.url), anAlert(), { nowMs: anAlert().at })
  expect(attempted).toEqual({ failure: 'HTTP 503', isRefused: false, retryAfterMs: MINUTE_MS, answer: '' })
})

test('a receiver that does not end its answer has accepted the alert', async () => {
  const receiver = await startReceiver()
  receiver.behaves({ status: 200, isEndless: true })
  const attempted = await deliver(aWebhook(receiver.url), anAlert(), { nowMs: anAlert().at, timeoutMs: 300 })
  expect(attempted).toMatchObject({ failure: null, answer: 'taken' })
})
