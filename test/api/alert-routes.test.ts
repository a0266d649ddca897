/** Alerts over the account API: operators see all with their deliveries, members see those of their account. */
import { expect, test } from 'vitest'
import { webhookId } from '../../src/alerts/webhook-request.ts'
import type { AlertView, PageView } from '../../src/api/views.ts'
import type { NewAlert } from '../../src/store/alerts/alert-rows.ts'
import { type Rig, startRig } from './rig.ts'

const claimAll = ({ store, clock }: Rig) =>
  store.alerts.claim({
    name: 'ops',
    events: ['low_balance', 'reload_invalid'],
    nowMs: clock.ms,
    leaseMs: 60_000,
    most: 10,
  })

async function rigWithAlerts() {
  const rig = await startRig()
  const alice = await rig.member('alice@example.com')
  const low: NewAlert = {
    id: `low_balance ${alice.accountId} 1`,
    kind: 'low_balance',
    at: rig.clock.ms,
    account: alice.accountId,
    data: { below: '5000000000', credit: '4200000000' },
  }
  const data = { problem: 'gateway.yaml:1:1: wrong', replica: 'gate-1' }
  await claimAll(rig)
  await rig.store.alerts.put([low])
  rig.clock.ms += 1000
  const invalid: NewAlert = {
    id: 'reload_invalid gate-1',
    kind: 'reload_invalid',
    at: rig.clock.ms,
    account: null,
    data,
  }
  await rig.store.alerts.put([invalid])
  await claimAll(rig)
  return { rig, alice, low, invalid }
}

test('an alert that does not exist or has no delivery cannot be sent again', async () => {
  const { rig, low } = await rigWithAlerts()
  await using _ = rig
  const operator = await rig.operator()
  await rig.store.alerts.put([{ ...low, id: 'budget', kind: 'budget' }])
  for (const id of ['nothing', 'budget']) {
    expect(await operator.post('/api/operator/alerts/resend', { id })).toMatchObject({ status: 404 })
  }
  expect(await operator.get('/api/operator/alerts?kind=weather')).toMatchObject({ status: 400 })
})

test('operators see all alerts with the result of each delivery, by page and by kind', async () => {
  const { rig, alice, low, invalid } = await rigWithAlerts()
  await using _ = rig
  const operator = await rig.operator()
  const sent = { receiver: 'ops', attempt: 1, nowMs: rig.clock.ms }
  await rig.store.alerts.mark({ ...sent, alert: low.id, failure: null, nextAt: null })
  await rig.store.alerts.mark({ ...sent, alert: invalid.id, failure: 'HTTP 500', nextAt: rig.clock.ms + 5000 })
  const first = (await operator.get<PageView<AlertView>>('/api/operator/alerts?limit=1')).body
  const at = (ms: number) => new Date(ms).toISOString()
  expect(first.items).toEqual([
    {
      id: invalid.id,
      webhook_id: webhookId(invalid.id),
      kind: 'reload_invalid',
      at: at(invalid.at),
      account_id: null,
      account: null,
      text: 'The changed configuration is not used by gate-1: gateway.yaml:1:1: wrong',
      deliveries: [
        { receiver: 'ops', attempts: 1, state: 'waiting', at: at(rig.clock.ms + 5000), failure: 'HTTP 500' },
      ],
    },
  ])
  const rest = (await operator.get<PageView<AlertView>>(`/api/operator/alerts?after=${first.next}`)).body
  expect(rest).toMatchObject({
    items: [{ id: low.id, account_id: alice.accountId, deliveries: [{ state: 'delivered', failure: null }] }],
    next: null,
  })
  const ofKind = (await operator.get<PageView<AlertView>>('/api/operator/alerts?kind=low_balance')).body
  expect(ofKind.items.map(({ id }) => id)).toEqual([low.id])
  expect(await operator.post('/api/operator/alerts/resend', { id: low.id })).toMatchObject({ status: 204 })
  expect((await claimAll(rig)).map(({ alert }) => alert.id)).toEqual([low.id])
})

test('a member sees the alerts of their own account, without webhooks', async () => {
  const { rig, alice, low } = await rigWithAlerts()
  await using _ = rig
  const { items } = (await alice.get<PageView<AlertView>>('/api/alerts')).body
  expect(items).toMatchObject([{ id: low.id, text: expect.stringContaining('is below $5.00'), deliveries: [] }])
  const bob = await rig.member('bob@example.com')
  expect((await bob.get<PageView<AlertView>>('/api/alerts')).body.items).toEqual([])
})
