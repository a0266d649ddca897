import { createServer, type Server, type Socket } from 'node:net'
import { afterEach, describe, expect, test } from 'vitest'
import type { UpstreamFailure } from '#contract'
import { type AttemptOptions, failureOfError, startAttempt } from '../../src/providers/attempt.ts'
import { openAiDialect } from '../../src/providers/dialects/openai/index.ts'
import type { AnswerHandler } from '../../src/providers/handler.ts'
import {
  createHttpTransport,
  type HttpTransport,
  type QueuedHandler,
  type Transport,
} from '../../src/providers/transport.ts'
import { countsOf } from '../helpers/counts.ts'
import {
  type Behaviour,
  errorAnswer,
  exact,
  FAULTS,
  type FakeProvider,
  gated,
  startFakeProvider,
  stream,
  UNREACHABLE,
  whole,
} from '../helpers/fake-provider.ts'
import { expectWithin } from '../helpers/promised.ts'
import { manualDeadlines, until } from '../request/answer/wire.ts'

const counts = countsOf('floods')

const closers: (() => Promise<unknown>)[] = []
afterEach(async () => {
  for (const close of closers.splice(0).reverse()) await close()
})

const { decodeError } = openAiDialect(() => 0)
const TIMEOUTS = { connectMs: 1_000, firstByteMs: 120_000, idleMs: 60_000, totalMs: 900_000 }

function openTransport(baseUrl: string, connections = 8): HttpTransport {
  const transport = createHttpTransport({ name: 'p', baseUrl, connections, connectMs: TIMEOUTS.connectMs })
  closers.push(() => transport.close())
  return transport
}

async function provide(script: Behaviour | Behaviour[]): Promise<FakeProvider> {
  const provider = await startFakeProvider({ script })
  closers.push(() => provider.close())
  return provider
}

interface CallbackRecord {
  text: string
  ends: number
  failures: UpstreamFailure[]
  heads: [status: number | null, code: string | null][]
}

/** Starts an attempt whose deadlines use the test's clock, and records every callback. */
function start(
  transport: Transport,
  options: Partial<AttemptOptions> & { body?: object; accept?: () => boolean } = {},
) {
  const deadlineClock = manualDeadlines()
  const heard: CallbackRecord = { text: '', ends: 0, failures: [], heads: [] }
  const { promise: over, resolve } = Promise.withResolvers<CallbackRecord>()
  const streamed = options.stream ?? true
  const body = { model: 'm', messages: [], stream: streamed, max_tokens: 16, ...options.body }
  const attempt = startAttempt({
    transport,
    request: {
      path: '/chat/completions',
      headers: { 'content-type': 'application/json' },
      body: Buffer.from(JSON.stringify(body)),
    },
    sink: {
      data(bytes) {
        heard.text += bytes.toString('latin1')
        return options.accept?.() ?? true
      },
      end() {
        heard.ends++
        resolve(heard)
      },
      fail(failure) {
        heard.failures.push(failure)
        resolve(heard)
      },
    },
    deadlineClock,
    timeouts: TIMEOUTS,
    stream: streamed,
    decodeError,
    onHead: (status, failure) => heard.heads.push([status, failure?.code ?? null]),
    ...options,
  })
  return { attempt, deadlineClock, heard, over }
}

/** Waits longer than a late event takes on loopback. */
const settle = () => new Promise(resolve => setTimeout(resolve, 30))

const ended = (heard: CallbackRecord) => heard.ends + heard.failures.length

describe('a provider that cannot be reached', () => {
  const CODES: Record<string, string> = { F02: 'upstream_timeout' }
  test.each(UNREACHABLE)('$id $title', async ({ id, open }) => {
    const unreachable = await open()
    closers.push(() => unreachable.close())
    const { heard, over, deadlineClock } = start(openTransport(unreachable.url).dispatch)
    await over
    const code = CODES[id] ?? 'upstream_unreachable'
    expect(heard).toMatchObject({ text: '', ends: 0, failures: [{ code }], heads: [[null, code]] })
    expect(deadlineClock.watched).toBe(0)
  })
})

describe('a provider that fails', () => {
  /** The failure code of each fault. `null`: the attempt succeeds, and a later layer finds the fault in the body. */
  const CODES: readonly (readonly [
    fault: string,
    whole: string | null,
    stream: string | null,
    status: number | null,
  ])[] = [
    ['F05 reset before the head', 'upstream_unreachable', 'upstream_unreachable', null],
    ['F06 closed before the head', 'upstream_unreachable', 'upstream_unreachable', null],
    ['F09 reset in the middle', 'upstream_truncated', 'upstream_truncated', 200],
    ['F10 closed in the middle', 'upstream_truncated', 'upstream_truncated', 200],
    ['F14 shorter than its content-length', 'upstream_truncated', 'upstream_truncated', 200],
    ['F17 200 with a page', 'upstream_invalid', 'upstream_invalid', 200],
    ['F19 429 with Retry-After: 20', 'upstream_rate_limited', 'upstream_rate_limited', 429],
    ['F20 500 with JSON', 'upstream_error', 'upstream_error', 500],
    ['F20 503 with a page', 'upstream_overloaded', 'upstream_overloaded', 503],
    ['F20 529 with nothing', 'upstream_overloaded', 'upstream_overloaded', 529],
    ['F21 301 to another host', 'upstream_error', 'upstream_error', 301],
    ['F21 302 to another host', 'upstream_error', 'upstream_error', 302],
    ['F21 307 to another host', 'upstream_error', 'upstream_error', 307],
    ['F21 308 to another host', 'upstream_error', 'upstream_error', 308],
    ['F22 a gzip bomb', 'upstream_invalid', 'upstream_invalid', 200],
    ['F22 an unknown encoding', 'upstream_invalid', 'upstream_invalid', 200],
    ['F22 a thousand encodings', 'upstream_invalid', 'upstream_invalid', 200],
    ['F23 1 MiB of headers', 'upstream_invalid', 'upstream_invalid', null],
    ['F23 a line feed in a header', 'upstream_invalid', 'upstream_invalid', null],
    ['F23 a carriage return in a header', 'upstream_invalid', 'upstream_invalid', null],
    ['F23 status 999', 'upstream_error', 'upstream_error', 999],
    ['F23 10,000 early hints', 'upstream_invalid', 'upstream_invalid', null],
    ['F27 200 with nothing', null, null, 200],
    ['F27 204', null, null, 204],
    ['F30 a byte order mark', null, null, 200],
  ]

  for (const mode of ['whole', 'stream'] as const) {
    test.each(CODES)(`%s (${mode})`, async (name, wholeCode, streamCode, status) => {
      const fault = FAULTS.find(({ id, title }) => `${id} ${title}` === name)
      const provider = await provide(fault!.make(mode))
      const { heard, over, deadlineClock } = start(openTransport(provider.baseUrl).dispatch, {
        stream: mode === 'stream',
      })
      await over
      const code = mode === 'whole' ? wholeCode : streamCode
      expect(heard.failures.map(failure => failure.code)).toEqual(code === null ? [] : [code])
      expect(heard.ends).toBe(code === null ? 1 : 0)
      // For a failure inside the body, `onHead` reports success: the receipt's line is written when the head arrives.
      expect(heard.heads).toEqual([[status, code === 'upstream_truncated' ? null : code]])
      expect(deadlineClock.watched).toBe(0)
      // Redirects are not followed and nothing is retried.
      expect(provider.requests).toHaveLength(1)
    })
  }

  test.each([
    [500, 'upstream_error'],
    [429, 'upstream_rate_limited'],
    [401, 'upstream_auth'],
    [503, 'upstream_overloaded'],
  ])('status %i has its own code even if its body is encoded', async (status, code) => {
    const provider = await provide(errorAnswer(status, 'xx', { 'content-encoding': 'br', 'retry-after': '7' }))
    const { heard, over } = start(openTransport(provider.baseUrl).dispatch)
    await over
    expect(heard).toMatchObject({ failures: [{ code }], heads: [[status, code]] })
    if (status === 429) expect(heard.failures[0]!.retryAfterMs).toBe(7_000)
  })

  test.each(['identity', 'Identity', ''])('content-encoding %j counts as unencoded', async encoding => {
    const provider = await provide(exact({ headers: { 'content-encoding': encoding } }))
    const { heard, over } = start(openTransport(provider.baseUrl).dispatch)
    await over
    expect(heard).toMatchObject({ ends: 1, failures: [] })
  })

  test('the message of an error whose body breaks off is still read', async () => {
    const text = JSON.stringify({ error: { message: 'Not like that.', type: 'invalid_request_error' } })
    const breaks: Behaviour = {
      name: 'an error that breaks off',
      async run(call) {
        call.head(400, { 'content-type': 'application/json', 'content-length': String(text.length + 10) })
        await call.write(text)
        call.reset()
      },
    }
    const provider = await provide(breaks)
    const { heard, over } = start(openTransport(provider.baseUrl).dispatch)
    await over
    expect(heard.failures).toEqual([expect.objectContaining({ code: 'upstream_rejected', message: 'Not like that.' })])
    expect(heard.heads).toEqual([[400, 'upstream_rejected']])
  })

  test('an endless error is cut after 64 KiB', async () => {
    const endless: Behaviour = {
      name: 'an endless error',
      async run(call) {
        call.head(400, { 'content-type': 'application/json' })
        while (await call.write('x'.repeat(10_000)));
      },
    }
    const provider = await provide(endless)
    const { heard, over } = start(openTransport(provider.baseUrl).dispatch)
    await over
    expect(heard.failures).toEqual([expect.objectContaining({ code: 'upstream_rejected' })])
    await provider.waitForClose(provider.requests[0]!)
    expect(provider.requests[0]!.emitted.bytes).toBeLessThan(4_000_000)
  })
})

describe('deadlines', () => {
  /** A server that sends these pieces, one by one, and then stays silent. */
  async function silent(...pieces: string[]): Promise<string> {
    const sockets = new Set<Socket>()
    const server: Server = createServer(socket => {
      sockets.add(socket)
      socket.on('error', () => {})
      socket.once('data', () => socket.write(pieces.join('')))
    })
    await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
    closers.push(async () => {
      for (const socket of sockets) socket.destroy()
      await new Promise(resolve => server.close(resolve))
    })
    return `http://127.0.0.1:${(server.address() as { port: number }).port}`
  }
  const HEAD = 'HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n'
  const BAD_HEAD = HEAD.replace('200 OK', '500 No')
  const PIECE = '9\r\ndata: x\n\n\r\n'

  test.each<[name: string, streamed: boolean, pieces: string[], ms: number, detail: string]>([
    ['no head', true, [], 120_000, 'no answer within 120000 ms'],
    ['no head', false, [], 120_000, 'no answer within 120000 ms'],
    ['a head without a first byte, of a stream', true, [HEAD], 120_000, 'no answer within 120000 ms'],
    ['a head without a first byte, of a whole answer', false, [HEAD], 60_000, 'no data for 60000 ms'],
    ['silence in the middle', true, [HEAD, PIECE], 60_000, 'no data for 60000 ms'],
    ['silence in the middle', false, [HEAD, PIECE], 60_000, 'no data for 60000 ms'],
    ['silence in an error', true, [BAD_HEAD, PIECE], 60_000, 'no data for 60000 ms'],
    [
      'early hints and no head',
      true,
      ['HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n'.repeat(50)],
      120_000,
      'no answer within 120000 ms',
    ],
  ])('%s (stream: %s) is a timeout', async (_name, streamed, pieces, ms, detail) => {
    const url = await silent(...pieces)
    const { dispatch } = openTransport(url)
    let received = 0
    // Counts the bytes of an error on arrival, because the attempt does not forward them.
    const counting: Transport = (request, handler) => {
      const onData = handler.onData.bind(handler)
      handler.onData = bytes => {
        received++
        return onData(bytes)
      }
      dispatch(request, handler)
    }
    const { heard, deadlineClock } = start(counting, { stream: streamed })
    const expected = pieces.join('')
    await until(() => !expected.includes('200') || heard.heads.length === 1)
    await until(() => !expected.includes(PIECE) || received > 0)
    deadlineClock.advance(ms)
    expect(ended(heard)).toBe(0)
    deadlineClock.advance(1)
    expect(heard.failures).toEqual([{ code: 'upstream_timeout', detail }])
    expect(heard.heads).toHaveLength(1)
    expect(deadlineClock.watched).toBe(0)
    deadlineClock.advance(1_000_000)
    expect(ended(heard)).toBe(1)
  })

  test('each byte restarts the idle time of a stream, but not its total time', async () => {
    const provider = await provide(gated({ tokens: 100 }))
    const { heard, deadlineClock } = start(openTransport(provider.baseUrl).dispatch)
    await provider.waitForRequest()
    let elapsed = 0
    while (ended(heard) === 0) {
      const before = heard.text.length
      await provider.step()
      await until(() => heard.text.length > before)
      deadlineClock.advance(59_000)
      elapsed += 59_000
    }
    expect(heard.failures).toEqual([
      { code: 'upstream_timeout', detail: 'the whole answer took longer than 900000 ms' },
    ])
    expect(elapsed).toBeGreaterThan(900_000)
    expect(elapsed).toBeLessThan(960_000)
    expect((await provider.waitForClose(provider.requests[0]!)).how).toMatch(/fin|reset/)
  })

  test('the idle time stops while the client is blocked', async () => {
    const provider = await provide(stream({ tokens: 50 }))
    let accepts = false
    const { heard, deadlineClock, attempt, over } = start(openTransport(provider.baseUrl).dispatch, {
      accept: () => accepts,
    })
    await until(() => heard.text !== '')
    const before = heard.text
    deadlineClock.advance(600_000)
    expect(ended(heard)).toBe(0)
    expect(heard.text).toBe(before)
    accepts = true
    attempt.resume()
    // The idle time starts again.
    deadlineClock.advance(59_999)
    await over
    expect(heard).toMatchObject({ ends: 1, failures: [] })
    expect(heard.text).toContain('[DONE]')
  })

  test('the idle time restarts when the client resumes, even if nothing arrived meanwhile', async () => {
    const provider = await provide(gated())
    const { heard, deadlineClock, attempt } = start(openTransport(provider.baseUrl).dispatch, { accept: () => false })
    await provider.step()
    await until(() => heard.text !== '')
    deadlineClock.advance(600_000)
    attempt.resume()
    deadlineClock.advance(60_000)
    expect(ended(heard)).toBe(0)
    deadlineClock.advance(1)
    expect(heard.failures).toEqual([{ code: 'upstream_timeout', detail: 'no data for 60000 ms' }])
  })

  test('the total time limit still applies', async () => {
    const provider = await provide(stream({ tokens: 50 }))
    const { heard, deadlineClock } = start(openTransport(provider.baseUrl).dispatch, { accept: () => false })
    await until(() => heard.text !== '')
    deadlineClock.advance(900_001)
    expect(heard.failures).toMatchObject([{ code: 'upstream_timeout' }])
    expect((await provider.waitForClose(provider.requests[0]!)).how).toMatch(/fin|reset/)
  })
})

describe('a slow client', () => {
  test('slows the provider down and still gets everything', async () => {
    const tokens = Array.from({ length: 3_000 }, (_, i) => `${i} ${'x'.repeat(10_000)}`)
    const provider = await provide(stream({ tokens, obeyCap: false }))
    let accepts = false
    const { heard, attempt, over } = start(openTransport(provider.baseUrl).dispatch, { accept: () => accepts })
    await until(() => heard.text !== '')
    // Wait until the kernel's buffers are full and the provider stops.
    const emitted = () => provider.requests[0]!.emitted.bytes
    for (let before = -1; before !== emitted(); ) {
      before = emitted()
      await new Promise(resolve => setTimeout(resolve, 50))
    }
    const held = heard.text.length
    expect(held).toBeLessThan(200_000)
    expect(emitted()).toBeLessThan(20_000_000)
    attempt.resume()
    await until(() => heard.text.length > held)
    accepts = true
    attempt.resume()
    await over
    expect(heard).toMatchObject({ ends: 1, failures: [] })
    expect(heard.text.match(/"content":"\d+ x/g)).toHaveLength(3_000)
  })

  test('resuming an attempt that is not paused does nothing', async () => {
    const provider = await provide(stream())
    const { heard, attempt, over } = start(openTransport(provider.baseUrl).dispatch)
    attempt.resume()
    await over
    attempt.resume()
    expect(heard).toMatchObject({ ends: 1, failures: [] })
  })
})

describe('an attempt that is aborted', () => {
  test('at once: no request is sent', async () => {
    const provider = await provide(exact())
    const { attempt, heard, deadlineClock } = start(openTransport(provider.baseUrl).dispatch)
    attempt.abort()
    expect(deadlineClock.watched).toBe(0)
    await settle()
    expect(heard).toEqual({ text: '', ends: 0, failures: [], heads: [] })
    expect(provider.requests).toHaveLength(0)
  })

  test('while it waits for a connection: no request is sent', async () => {
    const provider = await provide(gated())
    const transport = openTransport(provider.baseUrl, 1)
    const first = start(transport.dispatch)
    await provider.waitForRequest()
    const second = start(transport.dispatch)
    const third = start(transport.dispatch)
    second.attempt.abort()
    provider.release()
    expect(await third.over).toMatchObject({ ends: 1 })
    expect(await first.over).toMatchObject({ ends: 1 })
    expect(provider.requests).toHaveLength(2)
    expect(ended(second.heard)).toBe(0)
  })

  test.each<[name: string, steps: number]>([
    ['before the head', -1],
    ['after the head', 0],
    ['in the middle', 3],
  ])('%s: the connection is closed and no callback follows', async (_name, steps) => {
    const before: Behaviour = { name: 'silence', run: call => call.closed }
    const provider = await provide(steps < 0 ? before : gated({ tokens: 10 }))
    const { attempt, heard, deadlineClock } = start(openTransport(provider.baseUrl).dispatch)
    const request = await provider.waitForRequest()
    if (steps >= 0) {
      await until(() => heard.heads.length === 1)
      for (let step = 0; step < steps; step++) {
        const size = heard.text.length
        await request.step()
        await until(() => heard.text.length > size)
      }
    }
    const recorded = { ...heard, heads: [...heard.heads] }
    const abortedAt = performance.now()
    attempt.abort()
    const { how, at } = await provider.waitForClose(request)
    expect(how).toMatch(/fin|reset/)
    // The limit is a second; on loopback the close takes a few milliseconds.
    expectWithin(at - abortedAt, 1_000)
    await settle()
    expect(heard).toEqual(recorded)
    expect(deadlineClock.watched).toBe(0)
    attempt.abort()
    attempt.resume()
  })

  test('from inside onData: no second piece, no end', async () => {
    const provider = await provide(stream({ tokens: 200 }))
    const { promise, resolve } = Promise.withResolvers<void>()
    const running: ReturnType<typeof start> = start(openTransport(provider.baseUrl).dispatch, {
      accept: () => {
        running.attempt.abort()
        resolve()
        return true
      },
    })
    await promise
    const { text } = running.heard
    await settle()
    expect(running.heard).toMatchObject({ text, ends: 0, failures: [] })
  })

  test('while it is paused: the connection is closed', async () => {
    const provider = await provide(stream({ tokens: Array(3_000).fill('x'.repeat(10_000)), obeyCap: false }))
    const transport = openTransport(provider.baseUrl, 1)
    const { attempt, heard } = start(transport.dispatch, { accept: () => false })
    await until(() => heard.text !== '')
    attempt.abort()
    expect((await provider.waitForClose(provider.requests[0]!)).how).toMatch(/fin|reset/)
    provider.script(exact())
    expect(await start(transport.dispatch).over).toMatchObject({ ends: 1 })
  })

  test('after its end: the connection is kept', async () => {
    const provider = await provide(exact())
    const transport = openTransport(provider.baseUrl)
    for (let i = 0; i < 5; i++) {
      const { attempt, over } = start(transport.dispatch)
      await over
      attempt.abort()
      await settle()
    }
    expect(provider.connections).toBe(1)
  })
})

// In a prototype, 290 disconnected clients blocked all of 64 connections for ever. Their requests still waited for a connection
// and could not be aborted. They were sent anyway, were paused by the closed response, and were never resumed.
test('300 abandoned streams on 64 connections do not slow down the requests of the next second', async () => {
  const provider = await provide(stream({ tokens: 1_000, obeyCap: false }))
  const { dispatch } = openTransport(provider.baseUrl, 64)
  const abandoned = Array.from({ length: 300 }, () => start(dispatch, { accept: () => false }))
  await until(() => abandoned.filter(({ heard }) => heard.text !== '').length === 64)
  for (const { attempt } of abandoned) attempt.abort()
  const received = abandoned.map(({ heard }) => heard.text.length)
  provider.script(whole())
  for (let second = 1; second <= 5; second++) {
    const startedAt = performance.now()
    const answers = Array.from({ length: counts(100, 1_000) }, () => start(dispatch, { stream: false }).over)
    for (const heard of await Promise.all(answers)) expect(heard).toMatchObject({ ends: 1, failures: [] })
    expectWithin(performance.now() - startedAt, 1_000 * counts(1, 5), `round ${second}`)
  }
  // Waiting requests were never sent, and paused ones get no more data.
  expect(provider.requests.filter(({ body }) => body?.['stream'] === true)).toHaveLength(64)
  expect(provider.openConnections).toBeLessThanOrEqual(64)
  expect(abandoned.map(({ heard }) => heard.text.length)).toEqual(received)
  expect(abandoned.filter(({ heard }) => ended(heard) > 0)).toEqual([])
})

describe('a good answer', () => {
  test.each([true, false])('arrives unchanged (stream: %s)', async streamed => {
    const provider = await provide(exact({ tokens: ['na\u00efve ', '\u{1f600}'] }))
    const { heard, over } = start(openTransport(provider.baseUrl).dispatch, { stream: streamed })
    await over
    const { emitted } = provider.requests[0]!
    expect(Buffer.from(heard.text, 'latin1').toString()).toBe(emitted.text)
    expect(heard).toMatchObject({ ends: 1, failures: [], heads: [[200, null]] })
  })

  test('the head is reported as soon as it arrives', async () => {
    const provider = await provide(gated())
    const { heard, attempt } = start(openTransport(provider.baseUrl).dispatch)
    await until(() => heard.heads.length > 0)
    expect(heard).toEqual({ text: '', ends: 0, failures: [], heads: [[200, null]] })
    attempt.abort()
  })

  test('an error that was read completely keeps its connection open', async () => {
    const provider = await provide([errorAnswer(429), errorAnswer(500), whole()])
    const transport = openTransport(provider.baseUrl)
    for (let i = 0; i < 3; i++) {
      await start(transport.dispatch, { stream: false }).over
      await settle()
    }
    expect(provider.requests).toHaveLength(3)
    expect(provider.connections).toBe(1)
  })
})

describe('misbehaving transports', () => {
  /** A transport that the test controls. */
  function byHand() {
    let handler!: AnswerHandler
    let aborts = 0
    let resumes = 0
    const running = start((_request, given) => {
      handler = given
    })
    return {
      ...running,
      handler: () => handler,
      connect: () => handler.onConnect(() => aborts++),
      head: (status = 200, headers: Record<string, string> = {}) => handler.onHeaders(status, headers, () => resumes++),
      counts: () => ({ aborts, resumes }),
    }
  }

  test('a transport that fails before it has connected: the failure is reported', () => {
    const { handler, heard } = byHand()
    handler().onError(Object.assign(new Error('bad header'), { code: 'UND_ERR_INVALID_ARG' }))
    expect(heard).toMatchObject({
      failures: [{ code: 'upstream_unreachable' }],
      heads: [[null, 'upstream_unreachable']],
    })
  })

  test('an attempt is billable from the moment it was sent until an error status arrives', () => {
    const queue = byHand()
    const handler = queue.handler() as QueuedHandler
    handler.onConnect(() => {})
    handler.onQueued!()
    handler.onTurn!()
    expect(queue.attempt.isBillable).toBe(false)
    handler.onSent!()
    expect(queue.attempt.isBillable).toBe(true)
    queue.head(200)
    expect(queue.attempt.isBillable).toBe(true)
    const bad = byHand()
    bad.connect()
    expect(bad.attempt.isBillable).toBe(true)
    bad.head(500)
    expect(bad.attempt.isBillable).toBe(false)
  })

  test('callbacks after the end are ignored', () => {
    const { handler, connect, head, heard } = byHand()
    connect()
    head()
    handler().onComplete()
    handler().onComplete()
    handler().onError(new Error('late'))
    expect(handler().onData(Buffer.from('x'))).toBe(true)
    head(500)
    expect(heard).toEqual({ text: '', ends: 1, failures: [], heads: [[200, null]] })
  })

  test('a transport that connects after the abort is aborted', () => {
    const { attempt, connect, head, handler, heard, counts } = byHand()
    attempt.abort()
    connect()
    expect(counts().aborts).toBe(1)
    head()
    handler().onComplete()
    expect(heard).toEqual({ text: '', ends: 0, failures: [], heads: [] })
  })

  test('an attempt that is not paused does not resume its transport', () => {
    const { attempt, connect, head, counts } = byHand()
    connect()
    head()
    attempt.resume()
    expect(counts().resumes).toBe(0)
  })

  test.each([
    [200, 'TEXT/HTML; charset=utf-8', 'upstream_invalid'],
    [200, 'text/plain', null],
    [200, undefined, null],
    [201, 'application/json', null],
    [304, undefined, 'upstream_error'],
    [101, undefined, 'upstream_invalid'],
    [999, undefined, 'upstream_error'],
    [0, undefined, 'upstream_invalid'],
  ])('status %i with %s: %s', (status, type, code) => {
    const { connect, head, handler, heard, counts } = byHand()
    connect()
    head(status, type === undefined ? {} : { 'content-type': type })
    if (heard.failures.length === 0) handler().onComplete()
    expect(heard.failures.map(failure => failure.code)).toEqual(code === null ? [] : [code])
    if (code !== null && status < 400) expect(counts().aborts).toBe(1)
  })
})

describe('an error of the transport', () => {
  const error = (code: string | undefined, message = 'at 10.0.0.7') =>
    Object.assign(new Error(message), code ? { code } : {})
  test.each<[code: string | undefined, before: string, behind: string]>([
    ['ECONNREFUSED', 'upstream_unreachable', 'upstream_truncated'],
    ['ECONNRESET', 'upstream_unreachable', 'upstream_truncated'],
    ['ENOTFOUND', 'upstream_unreachable', 'upstream_truncated'],
    ['UND_ERR_SOCKET', 'upstream_unreachable', 'upstream_truncated'],
    ['UND_ERR_DESTROYED', 'upstream_unreachable', 'upstream_truncated'],
    ['UND_ERR_CONNECT_TIMEOUT', 'upstream_timeout', 'upstream_timeout'],
    ['ETIMEDOUT', 'upstream_timeout', 'upstream_timeout'],
    ['HPE_INVALID_CONSTANT', 'upstream_invalid', 'upstream_invalid'],
    ['UND_ERR_HEADERS_OVERFLOW', 'upstream_invalid', 'upstream_invalid'],
    ['UND_ERR_RESPONSE', 'upstream_invalid', 'upstream_invalid'],
    [undefined, 'upstream_unreachable', 'upstream_truncated'],
  ])('%s is %s before the head and %s after it', (code, before, behind) => {
    expect(failureOfError(error(code), false).code).toBe(before)
    expect(failureOfError(error(code), true).code).toBe(behind)
  })

  test('its message goes to the log only', () => {
    expect(failureOfError(error('ECONNRESET'), false)).toEqual({
      code: 'upstream_unreachable',
      detail: 'ECONNRESET: at 10.0.0.7',
    })
  })
})
