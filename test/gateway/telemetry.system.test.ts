/** OpenTelemetry, from the client's headers to what a collector receives. */
import { afterEach, beforeEach, describe, expect, onTestFinished, test } from 'vitest'
import { startCollector, WITHOUT_COLLECTOR } from '../helpers/collector.ts'
import { edit } from '../helpers/edit-configuration.ts'
import {
  errorAnswer,
  exact,
  type FakeProvider,
  gated,
  sendStreamHead,
  startFakeProvider,
  stream,
  streamParts,
} from '../helpers/fake-provider.ts'
import { createAccount, startGateway } from '../helpers/gateway.ts'
import { FIVE_STEPS, type InProcess, type InProcessOptions, startInProcess } from '../helpers/in-process.ts'
import { describeWith } from '../helpers/missing.ts'
import { type OtlpReceiver, type ReceivedSpan, startOtlpReceiver } from '../helpers/otlp-receiver.ts'
import { REFUSED_URL } from '../helpers/unreachable.ts'

const TRACE = '0af7651916cd43dd8448eb211c80319c'
const CALLER = 'b7ad6b7169203331'
const PARENT = { traceparent: `00-${TRACE}-${CALLER}-01`, tracestate: 'vendor=1', baggage: 'user=canary-baggage' }
const PROVIDER_KEY = 'sk-canary-provider-0123456789'
const COLLECTOR_KEY = 'canary-collector-0123456789'

let receiver: OtlpReceiver
let provider: FakeProvider
beforeEach(async () => {
  receiver = await startOtlpReceiver()
  provider = await startFakeProvider({ script: exact() })
})
afterEach(async () => {
  await receiver[Symbol.asyncDispose]()
  await provider.close()
})

/** A model `m` whose first target fails, a model `own` without that target, and a raw route. */
async function start(telemetry: object | null, options: InProcessOptions = {}): Promise<InProcess> {
  const remote = { dialect: 'openai', api_key: '${PROVIDER_KEY}' }
  const model = (targets: readonly object[]) => ({ targets, price: PRICE, context: 8192, max_output: 1000 })
  const live = { provider: 'live', model: 'upstream-model', priority: 2 }
  const raw = { kind: 'raw', policy: 'raw', provider: 'live', price: 'free' }
  const gateway = await startInProcess({
    env: { PROVIDER_KEY, COLLECTOR_KEY },
    steps: FIVE_STEPS.map(step =>
      'use' in step && step.use === 'route' ? { use: 'route', with: { attempts: 3 } } : step,
    ),
    policies: { raw: [{ use: 'api-key' }] },
    ...options,
    yaml: {
      ...(telemetry === null ? {} : { telemetry: { endpoint: receiver.url, ...telemetry } }),
      admin: '127.0.0.1:0',
      providers: {
        dead: { ...remote, base_url: `${REFUSED_URL}/v1` },
        live: { ...remote, base_url: provider.baseUrl },
      },
      models: { m: model([{ provider: 'dead', model: 'first-model' }, live]), own: model([live]) },
      routes: [
        { path: '/v1/chat/completions', policy: 'test' },
        { ...raw, path: '/v1/embeddings' },
        { ...raw, path: '/v1/things' },
        { ...raw, path: '/v1/vectors', upstream_path: '/embeddings' },
      ],
      ...options.yaml,
    },
  })
  onTestFinished(() => void gateway.stop())
  return gateway
}
const PRICE = { per: '1M tokens', input: '$1', output: '$2' }

const ask = (
  { url, key }: Pick<InProcess, 'url' | 'key'>,
  path: string,
  body: object,
  headers: Record<string, string> = {},
) =>
  fetch(url + path, {
    method: 'POST',
    headers: { 'content-type': 'application/json', authorization: `Bearer ${key}`, ...headers },
    body: JSON.stringify(body),
  })
const chat = (gateway: InProcess, body: object = {}, headers: Record<string, string> = {}) =>
  ask(
    gateway,
    '/v1/chat/completions',
    { model: 'm', messages: [{ role: 'user', content: 'canary-prompt' }], ...body },
    headers,
  )

const serverSpan = () => receiver.spans.find(({ kind }) => kind === 2)!
/** The spans for clients, in the order of their start. */
const clientSpans = (): ReceivedSpan[] =>
  receiver.spans.filter(({ kind }) => kind === 3).sort((a, b) => Number(a.start - b.start))
const points = (metric: string) => receiver.points.filter(each => each.metric === metric)

describe('failures', () => {
  test('an unavailable collector does not affect requests, and lost data is counted', async () => {
    const gateway = await start({ endpoint: REFUSED_URL })
    for (let index = 0; index < 3; index++) expect((await chat(gateway)).status).toBe(200)
    await gateway.stop()
    expect(gateway.log.filter(({ msg }) => msg === 'telemetry cannot be exported')).toHaveLength(2)
    expect(gateway.log.find(({ msg }) => String(msg).includes('were not exported'))).toMatchObject({ dropped: 9 })
  })

  test('the metrics of the gateway count dropped data', async () => {
    const gateway = await start({})
    receiver.answer(response => void response.writeHead(400).end())
    await chat(gateway)
    edit(gateway, yaml => {
      delete yaml['telemetry']
    })
    expect(await gateway.running.reload()).toBe('changed')
    const page = async () => (await fetch(`${gateway.running.adminUrl}/metrics`)).text()
    await expect.poll(page).toContain('tollgate_telemetry_dropped_total 3')
  })

  test.each([
    ['without a key', { authorization: '' }, {}, 401, 'missing_api_key'],
    ['for an unknown model', {}, { model: 'nothing' }, 404, 'model_not_found'],
  ])('a request %s has its own span, which is not an error of the gateway', async (_, headers, body, status, code) => {
    const gateway = await start({})
    const answer = await chat(gateway, body, { ...PARENT, ...headers })
    expect(answer.status).toBe(status)
    await gateway.stop()
    expect(receiver.spans).toHaveLength(1)
    expect(serverSpan()).toMatchObject({ traceId: TRACE, parentId: CALLER, status: 0 })
    expect(serverSpan().attributes).toMatchObject({
      'http.response.status_code': status,
      'tollgate.outcome': 'refused',
      'tollgate.code': code,
    })
    expect(serverSpan().attributes).not.toHaveProperty('error.type')
    expect(receiver.points).toEqual([])
  })

  test('every target fails: an error on both sides', async () => {
    provider.script(errorAnswer(500))
    const gateway = await start({})
    const answer = await chat(gateway, { model: 'own' })
    await gateway.stop()
    expect(serverSpan().status).toBe(2)
    expect(serverSpan().attributes).toMatchObject({ 'http.response.status_code': answer.status })
    expect(serverSpan().attributes['error.type']).toBe(serverSpan().attributes['tollgate.code'])
    for (const [index, span] of clientSpans().entries()) {
      expect(span.status).toBe(2)
      expect(span.attributes).toMatchObject({ 'http.response.status_code': 500, 'server.address': '127.0.0.1' })
      expect(span.attributes['http.request.resend_count']).toBe(index === 0 ? undefined : index)
    }
    expect(clientSpans().length).toBe(provider.requests.length)
    expect(points('gen_ai.client.token.usage')).toEqual([])
    expect(points('gen_ai.client.operation.duration')).toMatchObject([
      { count: clientSpans().length, attributes: { 'error.type': serverSpan().attributes['error.type'] } },
    ])
  })

  test('a provider that refuses the request: an error of the attempt, not of the gateway', async () => {
    provider.script(errorAnswer(400))
    const gateway = await start({})
    expect((await chat(gateway, { model: 'own' })).status).toBe(400)
    await gateway.stop()
    expect(serverSpan().status).toBe(0)
    expect(serverSpan().attributes).not.toHaveProperty('error.type')
    expect(clientSpans()).toMatchObject([{ status: 2, attributes: { 'http.response.status_code': 400 } }])
  })

  test('a stream that breaks: an error, although it has begun with 200', async () => {
    provider.script({
      name: 'breaks',
      async run(call) {
        sendStreamHead(call)
        for (const { text, meter } of streamParts(call.request, { tokens: 3 }).slice(0, 3))
          await call.write(text, meter)
        call.fin()
      },
    })
    const gateway = await start({})
    const answer = await chat(gateway, { model: 'own', stream: true })
    expect(answer.status).toBe(200)
    await answer.text().catch(() => 'its connection is cut behind the error')
    await gateway.stop()
    expect(serverSpan()).toMatchObject({ status: 2, attributes: { 'http.response.status_code': 200 } })
    expect(serverSpan().attributes).toHaveProperty('error.type')
    expect(clientSpans()).toMatchObject([{ status: 2 }])
  })

  test('a client that disconnects in the middle', async () => {
    provider.script(gated({ tokens: 3 }))
    const gateway = await start({})
    const leaving = new AbortController()
    const answer = gateway.chat({ model: 'own', stream: true }, { signal: leaving.signal, ...init(gateway) })
    const request = await provider.waitForRequest(0)
    await request.step(2)
    await (await answer).body!.getReader().read()
    leaving.abort()
    await gateway.waitForLog(line => line['msg'] === 'exchange')
    await gateway.stop()
    expect(serverSpan().attributes).toMatchObject({ 'tollgate.outcome': 'client_left' })
    expect(clientSpans()).toMatchObject([{ status: 2, attributes: { 'error.type': 'client_left' } }])
    // The gateway's count is not the provider's report.
    expect(clientSpans()[0]!.attributes).toMatchObject({ 'tollgate.usage.source': 'estimated' })
    expect(points('gen_ai.client.token.usage')).toEqual([])
  })
})

const init = ({ key }: InProcess): RequestInit => ({
  headers: { 'content-type': 'application/json', authorization: `Bearer ${key}` },
})

/** The transport to the receiver: direct, or by a collector that encodes it again. */
const WAYS = [
  { protocol: 'protobuf', collector: false },
  { protocol: 'json', collector: false },
  { protocol: 'protobuf', collector: true },
  { protocol: 'json', collector: true },
] as const
const straight = WAYS.filter(({ collector }) => !collector)

describe.each(straight)('$protocol', ({ protocol }) => testExport(protocol, async () => receiver.url))

const byCollector = WAYS.filter(({ collector }) => collector)
describeWith(WITHOUT_COLLECTOR, 'to a real collector', () => {
  describe.each(byCollector)('$protocol', ({ protocol }) =>
    testExport(protocol, async () => {
      const collector = await startCollector(receiver.url)
      onTestFinished(() => collector[Symbol.asyncDispose]())
      return collector.url
    }),
  )
})

function testExport(protocol: string, endpointOf: () => Promise<string>): void {
  test('a stream with a fallback: one trace, a span for the client and one for each attempt', async () => {
    const endpoint = await endpointOf()
    provider.script(stream({ tokens: 5, promptTokens: 11 }))
    const gateway = await start({ endpoint, protocol, attributes: { 'deployment.environment.name': 'test' } })
    const from = BigInt(Date.now()) * 1_000_000n
    const asked = { stream: true, temperature: 0.5, seed: 7, max_tokens: 50, stream_options: { include_usage: true } }
    const answer = await chat(gateway, asked, PARENT)
    await answer.text()
    const line = await gateway.exchangeLine(answer.headers.get('x-request-id')!)
    await gateway.stop()

    expect(line['trace_id']).toBe(TRACE)
    const server = serverSpan()
    const [first, second] = clientSpans()
    expect(receiver.spans).toHaveLength(3)
    expect(server).toMatchObject({ traceId: TRACE, parentId: CALLER, state: 'vendor=1', status: 0 })
    expect(server.name).toBe('POST /v1/chat/completions')
    expect(server.resource).toMatchObject({ 'service.name': 'tollgate', 'deployment.environment.name': 'test' })
    expect(server.attributes).toEqual({
      'http.request.method': 'POST',
      'http.route': '/v1/chat/completions',
      'http.response.status_code': 200,
      'gen_ai.request.model': 'm',
      'tollgate.exchange.id': line['id'],
      'tollgate.policy': 'test',
      'tollgate.outcome': 'answered',
      'tollgate.account.id': gateway.accountId,
      'tollgate.key.id': line['key'],
      'tollgate.charged_dollars': Number(line['charged']),
    })
    const settings = {
      'gen_ai.operation.name': 'chat',
      'gen_ai.provider.name': 'openai',
      'gen_ai.request.max_tokens': 50,
      'gen_ai.request.stream': true,
      'gen_ai.request.temperature': 0.5,
      'gen_ai.request.seed': 7,
      'server.address': '127.0.0.1',
    }
    expect(first).toMatchObject({ traceId: TRACE, parentId: server.spanId, name: 'chat first-model', status: 2 })
    expect(first!.attributes).toEqual({
      ...settings,
      'gen_ai.request.model': 'first-model',
      'server.port': Number(new URL(REFUSED_URL).port),
      'error.type': 'upstream_unreachable',
      'tollgate.provider': 'dead',
    })
    expect(second).toMatchObject({ traceId: TRACE, parentId: server.spanId, name: 'chat upstream-model', status: 0 })
    expect(second!.attributes).toEqual({
      ...settings,
      'gen_ai.request.model': 'upstream-model',
      'server.port': Number(new URL(provider.baseUrl).port),
      'http.response.status_code': 200,
      'http.request.resend_count': 1,
      'tollgate.provider': 'live',
      'tollgate.usage.source': 'reported',
      'gen_ai.response.time_to_first_chunk': expect.any(Number),
      'gen_ai.response.finish_reasons': ['stop'],
      'gen_ai.response.id': 'chatcmpl-fake0',
      'gen_ai.response.model': 'upstream-model',
      'gen_ai.usage.input_tokens': line['prompt_tokens'],
      'gen_ai.usage.output_tokens': line['completion_tokens'],
    })
    // Each span is within its parent.
    const until = BigInt(Date.now()) * 1_000_000n
    expect(server.start).toBeGreaterThanOrEqual(from)
    expect(server.end).toBeLessThanOrEqual(until)
    expect(server.start).toBeLessThanOrEqual(first!.start)
    expect(first!.end).toBeLessThanOrEqual(second!.start)
    expect(second!.end).toBeLessThanOrEqual(server.end)

    const { headers } = provider.requests[0]!
    expect(headers['traceparent']).toBe(`00-${TRACE}-${second!.spanId}-01`)
    expect(headers['tracestate']).toBe('vendor=1')
    expect(headers).not.toHaveProperty('baggage')
  })

  test.each([2 ** 63, 1e300])('a number that no collector accepts does not lose the batch: %d', async number => {
    const endpoint = await endpointOf()
    const usage = { prompt_tokens: number, completion_tokens: 1, total_tokens: number }
    provider.script(exact({ usage }))
    const gateway = await start({ endpoint, protocol })
    await (await chat(gateway, { model: 'own' })).text()
    await (await chat(gateway, { model: 'own', seed: 2 ** 63 })).text()
    await gateway.stop()
    expect(gateway.log.filter(({ msg }) => msg === 'telemetry cannot be exported')).toEqual([])
    expect(clientSpans()).toHaveLength(2)
    for (const { attributes } of clientSpans()) {
      expect(attributes).toMatchObject({ 'gen_ai.usage.output_tokens': 1 })
      expect(attributes).not.toHaveProperty('gen_ai.usage.input_tokens')
      expect(attributes).not.toHaveProperty('gen_ai.request.seed')
    }
  })

  test('the histograms of the conventions, with their units and bounds', async () => {
    const endpoint = await endpointOf()
    provider.script(stream({ tokens: 5, promptTokens: 11 }))
    const gateway = await start({ endpoint, protocol, ratio: 0 })
    for (let index = 0; index < 3; index++) await (await chat(gateway, { model: 'own', stream: true })).text()
    provider.script(exact())
    await (await chat(gateway, { model: 'own' })).text()
    await gateway.stop()

    expect(receiver.spans, 'a ratio of 0').toEqual([])
    const attributes = {
      'gen_ai.operation.name': 'chat',
      'gen_ai.provider.name': 'openai',
      'gen_ai.request.model': 'upstream-model',
      'server.address': '127.0.0.1',
      'server.port': Number(new URL(provider.baseUrl).port),
    }
    const seconds = { unit: 's', temporality: 2 }
    expect(points('gen_ai.client.operation.duration')).toMatchObject([{ ...seconds, count: 4, attributes }])
    expect(points('gen_ai.client.operation.time_to_first_chunk')).toMatchObject([{ ...seconds, count: 3, attributes }])
    const [duration] = points('gen_ai.client.operation.duration')
    expect(duration!.bounds).toEqual(Array.from({ length: 14 }, (_, power) => 2 ** power / 100))
    expect(duration!.counts.reduce((sum, count) => sum + count, 0)).toBe(4)
    const usage = points('gen_ai.client.token.usage')
    expect(usage.map(each => each.attributes)).toEqual([
      { ...attributes, 'gen_ai.token.type': 'input' },
      { ...attributes, 'gen_ai.token.type': 'output' },
    ])
    expect(usage).toMatchObject([
      { unit: '{token}', count: 4 },
      { unit: '{token}', count: 4 },
    ])
    expect(usage[0]!.bounds).toEqual(Array.from({ length: 14 }, (_, power) => 4 ** power))
    const reported = provider.requests.map(({ emitted }) => emitted.usage!)
    expect(usage[0]!.sum).toBe(reported.reduce((sum, each) => sum + each.prompt_tokens, 0))
    expect(usage[1]!.sum).toBe(reported.reduce((sum, each) => sum + each.completion_tokens, 0))
  })
}

describe('raw routes', () => {
  const json = (value: object) => errorAnswer(200, value)

  test.each(['/v1/embeddings', '/v1/vectors'])('an operation that the path names: %s', async path => {
    provider.script(json({ object: 'list', data: [], usage: { prompt_tokens: 3, total_tokens: 3 } }))
    const gateway = await start({})
    await ask(gateway, path, { model: 'e', input: 'canary-prompt' }, PARENT)
    await gateway.stop()
    const [span] = clientSpans()
    expect(span).toMatchObject({ name: 'embeddings', parentId: serverSpan().spanId, status: 0 })
    expect(span!.attributes).toMatchObject({ 'gen_ai.operation.name': 'embeddings', 'gen_ai.provider.name': 'openai' })
    const { headers } = provider.requests[0]!
    expect(headers['traceparent']).toBe(`00-${TRACE}-${span!.spanId}-01`)
    expect(headers['tracestate']).toBe('vendor=1')
    expect(headers).not.toHaveProperty('baggage')
    expect(points('gen_ai.client.operation.duration')).toMatchObject([{ count: 1 }])
  })

  const OPENAI = { id: 'resp-1', model: 'named-model', usage: { prompt_tokens: 3, total_tokens: 3 } }
  const event = (name: string, data: object) => `event: ${name}\ndata: ${JSON.stringify({ type: name, ...data })}\n\n`
  test.each([
    ['JSON', 'application/json', JSON.stringify(OPENAI)],
    ['a chunk', 'text/event-stream', `data: ${JSON.stringify(OPENAI)}\n\ndata: [DONE]\n\n`],
    ['a response', 'text/event-stream', event('response.completed', { response: OPENAI })],
    [
      'a message',
      'text/event-stream',
      event('message_start', { message: OPENAI }) + event('message_delta', { usage: { output_tokens: 3 } }),
    ],
  ])('the name of an answer by its provider, if its usage is read: %s', async (title, type, body) => {
    provider.script(errorAnswer(200, body, { 'content-type': type }))
    const paid = {
      kind: 'raw',
      policy: 'raw',
      provider: 'live',
      price: { per: '1M tokens', input: '$1' },
      unmetered: true,
    }
    const routes = [
      { ...paid, path: '/v1/embeddings' },
      { ...paid, path: '/listed/v1/embeddings', models: ['listed'] },
      { ...paid, path: '/free/v1/embeddings', models: ['listed'], price: 'free' },
    ]
    const gateway = await start({}, { yaml: { routes } })
    await (await ask(gateway, '/v1/embeddings', { model: 'canary-model', input: 'x' })).text()
    await (await ask(gateway, '/listed/v1/embeddings', { model: 'listed', input: 'x' })).text()
    await (await ask(gateway, '/free/v1/embeddings', { model: 'listed', input: 'x' })).text()
    await gateway.stop()
    const named = clientSpans().map(({ attributes }) => [
      attributes['gen_ai.response.id'],
      attributes['gen_ai.response.model'],
    ])
    // Without a list of models it may be a client's text.
    expect(named).toEqual([
      ['resp-1', undefined],
      ['resp-1', 'named-model'],
      // Without a price whole answers are not read; events are read for their end.
      title === 'JSON' ? [undefined, undefined] : ['resp-1', 'named-model'],
    ])
  })

  test.each([
    ['prose', 'write me a joke'],
    ['long', 'x'.repeat(129)],
    ['a number', 7],
    ['a list', ['x']],
    ['empty', ''],
  ])('a name that is %s is dropped', async (_, name) => {
    provider.script(json({ id: name, model: name, choices: [{ message: { content: 'x' }, finish_reason: 'stop' }] }))
    const gateway = await start({})
    await chat(gateway, { model: 'own' })
    await gateway.stop()
    expect(clientSpans()).toHaveLength(1)
    expect(Object.keys(clientSpans()[0]!.attributes).join()).not.toMatch(/response\.(id|model)/)
  })

  test('other routes are plain HTTP requests, and no GenAI metric counts it', async () => {
    provider.script(json({}))
    const gateway = await start({})
    await ask(gateway, '/v1/things', {})
    await gateway.stop()
    const [span] = clientSpans()
    expect(span!.name).toBe('POST')
    expect(Object.keys(span!.attributes).filter(name => name.startsWith('gen_ai.'))).toEqual([])
    expect(receiver.points).toEqual([])
  })

  test('a provider that fails', async () => {
    provider.script(errorAnswer(503))
    const gateway = await start({})
    await ask(gateway, '/v1/embeddings', { model: 'e', input: 'x' })
    await gateway.stop()
    expect(clientSpans()).toMatchObject([{ status: 2, attributes: { 'http.response.status_code': 503 } }])
    expect(clientSpans()[0]!.attributes).toHaveProperty('error.type')
  })
})

describe('the sampling decision', () => {
  test('a client that does not sample: no span, and the provider gets its trace unchanged', async () => {
    const gateway = await start({})
    await chat(gateway, { model: 'own' }, { ...PARENT, traceparent: `00-${TRACE}-${CALLER}-00` })
    await gateway.stop()
    expect(receiver.spans).toEqual([])
    expect(provider.requests[0]!.headers).toMatchObject({
      traceparent: `00-${TRACE}-${CALLER}-00`,
      tracestate: 'vendor=1',
    })
    expect(points('gen_ai.client.operation.duration')).toMatchObject([{ count: 1 }])
  })

  test('a client that samples: also with a ratio of 0', async () => {
    const gateway = await start({ ratio: 0 })
    await chat(gateway, { model: 'own' }, PARENT)
    await chat(gateway, { model: 'own' })
    await gateway.stop()
    expect(receiver.spans.map(({ traceId }) => traceId)).toEqual([TRACE, TRACE])
  })

  test('without a trace of the client: the trace begins here, and the log has its id', async () => {
    const gateway = await start({})
    const answer = await chat(gateway, { model: 'own' })
    const line = await gateway.exchangeLine(answer.headers.get('x-request-id')!)
    await gateway.stop()
    expect(serverSpan()).toMatchObject({ parentId: '', traceId: line['trace_id'] })
    expect(provider.requests[0]!.headers['traceparent']).toContain(serverSpan().traceId)
  })
})

test('no content, no secrets, no baggage: neither of the client nor of the providers nor of the collector', async () => {
  provider.script(exact({ tokens: ['canary-answer'] }))
  const headers = { authorization: 'Bearer ${COLLECTOR_KEY}', 'x-team': '${COLLECTOR_KEY}' }
  const gateway = await start({ protocol: 'json', headers })
  const words = { user: 'canary-user', stop: ['canary-stop'], metadata: { a: 'canary-metadata' } }
  await (await chat(gateway, { model: 'own', ...words }, PARENT)).text()
  await ask(gateway, '/v1/embeddings?key=canary-query', { model: 'canary-model', input: 'canary-prompt' })
  provider.script(errorAnswer(400, { error: { message: 'canary-answer' } }))
  await chat(gateway, { model: 'own' })
  await gateway.stop()
  expect(receiver.requests[0]!.headers).toMatchObject({
    authorization: `Bearer ${COLLECTOR_KEY}`,
    'x-team': COLLECTOR_KEY,
  })
  const sent = receiver.requests.map(({ body }) => body.toString('utf8')).join('\n')
  expect(sent).toContain('gen_ai.usage.input_tokens')
  expect(sent).not.toContain('canary')
  expect(sent).not.toContain(gateway.key)
  expect(JSON.stringify(gateway.log)).not.toContain(COLLECTOR_KEY)
})

test('without telemetry nothing is exported, whatever the client sends', async () => {
  const gateway = await start(null)
  const answer = await chat(gateway, {}, PARENT)
  const line = await gateway.exchangeLine(answer.headers.get('x-request-id')!)
  await ask(gateway, '/v1/things', {}, PARENT)
  for (const { headers } of provider.requests) {
    expect(headers).not.toHaveProperty('traceparent')
    expect(headers).not.toHaveProperty('tracestate')
  }
  expect(provider.requests).toHaveLength(2)
  expect(line).not.toHaveProperty('trace_id')
  await gateway.stop()
  expect(receiver.requests).toEqual([])
})

test('a reload changes the collector; pending data goes to the old one', async () => {
  await using other = await startOtlpReceiver()
  const gateway = await start({})
  await chat(gateway, { model: 'own' })
  edit(gateway, yaml => {
    yaml['telemetry'] = { endpoint: other.url }
  })
  expect(await gateway.running.reload()).toBe('changed')
  await receiver.until(() => receiver.spans.length === 2)
  await chat(gateway, { model: 'own' })
  // Another change keeps the telemetry, with its sums.
  edit(gateway, yaml => {
    yaml['drain'] = '1m'
  })
  expect(await gateway.running.reload()).toBe('changed')
  await chat(gateway, { model: 'own' })
  await gateway.stop()
  expect(receiver.spans).toHaveLength(2)
  expect(other.spans).toHaveLength(4)
  const ofDurations = other.points.filter(({ metric }) => metric === 'gen_ai.client.operation.duration')
  expect(ofDurations).toMatchObject([{ count: 2 }])
})

test.each([
  ['', null],
  [', also with an id of the operator', 'pod-1'],
])('each serving thread exports its own data, including the last data%s', async (_, instance) => {
  const gateway = await startGateway({
    yaml: {
      version: 1,
      listen: '127.0.0.1:0',
      admin: '127.0.0.1:0',
      threads: 2,
      store: 'sqlite:./tollgate.db',
      telemetry: { endpoint: receiver.url, attributes: instance === null ? {} : { 'service.instance.id': instance } },
      providers: { demo: { dialect: 'demo', pace: '1ms' } },
      models: { m: { targets: [{ provider: 'demo', model: 'd' }], price: PRICE, context: '8Ki', max_output: 100 } },
      routes: [{ path: '/v1/chat/completions', policy: 'test' }],
    },
    policies: { test: { steps: FIVE_STEPS } },
  })
  onTestFinished(() => gateway.kill9())
  const { key } = await createAccount(gateway, { credit: '10' })
  // Its own connection: the kernel assigns each to one of the threads.
  const one = () => ask({ url: gateway.url, key }, '/v1/chat/completions', MESSAGE, { connection: 'close' })
  const statuses = await Promise.all(Array.from({ length: 30 }, async () => (await one()).status))
  expect(new Set(statuses)).toEqual(new Set([200]))
  expect(await gateway.stop()).toBe(0)
  expect(receiver.spans.filter(({ kind }) => kind === 2)).toHaveLength(30)
  const instances = new Set(receiver.spans.map(({ resource }) => resource['service.instance.id']))
  expect(instances.size).toBe(2)
  if (instance !== null) expect([...instances].sort().join()).toMatch(/^pod-1-\d,pod-1-\d$/)
  const traced = gateway.logs().flatMap(line => (line['trace_id'] === undefined ? [] : [line['trace_id']]))
  expect(new Set(receiver.spans.map(({ traceId }) => traceId))).toEqual(new Set(traced))
})

const MESSAGE = { model: 'm', messages: [{ role: 'user', content: 'hi' }] }
