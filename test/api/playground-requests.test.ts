/** The playground with a fake listener for clients: inner requests, answers, and disconnects on either side. */
import { once } from 'node:events'
import { createServer, type IncomingHttpHeaders, type IncomingMessage, request, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'
import { describe, expect, onTestFinished, test } from 'vitest'
import type { ErrorEnvelope } from '#contract'
import type { KeyView, PageView } from '../../src/api/views.ts'
import { expectWithin } from '../helpers/promised.ts'
import { type Rig, type RigOptions, type SignedIn, startRig } from './rig.ts'

const MESSAGES = [{ role: 'user', content: 'Hello' }]
const BODY = { model: 'm', messages: MESSAGES }
const EVENT = 'data: {"choices":[]}\n\n'

describe('the inner request', () => {
  test('is the checked body as a stream, with the account key and nothing else that the browser sent', async () => {
    const listener = await startListener(answer => answer.end(EVENT))
    await using rig = await startRig(optionsFor(listener))
    const alice = await rig.member('alice@example.com')
    await alice.call('POST', '/api/playground', {
      body: { ...BODY, max_completion_tokens: 5, temperature: 0.5, reasoning_effort: 'low' },
      headers: {
        'x-forwarded-for': '6.6.6.6',
        'idempotency-key': 'mine',
        'accept-language': 'de',
        traceparent: '00-1',
      },
    })
    const { headers, body, url, method } = listener.asked[0]!
    expect([method, url]).toEqual(['POST', '/v1/chat/completions'])
    const { authorization, ...rest } = headers
    expect(rest).toEqual({
      host: 'gate.example.com',
      'content-type': 'application/json',
      'content-length': String(Buffer.byteLength(body)),
      accept: 'text/event-stream',
      connection: 'close',
    })
    expect(rig.store.keys.find(authorization!.slice('Bearer '.length), rig.clock.now())).toMatchObject({
      found: 'live',
      key: { accountId: alice.accountId, name: 'playground' },
    })
    expect(JSON.parse(body)).toEqual({
      ...BODY,
      max_completion_tokens: 5,
      temperature: 0.5,
      reasoning_effort: 'low',
      stream: true,
      stream_options: { include_usage: true },
    })
  })

  test('omits the fields that were omitted', async () => {
    const listener = await startListener(answer => answer.end(EVENT))
    await using rig = await startRig(optionsFor(listener))
    const alice = await rig.member('alice@example.com')
    await alice.post('/api/playground', BODY)
    expect(Object.keys(JSON.parse(listener.asked[0]!.body)).sort()).toEqual([
      'messages',
      'model',
      'stream',
      'stream_options',
    ])
  })

  test.each([
    [{ messages: MESSAGES }, 'model'],
    [{ model: 'm' }, 'messages'],
    [{ model: 'm', messages: [] }, 'messages'],
    [{ model: 'm', messages: ['hello'] }, 'messages[0]'],
    [{ model: 'm', messages: [{ role: 'tool', content: 'x' }] }, 'messages[0].role'],
    [{ model: 'm', messages: [{ role: 'user', content: null }] }, 'messages[0].content'],
    [{ model: 'm', messages: [{ role: 'user', content: 'x', name: 'y' }] }, 'messages[0].name'],
    [{ ...BODY, stream: false }, 'stream'],
    [{ ...BODY, n: 100 }, 'n'],
    [{ ...BODY, tools: [] }, 'tools'],
    [{ ...BODY, max_completion_tokens: 0 }, 'max_completion_tokens'],
    [{ ...BODY, max_completion_tokens: 1.5 }, 'max_completion_tokens'],
    [{ ...BODY, temperature: 3 }, 'temperature'],
    [{ ...BODY, reasoning_effort: 'huge' }, 'reasoning_effort'],
    [{ ...BODY, account_id: 'acc_1' }, 'account_id'],
    [{ ...BODY, key: 'tg_live_x' }, 'key'],
    [{ ...BODY, model: 'm\r\nx-evil: 1' }, 'model'],
  ])('%j is refused without an inner request, naming %s', async (body, param) => {
    const listener = await startListener(answer => answer.end(EVENT))
    await using rig = await startRig(optionsFor(listener))
    const alice = await rig.member('alice@example.com')
    const answer = await alice.post<ErrorEnvelope>('/api/playground', body)
    expect([answer.status, answer.body.error.param]).toEqual([400, param])
    expect(listener.asked).toHaveLength(0)
    expect(rig.store.reads.listKeys(alice.accountId)).toEqual([])
  })

  test('is not made without a session, from another page, or with a key', async () => {
    const listener = await startListener(answer => answer.end(EVENT))
    await using rig = await startRig(optionsFor(listener))
    const alice = await rig.member('alice@example.com')
    const { token } = await rig.store.createKey({ account: alice.accountId, name: 'k' })
    const stranger = rig.browser()
    const headers = { authorization: `Bearer ${token}` }
    expect((await stranger.post('/api/playground', BODY)).status).toBe(401)
    expect((await stranger.call('POST', '/api/playground', { body: BODY, headers })).status).toBe(401)
    const other = { origin: 'https://evil.example', 'sec-fetch-site': 'cross-site' }
    expect((await alice.call('POST', '/api/playground', { body: BODY, headers: other })).status).toBe(403)
    expect((await rig.machine(await rig.token()).post('/api/playground', BODY)).status).toBe(404)
    expect(listener.asked).toHaveLength(0)
  })
})

describe('the key', () => {
  test('is one per account, however many requests come at once', async () => {
    const listener = await startListener(answer => answer.end(EVENT))
    await using rig = await startRig(optionsFor(listener))
    const [alice, bob] = [await rig.member('alice@example.com'), await rig.member('bob@example.com')]
    const also = await rig.member('also@example.com', alice.accountId)
    await Promise.all([alice, alice, also, alice, bob, also, bob].map(who => who.post('/api/playground', BODY)))
    await alice.post('/api/playground', BODY)
    expect(new Set(listener.asked.map(({ headers }) => headers.authorization)).size).toBe(2)
    for (const who of [alice, bob]) {
      const { body, text } = await who.get<PageView<KeyView>>('/api/keys')
      expect(body.items).toMatchObject([{ name: 'playground', purpose: 'playground', state: 'live' }])
      expect(body.items[0]!.secrets).toHaveLength(1)
      for (const { headers } of listener.asked) expect(text).not.toContain(headers.authorization!.split(' ')[1])
    }
    const logged = JSON.stringify(rig.log)
    for (const { headers } of listener.asked) expect(logged).not.toContain(headers.authorization!.split(' ')[1])
  })

  test('is not created twice by concurrent requests', async () => {
    const listener = await startListener(answer => answer.end(EVENT))
    const place = optionsFor(listener).parts!.playground!()
    let arrived = 0
    const playground = () => {
      arrived++
      return place
    }
    await using rig = await startRig({ parts: { playground } })
    const alice = await rig.member('alice@example.com')
    const createKey = rig.store.createKey
    const slowly: typeof createKey = async key => {
      // Then all requests have asked for the key, and one turn later all have looked for one.
      while (arrived < 5) await new Promise(resolve => setImmediate(resolve))
      await new Promise(resolve => setImmediate(resolve))
      return createKey(key)
    }
    Object.assign(rig.store, { createKey: slowly })
    await Promise.all(Array.from({ length: 5 }, () => alice.post('/api/playground', BODY)))
    expect(rig.store.reads.listKeys(alice.accountId)).toHaveLength(1)
    expect(new Set(listener.asked.map(({ headers }) => headers.authorization)).size).toBe(1)
  })

  test.each([
    ['revoked', async (rig: Rig, id: string) => void (await rig.store.revokeKey(id)), 2],
    ['rotated by another person', async (rig: Rig, id: string) => void (await rig.store.rotateKey(id, 0)), 1],
    [
      'rotated so that it expires, and past that',
      async (rig: Rig, id: string) => {
        await rig.store.rotateKey(id, 0, rig.clock.ms + 1000)
        rig.clock.ms += 1000
      },
      2,
    ],
  ])('that was %s is replaced', async (_how, spoil, keys) => {
    const listener = await startListener(answer => answer.end(EVENT))
    await using rig = await startRig(optionsFor(listener))
    const alice = await rig.member('alice@example.com')
    await alice.post('/api/playground', BODY)
    await spoil(rig, rig.store.reads.listKeys(alice.accountId)[0]!.id)
    for (let again = 0; again < 2; again++) expect((await alice.post('/api/playground', BODY)).status).toBe(200)
    const tokens = listener.asked.map(({ headers }) => headers.authorization!.slice('Bearer '.length))
    expect(tokens[1]).not.toBe(tokens[0])
    expect(tokens[2]).toBe(tokens[1])
    expect(rig.store.keys.find(tokens[0]!, rig.clock.now()).found).not.toBe('live')
    expect(rig.store.keys.find(tokens[1]!, rig.clock.now()).found).toBe('live')
    expect(rig.store.reads.listKeys(alice.accountId)).toHaveLength(keys)
  })
})

describe('the answer', () => {
  test('has its receipt id, and only the headers that the page needs', async () => {
    const listener = await startListener(answer => {
      answer.writeHead(200, {
        'content-type': 'text/event-stream; charset=utf-8',
        'x-request-id': 'req_inner',
        'x-tollgate-max-output-tokens': '64',
        'set-cookie': 'tollgate=stolen',
        'access-control-allow-origin': '*',
        server: 'listener',
      })
      answer.end(`: ping\n\n${EVENT}data: [DONE]\n\n`)
    })
    await using rig = await startRig(optionsFor(listener))
    const alice = await rig.member('alice@example.com')
    const { status, headers, text } = await alice.post('/api/playground', BODY)
    expect([status, text]).toEqual([200, `: ping\n\n${EVENT}data: [DONE]\n\n`])
    expect(headers).toMatchObject({
      'content-type': 'text/event-stream; charset=utf-8',
      'x-request-id': 'req_inner',
      'x-tollgate-max-output-tokens': '64',
      'cache-control': 'no-store',
      'x-accel-buffering': 'no',
    })
    for (const name of ['set-cookie', 'access-control-allow-origin', 'server']) expect(headers[name]).toBeUndefined()
  })

  test('is the unchanged refusal of the inner listener, with its retry time', async () => {
    const refusal = {
      error: { message: 'Too many.', type: 'rate_limit_error', param: null, code: 'rate_limit_exceeded' },
    }
    const listener = await startListener(answer => {
      answer.writeHead(429, {
        'content-type': 'application/json',
        'x-request-id': 'req_inner',
        'retry-after': '2',
        'retry-after-ms': '1200',
        'x-should-retry': 'false',
      })
      answer.end(JSON.stringify(refusal))
    })
    await using rig = await startRig(optionsFor(listener))
    const alice = await rig.member('alice@example.com')
    const { status, headers, body } = await alice.post('/api/playground', BODY)
    expect([status, body]).toEqual([429, refusal])
    expect(headers).toMatchObject({
      'x-request-id': 'req_inner',
      'retry-after': '2',
      'retry-after-ms': '1200',
      'x-should-retry': 'false',
    })
  })

  test('is sent piece by piece as it arrives', async () => {
    const { promise: inner, resolve } = Promise.withResolvers<ServerResponse>()
    const listener = await startListener(answer => {
      answer.write(EVENT)
      resolve(answer)
    })
    await using rig = await startRig(optionsFor(listener))
    const answer = await stream(rig, await rig.member('alice@example.com'))
    expect(String((await once(answer, 'data'))[0])).toBe(EVENT)
    ;(await inner).write('data: second\n\n')
    expect(String((await once(answer, 'data'))[0])).toBe('data: second\n\n')
    ;(await inner).end()
    await once(answer, 'end')
  })

  test('that breaks off does not look complete', async () => {
    const listener = await startListener(answer => answer.write(EVENT, () => answer.socket!.resetAndDestroy()))
    await using rig = await startRig(optionsFor(listener))
    const answer = await stream(rig, await rig.member('alice@example.com'))
    await expect(text(answer)).rejects.toThrow('aborted')
    expect(answer.complete).toBe(false)
  })

  test('uses little memory with a slow reader, who gets everything in the end', async () => {
    const total = 96 * 1024 * 1024
    const piece = Buffer.alloc(64 * 1024, 'x')
    let sent = 0
    const listener = await startListener(async answer => {
      for (; sent < total; sent += piece.length) if (!answer.write(piece)) await once(answer, 'drain')
      answer.end()
    })
    await using rig = await startRig(optionsFor(listener))
    const answer = await stream(rig, await rig.member('alice@example.com'))
    // Waits until no byte was sent for 3,000 turns of the event loop.
    for (let still = 0, before = -1; still < 3000; still++) {
      await new Promise(resolve => setImmediate(resolve))
      if (sent !== before) still = 0
      before = sent
    }
    expect(sent).toBeGreaterThan(0)
    expect(sent).toBeLessThan(total / 3)
    let got = 0
    for await (const bytes of answer) got += (bytes as Buffer).length
    expect(got).toBe(total)
  })
})

describe('disconnecting', () => {
  test.each(['before the answer begins', 'in the middle of it'])('%s ends the inner request at once', async when => {
    const { promise: arrived, resolve: arrive } = Promise.withResolvers<ServerResponse>()
    const listener = await startListener(answer => {
      if (when !== 'before the answer begins') answer.write(EVENT)
      arrive(answer)
    })
    await using rig = await startRig(optionsFor(listener))
    const alice = await rig.member('alice@example.com')
    const asked = ask(rig, alice)
    asked.on('error', () => {})
    const inner = await arrived
    if (when !== 'before the answer begins') await once((await once(asked, 'response'))[0] as IncomingMessage, 'data')
    const closed = once(inner, 'close')
    const left = performance.now()
    asked.destroy()
    await closed
    expectWithin(performance.now() - left, 1000)
    expect(inner.writableFinished).toBe(false)
    // The next request is not affected.
    expect(rig.log.filter(({ level }) => level === 'error')).toEqual([])
    expect((await alice.get('/api/session')).status).toBe(200)
  })
})

describe('the inner listener', () => {
  test('that is missing is reported', async () => {
    await using rig = await startRig({ parts: { playground: () => null } })
    const alice = await rig.member('alice@example.com')
    const { status, body } = await alice.post<ErrorEnvelope>('/api/playground', BODY)
    expect([status, body.error.code]).toEqual([404, 'not_found'])
    expect(rig.store.reads.listKeys(alice.accountId)).toEqual([])
  })

  test.each([
    [true, 'overloaded'],
    [false, 'shutting_down'],
  ])('that does not answer, of a gateway whose readiness is %s, is %s', async (ready, code) => {
    const listener = await startListener(answer => answer.socket!.destroy())
    await using rig = await startRig({
      parts: {
        ...optionsFor(listener).parts,
        readiness: () => (ready ? { ready } : { ready, reason: 'the gateway is shutting down' }),
      },
    })
    const alice = await rig.member('alice@example.com')
    const { status, headers, body } = await alice.post<ErrorEnvelope>('/api/playground', BODY)
    expect([status, body.error.code, headers['retry-after']]).toEqual([503, code, '1'])
    expect(rig.log.some(({ msg }) => String(msg).includes('could not reach'))).toBe(ready)
  })
})

interface FakeListener {
  readonly port: number
  readonly asked: { method: string; url: string; headers: IncomingHttpHeaders; body: string }[]
}

/** Replaces the clients' listener: records each request, which `behave` then answers. */
async function startListener(behave: (answer: ServerResponse) => unknown): Promise<FakeListener> {
  const asked: FakeListener['asked'] = []
  const server = createServer(async (incoming, answer) => {
    asked.push({
      method: incoming.method!,
      url: incoming.url!,
      headers: incoming.headers,
      body: await text(incoming),
    })
    answer.setHeader('content-type', 'text/event-stream')
    await behave(answer)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  onTestFinished(() => {
    server.closeAllConnections()
    server.close()
  })
  return { port: (server.address() as AddressInfo).port, asked }
}

function optionsFor({ port }: FakeListener): RigOptions {
  const playground = { host: '127.0.0.1', port, path: '/v1/chat/completions', hostHeader: 'gate.example.com' }
  return { parts: { playground: () => playground } }
}

function ask(rig: Rig, { cookie }: SignedIn) {
  const headers = {
    host: new URL(rig.origin).host,
    origin: rig.origin,
    cookie: `tollgate=${cookie}`,
    'content-type': 'application/json',
    'x-tollgate-dashboard': '1',
  }
  const options = { host: '127.0.0.1', port: rig.ports.dashboard, path: '/api/playground', method: 'POST', headers }
  return request({ ...options, agent: false }).end(JSON.stringify(BODY))
}

async function stream(rig: Rig, who: SignedIn): Promise<IncomingMessage> {
  const [answer] = await once(ask(rig, who), 'response')
  return answer
}
