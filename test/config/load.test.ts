/** Valid configurations and their loaded values. */

import { join } from 'node:path'
import { afterAll, describe, expect, test } from 'vitest'
import { plainPrice } from '#contract'
import { parseAddress } from '../../src/config/listen-address.ts'
import { loadConfiguration } from '../../src/config/load.ts'
import { formatProblem } from '../../src/config/yaml/problem.ts'
import { expectWithin } from '../helpers/promised.ts'
import { registry } from './stand-ins.ts'
import { expectProblems, type Gateway, openWorkshop, PARTS, STANDARD } from './workshop.ts'

const workshop = openWorkshop()
afterAll(() => workshop.close())

test('a missing file is a problem, not an exception', async () => {
  const result = await loadConfiguration('/nowhere/gateway.yaml', { env: {}, registry: registry() })
  expect('problems' in result && result.problems).toEqual([
    {
      file: '/nowhere/gateway.yaml',
      line: 1,
      column: 1,
      rule: 'unreadable-file',
      message: 'the configuration cannot be read: the file does not exist',
      suggestion: 'tollgate init writes a configuration',
    },
  ])
})

test('a file that is too large is not parsed', async () => {
  const [problem, ...more] = await workshop.problems({ gateway: `${'#'.repeat(1024 * 1024)}\n` })
  expect(problem).toMatchObject({ line: 1, column: 1, message: expect.stringContaining('larger than 1 MiB') })
  expect(more).toEqual([])
})

test('YAML aliases cannot expand without limit', async () => {
  const rows = Array.from({ length: 12 }, (_, i) => `  l${i + 1}: [ ${Array(9).fill(`*l${i}`).join(', ')} ]`)
  const bomb = rows.map((row, i) => row.replace(`l${i + 1}:`, `l${i + 1}: &l${i + 1}`)).join('\n')
  const started = performance.now()
  const problems = await workshop.problems({ gateway: { more: `bomb:\n  l0: &l0 [ x ]\n${bomb}` } })
  expect(problems.map(each => each.message)).toEqual([expect.stringContaining('more than 100 aliases')])
  expectWithin(performance.now() - started, 5_000)
})

test.each(['providers', 'models', 'routes', 'version'] as const)('a misspelt "%s" is one problem', async key => {
  const mistyped = `${key[1]}${key[0]}${key.slice(2)}`
  const part = PARTS[key].replace(key, `▸${mistyped}`)
  await expectProblems(workshop, { gateway: { [key]: part } }, `unknown key "${mistyped}"; did you mean "${key}"?`)
})

test('an unset variable of one of several keys is one problem', async () => {
  const keys =
    '  near: { dialect: openai, base_url: "https://a.example/v1", api_keys: [ "${FAR_KEY}", ▸"${NOWHERE}" ] }'
  const providers = `providers:\n  demo: { dialect: demo }\n${keys}`
  await expectProblems(workshop, { gateway: { providers } }, 'NOWHERE is not set')
})

test('all problems of all files are reported at once, in the order of the files', async () => {
  const problems = await workshop.problems({
    gateway: {
      more: 'drian: 1m\nadmin: nowhere\nlimits: { body: lots }',
      models: PARTS.models.replace('demo', 'dmeo'),
    },
    standard: STANDARD.replace('schema', 'shcema').replace('credits', 'credits\n    with: { on_disconnect: cry }'),
  })
  expect(problems.map(each => `${each.file}:${each.line}:${each.column}`)).toEqual([
    'gateway.yaml:10:28',
    'gateway.yaml:16:1',
    'gateway.yaml:17:8',
    'gateway.yaml:18:17',
    'policies/standard.yaml:3:10',
    'policies/standard.yaml:5:28',
  ])
})

test('one mistake does not hide another', async () => {
  const problems = await workshop.problems({
    gateway: {
      providers: `providers:
  demo: { dialect: demo }
  far:
    dialect: opnai
    base_url: http://a.example/v1
    api_key: written-out
    headers: { Host: x, x-team: 5 }`,
      models: `models:
  small:
    targets: [ { provider: dmeo, model: tiny, weight: lots } ]
    price: { per: 1M words, input: $0.10, output: $999999 }
    context: 8Ki
    max_output: 16Ki
    created: 2026-02-31
    aliases: [ small ]`,
      routes: `routes:
  - { path: /v1/chat/completions, polcy: x, policy: standard }
  - { path: /v1/chat/completions, policy: catalog, kind: row, provider: fra }`,
    },
    standard: STANDARD.replace('route', 'ruote'),
  })
  expect(problems.map(each => `${each.file}:${each.line}:${each.column} ${each.message.slice(0, 40)}`)).toEqual([
    'gateway.yaml:5:14 dialect: "opnai" is not one of openai, a',
    'gateway.yaml:6:15 base_url "http://a.example/v1" would sen',
    'gateway.yaml:7:14 the api_key is written in clear here; fi',
    'gateway.yaml:8:16 the gateway builds the header "Host" its',
    'gateway.yaml:8:33 x-team must be text, not 5',
    'gateway.yaml:11:28 unknown provider "dmeo"',
    'gateway.yaml:11:55 weight must be a whole number, not "lots',
    'gateway.yaml:12:19 per must be "1M tokens" or "1K tokens", ',
    'gateway.yaml:12:51 output is more than $100000 per 1M token',
    'gateway.yaml:14:17 max_output (16384) is more than context ',
    'gateway.yaml:15:14 created: "2026-02-31" is not a calendar ',
    `gateway.yaml:16:16 the alias "small" is the model's own id`,
    'gateway.yaml:18:35 unknown key "polcy"',
    'gateway.yaml:19:13 the path /v1/chat/completions exists alr',
    'gateway.yaml:19:58 kind: "row" is not one of chat, messages',
    'gateway.yaml:19:63 "provider" is for raw routes only',
    'policies/standard.yaml:5:10 unknown plugin "ruote"',
  ])
})

test('the problems come with the sources, for excerpts', async () => {
  const result = await workshop.load({ gateway: { more: 'drian: 1m' } })
  if (!('problems' in result)) throw new Error('accepted')
  const text = [...result.sources].find(([file]) => file.endsWith('gateway.yaml'))?.[1]
  expect(formatProblem(result.problems[0]!, text)).toBe(
    'gateway.yaml:16:1: unknown key "drian"; did you mean "drain"?\n  16 | drian: 1m\n     | ^',
  )
})

test('an anchor is read at each of its aliases, with units', async () => {
  const gateway: Gateway = {
    models: `models:
  small: &small
    targets: [ { provider: demo, model: tiny } ]
    price: &price { per: 1M tokens, input: $0.10, output: $0.40 }
    context: 8Ki
    max_output: 1Ki
  other:
    targets: [ { provider: demo, model: tiny, cost: *price } ]
    price: *price
    context: 8Ki
    max_output: 1Ki
  third: *small`,
  }
  const { models } = await workshop.good({ gateway })
  expect(models.get('other')).toMatchObject({
    price: models.get('small')!.price,
    targets: [{ cost: models.get('small')!.price }],
  })
  expect(models.get('third')).toEqual({ ...models.get('small'), id: 'third' })
})

test('the default values', async () => {
  const {
    file,
    listen,
    admin,
    metrics,
    telemetry,
    store,
    secret,
    trustProxy,
    hosts,
    corsOrigins,
    limits,
    drainMs,
    heartbeat,
    ...rest
  } = await workshop.good({})
  const { dashboard, dashboardUrl, publicUrl, registration } = rest
  expect({ dashboard, dashboardUrl, publicUrl, registration }).toEqual({
    dashboard: null,
    dashboardUrl: null,
    publicUrl: null,
    registration: { mode: 'invitation', credit: 0n, plan: 'default' },
  })
  expect({
    listen,
    admin,
    metrics,
    telemetry,
    secret,
    trustProxy,
    hosts,
    corsOrigins,
    limits,
    drainMs,
    heartbeat,
  }).toEqual({
    listen: { host: '127.0.0.1', port: 8080 },
    admin: null,
    metrics: 'open',
    telemetry: null,
    secret: null,
    trustProxy: 0,
    hosts: null,
    corsOrigins: null,
    limits: {
      maxInflight: 2000,
      bodyBytes: 32 * 1024 * 1024,
      answerBytes: 32 * 1024 * 1024,
      bodyBytesInflight: 256 * 1024 * 1024,
      keptResponseBytes: 1024 * 1024,
      keptAccountBytes: 64 * 1024 * 1024,
      eventLoopMs: 50,
      headersMs: 10_000,
      requestMs: 30_000,
      stallMs: 60_000,
    },
    drainMs: 600_000,
    heartbeat: { firstMs: 10_000, everyMs: 15_000 },
  })
  expect(store).toBe(`sqlite:${join(file, '../.tollgate/tollgate.db')}`)
})

test('every key can be set', async () => {
  const configuration = await workshop.good({
    gateway: {
      more: `listen: "[::1]:0"
admin: localhost:9000
metrics: token
telemetry: { endpoint: "http://collector:4318/base/", ratio: 0.01, attributes: { a.b: c } }
dashboard: ":9001"
dashboard_url: https://Gate.example.com/
public_url: https://api.example.com/v1/
registration: { mode: open, credit: $2.50, plan: free }
store: memory
secret: \${file:secrets/hmac}
trust_proxy: \${HOPS}
hosts: [ API.example.com, localhost ]
limits: { max_inflight: 5, body: 1MiB, answer: 64MiB, bodies_in_flight: 2MiB, event_loop: 70ms, headers: 1s, request: 2s, stall: 3s }
cors: { origins: [https://app.example.com, '*'] }
overload: { prefer: [pro] }
drain: 90s
heartbeat: { first: 1s, every: 2s }`,
    },
    'secrets/hmac': '0123456789abcdef0123456789abcdef\n',
  })
  expect(configuration).toMatchObject({
    listen: { host: '::1', port: 0 },
    admin: { host: 'localhost', port: 9000 },
    metrics: 'token',
    telemetry: {
      endpoint: 'http://collector:4318/base',
      protocol: 'protobuf',
      ratio: 0.01,
      headers: {},
      metrics: true,
      attributes: { 'a.b': 'c' },
    },
    dashboard: { host: '0.0.0.0', port: 9001 },
    dashboardUrl: 'https://gate.example.com',
    publicUrl: 'https://api.example.com/v1',
    registration: { mode: 'open', credit: 2_500_000_000n, plan: 'free' },
    store: 'memory',
    secret: '0123456789abcdef0123456789abcdef',
    trustProxy: 2,
    hosts: ['api.example.com', 'localhost'],
    limits: {
      maxInflight: 5,
      bodyBytes: 1048576,
      answerBytes: 67108864,
      bodyBytesInflight: 2097152,
      eventLoopMs: 70,
      headersMs: 1000,
      requestMs: 2000,
      stallMs: 3000,
    },
    corsOrigins: ['https://app.example.com', '*'],
    preferredPlans: ['pro'],
    drainMs: 90_000,
    heartbeat: { firstMs: 1000, everyMs: 2000 },
  })
})

test('providers', async () => {
  const { providers } = await workshop.good({
    gateway: {
      providers: `${PARTS.providers}
    headers: { X-Team: blue, authorization-note: none }
    timeouts: { connect: 1s, first_byte: 2s, idle: 3s, total: 4s }
    connections: 7
  near: { dialect: openai, base_url: "http://127.0.0.1:11434/v1/" }
  lan: { dialect: openai, profile: vllm, base_url: "http://10.0.0.5/v1", allow_insecure: \${OPEN} }
  slow: { dialect: demo, pace: 1s }`.replace('${OPEN}', 'true'),
    },
  })
  expect(Object.fromEntries(providers)).toMatchObject({
    far: {
      name: 'far',
      dialect: 'openai',
      baseUrl: 'https://api.example.com/v1',
      credentials: ['far-key-0123456789'],
      headers: { 'x-team': 'blue', 'authorization-note': 'none' },
      timeouts: { connectMs: 1000, firstByteMs: 2000, idleMs: 3000, totalMs: 4000 },
      connections: 7,
    },
    near: {
      baseUrl: 'http://127.0.0.1:11434/v1',
      credentials: [],
      timeouts: { connectMs: 5000, firstByteMs: 120_000, idleMs: 60_000, totalMs: 900_000 },
      connections: 4096,
    },
    lan: { baseUrl: 'http://10.0.0.5/v1', profile: 'vllm' },
    slow: { dialect: 'demo', baseUrl: '', paceMs: 1000 },
    demo: { paceMs: 25 },
  })
})

test('providers on Azure', async () => {
  const { providers } = await workshop.good({
    gateway: {
      providers: `${PARTS.providers}
  v1: { dialect: azure, base_url: "https://a.example/openai/v1/", api_key: "\${FAR_KEY}" }
  preview: { dialect: azure, base_url: "https://a.example/openai/v1", api_version: preview }
  foundry: { dialect: azure, base_url: "https://a.example/models", api_version: 2024-05-01-preview, auth: api-key }
  classic: { dialect: azure, base_url: "https://a.example", api_version: 2024-10-21, auth: bearer, api_key: "\${ENTRA}" }
  behind: { dialect: azure, base_url: "https://a.example/testGateway", api_version: 2024-10-21 }`,
    },
  })
  const places = Object.fromEntries(Array.from(providers.values(), ({ name, azure }) => [name, azure]))
  expect(places).toEqual({
    demo: undefined,
    far: undefined,
    v1: { api: 'v1', apiVersion: null, auth: 'api-key' },
    preview: { api: 'v1', apiVersion: 'preview', auth: 'api-key' },
    foundry: { api: 'foundry', apiVersion: '2024-05-01-preview', auth: 'api-key' },
    classic: { api: 'classic', apiVersion: '2024-10-21', auth: 'bearer' },
    behind: { api: 'classic', apiVersion: '2024-10-21', auth: 'api-key' },
  })
})

test('models', async () => {
  const { models, aliases } = await workshop.good({
    gateway: {
      models: `${PARTS.models}
  big/think:
    targets:
      - { provider: far, model: huge, weight: 3, cap_field: max_tokens, reasoning_outside_cap: 2k, input_modalities: [ image ] }
      - { provider: demo, model: tiny, cost: { per: 1K tokens, input: 0.001, output: "$0.002" } }
    price: { per: 1M tokens, input: $1, cached_input: $0.5, cache_write: 1.25, output: $4, request: $0.001, web_search: $0.01 }
    context: 128Ki
    max_output: 16Ki
    default_output: 4Ki
    reasoning: true
    input_overhead: 0
    allow: [ web_search, audio ]
    public: false
    enabled: false
    aliases: [ think, big ]
    owned_by: acme
    description: Thinks.
    created: 2026-03-01
  gift:
    targets: [ { provider: demo, model: tiny, cost: free } ]
    price: free
    context: 1k
    max_output: 1k`,
    },
  })
  expect(Object.fromEntries(aliases)).toEqual({ think: 'big/think', big: 'big/think' })
  expect(models.get('small')).toEqual({
    id: 'small',
    targets: [
      {
        id: 'demo/tiny',
        provider: 'demo',
        model: 'tiny',
        weight: 1,
        cost: null,
        reasoningOutsideCap: 0,
        priority: 1,
        maxInflight: Number.POSITIVE_INFINITY,
      },
    ],
    price: plainPrice({ input: 100_000_000n, output: 400_000_000n }),
    context: 8192,
    maxOutput: 1024,
    maxChoices: 128,
    defaultOutput: 1024,
    reasoning: false,
    inputOverhead: 1024,
    allow: [],
    searches: [],
    public: true,
    enabled: true,
    created: Date.UTC(2026, 0, 1) / 1000,
    ownedBy: 'tollgate',
    description: null,
  })
  expect(models.get('big/think')).toMatchObject({
    targets: [
      {
        id: 'far/huge',
        weight: 3,
        capField: 'max_tokens',
        reasoningOutsideCap: 2000,
        inputModalities: ['text', 'image'],
      },
      { cost: plainPrice({ input: 1_000_000_000n, output: 2_000_000_000n }) },
    ],
    price: plainPrice({
      input: 1_000_000_000n,
      cached_input: 500_000_000n,
      cache_write: 1_250_000_000n,
      output: 4_000_000_000n,
      request: 1_000_000n,
      search: 10_000_000n,
    }),
    defaultOutput: 4096,
    reasoning: true,
    inputOverhead: 0,
    allow: ['web_search', 'audio'],
    public: false,
    enabled: false,
    ownedBy: 'acme',
    description: 'Thinks.',
    created: Date.UTC(2026, 2, 1) / 1000,
  })
  expect(models.get('gift')).toMatchObject({ price: null, targets: [{ cost: [] }] })
})

test('more exact raw paths come first, whatever their order in the file', async () => {
  const lines = [
    'path: "/v1/{id}"',
    'path: "/v1/files/{id}", upstream_path: /kept/',
    'path: "/v1/files/{id}/content"',
    'path: "/v1/other/{id}", upstream_path: /elsewhere',
    'path: /v1/files',
  ]
  const { routes } = await workshop.good({
    gateway: {
      routes: `${PARTS.routes}\n${lines
        .map(line => `  - { ${line}, kind: raw, policy: catalog, provider: far, price: free }`)
        .join('\n')}`,
    },
  })
  expect(routes.map(({ path, raw }) => `${path} ${raw?.path ?? ''}`.trim())).toEqual([
    '/v1/chat/completions',
    '/v1/files /files',
    '/v1/models',
    '/v1/budgets',
    '/v1/files/{id}/content /files/{id}/content',
    '/v1/files/{id} /kept/{id}',
    '/v1/other/{id} /elsewhere/{id}',
    '/v1/models/{id}',
    '/v1/receipts/{id}',
    '/v1/{id} /{id}',
  ])
})

test('routes, including the default ones', async () => {
  const { routes } = await workshop.good({
    gateway: {
      routes: `${PARTS.routes}
  - { path: /v1/models, policy: bare, public: true }
  - { path: /v1/embeddings, kind: raw, policy: paid, provider: far, price: { per: 1M tokens, input: $0.02 }, models: [ small/1, "large:2" ] }
  - { path: /v1/files, kind: raw, policy: catalog, provider: far, price: free, methods: [ GET, POST ], upstream_path: /files/all }
  - { path: /moderate, kind: raw, policy: catalog, provider: far, price: { request: $0.01 }, unmetered: true }`,
    },
    'policies/bare.yaml': 'steps:\n  - use: remark\n',
    'policies/paid.yaml': 'steps:\n  - use: api-key\n  - use: credits\n',
  })
  const brief = routes.map(({ path, kind, policy, methods, raw, price, ...rest }) => ({
    path,
    kind,
    policy,
    methods: methods.join(),
    to: raw && `${raw.provider.name}${raw.path}${raw.models === null ? '' : ` ${raw.models.join()}`}`,
    price,
    open: rest.public,
    unmetered: rest.unmetered,
  }))
  const none = { to: null, price: null, open: false, unmetered: false }
  expect(brief).toEqual([
    { ...none, path: '/v1/chat/completions', kind: 'chat', policy: 'standard', methods: 'POST' },
    { ...none, path: '/v1/models', kind: 'models', policy: 'bare', methods: 'GET', open: true },
    {
      ...none,
      path: '/v1/embeddings',
      kind: 'raw',
      policy: 'paid',
      methods: 'POST',
      to: 'far/embeddings small/1,large:2',
      price: plainPrice({ input: 20_000_000n, output: 0n }),
    },
    { ...none, path: '/v1/files', kind: 'raw', policy: 'catalog', methods: 'GET,POST', to: 'far/files/all' },
    {
      ...none,
      path: '/moderate',
      kind: 'raw',
      policy: 'catalog',
      methods: 'POST',
      to: 'far/moderate',
      price: plainPrice({ input: 0n, output: 0n, request: 10_000_000n }),
      unmetered: true,
    },
    { ...none, path: '/v1/budgets', kind: 'budgets', policy: 'catalog', methods: 'GET' },
    { ...none, path: '/v1/models/{id}', kind: 'model', policy: 'catalog', methods: 'GET' },
    { ...none, path: '/v1/receipts/{id}', kind: 'receipt', policy: 'catalog', methods: 'GET' },
  ])
})

test('a route of a format with token counts adds a counting route with the same policy', async () => {
  const { routes } = await workshop.good({
    gateway: {
      routes: `routes:
  - { path: /v1/messages, policy: standard }
  - { path: /v1/responses, policy: standard }
  - { path: /v1/responses/input_tokens, policy: counting }
  - { path: /open/v1/messages, policy: bare, public: true, unmetered: true }
  - { path: /old/v1/messages, policy: standard }
  - { path: /old/v1/messages/count_tokens, kind: raw, policy: catalog, provider: far, price: free }
  - { path: "/old/v1/messages/{id}", kind: raw, policy: catalog, provider: far, price: free }`,
    },
    'policies/bare.yaml': 'steps:\n  - use: schema\n  - use: route\n',
    // A count is free, so its policy needs no step that charges.
    'policies/counting.yaml': 'steps:\n  - use: api-key\n  - use: schema\n  - use: route\n',
  })
  const counting = routes.filter(({ path }) => /tokens$/.test(path))
  expect(counting.map(({ path, kind, counts, policy, ...rest }) => [path, kind, counts, policy, rest.public])).toEqual([
    ['/v1/responses/input_tokens', 'responses', true, 'counting', false],
    ['/old/v1/messages/count_tokens', 'raw', false, 'catalog', false],
    ['/v1/messages/count_tokens', 'messages', true, 'standard', false],
    ['/open/v1/messages/count_tokens', 'messages', true, 'bare', true],
  ])
  // The route of the count precedes the route with a part in braces, in either order of the file.
  expect(routes.findIndex(({ path }) => path === '/old/v1/messages/{id}')).toBeGreaterThan(
    routes.findIndex(({ path }) => path === '/old/v1/messages/count_tokens'),
  )
})

test('a counting route is free, so it cannot be unmetered', () =>
  expectProblems(
    workshop,
    {
      gateway: {
        routes: `${PARTS.routes}\n  - { path: /v1/messages/count_tokens, policy: standard, ▸unmetered: true }`,
      },
    },
    '/v1/messages/count_tokens costs nothing, so "unmetered" has no effect',
  ))

test('steps, with parsed settings and their positions', async () => {
  const standard = `steps:
  - use: api-key
  - use: schema
    with: { unknown_fields: pass }
  - use: rate-limit
    id: burst
    mode: shadow
    onError: skip
    with: { per: key, requests: 60 per minute, burst: 20 }
  - use: remark
    when: account.plan == "free"
    with: { text: "\${FAR_KEY}!", size: 2KiB, price: $0.5 }
  - use: remark
    id: quiet
    mode: off
  - use: credits
  - use: route
`
  const { routes } = await workshop.good({ standard })
  const steps = routes[0]!.steps.steps
  expect(
    steps.map(({ id, plugin, mode, onError, position }) => [id, plugin.name, mode, onError, position.line]),
  ).toEqual([
    ['api-key', 'api-key', 'enforce', 'refuse', 2],
    ['schema', 'schema', 'enforce', 'refuse', 3],
    ['burst', 'rate-limit', 'shadow', 'skip', 5],
    ['remark', 'remark', 'enforce', 'refuse', 10],
    ['quiet', 'remark', 'off', 'refuse', 13],
    ['credits', 'credits', 'enforce', 'refuse', 16],
    ['route', 'route', 'enforce', 'refuse', 17],
  ])
  expect(steps[2]!.settings).toEqual({ per: 'key', requests: { amount: 60, perMs: 60_000 }, burst: 20 })
  const defaults = { times: 1, loud: false, after: 1000 }
  expect(steps[3]!.settings).toEqual({ ...defaults, text: 'far-key-0123456789!', size: 2048, price: 500_000_000n })
  expect(steps[4]!.settings).toEqual({ ...defaults, text: 'hello', size: 1024 })
  expect(steps[3]!.when?.source).toBe('account.plan == "free"')
  expect(steps.map(step => step.foreign)).not.toContain(true)
})

test('conditions of a public route may use the chat facts of its policy', async () => {
  const { routes } = await workshop.good({
    gateway: {
      models: PARTS.models.replace(/price:.*/, 'price: free'),
      routes: `${PARTS.routes.replace('}', ', public: true }')}`,
    },
    standard:
      'steps:\n  - use: schema\n  - use: remark\n    when: model.reasoning || header("x-debug") != ""\n  - use: route\n',
  })
  expect(routes[0]).toMatchObject({ public: true })
})

test('an unmetered route may serve models with a price', async () => {
  const standard = STANDARD.replace('  - use: credits\n', '')
  const { routes } = await workshop.good({
    gateway: { routes: PARTS.routes.replace('}', ', unmetered: true }') },
    standard,
  })
  expect(routes[0]).toMatchObject({ unmetered: true })
})

test('without policies/catalog.yaml the packaged one serves the default routes', async () => {
  const read: string[] = []
  const texts: Record<string, string> = {
    '/c/gateway.yaml': Object.values(PARTS).join('\n'),
    '/c/policies/standard.yaml': STANDARD,
  }
  const result = await loadConfiguration('/c/gateway.yaml', {
    env: { FAR_KEY: 'far-key-0123456789' },
    registry: registry(),
    readFile: async path => {
      read.push(path)
      return texts[path] ?? Promise.reject(Object.assign(new Error('no'), { code: 'ENOENT' }))
    },
  })
  if ('problems' in result) throw new Error(result.problems.map(each => formatProblem(each)).join('\n'))
  const receipts = result.configuration.routes.find(each => each.kind === 'receipt')!
  expect(receipts.steps.steps.map(step => step.id)).toEqual(['api-key', 'rate-limit'])
  expect(read).toContain('/c/policies/catalog.yaml')
})

test('a configuration is frozen', async () => {
  const configuration = await workshop.good({ standard: `${STANDARD}  - use: remark\n` })
  expect(() => Object.assign(configuration.limits, { bodyBytes: 1 })).toThrow(TypeError)
  expect(() => Object.assign(configuration.models.get('small')!, { price: null })).toThrow(TypeError)
  expect(() => Object.assign(configuration.routes[0]!.steps.steps[4]!.settings as object, { text: 'x' })).toThrow(
    TypeError,
  )
})

test('a load returns the files that it has read, for the file watcher', async () => {
  const { file, files } = await workshop.good({
    gateway: { more: 'secret: ${file:secrets/hmac}' },
    'secrets/hmac': '0123456789abcdef0123456789abcdef',
  })
  const folder = join(file, '..')
  expect(files.map(each => each.replace(`${folder}/`, '')).sort()).toEqual([
    'gateway.yaml',
    'policies/catalog.yaml',
    'policies/standard.yaml',
    'secrets/hmac',
  ])
})

describe('addresses', () => {
  test.each([
    ['127.0.0.1:8080', '127.0.0.1', 8080],
    ['0.0.0.0:1', '0.0.0.0', 1],
    [':8080', '0.0.0.0', 8080],
    ['localhost:0', 'localhost', 0],
    ['[::1]:65535', '::1', 65535],
    ['[::]:80', '::', 80],
  ])('%s', (text, host, port) => expect(parseAddress(text)).toEqual({ host, port }))

  test.each([
    '',
    '8080',
    'localhost',
    'http://localhost:80',
    '::1:80',
    '[::1]',
    '[1::2::3]:80',
    'a:b',
    'a:80/',
    'a:99999',
  ])('refuses %j', text => expect(() => parseAddress(text)).toThrow())
})

test('a route that keeps responses adds the route that reads them, with the same prefix', async () => {
  const { routes } = await workshop.good({
    gateway: {
      routes: `${PARTS.routes}
  - { path: /v1/responses, policy: standard }
  - { path: /office/v1/responses, policy: standard, keep_responses: 30m }
  - { path: /home/v1/responses, policy: standard, keep_responses: 720h }
  - { path: "/home/v1/responses/{id}", policy: standard-read }`,
    },
    'policies/standard-read.yaml': 'steps:\n  - use: api-key\n',
  })
  const found = routes.filter(({ path }) => path.includes('/responses') && !path.endsWith('/input_tokens'))
  expect(
    found.map(({ path, kind, policy, methods, keepResponsesMs }) => [path, kind, policy, methods, keepResponsesMs]),
  ).toEqual([
    ['/v1/responses', 'responses', 'standard', ['POST'], null],
    ['/office/v1/responses', 'responses', 'standard', ['POST'], 1_800_000],
    ['/home/v1/responses', 'responses', 'standard', ['POST'], 2_592_000_000],
    ['/home/v1/responses/{id}', 'response', 'standard-read', ['GET', 'DELETE', 'POST'], null],
    ['/office/v1/responses/{id}', 'response', 'catalog', ['GET', 'DELETE', 'POST'], null],
  ])
})
