/** Budgets as people see them: the remainder, the reset, and how to add, change and remove one. */
import type { Browser } from 'playwright-core'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { parseMoney } from '#contract'
import { ofOwners } from '../../src/budgets/budget-chain.ts'
import { describeWith } from '../helpers/missing.ts'
import { aHold, aSettle } from '../store/requests.ts'
import { PASSWORD, PHONE, startBrowser, visit, WITHOUT_BROWSER } from './browser.system.ts'
import { openStage, type Stage } from './stage.ts'

describeWith(WITHOUT_BROWSER, 'budgets', () => {
  let browser: Browser
  let stage: Stage
  beforeAll(async () => {
    ;[browser, stage] = await Promise.all([startBrowser(), openStage()])
  })
  afterAll(async () => {
    await browser?.close()
    await stage?.[Symbol.asyncDispose]()
  })

  /** A request in all budgets of its account and key; without a charge it stays in progress. */
  async function spend(account: string, key: string, exchange: string, amount: string, charged?: string) {
    const { reads, ledger } = stage.running.store
    const spender = { account: reads.findAccount(account)!, key: reads.findKey(key)! }
    const budgets = ofOwners(spender, Date.now()).map(({ rule: _, whose: __, ...budget }) => budget)
    const hold = aHold({ exchange, accountId: account, keyId: key, amount: parseMoney(amount), budgets })
    expect(await ledger.hold(hold)).toMatchObject({ held: true })
    if (charged !== undefined) await ledger.settle(aSettle({ exchange, amount: parseMoney(charged) }))
  }

  test('a member limits a key, sees the remainder, and removes the limit', async () => {
    const { page, open, join, check, problems } = await visit(browser, { url: stage.dashboard })
    await join(await stage.invite('member', null, parseMoney('10')), 'ada@example.com')
    const { store } = stage.running
    const { accountId } = store.reads.people.findByEmail('ada@example.com')!
    const { key } = await store.createKey({ account: accountId, name: 'app' })
    await open('/')
    expect(await page.getByRole('heading', { name: 'Budgets' }).count()).toBe(0)

    await open('/keys')
    const row = page.getByRole('row', { name: /app/ })
    expect(await row.getByText('None').count()).toBe(1)
    await row.getByRole('button', { name: 'Actions for app' }).click()
    await page.getByRole('menuitem', { name: 'Budgets' }).click()
    const list = page.getByRole('dialog', { name: 'Budgets of app' })
    await list.getByText('No budgets').waitFor()
    await check('key-budgets-none')

    await list.getByRole('button', { name: 'Add a budget' }).click()
    const form = page.getByRole('dialog', { name: 'Add a budget for the key app' })
    const save = () => form.getByRole('button', { name: 'Save the budget' }).click()
    expect(await form.getByLabel('Period').inputValue()).toBe('month')
    await form.getByLabel('Time zone').fill('Mars')
    await form.getByLabel('Alerts').fill('101')
    await save()
    await form.getByText('Enter an amount in dollars').waitFor()
    await form.getByText('Enter a time zone').waitFor()
    await form.getByText('Enter percentages from 1% to 100%').waitFor()
    await check('key-budget-form')
    await form.getByLabel('Amount').fill('4')
    await form.getByLabel('Time zone').fill('Asia/Tokyo')
    await form.getByLabel('Alerts').fill('50, 90%')
    await form.getByLabel('When it is exhausted').selectOption('demo-small')
    await save()
    await form.waitFor({ state: 'detached' })
    await list.getByText('$4.00 a month').waitFor()
    expect(store.reads.findKey(key.id)!.budgets).toEqual([
      {
        per: 'key',
        every: 'month',
        amount: parseMoney('4'),
        zone: 'Asia/Tokyo',
        at: ['50%', '90%'],
        then: 'demo-small',
      },
    ])

    await spend(accountId, key.id, 'req_1', '3.000000001', '3.000000001')
    await spend(accountId, key.id, 'req_2', '0.25')
    await open('/keys')
    await row.getByText('Month: $0.749 left').waitFor()
    await row.getByRole('img', { name: 'Used of $4.00 a month: 81%' }).waitFor()
    await row.getByText(/^resets 1 \w+ \d{4}, 00:00 Asia\/Tokyo$/).waitFor()
    await check('keys-with-budgets')
    await row.getByRole('button', { name: 'Actions for app' }).click()
    await page.getByRole('menuitem', { name: 'Budgets' }).click()
    expect(await list.getByTitle('$0.749999999').innerText()).toContain('$0.749')
    await list.getByText('$0.25 is held').waitFor()
    await check('key-budgets')
    const size = page.viewportSize()!
    await page.setViewportSize(PHONE)
    await check('key-budgets-narrow')
    await page.setViewportSize(size)

    await list.getByRole('button', { name: 'Change the budget of $4.00 a month' }).click()
    const change = page.getByRole('dialog', { name: 'Change the budget of $4.00 a month' })
    expect(await change.getByLabel('Alerts').inputValue()).toBe('50%, 90%')
    await change.getByLabel('Amount').fill('2.5')
    await change.getByRole('button', { name: 'Save the budget' }).click()
    await list.getByText('$2.50 a month').waitFor()
    await list.getByRole('img', { name: 'Used of $2.50 a month: 100%' }).waitFor()
    await list.getByRole('button', { name: 'Remove the budget of $2.50 a month' }).click()
    await page.getByRole('button', { name: 'Remove the budget', exact: true }).click()
    await list.getByText('No budgets').waitFor()
    expect(await page.evaluate('document.activeElement.textContent')).toBe('Budgets of app')
    expect(store.reads.findKey(key.id)!.budgets).toBeUndefined()
    expect(problems).toEqual([])
  })

  test("an operator sets the account's budgets; its people see them, also exhausted ones, and can use every page", async () => {
    const { page, open, join, check, problems } = await visit(browser, { url: stage.dashboard })
    const { store } = stage.running
    await join(await stage.invite('operator'), 'zoe@example.com')
    const { id } = await store.createAccount({ name: 'Acme', plan: 'free' })
    await store.credit({ account: id, amount: parseMoney('10'), reference: 'first', actor: 'test' })
    const { key } = await store.createKey({ account: id, name: 'app' })

    await open(`/operator/accounts/${id}`)
    await page.getByRole('button', { name: 'Add a budget' }).click()
    const form = page.getByRole('dialog')
    await form.getByLabel('Period').selectOption('day')
    await form.getByLabel('Amount').fill('1')
    await form.getByLabel('Time zone').fill('Europe/Berlin')
    await form.getByRole('button', { name: 'Save the budget' }).click()
    const table = page.getByRole('table', { name: 'Budgets of Acme' })
    await table.getByText('account day, set for the account').waitFor()
    await check('operator-budgets')

    await page.getByRole('button', { name: 'Budgets of the key app' }).click()
    const list = page.getByRole('dialog', { name: 'Budgets of app' })
    await list.getByText('No budgets').waitFor()
    await list.getByRole('button', { name: 'Add a budget' }).click()
    const keyForm = page.getByRole('dialog', { name: 'Add a budget for the key app' })
    await keyForm.getByLabel('Amount').fill('3')
    await keyForm.getByRole('button', { name: 'Save the budget' }).click()
    await list.getByText('$3.00 a month').waitFor()
    await check('operator-key-budgets')
    await list.getByRole('button', { name: 'Change the budget of $3.00 a month' }).click()
    const change = page.getByRole('dialog', { name: 'Change the budget of $3.00 a month' })
    await change.getByLabel('Amount').fill('2')
    await change.getByRole('button', { name: 'Save the budget' }).click()
    await list.getByText('$2.00 a month').waitFor()
    await list.getByRole('button', { name: 'Close' }).click()
    await table.getByText('key month, set for the key app').waitFor()
    expect(store.reads.findKey(key.id)!.budgets).toMatchObject([{ every: 'month', amount: parseMoney('2') }])

    await spend(id, key.id, 'req_3', '1', '1')
    const member = await visit(browser, { url: stage.dashboard, size: PHONE })
    await member.join(await stage.invite('member', id), 'eve@example.com')
    const own = member.page.getByRole('table', { name: 'Budgets of the account' })
    await own.getByText('$1.00 a day').waitFor()
    await own.getByRole('img', { name: 'Used of $1.00 a day: 100%' }).waitFor()
    await own.getByText(/^\d+ \w+ \d{4}, 00:00 Europe\/Berlin$/).waitFor()
    expect(await own.getByRole('button').count()).toBe(0)
    await member.check('overview-with-budgets')

    const again = await visit(browser, { url: stage.dashboard })
    await again.open('/')
    await again.page.getByLabel('E-mail address').fill('eve@example.com')
    await again.page.getByLabel('Password', { exact: true }).fill(PASSWORD)
    await again.page.locator('form button[type=submit]').click()
    await again.page.getByRole('heading', { level: 1, name: 'Overview' }).waitFor()
    for (const path of ['/keys', '/receipts', '/usage', '/ledger', '/models', '/settings']) {
      await again.open(path)
      expect(await again.page.getByRole('alert').count(), path).toBe(0)
    }
    expect([...problems, ...member.problems, ...again.problems]).toEqual([])
  })
})
