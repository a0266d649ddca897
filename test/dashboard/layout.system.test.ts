/**
 * Window widths between a phone and a desktop, with short names and with the longest. Nothing overflows its card, no word of a
 * table is split, and content wider than its card scrolls inside it.
 */
import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import type { Page } from 'playwright-core'
import { expect, test } from 'vitest'
import { ROUTES } from '../../src/dashboard/routes.ts'
import { isFull } from '../helpers/counts.ts'
import { aHold, aSettle } from '../store/requests.ts'
import { browserTests, PICTURES, settled, visit } from './browser.system.ts'
import { openStage, type Stage } from './stage.ts'

const full = isFull('clients')

const WIDTHS = [760, 900, 1024, 1280]
/** The quick run has those with the widest tables. */
const PAGES = full
  ? ROUTES.filter(({ audience }) => audience !== 'anyone').map(({ path }) => path)
  : ['/keys', '/usage', '/receipts', '/receipts/:id', '/models', '/operator/providers']

interface Names {
  readonly models: readonly string[]
  readonly provider: string
  readonly keys: readonly string[]
  readonly account: string
  readonly email: string
  readonly reference: string
}

const SHORT: Names = {
  models: ['tiny', 'big'],
  provider: 'demo',
  keys: ['laptop', 'backend'],
  account: 'acme',
  email: 'ada@example.com',
  reference: 'invoice-7',
}
const LONG: Names = {
  models: [
    'organisation-wide-default/llama-4-maverick-17b-128e-instruct-fp8-preview-2026-11-22',
    'x'.repeat(60),
    'small',
  ],
  provider: 'europe-west-inference-cluster-long-name',
  keys: [
    'w'.repeat(80),
    'The nightly report of the data platform team in the eastern region, second of two'.slice(0, 80),
  ],
  account: 'International Consolidated Amalgamated Holdings of Northwind and Sons, Limited',
  email: `${'a.very.long.local.part.of.an.address'.padEnd(60, 'x')}@subsidiary.department.example.com`,
  reference: `stripe:evt_${'1Pq9'.repeat(16)}`,
}

browserTests('layout', browser => {
  test.each([
    ['short', SHORT],
    ['long', LONG],
  ] as const)('%s names at every width', async (kind, names) => {
    await using stage = await openStage(configurationWith(names))
    const { account, receipt } = await fill(stage, names)
    const { page, open, join, problems } = await visit(browser(), { url: stage.dashboard })
    await join(await stage.invite('operator', account), names.email)
    const found: string[] = []
    for (const path of PAGES) {
      const name = path.slice(1).replaceAll('/', '-').replace(':', '') || 'overview'
      await open(path.startsWith('/receipts/') ? path.replace(':id', receipt) : path.replace(':id', account))
      for (const width of WIDTHS) {
        await page.setViewportSize({ width, height: 860 })
        await settled(page)
        // A chart is drawn again one frame after its width has changed.
        await page.evaluate(
          'new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done))))',
        )
        const wrong = await page.evaluate<string[]>(`(${measure})()`)
        found.push(...wrong.map(each => `${name} at ${width}: ${each}`))
        if (width === 900) await picture(page, `${name}-${kind}-900`)
      }
    }
    expect(found).toEqual([])
    expect(problems).toEqual([])
    await page.context().close()
  })

  test('a menu at the end of a scrolling table is not clipped, and stays at its button', async () => {
    await using stage = await openStage(configurationWith(LONG))
    const { account } = await fill(stage, LONG)
    const { page, open, join } = await visit(browser(), { url: stage.dashboard, size: { width: 760, height: 600 } })
    await join(await stage.invite('operator', account))
    await open('/keys')
    await page.getByRole('button', { name: /^Actions for w/ }).click()
    const menu = page.getByRole('menu')
    await menu.waitFor()
    // Asks the browser which element a click at the end of the last item would hit.
    const hit = `(() => { const last = document.querySelector('[role=menu]').lastElementChild
      const { left, bottom } = last.getBoundingClientRect()
      return document.elementFromPoint(left + 8, bottom - 8) === last })()`
    await expect.poll(() => page.evaluate(hit)).toBe(true)
    const before = (await menu.boundingBox())!
    await page.evaluate(`document.querySelector('.scroll-area').scrollBy(-40, 0)`)
    await expect.poll(async () => Math.round((await menu.boundingBox())!.x - before.x)).toBe(40)
    await page.context().close()
  })
})

/** Runs in the page: finds elements that overflow their box, and words on two lines. */
function measure(): string[] {
  const wrong: string[] = []
  const say = (text: string): void => {
    if (wrong.length < 8) wrong.push(text)
  }
  const wide = document.documentElement.scrollWidth - innerWidth
  if (wide > 0) say(`the page is ${wide} px wider than the window`)
  for (const card of document.querySelectorAll('.card, .stat, .note, .page-head')) {
    const edge = card.getBoundingClientRect().right
    for (const element of card.querySelectorAll('*')) {
      const { right, width } = element.getBoundingClientRect()
      if (width === 0 || right <= edge + 0.5 || element.closest('.hidden, .scroll-area > *, .operator-listing > *'))
        continue
      say(`${element.tagName} .${element.className} is ${Math.round(right - edge)} px out of .${card.className}`)
    }
  }
  const texts = document.createTreeWalker(document.querySelector('main')!, NodeFilter.SHOW_TEXT)
  for (let node = texts.nextNode(); node; node = texts.nextNode()) {
    if (!node.parentElement!.closest('.table, .stat-value, .stat-label, .badge, .receipt-sum')) continue
    // Longer runs are not words and may be split: unsplit, they would push all else out of sight.
    for (const word of node.nodeValue!.matchAll(/[^\s\-/]+/gu)) {
      if (word[0].length > 30) continue
      const range = document.createRange()
      range.setStart(node, word.index)
      range.setEnd(node, word.index + word[0].length)
      const lines = new Set([...range.getClientRects()].map(({ top }) => Math.round(top)))
      if (lines.size > 1) say(`"${word[0]}" is split in ${node.parentElement!.closest('th, td, .stat')?.className}`)
    }
  }
  return wrong
}

async function picture(page: Page, name: string): Promise<void> {
  if (!PICTURES) return
  await mkdir(PICTURES, { recursive: true })
  await page.screenshot({ path: join(PICTURES, `${name}.png`), fullPage: true })
}

function configurationWith({ models, provider }: Names): Record<string, unknown> {
  return {
    providers: { [provider]: { dialect: 'demo', pace: '1ms' } },
    models: Object.fromEntries(
      models.map((id, index) => [
        id,
        {
          targets: [{ provider, model: index === 1 ? 'demo-reasoning' : 'demo-small' }],
          context: '128Ki',
          max_output: '16Ki',
          default_output: '1Ki',
          reasoning: index === 1,
          description: 'Answers questions about nearly everything, and is the one to begin with.',
          price: { per: '1M tokens', input: '$0.15', output: index === 1 ? '$12' : '$0.60', cached_input: '$0.075' },
        },
      ]),
    ),
  }
}

/** An account with everything that its pages show. */
async function fill(stage: Stage, names: Names): Promise<{ account: string; receipt: string }> {
  const { store } = stage.running
  const { id: account } = await store.createAccount({ name: names.account })
  const grant = { account, amount: 25_123_456_789n, reference: names.reference, actor: 'payments', note: 'first order' }
  await store.credit(grant)
  let token = ''
  for (const [index, name] of names.keys.entries()) {
    const limits = index === 0 ? { spendingCap: 1_000_000_000n, models: names.models } : {}
    const issued = await store.createKey({ account, name, ...limits })
    token ||= issued.token
    await store.rotateKey(issued.key.id, 3_600_000)
    for (const model of names.models) {
      const exchange = `req_${crypto.randomUUID().replaceAll('-', '').slice(0, 26)}`
      const amount = 1_234_567n * BigInt(index + 1)
      await store.ledger.hold(aHold({ accountId: account, exchange, keyId: issued.key.id, model, amount }))
      await store.ledger.settle(aSettle({ exchange, amount, usage: { input: 1_234_567, output: 98_765 } }))
    }
  }
  const answer = await fetch(`${stage.url}/v1/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
    body: JSON.stringify({ model: names.models[0], messages: [{ role: 'user', content: 'Hello!' }] }),
  })
  expect(answer.status).toBe(200)
  await answer.arrayBuffer()
  await stage.invite('member', account)
  await store.people.createToken({ name: names.keys[0]!, expiresAt: null, createdBy: 'test' })
  const [receipt] = store.reads.reports.receipts(account, { limit: 1 }).items
  return { account, receipt: receipt!.id }
}
