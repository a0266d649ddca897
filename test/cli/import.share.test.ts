import { existsSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { parse } from 'yaml'
import { perMillion, wholeOf } from '../../src/catalog/decimal.ts'
import { loadPriceCatalog } from '../../src/catalog/price-catalog.ts'
import { importLitellm } from '../../src/cli/import-litellm/index.ts'
import { MAKERS } from '../../src/cli/import-litellm/litellm-names.ts'
import { UnreadableYaml } from '../../src/cli/import-litellm/read.ts'
import { filesOf, listOf, summary } from '../../src/cli/import-litellm/render.ts'
import { shareOf } from '../helpers/counts.ts'
import { makePlace, type Place } from './helpers.ts'

const fixture = (name: string) => join(dirname(fileURLToPath(import.meta.url)), 'litellm', `${name}.yaml`)

const catalog = await loadPriceCatalog(null, [], new Date('2026-11-28'))
let place: Place
const tollgate = (...args: readonly string[]) => place.tollgate(args)
beforeEach(() => {
  place = makePlace()
})
afterEach(() => place.remove())

const read = (name: string) => parse(readFileSync(join(place.folder, 'out', name), 'utf8'))

/** Imports a fixture with options and returns the written files. */
async function importFixture(name: string, ...options: readonly string[]) {
  const result = await tollgate('import', 'litellm', fixture(name), '--out', 'out', '--verbose', ...options)
  const report = readFileSync(join(place.folder, 'out/IMPORTED.md'), 'utf8')
  return { ...result, gateway: read('gateway.yaml'), policy: read('policies/standard.yaml'), report }
}

/** Runs `tollgate check` on the written files, with a sample value in each variable. */
async function check() {
  const report = readFileSync(join(place.folder, 'out/IMPORTED.md'), 'utf8')
  const names = [...report.matchAll(/^- `([A-Z0-9_]+)`$/gm)].map(match => match[1]!)
  const { sampleAccount } = await import('../../src/cli/import-litellm/clouds.ts')
  const sampleOf = (name: string) => {
    if (/BASE/.test(name)) return 'https://acme.openai.azure.com'
    if (/GOOGLE/.test(name)) return sampleAccount()
    return /REGION/.test(name) ? 'eu-west-1' : `value-of-${name.toLowerCase()}`
  }
  const env = Object.fromEntries(names.map(name => [name, sampleOf(name)]))
  place.write('out/google.json', sampleAccount())
  return place.tollgate(['check', 'out/gateway.yaml'], { env })
}

describe('sources that cannot be imported', () => {
  test.each<[name: string, text: string | null, sentence: string]>([
    ['a missing file', null, 'source.yaml cannot be read: the file does not exist.'],
    ['invalid YAML', 'model_list: [', 'source.yaml:1:14: this is not YAML'],
    ['no map', '- a\n', 'source.yaml:1:1: this is not a LiteLLM configuration: it is not a map'],
    ['nothing', '', 'source.yaml:1:1: this is not a LiteLLM configuration'],
    ['an endless alias', 'a: &a [*a]\n', 'nested too deeply'],
    ['no list of models', 'foo: 1\n', 'source.yaml:1: this is not a LiteLLM configuration with models: it has no list'],
    ['a map of models', '\nmodel_list: { a: 1 }\n', 'source.yaml:2: this is not a LiteLLM configuration'],
  ])('%s', async (_name, text, sentence) => {
    if (text !== null) place.write('source.yaml', text)
    const { code, out, err } = await tollgate('import', 'litellm', 'source.yaml', '--out', 'out')
    expect({ code, out }).toEqual({ code: 1, out: '' })
    expect(err).toContain(sentence)
    expect(existsSync(join(place.folder, 'out'))).toBe(false)
  })

  test('an empty list of models fails with the message of check', async () => {
    place.write('source.yaml', 'model_list: []\n')
    const { code, err } = await tollgate('import', 'litellm', 'source.yaml')
    expect(code).toBe(1)
    expect(err).toContain('no model is enabled')
  })

  test('existing files are not overwritten without --force', async () => {
    const first = await importFixture('teams')
    expect(first.code, first.err).toBe(0)
    place.write('out/policies/standard.yaml', 'mine\n')
    const again = await tollgate('import', 'litellm', fixture('clouds'), '--out', 'out')
    expect(again.code).toBe(1)
    expect(again.err).toContain(
      'out already has gateway.yaml, policies/standard.yaml, IMPORTED.md, .env.example. Nothing was written',
    )
    expect(read('gateway.yaml').models).toHaveProperty('chat')
    expect(read('policies/standard.yaml')).toBe('mine')
    expect((await importFixture('clouds', '--force')).gateway.models).toHaveProperty('nova')
  })

  test('with an invalid price list', async () => {
    place.write('prices.json', '[1]')
    const { code, err } = await tollgate('import', 'litellm', fixture('bare'), '--catalog', 'prices.json')
    expect(code).toBe(1)
    expect(err).toContain('prices.json: this price list is not a JSON object')
  })
})

test.each(['teams', 'clouds', 'providers', 'wild', 'settings'])('%s: the result passes the check', async name => {
  const { code, err } = await importFixture(name, '--unpriced', 'free')
  expect(code, err).toBe(0)
  expect(await check()).toMatchObject({ code: 0, out: expect.stringContaining('OK: ') })
})

describe('secrets', () => {
  test('no secret of the file is written or printed', async () => {
    const { out, err, report } = await importFixture('providers')
    const everything = [out, err, report, readFileSync(join(place.folder, 'out/gateway.yaml'), 'utf8')].join('\n')
    expect(everything).not.toMatch(/inline|pass-in-url|query-secret/)
    const json = await tollgate('import', 'litellm', fixture('providers'), '--json')
    expect(json.out).not.toMatch(/inline|pass-in-url|query-secret/)
    expect((await tollgate('import', 'litellm', fixture('providers'))).out).not.toMatch(
      /inline|pass-in-url|query-secret/,
    )
  })

  test('each secret becomes a variable, and equal secrets share one', async () => {
    const { gateway, err } = await importFixture('providers')
    const providerOf = (model: string) => gateway.providers[gateway.models[model].targets[0].provider]
    const keyOf = (model: string) => providerOf(model).api_key
    expect([keyOf('b5'), keyOf('b6'), keyOf('b7'), keyOf('b8')]).toEqual([
      '${OPENAI_API_KEY_2}',
      '${OPENAI_API_KEY_3}',
      '${OPENAI_API_KEY_2}',
      '${OPENAI_API_KEY_4}',
    ])
    expect([keyOf('a1'), providerOf('b1').profile]).toEqual(['${OPENAI_API_KEY}', 'vllm'])
    expect(err).toMatch(
      /providers\.yaml:16 model_list\[13\]\.litellm_params\.api_key \(OPENAI_API_KEY_2\): .* set its variable/,
    )
    expect(gateway.providers.openrouter.headers).toEqual({
      'HTTP-Referer': 'https://acme.example',
      'X-Api-Key': '${OPENROUTER_X_API_KEY}',
    })
  })
})

describe('prices', () => {
  test.each<[text: string, nano: bigint | null, exact?: boolean]>([
    ['0.00000015', 150_000_000n],
    ['1.5e-07', 150_000_000n],
    ['15E-8', 150_000_000n],
    ['.0000025', 2_500_000_000n],
    ['1e-5', 10_000_000_000n],
    ['0', 0n],
    ['0.1', 100_000_000_000_000n],
    ['1.0000000001e-15', 2n, false],
    ['1e-16', 1n, false],
    ['-1e-6', null],
    ['free', null],
    ['1e9999', null],
    ['', null],
    ['.', null],
  ])('%s dollars a token', (text, nano, exact = true) => {
    expect(perMillion(text)).toEqual(nano === null ? null : { value: nano, exact })
  })

  test.each<[string, number | null]>([
    ['128000', 128_000],
    ['128000.0', 128_000],
    ['1e5', 100_000],
    ['30_000', 30_000],
    ['1.5', null],
    ['-1', null],
    ['many', null],
  ])('%s as a whole number', (text, whole) => expect(wholeOf(text)).toBe(whole))

  test('with several deployments the price has the highest rate of each unit, and each target keeps its cost', async () => {
    const { models } = (await importFixture('teams')).gateway
    expect(models.chat.price).toEqual({ per: '1M tokens', input: '$2.75', cached_input: '$2.50', output: '$11' })
    expect(models.chat.targets[0].cost).toEqual({ per: '1M tokens', input: '$2.50', output: '$10' })
    expect(models.chat.targets[1].cost).toEqual({
      per: '1M tokens',
      input: '$2.75',
      cached_input: '$1.375',
      output: '$11',
    })
    expect(models.careful.price).toEqual({
      per: '1M tokens',
      input: '$3',
      cached_input: '$0.30',
      cache_write: '$3.75',
      output: '$15',
    })
  })

  test('a model without a price in the file has that of the catalog, with all sizes', async () => {
    const { code, gateway, err } = await importFixture('bare')
    expect(code, err).toBe(0)
    expect(gateway.models['gpt-4o']).toEqual({
      targets: [
        { provider: 'openai', model: 'gpt-4o' },
        { provider: 'anthropic', model: 'claude-3-5-haiku', priority: 2 },
      ],
      price: 'auto',
    })
    expect(gateway.models.haiku).toEqual({
      targets: [{ provider: 'anthropic', model: 'claude-3-5-haiku' }],
      price: 'auto',
    })
    expect(await check()).toMatchObject({ code: 0 })
  })

  test.each([
    ['disable', 1, { price: 'free', enabled: false, context: 131_072, max_output: 4096 }],
    ['free', 0, { price: 'free', context: 131_072, max_output: 4096 }],
  ])('a model of a paid provider that no list has: %s', async (unpriced, code, model) => {
    place.write('source.yaml', 'model_list: [{ model_name: a, litellm_params: { model: groq/unheard-of } }]\n')
    const result = await tollgate('import', 'litellm', 'source.yaml', '--out', 'out', '--unpriced', unpriced)
    expect(result.code, result.err).toBe(code)
    expect(read('gateway.yaml').models.a).toEqual({
      ...model,
      targets: [{ provider: 'groq', model: 'unheard-of' }],
    })
    expect(result.err).toContain(unpriced === 'free' ? 'the model is free' : 'the model is off: its price is unknown')
    expect(result.err.includes('no model is enabled')).toBe(unpriced === 'disable')
  })

  test('a list of the operator takes precedence, and gateway.yaml names it', async () => {
    const row = { litellm_provider: 'groq', mode: 'chat', input_cost_per_token: 1e-6, output_cost_per_token: 2e-6 }
    place.write('prices.json', JSON.stringify({ 'groq/unheard-of': { ...row, max_input_tokens: 1000 } }))
    place.write('source.yaml', 'model_list: [{ model_name: a, litellm_params: { model: groq/unheard-of } }]\n')
    const { code, err } = await tollgate('import', 'litellm', 'source.yaml', '--out', 'out', '--catalog', 'prices.json')
    expect(code, err).toBe(0)
    expect(read('gateway.yaml')).toMatchObject({ catalog: '../prices.json', models: { a: { price: 'auto' } } })
    const env = { GROQ_API_KEY: 'a' }
    expect(await place.tollgate(['check', 'out/gateway.yaml'], { env })).toMatchObject({ code: 0 })
  })
})

test('weights, limits, fallbacks, aliases, timeouts and sizes', async () => {
  const { gateway, policy } = await importFixture('teams')
  const { chat, careful } = gateway.models
  expect(chat.targets).toMatchObject([
    { provider: 'azure', model: 'chat-deployment', weight: 3, max_inflight: 12 },
    { provider: 'openai', model: 'gpt-4o' },
    { provider: 'anthropic', model: 'claude-sonnet-4-5', priority: 2, cost: { input: '$3' } },
  ])
  expect(chat).toMatchObject({ context: 128_000, max_output: 8192, aliases: ['gpt-4'] })
  expect(careful).toMatchObject({ context: 100_000, max_output: 64_000, default_output: 2000, aliases: ['old'] })
  expect(gateway.providers.openai).toEqual({
    dialect: 'openai',
    base_url: 'https://api.openai.com/v1',
    api_key: '${OPENAI_API_KEY}',
    headers: { 'OpenAI-Organization': '${OPENAI_ORG}' },
    timeouts: { total: '90s', first_byte: '12500ms' },
  })
  expect(gateway.providers.azure).toMatchObject({
    base_url: '${AZURE_API_BASE}',
    api_version: '2024-10-21',
    timeouts: { total: '600s' },
  })
  expect(gateway.limits).toEqual({ max_inflight: 500, body: '8MiB' })
  expect(policy.steps).toEqual([
    { use: 'api-key' },
    { use: 'rate-limit', id: 'requests', with: { per: 'account', requests: '60 per minute' } },
    { use: 'schema' },
    { use: 'rate-limit', id: 'tokens', with: { per: 'account', tokens: '100000 per minute' } },
    {
      use: 'rate-limit',
      id: 'models-1',
      when: 'model.id == "chat"',
      with: { per: 'model', requests: '800 per minute', tokens: '120000 per minute' },
    },
    { use: 'credits', with: { when_short: ['clamp_output', 'refuse'] } },
    { use: 'route', with: { attempts: 3, on_dropped: 'tell' } },
  ])
})

test.each<[name: string, rows: string[], weights: (number | undefined)[]]>([
  ['shares', ['weight: 0.9', 'weight: 0.1'], [9, undefined]],
  ['more than the maximum', ['weight: 100000', 'weight: 50000', 'weight: 1'], [1000, 500, undefined]],
  ['requests a minute', ['rpm: 600', 'rpm: 400'], [3, 2]],
  ['tokens a minute', ['tpm: 10', 'tpm: 1000'], [undefined, 100]],
  ['of only one: none', ['weight: 3', 'rpm: 5'], [undefined, undefined]],
  ['not a number, and empty', ['weight: much', 'weight: 0', 'weight: 3'], [undefined, undefined, undefined]],
])('weights: %s', (_name, rows, weights) => {
  const row = (weight: string, index: number) =>
    `  - { model_name: a, litellm_params: { model: openai/m${index}, ${weight}, input_cost_per_token: 1e-6 } }\n`
  const { gateway } = importLitellm(`model_list:\n${rows.map(row).join('')}`, 'x.yaml', {
    catalog,
    list: null,
    unpriced: 'free',
  })
  const { targets } = (gateway['models'] as Record<string, { targets: { weight?: number }[] }>)['a']!
  expect(targets.map(({ weight }) => weight)).toEqual(weights)
})

test('a deployment without a price gets that of the others', () => {
  const row = (name: string, prices: string) =>
    `  - { model_name: a, litellm_params: { model: openai/${name}${prices} } }\n`
  const known = row('m1', ', input_cost_per_token: 1e-6, output_cost_per_token: 1e-6').replace(
    ' }\n',
    ', model_info: { max_input_tokens: 9000 } }\n',
  )
  const rows = known + row('m2', '')
  const { gateway, remarks } = importLitellm(`model_list:\n${rows}`, 'x.yaml', {
    catalog,
    list: null,
    unpriced: 'disable',
  })
  expect(gateway['models']).toMatchObject({ a: { price: { input: '$1', output: '$1' }, context: 9000 } })
  expect(remarks).toContainEqual(
    expect.objectContaining({
      kind: 'yours',
      why: 'the price of a target is unknown: the price of the others is used',
    }),
  )
})

/** Imports a text; models without a price are free. */
function importText(text: string) {
  return importLitellm(text, 'x.yaml', { catalog, list: null, unpriced: 'free' })
}
const modelA = 'model_list:\n  - { model_name: a, litellm_params: { model: openai/a } }\n'
const rowsOf = (name: string, many: number) =>
  Array.from(
    { length: many },
    (_, nth) => `  - { model_name: ${name}, litellm_params: { model: openai/${name}${nth} } }\n`,
  ).join('')

describe('attempts', () => {
  test.each<
    [name: string, targets: [a: number, b: number], settings: string, attempts: number | undefined, rule: RegExp]
  >([
    ['no setting, and the default is enough', [1, 2], '', undefined, /^$/],
    ['no setting: the default is too low', [2, 3], '', 5, /^$/],
    ['too few retries', [2, 3], 'router_settings: { num_retries: 2 }', 5, /^attempts: 5, the targets of a$/],
    ['enough retries', [1, 2], 'litellm_settings: { num_retries: 4 }', 5, /^attempts: 5$/],
    ['no retries, but a fallback', [1, 1], 'router_settings: { num_retries: 0 }', 2, /^attempts: 2, the targets of a$/],
    ['more than the maximum', [1, 1], 'router_settings: { num_retries: 20 }', 10, /^attempts: 10, the maximum$/],
    ['more targets than attempts', [6, 6], 'router_settings: { timeout: 5 }', 10, /^a: 12$/],
    ['not a number', [1, 1], 'router_settings: { num_retries: some }', undefined, /it is not a whole number/],
    [
      'set twice',
      [1, 1],
      'router_settings: { num_retries: 4 }\nlitellm_settings: { num_retries: 7 }',
      5,
      /same setting of router_settings/,
    ],
  ])('%s', (_name, [a, b], settings, attempts, rule) => {
    const alias = settings.includes('litellm_settings') ? settings : `${settings}\nlitellm_settings: {}`
    const text = `model_list:\n${rowsOf('a', a)}${rowsOf('b', b)}${alias.replace('litellm_settings: {', 'litellm_settings: { fallbacks: [{ a: [b] }], ')}\n`
    const { policies, remarks } = importText(text)
    const { steps } = policies['standard'] as { steps: unknown }
    const route = (steps as { use: string; with?: { attempts?: number } }[]).at(-1)!
    expect(route.with?.attempts).toBe(attempts)
    const shown = remarks.filter(({ path, why }) => /num_retries/.test(path) || /attempts at most/.test(why))
    expect(shown.map(({ why, what }) => what ?? why).find(text => rule.test(text)) ?? '').toMatch(rule)
  })
})

describe('timeouts', () => {
  const longer = /longer than the limit of a whole exchange/
  const both600 = { total: '600s', first_byte: '600s' }
  const whole = /even during a stream/
  const both = /applies to whole answers too/
  test.each<[name: string, file: string, own: string, timeouts: Record<string, string> | undefined, rules: RegExp[]]>([
    ['none', '', '', undefined, []],
    ['the total is below a stream’s wait', '', 'timeout: 30, stream_timeout: 600', both600, [whole, longer]],
    ['of the file and of the row', 'request_timeout: 600, stream_timeout: 600', 'timeout: 5', both600, [whole, longer]],
    ['above the gateway’s default', '', 'stream_timeout: 1800', { total: '1800s', first_byte: '1800s' }, [longer]],
    ['a total alone', '', 'timeout: 600', both600, [whole]],
    ['a short total', 'request_timeout: 30', '', { total: '30s' }, [whole]],
    ['a short wait', '', 'timeout: 300, stream_timeout: 0.5', { total: '300s', first_byte: '500ms' }, [whole, both]],
    [
      'out of bounds',
      'request_timeout: 0',
      'stream_timeout: 1e9',
      undefined,
      [/from 1 ms to 24 h/, /from 1 ms to 24 h/],
    ],
  ])('%s', (_name, file, own, timeouts, rules) => {
    const { gateway, remarks } = importText(
      `model_list:\n  - { model_name: a, litellm_params: { model: openai/a${own === '' ? '' : `, ${own}`} } }\nlitellm_settings: { ${file} }\n`,
    )
    expect((gateway['providers'] as Record<string, object>)['openai']).toEqual({
      dialect: 'openai',
      base_url: 'https://api.openai.com/v1',
      api_key: '${OPENAI_API_KEY}',
      ...(timeouts && { timeouts }),
    })
    const listed = remarks.filter(({ path }) => path.endsWith('timeout'))
    expect(listed).toHaveLength(rules.length)
    for (const each of rules) expect(listed.map(({ why }) => why).join('\n')).toMatch(each)
  })
})

describe('commands to paste into a shell', () => {
  test.each<[name: string, models: string, options: string, rule: RegExp]>([
    ['ids and aliases', '[a, "it\'s"]', " --models 'a,it'\\''s'", /^$/],
    ['a special name of LiteLLM beside one', '[a, all-team-models]', ' --models a', /means the models of a team/],
    ['all', '[a, all-proxy-models]', '', /without --models can use all public models/],
    ['no converted model', '["openai/*", "a; rm -rf ."]', ' --models MODELS', /a; rm -rf \./],
    ['none', '[no-default-models]', ' --models MODELS', /means no model/],
    ['not a list', 'a', '', /must be a list/],
  ])('%s', (_name, models, options, rule) => {
    const { commands, remarks } = importText(
      `${modelA}router_settings: { model_group_alias: { "it's": a } }\nlitellm_settings: { default_key_generate_params: { models: ${models} } }\n`,
    )
    expect(commands[1]).toBe(`key create --account TEAM --name NAME${options}`)
    const listed = remarks.filter(({ path }) => path.includes('generate_params'))
    expect(listed.map(({ why, what }) => `${why} ${what ?? ''}`).join('\n')).toMatch(rule)
  })

  test('the folder is quoted too', async () => {
    const { err } = await tollgate('import', 'litellm', fixture('teams'), '--out', "o'ut; x")
    expect(err).toContain("account create TEAM --credit DOLLARS -c 'o'\\''ut; x/gateway.yaml'\n")
  })
})

describe('each dropped setting has a remark', () => {
  test.each<[what: string, rest: string, path: string, why: RegExp]>([
    [
      'a string instead of a list',
      'router_settings: { fallbacks: [{ a: b }] }',
      'router_settings.fallbacks[0].a',
      /are a list of/,
    ],
    ['a string instead of a map', 'general_settings: x', 'general_settings', /must be a map/],
    [
      'a list instead of a string',
      'router_settings: { num_retries: [1] }',
      'router_settings.num_retries',
      /must be a text/,
    ],
    ['a credential that is a number', 'credential_list: [5]', 'credential_list[0]', /is a map/],
    [
      'an incomplete credential',
      'credential_list: [{ credential_name: x }]',
      'credential_list[0]',
      /needs credential_name and a map/,
    ],
    [
      'a duplicate name',
      'credential_list: [&c { credential_name: x, credential_values: { api_base: y } }, *c]',
      'credential_list[1].credential_name',
      /duplicated: this one counts/,
    ],
    [
      'a setting beside an alias',
      'router_settings: { model_group_alias: { b: { model: a, more: 1 } } }',
      'router_settings.model_group_alias.b.more',
      /the setting is unknown/,
    ],
  ])('%s', (_what, rest, path, why) => {
    const { remarks } = importText(`${modelA}${rest}\n`)
    expect(remarks).toContainEqual(expect.objectContaining({ path, why: expect.stringMatching(why) }))
  })

  test('few settings of real files are unknown', async () => {
    const { err } = await importFixture('wild', '--unpriced', 'free')
    expect(err.match(/\w+(?=\): the setting is unknown to the importer)/g)).toEqual(['more'])
    const settings = await importFixture('settings', '--force')
    expect(settings.err).toMatch(/general_settings\.fail_closed_budget_enforcement: no request is sent before its hold/)
    expect(settings.err).not.toContain('unknown to the importer')
  })
})

test('rare settings of real files', async () => {
  const { gateway, err } = await importFixture('wild', '--unpriced', 'free')
  const { providers, models } = gateway
  const modelOf = (id: string) => models[id].targets[0].model
  const providerOf = (id: string) => providers[models[id].targets[0].provider]
  expect(['plain', 'o1', 'own', 'profile', 'refs'].map(modelOf)).toEqual([
    'gpt-5-codex',
    'o1-dep',
    'arn:aws:bedrock:us-east-1:1:imported-model/x',
    'arn:aws:bedrock:us-east-1:1:application-inference-profile/y',
    'we${X}',
  ])
  expect(providerOf('opus')).toMatchObject({
    dialect: 'anthropic',
    base_url: 'https://acme.services.ai.azure.com/anthropic/v1',
  })
  expect(providerOf('r1')).toMatchObject({ dialect: 'openai', base_url: 'https://acme.eastus2.models.ai.azure.com' })
  expect(providerOf('sonnet').base_url).toContain(
    'us-east5-aiplatform.googleapis.com/v1/projects/p/locations/us-east5/',
  )
  expect(providerOf('tgi')).toEqual({
    dialect: 'openai',
    base_url: 'https://abc.endpoints.example/v1',
    headers: { Authorization: '${HUGGINGFACE_AUTHORIZATION}' },
  })
  expect(models.dear).toMatchObject({ price: 'free', context: 131_072, max_output: 4096 })
  expect(models.small).toMatchObject({ context: 2000, aliases: ["it's", 'fine'] })
  for (const id of ['unused', 'empty', 'named', 'embed', 'voice', 'with space']) expect(models).not.toHaveProperty(id)
  expect(err).not.toContain('UNUSED_KEY')
})

test('the variable of a secret never has the name of another provider’s variable', async () => {
  const { providers, models } = (await importFixture('wild', '--unpriced', 'free')).gateway
  const providerOf = (id: string) => providers[models[id].targets[0].provider]
  expect([providerOf('first').api_key, providerOf('plain').api_key]).toEqual([
    '${OPENAI_API_KEY_2}',
    '${OPENAI_API_KEY}',
  ])
  expect(providerOf('sonnet').service_account).not.toBe(providerOf('flash').service_account)
})

test('forbidden headers are dropped, and a key in the header of the dialect is kept', () => {
  const { gateway, remarks } = importText(`model_list:
  - { model_name: a, litellm_params: { model: anthropic/a, api_key: sk-1, headers: { Via: a, Accept: b, X-Api-Key: c } } }
`)
  expect((gateway['providers'] as Record<string, object>)['anthropic']).toEqual({
    dialect: 'anthropic',
    base_url: 'https://api.anthropic.com/v1',
    headers: { 'X-Api-Key': '${ANTHROPIC_X_API_KEY}' },
  })
  expect(remarks.filter(({ path }) => /headers\.(Via|Accept)$/.test(path))).toHaveLength(2)
})

test('every setting has a remark, even with an unusable value', () => {
  const { remarks } = importText(`model_list:
  - { model_name: a, litellm_params: { model: openai/a, max_tokens: 9999999, extra_headers: { x-list: [1] } }, model_info: { base_model: b } }
router_settings: { num_retries: 1, timeout: 5, stream_timeout: 6 }
litellm_settings:
  drop_params: true
  num_retries: 3
  request_timeout: 7
  stream_timeout: 8
  default_key_generate_params: { rpm_limit: none, tpm_limit: 0, duration: 0d, models: [{ a: 1 }] }
general_settings: { master_key: sk-1, global_max_parallel_requests: 2000000 }
credential_list: [{ credential_name: unused, credential_values: { api_key: sk-2 } }]
`)
  expect(remarks.map(({ path }) => path)).toEqual(
    expect.arrayContaining([
      'model_list[0].litellm_params.extra_headers.x-list',
      'router_settings.num_retries',
      'litellm_settings.num_retries',
      'litellm_settings.request_timeout',
      'litellm_settings.stream_timeout',
      'litellm_settings.default_key_generate_params.rpm_limit',
      'litellm_settings.default_key_generate_params.tpm_limit',
      'litellm_settings.default_key_generate_params.duration',
      'litellm_settings.default_key_generate_params.models[0]',
      'general_settings.master_key',
      'general_settings.global_max_parallel_requests',
      'credential_list[0].credential_values',
    ]),
  )
})

test('the changes that are noticed first are listed: the address, /v1 and the master key', async () => {
  const { err } = await importFixture('teams')
  expect(err).toContain('teams.yaml:2: the gateway listens on 127.0.0.1:4000 only, and its paths begin with /v1')
  expect(err).toMatch(/master_key: .* admin: 127\.0\.0\.1:8082 and token create/)
  for (const command of ['check', 'account create TEAM', 'serve']) expect(err).toContain(`tollgate ${command}`)
})

test('.env.example lists the variables without values', async () => {
  const { err } = await importFixture('providers')
  const [head, ...lines] = readFileSync(join(place.folder, 'out/.env.example'), 'utf8').trimEnd().split('\n')
  expect(head).toMatch(/^# Converted from providers\.yaml\. Copy this file to \.env/)
  expect(lines).toContain('OPENAI_API_KEY_2=')
  for (const line of lines) expect(line).toMatch(/^([A-Z0-9_]+=|# such as \S+)$/)
  expect(err).toContain('or in .env (copy out/.env.example): ')
  const none = importText('model_list:\n  - { model_name: a, litellm_params: { model: ollama/a } }\n')
  expect([...filesOf(none, 'x.yaml', []).keys()]).not.toContain('.env.example')
})

test('clouds: addresses, credentials and regions', async () => {
  const { providers, models } = (await importFixture('clouds')).gateway
  const providerOf = (model: string) => providers[models[model].targets[0].provider]
  expect(providerOf('claude-aws')).toEqual({
    dialect: 'bedrock',
    base_url: 'https://bedrock-runtime.us-west-2.amazonaws.com',
    aws: { access_key_id: '${AWS_ACCESS_KEY_ID}', secret_access_key: '${AWS_SECRET_ACCESS_KEY}', region: 'us-west-2' },
  })
  expect(providerOf('claude-invoke')).toMatchObject({
    dialect: 'bedrock-invoke',
    aws: { region: 'eu-central-1', access_key_id: '${AWS_ID}' },
  })
  expect(models['claude-invoke'].targets[0].model).toBe('anthropic.claude-haiku')
  expect(providerOf('nova')).toMatchObject({
    dialect: 'bedrock',
    base_url: 'https://bedrock-runtime.${AWS_REGION}.amazonaws.com',
  })
  expect(providerOf('gemini-flash')).toEqual({
    dialect: 'vertex',
    base_url: 'https://aiplatform.googleapis.com/v1/projects/${PROJECT}/locations/global/publishers/google',
    service_account: '${GOOGLE_JSON}',
  })
  expect(providerOf('claude-vertex')).toEqual({
    dialect: 'vertex-anthropic',
    base_url: 'https://us-east5-aiplatform.googleapis.com/v1/projects/acme-1/locations/us-east5/publishers/anthropic',
    service_account: '${file:google.json}',
  })
  expect(providerOf('phi')).toMatchObject({ dialect: 'azure', base_url: 'https://acme.services.ai.azure.com/models' })
  expect(providerOf('azure-new')).toMatchObject({ base_url: 'https://acme.openai.azure.com/openai/v1' })
  expect(models).not.toHaveProperty('llama-vertex')
})

test('each lost setting is listed with its line, the reason and an alternative', async () => {
  const { err, report } = await importFixture('teams')
  expect(report).toMatch(/^# Imported from \S*teams\.yaml\n/)
  for (const text of [err, report]) {
    expect(text).toContain(
      'teams.yaml:51 router_settings.fallbacks[0].chat[1] (missing): a fallback has no model; add it as a later target',
    )
    expect(text).toMatch(/teams\.yaml:52 router_settings\.redis_host: a single process needs no other server/)
    expect(text).toMatch(/teams\.yaml:57 litellm_settings\.success_callback: answers are not sent to other services/)
    expect(text).toMatch(/teams\.yaml:45 model_list\[2\]\.model_info\.access_groups: models have no groups/)
  }
  for (const text of [err, report]) {
    expect(text).toContain(
      'tollgate key create --account TEAM --name NAME --models chat --cap 1.50 --expires 30d -c out/gateway.yaml\n',
    )
    expect(text).toContain('tollgate account create TEAM --credit DOLLARS -c out/gateway.yaml\n')
  }
})

test('unknown models, providers, modes and keys are reported', async () => {
  const { err, gateway } = await importFixture('providers')
  expect(err).toMatch(
    /providers\.yaml:20 model_list\[17\]\S* \(sagemaker\/endpoint\): the provider is unknown to the importer/,
  )
  expect(err).toMatch(/providers\.yaml:21 model_list\[18\].*a model has no raw route: its price is unknown; add/)
  expect(err).toMatch(/providers\.yaml:22 model_list\[19\].*a wildcard covers the models of the price catalog/)
  expect(err).toMatch(
    /providers\.yaml:26 general_settings\.mistery \(mistery\): the setting is unknown to the importer/,
  )
  expect(err).toMatch(/providers\.yaml:25 environment_variables: secrets are not copied/)
  expect(Object.keys(gateway.models)).toHaveLength(18)
  expect(gateway.models.a5.reasoning).toBe(true)
})

test('every row of the source becomes a model or a remark', () => {
  const rows = [...MAKERS.keys()].map(
    prefix =>
      `  - { model_name: ${prefix}, litellm_params: { model: ${prefix}/name, strange: 1, input_cost_per_token: 1e-6, output_cost_per_token: 1e-6 } }\n`,
  )
  const { gateway, remarks } = importLitellm(`model_list:\n${rows.join('')}`, 'x.yaml', {
    catalog,
    list: null,
    unpriced: 'free',
  })
  const lost = remarks.filter(({ why }) => why.startsWith('on Vertex AI, only'))
  expect(lost.length).toBeGreaterThan(0)
  expect(Object.keys(gateway['models'] as object)).toEqual([...MAKERS.keys()].filter(id => !id.startsWith('vertex')))
  expect(remarks.filter(({ path }) => path.endsWith('.strange'))).toHaveLength(rows.length - lost.length)
})

test.each(['teams', 'clouds', 'providers', 'bare', 'wild'])(
  '%s: with any line damaged, it is imported or refused, and no secret leaks',
  name => {
    const lines = readFileSync(fixture(name), 'utf8').split('\n')
    const damages: ((line: string) => string)[] = [
      () => '',
      line => line.replace(/: .*/, ': [1, {a: b}]'),
      line => line.replace(/: .*/, ': 7'),
      line => line.replace(/: .*/, ':'),
      line => line.replace(/([a-z])(_?)/, '$1x$2'),
    ]
    let read = 0
    for (const [index, line] of lines.entries()) {
      // All damages to each line in a full run, some of them otherwise.
      for (const damage of damages.filter((_, turn) => (turn + index) % shareOf(damages.length) === 0)) {
        const text = lines.with(index, damage(line)).join('\n')
        try {
          const imported = importLitellm(text, 'x.yaml', { catalog, list: null, unpriced: 'disable' })
          const written = JSON.stringify([
            ...filesOf(imported, 'x.yaml', imported.commands),
            listOf(imported.remarks, 'x.yaml'),
            summary(imported.remarks, 'x.yaml', ''),
          ])
          expect(written).not.toMatch(/inline-(header-)?secret|pass-in-url|query-secret/)
          read++
        } catch (error) {
          expect(error).toBeInstanceOf(UnreadableYaml)
          expect(String(error)).not.toMatch(/inline-(header-)?secret|pass-in-url|query-secret/)
        }
      }
    }
    expect(read).toBeGreaterThan((lines.length * 2) / shareOf(damages.length))
  },
)

test('without --out the files are printed to stdout and the list to stderr; --json has both', async () => {
  const { code, out, err } = await tollgate('import', 'litellm', fixture('teams'))
  expect(code).toBe(0)
  const [, gateway, policy] = out.split(/^# --- .*$/m)
  expect(parse(gateway!).version).toBe(1)
  expect(parse(policy!).steps).toHaveLength(7)
  expect(err).toContain('Not converted: ')
  const json = JSON.parse((await tollgate('import', 'litellm', fixture('teams'), '--json')).out)
  expect(json).toMatchObject({ ok: true, problems: [], variables: expect.arrayContaining(['AZURE_API_KEY']) })
  expect(json.remarks).toContainEqual({
    kind: 'unneeded',
    line: 52,
    path: 'router_settings.redis_host',
    what: null,
    why: 'a single process needs no other server',
    instead: null,
  })
})
