import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { loadPriceCatalog } from '../../src/catalog/price-catalog.ts'
import { problemsOf } from '../../src/cli/import.ts'
import { importLitellm } from '../../src/cli/import-litellm/index.ts'
import { filesOf, summary } from '../../src/cli/import-litellm/render.ts'
import { makePlace, type Place } from './helpers.ts'

const catalog = await loadPriceCatalog(null, [], new Date('2026-11-28'))

interface ModelYaml {
  readonly targets: readonly Readonly<Record<string, unknown>>[]
  readonly price: unknown
  readonly [key: string]: unknown
}

/** Imports a text and checks that the gateway would load the result. */
async function importText(text: string) {
  const made = importLitellm(text, 'x.yaml', { catalog, list: null, unpriced: 'disable' })
  const { providers, models } = made.gateway as { providers: Record<string, object>; models: Record<string, ModelYaml> }
  expect(await problemsOf(filesOf(made, 'x.yaml', made.commands), made)).toEqual([])
  return { ...made, providers: Object.values(providers), models }
}

const row = (name: string, params: string, more = '') =>
  `  - { model_name: "${name}", litellm_params: { ${params} }${more} }\n`
const listOf = (...rows: readonly string[]) => `model_list:\n${rows.join('')}`

describe('an address', () => {
  test.each<[params: string, provider: object, model: string]>([
    [
      'model: acme/chat, api_base: "https://llm.acme.example/v1", api_key: os.environ/ACME_KEY',
      { dialect: 'openai', base_url: 'https://llm.acme.example/v1', api_key: '${ACME_KEY}' },
      'chat',
    ],
    ['model: Qwen/Qwen3-8B, api_base: "https://a.example/v1"', { dialect: 'openai' }, 'Qwen/Qwen3-8B'],
    ['model: my-model, api_base: "https://a.example/v1"', { dialect: 'openai' }, 'my-model'],
    [
      'model: github/gpt-4.1-mini',
      { base_url: 'https://models.inference.ai.azure.com', api_key: '${GITHUB_API_KEY}' },
      'gpt-4.1-mini',
    ],
    ['model: cerebras/gpt-oss-120b', { base_url: 'https://api.cerebras.ai/v1' }, 'gpt-oss-120b'],
    [
      'model: "cloudflare/@cf/openai/gpt-oss-120b"',
      { base_url: 'https://api.cloudflare.com/client/v4/accounts/${CLOUDFLARE_ACCOUNT_ID}/ai/v1' },
      '@cf/openai/gpt-oss-120b',
    ],
    [
      'model: openai/qwen3.6, api_base: "http://qwen3.6:8000/v1"',
      { base_url: 'http://qwen3-6:8000/v1', allow_insecure: true },
      'qwen3.6',
    ],
    ['model: ollama/a, api_base: "ollama:11434"', { base_url: 'http://ollama:11434', allow_insecure: true }, 'a'],
    ['model: ollama/a, api_base: "http://127.0.0.1:11434"', { base_url: 'http://127.0.0.1:11434' }, 'a'],
    ['model: ollama/a, api_base: os.environ/OLLAMA', { base_url: '${OLLAMA}', allow_insecure: true }, 'a'],
    [
      'model: vertex_ai/gemini-2.5-flash, api_base: "https://generativelanguage.googleapis.com/"',
      { dialect: 'gemini', base_url: 'https://generativelanguage.googleapis.com/v1beta' },
      'gemini-2.5-flash',
    ],
  ])('%s', async (params, provider, model) => {
    const { providers, models } = await importText(listOf(row('a', params)))
    expect(providers).toEqual([expect.objectContaining(provider)])
    expect(models['a']!.targets[0]).toMatchObject({ model })
    expect(providers[0]!).toHaveProperty('base_url')
    const isPlain = Object.hasOwn(provider, 'allow_insecure')
    expect(Object.hasOwn(providers[0]!, 'allow_insecure')).toBe(isPlain)
  })

  test('an unknown provider without an address is dropped if there are others', async () => {
    const { models, remarks } = await importText(listOf(row('a', 'model: acme/chat'), row('b', 'model: openai/gpt-4o')))
    expect(Object.keys(models)).toEqual(['b'])
    expect(remarks).toContainEqual(expect.objectContaining({ kind: 'lost', what: 'acme/chat' }))
  })

  test('if all providers are unknown, their address is a variable', async () => {
    const { providers } = await importText(listOf(row('a', 'model: acme/chat')))
    expect(providers).toEqual([{ dialect: 'openai', base_url: '${ACME_API_BASE}', allow_insecure: true }])
  })
})

describe('a variable', () => {
  test.each<[where: string, params: string, written: object]>([
    ['the key', 'model: openai/a, api_key: "${KEY}"', { api_key: '${KEY}' }],
    ['a key with a default', 'model: openai/a, api_key: "${KEY:-none}"', { api_key: '${KEY}' }],
    ['a required key', 'model: openai/a, api_key: "${KEY:?required}"', { api_key: '${KEY}' }],
    [
      'a part of the address',
      'model: azure/gpt-4o, api_base: "https://os.environ/RESOURCE.openai.azure.com", api_version: 2024-10-21',
      { base_url: 'https://${RESOURCE}.openai.azure.com' },
    ],
    [
      'a part of a header',
      'model: openai/a, extra_headers: { Authorization: "Bearer os.environ/TOKEN" }',
      { headers: { Authorization: 'Bearer ${TOKEN}' } },
    ],
    ['the version', 'model: azure/gpt-4o, api_version: os.environ/VERSION', { api_version: '${VERSION}' }],
    [
      'the host after a password, which is not copied',
      'model: openai/a, api_base: "https://user:pass@os.environ/HOST/v1?key=secret"',
      { base_url: 'https://${HOST}/v1' },
    ],
  ])('is %s', async (_where, params, written) => {
    const { providers } = await importText(listOf(row('a', params), row('b', 'model: ollama/b')))
    expect(providers[0]).toMatchObject(written)
  })

  test('names the model and the id that clients send', async () => {
    const params = 'model: os.environ/MODEL, api_base: os.environ/BASE, api_key: os.environ/KEY'
    const { models } = await importText(listOf(row('os.environ/NAME', params)))
    expect(models).toMatchObject({ NAME: { targets: [{ model: '${MODEL}' }], aliases: ['${NAME}'] } })
  })

  test.each(['rpm', 'max_tokens', 'timeout', 'input_cost_per_token', 'max_parallel_requests'])(
    'cannot be a number (%s), and a remark says so',
    async key => {
      const { remarks } = await importText(listOf(row('a', `model: openai/gpt-4o, ${key}: os.environ/NUMBER`)))
      const path = `model_list[0].litellm_params.${key}`
      expect(remarks).toContainEqual(expect.objectContaining({ path, kind: 'yours', why: 'a number is a variable' }))
    },
  )
})

describe('a price', () => {
  const free = { price: 'free' }
  test.each<[what: string, text: string, model: object]>([
    ['of a private server', row('a', 'model: hosted_vllm/x, api_base: "http://vllm:8000/v1"'), free],
    ['of an unknown host', row('a', 'model: openai/x, api_base: "https://llm.acme.example/v1"'), free],
    [
      'that LiteLLM has for a proxy of a vendor',
      row('a', 'model: openai/gpt-4o, api_base: "https://proxy.acme.example/v1"'),
      { price: { per: '1M tokens', input: '$2.50', cached_input: '$1.25', output: '$10' }, context: 128_000 },
    ],
    [
      'that another vendor of the model has',
      row('a', 'model: github/gpt-4o'),
      { price: { per: '1M tokens', input: '$2.50', cached_input: '$1.25', output: '$10' } },
    ],
    [
      'that another vendor has, at an unknown host',
      row('a', 'model: custom/gpt-4o-mini, api_base: "https://llm.acme.example/v1"'),
      { price: { per: '1M tokens', input: '$0.15', output: '$0.60' } },
    ],
    [
      'in the file, with sizes of the catalog',
      row('a', 'model: openai/gpt-4o, input_cost_per_token: 1e-6, output_cost_per_token: 2e-6'),
      {
        price: { per: '1M tokens', input: '$1', output: '$2' },
        context: 'auto',
        max_output: 'auto',
        reasoning: 'auto',
      },
    ],
    [
      'of two vendors and a private server',
      row('a', 'model: openai/gpt-4o') + row('a', 'model: groq/llama-3.3-70b-versatile') + row('a', 'model: ollama/x'),
      { price: 'auto', targets: [{ provider: 'openai' }, { provider: 'groq' }, { provider: 'ollama', cost: 'free' }] },
    ],
    [
      'of a known and an unknown model of commercial vendors',
      row('a', 'model: openai/gpt-4o') + row('a', 'model: groq/unheard-of'),
      { price: { input: '$2.50', output: '$10' }, targets: [{ cost: 'auto' }, { provider: 'groq' }] },
    ],
  ])('%s', async (_what, text, model) => {
    const { models } = await importText(listOf(text))
    expect(models['a']).toMatchObject(model)
    expect(models['a']).not.toHaveProperty('enabled')
  })
})

describe('a model without a price at a host', () => {
  const known = row('known', 'model: openai/gpt-4o')
  const at = (base: string) => row('a', `model: openai/unheard-of, api_base: "${base}"`)

  test.each([
    ['http://203.0.113.5/v1'],
    ['http://vllm:8000/v1'],
    ['https://vllm:8000/v1'],
    ['https://localhost:8000/v1'],
    ['https://127.0.0.1/v1'],
    ['https://[::1]/v1'],
    ['https://[fd00::5]/v1'],
    ['https://10.1.2.3/v1'],
    ['https://172.16.0.1/v1'],
    ['https://192.168.1.1/v1'],
    ['https://llm.corp.internal/v1'],
    ['https://box.local/v1'],
    ['os.environ/BASE'],
    ['https://${HOST}/v1'],
  ])('of the operator is free: %s', async base => {
    const { models } = await importText(listOf(known, at(base)))
    expect(models['a']).toMatchObject({ price: 'free' })
    expect(models['a']).not.toHaveProperty('enabled')
  })

  test.each([
    ['https://llm.acme.example/v1'],
    ['https://172.32.0.1/v1'],
    ['https://203.0.113.5/v1'],
    ['https://10.acme.example/v1'],
    ['https://[2001:db8::1]/v1'],
    ['https://${TENANT}.acme.example/v1'],
  ])('of an unknown vendor is off, or free with --unpriced free: %s', async base => {
    const text = listOf(known, at(base))
    const { models, remarks } = await importText(text)
    expect(models['a']).toMatchObject({ price: 'free', enabled: false })
    expect(remarks).toContainEqual(
      expect.objectContaining({
        kind: 'yours',
        what: 'a',
        why: 'the model is off: its host belongs to no known vendor, and no list has its price',
      }),
    )
    const free = importLitellm(text, 'x.yaml', { catalog, list: null, unpriced: 'free' })
    expect((free.gateway['models'] as Record<string, object>)['a']).not.toHaveProperty('enabled')
  })

  test('of an unknown vendor is free if no other model serves, and a remark asks for its price', async () => {
    const { models, remarks } = await importText(listOf(at('https://llm.acme.example/v1'), row('b', 'model: groq/x')))
    expect(models).toMatchObject({ a: { price: 'free' }, b: { enabled: false } })
    expect(models['a']).not.toHaveProperty('enabled')
    expect(remarks).toContainEqual(
      expect.objectContaining({ kind: 'yours', why: 'the model is free: its server belongs to no known vendor' }),
    )
  })

  test('of an unknown vendor has no raw route, but at a host of the operator it has one', async () => {
    const embed = (name: string, base: string) => row(name, `model: openai/embed-x, api_base: "${base}"`)
    const { gateway, remarks } = await importText(
      listOf(known, embed('a', 'https://llm.acme.example/v1'), embed('b', 'http://tei:80/v1')),
    )
    expect((gateway['routes'] as object[]).slice(3)).toEqual([
      expect.objectContaining({ price: 'free', models: ['embed-x'] }),
    ])
    expect(remarks).toContainEqual(
      expect.objectContaining({ what: 'a: /v1/embeddings', why: 'a model has no raw route: its price is unknown' }),
    )
  })
})

describe('a wildcard', () => {
  test.each<[name: string, rows: readonly string[], models: object]>([
    [
      'of a vendor',
      [row('openai/*', 'model: "openai/*"')],
      { 'openai/*': { price: 'auto', targets: [{ provider: 'openai', model: '*' }] } },
    ],
    [
      'with another name at the provider',
      [row('anthropic/*', 'model: "bedrock/anthropic.*"')],
      { 'anthropic/*': { price: 'auto', targets: [{ provider: 'bedrock', model: 'anthropic.*' }] } },
    ],
    [
      'of two vendors',
      [row('x/*', 'model: "groq/*"'), row('x/*', 'model: "mistral/*"')],
      { 'x/*': { price: 'auto', targets: [{ provider: 'groq' }, { provider: 'mistral' }] } },
    ],
    [
      'of all',
      [row('*', 'model: "*"')],
      {
        '*': { price: 'auto', targets: [{ provider: 'openai' }, { provider: 'anthropic' }, { provider: 'gemini' }] },
        'openai/*': { targets: [{ provider: 'openai', model: '*' }] },
      },
    ],
  ])('%s', async (_name, rows, models) => {
    expect((await importText(listOf(...rows))).models).toMatchObject(models)
  })

  test.each<[what: string, rows: readonly string[], targets: Record<string, string[]>]>([
    [
      'and one for all vendors',
      [row('openai/*', 'model: "openai/*"'), row('*', 'model: "*"')],
      { 'openai/*': ['openai *'], '*': ['openai *', 'anthropic *', 'gemini *'] },
    ],
    ['for all vendors twice', [row('*', 'model: "*"'), row('*', 'model: "*"')], { 'openai/*': ['openai *'] }],
    ['twice', [row('a/*', 'model: "groq/*"'), row('a/*', 'model: "groq/*"')], { 'a/*': ['groq *'] }],
    [
      'with another key, beside one for all vendors',
      [row('*', 'model: "*"'), row('openai/*', 'model: "openai/*", api_key: os.environ/OTHER')],
      { 'openai/*': ['openai-2 *'] },
    ],
  ])('%s has each target once', async (_what, rows, targets) => {
    const { models } = await importText(listOf(...rows))
    for (const [id, expected] of Object.entries(targets))
      expect(models[id]!.targets.map(({ provider, model }) => `${provider} ${model}`)).toEqual(expected)
  })

  test('has the weight, the order and the limit of each row', async () => {
    const { models } = await importText(
      listOf(
        row('a/*', 'model: "openai/*", weight: 3, order: 1, max_parallel_requests: 7'),
        row('a/*', 'model: "groq/*", weight: 1, order: 2'),
      ),
    )
    expect(models['a/*']!.targets).toEqual([
      { provider: 'openai', model: '*', weight: 3, max_inflight: 7 },
      { provider: 'groq', model: '*', priority: 2 },
    ])
  })

  test('has no price of its own, and a remark gives advice', async () => {
    const prices = ', model_info: { input_cost_per_token: 1e-6, output_cost_per_token_above_200k_tokens: 2e-6 }'
    const { remarks } = await importText(listOf(row('openai/*', 'model: "openai/*"', prices)))
    const of = remarks.filter(({ path }) => path.includes('model_info'))
    expect(of.map(({ what }) => what)).toEqual(['input_cost_per_token', 'output_cost_per_token_above_200k_tokens'])
    for (const { why, instead } of of)
      expect(`${why}; ${instead}`).toBe(
        'models of a wildcard have the prices of the price list; give a model with its own price its own row, and import again',
      )
  })

  test('creates the models that fallbacks, aliases and keys name', async () => {
    const { models, commands, remarks } = await importText(
      `${listOf(row('openai/*', 'model: "openai/*"'), row('b', 'model: anthropic/claude-haiku-4-5'))}router_settings:
  fallbacks: [{ openai/gpt-5: [b] }, { b: [openai/gpt-4o] }]
  model_group_alias: { best: openai/gpt-5, small: openai/gpt-5-mini, none: openai/gpt-99 }
litellm_settings: { default_key_generate_params: { models: [openai/gpt-4.1, openai/gpt-99, "openai/*"] } }
`,
    )
    expect(models).toMatchObject({
      'openai/gpt-5': { price: 'auto', aliases: ['best'], targets: [{ model: 'gpt-5' }, { provider: 'anthropic' }] },
      'openai/gpt-5-mini': { aliases: ['small'], targets: [{ provider: 'openai', model: 'gpt-5-mini' }] },
      b: { targets: [{ provider: 'anthropic' }, { provider: 'openai', model: 'gpt-4o', priority: 2 }] },
    })
    expect(commands[1]).toContain(" --models 'openai/gpt-4.1,openai/*'")
    const lost = remarks.filter(({ kind }) => kind === 'lost').map(({ what, why }) => `${what}: ${why}`)
    expect(lost).toEqual(['none: an alias has no model', 'openai/gpt-99: a key has a model that was not converted'])
  })

  test.each<[settings: string, why: string]>([
    ['fallbacks: [{ "openai/*": [b] }]', 'a wildcard has no fallbacks'],
    ['default_fallbacks: [b]', 'a wildcard has no fallbacks'],
    ['fallbacks: [{ b: ["openai/*"] }]', 'a fallback is one model, but a wildcard means several'],
  ])('with %s: %s', async (settings, why) => {
    const rows = listOf(row('openai/*', 'model: "openai/*"'), row('b', 'model: anthropic/claude-haiku-4-5'))
    const { remarks } = await importText(`${rows}litellm_settings: { ${settings} }\n`)
    expect(remarks.filter(({ kind }) => kind === 'lost')).toEqual([
      expect.objectContaining({ why, what: 'openai/*', instead: 'name one of its models' }),
    ])
  })

  const limited = ', rpm: 5'
  test.each<[what: string, rows: readonly string[], when: string | undefined]>([
    ['of a vendor', [row('openai/*', `model: "openai/*"${limited}`)], 'model.id.startsWith("openai/")'],
    [
      'with a suffix',
      [row('o/*-x', `model: "openai/*"${limited}`)],
      'model.id.startsWith("o/") && model.id.endsWith("-x")',
    ],
    ['for all', [row('*', `model: "groq/*"${limited}`)], undefined],
    [
      'beside a model of its own and a longer one',
      [
        row('*', `model: "groq/*"${limited}`),
        row('openai/*', 'model: "openai/*"'),
        row('mine', 'model: openai/gpt-4o'),
      ],
      '!(model.id == "mine") && !(model.id.startsWith("openai/"))',
    ],
    [
      'beside one with the same limit',
      [row('groq/*', `model: "groq/*"${limited}`), row('mine', `model: openai/gpt-4o${limited}`)],
      '(model.id == "mine") || (model.id.startsWith("groq/"))',
    ],
    [
      'with a model of its own with the same limit',
      [row('groq/*', `model: "groq/*"${limited}`), row('groq/mine', `model: openai/gpt-4o${limited}`)],
      '(model.id == "groq/mine") || (model.id.startsWith("groq/"))',
    ],
    ['that is an id with spaces', [row('my model', `model: openai/gpt-4o${limited}`)], 'model.id == "my-model"'],
  ])('%s: the limit holds for its models', async (_what, rows, when) => {
    const { policies } = await importText(listOf(...rows))
    const { steps } = policies['standard'] as { steps: { use: string; when?: string }[] }
    const limits = steps.filter(({ use }) => use === 'rate-limit')
    expect(limits).toEqual([expect.objectContaining({ with: { per: 'model', requests: '5 per minute' } })])
    expect(limits[0]!.when).toBe(when)
  })

  test.each([
    ['of a private server', 'ollama/*', 'ollama/*', /does not have this vendor/],
    ['with a * on one side', 'a', 'openai/*', /one \* in its name/],
    ['that matches no model', 'a/*', 'openai/unheard-*', /no model of the catalog matches/],
  ])('%s is not converted', async (_name, id, model, why) => {
    const { models, remarks } = await importText(listOf(row(id, `model: "${model}"`), row('b', 'model: openai/gpt-4o')))
    expect(Object.keys(models)).toEqual(['b'])
    expect(remarks).toContainEqual(expect.objectContaining({ kind: 'lost', why: expect.stringMatching(why) }))
  })
})

test('models for speech, transcription and embeddings have raw routes', async () => {
  const { gateway } = await importText(
    listOf(
      row('speech', 'model: openai/kokoro, api_base: "http://speaches:8000/v1"', ', model_info: { mode: audio }'),
      row('text', 'model: openai/faster-whisper-large, api_base: "http://speaches:8000/v1"'),
      row('large', 'model: azure/text-embedding-3-large, api_version: 2024-10-21, input_cost_per_token: 1e-7'),
    ),
  )
  expect(gateway['routes']).toEqual([
    expect.objectContaining({ path: '/v1/audio/speech', models: ['kokoro'], price: 'free' }),
    expect.objectContaining({ path: '/v1/audio/transcriptions', models: ['faster-whisper-large'], price: 'free' }),
    expect.objectContaining({ path: '/v1/embeddings', models: ['text-embedding-3-large'], provider: 'azure-v1' }),
  ])
})

test('spaces in an id become dashes, also in fallbacks and aliases', async () => {
  const { models } = await importText(
    `${listOf(row('my model', 'model: openai/gpt-4o'), row('b', 'model: openai/gpt-4o-mini'))}router_settings: { fallbacks: [{ b: [my model] }], model_group_alias: { c: my model } }\n`,
  )
  expect(models).toMatchObject({
    'my-model': { aliases: ['c'] },
    b: { targets: [{ model: 'gpt-4o-mini' }, { model: 'gpt-4o', priority: 2 }] },
  })
})

test('in values of the Helm chart, the file is below proxy_config', async () => {
  const { models, remarks } = await importText(
    'proxy_config:\n  model_list:\n    - { model_name: a, litellm_params: { model: gpt-4o } }\n',
  )
  expect(models).toMatchObject({ a: { price: 'auto' } })
  expect(summary(remarks, 'x.yaml', '')).toContain('1 model: price, context and longest answer are from')
})

describe('the remarks on a terminal', () => {
  let place: Place
  beforeEach(() => {
    place = makePlace()
  })
  afterEach(() => place.remove())

  const settings = `litellm_settings: { cache: true, callbacks: [a], success_callback: [a], max_budget: 1, guardrails: [a], set_verbose: true }
router_settings: { retry_policy: { a: 1 }, enable_tag_filtering: true, routing_groups: [a], default_priority: 1, redis_host: h, cooldown_time: 1 }
general_settings: { master_key: sk-1, custom_auth: a, alerting: [slack], allowed_ips: [a], ui_username: a, key_management_system: a }
`

  test('have one line for each kind with a count, and at most twelve lines', async () => {
    place.write(
      'source.yaml',
      listOf(...Array.from({ length: 30 }, (_, nth) => row(`m${nth}`, 'model: openai/gpt-4o'))) + settings,
    )
    const { code, err } = await place.tollgate(['import', 'litellm', 'source.yaml', '--out', 'out'])
    expect(code, err).toBe(0)
    const lines = err.split('\n\n')[0]!.split('\n')
    expect(lines.length).toBeLessThanOrEqual(12)
    expect(err).toMatch(
      /30 models: price, context and longest answer are from the price catalog \(first: source\.yaml:2 m0\)/,
    )
    expect(err).toMatch(/Not needed: 3 settings: the gateway does not need them/)
    const all = await place.tollgate(['import', 'litellm', 'source.yaml', '--out', 'out', '--force', '--verbose'])
    expect(all.err.split('\n').filter(line => line.includes('from the price catalog'))).toHaveLength(30)
    expect(all.err).toContain('general_settings.custom_auth: its code is Python; write a plugin')
  })

  test('name the settings where too many kinds share a line', async () => {
    const { remarks } = await importText(listOf(row('a', 'model: openai/gpt-4o')) + settings)
    const text = summary(remarks, 'x.yaml', 'see --verbose')
    expect(text.trimEnd().split('\n').length).toBeLessThanOrEqual(12)
    for (const setting of ['custom_auth', 'retry_policy', 'alerting']) expect(text).toContain(setting)
  })
})
