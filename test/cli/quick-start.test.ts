import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createServer, type IncomingMessage } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import type { Model } from '#contract'
import { runVerb } from '../../src/api/control/verbs.ts'
import { type Offer, quickStart, type Running, startText } from '../../src/cli/quick-start.ts'
import type { Provider } from '../../src/config/configuration.ts'
import { openStore } from '../../src/store/engine/sqlite.ts'
import type { LocalStore } from '../../src/store/local-store.ts'
import { testWith } from '../helpers/missing.ts'
import { without } from '../helpers/programs.ts'

const clock = { now: () => Date.UTC(2026, 10, 21) }
let store: LocalStore

beforeEach(async () => {
  store = await openStore({ url: 'memory', secret: 'a secret for tests that is long enough', clock })
})
afterEach(() => store.close())

const provider = (name: string, dialect: Provider['dialect']): Provider => ({
  name,
  dialect,
  baseUrl: '',
  credentials: [],
  headers: {},
  timeouts: { connectMs: 1, firstByteMs: 1, idleMs: 1, totalMs: 1 },
  connections: 1,
  fillsFinish: false,
  paceMs: 0,
})

const model = (id: string, providers: readonly string[], change: Partial<Model> = {}): Model => ({
  id,
  targets: providers.map(name => ({
    id: `${name}/${id}`,
    provider: name,
    model: id,
    weight: 1,
    cost: null,
    capField: 'max_tokens',
    reasoningOutsideCap: 0,
    priority: 1,
    maxInflight: Number.POSITIVE_INFINITY,
  })),
  price: null,
  context: 1,
  maxOutput: 1,
  defaultOutput: 1,
  reasoning: false,
  inputOverhead: 0,
  allow: [],
  public: true,
  enabled: true,
  created: 0,
  ownedBy: 'tollgate',
  description: null,
  ...change,
})

const byId = (models: readonly Model[]) => new Map(models.map(each => [each.id, each]))

const PROVIDERS = new Map([
  ['demo', provider('demo', 'demo')],
  ['openai', provider('openai', 'openai')],
])

function gatewayWith(
  change: Partial<Offer> = {},
  url = 'http://127.0.0.1:8080',
  dashboardUrl: string | null = null,
): Running {
  const offer: Offer = {
    listen: { host: '127.0.0.1', port: 8080 },
    providers: PROVIDERS,
    models: byId([model('chat', ['openai', 'demo']), model('demo-small', ['demo'])]),
    routes: [{ kind: 'chat', path: '/v1/chat/completions' }],
    ...change,
  }
  return { url, dashboardUrl, store, configuration: offer }
}

describe('no quick start, and no account is created', () => {
  test.each<[string, Partial<Offer>]>([
    ['on a public listener', { listen: { host: '0.0.0.0', port: 8080 } }],
    ['on every interface of IPv6', { listen: { host: '::', port: 8080 } }],
    ['on a name that begins like loopback', { listen: { host: '127.example.com', port: 8080 } }],
    ['when every model may need credentials', { models: byId([model('chat', ['demo', 'openai'])]) }],
    ['when the demo model is hidden', { models: byId([model('chat', ['demo'], { public: false })]) }],
    ['when the demo model is disabled', { models: byId([model('chat', ['demo'], { enabled: false })]) }],
    ['without a chat route', { routes: [{ kind: 'models', path: '/v1/models' }] }],
  ])('%s', async (_, change) => {
    expect(await quickStart(gatewayWith(change))).toBeNull()
    expect(store.reads.listAccounts()).toEqual([])
  })

  test('when there has been an account of any name', async () => {
    await runVerb(store, 'account.create', { name: 'acme' })
    expect(await quickStart(gatewayWith())).toBeNull()
    expect(store.reads.listAccounts()).toHaveLength(1)
  })

  test('on the second start', async () => {
    expect(await quickStart(gatewayWith())).not.toBeNull()
    expect(await quickStart(gatewayWith())).toBeNull()
    expect(store.reads.listKeys()).toHaveLength(1)
  })
})

describe('without a demo model, at a terminal', () => {
  const real = (...ids: readonly string[]) => ({ models: byId(ids.map(id => model(id, ['openai']))) })

  test('the account is named first, and the line to paste uses the only model', async () => {
    const text = (await quickStart(gatewayWith(real('chat')), { onTerminal: true }))!
    expect(store.reads.findAccount('first')).toMatchObject({ posted: 5_000_000_000n, held: 0n })
    expect(text).toContain('npx tollgate key create --account first')
    expect(text).toContain('"model":"chat"')
    const [, token] = /export OPENAI_API_KEY=(\S+)/.exec(text)!
    expect(store.keys.find(token!, clock.now())).toMatchObject({ found: 'live', account: { name: 'first' } })
  })

  test.each([
    ['a small one of a well-known provider is the example', 'gpt-5-mini', '"model":"gpt-5-mini"'],
    ['without a known small one, none is the example', 'gpt-5-pro', '"model":"MODEL"'],
  ])('of several models %s, and the text says how to list them', async (_, other, example) => {
    const one = model('gpt-5', ['openai'])
    const small = { ...one, id: other, targets: one.targets.map(target => ({ ...target, model: other })) }
    const two = byId([one, small])
    const text = (await quickStart(gatewayWith({ ...real('gpt-5'), models: two }), { onTerminal: true }))!
    expect(text).toContain('The list of its 2 models:\n\n  curl http://127.0.0.1:8080/v1/models -H ')
    expect(text).toContain(example)
  })

  test.each<[string, Partial<Offer>]>([
    ['on a public listener', { ...real('chat'), listen: { host: '0.0.0.0', port: 8080 } }],
    ['without a model that a key can use', { models: byId([model('chat', ['openai'], { enabled: false })]) }],
  ])('no account is created %s', async (_, change) => {
    expect(await quickStart(gatewayWith(change), { onTerminal: true })).toBeNull()
    expect(store.reads.listAccounts()).toEqual([])
  })
})

test.each(['127.0.0.1', '127.1.2.3', 'localhost', '::1'])('%s is loopback', async host => {
  expect(await quickStart(gatewayWith({ listen: { host, port: 8080 } }))).not.toBeNull()
})

test('the first start: an account with $5, a working key, and lines to paste', async () => {
  const text = (await quickStart(gatewayWith(), { self: 'npx tollgate' }))!
  expect(store.reads.findAccount('demo')).toMatchObject({ posted: 5_000_000_000n, held: 0n })
  const [, base, token] = /export OPENAI_BASE_URL=(\S+)\n\s*export OPENAI_API_KEY=(\S+)/.exec(text)!
  expect(base).toBe('http://127.0.0.1:8080/v1')
  expect(store.keys.find(token!, clock.now())).toMatchObject({ found: 'live', account: { name: 'demo' } })
  expect(text).toContain('npx tollgate key create --account demo')
  expect(text).toContain('not shown again')
})

test('the first start with a dashboard: an invitation for one operator of that account, valid for a day', async () => {
  const text = (await quickStart(gatewayWith({}, undefined, 'http://127.0.0.1:8081'), { nowMs: clock.now() }))!
  const token = /http:\/\/127\.0\.0\.1:8081\/join#(\S+)/.exec(text)![1]!
  expect(store.reads.people.findLink(token)).toMatchObject({
    kind: 'invitation',
    role: 'operator',
    accountId: store.reads.findAccount('demo')!.id,
    email: null,
    expiresAt: clock.now() + 24 * 3_600_000,
  })
  const person = await store.people.join(token, { email: 'ada@example.com', password: '$argon2id$' })
  expect(person).toMatchObject({ role: 'operator', accountId: store.reads.findAccount('demo')!.id })
  expect(store.reads.people.findLink(token)).toBeUndefined()
})

testWith(without('curl'), 'the curl line runs in sh unchanged and requests a stream of the demo model', async () => {
  const requests: { request: IncomingMessage; body: string }[] = []
  const server = createServer(async (request, response) => {
    let body = ''
    for await (const piece of request) body += piece
    requests.push({ request, body })
    response.end('data: [DONE]\n\n')
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  try {
    const { port } = server.address() as AddressInfo
    const odd = `it's "odd" $HOME \`x\``
    const change = { models: byId([model(odd, ['demo'])]) }
    const text = (await quickStart(gatewayWith(change, `http://127.0.0.1:${port}`)))!
    const line = text.split('\n').find(each => each.includes('curl'))!
    expect(line).toContain('curl -N ')
    const child = spawn('/bin/sh', ['-c', line])
    let out = ''
    child.stdout.on('data', piece => {
      out += piece
    })
    await once(child, 'close')
    expect(out).toContain('[DONE]')
    const [{ request, body }] = requests as [(typeof requests)[0]]
    expect(request.url).toBe('/v1/chat/completions')
    expect(request.headers['content-type']).toBe('application/json')
    const token = request.headers.authorization!.replace('Bearer ', '')
    expect(store.keys.find(token, clock.now()).found).toBe('live')
    expect(JSON.parse(body)).toMatchObject({ model: odd, stream: true })
  } finally {
    server.close()
  }
})

describe('later starts: one line', () => {
  test('a second line has the dashboard, and the command that invites a first operator', async () => {
    const started = gatewayWith({}, undefined, 'http://127.0.0.1:8081')
    expect(await startText(started, 'tollgate')).toContain(
      'The dashboard is at http://127.0.0.1:8081 (no operator yet: tollgate person invite --role operator)\n',
    )
    const text = (await quickStart(started, { nowMs: clock.now() }))!
    await store.people.join(/#(\S+)/.exec(text)![1]!, { email: 'ada@example.com', password: '$argon2id$' })
    expect(await startText(started)).toContain('\nThe dashboard is at http://127.0.0.1:8081\n')
  })

  test('without an account: how to create one', async () => {
    const text = await startText(gatewayWith({ listen: { host: '0.0.0.0', port: 8080 } }), 'tollgate')
    expect(text).toBe(
      'Tollgate answers at http://127.0.0.1:8080/v1 (a first account and key: tollgate account create NAME --credit 10 && tollgate key create --account NAME)\n',
    )
  })

  test('with accounts: how to create a key', async () => {
    await runVerb(store, 'account.create', { name: 'acme' })
    expect(await startText(gatewayWith())).toContain('key create --account acme)')
    await runVerb(store, 'account.create', { name: 'umbrella' })
    expect(await startText(gatewayWith())).toContain('key create --account NAME')
    expect((await startText(gatewayWith())).trim().split('\n')).toHaveLength(1)
  })

  test.each(['two words', "o'hara", '-x', '$HOME'])(
    'an account is named by its id if a shell would change its name: %s',
    async name => {
      const { account } = await runVerb(store, 'account.create', { name })
      expect(await startText(gatewayWith())).toContain(`key create --account ${account.id})`)
    },
  )
})
