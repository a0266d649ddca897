import { once } from 'node:events'
import { createServer, request as httpRequest } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterEach, describe, expect, it } from 'vitest'
import { createDeadlineClock, type DeadlineClock } from '../../src/common/clock.ts'
import { errorDetails, failureOf } from '../../src/providers/dialects/failure.ts'
import { createRawProxy, RawFailure, type RawProxy, type RawRequest } from '../../src/providers/raw.ts'
import { countsOf } from '../helpers/counts.ts'
import {
  type Behaviour,
  blackHole,
  type Call,
  errorAnswer,
  FAULTS,
  type FakeProvider,
  type ProviderRequest,
  type Script,
  startFakeProvider,
  UNREACHABLE,
} from '../helpers/fake-provider.ts'
import { expectWithin } from '../helpers/promised.ts'

const PROVIDER_KEY = 'provider-key-0123456789'
const SHORT = { connectMs: 300, firstByteMs: 400, idleMs: 300, totalMs: 1500 }
const LONG = { connectMs: 20_000, firstByteMs: 20_000, idleMs: 20_000, totalMs: 20_000 }
const cleanups: (() => unknown)[] = []
afterEach(async () => {
  for (const clean of cleanups.splice(0).reverse()) await clean()
})

describe('an unreachable provider', () => {
  it.each(UNREACHABLE)('$id $title: fails in time and leaves no timers or connections', async ({ open }) => {
    const place = await open()
    cleanups.push(place.close)
    const { send, watchers } = setUp(place.url, { timeouts: SHORT })
    const failure = await failed(send())
    expect(failure.status).toBeNull()
    expect(failure.failure.code).toMatch(/^upstream_(unreachable|timeout)$/)
    expect(watchers()).toBe(0)
  })

  it('fails at the connect deadline, long before the one for the answer', async () => {
    const hole = await blackHole()
    cleanups.push(hole.close)
    const { send } = setUp(hole.url, { timeouts: { ...LONG, connectMs: 200 } })
    const { failure } = await failed(send())
    expect(failure).toEqual({ code: 'upstream_timeout', detail: 'no connection within 200 ms' })
  })
})

describe('a provider that fails', () => {
  const expected: Record<string, [string, RegExp]> = {
    'reset before the head': ['upstream_unreachable', /ECONNRESET/],
    'closed before the head': ['upstream_unreachable', /ECONNRESET|hang up/],
    'silence before the head': ['upstream_timeout', /no answer within 400 ms/],
    'silence after the head': ['upstream_timeout', /no data for 300 ms/],
    'reset in the middle': ['upstream_truncated', /ECONNRESET|aborted/],
    'closed in the middle': ['upstream_truncated', /ECONNRESET|aborted/],
    'a byte each 200 ms': ['upstream_timeout', /longer than 1500 ms/],
    'silence in the middle': ['upstream_timeout', /no data for 300 ms/],
    'shorter than its content-length': ['upstream_truncated', /ECONNRESET|aborted/],
    '100 MiB without a newline': ['upstream_too_large', /larger than 16384 bytes/],
    '200 with a page': ['upstream_invalid', /text\/html/],
    '429 with Retry-After: 20': ['upstream_rate_limited', /status 429/],
    '500 with JSON': ['upstream_error', /status 500/],
    '502 with a page': ['upstream_error', /status 502/],
    '503 with nothing': ['upstream_overloaded', /status 503/],
    '301 to another host': ['upstream_error', /redirects are not followed/],
    '302 to another host': ['upstream_error', /redirects are not followed/],
    '307 to another host': ['upstream_error', /redirects are not followed/],
    '308 to another host': ['upstream_error', /redirects are not followed/],
    'a gzip bomb': ['upstream_invalid', /encoded \(gzip\)/],
    'an unknown encoding': ['upstream_invalid', /encoded \(zigzag\)/],
    'a thousand encodings': ['upstream_invalid', /encoded \(gzip, gzip.{0,100}\), but/],
    '1 MiB of headers': ['upstream_invalid', /HPE_HEADER_OVERFLOW/],
    'a carriage return in a header': ['upstream_invalid', /HPE_/],
    'status 000': ['upstream_invalid', /./],
    '10,000 early hints': ['upstream_invalid', /too many informational/],
    'never ends': ['upstream_too_large', /larger than 16384 bytes/],
  }

  it('every expected title belongs to a fault', () => {
    const titles = new Set(FAULTS.map(fault => fault.title))
    expect(Object.keys(expected).filter(title => !titles.has(title))).toEqual([])
  })

  it.each(FAULTS)('$id $title: ends in time and leaves no timers or connections', async fault => {
    const provider = await start(fault.make('whole'))
    const row = expected[fault.title]
    const timeouts = row?.[0] === 'upstream_timeout' ? SHORT : LONG
    const { send, watchers } = setUp(provider.baseUrl, { timeouts, largestBytes: 16_384 })
    const outcome = await send().catch(error => error)
    if (row) {
      expect(outcome).toBeInstanceOf(RawFailure)
      expect(outcome.failure.code).toBe(row[0])
      expect(outcome.failure.detail).toMatch(row[1])
    } else if (!(outcome instanceof RawFailure)) {
      expect(outcome.status).toBeLessThan(300)
      const { text, bytes } = (await provider.waitForRequest()).emitted
      if (!text.startsWith('HTTP')) expect(outcome.body).toHaveLength(bytes)
    }
    expect(watchers()).toBe(0)
    expect(provider.requests, 'no redirect is followed').toHaveLength(1)
  })

  it.each([
    [429, 'upstream_rate_limited'],
    [401, 'upstream_auth'],
    [503, 'upstream_overloaded'],
  ])('status %i has its own code even if its body is encoded', async (status, code) => {
    const provider = await start(errorAnswer(status, 'xx', { 'content-encoding': 'gzip', 'retry-after': '7' }))
    const { failure, status: kept } = await failed(setUp(provider.baseUrl).send())
    expect(kept).toBe(status)
    expect(failure).toMatchObject({ code, ...(status === 401 ? {} : { retryAfterMs: 7000 }) })
  })

  it.each(['identity', 'Identity', ''])('content-encoding %j counts as unencoded', async encoding => {
    const provider = await start(answer('{}', { 'content-encoding': encoding }))
    expect((await setUp(provider.baseUrl).send()).body.toString()).toBe('{}')
  })

  it('reads only a part of a huge error body and keeps its status', async () => {
    const provider = await start({
      name: 'a huge error',
      async run(call) {
        call.head(429, { 'retry-after': '7' })
        while (await call.write(Buffer.alloc(65_536, 'a')));
      },
    })
    const { send } = setUp(provider.baseUrl)
    const { failure, status } = await failed(send())
    expect(status).toBe(429)
    expect(failure).toMatchObject({ code: 'upstream_rate_limited', retryAfterMs: 7000 })
    await provider.waitForClose(provider.requests[0]!)
  })

  it('a status whose body breaks off is kept', async () => {
    const provider = await start({
      name: 'half an error',
      async run(call) {
        call.head(401, { 'content-length': '1000' })
        await call.write('{"error": ')
        call.reset()
      },
    })
    const { failure, status } = await failed(setUp(provider.baseUrl).send())
    expect([failure.code, status]).toEqual(['upstream_auth', 401])
  })

  it('an answer whose content-length is too large is not read', async () => {
    const provider = await start({
      name: 'too large',
      async run(call) {
        call.head(200, { 'content-length': '1001' })
        await call.closed
      },
    })
    const { failure } = await failed(setUp(provider.baseUrl, { largestBytes: 1000 }).send())
    expect(failure).toMatchObject({ code: 'upstream_too_large', detail: expect.stringContaining('limits.answer') })
    await provider.waitForClose(provider.requests[0]!)
  })

  it('an answer that arrives before a large body was sent completely is used', async () => {
    const provider = await start([
      {
        name: 'too large for me',
        early: true,
        async run(call) {
          call.head(413, { 'content-length': '2' })
          await call.end('{}')
        },
      },
    ])
    const { send, watchers } = setUp(provider.baseUrl)
    const { failure, status } = await failed(send({ bytes: Buffer.alloc(16 * 1024 * 1024) }))
    expect([failure.code, status]).toEqual(['request_too_large', 413])
    expect(watchers()).toBe(0)
  })

  it('an answer of exactly the maximum size passes', async () => {
    const provider = await start(answer(Buffer.alloc(1000, 'x')))
    const { body } = await setUp(provider.baseUrl, { largestBytes: 1000 }).send()
    expect(body).toHaveLength(1000)
  })

  it("leaves the client's connection open when it fails in the middle of an answer", async () => {
    const provider = await start(FAULTS.find(fault => fault.title === 'reset in the middle')!.make('whole'))
    const { send } = setUp(provider.baseUrl)
    const gateway = createServer(async (request, response) => {
      const outcome = await send({ request }).catch((error: unknown) => error)
      response.writeHead(502).end(outcome instanceof RawFailure ? outcome.failure.code : 'no failure')
    })
    await new Promise<void>(resolve => gateway.listen(0, '127.0.0.1', resolve))
    cleanups.push(() => gateway.close())
    const response = await fetch(`http://127.0.0.1:${(gateway.address() as AddressInfo).port}`)
    expect([response.status, await response.text()]).toEqual([502, 'upstream_truncated'])
  })
})

describe('a status that is not 2xx', () => {
  it.each([
    [400, 'upstream_rejected'],
    [401, 'upstream_auth'],
    [403, 'upstream_forbidden'],
    [402, 'upstream_quota'],
    [413, 'request_too_large'],
    [429, 'upstream_rate_limited'],
    [500, 'upstream_error'],
    [503, 'upstream_overloaded'],
    [529, 'upstream_overloaded'],
  ])('%i has the code of decodeError: %s', async (status, code) => {
    const provider = await start(errorAnswer(status, { error: { message: 'No.', type: 't', param: null, code: null } }))
    const failure = await failed(setUp(provider.baseUrl).send())
    expect([failure.status, failure.failure.code]).toEqual([status, code])
    expect(failure.failure.detail).toContain('No.')
  })

  it('a decodeError that throws is a rejection and not the end of the process', async () => {
    const provider = await start(errorAnswer(500))
    const { send } = setUp(provider.baseUrl)
    const decodeError = () => {
      throw new Error('cannot decode')
    }
    await expect(send({ decodeError })).rejects.toThrow('cannot decode')
  })
})

describe('a client that disconnects', () => {
  const moments: [string, (call: Call) => Promise<void>][] = [
    ['before the head', call => call.closed],
    [
      'in the middle of the answer',
      async call => {
        call.head(200, { 'content-type': 'application/octet-stream' })
        await call.write(Buffer.alloc(1000))
        await call.step(async () => {})
        await call.closed
      },
    ],
    [
      'in the middle of an error',
      async call => {
        call.head(500)
        await call.write('{"error"')
        await call.step(async () => {})
        await call.closed
      },
    ],
  ]
  it.each(moments)('%s: the upstream connection is closed within a second', async (when, run) => {
    const rounds = countsOf('floods')(5, 50)
    const provider = await start({ name: when, run })
    const { send, watchers } = setUp(provider.baseUrl)
    for (let round = 0; round < rounds; round++) {
      const controller = new AbortController()
      const answer = send({ signal: controller.signal })
      const refusal = expect(answer).rejects.toMatchObject({ name: 'AbortError', isBillable: true })
      const request = await provider.waitForRequest(round)
      if (when !== 'before the head') await request.step()
      const leftAt = performance.now()
      controller.abort()
      const { how, at } = await provider.waitForClose(request)
      expect(how).not.toBe('answered')
      expectWithin(at - leftAt, 1000)
      await refusal
    }
    expect(watchers()).toBe(0)
  })

  it('before anything was sent: nothing is sent', async () => {
    const provider = await start(answer('{}'))
    const { send } = setUp(provider.baseUrl)
    const reason = new Error('left')
    await expect(send({ signal: AbortSignal.abort(reason) })).rejects.toMatchObject({
      name: 'AbortError',
      isBillable: false,
    })
    expect(provider.connections).toBe(0)
  })

  it('while it waits for a connection', async () => {
    const hole = await blackHole()
    cleanups.push(hole.close)
    const { send, watchers } = setUp(hole.url)
    const controller = new AbortController()
    const answer = send({ signal: controller.signal })
    setImmediate(() => controller.abort())
    await expect(answer).rejects.toMatchObject({ name: 'AbortError', isBillable: false })
    expect(watchers()).toBe(0)
  })

  it('50 at once: no connection stays open', async () => {
    const { provider, closed } = await startSilent()
    const { send } = setUp(provider.baseUrl)
    const controller = new AbortController()
    const answers = Array.from({ length: 50 }, () => send({ signal: controller.signal }).catch(error => error.name))
    await provider.waitForRequest(49)
    controller.abort()
    expect(new Set(await Promise.all(answers))).toEqual(new Set(['AbortError']))
    await Promise.all(closed)
    expect(provider.openConnections).toBe(0)
  })
})

describe('the upstream request', () => {
  const HOSTILE: Record<string, string> = {
    authorization: 'Bearer tg_live_canary',
    'proxy-authorization': 'Basic canary',
    cookie: 'session=canary',
    'x-api-key': 'canary',
    'api-key': 'canary',
    'x-goog-api-key': 'canary',
    'openai-organization': 'org-canary',
    'openai-project': 'proj-canary',
    'x-forwarded-for': '6.6.6.6, canary',
    'x-forwarded-host': 'canary.example',
    'x-forwarded-proto': 'canary',
    'x-real-ip': 'canary',
    forwarded: 'for=canary',
    via: '1.1 canary',
    host: 'canary.example',
    'user-agent': 'canary/1.0',
    accept: 'text/canary',
    'accept-encoding': 'gzip, canary',
    'accept-language': 'canary',
    'x-request-id': 'canary',
    'x-http-method-override': 'DELETE-canary',
    'idempotency-key': 'canary',
    origin: 'https://canary.example',
    referer: 'https://canary.example/canary',
    te: 'trailers, canary',
    upgrade: 'canary',
    expect: '100-canary',
    range: 'bytes=0-canary',
  }

  it('has exactly the headers built here, whatever the client sends', async () => {
    const provider = await start(answer('{}'))
    const { send } = setUp(provider.baseUrl, {
      headers: { ...OUR_HEADERS, 'api-version': '2026-01-01', 'openai-organization': 'ours' },
    })
    const headers = { ...HOSTILE, 'content-type': 'application/json; charset=utf-8' }
    await send({ request: { method: 'POST', headers }, bytes: Buffer.from('{"input":"x"}') })
    const { rawHeaders, method, path } = provider.requests[0]!
    expect([method, path]).toEqual(['POST', '/v1/embeddings'])
    expect(pairs(rawHeaders)).toEqual({
      host: new URL(provider.url).host,
      connection: 'keep-alive',
      accept: '*/*',
      'accept-encoding': 'identity',
      'api-version': '2026-01-01',
      authorization: `Bearer ${PROVIDER_KEY}`,
      'content-length': '13',
      'content-type': 'application/json; charset=utf-8',
      'openai-organization': 'ours',
      'user-agent': 'tollgate/test',
      'x-request-id': 'req_1',
    })
    expect(JSON.stringify(rawHeaders)).not.toContain('canary')
  })

  it('has no header of the client for a request to a real server either', async () => {
    const provider = await start(answer('{}'))
    const { send } = setUp(provider.baseUrl)
    const gateway = createServer(async (request, response) => {
      request.resume()
      await send({ request })
      response.end()
    })
    await new Promise<void>(resolve => gateway.listen(0, '127.0.0.1', resolve))
    cleanups.push(() => gateway.close())
    const { te: _te, upgrade: _upgrade, expect: _expect, ...headers } = HOSTILE
    const { port } = gateway.address() as AddressInfo
    const client = httpRequest({ port, host: '127.0.0.1', method: 'POST', headers })
    client.end('{}')
    const [response] = await once(client, 'response')
    response.resume()
    expect(JSON.stringify(provider.requests[0]!.rawHeaders)).not.toContain('canary')
  })

  it('has no Authorization if the provider has no key, and the configured header if there is one', async () => {
    const provider = await start(answer('{}'))
    const { authorization: _key, ...headers } = OUR_HEADERS
    const { send } = setUp(provider.baseUrl, { headers })
    await send({ request: { method: 'POST', headers: HOSTILE } })
    expect(provider.requests[0]!.headers).not.toHaveProperty('authorization')
    const other = setUp(provider.baseUrl, { headers: { ...headers, authorization: 'Basic b3Vycw==' } })
    await other.send({ request: { method: 'POST', headers: HOSTILE } })
    expect(provider.requests[1]!.headers['authorization']).toBe('Basic b3Vycw==')
  })

  it.each([
    ['/v1', '/embeddings', '/v1/embeddings'],
    ['', '/embeddings', '/embeddings'],
    ['/openai/deployments/a', '/embeddings?api-version=2', '/openai/deployments/a/embeddings?api-version=2'],
  ])('base path "%s" and path "%s" become %s', async (base, path, whole) => {
    const provider = await start(answer('{}'))
    await setUp(provider.url + base).send({ path })
    expect(provider.requests[0]!.path).toBe(whole)
  })

  it('a GET without a body has no content-length', async () => {
    const provider = await start(answer('{}'))
    const { send } = setUp(provider.baseUrl)
    await send({ request: { method: 'GET', headers: {} }, bytes: Buffer.alloc(0) })
    expect(provider.requests[0]!.method).toBe('GET')
    expect(Object.keys(provider.requests[0]!.headers)).not.toContain('content-type')
    expect(Object.keys(provider.requests[0]!.headers)).not.toContain('content-length')
    expect(Object.keys(provider.requests[0]!.headers)).not.toContain('transfer-encoding')
  })

  it('an IPv6 address of a provider works', async context => {
    const server = createServer((_request, response) => response.end('six'))
    const listening = await new Promise<boolean>(resolve => {
      server.once('error', () => resolve(false)).listen(0, '::1', () => resolve(true))
    })
    if (!listening) return context.skip('the loopback has no IPv6')
    cleanups.push(() => server.close())
    const { body } = await setUp(`http://[::1]:${(server.address() as AddressInfo).port}/v1`).send()
    expect(body.toString()).toBe('six')
  })
})

describe('bytes', () => {
  it.each([
    ['an empty body', Buffer.alloc(0)],
    ['every byte', Buffer.from(Array.from({ length: 256 }, (_, index) => index))],
    ['a megabyte', Buffer.from(Array.from({ length: 1024 * 1024 }, (_, index) => (index * 2654435761) >>> 13))],
    ['text', Buffer.from('{"input":"naïve €uro 😀\\u0000"}\r\n')],
  ])('%s: forwarded unchanged in both directions', async (_title, bytes) => {
    const provider = await start(request => answer(request.raw, { 'content-type': 'audio/mpeg' }))
    const { status, body, headers } = await setUp(provider.baseUrl).send({
      request: { method: 'POST', headers: { 'content-type': 'multipart/form-data; boundary=x' } },
      bytes,
    })
    expect(status).toBe(200)
    expect(provider.requests[0]!.raw.equals(bytes)).toBe(true)
    expect(body.equals(bytes)).toBe(true)
    expect(headers).toEqual({ 'content-type': 'audio/mpeg' })
    expect(provider.requests[0]!.headers['content-type']).toBe('multipart/form-data; boundary=x')
  })

  it('an answer in many pieces is joined, and two of its headers are kept', async () => {
    const provider = await start({
      name: 'pieces',
      async run(call) {
        call.head(201, {
          'content-type': 'text/csv',
          'content-disposition': 'attachment; filename="a.csv"',
          'set-cookie': ['a=b', 'c=d'],
          'x-ratelimit-limit-requests': '5',
          location: 'https://elsewhere.example',
        })
        for (let index = 0; index < 50; index++) await call.write(`${index},`)
        await call.end()
      },
    })
    const { status, body, headers } = await setUp(provider.baseUrl).send()
    expect(status).toBe(201)
    expect(body.toString()).toBe(Array.from({ length: 50 }, (_, index) => `${index},`).join(''))
    expect(headers).toEqual({ 'content-type': 'text/csv', 'content-disposition': 'attachment; filename="a.csv"' })
  })
})

describe('an answer that is forwarded while it arrives', () => {
  const pieces = (count: number, end: (call: Call) => unknown = call => call.end()): Behaviour => ({
    name: 'pieces',
    async run(call) {
      call.head(200, { 'content-type': 'audio/mpeg', 'set-cookie': 'a=b' })
      for (let index = 0; index < count; index++) await call.write(Buffer.alloc(1000, String(index)))
      await end(call)
    },
  })

  it('that breaks off is a failure, like an answer that is collected first', async () => {
    const provider = await start(pieces(2, call => call.step(async () => call.reset())))
    const { send, watchers } = setUp(provider.baseUrl)
    let bytes = 0
    const begin = () => (piece: Buffer) => {
      bytes += piece.length
      if (bytes === 2000) void provider.step()
      return true
    }
    const { failure, status } = await failed(send({ begin }))
    expect([failure.code, status, bytes]).toEqual(['upstream_truncated', 200, 2000])
    expect(watchers()).toBe(0)
  })

  it('to a sink that throws fails with its error and closes the connection to the provider', async () => {
    const provider = await start(pieces(1, call => call.closed))
    const { send, watchers } = setUp(provider.baseUrl)
    const begin = () => () => {
      throw new Error('no more')
    }
    await expect(send({ begin })).rejects.toThrow('no more')
    expect((await provider.waitForClose(provider.requests[0]!)).how).not.toBe('answered')
    expect(watchers()).toBe(0)
  })

  it('is never too large, and none of it is kept', async () => {
    const provider = await start(pieces(9))
    let bytes = 0
    const begin = (head: object) => {
      expect(head).toEqual({ status: 200, headers: { 'content-type': 'audio/mpeg' }, length: null })
      return (piece: Buffer) => {
        bytes += piece.length
        return true
      }
    }
    const { body } = await setUp(provider.baseUrl, { largestBytes: 1000 }).send({ begin })
    expect([bytes, body.length]).toEqual([9000, 0])
  })

  it('waits as long as the sink is full; that time does not count as idle', async () => {
    const provider = await start(pieces(3))
    const { send } = setUp(provider.baseUrl, { timeouts: { ...LONG, idleMs: 200 } })
    const taken: number[] = []
    const begin = (_head: object, resume: () => void) => (piece: Buffer) => {
      taken.push(piece.length)
      setTimeout(resume, taken.length === 1 ? 500 : 0)
      return false
    }
    await send({ begin })
    expect(taken.reduce((sum, each) => sum + each, 0)).toBe(3000)
  })

  it.each([
    ['an error', errorAnswer(429), 'upstream_rate_limited'],
    ['a redirect', errorAnswer(302), 'upstream_error'],
    ['an HTML page', answer('<html>', { 'content-type': 'text/html' }), 'upstream_invalid'],
  ])('%s is not forwarded', async (_title, script, code) => {
    const provider = await start(script)
    const begin = () => {
      throw new Error('asked')
    }
    expect((await failed(setUp(provider.baseUrl).send({ begin }))).failure.code).toBe(code)
  })

  it('is collected if `begin` returns null', async () => {
    const provider = await start(answer('{}'))
    const { body } = await setUp(provider.baseUrl).send({ begin: () => null })
    expect(body.toString()).toBe('{}')
  })
})

describe('connections', () => {
  it('requests one after the other share a connection; after a failure a new one is opened', async () => {
    const reset: Behaviour = { name: 'reset', run: async call => call.reset() }
    const provider = await start([answer('1'), answer('2'), errorAnswer(500), answer('4'), reset, answer('6')])
    const { send } = setUp(provider.baseUrl)
    for (let index = 0; index < 6; index++) await send().catch(() => {})
    expect(provider.requests.map(request => request.connection)).toEqual([0, 0, 0, 0, 0, 1])
  })

  it('never exceed the maximum of the provider; a request that times out while it waits is never sent', async () => {
    const held: Behaviour = {
      name: 'held',
      async run(call) {
        if (!(await call.step(async () => call.head(200, { 'content-length': '2' })))) return
        await call.end('{}')
      },
    }
    const provider = await start(held)
    const { send, watchers } = setUp(provider.baseUrl)
    const narrow = { name: 'narrow', baseUrl: provider.baseUrl, timeouts: LONG, connections: 2 }
    const first = [send({ provider: narrow }), send({ provider: narrow })]
    await provider.waitForRequest(1)
    const late = failed(send({ provider: { ...narrow, timeouts: SHORT } }))
    const leaving = new AbortController()
    const aborted = send({ provider: narrow, signal: leaving.signal }).catch((error: Error) => error.name)
    const waiting = send({ provider: narrow })
    const other = setUp(provider.baseUrl).send()
    await provider.waitForRequest(2)
    expect((await late).failure).toEqual({
      code: 'overloaded',
      retryAfterMs: 1000,
      detail: 'no connection to the provider was free: no answer within 400 ms',
    })
    leaving.abort()
    expect(await aborted).toBe('AbortError')
    expect([provider.openConnections, provider.requests.length]).toEqual([3, 3])
    provider.release()
    expect((await Promise.all([...first, other, waiting])).map(each => each.body.toString())).toEqual(
      Array(4).fill('{}'),
    )
    expect([provider.connections, provider.requests.length, watchers()]).toEqual([3, 4, 0])
  })

  it('close() ends them, and requests in progress fail', async () => {
    const { provider, closed } = await startSilent()
    const { send, proxy } = setUp(provider.baseUrl)
    const answer = failed(send())
    await provider.waitForRequest()
    proxy.close()
    await Promise.all(closed)
    expect((await answer).failure.code).toBe('upstream_unreachable')
    expect(provider.openConnections).toBe(0)
  })
})

async function start(script: Script): Promise<FakeProvider> {
  const provider = await startFakeProvider({ script })
  cleanups.push(provider.close)
  return provider
}

/** A provider that stays silent, and promises that resolve when its connections are closed. */
async function startSilent(): Promise<{ provider: FakeProvider; closed: Promise<void>[] }> {
  const closed: Promise<void>[] = []
  const run = (call: Call) => {
    closed.push(call.closed)
    return call.closed
  }
  return { provider: await start({ name: 'silence', run }), closed }
}

interface SetUp {
  readonly proxy: RawProxy
  send(request?: Partial<RawRequest>): ReturnType<RawProxy['send']>
  /** The number of active deadlines. */
  watchers(): number
}

/** The headers that a generation derives from a provider's settings; the content type is that of chat routes. */
const OUR_HEADERS = {
  'content-type': 'application/json',
  'accept-encoding': 'identity',
  'user-agent': 'tollgate/test',
  authorization: `Bearer ${PROVIDER_KEY}`,
}

function setUp(
  baseUrl: string,
  options: Partial<RawRequest['provider']> & Partial<Pick<RawRequest, 'headers' | 'largestBytes'>> = {},
): SetUp {
  const { largestBytes = 1024 * 1024, headers = OUR_HEADERS, ...provider } = options
  const proxy = createRawProxy()
  const { deadlineClock, watchers } = countingWatchman()
  cleanups.push(proxy.close, deadlineClock.stop)
  const defaults: RawRequest = {
    request: { method: 'POST', headers: { 'content-type': 'application/json' } },
    bytes: Buffer.from('{"input":"hello"}'),
    provider: { name: 'p', baseUrl, connections: 256, timeouts: LONG, ...provider },
    headers,
    path: '/embeddings',
    requestId: 'req_1',
    signal: new AbortController().signal,
    deadlineClock,
    largestBytes,
    holds: () => true,
    decodeError: (status, headers, body) => failureOf(status, headers, errorDetails(body), 0),
  }
  return { proxy, watchers, send: request => proxy.send({ ...defaults, ...request }) }
}

function countingWatchman(): { deadlineClock: DeadlineClock; watchers: () => number } {
  const inner = createDeadlineClock(20)
  let watching = 0
  const deadlineClock: DeadlineClock = {
    ...inner,
    watch(check) {
      watching++
      const stop = inner.watch(check)
      let stopped = false
      return () => {
        if (!stopped) watching--
        stopped = true
        stop()
      }
    },
  }
  return { deadlineClock, watchers: () => watching }
}

async function failed(answer: Promise<unknown>): Promise<RawFailure> {
  const outcome = await answer.catch(error => error)
  expect(outcome).toBeInstanceOf(RawFailure)
  return outcome as RawFailure
}

function answer(body: string | Buffer, headers: Record<string, string> = {}): Behaviour {
  return {
    name: 'answer',
    async run(call) {
      call.head(200, { 'content-length': String(Buffer.byteLength(body)), ...headers })
      await call.end(body)
    },
  }
}

function pairs(rawHeaders: ProviderRequest['rawHeaders']): Record<string, string> {
  const headers: Record<string, string> = {}
  for (let index = 0; index < rawHeaders.length; index += 2) {
    const name = rawHeaders[index]!.toLowerCase()
    expect(headers).not.toHaveProperty([name])
    headers[name] = rawHeaders[index + 1]!
  }
  return headers
}
