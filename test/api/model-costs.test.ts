/** Costs and margins, for operators only, and prices with their price list, for members too. */
import { expect, test } from 'vitest'
import { type Model, type Price, parseMoney, plainPrice, type Target } from '#contract'
import { showModelToOperators } from '../../src/api/model-costs.ts'
import type { ModelView, OperatorModelView, PageView, ReceiptView } from '../../src/api/views.ts'
import { aHold, aSettle } from '../store/helpers.ts'
import { aModel, startRig } from './rig.ts'

const usd = (input: string, output: string): Price =>
  plainPrice({ input: parseMoney(input), output: parseMoney(output) })
const targets = (...costs: readonly (Price | null)[]): readonly Target[] =>
  costs.map((cost, index) => ({ id: `maker/m${index}`, cost }) as Target)
const seen = (price: Price | null, costs: readonly (Price | null)[], more: Partial<Model> = {}) =>
  showModelToOperators(aModel('m', { price, targets: targets(...costs), ...more }), [])

test.each<[name: string, price: Price | null, costs: readonly (Price | null)[], input: number | null, output: unknown]>(
  [
    ['the price over the cost', usd('1.25', '3'), [usd('1', '2')], 20, 33.3],
    ['the same price', usd('1', '2'), [usd('1', '2')], 0, 0],
    ['rounded down', usd('1', '2'), [usd('0.7501', '2.000000001')], 24.9, -0.1],
    ['of two targets the smaller', usd('2', '4'), [usd('1', '4'), usd('2', '1'), null], 0, 0],
    ['a loss', usd('1', '2'), [usd('4', '1')], -300, 50],
    ['a free model', null, [usd('1', '2')], null, null],
    ['no known cost', usd('1', '2'), [null], null, null],
    ['a cost of 0', usd('1', '2'), [usd('0', '0')], 100, 100],
    ['an output without a cost', usd('1', '2'), [plainPrice({ input: parseMoney('1') })], 0, 100],
    ['prices for another number', [{ unit: 'input', nanos: 2_000_000n, per: 1000 }], [usd('1', '0')], 50, null],
  ],
)('margin: %s', (_, price, costs, input, output) => {
  expect(seen(price, costs).margin).toEqual({ input, output })
})

const M = 1_000_000
const rule = (unit: Price[number]['unit'], dollars: string, more: Partial<Price[number]> = {}): Price[number] => ({
  unit,
  nanos: parseMoney(dollars),
  per: unit === 'search' ? 1 : M,
  ...more,
})

test.each<[name: string, price: Price, cost: Price, below: object[], more?: Partial<Model>]>([
  ['none', usd('1', '2'), usd('1', '2'), []],
  ['one unit', usd('1', '2'), usd('1', '2.1'), [{ unit: 'output' }]],
  [
    'a part without its own cost, which costs as much as its whole',
    [...usd('1', '2'), rule('cached_input', '0.1')],
    usd('1', '2'),
    [{ unit: 'cached_input' }],
  ],
  [
    'longer prompts only',
    usd('1', '2'),
    [...usd('1', '2'), rule('input', '2', { above: 1000 })],
    [{ unit: 'input', above: 1000 }],
  ],
  [
    'a tier only',
    usd('1', '2'),
    [...usd('1', '2'), rule('output', '4', { tier: 'priority' })],
    [{ unit: 'output', tier: 'priority' }],
    { allow: ['service_tier'] },
  ],
  [
    'a tier that clients cannot request',
    usd('1', '2'),
    [...usd('1', '2'), rule('output', '4', { tier: 'priority' })],
    [],
  ],
  ['a step of the price only', [rule('input', '1'), rule('input', '2', { above: 9 })], [rule('input', '1')], []],
  [
    'a part on long prompts, which cost as much as the part',
    [...usd('4', '2'), rule('cached_input', '1')],
    [rule('input', '1'), rule('input', '2', { above: 1000 })],
    [{ unit: 'cached_input', above: 1000 }],
  ],
  [
    'a step of a tier',
    usd('1', '2'),
    [...usd('1', '2'), rule('input', '1', { tier: 'flex' }), rule('input', '2', { tier: 'flex', above: 9 })],
    [{ unit: 'input', above: 9, tier: 'flex' }],
    { allow: ['service_tier'] },
  ],
  [
    'prompts that are longer than the context',
    usd('1', '2'),
    [...usd('1', '2'), rule('input', '2', { above: 1000 })],
    [],
    { context: 1000 },
  ],
  [
    'the same with searches, each of which reads the prompt again',
    usd('1', '2'),
    [...usd('1', '2'), rule('input', '2', { above: 1000 })],
    [{ unit: 'input', above: 1000 }],
    { context: 1000, allow: ['web_search'] },
  ],
  ['searches that the model may not make', usd('1', '2'), [rule('search', '0.01')], []],
  [
    'searches that the model may make',
    usd('1', '2'),
    [rule('search', '0.01')],
    [{ unit: 'search' }],
    { allow: ['web_search'] },
  ],
])('below the cost: %s', (_, price, cost, below, more) => {
  expect(seen(price, [cost], more).below_cost).toEqual(below.map(each => ({ target: 'maker/m0', ...each })))
})

const LIST = 'a list of 2026-09-23'
const LISTED: Price = usd('1', '2').map(each => ({ ...each, source: LIST }))

const MODELS = [
  aModel('listed', {
    price: LISTED,
    targets: targets(usd('0.123456789', '0.987654321')),
    wildcard: 'list*',
    deprecation: { date: '2027-03-01', successor: 'hidden' },
  }),
  aModel('hidden', { public: false }),
  aModel('off', { enabled: false }),
]

test('members see prices with their price list and the end date of a model, but neither costs nor targets', async () => {
  await using rig = await startRig({ parts: { models: () => MODELS } })
  const alice = await rig.member('alice@example.com')
  const { body, text } = await alice.get<PageView<ModelView>>('/api/models')
  expect(body.items).toHaveLength(1)
  expect(body.items[0]).toMatchObject({
    id: 'listed',
    wildcard: 'list*',
    deprecation: { date: '2027-03-01', successor: 'hidden' },
    price: {
      rules: [
        { unit: 'input', source: LIST },
        { unit: 'output', source: LIST },
      ],
    },
  })
  expect(text).not.toMatch(/cost|margin|target|maker|0\.123456789|0\.987654321/)
  expect((await alice.get('/api/operator/models')).status).toBe(403)
})

test('operators see the costs of all models', async () => {
  await using rig = await startRig({ parts: { models: () => MODELS } })
  const { body } = await (await rig.operator()).get<PageView<OperatorModelView>>('/api/operator/models')
  expect(body.items.map(({ id, enabled, public: isPublic }) => [id, enabled, isPublic])).toEqual([
    ['listed', true, true],
    ['hidden', true, false],
    ['off', false, true],
  ])
  expect(body.items[0]).toMatchObject({
    model: { id: 'listed' },
    targets: [{ target: 'maker/m0', cost: { input: '0.123456789', output: '0.987654321', rules: null } }],
    margin: { input: 87.6, output: 50.6 },
    below_cost: [],
  })
})

test('a receipt names the price list that priced it', async () => {
  await using rig = await startRig()
  const alice = await rig.member('alice@example.com')
  await rig.store.ledger.hold(aHold({ accountId: alice.accountId, exchange: 'req_1', price: LISTED }))
  await rig.store.ledger.settle(aSettle({ exchange: 'req_1' }))
  const { body } = await alice.get<ReceiptView>('/api/receipts/req_1')
  expect(body.price.rules?.map(({ source }) => source)).toEqual([LIST, LIST])
})
