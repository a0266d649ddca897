import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import fc from 'fast-check'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { ceiling, formatMoney, type Model, parseMoney, plainPrice, searchBounds } from '#contract'
import { holdFor } from '../../plugins/credits/hold.ts'
import { anyChat, anyModel, anyPrice, model, target } from '../../plugins/credits/test-samples.ts'
import { exposureOf, LOSSES, type Loss } from '../../src/cli/exposure-figures.ts'
import type { Configuration } from '../../src/config/configuration.ts'
import { CONFIGURATION, makePlace, type Place, STANDARD_POLICY } from './helpers.ts'

const PROVIDERS = `version: 1
limits: { max_inflight: 100, body: 1MiB }
providers:
  far: { dialect: openai, base_url: "https://api.example.com/v1", timeouts: { total: 1m } }
`
const MODEL = `models:
  dear:
    targets:
      - { provider: far, model: big, cost: { per: 1M tokens, input: $2, output: $12 }, reasoning_outside_cap: 1000 }
      - { provider: far, model: small, cost: { per: 1M tokens, input: $1, output: $5 } }
    price: { per: 1M tokens, input: $2, cache_write: $3, output: $10, request: $0.01 }
    context: 100000
    max_output: 5000
`
const CHAT = 'routes:\n  - { path: /v1/chat/completions, policy: standard }\n'
const REAL = PROVIDERS + MODEL + CHAT

let place: Place
const tollgate = (...args: readonly string[]) => place.tollgate(args)
beforeEach(() => {
  place = makePlace(REAL)
  mkdirSync(join(place.folder, 'policies'))
  place.write('policies/standard.yaml', STANDARD_POLICY)
})
afterEach(() => place.remove())

async function exposureJson() {
  const { out, err } = await tollgate('exposure', '--json')
  expect(err).toBe('')
  return JSON.parse(out)
}

test('a configuration with problems has no exposure', async () => {
  place.write('gateway.yaml', REAL.replace('max_output', 'max_outpt'))
  const { code, out, err } = await tollgate('exposure')
  expect({ code, out }).toEqual({ code: 1, out: '' })
  expect(err).toContain('max_outpt')
  expect(err).toContain('The exposure of a configuration with problems is unknown.')
})

describe('as a check with a limit', () => {
  // 100000 x $3/1M + 128 x (5000 + 1000) x $10/1M + $0.01
  const HOLD = '7.99'
  test.each<[name: string, args: string[], code: number, sentence: string]>([
    ['a hold of exactly the limit', ['--max-hold', HOLD], 0, ''],
    [
      'a limit that is a nano-dollar lower',
      ['--max-hold', '7.989999999'],
      1,
      'A hold of the model dear can be $7.99, but $7.989999999 is',
    ],
    [
      'a loss of the margin',
      ['--max-house-loss', '$1.53', '--losses', 'margin'],
      1,
      'dear can cost the operator $1.536 in one exchange (margin), but $1.53 is allowed',
    ],
    ['exactly the limit', ['--max-house-loss', '$1.536', '--losses', 'margin'], 0, ''],
    // 3 x (100000 x $2/1M + 128 x 100000 x $12/1M); each kind by itself is less.
    ['all kinds of loss: exactly the limit', ['--max-house-loss', '461.40'], 0, ''],
    [
      'all kinds of loss: each is below the limit, their sum is above',
      ['--max-house-loss', '461.399999999'],
      1,
      'dear can cost the operator $461.40 in one exchange (margin, overrun, unpaid together), but $461.399999999 is allowed: far/big: 3 attempts x (context 100000 x $2/1M highest input price + 128 choices x context 100000 x $12/1M output)',
    ],
    ['both', ['--max-hold', '100', '--max-house-loss', '1000'], 0, ''],
    ['no dollars', ['--max-hold', 'much'], 2, "option '--max-hold <dollars>' argument 'much' is invalid"],
    ['an unknown kind of loss', ['--losses', 'mragin'], 2, '"mragin" is not one of margin, overrun, unpaid, unpriced'],
  ])('%s', async (_name, args, code, sentence) => {
    const result = await tollgate('exposure', ...args)
    expect(result.code, result.err).toBe(code)
    if (sentence) expect(result.err).toContain(sentence)
    else expect(result.err).toBe('')
  })

  test('an unbounded loss exceeds every limit', async () => {
    place.write(
      'gateway.yaml',
      REAL.replace('max_output: 5000', 'max_output: 5000\n    allow: [service_tier, web_search]'),
    )
    const { code, err } = await tollgate('exposure', '--max-house-loss', '1000000')
    expect(code).toBe(1)
    expect(err).toContain('allows service_tier, web_search: its cost for the operator has no bound')
    expect((await tollgate('exposure', '--max-house-loss', '1000000', '--losses', 'margin,unpaid')).code).toBe(0)
    expect(JSON.parse((await tollgate('exposure', '--json', '--max-house-loss', '1000000')).out)).toMatchObject({
      ok: false,
      exceeded: [expect.stringContaining('service_tier')],
    })
  })
})

test('a search is bounded if its price and its cost are known', async () => {
  const priced = REAL.replaceAll('output: $12', 'output: $12, web_search: $0.02')
    .replaceAll('output: $5 }', 'output: $5, web_search: $0.02 }')
    .replace('request: $0.01', 'request: $0.01, web_search: $0.01')
    .replace('max_output: 5000', 'max_output: 5000\n    allow: [web_search]')
  place.write('gateway.yaml', priced)
  const [model] = (await exposureJson()).models
  expect(model.unpriced).toEqual([])
  // One search of a request: $0.01 for customers, $0.02 for the operator.
  expect(model.largest_hold.amount).toBe(formatMoney(parseMoney('8')))
  expect(model.margin.amount).toBe(formatMoney(parseMoney('1.546')))
  place.write('gateway.yaml', priced.replace('dialect: openai', 'dialect: anthropic').replaceAll('5000', '20000'))
  const [native] = (await exposureJson()).models
  // Ten passes of the whole context, each up to the cap: 10 x 100000 x $3/1M + 10 x 21000 x $10/1M.
  expect(native.largest_hold).toMatchObject({
    amount: formatMoney(parseMoney('5.21')),
    formula:
      '10 passes x context 100000 x $3/1M highest input price + 10 passes x (max_output 20000 + reasoning_outside_cap 1000) x $10/1M output + $0.01 a request + 10 searches x $0.01',
  })
})

test('the figures of a model, each with its formula', async () => {
  const { models, largest_hold, open_holds, overdraft } = await exposureJson()
  expect(models).toHaveLength(1)
  expect(models[0]).toMatchObject({
    id: 'dear',
    largest_hold: {
      amount: '7.990000000',
      formula:
        'context 100000 x $3/1M highest input price + 128 choices x (max_output 5000 + reasoning_outside_cap 1000) x $10/1M output + $0.01 a request',
    },
    outside_cap: { amount: '1.280000000' },
    // 768000 x $2/1M: the output of big costs $12, and customers pay $10.
    margin: { amount: '1.536000000', formula: expect.stringContaining('far/big, cost above price') },
    // 100000 x $2/1M + 128 x (100000 - 1 - 1000) x $12/1M
    overrun: { amount: '152.262464000', formula: expect.stringContaining('98999 beyond a cap of 1') },
    // 3 x (100000 x $2/1M + 768000 x $12/1M)
    unpaid: { amount: '28.248000000', formula: expect.stringContaining('far/big: 3 attempts x (') },
    unpriced: [],
    remarks: [],
  })
  expect(largest_hold).toMatchObject({ amount: '7.990000000', of: 'model dear' })
  expect(open_holds).toMatchObject({ amount: '799.000000000' })
  expect(overdraft.amount).toBe('0.000000000')
})

describe('the worst exchange is the sum of the chosen kinds of loss', () => {
  test.each<[losses: string, amount: string]>([
    ['unpriced', '0'],
    ['margin', '1.536'],
    ['overrun', '152.262464'],
    ['unpaid', '28.248'],
    // The 128 x 1001 tokens that the customer pays for cost $2/1M more than their price.
    ['margin,overrun', '152.51872'],
    ['margin,unpaid', '28.248'],
    ['overrun,unpaid', '461.4'],
    ['margin,overrun,unpaid,unpriced', '461.4'],
  ])('%s', async (losses, amount) => {
    const { out } = await tollgate('exposure', '--json', '--losses', losses)
    expect(JSON.parse(out).models[0].worst_exchange.amount).toBe(formatMoney(parseMoney(amount)))
  })

  test.each<[attempts: number, amount: string]>([
    [1, '153.8'],
    [10, '1538'],
  ])('with %i attempts', async (attempts, amount) => {
    place.write(
      'policies/standard.yaml',
      STANDARD_POLICY.replace('  - use: route', `  - { use: route, with: { attempts: ${attempts} } }`),
    )
    expect((await exposureJson()).models[0].worst_exchange.amount).toBe(formatMoney(parseMoney(amount)))
  })

  test('the price of a request itself counts too', async () => {
    place.write('gateway.yaml', REAL.replaceAll('output: $12', 'output: $12, request: $1'))
    expect((await exposureJson()).models[0].worst_exchange.amount).toBe(formatMoney(parseMoney('464.4')))
    const { out } = await tollgate('exposure', '--json', '--losses', 'margin,overrun')
    // The operator pays $1 more than the $0.01 of the customer.
    expect(JSON.parse(out).models[0].worst_exchange.amount).toBe(formatMoney(parseMoney('153.50872')))
  })

  test('it is at least as large as each loss, and as that of fewer kinds', () => {
    fc.assert(
      fc.property(
        anyModel,
        anyPrice,
        anyPrice,
        fc.subarray([...LOSSES]),
        fc.subarray([...LOSSES]),
        fc.boolean(),
        (...drawn) => {
          const [model, price, cost, some, others, searches] = drawn
          const search = searches ? { allow: ['web_search'], searches: ['anthropic'] } : {}
          const targets = model.targets.map(target => ({ ...target, cost }))
          const configuration = {
            models: new Map([[model.id, { ...model, ...search, targets, price, enabled: true }]]),
            providers: new Map(),
            routes: [],
            limits: { maxInflight: 1 },
          } as unknown as Configuration
          const of = (losses: readonly Loss[]) => exposureOf(configuration, losses).models[0]!
          const few = of(some)
          for (const kind of some) {
            if (kind !== 'unpriced') expect(few.worstExchange.amount >= few[kind].amount).toBe(true)
          }
          expect(of([...some, ...others]).worstExchange.amount >= few.worstExchange.amount).toBe(true)
        },
      ),
    )
  })
})

test('tokens sold below cost and tokens beyond the cap are rounded together', () => {
  const drawn = model({
    context: 16_384,
    price: [],
    targets: [target({ cost: plainPrice({ output: 18_113_157_718_751n }) })],
  })
  const configuration = {
    models: new Map([[drawn.id, drawn]]),
    providers: new Map(),
    routes: [],
    limits: { maxInflight: 1 },
  } as unknown as Configuration
  // 128 x 16384 x $18113.157718751 / 1M
  const most = (128n * 16_384n * 18_113_157_718_751n + 999_999n) / 1_000_000n
  expect(exposureOf(configuration, ['margin', 'overrun']).models[0]!.worstExchange.amount).toBe(most)
})

test('no hold of the step credits is larger than the largest hold', () => {
  fc.assert(
    fc.property(anyChat, anyModel, anyPrice, (chat, model, price) => {
      // A request has one such tool.
      fc.pre(searchBounds(chat.body).most <= 10)
      const priced: Model = { ...model, price, enabled: true, allow: ['web_search'], searches: ['anthropic'] }
      const configuration = {
        models: new Map([[model.id, priced]]),
        providers: new Map(),
        routes: [],
        limits: { maxInflight: 1 },
      } as unknown as Configuration
      const { amount } = exposureOf(configuration).models[0]!.largestHold
      // A request with Anthropic's search has one choice.
      const choices = searchBounds(chat.body).passes > 1 ? 1 : Math.min(chat.choices, 128)
      const cap = Math.min(chat.cap, model.maxOutput)
      expect(holdFor({ ...chat, choices }, priced, price, cap) <= amount).toBe(true)
      // One request reaches the bound: a picture counts as the whole context, a search as ten times that.
      const picture = [
        { role: 'user', content: [{ type: 'image_url', image_url: { url: 'https://example.com/a.png' } }] },
      ]
      const body = { ...chat.body, messages: picture, tools: [], web_search_options: {} }
      const search = { type: 'anthropic', anthropic: { type: 'web_search_20250305', name: 'web_search' } }
      const worst = [
        { ...chat, choices: 128, body },
        { ...chat, choices: 1, body: { ...body, tools: [search] } },
      ].map(each => holdFor(each as typeof chat, priced, price, model.maxOutput))
      expect(worst.reduce((most, each) => (each > most ? each : most))).toBe(amount)
    }),
  )
})

describe('missing values count as the worst case', () => {
  test('a target without a cost costs as much as customers pay; the demo costs nothing', async () => {
    place.write('gateway.yaml', REAL.replace(/, cost: \{[^}]*\}/g, ''))
    const [model] = (await exposureJson()).models
    expect(model.margin.amount).toBe('0.000000000')
    expect(model.unpaid.amount).toBe(formatMoney(3n * parseMoney('7.99')))
    expect(model.remarks).toEqual([
      'far/big has no "cost": assumed to equal the price of dear',
      'far/small has no "cost": assumed to equal the price of dear',
    ])
    place.write('gateway.yaml', CONFIGURATION)
    expect((await exposureJson()).models[0]).toMatchObject({
      unpaid: { amount: '0.000000000' },
      overrun: { amount: '0.000000000' },
    })
    expect((await tollgate('exposure', '--max-house-loss', '0')).code).toBe(0)
  })

  test('a free model holds nothing, and its cost is that of its targets', async () => {
    place.write('gateway.yaml', REAL.replace(/price: \{ per.*request.*\}/, 'price: free'))
    const [model] = (await exposureJson()).models
    expect(model.largest_hold.amount).toBe('0.000000000')
    const price = plainPrice({
      input: parseMoney('2'),
      cached_input: parseMoney('2'),
      cache_write: parseMoney('2'),
      output: parseMoney('12'),
      request: 0n,
    })
    const most = ceiling({ input: 100_000, output: 768_000 }, price).total
    expect(model.margin.amount).toBe(formatMoney(most))
  })

  test('a disabled model is skipped', async () => {
    place.write(
      'gateway.yaml',
      REAL.replace('  dear:', `  off:\n${MODEL.split('\n').slice(2).join('\n')}    enabled: false\n  dear:`),
    )
    expect((await exposureJson()).models.map(({ id }: { id: string }) => id)).toEqual(['dear'])
  })
})

describe('exchanges at the same time', () => {
  const withSteps = (steps: string) => STANDARD_POLICY.replace('  - use: credits\n', `${steps}  - use: credits\n`)
  test.each<[name: string, steps: string, key: number, account: number, remark: string]>([
    ['max_inflight alone', '', 100, 100, ''],
    [
      'requests of a key',
      '  - { use: rate-limit, with: { per: key, requests: 30 per minute, burst: 5 } }\n',
      49,
      100,
      '',
    ],
    [
      'requests of an account',
      '  - { use: rate-limit, with: { per: account, requests: 12 per minute } }\n',
      29,
      29,
      '',
    ],
    ['of each model', '  - { use: rate-limit, with: { per: model, requests: 10 per minute } }\n', 24, 24, ''],
    [
      'of an address: an account may have many',
      '  - { use: rate-limit, with: { per: address, requests: 1 per minute } }\n',
      100,
      100,
      '',
    ],
    ['tokens', '  - { use: rate-limit, with: { per: key, tokens: 1k per minute } }\n', 100, 100, 'it counts tokens'],
    [
      'requests of plans',
      '  - { use: rate-limit, with: { limits: plan, only: requests } }\n',
      100,
      100,
      'it enforces the limits of plans, which differ',
    ],
    [
      'with a condition',
      '  - { use: rate-limit, when: account.plan == "free", with: { per: key, requests: 1 per minute } }\n',
      100,
      100,
      'it does not run on every request',
    ],
    [
      'in shadow mode',
      '  - { use: rate-limit, mode: shadow, with: { per: key, requests: 1 per minute } }\n',
      100,
      100,
      'it does not run on every request',
    ],
    [
      'two: the tighter one counts',
      '  - { use: rate-limit, id: a, with: { per: key, requests: 9 per minute } }\n  - { use: rate-limit, id: b, with: { per: account, requests: 7 per minute } }\n',
      17,
      17,
      '',
    ],
  ])('%s', async (_name, steps, key, account, remark) => {
    place.write('policies/standard.yaml', withSteps(steps))
    const [policy] = (await exposureJson()).policies
    expect([policy.key.at_once, policy.account.at_once]).toEqual([key, account])
    expect(policy.account.open_holds.amount).toBe(formatMoney(BigInt(account) * parseMoney('7.99')))
    if (remark) expect(policy.remarks).toEqual([expect.stringContaining(remark)])
    else expect(policy.remarks).toEqual([])
  })

  test.each<[per: string, key: number, account: number]>([
    ['key', 4, 100],
    ['account', 4, 4],
    ['everybody', 4, 4],
    ['address', 100, 100],
  ])('slots of the plugin concurrency, per %s', async (per, key, account) => {
    place.write('policies/standard.yaml', withSteps(`  - { use: concurrency, with: { per: ${per}, limit: 4 } }\n`))
    const [policy] = (await exposureJson()).policies
    expect([policy.key.at_once, policy.account.at_once]).toEqual([key, account])
  })

  test('a limit after the step that charges bounds no holds', async () => {
    place.write(
      'policies/standard.yaml',
      STANDARD_POLICY.replace(
        '  - use: route',
        '  - { use: rate-limit, with: { per: key, requests: 1 per minute } }\n  - use: route',
      ),
    )
    const [policy] = (await exposureJson()).policies
    expect(policy.key.at_once).toBe(100)
    expect(policy.remarks).toEqual([
      'the step "rate-limit" does not count as a bound: it comes after the step that charges',
    ])
  })
})

test('unmetered routes and raw routes', async () => {
  place.write('policies/open.yaml', 'steps:\n  - use: schema\n  - use: route\n')
  place.write('policies/raw.yaml', 'steps:\n  - use: api-key\n  - use: credits\n')
  const raw = (path: string, rest: string) => `  - { path: ${path}, kind: raw, policy: raw, provider: far, ${rest} }\n`
  place.write(
    'gateway.yaml',
    `${REAL}  - { path: /open/v1/chat/completions, policy: open, public: true, unmetered: true }
${raw('/v1/embeddings', 'price: { per: 1M tokens, input: $0.10 }')}${raw('/v1/speech', 'price: { request: $0.04 }')}${raw('/v1/images', 'price: { per: 1M tokens, input: $1, output: $40 }, hold: $9')}${raw('/v1/files', 'price: free')}`,
  )
  const { policies, largest_hold } = await exposureJson()
  const [standard, open, bytes] = policies
  expect(standard).toMatchObject({ name: 'standard', charged: true, unbounded: [] })
  expect(open).toMatchObject({
    charged: false,
    account: { open_holds: { amount: '0.000000000' } },
    unbounded: ['/open/v1/chat/completions does not charge (unmetered): the operator pays everything'],
    remarks: ['/open/v1/chat/completions is public: anyone, without a key'],
  })
  expect(bytes.raw).toEqual([
    {
      path: '/v1/embeddings',
      hold: { amount: '0.104857600', formula: expect.stringContaining('limits.body 1048576 bytes') },
      unpaid: null,
    },
    { path: '/v1/speech', hold: { amount: '0.040000000', formula: 'the price of a request' }, unpaid: null },
    {
      path: '/v1/images',
      hold: { amount: '9.000000000', formula: '"hold" of the route' },
      unpaid: { amount: '9.000000000', formula: expect.stringContaining('"hold" of the route') },
    },
    { path: '/v1/files', hold: null, unpaid: null },
  ])
  expect(bytes.unbounded).toEqual([
    expect.stringMatching(/^\/v1\/embeddings is raw with a price and without "hold": it charges only prompt tokens/),
    '/v1/speech is raw and charges $0.04 for each answer: the operator pays anything billed beyond that',
    expect.stringContaining('/v1/files is raw and free'),
  ])
  expect(bytes.remarks).toEqual([expect.stringContaining('/v1/images is raw: its "hold" is assumed to be the maximum')])
  expect(largest_hold).toMatchObject({ amount: '9.000000000', of: 'route /v1/images' })
  const { code, err } = await tollgate('exposure', '--max-hold', '8')
  expect(code).toBe(1)
  expect(err).toContain('A hold of the route /v1/images can be $9')
  expect((await tollgate('exposure', '--max-house-loss', '1000')).err).toContain('/v1/files is raw and free')
})

describe('a public route is open to anyone', () => {
  const PUBLIC = '/v1/chat/completions is public: anyone, without a key'
  const keyStep = { id: 'api-key', plugin: { name: 'api-key', gives: ['key'] }, when: null, mode: 'enforce' }
  test.each<[name: string, steps: object[], remarks: string[]]>([
    ['when no step asks for a key', [], [PUBLIC]],
    ['but not if one always does', [{ ...keyStep, onError: 'refuse' }], []],
    ['when it is skipped after an error', [{ ...keyStep, onError: 'skip' }], [PUBLIC]],
    ['when it is in shadow mode', [{ ...keyStep, onError: 'refuse', mode: 'shadow' }], [PUBLIC]],
  ])('%s', (_name, steps, remarks) => {
    const route = { path: '/v1/chat/completions', kind: 'chat', policy: 'p', public: true, steps: { steps } }
    const configuration = { models: new Map(), providers: new Map(), routes: [route], limits: { maxInflight: 1 } }
    expect(exposureOf(configuration as unknown as Configuration).policies[0]!.remarks).toEqual(remarks)
  })
})

describe('a raw route with a price counts by its hold', () => {
  const images = (hold: string) => {
    place.write('policies/raw.yaml', 'steps:\n  - use: api-key\n  - use: credits\n')
    const route = `{ path: /v1/images, kind: raw, policy: raw, provider: far, price: { per: 1M tokens, input: $1, output: $40 }, hold: ${hold} }`
    place.write('gateway.yaml', `${REAL}  - ${route}\n`)
  }
  test.each<[name: string, hold: string, args: string[], sentence: string]>([
    ['exactly the limit', '$470', ['470'], ''],
    [
      'more',
      '$470.01',
      ['470'],
      'The route /v1/images can cost the operator $470.01 in one exchange (unpaid), but $470 is allowed: one attempt within the "hold" of the route',
    ],
    ['above the limit, if only margins count', '$470.01', ['470', '--losses', 'margin,unpriced'], ''],
  ])('%s', async (_name, hold, args, sentence) => {
    images(hold)
    const { code, err } = await tollgate('exposure', '--max-house-loss', ...args)
    expect(err.trim()).toBe(sentence)
    expect(code).toBe(sentence === '' ? 0 : 1)
  })
})

describe('the number of choices is bounded by the dialects of the model', () => {
  const dialects = ['anthropic', 'gemini', 'openai', 'mistral', 'bedrock']
  test.each<[targets: string[], choices: number]>([
    [['anthropic'], 1],
    [['bedrock', 'anthropic'], 1],
    [['gemini'], 8],
    [['anthropic', 'gemini'], 8],
    [['gemini', 'mistral'], 128],
    [['openai'], 128],
  ])('%j: %i', async (targets, choices) => {
    const providers = dialects.map(
      dialect => `  ${dialect}: { dialect: ${dialect}, base_url: "https://${dialect}.example.com/v1" }\n`,
    )
    const listed = targets.map(provider => `{ provider: ${provider}, model: x }`).join(', ')
    place.write(
      'gateway.yaml',
      `version: 1\nproviders:\n${providers.join('')}models:\n  m:\n    targets: [${listed}]\n    price: { per: 1M tokens, input: $0, output: $10 }\n    context: 100000\n    max_output: 5000\n${CHAT}`,
    )
    const [model] = (await exposureJson()).models
    expect(model.largest_hold.amount).toBe(formatMoney(BigInt(choices) * parseMoney('0.05')))
    expect(model.unpaid.formula).toContain(`${choices * 5000} tokens of output`)
  })
})

test('as text: tables, a legend, and the formulas on request', async () => {
  const { code, out } = await tollgate('exposure')
  expect(code).toBe(0)
  expect(out).toMatch(/^MODEL +LARGEST HOLD +MARGIN +OVERRUN +UNPAID +WORST +UNPRICED$/m)
  expect(out).toMatch(/^dear +\$7\.99 +\$1\.536 +\$152\.262464 +\$28\.248 +\$461\.40$/m)
  expect(out).toMatch(/^standard +yes +100 +100 +\$799 +\$799 +\/v1\/chat\/completions$/m)
  expect(out).toContain('largest single hold            $7.99 (model dear)')
  expect(out).not.toContain('= context')
  expect((await tollgate('exposure', '--explain')).out).toContain(
    'largest hold: $7.99 = context 100000 x $3/1M highest input price',
  )
  const { out: margin } = await tollgate('exposure', '--explain', '--losses', 'margin')
  expect(margin).toContain('worst exchange: $1.536 = far/big, cost above price')
})
