/** Values that models with `auto` take from the price lists, and warnings about these lists. */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, test } from 'vitest'
import { cost, type Model, ruleFor } from '#contract'
import { loadConfiguration } from '../../src/config/load.ts'
import { sentence } from '../../src/config/yaml/problem.ts'
import { ENV, openWorkshop, registry } from './workshop.ts'

const workshop = openWorkshop()
afterAll(() => workshop.close())

const PROVIDERS = `providers:
  demo: { dialect: demo }
  openai: { dialect: openai, base_url: https://api.openai.com/v1, api_key: "\${FAR_KEY}" }
  azure: { dialect: azure, base_url: https://acme.openai.azure.com/openai/v1, api_key: "\${FAR_KEY}" }
  anthropic: { dialect: anthropic, base_url: https://api.anthropic.com/v1, api_key: "\${FAR_KEY}" }
  bedrock: { dialect: bedrock, base_url: https://bedrock-runtime.eu-central-1.amazonaws.com, api_key: "\${FAR_KEY}" }
  gemini: { dialect: gemini, base_url: https://generativelanguage.googleapis.com/v1beta, api_key: "\${FAR_KEY}" }
  proxy: { dialect: openai, profile: openrouter, base_url: https://models.example.com/v1, api_key: "\${FAR_KEY}" }`

async function modelsOf(models: string) {
  const configuration = await workshop.good({ gateway: { providers: PROVIDERS, models: `models:\n${models}` } })
  return { ...configuration, model: (id: string) => configuration.models.get(id)! }
}
const dollars = ({ price }: Model, unit: 'input' | 'output', input = 0) =>
  Number(ruleFor(price!, unit, input)!.nanos) / 1e9

test('price, cost, sizes and reasoning of one model', async () => {
  const { model, origins } = await modelsOf(
    '  m: { targets: [ { provider: openai, model: gpt-5-mini } ], price: auto }',
  )
  expect(model('m')).toMatchObject({ context: 400_000, maxOutput: 128_000, defaultOutput: 128_000, reasoning: true })
  expect(model('m').targets[0]!.cost).toEqual(model('m').price)
  expect([dollars(model('m'), 'input'), dollars(model('m'), 'output')]).toEqual([0.25, 2])
  expect(origins.get('m')).toMatchObject({
    price: { source: 'genai-prices 0.1.8 of 2026-09-23' },
    context: 'genai-prices 0.1.8',
    maxOutput: 'family',
    reasoning: 'family',
  })
})

test('values in gateway.yaml override those of the price list', async () => {
  const { model, origins } = await modelsOf(`  m:
    targets: [ { provider: openai, model: gpt-5-mini, cost: { per: 1M tokens, input: $9, output: $9 } } ]
    price: auto
    context: 100k
    max_output: 10k
    default_output: 1k
    reasoning: false
  hand:
    targets: [ { provider: openai, model: gpt-5-mini, cost: auto } ]
    price: { per: 1M tokens, input: $1, output: $3 }
    context: auto
    max_output: auto
    reasoning: auto`)
  expect(model('m')).toMatchObject({ context: 100_000, maxOutput: 10_000, defaultOutput: 1000, reasoning: false })
  expect(dollars(model('m'), 'input')).toBe(9)
  expect(origins.get('m')!.context).toBe('gateway.yaml')
  expect(model('hand')).toMatchObject({ context: 400_000, maxOutput: 128_000, reasoning: true })
  expect(dollars(model('hand'), 'output')).toBe(3)
  expect(Number(model('hand').targets[0]!.cost![0]!.nanos)).toBe(250_000_000)
  expect(origins.get('hand')!.price).toBeNull()
})

test('with several targets, the price has the highest rate of each unit, the sizes are the smallest, each target has its own cost', async () => {
  const { model } = await modelsOf(`  m:
    targets:
      - { provider: openai, model: gpt-4o }
      - { provider: anthropic, model: claude-haiku-4-5 }
      - { provider: azure, model: our-deployment, base_model: gpt-4o-mini }
      - { provider: demo, model: tiny, cost: { per: 1M tokens, input: $3, output: $1 } }
    price: auto`)
  const m = model('m')
  expect([dollars(m, 'input'), dollars(m, 'output')]).toEqual([3, 10])
  expect(m).toMatchObject({ context: 128_000, maxOutput: 16_384, reasoning: true })
  const costs = m.targets.map(target => cost({ input: 1_000_000, output: 1_000_000 }, target.cost!).total / 10n ** 7n)
  expect(costs).toEqual([1250n, 600n, 75n, 400n])
  expect(m.targets.map(({ model: name }) => name)).toContain('our-deployment')
})

describe('wildcards', () => {
  test('become a model for each fitting model of the list; of two wildcards that fit, the longer one counts', async () => {
    const { models, model, aliases } =
      await modelsOf(`  "*": { targets: [ { provider: openai, model: "*" } ], price: auto, owned_by: us }
  "gpt-5*": { targets: [ { provider: openai, model: "gpt-5*" } ], price: auto, public: false }
  gpt-5-nano: { targets: [ { provider: demo, model: tiny } ], price: free, context: 8Ki, max_output: 1Ki }
  small: { targets: [ { provider: demo, model: tiny } ], price: free, context: 8Ki, max_output: 1Ki, aliases: [ gpt-4o ] }
  claude/*: { targets: [ { provider: anthropic, model: "claude-*" } ], price: auto }`)
    expect(model('gpt-4.1')).toMatchObject({ ownedBy: 'us', public: true, wildcard: '*' })
    expect(model('gpt-5-mini')).toMatchObject({ public: false, wildcard: 'gpt-5*' })
    expect(model('gpt-5-nano').price).toBeNull()
    expect(model('gpt-5-nano').wildcard).toBeUndefined()
    expect(models.has('gpt-4o')).toBe(false)
    expect(aliases.get('gpt-4o')).toBe('small')
    expect(model('claude/opus-5').targets[0]).toMatchObject({ model: 'claude-opus-5', id: 'anthropic/claude-opus-5' })
    expect([...models.keys()].filter(id => id.includes('*'))).toEqual([])
  })

  test('at Bedrock have the model ids of the area of the region, with their own prices', async () => {
    const { models, model } = await modelsOf('  "*": { targets: [ { provider: bedrock, model: "*" } ], price: auto }')
    const sonnet = 'anthropic.claude-sonnet-4-5-20250929-v1:0'
    expect([dollars(model(`global.${sonnet}`), 'input'), dollars(model(`eu.${sonnet}`), 'input')]).toEqual([3, 3.3])
    expect(models.has(`us.${sonnet}`)).toBe(false)
    expect(models.has('eu.amazon.nova-pro-v1:0')).toBe(true)
    expect([...models.keys()].filter(id => !id.includes('.'))).toEqual([])
  })

  test('with two targets have the models of both; each model has only the targets that offer it', async () => {
    const { model } = await modelsOf(`  "x/*":
    targets: [ { provider: openai, model: "*" }, { provider: proxy, model: openai/*, priority: 2 } ]
    price: auto`)
    expect(model('x/gpt-5').targets.map(({ id }) => id)).toEqual(['openai/gpt-5', 'proxy/openai/gpt-5'])
    expect(model('x/gpt-3.5-turbo-0301').targets.map(({ id }) => id)).toEqual(['openai/gpt-3.5-turbo-0301'])
  })
})

describe('warnings', () => {
  const folder = mkdtempSync(join(tmpdir(), 'tollgate-auto-'))
  afterAll(() => rmSync(folder, { recursive: true }))

  async function warnings(models: string, today: string, more = '', list = '') {
    const text = `version: 1\n${more}\n${PROVIDERS}\nmodels:\n${models}\nroutes:\n  - { path: /v1/chat/completions, policy: standard }\n`
    const files: Readonly<Record<string, string>> = {
      'gateway.yaml': text,
      'prices.json': list,
      'policies/standard.yaml': 'steps: [ { use: api-key }, { use: schema }, { use: credits }, { use: route } ]\n',
      'policies/catalog.yaml': 'steps: [ { use: api-key } ]\n',
    }
    const result = await loadConfiguration(join(folder, 'gateway.yaml'), {
      env: ENV,
      registry: registry(),
      warn: {},
      today: new Date(`${today}T12:00:00Z`),
      readFile: async path => {
        const found = files[path.slice(folder.length + 1)]
        if (found === undefined) throw Object.assign(new Error('ENOENT'), { code: 'ENOENT' })
        return found
      },
    })
    if ('problems' in result) throw new Error(result.problems.map(sentence).join('\n'))
    const shown = result.warnings.filter(({ rule }) => rule !== 'missing-finish' && rule !== 'late-limit')
    return shown.map(warning => `${warning.line} ${warning.rule} ${sentence(warning)}`)
  }
  const OTHER = '\n  n: { targets: [ { provider: demo, model: tiny } ], price: free, context: 8Ki, max_output: 1Ki }'
  const auto = (model: string, more = '') => `  m: { targets: [ { provider: ${model} } ], price: auto${more} }`
  const listOf = (row: object) =>
    JSON.stringify({ _tollgate: { date: '2026-08-01' }, 'gpt-5': { litellm_provider: 'openai', ...row } })

  test('a model that ends within 90 days, with its successor', async () => {
    const ends = auto('openai, model: gpt-5', ', deprecation: { date: 2027-02-26, successor: n }') + OTHER
    expect(await warnings(ends, '2026-11-28')).toEqual([
      '12 model-ends the provider turns off m on 2027-02-26 (its successor is n); move its clients to another model',
    ])
    expect(await warnings(ends, '2026-11-27')).toEqual([])
    expect((await warnings(ends, '2027-02-26'))[0]).toContain('the provider turns off m on 2027-02-26')
    expect((await warnings(ends, '2027-02-27'))[0]).toContain('the provider turned off m on 2027-02-26')
  })

  test('ending models of a wildcard are one warning, and so are changing prices and an old list', async () => {
    const list = listOf({
      deprecation_date: '2026-12-24',
      mode: 'chat',
      input_cost_per_token: 1e-6,
      output_cost_per_token: 1e-5,
    })
    const wildcard = '  "gpt-5*": { targets: [ { provider: openai, model: "gpt-5*" } ], price: auto }'
    expect(await warnings(wildcard, '2026-11-28', 'catalog: prices.json', list)).toEqual([
      '2 old-prices the price list is 119 days old (2026-08-01); tollgate prices update --from FILE|URL writes a newer one',
      '12 model-ends the provider turns off gpt-5 on 2026-12-24; move its clients to another model',
    ])
    const gemini = '  "gemini-3*": { targets: [ { provider: gemini, model: "gemini-3*" } ], price: auto }'
    expect(await warnings(gemini, '2026-11-28')).toEqual([
      '12 old-prices the price list has a new price for gemini-3.6-flash on 2027-01-01, gemini-3.7-flash on 2027-01-01 and gemini-3.8-flash on 2027-01-01; reload Tollgate on that day',
    ])
  })

  test('a price of a wildcard below the list, or below the cost, is one warning', async () => {
    const wildcard = (more: string) =>
      `  "x/gpt-4*": { targets: [ { provider: openai, model: "gpt-4*"${more} } ], price: { per: 1M tokens, input: $1, output: $5 }, context: auto, max_output: auto }`
    for (const more of ['', ', cost: auto']) {
      expect(await warnings(wildcard(more), '2026-11-28')).toEqual([
        expect.stringMatching(
          /^12 odd-price the price is below the cost, or below the price list, of x\/gpt-4, x\/gpt-4-\S+, x\/gpt-4-\S+ and \d+ more; raise it/,
        ),
      ])
    }
  })

  test('audio at the price of text', async () => {
    const sound = (model: string) => warnings(auto(`openai, model: ${model}`, ', allow: [ audio ]'), '2026-11-28')
    expect(await sound('gpt-audio')).toEqual([])
    expect(await sound('gpt-4o')).toEqual([
      expect.stringContaining(
        'audio is allowed, but the price has no input_audio and output_audio: audio costs as much as text',
      ),
    ])
  })

  test('a successor in the list is shown as the configured model that has it as its target', async () => {
    const list = listOf({
      deprecation_date: '2026-12-24',
      successor_model: 'gpt-5.1',
      mode: 'chat',
      input_cost_per_token: 1e-6,
      output_cost_per_token: 1e-5,
    })
    const found = await warnings(
      '  "x/gpt-5*": { targets: [ { provider: openai, model: "gpt-5*" } ], price: auto }',
      '2026-11-28',
      'catalog: prices.json',
      list,
    )
    expect(found[1]).toContain('turns off x/gpt-5 on 2026-12-24 (its successor is x/gpt-5.1)')
    const alone = await warnings(auto('openai, model: gpt-5'), '2026-11-28', 'catalog: prices.json', list)
    expect(alone[1]).toContain('turns off m on 2026-12-24 (its successor is gpt-5.1)')
  })

  test('the built-in list is old after a year', async () => {
    expect(await warnings(auto('openai, model: gpt-5'), '2027-09-20')).toEqual([])
    expect(await warnings(auto('openai, model: gpt-5'), '2027-09-25')).toEqual([
      '12 old-prices the built-in price list is from 2026-09-23; update Tollgate, or write a list with tollgate prices update',
    ])
  })

  test('a price below that of the list, without a configured cost', async () => {
    const hand = (target: string) =>
      `  m: { targets: [ { provider: openai, model: gpt-5${target} } ], price: { per: 1M tokens, input: $1, output: $20 }, context: 8Ki, max_output: 1Ki }`
    expect(await warnings(hand(''), '2026-11-28')).toEqual([
      '12 odd-price the price is below that of openai/gpt-5 in the price list (input; genai-prices 0.1.8 of 2026-09-23); raise it, or write your cost at target 1',
    ])
    expect(await warnings(hand(', cost: { per: 1M tokens, input: $0.50, output: $2 }'), '2026-11-28')).toEqual([])
    expect(await warnings(hand(', cost: auto'), '2026-11-28')).toEqual([
      "12 odd-price the cost is above the model's price (input), so the operator pays the difference; raise the price, or remove this target",
    ])
  })

  test.each([
    [
      'a deployment with a name of its own',
      'azure, model: acme-1, base_model: gpt-5',
      '{ per: 1M tokens, input: $1, output: $20 }',
      'azure/gpt-5 in the price list (input; ',
    ],
    [
      'long prompts',
      'gemini, model: gemini-2.5-pro',
      '{ per: 1M tokens, input: $1.25, output: $10 }',
      'gemini/gemini-2.5-pro in the price list (input above 200000 tokens and output above 200000 tokens; ',
    ],
  ])('the same for %s', async (_, target, price, says) => {
    const hand = (context: string) =>
      `  m: { targets: [ { provider: ${target} } ], price: ${price}, context: ${context}, max_output: 1Ki }`
    expect(await warnings(hand('1Mi'), '2026-11-28')).toEqual([
      expect.stringContaining(`12 odd-price the price is below that of ${says}`),
    ])
    // No prompt is longer than the context.
    expect(await warnings(hand('200000'), '2026-11-28')).toHaveLength(says.includes('above') ? 0 : 1)
  })
})
