import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { type Account, type Chat, type Key, type MeteredUsage, type Model, retryHeaders } from '#contract'
import { createBuckets } from '../../src/state/buckets.ts'
import { countsOf } from '../../test/helpers/counts.ts'
import { createSteps, readSettings, type StepRequest, type StepText } from '../../test/helpers/step.ts'
import rateLimit from './index.ts'

const counts = countsOf('corpus')

const key = { id: 'key_1', accountId: 'acct_1' } as Key
const account = { id: 'acct_1' } as Account
const model = { id: 'chat-small' } as Model
const chat = (cap = 100, choices = 1, bytes = 400) => ({ cap, choices, bytes: Buffer.alloc(bytes) }) as Chat
const used = (input: number, output: number): MeteredUsage => ({
  input,
  output,
  source: 'reported',
})

/** Steps with their own buckets and time. */
function limited(...steps: Record<string, unknown>[]) {
  const clock = { time: 1_000_000, now: () => clock.time }
  const buckets = createBuckets(clock)
  const texts = steps.map((settings, i): StepText => ({ use: rateLimit, with: settings, id: `step-${i}` }))
  const send = createSteps(texts, { buckets })
  const facts = { key, account, model, chat: chat() }
  return {
    clock,
    buckets,
    send: (request: StepRequest = {}) => send({ ...request, facts: { ...facts, ...request.facts } }),
  }
}

const headersOf = (kind: string, get: (name: string) => string) =>
  ['limit', 'remaining', 'reset'].map(part => get(`x-ratelimit-${part}-${kind}`))

describe('settings', () => {
  test.each([
    ['nothing', {}],
    ['no limit', { per: 'key' }],
    ['no `per`', { requests: '1 per second' }],
    ['an unknown `per`', { per: 'user', requests: '1 per second' }],
    ['a tag without a name', { per: 'tag', requests: '1 per second' }],
    ['a tag with a bad name', { per: 'tag a:b', requests: '1 per second' }],
    ['limits of something else', { limits: 'account' }],
    ['limits of a plan and of its own', { limits: 'plan', per: 'key', requests: '1 per second' }],
    ['only one kind of its own', { per: 'key', requests: '1 per second', only: 'requests' }],
    ['an unknown kind', { limits: 'plan', only: 'bytes' }],
    ['a rate without a number', { per: 'key', requests: 'often' }],
    ['a rate of nothing', { per: 'key', tokens: '0 per minute' }],
    ['a burst of nothing', { per: 'key', requests: '1 per second', burst: 0 }],
    ['a burst of tokens', { per: 'key', tokens: '1 per second', burst: 5 }],
    ['an unknown name', { per: 'key', requests: '1 per second', brust: 5 }],
  ])('%s is refused', (_name, settings) => {
    expect(() => readSettings(rateLimit, settings)).toThrow('rate-limit:')
  })

  test.each([
    [{ per: 'address', requests: '1 per second' }, []],
    [{ per: 'address', tokens: '1 per second' }, ['chat']],
    [{ per: 'key', requests: '1 per second' }, ['key']],
    [{ per: 'account', requests: '1 per second', tokens: '9k per hour' }, ['account', 'chat']],
    [{ per: 'model', tokens: '1 per second' }, ['model', 'chat']],
    [{ per: 'caller', requests: '1 per second' }, ['key']],
    [{ per: 'tag team', requests: '1 per second' }, ['tags']],
    [{ limits: 'plan' }, ['account', 'key', 'chat']],
    [{ limits: 'plan', only: 'tokens' }, ['account', 'key', 'chat']],
    [{ limits: 'plan', only: 'requests' }, ['account', 'key']],
  ])('%o needs %o', (settings, needs) => {
    const read = readSettings(rateLimit, settings)
    expect((rateLimit.needs as (settings: unknown, kind: string) => readonly string[])(read, 'chat')).toEqual(needs)
  })

  test('a raw route has no chat, so the limits of plans need none there', () => {
    const needs = rateLimit.needs as (settings: unknown, kind: string) => readonly string[]
    expect(needs({ limits: 'plan' }, 'raw')).toEqual(['account', 'key'])
  })
})

describe('requests', () => {
  test('above the burst are refused, with the limit and the time of a retry', async () => {
    const { send, clock } = limited({ per: 'key', requests: '60 per minute', burst: 2 })
    await send()
    clock.time += 250
    await send()
    const { refusal, passed } = await send()
    expect(passed).toBe(false)
    expect(refusal).toMatchObject({ code: 'rate_limit_exceeded', status: 429, retryAfterMs: 750, retryable: true })
    expect(refusal!.message).toBe(
      'Rate limit reached: this key has 60 requests per minute, and at most 2 at once. Try again in 750ms.',
    )
    expect(headersOf('requests', name => refusal!.headers[name]!)).toEqual(['2', '0', '2s'])
    expect(retryHeaders(refusal!)).toEqual({ 'retry-after': '1', 'retry-after-ms': '750' })
    clock.time += 749
    expect((await send()).passed).toBe(false)
    clock.time += 1
    expect((await send()).passed).toBe(true)
  })

  test.each(['team', 'constructor'])('without the tag "%s" share one limit', async tag => {
    const { send } = limited({ per: `tag ${tag}`, requests: '1 per hour' })
    expect((await send({ facts: { tags: {} } })).passed).toBe(true)
    const { refusal } = await send({ facts: { tags: {}, key: { ...key, id: 'key_2' } } })
    expect(refusal!.message).toContain(`the empty value of the tag "${tag}" has 1 request per hour`)
    expect((await send({ facts: { tags: { [tag]: 'a' } } })).passed).toBe(true)
  })

  test('a wait that client libraries would ignore says not to retry', async () => {
    const { send } = limited({ per: 'key', requests: '1 per day' })
    await send()
    const { refusal } = await send()
    expect(refusal!.message).toBe('Rate limit reached: this key has 1 request per day. Try again in 24h0m0s.')
    expect(retryHeaders(refusal!)['x-should-retry']).toBe('false')
  })

  test('also count if a later step refuses them', async () => {
    const { send } = limited({ per: 'key', requests: '1 per hour' })
    const failed = send({
      next: () => {
        throw new Error('connection reset')
      },
    })
    await expect(failed).rejects.toThrow('connection reset')
    expect((await send()).passed).toBe(false)
  })

  test('without a burst a whole window may come at once; each answer shows the rest', async () => {
    const { send } = limited({ per: 'account', requests: '3 per 10 s' })
    const seen: string[][] = []
    for (let i = 0; i < 4; i++) {
      const { ctx, passed } = await send()
      if (passed) seen.push(headersOf('requests', name => ctx.response.get(name)))
    }
    expect(seen).toEqual([
      ['3', '2', '4s'],
      ['3', '1', '7s'],
      ['3', '0', '10s'],
    ])
  })

  test.each<[string, Record<string, unknown>, StepRequest, StepRequest, boolean]>([
    ['callers apart', { per: 'caller' }, {}, { facts: { key: { ...key, id: 'jwt:1:bob' } } }, true],
    ['one caller of two accounts', { per: 'caller' }, {}, { facts: { account: { ...account, id: 'acct_2' } } }, false],
    [
      'values of a tag apart',
      { per: 'tag team' },
      { facts: { tags: { team: 'a' } } },
      { facts: { tags: { team: 'b' } } },
      true,
    ],
    [
      'one value of a tag',
      { per: 'tag team' },
      { facts: { tags: { team: 'a' } } },
      { facts: { tags: { team: 'a' } } },
      false,
    ],
    [
      'one value of a tag of two accounts apart',
      { per: 'tag team' },
      { facts: { tags: { team: 'a' } } },
      { facts: { tags: { team: 'a' }, account: { ...account, id: 'acct_2' } } },
      true,
    ],
    ['keys apart', { per: 'key' }, {}, { facts: { key: { ...key, id: 'key_2' } } }, true],
    ['keys of one account together', { per: 'account' }, {}, { facts: { key: { ...key, id: 'key_2' } } }, false],
    ['accounts apart', { per: 'account' }, {}, { facts: { account: { ...account, id: 'acct_2' } } }, true],
    ['models apart', { per: 'model' }, {}, { facts: { model: { ...model, id: 'chat-large' } } }, true],
    ['keys of one model together', { per: 'model' }, {}, { facts: { key: { ...key, id: 'key_2' } } }, false],
    ['addresses apart', { per: 'address' }, { address: '192.0.2.1' }, { address: '192.0.2.2' }, true],
    ['a network together', { per: 'address' }, { address: '2001:db8::1' }, { address: '2001:db8::2:0:0:1' }, false],
    ['networks apart', { per: 'address' }, { address: '2001:db8::1' }, { address: '2001:db8:0:1::1' }, true],
    ['a mapped address with its own', { per: 'address' }, { address: '::ffff:1.2.3.4' }, { address: '1.2.3.4' }, false],
  ])('counts %s', async (_name, settings, one, two, passes) => {
    const { send } = limited({ ...settings, requests: '1 per hour' })
    expect((await send(one)).passed).toBe(true)
    expect((await send(one)).passed).toBe(false)
    expect((await send(two)).passed).toBe(passes)
  })

  test('in any span of time at most the burst and the refill pass; a retry after Retry-After passes', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.integer({ min: 1, max: 50 }),
        fc.integer({ min: 1, max: 20 }),
        fc.array(fc.tuple(fc.nat(400), fc.boolean()), { minLength: 1, maxLength: 60 }),
        async (amount, burst, arrivals) => {
          const { send, clock } = limited({ per: 'key', requests: `${amount} per second`, burst })
          const admitted: number[] = []
          for (const [pauseMs, obeys] of arrivals) {
            clock.time += pauseMs
            let { passed, refusal } = await send()
            if (!passed && obeys) {
              clock.time += refusal!.retryAfterMs!
              passed = (await send()).passed
              expect(passed).toBe(true)
            }
            if (passed) admitted.push(clock.time)
          }
          for (let from = 0; from < admitted.length; from++) {
            for (let to = from; to < admitted.length; to++) {
              const most = burst + ((admitted[to]! - admitted[from]!) * amount) / 1000
              expect(to - from + 1).toBeLessThanOrEqual(most + 1e-6)
            }
          }
        },
      ),
      { numRuns: counts(50, 500) },
    )
  })
})

describe('tokens', () => {
  test('a request above the rest is refused, and takes neither a request nor tokens', async () => {
    const { send, clock } = limited({ per: 'key', requests: '2 per minute', tokens: '600 per minute' })
    // 400 bytes are 100 tokens; with 3 choices of 150: 550.
    const first = await send({
      facts: { chat: chat(150, 3) },
      next: exchange => void (exchange.usage = used(100, 450)),
    })
    expect(first.passed).toBe(true)
    const { refusal, passed } = await send({ facts: { chat: chat(100) } })
    expect(passed).toBe(false)
    expect(refusal).toMatchObject({ code: 'rate_limit_exceeded', retryAfterMs: 15_000 })
    expect(refusal!.message).toBe(
      'Rate limit reached: this key has 600 tokens per minute, and this request may take 200. Try again in 15s.',
    )
    expect(headersOf('tokens', name => refusal!.headers[name]!)).toEqual(['600', '50', '55s'])
    clock.time += 15_000
    const second = await send({ facts: { chat: chat(100) } })
    expect(second.passed).toBe(true)
    expect(second.ctx.response.get('x-ratelimit-remaining-requests')).toBe('0')
  })

  test('a request above the size of the bucket takes all of it, and can pass', async () => {
    const { send, clock } = limited({ per: 'key', tokens: '1k per minute' })
    const large = { facts: { chat: chat(500_000, 128) } }
    const { passed, ctx } = await send({ ...large, next: exchange => void (exchange.usage = used(10, 990)) })
    expect([passed, ctx.response.get('x-ratelimit-remaining-tokens')]).toEqual([true, '0'])
    const { refusal } = await send(large)
    expect(refusal!.retryAfterMs).toBe(60_000)
    clock.time += 60_000
    expect((await send(large)).passed).toBe(true)
  })

  test.each<[string, MeteredUsage | null, number]>([
    ['nothing was used: all is given back', null, 1000],
    ['less was used than thought: the rest is given back', used(20, 30), 950],
    ['exactly that was used', used(100, 100), 800],
    ['more was used: it is taken', used(100, 500), 400],
    ['much more was used: the bucket owes it', used(100, 1050), -150],
    ['more than a window beyond what was taken: no more than that is owed', used(1000, 3000), -200],
    ['an absurd report of a provider', used(0.9e9, 0.9e9), -200],
    ['an infinite number', used(Number.POSITIVE_INFINITY, 100), 900],
  ])('%s', async (_name, usage, left) => {
    const { send } = limited({ per: 'key', tokens: '1k per minute' })
    await send({ next: exchange => void (exchange.usage = usage) })
    // Takes all, to see the rest.
    const probe = await send({ facts: { chat: chat(10_000) } })
    expect(probe.passed).toBe(left === 1000)
    if (left < 1000) expect(probe.refusal!.retryAfterMs).toBe(((1000 - left) * 60_000) / 1000)
  })

  test('are corrected when the answer fails', async () => {
    const { send } = limited({ per: 'key', tokens: '1k per minute' })
    const next = () => {
      throw new Error('connection reset')
    }
    for (let i = 0; i < 10; i++)
      await expect(send({ facts: { chat: chat(900) }, next })).rejects.toThrow('connection reset')
  })

  test('a cap that a later step lowers does not change the correction', async () => {
    const { send } = limited({ per: 'key', tokens: '1k per minute' })
    for (let i = 0; i < 5; i++) {
      const { passed } = await send({ facts: { chat: chat(900) }, next: exchange => void (exchange.chat!.cap = 64) })
      expect(passed).toBe(true)
    }
  })

  test('by chance: in the end exactly the used tokens are taken, up to the limit of a debt', async () => {
    const request = fc.record({
      cap: fc.integer({ min: 1, max: 3000 }),
      choices: fc.integer({ min: 1, max: 3 }),
      bytes: fc.nat(3000),
      usage: fc.option(fc.tuple(fc.nat(2000), fc.nat(2000))),
    })
    await fc.assert(
      fc.asyncProperty(fc.array(request, { maxLength: 30 }), async requests => {
        const { send, clock } = limited({ per: 'key', tokens: '1k per second' })
        let level = 1000
        for (const { cap, choices, bytes, usage } of requests) {
          const estimate = Math.min(1000, Math.ceil(bytes / 4) + cap * choices)
          const { passed, refusal } = await send({
            facts: { chat: chat(cap, choices, bytes) },
            next: exchange => void (exchange.usage = usage && used(...usage)),
          })
          expect(passed).toBe(level >= estimate)
          if (passed) level -= usage ? Math.min(usage[0] + usage[1], estimate + 1000) : 0
          else {
            expect(refusal!.retryAfterMs).toBe(estimate - level)
            clock.time += estimate - level
            level = estimate
          }
        }
      }),
      { numRuns: counts(50, 2000) },
    )
  })
})

describe('several steps', () => {
  const shown = (ctx: { response: { get(name: string): string } }) =>
    headersOf('requests', name => ctx.response.get(name)).slice(0, 2)

  test.each([
    ['the tighter one comes first', ['2 per minute', '100 per minute']],
    ['the tighter one comes last', ['100 per minute', '2 per minute']],
  ])('the headers show the tighter limit: %s', async (_name, [one, two]) => {
    const { send } = limited({ per: 'key', requests: one }, { per: 'account', requests: two })
    expect(shown((await send()).ctx)).toEqual(['2', '1'])
    expect(shown((await send()).ctx)).toEqual(['2', '0'])
  })

  test('a refusal shows the limit that was reached', async () => {
    const { send } = limited({ per: 'key', requests: '1k per minute' }, { per: 'account', requests: '1 per minute' })
    await send()
    const { refusal } = await send()
    expect(headersOf('requests', name => refusal!.headers[name]!)).toEqual(['1', '0', '1m0s'])
  })

  test('steps have their own buckets, also with the same settings', async () => {
    const { send } = limited(
      { per: 'key', requests: '2 per minute' },
      { per: 'key', requests: '2 per minute' },
      { per: 'key', requests: '2 per minute', tokens: '9k per minute' },
      { per: 'address', requests: '2 per minute' },
    )
    expect([(await send()).passed, (await send()).passed, (await send()).passed]).toEqual([true, true, false])
  })

  test('a step finds its buckets after a reload', async () => {
    const { send, buckets } = limited({ per: 'key', requests: '1 per minute' })
    await send()
    const again = createSteps([{ use: rateLimit, id: 'step-0', with: { per: 'key', requests: '1 per minute' } }], {
      buckets,
    })
    expect((await again({ facts: { key } })).passed).toBe(false)
  })
})
