/** Cross-site requests: a page of another site cannot change anything with the person's cookie. */
import { describe, expect, test } from 'vitest'
import { ROUTES } from '../../src/api/routes.ts'
import { type CallOptions, type Rig, type SignedIn, startRig } from './rig.ts'

const KEY = { name: 'planted' }

/** The ways in which a page of another origin can make a browser send a request. */
const SHAPES: readonly [what: string, method: string, path: string, options: CallOptions][] = [
  ['a form', 'POST', '/api/keys', form('name=planted')],
  ['a form with files', 'POST', '/api/keys', typed('multipart/form-data; boundary=x', '--x--')],
  ['a form of plain text that is JSON', 'POST', '/api/keys', typed('text/plain', JSON.stringify(KEY))],
  ['a beacon without a type', 'POST', '/api/keys', typed(undefined, JSON.stringify(KEY))],
  ['fetch with JSON', 'POST', '/api/keys', { body: KEY }],
  ['fetch with JSON and a charset', 'POST', '/api/keys', typed('application/json; charset=utf-8', JSON.stringify(KEY))],
  ['fetch with JSON and the header of our page', 'POST', '/api/keys', ours({ body: KEY })],
  ['a type that only begins like JSON', 'POST', '/api/keys', typed('application/jsonx', JSON.stringify(KEY))],
  ['a change', 'PATCH', '/api/keys/KEY', ours({ body: { name: 'planted' } })],
  ['a revocation', 'POST', '/api/keys/KEY/revoke', ours({ body: {} })],
  ['signing out', 'DELETE', '/api/session', ours({})],
  ['another method written into the query', 'POST', '/api/keys?_method=PATCH', form('name=planted')],
]

const SITES = [undefined, 'none', 'same-site', 'cross-site'] as const
const ORIGINS = [undefined, 'null', 'https://evil.example'] as const

describe('from another site', () => {
  test('12 request shapes with 4 x 3 combinations of origin headers change nothing', async () => {
    expect(SHAPES).toHaveLength(12)
    await using rig = await startRig()
    const alice = await rig.member('alice@example.com')
    const { key } = (await alice.post<{ key: { id: string } }>('/api/keys', { name: 'own' })).body
    const before = stateOf(rig, alice)
    let sent = 0
    for (const [, method, path, { headers, ...body }] of SHAPES) {
      for (const site of SITES) {
        for (const origin of ORIGINS) {
          const from = { 'sec-fetch-site': site, origin, 'x-tollgate-dashboard': undefined, ...headers }
          const reply = await alice.call(method, path.replace('KEY', key.id), { ...body, headers: from })
          expect(reply, `${method} ${path} ${site} ${origin}`).toMatchObject({
            status: 403,
            body: { error: { code: 'cross_site_request' } },
          })
          sent++
        }
      }
    }
    expect(sent).toBe(144)
    expect(stateOf(rig, alice)).toEqual(before)
    expect((await alice.get('/api/session')).status).toBe(200)
  })

  test.each<[what: string, headers: Record<string, string | undefined>]>([
    ['without the header of our page', { 'x-tollgate-dashboard': undefined }],
    ['with another value of it', { 'x-tollgate-dashboard': 'true' }],
    ['with an origin of another site', { origin: 'https://evil.example' }],
    ['with an origin on another port', { origin: 'http://127.0.0.1:1' }],
    ['with our origin, but from the same site', { 'sec-fetch-site': 'same-site' }],
    ['with our origin, typed into the address bar', { 'sec-fetch-site': 'none' }],
    ['with our origin in capitals', { 'sec-fetch-site': undefined, origin: 'HTTP://LOCALHOST' }],
    ['with neither header', { 'sec-fetch-site': undefined, origin: undefined }],
  ])('our own request %s: refused', async (_, headers) => {
    await using rig = await startRig()
    const alice = await rig.member('alice@example.com')
    const reply = await alice.call('POST', '/api/keys', { body: KEY, headers })
    expect(reply).toMatchObject({ status: 403, body: { error: { code: 'cross_site_request' } } })
    expect(rig.store.reads.listKeys(alice.accountId)).toEqual([])
  })

  test.each<[what: string, headers: (origin: string) => Record<string, string | undefined>]>([
    ['as browsers send it', () => ({})],
    ['with sec-fetch-site and without an origin', () => ({ origin: undefined })],
    ['with a hidden origin', () => ({ origin: 'null' })],
    ['of an older browser, without sec-fetch-site', origin => ({ 'sec-fetch-site': undefined, origin })],
    [
      'with the other name of loopback',
      origin => ({ host: origin.slice(7), origin: origin.replace('127.0.0.1', 'localhost') }),
    ],
  ])('our own request %s: accepted', async (_, headers) => {
    await using rig = await startRig()
    const alice = await rig.member('alice@example.com')
    const reply = await alice.call('POST', '/api/keys', { body: KEY, headers: headers(rig.origin) })
    expect(reply.status).toBe(201)
  })

  test('every route that changes something checks the origin first', async () => {
    await using rig = await startRig()
    const operator = await rig.operator()
    const changing = ROUTES.filter(({ method }) => method !== 'GET')
    expect(changing.length).toBeGreaterThan(15)
    for (const { method, path } of changing) {
      const headers = { 'sec-fetch-site': 'cross-site', origin: 'https://evil.example' }
      const reply = await operator.call(method, path.replace(/\{\w+\}/g, 'x'), { raw: '', headers })
      expect(reply, `${method} ${path}`).toMatchObject({ status: 403, body: { error: { code: 'cross_site_request' } } })
    }
  })

  test('no answer allows another origin to read it', async () => {
    await using rig = await startRig()
    const alice = await rig.member('alice@example.com')
    const asked = { origin: 'https://evil.example', 'access-control-request-method': 'POST' }
    for (const method of ['GET', 'OPTIONS']) {
      const reply = await alice.call(method, '/api/account', { headers: asked })
      expect(Object.keys(reply.headers).filter(name => name.startsWith('access-control'))).toEqual([])
    }
  })
})

describe('the host name', () => {
  test.each([
    'evil.example',
    'evil.example:PORT',
    '127.0.0.1.evil.example:PORT',
    '127.0.0.1:1',
    '127.0.0.1',
    'localhost',
    '0.0.0.0:PORT',
    '[::1]:PORT',
  ])('nothing is served for the host %s', async host => {
    await using rig = await startRig()
    const alice = await rig.member('alice@example.com')
    for (const path of ['/api/about', '/api/account', '/api/openapi.json', '/api/nothing']) {
      const headers = { host: host.replace('PORT', String(rig.ports.dashboard)) }
      expect(await alice.call('GET', path, { headers }), path).toMatchObject({
        status: 404,
        body: { error: { code: 'unknown_host' } },
      })
    }
  })

  test('names are compared without case, and with https without the default port', async () => {
    await using local = await startRig()
    expect(
      (await local.browser().call('GET', '/api/about', { headers: { host: `LOCALHOST:${local.ports.dashboard}` } }))
        .status,
    ).toBe(200)
    await using proxied = await startRig({ dashboardUrl: 'https://gate.example.com' })
    for (const [host, status] of [
      ['gate.example.com', 200],
      ['GATE.example.com', 200],
      ['gate.example.com:443', 200],
      ['gate.example.com:80', 404],
      [`127.0.0.1:${proxied.ports.dashboard}`, 404],
    ] as const) {
      expect((await proxied.browser().call('GET', '/api/about', { headers: { host } })).status, host).toBe(status)
    }
  })
})

function form(raw: string): CallOptions {
  return typed('application/x-www-form-urlencoded', raw)
}

function typed(type: string | undefined, raw: string): CallOptions {
  return { raw, headers: { 'content-type': type } }
}

/** Adds the header of our own page, but not the headers that state the origin. */
function ours(options: CallOptions): CallOptions {
  return { ...options, headers: { 'x-tollgate-dashboard': '1' } }
}

function stateOf({ store }: Rig, { accountId, person }: SignedIn): unknown {
  return [store.reads.listKeys(accountId), store.reads.findAccount(accountId), store.reads.people.find(person.id)]
}
