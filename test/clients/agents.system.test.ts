/** OpenAI's Agents SDK with its chat completions model, pointed at the gateway: tool loops, handoffs, and errors. */
import {
  Agent,
  type AgentOptions,
  type FunctionTool,
  type ModelSettings,
  OpenAIChatCompletionsModel,
  Runner,
  retryPolicies,
  setTraceProcessors,
  setTracingDisabled,
  tool,
} from '@openai/agents'
import { Ajv2020 } from 'ajv/dist/2020.js'
import OpenAI, { type ClientOptions } from 'openai'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { definePlugin } from '#contract'
import { errorAnswer, exact, FAULTS, gated } from '../helpers/fake-provider.ts'
import { FIVE_STEPS } from '../helpers/in-process.ts'
import { type Rig, type RigOptions, startRig, watchHosts } from './rig.system.ts'

// The SDK would send traces to OpenAI.
setTracingDisabled(true)
setTraceProcessors([])

let rig: Rig
const { hosts, ...watch } = watchHosts()

beforeAll(async () => {
  watch.start()
  rig = await startRig()
})
afterAll(async () => {
  watch.stop()
  await rig.close()
})

const runner = new Runner({ tracingDisabled: true, traceIncludeSensitiveData: false })

/** A model of the gateway for the SDK. */
function modelOf(id: string, from: Rig = rig, options: ClientOptions = {}): OpenAIChatCompletionsModel {
  return new OpenAIChatCompletionsModel(from.openai(options), id)
}

function agentOf(options: Partial<AgentOptions> = {}): Agent {
  return new Agent({ name: 'helper', model: modelOf('demo'), ...options })
}

/** Runs an agent whole or streamed, and returns the result with the streamed text. */
async function runAgent(agent: Agent, input: string, stream: boolean) {
  if (!stream) return { result: await runner.run(agent, input), streamed: null }
  const result = await runner.run(agent, input, { stream: true })
  let streamed = ''
  for await (const piece of result.toTextStream()) streamed += piece
  await result.completed
  return { result, streamed }
}

const BOTH = [false, true]

describe.each(BOTH)('runs (stream %s)', stream => {
  test('the text, the id of the request, the usage that was charged', async () => {
    const { result, streamed } = await runAgent(agentOf(), 'say: one two three', stream)
    expect(result.finalOutput).toBe('one two three')
    if (stream) expect(streamed).toBe('one two three')
    expect(result.rawResponses).toHaveLength(1)
    const [{ requestId, usage }] = result.rawResponses as [(typeof result.rawResponses)[0]]
    expect(requestId).toMatch(/^req_/)
    await rig.gateway.exchangeLine(requestId!)
    const bill = BigInt(usage.inputTokens * 1000 + usage.outputTokens * 2000)
    expect(rig.gateway.running.store.reads.findReceipt(requestId!)?.charged).toBe(bill)
    expect(result.runContext.usage).toMatchObject({ requests: 1, totalTokens: usage.totalTokens })
  })

  const weatherOf = (asked: unknown[]): FunctionTool =>
    tool({
      name: 'get_weather',
      description: 'The weather of a city.',
      parameters: {
        type: 'object',
        properties: { city: { type: 'string' } },
        required: ['city'],
        additionalProperties: false,
      },
      strict: true,
      execute: async question => {
        asked.push(question)
        return '{"sky":"clear"}'
      },
    }) as FunctionTool

  test('the tool loop: two turns, two requests', async () => {
    const asked: unknown[] = []
    const agent = agentOf({ instructions: 'Use your tools.', tools: [weatherOf(asked)] })
    const { result } = await runAgent(agent, 'What is the weather in Paris?', stream)
    expect(asked).toEqual([{ city: 'Paris' }])
    expect(result.finalOutput).toContain('get_weather returned: {"sky":"clear"}')
    expect(result.rawResponses).toHaveLength(2)
    expect(new Set(result.rawResponses.map(({ requestId }) => requestId)).size).toBe(2)
    expect(result.newItems.map(({ type }) => type)).toEqual([
      'tool_call_item',
      'tool_call_output_item',
      'message_output_item',
    ])
    expect(result.runContext.usage.requests).toBe(2)
  })

  test('two calls in one turn', async () => {
    await using own = await startRig({
      script: [
        exact({
          toolCalls: [
            { name: 'get_weather', arguments: ['{"ci', 'ty":"Rome"}'] },
            { name: 'get_weather', arguments: ['{"city":"', 'Oslo"}'] },
          ],
        }),
        exact(),
      ],
    })
    const asked: unknown[] = []
    const agent = agentOf({ model: modelOf('m', own), tools: [weatherOf(asked)] })
    const { result } = await runAgent(agent, 'Rome and Oslo?', stream)
    expect(asked).toEqual([{ city: 'Rome' }, { city: 'Oslo' }])
    expect(result.finalOutput).toBe('t0 t1 t2')
    // The messages that the provider got in the second turn.
    expect(own.provider.requests[1]!.body).toMatchObject({
      messages: [
        { role: 'user' },
        { role: 'assistant', tool_calls: [{ id: 'call_0' }, { id: 'call_1' }] },
        { role: 'tool', tool_call_id: 'call_0' },
        { role: 'tool', tool_call_id: 'call_1' },
      ],
    })
  })

  test('a handoff to another agent', async () => {
    const forecaster = agentOf({ name: 'forecaster', handoffDescription: 'Knows the weather.' })
    const clerk = agentOf({ name: 'clerk', handoffs: [forecaster] })
    const { result } = await runAgent(clerk, 'Transfer me to the forecaster', stream)
    expect(result.lastAgent?.name).toBe('forecaster')
    expect(result.finalOutput).toMatch(/\w/)
    expect(result.newItems.map(({ type }) => type)).toEqual([
      'handoff_call_item',
      'handoff_output_item',
      'message_output_item',
    ])
  })

  test('an object by its schema', async () => {
    const schema = {
      type: 'object' as const,
      properties: { title: { type: 'string' }, year: { type: 'integer', minimum: 1900 } },
      required: ['title', 'year'],
      additionalProperties: false as const,
    }
    const outputType = { type: 'json_schema' as const, name: 'film', strict: true, schema }
    const agent = new Agent({ name: 'librarian', model: modelOf('demo'), outputType })
    const { result } = await runAgent(agent as unknown as Agent, 'A film about Paris', stream)
    const valid = new Ajv2020().compile(schema)
    expect(valid(result.finalOutput), JSON.stringify(valid.errors)).toBe(true)
  })
})

const faulty = definePlugin({
  name: 'faulty',
  settings: { type: 'object', additionalProperties: false, properties: {} },
  create: () => async () => {
    throw new Error('a mistake of this step')
  },
})

interface Row {
  readonly name: string
  readonly rig?: RigOptions
  readonly model?: string
  readonly client?: ClientOptions
  readonly settings?: ModelSettings
  readonly raises: new (...args: never[]) => Error
  readonly status: number
  readonly code: string
  /** The number of requests at the gateway, of the three that the library makes at most. */
  readonly tries: number
  /** The number of requests at the provider. */
  readonly sent: number
}

const ROWS: readonly Row[] = [
  {
    name: 'an unknown parameter',
    settings: { providerData: { temprature: 1 } },
    raises: OpenAI.BadRequestError,
    status: 400,
    code: 'unknown_parameter',
    tries: 1,
    sent: 0,
  },
  {
    name: 'a malformed key',
    client: { apiKey: 'nonsense' },
    raises: OpenAI.AuthenticationError,
    status: 401,
    code: 'malformed_api_key',
    tries: 1,
    sent: 0,
  },
  {
    name: 'too little credit',
    rig: { credit: '0.000001' },
    raises: OpenAI.APIError,
    status: 402,
    code: 'insufficient_quota',
    tries: 1,
    sent: 0,
  },
  {
    name: 'a model that does not exist',
    model: 'nothing',
    raises: OpenAI.NotFoundError,
    status: 404,
    code: 'model_not_found',
    tries: 1,
    sent: 0,
  },
  {
    name: 'a provider that limits, for 20 ms',
    rig: { script: errorAnswer(429, undefined, { 'retry-after-ms': '20' }) },
    raises: OpenAI.RateLimitError,
    status: 429,
    code: 'upstream_rate_limited',
    tries: 3,
    sent: 3,
  },
  {
    name: 'a provider that limits, for 90 s',
    rig: { script: errorAnswer(429, undefined, { 'retry-after': '90' }) },
    raises: OpenAI.RateLimitError,
    status: 429,
    code: 'upstream_rate_limited',
    tries: 1,
    sent: 1,
  },
  {
    name: 'a provider that is overloaded',
    rig: { script: errorAnswer(503, undefined, { 'retry-after-ms': '20' }) },
    raises: OpenAI.InternalServerError,
    status: 503,
    code: 'upstream_overloaded',
    tries: 3,
    sent: 3,
  },
  {
    name: 'a provider that fails',
    rig: { script: errorAnswer(500, undefined, { 'retry-after-ms': '20' }) },
    raises: OpenAI.InternalServerError,
    status: 502,
    code: 'upstream_error',
    tries: 3,
    sent: 3,
  },
  {
    name: 'a provider that refuses the gateway',
    rig: { script: errorAnswer(401) },
    raises: OpenAI.InternalServerError,
    status: 502,
    code: 'upstream_auth',
    tries: 1,
    sent: 1,
  },
  {
    name: 'a step with a bug',
    rig: { plugins: [faulty], steps: [{ use: 'api-key' }, { use: 'faulty' }, ...FIVE_STEPS.slice(1)] },
    raises: OpenAI.InternalServerError,
    status: 500,
    code: 'plugin_error',
    tries: 1,
    sent: 0,
  },
]

async function failure(promise: Promise<unknown>): Promise<Record<string, unknown>> {
  const error = await promise.then(
    () => null,
    (cause: unknown) => cause,
  )
  expect(error).toBeInstanceOf(OpenAI.APIError)
  return error as Record<string, unknown>
}

interface Retries {
  readonly who: string
  readonly client: ClientOptions
  readonly settings: ModelSettings
}

/** The runner asks its model, which reads `x-should-retry` and the waits as the library does. */
const RETRIES: readonly Retries[] = [
  { who: 'the library', client: {}, settings: {} },
  {
    who: 'the runner',
    client: { maxRetries: 0 },
    settings: { retry: { maxRetries: 2, policy: retryPolicies.providerSuggested() } },
  },
]

describe.each(RETRIES)('errors ($who retries)', { concurrent: true }, ({ client, settings }) => {
  const cases = ROWS.flatMap(row => BOTH.map(stream => ({ ...row, stream })))

  test.concurrent.each(cases)('$name: $status $code, $tries requests (stream $stream)', async row => {
    await using own = await startRig(row.rig)
    const agent = agentOf({
      model: modelOf(row.model ?? 'm', own, { ...client, ...row.client }),
      modelSettings: { ...settings, ...row.settings },
    })
    const error = await failure(runAgent(agent, 'Hello', row.stream))
    expect(error.constructor).toBe(row.raises)
    expect(error).toMatchObject({ status: row.status, code: row.code, requestID: expect.stringMatching(/^req_/) })
    expect(own.requests()).toBe(row.tries)
    expect(own.provider.requests).toHaveLength(row.sent)
    expect(own.gateway.balance().held).toBe(0n)
  })
})

test('a run that fails in its second turn is charged for its first', async () => {
  const call = { name: 'look', arguments: ['{}'] }
  await using own = await startRig({ script: [exact({ toolCalls: [call] }), errorAnswer(400)] })
  const look = tool({
    name: 'look',
    description: 'Looks.',
    parameters: { type: 'object', properties: {}, required: [], additionalProperties: false },
    strict: true,
    execute: async () => 'seen',
  })
  const error = await failure(runAgent(agentOf({ model: modelOf('m', own), tools: [look] }), 'Look!', false))
  expect(error).toMatchObject({ status: 400, code: 'upstream_rejected' })
  expect(own.requests()).toBe(2)
  const { usage } = own.provider.requests[0]!.emitted
  const bill = BigInt(usage!.prompt_tokens! * 1000 + usage!.completion_tokens! * 2000)
  expect(own.gateway.balance()).toMatchObject({ posted: 10_000_000_000n - bill, held: 0n })
})

describe('an error in the middle of a stream', () => {
  const broken = FAULTS.find(({ title }) => title === 'reset in the middle')!

  test.each(RETRIES)('ends the run after the earlier chunks; $who does not retry', async retries => {
    await using own = await startRig({ script: broken.make('stream') })
    const agent = agentOf({ model: modelOf('m', own, retries.client), modelSettings: retries.settings })
    const result = await runner.run(agent, 'Hello', { stream: true })
    let text = ''
    const reading = (async () => {
      for await (const event of result) {
        if (event.type !== 'raw_model_stream_event') continue
        if (event.data.type === 'output_text_delta') text += event.data.delta
        expect(event.data.type).not.toBe('response_done')
      }
    })()
    expect(await failure(reading)).toMatchObject({
      code: 'upstream_truncated',
      requestID: expect.stringMatching(/^req_/),
    })
    await failure(result.completed)
    expect(text).toBe('t0 t1')
    expect(result.rawResponses).toEqual([])
    expect(own.requests()).toBe(1)
    expect(own.provider.requests).toHaveLength(1)
  })
})

test.each(BOTH)('aborting a run closes the connection to the provider (stream %s)', async stream => {
  await using own = await startRig({ script: gated({ tokens: 4 }) })
  const controller = new AbortController()
  const options = { signal: controller.signal }
  const agent = agentOf({ model: modelOf('m', own) })
  let text = ''
  const running = (async () => {
    if (!stream) return void (await runner.run(agent, 'Hello', options))
    const result = await runner.run(agent, 'Hello', { ...options, stream: true })
    for await (const piece of result.toTextStream()) {
      text += piece
      controller.abort()
    }
  })()
  const ended = running.catch((cause: unknown) => cause)
  const request = await own.provider.waitForRequest()
  if (stream) await request.step(2)
  else controller.abort()
  const error = await ended
  if (!stream) expect(String(error)).toMatch(/abort/i)
  expect(text).toBe(stream ? 't0' : '')
  expect((await own.provider.waitForClose(request)).how).not.toBe('answered')
  expect(own.provider.requests).toHaveLength(1)
})

test('all requests went to the gateway', () => {
  expect(hosts).toContain(new URL(rig.baseURL).host)
  expect([...hosts].filter(host => !host.startsWith('127.0.0.1:'))).toEqual([])
})
