import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { lineWith } from '../replay/lines.ts'
import type { Place } from './helpers.ts'
import { gateway, LIST, MODELS, makePriced, row, writeList } from './price-lists.ts'

let place: Place
beforeEach(() => {
  place = makePriced()
})
afterEach(() => place.remove())

const diff = (...args: readonly string[]) => place.tollgate(['prices', 'diff', 'new.json', ...args])
const diffJson = async (...args: readonly string[]) => {
  const { code, out } = await diff('--json', ...args)
  return { code, ...JSON.parse(out) }
}
const { _tollgate: _, ...ROWS } = LIST

describe('changes by a list', () => {
  test('rates have their difference in dollars and percent', async () => {
    writeList(place, { ...ROWS, 'deepinfra/acme/small': row(1.5, 4), 'deepinfra/acme/new': row(1, 2) })
    const { code, out, err } = await diff()
    expect({ code, err }).toEqual({ code: 0, err: '' })
    expect(out).toMatch(/^infra\/acme\/small +input +\$1 +\$1\.50 +\+\$0\.50 +\+50 % +1M tokens$/m)
    expect(out).toMatch(/^both \(cost of infra\/acme\/small\) +input +\$1 +\$1\.50 +\+\$0\.50 /m)
    expect(out).toMatch(/^both +input +\$1\.25 +\$1\.50 +\+\$0\.25 +\+20 % /m)
    expect(out).toContain('  new       1 model: infra/acme/new\n')
    expect(out).toContain('  the same  2 models\n')
    // The manual price of $1.60 stays.
    expect(out).toMatch(/^hand \(cost of infra\/acme\/small\) +input +\$1 +\$1\.50/m)
    expect(out).toMatch(/^Handwritten prices do not change\. The list has other prices:$/m)
    expect(out).toMatch(/^hand +input +\$1\.60 +\$1\.50 +-\$0\.10 +-6\.25 % /m)
    expect(out).not.toContain('JUMP')
  })

  test('as JSON', async () => {
    writeList(place, { ...ROWS, 'deepinfra/acme/old': row(2, 3, { max_output_tokens: 5000 }) })
    const report = await diffJson()
    expect(report).toMatchObject({
      code: 0,
      ok: true,
      list: { from: 'new.json', format: 'LiteLLM', date: null },
      sizes: [{ model: 'infra/acme/old', what: 'max_output', before: 10000, after: 5000 }],
      new: [],
      removed: [],
      missing: [],
      log: null,
      failed: [],
    })
    expect(report.changed).toEqual([
      {
        model: 'infra/acme/old',
        target: null,
        listed_as: ['deepinfra/acme/old'],
        rates: [
          {
            unit: 'input',
            above: null,
            tier: null,
            per: 1_000_000,
            before: '3.000000000',
            after: '2.000000000',
            difference: '-1.000000000',
            percent: -33.33,
            mark: null,
          },
        ],
        accepted: false,
      },
    ])
  })

  test('in the format of models.dev', async () => {
    const model = (input: number) => ({
      cost: { input, output: 4, context_over_200k: { input: 2 * input } },
      limit: { context: 100_000, output: 10_000 },
    })
    writeList(place, {
      deepinfra: { models: { 'acme/small': model(1), 'acme/large': model(9), 'acme/old': model(3) } },
    })
    const { list, changed } = await diffJson()
    expect(list.format).toBe('models.dev')
    const large = changed.find(({ model: id }: { model: string }) => id === 'infra/acme/large')
    expect(large.rates).toContainEqual(expect.objectContaining({ unit: 'input', above: null, after: '9.000000000' }))
    expect(large.rates).toContainEqual(
      expect.objectContaining({ unit: 'input', above: 200_000, before: '10.000000000', after: '18.000000000' }),
    )
  })

  test('models that a wildcard loses, and models that get their price from another list', async () => {
    const { 'deepinfra/acme/old': _old, ...rest } = ROWS
    writeList(place, rest)
    expect(await diffJson()).toMatchObject({ code: 0, removed: ['infra/acme/old'] })
    place.write('gateway.yaml', gateway('  m: { targets: [ { provider: openai, model: gpt-5 } ], price: auto }'))
    place.write('prices.json', JSON.stringify({ ...LIST, 'gpt-5': row(1.25, 10, {}, 'openai') }))
    writeList(place, ROWS)
    expect(await diffJson()).toMatchObject({ missing: [{ model: 'm', from: 'genai-prices 0.1.8 of 2026-09-23' }] })
  })

  test('no changes', async () => {
    writeList(place, LIST)
    expect((await diff()).out).toMatch(/^No price changes\.\n/)
  })
})

describe('price jumps', () => {
  const jumping = { ...ROWS, 'deepinfra/acme/large': row(101, 0), 'deepinfra/acme/small': row(10, 4) }

  test('of more than ten times, and prices that fall to 0, are marked and refused', async () => {
    writeList(place, jumping)
    const { code, out, err } = await diff()
    expect(code).toBe(1)
    expect(out).toMatch(/^infra\/acme\/large +input +\$10 +\$101 .* JUMP$/m)
    expect(out).toMatch(/^ +output +\$40 +\$0 +-\$40 +-100 % +1M tokens +FREE$/m)
    // Exactly ten times is allowed.
    expect(out).toMatch(/^infra\/acme\/small +input +\$1 +\$10 +\+\$9 +\+900 % +1M tokens$/m)
    expect(err).toMatch(
      /^\ndeepinfra\/acme\/large: input \$10 -> \$101, cached_input \$1 -> \$101, output \$40 -> \$0\. If this is correct, add --accept deepinfra\/acme\/large\.\n/,
    )
    // Loading refuses it too: no other list has a price of the model.
    expect(err).toContain('output of deepinfra/acme/large is free in the price list')
  })

  test('of a wildcard to 0: its model would be dropped', async () => {
    writeList(place, { ...ROWS, 'deepinfra/acme/old': row(0, 0), 'deepinfra/acme/free': row(0, 0) })
    const { code, out, err } = await diff()
    expect(code).toBe(1)
    expect(out).toMatch(/^infra\/acme\/old +input +\$3 +\$0 .* FREE$/m)
    expect(out).toContain('  removed   1 model: infra/acme/old\n')
    expect(out).not.toContain('acme/free')
    expect(err).toContain('deepinfra/acme/old: input $3 -> $0, output $3 -> $0. If this is correct, add --accept')
    const accepted = await diff('--accept', 'deepinfra/acme/old')
    expect(accepted.code).toBe(0)
    expect(accepted.out).not.toContain('removed')
  })

  test.each([
    ['on the command line', ['--accept', 'deepinfra/acme/large'], 'catalog: prices.json'],
    ['in the configuration', [], 'catalog: { file: prices.json, accept: [deepinfra/acme/large] }'],
  ])('are allowed if accepted %s', async (_name, args, catalog) => {
    place.write('gateway.yaml', gateway(MODELS, catalog))
    writeList(place, jumping)
    const { code, out, err } = await diff(...args)
    expect({ code, err }).toEqual({ code: 0, err: '' })
    expect(out).toContain('JUMP, accepted')
  })

  test('against the built-in list are refused with the message of a load', async () => {
    writeList(place, { ...ROWS, 'gpt-5': row(20, 10, {}, 'openai') })
    const { code, err } = await diff()
    expect(code).toBe(1)
    expect(err).toContain('openai/gpt-5: input $1.25 -> $20')
    expect(err).toContain('new.json:28:12: input of openai/gpt-5 costs $20.000000000 for 1M tokens in the price list')
    expect((await diff('--accept', 'openai/gpt-5')).code).toBe(0)
  })
})

describe('a list that cannot be used', () => {
  const of = (text: string) => `{\n  "deepinfra/acme/small": ${text}\n}`
  test.each<[name: string, list: string | object, says: string]>([
    ['that is not JSON', '{\n  "a": nothing }', 'new.json:1:1: this price list is not JSON'],
    ['that is an HTML page', '<!doctype html><html></html>', 'new.json is an HTML page, not a price list in JSON.'],
    ['without a model', { a: 1 }, 'new.json:1:1: this price list has no model; write a file in the format of'],
    [
      'with a negative price',
      of('{ "litellm_provider": "deepinfra",\n    "input_cost_per_token": -1, "output_cost_per_token": 1e-6 }'),
      'new.json:3:29: deepinfra/acme/small: input_cost_per_token: -1 is not a price: it must not be below 0',
    ],
    [
      'without one of two prices',
      of('{ "litellm_provider": "deepinfra", "mode": "chat", "input_cost_per_token": 1e-6 }'),
      'new.json:2:27: deepinfra/acme/small has no output_cost_per_token; a price has both',
    ],
    [
      'with a price above the maximum',
      of('{ "litellm_provider": "deepinfra", "input_cost_per_token": 1, "output_cost_per_token": 1e-6 }'),
      '1 is $1000000 for 1M tokens: a price is at most $100000',
    ],
    [
      'with a duplicate model',
      of('{ "litellm_provider": "deepinfra" },\n  "deepinfra/acme/small": { "litellm_provider": "deepinfra" }'),
      'new.json:3:3: "deepinfra/acme/small" is in the price list twice',
    ],
    [
      'that is older than the one in use',
      { ...LIST, _tollgate: { date: '2026-01-04', from: 'x' } },
      'new.json:3:13: the price list (2026-01-04) is older than prices.json, which is in use (2026-01-05); use a newer list',
    ],
    [
      'from the future',
      { ...LIST, _tollgate: { date: '2999-01-04', from: 'x' } },
      'new.json:3:13: the date of the price list (2999-01-04) is in the future',
    ],
  ])('%s', async (_name, list, says) => {
    writeList(place, list)
    const { code, out, err } = await diff()
    expect({ code, out }).toEqual({ code: 1, out: '' })
    expect(err).toContain(says)
  })

  test('with several mistakes: all are reported, except those of unused vendors', async () => {
    writeList(place, {
      ...ROWS,
      'deepinfra/acme/one': row(-1, 1),
      'deepinfra/acme/two': row(1, -1),
      'claude-x': row(-1, 1, {}, 'anthropic'),
    })
    const { err } = await diff()
    expect(err.match(/is not a price/g)).toHaveLength(2)
    expect(err).not.toContain('claude-x')
  })

  test('that is missing', async () => {
    expect(await diff()).toEqual({
      code: 1,
      out: '',
      err: 'error: new.json cannot be read: the file does not exist.\n',
    })
  })

  test('without a model that the configuration names', async () => {
    place.write('gateway.yaml', gateway('  m: { targets: [ { provider: infra, model: acme/old } ], price: auto }'))
    writeList(place, { 'deepinfra/acme/new': row(1, 2) })
    const { code, err } = await diff()
    expect(code).toBe(1)
    expect(err).toContain('gateway.yaml:9:45: no price list has the model "acme/old" of DeepInfra')
    expect(err).toContain('The gateway would reject this price list.')
  })
})

describe('recorded traffic', () => {
  const used = (prompt: number, completion: number) => ({
    prompt_tokens: prompt,
    cached_tokens: 0,
    cache_write_tokens: 0,
    completion_tokens: completion,
    reasoning_tokens: 0,
    source: 'reported',
  })
  const line = (account: string, model: string, usage: object | null, charged: string | null) =>
    lineWith({ account: { id: `acc_${account}`, name: account, plan: 'default' }, model, usage, charged })
  const LINES = [
    line('acme', 'infra/acme/small', used(1_000_000, 500_000), '3.000000000'),
    line('acme', 'infra/acme/large', used(100_000, 0), '1.000000000'),
    line('zenith', 'infra/acme/small', used(200_000, 0), '0.200000000'),
    line('zenith', 'hand', used(1_000_000, 0), '1.600000000'),
    line('zenith', 'removed', used(1_000_000, 0), '9.000000000'),
    line('zenith', 'infra/acme/small', null, null),
  ]
  beforeEach(() => {
    place.write('usage.jsonl', `${LINES.map(each => JSON.stringify(each)).join('\n')}\n{ "v": 1\n`)
    writeList(place, { ...ROWS, 'deepinfra/acme/small': row(2, 4), 'deepinfra/acme/large': row(9, 40) })
  })

  test('would have a higher cost: by model, and by account', async () => {
    const { code, out } = await diff('--log', 'usage.jsonl')
    expect(code).toBe(0)
    expect(out).toContain('4 exchanges with usage in the log, 2026-11-20 08:00 UTC to 2026-11-20 08:00 UTC. $5.80 was')
    expect(out).toMatch(/^all +\$5\.80 +\$6\.90 +\+\$1\.10 +\+18\.96 %$/m)
    expect(out).toMatch(/^model infra\/acme\/small +\$3\.20 +\$4\.40 +\+\$1\.20 +\+37\.5 %$/m)
    expect(out).toMatch(/^model infra\/acme\/large +\$1 +\$0\.90 +-\$0\.10 +-10 %$/m)
    expect(out).toMatch(/^account acme +\$4 +\$4\.90 +\+\$0\.90 +\+22\.5 %$/m)
    expect(out).toMatch(/^account zenith +\$1\.80 +\$2 +\+\$0\.20 +\+11\.11 %$/m)
    expect(out).not.toContain('model hand')
    expect(out).toContain('1 line without usage omitted.\n1 line with unknown models omitted.\n')
    expect(out).toMatch(/1 line skipped:\n {2}.*usage\.jsonl:7: it is not JSON/)
  })

  test('as JSON, with all accounts', async () => {
    const { log } = await diffJson('--log', 'usage.jsonl')
    expect(log).toMatchObject({
      lines: 4,
      charged: '5.800000000',
      cost: { before: '5.800000000', after: '6.900000000', difference: '1.100000000', percent: 18.96 },
      accounts: [
        { id: 'acc_acme', name: 'acme', difference: '0.900000000' },
        { id: 'acc_zenith', name: 'zenith', difference: '0.200000000' },
      ],
      without_usage: 1,
      unknown_models: 1,
      skipped: 1,
    })
    expect(log.models).toContainEqual({
      id: 'hand',
      before: '1.600000000',
      after: '1.600000000',
      difference: '0.000000000',
      percent: 0,
    })
  })

  test('of a free model that gets a price counts; an answer from a cache keeps its charge', async () => {
    place.write('gateway.yaml', gateway(MODELS, 'catalog: { file: prices.json, accept: [deepinfra/acme/old] }'))
    place.write('prices.json', JSON.stringify({ ...LIST, 'deepinfra/acme/old': row(0, 0) }))
    const cached = { ...used(1_000_000, 0), source: 'cached' }
    const lines = [
      line('acme', 'infra/acme/old', used(1_000_000, 0), null),
      line('acme', 'infra/acme/small', cached, '0.030000000'),
      line('acme', 'infra/acme/small', cached, null),
    ]
    place.write('usage.jsonl', lines.map(each => `${JSON.stringify(each)}\n`).join(''))
    const { log } = await diffJson('--log', 'usage.jsonl')
    expect(log).toMatchObject({
      lines: 3,
      charged: '0.030000000',
      cost: { before: '0.030000000', after: '3.030000000', difference: '3.000000000' },
      without_usage: 0,
    })
    expect(log.models).toEqual([
      expect.objectContaining({ id: 'infra/acme/old', before: '0.000000000', after: '3.000000000', percent: null }),
      expect.objectContaining({ id: 'infra/acme/small', before: '0.030000000', after: '0.030000000', percent: 0 }),
    ])
  })

  test('in a missing log', async () => {
    expect(await diff('--log', 'nowhere.jsonl')).toMatchObject({
      code: 1,
      out: '',
      err: expect.stringContaining('nowhere.jsonl cannot be read'),
    })
  })
})
