import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { parse } from 'yaml'
import { loadPriceCatalog } from '../../src/catalog/price-catalog.ts'
import { importLitellm } from '../../src/cli/import-litellm/index.ts'
import { makePlace, type Place } from './helpers.ts'

const catalog = await loadPriceCatalog(null, [], new Date('2026-11-28'))
let place: Place
beforeEach(() => {
  place = makePlace()
})
afterEach(() => place.remove())

const read = (name: string) => parse(readFileSync(join(place.folder, 'out', name), 'utf8'))

function importText(text: string) {
  return importLitellm(text, 'x.yaml', { catalog, list: null, unpriced: 'disable' })
}

test.each<[setting: string, base: string, more?: object]>([
  ['mistral/m, api_base: "https://api.mistral.ai"', 'https://api.mistral.ai/v1'],
  [
    'gemini/m, api_base: "https://generativelanguage.googleapis.com/"',
    'https://generativelanguage.googleapis.com/v1beta',
  ],
  ['openai/m, api_base: "https://proxy.example"', 'https://proxy.example'],
  ['huggingface/acme/m, api_base: "https://abc.endpoints.example"', 'https://abc.endpoints.example/v1'],
  ['huggingface/acme/m, api_base: "https://abc.endpoints.example/v1/"', 'https://abc.endpoints.example/v1'],
  ['huggingface/m, api_base: "https://abc.endpoints.example/v1/chat/completions"', 'https://abc.endpoints.example/v1'],
  ['huggingface/acme/m, api_base: os.environ/HF', '${HF}/v1'],
  ['huggingface/acme/m', 'https://router.huggingface.co/v1'],
  ['"huggingface/https://abc.endpoints.example"', 'https://abc.endpoints.example/v1'],
  ['openai/m, api_base: ""', 'https://api.openai.com/v1', { api_key: '${OPENAI_API_KEY}' }],
  ['azure/m, api_version: 2024-10-21, api_base: "http://a.corp"', 'http://a.corp', { allow_insecure: true }],
])('the address of %s', (setting, base, more = {}) => {
  const { gateway } = importText(`model_list:\n  - { model_name: a, litellm_params: { model: ${setting} } }\n`)
  expect(Object.values(gateway['providers'] as object)).toEqual([expect.objectContaining({ base_url: base, ...more })])
})

test.each<[name: string, info: string, reasoning: boolean | undefined]>([
  ['openai/gpt-4o', '{ supports_reasoning: true }', true],
  ['openai/o3', '{ supports_reasoning: false }', false],
  ['openai/o3', '{}', undefined],
  ['ollama/deepseek-r1:8b', '{}', true],
  ['ollama/llama3.1', '{}', undefined],
])('whether %s has reasoning, with the info %s', (name, info, reasoning) => {
  const text = `model_list: [{ model_name: a, litellm_params: { model: "${name}" }, model_info: ${info} }]\n`
  const models = importText(text).gateway['models'] as Record<string, { reasoning?: boolean }>
  expect(models['a']!.reasoning).toBe(reasoning)
})

test.each<[name: string, model: string, info: string, base: string | undefined, price: string]>([
  ['base_model', 'mini-eu', '{ base_model: azure/gpt-5-mini }', 'gpt-5-mini', 'auto'],
  ['a known name in its own', 'gpt-4o-east', '{}', 'gpt-4o', 'auto'],
  ['the name of the model', 'mine', '{}', undefined, 'free'],
])('the model of an Azure deployment is found by %s', (_name, model, info, base, price) => {
  const { gateway, remarks } = importText(
    `model_list: [{ model_name: a, litellm_params: { model: azure/${model}, api_base: "https://a.openai.azure.com" }, model_info: ${info} }]\n`,
  )
  expect(gateway['models']).toMatchObject({ a: { price, targets: [{ model, ...(base && { base_model: base }) }] } })
  expect(remarks.some(({ why }) => why.startsWith('a deployment is assumed to be'))).toBe(model === 'gpt-4o-east')
})

test.each<[setting: string, info: string, output: number, own: number | undefined]>([
  ['max_tokens: 8192', '{}', 8192, 8192],
  ['max_completion_tokens: 16000', '{}', 16_000, 16_000],
  ['max_tokens: 500', '{ max_output_tokens: 2000 }', 2000, 500],
  ['rpm: 1', '{}', 4096, undefined],
])('the output limit of a deployment with %s and the info %s', (setting, info, output, own) => {
  const row = `{ model_name: a, litellm_params: { model: openai/a, ${setting} }, model_info: ${info} }`
  const { gateway, remarks } = importText(`model_list: [${row}]\n`)
  const model = (gateway['models'] as Record<string, object>)['a']
  expect(model).toMatchObject({ max_output: output })
  expect((model as { default_output?: number }).default_output).toBe(own)
  expect(remarks.map(({ path }) => path)).not.toContain('model_list[0].litellm_params.max_tokens')
})

describe('models without chat', () => {
  const TEXT = `model_list:
  - { model_name: chat, litellm_params: { model: openai/gpt-4o, input_cost_per_token: 1e-6, output_cost_per_token: 1e-6 } }
  - { model_name: small, litellm_params: { model: openai/text-embedding-3-small, input_cost_per_token: 2e-8, rpm: 5 } }
  - { model_name: same, litellm_params: { model: openai/text-embedding-4-small, input_cost_per_token: 2e-8, output_cost_per_token: 0 } }
  - { model_name: large, litellm_params: { model: openai/big, input_cost_per_token: 1.3e-7 }, model_info: { mode: embedding } }
  - { model_name: large, litellm_params: { model: mistral/mistral-embed } }
  - { model_name: other, litellm_params: { model: mistral/mistral-embed, input_cost_per_token: 1e-7 } }
  - { model_name: mine, litellm_params: { model: ollama/nomic-embed-text, api_base: "http://ollama:11434" } }
  - { model_name: own, litellm_params: { model: cohere/embed-english-v3.0 } }
  - { model_name: unknown, litellm_params: { model: openai/embed-x } }
`
  const raw = { kind: 'raw', policy: 'raw' }
  const per = '1M tokens'

  test('each has a raw route of its provider, at its price', async () => {
    place.write('source.yaml', TEXT)
    const { code, err } = await place.tollgate(['import', 'litellm', 'source.yaml', '--out', 'out', '--verbose'])
    expect(code, err).toBe(0)
    expect(read('gateway.yaml').routes.slice(3)).toEqual([
      {
        ...raw,
        path: '/v1/embeddings',
        provider: 'openai',
        models: ['text-embedding-3-small', 'text-embedding-4-small'],
        price: { per, input: '$0.02' },
      },
      {
        ...raw,
        path: '/openai/v1/embeddings',
        upstream_path: '/embeddings',
        provider: 'openai',
        models: ['big'],
        price: { per, input: '$0.13' },
      },
      {
        ...raw,
        path: '/mistral/v1/embeddings',
        upstream_path: '/embeddings',
        provider: 'mistral',
        models: ['mistral-embed'],
        price: { per, input: '$0.10' },
      },
      {
        ...raw,
        path: '/ollama/v1/embeddings',
        upstream_path: '/v1/embeddings',
        provider: 'ollama',
        models: ['nomic-embed-text'],
        price: 'free',
      },
    ])
    expect(read('policies/raw.yaml').steps).toEqual([{ use: 'api-key' }, { use: 'credits' }])
    const env = { OPENAI_API_KEY: 'a', MISTRAL_API_KEY: 'b' }
    expect(await place.tollgate(['check', 'out/gateway.yaml'], { env })).toMatchObject({ code: 0 })
    for (const sentence of [
      '(other: mistral-embed to /mistral/v1/embeddings): a model is on a raw route',
      "(large): a raw route has one provider: the first deployment's is used",
      '(small): a raw route has no limit; add the step rate-limit to policies/raw.yaml',
      '(own: cohere/embed-english-v3.0): the provider uses another format for these requests',
      '(unknown: /v1/embeddings): a model has no raw route: its price is unknown',
    ])
      expect(err).toContain(sentence)
  })
})

test.each(['gpt-realtime', 'gpt-4o-realtime-preview', 'any, mode'])('%s: a WebSocket gets no raw route', name => {
  const [model, mode] = name.split(', ')
  const info = mode ? '{ mode: realtime }' : '{}'
  const row = `{ model_name: live, litellm_params: { model: openai/${model} }, model_info: ${info} }`
  const { gateway, remarks } = importText(`model_list: [${row}]\n`)
  expect(gateway['models']).toEqual({})
  const [remark] = remarks.filter(({ why }) => why === 'the model is not a chat model')
  expect(remark).toMatchObject({
    what: 'live: realtime',
    instead: expect.stringContaining('does not support WebSockets:'),
  })
})

const ROW = 'input_cost_per_token: 1e-6, output_cost_per_token: 1e-6'
const targetsOf = (text: string) => {
  const { gateway } = importText(text)
  const models = gateway['models'] as Record<string, { targets: { model: string; priority?: number }[] }>
  return Object.fromEntries(
    Object.entries(models).map(([id, { targets }]) => [
      id,
      targets.map(({ model, priority = 1 }) => `${priority} ${model}`),
    ]),
  )
}

test.each([
  ['default_fallbacks', 'litellm_settings: { default_fallbacks: [c], fallbacks: [{ a: [b] }] }'],
  ['fallbacks of "*"', "router_settings: { fallbacks: [{ '*': [c] }, { a: [b] }] }"],
  ['the last of several', "litellm_settings: { default_fallbacks: [c], fallbacks: [{ '*': [a, b] }, { a: [b] }] }"],
  [
    'each in its own section',
    'router_settings: { fallbacks: [{ a: [b] }] }\nlitellm_settings: { default_fallbacks: [c] }',
  ],
])('%s are for models without fallbacks of their own', (_name, settings) => {
  const rows = ['a', 'b', 'c'].map(id => `  - { model_name: ${id}, litellm_params: { model: openai/${id}, ${ROW} } }\n`)
  expect(targetsOf(`model_list:\n${rows.join('')}${settings}\n`)).toEqual({
    a: ['1 a', '2 b'],
    b: ['1 b', '2 c'],
    c: ['1 c'],
  })
})

test('a model with an empty list of fallbacks has none', () => {
  const rows = ['a', 'c'].map(id => `  - { model_name: ${id}, litellm_params: { model: openai/${id}, ${ROW} } }\n`)
  const settings = 'litellm_settings: { default_fallbacks: [c], fallbacks: [{ a: [] }] }'
  expect(targetsOf(`model_list:\n${rows.join('')}${settings}\n`)).toEqual({ a: ['1 a'], c: ['1 c'] })
})

test.each<[orders: (number | null)[], priorities: string[]]>([
  [
    [null, null],
    ['1 m0', '1 m1'],
  ],
  [
    [null, 0],
    ['2 m0', '1 m1'],
  ],
  [
    [2, null, 3],
    ['1 m0', '3 m1', '2 m2'],
  ],
])('deployments of the order %j: those without one come last', (orders, priorities) => {
  const rows = orders.map((order, index) => {
    const setting = order === null ? '' : `order: ${order}, `
    return `  - { model_name: a, litellm_params: { model: openai/m${index}, ${setting}${ROW} } }\n`
  })
  expect(targetsOf(`model_list:\n${rows.join('')}`)).toEqual({ a: priorities })
})

test('cached tokens without a price at one deployment cost as much as its input, and a remark says so', () => {
  const rows = ['', ', cache_read_input_token_cost: 1e-7'].map(
    (cached, index) => `  - { model_name: a, litellm_params: { model: openai/m${index}, ${ROW}${cached} } }\n`,
  )
  const { gateway, remarks } = importText(`model_list:\n${rows.join('')}`)
  expect(gateway['models']).toMatchObject({ a: { price: { input: '$1', cached_input: '$1', output: '$1' } } })
  expect(remarks).toContainEqual(
    expect.objectContaining({
      kind: 'changed',
      why: 'cached tokens are priced as at the target without a price for them',
    }),
  )
})

test('a row keeps the prices of all its units', () => {
  const keys = {
    input_cost_per_token: 1e-6,
    cache_read_input_token_cost: 1e-7,
    cache_creation_input_token_cost: 2e-6,
    cache_creation_input_token_cost_above_1hr: 3e-6,
    input_cost_per_audio_token: 4e-6,
    cache_read_input_audio_token_cost: 5e-6,
    input_cost_per_image_token: 6e-6,
    output_cost_per_token: 7e-6,
    output_cost_per_reasoning_token: 8e-6,
    output_cost_per_audio_token: 9e-6,
    output_cost_per_image_token: 1e-5,
    input_cost_per_request: 0.5,
    search_context_cost_per_query: { search_context_size_low: 0.01, search_context_size_high: 0.02 },
  }
  const row = { model_name: 'a', litellm_params: { model: 'openai/a' }, model_info: keys }
  const { gateway, remarks } = importText(JSON.stringify({ model_list: [row] }))
  expect((gateway['models'] as Record<string, { price: object }>)['a']!.price).toEqual({
    per: '1M tokens',
    input: '$1',
    cached_input: '$0.10',
    cache_write: '$2',
    cache_write_1h: '$3',
    input_audio: '$4',
    cached_audio: '$5',
    input_image: '$6',
    output: '$7',
    reasoning: '$8',
    output_audio: '$9',
    output_image: '$10',
    web_search: '$0.02',
    request: '$0.50',
  })
  expect(remarks.filter(({ path }) => path.includes('cost'))).toEqual([])
})

test.each<[by: string, params: string]>([
  ['the vendor that LiteLLM names', 'model: openai/gpt-4.1, api_base: "https://proxy.acme.example"'],
  ['another vendor', 'model: custom/claude-sonnet-4-5, api_base: "https://proxy.acme.example"'],
])('a price by %s has units other than tokens', (_by, params) => {
  const { gateway } = importText(`model_list: [{ model_name: a, litellm_params: { ${params} } }]\n`)
  expect((gateway['models'] as Record<string, object>)['a']).toMatchObject({ price: { web_search: '$0.01' } })
})

test.each<[key: string, value: string, why: string]>([
  ['input_cost_per_token', '1', 'a price is dollars for one token, from 0 to 0.1'],
  ['input_cost_per_token', '-1', 'a price is dollars for one token, from 0 to 0.1'],
  ['output_cost_per_token', '1e-6', 'a raw route gets only the price of the input'],
])('the price of a model for embeddings: %s is %s', (key, value, why) => {
  const row = `{ model_name: a, litellm_params: { model: openai/text-embedding-3-small, ${key}: ${value} } }`
  const { gateway, remarks } = importText(`model_list: [${row}]\n`)
  expect(remarks).toContainEqual(expect.objectContaining({ kind: 'lost', why }))
  expect(JSON.stringify(gateway['routes'])).not.toContain('1000000')
})

test('of two prices the one in litellm_params counts, and a remark says so', () => {
  const prices = (input: string) => `input_cost_per_token: ${input}, output_cost_per_token: 2e-6`
  const row = `{ model_name: a, litellm_params: { model: openai/a, ${prices('1e-6')} }, model_info: { ${prices('3e-6')} } }`
  const { gateway, remarks } = importText(`model_list: [${row}]\n`)
  expect(gateway['models']).toMatchObject({ a: { price: { input: '$1', output: '$2' } } })
  expect(remarks.filter(({ path }) => path.includes('cost')).map(({ path, why }) => `${path}: ${why}`)).toEqual([
    'model_list[0].model_info.input_cost_per_token: the price in litellm_params has precedence',
  ])
})

test('a name with 100,000 suffixes of open models is parsed', () => {
  const name = `${'-it'.repeat(100_000)}-x`
  const { gateway } = importText(`model_list: [{ model_name: a, litellm_params: { model: "groq/${name}" } }]\n`)
  expect(gateway['models']).toMatchObject({ a: { targets: [{ model: name }], enabled: false } })
})

test.each(['litellm_params', 'model_info'])('base_model of %s finds the price', place => {
  const own = { litellm_params: 'model: azure/mine', model_info: 'mode: chat' }
  const setting = Object.entries(own).map(
    ([key, text]) => `${key}: { ${text}${key === place ? ', base_model: o3' : ''} }`,
  )
  const { gateway } = importText(`model_list:\n  - { model_name: a, ${setting.join(', ')} }\n`)
  expect(gateway['models']).toMatchObject({ a: { price: 'auto', targets: [{ model: 'mine', base_model: 'o3' }] } })
})
