import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterEach, describe, expect, test } from 'vitest'
import type { AnswerHandler } from '../../src/providers/handler.ts'
import {
  createHttpTransport,
  type Endpoint,
  type Transport,
  type UpstreamRequest,
} from '../../src/providers/transport.ts'
import { type Behaviour, exact, gated, startFakeProvider, stream, whole } from '../helpers/fake-provider.ts'
import { until } from '../request/answer/wire.ts'

const closers: (() => Promise<unknown>)[] = []
afterEach(async () => {
  for (const close of closers.splice(0).reverse()) await close()
})

async function provide(script: Behaviour | Behaviour[]) {
  const provider = await startFakeProvider({ script })
  closers.push(() => provider.close())
  return provider
}

function open(baseUrl: string, options: Partial<Endpoint> = {}) {
  const transport = createHttpTransport({ name: 'p', baseUrl, connections: 8, connectMs: 1_000, ...options })
  closers.push(() => transport.close())
  return transport
}

const requestOf = (body: object = {}): UpstreamRequest => ({
  path: '/chat/completions',
  headers: { 'content-type': 'application/json' },
  body: Buffer.from(JSON.stringify({ model: 'm', messages: [], ...body })),
})
const STREAM = requestOf({ stream: true })

interface CallbackRecord {
  status: number | null
  headers: Readonly<Record<string, string>>
  text: string
  end: 'complete' | Error | null
}

/** Sends a request and records the callbacks. `accept` returns false to pause the answer. */
function send(dispatch: Transport, request = requestOf(), accept: (heard: CallbackRecord) => boolean = () => true) {
  const heard: CallbackRecord = { status: null, headers: {}, text: '', end: null }
  const { promise: over, resolve } = Promise.withResolvers<CallbackRecord>()
  const state = { abort: null as ((reason?: Error) => void) | null, resume: null as (() => void) | null, heads: 0 }
  const end = (how: 'complete' | Error) => {
    expect(heard.end, 'a second end').toBeNull()
    heard.end = how
    resolve(heard)
  }
  const handler: AnswerHandler = {
    onConnect(abort) {
      state.abort = abort
    },
    onHeaders(status, headers, resume) {
      state.heads++
      Object.assign(heard, { status, headers })
      state.resume = resume
    },
    onData(bytes) {
      heard.text += bytes.toString()
      return accept(heard)
    },
    onComplete: () => end('complete'),
    onError: end,
  }
  dispatch(request, handler)
  return { heard, over, state }
}

describe('an aborted request', () => {
  test('only the provider notices an abort, and only once', async () => {
    const provider = await provide(gated())
    const { dispatch } = open(provider.baseUrl)
    const { heard, state } = send(dispatch, STREAM)
    await until(() => heard.status !== null)
    state.abort!()
    state.abort!(new Error('again'))
    expect((await provider.waitForClose(provider.requests[0]!)).how).toMatch(/fin|reset/)
    state.resume!()
    expect(heard).toMatchObject({ status: 200, text: '', end: null })
  })

  test('an abort after the end has no effect: the connection stays open', async () => {
    const provider = await provide(exact())
    const { dispatch } = open(provider.baseUrl, { connections: 1 })
    for (let i = 0; i < 3; i++) {
      const { over, state } = send(dispatch)
      await over
      state.abort!()
    }
    expect(provider.connections).toBe(1)
  })
})

describe('a request', () => {
  test('is sent to the base URL plus its path, with these headers and its own length', async () => {
    const provider = await provide(exact())
    const { dispatch } = open(`${provider.url}/deployments/a%20b/v1`)
    const request = {
      ...requestOf(),
      headers: { authorization: 'Bearer x', 'content-type': 'application/json', 'x-empty': '' },
    }
    await send(dispatch, request).over
    const [arrived] = provider.requests
    expect(arrived).toMatchObject({ method: 'POST', path: '/deployments/a%20b/v1/chat/completions' })
    expect(arrived!.raw).toEqual(request.body)
    expect(arrived!.headers).toEqual({
      host: provider.url.slice(7),
      connection: 'keep-alive',
      authorization: 'Bearer x',
      'content-type': 'application/json',
      'x-empty': '',
      'content-length': String(request.body.length),
    })
  })

  test('with a long body is sent in pieces: the event loop is not blocked, and the connection is reused', async () => {
    const provider = await provide(exact())
    const { dispatch } = open(provider.baseUrl, { connections: 1 })
    const request = requestOf({ messages: [{ role: 'user', content: '\u00e4'.repeat(2_000_000) }] })
    const { heard, over } = send(dispatch, request)
    let turns = 0
    while (heard.end === null && turns < 10_000) {
      await new Promise(setImmediate)
      turns++
    }
    expect(await over).toMatchObject({ status: 200, end: 'complete' })
    expect(turns).toBeGreaterThan(request.body.length / (256 * 1024))
    const [arrived] = provider.requests
    expect(arrived!.raw.equals(request.body)).toBe(true)
    expect(arrived!.headers['content-length']).toBe(String(request.body.length))
    expect(arrived!.headers['transfer-encoding']).toBeUndefined()
    await send(dispatch).over
    expect(provider.connections).toBe(1)
  })

  test('with a long body can be aborted in the middle', async () => {
    const server = createServer(request => {
      request.resume()
      request.once('close', () => closed.resolve(request.complete))
    })
    const closed = Promise.withResolvers<boolean>()
    await once(server.listen(0, '127.0.0.1'), 'listening')
    closers.push(async () => server.close())
    const asked = once(server, 'request')
    const { dispatch } = open(`http://127.0.0.1:${(server.address() as AddressInfo).port}`)
    const { heard, state } = send(dispatch, requestOf({ messages: 'x'.repeat(32 * 1024 * 1024) }))
    await asked
    state.abort!()
    expect(await closed.promise).toBe(false)
    expect(heard.end).toBeNull()
  })

  test('without a path in the base URL has a single slash', async () => {
    const provider = await provide(exact())
    await send(open(provider.url).dispatch).over
    expect(provider.requests[0]!.path).toBe('/chat/completions')
  })

  test('that cannot be written fails without throwing', async () => {
    const provider = await provide(exact())
    const { dispatch } = open(provider.baseUrl)
    const { over, state } = send(dispatch, { ...requestOf(), headers: { 'x-bad': 'a\r\nb: c' } })
    const { end } = await over
    expect((end as Error).message).toMatch(/header/i)
    // Aborting it afterwards has no effect.
    state.abort?.()
    expect(provider.requests).toHaveLength(0)
  })

  test('never waits for another request on the same connection', async () => {
    const provider = await provide([gated(), gated(), whole()])
    const { dispatch } = open(provider.baseUrl, { connections: 2 })
    const streams = [send(dispatch, STREAM), send(dispatch, STREAM)]
    await provider.waitForRequest(1)
    const third = send(dispatch)
    // The third request waits for a connection and gets the first free one.
    expect(provider.requests).toHaveLength(2)
    provider.requests[1]!.release()
    expect(await third.over).toMatchObject({ end: 'complete' })
    expect(streams[0]!.heard.end).toBeNull()
    expect(provider.requests.map(({ connection }) => connection)).toEqual([0, 1, 1])
    provider.release()
    await Promise.all(streams.map(({ over }) => over))
  })

  test('that is aborted while it waits is never sent and frees its place in the queue', async () => {
    const provider = await provide([gated(), whole()])
    const { dispatch } = open(provider.baseUrl, { connections: 1 })
    const stream = send(dispatch, STREAM)
    await provider.waitForRequest(0)
    const given = Array.from({ length: 50 }, () => send(dispatch))
    const last = send(dispatch)
    for (const { state } of given) state.abort?.()
    provider.release()
    await stream.over
    expect(await last.over).toMatchObject({ end: 'complete' })
    expect(provider.requests).toHaveLength(2)
    for (const { heard } of given) expect(heard).toMatchObject({ status: null, end: null })
  })

  test('after close fails', async () => {
    const provider = await provide(gated())
    const { dispatch, close } = open(provider.baseUrl)
    const { heard, over } = send(dispatch, STREAM)
    await until(() => heard.status !== null)
    await close()
    expect((await over).end).toBeInstanceOf(Error)
    expect((await send(dispatch).over).end).toBeInstanceOf(Error)
  })
})

describe('an answer', () => {
  test.each([
    ['503 Busy', ['content-type', 'x-a', '__proto__', 'constructor', 'x-l', 'content-length']],
    ['200 OK', ['content-type', 'content-length']],
  ])('with status %s has its headers in lower case, repeated ones joined', async (status, names) => {
    const answers: Behaviour = {
      name: 'headers',
      async run(call) {
        await call.sendRaw(
          `HTTP/1.1 ${status}\r\nContent-Type: application/json\r\nX-A: 1\r\nx-a: 2\r\n__proto__: x\r\nConstructor: y\r\nX-L: \xe9\r\ncontent-length: 2\r\n\r\n{}`,
        )
      },
    }
    const provider = await provide(answers)
    const { headers } = await send(open(provider.baseUrl).dispatch).over
    expect(Object.keys(headers)).toEqual(names)
    if (names.includes('x-a')) expect(headers['x-a']).toBe('1, 2')
    if (names.includes('__proto__')) expect(Object.entries(headers)[2]).toEqual(['__proto__', 'x'])
    expect(({} as { x?: unknown }).x).toBeUndefined()
  })

  test('may follow a few informational ones, which are ignored', async () => {
    const hints = 'HTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\n'.repeat(100)
    const answers: Behaviour = {
      name: 'hints',
      async run(call) {
        await call.sendRaw(`${hints}HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}`)
      },
    }
    const provider = await provide(answers)
    const { over, state } = send(open(provider.baseUrl).dispatch)
    expect(await over).toMatchObject({ status: 200, text: '{}', end: 'complete' })
    expect(state.heads).toBe(1)
  })

  test('fails after more than a hundred of them', async () => {
    const endless: Behaviour = {
      name: 'endless hints',
      async run(call) {
        while (await call.sendRaw('HTTP/1.1 103 Early Hints\r\n\r\n'.repeat(1_000)));
      },
    }
    const provider = await provide(endless)
    const { end, status } = await send(open(provider.baseUrl).dispatch).over
    expect(status).toBeNull()
    expect(end).toMatchObject({ message: 'too many informational responses', code: 'UND_ERR_RESPONSE' })
    expect((await provider.waitForClose(provider.requests[0]!)).how).toMatch(/fin|reset/)
  })

  test('is not decoded: an encoded body stays encoded', async () => {
    const provider = await provide(whole({ headers: { 'content-encoding': 'gzip' } }))
    const { text } = await send(open(provider.baseUrl).dispatch).over
    expect(text).toBe(provider.requests[0]!.emitted.text)
  })

  test('is paused while it is not taken, and resumes when it is', async () => {
    const provider = await provide(stream({ tokens: 2_000, obeyCap: false }))
    let taken = 0
    const { over, heard, state } = send(open(provider.baseUrl).dispatch, STREAM, () => ++taken > 3)
    for (let piece = 1; piece <= 3; piece++) {
      await until(() => taken === piece)
      await new Promise(resolve => setTimeout(resolve, 20))
      expect(taken).toBe(piece)
      expect(heard.end).toBeNull()
      state.resume!()
    }
    expect(await over).toMatchObject({ end: 'complete' })
    expect(heard.text.match(/"content":" ?t\d+"/g)).toHaveLength(2_000)
  })
})
