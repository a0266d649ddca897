/**
 * The gateway's errors in the official OpenAI library: the class, the fields, and above all the number of requests. The library
 * must not retry without a chance of success, and must wait for as long as the gateway demands.
 */
import OpenAI, { type ClientOptions } from 'openai'
import { describe, expect, test } from 'vitest'
import { definePlugin, formatMoney } from '#contract'
import { createToken } from '../../src/store/people/token.ts'
import { errorAnswer, exact, FAULTS, gated, withhold } from '../helpers/fake-provider.ts'
import { FIVE_STEPS } from '../helpers/in-process.ts'
import { untilTruthy } from '../helpers/until.ts'
import { HELLO, type Rig, type RigOptions, startRig } from './rig.system.ts'

/** A model's answer, whole or joined from its stream. */
async function ask(client: OpenAI, stream: boolean, more: object = {}): Promise<string> {
  const request = { model: 'm', messages: HELLO, ...more }
  if (!stream) return (await client.chat.completions.create(request)).choices[0]?.message.content ?? ''
  let text = ''
  for await (const chunk of await client.chat.completions.create({ ...request, stream })) {
    text += chunk.choices[0]?.delta.content ?? ''
  }
  return text
}

async function failure(promise: Promise<unknown>): Promise<InstanceType<typeof OpenAI.APIError>> {
  const error = await promise.then(
    () => null,
    (cause: unknown) => cause,
  )
  expect(error).toBeInstanceOf(OpenAI.APIError)
  return error as InstanceType<typeof OpenAI.APIError>
}

const BOTH = [false, true]

const faulty = definePlugin({
  name: 'faulty',
  settings: { type: 'object', additionalProperties: false, properties: {} },
  create: () => async () => {
    throw new Error('a mistake of this step at /srv/plugins/faulty.ts')
  },
})

/** The five steps with one of them replaced. */
const withStep = (use: string, settings: object): readonly object[] =>
  FIVE_STEPS.map(step => ((step as { use: string }).use === use ? { use, with: settings } : step))

const MONTHLY = { per: 'account', amount: '$0.000001', every: 'month', zone: 'Europe/Berlin' }

interface Row {
  readonly name: string
  readonly rig?: RigOptions
  readonly request?: object
  /** A request sent before, successfully. */
  readonly before?: true
  readonly raises: new (...args: never[]) => Error
  readonly status: number
  readonly code: string
  readonly param?: string
  readonly says?: RegExp
  /** The number of requests at the gateway. */
  readonly requests: number
}

const ROWS: readonly Row[] = [
  {
    name: 'a parameter of the wrong type',
    request: { temperature: 'hot' },
    raises: OpenAI.BadRequestError,
    status: 400,
    code: 'invalid_type',
    param: 'temperature',
    requests: 1,
  },
  {
    name: 'an unknown parameter',
    request: { temprature: 1 },
    raises: OpenAI.BadRequestError,
    status: 400,
    code: 'unknown_parameter',
    param: 'temprature',
    requests: 1,
  },
  {
    name: 'a bad part of a message',
    request: { messages: [{ role: 'user', content: [{ type: 'text' }] }] },
    raises: OpenAI.BadRequestError,
    status: 400,
    code: 'missing_required_parameter',
    param: 'messages[0].content[0].text',
    requests: 1,
  },
  {
    name: 'a model that does not exist',
    request: { model: 'nothing' },
    raises: OpenAI.NotFoundError,
    status: 404,
    code: 'model_not_found',
    param: 'model',
    requests: 1,
  },
  {
    name: 'too little credit',
    rig: { credit: '0.000001' },
    raises: OpenAI.APIError,
    status: 402,
    code: 'insufficient_quota',
    requests: 1,
  },
  {
    name: 'an exhausted budget',
    rig: { steps: withStep('credits', { budgets: [MONTHLY] }) },
    raises: OpenAI.RateLimitError,
    status: 429,
    code: 'budget_exhausted',
    says: /left for this month\. It resets at \d{4}-\d\d-01 00:00 Europe\/Berlin\./,
    requests: 1,
  },
  {
    name: 'a limit that ends in an hour',
    rig: { steps: withStep('rate-limit', { per: 'key', requests: '1 per hour' }) },
    before: true,
    raises: OpenAI.RateLimitError,
    status: 429,
    code: 'rate_limit_exceeded',
    requests: 1,
  },
  {
    name: 'a provider that limits, for 20 ms',
    rig: { script: errorAnswer(429, undefined, { 'retry-after-ms': '20' }) },
    raises: OpenAI.RateLimitError,
    status: 429,
    code: 'upstream_rate_limited',
    requests: 3,
  },
  {
    name: 'a provider that limits, for 90 s',
    rig: { script: errorAnswer(429, undefined, { 'retry-after': '90' }) },
    raises: OpenAI.RateLimitError,
    status: 429,
    code: 'upstream_rate_limited',
    requests: 1,
  },
  {
    name: 'a provider that refuses the request',
    rig: { script: errorAnswer(400) },
    raises: OpenAI.BadRequestError,
    status: 400,
    code: 'upstream_rejected',
    requests: 1,
  },
  {
    name: 'a provider that refuses the gateway',
    rig: { script: errorAnswer(401) },
    raises: OpenAI.InternalServerError,
    status: 502,
    code: 'upstream_auth',
    requests: 1,
  },
  {
    name: 'a provider without quota',
    rig: { script: errorAnswer(402) },
    raises: OpenAI.InternalServerError,
    status: 502,
    code: 'upstream_quota',
    requests: 1,
  },
  {
    name: 'a provider that fails',
    rig: { script: errorAnswer(500) },
    raises: OpenAI.InternalServerError,
    status: 502,
    code: 'upstream_error',
    requests: 3,
  },
  {
    name: 'a provider that is overloaded',
    rig: { script: errorAnswer(503) },
    raises: OpenAI.InternalServerError,
    status: 503,
    code: 'upstream_overloaded',
    requests: 3,
  },
  {
    name: 'a provider that is late',
    rig: { script: errorAnswer(504) },
    raises: OpenAI.InternalServerError,
    status: 504,
    code: 'upstream_timeout',
    requests: 3,
  },
  {
    name: 'a step with a bug',
    rig: { plugins: [faulty], steps: [{ use: 'api-key' }, { use: 'faulty' }, ...FIVE_STEPS.slice(1)] },
    raises: OpenAI.InternalServerError,
    status: 500,
    code: 'plugin_error',
    requests: 1,
  },
]

describe.each(BOTH)('errors (stream %s)', stream => {
  test.concurrent.each(ROWS)('$name: $status $code, $requests requests', async row => {
    await using rig = await startRig(row.rig)
    if (row.before) await ask(rig.openai(), stream)
    const before = rig.requests()
    const error = await failure(ask(rig.openai(), stream, row.request))
    expect(error.constructor).toBe(row.raises)
    expect(error).toMatchObject({ status: row.status, code: row.code, param: row.param ?? null })
    expect(error.requestID).toMatch(/^req_/)
    expect(error.message).not.toMatch(/hunter2|provider\.internal|faulty/)
    if (row.says) expect(error.message).toMatch(row.says)
    expect(rig.requests() - before).toBe(row.requests)
    expect(rig.gateway.balance().held).toBe(0n)
  })
})

describe('retries after the demanded wait', () => {
  test('the 20 ms of the provider are respected three times', async () => {
    await using rig = await startRig({ script: errorAnswer(429, undefined, { 'retry-after-ms': '20' }) })
    const startedAt = performance.now()
    await failure(ask(rig.openai(), false))
    const ms = performance.now() - startedAt
    expect(rig.provider.requests).toHaveLength(3)
    expect(ms).toBeGreaterThanOrEqual(40)
    // The library's own waits would be at least 375 and then 750 ms.
    expect(ms).toBeLessThan(1125)
  })

  test('a limit of the gateway admits the second attempt', async () => {
    // The library waits for `retry-after`: 4 seconds, so that the bucket cannot refill before, even on a slow machine.
    await using rig = await startRig({
      steps: withStep('rate-limit', { per: 'key', requests: '15 per minute', burst: 1 }),
    })
    await ask(rig.openai(), false)
    expect(await ask(rig.openai(), false)).toBe('t0 t1 t2')
    expect(rig.requests()).toBe(3)
  })

  test('held credit is available again for the next attempt', async () => {
    const hold = await holdOfOne()
    await using rig = await startRig({
      credit: formatMoney(hold + hold / 2n),
      steps: withStep('credits', { when_short: ['refuse'] }),
      script: [withhold(exact()), exact()],
    })
    const first = ask(rig.openai(), false)
    const request = await rig.provider.waitForRequest()
    const second = ask(rig.openai(), false)
    await rig.gateway.waitForLog(line => line['code'] === 'credit_on_hold')
    request.release()
    expect(await Promise.all([first, second])).toEqual(['t0 t1 t2', 't0 t1 t2'])
    expect(rig.requests()).toBe(3)
  })
})

/** The credit that one request of these tests holds. */
async function holdOfOne(): Promise<bigint> {
  await using rig = await startRig()
  const { request_id } = await rig.openai().chat.completions.create({ model: 'm', messages: HELLO }).withResponse()
  return rig.gateway.running.store.reads.findReceipt(request_id!)!.held
}

describe('keys', () => {
  const keys: readonly [name: string, options: (rig: Rig) => Promise<ClientOptions>, code: string][] = [
    ['none', async () => ({ defaultHeaders: { Authorization: null } }), 'missing_api_key'],
    ['a half', async rig => ({ apiKey: rig.gateway.key.slice(0, -3) }), 'malformed_api_key'],
    ['an unknown key', async () => ({ apiKey: createToken() }), 'invalid_api_key'],
    [
      'a revoked one',
      async ({ gateway: { running, accountId } }) => {
        const { key, token } = await running.store.createKey({ account: accountId, name: 'revoked' })
        await running.store.revokeKey(key.id)
        return { apiKey: token }
      },
      'revoked_api_key',
    ],
    [
      'an expired one',
      async ({ gateway: { running, accountId } }) => {
        const expiresAt = Date.now() + 5
        const { token } = await running.store.createKey({ account: accountId, name: 'old', expiresAt })
        await untilTruthy(() => Date.now() > expiresAt)
        return { apiKey: token }
      },
      'expired_api_key',
    ],
  ]

  test.each(keys)('%s: 401, not retried', async (_name, options, code) => {
    await using rig = await startRig()
    const error = await failure(ask(rig.openai(await options(rig)), false))
    expect(error).toBeInstanceOf(OpenAI.AuthenticationError)
    expect(error).toMatchObject({ status: 401, code, type: 'authentication_error', param: null })
    expect(error.requestID).toMatch(/^req_/)
    expect(rig.requests()).toBe(1)
    expect(rig.provider.requests).toHaveLength(0)
  })

  test('a frozen account: 403, not retried', async () => {
    await using rig = await startRig()
    await rig.gateway.running.store.freeze(rig.gateway.accountId, true)
    const error = await failure(ask(rig.openai(), true))
    expect(error).toBeInstanceOf(OpenAI.PermissionDeniedError)
    expect(error).toMatchObject({ status: 403, code: 'account_frozen' })
    expect(rig.requests()).toBe(1)
  })

  test('a URL that does not exist', async () => {
    await using rig = await startRig()
    const error = await failure(rig.openai().responses.create({ model: 'm', input: 'Hello' }))
    expect(error).toBeInstanceOf(OpenAI.NotFoundError)
    expect(error).toMatchObject({ code: 'unknown_url', requestID: expect.stringMatching(/^req_/) })
  })
})

describe('an error in the middle of a stream', () => {
  const broken = FAULTS.find(({ title }) => title === 'reset in the middle')!

  test('throws after the earlier chunks and is not retried', async () => {
    await using rig = await startRig({ script: broken.make('stream') })
    let text = ''
    const reading = (async () => {
      const stream = await rig.openai().chat.completions.create({ model: 'm', messages: HELLO, stream: true })
      for await (const { choices } of stream) text += choices[0]?.delta.content ?? ''
    })()
    const error = await failure(reading)
    expect(error).toMatchObject({ status: undefined, code: 'upstream_truncated', type: 'server_error' })
    expect(error.requestID).toMatch(/^req_/)
    expect(text).toBe('t0 t1')
    expect(rig.requests()).toBe(1)
  })

  test('reaches the error event of the helper, without a final completion', async () => {
    await using rig = await startRig({ script: broken.make('stream') })
    const errors: unknown[] = []
    const stream = rig.openai().chat.completions.stream({ model: 'm', messages: HELLO })
    stream.on('error', error => errors.push(error))
    await expect(stream.finalChatCompletion()).rejects.toMatchObject({ code: 'upstream_truncated' })
    expect(errors).toEqual([expect.objectContaining({ code: 'upstream_truncated' })])
  })

  test('a shutdown of the gateway is reported', async () => {
    await using rig = await startRig({ script: gated({ tokens: 4 }) })
    const opening = rig.openai().chat.completions.create({ model: 'm', messages: HELLO, stream: true })
    const request = await rig.provider.waitForRequest()
    await request.step(2)
    const iterator = (await opening)[Symbol.asyncIterator]()
    await iterator.next()
    await iterator.next()
    const stopped = rig.gateway.stop()
    await expect(iterator.next()).rejects.toMatchObject({ code: 'shutting_down' })
    expect(await stopped).toBe(0)
  })
})

test('a library with five retries reaches the provider as often as the route allows', async () => {
  const steps = FIVE_STEPS.map(step =>
    'use' in step && step.use === 'route' ? { use: 'route', with: { attempts: 3 } } : step,
  )
  await using rig = await startRig({ script: errorAnswer(500), steps })
  const request = rig.openai({ maxRetries: 5 }).chat.completions.create({ model: 'm', messages: HELLO })
  await expect(request).rejects.toMatchObject({ status: 502, code: 'upstream_error' })
  expect([rig.requests(), rig.provider.requests.length]).toEqual([1, 3])
})
