/**
 * Raw routes from the client's socket to the provider's. If the provider fails, the client gets a JSON error in bounded time and pays
 * nothing. Successful answers pass byte for byte and are charged to the nano-dollar.
 */
import { randomBytes } from 'node:crypto'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { ERRORS, type ErrorCode, formatMoney, parseMoney } from '#contract'
import { createToken } from '../../src/store/people/token.ts'
import { countsOf } from '../helpers/counts.ts'
import {
  type Behaviour,
  errorAnswer,
  errorBody,
  type FakeProvider,
  type ProviderRequest,
  REFUSED_URL,
  startFakeProvider,
} from '../helpers/fake-provider.ts'
import { temporaryDirectory } from '../helpers/gateway.ts'
import { type InProcess, startInProcess } from '../helpers/in-process.ts'
import { expectWithin } from '../helpers/promised.ts'
import { openRaw } from '../helpers/raw-client.ts'
import { expectRefusal } from './refusal.ts'

const counts = countsOf('floods')

const PROVIDER_KEY = 'sk-provider-canary-0123456789abcdef'
const PER_TOKEN = { per: '1M tokens', input: '$1' }
/** The gateway's own promise. */
const CLOSED_MAX_MS = 1000
const SILENCE_MS = 1000
const LARGEST_BODY = 256 * 1024

let provider: FakeProvider
let gateway: InProcess

beforeAll(async () => {
  provider = await startFakeProvider({ script: json({}) })
  const keyFile = join(await temporaryDirectory(), 'key')
  await writeFile(keyFile, PROVIDER_KEY, { mode: 0o600 })
  const span = `${SILENCE_MS}ms`
  const timeouts = { connect: span, first_byte: span, idle: span, total: '5s' }
  const remote = { dialect: 'openai', api_key: `\${file:${keyFile}}`, timeouts }
  const raw = { kind: 'raw', policy: 'test', provider: 'p' }
  gateway = await startInProcess({
    steps: [{ use: 'api-key' }, { use: 'credits' }],
    yaml: {
      limits: { body: LARGEST_BODY },
      providers: {
        p: { ...remote, base_url: provider.baseUrl, headers: { 'x-house': 'ours' } },
        dead: { ...remote, base_url: `${REFUSED_URL}/v1` },
      },
      models: {},
      routes: [
        { ...raw, path: '/v1/embeddings', price: PER_TOKEN },
        { ...raw, path: '/v1/moderations', price: { request: '$0.001' } },
        { ...raw, path: '/v1/both', price: { ...PER_TOKEN, request: '$0.001' }, upstream_path: '/deep/er' },
        { ...raw, path: '/v1/files', price: 'free', methods: ['GET', 'PUT', 'DELETE'] },
        { ...raw, path: '/v1/named', price: PER_TOKEN, models: ['embedder', 'other'] },
        { ...raw, path: '/v1/dead', provider: 'dead', price: PER_TOKEN },
      ],
    },
  })
})
afterAll(async () => {
  await gateway.stop()
  await provider.close()
})

/** A behaviour that answers with a body, or with a function of the request. */
function bytes(answer: Buffer | ((request: ProviderRequest) => Buffer), headers: Record<string, string>): Behaviour {
  return {
    name: 'bytes',
    async run(call) {
      const body = typeof answer === 'function' ? answer(call.request) : answer
      call.head(200, { 'content-length': String(body.length), ...headers })
      await call.end(body)
    },
  }
}

function json(value: unknown): Behaviour {
  return bytes(Buffer.from(JSON.stringify(value)), { 'content-type': 'application/json' })
}

const BODY = { model: 'embedder', input: 'Hello, how are you?' }

function post(path: string, body: unknown = BODY, init: RequestInit = {}, to = gateway): Promise<Response> {
  const binary = typeof body === 'string' || Buffer.isBuffer(body)
  const { headers, ...rest } = init
  return fetch(`${to.url}${path}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', authorization: `Bearer ${to.key}`, ...(headers as object) },
    body: binary ? body : JSON.stringify(body),
    ...rest,
  })
}

/** Runs an action that must cost nothing and leave nothing held. */
async function free<T>(run: () => Promise<T>): Promise<T> {
  const before = gateway.balance()
  const result = await run()
  expect(gateway.balance()).toEqual(before)
  expect(before.held).toBe(0n)
  return result
}

describe('refused before anything is sent', () => {
  test('too little credit: 402, no retry', async () => {
    const poor = await gateway.account('0.0009')
    const asked = provider.requests.length
    const answer = await post('/v1/moderations', BODY, { headers: { authorization: `Bearer ${poor.key}` } })
    const { message } = await expectRefusal(answer, 'insufficient_quota')
    expect(message).toContain('$0.0009 of credit')
    expect(message).toContain('This request needs $0.001')
    expect(answer.headers.get('x-should-retry')).toBe('false')
    expect(poor.balance()).toMatchObject({ posted: parseMoney('0.0009'), held: 0n })
    expect(provider.requests.length).toBe(asked)
  })

  test.each<[string, ErrorCode, () => Promise<Response>]>([
    ['no key', 'missing_api_key', () => fetch(`${gateway.url}/v1/embeddings`, { method: 'POST', body: '{}' })],
    [
      'an unknown key',
      'invalid_api_key',
      () => post('/v1/embeddings', BODY, { headers: { authorization: `Bearer ${createToken()}` } }),
    ],
    ['a body that is too large', 'request_too_large', () => post('/v1/embeddings', Buffer.alloc(LARGEST_BODY + 1))],
    [
      'a body that becomes too large',
      'request_too_large',
      () =>
        post('/v1/embeddings', BODY, {
          body: new Blob([new Uint8Array(LARGEST_BODY + 1)]).stream(),
          duplex: 'half',
        } as RequestInit),
    ],
    ['a method that the route does not have', 'method_not_allowed', () => post('/v1/files')],
    ['a method that a raw route must enable', 'method_not_allowed', () => fetch(`${gateway.url}/v1/embeddings`)],
    [
      'OPTIONS, if not enabled',
      'method_not_allowed',
      () => fetch(`${gateway.url}/v1/embeddings`, { method: 'OPTIONS' }),
    ],
    [
      'an encoded body, whose size and content are unknown',
      'unsupported_media_type',
      () => post('/v1/embeddings', gzipSync(JSON.stringify(BODY)), { headers: { 'content-encoding': 'gzip' } }),
    ],
  ])('%s: %s', async (_title, code, ask) => {
    const asked = provider.requests.length
    const answer = await free(ask)
    await expectRefusal(answer, code)
    expect(provider.requests.length).toBe(asked)
    if (code === 'method_not_allowed') expect(answer.headers.get('allow')).toMatch(/^(POST|GET, PUT, DELETE)$/)
  })

  test.each<[string, unknown, ErrorCode, type?: string]>([
    ['another model', { ...BODY, model: 'other' }, 'model_not_found'],
    ['no model', { input: 'Hello' }, 'model_not_found'],
    ['a list of models', { ...BODY, model: ['embedder'] }, 'model_not_found'],
    ['no object', [BODY], 'model_not_found'],
    ['two models', '{"model":"embedder","input":"x","model":"other"}', 'invalid_json'],
    ['two models, one of them escaped', '{"model":"embedder","input":"x","mode\\u006c":"other"}', 'invalid_json'],
    // A provider with a case-insensitive JSON parser uses the last one.
    ['two models, one in capitals', { ...BODY, MODEL: 'other' }, 'unknown_parameter'],
    ['no JSON', 'model=other', 'invalid_json'],
    ['nothing', '', 'invalid_json'],
    ['a form', '--x\r\n\r\n{"model":"embedder"}', 'model_not_found', 'multipart/form-data; boundary=x'],
    ['JSON with another media type', BODY, 'model_not_found', 'text/plain'],
  ])('a key limited to a model, and %s', async (_title, body, code, type = 'application/json') => {
    const { token } = await gateway.running.store.createKey({
      account: gateway.accountId,
      name: 'narrow',
      models: ['embedder'],
    })
    const headers = { authorization: `Bearer ${token}` }
    const asked = provider.requests.length
    const answer = await free(() => post('/v1/named', body, { headers: { ...headers, 'content-type': type } }))
    await expectRefusal(answer, code)
    expect(provider.requests.length).toBe(asked)
    provider.script(json({ usage: { prompt_tokens: 1 } }))
    expect((await post('/v1/named', BODY, { headers })).status).toBe(200)
  })

  test.each([
    ['/v1/embeddings', 'says none'],
    ['/v1/named?model=dearer', 'reads it in the body'],
    ['/v1/named?a=1;Model-Id=embedder', 'reads it in the body, whatever the query names'],
  ])('a key limited to a model, at %s: the route %s', async path => {
    const { store } = gateway.running
    const { token } = await store.createKey({ account: gateway.accountId, name: 'narrow', models: ['embedder'] })
    const asked = provider.requests.length
    const answer = await free(() => post(path, BODY, { headers: { authorization: `Bearer ${token}` } }))
    await expectRefusal(answer, 'model_not_found')
    expect(provider.requests.length).toBe(asked)
  })

  test.each<[string, unknown, ErrorCode, type?: string]>([
    ['a model that its price does not cover', { ...BODY, model: 'dearer' }, 'model_not_found'],
    ['no model', { input: 'Hello' }, 'model_not_found'],
    ['no JSON', 'model=embedder', 'invalid_json'],
    ['JSON in another charset', BODY, 'model_not_found', 'application/json; charset=utf-7'],
    ['bytes', 'x', 'model_not_found', 'application/octet-stream'],
  ])('a route that lists its models, and any key with %s', async (_title, body, code, type = 'application/json') => {
    const asked = provider.requests.length
    const answer = await free(() => post('/v1/named', body, { headers: { 'content-type': type } }))
    await expectRefusal(answer, code)
    expect(provider.requests.length).toBe(asked)
    provider.script(json({ usage: { prompt_tokens: 1 } }))
    for (const model of ['embedder', 'other']) expect((await post('/v1/named', { ...BODY, model })).status).toBe(200)
  })
})

describe('a provider that fails: JSON in bounded time, no charge', () => {
  const half = '{"data":[{"embedding":[0.1,'
  const begin = async (call: Parameters<Behaviour['run']>[0], headers: Record<string, string> = {}) => {
    call.head(200, { 'content-type': 'application/json', ...headers })
    await call.write(half)
  }
  const breaks: readonly [string, ErrorCode, Behaviour['run'] | 'refused'][] = [
    ['is unreachable', 'upstream_unreachable', 'refused'],
    ['resets before the head', 'upstream_unreachable', async call => call.reset()],
    ['closes before the head', 'upstream_unreachable', async call => call.fin()],
    ['sends nothing', 'upstream_timeout', call => call.closed],
    [
      'sends nothing after the head',
      'upstream_timeout',
      async call => {
        call.head(200, { 'content-type': 'application/json', 'content-length': '500' })
        await call.closed
      },
    ],
    [
      'stalls in the middle',
      'upstream_timeout',
      async call => {
        await begin(call)
        await call.closed
      },
    ],
    [
      'resets in the middle',
      'upstream_truncated',
      async call => {
        await begin(call)
        call.reset()
      },
    ],
    [
      'closes in the middle',
      'upstream_truncated',
      async call => {
        await begin(call, { 'content-length': '500' })
        call.fin()
      },
    ],
    ['does not speak HTTP', 'upstream_invalid', async call => void (await call.sendRaw('SSH-2.0-OpenSSH_9.9\r\n\r\n'))],
    ['sends a page', 'upstream_invalid', bytes(Buffer.from('<html>'), { 'content-type': 'text/html' }).run],
    [
      'sends undecodable bytes',
      'upstream_invalid',
      bytes(gzipSync('{}'), { 'content-type': 'application/json', 'content-encoding': 'gzip' }).run,
    ],
  ]

  test.each(breaks)('it %s', async (name, code, run) => {
    if (run !== 'refused') provider.script({ name, run })
    const startedMs = performance.now()
    const answer = await free(() => post(run === 'refused' ? '/v1/dead' : '/v1/embeddings'))
    expectWithin(performance.now() - startedMs, SILENCE_MS + CLOSED_MAX_MS)
    const { message } = await expectRefusal(answer, code)
    expect(message).toBe(ERRORS[code].message)
    expect(gateway.receipt(answer)).toMatchObject({ charged: 0n, outcome: 'failed', code })
    const lines = gateway.log.filter(line => line['exchange'] === answer.headers.get('x-request-id'))
    expect(lines).toEqual([expect.objectContaining({ msg: 'an attempt failed', code, detail: expect.any(String) })])
    expect(answer.headers.get('x-tollgate-cost')).toBe(null)
    // The next request is answered.
    provider.script(json({ usage: { prompt_tokens: 2 } }))
    expect((await post('/v1/embeddings')).status).toBe(200)
  })

  test.each<[number, ErrorCode, Record<string, string>]>([
    [400, 'upstream_rejected', {}],
    [401, 'upstream_auth', { 'www-authenticate': 'Bearer realm="provider.internal"' }],
    [403, 'upstream_forbidden', {}],
    [402, 'upstream_quota', {}],
    [404, 'model_not_found', {}],
    [413, 'request_too_large', {}],
    [429, 'upstream_rate_limited', { 'retry-after': '7' }],
    [500, 'upstream_error', {}],
    [503, 'upstream_overloaded', {}],
    [307, 'upstream_error', { location: 'http://127.0.0.1:1/elsewhere' }],
  ])('it answers %i: %s', async (status, code, headers) => {
    const said = 'The host https://user:hunter2@provider.internal/v1 refused it.'
    provider.script(errorAnswer(status, errorBody(status, said), { 'set-cookie': 'session=theirs', ...headers }))
    const asked = provider.requests.length
    const answer = await free(() => post('/v1/embeddings'))
    expect([...answer.headers].join('\n')).not.toMatch(/theirs|provider|127\.0\.0\.1|location/)
    const { message } = await expectRefusal(answer, code)
    expect(message).not.toMatch(/hunter2|provider\.internal/)
    expect(answer.headers.get('retry-after')).toBe(status === 429 ? '7' : null)
    expect(gateway.receipt(answer)).toMatchObject({ charged: 0n, outcome: 'failed', code })
    expect(provider.requests.length, 'it is asked once').toBe(asked + 1)
  })
})

describe('the client disconnects', () => {
  /** A quarter of the request's bytes, at 1,000 nano-dollars. */
  const PROMPT = BigInt(Math.ceil(JSON.stringify(BODY).length / 4)) * 1_000n
  async function costing(nano: bigint, run: () => Promise<void>): Promise<void> {
    const before = gateway.balance()
    await run()
    expect(gateway.balance()).toEqual({ ...before, posted: before.posted - nano })
  }

  const slow: Record<string, Behaviour> = {
    'before the head': { name: 'silent', run: call => call.closed },
    'in the middle of the answer': {
      name: 'half',
      async run(call) {
        call.head(200, { 'content-type': 'application/json', 'content-length': '500' })
        await call.write('{"data":[')
        await call.closed
      },
    },
  }
  const times: number[] = []
  afterAll(() => {
    console.log(
      `raw, client leaves: upstream closed within ${Math.max(...times).toFixed(1)} ms (${times.length} times)`,
    )
  })

  for (const [when, behaviour] of Object.entries(slow)) {
    test.each(['fin', 'reset'] as const)(`${when}, by %s: upstream is closed, the prompt is charged`, async how => {
      for (let round = 0; round < counts(2, 20); round++) {
        await costing(PROMPT, async () => {
          provider.script(behaviour)
          const [since, index] = [gateway.log.length, provider.requests.length]
          const client = await openRaw(gateway.url)
          await client.post('/v1/embeddings', BODY, { authorization: `Bearer ${gateway.key}` })
          const request = await provider.waitForRequest(index)
          client[how]()
          const leftMs = performance.now()
          const ending = await provider.waitForClose(request)
          expect(ending.how).toMatch(/^(fin|reset)$/)
          times.push(ending.at - leftMs)
          expectWithin(ending.at - leftMs, CLOSED_MAX_MS)
          const line = await gateway.waitForLog(
            line => line['msg'] === 'exchange' && gateway.log.indexOf(line) >= since,
          )
          expect(line).toMatchObject({ outcome: 'client_left', route: '/v1/embeddings', attempts: 1, target: 'p' })
        })
      }
      // Within a second, and not because of the deadline for silence.
      expect(Math.min(...times)).toBeLessThan(SILENCE_MS)
    })
  }
})

describe('the charge', () => {
  const size = BigInt(JSON.stringify(BODY).length)
  const usage = (value: unknown) => json({ object: 'list', data: [], usage: value })
  test.each<[string, string, Behaviour, bigint, string]>([
    ['a request', '/v1/moderations', usage({ prompt_tokens: 900 }), 1_000_000n, 'reported'],
    ['tokens as reported', '/v1/embeddings', usage({ prompt_tokens: 7, total_tokens: 7 }), 7_000n, 'reported'],
    ['tokens by another name', '/v1/embeddings', usage({ input_tokens: 8 }), 8_000n, 'reported'],
    ['both', '/v1/both', usage({ prompt_tokens: 9 }), 1_009_000n, 'reported'],
    [
      'more tokens than bytes: no more than was held',
      '/v1/embeddings',
      usage({ prompt_tokens: 999 }),
      size * 1_000n,
      'clamped',
    ],
    ['less than nothing', '/v1/embeddings', usage({ prompt_tokens: -5 }), 0n, 'clamped'],
    ['no usage: a quarter of the bytes', '/v1/embeddings', usage(undefined), ((size + 3n) / 4n) * 1_000n, 'estimated'],
    [
      'usage that is not a number',
      '/v1/embeddings',
      usage({ prompt_tokens: '7' }),
      ((size + 3n) / 4n) * 1_000n,
      'estimated',
    ],
    [
      'JSON in upper case',
      '/v1/embeddings',
      bytes(Buffer.from('{"usage":{"prompt_tokens":7}}'), { 'content-type': 'Application/JSON' }),
      7_000n,
      'reported',
    ],
    [
      'an answer that is not JSON',
      '/v1/embeddings',
      bytes(randomBytes(50), {}),
      ((size + 3n) / 4n) * 1_000n,
      'estimated',
    ],
  ])('%s', async (_title, path, behaviour, nano, source) => {
    provider.script(behaviour)
    const before = gateway.balance().posted
    const answer = await post(path, BODY, { headers: { 'idempotency-key': 'serial-1' } })
    expect(answer.status).toBe(200)
    expect(answer.headers.get('x-tollgate-cost')).toBe(formatMoney(nano))
    expect(gateway.balance()).toMatchObject({ posted: before - nano, held: 0n })
    const id = answer.headers.get('x-request-id')!
    const receipt = await fetch(`${gateway.url}/v1/receipts/${id}`, {
      headers: { authorization: `Bearer ${gateway.key}` },
    })
    expect(await receipt.json()).toMatchObject({
      id,
      charged: formatMoney(nano),
      outcome: 'answered',
      usage: { source },
      attempts: [{ target: 'p', status: 200, code: null }],
      idempotency_key: 'serial-1',
    })
  })
})

describe('passing data', () => {
  test("upstream: the body, its type and the provider's key; nothing else of the client", async () => {
    provider.script(json({ usage: { prompt_tokens: 1 } }))
    const index = provider.requests.length
    const client = await openRaw(gateway.url)
    const body = JSON.stringify(BODY)
    await client.send(
      [
        `POST /v1/both?api_key=${gateway.key} HTTP/1.1`,
        'Host: gateway.example',
        `Authorization: Bearer ${gateway.key}`,
        'Cookie: session=mine',
        'Content-Type: application/json; charset=utf-8',
        `Content-Length: ${body.length}`,
        'Connection: keep-alive, X-Hop',
        'X-Hop: 1',
        'Keep-Alive: timeout=5',
        'TE: trailers',
        'Proxy-Authorization: Basic bWluZQ==',
        'X-Forwarded-For: 192.0.2.7',
        'Forwarded: for=192.0.2.7',
        'Via: 1.1 mine',
        'X-House: mine',
        'OpenAI-Organization: mine',
        'Accept-Encoding: gzip',
        'User-Agent: mine',
        'Referer: https://mine.example/',
        '',
        body,
      ].join('\r\n'),
    )
    expect((await client.readResponse()).status).toBe(200)
    client.socket.destroy()
    const request = await provider.waitForRequest(index)
    expect(request).toMatchObject({ method: 'POST', path: '/v1/deep/er' })
    expect(request.raw.toString()).toBe(body)
    expect(request.headers).toMatchObject({
      authorization: `Bearer ${PROVIDER_KEY}`,
      'content-type': 'application/json; charset=utf-8',
      'content-length': String(body.length),
      'accept-encoding': 'identity',
      'x-house': 'ours',
      host: new URL(provider.url).host,
    })
    const all = request.rawHeaders.join('\n')
    expect(all).not.toContain(gateway.key)
    expect(all).not.toMatch(/mine|192\.0\.2|x-hop|cookie|proxy-auth|forwarded|^te$/im)
  })

  test("to the client: the body and its type; neither the provider's key nor its other headers", async () => {
    provider.script(
      bytes(Buffer.from('{"a":1}'), {
        'content-type': 'application/json',
        'content-disposition': 'attachment; filename="a.json"',
        'set-cookie': 'session=theirs',
        server: 'theirs',
        'x-request-id': 'theirs',
        'x-tollgate-cost': 'theirs',
        'access-control-allow-origin': 'theirs',
        'x-echo': PROVIDER_KEY,
      }),
    )
    const answer = await post('/v1/moderations')
    expect(await answer.text()).toBe('{"a":1}')
    expect(answer.headers.get('content-disposition')).toBe('attachment; filename="a.json"')
    expect([...answer.headers].join('\n')).not.toMatch(/theirs|canary|cookie/)
    expect(JSON.stringify(gateway.log)).not.toMatch(/canary|tg_live_/)
  })

  test('any bytes in both directions', async () => {
    const up = randomBytes(200_000)
    const down = randomBytes(1_500_000)
    provider.script(bytes(down, { 'content-type': 'audio/wav' }))
    const index = provider.requests.length
    const type = 'multipart/form-data; boundary="--x"'
    const answer = await post('/v1/moderations', up, { headers: { 'content-type': type } })
    expect(answer.headers.get('content-type')).toBe('audio/wav')
    expect(Buffer.from(await answer.arrayBuffer()).equals(down)).toBe(true)
    const request = await provider.waitForRequest(index)
    expect(request.raw.equals(up)).toBe(true)
    expect(request.headers['content-type']).toBe(type)
  })

  test.each([
    ['GET', undefined],
    ['DELETE', undefined],
    ['PUT', '{"a":1}'],
  ])('%s, if the route enables it', async (method, body) => {
    provider.script(json({ deleted: true }))
    const index = provider.requests.length
    const answer = await free(() =>
      fetch(`${gateway.url}/v1/files`, {
        method,
        headers: { authorization: `Bearer ${gateway.key}` },
        ...(body === undefined ? {} : { body }),
      }),
    )
    expect(await answer.json()).toEqual({ deleted: true })
    const request = await provider.waitForRequest(index)
    expect(request).toMatchObject({ method, path: '/v1/files' })
    expect(request.raw.toString()).toBe(body ?? '')
  })

  test('fifty at once, each answered correctly and charged once', async () => {
    provider.script(request => json({ echo: request.body?.['input'], usage: { prompt_tokens: 3 } }))
    const before = gateway.balance().posted
    const names = Array.from({ length: 50 }, (_, at) => `${at} ${'x'.repeat((at * 997) % 20_000)}`)
    const answers = await Promise.all(names.map(input => post('/v1/embeddings', { input })))
    const echoes = await Promise.all(answers.map(async answer => ((await answer.json()) as { echo: string }).echo))
    expect(echoes).toEqual(names)
    expect(new Set(answers.map(answer => answer.headers.get('x-request-id'))).size).toBe(50)
    expect(gateway.balance()).toMatchObject({ posted: before - 50n * 3_000n, held: 0n })
  })

  test('without a key and unmetered, if the route has both settings', async () => {
    await using open = await startInProcess({
      steps: [{ use: 'rate-limit', with: { per: 'address', requests: '2 per hour' } }],
      yaml: {
        providers: { p: { dialect: 'openai', base_url: provider.baseUrl } },
        models: {},
        routes: [
          {
            path: '/v1/embeddings',
            kind: 'raw',
            policy: 'test',
            provider: 'p',
            price: PER_TOKEN,
            public: true,
            unmetered: true,
          },
        ],
      },
    })
    provider.script(json({ fine: true }))
    const ask = (headers: Record<string, string>) =>
      fetch(`${open.url}/v1/embeddings`, { method: 'POST', headers, body: 'x' })
    const answer = await ask({})
    expect(await answer.json()).toEqual({ fine: true })
    expect(answer.headers.get('x-tollgate-cost')).toBe(null)
    const index = provider.requests.length
    expect((await ask({ authorization: `Bearer ${open.key}` })).status).toBe(200)
    expect((await provider.waitForRequest(index)).headers).not.toHaveProperty('authorization')
    await expectRefusal(await ask({}), 'rate_limit_exceeded')
    expect(open.running.store.reads.verify()).toMatchObject({ openHolds: 0, violations: [] })
  })
})

test('the ledger agrees', () => {
  expect(gateway.running.store.reads.verify()).toMatchObject({ openHolds: 0, violations: [] })
})
