/** LangChain's ChatOpenAI, pointed at the gateway. Its own retries have other rules than those of the library below. */
import { ChatOpenAI, type ChatOpenAIFields } from '@langchain/openai'
import { Ajv2020 } from 'ajv/dist/2020.js'
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { definePlugin } from '#contract'
import { errorAnswer, exact, FAULTS, gated } from '../helpers/fake-provider.ts'
import { FIVE_STEPS } from '../helpers/in-process.ts'
import { HELLO, type Rig, type RigOptions, startRig, watchHosts } from './rig.system.ts'

let rig: Rig
const { hosts, ...watch } = watchHosts()

beforeAll(async () => {
  // A developer's settings must not send test data to a tracing service.
  for (const name of ['LANGSMITH_TRACING', 'LANGSMITH_TRACING_V2', 'LANGCHAIN_TRACING', 'LANGCHAIN_TRACING_V2']) {
    vi.stubEnv(name, 'false')
  }
  watch.start()
  rig = await startRig()
})
afterAll(async () => {
  watch.stop()
  vi.unstubAllEnvs()
  await rig.close()
})

/** A model of the gateway for the library. */
function modelOf(model: string, { gateway, baseURL }: Rig = rig, more: ChatOpenAIFields = {}): ChatOpenAI {
  return new ChatOpenAI({ model, apiKey: gateway.key, configuration: { baseURL, logLevel: 'off' }, ...more })
}

const say = (content: string) => [{ role: 'user' as const, content }]

/** The charge for the only answer of a gateway; the library does not expose the request id. */
async function charged({ gateway }: Rig): Promise<bigint | null | undefined> {
  const { id } = await gateway.waitForLog(line => line['msg'] === 'exchange' && line['outcome'] === 'answered')
  return gateway.running.store.reads.findReceipt(String(id))?.charged
}

describe('text', () => {
  test('invoke: the text, the reason, the usage that was charged', async () => {
    await using own = await startRig()
    const answer = await modelOf('demo', own).invoke(say('say: one two three'))
    expect(answer.text).toBe('one two three')
    expect(answer.response_metadata).toMatchObject({ finish_reason: 'stop', model_name: 'demo' })
    const { input_tokens, output_tokens } = answer.usage_metadata!
    expect(await charged(own)).toBe(BigInt(input_tokens * 1000 + output_tokens * 2000))
  })

  test('stream: the pieces, the reason, the usage that was charged', async () => {
    await using own = await startRig()
    const pieces = []
    for await (const chunk of await modelOf('demo', own).stream(say('count to 20'))) pieces.push(chunk)
    const texts = pieces.map(({ text }) => text).filter(Boolean)
    expect(texts.length).toBeGreaterThan(10)
    expect(texts.join('')).toMatch(/^1, 2, 3,.* 20\.$/)
    const whole = pieces.reduce((left, right) => left.concat(right))
    expect(whole.response_metadata).toMatchObject({ finish_reason: 'stop', model_name: 'demo' })
    const { input_tokens, output_tokens } = whole.usage_metadata!
    expect(output_tokens).toBe(texts.length)
    expect(pieces.filter(chunk => chunk.usage_metadata)).toHaveLength(1)
    expect(await charged(own)).toBe(BigInt(input_tokens * 1000 + output_tokens * 2000))
  })

  test('a cap ends the answer with the reason "length"', async () => {
    const answer = await modelOf('demo', rig, { maxTokens: 5 }).invoke(say('count to 100'))
    expect(answer.response_metadata).toMatchObject({ finish_reason: 'length' })
    expect(answer.usage_metadata).toMatchObject({ output_tokens: 5 })
  })

  test('reasoning is in the usage', async () => {
    const answer = await modelOf('thinking').invoke(HELLO)
    expect(answer.usage_metadata).toMatchObject({ output_token_details: { reasoning: 48 } })
  })

  test('batch: simultaneous requests', async () => {
    const answers = await modelOf('demo').batch([say('say: one'), say('say: two'), say('say: three')])
    expect(answers.map(({ text }) => text)).toEqual(['one', 'two', 'three'])
  })
})

describe('tools and objects', () => {
  const weather = {
    type: 'function' as const,
    function: {
      name: 'get_weather',
      description: 'The weather of a city.',
      parameters: {
        type: 'object',
        properties: { city: { type: 'string' } },
        required: ['city'],
        additionalProperties: false,
      },
    },
  }
  const question = say('What is the weather in Paris?')

  test('invoke: a call, its result sent back, and the answer', async () => {
    const model = modelOf('demo').bindTools([weather])
    const asking = await model.invoke(question)
    expect(asking.response_metadata).toMatchObject({ finish_reason: 'tool_calls' })
    expect(asking.tool_calls).toEqual([
      { type: 'tool_call', id: expect.stringMatching(/^call_/), name: 'get_weather', args: { city: 'Paris' } },
    ])
    const result = { role: 'tool' as const, content: '{"sky":"clear"}', tool_call_id: asking.tool_calls![0]!.id! }
    const answer = await model.invoke([...question, asking, result])
    expect(answer.text).toContain('get_weather returned: {"sky":"clear"}')
    expect(answer.tool_calls).toEqual([])
  })

  test('stream: a call in pieces, its result sent back, and the answer', async () => {
    const model = modelOf('demo').bindTools([weather])
    const chunks = []
    for await (const chunk of await model.stream(question)) chunks.push(chunk)
    expect(chunks.filter(({ tool_call_chunks }) => tool_call_chunks?.length).length).toBeGreaterThan(2)
    const asking = chunks.reduce((left, right) => left.concat(right))
    expect(asking.tool_calls).toMatchObject([{ name: 'get_weather', args: { city: 'Paris' } }])
    const result = { role: 'tool' as const, content: '{"sky":"clear"}', tool_call_id: asking.tool_calls![0]!.id! }
    let text = ''
    for await (const chunk of await model.stream([...question, asking, result])) text += chunk.text
    expect(text).toContain('get_weather returned: {"sky":"clear"}')
  })

  const schema = {
    title: 'film',
    type: 'object',
    properties: { title: { type: 'string' }, year: { type: 'integer', minimum: 1900 } },
    required: ['title', 'year'],
    additionalProperties: false,
  }

  test.each(['jsonSchema', 'functionCalling', 'jsonMode'] as const)('withStructuredOutput by %s', async method => {
    const model = modelOf('demo').withStructuredOutput(schema, { name: 'film', method })
    const whole = await model.invoke('A film about Paris')
    const parts = []
    for await (const part of await model.stream('A film about Paris')) parts.push(part)
    expect(parts.length).toBeGreaterThan(0)
    expect(parts.at(-1)).toEqual(whole)
    // JSON mode guarantees only JSON.
    if (method === 'jsonMode') return expect(whole).toBeTypeOf('object')
    const valid = new Ajv2020().compile(schema)
    expect(valid(whole), JSON.stringify(valid.errors)).toBe(true)
  })
})

const faulty = definePlugin({
  name: 'faulty',
  settings: { type: 'object', additionalProperties: false, properties: {} },
  create: () => async () => {
    throw new Error('a mistake of this step')
  },
})

const MONTHLY = { per: 'account', amount: '$0.000001', every: 'month', zone: 'Europe/Berlin' }
const monthly = FIVE_STEPS.map(step =>
  (step as { use: string }).use === 'credits' ? { use: 'credits', with: { budgets: [MONTHLY] } } : step,
)
const hourly = FIVE_STEPS.map(step =>
  (step as { use: string }).use === 'rate-limit'
    ? { use: 'rate-limit', with: { per: 'key', requests: '1 per hour' } }
    : step,
)

interface Row {
  readonly name: string
  readonly rig?: RigOptions
  readonly model?: string
  /** Fields of the request that the library would not produce. */
  readonly kwargs?: Record<string, unknown>
  readonly apiKey?: string
  /** Prepares the gateway. */
  readonly before?: (rig: Rig) => Promise<unknown>
  readonly status: number
  readonly code: string
  /** The number of requests at the gateway if the library may retry once. */
  readonly tries: 1 | 2
  /** The number of them that reached the provider. */
  readonly sent?: number
}

/**
 * The library does not read `x-should-retry`. It retries every status from 500 on, whatever the headers; never a 4xx; and a 429
 * only if `Retry-After` is at most a minute.
 */
const ROWS: readonly Row[] = [
  { name: 'a parameter of the wrong type', kwargs: { seed: 'hot' }, status: 400, code: 'invalid_type', tries: 1 },
  { name: 'an unknown parameter', kwargs: { sed: 1 }, status: 400, code: 'unknown_parameter', tries: 1 },
  { name: 'a malformed key', apiKey: 'nonsense', status: 401, code: 'malformed_api_key', tries: 1 },
  { name: 'too little credit', rig: { credit: '0.000001' }, status: 402, code: 'insufficient_quota', tries: 1 },
  {
    name: 'a frozen account',
    before: ({ gateway }) => gateway.running.store.freeze(gateway.accountId, true),
    status: 403,
    code: 'account_frozen',
    tries: 1,
  },
  { name: 'a model that does not exist', model: 'nothing', status: 404, code: 'model_not_found', tries: 1 },
  { name: 'an exhausted budget', rig: { steps: monthly }, status: 429, code: 'budget_exhausted', tries: 1 },
  {
    name: 'a limit that ends in an hour',
    rig: { steps: hourly },
    before: rig => modelOf('demo', rig).invoke('Hello'),
    status: 429,
    code: 'rate_limit_exceeded',
    tries: 1,
  },
  {
    name: 'a provider that limits, for 20 ms',
    rig: { script: errorAnswer(429, undefined, { 'retry-after-ms': '20' }) },
    status: 429,
    code: 'upstream_rate_limited',
    tries: 2,
    sent: 2,
  },
  {
    name: 'a provider that limits, for 90 s',
    rig: { script: errorAnswer(429, undefined, { 'retry-after': '90' }) },
    status: 429,
    code: 'upstream_rate_limited',
    tries: 1,
    sent: 1,
  },
  {
    name: 'a provider that limits, and does not say how long',
    rig: { script: errorAnswer(429) },
    status: 429,
    code: 'upstream_rate_limited',
    tries: 2,
    sent: 2,
  },
  {
    name: 'a provider that refuses the request',
    rig: { script: errorAnswer(400) },
    status: 400,
    code: 'upstream_rejected',
    tries: 1,
    sent: 1,
  },
  {
    name: 'a provider that refuses the gateway',
    rig: { script: errorAnswer(401) },
    status: 502,
    code: 'upstream_auth',
    tries: 2,
    sent: 2,
  },
  {
    name: 'a provider that fails',
    rig: { script: errorAnswer(500) },
    status: 502,
    code: 'upstream_error',
    tries: 2,
    sent: 2,
  },
  {
    name: 'a provider that is overloaded',
    rig: { script: errorAnswer(503) },
    status: 503,
    code: 'upstream_overloaded',
    tries: 2,
    sent: 2,
  },
  {
    name: 'a provider that is late',
    rig: { script: errorAnswer(504) },
    status: 504,
    code: 'upstream_timeout',
    tries: 2,
    sent: 2,
  },
  {
    name: 'a step with a bug',
    rig: { plugins: [faulty], steps: [{ use: 'api-key' }, { use: 'faulty' }, ...FIVE_STEPS.slice(1)] },
    status: 500,
    code: 'plugin_error',
    tries: 2,
  },
]

/** The library's error, or one that has copied its fields. */
async function failure(promise: Promise<unknown>): Promise<Record<string, unknown>> {
  const error = await promise.then(
    () => null,
    (cause: unknown) => cause,
  )
  expect(error).toBeInstanceOf(Error)
  return error as Record<string, unknown>
}

async function ask(model: ChatOpenAI, stream: boolean): Promise<string> {
  if (!stream) return (await model.invoke(HELLO)).text
  let text = ''
  for await (const chunk of await model.stream(HELLO)) text += chunk.text
  return text
}

describe.each([false, true])('errors (stream %s)', { concurrent: true }, stream => {
  test.concurrent.each(ROWS)('$name: $status $code, $tries requests', async row => {
    await using own = await startRig(row.rig)
    await row.before?.(own)
    const before = own.requests()
    const model = modelOf(row.model ?? 'm', own, {
      maxRetries: 1,
      apiKey: row.apiKey ?? own.gateway.key,
      modelKwargs: row.kwargs ?? {},
    })
    const error = await failure(ask(model, stream))
    expect(error).toMatchObject({ status: row.status, code: row.code, requestID: expect.stringMatching(/^req_/) })
    expect(error['message']).not.toMatch(/hunter2|provider\.internal|faulty/)
    expect(own.requests() - before).toBe(row.tries)
    expect(own.provider.requests).toHaveLength(row.sent ?? 0)
    expect(own.gateway.balance().held).toBe(0n)
  })
})

test("messages that are too long raise the library's own error, by the provider's message", async () => {
  const message = "This model's maximum context length is 128000 tokens, and the messages have 140000."
  const body = { error: { message, type: 'invalid_request_error', param: 'messages', code: 'context_length_exceeded' } }
  await using own = await startRig({ script: errorAnswer(400, body) })
  const error = await failure(ask(modelOf('m', own), false))
  expect(error).toMatchObject({ name: 'ContextOverflowError', cause: { status: 400, code: 'context_length_exceeded' } })
  expect(own.requests()).toBe(1)
})

describe('retries', () => {
  test.concurrent('a request that fails once succeeds on the second attempt and is charged once', async () => {
    await using own = await startRig({ script: [errorAnswer(503), exact()] })
    expect(await ask(modelOf('m', own), false)).toBe('t0 t1 t2')
    expect(own.requests()).toBe(2)
    expect(own.gateway.balance()).toMatchObject({ posted: 10_000_000_000n - (await charged(own))!, held: 0n })
  })

  test.concurrent('a limit of the gateway admits the second attempt', async () => {
    const steps = FIVE_STEPS.map(step =>
      (step as { use: string }).use === 'rate-limit'
        ? { use: 'rate-limit', with: { per: 'key', requests: '30 per minute', burst: 1 } }
        : step,
    )
    await using own = await startRig({ steps })
    await ask(modelOf('m', own), true)
    expect(await ask(modelOf('m', own), true)).toBe('t0 t1 t2')
    expect(own.requests()).toBe(3)
  })
})

describe('an error in the middle of a stream', () => {
  const broken = FAULTS.find(({ title }) => title === 'reset in the middle')!

  test('throws after the earlier chunks, is not retried, and no answer looks complete', async () => {
    await using own = await startRig({ script: broken.make('stream') })
    const chunks: { text: string; response_metadata: Record<string, unknown> }[] = []
    const reading = (async () => {
      for await (const chunk of await modelOf('m', own).stream(HELLO)) chunks.push(chunk)
    })()
    expect(await failure(reading)).toMatchObject({
      code: 'upstream_truncated',
      requestID: expect.stringMatching(/^req_/),
    })
    expect(chunks.map(({ text }) => text).join('')).toBe('t0 t1')
    expect(chunks.filter(chunk => 'finish_reason' in chunk.response_metadata)).toEqual([])
    expect(own.requests()).toBe(1)
    expect(own.provider.requests).toHaveLength(1)
  })
})

describe('abort', () => {
  test.each([false, true])('closes the connection to the provider (stream %s)', async stream => {
    await using own = await startRig({ script: gated({ tokens: 4 }) })
    const controller = new AbortController()
    const options = { signal: controller.signal }
    let text = ''
    const reading = (async () => {
      if (!stream) return void (await modelOf('m', own).invoke(HELLO, options))
      for await (const chunk of await modelOf('m', own).stream(HELLO, options)) {
        text += chunk.text
        if (chunk.text) controller.abort()
      }
    })()
    const ended = failure(reading)
    const request = await own.provider.waitForRequest()
    if (stream) await request.step(2)
    else controller.abort()
    expect(String(await ended)).toMatch(/abort/i)
    expect(text).toBe(stream ? 't0' : '')
    expect((await own.provider.waitForClose(request)).how).not.toBe('answered')
    expect(own.provider.requests).toHaveLength(1)
  })
})

test('all requests went to the gateway', () => {
  expect(hosts).toContain(new URL(rig.baseURL).host)
  expect([...hosts].filter(host => !host.startsWith('127.0.0.1:'))).toEqual([])
})
