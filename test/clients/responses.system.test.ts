/** Clients of the Responses format, pointed at the gateway: the official library, the Agents SDK, and Codex requests. */
import {
  Agent,
  type AgentOptions,
  OpenAIResponsesModel,
  Runner,
  setTraceProcessors,
  setTracingDisabled,
  tool,
} from '@openai/agents'
import { Ajv2020 } from 'ajv/dist/2020.js'
import OpenAI, { type ClientOptions } from 'openai'
import type { Response as Answer, ResponseInput, ResponseStreamEvent } from 'openai/resources/responses/responses'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import {
  errorAnswer,
  exact,
  FAULTS,
  type FakeProvider,
  type Script,
  startFakeProvider,
} from '../helpers/fake-provider.ts'
import { type InProcess, startInProcess } from '../helpers/in-process.ts'
import { readSse } from '../helpers/sse.ts'
import { modelAt, providersWith } from './rig.system.ts'

// The SDK would send traces to OpenAI.
setTracingDisabled(true)
setTraceProcessors([])

interface Rig extends AsyncDisposable {
  readonly gateway: InProcess
  readonly provider: FakeProvider
  readonly baseURL: string
  openai(options?: ClientOptions): OpenAI
}

/** The gateway with a route for responses: `m` follows a script, `demo` and `thinking` are the embedded demo. */
async function startRig({ script = exact(), credit = '10' }: { script?: Script; credit?: string } = {}): Promise<Rig> {
  const provider = await startFakeProvider({ script })
  const gateway = await startInProcess({
    credit,
    yaml: {
      providers: providersWith(provider),
      models: {
        m: modelAt('scripted', 'upstream-model', { context: 400_000, max_output: 100_000 }),
        demo: modelAt('demo', 'demo-small'),
        thinking: modelAt('demo', 'demo-reasoning', { reasoning: true }),
      },
      routes: [
        { path: '/v1/chat/completions', policy: 'test' },
        { path: '/v1/responses', policy: 'test' },
      ],
    },
  })
  const baseURL = `${gateway.url}/v1`
  return {
    gateway,
    provider,
    baseURL,
    openai: options => new OpenAI({ apiKey: gateway.key, baseURL, logLevel: 'off', ...options }),
    async [Symbol.asyncDispose]() {
      await gateway.stop()
      await provider.close()
    },
  }
}

let rig: Rig
let client: OpenAI

beforeAll(async () => {
  rig = await startRig()
  client = rig.openai()
})
afterAll(async () => rig[Symbol.asyncDispose]())

/** The cost of an answer by its usage, in nano-dollars. */
const bill = ({ usage }: Answer) => BigInt(usage!.input_tokens * 1000 + usage!.output_tokens * 2000)

async function charged(id: string | null | undefined) {
  await rig.gateway.exchangeLine(id!)
  return rig.gateway.running.store.reads.findReceipt(id!)?.charged
}

const WEATHER = {
  type: 'function' as const,
  name: 'get_weather',
  description: 'The weather of a city.',
  parameters: {
    type: 'object',
    properties: { city: { type: 'string' } },
    required: ['city'],
    additionalProperties: false,
  },
  strict: true,
}

describe('the official library', () => {
  test('the text, the usage that was charged, nothing stored', async () => {
    const { data, response, request_id } = await client.responses
      .create({ model: 'demo', instructions: 'Be brief.', input: 'say: one two three' })
      .withResponse()
    expect(data).toMatchObject({
      object: 'response',
      id: expect.stringMatching(/^resp_/),
      model: 'demo',
      status: 'completed',
      output_text: 'one two three',
      instructions: 'Be brief.',
      store: false,
      error: null,
    })
    expect(data.output).toMatchObject([{ type: 'message', role: 'assistant', status: 'completed' }])
    expect(response.headers.get('content-type')).toBe('application/json')
    expect(await charged(request_id)).toBe(bill(data))
  })

  test('a stream: the text in pieces, and the same answer', async () => {
    const { data, request_id } = await client.responses
      .create({ model: 'demo', input: 'say: one two three', stream: true })
      .withResponse()
    const events: ResponseStreamEvent[] = []
    for await (const event of data) events.push(event)
    expect(events.map(event => event.sequence_number)).toEqual(events.map((_, index) => index))
    const pieces = events.filter(event => event.type === 'response.output_text.delta')
    expect(pieces.length).toBeGreaterThan(2)
    expect(pieces.map(({ delta }) => delta).join('')).toBe('one two three')
    const last = events.at(-1)!
    if (last.type !== 'response.completed') throw new Error(`the stream ends in ${last.type}`)
    expect(last.response).toMatchObject({ model: 'demo', status: 'completed' })
    expect(await charged(request_id)).toBe(bill(last.response))
  })

  test('the helper for streams', async () => {
    const stream = client.responses.stream({ model: 'demo', input: 'say: one two three' })
    let text = ''
    stream.on('response.output_text.delta', event => {
      text = event.snapshot
    })
    const answer = await stream.finalResponse()
    expect(answer).toMatchObject({ status: 'completed', output_text: 'one two three' })
    expect(text).toBe('one two three')
  })

  test.each([false, true])('a call and its result, all items sent back (stream %s)', async stream => {
    const input: ResponseInput = [{ role: 'user', content: 'What is the weather in Paris?' }]
    const ask = () => {
      const request = { model: 'thinking', input, tools: [WEATHER], reasoning: { effort: 'low' as const } }
      return stream ? client.responses.stream(request).finalResponse() : client.responses.create(request)
    }
    const first = await ask()
    expect(first.output.map(({ type }) => type)).toEqual(['reasoning', 'function_call'])
    expect(first.usage!.output_tokens_details.reasoning_tokens).toBe(16)
    input.push(...(first.output as ResponseInput))
    for (const item of first.output) {
      if (item.type !== 'function_call') continue
      expect(JSON.parse(item.arguments)).toEqual({ city: 'Paris' })
      input.push({ type: 'function_call_output', call_id: item.call_id, output: '{"sky":"clear"}' })
    }
    expect((await ask()).output_text).toContain('get_weather returned: {"sky":"clear"}')
  })

  test('an object by its schema', async () => {
    const schema = {
      type: 'object',
      properties: { title: { type: 'string' }, year: { type: 'integer', minimum: 1900 } },
      required: ['title', 'year'],
      additionalProperties: false,
    }
    const answer = await client.responses.parse({
      model: 'demo',
      input: 'A film about Paris',
      text: { format: { type: 'json_schema', name: 'film', strict: true, schema } },
    })
    const valid = new Ajv2020().compile(schema)
    expect(valid(answer.output_parsed), JSON.stringify(valid.errors)).toBe(true)
  })

  test.each([false, true])('a cap makes the response incomplete (stream %s)', async stream => {
    const request = { model: 'demo', input: 'count to 100', max_output_tokens: 5 }
    const answer = await (stream ? client.responses.stream(request).finalResponse() : client.responses.create(request))
    expect(answer).toMatchObject({
      status: 'incomplete',
      incomplete_details: { reason: 'max_output_tokens' },
      max_output_tokens: 5,
      usage: { output_tokens: 5 },
      output: [{ status: 'incomplete' }],
    })
  })

  test.each([false, true])('probabilities (stream %s)', async stream => {
    const request = { model: 'demo', input: 'say: abc', top_logprobs: 2 }
    const answer = await (stream ? client.responses.stream(request).finalResponse() : client.responses.create(request))
    const [message] = answer.output
    if (message?.type !== 'message' || message.content[0]?.type !== 'output_text') throw new Error('no text')
    const logprobs = message.content[0].logprobs!
    expect(logprobs.map(({ token }) => token).join('')).toBe('abc')
    for (const { top_logprobs } of logprobs) expect(top_logprobs).toHaveLength(2)
  })

  test('a long answer ends correctly: its text is sent five times after the last delta', async () => {
    const word = `${'x'.repeat(99)} `
    await using own = await startRig({ script: exact({ tokens: Array.from({ length: 900 }, () => word) }) })
    const answer = await own.openai().responses.stream({ model: 'm', input: 'Hi' }).finalResponse()
    expect(answer).toMatchObject({ status: 'completed', output_text: word.repeat(900) })
  })
})

type Request = Readonly<Record<string, unknown>>

interface Row {
  readonly name: string
  readonly request?: Request
  readonly client?: ClientOptions
  readonly script?: Script
  readonly credit?: string
  readonly status: number
  readonly code: string
  readonly param?: string | null
  readonly says?: string
}

const ROWS: readonly Row[] = [
  {
    name: 'an unknown parameter',
    request: { temprature: 1 },
    status: 400,
    code: 'unknown_parameter',
    param: 'temprature',
  },
  {
    name: 'a chat',
    request: { messages: [] },
    status: 400,
    code: 'unknown_parameter',
    param: 'messages',
    says: "Unknown parameter: 'messages'. Did you mean 'input'?",
  },
  {
    name: 'an earlier answer',
    request: { previous_response_id: 'resp_1' },
    status: 400,
    code: 'unsupported_parameter',
    param: 'previous_response_id',
  },
  {
    name: 'a choice that forces a hosted tool',
    request: { tools: [{ type: 'file_search', vector_store_ids: ['v'] }], tool_choice: { type: 'file_search' } },
    status: 400,
    code: 'unsupported_parameter',
    param: 'tool_choice.type',
  },
  {
    name: 'an unknown effort',
    request: { reasoning: { effort: 'heroic' } },
    status: 400,
    code: 'invalid_value',
    param: 'reasoning.effort',
  },
  {
    name: 'an unknown image detail',
    request: {
      instructions: 'Hi',
      input: [{ role: 'user', content: [{ type: 'input_image', image_url: 'data:,', detail: 'all' }] }],
    },
    status: 400,
    code: 'invalid_value',
    param: 'input[0].content[0].detail',
  },
  { name: 'no items', request: { input: [] }, status: 400, code: 'invalid_value', param: 'input' },
  { name: 'a malformed key', client: { apiKey: 'nonsense' }, status: 401, code: 'malformed_api_key' },
  {
    name: 'too little credit',
    credit: '0.000001',
    request: { max_output_tokens: 1000 },
    status: 402,
    code: 'insufficient_quota',
  },
  {
    name: 'a model that does not exist',
    request: { model: 'nothing' },
    status: 404,
    code: 'model_not_found',
    param: 'model',
  },
  { name: 'a provider that refuses', script: errorAnswer(400), status: 400, code: 'upstream_rejected' },
  { name: 'a provider that fails', script: errorAnswer(500), status: 502, code: 'upstream_error' },
]

describe.each([false, true])('errors (stream %s)', stream => {
  test.concurrent.each(ROWS)('$name: $status $code', async ({ request, script, credit, says, ...row }) => {
    await using own = await startRig({ ...(script ? { script } : {}), ...(credit ? { credit } : {}) })
    const library = own.openai({ maxRetries: 0, ...row.client })
    const asked = { model: 'm', input: 'Hello', stream, ...request } as OpenAI.Responses.ResponseCreateParams
    const error = await library.responses.create(asked).catch((cause: unknown) => cause)
    expect(error).toBeInstanceOf(OpenAI.APIError)
    expect(error).toMatchObject({ status: row.status, code: row.code, param: row.param ?? null })
    if (says) expect((error as Error).message).toBe(`${row.status} ${says}`)
    expect(own.gateway.balance().held).toBe(0n)
  })
})

describe('an error in the middle of a stream', () => {
  const broken = FAULTS.find(({ title }) => title === 'reset in the middle')!

  test('throws after the earlier events', async () => {
    await using own = await startRig({ script: broken.make('stream') })
    const stream = await own.openai().responses.create({ model: 'm', input: 'Hello', stream: true })
    let text = ''
    const reading = (async () => {
      for await (const event of stream) {
        if (event.type === 'response.output_text.delta') text += event.delta
        expect(event.type).not.toBe('response.completed')
      }
    })()
    await expect(reading).rejects.toMatchObject({ code: 'upstream_truncated', type: 'server_error' })
    expect(text).toBe('t0 t1')
    await expect(own.openai().responses.stream({ model: 'm', input: 'Hi' }).finalResponse()).rejects.toThrow(
      OpenAI.APIError,
    )
  })

  test('ends in response.failed for clients that wait for it', async () => {
    await using own = await startRig({ script: broken.make('stream') })
    const error = await readSse(await codex(own, 'm')).catch((cause: unknown) => cause)
    // The connection breaks after the last event, so that no client takes the stream as complete.
    const { events } =
      (error as { partial?: Awaited<ReturnType<typeof readSse>> }).partial ??
      (error as Awaited<ReturnType<typeof readSse>>)
    expect(events.slice(-2).map(({ event }) => event)).toEqual(['error', 'response.failed'])
    expect(JSON.parse(events.at(-1)!.data)).toMatchObject({
      response: { status: 'failed', error: { code: 'upstream_truncated' }, output: [{ content: [{ text: 't0 t1' }] }] },
    })
  })
})

describe.each([false, true])('the Agents SDK with its defaults (stream %s)', stream => {
  const runner = new Runner({ tracingDisabled: true, traceIncludeSensitiveData: false })
  const modelOf = (id: string, from = rig) => new OpenAIResponsesModel(from.openai({ maxRetries: 0 }), id)
  const agentOf = (options: Partial<AgentOptions> = {}): Agent =>
    new Agent({ name: 'helper', model: modelOf('demo'), ...options })

  async function runAgent(agent: Agent, input: string) {
    if (!stream) return runner.run(agent, input)
    const result = await runner.run(agent, input, { stream: true })
    for await (const _event of result);
    await result.completed
    return result
  }

  const weatherOf = (asked: unknown[]) =>
    tool({
      name: 'get_weather',
      description: 'The weather of a city.',
      parameters: { ...WEATHER.parameters, type: 'object', additionalProperties: false },
      strict: true,
      execute: async question => {
        asked.push(question)
        return '{"sky":"clear"}'
      },
    })

  test('the text and the usage', async () => {
    const { finalOutput, rawResponses, runContext } = await runAgent(agentOf(), 'say: one two three')
    expect(finalOutput).toBe('one two three')
    expect(rawResponses[0]).toMatchObject({ requestId: expect.stringMatching(/^req_/) })
    const { inputTokens, outputTokens } = runContext.usage
    expect(await charged(rawResponses[0]!.requestId)).toBe(BigInt(inputTokens * 1000 + outputTokens * 2000))
  })

  test.each(['demo', 'thinking'])('the tool loop with the model %s', async id => {
    const asked: unknown[] = []
    const agent = agentOf({ model: modelOf(id), instructions: 'Use your tools.', tools: [weatherOf(asked)] })
    const { finalOutput, rawResponses } = await runAgent(agent, 'What is the weather in Paris?')
    expect(asked).toEqual([{ city: 'Paris' }])
    expect(finalOutput).toContain('get_weather returned: {"sky":"clear"}')
    expect(rawResponses).toHaveLength(2)
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
    const { finalOutput } = await runAgent(
      agentOf({ model: modelOf('m', own), tools: [weatherOf(asked)] }),
      'Rome and Oslo?',
    )
    expect(asked).toEqual([{ city: 'Rome' }, { city: 'Oslo' }])
    expect(finalOutput).toBe('t0 t1 t2')
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
    const result = await runAgent(agentOf({ name: 'clerk', handoffs: [forecaster] }), 'Transfer me to the forecaster')
    expect(result.lastAgent?.name).toBe('forecaster')
    expect(result.finalOutput).toMatch(/\w/)
  })

  test('an error of the provider is reported', async () => {
    await using own = await startRig({ script: errorAnswer(400) })
    const error = await runAgent(agentOf({ model: modelOf('m', own) }), 'Hi').catch((cause: unknown) => cause)
    expect(error).toBeInstanceOf(OpenAI.APIError)
    expect(error).toMatchObject({ status: 400, code: 'upstream_rejected' })
  })
})

/** A turn as Codex sends it: function tools, a custom tool with a grammar, and a server's tools in a namespace. */
function codex({ baseURL, gateway }: Rig, model: string, more: Request = {}): Promise<Response> {
  return fetch(`${baseURL}/responses`, {
    method: 'POST',
    headers: {
      'content-type': 'application/json',
      accept: 'text/event-stream',
      authorization: `Bearer ${gateway.key}`,
      originator: 'codex_cli_rs',
    },
    body: JSON.stringify({
      model,
      instructions: 'You are a coding agent.',
      input: [
        { type: 'message', role: 'developer', content: [{ type: 'input_text', text: '<permissions>' }] },
        { type: 'message', role: 'user', content: [{ type: 'input_text', text: '<environment_context>' }] },
        { type: 'message', role: 'user', content: [{ type: 'input_text', text: 'say: done' }] },
      ],
      tools: [
        {
          type: 'function',
          name: 'shell',
          description: 'Runs a command.',
          strict: false,
          parameters: { type: 'object', properties: { command: { type: 'array', items: { type: 'string' } } } },
        },
        {
          type: 'namespace',
          name: 'mcp__files__',
          description: 'Files.',
          tools: [{ type: 'function', name: 'read', strict: false, parameters: { type: 'object', properties: {} } }],
        },
      ],
      tool_choice: 'auto',
      parallel_tool_calls: true,
      reasoning: { effort: 'medium', summary: 'auto' },
      store: false,
      stream: true,
      include: ['reasoning.encrypted_content'],
      prompt_cache_key: '0198-session',
      text: { verbosity: 'low' },
      client_metadata: { 'x-codex-installation-id': '0198' },
      ...more,
    }),
  })
}

describe('Codex requests', () => {
  /** The parts of a stream that Codex keeps: the completed items, and the name of the last event. */
  async function turn(answer: Response) {
    expect(answer.status).toBe(200)
    const { events } = await readSse(answer)
    const items = events
      .filter(({ event }) => event === 'response.output_item.done')
      .map(({ data }) => JSON.parse(data).item)
    const last = events.at(-1)!
    return { items, event: last.event, response: JSON.parse(last.data).response as Answer, events, answer }
  }

  test('a model without reasoning answers', async () => {
    const { items, event, response, answer } = await turn(await codex(rig, 'demo'))
    expect(items).toMatchObject([{ type: 'message', role: 'assistant', content: [{ type: 'output_text' }] }])
    expect(event).toBe('response.completed')
    expect(response.usage).toMatchObject({ input_tokens: expect.any(Number), output_tokens: expect.any(Number) })
    expect(answer.headers.get('x-tollgate-dropped')).toContain('reasoning_effort')
  })

  test('a reasoning model answers and its reasoning is shown', async () => {
    const { items, events } = await turn(await codex(rig, 'thinking'))
    expect(items).toMatchObject([{ type: 'reasoning', summary: [{ type: 'summary_text' }] }, { type: 'message' }])
    expect(events.some(({ event }) => event === 'response.reasoning_summary_text.delta')).toBe(true)
  })

  test('calls of namespaced tools and of a custom tool, and their results', async () => {
    await using own = await startRig({
      script: [exact({ toolCalls: [{ id: 'c1', name: 'mcp__files__read', arguments: ['{}'] }] }), exact()],
    })
    const tools = [
      {
        type: 'namespace',
        name: 'mcp__files__',
        description: 'Files.',
        tools: [{ type: 'function', name: 'read', parameters: {} }],
      },
      {
        type: 'custom',
        name: 'apply_patch',
        description: 'Edits files.',
        format: { type: 'grammar', syntax: 'lark', definition: 'start: "x"' },
      },
    ]
    const user = { type: 'message', role: 'user', content: [{ type: 'input_text', text: 'Read!' }] }
    const { items } = await turn(await codex(own, 'm', { tools, input: [user] }))
    expect(items).toMatchObject([{ type: 'function_call', name: 'read', namespace: 'mcp__files__', call_id: 'c1' }])
    expect(own.provider.requests[0]!.body).toMatchObject({
      tools: [{ function: { name: 'mcp__files__read' } }, { function: { name: 'apply_patch' } }],
    })
    const patch = {
      type: 'custom_tool_call',
      status: 'completed',
      call_id: 'c2',
      name: 'apply_patch',
      input: '*** Begin',
    }
    const input = [
      user,
      ...items.map(({ id: _, ...item }) => item),
      patch,
      { type: 'function_call_output', call_id: 'c1', output: 'text' },
      { type: 'custom_tool_call_output', call_id: 'c2', output: 'Done!' },
    ]
    const second = await turn(await codex(own, 'm', { tools, input }))
    expect(second.event).toBe('response.completed')
    expect(own.provider.requests[1]!.body).toMatchObject({
      messages: [
        { role: 'system' },
        { role: 'user' },
        {
          role: 'assistant',
          tool_calls: [
            { id: 'c1', function: { name: 'mcp__files__read' } },
            { id: 'c2', function: { name: 'apply_patch', arguments: '{"input":"*** Begin"}' } },
          ],
        },
        { role: 'tool', tool_call_id: 'c1', content: 'text' },
        { role: 'tool', tool_call_id: 'c2', content: 'Done!' },
      ],
    })
  })
})
