/** Operators find one person among many: by page, and by a part of the address that the server looks for. */
import type { Browser } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { BROWSER, NO_BROWSER, startBrowser, visit } from './browser.ts'
import { openStage, type Stage } from './stage.ts'

const HASH = '$argon2id$v=19$m=19456,t=2,p=1$c2FsdA$aGFzaA'

describe.skipIf(BROWSER === null)(`the people's page${BROWSER === null ? ` (${NO_BROWSER})` : ''}`, () => {
  let browser: Browser
  let stage: Stage
  beforeAll(async () => {
    ;[browser, stage] = await Promise.all([startBrowser(), openStage()])
  }, 60_000)
  afterAll(async () => {
    await browser?.close()
    await stage?.[Symbol.asyncDispose]()
  })

  test('pages, searches, leads to the account, and removes', { timeout: 60_000 }, async () => {
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
    await page.getByRole('button', { name: 'Remove this person' }).click()
    await page.getByText('Nobody fits').waitFor()
    expect(store.people.findByEmail('p07_x@example.com')).toBeUndefined()
    await page.getByRole('button', { name: 'Show everybody' }).click()
    await people.getByRole('button', { name: 'Actions for p08_x@example.com' }).waitFor()
    expect(await page.getByLabel('Search').inputValue()).toBe('')
    await people.getByRole('link', { name: 'Acme & sons' }).first().click()
    await page.getByRole('heading', { level: 1, name: 'Acme & sons' }).waitFor()
    expect(problems).toEqual([])
  })
})
