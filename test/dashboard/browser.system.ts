/**
 * A real browser for the tests of the page: the Chromium or Chrome of the machine. Without one, the run prints which tests it
 * skipped.
 */
import { existsSync } from 'node:fs'
import { mkdir, readFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { type Browser, type BrowserContext, chromium, type Page } from 'playwright-core'
import { afterAll, beforeAll, expect } from 'vitest'
import { describeWith } from '../helpers/missing.ts'

const PLACES = [
  process.env['TOLLGATE_BROWSER'],
  '/usr/bin/chromium',
  '/usr/bin/chromium-browser',
  '/usr/bin/google-chrome',
  '/Applications/Google Chrome.app/Contents/MacOS/Google Chrome',
]

const BROWSER = PLACES.find(path => path !== undefined && existsSync(path))

/** The reason why no browser can be started here; null if one can. */
export const WITHOUT_BROWSER =
  BROWSER === undefined ? 'no browser (apt-get install chromium, or set TOLLGATE_BROWSER to the path of one)' : null

/** A folder for a picture of every page that the tests open. Without it, none is taken. */
export const PICTURES = process.env['TOLLGATE_PICTURES']

/** The password of all people that a test registers. */
export const PASSWORD = 'correct horse battery'

/** Tests that share one browser, which is started before them. */
export function browserTests(name: string, tests: (browser: () => Browser) => void): void {
  describeWith(WITHOUT_BROWSER, name, () => {
    let browser: Browser
    beforeAll(async () => {
      browser = await startBrowser()
    })
    afterAll(() => browser?.close())
    tests(() => browser)
  })
}

export function startBrowser(): Promise<Browser> {
  if (BROWSER === undefined) throw new Error(WITHOUT_BROWSER!)
  // Chromium has no sandbox for root, and containers often run as root. It opens only pages of the test's gateway.
  return chromium.launch({ executablePath: BROWSER, args: process.getuid?.() === 0 ? ['--no-sandbox'] : [] })
}

/** A person at a browser, with all errors since they opened it. */
export interface Visitor {
  readonly page: Page
  readonly context: BrowserContext
  /** Console errors, exceptions, requests to others than the gateway, answers of 500 and more. */
  readonly problems: readonly string[]
  /** Opens a path and waits until nothing is loading. */
  open(path: string): Promise<void>
  /** Registers at an invitation or at `/register`, and waits for the overview. */
  join(link: string, email?: string): Promise<void>
  /** Checks the page against the rules of accessibility, and takes a picture if a folder is set. */
  check(name: string): Promise<void>
}

export type BrowserState = Awaited<ReturnType<BrowserContext['storageState']>>

export interface VisitorOptions {
  /** Origin of the dashboard. */
  readonly url: string
  readonly scheme?: 'light' | 'dark'
  /** The cookies and stored settings of an earlier visitor. */
  readonly state?: BrowserState
  readonly size?: { readonly width: number; readonly height: number }
  /** Errors that a test provokes: Chromium writes a console error for each failed request. */
  readonly expected?: RegExp
}

const DESK = { width: 1280, height: 860 }
export const PHONE = { width: 360, height: 740 }

export async function visit(browser: Browser, options: VisitorOptions): Promise<Visitor> {
  const { url, scheme = 'light', size = DESK, expected, state } = options
  const context = await browser.newContext({
    colorScheme: scheme,
    viewport: size,
    reducedMotion: 'reduce',
    locale: 'en-GB',
    ...(state ? { storageState: state } : {}),
  })
  await context.grantPermissions(['clipboard-read', 'clipboard-write'], { origin: url })
  const page = await context.newPage()
  const problems: string[] = []
  page.on('console', message => {
    const text = `${message.text()} ${message.location().url}`
    if (message.type() === 'error' && !expected?.test(text)) problems.push(`console: ${text}`)
  })
  page.on('pageerror', error => problems.push(`exception: ${error.message}`))
  page.on('request', request => {
    const { origin, protocol } = new URL(request.url())
    if (origin !== url && protocol !== 'data:' && protocol !== 'blob:') problems.push(`elsewhere: ${request.url()}`)
  })
  page.on('response', answer => {
    if (answer.status() >= 500) problems.push(`${answer.status()}: ${answer.url()}`)
  })
  const open = async (path: string): Promise<void> => {
    await page.goto(url + path)
    await settled(page)
  }
  return {
    page,
    context,
    problems,
    open,
    async join(link, email = 'ada@example.com') {
      await open(link)
      await page.getByLabel('E-mail address').fill(email)
      await page.getByLabel('Password', { exact: true }).fill(PASSWORD)
      await page.locator('form button[type=submit]').click()
      await page.getByRole('heading', { level: 1, name: 'Overview' }).waitFor()
    },
    async check(name) {
      await settled(page)
      expect(await violations(page), name).toEqual([])
      expect(await overflow(page), `${name}: wider than the window`).toBeLessThanOrEqual(0)
      if (PICTURES) {
        await mkdir(PICTURES, { recursive: true })
        const suffix = `${size === PHONE ? '-phone' : ''}${scheme === 'dark' ? '-dark' : ''}`
        await page.screenshot({ path: join(PICTURES, `${name}${suffix}.png`), fullPage: true })
      }
    },
  }
}

/** Waits until nothing is loading: the page has a heading, and no part is busy. */
export async function settled(page: Page): Promise<void> {
  await page.locator('h1').first().waitFor()
  await page.locator('body:not(:has([aria-busy="true"]))').waitFor()
}

const require = createRequire(import.meta.url)
let axe: string | undefined

/** The findings of axe-core with their elements: WCAG 2.2 A and AA, and its best practices. */
async function violations(page: Page): Promise<string[]> {
  axe ??= await readFile(require.resolve('axe-core/axe.min.js'), 'utf8')
  // Evaluated by the debugger: the page's own content policy allows no such script.
  await page.evaluate(axe)
  return page.evaluate<string[]>(`axe.run().then(({ violations }) => violations.map(
    ({ id, help, nodes }) => id + ': ' + help + ': ' + nodes.map(({ html }) => html).join(' ')))`)
}

/** By how many pixels the page is wider than its window. */
function overflow(page: Page): Promise<number> {
  return page.evaluate<number>('document.documentElement.scrollWidth - window.innerWidth')
}
