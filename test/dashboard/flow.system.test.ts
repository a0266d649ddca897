/**
 * People at the page, with a real browser and a real gateway. One registers, creates a key, uses it with the official SDK, sees
 * the charge, rotates and revokes the key. Another's session expires.
 */
import OpenAI from 'openai'
import type { Browser, Page } from 'playwright-core'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { formatMoney, parseMoney } from '#contract'
import { exactMoney } from '../../src/dashboard/lib/format.ts'
import { describeWith } from '../helpers/missing.ts'
import { aHold, aSettle } from '../store/requests.ts'
import { PASSWORD, startBrowser, type Visitor, visit, WITHOUT_BROWSER } from './browser.system.ts'
import { openStage, type Stage } from './stage.ts'

const HOUR_MS = 3_600_000

describeWith(WITHOUT_BROWSER, 'people at the page', () => {
  let browser: Browser
  let stage: Stage
  beforeAll(async () => {
    ;[browser, stage] = await Promise.all([startBrowser(), openStage()])
  })
  afterAll(async () => {
    await browser?.close()
    await stage?.[Symbol.asyncDispose]()
  })

  const complete = (apiKey: string) =>
    new OpenAI({ apiKey, baseURL: `${stage.url}/v1`, maxRetries: 0 }).chat.completions
      .create({ model: 'demo-small', messages: [{ role: 'user', content: 'How are you?' }] })
      .withResponse()

  async function register({ page, open }: Visitor, email: string): Promise<void> {
    await open('/register')
    await page.getByLabel('E-mail address').fill(email)
    await page.getByLabel('Password', { exact: true }).fill(PASSWORD)
    await page.getByRole('button', { name: 'Create the account' }).click()
    await page.getByRole('heading', { level: 1, name: 'Overview' }).waitFor()
  }

  /** This amount on the page, to the last decimal. */
  const shown = (page: Page, dollars: string) =>
    page.getByTitle(exactMoney(dollars)).locator('visible=true').first().waitFor()

  async function signIn({ page }: Visitor, email: string): Promise<void> {
    await page.getByLabel('E-mail address').fill(email)
    await page.getByLabel('Password', { exact: true }).fill(PASSWORD)
    await page.getByRole('button', { name: 'Sign in' }).click()
  }

  test('register, a key, a completion, its charge, rotate, grace, revoke', async () => {
    const visitor = await visit(browser, { url: stage.dashboard })
    const { page, open, problems } = visitor
    await register(visitor, 'Ada@example.com')
    expect(await page.getByText('$5.00').count()).toBeGreaterThan(0)

    // A key, shown once.
    await open('/keys')
    await page.getByRole('button', { name: 'Create key' }).first().click()
    await page.getByLabel('Name', { exact: true }).fill('backend')
    await page.getByRole('button', { name: 'Create the key' }).click()
    const once = page.getByRole('dialog')
    const first = await once.getByLabel('API key').inputValue()
    expect(first).toMatch(/^tg_live_[0-9A-Za-z]{36}$/)
    await once.getByRole('button', { name: /copied it/ }).click()
    await page.getByRole('cell', { name: `…${first.slice(-4)}` }).waitFor()
    expect(await page.content()).not.toContain(first)

    // The overview waits for the first request, and shows its charge without a reload.
    await open('/')
    await page.getByRole('heading', { name: 'Make your first request' }).waitFor()
    const { response } = await complete(first)
    const cost = response.headers.get('x-tollgate-cost')!
    expect(cost).not.toBe('0.000000000')
    await page.getByRole('table', { name: 'The latest requests' }).waitFor()
    await shown(page, cost)
    const left = exactMoney(formatMoney(5_000_000_000n - parseMoney(cost)))
    await page.getByRole('definition').getByText(`exactly ${left}`).waitFor()
    await page.locator('.sidebar-balance').getByTitle(left).waitFor()

    // The page shows the cost of the answer.
    await open('/receipts')
    await shown(page, cost)
    await open('/')
    const { accountId } = stage.running.store.reads.people.findByEmail('ada@example.com')!
    const { posted } = stage.running.store.reads.findAccount(accountId)!
    expect(formatMoney(5_000_000_000n - posted)).toBe(cost)
    await shown(page, formatMoney(posted))
    await open(`/receipts/${response.headers.get('x-request-id')}`)
    await page.getByText('demo-small').first().waitFor()

    // Members see every change of their credit, and find a request by its id.
    await open('/ledger')
    await page.getByRole('rowheader', { name: 'Credit' }).waitFor()
    await page.getByRole('link', { name: 'Charge, demo-small' }).click()
    await page.getByRole('heading', { level: 1, name: 'Receipt for demo-small' }).waitFor()
    await page.getByText(exactMoney(cost), { exact: true }).first().waitFor()
    await open('/receipts')
    await page.getByRole('searchbox').fill('hello')
    await page.getByText('This is not a request id').waitFor()
    await page.getByRole('searchbox').fill(response.headers.get('x-request-id')!)
    await page.getByRole('heading', { level: 1, name: 'Receipt for demo-small' }).waitFor()
    await page.goBack()
    await page.getByRole('table', { name: 'Receipts, the newest first' }).waitFor()
    expect(new URL(page.url()).search).toBe('')

    // The dialog of a key that was used elsewhere shows what the key has spent.
    await open('/keys')
    await shown(page, cost)
    const again = (await complete(first)).response.headers.get('x-tollgate-cost')!
    const spent = exactMoney(formatMoney(parseMoney(cost) + parseMoney(again)))
    await page.getByRole('button', { name: 'Actions for backend' }).click()
    await page.getByRole('menuitem', { name: 'Change' }).click()
    await page.getByRole('table').getByTitle(spent).waitFor({ state: 'attached' })
    const dialog = page.getByRole('dialog')
    await dialog.getByRole('button', { name: 'Cancel' }).click()

    // Changed: the new permissions apply from the next request on, and the secret stays the same.
    await page.getByRole('button', { name: 'Actions for backend' }).click()
    await page.getByRole('menuitem', { name: 'Change' }).click()
    await dialog.getByRole('radio', { name: 'Only some' }).check()
    await dialog.getByRole('checkbox', { name: 'demo-small' }).check()
    await dialog.getByRole('radio', { name: '1 year' }).check()
    await dialog.getByLabel('Spending cap').fill('3.5')
    await dialog.getByRole('button', { name: 'Save' }).click()
    await dialog.waitFor({ state: 'detached' })
    await page.getByRole('cell', { name: 'in 12 months' }).waitFor()
    const { accountId: owner } = stage.running.store.reads.people.findByEmail('ada@example.com')!
    const [changed] = stage.running.store.reads.listKeys(owner).filter(key => key.name === 'backend')
    expect(changed).toMatchObject({ models: ['demo-small'], spendingCap: 3_500_000_000n })
    await complete(first)

    // Rotated: both work until the hour is over, then only the new one.
    await open('/keys')
    await page.getByRole('button', { name: 'Actions for backend' }).click()
    await page.getByRole('menuitem', { name: 'Rotate' }).click()
    // Pressing Enter at once creates no new secret.
    await expect.poll(() => page.evaluate('document.activeElement.textContent')).toBe('Cancel')
    await page.getByRole('dialog').getByRole('radio', { name: '1 hour' }).check()
    await page.getByRole('button', { name: 'Create a new secret' }).click()
    const second = await page.getByRole('dialog').getByLabel('API key').inputValue()
    await page.getByRole('button', { name: /copied it/ }).click()
    expect(second).not.toBe(first)
    await complete(first)
    await complete(second)
    stage.pass(HOUR_MS + 1000)
    await expect(complete(first)).rejects.toMatchObject({ status: 401, code: 'expired_api_key' })
    await complete(second)

    // The session is older than half an hour: after signing in again, the same page opens.
    await page.reload()
    await page.getByRole('heading', { level: 1, name: 'Sign in' }).waitFor()
    await signIn(visitor, 'ada@example.com')
    await page.getByRole('heading', { level: 1, name: 'API keys' }).waitFor()

    // Revoked: the next request is refused.
    await page.getByRole('button', { name: 'Actions for backend' }).click()
    await page.getByRole('menuitem', { name: 'Revoke' }).click()
    await page.getByRole('button', { name: 'Revoke the key' }).click()
    await page.getByText('No active keys').waitFor()
    await expect(complete(second)).rejects.toMatchObject({ status: 401, code: 'revoked_api_key' })
    expect(problems).toEqual([])
    await visitor.context.close()
  })

  test("the clients' listener shows the address of the page", async () => {
    const answer = await fetch(`${stage.url}/`)
    expect(answer.status).toBe(200)
    const { message, base_url, dashboard, docs } = (await answer.json()) as Record<string, string>
    expect(message).toContain('Point clients at base_url')
    expect(base_url).toBe(`${stage.url}/v1`)
    expect(dashboard).toBe(stage.dashboard)
    const { problems, context, page } = await visit(browser, { url: dashboard! })
    await page.goto(dashboard!)
    await page.getByRole('heading', { level: 1, name: 'Sign in' }).waitFor()
    expect(problems).toEqual([])
    await context.close()
    expect(await (await fetch(docs!)).json()).toMatchObject({ openapi: '3.1.0' })
    const [head, post] = await Promise.all(['HEAD', 'POST'].map(method => fetch(`${stage.url}/`, { method })))
    expect([head!.status, post!.status]).toEqual([200, 404])
  })

  test('the playground streams, shows the cost, and stops', async () => {
    const visitor = await visit(browser, { url: stage.dashboard })
    const { page, open, problems } = visitor
    await register(visitor, 'grace@example.com')
    await open('/playground')
    await page.getByLabel('Your message').fill('Tell me about gates.')
    await page.getByRole('button', { name: 'Send' }).click()
    const { accountId } = stage.running.store.reads.people.findByEmail('grace@example.com')!
    const toReceipt = page
      .getByRole('main')
      .getByRole('link', { name: /receipt/i })
      .first()
    await toReceipt.waitFor()
    const [receipt] = stage.running.store.reads.reports.receipts(accountId, { limit: 1 }).items
    expect(receipt).toMatchObject({ outcome: 'answered', model: 'demo-small' })
    await shown(page, formatMoney(receipt!.charged!))
    expect(await toReceipt.getAttribute('href')).toBe(`/receipts/${receipt!.id}`)
    await visitor.check('playground-answer')
    expect(problems).toEqual([])
    await visitor.context.close()
  })

  test('people filter receipts by a tag', async () => {
    const visitor = await visit(browser, { url: stage.dashboard })
    const { page, open, problems } = visitor
    await register(visitor, 'mary@example.com')
    const { store } = stage.running
    const { accountId } = store.reads.people.findByEmail('mary@example.com')!
    for (const team of ['search', 'ads']) {
      const exchange = `req_of_${team}`
      await store.ledger.hold(aHold({ accountId, exchange, model: `for-${team}`, tags: { team } }))
      await store.ledger.settle(aSettle({ exchange }))
    }
    await open('/receipts')
    await page.getByLabel('Tag').selectOption('team=search')
    await page.getByRole('link', { name: 'for-ads' }).waitFor({ state: 'detached' })
    await page.getByRole('link', { name: 'for-search' }).click()
    await page.getByRole('term').getByText('Tag team').waitFor()
    await page.getByRole('definition').getByText('search', { exact: true }).waitFor()
    await visitor.check('receipt-with-tags')
    expect(problems).toEqual([])
    await visitor.context.close()
  })

  test('an operator finds a request by its id, and revokes a token', async () => {
    const { store } = stage.running
    const { accountId } = store.reads.people.findByEmail('grace@example.com')!
    const [receipt] = store.reads.reports.receipts(accountId, { limit: 1 }).items
    const { id } = receipt!
    const unknown = `${id.slice(0, -1)}${id.endsWith('0') ? '1' : '0'}`
    // Chromium writes a console error for a 404.
    const visitor = await visit(browser, {
      url: stage.dashboard,
      expected: new RegExp(`status of 404.*(${unknown}|/api/receipts/${id})`),
    })
    const { page, open, problems } = visitor
    await open(await stage.invite('operator', null, 3_000_000_000n))
    await page.getByText('$3.00 of credit').waitFor()
    await page.getByLabel('E-mail address').fill('operator@example.com')
    await page.getByLabel('Password', { exact: true }).fill(PASSWORD)
    await page.locator('button[type=submit]').click()
    await page.getByRole('heading', { level: 1, name: 'Overview' }).waitFor()
    await open('/operator/accounts')
    await page.getByRole('searchbox').fill(unknown)
    await page.getByText('No receipt with this id').waitFor()
    await visitor.check('operator-accounts-no-receipt')
    await page.getByRole('searchbox').fill(` ${id} `)
    await page.getByRole('heading', { level: 1, name: 'Receipt for demo-small' }).waitFor()
    const address = new URL(page.url())
    expect(address.pathname + address.search).toBe(`/operator/accounts/${accountId}?receipt=${id}`)
    await shown(page, formatMoney(receipt!.charged!))
    // Going back shows the full list.
    await page.goBack()
    await page.getByRole('table', { name: 'Accounts by name' }).waitFor()
    expect(new URL(page.url()).search).toBe('')

    // The address of the owner's page leads there too.
    await open(`/receipts/${id}`)
    await page.waitForURL(`**/operator/accounts/${accountId}?receipt=${id}`)
    await page.getByRole('heading', { level: 1, name: 'Receipt for demo-small' }).waitFor()

    // The action may remove the button that opened the dialog: then the heading gets the focus.
    await store.people.createToken({ name: 'payments', expiresAt: null, createdBy: 'test' })
    await open('/operator/tokens')
    await page.getByRole('button', { name: 'Revoke the token payments' }).click()
    await page.getByRole('dialog').getByRole('button', { name: 'Revoke the token' }).click()
    await page.getByText('No tokens').waitFor()
    expect(await page.evaluate('document.activeElement.tagName')).toBe('H1')
    expect(problems).toEqual([])
    await visitor.context.close()
  })

  test('a chosen theme is set before the first paint', async () => {
    const { page, context, open } = await visit(browser, { url: stage.dashboard, scheme: 'light' })
    const shownTheme = () => page.evaluate<string>('document.documentElement.dataset.theme')
    await open('/register')
    await page.evaluate(`localStorage.setItem('tollgate-theme', 'dark')`)
    // Without the page's main script, only the one for the theme runs.
    await page.route(/\/assets\/(?!first-)[^/]*\.js$/, route => route.abort())
    await page.reload()
    expect(await page.locator('h1').count()).toBe(0)
    expect(await shownTheme()).toBe('dark')
    await page.evaluate(`localStorage.setItem('tollgate-theme', 'auto')`)
    await page.reload()
    expect(await shownTheme()).toBe('light')
    await context.close()
  })

  test('by keyboard alone: sign in, open a dialog, close it', async () => {
    const visitor = await visit(browser, { url: stage.dashboard })
    const { page, open, problems } = visitor
    await register(visitor, 'key@example.com')
    // Waits first: requests still in progress would be refused without the cookie.
    await page.waitForLoadState('networkidle')
    await visitor.context.clearCookies()
    await open('/keys')
    await page.getByRole('heading', { level: 1, name: 'Sign in' }).waitFor()
    const focused = () => page.evaluate<string>('document.activeElement.name || document.activeElement.textContent')
    const tabTo = async (name: RegExp) => {
      for (let presses = 0; presses < 40; presses++) {
        if (name.test(await focused())) return
        await page.keyboard.press('Tab')
      }
      throw new Error(`the keyboard does not come to ${name}: it is at ${await focused()}`)
    }
    await tabTo(/^email$/)
    await page.keyboard.type('key@example.com')
    await tabTo(/^password$/)
    await page.keyboard.type(PASSWORD)
    await page.keyboard.press('Enter')
    await page.getByRole('heading', { level: 1, name: 'API keys' }).waitFor()
    await tabTo(/^Create key$/)
    await page.keyboard.press('Enter')
    await page.getByRole('dialog').waitFor()
    // Nothing behind an open dialog can be reached.
    for (let presses = 0; presses < 25; presses++) {
      await page.keyboard.press('Tab')
      const where = await page.evaluate<string>(
        `document.activeElement === document.body || document.activeElement.closest('dialog') ? 'inside' : document.activeElement.outerHTML`,
      )
      expect(where).toBe('inside')
    }
    await page.keyboard.press('Escape')
    await page.getByRole('dialog').waitFor({ state: 'detached' })
    expect(await focused()).toBe('Create key')
    expect(problems).toEqual([])
    await visitor.context.close()
  })
})
