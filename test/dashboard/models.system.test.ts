/** The Models page in a browser: a wildcard with hundreds of models, all prices of one, and the parts that only operators see. */
import { expect, test } from 'vitest'
import { aHold, aSettle } from '../store/requests.ts'
import { browserTests, PHONE, visit } from './browser.system.ts'
import { openStage } from './stage.ts'

const CONFIGURATION = {
  // It gets no request.
  providers: { openai: { dialect: 'openai', base_url: 'http://127.0.0.1:9/v1', profile: 'openai' } },
  models: {
    'openai/*': { targets: [{ provider: 'openai', model: '*' }], price: 'auto' },
    fast: {
      targets: [
        {
          provider: 'openai',
          model: 'gpt-5.4-mini',
          cost: { per: '1M tokens', input: '$0.77', output: '$3.33' },
        },
      ],
      price: {
        per: '1M tokens',
        input: '$1.54',
        output: '$3',
        above: [{ tokens: '200k', input: '$2.50' }],
        tier: { flex: { output: '$4' } },
      },
      context: '400k',
      max_output: '16Ki',
      deprecation: { date: '2027-03-01', successor: 'openai/gpt-5.4' },
    },
    secret: { targets: [{ provider: 'openai', model: 'gpt-5.4' }], price: 'auto', public: false },
  },
}
const LIST = /genai-prices [\d.]+ of 2\d{3}-\d\d-\d\d/

browserTests('models', browser => {
  test('a member finds one of many models, with all of its prices and without costs', async () => {
    await using stage = await openStage(CONFIGURATION)
    const { page, open, join, check, problems } = await visit(browser(), { url: stage.dashboard })
    const answers: Promise<string>[] = []
    page.on('response', answer => {
      if (answer.url().includes('/api/')) answers.push(answer.text().catch(() => ''))
    })
    await join(await stage.invite('member'))
    await open('/models')
    const rows = page.locator('.table tbody tr')
    expect(await rows.count()).toBe(50)
    const first = await rows.first().textContent()
    await page.getByRole('button', { name: 'Next', exact: true }).click()
    await page.getByText('Page 2').waitFor()
    expect(await rows.first().textContent()).not.toBe(first)

    await page.getByLabel('Group').selectOption('others')
    await page.getByText(/^1 of \d+ models$/).waitFor()
    await page.getByLabel('Group').selectOption('openai/*')
    await page.getByLabel('Sort by').selectOption('context')
    await page.getByLabel('Search').fill('gpt-5.4-mini')
    await page.getByRole('button', { name: 'Details of openai/gpt-5.4-mini', exact: true }).click()
    const dialog = page.getByRole('dialog')
    await dialog.getByText(LIST).waitFor()
    await check('models-listed')
    await page.keyboard.press('Escape')
    await dialog.waitFor({ state: 'detached' })

    await open('/models?model=fast')
    expect(await dialog.getByRole('row').allInnerTexts()).toEqual(
      [
        'Unit\tPrice',
        'Input\n$1.54',
        'Input\nprompt above 200,000 tokens\n$2.50',
        'Output\n$3.00',
        'Output\ntier flex\n$4.00',
      ].map(text => expect.stringMatching(new RegExp(text.replaceAll(/[.$]/g, '\\$&').replaceAll(/\s/g, '\\s+')))),
    )
    await dialog.getByText('set by the operator').waitFor()
    await dialog.getByRole('link', { name: 'openai/gpt-5.4' }).click()
    await dialog.getByText('$2.50').first().waitFor()
    expect((await Promise.all(answers)).join('\n')).not.toMatch(/cost|margin|3\.330000000|"target/)
    expect(problems).toEqual([])
    await page.context().close()
  })

  test.each([
    ['at a desk', {}],
    ['on a phone', { size: PHONE }],
  ])('an operator sees costs and margins, and a sentence where the price is below the cost: %s', async (_, way) => {
    await using stage = await openStage(CONFIGURATION)
    const { page, open, join, check, problems } = await visit(browser(), { url: stage.dashboard, ...way })
    await join(await stage.invite('operator'))
    await open('/models?sort=margin')
    const rows = page.locator('.table tbody tr')
    const first = await rows.first().innerText()
    for (const text of ['fast', 'Ends 2027-03-01', 'Below cost', '50% input', '\u221211% output'])
      expect(first).toContain(text)
    await page.getByLabel('Group').selectOption('others')
    await expect.poll(() => rows.filter({ hasText: 'secret' }).innerText()).toContain('Not public')
    await page.getByRole('button', { name: 'Details of fast' }).click()
    const dialog = page.getByRole('dialog')
    // On a phone a row is a block without the role of a row.
    const below = dialog.locator('tbody tr').filter({ hasText: 'above the price' })
    expect(await below.allInnerTexts()).toEqual([
      expect.stringMatching(/^Output\s+\$3\.00\s+\$3\.33 above the price\s+openai\/gpt-5\.4-mini$/),
    ])
    await check('models-costs')
    expect(problems).toEqual([])
    await page.context().close()
  })

  test('a key is limited to models found among hundreds', async () => {
    await using stage = await openStage(CONFIGURATION)
    const { page, open, join, check, problems } = await visit(browser(), { url: stage.dashboard })
    await join(await stage.invite('member'))
    await open('/keys?create')
    await page.getByLabel('Name', { exact: true }).fill('ci')
    await page.getByRole('radio', { name: 'Only some' }).check()
    for (const id of ['fast', 'openai/gpt-5.4-mini', 'openai/*']) {
      await page.getByLabel('Search the models').fill(id)
      await page.getByLabel('Search the models').press('Enter')
      // A wildcard has its hint in its name.
      const name = id.endsWith('*') ? `${id} All of these, and later ones` : id
      await page.getByRole('checkbox', { name, exact: true }).check()
    }
    // The chosen one stays visible, beside those that match.
    expect(await page.getByRole('checkbox', { name: 'fast', exact: true }).isChecked()).toBe(true)
    await check('keys-search')
    await page.getByRole('button', { name: 'Create the key' }).click()
    await page.getByRole('dialog').getByLabel('API key').waitFor()
    const [account] = stage.running.store.reads.reports.accounts({ limit: 1 }).items
    const keys = await stage.running.store.listKeys(account!.id)
    expect(keys.map(({ models }) => models)).toEqual([['openai/*', 'openai/gpt-5.4-mini', 'fast']])
    expect(problems).toEqual([])
    await page.context().close()
  })

  test('a receipt names the price list of each line', async () => {
    await using stage = await openStage(CONFIGURATION)
    const { store } = stage.running
    const { id: accountId } = await store.createAccount({ name: 'acme' })
    await store.credit({ account: accountId, amount: 1_000_000_000n, reference: 'a', actor: 'test' })
    const { key } = await store.createKey({ account: accountId, name: 'ci' })
    const rule = { nanos: 1_000_000_000n, per: 1_000_000 }
    const price = [
      { ...rule, unit: 'input', source: 'a list of 2026-09-23' },
      { ...rule, unit: 'output' },
    ] as const
    await store.ledger.hold(aHold({ accountId, keyId: key.id, price, amount: 50_000n }))
    await store.ledger.settle(aSettle({ amount: 30_000n, usage: { input: 10, output: 20 } }))
    const { page, open, join, check, problems } = await visit(browser(), { url: stage.dashboard })
    await join(await stage.invite('member', accountId))
    await open('/receipts/req_1')
    expect(await page.locator('.receipt-sum tbody th').allInnerTexts()).toEqual([
      expect.stringMatching(/^Prompt\s+a list of 2026-09-23$/),
      'Answer',
    ])
    await check('receipt-list')
    expect(problems).toEqual([])
    await page.context().close()
  })
})
