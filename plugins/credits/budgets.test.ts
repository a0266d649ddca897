/** Requests above a budget: refused, with a lower cap, or answered by another model. */
import { describe, expect, test } from 'vitest'
import { type Budget, parseMoney, refuse, requestedModel, retryHeaders } from '#contract'
import { budgetUses } from '../../test/helpers/budget-uses.ts'
import { readSettings } from '../../test/helpers/step.ts'
import { holdFor } from './hold.ts'
import credits from './index.ts'
import { roundedDown, roundedUp } from './rounded.ts'
import { answered, header, openOne, rig } from './test-rig.ts'
import { chat, model, PRICE, priced, usage } from './test-samples.ts'

const LEAST = holdFor(chat(), model(), PRICE, 64)
const CHAT_HOLD = holdFor(chat(), model(), PRICE, 1_000)
/** The cost of `usage(10, 5)`. */
const CHARGE = 20_000n

const budget = (amount: bigint, more: Partial<Budget> = {}): Budget => ({
  per: 'account',
  amount,
  every: 'month',
  zone: 'Europe/Berlin',
  ...more,
})

describe('a budget has too little left', () => {
  test('for the smallest answer: 429, and client libraries do not retry', async () => {
    const { run, balance, sound } = await rig({ plan: [budget(LEAST - 1n, { name: 'team' })] })
    const { refusal, passed, ctx } = await run()
    expect(passed).toBe(false)
    expect(refusal).toMatchObject({ code: 'budget_exhausted', status: 429, type: 'insufficient_quota' })
    expect(refusal!.message).toBe(
      `This request needs ${roundedUp(LEAST)}, and the budget "team" of the account acme has ${roundedDown(LEAST - 1n)} left for this month. It resets at 2026-10-01 00:00 Europe/Berlin. Or ask for less with max_completion_tokens.`,
    )
    expect(retryHeaders(refusal!)).toEqual({ 'x-should-retry': 'false' })
    expect(header(ctx, 'x-tollgate-budget')).toBe('team')
    expect(balance()).toEqual({ posted: 1_000_000_000n, held: 0n })
    sound()
  })

  test('and a name with other characters than ASCII: headers have it percent-encoded', async () => {
    const { run } = await rig({ plan: [budget(1n, { name: 'Müller 予算 5%' })] })
    const { refusal, ctx } = await run()
    expect(refusal).toMatchObject({ code: 'budget_exhausted' })
    expect(refusal!.message).toContain('"Müller 予算 5%"')
    expect(header(ctx, 'x-tollgate-budget')).toBe('M%C3%BCller %E4%BA%88%E7%AE%97 5%')
  })

  test('while its open requests hold the rest: 429, and then there is room', async () => {
    const { run, store, sound } = await rig({ plan: [budget(CHAT_HOLD + 1_000n, { per: 'key' })] })
    const { first, release } = await openOne({ run, store })
    const { refusal } = await run()
    expect(refusal).toMatchObject({ code: 'credit_on_hold', status: 429, retryAfterMs: 1_000 })
    expect(refusal!.message).toContain(
      `$0.000001 of the budget "key month" of the key k is free, and ${roundedDown(CHAT_HOLD)} is held for its open requests`,
    )
    release()
    expect((await first).refusal).toBeNull()
    expect((await run()).refusal).toBeNull()
    sound()
  })

  test('for the whole answer: its output is capped, unless the policy says refuse', async () => {
    const plan = [budget(CHAT_HOLD - 1n, { every: 'life' })]
    const { run, sound } = await rig({ plan })
    const { ctx, exchange } = await run()
    expect(Number(header(ctx, 'x-tollgate-max-output-tokens'))).toBeLessThan(1_000)
    expect(exchange.trail[0]!.note).toMatch(
      /^output capped at \d+ tokens: the budget "account life" does not pay for 1000$/,
    )
    sound()
    const strict = await rig({ plan, settings: { when_short: ['refuse'] } })
    const { refusal } = await strict.run()
    expect(refusal).toMatchObject({ code: 'budget_exhausted' })
    expect(refusal!.message).toContain('It does not reset.')
  })
})

test('the next period has the whole amount again, and a charge counts in the period of its hold', async () => {
  const { run, clock, store, id, sound } = await rig({ plan: [budget(CHAT_HOLD, { every: 'day', zone: 'UTC' })] })
  const day = 86_400_000
  const end = (Math.floor(clock.time / day) + 1) * day
  clock.time = end - 1
  const late = {
    next: (exchange: Parameters<ReturnType<typeof answered>>[0]) => {
      clock.time = end
      answered(usage(10, 5))(exchange)
    },
  }
  expect((await run(late)).refusal).toBeNull()
  // Spending of the day before does not count.
  const whole = await run({ facts: { chat: chat({}, 1_000) } })
  expect([whole.refusal, header(whole.ctx, 'x-tollgate-max-output-tokens')]).toEqual([null, ''])
  const uses = [end - 1, end].map(now => budgetUses(store.reads, id, now).map(({ spent }) => spent))
  expect(uses).toEqual([[CHARGE], [CHARGE]])
  sound()
})

test('budgets of the account, the key, the plan and the policy all count, and each value of a tag has its own', async () => {
  const { run, store, id, sound } = await rig({
    plan: [budget(parseMoney('$1'), { per: 'caller' })],
    settings: { budgets: [{ per: 'tag team', amount: '$1', every: 'day' }] },
  })
  await store.setBudget({ of: 'account', name: id, every: 'life', budget: { amount: parseMoney('$1') } })
  const [key] = store.reads.listKeys(id)
  await store.setBudget({ of: 'key', name: key!.id, every: 'hour', budget: { amount: parseMoney('$1') } })
  for (const tags of [{ team: 'a' }, { team: 'a' }, { team: 'b' }, {}])
    expect((await run({ facts: { tags } })).refusal).toBeNull()
  const uses = budgetUses(store.reads, id, 1_790_000_000_000).map(({ budget, spent }) => `${budget} ${spent / CHARGE}`)
  expect(uses).toEqual([
    'account/account life/life/ 4',
    `key/key hour/hour/${key!.id} 4`,
    `plan default/caller month/month/${key!.id} 4`,
    'policy test%2Fcredits/tag team day/day/ 1',
    'policy test%2Fcredits/tag team day/day/a 2',
    'policy test%2Fcredits/tag team day/day/b 1',
  ])
  sound()
})

describe('then: MODEL', () => {
  const SMALL = model({ id: 'small', price: priced({ input: 10_000_000n, output: 20_000_000n }) })
  const withOther = () => {
    const body = chat()
    return { ...body, forModel: (asked: typeof body) => ({ ...asked, cap: 500 }) }
  }
  const plan = [budget(CHAT_HOLD - 1n, { then: 'small', name: 'team' })]

  test('another model answers, with headers that name it, and does not count in the budget', async () => {
    const { run, receipt, store, id, sound } = await rig({ plan, models: [SMALL] })
    const { exchange, ctx, refusal } = await run({ facts: { chat: withOther() } })
    expect(refusal).toBeNull()
    expect([header(ctx, 'x-tollgate-model'), header(ctx, 'x-tollgate-budget')]).toEqual(['small', 'team'])
    expect(header(ctx, 'x-tollgate-max-output-tokens')).toBe('')
    expect(exchange.trail[0]!.note).toBe(
      'small answers in place of chat-small: the budget "team" of the account acme does not pay for it',
    )
    expect(receipt(exchange)).toMatchObject({ model: 'small', charged: CHARGE / 100n })
    expect(requestedModel(receipt(exchange)!.trail)).toBe('chat-small')
    expect(budgetUses(store.reads, id, 1_790_000_000_000)).toEqual([])
    sound()
  })

  test('a free model costs nothing', async () => {
    const { run, receipt } = await rig({ plan, models: [{ ...SMALL, price: null }] })
    const { exchange } = await run({ facts: { chat: withOther() } })
    expect([exchange.model!.id, exchange.hold, receipt(exchange)]).toEqual(['small', 0n, undefined])
  })

  test('neither of two budgets with the same model counts it', async () => {
    const both = [...plan, budget(1n, { per: 'key', then: 'small' })]
    const { run } = await rig({ plan: both, models: [SMALL] })
    expect((await run({ facts: { chat: withOther() } })).refusal).toBeNull()
  })

  test.each<[string, object]>([
    ['is missing', { models: [] }],
    ['is not for this key', { models: [{ ...SMALL, public: false }] }],
    ['is off', { models: [{ ...SMALL, enabled: false }] }],
  ])('a model that %s: the request is refused', async (_what, parts) => {
    const { run, sound } = await rig({ plan, settings: { when_short: ['refuse'] }, ...parts })
    expect((await run({ facts: { chat: withOther() } })).refusal).toMatchObject({ code: 'budget_exhausted' })
    sound()
  })

  test('a model that does not accept the request: the answer is shorter', async () => {
    const { run } = await rig({ plan, models: [SMALL] })
    const forModel = () => {
      throw refuse('unsupported_parameter')
    }
    const { exchange, ctx, refusal } = await run({ facts: { chat: { ...chat(), forModel } } })
    expect([refusal, exchange.model!.id, header(ctx, 'x-tollgate-model')]).toEqual([null, 'chat-small', ''])
    expect(Number(header(ctx, 'x-tollgate-max-output-tokens'))).toBeLessThan(1_000)
  })

  test('a request above the balance is refused too', async () => {
    const { run } = await rig({ plan, models: [SMALL], credit: '$0.00000001' })
    expect((await run({ facts: { chat: withOther() } })).refusal).toMatchObject({ code: 'insufficient_quota' })
  })

  test('a refusal by another budget has no header of a model', async () => {
    const { run } = await rig({ plan: [...plan, budget(1n, { per: 'key' })], models: [SMALL] })
    const { ctx, refusal } = await run({ facts: { chat: withOther() } })
    expect([refusal?.code, header(ctx, 'x-tollgate-model')]).toEqual(['budget_exhausted', ''])
  })
})

test.each<[string, object, string]>([
  ['no period', { per: 'key', amount: '$1' }, 'every'],
  ['another period', { per: 'key', amount: '$1', every: 'year' }, 'every'],
  ['an unknown subject', { per: 'team', amount: '$1', every: 'day' }, '/budgets/0/per must match'],
  ['a mark of 0 %', { per: 'key', amount: '$1', every: 'day', at: ['0%'] }, '/budgets/0/at/0 must match'],
  ['an unknown word', { per: 'key', amount: '$1', every: 'day', limit: 1 }, 'additional properties'],
])('a budget with %s is refused', (_what, written, message) => {
  expect(() => readSettings(credits, { budgets: [written] })).toThrow(message)
})
