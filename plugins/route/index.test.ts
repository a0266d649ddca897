import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import type { Account, Chat, ChatMessage, Key, Model, Target } from '#contract'
import { countsOf } from '../../test/helpers/counts.ts'
import { createSteps } from '../../test/helpers/step.ts'
import route from './index.ts'
import { byName, conversationOf, drawOrder } from './order.ts'

const counts = countsOf('corpus')

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
    // With the weights a 3, b 1 and c 4, numbers below 3/8 choose a, below 4/8 b, others c.
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

  test('has each target once, those without weight last, and does not change the list', () => {
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
      { numRuns: counts(50, 20_000) },
    )
  })

  test('the first and the second place are drawn by weight', () => {
    // Evenly spread numbers instead of chance, so the shares are exact.
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

describe('byName', () => {
  const names = Array.from({ length: 4000 }, (_, i) => `key_${i}`)

  test('the same name has the same order, whatever the order of the list', () => {
    for (const name of names.slice(0, 50)) expect(ids(byName([c, a, b], name))).toBe(ids(byName([a, b, c], name)))
  })

  test('names are spread by weight', () => {
    const first = names.map(name => byName([a, b, c], name)[0]!.id)
    const share = (id: string) => first.filter(each => each === id).length / names.length
    expect(share('a')).toBeCloseTo(3 / 8, 1)
    expect(share('b')).toBeCloseTo(1 / 8, 1)
    expect(share('c')).toBeCloseTo(4 / 8, 1)
  })

  test('if a target is removed, only its own names move', () => {
    for (const name of names.slice(0, 500)) {
      const [first] = byName([a, b, c], name)
      if (first !== c) expect(byName([a, b], name)[0]).toBe(first)
    }
  })

  test('targets without weight come last', () => {
    for (const name of names.slice(0, 50)) expect(byName([spare, a], name)[0]).toBe(a)
  })
})

test.each<[string, ChatMessage[], ChatMessage[], boolean]>([
  ['goes on', [said('a'), said('b')], [said('a'), said('b'), said('c')], true],
  ['is another', [said('a'), said('b')], [said('a'), said('c')], false],
])('a conversation that %s', (_name, one, other, same) => {
  expect(conversationOf(one) === conversationOf(other)).toBe(same)
})

describe('settings', () => {
  const key = { id: 'key_1' } as Key
  const account = { id: 'acct_1' } as Account
  const chat = { body: { messages: [said('Hello')] } } as unknown as Chat
  const order = async (settings: object, targets: Target[], latencies: Record<string, number | null> = {}) => {
    const { exchange } = await createSteps([{ use: route, with: { ...settings } }], {
      random: () => 0.999,
      targets: { latencyMs: id => latencies[id] ?? null },
    })({ facts: { model: { targets } as unknown as Model, key, account, chat } })
    return { order: ids(exchange.targets!), attempts: exchange.attemptsAtMost }
  }
  const late = (id: string, weight: number): Target => ({ ...target(id, weight), priority: 2 })

  test.each<[string, object, Target[], Record<string, number | null>, string]>([
    ['a lower priority is tried first, whatever the weights', {}, [late('z', 100), a], {}, 'az'],
    ['and its targets before all of the next', {}, [late('z', 1), c, late('y', 9), a], {}, 'acyz'],
    ['as listed', { order: 'listed' }, [c, a, b], {}, 'cab'],
    ['as listed, by priority', { order: 'listed' }, [late('z', 1), c, a], {}, 'caz'],
    ['the quickest first', { order: 'latency' }, [a, b, c], { a: 30, b: 10, c: 20 }, 'bca'],
    ['one that none has asked yet before all', { order: 'latency' }, [a, b, c], { a: 30, b: 10 }, 'cba'],
    ['sticky by key', { sticky: 'key' }, [a, b, c], {}, ids(byName([a, b, c], 'key_1'))],
    ['sticky by account', { sticky: 'account' }, [a, b, c], {}, ids(byName([a, b, c], 'acct_1'))],
    [
      'sticky by conversation',
      { sticky: 'conversation' },
      [a, b, c],
      {},
      ids(byName([a, b, c], conversationOf(chat.body.messages))),
    ],
  ])('%s', async (_name, settings, targets, latencies, expected) => {
    expect((await order(settings, targets, latencies)).order).toBe(expected)
  })

  test('a conversation is the same with and without cache marks', () => {
    const cache_control = { type: 'ephemeral' }
    const part = (text: string) => ({ type: 'text', text })
    const said = (...content: object[]) =>
      [
        { role: 'system', content: 'Be brief.' },
        { role: 'user', content },
      ] as const
    const plain = conversationOf([
      { role: 'system', content: 'Be brief.' },
      { role: 'user', content: 'Hello' },
    ])
    expect(conversationOf(said({ ...part('Hello'), cache_control }) as never)).toBe(plain)
    expect(conversationOf(said({ ...part('Hullo'), cache_control }) as never)).not.toBe(plain)
    const image = { type: 'image_url', image_url: { url: 'https://a.example/i.png' } }
    expect(conversationOf(said(part('a'), { ...image, cache_control }) as never)).toBe(
      conversationOf(said(part('a'), image) as never),
    )
  })

  test.each([
    [{}, 3],
    [{ attempts: 1 }, 1],
    [{ attempts: 10 }, 10],
  ])('%j: %i attempts', async (settings, attempts) => {
    expect((await order(settings, [a])).attempts).toBe(attempts)
  })

  test.each([
    [{ strategy: 'cheapest' }, 'additional'],
    [{ attempts: 0 }, '>= 1'],
    [{ attempts: 11 }, '<= 10'],
    [{ sticky: 'address' }, 'allowed values'],
    [{ order: 'latency', sticky: 'key' }, 'constant'],
  ])('%j is refused', (settings, sentence) => {
    expect(() =>
      createSteps([{ use: route, with: { ...settings } }], { random: () => 0, targets: NOTHING_SEEN }),
    ).toThrow(sentence)
  })
})

function said(content: string): ChatMessage {
  return { role: 'user', content }
}
