import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { runCommand } from '../helpers/command.ts'
import type { Place } from './helpers.ts'
import { gateway, LIST, makePriced } from './price-lists.ts'

let place: Place
beforeEach(() => {
  place = makePriced()
})
afterEach(() => place.remove())

const show = (...args: readonly string[]) => place.tollgate(['prices', 'show', ...args])
const shown = async (...args: readonly string[]) => JSON.parse((await show(...args, '--json')).out).models

describe('the models of the configuration', () => {
  test('have one line each, with the list of the price', async () => {
    const { code, out, err } = await show()
    expect({ code, err }).toEqual({ code: 0, err: '' })
    const lines = out.split('\n').map(line => line.split(/ {2,}/))
    expect(lines).toContainEqual([
      'infra/acme/large',
      '$10',
      '$40',
      '100000',
      '10000',
      '0 %',
      'prices.json of 2026-01-05',
    ])
    expect(lines).toContainEqual(['hand', '$1.60', '$5', '64000', '4000', '20 %', 'gateway.yaml'])
    expect(out).toContain('The provider turns off: infra/acme/large 2030-05-01.')
  })

  test('with several targets have the highest rate of each unit, and the margin at each target', async () => {
    const { out } = await show('b')
    expect(out).toContain('both\n  aliases      b\n')
    expect(out).toMatch(/^input +\$1\.25 +1M tokens$/m)
    expect(out).toMatch(/^output +\$10 +1M tokens$/m)
    expect(out).toContain('Target infra/acme/small, listed as deepinfra/acme/small: its cost is from prices.json of')
    expect(out).toMatch(/^input +\$1 +\$0\.25 +20 % +1M tokens$/m)
    expect(out).toMatch(/^output +\$4 +\$6 +60 % +1M tokens$/m)
    expect(out).toMatch(/^input +\$1\.25 +\$0 +0 % +1M tokens$/m)
  })

  test('can come from a list above the size limit of other configuration files', async () => {
    const other = { litellm_provider: 'x', source: 'x'.repeat(3 * 1024 * 1024) }
    place.write('prices.json', JSON.stringify({ ...LIST, other }))
    expect(await shown('infra/acme/old')).toHaveLength(1)
  })

  test('are found by a wildcard', async () => {
    expect((await shown('infra/*')).map(({ id }: { id: string }) => id)).toEqual([
      'infra/acme/small',
      'infra/acme/large',
      'infra/acme/old',
    ])
    expect((await shown('*/old')).map(({ id }: { id: string }) => id)).toEqual(['infra/acme/old'])
  })

  test('as JSON, with the source of each value', async () => {
    expect(await shown('hand')).toEqual([
      expect.objectContaining({
        id: 'hand',
        price_from: 'gateway.yaml',
        context: { value: 64000, from: 'gateway.yaml' },
        reasoning: { value: false, from: 'default' },
        targets: [
          expect.objectContaining({
            id: 'infra/acme/small',
            listed_as: 'deepinfra/acme/small',
            cost_from: 'prices.json of 2026-01-05',
            margins: [
              {
                unit: 'input',
                above: null,
                tier: null,
                price: '1.600000000',
                cost: '1.000000000',
                margin: '0.600000000',
                percent: 37.5,
              },
              expect.objectContaining({ unit: 'output', margin: '1.000000000', percent: 20 }),
            ],
          }),
        ],
      }),
    ])
    const [large] = await shown('infra/acme/large')
    expect(large).toMatchObject({
      wildcard: 'infra/*',
      price: { input: '10.000000000', cached_input: '1.000000000' },
      max_output: { value: 10000, from: 'prices.json' },
      ends: { date: '2030-05-01', successor: null },
    })
  })

  test('steps, tiers, and priced units that Tollgate does not count', async () => {
    place.write(
      'prices.json',
      JSON.stringify({
        'deepinfra/acme/small': {
          litellm_provider: 'deepinfra',
          mode: 'chat',
          input_cost_per_token: 0.000001,
          input_cost_per_token_above_200k_tokens: 0.000002,
          input_cost_per_token_flex: 0.0000005,
          output_cost_per_token: 0.000004,
          input_cost_per_wink: 5,
        },
      }),
    )
    const { out } = await show('infra/acme/small')
    expect(out).toMatch(/^input +\$1 +1M tokens$/m)
    expect(out).toMatch(/^input above 200000 tokens +\$2 +1M tokens$/m)
    expect(out).toMatch(/^input \(flex\) +\$0\.50 +1M tokens$/m)
    expect(out).toContain('not counted  input_cost_per_wink (the list has a price)')
    expect(out).toContain('max output   8192 tokens (default)')
    expect((await show()).out).toContain('Other rates for long prompts or service tiers: infra/acme/small, both.')
  })

  test('a free model with a cost has no price', async () => {
    place.write(
      'gateway.yaml',
      gateway(
        '  gift: { targets: [ { provider: infra, model: acme/small, cost: auto } ], price: free, context: 8k, max_output: 1k }',
      ),
    )
    expect((await show()).out).toMatch(/^gift +free +free +8000 +1000 +no price +gateway\.yaml$/m)
  })
})

describe('the price catalog', () => {
  test('has models that the configuration does not have', async () => {
    const { out } = await show('anthropic/claude-sonnet-4-5')
    expect(out).toContain('anthropic/claude-sonnet-4-5\n  price from  genai-prices')
    expect(out).toMatch(/^input above 200000 tokens +\$6 +1M tokens$/m)
    expect((await show('deepinfra')).out).toMatch(/^deepinfra\/acme\/old +\$3 +\$3 /m)
  })

  test.each([
    ['openai/gtp-5', 'error: No price list has the model "gtp-5" of OpenAI; did you mean "openai/gpt-5"?\n'],
    ['zeppelin', 'error: No model of the configuration and no vendor has the name "zeppelin"; write the id of a model'],
    ['openia', 'has the name "openia"; did you mean "openai"?\n'],
  ])('%s is in no list', async (name, says) => {
    const { code, out, err } = await show(name)
    expect({ code, out }).toEqual({ code: 1, out: '' })
    expect(err).toContain(says)
  })

  test('needs no configuration: it lists vendors and their models', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'tollgate-cli-'))
    try {
      const { code, out } = await runCommand(folder, ['prices', 'show'])
      expect(code).toBe(0)
      expect(out).toMatch(/^openai +OpenAI +\d+$/m)
      expect(out).not.toContain('deepinfra')
      expect((await runCommand(folder, ['prices', 'show', 'openai/gpt-5'])).out).toMatch(/^output +\$10 +1M tokens$/m)
    } finally {
      rmSync(folder, { recursive: true })
    }
  })
})

test('a configuration with problems has no prices, but the built-in list still has', async () => {
  place.write('prices.json', '{')
  const broken = await show()
  expect(broken).toMatchObject({ code: 1, out: '' })
  expect(broken.err).toContain('prices.json:1:1: this price list is not JSON')
  const { code, out, err } = await show('openai/gpt-5')
  expect(code).toBe(0)
  expect(err).toBe('./gateway.yaml has problems (tollgate check shows them): these are prices of the built-in list.\n')
  expect(out).toContain('openai/gpt-5\n')
})

describe('tollgate check', () => {
  const env = { DEEPINFRA_API_KEY: 'secret-1', OPENAI_API_KEY: 'secret-2' }
  const check = (...args: readonly string[]) => place.tollgate(['check', ...args], { env })

  test('has a line for each model of the file, and one for each wildcard', async () => {
    place.write('gateway.yaml', gateway(`${MODELS_BY_LIST}\n${HAND}`, 'catalog: prices.json'))
    const { code, out } = await check()
    expect(code).toBe(0)
    expect(out.slice(out.indexOf('prices:'))).toBe(
      `prices: 4 models from prices.json of 2026-01-05, 1 by hand
  infra/*  3 models  $1 to $10 in, $3 to $40 out (1M tokens)  prices.json of 2026-01-05
  one                $3 in, $3 out (1M tokens)                prices.json of 2026-01-05
  hand               $9 in, $9 out (1M tokens)                gateway.yaml
`,
    )
    const { files } = JSON.parse((await check('--json')).out)
    expect(files[0].prices).toHaveLength(5)
    expect(files[0].prices[4]).toMatchObject({ id: 'hand', price_from: 'gateway.yaml' })
  })

  test('counts sizes that no list has', async () => {
    const bare = { litellm_provider: 'deepinfra', input_cost_per_token: 1e-6, output_cost_per_token: 1e-6 }
    place.write('prices.json', JSON.stringify({ 'deepinfra/acme/old': bare }))
    place.write('gateway.yaml', gateway(MODELS_BY_LIST))
    expect((await check()).out).toMatch(
      /^prices: 2 models from prices\.json \([0-9a-f]{8}\); max_output of 2 models is a default \(8192\); context of 2 models is a default \(131072\)$/m,
    )
  })

  test('prints no prices if all are manual', async () => {
    place.write('gateway.yaml', gateway(HAND, ''))
    expect((await check()).out).not.toContain('prices:')
    expect(JSON.parse((await check('--json')).out).files[0]).not.toHaveProperty('prices')
  })
})

const MODELS_BY_LIST = `  infra/*: { targets: [ { provider: infra, model: "*" } ], price: auto }
  one: { targets: [ { provider: infra, model: acme/old } ], price: auto }`
const HAND =
  '  hand: { targets: [ { provider: infra, model: acme/small } ], price: { per: 1M tokens, input: $9, output: $9 }, context: 8k, max_output: 1k }'
