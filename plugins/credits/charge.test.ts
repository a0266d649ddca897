import { describe, expect, test } from 'vitest'
import {
  type ChargeSource,
  cost,
  type MeteredUsage,
  NO_COST,
  NO_SEARCH,
  type Outcome,
  type Progress,
  plainPrice,
  type SearchBounds,
} from '#contract'
import { read, tableOf } from '../../test/helpers/repository.ts'
import { type Bounds, chargeFor, type EndedExchange } from './charge.ts'
import { PRICE, priced, progress, usage } from './test-samples.ts'

/** Room for 1,000 tokens each way: 1,000 x 1,250 + 1,000 x 2,000 nano-dollars. */
const BOUNDS: Bounds = { hold: 3_250_000n, most: { input: 1_000, output: 1_000 }, leastSearches: 0 }

const NOTHING_YET = progress({ started: false, finished: false, delivered: false })
const SOME = progress({ finished: false, countedTokens: 5 })
/** The provider has started its answer, and the client has received nothing. */
const HELD = progress({ finished: false, delivered: false, countedTokens: 5 })
const ALL = progress({ countedTokens: 5 })
/** Sent, and cancelled before the first token, because the client had disconnected. */
const GIVEN_UP = progress({ started: false, finished: false, delivered: false, left: true, abandoned: true })
const estimate = (input: number, output: number) => usage(input, output, { source: 'estimated' })

const charge = (ending: Partial<EndedExchange>, bounds = BOUNDS) =>
  chargeFor(
    { outcome: 'answered', usage: null, progress: ALL, stream: true, reasoning: false, ...ending },
    PRICE,
    bounds,
  )

// The rows of the README's table "What is charged".
describe('the charge', () => {
  type Row = [
    name: string,
    stream: boolean,
    outcome: Outcome | null,
    usage: MeteredUsage | null,
    progress: Progress,
    amount: bigint,
    source: ChargeSource,
  ]
  test.each<Row>([
    ['a refusal before anything was sent', true, 'refused', null, NOTHING_YET, 0n, 'released'],
    ['a refusal before anything was sent', false, 'refused', null, NOTHING_YET, 0n, 'released'],
    [
      'the provider refused, failed, or was late before its first token',
      true,
      'failed',
      null,
      NOTHING_YET,
      0n,
      'released',
    ],
    [
      'the provider refused, failed, or was late before its first token',
      false,
      'failed',
      null,
      NOTHING_YET,
      0n,
      'released',
    ],
    ['an ending without an outcome', true, null, null, NOTHING_YET, 0n, 'released'],
    ['an answer with usage', true, 'answered', usage(10, 5), ALL, 20_000n, 'reported'],
    ['an answer with usage', false, 'answered', usage(10, 5), ALL, 20_000n, 'reported'],
    ['an answer with a usage of 0', true, 'answered', usage(0, 0), ALL, 0n, 'reported'],
    ['an answer without usage', true, 'answered', estimate(8, 5), ALL, 18_000n, 'estimated'],
    ['an answer without usage', false, 'answered', estimate(8, 5), ALL, 18_000n, 'estimated'],
    [
      'an answer without a token and without a finish',
      true,
      'answered',
      usage(10, 0),
      progress({ finished: false }),
      0n,
      'insurance',
    ],
    [
      'an answer without a token and without a finish',
      false,
      'answered',
      usage(10, 0),
      progress({ finished: false }),
      0n,
      'insurance',
    ],
    ['an empty answer with a finish reason', true, 'answered', usage(10, 0), progress(), 10_000n, 'reported'],
    ['an answer without usage and tokens', true, 'answered', null, progress({ started: false }), 0n, 'insurance'],
    ['an answer from a cache', true, 'answered', usage(10, 5, { source: 'cached' }), ALL, 0n, 'cached'],
    ['a disconnect before the first token', true, 'client_left', null, NOTHING_YET, 0n, 'released'],
    ['a disconnect before the answer', false, 'client_left', null, NOTHING_YET, 0n, 'released'],
    ['a disconnect in a stream', true, 'client_left', estimate(8, 5), SOME, 18_000n, 'estimated'],
    ['a disconnect in a stream, and the usage arrived', true, 'client_left', usage(10, 5), ALL, 20_000n, 'reported'],
    [
      'the client left a whole answer, and it was read on',
      false,
      'client_left',
      usage(10, 5),
      ALL,
      20_000n,
      'reported',
    ],
    [
      'a disconnect before the first token of what was sent',
      true,
      'client_left',
      estimate(8, 0),
      GIVEN_UP,
      8_000n,
      'prompt_estimated',
    ],
    [
      'the client left before the end of what was sent',
      false,
      'client_left',
      estimate(8, 0),
      GIVEN_UP,
      8_000n,
      'prompt_estimated',
    ],
    [
      'a disconnect before the first token, behind its usage',
      true,
      'client_left',
      usage(10, 1),
      GIVEN_UP,
      12_000n,
      'reported',
    ],
    [
      'a disconnect before the first token, behind a usage that cannot be',
      true,
      'client_left',
      usage(-1, 0),
      GIVEN_UP,
      0n,
      'clamped',
    ],
    [
      'shutdown cut what was read on for one who had left before the first token',
      true,
      'cut',
      estimate(8, 0),
      GIVEN_UP,
      8_000n,
      'prompt_estimated',
    ],
    ['the same of a whole answer', false, 'cut', estimate(8, 0), GIVEN_UP, 8_000n, 'prompt_estimated'],
    ['a step failed after a disconnect', true, 'failed', estimate(8, 0), GIVEN_UP, 0n, 'released'],
    ['a step refused after a disconnect', true, 'refused', estimate(8, 0), GIVEN_UP, 0n, 'released'],
    ['a stream ended early', true, 'failed', estimate(8, 5), SOME, 18_000n, 'estimated'],
    ['a stream ended early, after its usage', true, 'failed', usage(10, 5), SOME, 20_000n, 'reported'],
    [
      'a stream ended early before its first token, behind its usage',
      true,
      'failed',
      usage(10, 5),
      NOTHING_YET,
      0n,
      'released',
    ],
    ['a stream ended early, and a step withheld all of it', true, 'failed', usage(10, 5), HELD, 0n, 'released'],
    ['a shutdown cut a stream, and a step withheld all of it', true, 'cut', estimate(8, 5), HELD, 0n, 'released'],
    ['a whole answer ended early', false, 'failed', null, NOTHING_YET, 0n, 'released'],
    ['a whole answer was refused after its end', false, 'refused', usage(10, 5), ALL, 0n, 'released'],
    ['a whole answer failed after its end', false, 'failed', usage(10, 5), ALL, 0n, 'released'],
    ['a stream was refused in its middle', true, 'failed', estimate(8, 5), SOME, 18_000n, 'estimated'],
    ['a stream was refused after its end', true, 'failed', usage(10, 5), ALL, 20_000n, 'reported'],
    ['a stream was refused before its first byte', true, 'refused', usage(10, 5), ALL, 0n, 'released'],
    ['shutdown cut a stream', true, 'cut', estimate(8, 5), SOME, 18_000n, 'estimated'],
    [
      'shutdown cut a stream that was read on for one who had left',
      true,
      'cut',
      estimate(8, 5),
      { ...HELD, left: true },
      18_000n,
      'estimated',
    ],
    [
      'shutdown cut a stream of which nothing but a usage had come for one who had left',
      true,
      'cut',
      usage(10, 1),
      progress({ started: true, finished: false, delivered: false, left: true }),
      0n,
      'released',
    ],
    ['shutdown cut a stream before its first token', true, 'cut', null, NOTHING_YET, 0n, 'released'],
    ['shutdown cut a whole answer', false, 'cut', null, NOTHING_YET, 0n, 'released'],
  ])('%s (stream: %s)', (_name, stream, outcome, used, progressed, amount, source) => {
    expect(charge({ stream, outcome, usage: used, progress: progressed })).toMatchObject({
      amount,
      source,
      overrun: 0n,
    })
  })

  test.each<[string, boolean, Outcome, bigint, bigint]>([
    ['has reached its client', false, 'answered', 1_000_000n, 10n * 100n + 5n * 300n + 7n],
    ['was streamed to a client that disconnected', true, 'client_left', 1_000_000n, 10n * 100n + 5n * 300n + 7n],
    ['costs more than is held', false, 'answered', 2_000n, 2_000n],
    ['was whole, for a client that disconnected', false, 'client_left', 1_000_000n, 0n],
    ['was refused after its end', true, 'refused', 1_000_000n, 0n],
    ['failed after its end', true, 'failed', 1_000_000n, 0n],
  ])('an answer from a cache with a price of its own that %s (stream: %s)', (_name, stream, outcome, hold, amount) => {
    const [input, output, request] = [100_000_000n, 300_000_000n, 7n]
    const answerPrice = plainPrice({ input, output, request })
    const ending = { outcome, usage: usage(10, 5, { source: 'cached' }), progress: ALL, stream, reasoning: false }
    const charged = chargeFor({ ...ending, answerPrice }, PRICE, {
      hold,
      most: { input: 100, output: 100 },
      leastSearches: 0,
    })
    expect(charged).toMatchObject({ amount, source: 'cached', overrun: 0n, usage: amount > 0n ? { input: 10 } : {} })
  })

  test.each([true, false])('with cancel_free the prompt alone is free (stream: %s)', stream => {
    const left = { outcome: 'client_left' as const, stream, forgivesPrompt: true }
    const released = { amount: 0n, source: 'released', usage: {} }
    expect(charge({ ...left, usage: estimate(8, 0), progress: GIVEN_UP })).toMatchObject(released)
    expect(charge({ ...left, usage: usage(10, 1), progress: GIVEN_UP })).toMatchObject(released)
    expect(charge({ ...left, usage: estimate(8, 5), progress: { ...SOME, abandoned: true } })).toMatchObject({
      amount: 18_000n,
    })
  })

  test('the prompt alone costs at most its bound and the hold', () => {
    const left = { outcome: 'client_left' as const, usage: estimate(9_000, 0), progress: GIVEN_UP }
    expect(charge(left)).toMatchObject({
      amount: 1_000_000n,
      usage: { input: 1_000 },
      source: 'prompt_estimated',
      overrun: 0n,
    })
    expect(charge(left, { ...BOUNDS, hold: 5n })).toMatchObject({ amount: 5n, source: 'prompt_estimated', overrun: 0n })
  })

  test('a charge of 0 has no tokens', () => {
    expect(charge({ outcome: 'failed', stream: false, usage: usage(10, 5) })).toEqual({
      amount: 0n,
      overrun: 0n,
      source: 'released',
      usage: {},
      cost: NO_COST,
    })
  })

  test('an estimate for a reasoning model is marked: its hidden tokens are not counted', () => {
    const left = { outcome: 'client_left' as const, progress: SOME, reasoning: true }
    expect(charge({ ...left, usage: estimate(8, 5) }).source).toBe('estimated_low')
    expect(charge({ ...left, usage: usage(8, 5) }).source).toBe('reported')
  })

  test('kinds of tokens have prices and are recorded', () => {
    const used = usage(10, 5, { cached_input: 4, cache_write: 3, reasoning: 2 })
    expect(charge({ usage: used })).toEqual({
      amount: 3n * 1_000n + 4n * 100n + 3n * 1_250n + 5n * 2_000n,
      overrun: 0n,
      source: 'reported',
      usage: { input: 10, cached_input: 4, cache_write: 3, output: 5, reasoning: 2 },
      cost: cost(used, PRICE),
    })
  })

  describe('searches of the web', () => {
    const SEARCHED = priced({ search: 10_000_000n })
    const bounds = (hold: bigint, { least, most }: SearchBounds): Bounds => ({
      hold,
      most: { ...BOUNDS.most, search: most },
      leastSearches: least,
    })
    const TOOL = { passes: 10, least: 0, most: 3 }
    const ALWAYS = { passes: 1, least: 1, most: 1 }
    const tokens = 10n * 1_000n + 5n * 2_000n

    test.each<[name: string, searching: SearchBounds, said: number | undefined, charged: number, source: string]>([
      ['of a tool, as the provider reports', TOOL, 2, 2, 'reported'],
      ['of a tool that was not used', TOOL, undefined, 0, 'reported'],
      ['the maximum', TOOL, 3, 3, 'reported'],
      ['above the maximum', TOOL, 4, 3, 'clamped'],
      ['a negative number', TOOL, -1, 0, 'reported'],
      ['a fraction', TOOL, 1.5, 2, 'clamped'],
      ['an infinite number', TOOL, Number.POSITIVE_INFINITY, 3, 'clamped'],
      ['of a model that always searches and does not report it', ALWAYS, undefined, 1, 'reported'],
      ['without a search in the request', NO_SEARCH, 1, 0, 'clamped'],
    ])('%s', (_name, searching, said, charged, source) => {
      const used = usage(10, 5, said === undefined ? {} : { search: said })
      const ending = { outcome: 'answered' as const, usage: used, progress: SOME, stream: true, reasoning: false }
      const result = chargeFor(ending, SEARCHED, bounds(10n ** 12n, searching))
      expect(result).toMatchObject({
        usage: charged > 0 ? { search: charged } : {},
        source,
        amount: tokens + BigInt(charged) * 10_000_000n,
      })
    })

    test('that the provider does not count are part of its figures, and an absurd count is not', () => {
      const ending = { outcome: 'answered' as const, progress: SOME, stream: true, reasoning: false }
      const beyond = (more: Partial<MeteredUsage>, searching: SearchBounds) =>
        chargeFor({ ...ending, usage: usage(10, 1_500, more) }, SEARCHED, bounds(10n ** 12n, searching)).overrun
      expect(beyond({}, ALWAYS)).toBe(beyond({ search: 1 }, ALWAYS))
      expect(beyond({}, ALWAYS)).toBe(500n * 2_000n)
      expect(beyond({ search: Number.POSITIVE_INFINITY }, ALWAYS)).toBeLessThan(20_000_000_000n)
    })

    test('without a price are free and recorded', () => {
      const ending = { outcome: 'answered' as const, progress: SOME, stream: true, reasoning: false }
      const used = usage(10, 5, { search: 2 })
      expect(chargeFor({ ...ending, usage: used }, PRICE, bounds(BOUNDS.hold, TOOL))).toMatchObject({
        amount: tokens,
        usage: { search: 2 },
      })
    })
  })
})

describe('an impossible usage', () => {
  const MOST = 1_000
  test.each<[name: string, usage: MeteredUsage, prompt: number, completion: number, overrun: bigint]>([
    ['negative: nothing is paid back', usage(-5, -7), 0, 0, 0n],
    ['negative prompt', usage(-5, 7), 0, 7, 0n],
    ['fractions are rounded up', usage(1.5, 2.5), 2, 3, 0n],
    ['a prompt larger than the ceiling', usage(1_001, 5), MOST, 5, 1_000n],
    ['an answer larger than the cap', usage(10, 1_500), 10, MOST, 500n * 2_000n],
    ['both far too large', usage(1e308, 1e308), MOST, MOST, 3_000_000_000_000n - 3_000_000n],
    ['infinite', usage(Number.POSITIVE_INFINITY, 5), MOST, 5, 1_000_000_000_000n - 1_000_000n],
    ['minus infinite', usage(Number.NEGATIVE_INFINITY, 5), 0, 5, 0n],
    ['not a number', usage(Number.NaN, Number.NaN), 0, 0, 0n],
    ['more cached than prompt', usage(10, 5, { cached_input: 11 }), 10, 5, 0n],
    ['more written to the cache than is left', usage(10, 5, { cached_input: 6, cache_write: 5 }), 10, 5, 0n],
    ['a negative number of cached tokens', usage(10, 5, { cached_input: -1 }), 10, 5, 0n],
  ])('%s', (_name, used, input, output, overrun) => {
    const result = charge({ usage: used })
    expect(result.source).toBe('clamped')
    const { input: charged = 0, output: answered = 0, cached_input = 0, cache_write = 0 } = result.usage
    expect([charged, answered]).toEqual([input, output])
    expect(result.amount).toBeLessThanOrEqual(BOUNDS.hold)
    expect(cached_input + cache_write).toBeLessThanOrEqual(input)
    // The provider's figures above the charge are the operator's loss; cached tokens count in full for it.
    if (used.cached_input === undefined) expect(result.overrun).toBe(overrun)
  })

  test('at its bounds is possible', () => {
    expect(charge({ usage: usage(MOST, MOST) })).toMatchObject({ amount: 3_000_000n, source: 'reported', overrun: 0n })
    expect(charge({ usage: usage(MOST, MOST, { cache_write: MOST }) })).toMatchObject({ amount: 3_250_000n })
  })

  test('reasoning is recorded up to the length of the answer', () => {
    expect(charge({ usage: usage(10, 5, { reasoning: 1e9 }) })).toMatchObject({
      source: 'reported',
      usage: { reasoning: 5 },
    })
  })

  test('never costs more than the hold, even if a hold is too small', () => {
    expect(charge({ usage: usage(10, 5) }, { ...BOUNDS, hold: 12_345n })).toMatchObject({
      amount: 12_345n,
      overrun: 20_000n - 12_345n,
    })
  })

  test('an estimate is bounded too, and its excess is not a loss', () => {
    expect(charge({ outcome: 'client_left', usage: estimate(5_000, 5_000), progress: SOME })).toMatchObject({
      amount: 3_000_000n,
      overrun: 0n,
      source: 'estimated',
    })
  })

  test('negative bounds count as 0', () => {
    expect(charge({ usage: usage(10, 5) }, { ...BOUNDS, most: { input: -1, output: -1 } })).toMatchObject({
      amount: 0n,
    })
  })
})

test('the README has each source of a charge, and no other', () => {
  const named = tableOf(read('plugins/credits/README.md'), 'Ending').flatMap(([, , source]) =>
    Array.from(source!.matchAll(/`([a-z_]+)`/g), ([, name]) => name!),
  )
  const sources: Record<ChargeSource, true> = {
    reported: true,
    clamped: true,
    estimated: true,
    estimated_low: true,
    prompt_estimated: true,
    insurance: true,
    released: true,
    recovered: true,
    cached: true,
  }
  expect(new Set(named.filter(name => !name.startsWith('cancel')))).toEqual(new Set(Object.keys(sources)))
})
