/** Lists and their order: the operator's, the built-in one, the family of the name, the default. */
import { describe, expect, test } from 'vitest'
import { ruleFor, type Unit } from '#contract'
import { loadPriceCatalog } from '../../src/catalog/price-catalog.ts'
import { readPriceList } from '../../src/catalog/price-list.ts'
import { listSource } from '../../src/config/price-lists.ts'
import { formatProblem } from '../../src/config/yaml/problem.ts'
import { vendorNamed, vendorOf } from '../../src/providers/dialects/vendors.ts'

const TODAY = new Date('2026-11-28T12:00:00Z')
const OPENAI = vendorNamed('openai')!

const LITELLM = {
  _tollgate: { date: '2026-11-20', from: 'https://prices.example.com/list.json' },
  sample_spec: { litellm_provider: 'one of many', input_cost_per_token: 0 },
  'gpt-5': {
    litellm_provider: 'openai',
    mode: 'chat',
    max_input_tokens: 272_000,
    max_output_tokens: 128_000,
    input_cost_per_token: 0.00000125,
    input_cost_per_token_flex: 6.25e-7,
    input_cost_per_token_priority: 0.0000025,
    input_cost_per_token_batches: 6.25e-7,
    input_cost_per_token_above_200k_tokens: 0.0000015,
    input_cost_per_token_above_200k_tokens_priority: 0.000003,
    cache_read_input_token_cost: 1.25e-7,
    cache_creation_input_token_cost: 0.0000015,
    cache_creation_input_token_cost_above_1hr: 0.000002,
    cache_creation_input_token_cost_above_1hr_above_200k_tokens: 0.000003,
    output_cost_per_token: 0.00001,
    output_cost_per_reasoning_token: 0.000012,
    input_cost_per_audio_token: 0.00004,
    search_context_cost_per_query: { search_context_size_low: 0.03, search_context_size_high: 0.05 },
    file_search_cost_per_1k_calls: 0.0025,
    output_cost_per_video_second: 0.1,
    odd_cost_of_something: 3,
    supports_reasoning: true,
    deprecation_date: '2027-01-15',
    successor_model: 'openai/gpt-5.1',
  },
  'openai/gpt-new': {
    litellm_provider: 'openai',
    mode: 'chat',
    input_cost_per_token: 1e-6,
    output_cost_per_token: 2e-6,
  },
  'gpt-ended': {
    litellm_provider: 'openai',
    mode: 'chat',
    input_cost_per_token: 1e-6,
    output_cost_per_token: 2e-6,
    input_cost_per_token_cache_hit: 1e-7,
    deprecation_date: '2026-11-27',
  },
  'text-embedder': { litellm_provider: 'openai', mode: 'embedding', input_cost_per_token: 2e-8 },
  'vertex_ai/claude-next@20270101': {
    litellm_provider: 'vertex_ai-anthropic_models',
    mode: 'chat',
    input_cost_per_token: 3e-6,
    output_cost_per_token: 1.5e-5,
  },
  'bedrock/us-east-1/meta.llama-9': {
    litellm_provider: 'bedrock_converse',
    mode: 'chat',
    input_cost_per_token: 3e-6,
    output_cost_per_token: 1.5e-5,
  },
}
const MODELS_DEV = {
  openai: {
    id: 'openai',
    models: {
      'gpt-5': {
        reasoning: true,
        modalities: { input: ['text'], output: ['text'] },
        cost: { input: 1.25, output: 10, cache_read: 0.125, context_over_200k: { input: 2.5, output: 15 }, odd: 4 },
        limit: { context: 400_000, output: 128_000 },
      },
      'gpt-old': { status: 'deprecated', cost: { input: 1, output: 2 }, limit: { context: 8192, output: 4096 } },
      'gpt-painter': { modalities: { output: ['image'] }, cost: { input: 1, output: 2 } },
    },
  },
}

test.each(['KEY=sk-secret-of-a-file', '{ "private_key": "sk-secret-of-a-file" }', '["sk-secret-of-a-file", x]'])(
  'of a text that is not a price list, no line is shown: %s',
  text => {
    const { problems } = readPriceList('keys.env', text)
    expect(problems).toHaveLength(1)
    expect(JSON.stringify(problems)).not.toContain('secret')
    const source = listSource('keys.env', text, new Set(problems))!
    const shown = source.problems.map(problem => formatProblem(problem, text)).join('')
    expect(shown).toMatch(/^keys\.env:1:1: this price list /)
    expect(shown).not.toContain('secret')
  },
)

async function catalogOf(list: object | null, accept: readonly string[] = []) {
  return loadPriceCatalog(list === null ? null : readPriceList('prices.json', JSON.stringify(list)), accept, TODAY)
}

describe("LiteLLM's format", () => {
  test('prices by unit, length and tier; sizes, reasoning, the end; and the built-in list for the rest', async () => {
    const { price, ...model } = (await catalogOf(LITELLM)).find(OPENAI, 'GPT-5')!
    expect(model).toMatchObject({
      source: 'prices.json of 2026-11-20',
      date: '2026-11-20',
      context: { value: 400_000, source: 'genai-prices 0.1.8' },
      maxOutput: { value: 128_000, source: 'prices.json' },
      reasoning: { value: true, source: 'prices.json' },
      deprecation: { date: '2027-01-15', successor: 'gpt-5.1' },
      uncounted: ['odd_cost_of_something'],
      problems: [],
    })
    const dollars = (unit: Unit, input = 0, tier?: 'flex' | 'priority' | 'batch') => {
      const rule = ruleFor(price!, unit, input, tier)!
      return Number(rule.nanos) / 1e9
    }
    expect(dollars('input')).toBe(1.25)
    expect(dollars('input', 200_001)).toBe(1.5)
    expect(dollars('input', 0, 'flex')).toBe(0.625)
    expect(dollars('input', 0, 'batch')).toBe(0.625)
    expect(dollars('input', 0, 'priority')).toBe(2.5)
    expect(dollars('input', 200_001, 'priority')).toBe(3)
    expect(dollars('cached_input')).toBe(0.125)
    expect(dollars('cache_write')).toBe(1.5)
    expect(dollars('cache_write_1h')).toBe(2)
    expect(dollars('cache_write_1h', 200_001)).toBe(3)
    expect(dollars('output')).toBe(10)
    expect(dollars('reasoning')).toBe(12)
    expect(dollars('input_audio')).toBe(40)
    expect(dollars('search')).toBe(0.05)
    expect(price!.every(rule => rule.source === 'prices.json of 2026-11-20')).toBe(true)
  })

  test('a model with its provider before its name, and those of the clouds', async () => {
    const catalog = await catalogOf(LITELLM)
    expect(catalog.find(OPENAI, 'gpt-new')!.price).toHaveLength(2)
    expect(catalog.find(vendorNamed('vertex')!, 'claude-next@20270101')!.price).toHaveLength(2)
    expect(catalog.find(vendorNamed('bedrock')!, 'us-east-1/meta.llama-9')!.price).toHaveLength(2)
    const ids = catalog.ids(OPENAI, 'openai')
    expect(ids).toContain('gpt-new')
    expect(ids).toContain('gpt-4o')
    expect(ids).not.toContain('text-embedder')
    // A model that is off is not offered, and can still be named.
    expect(ids).not.toContain('gpt-ended')
    expect(ruleFor(catalog.find(OPENAI, 'gpt-ended')!.price!, 'cached_input')!.nanos).toBe(100_000_000n)
    expect(ids).not.toContain('sample_spec')
  })
})

describe("models.dev's format", () => {
  test('prices, steps, sizes, reasoning and models that ended', async () => {
    const catalog = await catalogOf(MODELS_DEV)
    const model = catalog.find(OPENAI, 'gpt-5')!
    expect(model).toMatchObject({
      context: { value: 400_000, source: 'prices.json' },
      maxOutput: { value: 128_000, source: 'prices.json' },
      reasoning: { value: true },
      uncounted: ['odd'],
    })
    expect(ruleFor(model.price!, 'output', 200_001)!.nanos).toBe(15_000_000_000n)
    // Without a day of its own a list is named by a digest of its text.
    expect(model.source).toMatch(/^prices\.json \([0-9a-f]{8}\)$/)
    expect(model.date).toBeNull()
    expect(catalog.find(OPENAI, 'gpt-old')!.deprecation).toEqual({ date: null, successor: null })
    expect(catalog.ids(OPENAI, 'openai')).not.toContain('gpt-painter')
  })
})

test('what no list says comes from the family of the name, or is a default', async () => {
  const catalog = await catalogOf(null)
  expect(catalog.find(OPENAI, 'gpt-5')).toMatchObject({
    source: 'genai-prices 0.1.8 of 2026-09-23',
    context: { value: 400_000, source: 'genai-prices 0.1.8' },
    maxOutput: { value: 128_000, source: 'family' },
    reasoning: { value: true, source: 'family' },
  })
  expect(catalog.find(vendorNamed('together')!, 'Gryphe/MythoMax-L2-13b')).toMatchObject({
    context: { value: 131_072, source: 'default' },
    maxOutput: { value: 8192, source: 'default' },
    reasoning: { value: false, source: 'default' },
  })
  expect(catalog.find(OPENAI, 'gpt-3.5-turbo')!.maxOutput).toEqual({ value: 4096, source: 'family' })
  expect(catalog.find(OPENAI, 'no-such-model')).toBeNull()
  expect(catalog.find(vendorNamed('ollama')!, 'llama3')).toBeNull()
  expect(catalog.nearest(OPENAI, 'gtp-5-mini')).toBe('gpt-5-mini')
})

test.each([
  [0, 10, true],
  [1.25, 0, true],
  [12.6, 10, true],
  [0.1249, 10, true],
  [12.5, 10, false],
  [0.125, 100, false],
  [1.25, 100.01, true],
])(
  '$%d and $%d for a million where the built-in list has $1.25 and $10: refused %s',
  async (input, output, isRefused) => {
    const list = { openai: { models: { 'gpt-5': { cost: { input, output } } } } }
    const problems = (await catalogOf(list)).find(OPENAI, 'gpt-5')!.problems
    expect(problems.length > 0).toBe(isRefused)
    expect((await catalogOf(list, ['openai/gpt-5'])).find(OPENAI, 'gpt-5')!.problems).toEqual([])
  },
)

test.each([
  ['gemini', 'gemini-2.5-pro', 'claude-opus-5'],
  ['vertex', 'gemini-2.5-pro', 'claude-opus-5'],
  ['vertex-anthropic', 'claude-opus-5', 'gemini-2.5-pro'],
] as const)('of a vendor with models of several makers, %s asks %s and not %s', async (dialect, one, other) => {
  const vendor = vendorOf({ dialect, baseUrl: 'http://127.0.0.1:1' })!
  const ids = (await catalogOf(null)).ids(vendor, dialect)
  expect(ids).toContain(one)
  expect(ids).not.toContain(other)
})

test.each([
  [{ dialect: 'openai', baseUrl: 'https://api.openai.com/v1' }, 'openai'],
  [{ dialect: 'openai', profile: 'openai', baseUrl: 'http://127.0.0.1:4000/v1' }, 'openai'],
  [{ dialect: 'openai', baseUrl: 'http://127.0.0.1:4000/v1' }, undefined],
  [{ dialect: 'openai', baseUrl: 'https://openrouter.ai/api/v1' }, 'openrouter'],
  [{ dialect: 'anthropic', baseUrl: 'https://api.z.ai/api/anthropic/v1' }, 'zai'],
  [{ dialect: 'anthropic', baseUrl: 'http://127.0.0.1:4000/v1' }, 'anthropic'],
  [{ dialect: 'bedrock-invoke', baseUrl: 'http://127.0.0.1:4000' }, 'bedrock'],
  [{ dialect: 'azure', baseUrl: 'https://acme.services.ai.azure.com/models' }, 'azure-foundry'],
  [{ dialect: 'demo', baseUrl: '' }, undefined],
] as const)('%o buys from %s', (provider, name) => {
  expect(vendorOf(provider)?.name).toBe(name)
})

describe('prices by the length of the prompt', () => {
  const tier = (input: number, output: number) => ({ input_cost_per_token: input, output_cost_per_token: output })
  test.each([
    [
      'tiered_pricing of LiteLLM',
      {
        'gpt-5': {
          litellm_provider: 'openai',
          mode: 'chat',
          tiered_pricing: [
            { ...tier(1e-6, 8e-6), range: [0, 256_000] },
            { ...tier(2e-6, 16e-6), range: [256_000, 1_000_000], odd_cost: 1 },
          ],
          off_peak_pricing: { input_cost_per_token: 1e-7 },
          empty_pricing: {},
        },
      },
      ['odd_cost', 'off_peak_pricing'],
    ],
    [
      'tiers of models.dev',
      {
        openai: {
          models: {
            'gpt-5': {
              cost: {
                input: 1,
                output: 8,
                tiers: [{ input: 2, output: 16, tier: { type: 'context', size: 256_000 } }],
                odd: { input: 3 },
                none: {},
              },
            },
          },
        },
      },
      ['odd'],
    ],
  ])('%s', async (_, list, uncounted) => {
    const model = (await catalogOf(list)).find(OPENAI, 'gpt-5')!
    expect(model).toMatchObject({ uncounted, problems: [] })
    const rates = [0, 256_000, 256_001].map(input =>
      (['input', 'output'] as const).map(unit => Number(ruleFor(model.price!, unit, input)!.nanos) / 1e9),
    )
    expect(rates).toEqual([
      [1, 8],
      [1, 8],
      [2, 16],
    ])
  })

  test.each([
    ['by results', { tiered_pricing: [{ ...tier(1e-6, 1e-6), max_results_range: [0, 25] }] }, 'tiered_pricing'],
    ['as a map', { tiered_pricing: { input: 1 } }, 'tiered_pricing'],
  ])('tiers of another form are not counted: %s', async (_, more, name) => {
    const list = { 'gpt-5': { litellm_provider: 'openai', mode: 'chat', ...tier(1.25e-6, 1e-5), ...more } }
    const model = (await catalogOf(list)).find(OPENAI, 'gpt-5')!
    expect(model).toMatchObject({ uncounted: [name], problems: [] })
    expect(model.price).toHaveLength(2)
  })

  test('tiers of models.dev by the hour are not counted', async () => {
    const cost = { input: 1, output: 8, tiers: [{ input: 2, tier: { type: 'hour', size: 12 } }] }
    const model = (await catalogOf({ openai: { models: { 'gpt-5': { cost } } } })).find(OPENAI, 'gpt-5')!
    expect(model).toMatchObject({ uncounted: ['tiers'] })
    expect(model.price).toHaveLength(2)
  })

  test('prices for long prompts alone are not a price', async () => {
    const list = {
      'gpt-new': {
        litellm_provider: 'openai',
        input_cost_per_token_above_200k_tokens: 1e-6,
        output_cost_per_token_above_200k_tokens: 1e-6,
      },
    }
    expect((await catalogOf(list)).find(OPENAI, 'gpt-new')!.price).toBeNull()
  })
})

test('a model for videos, with a price of a second in place of one of a token, is not a mistake', async () => {
  const list = {
    'video-1': {
      litellm_provider: 'openai',
      mode: 'chat',
      output_cost_per_token: 1e-6,
      input_cost_per_video_per_second: 1,
    },
  }
  expect((await catalogOf(list)).find(OPENAI, 'video-1')).toMatchObject({ price: null, problems: [] })
})

test('rows of one model with one price are not a mistake', async () => {
  const row = { litellm_provider: 'openai', mode: 'chat', input_cost_per_token: 1e-6, output_cost_per_token: 2e-6 }
  const catalog = await catalogOf({ 'gpt-new': row, 'openai/GPT-new': { ...row, max_output_tokens: 77 } })
  expect(catalog.find(OPENAI, 'gpt-new')).toMatchObject({ problems: [], maxOutput: { value: 77 } })
})

describe('a price of 0 or tenfold, under any condition', () => {
  const ordinary = { input_cost_per_token: 1.25e-6, output_cost_per_token: 1e-5 }
  test.each([
    ['gpt-5', { input_cost_per_token_above_200k_tokens: 0 }, 'input above 200000 tokens of openai/gpt-5 is free'],
    ['gpt-5', { output_cost_per_token_priority: 0 }, 'output (priority) of openai/gpt-5 is free'],
    ['gpt-5', { output_cost_per_reasoning_token: 0 }, 'reasoning of openai/gpt-5 is free'],
    ['gpt-5', { cache_read_input_token_cost: 0 }, 'cached_input of openai/gpt-5 is free in the price list, and $0.125'],
    ['gpt-5', { cache_read_input_token_cost: 1e-8 }, 'cached_input of openai/gpt-5 costs $0.010000000 for 1M tokens'],
    ['gpt-5', { output_cost_per_token_flex: 2e-4 }, 'output (flex) of openai/gpt-5 costs $200.000000000 for 1M tokens'],
    ['gpt-new', { output_cost_per_token: 0 }, 'output of openai/gpt-new is free in the price list'],
    ['gpt-new', { output_cost_per_reasoning_token: 0 }, 'reasoning of openai/gpt-new is free in the price list'],
    // Zeros for what a provider does not sell.
    ['gpt-5', { cache_creation_input_token_cost: 0 }, null],
    ['gpt-new', { cache_read_input_token_cost: 0, cache_creation_input_token_cost: 0 }, null],
    ['gpt-5', { input_cost_per_token_flex: 6.25e-7, cache_read_input_token_cost: 1.25e-7 }, null],
  ])('%s with %o: %s', async (name, more, says) => {
    const list = { [name]: { litellm_provider: 'openai', mode: 'chat', ...ordinary, ...more } }
    const messages = (await catalogOf(list)).find(OPENAI, name)!.problems.map(({ message }) => message)
    if (says === null) expect(messages).toEqual([])
    else expect(messages).toEqual([expect.stringContaining(says)])
    expect((await catalogOf(list, [`openai/${name}`])).find(OPENAI, name)!.problems).toEqual([])
  })

  test('a price without a step where the built-in list has a far dearer one', async () => {
    const list = {
      gemini: { models: {} },
      google: { models: { 'gemini-2.5-pro': { cost: { input: 0.2, output: 10 } } } },
    }
    const messages = (await catalogOf(list)).find(vendorNamed('gemini')!, 'gemini-2.5-pro')!.problems
    expect(messages.map(({ message }) => message)).toEqual([
      'input of gemini/gemini-2.5-pro costs $0.200000000 for 1M tokens in the price list, and $2.500000000 in the built-in one',
    ])
  })
})

test('the models of wildcards: those with mistakes too, without names of regions and names that no request can have', async () => {
  const row = (provider: string, more: object = {}) => ({
    litellm_provider: provider,
    mode: 'chat',
    input_cost_per_token: 1e-6,
    output_cost_per_token: 2e-6,
    ...more,
  })
  const long = 'x'.repeat(201)
  const catalog = await catalogOf({
    'gpt-broken': row('openai', { output_cost_per_token: -1 }),
    'gpt-free': row('openai', { input_cost_per_token: 0, output_cost_per_token: 0 }),
    'gpt with blanks': row('openai'),
    [long]: row('openai'),
    'azure/eu/gpt-next': row('azure'),
    'azure/gpt-next': row('azure'),
    'bedrock/eu-west-1/meta.llama-9': row('bedrock'),
    'bedrock/*/1-month-commitment/meta.llama-9': row('bedrock'),
    'openrouter/meta/llama-9': row('openrouter'),
  })
  const own = (vendor: string, dialect: 'openai' | 'azure' | 'bedrock') =>
    catalog.ids(vendorNamed(vendor)!, dialect).filter(id => /^gpt-(broken|free)|blanks|xx|gpt-next|llama-9/.test(id))
  expect(own('openai', 'openai')).toEqual(['gpt-broken'])
  expect(own('azure', 'azure')).toEqual(['gpt-next'])
  expect(own('bedrock', 'bedrock')).toEqual([])
  expect(own('openrouter', 'openai')).toEqual(['meta/llama-9'])
  expect(catalog.find(vendorNamed('bedrock')!, 'eu-west-1/meta.llama-9')!.price).toHaveLength(2)
  expect(catalog.find(OPENAI, long)!.maxOutput.source).toBe('default')
})

test.each([
  [{}, { value: true, source: 'family' }],
  [{ supports_reasoning: false }, { value: false, source: 'prices.json' }],
  [{ supports_reasoning: true }, { value: true, source: 'prices.json' }],
])('reasoning of a row with %o is %o', async (more, reasoning) => {
  const row = { litellm_provider: 'openai', mode: 'chat', input_cost_per_token: 1e-6, output_cost_per_token: 1e-5 }
  expect((await catalogOf({ 'gpt-5': { ...row, ...more } })).find(OPENAI, 'gpt-5')!.reasoning).toEqual(reasoning)
})

test.each([
  ['gemini', 'gemini-2.5-pro', 1_048_576],
  ['groq', 'llama-3.3-70b-versatile', 131_072],
  ['openai', 'gpt-4.5-preview', 128_000],
])(
  'the context of %s/%s, which the built-in list does not have, is that of its family',
  async (vendor, model, value) => {
    const found = (await catalogOf(null)).find(vendorNamed(vendor)!, model)!
    expect(found.context).toEqual({ value, source: 'family' })
  },
)
