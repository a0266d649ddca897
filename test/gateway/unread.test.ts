/** Bodies that do not arrive, answers that are not read, and answers that cannot be written: other clients are not affected. */
import { Readable } from 'node:stream'
import { setTimeout as pause } from 'node:timers/promises'
import type { Context } from 'koa'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { definePlugin, refuse } from '#contract'
import { countsOf } from '../helpers/counts.ts'
import { exact, type FakeProvider, gated, startFakeProvider } from '../helpers/fake-provider.ts'
import { type Account, FIVE_STEPS, shareGateways, startInProcess } from '../helpers/in-process.ts'
import { openRaw, type RawClient } from '../helpers/raw-client.ts'
import { expectRefusal } from './refusal.ts'

const counts = countsOf('floods')

const CHAT = '/v1/chat/completions'
const MESSAGES = [{ role: 'user', content: 'Hello' }]

let provider: FakeProvider
const clients: RawClient[] = []

beforeAll(async () => {
  provider = await startFakeProvider({ script: exact() })
})
beforeEach(() => provider.script(exact()))
afterEach(() => {
  for (const client of clients.splice(0)) client.socket.destroy()
})
afterAll(() => provider.close())

async function connect(to: Account): Promise<RawClient> {
  const client = await openRaw(to.url)
  clients.push(client)
  return client
}

type Act = (ctx: Context, next: () => Promise<void>) => Promise<void>
const NO_SETTINGS = { type: 'object', additionalProperties: false, properties: {} } as const
const step = (name: string, handle: Act) => definePlugin({ name, settings: NO_SETTINGS, create: () => handle as never })
/** The behaviour of the step `acts`; each test sets it. */
let act: Act

const start = shareGateways(() => ({
  provider: provider.baseUrl,
  plugins: [step('acts', (ctx, next) => act(ctx, next))],
}))

describe('a silent client does not use up a limit', () => {
  const HEAD = `POST ${CHAT} HTTP/1.1\r\nHost: gateway\r\nContent-Type: application/json\r\n`
  const keyed = (key: string) => `Authorization: Bearer ${key}\r\n`

  /** Opens this many connections, each with a request whose body does not arrive. */
  async function openSilent(to: Account, count: number, rest: string): Promise<RawClient[]> {
    const silent = []
    for (let at = 0; at < count; at++) {
      const client = await connect(to)
      await client.send(HEAD + rest)
      silent.push(client)
    }
    return silent
  }

  test('of the bytes of bodies, by a declared length', async () => {
    await using small = await startInProcess({
      provider: provider.baseUrl,
      yaml: { limits: { bodies_in_flight: '1MiB', body: '1MiB' } },
    })
    await openSilent(small, 4, `${keyed(small.key)}Content-Length: 1048576\r\n\r\n`)
    for (let round = 0; round < 10; round++) expect((await small.chat()).status).toBe(200)
  })

  test('of simultaneous requests: beyond it the slowest is refused', async () => {
    await using small = await startInProcess({ provider: provider.baseUrl, yaml: { limits: { max_inflight: 3 } } })
    const rest = `${keyed(small.key)}Content-Length: 10\r\n\r\n{`
    const silent = await openSilent(small, 3, rest)
    // All of them are being read after each of three more has replaced one.
    for (const client of silent) {
      const [more] = await openSilent(small, 1, rest)
      const answer = await client.readResponse()
      await expectRefusal(answer, 'overloaded')
      expect(answer.header('connection')).toBe('close')
      expect(more!.received().toString()).toBe('')
    }
    expect((await small.chat()).status).toBe(200)
    expect((await small.chat({ stream: true })).status).toBe(200)
  })

  test('of simultaneous requests: one of the client with the most is refused', async () => {
    await using small = await startInProcess({ provider: provider.baseUrl, yaml: { limits: { max_inflight: 3 } } })
    const other = await small.account()
    const rest = 'Content-Length: 10\r\n\r\n{'
    const [first] = await openSilent(small, 1, keyed(other.key) + rest)
    const [second] = await openSilent(small, 2, keyed(small.key) + rest)
    await openSilent(small, 1, keyed(small.key) + rest)
    await expectRefusal(await second!.readResponse(), 'overloaded')
    expect(first!.received().toString()).toBe('')
  })
})

describe('a key is looked up from the head', () => {
  const head = (rest: string) => `POST ${CHAT} HTTP/1.1\r\nHost: gateway\r\nContent-Type: application/json\r\n${rest}`

  test('before the body arrives: without one the request is refused at once, and the connection ends', async () => {
    const gateway = await start()
    for (const rest of ['Content-Length: 1048576\r\n\r\n{', 'Transfer-Encoding: chunked\r\n\r\n1\r\n{\r\n']) {
      const client = await connect(gateway)
      await client.send(head(rest))
      const answer = await client.readResponse()
      await expectRefusal(answer, 'missing_api_key')
      expect(answer.header('connection')).toBe('close')
      expect(await client.closed).toBe('fin')
    }
  })

  test('after a small body that came with the head the connection stays open', async () => {
    const gateway = await start()
    const client = await connect(gateway)
    for (let round = 0; round < 3; round++) {
      await client.send(head('Content-Length: 2\r\n\r\n{}'))
      const answer = await client.readResponse()
      await expectRefusal(answer, 'missing_api_key')
      expect(answer.header('connection')).not.toBe('close')
    }
  })

  test('a client that waits for 100 Continue sends no body if it is refused', async () => {
    const gateway = await start()
    const body = JSON.stringify({ model: 'm', messages: MESSAGES })
    const rest = `Content-Length: ${body.length}\r\nExpect: 100-continue\r\n`
    const stranger = await connect(gateway)
    await stranger.send(head(`${rest}\r\n`))
    await stranger.readUntil('missing_api_key')
    expect(stranger.received().toString()).toMatch(/^HTTP\/1.1 401 /)
    const client = await connect(gateway)
    await client.send(head(`${rest}Authorization: Bearer ${gateway.key}\r\n\r\n`))
    await client.readUntil('HTTP/1.1 100 Continue\r\n\r\n')
    await client.send(body)
    expect((await client.readResponse()).status).toBe(200)
  })

  test('a disconnect while a step waits is noticed, even after a complete body', async () => {
    await using gateway = await startInProcess({
      provider: provider.baseUrl,
      steps: [
        { use: 'api-key' },
        { use: 'concurrency', with: { per: 'key', limit: 1, queue: { length: 5, wait: '1m' } } },
        ...FIVE_STEPS.slice(1),
      ],
    })
    provider.script(gated({ tokens: 1 }))
    const from = provider.requests.length
    const first = gateway.chat()
    const upstream = await provider.waitForRequest(from)
    const leaver = await connect(gateway)
    await leaver.post(CHAT, { model: 'm', messages: MESSAGES }, { authorization: `Bearer ${gateway.key}` })
    await fetch(`${gateway.url}/livez`)
    await pause(50)
    leaver.reset()
    const line = await gateway.waitForLog(line => line['msg'] === 'exchange')
    expect(line).toMatchObject({ outcome: 'client_left' })
    upstream.release()
    expect((await first).status).toBe(200)
    expect(gateway.log.filter(line => line['msg'] === 'a plugin failed')).toEqual([])
  })

  test('a body that is late while a step waits is refused when it is read', async () => {
    const waits = definePlugin({
      name: 'waits',
      needsBody: false,
      settings: { type: 'object', additionalProperties: false, properties: {} },
      create: () => async (_ctx, next) => {
        await pause(3000)
        await next()
      },
    })
    await using gateway = await startInProcess({
      provider: provider.baseUrl,
      plugins: [waits],
      steps: [{ use: 'api-key' }, { use: 'waits' }, ...FIVE_STEPS.slice(1)],
      yaml: { limits: { request: '300ms', headers: '200ms' } },
    })
    const client = await connect(gateway)
    await client.send(head(`Authorization: Bearer ${gateway.key}\r\nContent-Length: 100000\r\n\r\n{`))
    await expectRefusal(await client.readResponse(), 'request_timeout')
    expect((await client.readToEnd()).toString()).toBe('')
  })

  test('a client that is still sending can read the refusal', async () => {
    const gateway = await start()
    for (let round = 0; round < counts(3, 30); round++) {
      const body = Buffer.alloc(3 * 1024 * 1024, ' ')
      await expectRefusal(
        await gateway.chat({}, { body, headers: { 'content-type': 'application/json' } }),
        'missing_api_key',
      )
    }
  })
})

describe('shares of the room for bodies', () => {
  const YAML = { limits: { bodies_in_flight: '1MiB', body: '256KiB' } }
  const HALF = 200 * 1024

  /** Sends the beginning of a body. */
  async function begin(to: Account, path: string, key: string | null): Promise<RawClient> {
    const client = await connect(to)
    const who = key === null ? '' : `Authorization: Bearer ${key}\r\n`
    await client.send(
      `POST ${path} HTTP/1.1\r\nHost: gateway\r\nContent-Type: application/json\r\n${who}Content-Length: 262144\r\n\r\n`,
    )
    await client.send(Buffer.alloc(HALF, ' '))
    return client
  }

  /** Begins bodies until one is refused; returns the number of accepted ones. */
  async function beginAll(to: Account, path: string, key: string | null): Promise<number> {
    for (let count = 0; ; count++) {
      const client = await begin(to, path, key)
      // Refusals depend on received bytes; a round trip shows that they were received.
      await fetch(`${to.url}/livez`)
      await pause(50)
      if (client.received().length === 0) continue
      await expectRefusal(await client.readResponse(), 'overloaded')
      return count
    }
  }

  test('an account has a part of the free room: the others can send theirs', async () => {
    await using gateway = await startInProcess({ provider: provider.baseUrl, yaml: YAML })
    const other = await gateway.account()
    expect(await beginAll(gateway, CHAT, gateway.key)).toBeLessThan(5)
    const answer = await other.chat({ messages: [{ role: 'user', content: 'x'.repeat(HALF) }] })
    expect(answer.status).not.toBe(503)
  })

  test('all unknown clients have a quarter: clients with a key can send theirs', async () => {
    await using gateway = await startInProcess({
      provider: provider.baseUrl,
      policies: { open: [{ use: 'schema' }, { use: 'route', with: { attempts: 1 } }] },
      yaml: {
        ...YAML,
        routes: [
          { path: CHAT, policy: 'test' },
          { path: `/open${CHAT}`, policy: 'open', public: true, unmetered: true },
        ],
      },
    })
    expect(await beginAll(gateway, `/open${CHAT}`, null)).toBe(1)
    expect((await gateway.chat({ messages: [{ role: 'user', content: 'x'.repeat(HALF) }] })).status).not.toBe(503)
  })
})

describe('unread answers', () => {
  test('have the same limit as bodies: beyond it nothing more is sent upstream or charged', async () => {
    await using small = await startInProcess({
      provider: provider.baseUrl,
      credit: '1000',
      model: { context: '100M', max_output: '50M' },
      yaml: { limits: { bodies_in_flight: '1MiB' } },
    })
    provider.script(exact({ tokens: ['x'.repeat(16 * 1024 * 1024)] }))
    const deaf = await connect(small)
    await deaf.post(CHAT, { model: 'm', messages: MESSAGES }, { authorization: `Bearer ${small.key}` })
    await deaf.readUntil('xxx')
    deaf.pause()
    provider.script(exact())
    const before = { posted: small.balance().posted, dispatched: provider.requests.length }
    const refused = await small.chat()
    await expectRefusal(refused, 'overloaded')
    expect(refused.headers.get('retry-after')).toBe('1')
    expect({ posted: small.balance().posted, dispatched: provider.requests.length }).toEqual(before)
    expect(small.balance().held).toBe(0n)
    // A stream waits at the provider.
    expect(await (await small.chat({ stream: true })).text()).toContain('[DONE]')
    deaf.resume()
    expect((await deaf.readResponse()).end).toBe('length')
    let answer = await small.chat()
    while (answer.status === 503) answer = await small.chat()
    expect(answer.status).toBe(200)
  })
})

describe('unread answers of one account', () => {
  test('do not block another', async () => {
    await using gateway = await startInProcess({
      provider: provider.baseUrl,
      credit: '1000',
      model: { context: '100M', max_output: '50M' },
      yaml: { limits: { bodies_in_flight: '1MiB' } },
    })
    const other = await gateway.account('1000')
    provider.script(exact({ tokens: ['x'.repeat(8 * 1024 * 1024)] }))
    const leaveUnread = async () => {
      const client = await connect(gateway)
      client.pause()
      await client.post(CHAT, { model: 'm', messages: MESSAGES }, { authorization: `Bearer ${gateway.key}` })
    }
    // The first alone: of several simultaneous ones none may find room for all of itself.
    await leaveUnread()
    await gateway.waitForLog(line => line['msg'] === 'exchange' && line['status'] === 200)
    await Promise.all(Array.from({ length: counts(5, 119) }, leaveUnread))
    provider.script(exact())
    let own = await gateway.chat()
    while (own.status !== 503) own = await gateway.chat()
    for (const stream of [false, true]) expect((await other.chat({ stream })).status).toBe(200)
  })
})

describe('requests before the answers are read', () => {
  const GET = (key: string) => `GET /v1/models HTTP/1.1\r\nHost: gateway\r\nAuthorization: Bearer ${key}\r\n\r\n`

  test('are answered one after the other, in order', async () => {
    const gateway = await start()
    const client = await connect(gateway)
    const body = JSON.stringify({ model: 'm', messages: MESSAGES })
    const chat = `POST ${CHAT} HTTP/1.1\r\nHost: gateway\r\nContent-Type: application/json\r\nAuthorization: Bearer ${gateway.key}\r\nContent-Length: ${body.length}\r\n\r\n${body}`
    await client.send(Array.from({ length: 20 }, () => GET(gateway.key) + chat).join(''))
    for (let at = 0; at < 20; at++) {
      expect(JSON.parse((await client.readResponse()).text())).toMatchObject({ object: 'list' })
      expect(JSON.parse((await client.readResponse()).text())).toMatchObject({ object: 'chat.completion' })
    }
    // Their ids show that each began when the previous one was over.
    const over = gateway.log
      .filter(line => line['msg'] === 'exchange')
      .map(line => String(line['exchange'] ?? line['id']))
    expect(over).toEqual([...over].sort())
  })

  test('are not begun after one whose answer ends the connection', async () => {
    await using gateway = await startInProcess({ provider: provider.baseUrl })
    const client = await connect(gateway)
    await client.send(
      GET(gateway.key).replace('\r\n\r\n', '\r\nConnection: close\r\n\r\n') + GET(gateway.key).repeat(5),
    )
    expect((await client.readResponse()).status).toBe(200)
    expect((await client.readToEnd()).toString()).toBe('')
    await gateway.stop()
    expect(gateway.log.filter(line => line['msg'] === 'exchange')).toHaveLength(1)
  })

  test('wait behind a long answer, whatever their number', async () => {
    const gateway = await start()
    provider.script(gated({ tokens: 2 }))
    const from = provider.requests.length
    const client = await connect(gateway)
    await client.post(CHAT, { model: 'm', messages: MESSAGES }, { authorization: `Bearer ${gateway.key}` })
    const upstream = await provider.waitForRequest(from)
    for (let at = 0; at < 300; at++) await client.send('GET /livez HTTP/1.1\r\nHost: gateway\r\n\r\n')
    upstream.release()
    for (let at = 0; at <= 300; at++) expect((await client.readResponse()).status).toBe(200)
  })

  test('end the connection if their body does not arrive, but not the answer before them', async () => {
    await using gateway = await startInProcess({
      provider: provider.baseUrl,
      yaml: { limits: { request: '300ms', headers: '200ms' } },
    })
    provider.script(gated({ tokens: 3 }))
    const from = provider.requests.length
    const client = await connect(gateway)
    const auth = { authorization: `Bearer ${gateway.key}` }
    await client.post(CHAT, { model: 'm', stream: true, messages: MESSAGES }, auth)
    const upstream = await provider.waitForRequest(from)
    await upstream.step(2)
    await client.readUntil('data: ')
    await client.send(
      `POST ${CHAT} HTTP/1.1\r\nHost: gateway\r\nContent-Type: application/json\r\nContent-Length: 100000\r\n\r\n{`,
    )
    // Node checks for late requests once a second.
    await pause(2500)
    upstream.release()
    const answer = await client.readResponse()
    expect([answer.end, answer.text().includes('[DONE]')]).toEqual(['chunked', true])
    expect((await client.readToEnd()).toString()).toBe('')
  })

  test('end the connection if they are too many', async () => {
    const gateway = await start()
    const client = await connect(gateway)
    // One request of an unknown client is taken from the connection at a time.
    await client.post(CHAT, { model: 'm', messages: MESSAGES }, { authorization: `Bearer ${gateway.key}` })
    expect((await client.readResponse()).status).toBe(200)
    client.pause()
    await client.send('GET /livez HTTP/1.1\r\nHost: gateway\r\n\r\n'.repeat(5000)).catch(() => {})
    client.resume()
    expect(await client.closed).not.toBe('own')
  })
})

describe('an answer that cannot be written', () => {
  test.each<[name: string, headers: Record<string, string>]>([
    ['a line break', { 'x-why': 'a\nb' }],
    ['no value', { 'x-why': undefined as unknown as string }],
    ['a name with a blank', { 'x why': 'a' }],
    ['a trailer', { trailer: 'x-sum' }],
    ['another length', { 'Content-Length': '1' }],
    ['another connection', { connection: 'upgrade' }],
  ])('a header of a refusal with %s is dropped, and the log reports it', async (_name, headers) => {
    act = async () => {
      throw refuse('forbidden', { headers: { ...headers, 'x-good': 'yes' } })
    }
    const stubborn = await start({ steps: [...FIVE_STEPS, { use: 'acts' }] })
    const answer = await stubborn.chat()
    await expectRefusal(answer, 'forbidden')
    expect(answer.headers.get('x-good')).toBe('yes')
    const line = await stubborn.waitForLog(line => line['msg'] === 'a header of a refusal cannot be sent')
    expect(line['header']).toBe(Object.keys(headers)[0])
    expect(stubborn.balance()).toMatchObject({ posted: 10_000_000_000n, held: 0n })
  })

  test.each(['trailer', 'connection', 'keep-alive', 'upgrade'])('a step’s own %s does not break it', async name => {
    act = async (ctx, next) => {
      ctx.set(name, 'x-sum')
      await next()
    }
    const stubborn = await start({ steps: [{ use: 'acts' }, ...FIVE_STEPS] })
    for (const stream of [false, true]) {
      const answer = await stubborn.chat({ stream })
      expect(answer.status).toBe(200)
      expect(answer.headers.get(name)).not.toBe('x-sum')
      expect(await answer.text()).toContain(stream ? '[DONE]' : 'chat.completion')
    }
  })

  test('an answer that cannot be sent is a plain 500, without the headers of steps', async () => {
    act = async (ctx, next) => {
      await next()
      ctx.set('x-mine', 'yes')
      // An error that no check covers.
      const { writeHead } = ctx.res
      ctx.res.writeHead = ((status: number, ...rest: never[]) => {
        if (ctx.res.hasHeader('x-mine')) throw new TypeError('this head cannot be written')
        return writeHead.call(ctx.res, status, ...rest)
      }) as never
    }
    const stubborn = await start({ steps: [{ use: 'acts' }, ...FIVE_STEPS] })
    const answer = await stubborn.chat()
    await expectRefusal(answer, 'internal_error')
    expect(answer.headers.get('x-mine')).toBe(null)
    const line = await stubborn.exchangeLine(answer.headers.get('x-request-id')!)
    expect(line).toMatchObject({ status: 500, outcome: 'failed', code: 'internal_error' })
    expect(stubborn.log.filter(line => line['msg'] === 'an unexpected error').length).toBeGreaterThan(0)
  })

  test('if even that cannot be sent, the connection breaks', async () => {
    act = async (ctx, next) => {
      await next()
      ctx.res.writeHead = () => {
        throw new TypeError('no head can be written')
      }
    }
    const stubborn = await start({ steps: [{ use: 'acts' }, ...FIVE_STEPS] })
    await expect(stubborn.chat()).rejects.toThrow('fetch failed')
    await stubborn.waitForLog(line => line['msg'] === 'exchange' && line['account'] === stubborn.accountId)
  })

  test('a slow stream of a step may take longer than the stall time', async () => {
    const slow = step('slow', async ctx => {
      ctx.type = 'text/plain'
      ctx.body = Readable.from(
        (async function* () {
          for (const piece of ['a', 'b', 'c']) {
            yield piece
            await pause(600)
          }
        })(),
      )
    })
    await using patient = await startInProcess({
      plugins: [slow],
      steps: [{ use: 'slow' }, ...FIVE_STEPS],
      yaml: { limits: { stall: '1s' } },
    })
    expect(await (await patient.chat()).text()).toBe('abc')
  })
})
