/** Deciding steps: each exchange ends as with a middleware that does the same. */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { type DecidingStep, definePlugin, refuse, type StepMiddleware } from '#contract'
import { middlewareOf } from '../../../src/loader/middleware-of.ts'
import { exact, type FakeProvider, gated, startFakeProvider } from '../../helpers/fake-provider.ts'
import { type Account, FIVE_STEPS, shareGateways, startInProcess } from '../../helpers/in-process.ts'
import { ownAnswer } from '../../helpers/own-answer.ts'
import { textOf } from '../../helpers/sse.ts'
import { until } from '../../helpers/until.ts'

/** Replaces the grace time of 5 s. */
const GRACE_MS = 150

let provider: FakeProvider
/** The steps under test; each test sets them. */
let tested: DecidingStep
let inner: DecidingStep
const pass: DecidingStep = { decide() {} }
let events: string[] = []

const settings = { type: 'object', additionalProperties: false, properties: {} } as const
const deciding = (name: string, act: () => DecidingStep, wraps: boolean) =>
  definePlugin({
    name,
    settings,
    create() {
      const step: DecidingStep = {
        decide: ctx => act().decide(ctx),
        after: (...end) => act().after?.(...end),
      }
      return wraps ? (middlewareOf(step) as StepMiddleware) : step
    },
  })

/** A middleware between the two deciding steps. */
const wrapper = definePlugin({
  name: 'wrapper',
  settings,
  create: () => async (_ctx, next) => {
    events.push('wrapper in')
    await next().finally(() => events.push('wrapper out'))
  },
})

const status = definePlugin({
  name: 'status',
  settings,
  create: () => (ctx, next) => {
    ctx.status = 200
    return next()
  },
})

const start = shareGateways(() => ({
  provider: provider.baseUrl,
  plugins: [
    deciding('tested', () => tested, false),
    deciding('same', () => tested, true),
    deciding('inner', () => inner, false),
    wrapper,
    status,
  ],
  stepGraceMs: GRACE_MS,
}))

beforeAll(async () => {
  provider = await startFakeProvider({ script: exact({ tokens: 3 }) })
})
afterAll(() => provider.close())
beforeEach(() => {
  events = []
  tested = pass
  inner = pass
})

type Place = 'outside' | 'inside'

function gatewayWith(use: string, place: Place, change: object = {}): Promise<Account> {
  const tried = { use, id: 'tried', ...change }
  const own = [...FIVE_STEPS.slice(0, 4), ...(place === 'inside' ? [tried] : []), FIVE_STEPS[4]!, { use: 'inner' }]
  return start({ steps: place === 'outside' ? [tried, ...own] : own })
}

const never = () => new Promise<never>(() => {})
const forbids = () => {
  throw refuse('forbidden', { message: 'Not today.' })
}
const breaks = () => {
  throw new Error('a bug')
}

const ROWS: readonly [name: string, step: DecidingStep, further?: DecidingStep][] = [
  ['nothing', pass],
  ['a promise', { async decide() {} }],
  ['a refusal', { decide: forbids }],
  ['a refusal that comes later', { decide: async () => forbids() }],
  ['a bug', { decide: breaks }],
  ['a bug that comes later', { decide: async () => breaks() }],
  ['an answer', { decide: ({ exchange }) => exchange.answer(ownAnswer('mine')) }],
  ['an answer that it does not wait for', { decide: ({ exchange }) => void exchange.answer(ownAnswer('mine')) }],
  [
    'an answer that comes later',
    {
      async decide({ exchange }) {
        await null
        await exchange.answer(ownAnswer('mine'))
      },
    },
  ],
  [
    'two answers',
    {
      async decide({ exchange }) {
        await exchange.answer(ownAnswer('mine'))
        await exchange.answer(ownAnswer('mine'))
      },
    },
  ],
  [
    "an answer of Koa's",
    {
      decide(ctx) {
        ctx.status = 418
        ctx.body = 'tea'
      },
    },
  ],
  [
    "an answer of Koa's, in an async function",
    {
      async decide(ctx) {
        ctx.body = 'tea'
      },
    },
  ],
  [
    "an answer of Koa's that comes later",
    {
      async decide(ctx) {
        await null
        ctx.body = 'tea'
      },
    },
  ],
  [
    'a promise of another library',
    {
      decide: () => ({
        then() {
          breaks()
        },
      }),
    },
  ],
  ['a header', { decide: ctx => ctx.set('x-of-step', '1') }],
  ['an edit', { decide: ({ exchange }) => exchange.edit(() => null) }],
  ['a watch that refuses', { decide: ({ exchange }) => exchange.watch(forbids) }],
  [
    'notes on both ways',
    { decide: ({ exchange }) => exchange.note('in'), after: ({ exchange }) => exchange.note('out') },
  ],
  ['a refusal at the end', { decide() {}, after: forbids }],
  ['a refusal at the end that comes later', { decide() {}, after: async () => forbids() }],
  ['a bug at the end', { decide() {}, after: breaks }],
  ['a bug at the end that comes later', { decide() {}, after: async () => breaks() }],
  [
    'a refusal of an inner step',
    { decide() {}, after: ({ exchange }, outcome) => exchange.note(String(outcome)) },
    { decide: forbids },
  ],
  [
    'an answer at the end, after a refusal of an inner step',
    { decide() {}, after: ({ exchange }) => exchange.answer(ownAnswer('mine')) },
    { decide: forbids },
  ],
  [
    'a bug of an inner step',
    { decide() {}, after: ({ exchange }, outcome) => exchange.note(String(outcome)) },
    { decide: breaks },
  ],
  ['a bug at the end, and a refusal of an inner step', { decide() {}, after: breaks }, { decide: forbids }],
  [
    'a later bug at the end, and a refusal of an inner step',
    { decide() {}, after: async () => breaks() },
    { decide: forbids },
  ],
  [
    'a refusal at the end, and one at the end of an inner step',
    { decide() {}, after: breaks },
    { decide() {}, after: forbids },
  ],
  ['a fact that it may not give', { decide: ({ exchange }) => exchange.give('hold' as never, 1n as never) }],
]

const CHANGES = [{}, { onError: 'skip' }, { mode: 'shadow' }]
const CASES = ROWS.flatMap(([name, step, further = pass]) =>
  (['outside', 'inside'] as const).flatMap(place =>
    CHANGES.map(change => ({ name, step, further, place, change, how: JSON.stringify(change) })),
  ),
)

/** The result for the client and in the ledger, without ids and times. */
async function resultOf(gateway: Account, stream: boolean) {
  const before = gateway.balance()
  const answer = await gateway.chat({ stream }).catch(String)
  const text = typeof answer === 'string' ? answer : `${answer.status} ${await textOf(answer).catch(String)}`
  const { held, posted } = gateway.balance()
  const receipt = typeof answer === 'string' ? undefined : gateway.receipt(answer)
  return {
    text: text.replaceAll(/"(id|created|request_id)":("[^"]*"|\d+)/g, ''),
    header: typeof answer === 'string' ? null : answer.headers.get('x-of-step'),
    held,
    charged: before.posted - posted,
    outcome: receipt?.outcome,
    trail: receipt?.trail.map(({ plugin: _, ...entry }) => entry),
  }
}

test.each(CASES)(
  '$name, $place of the billing step, $how: the same result as with a middleware',
  async ({ step, further, place, change }) => {
    tested = step
    inner = further
    const [loop, middleware] = [await gatewayWith('tested', place, change), await gatewayWith('same', place, change)]
    for (const stream of [false, true]) {
      const result = await resultOf(loop, stream)
      expect(result.held).toBe(0n)
      expect(result).toEqual(await resultOf(middleware, stream))
    }
  },
)

describe('after', () => {
  test('gets the result of decide, the outcome and the error, and runs innermost first, between middlewares too', async () => {
    const says = (name: string): DecidingStep => ({
      decide() {
        events.push(`${name} in`)
        return `kept by ${name}`
      },
      after(_ctx, outcome, kept, error) {
        events.push(`${name} out, ${kept}, ${outcome}, ${(error as Error | undefined)?.message}`)
      },
    })
    tested = says('tested')
    inner = {
      decide: () => events.push('inner in'),
      after() {
        events.push('inner out')
        forbids()
      },
    }
    const gateway = await start({ steps: [{ use: 'tested' }, { use: 'wrapper' }, ...FIVE_STEPS, { use: 'inner' }] })
    const answer = await gateway.chat()
    expect([answer.status, events]).toEqual([
      403,
      [
        'tested in',
        'wrapper in',
        'inner in',
        'inner out',
        'wrapper out',
        'tested out, kept by tested, refused, Not today.',
      ],
    ])
  })

  test.each(['enforce', 'shadow'])('runs even if a middleware has set a status before next() (%s)', async mode => {
    tested = { decide: () => events.push('in'), after: () => void events.push('out') }
    const gateway = await start({ steps: [{ use: 'status' }, { use: 'tested', mode }, ...FIVE_STEPS] })
    expect((await gateway.chat()).status).toBe(200)
    expect(events).toEqual(['in', 'out'])
  })

  test.each([
    ['that refused', { decide: forbids }],
    ['that answered', { decide: ({ exchange }) => exchange.answer(ownAnswer('mine')) }],
  ] satisfies [string, DecidingStep][])('does not run for a decision %s', async (_name, { decide }) => {
    tested = { decide, after: () => void events.push('after') }
    const answer = await (await gatewayWith('tested', 'inside')).chat()
    await answer.text()
    expect(events).toEqual([])
  })
})

test('an answer after an inner refusal is a mistake, and the refusal is sent', async () => {
  tested = { decide() {}, after: ({ exchange }) => exchange.answer(ownAnswer('mine')) }
  inner = { decide: forbids }
  const answer = await (await gatewayWith('tested', 'inside')).chat({ stream: true })
  expect([answer.status, await answer.text()]).toEqual([403, expect.stringContaining('Not today.')])
})

test.each(['decide', 'after'])('a middleware with %s cannot be created: it would never run', async name => {
  const both = definePlugin({
    name: 'both',
    settings,
    create: () =>
      ({ handle: (_ctx: unknown, next: () => Promise<void>) => next(), [name]() {} }) as unknown as DecidingStep,
  })
  const starting = startInProcess({
    provider: provider.baseUrl,
    plugins: [both],
    steps: [{ use: 'both' }, ...FIVE_STEPS],
  })
  await expect(starting).rejects.toThrow('{ handle } with decide or after, which would never run')
})

describe('a step that hangs', () => {
  test('at the end: the answer is sent and charged', async () => {
    const gateway = await gatewayWith('tested', 'outside')
    tested = { decide() {}, after: never }
    const before = gateway.balance().posted
    const answer = await gateway.chat()
    expect(answer.status).toBe(200)
    const line = await gateway.waitForLog(({ step, what }) => step === 'tried' && /did not return/.test(String(what)))
    expect(line['what']).toContain(`within ${GRACE_MS} ms`)
    expect(gateway.balance()).toMatchObject({ held: 0n })
    expect(gateway.balance().posted).toBeLessThan(before)
  })

  test('at the end, after a refusal of an inner step: the refusal is sent', async () => {
    tested = { decide() {}, after: never }
    inner = { decide: forbids }
    const answer = await (await gatewayWith('tested', 'inside')).chat()
    expect([answer.status, await answer.text()]).toEqual([403, expect.stringContaining('Not today.')])
  })

  test('before the request is sent, and the client disconnects: the hold and the slot are released', async () => {
    const reached = Promise.withResolvers<void>()
    const late = Promise.withResolvers<string>()
    inner = {
      decide() {
        reached.resolve()
        return late.promise
      },
      after(_ctx, outcome, kept, error) {
        events.push(`${kept}, ${outcome}, ${error instanceof Error}`)
        breaks()
      },
    }
    const gateway = await gatewayWith('tested', 'inside')
    const sent = provider.requests.length
    const abort = new AbortController()
    const left = gateway.chat({}, { signal: abort.signal }).catch(() => {})
    await reached.promise
    expect(gateway.balance().held).toBeGreaterThan(0n)
    abort.abort()
    await left
    await until(() => expect(gateway.balance().held).toBe(0n))
    expect(events).toEqual([])
    late.resolve('a slot')
    const line = await gateway.waitForLog(({ step, what }) => step === 'inner' && /threw/.test(String(what)))
    expect(JSON.stringify(line)).toContain('a bug')
    expect(events).toEqual(['a slot, failed, true'])
    expect(provider.requests.length).toBe(sent)
  })

  test('at the end, when the client has disconnected', async () => {
    provider.script(gated({ tokens: 3 }))
    tested = { decide() {}, after: never }
    const gateway = await gatewayWith('tested', 'outside')
    const abort = new AbortController()
    const sent = provider.requests.length
    const left = gateway.chat({ stream: true }, { signal: abort.signal }).catch(() => {})
    await provider.waitForRequest(sent)
    abort.abort()
    await left
    await gateway.waitForLog(({ step, what }) => step === 'tried' && /did not return/.test(String(what)))
    await until(() => expect(gateway.balance().held).toBe(0n))
    provider.script(exact({ tokens: 3 }))
  })
})
