/** Warnings of `check`: configurations that work, but probably not as intended. */
import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { makePlace, type Place, STANDARD_POLICY } from './helpers.ts'

const MODEL = `models:
  m:
    targets: [{ provider: far, model: big }]
    price: { per: 1M tokens, input: $2, output: $10 }
    context: 8192
    max_output: 1024
`
const gateway = ({
  provider = 'dialect: openai, base_url: "https://llm.example.com/v1"',
  model = MODEL,
  more = '',
  routes = '',
}) =>
  `version: 1
limits: { max_inflight: 100 }
${more}
providers:
  far: { ${provider}, missing_finish: error }
${model}routes:
  - { path: /v1/chat/completions, policy: standard }
${routes}`
const raw = (price: string) =>
  `  - { path: /v1/embeddings, kind: raw, policy: catalog, provider: far, unmetered: true, price: ${price} }\n`
const inHead = (steps: string) => STANDARD_POLICY.replace('  - use: schema\n', `${steps}  - use: schema\n`)
const inFront = (steps: string) => STANDARD_POLICY.replace('  - use: credits\n', `${steps}  - use: credits\n`)
const behind = (steps: string) => STANDARD_POLICY.replace('  - use: credits\n', `  - use: credits\n${steps}`)
const limit = (id: string, settings: string, more = '') =>
  `  - { use: rate-limit, id: ${id}, with: { ${settings} }${more} }\n`
const slots = (id: string, settings: string, more = '') =>
  `  - { use: concurrency, id: ${id}, with: { ${settings} }${more} }\n`

let place: Place
beforeEach(() => {
  place = makePlace(gateway({}))
  mkdirSync(join(place.folder, 'policies'))
  place.write('policies/standard.yaml', STANDARD_POLICY)
  place.write('key', 'sk-1234567890')
})
afterEach(() => place.remove())

interface Problem {
  readonly file: string
  readonly line: number
  readonly level: string
  readonly rule: string
  readonly message: string
  readonly suggestion: string | null
}
async function check(...args: string[]): Promise<{ code: number; ok: boolean; problems: Problem[] }> {
  const { code, out } = await place.tollgate(['check', '--json', ...args])
  const { ok, files } = JSON.parse(out)
  return { code, ok, problems: files[0].problems }
}

interface Row {
  readonly file?: string
  readonly policy?: string
  readonly spare?: string
  /** Another file: its name and its text. */
  readonly also?: readonly [name: string, text: string]
  readonly rule: string
  readonly says: string
}
const TELEMETRY = 'telemetry: { endpoint: "http://127.0.0.1:4318" }'
const KEYED = 'api_key: "${file:key}"'
const ROWS: Readonly<Record<string, Row>> = {
  'a policy without a route, and with a problem': {
    spare: 'steps:\n  - use: api-kee\n',
    rule: 'unknown-plugin',
    says: 'unknown plugin "api-kee" (no route names this policy)',
  },
  'the order in a policy without a route': {
    spare: 'steps:\n  - use: schema\n  - use: credits\n  - use: api-key\n',
    rule: 'order',
    says: '(no route names this policy)',
  },
  'content of traces that are not exported': {
    policy: `telemetry:\n  content: true\n${STANDARD_POLICY}`,
    rule: 'no-effect',
    says: 'no content is traced: gateway.yaml has no telemetry; add telemetry with its endpoint there, or remove this line',
  },
  'content of traces of raw routes': {
    file: gateway({ more: TELEMETRY, routes: raw('free').replace('catalog', 'raw') }),
    also: ['policies/raw.yaml', 'telemetry: { content: true }\nsteps:\n  - use: api-key\n'],
    rule: 'no-effect',
    says: 'no content is traced: no route of this policy uses a model of the catalog; remove this line',
  },
  'a cache that keeps nothing': {
    policy: inFront('  - { use: cache, with: { ttl: 0s } }\n').replace(
      '- use: credits\n  - use: route',
      '- use: credits\n  - use: route',
    ),
    rule: 'no-effect',
    says: 'with ttl 0s no answer is ever repeated',
  },
  'a cache that is too large for shared threads': {
    policy: inFront('  - { use: cache, with: { size: 1025MiB } }\n'),
    rule: 'no-effect',
    says: 'several threads use at most 1GiB of it',
  },
  'slots after the charge': {
    policy: behind(slots('few', 'per: key, limit: 2')),
    rule: 'late-limit',
    says: '"few" comes after "credits" (line 4): requests that wait or are refused here already hold money; move "few" before "schema"',
  },
  'slots of a model after the charge': {
    policy: behind(slots('few', 'per: model, limit: 2')),
    rule: 'late-limit',
    says: 'requests that wait or are refused here already hold money; move "few" before "credits"',
  },
  ...Object.fromEntries(
    [
      limit('few', 'per: account, requests: 6 per minute'),
      limit('few', 'per: address, requests: 6 per minute'),
      limit('few', 'per: key, requests: 6 per minute', ', when: \'account.plan == "default" && header("x") == ""\''),
      slots('few', 'per: address, limit: 2'),
    ].map((policy): [string, Row] => [
      `a limit that needs only the head, after the schema:${policy.trimEnd()}`,
      {
        policy: inFront(policy),
        rule: 'late-limit',
        says: '"few" comes after "schema" (line 3): requests that "schema" refuses are parsed but do not count; move "few" before "schema"',
      },
    ]),
  ),
  'requests after the schema, because of the tokens in the same step': {
    policy: inFront(limit('both', 'per: account, requests: 6 per minute, tokens: 60k per minute')),
    rule: 'late-limit',
    says: 'but do not count; split it: put a step with requests before "schema", and keep only tokens in "both"',
  },
  'a limit after tags from the body': {
    policy: inHead(
      `  - { use: tags, with: { tags: { team: { from: metadata.team, client: true } } } }\n${limit('few', 'per: key, requests: 6 per minute')}`,
    ),
    rule: 'late-limit',
    says: '"few" comes after "tags" (line 3): Tollgate reads the bodies of requests that "few" refuses; move "few" before "tags"',
  },
  'a key after tags from the body': {
    policy: STANDARD_POLICY.replace(
      '  - use: api-key\n',
      '  - { use: tags, with: { tags: { team: { from: metadata.team, client: true, values: [a] } } } }\n  - use: api-key\n',
    ),
    rule: 'late-limit',
    says: '"api-key" comes after "tags" (line 2): Tollgate reads the bodies of requests that "api-key" refuses; move "api-key" before "tags"',
  },
  'a key after the schema, and a limit that needs it': {
    policy: `steps:\n  - use: schema\n  - use: api-key\n${limit('a', 'per: account, requests: 6 per minute')}  - use: credits\n  - use: route\n`,
    rule: 'late-limit',
    says: '"api-key" comes after "schema" (line 2): Tollgate reads the bodies of requests that "api-key" refuses; move "api-key" before "schema"',
  },
  'cached input above the price of input': {
    file: gateway({ model: MODEL.replace('input: $2', 'input: $2, cached_input: $3') }),
    rule: 'odd-price',
    says: 'cached_input costs more than input',
  },
  'cached input above the cost of input': {
    file: gateway({
      model: MODEL.replace(
        'model: big',
        'model: big, cost: { per: 1M tokens, input: $1, cached_input: $2, output: $1 }',
      ),
    }),
    rule: 'odd-price',
    says: 'cached_input costs more than input',
  },
  'cached input above the price of input on a raw route': {
    file: gateway({ routes: raw('{ per: 1M tokens, input: $1, cached_input: $2 }') }),
    rule: 'odd-price',
    says: 'cached_input costs more than input',
  },
  ...Object.fromEntries(
    [
      ['1K tokens, input: $2, output: $10', 'input and output are more than $1000 for 1M tokens'],
      ['1K tokens, input: $0.80, output: $4', 'output is more than $1000 for 1M tokens; check the amount and "per"'],
      ['1K tokens, input: $0.80, cache_write: $1.01, output: $1', 'cache_write is more than $1000 for 1M tokens'],
      [
        '1M tokens, input: $0.0025, output: $0.01',
        'input is less than $0.005 for 1M tokens; check the amount and "per"',
      ],
      ['1M tokens, input: $0.0005, output: $0.0015', 'input and output are less than $0.005 for 1M tokens'],
    ].map(([per, says]): [string, Row] => [
      `amounts for another number of tokens, ${per}`,
      { file: gateway({ model: MODEL.replace(/per: .* }/, `per: ${per} }`) }), rule: 'odd-price', says: says! },
    ]),
  ),
  'a cost above the price on a raw route': {
    file: gateway({ routes: raw('{ per: 1M tokens, input: $0.00002 }') }),
    rule: 'odd-price',
    says: 'input is less than $0.005 for 1M tokens',
  },
  'a cost above the price': {
    file: gateway({
      model: MODEL.replace('model: big', 'model: big, cost: { per: 1M tokens, input: $2, output: $11 }'),
    }),
    rule: 'odd-price',
    says: "the cost is above the model's price (output)",
  },
  'a part with a price below the cost of its whole': {
    file: gateway({
      model: MODEL.replace('input: $2', 'input: $2, cached_input: $0.10').replace(
        'model: big',
        'model: big, cost: { per: 1M tokens, input: $1, output: $1 }',
      ),
    }),
    rule: 'odd-price',
    says: "the cost is above the model's price (cached_input)",
  },
  'searches without a price': {
    file: gateway({ model: MODEL.replace('max_output', 'allow: [ web_search ]\n    max_output') }),
    rule: 'odd-price',
    says: 'web_search is allowed, but the price has no web_search, so the operator pays for each search',
  },
  ...Object.fromEntries(
    ['dialect: mistral', 'dialect: openai, profile: deepseek'].map((who): [string, Row] => [
      `a cap under another name: ${who}`,
      {
        file: gateway({
          provider: `${who}, base_url: "https://llm.example.com/v1"`,
          model: MODEL.replace('model: big', 'model: big, cap_field: max_completion_tokens'),
        }),
        rule: 'no-effect',
        says: 'accepts the output cap as max_tokens',
      },
    ]),
  ),
  'a host that speaks another dialect': {
    file: gateway({ provider: `dialect: anthropic, base_url: "https://api.openai.com/v1", ${KEYED}` }),
    rule: 'other-dialect',
    says: 'the dialect of this host is not anthropic',
  },
  ...Object.fromEntries(
    [
      ['openai', 'api.openai.com/v1', 'has none; write api_key: ${NAME}'],
      ['openai', 'api.x.ai/v1', 'has none; write api_key: ${NAME}'],
      ['mistral', 'api.mistral.ai/v1', 'has none; write api_key: ${NAME}'],
      ['bedrock', 'bedrock-runtime.eu-central-1.amazonaws.com', 'has none; write aws, or api_key: ${NAME}'],
      [
        'vertex',
        'aiplatform.googleapis.com/v1/projects/p/locations/global/publishers/google',
        'has none; write service_account: ${file:PATH}',
      ],
    ].map(([dialect, url, says]): [string, Row] => [
      `no credential at ${url}`,
      {
        file: gateway({ provider: `dialect: ${dialect}, base_url: "https://${url}"` }),
        rule: 'no-credential',
        says: says!,
      },
    ]),
  ),
  'more slots than there are exchanges': {
    policy: inHead(slots('many', 'per: account, limit: 100')),
    rule: 'no-effect',
    says: '"many" never refuses: limit is 100, but limits.max_inflight is 100',
  },
  'more slots for a key than for its account': {
    policy: inHead(slots('a', 'per: account, limit: 5') + slots('b', 'per: key, limit: 5')),
    rule: 'no-effect',
    says: '"b" never refuses: the step "a" (line 3) is at least as strict',
  },
  'more requests for a key than for its account': {
    policy: inHead(
      limit('a', 'per: account, requests: 60 per minute, burst: 5') +
        limit('b', 'per: key, requests: 2 per s, burst: 9'),
    ),
    rule: 'no-effect',
    says: '"b" never refuses: the step "a" (line 3) is at least as strict',
  },
}

describe('a warning: the exit code is 0, and 1 with --strict', () => {
  test.each(Object.entries(ROWS))('%s', async (_name, { file, policy, spare, also, rule, says }) => {
    if (file) place.write('gateway.yaml', file)
    if (policy) place.write('policies/standard.yaml', policy)
    if (spare) place.write('policies/spare.yaml', spare)
    if (also) place.write(...also)
    const { code, ok, problems } = await check()
    const [warning, ...more] = problems.filter(problem => `${problem.message}; ${problem.suggestion}`.includes(says))
    expect(warning, JSON.stringify(problems)).toMatchObject({ level: 'warning', rule })
    expect(more).toEqual([])
    expect(problems.map(({ level }) => level)).not.toContain('error')
    expect({ code, ok }).toEqual({ code: 0, ok: true })
    expect(await check('--strict')).toMatchObject({
      code: 1,
      ok: false,
      problems: [expect.objectContaining({ level: 'warning' })],
    })
  })
})

describe('no warning', () => {
  test.each<[string, { file?: string; policy?: string; spare?: string }]>([
    ['of a plain configuration', {}],
    ['of a valid policy without a route', { spare: STANDARD_POLICY }],
    ['of one for raw routes', { spare: 'steps:\n  - use: api-key\n  - use: credits\n' }],
    ['of policy tests beside the policies', { spare: '' }],
    [
      'of a credential in a header',
      {
        file: gateway({
          provider: 'dialect: openai, base_url: "https://api.openai.com/v1", headers: { api-key: "${file:key}" }',
        }),
      },
    ],
    ['of a local server', { file: gateway({ provider: 'dialect: openai, base_url: "http://127.0.0.1:9/v1"' }) }],
    ['of a proxy', { file: gateway({ provider: 'dialect: anthropic, base_url: "https://llm.example.com/v1"' }) }],
    [
      'of a free model that costs',
      {
        file: gateway({
          model: MODEL.replace(/price: .*/, 'price: free').replace(
            'model: big',
            'model: big, cost: { per: 1M tokens, input: $2, output: $11 }',
          ),
        }),
      },
    ],
    [
      'of a limit after a looser one',
      {
        policy: inHead(
          limit('a', 'per: account, requests: 60 per minute') + limit('b', 'per: key, requests: 30 per minute'),
        ),
      },
    ],
    [
      'of one with a smaller burst',
      {
        policy: inHead(
          limit('a', 'per: key, requests: 60 per minute') + limit('b', 'per: key, requests: 120 per minute, burst: 9'),
        ),
      },
    ],
    ...[
      '1M tokens, input: $150, output: $600',
      '1K tokens, input: $0.15, output: $0.60',
      '1M tokens, input: $0.005, cached_input: $0.0005, output: $0.01',
      '1M tokens, input: $0, output: $0, request: $2',
    ].map((per): [string, { file: string }] => [
      `of the amounts of ${per}`,
      { file: gateway({ model: MODEL.replace(/per: .* }/, `per: ${per} }`) }) },
    ]),
    [
      'of content of traces that are exported',
      { file: gateway({ more: TELEMETRY }), policy: `telemetry: { content: true }\n${STANDARD_POLICY}` },
    ],
    ['of content that is off', { policy: `telemetry: { content: false }\n${STANDARD_POLICY}` }],
    [
      'of a loose one before a tight one',
      {
        policy: inHead(
          limit('a', 'per: key, requests: 90 per minute') + limit('b', 'per: key, requests: 60 per minute'),
        ),
      },
    ],
    [
      'after one with a condition',
      {
        policy: inHead(
          limit('a', 'per: key, requests: 6 per minute', ', when: account.plan == "default"') +
            limit('b', 'per: key, requests: 60 per minute'),
        ),
      },
    ],
    [
      'of an account after a key',
      { policy: inHead(slots('a', 'per: key, limit: 5') + slots('b', 'per: account, limit: 5')) },
    ],
    [
      'of tokens after requests',
      {
        policy: inHead(limit('a', 'per: key, requests: 6 per minute')).replace(
          '  - use: credits\n',
          `${limit('b', 'per: key, tokens: 60k per minute')}  - use: credits\n`,
        ),
      },
    ],
    ...[
      limit('a', 'per: model, requests: 6 per minute, tokens: 60k per minute'),
      limit('a', 'per: key, requests: 6 per minute, tokens: 60k per minute', ', when: chat.stream'),
      limit('a', 'per: key, requests: 6 per minute', ', when: model.priced'),
      limit('a', 'per: key, requests: 6 per minute', ', mode: shadow'),
      slots('a', 'per: model, limit: 5'),
      // These slots are acquired after the body was read.
      slots('a', 'per: everybody, limit: 5'),
    ].map((policy): [string, { policy: string }] => [
      `of what comes after the schema with reason:${policy.trimEnd()}`,
      { policy: inFront(policy) },
    ]),
  ])('%s', async (_name, { file, policy, spare }) => {
    if (file) place.write('gateway.yaml', file)
    if (policy) place.write('policies/standard.yaml', policy)
    if (spare !== undefined) place.write(spare === '' ? 'policies/standard.test.yaml' : 'policies/spare.yaml', spare)
    expect(await check('--strict')).toEqual({ code: 0, ok: true, problems: [] })
  })
})

test('a plan without accounts, once accounts exist', async () => {
  const policy = inHead(
    limit('few', 'per: key, requests: 6 per minute', ', when: \'account.plan in ["por", "default"]\''),
  )
  place.write('gateway.yaml', gateway({ more: 'store: sqlite:./ledger/t.db' }))
  place.write('policies/standard.yaml', policy)
  expect((await check()).problems).toEqual([])
  expect((await place.tollgate(['account', 'create', 'acme', '--plan', 'pro'])).code).toBe(0)
  expect((await check()).problems).toMatchObject([
    {
      rule: 'unknown-plan',
      level: 'warning',
      message: 'no account has the plan "por"',
      suggestion: 'did you mean "pro"?',
    },
    { rule: 'unknown-plan', message: 'no account has the plan "default"' },
  ])
})

describe('declared plans', () => {
  const plans = (limits: string) =>
    gateway({ more: `store: sqlite:./ledger/t.db\nplans: { pro: { limits: [ ${limits} ] } }` })
  const byPlan = (more = '') => inFront(limit('by-plan', `limits: plan${more}`))
  const tags = (name: string) => `  - { use: tags, with: { tags: { ${name}: { from: key } } } }\n`
  const TEAM = tags('team')
  const tagged = (name: string, policy = STANDARD_POLICY) =>
    policy.replace('  - use: schema\n', `${tags(name)}  - use: schema\n`)
  const behindLimit = inFront(limit('by-plan', 'limits: plan') + TEAM)
  const SHARED = 'no policy that enforces this limit sets its tag first: all requests of an account share the limit'

  test('accounts with an undeclared plan', async () => {
    place.write('gateway.yaml', gateway({ more: 'store: sqlite:./ledger/t.db' }))
    expect((await place.tollgate(['account', 'create', 'acme', '--plan', 'gold'])).code).toBe(0)
    place.write('gateway.yaml', plans(''))
    for (const args of [
      ['account', 'create', 'other', '--plan', 'por'],
      ['account', 'plan', 'acme', 'por'],
    ]) {
      const { code, err } = await place.tollgate(args)
      expect(code).toBe(1)
      expect(err).toContain('the plan "por" is not declared under plans in gateway.yaml; did you mean "pro"?')
    }
    expect((await check()).problems).toMatchObject([
      {
        rule: 'unknown-plan',
        level: 'warning',
        line: 4,
        message: 'accounts have the plan "gold", which is not declared: their requests are refused',
      },
    ])
  })

  test.each<[name: string, limits: string, policy: string, message: string]>([
    [
      'no step enforces',
      '{ per: key, requests: 6 per minute }',
      STANDARD_POLICY,
      'no policy enforces this limit of requests',
    ],
    [
      'a step enforces the other kind only',
      '{ per: key, requests: 6 per minute, tokens: 9k per minute }',
      byPlan(', only: requests'),
      'no policy enforces this limit of tokens',
    ],
    ['a step without tags enforces', '{ per: tag team, requests: 6 per minute }', byPlan(), SHARED],
    [
      'a step with other tags enforces',
      '{ per: tag team, requests: 6 per minute }',
      tagged('feature', byPlan()),
      SHARED,
    ],
    ['a step before its tag enforces', '{ per: tag team, requests: 6 per minute }', behindLimit, SHARED],
  ])('a limit that %s', async (_name, limits, policy, message) => {
    place.write('gateway.yaml', plans(limits))
    place.write('policies/standard.yaml', policy)
    expect((await check()).problems).toMatchObject([{ rule: 'no-effect', level: 'warning', message }])
  })

  test.each<[name: string, budgets: string, policy: string, isWarned: boolean]>([
    ['of accounts', 'per: account', STANDARD_POLICY, false],
    ['of a declared tag', 'per: tag team', tagged('team'), false],
    ['of a tag without a step', 'per: tag team', STANDARD_POLICY, true],
    ['of a tag that the step does not declare', 'per: tag team', tagged('feature'), true],
    ['of a tag that is set after the charge', 'per: tag team', behind(TEAM), true],
  ])('a budget %s', async (_name, per, policy, isWarned) => {
    place.write('gateway.yaml', plans('').replace('limits: [  ]', `budgets: [ { ${per}, amount: $5, every: day } ]`))
    place.write('policies/standard.yaml', policy)
    const message = 'no policy that charges sets the tag of this budget: all requests of an account share the budget'
    expect((await check()).problems).toMatchObject(isWarned ? [{ rule: 'no-effect', level: 'warning', message }] : [])
  })

  test('a limit that one step enforces for both kinds has no warning', async () => {
    place.write('gateway.yaml', plans('{ per: caller, requests: 6 per minute, tokens: 9k per minute }'))
    place.write('policies/standard.yaml', byPlan())
    expect((await check()).problems).toEqual([])
  })
})

test('a configuration with errors has no warnings', async () => {
  place.write('gateway.yaml', gateway({ provider: 'dialect: anthropic, base_uri: "https://api.openai.com/v1"' }))
  place.write('policies/spare.yaml', 'steps:\n  - use: api-kee\n')
  const { code, problems } = await check()
  expect(code).toBe(1)
  expect(problems.map(({ level }) => level)).toEqual(problems.map(() => 'error'))
})

test('each format has the level', async () => {
  place.write('policies/standard.yaml', behind(slots('few', 'per: key, limit: 2')))
  const { code, out } = await place.tollgate(['check'])
  expect(code).toBe(0)
  expect(out).toMatch(/^policies\/standard\.yaml:5:12: warning: "few" comes after "credits" \(line 4\).*\n {3}5 \| /m)
  expect(out).toMatch(/^OK: 1 provider, 1 model, 5 routes \(4 derived\), 1 warning$/m)
  expect((await place.tollgate(['check', '--strict'])).code).toBe(1)
  const github = (await place.tollgate(['check', '--format', 'github'])).out
  expect(github).toMatch(/^::warning file=policies\/standard\.yaml,line=5,col=\d+,title=tollgate%3A late-limit::/m)
  expect(github).toMatch(/^1 configuration: no problems, 1 warning$/m)
  const [run] = JSON.parse((await place.tollgate(['check', '--format', 'sarif', '--strict'])).out).runs
  expect(run.results).toMatchObject([{ ruleId: 'late-limit', level: 'warning' }])
  expect(run.invocations[0].exitCode).toBe(1)
  const rule = run.tool.driver.rules[run.results[0].ruleIndex]
  expect(rule).toMatchObject({ id: 'late-limit', defaultConfiguration: { level: 'warning' } })
})

const NOTED =
  /^gateway\.yaml:5:\d+: note: an answer without a finish reason from this provider is an error; write missing_finish: stop/m
describe('a provider at an unknown host without missing_finish', () => {
  const without = (provider: string) => gateway({ provider }).replace(', missing_finish: error', '')
  const OWN = 'dialect: openai, base_url: "https://llm.example.com/v1"'

  test('is a note in each format, which --strict does not count', async () => {
    place.write('gateway.yaml', without(OWN))
    const { code, out } = await place.tollgate(['check', '--strict'])
    expect({ code, out }).toEqual({ code: 0, out: expect.stringMatching(NOTED) })
    expect(out).toMatch(/^OK: 1 provider, 1 model, 5 routes \(4 derived\)$/m)
    expect(await check('--strict')).toMatchObject({
      code: 0,
      ok: true,
      problems: [{ level: 'note', rule: 'missing-finish' }],
    })
    const github = (await place.tollgate(['check', '--strict', '--format', 'github'])).out
    expect(github).toMatch(/^::notice file=gateway\.yaml,line=5,col=\d+,title=tollgate%3A missing-finish::/m)
    expect(github).toMatch(/^1 configuration: no problems$/m)
    const [run] = JSON.parse((await place.tollgate(['check', '--format', 'sarif', '--strict'])).out).runs
    expect(run.results).toMatchObject([{ ruleId: 'missing-finish', level: 'note' }])
    expect(run.invocations[0].exitCode).toBe(0)
    const rule = run.tool.driver.rules[run.results[0].ruleIndex]
    expect(rule).toMatchObject({ id: 'missing-finish', defaultConfiguration: { level: 'note' } })
  })

  test.each([
    ['if it is set to error', `${OWN}, missing_finish: error`],
    ['if it is set to stop', `${OWN}, missing_finish: stop`],
    ['of a well-known host', `dialect: openai, base_url: "https://api.openai.com/v1", ${KEYED}`],
    ['of Ollama', 'dialect: ollama, base_url: "http://127.0.0.1:11434"'],
    ['of the demo provider', 'dialect: demo'],
  ])('is absent %s', async (_name, provider) => {
    place.write('gateway.yaml', without(provider))
    expect(await check('--strict')).toEqual({ code: 0, ok: true, problems: [] })
  })
})
