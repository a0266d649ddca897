import { describe, expect, test } from 'vitest'
import { type Catalog, cost, type Key, type Model, type Price, plainPrice, type Receipt } from '#contract'
import { listedModels, modelEntry, modelList, receiptEntry } from '../../../src/request/answer/entries.ts'

const PRICE: Price = plainPrice({
  input: 150_000_000n,
  cached_input: 30_000_000n,
  cache_write: 1n,
  output: 600_000_000n,
  request: 0n,
})

const USED = { input: 10, cached_input: 4, cache_write: 1, output: 5, reasoning: 2 }

const model = (id: string, fields: Partial<Model> = {}): Model => ({
  id,
  targets: [],
  price: PRICE,
  context: 131_072,
  maxOutput: 16_384,
  defaultOutput: 4_096,
  reasoning: false,
  inputOverhead: 0,
  allow: [],
  public: true,
  enabled: true,
  created: 1_790_000_000,
  ownedBy: 'us',
  description: null,
  ...fields,
})

describe('the list of models', () => {
  const models = [model('a'), model('hidden', { public: false }), model('off', { enabled: false }), model('b')]
  const catalog: Catalog = { list: () => models, find: id => models.find(each => each.id === id) }
  const key = (allowed: Key['models']) => ({ models: allowed }) as Key

  test.each<[name: string, key: Key | undefined, ids: string[]]>([
    ['no key: the public ones', undefined, ['a', 'b']],
    ['a key for all', key(null), ['a', 'b']],
    ['a key for some', key(['b', 'off']), ['b']],
    ['a key that names one that is not public', key(['hidden', 'b']), ['hidden', 'b']],
    ['a key for none', key([]), []],
  ])('%s', (_name, allowed, ids) => {
    expect(listedModels(catalog, allowed, undefined).map(({ id }) => id)).toEqual(ids)
  })

  test('is in the form that client libraries read', () => {
    expect(modelList([model('a')])).toEqual({ object: 'list', data: [modelEntry(model('a'))] })
    expect(modelList([])).toEqual({ object: 'list', data: [] })
  })
})

describe('a model', () => {
  test('has OpenAI’s fields first, its sizes, and its price to the nano-dollar', () => {
    expect(modelEntry(model('a', { description: 'Small.' }))).toEqual({
      id: 'a',
      object: 'model',
      created: 1_790_000_000,
      owned_by: 'us',
      description: 'Small.',
      context_length: 131_072,
      max_output: 16_384,
      pricing: {
        unit: '1M tokens',
        input: '0.150000000',
        cached_input: '0.030000000',
        cache_write: '0.000000001',
        output: '0.600000000',
        request: '0.000000000',
        web_search: '0.000000000',
      },
      supported_parameters: expect.arrayContaining(['max_tokens', 'tools']),
    })
  })

  test('that is free has no price, and no description without one', () => {
    const entry = modelEntry(model('a', { price: null }))
    expect(entry).toMatchObject({ pricing: null })
    expect(entry).not.toHaveProperty('description')
  })

  test.each([
    [
      { date: '2027-03-01', successor: 'b' },
      { expiration_date: '2027-03-01', successor: 'b' },
    ],
    [
      { date: null, successor: null },
      { expiration_date: null, successor: null },
    ],
  ])('that ends has the date and its successor: %j', (deprecation, fields) => {
    expect(modelEntry(model('a', { deprecation }))).toMatchObject(fields)
    expect(Object.keys(modelEntry(model('a')))).not.toContain('expiration_date')
  })

  test('has each rule of its price with the price list, if it has one', () => {
    const price = PRICE.map(rule => ({ ...rule, source: 'a list of 2026-09-23' }))
    expect(modelEntry(model('a', { price }))).toMatchObject({
      pricing: { rules: PRICE.map(({ unit }) => ({ unit, source: 'a list of 2026-09-23' })) },
    })
  })

  test('does not reveal its provider', () => {
    const targets = [
      { id: 'secret-provider/x', provider: 'secret-provider', model: 'x' },
    ] as unknown as Model['targets']
    expect(JSON.stringify(modelEntry(model('a', { targets })))).not.toContain('secret-provider')
  })

  test.each([
    [true, true],
    [false, false],
  ])('supports reasoning_effort if it has reasoning: %s', (reasoning, takes) => {
    const { supported_parameters: names } = modelEntry(model('a', { reasoning })) as { supported_parameters: string[] }
    expect(names.includes('reasoning_effort')).toBe(takes)
    expect(names).toEqual(names.toSorted())
  })
})

describe('a receipt', () => {
  const receipt: Receipt = {
    id: 'req_1',
    accountId: 'acct_1',
    keyId: 'key_1',
    model: 'a',
    createdAt: 1_790_000_000_999,
    settledAt: 1_790_000_002_001,
    correctedAt: 1_790_000_003_001,
    price: PRICE,
    held: 1_250_000n,
    charged: 16_400n,
    overrun: 100n,
    source: 'reported',
    outcome: 'answered',
    code: null,
    usage: USED,
    cost: cost(USED, PRICE),
    attempts: [],
    trail: [],
    idempotencyKey: 'order-7',
    tags: { team: 'search' },
  }

  test('shows money in dollars and times in seconds', () => {
    expect(receiptEntry(receipt)).toMatchObject({
      id: 'req_1',
      object: 'receipt',
      created: 1_790_000_000,
      settled: 1_790_000_002,
      corrected: 1_790_000_003,
      held: '0.001250000',
      charged: '0.000016400',
      overrun: '0.000000100',
      usage: {
        prompt_tokens: 10,
        cached_tokens: 4,
        cache_write_tokens: 1,
        completion_tokens: 5,
        reasoning_tokens: 2,
        searches: 0,
        source: 'reported',
      },
      lines: [
        { unit: 'input', quantity: 5, rate: '0.150000000', per: 1_000_000, amount: '0.000000750000000' },
        { unit: 'cached_input', quantity: 4, rate: '0.030000000', per: 1_000_000, amount: '0.000000120000000' },
        { unit: 'cache_write', quantity: 1, rate: '0.000000001', per: 1_000_000, amount: '0.000000000000001' },
        { unit: 'output', quantity: 5, rate: '0.600000000', per: 1_000_000, amount: '0.000003000000000' },
      ],
      rounding: '0.000000000999999',
      cost: '0.000003871',
      key: 'key_1',
      idempotency_key: 'order-7',
      tags: { team: 'search' },
    })
  })

  test('of an open hold has no charge yet', () => {
    expect(receiptEntry({ ...receipt, settledAt: null, charged: null, source: null, outcome: null })).toMatchObject({
      settled: null,
      charged: null,
      outcome: null,
    })
  })

  test('can be written as JSON, without big integers', () => {
    expect(() => JSON.stringify(receiptEntry(receipt))).not.toThrow()
  })
})
