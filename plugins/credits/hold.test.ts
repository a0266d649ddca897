import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { cost, type MeteredUsage, rateOf, rawHold, searchBounds, UNIT_NAMES, withoutZeros } from '#contract'
import { countsOf } from '../../test/helpers/counts.ts'
import { chargeFor } from './charge.ts'
import { affordableCap, boundOf, completionCeiling, holdFor, promptCeiling, smallestCap } from './hold.ts'
import { anyChat, anyModel, anyPrice, chat, model, PRICE, priced, progress, target, usage } from './test-samples.ts'

const counts = countsOf('corpus')

const _tokens = (prompt: number, completion: number, cached = 0, cacheWrite = 0) => ({
  prompt,
  cached,
  cacheWrite,
  completion,
})

const native = (type: string, more: object = {}) => ({ type: 'anthropic', anthropic: { type, name: 'a', ...more } })

describe('the bound of a prompt', () => {
  const ceiling = (body: Parameters<typeof chat>[0], fields: Parameters<typeof model>[0] = {}) => {
    const of = chat(body)
    return promptCeiling(of, model(fields)) - of.bytes.length
  }
  const WHOLE = Symbol('the whole context')

  test.each<[name: string, body: Parameters<typeof chat>[0], beyondBytes: number | typeof WHOLE]>([
    ['a message: its bytes and 16', {}, 16],
    ['three messages', { messages: Array(3).fill({ role: 'user', content: 'hi' }) }, 48],
    ['no message', { messages: [] }, 0],
    ['text parts', { messages: [{ role: 'user', content: [{ type: 'text', text: 'a' }] }] }, 16],
    ['a refusal', { messages: [{ role: 'assistant', content: [{ type: 'refusal', refusal: 'a' }] }] }, 16],
    ['tools: the overhead', { tools: [{ type: 'function', function: { name: 'a' } }] }, 16 + 1_024],
    ['custom tools', { tools: [{ type: 'custom' }] }, 16 + 1_024 + 192],
    ['tools without a type', { tools: [{ function: { name: 'a' } }] }, 16 + 1_024],
    ['functions of the old format', { functions: [{ name: 'a' }] }, 16 + 1_024],
    ['no tools', { tools: [], functions: [] }, 16],
    ['tools of null', { tools: null, functions: null }, 16],
    [
      'an image',
      { messages: [{ role: 'user', content: [{ type: 'image_url', image_url: { url: 'data:x' } }] }] },
      WHOLE,
    ],
    ['a file', { messages: [{ role: 'user', content: [{ type: 'file' }] }] }, WHOLE],
    ['an unknown part', { messages: [{ role: 'user', content: [{ type: 'hologram' }] }] }, WHOLE],
    ['an earlier spoken answer', { messages: [{ role: 'assistant', content: null, audio: { id: 'a' } }] }, WHOLE],
    ['a search', { web_search_options: {} }, WHOLE],
    ['no search', { web_search_options: null }, 16],
    ['a tool that the provider runs', { tools: [{ type: 'function' }, { type: 'web_search' }] }, WHOLE],
    ['a tool of null', { tools: [null] }, 16 + 1_024],
    ['a tool that Anthropic defines', { tools: [native('bash_20250124'), native('memory_20250818')] }, 16 + 3 * 1_024],
    ['one that Anthropic runs', { tools: [native('web_fetch_20250910')] }, WHOLE],
  ])('%s', (_name, body, beyondBytes) => {
    const of = chat(body)
    expect(promptCeiling(of, model())).toBe(beyondBytes === WHOLE ? 131_072 : of.bytes.length + beyondBytes)
  })

  test('a search of Anthropic reads the whole context in each of its passes', () => {
    expect(promptCeiling(chat({ tools: [native('web_search_20250305')] }), model())).toBe(10 * 131_072)
    // Code execution in a search has no bound, so the provider does not run this tool here: it counts as a plain tool.
    expect(promptCeiling(chat({ tools: [native('web_search_20260209')] }), model())).toBe(131_072)
  })

  test('is never more than the context', () => {
    expect(ceiling({ messages: [{ role: 'user', content: 'x'.repeat(1_000) }] }, { context: 500 })).toBeLessThan(0)
    expect(
      promptCeiling(chat({ messages: [{ role: 'user', content: 'x'.repeat(1_000) }] }), model({ context: 500 })),
    ).toBe(500)
  })

  test('no tokenizer has more: one token for each byte of each text', () => {
    const bytesOf = (value: unknown): number => {
      if (typeof value === 'string') return Buffer.byteLength(value)
      return typeof value === 'object' && value !== null
        ? Object.values(value).reduce((sum, each) => sum + bytesOf(each), 0)
        : 0
    }
    fc.assert(
      fc.property(anyChat, fc.nat({ max: 100 }), (of, inputOverhead) => {
        const { messages, tools } = of.body
        const worst = bytesOf(messages) + bytesOf(tools) + 16 * messages.length + (tools?.length ? inputOverhead : 0)
        expect(promptCeiling(of, model({ context: 1e9, inputOverhead }))).toBeGreaterThanOrEqual(worst)
      }),
      { numRuns: counts(125, 50_000) },
    )
  })
})

describe('a hold', () => {
  test('is the highest price of the prompt and of the output cap, for each choice', () => {
    const of = chat({ n: 3 }, 100)
    const prompt = BigInt(promptCeiling(of, model()))
    expect(holdFor(of, model(), PRICE, 100)).toBe(prompt * 1_250n + 300n * 2_000n)
    expect(holdFor(of, model(), priced({ cache_write: 0n }), 100)).toBe(prompt * 1_000n + 300n * 2_000n)
    expect(holdFor(of, model(), priced({ cached_input: 3_000_000_000n }), 100)).toBe(prompt * 3_000n + 300n * 2_000n)
    expect(holdFor(of, model(), priced({ request: 5n }), 100)).toBe(prompt * 1_250n + 300n * 2_000n + 5n)
  })

  test.each<[name: string, body: Parameters<typeof chat>[0], passes: number, searches: bigint]>([
    ['a search for each request', { web_search_options: {} }, 1, 1n],
    ['a tool', { tools: [native('web_search_20250305')] }, 10, 10n],
    ['a tool that may be used less', { tools: [native('web_search_20250305', { max_uses: 2 })] }, 10, 2n],
    ['a tool that may be used more', { tools: [native('web_search_20250305', { max_uses: 11 })] }, 10, 10n],
  ])('has the price of searches on top: %s', (_name, body, passes, searches) => {
    const of = chat(body)
    const tokens = BigInt(passes) * (131_072n * 1_250n + 100n * 2_000n)
    expect(holdFor(of, model(), priced({ search: 7n }), 100)).toBe(tokens + searches * 7n)
    expect(holdFor(of, model(), PRICE, 100)).toBe(tokens)
  })

  test('counts reasoning beyond the cap of the target with the most', () => {
    const thinks = model({
      targets: [target(), target({ reasoningOutsideCap: 500 }), target({ reasoningOutsideCap: 100 })],
    })
    expect(completionCeiling(chat({ n: 2 }), thinks, 100)).toBe(2 * 600)
    expect(completionCeiling(chat(), model({ targets: [] }), 100)).toBe(100)
  })

  // No settle is above its hold, whatever the provider reports.
  test('is never less than the charge, and a possible usage is charged in full', () => {
    const figure = fc.oneof(
      { weight: 6, arbitrary: fc.double({ min: 0, max: 1, noNaN: true }) },
      {
        weight: 2,
        arbitrary: fc.constantFrom(0, 1, 1.0000001, 2, 1e9, -1, Number.MAX_VALUE, Number.POSITIVE_INFINITY),
      },
      { weight: 1, arbitrary: fc.double() },
    )
    const outcome = fc.constantFrom('answered', 'failed', 'client_left', 'cut', 'refused', null)
    fc.assert(
      fc.property(
        fc.record({
          of: anyChat,
          on: anyModel,
          price: anyPrice,
          outcome,
          stream: fc.boolean(),
          estimated: fc.boolean(),
        }),
        fc.record({
          prompt: figure,
          completion: figure,
          cached: figure,
          cacheWrite: figure,
          reasoning: figure,
          searches: figure,
        }),
        ({ of, on, price, outcome, stream, estimated }, shares) => {
          const hold = holdFor(of, on, price, of.cap)
          const most = boundOf(of, on, of.cap)
          const bounds = { hold, most, leastSearches: searchBounds(of.body).least }
          // Shares up to 1 are possible figures; larger ones are impossible. Rounded, because providers count whole tokens.
          const honest = (share: number, most: number) =>
            (share >= 0 && share <= 1 ? Math.floor(share * most) : share * most) + 0
          const input = honest(shares.prompt, most.input!)
          const cached_input = honest(shares.cached, input)
          const used: MeteredUsage = {
            input,
            cached_input,
            cache_write: honest(shares.cacheWrite, input - cached_input),
            output: honest(shares.completion, most.output!),
            reasoning: honest(shares.reasoning, 1_000),
            search: honest(shares.searches, most.search!),
            source: estimated ? 'estimated' : 'reported',
          }
          const ending = {
            outcome,
            usage: used,
            progress: progress({ countedTokens: 1 }),
            stream,
            reasoning: on.reasoning,
          }
          const charge = chargeFor(ending, price, bounds)
          expect(charge.amount).toBeLessThanOrEqual(hold)
          expect(charge.amount).toBeGreaterThanOrEqual(0n)
          expect(charge.overrun).toBeGreaterThanOrEqual(0n)
          // A 64-bit column takes it.
          expect(charge.amount + charge.overrun).toBeLessThan(2n ** 63n)
          for (const count of UNIT_NAMES.map(unit => charge.usage[unit] ?? 0)) {
            expect(Number.isSafeInteger(count) && count >= 0).toBe(true)
          }
          if (charge.source !== 'reported') return
          const searches = Math.max(used.search!, bounds.leastSearches)
          expect(charge).toMatchObject({
            overrun: 0n,
            usage: withoutZeros({ input, cached_input, output: used.output! }),
          })
          expect(charge.amount).toBe(cost({ ...used, reasoning: 0, search: searches }, price).total)
        },
      ),
      { numRuns: counts(500, 1_000_000) },
    )
  })
})

describe('a cap for a short balance', () => {
  const bigChat = () => chat({}, 4_096)
  const fixed = (of = bigChat()) => holdFor(of, model(), PRICE, 0)

  test.each<[name: string, available: (fixed: bigint) => bigint, cap: number]>([
    ['nothing is there', () => 0n, 64],
    ['half of it does not pay for the prompt', rest => 2n * rest - 2n, 64],
    ['half of it just pays for the prompt', rest => 2n * rest, 64],
    ['half of it pays for 64 tokens', rest => 2n * (rest + 64n * 2_000n), 64],
    ['half of it pays for 65 tokens', rest => 2n * (rest + 65n * 2_000n), 65],
    ['half of it pays for a thousand, and nearly one more', rest => 2n * (rest + 1_001n * 2_000n) - 1n, 1_000],
    ['half of it pays for all', rest => 2n * (rest + 4_096n * 2_000n), 4_096],
    ['there is far more', () => 10n ** 18n, 4_096],
  ])('%s', (_name, available, cap) => {
    expect(affordableCap(bigChat(), model(), PRICE, available(fixed()))).toBe(cap)
  })

  test('is at least 1,024 for a reasoning model: fewer tokens would be reasoning without an answer', () => {
    expect(smallestCap(model({ reasoning: true }))).toBe(1_024)
    expect(affordableCap(bigChat(), model({ reasoning: true }), PRICE, 0n)).toBe(1_024)
  })

  test('is never more than was asked for', () => {
    expect(affordableCap(chat({}, 10), model(), PRICE, 0n)).toBe(10)
    expect(affordableCap(chat({}, 10), model(), PRICE, 10n ** 18n)).toBe(10)
  })

  test('is what was asked for when output costs nothing: no cap would help', () => {
    expect(affordableCap(bigChat(), model(), priced({ output: 0n }), 0n)).toBe(4_096)
  })

  test('counts all choices', () => {
    const of = chat({ n: 4 }, 4_096)
    const available = 2n * (fixed(of) + 1_000n * 4n * 2_000n)
    expect(affordableCap(of, model(), PRICE, available)).toBe(1_000)
  })

  test('holds half of the credit at most, unless it is the smallest useful one, and could not be larger', () => {
    fc.assert(
      fc.property(anyChat, anyModel, anyPrice, fc.bigInt({ min: 0n, max: 10n ** 18n }), (of, on, price, available) => {
        const cap = affordableCap(of, on, price, available)
        expect(Number.isSafeInteger(cap)).toBe(true)
        expect(cap).toBeLessThanOrEqual(of.cap)
        expect(cap).toBeGreaterThanOrEqual(Math.min(smallestCap(on), of.cap))
        if (rateOf(price, 'output') === 0n) return
        if (cap > smallestCap(on)) expect(holdFor(of, on, price, cap)).toBeLessThanOrEqual(available / 2n)
        // One nano-dollar is lost to rounding at most.
        if (cap < of.cap) expect(holdFor(of, on, price, cap + 1)).toBeGreaterThanOrEqual(available / 2n)
      }),
      { numRuns: counts(500, 100_000) },
    )
  })
})

test('a raw request holds its bytes as prompt, at the dearest price', () => {
  expect(rawHold(PRICE, 100)).toBe(125_000n)
  expect(rawHold(priced({ request: 9n }), 0)).toBe(9n)
  expect(rawHold(PRICE, 100, 7n)).toBe(7n)
  expect(rawHold(PRICE, 100, 0n)).toBe(0n)
})

test('usage in the middle of the possible is charged as it is', () => {
  const bounds = { hold: 10n ** 12n, most: { input: 1_000, output: 1_000 }, leastSearches: 0 }
  const ending = {
    outcome: 'answered' as const,
    usage: usage(10, 5),
    progress: progress(),
    stream: true,
    reasoning: false,
  }
  expect(chargeFor(ending, PRICE, bounds)).toMatchObject({ amount: 20_000n, source: 'reported' })
})
