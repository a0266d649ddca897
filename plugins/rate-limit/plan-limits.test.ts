/** `limits: plan`: from all buckets of the account's plan, or from none. */
import { describe, expect, test } from 'vitest'
import { type Account, type Buckets, type Chat, type Key, type Plan, parseRate } from '#contract'
import { createPlans } from '../../src/config/plan-catalog.ts'
import { createBuckets } from '../../src/state/buckets.ts'
import { createSteps, type StepRequest } from '../../test/helpers/step.ts'
import rateLimit from './index.ts'

const rate = (text: string) => parseRate(text)
const plan = (name: string, limits: Plan['limits']): Plan => ({ name, models: null, limits, budgets: [], weight: 1 })
const key = { id: 'key_1', accountId: 'acct_1' } as Key
const account = (id: string, plan: string) => ({ id, plan }) as Account
const chat = { cap: 100, choices: 1, bytes: Buffer.alloc(400) } as Chat

const PLANS = [
  plan('default', []),
  plan('pro', [
    { per: 'account', requests: rate('3 per minute') },
    { per: 'key', requests: rate('10 per minute'), burst: 2, tokens: rate('500 per minute') },
  ]),
  plan('teams', [{ per: 'tag team', requests: rate('1 per hour') }]),
  plan('small', [{ per: 'account', tokens: rate('100 per minute') }]),
]

/** One policy with these settings in turn; with a network its buckets answer later. */
function limited(settings: readonly object[], isRemote = false) {
  const clock = { time: 1_000_000, now: () => clock.time }
  const local = createBuckets(clock)
  const asked: string[] = []
  const later = async <Value>(value: Value) => value
  const buckets: Buckets = {
    take(name, shape, amount) {
      asked.push(name)
      const grant = local.take(name, shape, amount)
      return isRemote ? later(grant) : grant
    },
    give(name, shape, amount) {
      local.give(name, shape, amount)
      return isRemote ? later(undefined) : undefined
    },
  }
  const plans = createPlans({ plans: new Map(PLANS.map(each => [each.name, each])) })
  const steps = settings.map((each, i) => ({ use: rateLimit, id: `step-${i}`, with: { limits: 'plan', ...each } }))
  const send = createSteps(steps, { buckets, plans })
  return {
    clock,
    asked,
    local,
    send: (request: StepRequest = {}) =>
      send({ ...request, facts: { key, account: account('acct_1', 'pro'), chat, tags: {}, ...request.facts } }),
  }
}

const key2 = { ...key, id: 'key_2' }

describe.each([
  ['in this process', false],
  ['over a state server', true],
])('%s', (_name, isRemote) => {
  test('the tightest limit refuses, and the others get back what they gave', async () => {
    const { send, clock } = limited([{}], isRemote)
    for (let i = 0; i < 2; i++) expect((await send()).passed).toBe(true)
    const { refusal, passed } = await send()
    expect(passed).toBe(false)
    expect(refusal).toMatchObject({ code: 'rate_limit_exceeded' })
    expect(refusal!.message).toContain('this key has 10 requests per minute, and at most 2 at once')
    // The account has given one back: the other key gets it, and then no key does.
    expect((await send({ facts: { key: key2 } })).passed).toBe(true)
    expect((await send({ facts: { key: key2 } })).refusal!.message).toContain('this account has 3 requests per minute')
    clock.time += 20_000
    expect((await send({ facts: { key: key2 } })).passed).toBe(true)
  })

  test('tokens are estimated, then corrected; without usage they are all given back', async () => {
    const { send } = limited([{ only: 'tokens' }], isRemote)
    // Each takes 200 of 500.
    for (let i = 0; i < 5; i++) expect((await send()).passed).toBe(true)
    const used = { input: 300, output: 100, source: 'reported' as const }
    await send({ next: exchange => void Object.assign(exchange, { usage: used, outcome: 'answered' }) })
    const { refusal } = await send()
    expect(refusal!.message).toContain('this key has 500 tokens per minute, and this request may take 200')
  })

  test('a limit per tag is for each value within an account, and one for requests without the tag', async () => {
    const { send } = limited([{ only: 'requests' }], isRemote)
    const [mine, other] = [account('acct_1', 'teams'), account('acct_2', 'teams')]
    for (const [tags, whose] of [
      [{ team: 'red' }, 'this value of the tag "team"'],
      [{}, 'the empty value of the tag "team"'],
    ] as const) {
      expect((await send({ facts: { account: mine, tags } })).passed).toBe(true)
      const { refusal } = await send({ facts: { account: mine, key: key2, tags } })
      expect(refusal!.message).toContain(`${whose} has 1 request per hour`)
      expect((await send({ facts: { account: other, tags } })).passed).toBe(true)
    }
    expect((await send({ facts: { account: mine, tags: { team: 'blue' } } })).passed).toBe(true)
  })
})

test('a plan without limits costs no bucket, and neither does a request that only counts tokens cost tokens', async () => {
  const { send, asked } = limited([{}])
  for (let i = 0; i < 10; i++)
    expect((await send({ facts: { account: account('acct_2', 'default') } })).passed).toBe(true)
  expect(asked).toEqual([])
  const counting = { facts: { account: account('acct_3', 'small') }, route: { counts: true } }
  for (let i = 0; i < 10; i++) expect((await send(counting)).passed).toBe(true)
  expect(asked).toEqual([])
})

test('two steps share the limits between them, and policies share the buckets', async () => {
  const { send, asked } = limited([{ only: 'requests' }, { only: 'tokens' }])
  await send()
  expect(asked).toEqual([
    'plan:pro/60000/requests/account:acct_1',
    'plan:pro/60000/requests/key:key_1',
    'plan:pro/60000/tokens/key:key_1',
  ])
})

test('an account whose plan is not declared is refused', async () => {
  const { send } = limited([{}])
  const { refusal } = await send({ facts: { account: account('acct_1', 'gold') } })
  expect(refusal).toMatchObject({ code: 'plan_not_declared', status: 403 })
  expect(refusal!.message).toContain('"gold"')
})

test('answers show the tightest limit', async () => {
  const { send } = limited([{}])
  const { ctx } = await send()
  expect(ctx.response.get('x-ratelimit-limit-requests')).toBe('2')
  expect(ctx.response.get('x-ratelimit-remaining-requests')).toBe('1')
  expect(ctx.response.get('x-ratelimit-limit-tokens')).toBe('500')
})
