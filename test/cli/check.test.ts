import { chmodSync, existsSync, mkdirSync, readdirSync, symlinkSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { AS_ROOT, testWith } from '../helpers/missing.ts'
import { CONFIGURATION, makePlace, type Place, STANDARD_POLICY } from './helpers.ts'

let place: Place
beforeEach(() => {
  place = makePlace(CONFIGURATION)
  mkdirSync(join(place.folder, 'policies'))
  place.write('policies/standard.yaml', STANDARD_POLICY)
})
afterEach(() => place.remove())

const BROKEN = CONFIGURATION.replace('dialect: demo', 'dialekt: demo').replace('policy: standard', 'policy: standart')

test('a missing configuration', async () => {
  const { code, out } = await place.tollgate(['check', 'nowhere.yaml'])
  expect(code).toBe(1)
  expect(out).toContain('nowhere.yaml:1:1: the configuration cannot be read: the file does not exist')
})

test.each([
  ['steps:\n  - use: api-key\n', 'this is a policy, not a configuration; check the configuration whose routes use it'],
  ['tests:\n  - name: x\n', 'these are policy tests, not a configuration; run them with tollgate test'],
])('another file of the gateway: %j', async (text, says) => {
  place.write('policies/other.yaml', text)
  const { code, out } = await place.tollgate(['check', 'policies/other.yaml'])
  expect(code).toBe(1)
  expect(out).toContain(`policies/other.yaml:1:1: ${says}`)
  expect(out).toContain('1 problem in policies/other.yaml')
})

test('each problem has its place, its line and a caret; exit code 1', async () => {
  place.write('gateway.yaml', BROKEN)
  const { code, out, err } = await place.tollgate(['check'])
  expect({ code, err }).toEqual({ code: 1, err: '' })
  expect(out).toMatch(/^gateway\.yaml:5:5: .*dialekt/m)
  expect(out).toContain('did you mean "dialect"?')
  expect(out).toContain('did you mean "standard"?')
  expect(out).toMatch(/^ {3}5 \| {5}dialekt: demo\n {5}\| {5}\^$/m)
  expect(out).toMatch(/^\d+ problems in \.\/gateway\.yaml$/m)
})

test('the same problems as JSON', async () => {
  place.write('gateway.yaml', BROKEN)
  for (const args of [['--format', 'json'], ['--json']]) {
    const { code, out } = await place.tollgate(['validate', 'gateway.yaml', ...args])
    expect(code).toBe(1)
    const report = JSON.parse(out)
    expect(report).toMatchObject({ ok: false, files: [{ file: 'gateway.yaml', ok: false }] })
    expect(report.files[0].problems).toContainEqual({
      file: 'gateway.yaml',
      line: 5,
      column: 5,
      level: 'error',
      rule: 'unknown-key',
      message: expect.stringContaining('dialekt'),
      suggestion: 'did you mean "dialect"?',
    })
  }
})

test('a valid configuration is summarized', async () => {
  expect(await place.tollgate(['check'])).toMatchObject({
    code: 0,
    out: 'OK: 1 provider, 1 model, 5 routes (4 derived)\n',
    err: '',
  })
  expect(JSON.parse((await place.tollgate(['check', '--json'])).out)).toEqual({
    ok: true,
    files: [{ file: './gateway.yaml', ok: true, providers: 1, models: 1, routes: 5, derived: 4, problems: [] }],
  })
})

test('several configurations are all checked, and one with problems makes the exit code 1', async () => {
  place.write('broken.yaml', BROKEN)
  const { code, out } = await place.tollgate(['check', 'broken.yaml', 'gateway.yaml'])
  expect(code).toBe(1)
  expect(out).toContain('problems in broken.yaml')
  expect(out).toContain('gateway.yaml: OK: 1 provider')
})

test('a variable is read from .env beside the configuration, and its value is not printed', async () => {
  const withKey = CONFIGURATION.replace(
    'dialect: demo\n    pace: 1ms',
    'dialect: openai\n    base_url: ${BASE}\n    api_key: ${KEY}',
  )
  place.write('gateway.yaml', withKey)
  const missing = await place.tollgate(['check'])
  expect(missing.code).toBe(1)
  expect(missing.out).toContain('the environment variable KEY is not set')
  place.write('.env', 'BASE=https://provider.example/v1\nKEY=sk-very-secret-value\n')
  expect(await place.tollgate(['check'])).toMatchObject({ code: 0 })
  place.write('gateway.yaml', `${withKey}unknown: 1\n`)
  const { code, out } = await place.tollgate(['check'])
  expect(code).toBe(1)
  expect(out).not.toContain('sk-very-secret-value')
})

test('a key for unknown models is not created', async () => {
  await place.json('account.create', 'acme')
  const create = ['key', 'create', '--account', 'acme', '--models']
  const { code, err } = await place.tollgate([...create, 'demo-smal'])
  expect(code).toBe(1)
  expect(err).toContain('The catalog has no model "demo-smal"; did you mean "demo-small"?')
  expect((await place.json('key.list')).keys).toEqual([])
  expect((await place.json('key.create', '--account', 'acme', '--models', 'demo-small')).key.models).toEqual([
    'demo-small',
  ])

  // Names of models on a raw route are valid too.
  const provider = '  far: { dialect: openai, base_url: "https://api.example.com/v1" }'
  const route = '  - { path: /v1/embeddings, kind: raw, policy: raw, provider: far, price: free, models: [embedder] }'
  place.write('policies/raw.yaml', 'steps:\n  - use: api-key\n')
  const withRaw = CONFIGURATION.replace('routes:\n', `routes:\n${route}\n`)
  place.write('gateway.yaml', withRaw.replace('providers:\n', `providers:\n${provider}\n`))
  expect(await place.tollgate([...create, 'embeder'])).toMatchObject({
    code: 1,
    err: expect.stringContaining('did you mean "embedder"?'),
  })
  expect((await place.json('key.create', '--account', 'acme', '--models', 'embedder,demo-small')).key.models).toEqual([
    'embedder',
    'demo-small',
  ])

  place.write('gateway.yaml', BROKEN)
  const unchecked = await place.tollgate([...create, 'anything'])
  expect(unchecked.code).toBe(0)
  expect(unchecked.err).toContain('The models were not checked')
})

/** The standard policy with another step in line 4. */
const withStep = (step: string) => STANDARD_POLICY.replace('  - use: credits\n', `  - ${step}\n  - use: credits\n`)

describe('problems that would prevent a start', () => {
  /** The problems of the policy with this step, as `line:column rule: sentence`. */
  async function problemsWith(step: string): Promise<string[]> {
    place.write('policies/standard.yaml', withStep(step))
    const { code, out } = await place.tollgate(['check', '--json'])
    const { ok, files } = JSON.parse(out)
    expect(code).toBe(ok ? 0 : 1)
    const found: Record<string, string | number>[] = files[0].problems
    for (const { file } of found) expect(file).toBe('policies/standard.yaml')
    return found.map(({ line, column, rule, message, suggestion }) =>
      [`${line}:${column} ${rule}: ${message}`, suggestion ?? []].flat().join('; '),
    )
  }

  test('all invalid patterns and duplicate names of guard are reported, each at its place', async () => {
    const rules = [
      '{ name: a, pattern: "(" }',
      '{ name: b, pattern: "(a+)+$" }',
      '{ name: c, pattern: "a{300}" }',
      '{ name: d, pattern: "a?" }',
      '{ detect: iban, on: answer }',
      '{ detect: iban, on: request }',
    ]
    const found = await problemsWith(`use: guard\n    with:\n      rules:\n        - ${rules.join('\n        - ')}`)
    expect(found).toEqual([
      expect.stringMatching(/^7:31 wrong-value: the pattern of "a" is not a regular expression/),
      expect.stringMatching(/^8:31 wrong-value: the pattern of "b" contains "a\+", which has no upper bound/),
      expect.stringMatching(/^9:31 wrong-value: the pattern of "c" may match 300 characters, but "window" is 256/),
      expect.stringMatching(/^10:31 wrong-value: the pattern of "d" matches an empty text/),
      '12:21 wrong-value: two rules have the name "iban"; give one of them a different "name"',
    ])
    const { out } = await place.tollgate(['check'])
    expect(out).toContain('   7 |         - { name: a, pattern: "(" }\n     |                               ^')
    expect(await problemsWith('use: guard\n    mode: off\n    with: { rules: [{ name: a, pattern: "(" }] }')).toEqual(
      [],
    )
  })

  test('an unset variable causes exactly one problem and hides no other', async () => {
    const rules = ['{ name: a, pattern: "${PAT}" }', '{ name: b, patern: x }', '{ detect: emial }', '{ name: "c d" }']
    const found = await problemsWith(`use: guard\n    with:\n      rules:\n        - ${rules.join('\n        - ')}`)
    expect(found).toEqual([
      '7:31 missing-variable: the environment variable PAT is not set',
      '8:22 unknown-key: unknown key "patern"; did you mean "pattern"?',
      expect.stringMatching(/^9:21 wrong-value: detect: "emial" is not one of/),
      expect.stringMatching(/^10:19 wrong-value: name: "c d" does not match/),
    ])
  })

  test('a key of jwt that cannot verify signatures', async () => {
    const keys = '{ keys: [{ kty: RSA, n: AQAB, e: AQAB }] }'
    const step = `use: jwt\n    with: { issuer: a, audience: b, account: c, jwks: ${keys} }`
    place.write('policies/standard.yaml', withStep(step).replace('  - use: api-key\n', ''))
    const { out } = await place.tollgate(['check'])
    expect(out).toMatch(/^policies\/standard\.yaml:4:64: this key cannot check signatures: it has \d+ bits/m)
    expect(out).toMatch(/^1 problem in /m)
  })

  describe('the file of usage-log', () => {
    const usageLog = (file: string) => `use: usage-log\n    with: { file: "${file}" }`

    test.each<[string, string, string]>([
      ['a missing folder', '../logs/usage.jsonl', 'cannot be opened: its folder is missing; create it first'],
      ['a file as its folder', '../gateway.yaml/usage.jsonl', 'cannot be opened: its folder is missing'],
      ['a folder', '..', 'is not a regular file'],
      ['a device', '/dev/null', 'is not a regular file'],
      ['a name that is too long', `../${'a'.repeat(300)}`, 'cannot be opened: its name is too long'],
      ['a link to itself', '../circle.jsonl', 'cannot be opened: it is a link to itself'],
      ['a link to nowhere', '../link.jsonl', 'cannot be opened: its folder is missing'],
    ])('%s', async (_name, file, sentence) => {
      symlinkSync('nowhere/usage.jsonl', join(place.folder, 'link.jsonl'))
      symlinkSync('circle.jsonl', join(place.folder, 'circle.jsonl'))
      expect(await problemsWith(usageLog(file))).toEqual([
        expect.stringMatching(new RegExp(`^5:19 wrong-value: /.*${sentence}`)),
      ])
    })

    test('the value of a variable is not printed', async () => {
      place.write('policies/standard.yaml', withStep(usageLog('${LOGS}/usage.jsonl')))
      const env = { LOGS: '/nonexistent/hidden-place' }
      const { code, out } = await place.tollgate(['check'], { env })
      expect(code).toBe(1)
      expect(out).toMatch(
        /^policies\/standard\.yaml:5:19: "\$\{LOGS\}\/usage\.jsonl" cannot be opened: its folder is missing/m,
      )
      expect(out).not.toContain('hidden-place')
    })

    testWith(AS_ROOT, 'a file without write permission', async () => {
      chmodSync(place.write('usage.jsonl', ''), 0o400)
      expect(await problemsWith(usageLog('../usage.jsonl'))).toEqual([expect.stringContaining('may not write it')])
    })

    test('a file that could be created is not created, and only check requires that it can be', async () => {
      mkdirSync(join(place.folder, 'logs'))
      symlinkSync('logs/other.jsonl', join(place.folder, 'link.jsonl'))
      for (const file of ['../logs/usage.jsonl', '../link.jsonl'])
        expect(await problemsWith(usageLog(file))).toEqual([])
      expect(readdirSync(join(place.folder, 'logs'))).toEqual([])
      // Commands that simulate exchanges or only use the store may run on another machine.
      place.write('policies/standard.yaml', withStep(usageLog('/nonexistent/usage.jsonl')))
      for (const line of [['explain'], ['exposure'], ['account', 'list']]) {
        expect((await place.tollgate(line)).code, line.join(' ')).toBe(0)
      }
    })
  })

  describe('a custom plugin', () => {
    /** Writes a plugin file. Each `create` and `dispose` of the plugin leaves a file. */
    const pluginFile = (name: string, { create, more = '' }: { create: string; more?: string }) =>
      place.write(
        `policies/${name}.ts`,
        `import { writeFileSync } from 'node:fs'
        import { definePlugin, refuse } from 'tollgate/plugin'
        const trace = what => writeFileSync(new URL('./${name}.' + what, import.meta.url), '')
        export default definePlugin({
          name: '${name}', ${more}
          settings: { type: 'object', additionalProperties: false, properties: {} },
          create(settings, services, place) { trace('created'); ${create} },
        })`,
      )
    const left = (name: string) =>
      readdirSync(join(place.folder, 'policies'))
        .filter(file => file.startsWith(`${name}.`))
        .sort()

    test.each<[string, string, string]>([
      ['throws', `throw new Error('no such region: ' + place.policy)`, 'no such region: standard'],
      ['throws a text', `throw 'nothing'`, 'cannot be created: nothing'],
      ['returns nothing', '', 'create() returned neither a middleware nor { handle }'],
    ])('that %s when it is created', async (_name, create, sentence) => {
      pluginFile('broken', { create })
      expect(await problemsWith('use: ./broken.ts\n    id: mine')).toEqual([
        expect.stringMatching(/^4:10 broken-plugin: the step "mine" cannot be created: /),
      ])
      const { out } = await place.tollgate(['check'])
      expect(out).toContain(sentence)
      expect(await problemsWith('use: ./broken.ts\n    mode: off')).toEqual([])
    })

    describe('with the dry run of a reload', () => {
      test.each<[string, string, string[]]>([
        ['throws', `throw new Error('for ' + ctx.exchange.account.id)`, ['threw: for acc_dry_run']],
        ['hangs', 'await new Promise(() => {})', ['did not return within 1000 ms']],
        [
          'does nothing',
          '',
          ['returned without next(), an answer or a refusal; add `await next()`, or throw a refusal'],
        ],
        [
          'forgets await',
          'void next()',
          ['returned while its next() was pending; write `await next()` or `return next()`'],
        ],
        ['refuses', `throw refuse('forbidden')`, []],
        ['never ends', 'await next()', []],
      ])('one that %s', async (_name, handle, mistakes) => {
        const create = `if (place.run !== 'check') throw new Error(place.run)
          return { handle: async (ctx, next) => { trace('run'); ${handle} }, dispose: () => trace('disposed') }`
        pluginFile('dry', { create, more: `dryRun: true, needs: ['account'],` })
        expect(await problemsWith('use: ./dry.ts\n    id: mine')).toEqual(
          mistakes.map(mistake => expect.stringContaining(`4:10 broken-plugin: the step "mine" ${mistake}`)),
        )
        expect(left('dry')).toEqual(['dry.created', 'dry.disposed', 'dry.run', 'dry.ts'])
      })

      test('is not run without dryRun', async () => {
        pluginFile('wet', { create: `return () => { trace('run'); throw new Error('never') }` })
        expect(await problemsWith('use: ./wet.ts')).toEqual([])
        expect(left('wet')).toEqual(['wet.created', 'wet.ts'])
      })
    })

    test('two failing plugins are both reported, without the values of variables', async () => {
      pluginFile('first', { create: `throw new Error('first: long-secret-value')` })
      pluginFile('second', { create: `throw new Error('second\\nsecond line')` })
      const step = 'use: ./first.ts\n  - use: ./second.ts\n  - use: prompt\n    with: { system: "${WORDS}" }'
      place.write('policies/standard.yaml', withStep(step))
      const { out } = await place.tollgate(['check', '--format', 'github'], { env: { WORDS: 'long-secret-value' } })
      expect(out.match(/^::error .*$/gm)).toHaveLength(2)
      expect(out).toMatch(
        /line=4,.*the step "first" cannot be created: first: \*\*\* \(policies\/first\.ts:\d+:\d+\)$/m,
      )
      expect(out).toMatch(/line=5,.*the step "second" cannot be created: second \(policies\/second\.ts:\d+:\d+\)$/m)
    })

    test('without problems is created with all services that it uses, and disposed', async () => {
      const uses = [
        'keys',
        'accounts',
        'buckets',
        'slots',
        'kv',
        'cache',
        'versions',
        'catalog',
        'clock',
        'random',
        'log',
        'targets',
      ]
      pluginFile('fine', {
        more: `uses: ${JSON.stringify(uses)},`,
        create: `const { catalog, clock, targets } = services
          if (Object.keys(services).length !== ${uses.length}) throw new Error('services')
          if (catalog.find('demo-small').id !== catalog.list()[0].id) throw new Error('catalog')
          if (targets.latencyMs('x', true) !== null || clock.now() < 1e12) throw new Error('clock')
          return { handle: (ctx, next) => next(), dispose: () => { trace('disposed'); throw new Error('too late') } }`,
      })
      expect(await problemsWith('use: ./fine.ts')).toEqual([])
      expect(left('fine')).toEqual(['fine.created', 'fine.disposed', 'fine.ts'])
    })

    test.each<[string, string, string]>([
      [
        'a wrong default',
        `type: 'integer', default: 'ten'`,
        '/properties/most: default must be a whole number, not "ten"',
      ],
      [
        'an unknown type',
        `type: 'interger'`,
        '/properties/most: type: "interger" is not one of array, boolean, integer, null, number, object or string',
      ],
      ['a mistyped keyword', `type: 'integer', minimun: 1`, '/properties/most: unknown keyword "minimun"'],
    ])('whose settings schema has %s', async (_name, most, mistake) => {
      const settings = `{ type: 'object', additionalProperties: false, properties: { most: { description: 'x', ${most} } } }`
      place.write(
        'policies/mine.ts',
        `import { definePlugin } from 'tollgate/plugin'
        export default definePlugin({ name: 'mine', settings: ${settings}, create: () => (_ctx, next) => next() })`,
      )
      expect(await problemsWith('use: ./mine.ts')).toEqual([
        expect.stringContaining(
          `4:10 broken-plugin: the settings schema of the plugin "mine" (policies/mine.ts) is wrong: ${mistake}`,
        ),
      ])
    })

    test('that only observes is checked but not created', async () => {
      const check = `check: () => [{ at: '', message: 'nowhere to write to' }],`
      pluginFile('diary', { create: `throw new Error('never')`, more: 'records: true,' })
      expect(await problemsWith('use: ./diary.ts')).toEqual([])
      pluginFile('journal', { create: `throw new Error('never')`, more: `records: true, ${check}` })
      expect(await problemsWith('use: ./journal.ts')).toEqual(['4:5 wrong-value: nowhere to write to'])
      expect(existsSync(join(place.folder, 'policies/diary.created'))).toBe(false)
    })

    test('whose check is not a function', async () => {
      pluginFile('odd', { create: `throw new Error('never')`, more: 'check: {},' })
      expect(await problemsWith('use: ./odd.ts')).toEqual([
        expect.stringMatching(/^4:10 broken-plugin: .*is invalid: "check" must be a function/),
      ])
    })
  })
})
