import { cpSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { builtinRegistry } from '../../src/loader/builtin.ts'
import { isolateTests } from '../../src/testing/policy/isolation.ts'
import { readPolicyTests } from '../../src/testing/policy/read.ts'
import { runTest } from '../../src/testing/policy/run.ts'
import { runCommand } from '../helpers/command.ts'
import { CONFIGURATION, STANDARD_POLICY } from './helpers.ts'

const ROOT = fileURLToPath(new URL('../..', import.meta.url))

let folder: string
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'tollgate-policy-test-'))
  mkdirSync(join(folder, 'policies'))
  writeFileSync(join(folder, 'gateway.yaml'), CONFIGURATION)
  writeFileSync(join(folder, 'policies/standard.yaml'), STANDARD_POLICY)
})
afterEach(() => rmSync(folder, { recursive: true, force: true }))

const write = (text: string, name = 'standard.test.yaml') => writeFileSync(join(folder, 'policies', name), text)
const run = (...args: string[]) => runCommand(folder, ['test', ...args])

test.each<[string, string, string, string]>([
  ['a misspelt key', 'tests:\n  - nam: x\n    expect: { status: 200 }\n', '2:5', 'did you mean "name"?'],
  ['a wrong type', 'tests:\n  - name: x\n    expect: { status: fine }\n', '3:23', 'status must be'],
  ['an unknown step', 'tests:\n  - name: x\n    expect: { decided_by: creditz }\n', '3:27', 'did you mean "credits"?'],
  [
    'an unknown step in the trail',
    'tests:\n  - name: x\n    expect: { trail: { zzz: absent } }\n',
    '3:29',
    'the steps are api-key, schema',
  ],
  [
    'a misspelt code',
    'tests:\n  - name: x\n    expect: { code: insufficient_qouta }\n',
    '3:21',
    'did you mean "insufficient_quota"?',
  ],
  [
    'later',
    'tests:\n  - name: x\n    expect: { status: 200 }\n    then: [{ expect: { decided_by: rout } }]\n',
    '4:36',
    'did you mean "route"?',
  ],
  ['a misspelt expectation', 'tests:\n  - name: x\n    expect: { statsu: 1 }\n', '3:15', 'did you mean "status"?'],
  ['no expectation', 'tests:\n  - name: x\n    expect: {}\n', '3:13', 'expect needs at least one entry'],
  ['an invalid amount', 'tests:\n  - name: x\n    expect: { charged: much }\n', '3:24', 'not an amount'],
  [
    'an invalid pattern',
    'tests:\n  - name: x\n    expect: { headers: { a: "/(/" } }\n',
    '3:29',
    '/(/ is not a pattern',
  ],
  ['an impossible verdict of a step', 'tests:\n  - name: x\n    expect: { trail: { route: lost } }\n', '3:31', 'lost'],
  [
    'a duplicate name',
    'tests:\n  - { name: x, expect: { status: 200 } }\n  - { name: x, expect: { status: 200 } }\n',
    '3:13',
    'two tests have the name "x"',
  ],
  [
    'an invalid time',
    'tests:\n  - name: x\n    given: { clock: soon }\n    expect: { status: 200 }\n',
    '3:21',
    'is not a time',
  ],
  [
    'a policy without a route',
    'policy: other\ntests:\n  - { name: x, expect: { status: 200 } }\n',
    '1:1',
    'no route of',
  ],
  [
    'an unknown model',
    'tests:\n  - name: x\n    given: { key: { models: [demo-smal] } }\n    expect: { status: 404 }\n',
    '3:30',
    'the model "demo-smal" does not exist; did you mean "demo-small"?',
  ],
  [
    'a key for no model',
    'tests:\n  - name: x\n    given: { key: { models: [] } }\n    expect: { status: 404 }\n',
    '3:29',
    'models needs at least one entry',
  ],
  [
    'an invalid address',
    'tests:\n  - name: x\n    request: { address: 999.1.1.1 }\n    expect: { status: 200 }\n',
    '3:25',
    '"999.1.1.1" is not an IP address',
  ],
  [
    'a day outside its month',
    'tests:\n  - name: x\n    given: { clock: 2027-02-31T00:00:00Z }\n    expect: { status: 200 }\n',
    '3:21',
    'its month does not have such a day',
  ],
  [
    'events without a fault',
    'tests:\n  - name: x\n    expect: { status: 200 }\n    then: [{ upstream: { after: 1 }, expect: { status: 200 } }]\n',
    '4:26',
    'but "fault" is missing',
  ],
  [
    'events of an unreachable provider',
    'tests:\n  - name: x\n    upstream: [{}, { fault: unreachable, after: 1 }]\n    expect: { status: 200 }\n',
    '3:42',
    'an unreachable provider sends no events',
  ],
  ...['headers', 'trail', 'sent', 'body'].map(
    what =>
      [
        `${what} of which nothing is expected`,
        `tests:\n  - name: x\n    expect: { ${what}: {} }\n`,
        `3:${17 + what.length}`,
        `${what} needs at least one entry`,
      ] satisfies [string, string, string, string],
  ),
])('%s is shown at its place', async (_name, text, place, sentence) => {
  write(text)
  const { code, out } = await run()
  expect(code).toBe(1)
  expect(out).toContain(`policies/standard.test.yaml:${place}: `)
  expect(out).toContain(sentence)
})

test('a problem of the configuration is shown at its place', async () => {
  write('tests:\n  - { name: x, expect: { status: 200 } }\n')
  writeFileSync(join(folder, 'policies/standard.yaml'), STANDARD_POLICY.replace('credits', 'credtis'))
  const { code, out } = await run()
  expect(code).toBe(1)
  expect(out).toMatch(/standard\.yaml:4:\d+: .*credtis/)
})

test('-c selects the configuration', async () => {
  write('tests:\n  - { name: x, expect: { charged: $0.000020 } }\n')
  const charged = async (...args: string[]) => (await run(...args)).out
  const dearer = CONFIGURATION.replace(/input: \$\S+/, 'input: $100,')
  writeFileSync(join(folder, 'dearer.yaml'), dearer)
  const [own, other] = [await charged(), await charged('-c', join(folder, 'dearer.yaml'))]
  expect(other).toMatch(/charged/)
  expect(other).not.toBe(own)
})

test('without any file, and with a name that matches no test', async () => {
  expect(await run()).toMatchObject({ code: 1, err: expect.stringContaining('no policies/*.test.yaml in') })
  write('tests:\n  - { name: x, expect: { status: 200 } }\n')
  const none = await run('--name', 'y')
  expect(none).toMatchObject({ code: 1, err: expect.stringContaining('no test has a name with "y"') })
})

const TWO = `tests:
  - name: passes
    expect: { status: 200, upstream: 1 }
  - name: fails <here>
    given: { account: { balance: $0 } }
    expect:
      status: 200
      code: null
      decided_by: null
      upstream: 1
      headers: { x-should-retry: null }
      trail: { route: passed }
      body: { object: chat.completion }
`

test('a failing test shows both sides and the trail', async () => {
  write(TWO)
  const { code, out } = await run()
  expect(code).toBe(1)
  expect(out).toContain('FAILED policies/standard.test.yaml:4 fails <here>\n')
  expect(out).toContain('  status\n    - expected 200\n    + got      402\n')
  expect(out).toContain('  decided_by\n    - expected null\n    + got      credits\n')
  expect(out).toContain('  trail.route\n    - expected passed\n    + got      absent\n')
  expect(out).toContain('  headers.x-should-retry\n    - expected null\n    + got      false\n')
  expect(out).toContain('  body.object\n    - expected chat.completion\n    + got      nothing\n')
  expect(out).toContain('    credits: refused insufficient_quota')
  expect(out).toMatch(/1 test passed, 1 failed \(1 file, 2 requests\)\n$/)
})

test('results by name, as JSON and as JUnit', async () => {
  write(TWO)
  expect(await run('--name', 'passes')).toEqual({ code: 0, out: '1 test passed (1 file, 1 request)\n', err: '' })
  const asJson = JSON.parse((await run('--format', 'json')).out)
  expect(asJson).toMatchObject({ ok: false, files: [{ problems: [], tests: [{ ok: true }, { ok: false, line: 4 }] }] })
  const { out } = await run('--format', 'junit')
  expect(out).toContain('<testsuite name="policies/standard.test.yaml" tests="2" failures="1" errors="0">')
  expect(out).toContain('name="fails &lt;here&gt;"')
})

test('between steps time passes, and the account stays the same', async () => {
  write(`tests:
  - name: two
    given: { account: { balance: $1 }, clock: 2027-06-01T00:00:00Z }
    request: { stream: true, leaves_after: 1 }
    upstream: { content: [One, " two"] }
    expect: { status: null, outcome: client_left, source: estimated }
    then:
      - after: 90d
        request: { stream: false }
        upstream: [{ fault: silent }]
        expect: { status: 504, code: upstream_timeout, upstream: 1, charged: $0 }
`)
  expect(await run()).toEqual({ code: 0, out: '1 test passed (1 file, 2 requests)\n', err: '' })
})

test('a step without `upstream` continues the answers of the step before', async () => {
  write(`tests:
  - name: a list continues with its last entry until a step has another
    upstream: [{ content: one }, { content: two }]
    expect: { content: one }
    then:
      - expect: { content: two }
      - request: { times: 2 }
        expect: { content: two }
      - upstream: { status: 500 }
        expect: { status: 502 }
      - expect: { status: 502 }
      - upstream: {}
        expect: { status: 200 }
  - name: a fault after the end is reported at its step
    upstream: [{ content: one }, { content: two, fault: reset, after: 99 }]
    expect: { content: one }
    then:
      - expect: { status: 200 }
`)
  const { out } = await run()
  expect(out).toContain('1 test passed, 1 failed')
  expect(out).toContain('upstream.1.after (step 2)\n    - expected at most 1, before the end\n    + got      99\n')
})

test('the built-in policies pass their tests', async () => {
  const { code, out } = await runCommand(ROOT, ['test'])
  expect(out).toMatch(/^3\d tests passed \(5 files, \d+ requests\)\n$/)
  expect(code).toBe(0)
})

test('the tests of the built-in policies fail with another policy', async () => {
  for (const part of ['policies', 'gateway.yaml']) cpSync(join(ROOT, part), join(folder, part), { recursive: true })
  writeFileSync(join(folder, 'policies/standard.yaml'), STANDARD_POLICY)
  const { code, out } = await run('policies/standard.test.yaml')
  expect(code).toBe(1)
  expect(out).toContain('twenty requests at once, then one a second')
})

const OWN_PARTS = `routes:
  - { publc: true, path: /v1/chat/completions }
  - path: /v1/responses
    policy: nowhere
providers:
  mine:
    dialct: demo
tests:
  - { name: x, expect: { status: 200 } }
`

test.each([
  ['plain', CONFIGURATION],
  ['in braces', JSON.stringify({ version: 1, listen: '127.0.0.1:0', lisen: 1, routes: [] }, null, 2)],
  ['with an anchor in a replaced part', `${CONFIGURATION.replace('routes:', 'routes: &all')}lisen: *all\n`],
])('tests that override parts of gateway.yaml, %s: each problem has its own place', async (_name, own) => {
  const config = own.includes('lisen') ? own : `${own}lisen: 1\n`
  writeFileSync(join(folder, 'gateway.yaml'), config)
  write(OWN_PARTS)
  const { code, out } = await run()
  expect(code).toBe(1)
  expect(out).toContain(
    'policies/standard.test.yaml:2:7: unknown key "publc"; did you mean "public"?\n   2 |   - { publc: ',
  )
  expect(out).toContain('policies/standard.test.yaml:4:13: policies/nowhere.yaml beside gateway.yaml cannot be read')
  expect(out).toContain(
    'policies/standard.test.yaml:7:5: unknown key "dialct"; did you mean "dialect"?\n   7 |     dialct: ',
  )
  const lines = config.split('\n')
  const line = lines.findIndex(each => each.includes('lisen')) + 1
  const column = lines[line - 1]!.search(/"?lisen/) + 1
  expect(out).toContain(`gateway.yaml:${line}:${column}: unknown key "lisen"; did you mean "listen"?\n`)
})

test('a number from a variable in gateway.yaml stays a number when tests override parts', async () => {
  writeFileSync(join(folder, 'gateway.yaml'), `trust_proxy: \${HOPS}\n${CONFIGURATION}`)
  write('routes: [{ path: /v1/chat/completions }]\ntests:\n  - { name: x, expect: { status: 200 } }\n')
  const { code, out } = await runCommand(folder, ['test'], { env: { HOPS: '1' } })
  expect({ code, out }).toEqual({ code: 0, out: '1 test passed (1 file, 1 request)\n' })
})

test('invalid YAML in gateway.yaml is reported at its place, also when tests override parts', async () => {
  writeFileSync(join(folder, 'gateway.yaml'), `${CONFIGURATION}limits: *none\n`)
  write('routes: [{ path: /v1/chat/completions }]\ntests:\n  - { name: x, expect: { status: 200 } }\n')
  expect((await run()).out).toMatch(/^gateway\.yaml:\d+:9: \*none names an anchor that is not defined before it/)
})

test('a list must have the expected number of entries, and a fault must come before the end', async () => {
  write(`tests:
  - name: the body
    expect: { body: { choices: [] } }
  - name: what was sent
    expect: { sent: { messages: [{ role: user }, { role: user }] } }
  - name: the fault
    request: { stream: true }
    upstream: { content: [One], fault: reset, after: 9 }
    expect: { outcome: failed }
`)
  const { out } = await run()
  expect(out).toContain('  body.choices\n    - expected []\n    + got      [{')
  expect(out).toContain('  sent.messages\n    - expected [{"role":"user"},{"role":"user"}]\n')
  expect(out).toContain('  upstream.after\n    - expected at most 3, before the end\n    + got      9\n')
})

describe('a custom plugin', () => {
  const STEPS = `steps: [{ use: api-key }, { use: schema }, { use: ./mine.ts }, { use: route }]\n`
  /** @param body of the step, with `next` */
  const plugin = (body: string) => {
    writeFileSync(join(folder, 'policies/standard.yaml'), STEPS)
    const free = CONFIGURATION.replace(/price: .*/, 'price: free')
    writeFileSync(join(folder, 'gateway.yaml'), free)
    const settings = '{ type: "object", additionalProperties: false, properties: {} }'
    const made = `{ name: 'mine', settings: ${settings}, create: () => async (ctx, next) => { ${body} } }`
    writeFileSync(
      join(folder, 'policies/mine.ts'),
      `import { definePlugin } from 'tollgate/plugin'\nexport default definePlugin(${made})\n`,
    )
  }

  test('that never ends fails its test, and the next test runs', async () => {
    plugin("if (ctx.exchange.json().stream) await new Promise(() => {})\nctx.set('x-mine', 'yes')\nawait next()")
    write(`tests:
  - name: hangs
    request: { stream: true }
    expect: { status: 200 }
  - name: goes on
    expect: { status: 200, headers: { x-mine: yes } }
`)
    const read = await readPolicyTests(join(folder, 'policies/standard.test.yaml'), {
      env: {},
      registry: builtinRegistry(),
    })
    if ('problems' in read) throw new Error(JSON.stringify(read.problems))
    const guard = isolateTests()
    try {
      const [hangs, goesOn] = [
        await runTest(read, read.tests[0]!, guard, 50),
        await runTest(read, read.tests[1]!, guard),
      ]
      const got = 'the step "mine" does not end'
      expect(hangs).toMatchObject({ failures: [{ step: 1, mismatches: [{ what: 'the test', got }] }] })
      expect(hangs.failures[0]!.trail!.map(({ step }) => step)).toEqual(['api-key', 'schema'])
      expect(goesOn.failures).toEqual([])
    } finally {
      guard.end()
    }
  })

  test('with an uncaught error or rejection fails its test', async () => {
    plugin("setTimeout(() => { throw new Error('late') })\nPromise.reject(new Error('dropped'))\nawait next()")
    write('tests:\n  - { name: x, expect: { status: 200 } }\n')
    // The listeners of the test runner would end its run.
    const events = ['unhandledRejection', 'uncaughtException'] as const
    const before = events.map(event => [event, process.listeners(event as 'uncaughtException')] as const)
    for (const event of events) process.removeAllListeners(event)
    try {
      const { code, out } = await run()
      expect(code).toBe(1)
      expect(out).toMatch(/\+ got {6}an unhandled rejected promise: dropped \(\/.*\/mine\.ts:\d+:\d+\)\n/)
      expect(out).toMatch(/\+ got {6}an uncaught error: late \(\/.*\/mine\.ts:\d+:\d+\)\n/)
      expect(out).toContain('0 tests passed, 1 failed')
      expect(events.map(event => process.listenerCount(event))).toEqual([0, 0])
    } finally {
      for (const [event, listeners] of before) for (const each of listeners) process.on(event, each)
    }
  })

  test('that cannot be created fails each test', async () => {
    plugin('')
    const settings = '{ type: "object", additionalProperties: false, properties: {} }'
    const create = "() => { throw new Error('not today') }"
    writeFileSync(
      join(folder, 'policies/mine.ts'),
      `import { definePlugin } from 'tollgate/plugin'\nexport default definePlugin({ name: 'mine', settings: ${settings}, create: ${create} })\n`,
    )
    write('tests:\n  - { name: x, expect: { status: 200 } }\n  - { name: y, expect: { status: 200 } }\n')
    const { code, out } = await run()
    expect(code).toBe(1)
    expect(out).toMatch(/\+ got {6}.*not today/)
    expect(out).toContain('0 tests passed, 2 failed')
  })

  test('does not reach the network', async () => {
    let asked = 0
    const server = createServer((_request, response) => {
      asked++
      response.end('{}')
    })
    await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
    const { port } = server.address() as AddressInfo
    try {
      plugin(`await fetch('http://127.0.0.1:${port}/')\nawait next()`)
      write('tests:\n  - { name: x, expect: { status: 200 } }\n')
      const { out } = await run()
      expect(out).toContain('  status\n    - expected 200\n    + got      500\n')
      expect(out).toContain(`a connection to 127.0.0.1:${port} was attempted, but policy tests have no network`)
      expect(asked).toBe(0)
      // The network is available again after the tests.
      expect((await fetch(`http://127.0.0.1:${port}/`)).status).toBe(200)
    } finally {
      server.closeAllConnections()
      server.close()
    }
  })
})

describe('a policy that accepts tokens', () => {
  const policy = (settings: string) =>
    writeFileSync(
      join(folder, 'policies/standard.yaml'),
      `steps:
  - use: jwt
    with: { issuer: https://id.example, audience: [here, there], jwks: https://id.example/keys, ${settings} }
  - use: schema
  - use: credits
  - use: route
`,
    )

  test.each([
    ['with claims', 'account_claim: org, key_claim: email, models_claim: models'],
    ['for one account', 'account: staff, models_claim: scope'],
    ['signed by RSA keys', 'account: staff, models_claim: scope, algorithms: [PS384]'],
  ])('%s', async (_name, settings) => {
    policy(settings)
    const other = '  other: { targets: [{ provider: demo, model: x }], price: free, context: 8Ki, max_output: 1Ki }\n'
    writeFileSync(join(folder, 'gateway.yaml'), CONFIGURATION.replace('routes:', `${other}routes:`))
    write(`tests:
  - name: a good one
    expect: { status: 200, charged: $0.0000039, trail: { jwt: passed } }
  - name: an account of its own
    given: { account: { name: other, frozen: true } }
    expect: { status: 403, code: account_frozen, decided_by: jwt }
  - name: models
    given: { key: { models: [other] } }
    expect: { status: 404, code: model_not_found }
  - name: none
    request: { key: none }
    expect: { status: 401, code: missing_api_key, decided_by: jwt }
  - name: of another issuer
    request: { key: unknown }
    expect: { status: 401, code: invalid_api_key, decided_by: jwt }
  - name: over
    request: { key: expired }
    expect: { status: 401, code: expired_api_key, decided_by: jwt }
`)
    expect(await run()).toEqual({ code: 0, out: '6 tests passed (1 file, 6 requests)\n', err: '' })
  })

  test.each([
    ['request: { key: revoked }', '3:21', 'a token of an identity provider cannot be revoked'],
    ['given: { key: { spending_cap: $1 } }', '3:21', 'a token has no spending cap'],
    ['given: { key: { models: [demo-small] } }', '3:21', 'without models_claim a token is for every public model'],
  ])('%s is refused', async (line, place, sentence) => {
    policy('account: staff')
    write(`tests:\n  - name: x\n    ${line}\n    expect: { status: 401 }\n`)
    const { code, out } = await run()
    expect(code).toBe(1)
    expect(out).toContain(`policies/standard.test.yaml:${place}: `)
    expect(out).toContain(sentence)
  })
})
