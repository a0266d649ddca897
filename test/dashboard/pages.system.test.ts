/**
 * Every page in a browser, empty, with data, and with names that contain markup. It passes axe's rules, in light and dark,
 * and fits a phone. It has no errors and sends no request to another origin.
 */
import type { Browser } from 'playwright-core'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { ROUTES } from '../../src/dashboard/routes.ts'
import { isFull } from '../helpers/counts.ts'
import { describeWith } from '../helpers/missing.ts'
import {
  type BrowserState,
  PHONE,
  startBrowser,
  type Visitor,
  type VisitorOptions,
  visit,
  WITHOUT_BROWSER,
} from './browser.system.ts'
import { openStage, type Stage } from './stage.ts'

const full = isFull('clients')

/** Themes and window sizes; the quick run has the narrowest. */
const WAYS: readonly Omit<VisitorOptions, 'url'>[] = [
  { scheme: 'dark', size: PHONE },
  ...(full
    ? [{ scheme: 'light' } as const, { scheme: 'dark' } as const, { scheme: 'light', size: PHONE } as const]
    : []),
]
const wayName = ({ scheme, size }: Omit<VisitorOptions, 'url'>) => `${scheme}, ${size === PHONE ? 'phone' : 'desk'}`

/** Names that a careless page would run as code. */
const PAYLOADS = [
  '<img src=x onerror="window.hurt=1">',
  '"><script>window.hurt=1</script>',
  "'-window.hurt=1-'",
  '${window.hurt=1}',
  '{{constructor.constructor("window.hurt=1")()}}',
  '<svg/onload=window.hurt=1>',
  'javascript:window.hurt=1',
  '</title><script>window.hurt=1</script>',
  '&lt;script&gt;window.hurt=1&lt;/script&gt;',
  '<a href="javascript:window.hurt=1">x</a>',
]

describeWith(WITHOUT_BROWSER, 'pages', () => {
  let browser: Browser
  let stage: Stage
  let accountId: string
  /** The state of a browser whose person is an operator with an account that has been used. */
  let state: BrowserState
  const receipts: string[] = []

  beforeAll(async () => {
    ;[browser, stage] = await Promise.all([startBrowser(), openStage()])
    const { store } = stage.running
    const account = await store.createAccount({ name: 'acme' })
    accountId = account.id
    await store.credit({
      account: account.id,
      amount: 25_000_000_000n,
      reference: 'invoice-7',
      actor: 'test',
      note: 'a note',
    })
    const visitor = await visit(browser, { url: stage.dashboard })
    await visitor.join(await stage.invite('operator', account.id))
    state = await visitor.context.storageState()
    expect(visitor.problems).toEqual([])
    await visitor.context.close()
  })
  afterAll(async () => {
    await browser?.close()
    await stage?.[Symbol.asyncDispose]()
  })

  /** With the operator's session. */
  const operator = (way: Omit<VisitorOptions, 'url'>) => visit(browser, { url: stage.dashboard, state, ...way })

  const signedIn = ROUTES.filter(({ audience }) => audience !== 'anyone').map(({ path }) => path)
  const pathOf = (path: string) =>
    path.startsWith('/receipts/') ? path.replace(':id', receipts[0]!) : path.replace(':id', accountId)
  /** Opens a page that the visitor may see: it does not lead to signing in. */
  const openOwn = async (visitor: Visitor, path: string) => {
    await visitor.open(pathOf(path))
    expect(new URL(visitor.page.url()).pathname).toBe(pathOf(path))
  }
  const nameOf = (path: string) => path.slice(1).replaceAll('/', '-').replace(':', '') || 'overview'

  test.each(WAYS.map(way => [wayName(way), way] as const))('without a session: %s', async (_, way) => {
    const visitor = await visit(browser, { url: stage.dashboard, ...way, expected: /status of 404/ })
    for (const { path } of ROUTES.filter(({ audience }) => audience === 'anyone')) {
      await visitor.open(path)
      await visitor.check(nameOf(path))
    }
    await visitor.open(await stage.invite('member'))
    await visitor.check('join-invited')
    await visitor.open('/nowhere')
    await visitor.check('sign-in-first')
    expect(visitor.problems).toEqual([])
    await visitor.context.close()
  })

  test('empty pages name the next action', async () => {
    const visitor = await operator({ scheme: 'light' })
    // Operator pages are never quite empty: they list at least the operator.
    const emptied = signedIn.filter(path => !path.includes(':id') && (full || !path.startsWith('/operator')))
    for (const path of emptied) {
      await openOwn(visitor, path)
      await visitor.check(`${nameOf(path)}-empty`)
    }
    expect(visitor.problems).toEqual([])
    await visitor.context.close()
  })

  test('pages with keys, exchanges, links and tokens', async () => {
    const { store } = stage.running
    const { token } = await store.createKey({ account: accountId, name: 'backend', spendingCap: 1_000_000_000n })
    const { key: old } = await store.createKey({ account: accountId, name: 'nightly run', models: ['demo-small'] })
    await store.revokeKey(old.id)
    for (const model of ['demo-small', 'demo-reasoning', 'demo-small']) {
      const answer = await fetch(`${stage.url}/v1/chat/completions`, {
        method: 'POST',
        headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
        body: JSON.stringify({ model, messages: [{ role: 'user', content: 'Hello!' }] }),
      })
      expect(answer.status).toBe(200)
      await answer.arrayBuffer()
      receipts.push(answer.headers.get('x-request-id')!)
    }
    await stage.invite('member', accountId)
    await store.people.createToken({ name: 'payments', expiresAt: null, createdBy: 'test' })
  })

  test.each(WAYS.map(way => [wayName(way), way] as const))('with data: %s', async (_, way) => {
    const visitor = await operator(way)
    for (const path of signedIn) {
      await openOwn(visitor, path)
      await visitor.check(nameOf(path))
    }
    await visitor.open('/keys?create')
    await visitor.page.getByRole('dialog').waitFor()
    await visitor.check('keys-create')
    expect(visitor.problems).toEqual([])
    await visitor.context.close()
  })

  test('a member sees no operator page', async () => {
    const visitor = await visit(browser, { url: stage.dashboard })
    await visitor.join('/register', 'member@example.com')
    expect(await visitor.page.getByRole('link', { name: 'Providers' }).count()).toBe(0)
    for (const path of signedIn.filter(each => each.startsWith('/operator'))) {
      await visitor.open(pathOf(path))
      await visitor.page.getByRole('heading', { level: 1, name: 'Page not found' }).waitFor()
    }
    expect(visitor.problems).toEqual([])
    await visitor.context.close()
  })

  test('names with markup are shown as text', async () => {
    const { store } = stage.running
    for (const [index, name] of PAYLOADS.entries()) {
      await store.createKey({ account: accountId, name })
      await store.createAccount({ name: `${name} ${index}`, plan: name })
      await store.credit({ account: accountId, amount: 1n, reference: `${name} ${index}`, actor: name, note: name })
      await store.people.createToken({ name, expiresAt: null, createdBy: name })
    }
    const visitor = await operator({})
    for (const path of signedIn) {
      await openOwn(visitor, path)
      expect(await visitor.page.evaluate('window.hurt'), path).toBeUndefined()
    }
    await visitor.open('/keys')
    for (const name of PAYLOADS) {
      await visitor.page.getByText(name, { exact: true }).locator('visible=true').first().waitFor()
    }
    expect(visitor.problems).toEqual([])
    await visitor.context.close()
  })
})
