/**
 * The README's pictures, of a gateway with a month of requests: `TOLLGATE_PICTURES=src/dashboard/pictures npm run test:system --
 * pictures`. They test no behaviour, so the file is skipped otherwise.
 */
import { join } from 'node:path'
import type { LocalStore } from '../../src/store/local-store.ts'
import { testWith } from '../helpers/missing.ts'
import { seeded } from '../helpers/seeded.ts'
import { aHold, aSettle } from '../store/requests.ts'
import { startBrowser, visit } from './browser.system.ts'
import { openStage } from './stage.ts'

const FOLDER = process.env['TOLLGATE_PICTURES']
const DAYS = 30
const HOUR_MS = 3_600_000
/** By model: its requests out of ten, the tokens of an answer, and nano-dollars per token. */
const MODELS = [
  ['chat-small', 6, 400, 600n],
  ['chat-large', 3, 700, 8_000n],
  ['thinking', 1, 2_500, 12_000n],
] as const

testWith(FOLDER === undefined ? 'TOLLGATE_PICTURES names no folder' : null, 'pictures for the README', async () => {
  const model = (id: string, input: string, output: string, more: object = {}) => ({
    targets: [{ provider: 'demo', model: id === 'thinking' ? 'demo-reasoning' : 'demo-small' }],
    price: { per: '1M tokens', input, output },
    context: '128Ki',
    max_output: '16Ki',
    default_output: '1Ki',
    ...more,
  })
  await using stage = await openStage({
    models: {
      'chat-small': model('chat-small', '$0.15', '$0.60', { description: 'Quick and cheap.' }),
      'chat-large': model('chat-large', '$2', '$8', { description: 'For hard questions.' }),
      thinking: model('thinking', '$3', '$12', { description: 'Thinks first.', reasoning: true }),
    },
  })
  const { store } = stage.running
  stage.pass(-DAYS * 24 * HOUR_MS)
  const { id: accountId } = await store.createAccount({ name: 'Northwind', plan: 'team' })
  await store.credit({ account: accountId, amount: 400_000_000_000n, reference: 'invoice-1042', actor: 'payments' })
  const backend = await store.createKey({ account: accountId, name: 'backend' })
  const nightly = await store.createKey({
    account: accountId,
    name: 'nightly-report',
    models: ['chat-small', 'chat-large'],
  })
  const laptop = await store.createKey({ account: accountId, name: 'laptop', spendingCap: 20_000_000_000n })
  await fill(store, accountId, [backend.key.id, backend.key.id, nightly.key.id, laptop.key.id], stage.pass)
  await fetch(`${stage.url}/v1/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${backend.token}`, 'content-type': 'application/json' },
    body: JSON.stringify({
      model: 'thinking',
      messages: [{ role: 'user', content: 'Why does prepaid credit need a hold?' }],
    }),
  }).then(answer => answer.arrayBuffer())

  const browser = await startBrowser()
  const visitor = await visit(browser, { url: stage.dashboard })
  const { page, open } = visitor
  const shoot = (name: string) => page.screenshot({ path: join(FOLDER!, `${name}.png`) })
  await visitor.join(await stage.invite('operator', accountId))
  await open('/')
  await shoot('overview')
  const [receipt] = store.reads.reports.receipts(accountId, { limit: 1 }).items
  await open(`/receipts/${receipt!.id}`)
  await shoot('receipt')
  await open('/keys?create')
  await page.getByLabel('Name', { exact: true }).fill('staging')
  await page.getByRole('button', { name: 'Create the key' }).click()
  await page.getByRole('dialog').getByLabel('API key').waitFor()
  await shoot('keys')
  await browser.close()
})

/** A month of requests: more on weekdays and in the daytime. */
async function fill(
  store: LocalStore,
  accountId: string,
  keys: readonly string[],
  pass: (ms: number) => void,
): Promise<void> {
  const next = seeded(7)
  for (let hour = 0; hour < DAYS * 24; hour++) {
    const day = Math.floor(hour / 24) % 7
    const busy = (day > 4 ? 1 : 3) * (hour % 24 > 7 && hour % 24 < 20 ? 2 : 1) + Math.floor(next() * 3)
    for (let index = 0; index < busy; index++) {
      let dice = Math.floor(next() * 10)
      const [model, , tokens, price] = MODELS.find(([, often]) => (dice -= often) < 0)!
      const completionTokens = Math.floor(tokens * (0.5 + next()))
      const exchange = `req_${String(hour).padStart(4, '0')}${index}`
      const amount = BigInt(completionTokens) * price * 20n
      await store.ledger.hold(
        aHold({ accountId, exchange, keyId: keys[Math.floor(next() * keys.length)]!, model, amount }),
      )
      await store.ledger.settle(aSettle({ exchange, amount, usage: { input: 600, output: completionTokens } }))
    }
    pass(HOUR_MS)
  }
}
