/** Alerts of a serving gateway: problems of its provider and its files, sent to a webhook, once each. */
import { createHmac } from 'node:crypto'
import { expect, test } from 'vitest'
import { startReceiver } from '../alerts/receiver.ts'
import { edit } from '../helpers/edit-configuration.ts'
import { errorAnswer, errorBody, exact, startFakeProvider } from '../helpers/fake-provider.ts'
import { startInProcess } from '../helpers/in-process.ts'

const SECRET = Buffer.alloc(32, 7).toString('base64')

test('a refused credential, a provider that is down and an invalid reload: one signed alert each, and no secret in the log', async () => {
  const provider = await startFakeProvider({ script: exact() })
  const receiver = await startReceiver()
  await using gateway = await startInProcess({
    provider: provider.baseUrl,
    env: { KEY: 'a-key-of-the-provider', HOOK: receiver.url, HOOK_SECRET: `whsec_${SECRET}` },
    yaml: {
      providers: { p: { dialect: 'openai', base_url: provider.baseUrl, api_key: '${KEY}' } },
      alerts: { webhooks: [{ name: 'ops', url: '${HOOK}', secret: '${HOOK_SECRET}' }] },
    },
  })
  const { store } = gateway.running
  await expect.poll(() => store.alerts.due([{ name: 'ops', events: [] }], Date.now())).toEqual([])
  const kinds = () => receiver.received.map(({ body }) => JSON.parse(body).type as string).sort()

  provider.script(errorAnswer(500))
  for (let index = 0; index < 5; index++) await (await gateway.chat()).arrayBuffer()
  await expect.poll(kinds).toEqual(['breaker_open', 'provider_down'])
  provider.script(errorAnswer(401, errorBody(401, 'Incorrect API key provided')))
  await (await gateway.chat()).arrayBuffer()
  await expect.poll(kinds).toEqual(['breaker_open', 'credential_refused', 'provider_down'])
  for (const drain of ['soon', 'later']) {
    edit(gateway, yaml => void (yaml['drain'] = drain))
    expect(await gateway.running.reload()).toBe('refused')
  }
  await expect.poll(kinds).toContain('reload_invalid')
  // Longer than the pause between two checks: no alert is repeated.
  await new Promise(resolve => setTimeout(resolve, 2500))
  expect(kinds()).toEqual(['breaker_open', 'credential_refused', 'provider_down', 'reload_invalid'])

  for (const { headers, body } of receiver.received) {
    const signed = `${headers['webhook-id']}.${headers['webhook-timestamp']}.${body}`
    const expected = createHmac('sha256', Buffer.from(SECRET, 'base64')).update(signed).digest('base64')
    expect(headers['webhook-signature']).toBe(`v1,${expected}`)
  }
  const { items } = await store.alerts.list({ limit: 9 })
  expect(items.map(({ deliveries }) => deliveries.map(each => each.deliveredAt !== null))).toEqual(
    items.map(() => [true]),
  )
  expect(`${JSON.stringify(gateway.log)}${JSON.stringify(items)}`).not.toContain('very-secret-part')
  expect(JSON.stringify(gateway.log)).not.toContain(SECRET)
})
