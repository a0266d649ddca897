/** The page about alerts describes what webhooks get, and when. */
import { expect, test } from 'vitest'
import { parseDuration } from '#contract'
import { Episodes } from '../../src/alerts/episodes.ts'
import { Sender } from '../../src/alerts/sender.ts'
import { webhookRequest } from '../../src/alerts/webhook-request.ts'
import { ALERT_KINDS } from '../../src/common/alerts-config.ts'
import type { Alert } from '../../src/store/alerts/alert-rows.ts'
import { read, tableOf } from '../helpers/repository.ts'
import { aHold, aSettle, fund, testStore } from '../store/helpers.ts'
import { anAlert, aWebhook, startReceiver } from './receiver.ts'

const PAGE = read('src/alerts/README.md')
const ACCOUNT = { account: 'acc_01MCC5RM00000FSC5GTS9RJTT7', accountName: 'acme' }

/** The fields of each kind in the page. */
async function written(): Promise<Map<string, string[]>> {
  const store = await testStore()
  const accountId = await fund(store, 100n)
  const { key } = await store.createKey({ account: accountId, name: 'app' })
  const budget = { budget: 'plan pro/account life/life/', start: 0, end: null, amount: 100n, marks: [80] }
  await store.ledger.hold(aHold({ accountId, keyId: key.id, exchange: 'req_1', amount: 90n, budgets: [budget] }))
  await store.ledger.settle(aSettle({ exchange: 'req_1', amount: 90n }))
  await store.alerts.lookAtBalances(50n, store.clock.now())
  const target = { target: 'p/m', state: 'ejected' }
  const provider = { name: 'p', credentials: { total: 2, refused: 1 }, targets: [target] }
  const seen = new Episodes('gate-1').begun({ providers: [provider], problem: 'x' }, 0)
  const { items } = await store.alerts.list({ limit: 50 })
  return new Map(
    [...items, ...seen].map(({ kind, account, data }) => [kind, [String(account !== null), ...Object.keys(data)]]),
  )
}

test('each kind has a row with its fields', async () => {
  const found = await written()
  const rows = tableOf(PAGE, '`type`').map(([type, account, data]) => {
    const fields = [...data!.matchAll(/`(\w+)`/g)].map(([, name]) => name!)
    return [type!.replaceAll('`', ''), [String(account === 'yes'), ...fields].toSorted()]
  })
  expect(rows).toEqual([...ALERT_KINDS, 'test'].map(kind => [kind, (found.get(kind) ?? ['false']).toSorted()]))
})

test.each(
  [...PAGE.matchAll(/```json\n([^`]*)```/g)].map(([, text]) => [JSON.parse(text!).type as string, JSON.parse(text!)]),
)('the example of %s is what a webhook gets', (kind, example) => {
  const { amount, spent, below, credit, start, end, ...rest } = example.data
  const nano = Object.entries({ amount, spent, below, credit }).filter(([, text]) => text !== undefined)
  const times = Object.entries({ start, end }).filter(([, text]) => text !== undefined)
  const alert: Alert = anAlert({
    ...ACCOUNT,
    kind,
    at: Date.parse(example.at),
    data: {
      ...rest,
      ...Object.fromEntries(nano.map(([name, text]) => [name, text.replace('.', '').replace(/^0+/, '')])),
      ...Object.fromEntries(times.map(([name, text]) => [name, Date.parse(text)])),
    },
  })
  const sent = JSON.parse(webhookRequest({ format: 'json', secret: null }, alert, 0).body)
  expect(sent).toEqual({ ...example, id: sent.id })
})

const STATUS: Readonly<Record<string, readonly number[]>> = {
  'no answer, or 408, 425, 429, 500 and above': [408, 425, 429, 500],
  '300 to 499 otherwise': [300, 401, 499],
}

test.each(
  tableOf(PAGE, 'The last attempt').flatMap(([after, first, longest]) =>
    STATUS[after!]!.map((status, nth) => ({ status, chance: nth % 2, first: first!, longest: longest! })),
  ),
)('after $status the pauses are from $first to $longest (chance: $chance)', async ({ status, chance, ...pauses }) => {
  const [first, longest] = [parseDuration(pauses.first), parseDuration(pauses.longest)]
  const receiver = await startReceiver()
  receiver.behaves({ status })
  const store = await testStore()
  const sender = new Sender({
    alerts: store.alerts,
    webhooks: () => [aWebhook(receiver.url)],
    clock: store.clock,
    random: () => chance,
    log: { info() {}, warn() {}, error() {} },
    attempted() {},
  })
  const round = async () => {
    await sender.look()
    await sender.idle()
  }
  await round()
  store.clock.ms += 1
  await store.alerts.put([{ ...anAlert(), at: store.clock.now() }])
  const waited: number[] = []
  for (let nth = 0; nth < 11; nth++) {
    await round()
    const [delivery] = (await store.alerts.list({ limit: 1 })).items[0]!.deliveries
    waited.push(delivery!.nextAt - store.clock.now())
    store.clock.ms = delivery!.nextAt
  }
  const whole = waited.map((_, nth) => Math.min(longest, first * 2 ** nth))
  expect(waited).toEqual(whole.map(pauseMs => (chance === 1 ? pauseMs : pauseMs / 2)))
})
