/** Operators find one person among many: page by page, and by a part of the email address. */
import type { Browser } from 'playwright-core'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { describeWith } from '../helpers/missing.ts'
import { startBrowser, visit, WITHOUT_BROWSER } from './browser.system.ts'
import { openStage, type Stage } from './stage.ts'

const HASH = '$argon2id$v=19$m=19456,t=2,p=1$c2FsdA$aGFzaA'

describeWith(WITHOUT_BROWSER, "the people's page", () => {
  let browser: Browser
  let stage: Stage
  beforeAll(async () => {
    ;[browser, stage] = await Promise.all([startBrowser(), openStage()])
  })
  afterAll(async () => {
    await browser?.close()
    await stage?.[Symbol.asyncDispose]()
  })

  test('pages, searches, leads to the account, and removes', async () => {
    const { page, open, join, problems } = await visit(browser, { url: stage.dashboard })
    await join(await stage.invite('operator'), 'zoe@example.com')
    const { store } = stage.running
    const { id } = await store.createAccount({ name: 'Acme & sons' })
    for (let index = 0; index < 60; index++) {
      const email = `p${String(index).padStart(2, '0')}_x@example.com`
      await store.people.create({ email, password: HASH, role: 'member', membership: { accountId: id } })
    }

    await open('/operator/people')
    const people = page.getByRole('table', { name: /People who can sign in/ })
    const rows = people.locator('tbody tr')
    expect(await rows.count()).toBe(50)
    await page.getByRole('button', { name: 'Next' }).click()
    await people.getByRole('button', { name: 'Actions for zoe@example.com' }).waitFor()
    expect(await rows.count()).toBe(11)

    await page.getByLabel('Search').fill('P07_')
    await page.waitForURL(/search=P07_/)
    await people.getByRole('button', { name: 'Actions for p07_x@example.com' }).waitFor()
    expect(await rows.count()).toBe(1)
    await page.reload()
    expect(await page.getByLabel('Search').inputValue()).toBe('P07_')
    await people.getByRole('button', { name: 'Actions for p07_x@example.com' }).click()
    await page.getByRole('menuitem', { name: 'Remove' }).click()
    await page.getByRole('button', { name: 'Remove person' }).click()
    await page.getByText('No people found').waitFor()
    expect(store.reads.people.findByEmail('p07_x@example.com')).toBeUndefined()
    await page.getByRole('button', { name: 'Show all people' }).click()
    await people.getByRole('button', { name: 'Actions for p08_x@example.com' }).waitFor()
    expect(await page.getByLabel('Search').inputValue()).toBe('')
    await people.getByRole('link', { name: 'Acme & sons' }).first().click()
    await page.getByRole('heading', { level: 1, name: 'Acme & sons' }).waitFor()
    expect(problems).toEqual([])
  })

  test('an operator makes an account, grants credit once, changes the plan, freezes, invites', async () => {
    const { page, open, join, problems } = await visit(browser, { url: stage.dashboard, expected: /status of 409/ })
    await join(await stage.invite('operator'), 'yan@example.com')
    const dialog = page.getByRole('dialog')
    const press = (name: string) => dialog.getByRole('button', { name, exact: true }).click()

    await open('/operator/accounts')
    await page.getByRole('button', { name: 'New account' }).click()
    await dialog.getByLabel('First credit').fill('0')
    await press('Create')
    await dialog.getByText('Give the account a name.').waitFor()
    expect(await page.evaluate('document.activeElement.labels[0].textContent')).toBe('Name')
    await dialog.getByLabel('Name').fill('Acme & sons')
    await dialog.getByLabel('First credit').fill('$1,250.50')
    expect(await dialog.getByText('Give the account a name.').count()).toBe(0)
    await press('Create')
    await dialog.getByText(/Acme & sons/).waitFor()
    await dialog.getByLabel('Name').fill(' Umbrella ')
    await press('Create')
    await page.getByRole('heading', { level: 1, name: 'Umbrella' }).waitFor()

    const { reports } = stage.running.store.reads
    const account = () => reports.accounts({ search: 'Umbrella', limit: 1 }).items[0]!
    expect(account()).toMatchObject({ posted: 1_250_500_000_000n })
    for (const said of [/ granted to Umbrella/, /Nothing was changed/]) {
      await page.getByRole('button', { name: 'Grant credit' }).first().click()
      await dialog.getByLabel('Amount').fill('5')
      await dialog.getByLabel('Reference').fill('invoice-8')
      await press('Grant the credit')
      await page.getByText(said).first().waitFor()
    }
    expect(account()).toMatchObject({ posted: 1_255_500_000_000n })
    await press('Cancel')
    await page.getByRole('button', { name: 'Grant credit' }).first().click()
    await dialog.getByLabel('Amount').fill('-1255.51')
    await dialog.getByText(/At most this can be taken/).waitFor()
    await dialog.getByLabel('Amount').fill('-55.50')
    await dialog.getByText('afterwards: $1,200.00').waitFor()
    await press('Take the credit')
    await dialog.getByText('Enter the reason for taking credit.').waitFor()
    await dialog.getByLabel('Note').fill('a mistake')
    await press('Take the credit')
    await page
      .getByText(/ taken from Umbrella/)
      .first()
      .waitFor()
    await page.getByText('Credit taken').waitFor()
    expect(account()).toMatchObject({ posted: 1_200_000_000_000n })
    await page.getByRole('button', { name: 'Change plan' }).click()
    await dialog.getByLabel('Plan').fill('team')
    await press('Change the plan')
    await page.getByText('Umbrella is on the plan team now').first().waitFor()
    await page.getByRole('button', { name: 'Freeze' }).click()
    await press('Freeze the account')
    await page.getByText('This account is frozen').waitFor()
    expect(account()).toMatchObject({ plan: 'team', frozen: true })

    await open('/operator/people')
    await page.getByRole('button', { name: 'Invite a person' }).click()
    await dialog.getByLabel('Existing account').check()
    await press('Create')
    await dialog.getByText('Choose an account.').waitFor()
    await dialog.getByLabel('Find the account').fill('Umbr')
    await dialog.getByLabel('Umbrella').check()
    await dialog.getByLabel('E-mail address').fill('yan@example.com')
    await press('Create')
    await dialog.getByText(/already/).waitFor()
    await dialog.getByLabel('E-mail address').fill('new@example.com')
    await press('Create')
    expect(await dialog.getByLabel('Invitation link').inputValue()).toContain('/join#')
    await press('I have copied it')
    await page
      .getByRole('table', { name: /Links that still work/ })
      .getByRole('link', { name: 'Umbrella' })
      .waitFor()
    await page.getByRole('button', { name: 'Revoke: An invitation for new@example.com.' }).click()
    await press('Revoke the link')
    await page.getByText('No open links').waitFor()
    expect(problems).toEqual([])
  })
})
