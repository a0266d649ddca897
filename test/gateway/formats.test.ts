/** On a route of a format other than chat completions, everything that a client gets is in that format. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { definePlugin } from '#contract'
import { type Call, type FakeProvider, sse, startFakeProvider } from '../helpers/fake-provider.ts'
import { FIVE_STEPS, type InProcess, startInProcess } from '../helpers/in-process.ts'
import { mock } from '../helpers/own-answer.ts'

const NO_SETTINGS = { type: 'object', additionalProperties: false, properties: {} } as const

/** A step that reads the request. */
const curious = definePlugin({
  name: 'curious',
  settings: NO_SETTINGS,
  create: () => async (ctx, next) => {
    const { messages } = ctx.exchange.request().body as { messages: unknown[] }
    ctx.exchange.note(`${messages.length} messages`)
    await next()
  },
})

let gateway: InProcess

beforeAll(async () => {
  gateway = await startInProcess({
    plugins: [mock('early'), curious],
    policies: {
      // Answers before the request was read.
      early: [{ use: 'api-key' }, { use: 'early' }, { use: 'schema' }, { use: 'credits' }, { use: 'route' }],
      keyed: [{ use: 'api-key' }],
      curious: [{ use: 'api-key' }, { use: 'curious', mode: 'shadow' }, ...FIVE_STEPS.slice(1)],
    },
    yaml: {
      hosts: ['127.0.0.1', 'localhost'],
      providers: { p: { dialect: 'demo', pace: '1ms' }, far: { dialect: 'openai', base_url: 'http://127.0.0.1:9/v1' } },
      routes: [
        { path: '/v1/messages', policy: 'test' },
        { path: '/v1/responses', policy: 'test' },
        { path: '/early/v1/messages', policy: 'early' },
        { path: '/early/v1/responses', policy: 'early' },
        { path: '/curious/v1/messages', policy: 'curious' },
        {
          path: '/v1/messages/batches/{id}',
          kind: 'raw',
          policy: 'keyed',
          provider: 'far',
          price: 'free',
          methods: ['GET'],
        },
      ],
    },
  })
})
afterAll(() => gateway.stop())

const ASKED = {
  messages: { model: 'm', max_tokens: 50, messages: [{ role: 'user', content: 'Hello' }] },
  responses: { model: 'm', input: 'Hello' },
}

function post(path: string, body: unknown, init: RequestInit = {}): Promise<Response> {
  return fetch(gateway.url + path, {
    method: 'POST',
    headers: { authorization: `Bearer ${gateway.key}`, 'content-type': 'application/json' },
    body: JSON.stringify(body),
    ...init,
  })
}

describe('errors on /v1/messages', () => {
  test.each<[string, RequestInit, number, string]>([
    ['another method', { method: 'GET', body: null }, 405, 'invalid_request_error'],
    ['another media type', { headers: { 'content-type': 'text/plain' } }, 415, 'invalid_request_error'],
    ['no key', { headers: { 'content-type': 'application/json' } }, 401, 'authentication_error'],
    ['no JSON', { body: '{' }, 400, 'invalid_request_error'],
  ])('%s', async (_name, init, status, type) => {
    const answer = await post('/v1/messages', ASKED.messages, init)
    expect(answer.status).toBe(status)
    const id = answer.headers.get('x-request-id')
    expect(await answer.json()).toMatchObject({ type: 'error', error: { type }, request_id: id })
  })
})

describe('errors below /v1/messages/, on any path', () => {
  const NO_CREDENTIAL = { authorization: '', 'content-type': 'application/json' }
  test.each<[string, string, RequestInit, number, string]>([
    ['nothing', '/v1/messages/batches', {}, 404, 'not_found_error'],
    ['no route, below a prefix', '/office/v1/messages/batches', {}, 404, 'not_found_error'],
    ['nothing, with a query', '/v1/messages/?beta=true', {}, 404, 'not_found_error'],
    [
      'a raw route',
      '/v1/messages/batches/b_1',
      { method: 'GET', body: null, headers: {} },
      401,
      'authentication_error',
    ],
    ['a raw route, another method', '/v1/messages/batches/b_1', {}, 405, 'invalid_request_error'],
    ['a route that counts', '/v1/messages/count_tokens', { headers: NO_CREDENTIAL }, 401, 'authentication_error'],
    [
      'a malformed head',
      '/v1/messages',
      { headers: { 'content-type': 'a', content_type: 'b' } },
      400,
      'invalid_request_error',
    ],
  ])('%s', async (_name, path, init, status, type) => {
    const answer = await post(path, ASKED.messages, init)
    expect(answer.status).toBe(status)
    const id = answer.headers.get('x-request-id')
    expect(await answer.json()).toMatchObject({ type: 'error', error: { type }, request_id: id })
  })

  test.each(['/v1/messagesx', '/v1/message', '/v1/other?at=/v1/messages/batches', '/v1/responses/v1'])(
    'but not at %s',
    async path => {
      const answer = await post(path, ASKED.messages)
      expect(answer.status).toBe(404)
      const body = (await answer.json()) as object
      expect(Object.keys(body)).toEqual(['error'])
    },
  )
})

describe('an answer that a step gives before the request was read', () => {
  test('whole, on /v1/messages', async () => {
    const answer = await post('/early/v1/messages', ASKED.messages)
    expect(await answer.json()).toMatchObject({ type: 'message', content: [{ type: 'text', text: 'Hello' }] })
  })

  test('whole, on /v1/responses', async () => {
    const answer = await post('/early/v1/responses', ASKED.responses)
    expect(await answer.json()).toMatchObject({ object: 'response', status: 'completed' })
  })

  test('of an invalid request: refused', async () => {
    const answer = await post('/early/v1/messages', { model: 'm' })
    expect(answer.status).toBe(400)
    expect(await answer.json()).toMatchObject({ type: 'error' })
  })
})

test('a step in shadow sees the request, too', async () => {
  const answer = await post('/curious/v1/messages', ASKED.messages)
  expect(answer.status).toBe(200)
  await answer.text()
  const entry = gateway.receipt(answer)?.trail.find(({ step }) => step === 'curious')
  expect(entry).toMatchObject({ verdict: 'passed', note: '1 messages' })
})

describe('with a provider of OpenAI’s format', () => {
  let provider: FakeProvider
  let own: InProcess
  const chunk = (choices: unknown[], more: object = {}) =>
    sse({ id: 'c', object: 'chat.completion.chunk', created: 1, model: 'x', choices, ...more })
  const saying = (...frames: string[]) => ({
    name: 'says',
    async run(call: Call) {
      call.head(200, { 'content-type': 'text/event-stream' })
      for (const frame of frames) await call.write(frame)
      await call.end('data: [DONE]\n\n')
    },
  })
  const HELLO = chunk([{ index: 0, delta: { role: 'assistant', content: 'Hello you' }, finish_reason: null }])
  const STOP = chunk([{ index: 0, delta: {}, finish_reason: 'stop' }])

  beforeAll(async () => {
    provider = await startFakeProvider({ script: saying(HELLO, STOP) })
    own = await startInProcess({
      provider: provider.baseUrl,
      model: { context: '1Mi' },
      yaml: {
        routes: [
          { path: '/v1/messages', policy: 'test' },
          { path: '/v1/responses', policy: 'test' },
        ],
      },
    })
  })
  afterAll(async () => {
    await own.stop()
    await provider.close()
  })

  const ask = async (kind: 'messages' | 'responses', more: object = {}) => {
    const answer = await fetch(`${own.url}/v1/${kind}`, {
      method: 'POST',
      headers: { authorization: `Bearer ${own.key}`, 'content-type': 'application/json' },
      body: JSON.stringify({ ...ASKED[kind], stream: true, ...more }),
    })
    const text = await answer.text()
    const events = text.split('\n').flatMap(line => (line.startsWith('data: ') ? [JSON.parse(line.slice(6))] : []))
    return { answer, events, receipt: own.receipt(answer) }
  }

  test.each([
    ['messages', 'message_start', 'message_stop'],
    ['responses', 'response.created', 'response.completed'],
  ] as const)('%s: a stream of one chunk has its events in their order', async (kind, first, last) => {
    provider.script(saying(chunk([{ index: 0, delta: { role: 'assistant', content: 'Hi' }, finish_reason: 'stop' }])))
    const { events } = await ask(kind)
    expect([events[0].type, events.at(-1).type]).toEqual([first, last])
    provider.script(saying(HELLO, STOP))
  })

  test.each([
    ['is missing', []],
    ['is elsewhere', [chunk([], { x_groq: { usage: { prompt_tokens: 9, completion_tokens: 4, total_tokens: 13 } } })]],
    [
      'hides its thinking in the total',
      [chunk([], { usage: { prompt_tokens: 9, completion_tokens: 4, total_tokens: 33 } })],
    ],
  ])('usage that %s is reported as it is charged', async (_name, frames) => {
    provider.script(saying(HELLO, STOP, ...frames))
    const messages = await ask('messages')
    const ofMessages = messages.events.find(({ type }) => type === 'message_delta').usage
    const { input, output } = messages.receipt!.usage
    expect(ofMessages).toMatchObject({ input_tokens: input, output_tokens: output })
    const responses = await ask('responses')
    const { usage } = responses.events.find(({ type }) => type === 'response.completed').response
    const charged = responses.receipt!.usage
    expect(usage).toMatchObject({ input_tokens: charged.input, output_tokens: charged.output })
    expect(charged.output).toBeGreaterThan(0)
  })

  test('a request with many tools does not break off its answer', async () => {
    provider.script(
      saying(chunk([{ index: 0, delta: { role: 'assistant', content: 'Hello' }, finish_reason: 'stop' }])),
    )
    const tools = Array.from({ length: 60 }, (_, i) => ({
      type: 'function',
      name: `tool_${i}`,
      description: 'x'.repeat(3000),
      parameters: { type: 'object', properties: {} },
    }))
    const { events } = await ask('responses', { tools, instructions: 'y'.repeat(30_000) })
    expect(events.at(-1)).toMatchObject({ type: 'response.completed' })
  })

  test('a request without reasoning is accepted for a model without reasoning', async () => {
    provider.script(saying(HELLO, STOP))
    const { answer } = await ask('messages', { thinking: { type: 'disabled' } })
    expect(answer.status).toBe(200)
    expect(answer.headers.has('x-tollgate-dropped')).toBe(false)
  })
})
