/** Hostile answers of a model: the playground in a real browser shows them as text and links. */
import { once } from 'node:events'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Browser } from 'playwright-core'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { describeWith } from '../helpers/missing.ts'
import { startBrowser, type Visitor, visit, WITHOUT_BROWSER } from './browser.system.ts'
import { openStage, type Stage } from './stage.ts'

const HOSTILE = `# Hello <script>window.hurt = 1</script>

<script>window.hurt = 1</script>
<img src=x onerror="window.hurt=1"> <svg onload=window.hurt=1> <iframe srcdoc="<script>parent.hurt=1</script>"></iframe>
<style>body { display: none }</style> <base href="https://elsewhere.example/"> <meta http-equiv="refresh" content="0">

[one](javascript:window.hurt=1) [two]( JaVaScRiPt:window.hurt=1) [three](java&#10;script:window.hurt=1)
[four](data:text/html,<script>window.hurt=1</script>) [five](vbscript:x) [six](/api/session) [seven](//elsewhere.example)
[eight](https://elsewhere.example/" onclick="window.hurt=1) <javascript:window.hurt=1> [**nine**](https://example.com/9)

![pixel](https://elsewhere.example/pixel.png) ![](https://elsewhere.example/other.png) ![data](data:image/png;base64,AAAA)

| a | <img src=https://elsewhere.example/x onerror=window.hurt=1> |
|---|---|
| [x](javascript:window.hurt=1) | \`<script>window.hurt=1</script>\` |

\`\`\`html"><script>window.hurt=1</script>
</code></pre><script>window.hurt=1</script>
\`\`\`

- a **bold** list
`
const MEBIBYTE = 1_048_576
const DEEP = `${'> '.repeat(3000)}deep\n\n${'- '.repeat(3000)}deep\n\n${'*a **b '.repeat(2000)}\n\n${'['.repeat(9000)}\n\n`
const END = 'The end of it.'

describeWith(WITHOUT_BROWSER, 'hostile answers', () => {
  let browser: Browser
  let provider: Server
  let stage: Stage
  let visitor: Visitor
  /** The text of the provider's next answer. */
  let answer = ''
  beforeAll(async () => {
    provider = createServer(async (request, response) => {
      await request.resume().toArray()
      response.writeHead(200, { 'content-type': 'text/event-stream' })
      const event = (body: object) => response.write(`data: ${JSON.stringify(body)}\n\n`)
      for (let at = 0; at < answer.length; at += 700) {
        const delta = { content: answer.slice(at, at + 700) }
        if (!event({ id: 'c', object: 'chat.completion.chunk', choices: [{ index: 0, delta }] }))
          await once(response, 'drain')
      }
      event({ id: 'c', choices: [{ index: 0, delta: {}, finish_reason: 'stop' }] })
      event({ id: 'c', choices: [], usage: { prompt_tokens: 9, completion_tokens: 900, total_tokens: 909 } })
      response.end('data: [DONE]\n\n')
    })
    provider.listen(0, '127.0.0.1')
    await once(provider, 'listening')
    const { port } = provider.address() as AddressInfo
    ;[browser, stage] = await Promise.all([
      startBrowser(),
      openStage({
        providers: { far: { dialect: 'openai', base_url: `http://127.0.0.1:${port}/v1` } },
        models: {
          model: {
            targets: [{ provider: 'far', model: 'm' }],
            context: '4Mi',
            max_output: '2Mi',
            price: { per: '1M tokens', input: '$0.15', output: '$0.60' },
          },
        },
      }),
    ])
    visitor = await visit(browser, { url: stage.dashboard })
    await visitor.join(await stage.invite('member', null, 100_000_000_000n))
  })
  afterAll(async () => {
    await browser?.close()
    await stage?.[Symbol.asyncDispose]()
    provider?.close()
  })

  async function ask(text: string): Promise<void> {
    answer = text
    await visitor.open('/playground')
    await visitor.page.getByLabel('Your message').fill('Go')
    await visitor.page.getByRole('button', { name: 'Send' }).click()
    await visitor.page.getByRole('button', { name: 'Ask again' }).waitFor({ timeout: 60_000 })
  }

  /** No script ran, nothing was loaded, and each link leads to another site, in its own window. */
  async function expectHarmless(): Promise<void> {
    const { page } = visitor
    expect(await page.evaluate('window.hurt')).toBeUndefined()
    expect(await page.locator('.markdown :is(script, img, svg, iframe, style, base, meta, object, form)').count()).toBe(
      0,
    )
    const links = await page.evaluate<[string, string, string][]>(
      `[...document.querySelectorAll('.markdown a')].map(({ href, target, rel }) => [href, target, rel])`,
    )
    for (const [href, target, rel] of links) {
      expect(href).toMatch(/^(https?:\/\/|mailto:)/)
      expect([target, rel]).toEqual(['_blank', 'noopener noreferrer nofollow'])
    }
    const attributes = await page.evaluate<string[]>(
      `[...new Set([...document.querySelectorAll('.markdown *')].flatMap(each => each.getAttributeNames()))]`,
    )
    expect(attributes.filter(name => /^on|^src|^style/.test(name))).toEqual([])
    expect(visitor.problems).toEqual([])
  }

  test('scripts, addresses that are scripts, and pictures from elsewhere', async () => {
    await ask(HOSTILE)
    await expectHarmless()
    const { page } = visitor
    await page.locator('.markdown h3', { hasText: 'Hello <script>window.hurt = 1</script>' }).waitFor()
    await page.locator('.markdown li strong', { hasText: 'bold' }).waitFor()
    await page.locator('.markdown td code', { hasText: '<script>' }).waitFor()
    expect(await page.getByRole('link', { name: 'nine' }).getAttribute('href')).toBe('https://example.com/9')
    for (const name of ['one', 'two', 'three', 'four', 'five', 'six', 'seven'])
      expect(await page.locator('.markdown').getByRole('link', { name }).count(), name).toBe(0)
    await visitor.check('playground-hostile')
  })

  test.each([
    ['deep nesting', `${DEEP}${END}`],
    ['a mebibyte of words', `${'word '.repeat(MEBIBYTE / 5)}\n\n${END}`],
    // The length of the longest answers of models: 15,000 elements.
    ['128 KiB of paragraphs and lists', `${'- **a** `b`\n\nc\n\n'.repeat(MEBIBYTE / 8 / 17)}${END}`],
    ['a mebibyte of code', `\`\`\`\n${'let a = 1\n'.repeat(MEBIBYTE / 10)}\`\`\`\n\n${END}`],
    ['a mebibyte without a blank', `${'x'.repeat(MEBIBYTE)} ${END}`],
  ])('%s while it streams: all of it is shown, and the page keeps responding', async (_, text) => {
    await visitor.open('/playground')
    // The longest time in which the page handled no event.
    await visitor.page.evaluate(`window.longest = 0; window.seen = performance.now(); setInterval(() => {
      window.longest = Math.max(window.longest, performance.now() - window.seen); window.seen = performance.now() }, 20)`)
    answer = text
    await visitor.page.getByLabel('Your message').fill('Go')
    await visitor.page.getByRole('button', { name: 'Send' }).click()
    await visitor.page.getByRole('button', { name: 'Ask again' }).waitFor({ timeout: 60_000 })
    const shown = await visitor.page.evaluate<string>(`document.querySelector('.markdown').textContent`)
    expect(shown.endsWith(END)).toBe(true)
    if (text.length > MEBIBYTE / 2) expect(shown.length).toBeGreaterThan(MEBIBYTE / 2)
    const longest = await visitor.page.evaluate<number>('window.longest')
    expect(longest).toBeLessThan(30_000)
    await expectHarmless()
  })

  test('the playground fills the window, with the message field at its end', async () => {
    const { page, open } = visitor
    for (const size of [
      { width: 1280, height: 860 },
      { width: 1800, height: 1100 },
      { width: 900, height: 900 },
    ]) {
      await page.setViewportSize(size)
      await open('/playground')
      const talk = (await page.locator('.playground-talk').boundingBox())!
      const composer = (await page.locator('.composer').boundingBox())!
      const page_ = (await page.locator('.playground').boundingBox())!
      expect(Math.abs(talk.y + talk.height - (composer.y + composer.height))).toBeLessThan(3)
      expect(page_.y + page_.height).toBeGreaterThan(size.height - 60)
      expect(page_.width).toBeGreaterThan(size.width - 340)
      expect(await page.evaluate('document.documentElement.scrollHeight - innerHeight')).toBeLessThanOrEqual(0)
    }
    await page.setViewportSize({ width: 1280, height: 860 })
  })
})
