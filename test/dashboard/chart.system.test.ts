/** The chart's canvas, pixel by pixel, because no role or text describes it. */
import type { Page } from 'playwright-core'
import { expect, test } from 'vitest'
import { aHold, aSettle } from '../store/requests.ts'
import { browserTests, visit } from './browser.system.ts'
import { openStage, type Stage } from './stage.ts'

const DAY_MS = 86_400_000

browserTests('chart', browser => {
  test.each([
    ['one model', ['demo-small']],
    ['two models on each day', ['demo-small', 'demo-reasoning']],
  ] as const)('%s: a day below a pixel has a bar, and the axis goes on below it', async (_, models) => {
    await using stage = await openStage()
    const { id: account } = await stage.running.store.createAccount({ name: 'acme' })
    await stage.running.store.credit({ account, amount: 900_000_000_000n, reference: 'r', actor: 'test' })
    stage.pass(-6 * DAY_MS)
    for (const model of models) await spend(stage, account, model, 100_000_000_000n)
    stage.pass(3 * DAY_MS)
    for (const model of models) await spend(stage, account, model, 2000n)
    stage.pass(3 * DAY_MS)
    const { page, open, join, problems } = await visit(browser(), { url: stage.dashboard })
    await join(await stage.invite('member', account))
    await open('/usage?range=7d')
    await page.locator('.chart canvas').waitFor()
    await expect.poll(async () => (await read(page)).bars.length).toBe(2)
    const { bars, gaps } = await read(page)
    expect(Math.max(...bars)).toBeGreaterThan(100)
    expect(Math.min(...bars)).toBeGreaterThanOrEqual(2)
    expect(Math.min(...bars)).toBeLessThan(8)
    expect(gaps).toBe(0)
    expect(problems).toEqual([])
    await page.context().close()
  })

  test('a model has the same colour on every page and in every period', async () => {
    await using stage = await openStage()
    const { id: account } = await stage.running.store.createAccount({ name: 'acme' })
    await stage.running.store.credit({ account, amount: 900_000_000_000n, reference: 'r', actor: 'test' })
    stage.pass(-6 * DAY_MS)
    await spend(stage, account, 'demo-small', 5_000_000n)
    await spend(stage, account, 'demo-reasoning', 9_000_000n)
    stage.pass(6 * DAY_MS)
    await spend(stage, account, 'demo-reasoning', 3_000_000n)
    const { page, open, join } = await visit(browser(), { url: stage.dashboard })
    await join(await stage.invite('member', account))
    const colours: (string | null)[] = []
    for (const path of ['/', '/usage?range=7d', '/usage?range=24h', '/usage?range=24h&metric=tokens']) {
      await open(path)
      const entry = page.locator('.chart-legend button', { hasText: 'demo-reasoning' })
      colours.push(await entry.locator('.chart-swatch').getAttribute('style'))
    }
    expect(new Set(colours)).toEqual(new Set(['color: var(--series-2);']))
    await page.context().close()
  })
})

async function spend(stage: Stage, accountId: string, model: string, amount: bigint): Promise<void> {
  const exchange = `req_${crypto.randomUUID()}`
  await stage.running.store.ledger.hold(aHold({ accountId, exchange, model, amount }))
  await stage.running.store.ledger.settle(aSettle({ exchange, amount }))
}

/** The height of each bar in pixels, and how many pixels of the axis have the background colour. */
function read(page: Page): Promise<{ bars: number[]; gaps: number }> {
  return page.evaluate<{ bars: number[]; gaps: number }>(`(() => {
    const canvas = document.querySelector('.chart canvas')
    const over = document.querySelector('.chart .u-over')
    const { width, height } = canvas
    const { data } = canvas.getContext('2d', { willReadFrequently: true }).getImageData(0, 0, width, height)
    // Drawn pixels are grey (text, lines), transparent (the background), or the colour of a series.
    const at = (x, y) => data.slice(4 * (y * width + x), 4 * (y * width + x) + 4)
    const coloured = ([red, green, blue, alpha]) => alpha > 200 && Math.max(red, green, blue) - Math.min(red, green, blue) > 60
    const left = Math.ceil(over.offsetLeft), right = Math.floor(over.offsetLeft + over.offsetWidth)
    const bottom = Math.round(over.offsetTop + over.offsetHeight)
    const bars = []
    let inside = false
    for (let x = left; x < right; x++) {
      let count = 0
      for (let y = 0; y < height; y++) if (coloured(at(x, y))) count++
      if (count > 0 && inside) bars[bars.length - 1] = Math.max(bars.at(-1), count)
      else if (count > 0) bars.push(count)
      inside = count > 0
    }
    let gaps = 0
    for (let x = left + 1; x < right - 1; x++) {
      const here = [-1, 0, 1].map(by => at(x, bottom + by)).filter(([red, , , alpha]) => alpha > 60 && red < 250)
      if (here.length === 0) gaps++
    }
    return { bars, gaps }
  })()`)
}
