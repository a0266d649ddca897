import { describe, expect, test, vi } from 'vitest'
import {
  type Chat,
  formatMoney,
  type MeteredUsage,
  type Model,
  type Outcome,
  type Progress,
  parseMoney,
  plainPrice,
  refuse,
  retryHeaders,
} from '#contract'
import type { Exchange } from '../../src/request/exchange.ts'
import { StoreUnavailable } from '../../src/store/store.ts'
import { countsOf } from '../../test/helpers/counts.ts'
import { readSettings, type StepRequest } from '../../test/helpers/step.ts'
import { until } from '../../test/helpers/until.ts'
import { holdFor, promptCeiling } from './hold.ts'
import credits from './index.ts'
import { roundedDown, roundedUp } from './rounded.ts'
import { answered, ends, header, openOne, rig } from './test-rig.ts'
import { chat, model, PRICE, priced, progress, usage } from './test-samples.ts'

const counts = countsOf('floods')

const CHAT_HOLD = holdFor(chat(), model(), PRICE, 1_000)

const stream = (fields: Partial<Chat> = {}) => ({ ...chat({ stream: true }), ...fields })
const facts = (of: Chat, on: Partial<Model> = {}) => ({ chat: of, model: model(on) })
const dollars = (text: string) => parseMoney(text)

describe('settings', () => {
  test.each<[string, object]>([
    ['an empty list', { when_short: [] }],
    ['an unknown word', { when_short: ['borrow'] }],
    ['a word twice', { when_short: ['refuse', 'refuse'] }],
    ['an entry after refuse', { when_short: ['refuse', 'clamp_output'] }],
    ['a text', { when_short: 'refuse' }],
    ['another end', { on_disconnect: 'wait' }],
    ['an unknown name', { on_short: ['refuse'] }],
  ])('%s is refused', (_name, settings) => {
    expect(() => readSettings(credits, settings as Record<string, unknown>)).toThrow('credits:')
  })

  test('without settings the output cap is lowered before a request is refused', () => {
    expect(readSettings(credits, {})).toEqual({ when_short: ['clamp_output', 'refuse'] })
  })

  test('its needs depend on the kind of the route', () => {
    const needs = credits.needs as (settings: unknown, kind: string) => readonly string[]
    expect(needs({}, 'chat')).toEqual(['key', 'account', 'chat', 'model'])
    expect(needs({}, 'raw')).toEqual(['key', 'account'])
  })

  test('it is critical: it can be neither skipped nor run in shadow', () => {
    expect(credits.critical).toBe(true)
  })
})

describe('too little credit', () => {
  test('for the smallest answer is 402, and client libraries do not retry', async () => {
    const { run, balance, asked, sound } = await rig({ credit: '$0.000001' })
    const { refusal, passed } = await run()
    expect(passed).toBe(false)
    expect(refusal).toMatchObject({ code: 'insufficient_quota', status: 402, type: 'insufficient_quota' })
    const least = roundedUp(holdFor(chat(), model(), PRICE, 64))
    expect(refusal!.message).toBe(`This request needs ${least}, and the account has $0.000001 of credit. Add credit.`)
    expect(retryHeaders(refusal!)).toEqual({ 'x-should-retry': 'false' })
    expect(balance()).toEqual({ posted: dollars('$0.000001'), held: 0n })
    expect(asked).not.toContain('settle')
    sound()
  })

  const LEAST = holdFor(chat(), model(), PRICE, 64)
  const ONE_TOKEN = holdFor(chat(), model(), PRICE, 1)
  const REFUSE = { when_short: ['refuse'] }
  test.each<[string, { credit: bigint; cap?: bigint; settings?: Readonly<Record<string, unknown>> }, string]>([
    ['credit that pays for a smaller answer', { credit: LEAST - 1n }, '. Add credit, or ask for less with max_comp'],
    ['the same without clamping', { credit: LEAST, settings: REFUSE }, '. Add credit, or ask for less with max_comp'],
    ['credit for the prompt alone', { credit: ONE_TOKEN - 1n }, '. Add credit.'],
    ['no credit', { credit: 0n }, '. Add credit.'],
    ['no credit, without clamping', { credit: 0n, settings: REFUSE }, '. Add credit.'],
    ['a spent cap', { credit: 2n * LEAST, cap: 1n }, "or the dashboard's API keys) or use another key."],
    [
      'a cap that pays for a smaller answer',
      { credit: 2n * LEAST, cap: ONE_TOKEN },
      'use another key, or ask for less',
    ],
  ])(
    '%s: the message advises a smaller answer only if that helps',
    async (_name, { credit, cap, settings = {} }, says) => {
      const limit = cap === undefined ? {} : { cap: formatMoney(cap) }
      const { run } = await rig({ credit: formatMoney(credit), settings, ...limit })
      expect((await run()).refusal!.message).toContain(says)
    },
  )

  test('the message for a raw request advises no smaller answer', async () => {
    const { raw } = await rig({ credit: '$0.000001' })
    const route = { price: priced({ request: 5_000n }) }
    const { refusal } = await raw({ route } as Parameters<typeof raw>[0])
    expect(refusal).toMatchObject({ code: 'insufficient_quota', message: expect.stringMatching(/Add credit\.$/) })
  })

  test('while requests of the account hold the rest is 429: a retry helps', async () => {
    const credit = formatMoney(CHAT_HOLD + 1_000n)
    const { run, store, sound } = await rig({ credit })
    const { first, release } = await openOne({ run, store })
    const { refusal, passed } = await run()
    expect(passed).toBe(false)
    expect(refusal).toMatchObject({ code: 'credit_on_hold', status: 429, retryAfterMs: 1_000, retryable: true })
    expect(refusal!.message).toContain(`$0.000001 is free, and ${roundedDown(CHAT_HOLD)} is held`)
    expect(retryHeaders(refusal!)).toEqual({ 'retry-after': '1', 'retry-after-ms': '1000' })
    release()
    expect((await first).refusal).toBeNull()
    expect((await run()).refusal).toBeNull()
    sound()
  })

  test('the free and the held credit count together', async () => {
    const large = chat({ messages: [{ role: 'user', content: 'x'.repeat(10_000) }] })
    const needed = holdFor(large, model(), PRICE, 64)
    expect(needed).toBeGreaterThan(CHAT_HOLD)
    for (const [credit, code] of [
      [needed, 'credit_on_hold'],
      [needed - 1n, 'insufficient_quota'],
    ] as const) {
      const { run, store } = await rig({ credit: formatMoney(credit) })
      const gate = Promise.withResolvers<void>()
      const first = run({ next: () => gate.promise })
      await until(() => expect(store.openHolds()).toBe(1))
      expect((await run({ facts: { chat: { ...large } } })).refusal).toMatchObject({ code })
      gate.resolve()
      await first
    }
  })

  test('is 402 if the end of the others would not help', async () => {
    const { run, store } = await rig({ credit: formatMoney(CHAT_HOLD + 1_000n) })
    const gate = Promise.withResolvers<void>()
    const first = run({ next: () => gate.promise })
    await until(() => expect(store.openHolds()).toBe(1))
    const large = chat({ messages: [{ role: 'user', content: 'x'.repeat(10_000) }] })
    expect((await run({ facts: { chat: large } })).refusal).toMatchObject({ code: 'insufficient_quota' })
    gate.resolve()
    await first
  })

  test('for the whole answer lowers the cap to what half of it pays, with a header and a note', async () => {
    const { run, receipt, sound } = await rig({ credit: '$0.01' })
    const of = chat({}, 16_384)
    const half = dollars('$0.005')
    const cap = Number((half - holdFor(of, model(), PRICE, 0)) / 2_000n)
    let seen = 0
    const { exchange, ctx, refusal } = await run({
      facts: { chat: of },
      next: inner => {
        seen = inner.chat!.cap
        answered(usage(10, 5))(inner)
      },
    })
    expect(refusal).toBeNull()
    expect(seen).toBe(cap)
    expect(cap).toBeGreaterThan(1_000)
    expect(header(ctx, 'x-tollgate-max-output-tokens')).toBe(String(cap))
    expect(exchange.trail).toMatchObject([
      {
        step: 'credits',
        verdict: 'passed',
        note: `output capped at ${cap} tokens: the balance does not pay for 16384`,
      },
    ])
    expect(receipt(exchange)!.held).toBeLessThanOrEqual(half)
    expect(receipt(exchange)!.held).toBe(holdFor(of, model(), PRICE, cap))
    sound()
  })

  test('lowers the cap to 64 even if that needs more than half', async () => {
    const least = holdFor(chat(), model(), PRICE, 64)
    const { run, balance } = await rig({ credit: formatMoney(least) })
    const of = chat({}, 4_096)
    let held = 0n
    const { refusal } = await run({
      facts: { chat: of },
      next: exchange => {
        held = balance().held
        answered(usage(10, 5))(exchange)
      },
    })
    expect(refusal).toBeNull()
    expect(of.cap).toBe(64)
    expect(held).toBe(least)
  })

  test('a reasoning model gets at least 1,024', async () => {
    const thinks = model({ reasoning: true })
    const { run } = await rig({ credit: formatMoney(holdFor(chat(), thinks, PRICE, 1_024) - 1n) })
    expect((await run({ facts: facts(chat({}, 4_096), thinks) })).refusal).toMatchObject({ status: 402 })
  })

  test('when_short: [refuse] refuses at once', async () => {
    const { run, asked } = await rig({ credit: '$0.01', settings: { when_short: ['refuse'] } })
    const of = chat({}, 16_384)
    const { refusal, ctx } = await run({ facts: { chat: of } })
    expect(refusal).toMatchObject({ status: 402 })
    expect(refusal!.message).toContain(roundedUp(holdFor(of, model(), PRICE, 16_384)))
    expect(of.cap).toBe(16_384)
    expect(header(ctx, 'x-tollgate-max-output-tokens')).toBe('')
    expect(asked).toEqual(['hold'])
  })

  test('an account without any credit', async () => {
    const { run } = await rig({ credit: '$0' })
    expect((await run()).refusal).toMatchObject({ status: 402 })
  })
})

describe('other reasons to refuse', () => {
  test('a frozen account', async () => {
    const { run, store, id, asked } = await rig()
    await store.freeze(id, true)
    expect(await run()).toMatchObject({ passed: false, refusal: { code: 'account_frozen', status: 403 } })
    expect(asked).toEqual(['hold'])
  })

  test('an account that does not exist', async () => {
    const { run, store, id } = await rig()
    const account = { ...store.reads.findAccount(id)!, id: 'acct_none' }
    expect(await run({ facts: { account } })).toMatchObject({ passed: false, refusal: { code: 'invalid_api_key' } })
  })

  test('a ledger that cannot be written: nothing is sent', async () => {
    const { run, sound } = await rig({
      lookMs: 2_000,
      wrap: () => ({ hold: () => Promise.reject(new StoreUnavailable('not_written', new Error('disk full'))) }),
    })
    const { refusal, passed } = await run()
    expect(passed).toBe(false)
    expect(refusal).toMatchObject({ code: 'store_unavailable', status: 503, retryAfterMs: 1_000 })
    expect(refusal!.message).not.toContain('disk')
    sound()
  })

  test('a hold that was written although its commit failed is released', async () => {
    const { run, store, asked, balance, sound } = await rig({
      wrap: real => ({
        async hold(request) {
          await real.hold(request)
          throw new StoreUnavailable('unknown', new Error('I/O error'))
        },
      }),
    })
    const { refusal, passed, exchange } = await run()
    expect(passed).toBe(false)
    expect(refusal).toMatchObject({ code: 'store_unavailable' })
    await until(() => expect(store.openHolds()).toBe(0))
    expect(asked).toEqual(['hold', 'abandon'])
    expect(balance()).toEqual({ posted: dollars('$1'), held: 0n })
    expect(store.reads.findReceipt(exchange.id)).toMatchObject({ charged: 0n, source: 'released', outcome: 'refused' })
    sound()
  })
})

describe('a request that is sent', () => {
  test('is not sent before its hold is committed', async () => {
    const { run, store, balance } = await rig()
    await run({
      next: exchange => {
        expect(store.openHolds()).toBe(1)
        expect(balance()).toEqual({ posted: dollars('$1'), held: CHAT_HOLD })
        expect(store.reads.findReceipt(exchange.id)).toMatchObject({
          held: CHAT_HOLD,
          charged: null,
          price: PRICE,
          model: 'chat-small',
        })
        answered(usage(10, 5))(exchange)
      },
    })
  })

  test('has its cost in the receipt, the balance and a header', async () => {
    const { run, receipt, balance, sound } = await rig()
    const { exchange, ctx } = await run({ next: answered(usage(10, 5, { cached_input: 4, reasoning: 2 })) })
    expect(header(ctx, 'x-tollgate-cost')).toBe('0.000016400')
    expect(balance().posted).toBe(dollars('$1') - 16_400n)
    expect(exchange.charge).toMatchObject({ amount: 16_400n, overrun: 0n })
    expect(receipt(exchange)).toMatchObject({
      charged: 16_400n,
      source: 'reported',
      outcome: 'answered',
      usage: { input: 10, cached_input: 4, output: 5, reasoning: 2 },
    })
    sound()
  })

  test('keeps the price of its start', async () => {
    const { run, receipt } = await rig()
    const on = { ...model() }
    const { exchange } = await run({
      facts: { model: on },
      next: inner => {
        Object.assign(on, { price: priced({ input: 99_000_000_000n }) })
        answered(usage(10, 5))(inner)
      },
    })
    expect(receipt(exchange)).toMatchObject({ charged: 20_000n, price: PRICE })
  })

  test.each<
    [
      name: string,
      on: Partial<Model>,
      setting: 'cancel' | 'drain' | 'cancel_free' | undefined,
      expected: 'cancel' | 'drain',
    ]
  >([
    ['cancels', {}, undefined, 'cancel'],
    ['drains a reasoning model', { reasoning: true }, undefined, 'drain'],
    ['drains if the settings say so', {}, 'drain', 'drain'],
    ['cancels a reasoning model if the settings say so', { reasoning: true }, 'cancel', 'cancel'],
    ['cancels for free if the settings say so', { reasoning: true }, 'cancel_free', 'cancel'],
  ])('after a disconnect it %s', async (_name, on, setting, expected) => {
    const { run } = await rig({ settings: setting ? { on_disconnect: setting } : {} })
    const { exchange } = await run({ facts: { model: model(on) } })
    expect(exchange.onDisconnect).toBe(expected)
  })
})

describe('each ending settles once', () => {
  const counted = progress({ finished: false, countedTokens: 5 })
  const nothing = progress({ started: false, finished: false })
  const estimated = usage(8, 5, { source: 'estimated' })
  type Row = [
    name: string,
    streamed: boolean,
    next: NonNullable<StepRequest['next']>,
    charged: bigint,
    source: string,
    outcome: Outcome,
    code: string | null,
  ]
  const failed = (used: MeteredUsage | null, progressed: Progress) =>
    ends('failed', used, progressed, refuse('upstream_truncated'))

  test.each<Row>([
    ['answered', true, answered(usage(10, 5)), 20_000n, 'reported', 'answered', null],
    ['answered', false, answered(usage(10, 5)), 20_000n, 'reported', 'answered', null],
    [
      'answered without usage',
      true,
      ends('answered', estimated, progress({ countedTokens: 5 })),
      18_000n,
      'estimated',
      'answered',
      null,
    ],
    ['answered with hostile usage', true, answered(usage(-1, 1e308)), 2_000_000n, 'clamped', 'answered', null],
    ['answered from a cache', false, answered(usage(10, 5, { source: 'cached' })), 0n, 'cached', 'answered', null],
    ['answered without a token', true, ends('answered', usage(10, 0), nothing), 0n, 'insurance', 'answered', null],
    ['failed before the first token', true, failed(null, nothing), 0n, 'released', 'failed', 'upstream_truncated'],
    ['failed in the middle', true, failed(estimated, counted), 18_000n, 'estimated', 'failed', 'upstream_truncated'],
    ['failed in the middle', false, failed(null, nothing), 0n, 'released', 'failed', 'upstream_truncated'],
    [
      'the client disconnected',
      true,
      ends('client_left', estimated, counted),
      18_000n,
      'estimated',
      'client_left',
      null,
    ],
    ['the client disconnected', false, ends('client_left', null, nothing), 0n, 'released', 'client_left', null],
    [
      'the client left what was sent',
      false,
      ends('client_left', usage(8, 0, { source: 'estimated' }), { ...nothing, abandoned: true }),
      8_000n,
      'prompt_estimated',
      'client_left',
      null,
    ],
    [
      'cut',
      true,
      ends('cut', estimated, counted, refuse('shutting_down')),
      18_000n,
      'estimated',
      'cut',
      'shutting_down',
    ],
    ['cut', false, ends('cut', null, nothing, refuse('shutting_down')), 0n, 'released', 'cut', 'shutting_down'],
    [
      'refused by a later step',
      true,
      ends('refused', null, nothing, refuse('rate_limit_exceeded')),
      0n,
      'released',
      'refused',
      'rate_limit_exceeded',
    ],
    ['a bug in a later step', true, ends(null, null, nothing, new TypeError('bug')), 0n, 'released', 'failed', null],
  ])('%s (stream: %s)', async (_name, streamed, next, charged, source, outcome, code) => {
    const { run, receipt, balance, asked, sound } = await rig()
    const running = run({ facts: { chat: streamed ? stream() : chat() }, next })
    if (outcome === 'failed' && code === null) {
      await expect(running).rejects.toThrow('bug')
      expect(asked).toEqual(['hold', 'settle'])
      sound()
      return
    }
    const { refusal, exchange, ctx } = await running
    expect(refusal?.code ?? null).toBe(code)
    expect(receipt(exchange)).toMatchObject({ charged, source, outcome })
    expect(balance()).toEqual({ posted: dollars('$1') - charged, held: 0n })
    expect(asked).toEqual(['hold', 'settle'])
    expect(header(ctx, 'x-tollgate-cost')).toBe(outcome === 'answered' ? formatMoney(charged) : '')
    sound()
  })

  test('many at once: the holds are released, and the usage is charged', async () => {
    const { run, balance, sound } = await rig({ credit: '$100' })
    const many = counts(200, 5_000)
    const outcomes = [answered(usage(10, 5)), failed(null, nothing), ends('client_left', estimated, counted)]
    await Promise.all(
      Array.from({ length: many }, (_, i) => run({ facts: { chat: stream() }, next: outcomes[i % 3]! })),
    )
    const thirds = [0, 1, 2].map(rest => BigInt(Math.ceil((many - rest) / 3)))
    expect(balance().posted).toBe(dollars('$100') - thirds[0]! * 20_000n - thirds[2]! * 18_000n)
    sound()
  })
})

describe('many at once on a small balance', () => {
  test('exactly as many are sent as it pays for, and later ones after those have ended', async () => {
    const { run, balance, sound } = await rig({
      credit: formatMoney(10n * CHAT_HOLD),
      settings: { when_short: ['refuse'] },
    })
    const gate = Promise.withResolvers<void>()
    let sent = 0
    const next = async (exchange: Exchange) => {
      sent++
      await gate.promise
      ends('failed', null, progress({ started: false, finished: false }))(exchange)
    }
    const many = counts(200, 1_000)
    const running = Array.from({ length: many }, () => run({ next }))
    const refused: string[] = []
    for (const each of running) {
      void each.then(({ refusal }) => {
        if (refusal) refused.push(refusal.code)
        expect(balance().posted - balance().held).toBeGreaterThanOrEqual(0n)
      })
    }
    await until(() => expect(refused).toHaveLength(many - 10))
    expect(sent).toBe(10)
    // The rest of the credit is held, so a retry may pass.
    expect(new Set(refused)).toEqual(new Set(['credit_on_hold']))
    expect(balance().held).toBe(10n * CHAT_HOLD)
    gate.resolve()
    await Promise.all(running)
    sound()
    const again = await Promise.all(Array.from({ length: 10 }, () => run()))
    expect(again.filter(({ passed }) => passed)).toHaveLength(10)
  })
})

describe('a request that only counts tokens', () => {
  const COUNTS = { route: { counts: true } } as const

  test('is free, also without credit, and does not use the ledger', async () => {
    const { run, asked } = await rig({ credit: '$0' })
    const { passed, exchange } = await run(COUNTS)
    expect(passed).toBe(true)
    expect(exchange.trail).toMatchObject([{ step: 'credits', note: 'free' }])
    expect(asked).toEqual([])
  })

  test('is refused if its account has sent too many in a minute; a charged request is not', async () => {
    const { run, clock } = await rig()
    for (let nth = 0; nth < 600; nth++) expect((await run(COUNTS)).refusal).toBeNull()
    const { refusal, passed } = await run(COUNTS)
    expect(passed).toBe(false)
    expect(refusal).toMatchObject({ code: 'rate_limit_exceeded', status: 429, retryAfterMs: 100 })
    expect(refusal!.message).toContain('600 times per minute. Try again in 100ms.')
    expect((await run()).refusal).toBeNull()
    const account = { id: 'acc_other', name: 'other', plan: 'default', frozen: false, createdAt: 0 }
    expect((await run({ ...COUNTS, facts: { account } })).refusal).toBeNull()
    clock.time += 100
    expect((await run(COUNTS)).refusal).toBeNull()
  })
})

describe('a free model', () => {
  test('does not use the ledger', async () => {
    const { run, asked, balance } = await rig({ credit: '$0' })
    const { refusal, passed, exchange, ctx } = await run({ facts: { model: model({ price: null }) } })
    expect([refusal, passed]).toEqual([null, true])
    expect(asked).toEqual([])
    expect(balance()).toEqual({ posted: 0n, held: 0n })
    expect(exchange.trail).toMatchObject([{ step: 'credits', note: 'free' }])
    expect(header(ctx, 'x-tollgate-cost')).toBe('')
  })

  test('differs from a model with a price of 0, which has receipts', async () => {
    const zero = plainPrice({ input: 0n, cached_input: 0n, cache_write: 0n, output: 0n, request: 0n })
    const { run, asked, receipt } = await rig({ credit: '$0' })
    const { exchange } = await run({ facts: { model: model({ price: zero }) } })
    expect(asked).toEqual(['hold', 'settle'])
    expect(receipt(exchange)).toMatchObject({ held: 0n, charged: 0n, usage: { input: 10 } })
  })
})

describe('a raw route', () => {
  const route = (price: typeof PRICE | null) => ({
    route: { kind: 'raw' as const, price },
    bytes: Buffer.alloc(100, 'x'),
  })

  test('holds its bytes and the price of a request, and is charged its usage', async () => {
    const { raw, receipt, sound } = await rig()
    const { exchange } = await raw({ ...route(priced({ request: 5n })), next: answered(usage(40, 0)) })
    expect(receipt(exchange)).toMatchObject({
      held: 125_005n,
      charged: 40_005n,
      usage: { input: 40 },
      source: 'reported',
    })
    sound()
  })

  test('is never charged more than its bytes', async () => {
    const { raw, receipt } = await rig()
    const { exchange } = await raw({ ...route(PRICE), next: answered(usage(1e9, 1e9)) })
    expect(receipt(exchange)).toMatchObject({ charged: 100_000n, source: 'clamped' })
    expect(receipt(exchange)!.usage.output).toBeUndefined()
  })

  test('is free without a price', async () => {
    const { raw, asked } = await rig()
    expect((await raw(route(null))).passed).toBe(true)
    expect(asked).toEqual([])
  })

  test('is refused if the balance is short: it has no cap to lower', async () => {
    const { raw } = await rig({ credit: '$0.000001' })
    expect((await raw(route(PRICE))).refusal).toMatchObject({ status: 402 })
  })
})

describe('an open stream', () => {
  test('with new tokens has a checkpoint every five seconds, with its cost so far', async () => {
    vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] })
    const { run, checkpoints, sound } = await rig()
    const of = stream()
    const { exchange } = await run({
      facts: { chat: of },
      next: inner => {
        const counted = { ...progress({ finished: false }), countedTokens: 0 }
        Object.assign(inner, { progress: counted })
        vi.advanceTimersByTime(5_000)
        counted.countedTokens = 7
        Object.assign(counted, { estimate: usage(8, 7, { source: 'estimated' }) })
        vi.advanceTimersByTime(5_000)
        vi.advanceTimersByTime(5_000)
        counted.countedTokens = 1e9
        Object.assign(counted, { estimate: usage(1e9, 1e9, { source: 'estimated' }) })
        vi.advanceTimersByTime(5_000)
        answered(usage(8, 9))(inner)
      },
    })
    vi.advanceTimersByTime(60_000)
    const prompt = promptCeiling(of, model())
    expect(checkpoints).toEqual([
      [{ exchange: exchange.id, amount: 8_000n + 14_000n, usage: { input: 8, output: 7 } }],
      [
        {
          exchange: exchange.id,
          amount: BigInt(prompt) * 1_000n + 2_000_000n,
          usage: { input: prompt, output: 1_000 },
        },
      ],
    ])
    expect(vi.getTimerCount()).toBe(0)
    sound()
  })

  test('has checkpoints, a whole answer has none', async () => {
    vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] })
    const { run, checkpoints } = await rig()
    await run({
      next: inner => {
        Object.assign(inner, { progress: progress({ countedTokens: 7 }) })
        vi.advanceTimersByTime(10_000)
        answered(usage(8, 9))(inner)
      },
    })
    expect(checkpoints).toEqual([])
  })
})
