/** Requests above the spending cap of a key, alone and many at once. */
import { describe, expect, test } from 'vitest'
import { formatMoney, retryHeaders } from '#contract'
import { until } from '../../test/helpers/until.ts'
import { holdFor } from './hold.ts'
import { roundedDown, roundedUp } from './rounded.ts'
import { answered, header, openOne, rig } from './test-rig.ts'
import { chat, model, PRICE, priced, usage } from './test-samples.ts'

const LEAST = holdFor(chat(), model(), PRICE, 64)
const CHAT_HOLD = holdFor(chat(), model(), PRICE, 1_000)

describe('too little is left of the cap', () => {
  test('for the smallest answer: 402, and client libraries do not retry', async () => {
    const { run, balance, asked, sound } = await rig({ credit: '$1', cap: formatMoney(LEAST - 1n) })
    const { refusal, passed } = await run()
    expect(passed).toBe(false)
    expect(refusal).toMatchObject({ code: 'spending_cap_reached', status: 402, type: 'insufficient_quota' })
    expect(refusal!.message).toBe(
      `This request needs ${roundedUp(LEAST)}, and the key's spending cap has ${roundedDown(LEAST - 1n)} left. Raise the cap (tollgate key update KEY --cap DOLLARS, or the dashboard's API keys), use another key, or ask for less with max_completion_tokens.`,
    )
    expect(retryHeaders(refusal!)).toEqual({ 'x-should-retry': 'false' })
    expect(balance()).toEqual({ posted: 1_000_000_000n, held: 0n })
    expect(asked).not.toContain('settle')
    sound()
  })

  test('because it is below the spending of the key: the rest is 0, never less', async () => {
    const { run, store, id, sound } = await rig()
    await run()
    const [key] = store.reads.listKeys(id)
    await store.changeKey({ id: key!.id, spendingCap: 1n })
    const { refusal } = await run()
    expect(refusal).toMatchObject({ code: 'spending_cap_reached' })
    expect(refusal!.message).toContain('cap has $0.00 left')
    sound()
  })

  test('while the key’s own requests hold the rest: 429, and then there is room', async () => {
    const { run, store, sound } = await rig({ cap: formatMoney(CHAT_HOLD + 1_000n) })
    const { first, release } = await openOne({ run, store })
    const { refusal, passed } = await run()
    expect(passed).toBe(false)
    expect(refusal).toMatchObject({ code: 'credit_on_hold', status: 429, retryAfterMs: 1_000 })
    expect(refusal!.message).toContain(
      `$0.000001 of the key's spending cap is free, and ${roundedDown(CHAT_HOLD)} is held for the key's open requests`,
    )
    release()
    expect((await first).refusal).toBeNull()
    expect((await run()).refusal).toBeNull()
    sound()
  })

  test('and the end of the other requests would not help: 402', async () => {
    const { run, store } = await rig({ cap: formatMoney(CHAT_HOLD + 1_000n) })
    const gate = Promise.withResolvers<void>()
    const first = run({ next: () => gate.promise })
    await until(() => expect(store.openHolds()).toBe(1))
    const large = chat({ messages: [{ role: 'user', content: 'x'.repeat(10_000) }] })
    expect((await run({ facts: { chat: large } })).refusal).toMatchObject({ code: 'spending_cap_reached' })
    gate.resolve()
    await first
  })

  test('with `refuse` no output cap is lowered', async () => {
    const { run, asked } = await rig({ cap: '$0.01', settings: { when_short: ['refuse'] } })
    const of = chat({}, 16_384)
    expect((await run({ facts: { chat: of } })).refusal).toMatchObject({ code: 'spending_cap_reached' })
    expect(of.cap).toBe(16_384)
    expect(asked).toEqual(['hold'])
  })

  test('a raw request has no cap to lower', async () => {
    const { raw } = await rig({ cap: '$0.000000001' })
    const route = { price: priced({ request: 5_000n }) }
    const { refusal } = await raw({ route } as Parameters<typeof raw>[0])
    expect(refusal).toMatchObject({ code: 'spending_cap_reached' })
  })
})

describe('the output cap', () => {
  const lowered = (left: bigint) => Number((left / 2n - holdFor(chat({}, 16_384), model(), PRICE, 0)) / 2_000n)

  test.each([
    ["the key's spending cap does", '$1', '$0.01', 10_000_000n],
    ['the balance does', '$0.01', '$1', 10_000_000n],
    ["the balance and the key's spending cap do", '$0.02', '$0.008', 8_000_000n],
    ['the balance does', '$0.01', '$0.0099', 10_000_000n],
  ])('is what half of the rest pays for: %s not pay for all (credit %s, cap %s)', async (what, credit, cap, least) => {
    const { run, receipt, asked, sound } = await rig({ credit, cap })
    const of = chat({}, 16_384)
    const { exchange, ctx, refusal } = await run({ facts: { chat: of } })
    expect(refusal).toBeNull()
    const expected = lowered(least)
    expect(of.cap).toBe(expected)
    expect(header(ctx, 'x-tollgate-max-output-tokens')).toBe(String(expected))
    expect(exchange.trail).toMatchObject([{ note: `output capped at ${expected} tokens: ${what} not pay for 16384` }])
    expect(receipt(exchange)!.held).toBe(holdFor(of, model(), PRICE, expected))
    expect(asked).toEqual([...Array(what.includes(' and ') ? 3 : 2).fill('hold'), 'settle'])
    sound()
  })
})

test('many at once: the cap pays for each request that is sent, and is never exceeded', async () => {
  const most = 5
  const { run, store, id, sound } = await rig({
    credit: '$10',
    cap: formatMoney(CHAT_HOLD * BigInt(most)),
    settings: { when_short: ['refuse'] },
  })
  const gate = Promise.withResolvers<void>()
  let under = 0
  const all = Array.from({ length: 50 }, () =>
    run({
      next: async exchange => {
        under++
        await gate.promise
        answered(usage(10, 5))(exchange)
      },
    }),
  )
  await until(() => expect(store.openHolds()).toBe(most))
  gate.resolve()
  const results = await Promise.all(all)
  expect(under).toBe(most)
  expect(results.filter(({ refusal }) => refusal?.code === 'credit_on_hold')).toHaveLength(50 - most)
  const [key] = store.reads.listKeys(id)
  expect(key!.spent).toBe(20_000n * BigInt(most))
  expect(key!.requests).toBe(most)
  sound()
})
