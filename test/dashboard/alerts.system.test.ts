/** Alerts in a browser: what an operator sees of them and of webhooks, and what a member sees of their own account. */
import { expect, test } from 'vitest'
import type { NewAlert } from '../../src/store/alerts/alert-rows.ts'
import { browserTests, PHONE, visit } from './browser.system.ts'
import { openStage, type Stage } from './stage.ts'

const EVENTS = ['low_balance', 'provider_down', 'reload_invalid']

async function putAlerts({ running: { store } }: Stage, account: string): Promise<void> {
  const nowMs = Date.now()
  const claim = { name: 'ops', events: EVENTS, nowMs, leaseMs: 600_000, most: 10 }
  await store.alerts.claim(claim)
  const alert = (id: string, kind: string, data: object, of: string | null = null): NewAlert => ({
    id,
    kind,
    at: nowMs,
    account: of,
    data: { replica: 'gate-1', ...data },
  })
  await store.alerts.put([
    alert('low', 'low_balance', { below: '5000000000', credit: '4200000000' }, account),
    alert('down', 'provider_down', { provider: '<img src=x onerror="window.hurt=1">' }),
    alert('invalid', 'reload_invalid', { problem: 'gateway.yaml:1:1: unknown key "lisen"' }),
  ])
  await store.alerts.claim(claim)
  const sent = { receiver: 'ops', attempt: 1, nowMs }
  await store.alerts.mark({ ...sent, alert: 'low', failure: null, nextAt: null })
  await store.alerts.mark({ ...sent, alert: 'down', failure: 'HTTP 500', nextAt: nowMs + 60_000 })
  await store.alerts.mark({ ...sent, alert: 'invalid', failure: 'HTTP 404', nextAt: null })
}

browserTests('alerts', browser => {
  test.each<[string, object]>([
    ['on a desk', {}],
    ['on a phone', { size: PHONE }],
  ])('an operator sees all, first none, and sends one again: %s', async (_, way) => {
    await using stage = await openStage()
    const { page, open, join, check, problems } = await visit(browser(), { url: stage.dashboard, ...way })
    await join(await stage.invite('operator'))
    await open('/operator/alerts')
    await page.getByText('No alerts').waitFor()
    await check('operator-alerts-empty')

    const [account] = stage.running.store.reads.reports.accounts({ limit: 1 }).items
    await putAlerts(stage, account!.id)
    await open('/operator/alerts')
    const rows = page.locator('.table tbody tr')
    await expect.poll(() => rows.count()).toBe(3)
    const texts = (await rows.allInnerTexts()).join('\n')
    for (const text of ['is below $5.00: $4.20 is left', 'ops: delivered', 'ops: waiting', 'ops: given up', 'HTTP 404'])
      expect(texts).toContain(text)
    expect(await page.evaluate('window.hurt')).toBeUndefined()
    await check('operator-alerts')

    await page.getByLabel('Kind').selectOption('reload_invalid')
    await expect.poll(() => rows.count()).toBe(1)
    await page.getByRole('button', { name: /^Send again/ }).click()
    await page.getByRole('dialog').getByRole('button', { name: 'Send again' }).click()
    await expect.poll(() => rows.first().innerText()).toContain('ops: waiting')
    await page.getByLabel('Kind').selectOption('breaker_open')
    await page.getByText('No alerts of this kind').waitFor()
    expect(problems).toEqual([])
    await page.context().close()
  })

  test('a member sees the alerts of their own account', async () => {
    await using stage = await openStage()
    const { page, open, join, check, problems } = await visit(browser(), { url: stage.dashboard })
    await join(await stage.invite('member'))
    const [account] = stage.running.store.reads.reports.accounts({ limit: 1 }).items
    await putAlerts(stage, account!.id)
    await open('/')
    await page.getByText('is below $5.00: $4.20 is left').waitFor()
    expect(await page.getByText('unknown key').count()).toBe(0)
    await check('overview-alerts')
    expect(problems).toEqual([])
    await page.context().close()
  })
})
