import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import type { Model, Target } from '#contract'
import { counts } from '../../test/helpers/counts.ts'
import { createSteps } from '../../test/helpers/step.ts'
import route from './index.ts'
import { drawOrder } from './order.ts'

const target = (id: string, weight: number): Target => ({
  id,
  provider: id,
  model: id,
  weight,
  cost: null,
  capField: 'max_tokens',
  reasoningOutsideCap: 0,
  priority: 1,
  maxInflight: Number.POSITIVE_INFINITY,
})
const NOTHING_SEEN = { latencyMs: () => null }
const ids = (targets: readonly Target[]) => targets.map(({ id }) => id).join('')
const [a, b, c, spare, other] = [target('a', 3), target('b', 1), target('c', 4), target('s', 0), target('o', 0)]

describe('drawOrder', () => {
  test.each([
    // Of a 3, b 1, c 4: lots below 3/8 are a's, below 4/8 b's, the rest c's.
    ['the lowest lots', [a, b, c], [0, 0, 0], 'abc'],
    ["the end of the first one's share", [a, b, c], [0.374999, 0, 0], 'abc'],
    ["the begin of the second one's share", [a, b, c], [0.375, 0, 0], 'bac'],
    ["the end of the second one's share", [a, b, c], [0.499999, 0, 0], 'bac'],
    ["the begin of the third one's share", [a, b, c], [0.5, 0, 0], 'cab'],
    ['the highest lots', [a, b, c], [0.999999, 0.999999, 0.999999], 'cba'],
    ['a lot that rounding has made too high', [a, b, c], [1, 1, 1], 'cba'],
    ['a target without weight', [spare, a, b], [0, 0, 0], 'abs'],
    ['only targets without weight', [spare, other], [0.9, 0.9], 'so'],
    ['a lot too high beside a target without weight', [a, spare], [1, 0], 'as'],
    ['one target', [a], [], 'a'],
    ['no target', [], [], ''],
  ])('%s', (_name, targets, lots, order) => {
    const drawn = [...lots]
    expect(ids(drawOrder(targets, () => drawn.shift()!))).toBe(order)
  })

  test('every target once, those without weight last, and the list itself untouched', () => {
    const lot = fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true })
    const weights = fc.array(fc.oneof(fc.nat(100), fc.double({ min: 0, max: 1e9, noNaN: true })), { maxLength: 12 })
    fc.assert(
      fc.property(weights, fc.array(lot, { minLength: 12, maxLength: 12 }), (given, lots) => {
        const targets = Object.freeze(given.map((weight, i) => target(String(i), weight)))
        const order = drawOrder(targets, () => lots.shift()!)
        expect(new Set(order)).toEqual(new Set(targets))
        expect(order.length).toBe(targets.length)
        const without = order.findIndex(({ weight }) => weight === 0)
        if (without >= 0) expect(order.slice(without).every(({ weight }) => weight === 0)).toBe(true)
      }),
      { numRuns: counts(200, 20_000) },
    )
  })

  test('the first and the second place go by weight', () => {
    // Evenly spread lots instead of chance: the shares come out exact.
    const [first, second] = [new Map<string, number>(), new Map<string, number>()]
    const n = 80
    for (let i = 0; i < n; i++) {
      for (let j = 0; j < n; j++) {
        const lots = [(i + 0.5) / n, (j + 0.5) / n, 0]
        const [one, two] = drawOrder([a, b, c], () => lots.shift()!)
        first.set(one!.id, (first.get(one!.id) ?? 0) + 1 / n / n)
        second.set(two!.id, (second.get(two!.id) ?? 0) + 1 / n / n)
      }
    }
    expect(first.get('a')).toBeCloseTo(3 / 8, 10)
    expect(first.get('b')).toBeCloseTo(1 / 8, 10)
    expect(first.get('c')).toBeCloseTo(4 / 8, 10)
    expect(second.get('a')).toBeCloseTo((1 / 8) * (3 / 7) + (4 / 8) * (3 / 4), 2)
  })
})

test('gives the targets of the model, in the drawn order', async () => {
  const model = { id: 'chat-small', targets: [a, b, c] } as unknown as Model
  const lots = [0.6, 0.9, 0]
  const { exchange, passed } = await createSteps([{ use: route }], {
    random: () => lots.shift()!,
    targets: NOTHING_SEEN,
  })({
    facts: { model },
  })
  expect(passed).toBe(true)
  expect(ids(exchange.targets!)).toBe('cba')
  expect(ids(model.targets)).toBe('abc')
})

test('refuses settings it does not know', () => {
  expect(() =>
    createSteps([{ use: route, with: { strategy: 'cheapest' } }], { random: () => 0, targets: NOTHING_SEEN }),
  ).toThrow('additional')
})
