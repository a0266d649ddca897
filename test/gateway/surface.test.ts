/**
 * The public surface under attack. For any input, the answer is JSON that a client library understands. Nothing is written to the ledger
 * or sent to a provider.
 */
import { once } from 'node:events'
import { connect as connectSocket, type Socket } from 'node:net'
import { setTimeout as pause } from 'node:timers/promises'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import type { ErrorCode } from '#contract'
import { createToken } from '../../src/store/people/token.ts'
import { countsOf } from '../helpers/counts.ts'
import { exact, type FakeProvider, startFakeProvider, withhold } from '../helpers/fake-provider.ts'
import { type InProcess, startInProcess } from '../helpers/in-process.ts'
import { expectWithin } from '../helpers/promised.ts'
import { openRaw, type RawClient, type RawResponse } from '../helpers/raw-client.ts'
import { seeded } from '../helpers/seeded.ts'
import { BAD_BODIES, MALFORMED, ODD_BUT_GOOD } from './malformed-table.ts'
import { expectRefusal, REQUEST_ID } from './refusal.ts'

const counts = countsOf('floods')

const CHAT = '/v1/chat/completions'
const MESSAGES = [{ role: 'user', content: 'Hello' }]
const LARGEST_BODY = 1024 * 1024

let provider: FakeProvider
let gateway: InProcess
const clients: RawClient[] = []

beforeAll(async () => {
  provider = await startFakeProvider({ script: exact() })
  // The catalog's own policy lets 30 requests through at once.
  const policies = { catalog: [{ use: 'api-key' }] }
  gateway = await startInProcess({ provider: provider.baseUrl, yaml: { limits: { body: '1MiB' } }, policies })
})
afterAll(async () => {
  await gateway.stop()
  await provider.close()
})

/** State that a refused request must not change. */
const traces = (of: InProcess = gateway) => ({
  events: of.running.store.reads.verify().events,
  dispatched: provider.requests.length,
})

afterEach(() => {
  for (const client of clients.splice(0)) client.socket.destroy()
})

async function connect(to: InProcess = gateway): Promise<RawClient> {
  const client = await openRaw(to.url)
  clients.push(client)
  return client
}

/** The request with a key in its head. */
const withKey = (bytes: string) => bytes.replace('\r\n', `\r\nAuthorization: Bearer ${gateway.key}\r\n`)

/** A valid request as bytes; its answer has this id. */
const good = () => `GET /v1/models/m HTTP/1.1\r\nHost: gateway\r\nAuthorization: Bearer ${gateway.key}\r\n\r\n`

async function expectGood(client: RawClient): Promise<void> {
  const answer = await client.readResponse()
  expect(answer.status).toBe(200)
  expect(answer.header('x-request-id')).toMatch(REQUEST_ID)
  expect(JSON.parse(answer.text())).toMatchObject({ id: 'm', object: 'model' })
}

/** After a refusal the next request on the connection is answered correctly, or the connection is closed. */
async function expectGoodOrEnd(client: RawClient, refused: RawResponse): Promise<'closed' | 'open'> {
  if (refused.header('connection') !== 'close') {
    await expectGood(client)
    return 'open'
  }
  expect((await client.readToEnd()).toString()).toBe('')
  return 'closed'
}

/** Sends the bytes followed by a valid request. */
async function refusedInPipeline(bytes: string, code: ErrorCode): Promise<'closed' | 'open'> {
  const client = await connect()
  await client.send(bytes + good())
  const refused = await client.readResponse()
  await expectRefusal(refused, code)
  return expectGoodOrEnd(client, refused)
}

/** A socket that does not answer the other side's FIN with its own. */
function connectHalf(url: string): Socket {
  return connectSocket({ port: Number(new URL(url).port), host: '127.0.0.1', allowHalfOpen: true })
}

const post = (body: string | Buffer | undefined, headers: Record<string, string> = {}, to: InProcess = gateway) =>
  fetch(`${to.url}${CHAT}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', authorization: `Bearer ${to.key}`, ...headers },
    ...(body === undefined ? {} : { body }),
  })

describe('refused: no row in the ledger, nothing sent', () => {
  let before: ReturnType<typeof traces>
  beforeEach(() => {
    before = traces()
  })
  afterEach(() => {
    expect(traces()).toEqual(before)
    expect(gateway.balance().held).toBe(0n)
  })

  // None of these has a key: as the error is another one, they were refused before the key was checked.
  describe('invalid or ambiguous HTTP', () => {
    test.each(MALFORMED)('$name', async ({ bytes, code, says }) => {
      const client = await connect()
      await client.send(bytes)
      const answer = await client.readResponse()
      const error = await expectRefusal(answer, code)
      if (says) expect(error.message).toMatch(says)
      expect(answer.header('connection')).toBe('close')
      expect((await client.readToEnd()).toString()).toBe('')
      expect(await refusedInPipeline(bytes, code)).toBe('closed')
    })

    test.each(BAD_BODIES)('$name: even with a key', async ({ bytes, code }) => {
      expect(await refusedInPipeline(withKey(bytes), code)).toBe('closed')
      expect(await refusedInPipeline(bytes, 'missing_api_key')).toBe('closed')
    })

    test('a HEAD with a body is refused, without a body in the answer', async () => {
      const client = await connect()
      await client.send('HEAD /v1/models HTTP/1.1\r\nHost: gateway\r\nContent-Length: 2\r\n\r\n')
      expect((await client.readResponse({ toHead: true })).status).toBe(400)
      expect((await client.readToEnd()).toString()).toBe('')
    })

    test('after a request in progress: that one is answered, and the connection ends', async () => {
      const client = await connect()
      await client.send(`${good()}hello there\r\n\r\n`)
      await expectGood(client)
      // If the good answer was sent before, the bytes after it get their own.
      expect((await client.readToEnd()).toString()).toMatch(/^(HTTP\/1\.1 400 [\s\S]*)?$/)
    })
  })

  describe('unknown clients', () => {
    const ROUTES = [
      ['POST', CHAT],
      ['GET', '/v1/models'],
      ['GET', '/v1/models/m'],
      ['GET', '/v1/receipts/req_0'],
    ] as const
    const keys: Record<string, string> = {}

    beforeAll(async () => {
      const { store } = gateway.running
      const issue = (name: string, expiresAt: number | null = null) =>
        store.createKey({ account: gateway.accountId, name, expiresAt })
      const revoked = await issue('revoked')
      await store.revokeKey(revoked.key.id)
      const expired = await issue('expired', Date.now() + 30)
      const rotated = await issue('rotated')
      await store.rotateKey(rotated.key.id, 0)
      const frozen = await gateway.account()
      await store.freeze(frozen.accountId, true)
      await pause(40)
      Object.assign(keys, {
        revoked: revoked.token,
        expired: expired.token,
        rotated: rotated.token,
        frozen: frozen.key,
      })
    })

    const bearer = (key: string) => ({ authorization: `Bearer ${key}` })
    const CASES: readonly { name: string; headers: () => Record<string, string>; code: ErrorCode }[] = [
      { name: 'no key', headers: () => ({}), code: 'missing_api_key' },
      { name: 'an empty header', headers: () => ({ authorization: '' }), code: 'missing_api_key' },
      { name: 'Bearer and nothing', headers: () => ({ authorization: 'Bearer' }), code: 'missing_api_key' },
      { name: 'another scheme', headers: () => ({ authorization: 'Basic eDp5' }), code: 'missing_api_key' },
      { name: 'the key without a scheme', headers: () => ({ authorization: gateway.key }), code: 'missing_api_key' },
      { name: 'two words behind Bearer', headers: () => bearer(`${gateway.key} x`), code: 'malformed_api_key' },
      { name: 'two blanks', headers: () => bearer(` ${gateway.key}`), code: 'malformed_api_key' },
      {
        name: 'a key of another testGateway',
        headers: () => bearer(`sk-${'a'.repeat(40)}`),
        code: 'malformed_api_key',
      },
      { name: 'a key without its end', headers: () => bearer(gateway.key.slice(0, -1)), code: 'malformed_api_key' },
      {
        name: 'a key with a slip',
        headers: () => bearer(gateway.key.replace(/.$/, last => (last === 'a' ? 'b' : 'a'))),
        code: 'malformed_api_key',
      },
      { name: 'a key in capitals', headers: () => bearer(gateway.key.toUpperCase()), code: 'malformed_api_key' },
      { name: 'a valid key that was not issued', headers: () => bearer(createToken()), code: 'invalid_api_key' },
      { name: 'a revoked key', headers: () => bearer(keys['revoked']!), code: 'revoked_api_key' },
      { name: 'an expired key', headers: () => bearer(keys['expired']!), code: 'expired_api_key' },
      { name: 'a secret that was rotated away', headers: () => bearer(keys['rotated']!), code: 'expired_api_key' },
      { name: "a frozen account's key", headers: () => bearer(keys['frozen']!), code: 'account_frozen' },
    ]

    test.each(CASES)('$name: the same on every route', async ({ headers, code }) => {
      const said = new Set<string>()
      for (const [method, path] of ROUTES) {
        const answer = await fetch(`${gateway.url}${path}`, {
          method,
          headers: { 'content-type': 'application/json', ...headers() },
          ...(method === 'POST' ? { body: JSON.stringify({ model: 'm', messages: MESSAGES }) } : {}),
        })
        const { message } = await expectRefusal(answer, code)
        // If both headers are read, both are named.
        said.add(message.replace('x-api-key: KEY, or ', ''))
        expect(answer.headers.get('www-authenticate')).toBe(answer.status === 401 ? 'Bearer' : null)
        expect(answer.headers.get('x-should-retry')).toBe('false')
        for (const value of Object.values(headers()))
          if (value.length > 8) expect(message).not.toContain(value.slice(-8))
      }
      expect([...said]).toHaveLength(1)
    })

    test('x-api-key is for the routes of Anthropic’s clients', async () => {
      const headers = { 'content-type': 'application/json', 'x-api-key': gateway.key }
      for (const [method, path, status] of [
        ['POST', CHAT, 401],
        ['GET', '/v1/models', 200],
        ['GET', '/v1/models/m', 200],
        ['GET', '/v1/receipts/req_0', 401],
      ] as const) {
        const answer = await fetch(`${gateway.url}${path}`, {
          method,
          headers,
          ...(method === 'POST' ? { body: '{}' } : {}),
        })
        expect([path, answer.status]).toEqual([path, status])
        await answer.text()
      }
    })

    test('a body is not read before the key: an unknown caller learns nothing about models', async () => {
      for (const body of ['{', '{"model":"no-such-model","messages":[]}', '['.repeat(10_000)]) {
        await expectRefusal(await post(body, bearer(createToken())), 'invalid_api_key')
      }
    })
  })

  describe('unknown routes', () => {
    test.each<[method: string, path: string, code?: 'not_supported' | 'unknown_url']>([
      ['PUT', '/'],
      ['GET', '/v1'],
      ['GET', '/v1/'],
      ['GET', '/metrics'],
      ['GET', '/favicon.ico'],
      ['GET', '/v1/models/'],
      ['GET', '//v1/models'],
      ['GET', '/V1/Models'],
      ['GET', '/v1/%6dodels'],
      ['GET', '/v1%2fmodels'],
      ['GET', '/v1/models;x'],
      ['GET', '/v1\\models'],
      ['GET', '/v1/x/../models'],
      ['GET', '/v1/x/%2e%2e/models'],
      ['GET', '/%00'],
      ['GET', '/%ff'],
      ['GET', '/__proto__'],
      ['GET', `/${'x'.repeat(5_000)}`],
      ['POST', '/v1/chat/completions/'],
      ['POST', '/v1/chat/completions/x', 'not_supported'],
      ['POST', '/v1/Chat/completions'],
      ['POST', '/v1/embeddings', 'not_supported'],
      ['DELETE', '/v1/files/1', 'not_supported'],
      ['PROPFIND', '/'],
    ])('%s %s', async (method, path, code = 'unknown_url') => {
      const client = await connect()
      await client.send(`${method} ${path} HTTP/1.1\r\nHost: gateway\r\n\r\n${good()}`)
      const error = await expectRefusal(await client.readResponse(), code)
      expect(error.message.length).toBeLessThan(200)
      await expectGood(client)
    })

    test('a base URL without /v1 is named in the error', async () => {
      const answer = await fetch(`${gateway.url}/chat/completions`, { method: 'POST', body: '{}' })
      const { message } = await expectRefusal(answer, 'unknown_url')
      expect(message).toContain('The base URL must end in /v1: try /v1/chat/completions')
    })

    test.each([
      ['GET', CHAT, 'POST'],
      ['PUT', CHAT, 'POST'],
      ['OPTIONS', CHAT, 'POST'],
      ['POST', '/v1/models', 'GET'],
      ['DELETE', '/v1/models/m', 'GET'],
      ['TRACE', '/v1/models', 'GET'],
      ['PATCH', '/v1/receipts/req_0', 'GET'],
      ['POST', '/livez', 'GET, HEAD'],
      ['DELETE', '/readyz', 'GET, HEAD'],
    ])('%s %s: the error names the valid methods', async (method, path, allow) => {
      const client = await connect()
      await client.send(`${method} ${path} HTTP/1.1\r\nHost: gateway\r\n\r\n${good()}`)
      const answer = await client.readResponse()
      await expectRefusal(answer, 'method_not_allowed')
      expect(answer.header('allow')).toBe(allow)
      await expectGoodOrEnd(client, answer)
    })

    test('an unsupported HEAD: the head of the refusal, and nothing after it', async () => {
      const client = await connect()
      await client.send(`HEAD /v1/models HTTP/1.1\r\nHost: gateway\r\n\r\n${good()}`)
      const head = await client.readResponse({ toHead: true })
      expect([head.status, head.header('allow')]).toEqual([405, 'GET'])
      await expectGood(client)
    })
  })

  describe('a body that is too large', () => {
    const tooLarge = `${LARGEST_BODY + 1}`

    test.each([
      ['by its declared length, before a byte of it arrived', `Content-Length: ${tooLarge}`, ''],
      ['by its declared length, up to the largest number', 'Content-Length: 9007199254740991', '{'],
      [
        'by its received bytes',
        'Transfer-Encoding: chunked',
        `${(LARGEST_BODY + 1).toString(16)}\r\n${' '.repeat(LARGEST_BODY + 1)}\r\n`,
      ],
    ])('%s: 413, and the connection closes', async (_name, framing, sent) => {
      const client = await connect()
      await client.send(
        withKey(
          `POST ${CHAT} HTTP/1.1\r\nHost: gateway\r\nContent-Type: application/json\r\n${framing}\r\n\r\n${sent}`,
        ),
      )
      const answer = await client.readResponse()
      const { message } = await expectRefusal(answer, 'request_too_large')
      expect(message).toContain(`${LARGEST_BODY} bytes. The setting limits.body`)
      expect(answer.header('connection')).toBe('close')
      await client.closed
      expect(client.received().toString()).toBe('')
    })

    test('a client library can read it', async () => {
      for (let round = 0; round < counts(3, 50); round++) {
        await expectRefusal(await post(Buffer.alloc(4 * LARGEST_BODY, ' ')), 'request_too_large')
      }
    })

    test('a body of exactly the limit is read', async () => {
      const body = `{"model":"no-such-model","messages":[{"role":"user","content":"${'x'.repeat(LARGEST_BODY)}`
      await expectRefusal(await post(`${body.slice(0, LARGEST_BODY - 4)}"}]}`), 'model_not_found')
    })
  })

  describe('a body that is not declared as JSON', () => {
    test.each([
      '',
      'text/plain',
      'text/json',
      'application/x-www-form-urlencoded',
      'multipart/form-data; boundary=x',
      'application/jsonp',
      'application/json5',
      'application/json+x',
      'application/problem+json',
      'application/ld+json',
      'application/json, text/plain',
      'application/json; charset=utf-16',
      'application/json; charset=latin1',
      'application/json; charset',
      'application/json; profile=x',
      'application/json; charset=utf-8; charset=utf-7',
      'text/plain; application/json',
      'application /json',
      'application/json\xa0',
      '*/*',
      `application/json${' '.repeat(8_000)}x`,
    ])('%j', async type => {
      const client = await connect()
      const head = `POST ${CHAT} HTTP/1.1\r\nHost: gateway\r\nContent-Type: ${type}\r\nContent-Length: 2\r\n\r\n`
      const began = performance.now()
      await client.send(`${head}{}${good()}`)
      const answer = await client.readResponse()
      await expectRefusal(answer, 'unsupported_media_type')
      expectWithin(performance.now() - began, 200)
      await expectGoodOrEnd(client, answer)
    })

    test.each([
      'application/json',
      'Application/JSON',
      'application/json;charset=utf-8',
      'application/json; charset=UTF-8',
      'application/json ; charset="utf-8"',
      'application/json;',
      '\tapplication/json\t',
    ])('but %j is: the error is about its key', async type => {
      const client = await connect()
      await client.send(
        `POST ${CHAT} HTTP/1.1\r\nHost: gateway\r\nContent-Type: ${type}\r\nContent-Length: 2\r\n\r\n{}${good()}`,
      )
      await expectRefusal(await client.readResponse(), 'missing_api_key')
      await expectGood(client)
    })

    test.each(['gzip', 'br', 'deflate', 'zstd', 'x', 'identity, gzip', 'gzip, identity'])(
      'Content-Encoding: %s',
      async encoding => {
        await expectRefusal(await post('{}', { 'content-encoding': encoding }), 'unsupported_media_type')
      },
    )
  })

  describe('a body with invalid content', () => {
    const chat = (more: string) => `{"model":"m","messages":[{"role":"user","content":"hi"}]${more}}`
    const deep = (open: string, close: string, levels: number) => `${open.repeat(levels)}${close.repeat(levels)}`
    test.each<[name: string, body: string | Buffer | undefined, code: ErrorCode, param: string | RegExp | null]>([
      ['nothing', undefined, 'invalid_json', null],
      ['an empty text', '', 'invalid_json', null],
      ['blanks', '   ', 'invalid_json', null],
      ['half an object', '{"model":', 'invalid_json', null],
      ['a form', 'model=m&stream=true', 'invalid_json', null],
      ['NaN', chat(',"temperature":NaN'), 'invalid_json', null],
      ['a comma too many', chat(','), 'invalid_json', null],
      ['content after the end', `${chat('')} {}`, 'invalid_json', null],
      ['a byte order mark', `\ufeff${chat('')}`, 'invalid_json', null],
      ['UTF-16', Buffer.from(chat(''), 'utf16le'), 'invalid_json', null],
      ['bytes that are not UTF-8', Buffer.from(chat(',"user":"\xff"'), 'latin1'), 'invalid_json', null],
      ['null', 'null', 'invalid_type', null],
      ['a list', '[]', 'invalid_type', null],
      ['a number', '1', 'invalid_type', null],
      ['a depth bomb of lists', deep('[', ']', 200_000), 'request_too_complex', '[0][0]'],
      ['a depth bomb that never closes', chat(`,"x":${'{"a":'.repeat(100_000)}`), 'request_too_complex', 'x.a'],
      ['65 levels', chat(`,"x":${deep('[', ']', 64)}`), 'request_too_complex', 'x[0]'],
      ['a flood of parts', chat(`,"stop":[${'0,'.repeat(60_000)}0]`), 'request_too_complex', /^stop\[49\d\d\d\]$/],
      ['a key twice', chat(',"model":"m"'), 'invalid_json', 'model'],
      ['a key twice, once escaped', chat(',"mod\\u0065l":"m"'), 'invalid_json', 'model'],
      ['a key twice, deep inside', chat(',"metadata":{"a":"1","a":"2"}'), 'invalid_json', 'metadata.a'],
      ['a known key in capitals', chat(',"Stream":true'), 'unknown_parameter', 'Stream'],
      ['another', chat(',"MAX_TOKENS":1'), 'unknown_parameter', 'MAX_TOKENS'],
      ['__proto__', chat(',"__proto__":{"a":1}'), 'invalid_json', '__proto__'],
      ['an unknown key', chat(',"addons":[]'), 'unknown_parameter', 'addons'],
      ['constructor', chat(',"constructor":{"prototype":{}}'), 'unknown_parameter', 'constructor'],
      ['no messages', '{"model":"m"}', 'missing_required_parameter', 'messages'],
      ['a number beyond all', chat(',"max_tokens":1e999'), 'invalid_type', 'max_tokens'],
      ['line breaks in the model', chat('').replace('"m"', '"m\\r\\nx: y"'), 'model_not_found', 'model'],
    ])('%s', async (_name, body, code, param) => {
      const polluted = Object.getOwnPropertyNames(Object.prototype).length
      const error = await expectRefusal(await post(body), code)
      if (param instanceof RegExp) expect(error.param).toMatch(param)
      else expect(error.param).toBe(param)
      expect(Object.getOwnPropertyNames(Object.prototype)).toHaveLength(polluted)
      // Without a key the body is not checked.
      await expectRefusal(await post(body, { authorization: '' }), 'missing_api_key')
    })
  })
})

describe('odd, but valid HTTP', () => {
  test.each(ODD_BUT_GOOD)('$name', async ({ bytes }) => {
    const client = await connect()
    await client.send(bytes(gateway.key))
    const answer = await client.readResponse()
    expect(answer.status).toBe(200)
    expect(JSON.parse(answer.text())).toMatchObject({ object: 'list' })
  })

  test('pipelined requests are answered in order, with bodies split anywhere', async () => {
    const client = await connect()
    const body = JSON.stringify({ model: 'm', messages: MESSAGES })
    const head = `POST ${CHAT} HTTP/1.1\r\nHost: gateway\r\nAuthorization: Bearer ${gateway.key}\r\n`
    const json = `${head}Content-Type: application/json\r\n`
    const chunks = [...body].map(letter => `1\r\n${letter}\r\n`).join('')
    const bytes =
      `${json}Content-Length: ${body.length}\r\n\r\n${body}${good()}` +
      `${json}Transfer-Encoding: chunked\r\n\r\n${chunks}0\r\n\r\n${good()}`
    for (let at = 0; at < bytes.length; at += 100) await client.send(bytes.slice(at, at + 100))
    for (let round = 0; round < 2; round++) {
      expect(JSON.parse((await client.readResponse()).text())).toMatchObject({ object: 'chat.completion' })
      await expectGood(client)
    }
  })
})

describe('random changes', () => {
  const SEED = 20_261_121

  test(`requests with a few bytes changed (seed ${SEED}): an answer or a refusal, and one dispatch for each answer`, async () => {
    const random = seeded(SEED)
    const pick = (below: number) => Math.floor(random() * below)
    const body = JSON.stringify({ model: 'm', messages: [{ role: 'user', content: 'x'.repeat(150) }] })
    const whole = `POST ${CHAT} HTTP/1.1\r\nHost: gateway\r\nUser-Agent: ${'x'.repeat(150)}\r\nAuthorization: Bearer ${gateway.key}\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body}`
    const spice = ['\r\n', '\n', '\0', ' ', '\t', ':', ',', '0', '{', '"', '\\', '\xff', 'chunked', 'Host: x\r\n', 'a']
    const rounds = counts(200, 20_000)
    const [dispatched, logged] = [provider.requests.length, gateway.log.length]
    let answered = 0
    for (let round = 0; round < rounds; round++) {
      let bytes = whole
      for (let change = 0; change <= pick(3); change++) {
        const [at, put] = [pick(bytes.length), spice[pick(spice.length)]!]
        // Mostly of the same length as the replaced bytes: otherwise nearly all would fail by Content-Length.
        bytes = bytes.slice(0, at) + put + bytes.slice(at + (pick(4) > 0 ? put.length : pick(3)))
      }
      const client = await connect()
      await client.send(bytes)
      // If a part seems to be missing, the answer comes after the timeout: two later requests get theirs.
      const later = async () => {
        for (let count = 0; count < 2; count++) await fetch(`${gateway.url}/livez`)
        return pause(30, null)
      }
      const answer = await Promise.race([client.readResponse(), later()])
      if (answer?.status === 200) answered++
      else if (answer) {
        expect(Object.keys(JSON.parse(answer.text()).error), bytes).toEqual(['message', 'type', 'param', 'code'])
        expect([400, 401, 404, 405, 408, 413, 415, 431], bytes).toContain(answer.status)
      }
      client.socket.destroy()
    }
    await gateway.chat()
    const sent = provider.requests.slice(dispatched)
    for (const { body } of sent) expect(body).toMatchObject({ model: 'upstream-model' })
    const asked = gateway.log.slice(logged).filter(line => Number(line['attempts']) > 0)
    // A client may disconnect before the provider has its request.
    const stayed = asked.filter(line => line['outcome'] !== 'client_left')
    expect([stayed.length <= sent.length, sent.length <= asked.length]).toEqual([true, true])
    expect(answered).toBeGreaterThan(rounds / 20)
    expect(gateway.log.filter(line => line['msg'] === 'an unexpected error')).toEqual([])
    expect((await gateway.chat()).status).toBe(200)
    expect(gateway.balance().held).toBe(0n)
  })
})

describe('hosts', () => {
  const ask = async (of: InProcess, host: string | null, path = '/v1/models') => {
    const client = await connect(of)
    const line = host === null ? '' : `Host: ${host}\r\n`
    const version = host === null ? '1.0' : '1.1'
    await client.send(`GET ${path} HTTP/${version}\r\n${line}Authorization: Bearer ${of.key}\r\n\r\n`)
    return client.readResponse()
  }

  test.each(['a', 'a.example', 'a:1', '[::1]', '[::1]:80', '127.0.0.1', 'A.Example.', ''])(
    'without a list the answer is the same for the host %j',
    async host => {
      const answer = await ask(gateway, host)
      expect(answer.status).toBe(200)
      expect(answer.text()).toBe((await ask(gateway, 'gateway')).text())
    },
  )

  test('with a list, others are not served, but health is', async () => {
    await using listed = await startInProcess({ yaml: { hosts: ['good.example', '[::1]'] } })
    for (const host of ['good.example', 'GOOD.example', 'good.example:8080', '[::1]', '[::1]:80']) {
      expect([host, (await ask(listed, host)).status]).toEqual([host, 200])
    }
    for (const host of ['evil.example', 'good.example.evil.example', 'xgood.example', '127.0.0.1', '', null]) {
      await expectRefusal(await ask(listed, host), 'unknown_host')
      expect((await ask(listed, host, '/readyz')).status).toBe(200)
    }
    for (const host of ['good.example, evil.example', 'evil.example@good.example', 'good.example/']) {
      await expectRefusal(await ask(listed, host), 'bad_request')
    }
  })
})

describe('at the limit', () => {
  test('too many at once: 503 with the time to wait, and health checks still work', async () => {
    await using small = await startInProcess({ provider: provider.baseUrl, yaml: { limits: { max_inflight: 1 } } })
    provider.script(withhold(exact()))
    const index = provider.requests.length
    const first = small.chat()
    const held = await provider.waitForRequest(index)
    const before = traces(small)
    for (const refused of [await small.chat(), await small.chat({ stream: true }), await post('{', {}, small)]) {
      await expectRefusal(refused, 'overloaded')
      expect(refused.headers.get('retry-after')).toBe('1')
      expect(refused.headers.get('retry-after-ms')).toBe('1000')
      expect(refused.headers.get('x-should-retry')).toBe(null)
    }
    expect(traces(small)).toEqual(before)
    expect((await fetch(`${small.url}/livez`)).status).toBe(200)
    expect((await fetch(`${small.url}/readyz`)).status).toBe(200)
    held.release()
    expect((await first).status).toBe(200)
    provider.script(exact())
    expect((await small.chat()).status).toBe(200)
  })

  test('too many bytes of bodies at once: 503, until one of them ends', async () => {
    await using small = await startInProcess({
      provider: provider.baseUrl,
      yaml: { limits: { bodies_in_flight: '1MiB' } },
    })
    const head = `POST ${CHAT} HTTP/1.1\r\nHost: gateway\r\nContent-Type: application/json\r\n`
    const begin = async () => {
      const client = await connect(small)
      await client.send(
        `${head}Authorization: Bearer ${small.key}\r\nContent-Length: 1000001\r\n\r\n${' '.repeat(1_000_000)}`,
      )
      return client
    }
    let slow = await begin()
    const body = JSON.stringify({ model: 'm', messages: [{ role: 'user', content: 'x'.repeat(100_000) }] })
    let refused = await post(body, {}, small)
    while (refused.status !== 503) {
      // The gateway may not have read all of the slow one yet; or the slow one came last, and was refused. A reset may have lost
      // its refusal.
      if (slow.received().length > 0 || slow.socket.destroyed) slow = await begin()
      refused = await post(body, {}, small)
    }
    await expectRefusal(refused, 'overloaded')
    expect(refused.headers.get('retry-after')).toBe('1')
    slow.socket.destroy()
    await small.waitForLog(line => line['msg'] === 'exchange' && line['outcome'] === 'refused')
    let answer = await post(body, {}, small)
    while (answer.status === 503) answer = await post(body, {}, small)
    expect(answer.status).toBe(200)
  })
})

describe('too slow', () => {
  test('to close: a refused client that does not close its end is cut off', async () => {
    await using strict = await startInProcess({ yaml: { limits: { headers: '300ms', request: '600ms' } } })
    for (const bytes of ['hello there\r\n\r\n', 'CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\n\r\n']) {
      const socket = connectHalf(strict.url)
      socket.write(bytes)
      const cut = once(socket, 'error')
      await once(socket.resume(), 'end')
      // Only a write shows whether the peer is still connected.
      const knock = setInterval(() => socket.write('x'), 50)
      await cut
      clearInterval(knock)
    }
  })

  const HEAD = `POST ${CHAT} HTTP/1.1\r\nHost: gateway\r\nContent-Type: application/json\r\n`

  test('a head or a body that does not arrive is cut, with an error; other clients are not delayed', async () => {
    await using strict = await startInProcess({
      provider: provider.baseUrl,
      yaml: { limits: { headers: '300ms', request: '600ms' } },
    })
    const before = traces(strict)
    const began = performance.now()
    const rows = [
      ['nothing at all', ''],
      ['half a head', HEAD],
      ['half a body', `${HEAD}Authorization: Bearer ${strict.key}\r\nContent-Length: 100\r\n\r\n{"model"`],
      ['half a chunk', `${HEAD}Authorization: Bearer ${strict.key}\r\nTransfer-Encoding: chunked\r\n\r\n64\r\n{`],
    ] as const
    const slow = await Promise.all(
      rows.map(async ([name, bytes]) => {
        const client = await connect(strict)
        if (bytes) await client.send(bytes)
        return { name, client }
      }),
    )
    expect(
      (await fetch(`${strict.url}/v1/models`, { headers: { authorization: `Bearer ${strict.key}` } })).status,
    ).toBe(200)
    for (const { name, client } of slow) {
      const answer = await client.readResponse()
      await expectRefusal(answer, 'request_timeout')
      expect(answer.header('connection'), name).toBe('close')
      await client.closed
      // The limit, and Node checks once a second.
      expectWithin(performance.now() - began, 5_000, name)
    }
    const line = await strict.waitForLog(line => line['code'] === 'request_timeout')
    expect(line).toMatchObject({ msg: 'exchange', status: 408, outcome: 'refused' })
    expect(traces(strict)).toEqual(before)
  })
})
