/** `tollgate alerts`: the list of alerts in a store, and a test alert to a real receiver. */
import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { webhookId } from '../../src/alerts/webhook-request.ts'
import { startReceiver } from '../alerts/receiver.ts'
import { CONFIGURATION, makePlace, ownStore, type Place, STANDARD_POLICY } from './helpers.ts'

let place: Place
beforeEach(() => {
  place = makePlace(`${CONFIGURATION}store: sqlite:./data/tollgate.db
alerts:
  webhooks:
    - { name: ops, url: "\${OPS_URL}", secret: "\${OPS_SECRET}" }
`)
  mkdirSync(join(place.folder, 'policies'))
  place.write('policies/standard.yaml', STANDARD_POLICY)
})
afterEach(() => place.remove())

const testOf = (url: string, name = 'ops') =>
  place.tollgate(['alerts', 'test', name], {
    env: { OPS_URL: url, OPS_SECRET: Buffer.alloc(24, 1).toString('base64') },
  })

test('a webhook that the configuration does not define is refused', async () => {
  const { code, err } = await testOf('http://127.0.0.1:9/', 'chat')
  expect(code).toBe(1)
  expect(err).toContain('has no webhook "chat" under alerts. Its webhooks: ops.')
})

test('a webhook that is unreachable or rejects the alert: exit code 1, and no URL is printed', async () => {
  const nowhere = await testOf('http://127.0.0.1:9/very-secret-part')
  expect(nowhere.code).toBe(1)
  expect(nowhere.out).not.toContain('very-secret-part')
  const receiver = await startReceiver()
  receiver.behaves({ status: 403 })
  const { code, out } = await testOf(receiver.url)
  expect(code).toBe(1)
  expect(out).toContain('HTTP 403')
  expect(out).not.toContain('very-secret-part')
})

test('a webhook that accepts the test alert', async () => {
  const receiver = await startReceiver()
  const { code, out } = await testOf(receiver.url)
  expect(code).toBe(0)
  expect(out).toMatch(/result\s+delivered/)
  const [{ headers, body }] = receiver.received as [(typeof receiver.received)[number]]
  expect(JSON.parse(body)).toMatchObject({ type: 'test', text: 'This is a test alert.' })
  expect(headers['webhook-signature']).toMatch(/^v1,/)
})

test('the list: empty, filtered by kind, and with an unknown kind', async () => {
  expect((await place.tollgate(['alerts', 'list'])).out).toBe('No alerts.\n')
  const { store, stop } = await ownStore(place.database)
  const data = { provider: 'p', replica: 'gate-1' }
  await store.alerts.put([{ id: 'a', kind: 'provider_down', at: 1_800_000_000_000, account: null, data }])
  await stop()
  expect((await place.tollgate(['alerts', 'list'])).out).toContain('All targets of provider p fail, as gate-1 sees it.')
  expect((await place.tollgate(['alerts', 'list', '--kind', 'budget'])).out).toBe('No alerts.\n')
  const { code, err } = await place.tollgate(['alerts', 'list', '--kind', 'weather'])
  expect(code).toBe(1)
  expect(err).toContain('"kind" must be one of budget, low_balance')
  expect((await place.json('alerts.list')).alerts).toMatchObject([
    { id: 'a', webhook_id: webhookId('a'), kind: 'provider_down' },
  ])
})
