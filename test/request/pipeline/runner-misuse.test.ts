/** Steps that hang, call too late, answer twice, or act in shadow: other steps and clients are not affected. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type AnyPlugin, definePlugin, refuse, type StepMiddleware } from '#contract'
import { exact, type FakeProvider, startFakeProvider } from '../../helpers/fake-provider.ts'
import { type Account, FIVE_STEPS, shareGateways } from '../../helpers/in-process.ts'
import { ownAnswer } from '../../helpers/own-answer.ts'

/** Replaces the grace time of 5 s. */
const GRACE_MS = 150

let provider: FakeProvider
let inner: StepMiddleware
let outer: StepMiddleware
const pass: StepMiddleware = (_ctx, next) => next()

const step = (name: string, act: () => StepMiddleware): AnyPlugin =>
  definePlugin({
    name,
    settings: { type: 'object', additionalProperties: false, properties: {} },
    create: () => (ctx, next) => act()(ctx, next),
  })

const share = shareGateways(() => ({
  provider: provider.baseUrl,
  plugins: [step('outer', () => outer), step('inner', () => inner)],
  stepGraceMs: GRACE_MS,
}))
const start = (change: { outer?: object; inner?: object; credit?: string } = {}): Promise<Account> =>
  share({
    steps: [
      { use: 'outer', ...change.outer },
      ...FIVE_STEPS.slice(0, 4),
      { use: 'inner', ...change.inner },
      ...FIVE_STEPS.slice(4),
    ],
    ...(change.credit ? { credit: change.credit } : {}),
  })

let gateway: Account
beforeAll(async () => {
  provider = await startFakeProvider({ script: exact({ tokens: 3 }) })
  gateway = await start()
})
afterAll(() => provider.close())

const never = () => new Promise<void>(() => {})

describe('a step that hangs', () => {
  test('after an inner refusal: the refusal is sent', async () => {
    outer = async (_ctx, next) => {
      try {
        await next()
      } finally {
        await never()
      }
    }
    inner = async () => {
      throw refuse('forbidden')
    }
    const answer = await gateway.chat()
    expect(answer.status).toBe(403)
    await gateway.waitForLog(line => line['step'] === 'outer' && /did not return/.test(String(line['what'])))
    expect(gateway.balance().held).toBe(0n)
  })

  test('after its own answer: the answer is sent', async () => {
    outer = pass
    inner = async ctx => {
      await ctx.exchange.answer(ownAnswer('mine'))
      await never()
    }
    const answer = await gateway.chat()
    expect(answer.status).toBe(200)
    expect(await answer.json()).toMatchObject({ choices: [{ message: { content: 'mine' } }] })
  })

  test('before next(), and the client disconnects: the hold is released', async () => {
    outer = pass
    const reached = Promise.withResolvers<void>()
    inner = async () => {
      reached.resolve()
      await never()
    }
    const controller = new AbortController()
    const since = gateway.log.length
    const answer = gateway.chat({}, { signal: controller.signal })
    await reached.promise
    expect(gateway.balance().held).toBeGreaterThan(0n)
    controller.abort()
    await answer.catch(() => {})
    await gateway.waitForLog(line => line['msg'] === 'exchange' && gateway.log.indexOf(line) >= since)
    expect(gateway.balance().held).toBe(0n)
  })
})

describe('next()', () => {
  test('after the step is over sends nothing', async () => {
    outer = pass
    const late = Promise.withResolvers<unknown>()
    const open = Promise.withResolvers<void>()
    inner = async (_ctx, next) => {
      void open.promise.then(() => next().catch(late.resolve))
      throw refuse('forbidden')
    }
    const calls = provider.requests.length
    expect((await gateway.chat()).status).toBe(403)
    open.resolve()
    expect(String(await late.promise)).toContain('called next() after it was over')
    expect(provider.requests.length).toBe(calls)
    expect(gateway.balance().held).toBe(0n)
  })

  test.each(['refuse', 'skip'])('after an answer: no second answer, nothing is sent (onError: %s)', async onError => {
    const twice = await start({ inner: { onError } })
    outer = pass
    inner = async (ctx, next) => {
      await ctx.exchange.answer(ownAnswer('mine'))
      await next()
    }
    const calls = provider.requests.length
    const answer = await twice.chat()
    expect(answer.status).toBe(500)
    expect(await answer.json()).toMatchObject({ error: { code: 'plugin_error' } })
    expect(provider.requests.length).toBe(calls)
    expect(twice.balance()).toMatchObject({ held: 0n, posted: 10_000_000_000n })
  })
})

describe('in shadow', () => {
  test.each<[string, StepMiddleware]>([
    [
      'ctx.vary, ctx.response.set, ctx.cookies, ctx.res before next()',
      async (ctx, next) => {
        ctx.vary('x-a')
        ctx.response.set('x-b', '1')
        ctx.cookies.set('c', '1')
        ctx.res.setHeader('x-d', '1')
        await next()
      },
    ],
    [
      'a header after next()',
      async (ctx, next) => {
        await next()
        ctx.res.setHeader('x-d', '1')
        ctx.set('x-b', '1')
      },
    ],
    [
      'a watch that throws',
      async (ctx, next) => {
        ctx.exchange.watch(() => {
          throw refuse('forbidden')
        })
        await next()
      },
    ],
    [
      'an answer by Koa',
      async ctx => {
        ctx.status = 403
        ctx.body = 'no'
      },
    ],
  ])('%s changes nothing', async (_name, act) => {
    const shadowed = await start({ inner: { mode: 'shadow' } })
    outer = pass
    inner = act
    const answer = await shadowed.chat()
    expect(answer.status).toBe(200)
    for (const name of ['vary', 'x-b', 'set-cookie', 'x-d']) expect(answer.headers.get(name)).toBe(null)
    expect(((await answer.json()) as { choices: unknown[] }).choices).toHaveLength(1)
  })

  test('its own refusal after an inner one changes nothing: the client gets the inner one', async () => {
    const poor = await start({ outer: { mode: 'shadow' }, credit: '0.000000001' })
    inner = pass
    outer = async (_ctx, next) => {
      try {
        await next()
      } catch {
        throw refuse('forbidden')
      }
    }
    const answer = await poor.chat()
    expect(answer.status).toBe(402)
  })
})

test('the trail of a receipt has every step, in the order of the policy, with its notes', async () => {
  outer = async (ctx, next) => {
    ctx.exchange.note('seen')
    await next()
  }
  inner = pass
  const answer = await gateway.chat()
  const trail = gateway.receipt(answer)!.trail
  expect(trail.map(entry => entry.step)).toEqual([
    'outer',
    'api-key',
    'schema',
    'rate-limit',
    'credits',
    'inner',
    'route',
  ])
  expect(trail[0]).toEqual({ step: 'outer', verdict: 'passed', note: 'seen' })
})
