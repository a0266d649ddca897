/** Clients of the Messages format, pointed at the gateway: Anthropic's official library, and Claude Code requests. */
import Anthropic, { type ClientOptions } from '@anthropic-ai/sdk'
import { betaTool } from '@anthropic-ai/sdk/helpers/beta/json-schema'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { parseMoney } from '#contract'
import {
  errorAnswer,
  exact,
  FAULTS,
  type FakeProvider,
  gated,
  type Script,
  startFakeProvider,
} from '../helpers/fake-provider.ts'
import { type InProcess, startInProcess } from '../helpers/in-process.ts'
import { HELLO, modelAt, providersWith } from './rig.system.ts'

interface Rig extends AsyncDisposable {
  readonly gateway: InProcess
  readonly provider: FakeProvider
  /** The official library with the account's key, which it sends as `x-api-key`. */
  anthropic(options?: ClientOptions): Anthropic
}

/** The gateway with a route for messages: `m` and `claude` follow a script, `demo` and `thinking` are the embedded demo. */
async function startRig({ script = exact(), credit = '10' }: { script?: Script; credit?: string } = {}): Promise<Rig> {
  const provider = await startFakeProvider({ script })
  const gateway = await startInProcess({
    credit,
    env: { CLAUDE_KEY: 'claude-key' },
    yaml: {
      providers: {
        ...providersWith(provider),
        claude: { dialect: 'anthropic', base_url: provider.baseUrl, api_key: '${CLAUDE_KEY}' },
      },
      models: {
        m: modelAt('scripted', 'upstream-model', { context: 400_000, max_output: 64_000 }),
        claude: modelAt('claude', 'claude-sonnet-4-6', { reasoning: true }),
        demo: modelAt('demo', 'demo-small'),
        thinking: modelAt('demo', 'demo-reasoning', { reasoning: true }),
      },
      routes: [{ path: '/v1/messages', policy: 'test' }],
    },
  })
  return {
    gateway,
    provider,
    anthropic: options => new Anthropic({ apiKey: gateway.key, baseURL: gateway.url, logLevel: 'off', ...options }),
    async [Symbol.asyncDispose]() {
      await gateway.stop()
      await provider.close()
    },
  }
}

let rig: Rig
let client: Anthropic

beforeAll(async () => {
  rig = await startRig()
  client = rig.anthropic()
})
afterAll(async () => rig[Symbol.asyncDispose]())

const SAY = { model: 'demo', max_tokens: 100, messages: [{ role: 'user' as const, content: 'say: one two three' }] }
const LEAST = { model: 'm', max_tokens: 100, messages: HELLO }

/** The cost of an answer by its usage, in nano-dollars. */
const bill = ({ usage }: Anthropic.Message) => BigInt(usage.input_tokens * 1000 + usage.output_tokens * 2000)

async function charged(response: Response) {
  const id = response.headers.get('x-request-id')!
  await rig.gateway.exchangeLine(id)
  return rig.gateway.running.store.reads.findReceipt(id)?.charged
}

const WEATHER = {
  name: 'get_weather',
  description: 'The weather of a city.',
  input_schema: { type: 'object' as const, properties: { city: { type: 'string' } }, required: ['city'] },
}

describe('the official library', () => {
  test('a whole answer: the text, and the usage that was charged', async () => {
    const { data, response } = await client.messages.create(SAY).withResponse()
    expect(data).toMatchObject({
      id: expect.stringMatching(/^msg_\w+$/),
      type: 'message',
      role: 'assistant',
      model: 'demo',
      content: [{ type: 'text', text: 'one two three' }],
      stop_reason: 'end_turn',
      usage: { cache_read_input_tokens: 0, output_tokens: expect.any(Number) },
    })
    expect(response.headers.get('content-type')).toBe('application/json')
    expect(data.usage.input_tokens).toBeGreaterThan(0)
    expect(await charged(response)).toBe(bill(data))
  })

  test('a stream adds up to the same, in pieces', async () => {
    const { data, response } = await client.messages.create({ ...SAY, stream: true }).withResponse()
    expect(response.headers.get('content-type')).toContain('text/event-stream')
    const types: string[] = []
    for await (const event of data) types.push(event.type)
    const texts = types.filter(type => type === 'content_block_delta')
    expect(texts.length).toBeGreaterThan(2)
    expect(types).toEqual([
      ...['message_start', 'content_block_start'],
      ...texts,
      ...['content_block_stop', 'message_delta', 'message_stop'],
    ])
    const message = await client.messages.stream(SAY).finalMessage()
    expect(message).toMatchObject({ content: [{ type: 'text', text: 'one two three' }], stop_reason: 'end_turn' })
    expect(await charged(response)).toBe(bill(message))
  })

  test('a key as a bearer', async () => {
    const bearer = rig.anthropic({ apiKey: null, authToken: rig.gateway.key })
    expect(await bearer.messages.create(SAY)).toMatchObject({ content: [{ text: 'one two three' }] })
  })

  test.each([false, true])('a reasoning model respects its thinking budget (stream %s)', async stream => {
    const ask = async (effort: 'low' | 'high') => {
      const thinking = { type: 'adaptive' as const }
      const request = { ...SAY, model: 'thinking', max_tokens: 500, thinking, output_config: { effort } }
      const message = await (stream ? client.messages.stream(request).finalMessage() : client.messages.create(request))
      expect(message.content.map(({ type }) => type)).toEqual(['thinking', 'text'])
      return message.usage.output_tokens_details?.thinking_tokens
    }
    expect([await ask('low'), await ask('high')]).toEqual([16, 128])
  })

  test('a model without reasoning ignores a request for it', async () => {
    const thinking = { type: 'enabled' as const, budget_tokens: 1024 }
    expect(await client.messages.create({ ...SAY, thinking })).toMatchObject({ content: [{ type: 'text' }] })
  })

  test.each([false, true])('a cap and a stop sequence (stream %s)', async stream => {
    const ask = (fields: object) => {
      const request = { ...SAY, messages: [{ role: 'user' as const, content: 'count to 100' }], ...fields }
      return stream ? client.messages.stream(request).finalMessage() : client.messages.create(request)
    }
    expect(await ask({ max_tokens: 5 })).toMatchObject({ stop_reason: 'max_tokens', usage: { output_tokens: 5 } })
    expect(await ask({ stop_sequences: [', 4'] })).toMatchObject({ content: [{ text: '1, 2, 3' }] })
  })

  test('a cap above the maximum becomes the maximum, because every client must send one', async () => {
    const messages = [{ role: 'user' as const, content: 'count to 5000' }]
    const { stop_reason, usage } = await client.messages.create({ ...SAY, messages, max_tokens: 5000 })
    expect([stop_reason, usage.output_tokens]).toEqual(['max_tokens', 1000])
  })

  test.each([false, true])('the tool runner calls the tool and sends its result back (stream %s)', async stream => {
    const calls: unknown[] = []
    const tool = betaTool({
      name: WEATHER.name,
      description: WEATHER.description,
      inputSchema: { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] },
      run(question) {
        calls.push(question)
        return '{"sky":"clear"}'
      },
    })
    const messages = [{ role: 'user' as const, content: 'What is the weather in Paris?' }]
    const runner = client.beta.messages.toolRunner({
      model: 'thinking',
      max_tokens: 500,
      messages,
      tools: [tool],
      stream,
    })
    const message = await runner.runUntilDone()
    expect(calls).toEqual([{ city: 'Paris' }])
    const text = message.content.find(block => block.type === 'text')?.text
    expect(text).toContain('get_weather returned: {"sky":"clear"}')
  })

  test.each([false, true])('an object by its schema (stream %s)', async stream => {
    const schema = {
      type: 'object',
      properties: { title: { type: 'string' } },
      required: ['title'],
      additionalProperties: false,
    }
    const messages = [{ role: 'user' as const, content: 'A film about Paris' }]
    const request = { ...SAY, messages, output_config: { format: { type: 'json_schema' as const, schema } } }
    const { content } = await (stream
      ? client.messages.stream(request).finalMessage()
      : client.messages.create(request))
    if (content[0]?.type !== 'text') throw new Error('no text')
    expect(Object.keys(JSON.parse(content[0].text))).toEqual(['title'])
  })

  test('aborting a stream closes the connection to the provider', async () => {
    rig.provider.script(gated({ tokens: 4 }))
    const index = rig.provider.requests.length
    const opening = client.messages.create({ ...LEAST, stream: true })
    const request = await rig.provider.waitForRequest(index)
    await request.step(2)
    for await (const event of await opening) if (event.type === 'content_block_delta') break
    expect((await rig.provider.waitForClose(request)).how).not.toBe('answered')
  })
})

describe('the upstream request', () => {
  /** A request as Claude Code sends it, with all its extra fields. */
  const coding = {
    model: 'm',
    max_tokens: 32_000,
    system: [
      { type: 'text', text: 'You are a coding agent.', cache_control: { type: 'ephemeral' } },
      { type: 'text', text: 'Here is the directory.' },
    ],
    messages: [
      { role: 'user', content: [{ type: 'text', text: 'What does main.ts say?' }] },
      {
        role: 'assistant',
        content: [
          { type: 'thinking', thinking: 'I shall read it.', signature: 'tollgate.field.reasoning_content' },
          { type: 'tool_use', id: 'call_1', name: 'Read', input: { file_path: 'main.ts' } },
          { type: 'tool_use', id: 'call_2', name: 'Read', input: { file_path: 'missing.ts' } },
        ],
      },
      {
        role: 'user',
        content: [
          { type: 'tool_result', tool_use_id: 'call_1', content: [{ type: 'text', text: 'export {}' }] },
          {
            type: 'tool_result',
            tool_use_id: 'call_2',
            content: 'No such file',
            is_error: true,
            cache_control: { type: 'ephemeral' },
          },
          { type: 'text', text: 'Be quick.', cache_control: { type: 'ephemeral' } },
        ],
      },
    ],
    tools: [
      {
        name: 'Read',
        description: 'Reads a file.',
        input_schema: { type: 'object', properties: {} },
        cache_control: { type: 'ephemeral', ttl: '1h' },
      },
    ],
    thinking: { type: 'adaptive' },
    output_config: { effort: 'high' },
    context_management: { edits: [{ type: 'clear_thinking_20251015', keep: 'all' }] },
    metadata: { user_id: JSON.stringify({ device_id: 'd'.repeat(64), session_id: 's'.repeat(36) }) },
    betas: ['interleaved-thinking-2025-05-14'],
    stream: true,
  }

  const FAILED = '[The tool failed.]\nNo such file'

  test('is a chat that any provider supports', async () => {
    rig.provider.script(exact({ toolCalls: [{ id: 'call_3', name: 'Read', arguments: ['{"file_', 'path":"b"}'] }] }))
    const index = rig.provider.requests.length
    const stream = client.beta.messages.stream(coding as unknown as Anthropic.Beta.MessageCreateParams)
    const message = await stream.finalMessage()
    expect(message).toMatchObject({
      content: [{ type: 'tool_use', id: 'call_3', name: 'Read', input: { file_path: 'b' } }],
      stop_reason: 'tool_use',
    })
    const { headers, body } = await rig.provider.waitForRequest(index)
    expect(headers).not.toHaveProperty('x-api-key')
    expect(headers).not.toHaveProperty('anthropic-beta')
    const call = (id: string, file_path: string) => ({
      id,
      type: 'function',
      function: { name: 'Read', arguments: JSON.stringify({ file_path }) },
    })
    expect(body).toEqual({
      model: 'upstream-model',
      messages: [
        { role: 'system', content: 'You are a coding agent.\n\nHere is the directory.' },
        { role: 'user', content: 'What does main.ts say?' },
        {
          role: 'assistant',
          content: null,
          reasoning_content: 'I shall read it.',
          tool_calls: [call('call_1', 'main.ts'), call('call_2', 'missing.ts')],
        },
        { role: 'tool', tool_call_id: 'call_1', content: 'export {}' },
        { role: 'tool', tool_call_id: 'call_2', content: FAILED },
        { role: 'user', content: 'Be quick.' },
      ],
      max_completion_tokens: 32_000,
      stream: true,
      stream_options: { include_usage: true },
      tools: [
        {
          type: 'function',
          function: { name: 'Read', description: 'Reads a file.', parameters: { type: 'object', properties: {} } },
        },
      ],
      user: expect.stringMatching(/^[0-9a-f]{64}$/),
    })
  })

  test('has the cache marks, for Anthropic', async () => {
    const usage = { input_tokens: 5, cache_read_input_tokens: 7, cache_creation_input_tokens: 2, output_tokens: 9 }
    const content = [{ type: 'text', text: 'Done.' }]
    const answer = {
      id: 'msg_1',
      type: 'message',
      role: 'assistant',
      model: 'c',
      content,
      stop_reason: 'end_turn',
      usage,
    }
    rig.provider.script(errorAnswer(200, answer))
    const index = rig.provider.requests.length
    const { stream: _, ...asked } = { ...coding, model: 'claude', max_tokens: 4000 }
    const { data, response } = await client.beta.messages
      .create(asked as unknown as Anthropic.Beta.MessageCreateParamsNonStreaming)
      .withResponse()
    expect(data.usage).toMatchObject(usage)
    expect(response.headers.get('x-tollgate-dropped')).toBeNull()
    const { body } = await rig.provider.waitForRequest(index)
    expect(body).toMatchObject({
      tools: asked.tools,
      system: [asked.system[0], { type: 'text', text: '\n\nHere is the directory.' }],
    })
    const [, , answered] = body!['messages'] as { readonly content: unknown }[]
    expect(answered!.content).toEqual([
      { type: 'tool_result', tool_use_id: 'call_1', content: [{ type: 'text', text: 'export {}' }] },
      {
        type: 'tool_result',
        tool_use_id: 'call_2',
        is_error: true,
        content: 'No such file',
        cache_control: { type: 'ephemeral' },
      },
      { type: 'text', text: 'Be quick.', cache_control: { type: 'ephemeral' } },
    ])
  })

  test('has the signed reasoning over two turns, for Anthropic', async () => {
    const content = [
      { type: 'thinking', thinking: 'I need the weather.', signature: 'c2ln' },
      { type: 'tool_use', id: 'toolu_1', name: 'get_weather', input: { city: 'Paris' } },
    ]
    const usage = { input_tokens: 5, cache_read_input_tokens: 7, cache_creation_input_tokens: 2, output_tokens: 9 }
    const message = {
      id: 'msg_1',
      type: 'message',
      role: 'assistant',
      model: 'c',
      content,
      stop_reason: 'tool_use',
      usage,
    }
    rig.provider.script(errorAnswer(200, message))
    const index = rig.provider.requests.length
    const asked = {
      model: 'claude',
      max_tokens: 1000,
      thinking: { type: 'adaptive' as const },
      tools: [WEATHER],
      messages: [{ role: 'user' as const, content: 'What is the weather in Paris?' }] as Anthropic.MessageParam[],
    }
    const first = await client.messages.create(asked)
    expect(first).toMatchObject({ content, stop_reason: 'tool_use', usage })
    asked.messages.push({ role: 'assistant', content: first.content })
    asked.messages.push({ role: 'user', content: [{ type: 'tool_result', tool_use_id: 'toolu_1', content: 'clear' }] })
    await client.messages.create(asked)
    const { path, headers, body } = await rig.provider.waitForRequest(index + 1)
    expect([path, headers['x-api-key']]).toEqual(['/v1/messages', 'claude-key'])
    expect(body!['messages']).toMatchObject([{ role: 'user' }, { role: 'assistant', content }, { role: 'user' }])
  })
})

interface Row {
  readonly name: string
  readonly request?: Readonly<Record<string, unknown>>
  readonly client?: ClientOptions
  readonly script?: Script
  readonly credit?: string
  /** The account's budget for a month. */
  readonly budget?: string
  readonly status: number
  readonly type: string
  readonly code: string
  readonly param?: string
  readonly says?: string
}

const ROWS: readonly Row[] = [
  {
    name: 'no cap',
    request: { max_tokens: undefined },
    status: 400,
    type: 'invalid_request_error',
    code: 'missing_required_parameter',
    param: 'max_tokens',
  },
  {
    name: 'an unknown parameter',
    request: { temprature: 1 },
    status: 400,
    type: 'invalid_request_error',
    code: 'unknown_parameter',
    param: 'temprature',
  },
  {
    name: 'a forced tool that Anthropic runs',
    request: {
      tools: [{ type: 'web_fetch_20250910', name: 'web_fetch' }],
      tool_choice: { type: 'tool', name: 'web_fetch' },
    },
    status: 400,
    type: 'invalid_request_error',
    code: 'unsupported_parameter',
    param: 'tool_choice.name',
  },
  {
    name: 'a value that the schema step refuses',
    request: { temperature: 3 },
    status: 400,
    type: 'invalid_request_error',
    code: 'invalid_value',
    param: 'temperature',
  },
  {
    name: 'an invalid stop sequence, which the schema step names differently',
    request: { stop_sequences: ['a', 5] },
    status: 400,
    type: 'invalid_request_error',
    code: 'invalid_type',
    param: 'stop_sequences[1]',
    says: "Invalid type for 'stop_sequences[1]': expected a string, but got 5 instead.",
  },
  {
    name: 'a result without a call, which the dialect detects',
    request: {
      model: 'claude',
      system: 'Be brief.',
      messages: [
        {
          role: 'user',
          content: [
            { type: 'text', text: 'Hi' },
            { type: 'tool_result', tool_use_id: 'a' },
          ],
        },
      ],
    },
    status: 400,
    type: 'invalid_request_error',
    code: 'invalid_value',
    param: 'messages[0].content[1].tool_use_id',
  },
  {
    name: 'a malformed key',
    client: { apiKey: 'nonsense' },
    status: 401,
    type: 'authentication_error',
    code: 'malformed_api_key',
  },
  {
    name: 'too little credit',
    credit: '0.0002',
    status: 402,
    type: 'billing_error',
    code: 'insufficient_quota',
    says: expect.stringMatching(/ask for less with max_tokens\.$/),
  },
  {
    name: 'an exhausted budget',
    budget: '$0.000001',
    client: { maxRetries: 2 },
    status: 429,
    type: 'rate_limit_error',
    code: 'budget_exhausted',
    says: expect.stringMatching(/It resets at \d{4}-\d\d-01 00:00 Europe\/Berlin\./),
  },
  {
    name: 'a model that does not exist',
    request: { model: 'nothing' },
    status: 404,
    type: 'not_found_error',
    code: 'model_not_found',
    param: 'model',
  },
  {
    name: 'a provider that refuses',
    script: errorAnswer(400),
    status: 400,
    type: 'invalid_request_error',
    code: 'upstream_rejected',
  },
  {
    name: 'a provider that limits',
    script: errorAnswer(429),
    status: 429,
    type: 'rate_limit_error',
    code: 'upstream_rate_limited',
  },
  { name: 'a provider that fails', script: errorAnswer(500), status: 502, type: 'api_error', code: 'upstream_error' },
  {
    name: 'a provider that is overloaded',
    script: errorAnswer(503),
    status: 503,
    type: 'overloaded_error',
    code: 'upstream_overloaded',
  },
]

describe.each([false, true])('errors (stream %s)', stream => {
  test.concurrent.each(ROWS)('$name: $status $code', async ({ request, script, credit, budget, says, ...row }) => {
    await using own = await startRig({ ...(script ? { script } : {}), ...(credit ? { credit } : {}) })
    if (budget) {
      const { store } = own.gateway.running
      const monthly = { amount: parseMoney(budget), zone: 'Europe/Berlin' }
      await store.setBudget({ of: 'account', name: own.gateway.accountId, every: 'month', budget: monthly })
    }
    const library = own.anthropic({ maxRetries: 0, ...row.client })
    const asked = { ...LEAST, stream, ...request } as Anthropic.MessageCreateParams
    const error = await library.messages.create(asked).catch((cause: unknown) => cause)
    expect(error).toBeInstanceOf(Anthropic.APIError)
    expect(error).toMatchObject({
      status: row.status,
      type: row.type,
      requestID: expect.stringMatching(/^req_/),
      errorCode: row.code,
      error: { type: 'error', error: { param: row.param ?? null }, request_id: expect.stringMatching(/^req_/) },
    })
    if (says) expect(error).toMatchObject({ apiMessage: says })
    expect(own.gateway.balance().held).toBe(0n)
    if (budget) expect(own.gateway.log.filter(line => line['msg'] === 'exchange')).toHaveLength(1)
  })
})

describe('an error in the middle of a stream', () => {
  const broken = FAULTS.find(({ title }) => title === 'reset in the middle')!

  test('throws after the earlier events', async () => {
    await using own = await startRig({ script: broken.make('stream') })
    const stream = await own.anthropic().messages.create({ ...LEAST, stream: true })
    let text = ''
    const reading = (async () => {
      for await (const event of stream) {
        if (event.type === 'content_block_delta' && event.delta.type === 'text_delta') text += event.delta.text
        expect(['message_delta', 'message_stop']).not.toContain(event.type)
      }
    })()
    await expect(reading).rejects.toMatchObject({ type: 'api_error', errorCode: 'upstream_truncated' })
    expect(text).toBe('t0 t1')
    await expect(own.anthropic().messages.stream(LEAST).finalMessage()).rejects.toThrow(Anthropic.APIError)
  })
})

test('the library lists the models page by page, and reads one', async () => {
  await using own = await startRig()
  const library = own.anthropic({ apiKey: own.gateway.key })
  const ids: string[] = []
  for await (const { id, type } of library.models.list()) ids.push(`${type} ${id}`)
  expect(ids).toEqual(['model m', 'model claude', 'model demo', 'model thinking'])
  expect(await library.models.retrieve('m')).toMatchObject({ id: 'm', type: 'model' })
  await expect(library.models.retrieve('none')).rejects.toMatchObject({ status: 404, type: 'not_found_error' })
})
