import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { CONFIGURATION, makePlace, type Place, STANDARD_POLICY } from './helpers.ts'

const SEVERAL = `version: 1
listen: 127.0.0.1:0
providers:
  demo: { dialect: demo }
  far: { dialect: openai, base_url: "\${FAR_URL}", api_key: "\${FAR_KEY}" }
models:
  demo-small:
    targets: [{ provider: demo, model: demo-small }]
    price: { per: 1M tokens, input: $0.15, output: $0.60 }
    context: 8Ki
    max_output: 1Ki
routes:
  - { path: /v1/chat/completions, policy: plans }
  - { path: /v1/messages, policy: plans }
  - { path: /free/v1/chat/completions, policy: open, public: true, unmetered: true }
  - { path: /v1/embeddings, kind: raw, provider: far, models: [embed-a, embed-b], policy: raw, price: { request: $0.01 } }
`
const PLANS = `steps:
  - use: api-key
  - use: schema
  - use: rate-limit
    id: volume
    when: >-
      account.plan == "free" && !chat.stream && chat.messages < 20 && model.priced &&
      account.name != "cats" && key.name != "a rather long name of a key"
    with: { per: account, tokens: 200k per minute }
  - use: rate-limit
    id: burst
    mode: shadow
    with: { per: key, requests: 60 per minute, burst: 20 }
  - use: rate-limit
    id: old
    mode: off
    with: { per: key, requests: 1 per minute }
  - use: ../check.ts
    onError: skip
    with: { text: "a: b", list: [1, two] }
  - use: credits
  - use: route
`
const CHECK = `import { definePlugin } from 'tollgate/plugin'
export default definePlugin({
  name: 'check',
  settings: {
    type: 'object',
    additionalProperties: false,
    properties: {
      text: { type: 'string', description: 'A text.' },
      list: { type: 'array', description: 'A list.' },
    },
  },
  create: () => (_ctx, next) => next(),
})
`

let place: Place
beforeEach(() => {
  place = makePlace(SEVERAL)
  mkdirSync(join(place.folder, 'policies'))
  place.write('policies/plans.yaml', PLANS)
  place.write('policies/open.yaml', 'steps:\n  - use: schema\n  - use: route\n')
  place.write('policies/raw.yaml', 'steps:\n  - use: api-key\n  - use: credits\n')
  place.write('check.ts', CHECK)
})
afterEach(() => place.remove())

describe('is refused', () => {
  test.each([
    ['an unknown path', ['/v1/chat/completion'], 'did you mean /v1/chat/completions?'],
    ['a path without /v1', ['/messages'], 'did you mean /v1/messages?'],
    ['a path unlike any other', ['/elsewhere'], 'the paths are /v1/chat/completions, /v1/messages, '],
    ['neither a path nor an id', ['standard'], 'neither the path of a route'],
    ['an option without its request', ['--plan', 'free'], '--plan needs a request'],
    ['a log without --shadow', ['--log', 'x'], '--log needs --shadow'],
    ['a request and --shadow', ['--request', 'x', '--shadow'], '--shadow shows past exchanges; use one of them'],
    ['a request and an exchange', ['req_1', '--request', 'x'], 'req_1 shows past exchanges; use one of them'],
    ['a path and --shadow', ['/v1/messages', '--shadow'], 'remove /v1/messages'],
    ['two paths', ['/v1/messages', '--path', '/v1/x', '--request', 'x'], 'cannot have two paths: /v1/messages and'],
  ])('%s', async (_name, args, sentence) => {
    const { code, out, err } = await place.tollgate(['explain', ...args])
    expect({ code, out }).toEqual({ code: 1, out: '' })
    expect(err).toContain(sentence)
  })

  test('a configuration with problems, at their places', async () => {
    place.write('policies/plans.yaml', PLANS.replace('use: credits', 'use: credtis'))
    const { code, out, err } = await place.tollgate(['explain'])
    expect({ code, out }).toEqual({ code: 1, out: '' })
    expect(err).toMatch(/policies\/plans\.yaml:\d+:10: unknown plugin "credtis"; did you mean "credits"\?/)
    expect(err).toContain('A configuration with problems cannot be explained.')
  })
})

test('the plan of a route: its steps with their settings, and the upstream call; no credential is needed', async () => {
  const { code, out, err } = await place.tollgate(['explain', '/v1/chat/completions'])
  expect({ code, err }).toEqual({ code: 0, err: '' })
  expect(out).toBe(`POST /v1/chat/completions · chat · policy plans
NR  STEP     PLUGIN      MODE                    NEEDS                      GIVES
 1  api-key  api-key     enforce (critical)                                 key, account
 2  schema   schema      enforce (critical)                                 chat, model
 3  volume   rate-limit  enforce                 account, chat
      when account.plan == "free" && !chat.stream && chat.messages < 20 && model.priced &&
        account.name != "cats" && key.name != "a rather long name of a key"
      with { per: account, tokens: 200k per minute }
 4  burst    rate-limit  shadow                  key
      with { per: key, requests: 60 per minute, burst: 20 }
 5  old      rate-limit  off                     key
      with { per: key, requests: 1 per minute }
 6  check    check       enforce, skip on error
      with { text: "a: b", list: [1, two] }
 7  credits  credits     enforce (critical)      key, account, chat, model  hold
 8  route    route       enforce                 model                      targets
  then  the request is sent to the first available target
        facts there: key, account, chat, model, hold, targets
`)
})

test('every route: each plan is shown once, and no line is too long', async () => {
  const { out } = await place.tollgate(['explain'])
  expect(out).toContain('POST /v1/messages · messages · policy plans\n  as /v1/chat/completions\n')
  expect(out).toContain('policy open · public (no key) · unmetered (no charge)\n')
  expect(out).toContain('the bytes go to the provider "far" unchanged')
  expect(out).toContain('for embed-a and embed-b only')
  expect(out).toContain('GET /v1/models/{id} · model · policy catalog\n')
  expect(out).toContain('the catalog answers from this configuration, without a provider')
  expect(out).toContain('the receipt is looked up in the ledger, without a provider')
  const widest = Math.max(...out.split('\n').map(line => line.length))
  expect(widest).toBeLessThanOrEqual(100)
})

test('the plans as JSON, in the order of the file', async () => {
  const { out } = await place.tollgate(['explain', '/v1/models/some-id', '--json'])
  expect(JSON.parse(out)).toMatchObject({ routes: [{ path: '/v1/models/{id}', kind: 'model', methods: ['GET'] }] })
  const { routes } = JSON.parse((await place.tollgate(['explain', '--json'])).out)
  expect(routes[0]).toMatchObject({
    path: '/v1/chat/completions',
    policy: 'plans',
    public: false,
    unmetered: false,
    facts: ['key', 'account', 'chat', 'model', 'hold', 'targets'],
    perhaps: [],
  })
  expect(routes[0].steps.map(({ nr, id }: { nr: number; id: string }) => `${nr} ${id}`)).toEqual([
    '1 api-key',
    '2 schema',
    '3 volume',
    '4 burst',
    '5 old',
    '6 check',
    '7 credits',
    '8 route',
  ])
  expect(routes[0].steps[2]).toMatchObject({ when: expect.stringMatching(/^account\.plan == "free"/), mode: 'enforce' })
  expect(routes[0].steps[5]).toMatchObject({ on_error: 'skip', settings: { text: 'a: b', list: [1, 'two'] } })
})

test('content in traces is shown only if the gateway exports traces', async () => {
  place.write('policies/plans.yaml', `telemetry: { content: true }\n${PLANS}`)
  expect((await place.tollgate(['explain'])).out).not.toContain('content')
  place.write('gateway.yaml', `${SEVERAL}telemetry: { endpoint: "http://127.0.0.1:4318" }\n`)
  const { out } = await place.tollgate(['explain'])
  expect(out).toContain('POST /v1/chat/completions · chat · policy plans · content in traces\n')
  expect(out).toContain('policy open · public (no key) · unmetered (no charge)\n')
  const { routes } = JSON.parse((await place.tollgate(['explain', '--json'])).out)
  const traced = routes.flatMap(({ path, content }: { path: string; content: boolean }) => (content ? [path] : []))
  expect(traced).toEqual(['/v1/chat/completions', '/v1/messages'])
})

test('a fact that only some requests have is marked', async () => {
  place.write('gateway.yaml', CONFIGURATION.replace('policy: standard', 'policy: standard, unmetered: true'))
  place.write(
    'policies/standard.yaml',
    STANDARD_POLICY.replace('use: credits', 'use: credits\n    when: account.plan == "free"'),
  )
  const { out } = await place.tollgate(['explain', '/v1/chat/completions'])
  expect(out).toContain('facts there: key, account, chat, model, targets (hold only if the step runs)')
})

test('a variable in the settings is shown by its name, not by its value', async () => {
  place.write('policies/plans.yaml', PLANS.replace('"a: b"', '"${FAR_KEY}"'))
  const { out } = await place.tollgate(['explain'], {
    env: { FAR_KEY: 'sk-very-secret', FAR_URL: 'https://far.example/v1' },
  })
  expect(out).toContain('${FAR_KEY}')
  expect(out).not.toContain('sk-very-secret')
})
